"""Errors that show the user's text, the cause and the next step.

Room: **errors** -> all others.

    predicate 'Freinds' is used but not declared
     --> smoking.mln:4:17
    4 | 1.4 Smokes(x) ^ Freinds(x, y) => Smokes(y)
      |                 ^^^^^^^
    hint: did you mean 'Friends'?
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

# characters of a line to show; a longer line is shortened around the caret
MAX_SHOWN = 160


@dataclass(frozen=True)
class Source:
    """A text and its name, such as the path of its file."""

    name: str
    text: str
    # the number of its first line, if the text is a part of a longer one
    first_line: int = 1

    @cached_property
    def line_starts(self) -> list[int]:
        """The position of the first character of every line."""
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def line(self, number: int) -> str:
        """The line with this number."""
        lines = self.text.split("\n")
        number -= self.first_line
        return lines[number].rstrip("\r") if number < len(lines) else ""


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        return bisect_right(self.source.line_starts, self.start) - 1 + self.source.first_line

    @property
    def column(self) -> int:
        return self.start - (self.source.text.rfind("\n", 0, self.start) + 1) + 1

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def show(self) -> str:
        """Return the place, the line, and carets below the characters."""
        line, column = self.line, self.column
        # one printed character for each character of the source, so that the carets are below their characters
        shown = "".join(c if c.isprintable() else " " if c == "\t" else "\N{REPLACEMENT CHARACTER}"
                        for c in self.source.line(line))
        first = column - 1
        width = max(1, min(self.end - self.start, len(shown) - first))
        if len(shown) > MAX_SHOWN:
            cut = max(0, first - MAX_SHOWN // 2)
            shown, first = shown[cut : cut + MAX_SHOWN], first - cut
            width = min(width, MAX_SHOWN - first)
        margin = " " * len(str(line))
        return f" --> {self}\n{line} | {shown}".rstrip() + f"\n{margin} | {' ' * first}{'^' * width}"


class LogicMPError(Exception):
    """An error that the user can correct: wrong input, or a limit that is too low; the hint is what to do next.

    Args:
        message: the problem, with the wrong value.
        hint: what to do next, shown last.
    """

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message + self._places() + (f"\nhint: {self.hint}" if self.hint else "")

    def _places(self) -> str:
        return ""


class RuleError(LogicMPError):
    """An error at a place in a text, which is shown.

    Args:
        message: the problem, with the wrong value.
        span: the place in a text, shown below the message; None if there is none.
        hint: what to do next, shown last.
        also: the second place, if two places contradict each other.
    """

    def __init__(self, message: str, span: Span | None, hint: str | None = None, also: Span | None = None):
        super().__init__(message, hint)
        self.span = span
        # the second of two places that contradict each other
        self.also = also
        self.args = (message, span, hint, also)

    def _places(self) -> str:
        return "".join("\n" + span.show() for span in (self.span, self.also) if span is not None)

    def moved(self, part: Source, whole: Source, start: int) -> RuleError:
        """The same error in a longer text, of which a part was read alone.

        Args:
            start: where the part starts.
        """
        span, also = (Span(whole, start + one.start, start + one.end) if one is not None and one.source is part else one
                      for one in (self.span, self.also))
        return type(self)(self.message, span, self.hint, also)


class CostError(RuleError):
    """A rule is valid, but needs more than a limit allows; the numbers are in the message.

    Args:
        message: the cost and the limit, in numbers.
        span: the rule that costs too much.
        hint: what to do next, shown last.
        also: the second place, if two places contradict each other.
    """


class LimitError(LogicMPError):
    """A limit of time or memory was reached, and there is no answer yet; the message says how far the work came."""


def similar(name: str, known: Collection[str]) -> str | None:
    """The hint for a misspelt name: the nearest known one, if one is near.

    >>> similar("MC-SAT", ["exact", "mc-sat"]), similar("sampling", ["exact"])
    ("did you mean 'mc-sat'?", None)
    """
    close = [other for other in known if other.casefold() == name.casefold()] or difflib.get_close_matches(name, known)
    return f"did you mean {close[0]!r}?" if close else None


def closest(name: str, known: Collection[str], what: str) -> str:
    """The hint for a misspelt name: the nearest known one, or all of them.

    >>> closest("gibs", ["exact", "gibbs"], "method"), closest("B", ["Anna"], "constant")
    ("did you mean 'gibbs'?", 'declared constants: Anna')
    """
    hint = similar(name, known)
    if hint is not None:
        return hint
    # only these are declared by the user
    how = "declared" if what in ("predicate", "type", "constant", "label") else "available"
    if not known:
        return f"no {what} is {how}"
    names = sorted(known)
    return f"{how} {what}s: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"
