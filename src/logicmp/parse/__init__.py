"""Text to a checked theory.  Stage: text -> **parse** -> normalize."""

from .facts import Evidence, load_facts, parse_facts
from .files import load_theory, parse_theory
from .theory import Argument, Predicate, Rule, Theory, Type

__all__ = [
    "Argument", "Evidence", "Predicate", "Rule", "Theory", "Type",
    "load_facts", "load_theory", "parse_facts", "parse_theory",
]
