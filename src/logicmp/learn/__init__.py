"""Weights from data, and networks that learn under rules.  Stage: infer -> **learn** -> cli."""

from ..modules import make_callable
from .circuits import Circuit, compile_rules
from .decode import Decoded, decode
from .distill import Imitation, LogicDist, distill, distillation_loss
from .learned import Learned, Report
from .objectives import METHODS, Objective
from .semantic_loss import SemanticLoss, SLrelax
from .spl import SPL
from .train import learn

__all__ = [
    "METHODS", "SPL", "Circuit", "Decoded", "Imitation", "Learned", "LogicDist", "Objective", "Report", "SLrelax",
    "SemanticLoss", "compile_rules", "decode", "distill", "distillation_loss", "learn",
]

make_callable(__name__, learn)
