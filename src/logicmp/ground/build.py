"""Ground a theory against a world: turn each rule into the features that the evidence leaves open.

Room: ground.  Paper: Eq. 1.

    !(Smokes(x) ^ Friends(x,y) => Smokes(y))   one product of literals; its rows (x, y) come from a join (join.py)
    !(A(x) <=> B(x))                           A(x) !B(x) and !A(x) B(x), which exclude each other
    EXIST y Friends(x,y)                       a quantified part (quantifiers.py)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from ..errors import CostError, LogicMPError, RuleError
from ..facts.world import UNKNOWN, World
from ..limits import MAX_GROUNDINGS
from ..normalize.budget import Budget
from ..normalize.build import counted_formulas
from ..normalize.cubes import Cube, Differ, Literal, Range, Same, Var
from ..normalize.expand import Expander, variable_ranges
from ..parse.syntax import Atom, Exists, Forall, Formula, Not, Variable, children, free_variables, with_children
from ..parse.theory import Argument, Predicate, Rule, Theory
from .engine import ALONE, Share
from .join import Relation, Rows, join, table_of
from .literals import Literals
from .network import HARD, Draft, Network, card_of
from .patterns import Listed, Pattern, select
from .places import Owners
from .quantifiers import Part, build_part

# rows of a piece after which progress is reported
REPORTED = 2**16
# of one grounding with two open literals: 50 in the network, the others in what a method makes of it
BYTES = 200
# atoms of a predicate that has unobserved ones; a million takes about 40 MB
MAX_ATOMS = 2**26


class Multiples(Protocol):
    """How many groundings of a larger world each grounding stands for."""

    def repeats(self, columns: Sequence[tuple[str, np.ndarray]], n: int) -> np.ndarray:
        """For each of n tuples; `columns` has the type and the constants of each place."""

    def size(self, type_name: str) -> int:
        """The number of constants of a type in the larger world."""


def build_network(world: World, rules: Sequence[Rule] | None = None, semantics: str = "exact",
                  max_groundings: int = MAX_GROUNDINGS,
                  progress: Callable[[int, int], None] = lambda done, total: None,
                  allow: Callable[[float, str], None] = lambda n_bytes, what: None,
                  multiples: Multiples | None = None, share: Share = ALONE.share) -> Network:
    """Build the ground network of some rules, by default all rules of the theory.

    >>> from logicmp.facts.world import build_world
    >>> from logicmp import parse_facts, parse_theory
    >>> theory = parse_theory("2 Friends(x,y) ^ Smokes(x) => Smokes(y)")
    >>> world = build_world(parse_facts("Friends(Anna, Bob)\\nSmokes(Anna)", theory), ["Smokes"])
    >>> print(build_network(world))
    ground network: 1 unobserved variables, 1 soft and 0 hard features, 1 literals

    Args:
        max_groundings: raise a CostError if the rules together leave more groundings open.
        progress: called after each rule and each large piece of rows, with the number of rules done, and of all rules.
        allow: called with the bytes that the network needs so far, before rows are made; raises an error if they are
            too many.
        multiples: if each grounding stands for several, which then multiply its share of the weight.
        share: of several processes; each makes all rows, a piece at a time, and keeps the features of its variables.
    """
    if semantics == "paper":
        raise LogicMPError("semantics 'paper' treats equal atoms of a grounding as independent, which no ground "
                           "network can do", "use semantics 'exact' or 'alchemy', or method mean-field")
    rules = world.theory.rules if rules is None else tuple(rules)
    grounder = Grounder(world, rules, max_groundings, allow, multiples, share)
    for r, rule in enumerate(rules):
        for _ in grounder.add_rule(r, rule, semantics):
            progress(r, len(rules))
        progress(r + 1, len(rules))
    return grounder.finish()


class Grounder:
    """The features of rules in the making."""

    def __init__(self, world: World, rules: Sequence[Rule], max_groundings: int, allow: Callable[[float, str], None],
                 multiples: Multiples | None = None, share: Share = ALONE.share):
        self.world = world
        self.multiples = multiples
        self.rules = tuple(rules)
        self.max_groundings, self.allow = max_groundings, allow
        # with a predicate for each quantified part
        self.theory: Theory = world.theory
        self.parts: dict[str, Part] = {}
        self.variables, self.cards, self.potentials = _variables(world)
        # one number after the last variable of each predicate, if it has any
        ends = [int(numbers.max(initial=-1)) + 1 for numbers in self.variables.values()] if share.size > 1 else []
        self.draft = Draft(len(self.cards), Owners.by_range([end for end in ends if end], share) if ends else None)
        self._tables: dict[object, tuple[np.ndarray, np.ndarray]] = {}
        self._lists: dict[object, Pattern] = {}
        shapes = [[world.sizes[rule.variables[name]] for name in rule.per_constant] for rule in rules]
        self.shapes = shapes
        self.offsets = np.cumsum([0, *(math.prod(shape) for shape in shapes)])
        self.base = np.zeros(self.offsets[-1])
        self.n_rows = 0

    # rules

    def add_rule(self, r: int, rule: Rule, semantics: str) -> Iterator[None]:
        """Add the features of a rule; yields after each large piece."""
        self.rule, self.r, self.draft.rule = rule, r, r
        for formula, share, free in counted_formulas(rule, semantics):
            self.ranges: Mapping[str, Range] = {**variable_ranges(formula), **{v.name: v for v in free}}
            cubes = self._cubes(Not(self._without_quantifiers(formula)))
            if not rule.is_hard:
                self._count(free, share)
            for cube in cubes:
                for rows, literals in self._ground(cube, [v.name for v in free], expand=rule.is_hard):
                    self._guard(rows.n)
                    self.n_rows += rows.n
                    self._add(rows, literals, share)
                    if rows.n > REPORTED:
                        yield

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
        more = self.multiples.size(v.type) - self.world.sizes[v.type] if self.multiples is not None else 0
        return max(0, high - low + more)

    def _add(self, rows: Rows, literals: Literals, share: float) -> None:
        """Add features of the current rule; groundings that the evidence violates go into the count."""
        decided = literals.counts == 0
        shares = np.broadcast_to(share, rows.n)
        if self.multiples is not None:
            shares = share * self.multiples.repeats(
                [(self.ranges[name].type, column) for name, column in rows.columns.items()], rows.n)
        if self.rule.is_hard:
            if decided.any():
                raise self._violated(rows.take(np.flatnonzero(decided)[:1]))
            params = np.full(rows.n, HARD, dtype=np.int64)
        else:
            params = np.zeros(rows.n, dtype=np.int64)
            for name, size in zip(self.rule.per_constant, self.shapes[self.r], strict=True):
                params = params * size + rows.columns[name]
            params += self.offsets[self.r]
            np.subtract.at(self.base, params[decided], shares[decided])
        if decided.any():
            literals, params, shares = literals.keep(~decided), params[~decided], shares[~decided]
        self.draft.add(literals, params, shares)

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
                            "raise --max-groundings (max_groundings), close a predicate of the rule, or use "
                            "mean-field, which needs no groundings")
        kept = n + self.n_rows
        if self.draft.owners is not None:
            kept = n // self.draft.owners.share.size + self.draft.n_features
        self.allow(BYTES * kept, f"the ground network of at least {kept:,} groundings")

    # products of literals

    def _ground(self, cube: Cube, names: Sequence[str], expand: bool) -> Iterator[tuple[Rows, Literals]]:
        """The bindings for which a product can be true, and the open literals of each, in pieces.

        Args:
            expand: make a row for each product of a quantified part that must be true; the rows may then overlap.
        """
        literals = [factor for factor in cube.factors if isinstance(factor, Literal)]
        conditions = [factor for factor in cube.factors if isinstance(factor, (Same, Differ))]
        windows = {name: self._window(self.ranges[name]) for name in names}
        relations = [self._relation(k, literal, windows) for k, literal in enumerate(literals)]
        for rows in join(relations, conditions, windows, self._guard):
            parts = [Literals.none(rows.n)]
            for k, literal in enumerate(literals):
                if literal.predicate not in self.parts:
                    parts.append(self._open_literals(k, literal, rows))
                    continue
                row, part = self.parts[literal.predicate].literals(
                    literal, rows, ~self._table(literal)[1], expand, self.draft, self._guard)
                if row is not None:
                    rows, parts = rows.take(row), [other.take(row) for other in parts]
                parts.append(part)
            yield rows, Literals.joined(parts)

    def _relation(self, k: int, literal: Literal, windows: Mapping[str, tuple[int, int]]) -> Relation:
        can, must = self._possible(literal), self._table(literal)[1]
        if literal.predicate not in self.world.supports:
            return table_of(can, literal.args, {name: self.world.sizes[self.ranges[name].type] for name in self.ranges})
        # rules that differ in the names of their variables only share what a pattern keeps
        names = tuple(dict.fromkeys(arg.name for arg in literal.args if isinstance(arg, Var)))
        args = tuple(replace(arg, name=str(names.index(arg.name))) if isinstance(arg, Var) else arg
                     for arg in literal.args)
        own = {str(i): windows[name] for i, name in enumerate(names)}
        key = (literal.predicate, literal.negated, literal.labels, args, tuple(own.values()))
        if key not in self._lists:
            pattern = select(self.world.supports[literal.predicate], args, own)
            if not literal.negated and not bool(can.all()):
                pattern = pattern.take(np.flatnonzero(can if pattern.places is None else can[pattern.places]))
            self._lists[key] = pattern
        return Listed(k, self._lists[key].renamed(names), can, literal.negated, not bool(must.all()))

    def _possible(self, literal: Literal) -> np.ndarray:
        """Over all atoms of the predicate, or all in its list: whether rows may have the literal."""
        return self._table(literal)[0]

    def _table(self, literal: Literal) -> tuple[np.ndarray, np.ndarray]:
        """Over all atoms of the predicate, or all in its list: whether the literal can be true, and whether it must."""
        key = (literal.predicate, literal.negated, literal.labels)
        if key not in self._tables:
            if literal.predicate in self.parts:
                part = self.parts[literal.predicate]
                self._tables[key] = (~part.must, ~part.can) if literal.negated else (part.can, part.must)
            else:
                self._tables[key] = self._truth(literal, self.world.values[literal.predicate])
        return self._tables[key]

    def _truth(self, literal: Literal, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether a literal can be true, and whether it must, by the values of its predicate."""
        if literal.labels is not None:
            chosen = np.isin(np.arange(values.shape[-1]), list(literal.labels))
            can, must = (values[..., chosen] != 0).any(-1), (values[..., ~chosen] == 0).all(-1)
        else:
            values = values.reshape(-1) if literal.predicate in self.world.supports else values
            can, must = values != 0, values == 1
        return (~must, ~can) if literal.negated else (can, must)

    def _open_literals(self, k: int, literal: Literal, rows: Rows) -> Literals:
        """The literal in the rows whose evidence does not decide it: its variable, and the values that make it true."""
        predicate, must = self.theory.predicate[literal.predicate], self._table(literal)[1]
        numbers, card = self.variables[predicate.name], card_of(self.world, predicate.name)
        if bool(must.all()):
            return Literals.none(rows.n)
        value: np.ndarray | None = None
        if predicate.name in self.world.supports:
            at = np.flatnonzero(~np.append(must, literal.negated)[rows.places[k]])
            place = rows.places[k][at]
            if predicate.functional:
                place, value = np.divmod(place, card - predicate.may_be_none)
            var = numbers[place]
        else:
            index = tuple(rows.value(arg) for arg in literal.args)
            at = np.flatnonzero(~np.broadcast_to(must[index], (rows.n,)))
            fixed = tuple(column[at] for j, column in enumerate(index) if j not in predicate.functional)
            var = numbers[fixed] if fixed else np.full(len(at), numbers, dtype=numbers.dtype)
            for j in predicate.functional:
                size = self.world.sizes[predicate.types[j]]
                value = index[j][at] if value is None else value * size + index[j][at]
        if literal.labels is not None:
            chosen = np.full(len(at), self.draft.sets.of(card, literal.labels), dtype=np.int32)
        elif value is not None:
            chosen = self.draft.sets.single(card)[value]
        else:
            chosen = np.zeros(len(at), dtype=np.int32)
        return Literals(rows.n, at, var, self.draft.sets.complement(chosen) if literal.negated else chosen)

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
        found = [piece for cube in self._cubes(body) for piece in self._ground(cube, [*free, name], expand=True)]
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
            weights=weights, offsets=self.offsets, base=self.base, owners=self.draft.owners, **self.draft.arrays())


