"""Ground a theory against a world: turn each rule into the features that the evidence leaves open.

Room: ground.  Paper: Eq. 1.

    !(Smokes(x) ^ Friends(x,y) => Smokes(y))   one product of literals; its rows (x, y) come from a join (join.py)
    !(A(x) <=> B(x))                           A(x) !B(x) and !A(x) B(x), which exclude each other
    EXIST y Friends(x,y)                       a quantified part (quantifiers.py)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..errors import CostError, LogicMPError, RuleError
from ..facts.world import UNKNOWN, World
from ..limits import MAX_GROUNDINGS
from ..normalize.budget import Budget
from ..normalize.build import counted_formulas
from ..normalize.cubes import Cube, Differ, Literal, Range, Same
from ..normalize.expand import Expander, variable_ranges
from ..parse.syntax import Atom, Exists, Forall, Formula, Not, Variable, children, free_variables, with_children
from ..parse.theory import Argument, Predicate, Rule, Theory
from .join import Relation, Rows, join, relation
from .network import HARD, Draft, Literals, Network, n_values
from .quantifiers import Part, build_part

# atoms of a predicate that has unobserved ones; a million takes about 40 MB
MAX_ATOMS = 2**26


def build_network(world: World, rules: Sequence[Rule] | None = None, semantics: str = "exact",
                  max_groundings: int = MAX_GROUNDINGS,
                  progress: Callable[[int, int], None] = lambda done, total: None) -> Network:
    """Build the ground network of some rules, by default all rules of the theory.

    >>> from logicmp.facts.world import build_world
    >>> from logicmp import parse_facts, parse_theory
    >>> theory = parse_theory("2 Friends(x,y) ^ Smokes(x) => Smokes(y)")
    >>> world = build_world(parse_facts("Friends(Anna, Bob)\\nSmokes(Anna)", theory), ["Smokes"])
    >>> print(build_network(world))
    ground network: 1 unobserved variables, 1 soft and 0 hard features, 1 literals

    Args:
        max_groundings: raise a CostError if the rules together leave more groundings open.
        progress: called after each rule with the number of rules done, and of all rules.
    """
    if semantics == "paper":
        raise LogicMPError("semantics 'paper' treats equal atoms of a grounding as independent, which no ground "
                           "network can do", "use semantics 'exact' or 'alchemy', or method mean-field")
    rules = world.theory.rules if rules is None else tuple(rules)
    grounder = _Grounder(world, rules, max_groundings)
    for r, rule in enumerate(rules):
        grounder.add_rule(r, rule, semantics)
        progress(r + 1, len(rules))
    return grounder.finish()


class _Grounder:
    def __init__(self, world: World, rules: Sequence[Rule], max_groundings: int):
        self.world = world
        self.rules = tuple(rules)
        self.max_groundings = max_groundings
        # with a predicate for each quantified part
        self.theory: Theory = world.theory
        self.parts: dict[str, Part] = {}
        self.variables, self.cards, self.potentials = _variables(world)
        self.draft = Draft(len(self.cards))
        self._tables: dict[object, tuple[np.ndarray, np.ndarray]] = {}
        shapes = [[world.sizes[rule.variables[name]] for name in rule.per_constant] for rule in rules]
        self.shapes = shapes
        self.offsets = np.cumsum([0, *(math.prod(shape) for shape in shapes)])
        self.base = np.zeros(self.offsets[-1])
        self.n_rows = 0

    # rules

    def add_rule(self, r: int, rule: Rule, semantics: str) -> None:
        self.rule, self.r, self.draft.rule = rule, r, r
        for formula, share, free in counted_formulas(rule, semantics):
            self.ranges: Mapping[str, Range] = {**variable_ranges(formula), **{v.name: v for v in free}}
            cubes = self._cubes(Not(self._without_quantifiers(formula)))
            if not rule.is_hard:
                self._count(free, share)
            for cube in cubes:
                rows, literals = self._ground(cube, [v.name for v in free], expand=rule.is_hard)
                self.n_rows += rows.n
                self._add(rows, literals, share)

    def _cubes(self, formula: Formula) -> list[Cube]:
        """Products that exclude each other, one of which is true where the formula is."""
        found = Expander(self.theory, self.ranges, Budget(self.rule)).expand(formula)
        assert all(sign == 1 for sign, _ in found), "without quantifiers the expansion adds, and never subtracts"
        return [cube for _, cube in found]

    def _count(self, free: Sequence[Range], share: float) -> None:
        """Add the count of the rule if no grounding is violated."""
        per_constant = [next(v for v in free if v.name == name) for name in self.rule.per_constant]
        n = share * math.prod(self._size(v) for v in free if v not in per_constant)
        counts = np.zeros(self.shapes[self.r])
        counts[tuple(slice(*self._window(v)) for v in per_constant)] = n
        self.base[self.offsets[self.r] : self.offsets[self.r + 1]] += counts.reshape(-1)

    def _window(self, v: Range) -> tuple[int, int]:
        return -v.low, self.world.sizes[v.type] - v.high

    def _size(self, v: Range) -> int:
        low, high = self._window(v)
        return max(0, high - low)

    def _add(self, rows: Rows, literals: Literals, share: float) -> None:
        """Add features of the current rule; groundings that the evidence violates go into the count."""
        decided = literals.counts == 0
        if self.rule.is_hard:
            if decided.any():
                raise self._violated(rows.take(np.flatnonzero(decided)[:1]))
            params = np.full(rows.n, HARD, dtype=np.int64)
        else:
            params = np.zeros(rows.n, dtype=np.int64)
            for name, size in zip(self.rule.per_constant, self.shapes[self.r], strict=True):
                params = params * size + rows.columns[name]
            params += self.offsets[self.r]
            np.subtract.at(self.base, params[decided], share)
        self.draft.add(literals.keep(~decided), params[~decided], share)

    def _violated(self, row: Rows) -> RuleError:
        where = ", ".join(f"{name} = {self.world.theory.type[self.ranges[name].type].constants[int(column[0])]}"
                          for name, column in row.columns.items() if name in self.rule.variables)
        return RuleError(f"the evidence violates this hard rule{f' where {where}' if where else ''}", self.rule.span,
                         "give the rule a weight, or correct the evidence")

    def _guard(self, n: int) -> None:
        if n + self.n_rows > self.max_groundings:
            before = f", after {self.n_rows:,} of those before it" if self.n_rows else ""
            raise CostError(f"the evidence leaves at least {n:,} groundings of this rule open{before} (limit "
                            f"{self.max_groundings:,})", self.rule.span,
                            "close a predicate of the rule, or use mean-field, which needs no groundings")

    # products of literals

    def _ground(self, cube: Cube, names: Sequence[str], expand: bool) -> tuple[Rows, Literals]:
        """The bindings for which a product can be true, and the open literals of each.

        Args:
            expand: make a row for each product of a quantified part that must be true; the rows may then overlap.
        """
        literals = [factor for factor in cube.factors if isinstance(factor, Literal)]
        conditions = [factor for factor in cube.factors if isinstance(factor, (Same, Differ))]
        sizes = {name: self.world.sizes[self.ranges[name].type] for name in self.ranges}
        relations = [self._relation(literal, sizes) for literal in literals]
        rows = join(relations, conditions, {name: self._window(self.ranges[name]) for name in names}, self._guard)
        parts = [Literals.none(rows.n)]
        for literal in literals:
            if literal.predicate in self.parts:
                row, part = self.parts[literal.predicate].literals(
                    literal, rows, ~self._table(literal)[1], expand, self.draft, self._guard)
                if row is not None:
                    rows, parts = rows.take(row), [other.take(row) for other in parts]
                parts.append(part)
                continue
            index = tuple(rows.value(arg) for arg in literal.args)
            at = np.flatnonzero(~np.broadcast_to(self._table(literal)[1][index], (rows.n,)))
            parts.append(Literals(rows.n, at, *self._locate(literal, [column[at] for column in index], len(at))))
        return rows, Literals.joined(parts)

    def _relation(self, literal: Literal, sizes: Mapping[str, int]) -> Relation:
        return relation(self._table(literal)[0], literal.args, sizes)

    def _table(self, literal: Literal) -> tuple[np.ndarray, np.ndarray]:
        """Over all atoms of the predicate: whether the literal can be true, and whether it must be."""
        key = (literal.predicate, literal.negated, literal.labels)
        if key not in self._tables:
            if literal.predicate in self.parts:
                part = self.parts[literal.predicate]
                can, must = part.can, part.must
            elif literal.labels is not None:
                values = self.world.values[literal.predicate]
                chosen = np.isin(np.arange(values.shape[-1]), list(literal.labels))
                can, must = (values[..., chosen] != 0).any(-1), (values[..., ~chosen] == 0).all(-1)
            else:
                values = self.world.values[literal.predicate]
                can, must = values != 0, values == 1
            self._tables[key] = (~must, ~can) if literal.negated else (can, must)
        return self._tables[key]

    def _locate(self, literal: Literal, index: Sequence[np.ndarray], n: int) -> tuple[np.ndarray, np.ndarray]:
        """The variable of each open literal, and the set of values that makes it true."""
        predicate = self.theory.predicate[literal.predicate]
        fixed = tuple(column for k, column in enumerate(index) if k not in predicate.functional)
        numbers = self.variables[literal.predicate]
        var = numbers[fixed] if fixed else np.full(n, numbers, dtype=np.int64)
        if literal.labels is not None:
            chosen = np.full(len(var), self.draft.sets.of(len(predicate.labels or ()), literal.labels), dtype=np.int64)
        elif predicate.functional:
            value = np.zeros(len(var), dtype=np.int64)
            for k in predicate.functional:
                value = value * self.world.sizes[predicate.types[k]] + index[k]
            chosen = self.draft.sets.single(n_values(predicate, self.world.sizes))[value]
        else:
            chosen = np.zeros(len(var), dtype=np.int64)
        return var, self.draft.sets.complement(chosen) if literal.negated else chosen

    # quantified parts

    def _without_quantifiers(self, formula: Formula) -> Formula:
        """The formula with an atom for each quantified part, innermost first."""
        if isinstance(formula, Atom):
            return formula
        parts = [self._without_quantifiers(child) for child in children(formula)]
        if not isinstance(formula, (Exists, Forall)):
            return with_children(formula, parts) if parts else formula
        is_forall = isinstance(formula, Forall)
        atom = self._part(formula.variables[0].name, Not(parts[0]) if is_forall else parts[0])
        return Not(atom) if is_forall else atom

    def _part(self, name: str, body: Formula) -> Atom:
        """An atom for `EXIST name body`."""
        free = {n: t for n, t in free_variables(body).items() if n != name}
        shape = tuple(self.world.sizes[t] for t in free.values())
        self._guard(math.prod(shape))
        found = [self._ground(cube, [*free, name], expand=True) for cube in self._cubes(body)]
        owners = [np.zeros(0, dtype=np.int64)]
        for rows, _ in found:
            owner = np.zeros(rows.n, dtype=np.int64)
            for n, size in zip(free, shape, strict=True):
                owner = owner * size + rows.columns[n]
            owners.append(owner)
        predicate = Predicate(f"part {len(self.parts)}", tuple(map(Argument, free.values())))
        self.theory = replace(self.theory, predicates=(*self.theory.predicates, predicate))
        self.parts[predicate.name] = build_part(shape, np.concatenate(owners), [literals for _, literals in found],
                                                self.draft.sets)
        return Atom(predicate.name, tuple(Variable(n, t) for n, t in free.items()))

    def finish(self) -> Network:
        weights = np.concatenate([np.zeros(0), *(
            np.full(math.prod(shape), 1.0 if rule.weight is None else rule.weight)
            for rule, shape in zip(self.rules, self.shapes, strict=True))])
        n_own = len(self.cards)
        n_more = self.draft.n_variables - n_own
        return Network(
            self.world, self.rules, np.concatenate([self.cards, np.full(n_more, 2, dtype=np.int64)]),
            np.concatenate([self.potentials, np.zeros(2 * n_more)]), self.variables, n_own, self.draft.sets,
            weights=weights, offsets=self.offsets, base=self.base, **self.draft.arrays())


def _variables(world: World) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Number the unobserved variables; how many values each has, and the log-potentials of the values."""
    numbers: dict[str, np.ndarray] = {}
    cards, potentials = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    n = 0
    for predicate in world.theory.predicates:
        if not (world.values[predicate.name] == UNKNOWN).any():
            fixed = [world.sizes[t] for k, t in enumerate(predicate.types) if k not in predicate.functional]
            # one number for all atoms, whatever the shape
            numbers[predicate.name] = np.broadcast_to(np.int64(-1), fixed)
            continue
        if (n_atoms := world.values[predicate.name].size) > MAX_ATOMS:
            raise CostError(f"{predicate} has {n_atoms:,} atoms, and not all are observed (limit {MAX_ATOMS:,})", None,
                            "close it, or remove constants that are not needed")
        scores = value_scores(world, predicate)
        is_open = (scores > -np.inf).sum(-1) > 1
        if predicate.symmetric:
            # C(a,b) and C(b,a) are one variable, numbered where a comes first
            is_open &= np.triu(np.ones(is_open.shape, dtype=bool))
        found = np.full(is_open.shape, -1, dtype=np.int64)
        found[is_open] = np.arange(n, n + int(is_open.sum()))
        numbers[predicate.name] = np.where(found < 0, found.T, found) if predicate.symmetric else found
        n += int(is_open.sum())
        cards.append(np.full(int(is_open.sum()), scores.shape[-1], dtype=np.int64))
        potentials.append(scores[is_open].reshape(-1))
    return numbers, np.concatenate(cards), np.concatenate(potentials)


def value_scores(world: World, predicate: Predicate) -> np.ndarray:
    """The log-potential of each value of each variable, [variables..., values]: soft evidence, or -inf."""
    values = world.values[predicate.name]
    soft = world.unary.get(predicate.name, np.zeros(()))
    soft = np.broadcast_to(soft, values.shape)
    if not predicate.is_categorical:
        return np.stack([np.where(values == 1, -np.inf, 0.0), np.where(values == 0, -np.inf, soft)], -1)
    axes = (values.ndim - 1,) if predicate.labels is not None else predicate.functional
    last = range(values.ndim - len(axes), values.ndim)
    scores = np.moveaxis(np.where(values == 0, -np.inf, soft), axes, last)
    scores = scores.reshape(*scores.shape[: values.ndim - len(axes)], -1)
    if predicate.may_be_none:
        is_true = np.moveaxis(values, axes, last).reshape(scores.shape) == 1
        none = np.where(is_true.any(-1, keepdims=True), -np.inf, 0.0)
        scores = np.concatenate([scores, none], -1)
    return np.asarray(scores)
