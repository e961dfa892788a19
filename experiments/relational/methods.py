"""Every row of the table: a function from a split to the log-odds of its queries.

    logicmp             inference alone                                                     inference.py
    logicmp+lessons     the same, going on from its own output: what a network that learns all of it would say
    logicmp+weights     weights learned on the other splits                                 weights.py
    logicmp+embedding   a vector per constant, taught by LogicMP's output                   networks.py
    logicmp+gnn         a graph network, taught the same way
    gs                  the graph network trained on sampled groundings
    expressgnn          the graph network fitted to the facts alone
    gibbs, bp, ...      the classical methods of `infer`, under a time limit                inference.py

What a grid varies is chosen on the other splits (`settings.py`); README.md says what was set by hand.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from logicmp import LogicMPError

from .data import Split
from .encoders import Embedding, Graph
from .inference import classical, run_logicmp
from .networks import distilled, run_expressgnn, run_gs
from .training import Context
from .weights import run_weights

CLASSICAL = ("gibbs", "mc-sat", "bp", "lifted-bp", "hl-mrf")
METHODS: dict[str, Callable[[Split, Context], Tensor]] = {
    "logicmp": run_logicmp,
    "logicmp+lessons": run_logicmp,
    "logicmp+weights": run_weights,
    "logicmp+embedding": distilled(Embedding),
    "logicmp+gnn": distilled(Graph),
    "gs": run_gs,
    "expressgnn": run_expressgnn,
    **{name: classical(name) for name in CLASSICAL},
}
# the same whatever the seed
DETERMINISTIC = ("logicmp", "logicmp+lessons", "logicmp+weights", "bp", "lifted-bp", "hl-mrf")


def run_method(name: str, split: Split, context: Context) -> Tensor:
    if name not in METHODS:
        raise LogicMPError(f"unknown method {name!r}", f"methods: {', '.join(METHODS)}")
    return METHODS[name](split, context)
