"""Cubes and sizes to a program of contractions.  Stage: normalize -> **plan** -> execute."""

from .build import MAX_ELEMENTS, build_plan
from .steps import Plan

__all__ = ["MAX_ELEMENTS", "Plan", "build_plan"]
