"""Up: turn each cube into contractions, so that each rule has its expected number of violations.

Room: normalize -> **plan** -> execute.  Paper: Section 3.2, Eq. 4-5.

    Smokes(x) ^ Friends(x,y) => Smokes(y)      violated by  S(x) F(x,y) !S(y)
    einsum "a,ab,b->"                          one count from one walk up; `adjoint.py` walks down for the messages
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ..arguments import AtLeastOne, Count, checked
from ..errors import CostError
from ..normalize.budget import Budget
from ..normalize.cubes import (
    Const,
    Cube,
    Differ,
    Literal,
    NormalForm,
    NormalRule,
    Product,
    Range,
    Same,
    Signed,
    Var,
    collect,
    names_in,
)
from ..normalize.cubes import Term as CubeTerm
from ..normalize.meet import PER_REWRITE, apply, split_difference, unify
from ..parse.syntax import Atom, atoms
from ..parse.theory import Theory
from .adjoint import walk_down
from .steps import At, Axis, Combine, Compare, Multiply, Plan, Read, RulePlan, Scaled, Step, Weigh, inputs, quantity
from .values import Operand, Values

# elements of the largest value that a plan may compute; 2^30 elements are 4 GiB in float32
MAX_ELEMENTS = 2**30
MAX_SLICES = 4096


@checked
def build_plan(form: NormalForm, sizes: Mapping[str, Count] | None = None, observed: Collection[str] = (),
               max_elements: AtLeastOne = MAX_ELEMENTS) -> Plan:
    """Plan the violation counts of a theory and all their derivatives.

    >>> from logicmp import normalize_theory, parse_theory
    >>> form = normalize_theory(parse_theory("2 Smokes(x) => Cancer(x)"))
    >>> print(build_plan(form, {"thing": 3}))
    2 Smokes(x) => Cancer(x)
      %0 = Smokes(a)
      %1 = !Cancer(a)
      %2 = %0, %1   einsum 'a,a->'
      violations = %2()
    <BLANKLINE>
    messages
      d/dCancer(a) -= w1 %0(a)
      d/dSmokes(a) += w1 %1(a)
    <BLANKLINE>
    groundings 3; multiply-adds per iteration: naive 6, planned 0 in 0 steps; largest value 3 elements, 12B in float32
    <BLANKLINE>

    Args:
        form: the rules as cubes, from `normalize_theory`.
        sizes: the number of constants of each type, where the theory does not list them all.
        observed: predicates that are evidence; values that depend only on them are computed once.
        max_elements: slice a value with more elements than this, or reject the rule that needs it.
    """
    return _Builder(form, form.theory.with_sizes(sizes or {}), observed, max_elements).plan()


@dataclass
class _Root:
    """One term of a rule's violation count, with the weights from which its derivatives start."""

    value: Operand | None
    coefficient: float
    counts: tuple[Axis, ...]
    # for rules with one weight per constant: the weights, along the axes of the value
    weights: Scaled | None


