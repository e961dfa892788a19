"""A run that can be taken up again: where it stands, and what it belongs to, in one safetensors file.

Stage: **learn**.  No pickle; written whole or not at all.

    iteration 12, its weights, the best weights so far        and the rules, the options and the data they belong to
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
from ..files import write_whole
from .databases import Database

_HINT = "give another file name, or take the file away to start anew"


@dataclass
class Standing:
    """Where a run stands; only this changes while it goes on."""

    vector: Tensor
    best: Tensor
    iteration: int = 0
    best_iteration: int = 0
    # the loss on held-out databases at `best`, if there are some
    best_loss: float = float("inf")


def fingerprint(databases: Sequence[Database]) -> str:
    """A short text that is the same only for the same constants and the same atoms.

    >>> fingerprint([])[:8]
    'e3b0c442'
    """
    found = hashlib.sha256()
    for database in databases:
        found.update(json.dumps([[t.name, t.constants] for t in database.world.theory.types]).encode())
        for values in database.world.values.values():
            found.update(str(values.shape).encode() + values.tobytes())
    return found.hexdigest()


def save_checkpoint(path: Path, standing: Standing, belongs_to: Mapping[str, Any]) -> None:
    from safetensors.torch import save

    numbers = {"iteration": standing.iteration, "best_iteration": standing.best_iteration,
               "best_loss": standing.best_loss}
    write_whole(path, save({"vector": standing.vector.detach().clone(), "best": standing.best.detach().clone()},
                           {"standing": json.dumps(numbers), "belongs_to": json.dumps(belongs_to)}), "a checkpoint")


def load_checkpoint(path: Path, belongs_to: Mapping[str, Any]) -> Standing:
    """Read a checkpoint; that of other rules, options or data is refused."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "pt") as file:
            metadata = file.metadata() or {}
            found, numbers = json.loads(metadata["belongs_to"]), json.loads(metadata["standing"])
            standing = Standing(file.get_tensor("vector"), file.get_tensor("best"), **numbers)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as cause:
        raise LogicMPError(f"{str(path)!r} is not a checkpoint of learning: {cause}", _HINT) from None
    for what, value in belongs_to.items():
        if found.get(what) != value:
            shown = "" if what in ("rules", "databases") else f": {found.get(what)!r}, not {value!r}"
            raise LogicMPError(f"the checkpoint {str(path)!r} was made with another choice of {what}{shown}", _HINT)
    return standing
