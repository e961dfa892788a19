"""Theory and evidence to a ground network: what the propositional methods work on."""

from .build import MAX_GROUNDINGS, build_network
from .network import HARD, Network
from .world import UNKNOWN, WORLDS, World, build_world

__all__ = ["HARD", "MAX_GROUNDINGS", "UNKNOWN", "WORLDS", "Network", "World", "build_network", "build_world"]