def _variables(world: World) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Number the unobserved variables; how many values each has, and the log-potentials of the values."""
    numbers: dict[str, np.ndarray] = {}
    cards, potentials = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    n = 0
    for name, values in ((p.name, world.values[p.name]) for p in world.theory.predicates):
        predicate = world.stored(name)
        if not (values == UNKNOWN).any():
            last = values.ndim - 1 if predicate.labels is not None else values.ndim
            # one number for all atoms, whatever the shape
            numbers[name] = np.broadcast_to(np.int32(-1), [size for k, size in enumerate(values.shape[:last])
                                                           if k not in predicate.functional])
            continue
        if values.size > MAX_ATOMS:
            raise CostError(f"{world.theory.predicate[name]} has {values.size:,} atoms, and not all are observed "
                            f"(limit {MAX_ATOMS:,})", None, "close it, give its atoms that can be true with "
                            "--candidates FILE, or remove constants that are not needed")
        scores = value_scores(world, predicate)
        is_open = (scores > -np.inf).sum(-1) > 1
        if predicate.symmetric:
            # C(a,b) and C(b,a) are one variable, numbered where a comes first
            is_open &= np.triu(np.ones(is_open.shape, dtype=bool))
        found = np.full(is_open.shape, -1, dtype=np.int32)
        found[is_open] = np.arange(n, n + int(is_open.sum()))
        numbers[name] = np.where(found < 0, found.T, found) if predicate.symmetric else found
        n += int(is_open.sum())
        cards.append(np.full(int(is_open.sum()), scores.shape[-1], dtype=np.int64))
        potentials.append(scores[is_open].reshape(-1))
    return numbers, np.concatenate(cards), np.concatenate(potentials)


def value_scores(world: World, predicate: Predicate) -> np.ndarray:
    """The log-potential of each value of each variable, [variables..., values]: soft evidence, or -inf.

    Args:
        predicate: as its values are stored.
    """
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