class _Builder:
    def __init__(self, form: NormalForm, sizes: Mapping[str, int], observed: Collection[str], max_elements: int):
        self.form = form
        self.sizes = sizes
        self.observed = frozenset(observed)
        # a value as large as a predicate is never too large: the predicate's message has that size
        read = {literal.predicate for rule in form.rules for _, cube in rule.terms for literal in _literals(cube)}
        predicates = [math.prod(sizes[t] for t in p.types) for p in form.theory.predicates if p.name in read]
        self.max_elements = max(max_elements, *predicates, 1)
        self.values = Values(sizes, self.observed, {p.name for p in form.theory.predicates if p.symmetric})
        self.rule = 0

    def plan(self) -> Plan:
        rules: list[RulePlan] = []
        seeds: dict[int, list[Scaled]] = {}
        for number, normal in enumerate(self.form.rules):
            self.rule, self.values.span = number, normal.rule.span
            before = len(self.values.steps)
            roots = [root for coefficient, cube in ready(normal, self.form.theory, self.sizes)
                     for root in self._roots(coefficient / normal.n_clauses, cube)]
            counts = self.values.add_up(self._count(root) for root in roots)
            for root in roots:
                if root.value is not None:
                    seeds.setdefault(root.value[0], []).append(self._seed(root))
            rules.append(self._rule_plan(normal, counts, roots, tuple(range(before, len(self.values.steps)))))
        self.values.span = None
        messages = walk_down(self.values, seeds)
        steps = self.values.steps
        counted = (term for rule in rules for term in (*rule.counts, *(rule.energies or ())))
        return Plan(
            tuple(steps), tuple(messages), tuple(rules),
            frozenset(v for v in range(len(steps)) if not self.values.live[v]),
            self._needed(m.term for m in messages), self._needed(counted), tuple(sorted(self.sizes.items())),
            self._is_sized())

    def _is_sized(self) -> bool:
        return (self.form.is_sized or any(cube.needs for rule in self.form.rules for _, cube in rule.terms)
                or any(axis.stop is not None for step in self.values.steps for axis in step.axes))

    def _needed(self, terms: Iterable[Scaled | None]) -> tuple[int, ...]:
        """Return the values to compute for some terms; the plan drops all others."""
        needed: set[int] = set()
        todo = [term.value for term in terms if term is not None and term.value is not None]
        while todo:
            value = todo.pop()
            if value not in needed:
                needed.add(value)
                todo += inputs(self.values.steps[value])
        return tuple(sorted(needed))

    def _elements(self, value: int) -> int:
        return math.prod(self.values.size(axis) for axis in self.values.steps[value].axes)

    def _too_large(self, elements: float) -> CostError:
        rule = self.form.rules[self.rule].rule
        return CostError(f"this rule needs a value of {quantity(elements)} elements, {quantity(4 * elements)}B in "
                         f"float32 (limit {quantity(self.max_elements)} elements)", rule.span,
                         "split the rule into rules with fewer variables each, or raise max_elements")

    def _rule_plan(self, normal: NormalRule, counts: list[Scaled], roots: list[_Root],
                   values: tuple[int, ...]) -> RulePlan:
        rule, theory = normal.rule, self.form.theory
        ranges = tuple(tuple(_axis(v) for v in sorted(clause, key=lambda v: _weight_place(v, rule.per_constant)))
                       for clause in normal.groundings)
        latent = {leaf.predicate for leaf in atoms(rule.formula) if isinstance(leaf, Atom)} - self.observed
        spreads = [tuple(Axis(t) for t in theory.predicate[name].types) for name in sorted(latent)]
        spread = max(spreads, key=lambda axes: math.prod(self.values.size(a) for a in axes), default=())
        n_atoms = sum(isinstance(leaf, Atom) for leaf in atoms(rule.formula))
        energies = tuple(self._energies(roots)) if rule.per_constant else None
        return RulePlan(str(rule), rule.span, ranges, len(rule.per_constant), n_atoms, spread, normal.n_clauses,
                        tuple(counts), energies, values)

    # up: cubes to values

    def _roots(self, coefficient: float, cube: Cube) -> list[_Root]:
        """Return the sum of a cube, as one root, or as one for each slice if a value would be too large otherwise."""
        whole = {v.name: _axis(v) for v in cube.variables}
        if any(self.values.size(axis) == 0 for axis in whole.values()):
            return []
        roots = [self._root(coefficient, cube, whole)]
        # the weights are as large as the user's tensor, with or without slices
        worst = self._largest(roots[0], (Read, Weigh))
        if worst is not None and self._elements(worst) > self.max_elements:
            # the values made so far are no longer needed, and dropped
            roots = [self._root(coefficient, cube, ranges) for ranges in self._slices(whole, worst)]
        for root in roots:
            # no value of the walk down is larger than the value it is the gradient of: a root that fits is enough
            worst = self._largest(root, (Read,))
            if worst is not None and self._elements(worst) > self.max_elements:
                raise self._too_large(self._elements(worst))
        return roots

    def _largest(self, root: _Root, without: tuple[type[Step], ...]) -> int | None:
        """Return the largest value that a root needs, earlier rules' values included."""
        value = None if root.value is None else Scaled(root.value[0])
        made = (v for v in self._needed([value, root.weights]) if not isinstance(self.values.steps[v], without))
        return max(made, key=self._elements, default=None)

    def _slices(self, whole: dict[str, Axis], value: int) -> list[dict[str, Axis]]:
        """Return the ranges of a cube's variables, the longest index of a value sliced so that the value fits."""
        axes = self.values.steps[value].axes
        able = [name for name, axis in whole.items() if axis in axes]
        name = max(able, key=lambda n: self.values.size(whole[n]), default=None)
        size = 1 if name is None else self.values.size(whole[name])
        step = size * self.max_elements // self._elements(value)
        if name is None or step == 0 or size / step > MAX_SLICES:
            raise self._too_large(self._elements(value) / size)
        return [{**whole, name: replace(whole[name], start=start, stop=min(start + step, size))}
                for start in range(0, size, step)]

    def _root(self, coefficient: float, cube: Cube, ranges: Mapping[str, Axis]) -> _Root:
        weigh = self._weigh(cube, ranges)
        value = self.values.contract(self._operands(cube, ranges), () if weigh is None else weigh[1])
        used = {name for f in cube.factors for name in names_in(f)}
        counts = tuple(axis for name, axis in ranges.items() if name not in used)
        weights = None if weigh is None else self._weights_along(weigh, value, ranges, used)
        return _Root(value, coefficient, counts, weights)

    def _weights_along(self, weigh: Operand, value: Operand | None, ranges: Mapping[str, Axis],
                       used: set[str]) -> Scaled:
        """The weights along the axes that the value has; summed over variables that are in no literal."""
        letters = () if value is None else value[1]
        summed = self.values.contract([weigh], letters)
        assert summed is not None
        # a variable in no literal is either summed with the weights, or it counts its entities
        counts = tuple(axis for name, axis in ranges.items() if name not in used and name not in weigh[1])
        return Scaled(summed[0], tuple(letters.index(name) for name in summed[1]), counts=counts)

    def _operands(self, cube: Cube, ranges: Mapping[str, Axis]) -> list[Operand]:
        apart: dict[int, list[Differ]] = {}
        loose: list[Same | Differ] = []
        for factor in cube.factors:
            if isinstance(factor, Differ) and (able := hosts(cube, factor)):
                # on all literals of one predicate, though one is enough: they are then more often the same value
                for k, other in enumerate(cube.factors):
                    if other in able and isinstance(other, Literal) and other.predicate == able[0].predicate:
                        apart.setdefault(k, []).append(factor)
            elif isinstance(factor, (Same, Differ)):
                loose.append(factor)
        operands = [self._compare(factor, ranges) for factor in loose]
        for k, factor in enumerate(cube.factors):
            if isinstance(factor, Literal):
                operands.append(self._read(factor, ranges, apart.get(k, [])))
            elif isinstance(factor, Product):
                operands.append(self._product(factor, ranges))
        return operands

    def _read(self, literal: Literal, ranges: Mapping[str, Axis], apart: list[Differ]) -> Operand:
        args, letters = _arguments(literal.args)
        pairs = set()
        for d in apart:
            i, j = sorted(letters.index(t.name) for t in (d.left, d.right) if isinstance(t, Var))
            pairs.add((i, j))
        axes = tuple(ranges[name] for name in letters)
        read = Read(literal.predicate, args, axes, literal.negated, literal.labels, tuple(sorted(pairs)))
        return self.values.add(read), letters

    def _compare(self, factor: Same | Differ, ranges: Mapping[str, Axis]) -> Operand:
        (left, right), letters = _arguments((factor.left, factor.right))
        axes = tuple(ranges[name] for name in letters)
        return self.values.add(Compare(left, right, axes, isinstance(factor, Same))), letters

    def _weigh(self, cube: Cube, ranges: Mapping[str, Axis]) -> Operand | None:
        if not cube.weight_at:
            return None
        args, letters = _arguments(cube.weight_at)
        return self.values.add(Weigh(self.rule, args, tuple(ranges[name] for name in letters))), letters

    def _product(self, product: Product, outer: Mapping[str, Axis]) -> Operand:
        """A quantifier: a sum of cubes for each value of its variable, then the product of the sums."""
        name = product.over.name
        ranges = {**outer, name: _axis(product.over)}
        letters: dict[str, None] = {}
        terms: list[tuple[Operand | None, float, tuple[Axis, ...]]] = []
        for coefficient, cube in product.terms:
            own = {v.name: _axis(v) for v in cube.variables}
            value = self.values.contract(self._operands(cube, {**ranges, **own}), ranges)
            used = {n for f in cube.factors for n in names_in(f)}
            terms.append((value, coefficient, tuple(axis for n, axis in own.items() if n not in used)))
            letters.update(dict.fromkeys(value[1] if value is not None else ()))
        letters.pop(name, None)
        order = (*letters, name)
        scaled = self.values.add_up(
            Scaled(None if value is None else value[0],
                   () if value is None else tuple(order.index(n) for n in value[1]), coefficient, counts)
            for value, coefficient, counts in terms)
        axes = tuple(ranges[n] for n in order)
        total = self.values.add(Combine(tuple(scaled), axes))
        return self.values.add(Multiply(total, len(order) - 1, axes[:-1])), order[:-1]

    # counts, energies and seeds

    def _count(self, root: _Root) -> Scaled:
        summed = None if root.value is None else self.values.contract([root.value], ())
        return Scaled(None if summed is None else summed[0], (), root.coefficient, root.counts)

    def _seed(self, root: _Root) -> Scaled:
        if root.weights is None:
            return Scaled(None, (), root.coefficient, root.counts, self.rule)
        return replace(root.weights, coefficient=root.coefficient)

    def _energies(self, roots: list[_Root]) -> list[Scaled]:
        """The weighted counts of a rule with one weight per constant."""
        found = []
        for root in roots:
            if root.weights is None:
                continue
            assert root.weights.value is not None
            letters = () if root.value is None else root.value[1]
            weights: Operand = root.weights.value, tuple(letters[k] for k in root.weights.axes)
            total = self.values.contract([weights] if root.value is None else [root.value, weights], ())
            assert total is not None
            found.append(Scaled(total[0], (), root.coefficient, root.weights.counts))
        return self.values.add_up(found)


