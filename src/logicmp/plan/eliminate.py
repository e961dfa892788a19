"""Cubes over sparse predicates to lists of rows: variables are summed out one by one, each over the rows that exist.

Room: facts, normalize, ground -> **plan** -> execute.  Paper: Section 3.2, with lists in place of tensors.

    C(a,b) C(b,c) !C(a,c)      C(a,b) C(b,c)  - C(a,b) C(b,c) C(a,c)
      %0(b) = sum of C(a,b)    %1(b) = sum of C(b,c)    + %0(b) %1(b)          one row for each b
      - C C C                                                                  one row for each triangle

A form is a sum over rows of a product of values, each read at a column of places. Messages and counts are derivatives
of forms (`execute/rows.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import CostError, Span
from ..facts.supports import Support
from ..ground.patterns import Pattern, box, estimate_rows, join_patterns, project, select
from ..normalize.cubes import (
    Cube,
    Differ,
    Literal,
    NormalForm,
    NormalRule,
    Product,
    Same,
    Signed,
    Var,
    collect,
    names_in,
)
from ..normalize.cubes import Term as CubeTerm
from ..normalize.meet import split_difference
from .build import hosts
from .steps import quantity

# complements of sparse literals are expanded: 2^m terms for m of them
MAX_COMPLEMENTS = 6
# rows of one list; 4 bytes for each row and column
MAX_ROWS = 2**28
# rows of a list of all bindings of variables that no sparse literal binds
MAX_BOX = 2**22


@dataclass(frozen=True)
class ReadAll:
    """The marginals of a predicate, flat: of a sparse one, the values of its rows; of labels, the sum of a set."""

    predicate: str
    labels: frozenset[int] | None = None


@dataclass(frozen=True)
class WeightsOf:
    """The weights of a rule with one weight per constant, flat."""

    rule: int


@dataclass(frozen=True)
class Operand:
    """A value of a form, or one minus it."""

    value: int
    negated: bool = False


@dataclass(frozen=True, eq=False)
class Form:
    """A sum over rows of a product of operands, each read at its column."""

    operands: tuple[Operand, ...]
    # int32, the place that each row reads; one for each operand
    columns: tuple[np.ndarray, ...]
    n_rows: int
    # what each row is multiplied by; None for 1
    factors: np.ndarray | None
    # forms with equal keys have equal columns and factors
    key: Hashable


@dataclass(frozen=True, eq=False)
class Made:
    """A form that is summed by a column: one number for each place."""

    form: Form
    output: np.ndarray
    n_places: int


@dataclass(frozen=True, eq=False)
class Grouped:
    """For each place, the product of 1 + (sum of values) over its rows; 1 where a place has no rows."""

    # values over the same rows, with their coefficients
    parts: tuple[tuple[int, float], ...]
    # the place of each row, in order
    output: np.ndarray
    n_places: int
    # subtract 1, so that places without rows are 0
    minus_one: bool


Value = ReadAll | WeightsOf | Made | Grouped


@dataclass(frozen=True, eq=False)
class Root:
    """A form that is a term of a rule's violation count."""

    form: Form
    coefficient: float
    rule: int


@dataclass(frozen=True, eq=False)
class RowPlan:
    """Forms whose sum is the violation count of each rule, without the terms that have no sparse literal.

    Attributes:
        values: the values that forms read, each after those it is made of.
        live: which values depend on an unobserved predicate.
        roots: the terms of all counts.
        constants: by rule, the part of its count that is a number.
        dense: the terms without sparse literals, by rule.
    """

    values: tuple[Value, ...]
    live: tuple[bool, ...]
    roots: tuple[Root, ...]
    constants: tuple[float, ...]
    dense: NormalForm

    @property
    def n_rows(self) -> int:
        """The rows of all lists, each counted once."""
        forms = {f.key: f.n_rows for f in (*(v.form for v in self.values if isinstance(v, Made)),
                                            *(root.form for root in self.roots))}
        return sum(forms.values())

    def __str__(self) -> str:
        lines = []
        for k, value in enumerate(self.values):
            if isinstance(value, Made):
                lines.append(f"%{k} = sum of {_shown(value.form)} by {quantity(value.n_places)} places")
            elif isinstance(value, Grouped):
                lines.append(f"%{k} = product of {quantity(len(value.output))} rows by {quantity(value.n_places)} "
                             "places")
            else:
                lines.append(f"%{k} = {value}")
        lines += [f"rule {root.rule + 1}: {root.coefficient:+g} {_shown(root.form)}" for root in self.roots]
        return "\n".join([*lines, f"{quantity(self.n_rows)} rows"]) + "\n"


