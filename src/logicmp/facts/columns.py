"""Ground facts: .db files of Alchemy, Tuffy and pracmln, and the `facts` of ExpressGNN.

Stage: text + theory -> **parse** -> ground, layer.  Paper: the set O of observations.

    Friends(Anna, Bob)       true            !Smokes(Bob)     false         label(T1) = B-PER   a multi-class value
    ?Smokes(Carl)            unknown         0.7 Smokes(Eve)  soft          person = {Anna}     more constants (pracmln)

A plain line takes a fast path, one regular expression; whatever does not match it goes through the grammar of
theories, for the odd cases and for the errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..parse.theory import Predicate, Theory


@dataclass
class FactTable:
    """All facts of one predicate, column by column."""

    predicate: Predicate
    # the arguments as written; a multi-class fact has its label last
    args: list[tuple[str, ...]] = field(default_factory=list)
    # 1 true, 0 false, NaN unknown, in between soft
    values: list[float] = field(default_factory=list)
    # the line each fact stands on, counted on through the files where there are several
    lines: list[int] = field(default_factory=list)


@dataclass
class Evidence:
    """What was read: the tables, and the theory with the constants that the facts brought along."""

    theory: Theory
    tables: dict[str, FactTable]
    # facts that are there twice, and the like: nothing is wrong, but the user may want to know
    warnings: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(table.args) for table in self.tables.values())
