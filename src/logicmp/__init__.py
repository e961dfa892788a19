"""LogicMP: first-order logic rules as a PyTorch layer and a command line.

    from logicmp import LogicMP
    layer = LogicMP("2 C(a,b) ^ C(b,c) => C(a,c)")
    logits = layer(logits)

Every name below is imported when you first use it: `import logicmp` imports neither torch nor numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .constrain.compile import compile_rules
    from .constrain.decoding import Decoded, decode
    from .constrain.distillation import LogicDist, distill
    from .constrain.losses import SPL, SemanticLoss, SLrelax
    from .constrain.records import resolve
    from .errors import CostError, LogicMPError, RuleError
    from .estimator import RuleCorrector
    from .execute.schedule import Schedule
    from .facts.columns import Evidence
    from .facts.db import load_facts, parse_facts
    from .inference.answers import Marginals
    from .inference.run import infer
    from .layer import LogicMP
    from .learning.learned import Learned
    from .learning.train import learn
    from .normalize.build import normalize_theory
    from .parse.load import load_theory, parse_theory
    from .parse.theory import Theory
    from .plan.build import build_plan
    from .plan.steps import Plan

__version__ = "0.2.0"
__all__ = [
    "SPL", "CostError", "Decoded", "Evidence", "Learned", "LogicDist", "LogicMP", "LogicMPError", "Marginals", "Plan",
    "RuleCorrector", "RuleError", "SLrelax", "Schedule", "SemanticLoss", "Theory", "build_plan", "compile_rules",
    "decode", "distill", "infer", "learn", "load_facts", "load_theory", "normalize_theory", "parse_facts",
    "parse_theory", "resolve",
]

_HOME = {
    "CostError": "errors", "Decoded": "constrain.decoding", "Evidence": "facts.columns", "Learned": "learning.learned",
    "LogicDist": "constrain.distillation", "LogicMP": "layer", "LogicMPError": "errors",
    "Marginals": "inference.answers", "Plan": "plan.steps", "RuleCorrector": "estimator",
    "RuleError": "errors", "SLrelax": "constrain.losses",
    "SPL": "constrain.losses", "Schedule": "execute.schedule", "SemanticLoss": "constrain.losses",
    "Theory": "parse.theory", "build_plan": "plan.build", "compile_rules": "constrain.compile",
    "decode": "constrain.decoding", "distill": "constrain.distillation", "infer": "inference.run",
    "learn": "learning.train", "load_facts": "facts.db", "load_theory": "parse.load",
    "normalize_theory": "normalize.build", "parse_facts": "facts.db", "parse_theory": "parse.load",
    "resolve": "constrain.records",
}


if not TYPE_CHECKING:
    # hidden from type checkers, so that they report a misspelt name
    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'logicmp' has no attribute {name!r}")
        return getattr(import_module(f".{_HOME[name]}", "logicmp"), name)


def __dir__() -> list[str]:
    return sorted({*_HOME, *(name for name in globals() if name.startswith("__"))})