def _literals(cube: Cube) -> Iterator[Literal]:
    for factor in cube.factors:
        if isinstance(factor, Literal):
            yield factor
        elif isinstance(factor, Product):
            for _, inner in factor.terms:
                yield from _literals(inner)


def _axis(over: Range) -> Axis:
    return Axis(over.type, over.low, over.high)


def _arguments(terms: tuple[CubeTerm, ...]) -> tuple[tuple[At, ...], tuple[str, ...]]:
    """Arguments by axis number, and the variable of each axis."""
    letters = tuple(dict.fromkeys(t.name for t in terms if isinstance(t, Var)))
    args = tuple(At(None, t.index) if isinstance(t, Const) else At(letters.index(t.name), t.offset) for t in terms)
    return args, letters


def _weight_place(v: Range, per_constant: tuple[str, ...]) -> int:
    """Variables with weights of their own come last, in the order of the weights' axes."""
    return per_constant.index(v.name) if v.name in per_constant else -1


def ready(normal: NormalRule, theory: Theory, sizes: Mapping[str, int]) -> tuple[Signed, ...]:
    """The cubes of a rule, rewritten so that a literal hosts each condition `[x!=y]` on the cube's own variables."""
    found: list[Signed] = []
    todo = list(normal.terms)
    # every condition that no literal hosts doubles the cubes
    budget = Budget(normal.rule)
    while todo:
        coefficient, cube = todo.pop(0)
        if any(sizes[t] < n for t, n in cube.needs):
            continue
        parts = _split(cube, theory)
        if parts is None:
            found.append((coefficient, cube))
        else:
            budget.spend(PER_REWRITE + len(cube.factors))
            todo[:0] = [(coefficient * c, part) for c, part in parts]
    return collect(found)


