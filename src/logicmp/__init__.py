"""LogicMP: first-order logic rules as a PyTorch layer and a command line.

    from logicmp import LogicMP
    layer = LogicMP("2 C(a,b) ^ C(b,c) => C(a,c)")
    logits = layer(logits)

Importing the package does not import torch; the layer does.
"""

from typing import TYPE_CHECKING, Any

from .errors import CostError, LogicMPError, RuleError
from .normalize import normalize
from .parse import Evidence, Theory, load_facts, load_theory, parse_facts, parse_theory
from .plan import build_plan

if TYPE_CHECKING:
    from .infer import Marginals, infer
    from .layer import LogicMP
    from .learn import Learned, learn

__version__ = "0.1.0"
__all__ = [
    "CostError", "Evidence", "Learned", "LogicMP", "LogicMPError", "Marginals", "RuleError", "Theory",
    "build_plan", "infer", "learn", "load_facts", "load_theory", "normalize", "parse_facts", "parse_theory",
]


# these need torch, and nothing else here does
_LATER = {"LogicMP": ".layer", "Marginals": ".infer", "infer": ".infer", "Learned": ".learn",
          "learn": ".learn"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'logicmp' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name], "logicmp"), name)
