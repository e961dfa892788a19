"""Cubes over sparse predicates to forms: variables are summed out one by one, each over the rows that exist.

Room: facts, normalize, ground -> **plan** -> execute.  Paper: Section 3.2, with lists in place of tensors.

    C(a,b) C(b,c) !C(a,c)  ->  C(a,b) C(b,c)  - C(a,b) C(b,c) C(a,c)  ->  forms (`forms.py`)

The cubes come from `cases.py`, the order of elimination from row counts (`buckets.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import CostError, Span
from ..facts.supports import Support
from ..ground.engine import Grounding
from ..ground.patterns import Pattern, box, project, select
from ..ground.sql import selection, table_names
from ..normalize.cubes import (
    Cube,
    Differ,
    Literal,
    NormalForm,
    NormalRule,
    Product,
    Range,
    Same,
    Var,
    names_in,
)
from ..normalize.cubes import Term as CubeTerm
from .buckets import Factor, bucket_key, next_bucket
from .cases import Cases, Minus
from .forms import Form, Grouped, Made, Operand, Present, ReadAll, Root, RowPlan, Value, WeightsOf
from .steps import quantity

# rows of one list; 4 bytes for each row and column
MAX_ROWS = 2**28
# rows of a list of all bindings of variables that no sparse literal binds
MAX_BOX = 2**22


def build_rows(form: NormalForm, sizes: Mapping[str, int], supports: Mapping[str, Support],
               observed: Collection[str] = (), max_rows: int = MAX_ROWS, masked: Collection[str] = (),
               grounding: Grounding | None = None, lists_short: bool = False) -> RowPlan:
    """Plan the violation counts of a theory with sparse predicates.

    Args:
        form: the rules as cubes, from `normalize_theory`.
        sizes: the number of constants of each type.
        supports: the sparse predicates.
        observed: predicates that are evidence as a whole; every row of a sparse one is true.
        max_rows: reject a rule that needs a list with more rows.
        masked: types of which some entities may be missing.
        grounding: how rows are made, and which of them this process has; by default all, by the built-in join.
        lists_short: also list the bindings of terms without sparse literals that have at most one variable.
    """
    return _Builder(form, sizes, supports, observed, max_rows, masked, grounding or Grounding(), lists_short).plan()


class _Builder:
    def __init__(self, form: NormalForm, sizes: Mapping[str, int], supports: Mapping[str, Support],
                 observed: Collection[str], max_rows: int, masked: Collection[str], grounding: Grounding,
                 lists_short: bool):
        self.form = form
        self.theory = form.theory
        self.sizes = sizes
        self.supports = supports
        self.observed = frozenset(observed)
        self.max_rows = max_rows
        self.grounding = grounding
        self.shares = grounding.shares
        self.lists_short = lists_short
        self.has_shares = any(support.is_share for support in supports.values())
        self._tables = table_names([p.name for p in form.theory.predicates])
        self.cases = Cases(form.theory, sizes, supports, masked, observed)
        self.present = self.cases.present
        self.values: list[Value] = []
        self.live: list[bool] = []
        self.number = 0
        self._n_products = 0
        # of the type of each variable of the rule: patterns of one variable have one size, whatever its window is
        self._size: dict[str, int] = {}
        self._known: dict[Hashable, int] = {}
        self._patterns: dict[Hashable, Pattern] = {}
        self._forms: dict[Hashable, tuple[tuple[np.ndarray, ...], int, np.ndarray | None]] = {}
        self._made: dict[Hashable, Factor] = {}

    def plan(self) -> RowPlan:
        roots: list[Root] = []
        constants: list[float] = []
        dense: list[NormalRule] = []
        short: set[Hashable] = set()
        for number, normal in enumerate(self.form.rules):
            self.number = number
            constant, left = 0.0, []
            for coefficient, cube in self.cases.of_rule(normal.terms, self._span()):
                is_sparse = self.cases.is_sparse(cube)
                if not is_sparse and not (self.lists_short and _is_short(cube)):
                    left.append((coefficient, cube))
                    continue
                root = self._root(coefficient / normal.n_clauses, cube)
                if isinstance(root, Root):
                    roots.append(root)
                    short |= set() if is_sparse else {root.form.key}
                else:
                    constant += root
            constants.append(constant)
            dense.append(replace(normal, terms=tuple(left)))
        return RowPlan(tuple(self.values), tuple(self.live), tuple(roots), tuple(constants),
                       replace(self.form, rules=tuple(dense)), frozenset(short))

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
            # with the offsets and constants that it is read at
            key = "weights", self.number, _shown(_by_number(cube.weight_at))
            factors.append(self._dense(cube.weight_at, shape, Operand(weights), key, ()))
        used = {n for f in factors for n in f.names}
        coefficient *= math.prod(max(0, high - low) for n, (low, high) in windows.items() if n not in used)
        if not coefficient:
            return 0.0
        form = self._eliminate(factors, (), windows)[0]
        count = float(form.n_rows if form.factors is None or form.operands else form.factors.sum())
        # of all processes, which must have the same roots
        count = float(self.shares.total(np.array([count]))[0])
        if count == 0:
            return 0.0
        return Root(form, coefficient, self.number) if form.operands else coefficient * count

    def _windows(self, cube: Cube) -> dict[str, tuple[int, int]]:
        return {v.name: self._window(v) for v in cube.variables}

    def _window(self, v: Range) -> tuple[int, int]:
        self._size[v.name] = self.sizes[v.type]
        return -v.low, self.sizes[v.type] - v.high

    def _factors(self, cube: Cube, windows: Mapping[str, tuple[int, int]]) -> list[Factor] | None:
        """The factors of a cube; None if one of them is zero everywhere."""
        conditions = [f for f in cube.factors if isinstance(f, (Same, Differ)) and any(names_in(f))]
        for f in cube.factors:
            # of two constants
            if isinstance(f, (Same, Differ)) and f not in conditions and (f.left == f.right) != isinstance(f, Same):
                return None
        found: list[Factor] = []
        placed: set[Same | Differ] = set()
        literals = [f for f in cube.factors if isinstance(f, Literal)]
        # marginals, and observed tensors, are zero where an entity does not exist
        is_zero = {t for f in literals for t in f.args if not f.negated and f.predicate not in self.present
                   and not (f.predicate in self.supports and f.predicate in self.observed)}
        for f in sorted(literals, key=lambda f: f.predicate not in self.supports):
            if f.predicate in self.present:
                (term,) = f.args
                if term not in is_zero:
                    name = self.present[f.predicate]
                    value = self._value(Present(name), Present(name), live=False)
                    key = f.predicate, str(replace(term, name=""))
                    found.append(self._dense(f.args, (self.sizes[name],), Operand(value), key, ()))
                continue
            names = {t.name for t in f.args if isinstance(t, Var)}
            own = [c for c in conditions if set(names_in(c)) <= names
                   and (isinstance(c, Differ) or f.predicate in self.supports)]
            found.append(self._literal(f, own, windows))
            placed |= set(own)
        # a condition that no literal has is a list of its own
        found += [self._same(c, windows) for c in conditions if c not in placed]
        found += [self._product(f, windows) for f in cube.factors if isinstance(f, Product)]
        return None if any(f.pattern is not None and not self._n_rows(f.pattern) for f in found) else found

    def _n_rows(self, pattern: Pattern) -> int:
        """The rows of a pattern, in all processes."""
        return int(self.shares.total(np.array([pattern.n]))[0]) if pattern.is_share else pattern.n

    def _same(self, condition: Same | Differ, windows: Mapping[str, tuple[int, int]]) -> Factor:
        """The bindings that make two terms equal."""
        terms = [condition.left, condition.right]
        variables = [t for t in terms if isinstance(t, Var)]
        assert isinstance(condition, Same)
        # of the first variable; a constant decides it
        first = variables[0]
        low, high = windows[first.name]
        columns = [np.arange(low, high, dtype=np.int32)]
        if len(variables) == 2:
            columns.append(columns[0] + np.int32(first.offset - variables[1].offset))
            low, high = windows[variables[1].name]
            keep = (columns[1] >= low) & (columns[1] < high)
        else:
            (index,) = (t.index for t in terms if not isinstance(t, Var))
            keep = columns[0] + first.offset == index
        names = tuple(t.name for t in variables)
        spans, sizes = tuple(windows[n] for n in names), tuple(self._size[n] for n in names)
        key: Hashable = ("same", _shown(replace(t, name="") if isinstance(t, Var) else t for t in terms), spans, sizes)
        if key not in self._patterns:
            self._patterns[key] = Pattern(names, tuple(c[keep] for c in columns), sizes)
        return Factor(names, key, self._patterns[key].renamed(names))

    def _literal(self, literal: Literal, conditions: Sequence[Same | Differ],
                 windows: Mapping[str, tuple[int, int]]) -> Factor:
        names = tuple(dict.fromkeys(t.name for t in literal.args if isinstance(t, Var)))
        # the same literal with variables by number
        number = {n: str(k) for k, n in enumerate(names)}
        args = _by_number(literal.args)
        tests = tuple((type(c).__name__, _shown(replace(t, name=number[t.name]) if isinstance(t, Var) else t
                                                for t in (c.left, c.right))) for c in conditions)
        spans = tuple(windows[n] for n in names)
        key: Hashable = (literal.predicate, _shown(args), spans, tests)
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
            support, own = self.supports[literal.predicate], {number[n]: windows[n] for n in names}
            self._patterns[key] = select(support, args, own, bound)
            self._patterns[key].source = selection(self._tables[literal.predicate], support, args, own, bound)
        return Factor(names, key, self._patterns[key].renamed(names), operand=operand)

    def _dense(self, terms: tuple[CubeTerm, ...], shape: tuple[int, ...], operand: Operand | None, key: Hashable,
               conditions: tuple[Differ, ...], numbers: np.ndarray | None = None) -> Factor:
        names = tuple(dict.fromkeys(t.name for t in terms if isinstance(t, Var)))
        return Factor(names, ("dense", key), None, terms, shape, operand, numbers, conditions)

    def _cover(self, factors: list[Factor], windows: Mapping[str, tuple[int, int]]) -> list[Factor]:
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
            sizes = tuple(self._size[n] for n in f.names)
            key = ("box", spans, sizes)
            if key not in self._patterns:
                self._patterns[key] = box(tuple(map(str, range(len(spans)))), spans, sizes)
            found.append(Factor(f.names, key, self._patterns[key].renamed(f.names)))
            bound |= set(f.names)
        return found

    def _value(self, value: Value, key: Hashable, live: bool) -> int:
        if key not in self._known:
            self._known[key] = len(self.values)
            self.values.append(value)
            self.live.append(live)
        return self._known[key]

    # elimination

    def _eliminate(self, factors: list[Factor], keep: tuple[str, ...], windows: Mapping[str, tuple[int, int]]
                   ) -> tuple[Form, dict[str, np.ndarray]]:
        """Sum out all variables that are not kept; return the last form, and the columns of the kept ones."""
        while True:
            factors = self._cover(factors, windows)
            bucket, rest = self._agreed(factors, *next_bucket(factors, keep))
            if not rest:
                return self._form(bucket, keep)
            needed = {n for f in rest for n in f.names} | set(keep)
            names = tuple(dict.fromkeys(n for f in bucket for n in f.names if n in needed))
            factors = [*rest, self._sum(bucket, names)]

    def _agreed(self, factors: list[Factor], bucket: list[Factor], rest: list[Factor]
                ) -> tuple[list[Factor], list[Factor]]:
        """The bucket that the first process chose: the counts of shares differ, and all must have the same plan."""
        if not self.has_shares:
            return bucket, rest
        own = np.array([any(f is g for g in bucket) for f in factors]) & (self.shares.share.rank == 0)
        chosen = self.shares.total(own.astype(np.int64))
        return ([f for f, is_in in zip(factors, chosen, strict=True) if is_in],
                [f for f, is_in in zip(factors, chosen, strict=True) if not is_in])

    def _guard(self, rows: int) -> None:
        if rows > self.max_rows:
            raise CostError(f"this rule needs a list of more than {quantity(self.max_rows)} rows", self._span(),
                            "give fewer candidates for its predicates, or raise max_rows")

    def _form(self, bucket: list[Factor], keep: tuple[str, ...]) -> tuple[Form, dict[str, np.ndarray]]:
        """The form of a product of factors, over the bindings of all their variables."""
        bucket = sorted(bucket, key=lambda f: str(f.key))
        key = bucket_key(bucket, keep)
        read = [f for f in bucket if f.operand is not None]
        operands = tuple(f.operand for f in read if f.operand is not None)
        if key not in self._forms or keep:
            patterns = [f for f in bucket if f.pattern is not None and f.names]
            needed = {*keep, *(n for f in bucket if f.pattern is None for n in f.names)}
            wanted = [k for k, f in enumerate(patterns) if f.operand is not None or f.numbers is not None]
            conditions = tuple(dict.fromkeys(c for f in bucket for c in f.conditions))
            if patterns:
                # rows without values are only counted
                is_grouped = all(f.operand is None and f.numbers is None for f in bucket)
                joined = self.grounding.join([f.pattern for f in patterns if f.pattern is not None], wanted, needed,
                                             self._guard, conditions, is_grouped)
                n, variables, factors = joined.n, joined.columns, joined.counts
                place = {id(patterns[k]): column for k, column in joined.places.items()}
            else:
                # the one row without variables is in the first share
                n, variables, factors, place = int(self.shares.share.rank == 0), {}, None, {}
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

    def _places(self, f: Factor, variables: Mapping[str, np.ndarray], n: int) -> np.ndarray:
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

    def _sum(self, bucket: list[Factor], names: tuple[str, ...]) -> Factor:
        """A product of factors as one factor over the variables that are still needed."""
        bucket = sorted(bucket, key=lambda f: str(f.key))
        key: Hashable = ("sum", bucket_key(bucket, names), tuple(f.operand for f in bucket))
        if key not in self._made:
            self._made[key] = self._make_sum(bucket, names, key)
        made = self._made[key]
        if made.pattern is not None and made.names:
            return replace(made, names=names, pattern=made.pattern.renamed(names))
        return replace(made, names=names, terms=tuple(map(Var, names)))

    def _make_sum(self, bucket: list[Factor], names: tuple[str, ...], key: Hashable) -> Factor:
        form, columns = self._form(bucket, names)
        size = {n: s for f in bucket if f.pattern is not None for n, s in zip(f.names, f.pattern.sizes, strict=False)}
        pattern = None
        if not names:
            # the form alone has no columns of variables
            output, n_places = np.zeros(form.n_rows, dtype=np.int32), 1
        elif len(names) == 1:
            output, n_places = columns[names[0]], size[names[0]]
        else:
            pattern, output = project([columns[n] for n in names], names, tuple(size[n] for n in names),
                                      self.shares.union)
            n_places = pattern.n
        shape = (n_places,) * (pattern is None and bool(names))
        if not form.operands:
            # nothing but numbers: counted now
            counted = self.shares.total(np.bincount(output, form.factors, n_places).astype(np.float64))
            return Factor(names, key, pattern, tuple(map(Var, names)), shape, None, counted)
        live = any(self.live[o.value] for o in form.operands)
        value = self._value(Made(form, output, n_places), key, live)
        return Factor(names, key, pattern, tuple(map(Var, names)), shape, Operand(value))

    # quantifiers

    def _product(self, product: Product, windows: Mapping[str, tuple[int, int]]) -> Factor:
        """A quantifier: a product over rows, 1 for every value of its variable that has no row.

        Or 0 for such a value: then the product counts only where every value has a row.
        """
        over = product.over
        inner = {**windows, over.name: self._window(over)}
        terms = self.cases.of_quantifier(product, self._span())
        elsewhere = self.cases.elsewhere(terms)
        outer = tuple(dict.fromkeys(names_in(product)))
        names = (*outer, over.name)
        too_wide = CostError(
            f"EXIST {over.name} ranges over all {self.sizes[over.type]:,} constants of {over.type} in this rule",
            self._span(), "give the quantified part a predicate that has facts")
        if elsewhere not in (0, 1) or (elsewhere == 0 and over.type in self.present.values()):
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
        pattern, number = project(joined, names, shown, self.shares.union)
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
        minus_one = isinstance(product, Minus)
        if elsewhere == 0:
            all_groups, output = project(pattern.columns[:-1], outer, shown[:-1]) if outer else (
                Pattern((), (np.zeros(1, dtype=np.int32),), (1,)), np.zeros(pattern.n, dtype=np.int32))
            low, high = inner[over.name]
            whole = np.flatnonzero(np.bincount(output, minlength=all_groups.n) == high - low).astype(np.int32)
            groups = Pattern(outer, tuple(c[whole] for c in all_groups.columns), all_groups.sizes, whole)
            n_places = all_groups.n
        elif len(outer) > 1:
            groups, output = project(pattern.columns[:-1], outer, shown[:-1])
            n_places = groups.n
        else:
            groups = None
            output = pattern.columns[0] if outer else np.zeros(pattern.n, dtype=np.int32)
            n_places = self._size_of(outer[0], windows, sizes) if outer else 1
        value = self._value(Grouped(tuple(parts_made), output, n_places, minus_one, float(elsewhere)), key,
                            live)
        shape = (n_places,) * (groups is None and bool(outer))
        return Factor(outer, key, groups, tuple(map(Var, outer)), shape, Operand(value))

    def _size_of(self, name: str, windows: Mapping[str, tuple[int, int]], sizes: Mapping[str, int]) -> int:
        return max(sizes.get(name, 0), windows[name][1])


def _by_number(terms: tuple[CubeTerm, ...]) -> tuple[CubeTerm, ...]:
    """The terms with the number of each variable, in order of appearance, for its name."""
    number = {n: str(k) for k, n in enumerate(dict.fromkeys(t.name for t in terms if isinstance(t, Var)))}
    return tuple(replace(t, name=number[t.name]) if isinstance(t, Var) else t for t in terms)


def _shown(terms: Iterable[CubeTerm]) -> tuple[str, ...]:
    """Terms as parts of a key: a constant may have the name of a number, too."""
    return tuple(str(t) if isinstance(t, Var) else f"#{t.index}" for t in terms)


def _is_short(cube: Cube) -> bool:
    """Whether a cube of literals has at most one variable, which a literal binds."""
    literals = [f for f in cube.factors if isinstance(f, Literal)]
    bound = {n for f in literals for n in names_in(f)}
    return (bool(literals) and not any(isinstance(f, Product) for f in cube.factors) and len(cube.variables) <= 1
            and {v.name for v in cube.variables} <= bound)