def _split(cube: Cube, theory: Theory) -> tuple[Signed, ...] | None:
    """One rewriting of a cube into several, or None if it needs none."""
    known = theory.sizes
    for factor in cube.factors:
        if isinstance(factor, Differ) and not hosts(cube, factor):
            own = {v.name for v in cube.variables}
            if all(isinstance(t, Const) or t.name in own for t in (factor.left, factor.right)):
                return split_difference(cube, factor, known)
    # products of a symmetric predicate's off-diagonal part with itself are shared: one product instead of three
    counts = Counter(f.predicate for f in cube.factors if isinstance(f, Literal))
    for factor in cube.factors:
        # more of them would make a product for each subset
        if not isinstance(factor, Literal) or not 3 <= counts[factor.predicate] <= 4:
            continue
        if not theory.predicate[factor.predicate].symmetric:
            continue
        rest = tuple(f for f in cube.factors if f is not factor)
        if factor.negated:
            positive = replace(factor, negated=False)
            return (1, replace(cube, factors=rest)), (-1, replace(cube, factors=(*rest, positive)))
        left, right = factor.args
        if left != right and all(isinstance(t, Var) and not t.offset for t in (left, right)):
            apart = Differ(left, right).in_order()
            names = {v.name for v in cube.variables}
            meeting = unify([(left, right)], names.__contains__)
            if apart not in cube.factors and meeting is not None and not meeting.equal:
                met = apply(cube, meeting, known)
                off = (1, replace(cube, factors=(*cube.factors, apart)))
                return (off,) if met is None else (off, (1, met))
    return None


def hosts(cube: Cube, apart: Differ) -> list[Literal]:
    """The literals that have both terms of a condition as arguments, without offset."""
    if not all(isinstance(t, Var) and not t.offset for t in (apart.left, apart.right)):
        return []
    return [f for f in cube.factors if isinstance(f, Literal) and apart.left in f.args and apart.right in f.args]
