"""Turn each cube into contractions, and every message into an adjoint.

Stage: normalize -> **plan** -> execute.  Paper: Section 3.2, Eq. 4-5; ARCHITECTURE section 1.

    Smokes(x) ^ Friends(x,y) => Smokes(y)      violated by  S(x) F(x,y) !S(y)
    einsum "a,ab,b->"                          three messages from one walk up and one down

V is multilinear, so its derivative with respect to an atom is the sum of that atom's grounding messages. The walk down
is reverse-mode differentiation, done here on the plan: what it needs is again contractions of the same values, and many
of them exist already.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ..errors import CostError
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
from ..normalize.meet import apply, split_difference, unify
from ..parse.syntax import Atom, atoms
from ..parse.theory import Theory
from .steps import (
    At,
    Axis,
    Combine,
    Compare,
    Contract,
    Message,
    Multiply,
    Others,
    Plan,
    Read,
    RulePlan,
    Scaled,
    Weigh,
    inputs,
    quantity,
)
from .values import LETTERS, Operand, Values

# elements of the largest value a plan may make; 2^30 of them are 4 GiB in float32
MAX_ELEMENTS = 2**30
MAX_PIECES = 4096


def build_plan(form: NormalForm, sizes: Mapping[str, int] | None = None, observed: Collection[str] = (),
               max_elements: int = MAX_ELEMENTS) -> Plan:
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
        sizes: the number of constants of each type, where the theory does not list them all.
        observed: predicates that are evidence: what depends on nothing else is computed once.
        max_elements: refuse, or cut into pieces, a value with more elements than this.
    """
    return _Builder(form, form.theory.with_sizes(sizes or {}), observed, max_elements).plan()


@dataclass
class _Root:
    """One term of a rule's violation count, with the seed from which its derivatives start."""

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
        # what is no bigger than a predicate itself is never too big: its message has that size
        predicates = [math.prod(sizes[t] for t in p.types) for p in form.theory.predicates]
        self.max_elements = max(max_elements, *predicates, 1)
        self.values = Values(sizes, self.observed, {p.name for p in form.theory.predicates if p.symmetric})
        self.rule = 0

    def plan(self) -> Plan:
        rules: list[RulePlan] = []
        seeds: dict[int, list[Scaled]] = {}
        for number, normal in enumerate(self.form.rules):
            self.rule = number
            before = len(self.values.steps)
            roots = [root for coefficient, cube in ready(normal.terms, self.form.theory, self.sizes)
                     for root in self._roots(coefficient / normal.n_clauses, cube)]
            counts = self.values.add_up(self._count(root) for root in roots)
            for root in roots:
                if root.value is not None:
                    seeds.setdefault(root.value[0], []).append(self._seed(root))
            rules.append(self._rule_plan(normal, counts, roots, tuple(range(before, len(self.values.steps)))))
        messages = self._walk_down(seeds)
        steps = self.values.steps
        used = [m.term.value for m in messages if m.term.value is not None]
        counted = [t.value for rule in rules for t in (*rule.counts, *(rule.energies or ())) if t.value is not None]
        return Plan(
            tuple(steps), tuple(messages), tuple(rules),
            frozenset(v for v in range(len(steps)) if not self.values.live[v]),
            self._needed(used), self._needed(counted), tuple(sorted(self.sizes.items())), self._is_sized())

    def _is_sized(self) -> bool:
        return (self.form.is_sized or any(cube.needs for rule in self.form.rules for _, cube in rule.terms)
                or any(axis.stop is not None for step in self.values.steps for axis in step.axes))

    def _needed(self, values: list[int]) -> tuple[int, ...]:
        """What has to be computed for some values: the rest is dropped."""
        needed: set[int] = set()
        todo = list(values)
        while todo:
            value = todo.pop()
            if value not in needed:
                needed.add(value)
                todo += inputs(self.values.steps[value])
        for value in needed:
            elements = math.prod(self.values.size(axis) for axis in self.values.steps[value].axes)
            if elements > self.max_elements and not isinstance(self.values.steps[value], Read):
                raise self._too_big(elements)
        return tuple(sorted(needed))

    def _too_big(self, elements: float) -> CostError:
        rule = self.form.rules[self.rule].rule
        return CostError(f"this rule needs a value of {quantity(elements)} elements, {quantity(4 * elements)}B in "
                         f"float32 (limit {quantity(self.max_elements)} elements)", rule.span,
                         "split the rule so that fewer variables are in play at once, or raise max_elements")

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
        """The sum of a cube, in pieces if a value on the way to it would be too big otherwise."""
        whole = {v.name: _axis(v) for v in cube.variables}
        if any(self.values.size(axis) == 0 for axis in whole.values()):
            return []
        before = len(self.values.steps)
        root = self._root(coefficient, cube, whole)
        worst = max(range(before, len(self.values.steps)), key=self._made_elements, default=None)
        if worst is None or self._made_elements(worst) <= self.max_elements:
            return [root]
        # nothing needs what was made so far: it will be dropped
        return [self._root(coefficient, cube, piece) for piece in self._pieces(whole, worst)]

    def _made_elements(self, value: int) -> int:
        step = self.values.steps[value]
        if isinstance(step, (Read, Weigh)):
            return 0
        return math.prod(self.values.size(axis) for axis in step.axes)

    def _pieces(self, whole: dict[str, Axis], value: int) -> list[dict[str, Axis]]:
        """The ranges of a cube's variables with the longest index of a value cut, so that the value fits."""
        axes = self.values.steps[value].axes
        able = [name for name, axis in whole.items() if axis in axes]
        name = max(able, key=lambda n: self.values.size(whole[n]), default=None)
        size = 1 if name is None else self.values.size(whole[name])
        step = size * self.max_elements // self._made_elements(value)
        if name is None or step == 0 or size / step > MAX_PIECES:
            raise self._too_big(self._made_elements(value) / size)
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
        """The weights along the axes that the value has; summed over variables that stand in no literal."""
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
                # on all literals of one predicate, though one would do: they are then more often the same value
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
        """Of a rule with one weight per constant: the weighted counts."""
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

    # down: adjoints to messages

    def _walk_down(self, adjoints: dict[int, list[Scaled]]) -> list[Message]:
        """Reverse-mode differentiation of all counts at once, each times its weight."""
        messages: list[Message] = []
        for value in range(len(self.values.steps) - 1, -1, -1):
            step = self.values.steps[value]
            if value not in adjoints or not self.values.live[value]:
                continue
            if isinstance(step, Read):
                messages += (Message(value, term, term.value in self.values.symmetric and len(term.axes) == 2)
                             for term in self.values.add_up(adjoints[value]))
                continue
            terms = self.values.add_up(adjoints[value])
            if not terms:
                continue
            adjoint = self.values.combine(terms, step.axes)
            for operand, term in self._pull_back(step, adjoint):
                adjoints.setdefault(operand, []).append(term)
        return messages

    def _pull_back(self, step: object, adjoint: Scaled) -> list[tuple[int, Scaled]]:
        """The adjoint of a step, as adjoints of the values it is made of."""
        live = self.values.live
        found: list[tuple[int, Scaled]] = []
        if isinstance(step, Contract):
            left_side, output = step.equation.split("->")
            terms = left_side.split(",")
            above = self._as_operand(adjoint, tuple(output))
            for k, operand in enumerate(step.operands):
                if live[operand]:
                    others = [(v, tuple(terms[j])) for j, v in enumerate(step.operands) if j != k]
                    found.append((operand, self._contribution(adjoint, [*above, *others], tuple(terms[k]))))
        elif isinstance(step, Combine):
            output_letters = tuple(LETTERS[: len(step.axes)])
            above = self._as_operand(adjoint, output_letters)
            for term in step.terms:
                if term.value is not None and live[term.value]:
                    letters = tuple(output_letters[k] for k in term.axes)
                    # spread on the way up is summed on the way down
                    spread = tuple(axis for k, axis in enumerate(step.axes)
                                   if k not in term.axes and k not in adjoint.axes)
                    scaled = replace(adjoint, coefficient=adjoint.coefficient * term.coefficient,
                                     counts=adjoint.counts + term.counts + spread)
                    found.append((term.value, self._contribution(scaled, above, letters)))
        else:
            assert isinstance(step, Multiply)
            inner = self.values.steps[step.value]
            letters = tuple(LETTERS[: len(inner.axes)])
            above = self._as_operand(adjoint, tuple(n for k, n in enumerate(letters) if k != step.over))
            rest = self.values.add(Others(step.value, step.over, inner.axes))
            found.append((step.value, self._contribution(adjoint, [*above, (rest, letters)], letters)))
        return found

    def _as_operand(self, adjoint: Scaled, letters: tuple[str, ...]) -> list[Operand]:
        if adjoint.value is None:
            return []
        return [(adjoint.value, tuple(letters[k] for k in adjoint.axes))]

    def _contribution(self, adjoint: Scaled, operands: list[Operand], letters: tuple[str, ...]) -> Scaled:
        value = self.values.contract(operands, letters)
        if value is None:
            return replace(adjoint, value=None, axes=())
        return replace(adjoint, value=value[0], axes=tuple(letters.index(n) for n in value[1]))


