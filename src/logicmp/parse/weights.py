"""The number in front of a rule, also as arithmetic.

Stage: **parse**.  pracmln writes weights as expressions: `log(0.9/0.1)`, and `logx(0)` for -100.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Any

from ..errors import RuleError, Span

# pracmln's stand-in for the logarithm of zero
LOG_OF_ZERO = -100.0
_CALLS: dict[str, Callable[..., float]] = {
    "log": math.log,
    "logx": lambda x: math.log(x) if x > 0 else LOG_OF_ZERO,
    "exp": math.exp,
    "sqrt": math.sqrt,
}
_BINARY: dict[type, Callable[[Any, Any], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}
# a plain number, which needs no syntax tree; no leading zeros and no overflow
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]*)?")


def evaluate_weight(text: str, span: Span) -> float:
    """The value of a weight; arithmetic, `log`, `logx`, `exp`, `sqrt` and `pi`, nothing else.

    >>> from logicmp.errors import Source, Span
    >>> evaluate_weight("logx(0)", Span(Source("", ""), 0, 0))
    -100.0
    """
    if len(text) > 1000:
        raise RuleError("this weight is longer than 1000 characters", span)
    if _NUMBER.fullmatch(text):
        return float(text)
    try:
        value = float(_value(ast.parse(text.replace(" ", ""), mode="eval").body))
    except (SyntaxError, ValueError, ArithmeticError, TypeError, RecursionError, MemoryError) as cause:
        reason = "it is not arithmetic" if isinstance(cause, (SyntaxError, TypeError)) else str(cause)
        raise RuleError(f"the weight {text!r} has no value: {reason}", span,
                        "write a number, or arithmetic without blanks such as log(0.9/0.1)") from None
    if not math.isfinite(value):
        raise RuleError(f"the weight {text!r} is not finite", span, "end a hard rule with '.' and give it no weight")
    return value


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    if isinstance(node, ast.Name) and node.id == "pi":
        return math.pi
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        return _value(node.operand) * (-1 if isinstance(node.op, ast.USub) else 1)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS and not node.keywords:
        return _CALLS[node.func.id](*map(_value, node.args))
    raise TypeError
