"""LogicMP: first-order logic rules as a PyTorch layer and a command line.

    from logicmp import LogicMP
    layer = LogicMP("2 C(a,b) ^ C(b,c) => C(a,c)")
    logits = layer(logits)

Importing the package does not import torch; the layer does.
"""

from typing import TYPE_CHECKING, Any

from .errors import CostError, LogicMPError, RuleError
from .normalize import normalize
from .parse import Facts, Theory, load_facts, load_theory, parse_facts, parse_theory
from .plan import build_plan

if TYPE_CHECKING:
    from .layer import LogicMP

__version__ = "0.1.0"
__all__ = [
    "CostError", "Facts", "LogicMP", "LogicMPError", "RuleError", "Theory",
    "build_plan", "load_facts", "load_theory", "normalize", "parse_facts", "parse_theory",
]


def __getattr__(name: str) -> Any:
    # the layer needs torch, and nothing else here does
    if name == "LogicMP":
        from .layer import LogicMP

        return LogicMP
    raise AttributeError(f"module 'logicmp' has no attribute {name!r}")
