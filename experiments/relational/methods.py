"""Every method: a function from a split to the log-odds of its queries.

    logicmp             inference without a model                                           inference.py
    logicmp+lessons     1 or 3 rounds of inference, each on the output of the one before
    logicmp+weights     weights learned on the other splits                                 weights.py
    logicmp+embedding   a vector per constant, distilled from LogicMP                       models.py
    logicmp+gnn         a graph neural network, distilled from LogicMP
    weights+embedding   the same models, distilled from LogicMP with weights learned on the other splits
    weights+gnn
    gs                  the graph neural network, trained on sampled groundings
    expressgnn          the graph neural network, trained on the facts only
    gibbs, bp, ...      the classical methods of `infer`, under a time limit                inference.py

Grids are searched on the other splits (`settings.py`); README.md lists the settings chosen by hand.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from logicmp import LogicMPError

from .data import Split
from .encoders import Embedding, Graph
from .inference import classical, last_round, run_logicmp
from .models import distilled, run_expressgnn, run_gs
from .training import Context
from .weights import learned, run_weights

CLASSICAL = ("gibbs", "mc-sat", "bp", "lifted-bp", "hl-mrf")
METHODS: dict[str, Callable[[Split, Context], Tensor]] = {
    "logicmp": run_logicmp,
    "logicmp+lessons": run_logicmp,
    "logicmp+weights": run_weights,
    "logicmp+embedding": distilled(Embedding, last_round),
    "logicmp+gnn": distilled(Graph, last_round),
    "weights+embedding": distilled(Embedding, learned),
    "weights+gnn": distilled(Graph, learned),
    "gs": run_gs,
    "expressgnn": run_expressgnn,
    **{name: classical(name) for name in CLASSICAL},
}
# those whose layer can have another schedule
SCHEDULED = ("logicmp", "logicmp+lessons", "logicmp+weights")
# methods that ignore the seed
DETERMINISTIC = ("logicmp", "logicmp+lessons", "logicmp+weights", "bp", "lifted-bp", "hl-mrf")


def run_method(name: str, split: Split, context: Context) -> Tensor:
    if name not in METHODS:
        raise LogicMPError(f"unknown method {name!r}", f"methods: {', '.join(METHODS)}")
    return METHODS[name](split, context)
