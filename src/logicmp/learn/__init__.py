"""Weights from data.  Stage: infer -> **learn** -> cli."""

from ..modules import make_callable
from .learned import Learned, Report
from .objectives import METHODS, Objective
from .train import learn

__all__ = ["METHODS", "Learned", "Objective", "Report", "learn"]

make_callable(__name__, learn)
