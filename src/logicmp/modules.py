"""Folders that can be called like the function they are named after: `logicmp.infer(...)`, `logicmp.learn(...)`.

Stage: used by infer and learn, imports none.

The folders of the pipeline have the names of what they do, and so have the two functions that users call. Python puts
the folder under that name as soon as anything in it is imported, so the folder itself has to be the function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def make_callable(name: str, function: Callable[..., Any]) -> None:
    """Let calls of a module be calls of a function."""

    class CallableModule(ModuleType):
        def __call__(self, *args: Any, **options: Any) -> Any:
            return function(*args, **options)

    sys.modules[name].__class__ = CallableModule
