"""Evidence as columns: the facts of each predicate, and the theory with their constants.

Room: parse -> **facts** -> ground, layer.  Paper: the set O of observations.

    Friends(Anna, Bob)      args ("Anna", "Bob")   values 1.0   lines 1
    0.7 Smokes(Eve)         args ("Eve",)          values 0.7   lines 2
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..parse.theory import Predicate, Theory


@dataclass
class FactTable:
    """All facts of one predicate, as columns."""

    predicate: Predicate
    # the arguments as written; a multi-class fact has its label last
    args: list[tuple[str, ...]] = field(default_factory=list)
    # 1 true, 0 false, NaN unobserved, other values soft evidence
    values: list[float] = field(default_factory=list)
    # the line of each fact; the lines of a second file continue the count of the first
    lines: list[int] = field(default_factory=list)


@dataclass
class Evidence:
    """All facts, by predicate, and the theory with the constants that the facts add to it.

    Attributes:
        theory: the theory with the constants that the facts add to it.
        tables: the facts by predicate.
        warnings: repeated facts and the like: not errors, but worth showing to the user.
    """

    theory: Theory
    tables: dict[str, FactTable]
    warnings: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(table.args) for table in self.tables.values())
