"""Check the arguments of public functions against their annotations.

Room: errors -> **arguments** -> all others.

    @checked
    def decode(theory: Theory | str, max_seconds: NotNegative = 60.0): ...

    decode(None)                        theory is None; expected a Theory or text
    decode(text, max_seconds=-1)        max_seconds must be at least 0, got -1
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import math
import numbers
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import LogicMPError

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Range:
    """The values of a type that are allowed, and their description for the error."""

    words: str
    is_inside: Callable[[Any], bool]


NotNegative = Annotated[float, Range("at least 0", lambda x: x >= 0)]
Positive = Annotated[float, Range("above 0", lambda x: x > 0)]
FinitePositive = Annotated[float, Range("above 0 and finite", lambda x: 0 < x < math.inf)]
Share = Annotated[float, Range("from 0 to 1", lambda x: 0 <= x <= 1)]
Count = Annotated[int, Range("at least 0", lambda x: x >= 0)]
AtLeastOne = Annotated[int, Range("at least 1", lambda x: x >= 1)]
Sizes = Mapping[str, AtLeastOne]

_LISTS = (collections.abc.Sequence, collections.abc.Collection)
_WORDS = {float: "a number", int: "a whole number", bool: "True or False", str: "text", type(None): "None",
          Path: "a path", collections.abc.Mapping: "a dict", collections.abc.Sequence: "a list",
          collections.abc.Collection: "a list", tuple: "a tuple", collections.abc.Callable: "a function"}
# what makes a value of a class, by its name: the classes are in later rooms
_MAKERS = {"Theory": "load_theory(path) reads rules from a file, parse_theory(text) from text",
           "Evidence": "load_facts(path, theory) reads facts from a file, parse_facts(text, theory) from text",
           "Tensor": "torch.as_tensor converts arrays and lists"}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Raise a `LogicMPError` for an argument that does not fit its annotation, before the function runs."""
    signature = inspect.signature(function)
    # resolved in the first call, because annotations may name what is defined further down
    hints = functools.cache(lambda: get_type_hints(function, include_extras=True))

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            # names of arguments that do not exist: Python's own error names the function
            return function(*args, **kwargs)
        for name, value in given.items():
            if name in hints() and signature.parameters[name].kind is not inspect.Parameter.VAR_KEYWORD:
                check_argument(name, value, hints()[name])
        return function(*args, **kwargs)

    return run


def check_fields(instance: Any) -> None:
    """Raise a `LogicMPError` for a field of a dataclass that does not fit its annotation."""
    for name, hint in get_type_hints(type(instance), include_extras=True).items():
        check_argument(name, getattr(instance, name), hint)


def check_argument(name: str, value: object, hint: Any) -> None:
    """Raise a `LogicMPError` if a value does not fit a type.

    >>> check_argument("sizes", {"t": 0}, Sizes)
    Traceback (most recent call last):
    logicmp.errors.LogicMPError: sizes['t'] must be at least 1, got 0
    """
    problem = next(_problems(name, value, hint), None)
    if problem is not None:
        raise problem[0]


def wrong_type(name: str, value: object, hint: Any) -> LogicMPError:
    """The error for a value that is of another type.

    >>> print(wrong_type("theory", b"A => B", str))
    theory is a bytes; expected text
    hint: call .decode() on it
    """
    is_short = (value is None or isinstance(value, (bool, float)) or (isinstance(value, str) and len(value) < 40)
                or (isinstance(value, int) and value.bit_length() < 64))
    shown = repr(value) if is_short else _with_article(type(value).__name__)
    accepted = _alternatives(hint)
    makers = [_MAKERS[kind.__name__] for kind in accepted if getattr(kind, "__name__", None) in _MAKERS]
    next_step = "; ".join(makers) or None
    if isinstance(value, bytes) and str in accepted:
        next_step = "call .decode() on it"
    elif isinstance(value, str) and any(get_origin(kind) in _LISTS for kind in accepted):
        next_step = f"put it in a list: [{value!r}]"
    elif hasattr(value, "columns") and any(get_origin(kind) is collections.abc.Mapping for kind in accepted):
        next_step = "name the predicate of the table: {'Friends': table}"
    words = [_words(kind) for kind in accepted]
    return LogicMPError(f"{name} is {shown}; expected {', '.join(words[:-1])}{' or ' * (len(words) > 1)}{words[-1]}",
                        next_step)


def _problems(name: str, value: object, hint: Any) -> Iterator[tuple[LogicMPError, bool]]:
    """The errors of a value, each with whether it concerns more than the type of the value as a whole."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        inner = next(_problems(name, value, args[0]), None)
        if inner is not None:
            yield inner
        elif not args[1].is_inside(value):
            yield LogicMPError(f"{name} must be {args[1].words}, got {value!r}"), True
    elif origin in (Union, types.UnionType):
        found = [next(_problems(name, value, arg), None) for arg in args]
        if None not in found:
            special = (problem for problem in found if problem is not None and problem[1])
            yield next(special, (wrong_type(name, value, hint), False))
    elif not _is_a(value, origin or hint):
        yield wrong_type(name, value, hint), False
    elif origin is collections.abc.Mapping:
        assert isinstance(value, Mapping)
        for key, entry in value.items():
            yield from ((problem, True) for problem, _ in _problems(f"a key of {name}", key, args[0]))
            yield from ((problem, True) for problem, _ in _problems(f"{name}[{key!r}]", entry, args[1]))
    elif origin in _LISTS:
        assert isinstance(value, collections.abc.Iterable)
        for k, entry in enumerate(value):
            yield from ((problem, True) for problem, _ in _problems(f"{name}[{k}]", entry, args[0]))
    elif origin is tuple:
        assert isinstance(value, tuple)
        if len(value) != len(args):
            yield LogicMPError(f"{name} has {len(value)} entries; expected {len(args)}"), True
        for k, (entry, arg) in enumerate(zip(value, args, strict=False)):
            yield from ((problem, True) for problem, _ in _problems(f"{name}[{k}]", entry, arg))


def _is_a(value: object, kind: Any) -> bool:
    if kind is Any or not isinstance(kind, type):
        return True
    if kind is float:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and _is_float(value)
    if kind is int:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value).bit_length() < 64
    if kind in _LISTS and isinstance(value, (str, bytes)):
        # one name where a list of names belongs: its letters are not meant
        return False
    return isinstance(value, kind)


def _is_float(value: numbers.Real) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _alternatives(hint: Any) -> list[Any]:
    """The types of a union, without ranges; a type without a union is the only one."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _alternatives(args[0])
    if origin in (Union, types.UnionType):
        return list(dict.fromkeys(kind for arg in args for kind in _alternatives(arg)))
    return [hint]


def _words(hint: Any) -> str:
    """A type in words: "a torch tensor", "a list of texts or paths"."""
    kind, args = get_origin(hint) or hint, get_args(hint)
    name = getattr(kind, "__name__", str(kind))
    words = _WORDS.get(kind) or _with_article(f"torch {name.lower()}" if name in ("Tensor", "dtype") else name)
    if not args or args[-1] is Any or words not in ("a dict", "a list"):
        return words
    content = (_words(part).removeprefix("an ").removeprefix("a ") for part in _alternatives(args[-1]))
    return f"{words} of {' or '.join(part if part.endswith('s') else part + 's' for part in content)}"


def _with_article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
