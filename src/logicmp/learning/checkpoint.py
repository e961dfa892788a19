"""Save and resume training: the weights, and what they belong to, in one safetensors file.

Room: databases -> **checkpoint** -> minimize.

    iteration 12, its weights, the best weights so far      and the rules, options and data they belong to

No pickle; the file is written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import LogicMPError
from ..files import load_tensors, save_tensors
from .databases import Database

_HINT = "give another file name, or delete the file to start over"


@dataclass
class TrainingState:
    """All that changes during training."""

    vector: Tensor
    best: Tensor
    iteration: int = 0
    best_iteration: int = 0
    # the loss of `best` on the held-out databases, if there are any
    best_loss: float = float("inf")


def fingerprint(databases: Sequence[Database]) -> str:
    """A hash of the constants and the atoms of all databases.

    >>> fingerprint([])[:8]
    'e3b0c442'
    """
    found = hashlib.sha256()
    for database in databases:
        found.update(json.dumps([[t.name, list(t.constants)] for t in database.world.theory.types]).encode())
        for values in database.world.values.values():
            found.update(str(values.shape).encode() + values.tobytes())
    return found.hexdigest()


def save_checkpoint(path: Path, state: TrainingState, belongs_to: Mapping[str, Any]) -> None:
    """Write a checkpoint, whole or not at all."""
    numbers = {"iteration": state.iteration, "best_iteration": state.best_iteration,
               "best_loss": state.best_loss}
    # clones, because safetensors rejects tensors that share memory
    save_tensors(path, {"vector": state.vector.detach().clone(), "best": state.best.detach().clone()},
                 {"standing": json.dumps(numbers), "belongs_to": json.dumps(belongs_to)}, "a checkpoint")


def load_checkpoint(path: Path, belongs_to: Mapping[str, Any]) -> TrainingState:
    """Read a checkpoint; reject one that was made with other rules, options or data."""
    tensors, metadata = load_tensors(path, "a checkpoint", _HINT)
    try:
        found, numbers = json.loads(metadata["belongs_to"]), json.loads(metadata["standing"])
        state = TrainingState(tensors["vector"], tensors["best"], **numbers)
    except (KeyError, TypeError, ValueError) as cause:
        raise LogicMPError(f"{str(path)!r} is not a checkpoint of `learn`: {cause}", _HINT) from None
    for what, value in belongs_to.items():
        if found.get(what) != value:
            shown = f"other {what}" if what in ("rules", "databases") else f"{what}={found.get(what)!r}, not {value!r}"
            raise LogicMPError(f"the checkpoint {str(path)!r} was written with {shown}", _HINT)
    return state