def _shown(form: Form) -> str:
    operands = " ".join(f"{'!' * o.negated}%{o.value}" for o in form.operands)
    return f"{operands or '1'} over {quantity(form.n_rows)} rows"


def build_rows(form: NormalForm, sizes: Mapping[str, int], supports: Mapping[str, Support],
               observed: Collection[str] = (), max_rows: int = MAX_ROWS) -> RowPlan:
    """Plan the violation counts of a theory with sparse predicates.

    Args:
        form: the rules as cubes, from `normalize_theory`.
        sizes: the number of constants of each type.
        supports: the sparse predicates.
        observed: predicates that are evidence as a whole; every row of a sparse one is true.
        max_rows: reject a rule that needs a list with more rows.
    """
    return _Builder(form, sizes, supports, observed, max_rows).plan()


@dataclass(frozen=True, eq=False)
class _Factor:
    """A factor of a cube: where it is not zero, and the value that it reads there."""

    names: tuple[str, ...]
    # factors with equal keys have equal rows, up to the names of their variables; they can read different labels
    key: Hashable
    # None: it is read everywhere, at the place that its terms and shape give
    pattern: Pattern | None = None
    terms: tuple[CubeTerm, ...] = ()
    shape: tuple[int, ...] = ()
    # what it reads: nothing (it is 1), a value, or numbers
    operand: Operand | None = None
    numbers: np.ndarray | None = None
    conditions: tuple[Differ, ...] = ()


