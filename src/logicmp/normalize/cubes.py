"""The normal form: signed sums of products of literals, as data that prints.

Room: parse -> **normalize** -> ground, plan.  Paper: Eq. 1-3.

    1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)
      + Smokes(x) Friends(x,y) !Smokes(y) [x!=y]      the groundings that are violated; never where x is y

Read each literal as its probability under the marginals q, and each term as a sum over its variables: the terms of a
rule add up to V(q), the expected number of its groundings that are false. V is multilinear in the atoms.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ..parse.syntax import quoted
from ..parse.theory import Rule, Theory

# orders to try for literals of one shape; beyond this, equal terms may not be merged (the form is longer, never wrong)
MAX_ORDERS = 24


@dataclass(frozen=True, slots=True)
class Var:
    """A variable, possibly with an offset: `i`, `i+1`."""

    name: str
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.name}{f'{self.offset:+d}' if self.offset else ''}"


@dataclass(frozen=True, slots=True)
class Const:
    """A constant, by its index in its type."""

    index: int
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        return quoted(self.name) if self.name else f"#{self.index}"


Term = Var | Const


@dataclass(frozen=True, slots=True)
class Literal:
    """The probability that an atom is true, or false, or that a multi-class atom has one of some labels."""

    predicate: str
    args: tuple[Term, ...]
    negated: bool = False
    labels: frozenset[int] | None = None
    # the names of the labels, for printing
    shown: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        args = f"({','.join(map(str, self.args))})" if self.args else ""
        chosen = f" in {{{','.join(self.shown)}}}" if self.labels is not None else ""
        return f"{'!' if self.negated else ''}{self.predicate}{args}{chosen}"


@dataclass(frozen=True, slots=True)
class Same:
    """One where two terms are equal, zero elsewhere; only between terms that cannot be substituted."""

    left: Term
    right: Term

    def __str__(self) -> str:
        return f"[{self.left}={self.right}]"

    def in_order(self) -> Same:
        """The same condition, written one way only."""
        return self if str(self.left) <= str(self.right) else Same(self.right, self.left)


@dataclass(frozen=True, slots=True)
class Differ:
    """Zero where two terms are equal, one elsewhere."""

    left: Term
    right: Term

    def __str__(self) -> str:
        return f"[{self.left}!={self.right}]"

    def in_order(self) -> Differ:
        return self if str(self.left) <= str(self.right) else Differ(self.right, self.left)


@dataclass(frozen=True, slots=True)
class Range:
    """A variable to sum or multiply over: its type, and the lowest and highest offset that must be inside the type."""

    name: str
    type: str
    low: int = 0
    high: int = 0

    def __str__(self) -> str:
        shifted = [f"{self.name}{shift:+d}" for shift in (self.low, self.high) if shift]
        return f"{self.name}:{self.type}" + (f" with {', '.join(shifted)} inside" if shifted else "")


@dataclass(frozen=True, slots=True)
class Product:
    """A quantifier: the product, over all values of a variable, of a signed sum of cubes.

    `EXIST y A(x,y)` is false with probability  prod_y !A(x,y).
    """

    over: Range
    terms: tuple[tuple[int, Cube], ...]

    def __str__(self) -> str:
        return f"prod {self.over.name} ({show_sum(self.terms)})"


Factor = Literal | Same | Differ | Product


@dataclass(frozen=True, slots=True)
class Cube:
    """A sum, over all values of some variables, of one product of factors."""

    variables: tuple[Range, ...]
    factors: tuple[Factor, ...]
    # for `+x` rules: the index of the weight that applies, one term for each per-constant variable
    weight_at: tuple[Term, ...] = ()
    # the cube counts only if these types have at least this many constants
    needs: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        used = {name for factor in self.factors for name in names_in(factor)}
        parts = [str(factor) for factor in self.factors]
        parts += [f"|{v.type}|" for v in self.variables if v.name not in used]
        windows = [str(v) for v in self.variables if v.low or v.high]
        notes = windows + [f"|{t}| >= {n}" for t, n in self.needs]
        if self.weight_at and any(not isinstance(t, Var) or t.offset for t in self.weight_at):
            notes.append(f"weight [{','.join(map(str, self.weight_at))}]")
        return (" ".join(parts) or "1") + (f"   ({'; '.join(notes)})" if notes else "")


Signed = tuple[int, Cube]


@dataclass(frozen=True, slots=True)
class NormalRule:
    """One rule and the signed cubes whose sum is its expected number of violations."""

    rule: Rule
    terms: tuple[Signed, ...]
    # `semantics="alchemy"` divides the weight over this many clauses
    n_clauses: int = 1
    # the variables of the formula, or of each clause: the product of their ranges is the number of groundings
    groundings: tuple[tuple[Range, ...], ...] = ()

    def __str__(self) -> str:
        share = f"   (weight divided over {self.n_clauses} clauses)" if self.n_clauses > 1 else ""
        lines = [f"{self.rule}{share}"]
        for coefficient, cube in self.terms:
            lines.append(f"  {signed(coefficient)}{cube}")
        return "\n".join(lines if self.terms else [*lines, "  never violated"])


@dataclass(frozen=True, slots=True)
class NormalForm:
    """Every rule of a theory as signed, weighted, typed cubes."""

    theory: Theory
    semantics: str
    rules: tuple[NormalRule, ...]
    # whether it is right only for the sizes it was made for: a quantifier was written out over all constants
    is_sized: bool = False

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.rules)) + "\n"


def signed(coefficient: int) -> str:
    """A coefficient in front of a term: `+ `, `- `, `+ 2 `."""
    size = "" if abs(coefficient) == 1 else f"{abs(coefficient)} "
    return f"{'-' if coefficient < 0 else '+'} {size}"


def show_sum(terms: Iterable[Signed]) -> str:
    text = " ".join(f"{signed(coefficient)}{cube}" for coefficient, cube in terms)
    return text.removeprefix("+ ") or "0"


# variables and their substitution


def names_in(factor: Factor) -> Iterator[str]:
    """The free variables of a factor."""
    if isinstance(factor, Literal):
        yield from (t.name for t in factor.args if isinstance(t, Var))
    elif isinstance(factor, (Same, Differ)):
        yield from (t.name for t in (factor.left, factor.right) if isinstance(t, Var))
    else:
        for _, cube in factor.terms:
            bound = {factor.over.name, *(v.name for v in cube.variables)}
            yield from (name for inner in cube.factors for name in names_in(inner) if name not in bound)


def substitute_term(term: Term, mapping: Mapping[str, Term]) -> Term:
    if isinstance(term, Const) or term.name not in mapping:
        return term
    new = mapping[term.name]
    if isinstance(new, Var):
        return Var(new.name, new.offset + term.offset)
    return Const(new.index + term.offset, new.name if not term.offset else "")


def substitute(factor: Factor, mapping: Mapping[str, Term]) -> Factor:
    """Replace variables of a factor; bound variables have unique names, so none is captured."""
    if isinstance(factor, Literal):
        return replace(factor, args=tuple(substitute_term(t, mapping) for t in factor.args))
    if isinstance(factor, (Same, Differ)):
        return type(factor)(substitute_term(factor.left, mapping), substitute_term(factor.right, mapping)).in_order()
    return replace(factor, terms=tuple(
        (coefficient, replace(cube, factors=tuple(substitute(f, mapping) for f in cube.factors)))
        for coefficient, cube in factor.terms))


# equal terms, found by canonical renaming


def collect(terms: Iterable[Signed]) -> tuple[Signed, ...]:
    """Add up terms that are equal up to the names of their variables, and drop those that cancel.

    >>> x, y = Range("x", "t"), Range("y", "t")
    >>> p = lambda name: Literal("P", (Var(name),))
    >>> [str(cube) for _, cube in collect([(1, Cube((x,), (p("x"),))), (1, Cube((y,), (p("y"),)))])]
    ['P(x)']
    """
    sums: dict[str, int] = {}
    first: dict[str, Cube] = {}
    for coefficient, cube in terms:
        key = canonical(cube)
        sums[key] = sums.get(key, 0) + coefficient
        first.setdefault(key, cube)
    return tuple((sums[key], cube) for key, cube in first.items() if sums[key])


def canonical(cube: Cube, outer: Mapping[str, str] | None = None) -> str:
    """Return a text that is the same for cubes that differ only in the names of the variables they sum over."""
    outer = outer or {}
    own = {v.name for v in cube.variables}
    groups: dict[str, list[Factor]] = {}
    unnamed = {**outer, **dict.fromkeys(own, "?")}
    for factor in cube.factors:
        groups.setdefault(_show(factor, unnamed), []).append(factor)
    shapes = sorted(groups)
    n_orders = 1
    for shape in shapes:
        for k in range(2, len(groups[shape]) + 1):
            n_orders *= k
    choices = [itertools.permutations(groups[s]) if n_orders <= MAX_ORDERS else [tuple(groups[s])] for s in shapes]
    return min(_canonical_in_order(cube, [f for group in order for f in group], outer)
               for order in itertools.product(*choices))


def _canonical_in_order(cube: Cube, factors: list[Factor], outer: Mapping[str, str]) -> str:
    own = {v.name: v for v in cube.variables}
    depth = len(outer)
    naming = dict(outer)
    terms = [name for factor in factors for name in names_in(factor)]
    terms += [t.name for t in cube.weight_at if isinstance(t, Var)]
    for name in terms:
        if name in own and name not in naming:
            naming[name] = f"v{depth + len(naming) - len(outer)}"
    unused = sorted(f"{v.type}:{v.low}:{v.high}" for v in cube.variables if v.name not in naming)
    ranges = [f"{naming[v.name]}:{v.type}:{v.low}:{v.high}" for v in cube.variables if v.name in naming]
    weights = [_show_term(t, naming) for t in cube.weight_at]
    return f"{sorted(ranges)}{unused}{weights}{cube.needs}" + " ".join(_show(f, naming) for f in factors)


def _show_term(term: Term, naming: Mapping[str, str]) -> str:
    if isinstance(term, Const):
        return f"#{term.index}"
    return f"{naming.get(term.name, term.name)}{term.offset:+d}"


def _show(factor: Factor, naming: Mapping[str, str]) -> str:
    if isinstance(factor, Literal):
        labels = "" if factor.labels is None else sorted(factor.labels)
        args = ",".join(_show_term(t, naming) for t in factor.args)
        return f"{'!' if factor.negated else ''}{factor.predicate}({args}){labels}"
    if isinstance(factor, (Same, Differ)):
        sign = "=" if isinstance(factor, Same) else "!="
        return f"[{sign.join(sorted((_show_term(factor.left, naming), _show_term(factor.right, naming))))}]"
    inner = {**naming, factor.over.name: f"w{len(naming)}"}
    terms = sorted(f"{coefficient}*{canonical(cube, inner)}" for coefficient, cube in factor.terms)
    return f"prod {factor.over.type}:{factor.over.low}:{factor.over.high} {terms}"