def _axis(over: Range) -> Axis:
    return Axis(over.type, over.low, over.high)


def _arguments(terms: tuple[CubeTerm, ...]) -> tuple[tuple[At, ...], tuple[str, ...]]:
    """Arguments by axis number, and the variables that the axes are."""
    letters = tuple(dict.fromkeys(t.name for t in terms if isinstance(t, Var)))
    args = tuple(At(None, t.index) if isinstance(t, Const) else At(letters.index(t.name), t.offset) for t in terms)
    return args, letters


def _weight_place(v: Range, per_constant: tuple[str, ...]) -> int:
    """Variables with weights of their own come last, in the order of the weights' axes."""
    return per_constant.index(v.name) if v.name in per_constant else -1


def ready(terms: tuple[Signed, ...], theory: Theory, sizes: Mapping[str, int]) -> tuple[Signed, ...]:
    """The cubes of a rule, rewritten until every condition can be a property of a literal."""
    found: list[Signed] = []
    todo = list(terms)
    while todo:
        coefficient, cube = todo.pop(0)
        if any(sizes[t] < n for t, n in cube.needs):
            continue
        parts = _split(cube, theory)
        if parts is None:
            found.append((coefficient, cube))
        else:
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
    # of a symmetric predicate, products of its off-diagonal part with itself are shared: one product instead of three
    counts = Counter(f.predicate for f in cube.factors if isinstance(f, Literal))
    for factor in cube.factors:
        if not isinstance(factor, Literal) or counts[factor.predicate] < 3:
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
    """The literals that have both terms of a condition among their arguments, unshifted."""
    if not all(isinstance(t, Var) and not t.offset for t in (apart.left, apart.right)):
        return []
    return [f for f in cube.factors if isinstance(f, Literal) and apart.left in f.args and apart.right in f.args]