class _Builder:
    def __init__(self, form: NormalForm, sizes: Mapping[str, int], supports: Mapping[str, Support],
                 observed: Collection[str], max_rows: int):
        self.form = form
        self.theory = form.theory
        self.sizes = sizes
        self.supports = supports
        self.observed = frozenset(observed)
        self.max_rows = max_rows
        self.values: list[Value] = []
        self.live: list[bool] = []
        self.number = 0
        self._n_products = 0
        self._known: dict[Hashable, int] = {}
        self._patterns: dict[Hashable, Pattern] = {}
        self._forms: dict[Hashable, tuple[tuple[np.ndarray, ...], int, np.ndarray | None]] = {}
        self._made: dict[Hashable, _Factor] = {}

    def plan(self) -> RowPlan:
        roots: list[Root] = []
        constants: list[float] = []
        dense: list[NormalRule] = []
        for number, normal in enumerate(self.form.rules):
            self.number = number
            constant, left = 0.0, []
            for coefficient, cube in self._cases(normal.terms):
                if not self._is_sparse(cube):
                    left.append((coefficient, cube))
                    continue
                root = self._root(coefficient / normal.n_clauses, cube)
                if isinstance(root, Root):
                    roots.append(root)
                else:
                    constant += root
            constants.append(constant)
            dense.append(replace(normal, terms=tuple(left)))
        return RowPlan(tuple(self.values), tuple(self.live), tuple(roots), tuple(constants),
                       replace(self.form, rules=tuple(dense)))

    # cubes to cubes without complements of sparse literals

    def _is_sparse(self, cube: Cube) -> bool:
        return any(f.predicate in self.supports if isinstance(f, Literal) else isinstance(f, Product)
                   and any(self._is_sparse(inner) for _, inner in f.terms) for f in cube.factors)

    def _cases(self, terms: Iterable[Signed]) -> tuple[Signed, ...]:
        found: list[Signed] = []
        todo = [part for c, cube in terms for part in self._expand(c, cube, within=False)]
        while todo:
            coefficient, cube = todo.pop(0)
            if any(self.sizes[t] < n for t, n in cube.needs):
                continue
            product = next((f for f in cube.factors if isinstance(f, Product) and self._is_sparse(cube)
                            and len(set(names_in(f))) > 1), None)
            apart = next((f for f in cube.factors if isinstance(f, Differ) and not hosts(cube, f)), None)
            if not self._is_sparse(cube):
                found.append((coefficient, cube))
            elif apart is not None:
                todo[:0] = [(coefficient * c, part) for c, part in split_difference(cube, apart, self.theory.sizes)]
            elif product is not None and not isinstance(product, _Minus):
                rest = tuple(f for f in cube.factors if f is not product)
                # 1 + (product - 1): the second term is zero where the product has no rows
                minus = _Minus(product.over, product.terms)
                todo[:0] = [(coefficient, replace(cube, factors=rest)),
                            (coefficient, replace(cube, factors=(*rest, minus)))]
            else:
                found.append((coefficient, cube))
        return collect(found)

    def _expand(self, coefficient: int, cube: Cube, within: bool) -> list[Signed]:
        """The complement of a sparse literal is 1 minus the literal; below a quantifier, that of every literal."""
        chosen = [f for f in cube.factors if isinstance(f, Literal) and f.negated
                  and (within or f.predicate in self.supports)]
        if len(chosen) > MAX_COMPLEMENTS:
            raise CostError(f"this rule has {len(chosen)} negated sparse literals (limit {MAX_COMPLEMENTS})",
                            self._span(), f"split its head, or make one of {', '.join({f.predicate for f in chosen})} "
                            "dense")
        rest = tuple(f for f in cube.factors if f not in chosen)
        found = []
        for picked in itertools.product((False, True), repeat=len(chosen)):
            own = tuple(replace(f, negated=False) for f, take in zip(chosen, picked, strict=True) if take)
            found.append((coefficient * (-1) ** len(own), replace(cube, factors=(*rest, *own))))
        return found

    def _span(self) -> Span | None:
        return self.form.rules[self.number].rule.span

    # cubes to factors

    def _root(self, coefficient: float, cube: Cube) -> Root | float:
        windows = self._windows(cube)
        factors = self._factors(cube, windows)
        if factors is None:
            return 0.0
        if cube.weight_at:
            rule = self.form.rules[self.number].rule
            shape = tuple(self.sizes[rule.variables[name]] for name in rule.per_constant)
            weights = self._value(WeightsOf(self.number), ("weights", self.number), live=False)
            factors.append(self._dense(cube.weight_at, shape, Operand(weights), ("weights", self.number), ()))
        used = {n for f in factors for n in f.names}
        coefficient *= math.prod(max(0, high - low) for n, (low, high) in windows.items() if n not in used)
        if not coefficient:
            return 0.0
        form = self._eliminate(factors, (), windows)[0]
        if form.n_rows == 0:
            return 0.0
        if not form.operands:
            return coefficient * (form.n_rows if form.factors is None else float(form.factors.sum()))
        return Root(form, coefficient, self.number)

    def _windows(self, cube: Cube) -> dict[str, tuple[int, int]]:
        return {v.name: (-v.low, self.sizes[v.type] - v.high) for v in cube.variables}

    def _factors(self, cube: Cube, windows: Mapping[str, tuple[int, int]]) -> list[_Factor] | None:
        """The factors of a cube; None if one of them is zero everywhere."""
        conditions = [f for f in cube.factors if isinstance(f, (Same, Differ))]
        found: list[_Factor] = []
        placed: set[Same | Differ] = set()
        literals = [f for f in cube.factors if isinstance(f, Literal)]
        for f in sorted(literals, key=lambda f: f.predicate not in self.supports):
            names = {t.name for t in f.args if isinstance(t, Var)}
            own = [c for c in conditions if set(names_in(c)) <= names]
            found.append(self._literal(f, own, windows))
            placed |= set(own)
        left = [c for c in conditions if c not in placed]
        if left:
            raise CostError(f"the condition {left[0]} of this rule has no literal with both variables", self._span(),
                            "split the rule, or make its predicates dense")
        found += [self._product(f, windows) for f in cube.factors if isinstance(f, Product)]
        return None if any(f.pattern is not None and not f.pattern.n for f in found) else found

    def _literal(self, literal: Literal, conditions: Sequence[Same | Differ],
                 windows: Mapping[str, tuple[int, int]]) -> _Factor:
        names = tuple(dict.fromkeys(t.name for t in literal.args if isinstance(t, Var)))
        # the same literal with variables by number
        number = {n: str(k) for k, n in enumerate(names)}
        args = tuple(replace(t, name=number[t.name]) if isinstance(t, Var) else t for t in literal.args)
        tests = tuple((type(c).__name__, *(str(replace(t, name=number[t.name])) if isinstance(t, Var) else str(t)
                                           for t in (c.left, c.right))) for c in conditions)
        spans = tuple(windows[n] for n in names)
        key: Hashable = (literal.predicate, tuple(map(str, args)), spans, tests)
        shape = tuple(self.sizes[t] for t in self.theory.predicate[literal.predicate].types)
        is_observed = literal.predicate in self.observed
        operand = None
        if not (is_observed and literal.predicate in self.supports):
            read = ReadAll(literal.predicate, literal.labels)
            operand = Operand(self._value(read, read, not is_observed), literal.negated)
        if literal.predicate not in self.supports:
            assert all(isinstance(c, Differ) for c in conditions)
            return self._dense(literal.args, shape, operand, key,
                               tuple(c for c in conditions if isinstance(c, Differ)))
        if key not in self._patterns:
            bound = [type(c)(*(replace(t, name=number[t.name]) if isinstance(t, Var) else t
                               for t in (c.left, c.right))) for c in conditions]
            self._patterns[key] = select(self.supports[literal.predicate], args,
                                         {number[n]: windows[n] for n in names}, bound)
        return _Factor(names, key, self._patterns[key].renamed(names), operand=operand)

    def _dense(self, terms: tuple[CubeTerm, ...], shape: tuple[int, ...], operand: Operand | None, key: Hashable,
               conditions: tuple[Differ, ...], numbers: np.ndarray | None = None) -> _Factor:
        names = tuple(dict.fromkeys(t.name for t in terms if isinstance(t, Var)))
        return _Factor(names, ("dense", key), None, terms, shape, operand, numbers, conditions)

    def _cover(self, factors: list[_Factor], windows: Mapping[str, tuple[int, int]]) -> list[_Factor]:
        """Add all bindings of the variables that no pattern binds."""
        bound = {n for f in factors if f.pattern is not None for n in f.names}
        found = list(factors)
        for f in sorted((f for f in factors if f.pattern is None), key=lambda f: -len(f.names)):
            if set(f.names) <= bound:
                continue
            spans = tuple(windows[n] for n in f.names)
            rows = math.prod(max(0, high - low) for low, high in spans)
            # a list over one type is as long as its predicates
            if rows > max(MAX_BOX, *(high for _, high in spans)):
                raise CostError(f"this rule needs all {quantity(rows)} bindings of {', '.join(f.names)} (limit "
                                f"{quantity(MAX_BOX)}), because no sparse literal binds them", self._span(),
                                "add a literal with facts that binds them, or give candidates for the dense predicate")
            key = ("box", spans)
            if key not in self._patterns:
                sizes = tuple(high for _, high in spans)
                self._patterns[key] = box(tuple(map(str, range(len(spans)))), spans, sizes)
            found.append(_Factor(f.names, key, self._patterns[key].renamed(f.names)))
            bound |= set(f.names)
        return found

    def _value(self, value: Value, key: Hashable, live: bool) -> int:
        if key not in self._known:
            self._known[key] = len(self.values)
            self.values.append(value)
            self.live.append(live)
        return self._known[key]

    # elimination

    def _eliminate(self, factors: list[_Factor], keep: tuple[str, ...], windows: Mapping[str, tuple[int, int]]
                   ) -> tuple[Form, dict[str, np.ndarray]]:
        """Sum out all variables that are not kept; return the last form, and the columns of the kept ones."""
        while True:
            factors = self._cover(factors, windows)
            bucket, rest = self._next_bucket(factors, keep)
            if not rest:
                return self._form(bucket, keep)
            needed = {n for f in rest for n in f.names} | set(keep)
            names = tuple(dict.fromkeys(n for f in bucket for n in f.names if n in needed))
            factors = [*rest, self._sum(bucket, names)]

    def _next_bucket(self, factors: list[_Factor], keep: tuple[str, ...]) -> tuple[list[_Factor], list[_Factor]]:
        """The factors to multiply next, so that a variable can be summed out, and the others."""
        names = list(dict.fromkeys(n for f in factors for n in f.names if n not in keep))
        patterns = [f for f in factors if f.pattern is not None and f.names]
        scalars = [f for f in factors if not f.names]
        if not names:
            return factors, []
        # a variable of one literal only is summed out of it alone, as a value that all rules share
        for f in patterns:
            alone = {n for n in f.names if n in names and not any(n in g.names for g in factors if g is not f)}
            if alone and len(patterns) > 1 and alone != set(f.names):
                return [f], [g for g in factors if g is not f]
        best: tuple[float, list[_Factor], list[_Factor]] | None = None
        for name in names:
            bucket, bound = self._bucket(name, factors)
            rest = [f for f in factors if f not in bucket]
            cost = self._cost(bucket)
            if [f for f in rest if f.names]:
                # an intermediate pays if its rows and those of the rest are fewer than the rows of all together
                output = len({n for f in rest for n in f.names} & bound) > 1
                cost += self._cost(rest) + (cost if output else 0)
            if best is None or cost < best[0]:
                best = cost, bucket, rest
        assert best is not None
        whole = [f for f in factors if f.names]
        if best[2] and self._is_connected(whole) and self._cost(whole) <= best[0]:
            return whole, scalars
        return best[1], best[2]

    def _bucket(self, name: str, factors: list[_Factor]) -> tuple[list[_Factor], set[str]]:
        """All factors with a variable, those that their variables close, and a pattern for each of their variables."""
        bound = {n for f in factors if name in f.names for n in f.names}
        while True:
            bucket = [f for f in factors if f.names and set(f.names) <= bound]
            open_names = bound - {n for f in bucket if f.pattern is not None for n in f.names}
            if not open_names:
                return bucket, bound
            binding = [f.pattern for f in factors if f.pattern is not None and not open_names.isdisjoint(f.names)]
            bound |= set(min(binding, key=lambda p: p.n).names)

    def _cost(self, factors: Sequence[_Factor]) -> float:
        patterns = [f.pattern for f in factors if f.pattern is not None and f.names]
        return estimate_rows(patterns) if patterns else 0.0

    def _is_connected(self, factors: list[_Factor]) -> bool:
        bound: set[str] = set(factors[0].names)
        left = factors[1:]
        while left:
            near = [f for f in left if bound & set(f.names)]
            if not near:
                return False
            bound |= {n for f in near for n in f.names}
            left = [f for f in left if f not in near]
        return True

    def _bucket_key(self, bucket: Sequence[_Factor], names: tuple[str, ...]) -> Hashable:
        number: dict[str, int] = {}
        for f in bucket:
            for n in f.names:
                number.setdefault(n, len(number))
        return (tuple((f.key, tuple(number[n] for n in f.names)) for f in bucket), tuple(number[n] for n in names))

    def _guard(self, rows: int) -> None:
        if rows > self.max_rows:
            raise CostError(f"this rule needs a list of more than {quantity(self.max_rows)} rows", self._span(),
                            "give fewer candidates for its predicates, or raise max_rows")

    def _form(self, bucket: list[_Factor], keep: tuple[str, ...]) -> tuple[Form, dict[str, np.ndarray]]:
        """The form of a product of factors, over the bindings of all their variables."""
        bucket = sorted(bucket, key=lambda f: str(f.key))
        key = self._bucket_key(bucket, keep)
        read = [f for f in bucket if f.operand is not None]
        operands = tuple(f.operand for f in read if f.operand is not None)
        if key not in self._forms or keep:
            patterns = [f for f in bucket if f.pattern is not None and f.names]
            needed = {*keep, *(n for f in bucket if f.pattern is None for n in f.names)}
            wanted = [k for k, f in enumerate(patterns) if f.operand is not None or f.numbers is not None]
            conditions = tuple(dict.fromkeys(c for f in bucket for c in f.conditions))
            if patterns:
                joined = join_patterns([f.pattern for f in patterns if f.pattern is not None], wanted, needed,
                                       self._guard, conditions)
                n, variables = joined.n, joined.columns
                place = {id(patterns[k]): column for k, column in joined.places.items()}
            else:
                n, variables, place = 1, {}, {}
            factors: np.ndarray | None = None
            columns: dict[int, np.ndarray] = {}
            for f in bucket:
                if f.operand is None and f.numbers is None:
                    continue
                column = place[id(f)] if id(f) in place else self._places(f, variables, n)
                if f.numbers is not None:
                    part = f.numbers[column]
                    factors = part if factors is None else factors * part
                else:
                    columns[id(f)] = column
            found = tuple(columns[id(f)] for f in read), n, factors
            if keep:
                return Form(operands, *found, key), {name: variables[name] for name in keep}
            self._forms[key] = found
        return Form(operands, *self._forms[key], key), {}

    def _places(self, f: _Factor, variables: Mapping[str, np.ndarray], n: int) -> np.ndarray:
        """Where each row reads a dense factor, or a factor without variables."""
        if f.pattern is not None:
            place = 0 if f.pattern.places is None else int(f.pattern.places[0])
            return np.full(n, place, dtype=np.int32)
        column: Any = None
        for term, size in zip(f.terms, f.shape, strict=True):
            part = variables[term.name] + np.int32(term.offset) if isinstance(term, Var) else np.int32(term.index)
            column = part if column is None else column * np.int64(size) + part
        if column is None:
            column = np.zeros(n, dtype=np.int32)
        return np.array(np.broadcast_to(column, (n,)), dtype=np.int32 if math.prod(f.shape) < 2**31 else np.int64)

    def _sum(self, bucket: list[_Factor], names: tuple[str, ...]) -> _Factor:
        """A product of factors as one factor over the variables that are still needed."""
        bucket = sorted(bucket, key=lambda f: str(f.key))
        key: Hashable = ("sum", self._bucket_key(bucket, names), tuple(f.operand for f in bucket))
        if key not in self._made:
            self._made[key] = self._make_sum(bucket, names, key)
        made = self._made[key]
        if made.pattern is not None and made.names:
            return replace(made, names=names, pattern=made.pattern.renamed(names))
        return replace(made, names=names, terms=tuple(map(Var, names)))

    def _make_sum(self, bucket: list[_Factor], names: tuple[str, ...], key: Hashable) -> _Factor:
        form, columns = self._form(bucket, names)
        size = {n: s for f in bucket if f.pattern is not None for n, s in zip(f.names, f.pattern.sizes, strict=False)}
        pattern = None
        if not names:
            # the form alone has no columns of variables
            output, n_places = np.zeros(form.n_rows, dtype=np.int32), 1
        elif len(names) == 1:
            output, n_places = columns[names[0]], size[names[0]]
        else:
            pattern, output = project([columns[n] for n in names], names, tuple(size[n] for n in names))
            n_places = pattern.n
        shape = (n_places,) * (pattern is None and bool(names))
        if not form.operands:
            # nothing but numbers: counted now
            counted = np.bincount(output, weights=form.factors, minlength=n_places).astype(np.float64)
            return _Factor(names, key, pattern, tuple(map(Var, names)), shape, None, counted)
        live = any(self.live[o.value] for o in form.operands)
        value = self._value(Made(form, output, n_places), key, live)
        return _Factor(names, key, pattern, tuple(map(Var, names)), shape, Operand(value))

    # quantifiers

    def _product(self, product: Product, windows: Mapping[str, tuple[int, int]]) -> _Factor:
        """A quantifier: a product over rows, 1 for every value of its variable that has no row."""
        over = product.over
        inner = {**windows, over.name: (-over.low, self.sizes[over.type] - over.high)}
        terms = collect((c, part) for c, cube in product.terms for c, part in self._expand(c, cube, within=True))
        constant = sum(c * math.prod(self.sizes[v.type] + v.low - v.high for v in cube.variables)
                       for c, cube in terms if not cube.factors)
        outer = tuple(dict.fromkeys(names_in(product)))
        names = (*outer, over.name)
        too_wide = CostError(
            f"EXIST {over.name} ranges over all {self.sizes[over.type]:,} constants of {over.type} in this rule",
            self._span(), "give the quantified part a predicate that has facts")
        if constant != 1:
            raise too_wide
        found: list[tuple[Form, list[np.ndarray], float]] = []
        sizes: dict[str, int] = {}
        for c, cube in terms:
            if not cube.factors:
                continue
            own = {**inner, **self._windows(cube)}
            parts = self._factors(cube, own)
            if parts is None:
                continue
            used = {n for f in parts for n in f.names}
            if not set(names) <= used:
                raise too_wide
            times = math.prod(max(0, own[v.name][1] - own[v.name][0]) for v in cube.variables if v.name not in used)
            parts = self._cover(parts, own)
            sizes |= {n: s for f in parts if f.pattern is not None
                      for n, s in zip(f.names, f.pattern.sizes, strict=False)}
            form, columns = self._eliminate(parts, names, own)
            found.append((form, [columns[n] for n in names], float(c * times)))
        shown = tuple(sizes.get(n, 1) for n in names)
        joined = [np.concatenate([np.zeros(0, dtype=np.int32), *(columns[k] for _, columns, _ in found)])
                  for k in range(len(names))]
        pattern, number = project(joined, names, shown)
        self._n_products += 1
        key: Hashable = ("product", self._n_products)
        parts_made: list[tuple[int, float]] = []
        start, live = 0, False
        for form, _, coefficient in found:
            made = Made(form, number[start : start + form.n_rows], pattern.n)
            start += form.n_rows
            is_live = any(self.live[o.value] for o in form.operands)
            parts_made.append((self._value(made, (key, len(parts_made)), is_live), coefficient))
            live |= is_live
        minus_one = isinstance(product, _Minus)
        if len(outer) > 1:
            groups, output = project(pattern.columns[:-1], outer, shown[:-1])
            n_places = groups.n
        else:
            groups, output = None, pattern.columns[0] if outer else np.zeros(pattern.n, dtype=np.int32)
            n_places = self._size_of(outer[0], windows, sizes) if outer else 1
        value = self._value(Grouped(tuple(parts_made), output, n_places, minus_one), key, live)
        shape = (n_places,) * (groups is None and bool(outer))
        return _Factor(outer, key, groups, tuple(map(Var, outer)), shape, Operand(value))

    def _size_of(self, name: str, windows: Mapping[str, tuple[int, int]], sizes: Mapping[str, int]) -> int:
        return max(sizes.get(name, 0), windows[name][1])


class _Minus(Product):
    """A quantifier minus 1: zero where it has no rows."""
