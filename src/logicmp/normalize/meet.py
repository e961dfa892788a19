"""Atoms that meet: where two literals are the same atom, the product of their probabilities is wrong.

Room: parse -> **normalize** -> ground, plan.  The page "Architecture" of the documentation has the derivation.

    C(a,b) C(b,c) !C(a,c)       where a = b the last literal is the negation of the second: no violation there
    -> C(a,b) C(b,c) !C(a,c) [a!=b] [b!=c]

For each pair of literals that unify, V(c) becomes V(c) - V(c where they meet) + V(c where they meet, merged). Merging
two literals of one plain atom gives one of them, or zero if their signs differ; label sets intersect; two values of one
functional atom exclude each other. If merging gives zero and one equation x = y describes the meeting, the first two
terms become one: the cube with the condition [x!=y].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ..parse.theory import Predicate, Theory
from .budget import Budget
from .cubes import Const, Cube, Differ, Factor, Literal, Product, Range, Same, Signed, Term, Var, collect, substitute
from .cubes import substitute_term as at

# the steps of one rewrite besides those for its literals and pairs
PER_REWRITE = 80


class MeetError(Exception):
    """Atoms meet under a product in a way that only writing the quantifier out can resolve."""

    def __init__(self, variable: str):
        super().__init__(variable)
        self.variable = variable


@dataclass(frozen=True)
class Meeting:
    """Where two literals meet: the variables to substitute, and the terms that must be equal besides."""

    mapping: Mapping[str, Term]
    equal: tuple[Same, ...]


def unify(pairs: list[tuple[Term, Term]], can_bind: Callable[[str], bool]) -> Meeting | None:
    """Make both terms of every pair equal, binding only variables that `can_bind` accepts; None if they never are.

    >>> unify([(Var("i", 1), Var("j"))], lambda name: True).mapping
    {'j': Var(name='i', offset=1)}
    """
    mapping: dict[str, Term] = {}
    equal: list[Same] = []
    for pair in pairs:
        left, right = (at(t, mapping) for t in pair)
        if isinstance(left, Const) and isinstance(right, Const):
            if left.index != right.index:
                return None
            continue
        if isinstance(left, Var) and isinstance(right, Var) and left.name == right.name:
            if left.offset != right.offset:
                return None
            continue
        for one, other in ((right, left), (left, right)):
            if isinstance(one, Var) and can_bind(one.name):
                value = _shift(other, -one.offset)
                if value is None:
                    return None
                mapping = {name: at(term, {one.name: value}) for name, term in mapping.items()}
                mapping[one.name] = value
                break
        else:
            equal.append(Same(left, right))
    for term in mapping.values():
        if isinstance(term, Const) and term.index < 0:
            return None
    return Meeting(mapping, tuple(Same(at(same.left, mapping), at(same.right, mapping)).in_order() for same in equal))


def _shift(term: Term, by: int) -> Term | None:
    if isinstance(term, Var):
        return Var(term.name, term.offset + by)
    if by == 0:
        return term
    return Const(term.index + by) if term.index + by >= 0 else None


def apply(cube: Cube, meeting: Meeting, known: Mapping[str, int]) -> Cube | None:
    """Restrict a cube to a meeting: it has fewer variables to sum over; None if they never meet."""
    own = {v.name: v for v in cube.variables}
    needs = dict(cube.needs)
    for name, term in meeting.mapping.items():
        gone = own.pop(name)
        if isinstance(term, Const):
            if term.index + gone.low < 0:
                return None
            last = term.index + gone.high
            if last >= known[gone.type]:
                needs[gone.type] = max(needs.get(gone.type, 0), last + 1)
        elif term.name in own:
            kept = own[term.name]
            own[term.name] = replace(kept, low=min(kept.low, gone.low + term.offset),
                                     high=max(kept.high, gone.high + term.offset))
        elif gone.low or gone.high or term.offset:
            raise MeetError(name)
    factors = tuple(substitute(f, meeting.mapping) for f in cube.factors) + tuple(dict.fromkeys(meeting.equal))
    if any(isinstance(f, Differ) and f.left == f.right for f in factors):
        return None
    return Cube(tuple(own[v.name] for v in cube.variables if v.name in own), factors,
                tuple(at(t, meeting.mapping) for t in cube.weight_at), tuple(sorted(needs.items())))


@dataclass(frozen=True)
class _Work:
    """A cube under revision: its literals have numbered slots, so that pairs of them keep their names."""

    slots: tuple[tuple[int, Literal], ...]
    # the cube without its literals
    base: Cube

    def cube(self, own: int) -> Cube:
        """Return the cube of the slots below `own`; the other slots are literals outside of the cube."""
        literals = tuple(literal for slot, literal in self.slots if slot < own)
        return replace(self.base, factors=literals + self.base.factors)

    def without(self, *gone: int) -> _Work:
        return replace(self, slots=tuple(pair for pair in self.slots if pair[0] not in gone))

    def put(self, slot: int, literal: Literal) -> _Work:
        return replace(self, slots=tuple((k, literal if k == slot else old) for k, old in self.slots))


Pair = tuple[int, int, bool]


class Resolver:
    """Rewrite the cubes of one rule until their literals can be multiplied as if they were independent."""

    def __init__(self, theory: Theory, budget: Budget):
        self.theory = theory
        self.known = theory.sizes
        self.budget = budget

    def settle(self, cube: Cube, outside: tuple[Literal, ...] = ()) -> tuple[Signed, ...]:
        """Return signed cubes with the same sum, whose literals can be multiplied as if they were independent.

        Args:
            outside: literals of the enclosing products, which are true wherever this cube counts.
        """
        equated = self.eliminate_equalities(cube)
        if equated is None:
            return ()
        literals = [f for f in equated.factors if isinstance(f, Literal)]
        others = tuple(f for f in equated.factors if not isinstance(f, Literal))
        self._check_products([f for f in others if isinstance(f, Product)])
        slots = tuple(enumerate([*literals, *outside]))
        own = len(literals)
        pairs = self._pairs(slots, own)
        return collect((coefficient, self._settle_products(self._in_order(work.cube(own)), outside))
                       for coefficient, work in self._treat(_Work(slots, replace(equated, factors=others)), pairs, own))

    def _pairs(self, slots: tuple[tuple[int, Literal], ...], own: int) -> tuple[Pair, ...]:
        """The literals to check for meetings: of one predicate, with the same constants where all have constants."""
        groups: dict[object, list[int]] = {}
        for slot, literal in slots:
            groups.setdefault(literal.predicate, []).append(slot)
        found: list[Pair] = []
        for members in groups.values():
            predicate, args = self._predicate(slots[members[0]][1]), [slots[slot][1].args for slot in members]
            fixed = [k for k in range(len(args[0])) if not predicate.symmetric and k not in predicate.functional
                     and all(isinstance(row[k], Const) for row in args)]
            alike: dict[object, list[int]] = {}
            for slot, row in zip(members, args, strict=True):
                alike.setdefault(tuple(row[k] for k in fixed), []).append(slot)
            for places in alike.values():
                self.budget.spend(len(places) ** 2 // 16)
                found += ((i, j, swapped) for k, i in enumerate(places) if i < own for j in places[k + 1 :]
                          for swapped in ((False, True) if predicate.symmetric else (False,)))
        return tuple(sorted(found))

    def eliminate_equalities(self, cube: Cube) -> Cube | None:
        """Substitute x for y for each factor `[x=y]` if one of them is summed over; None if they never are equal."""
        todo = [factor for factor in cube.factors if isinstance(factor, Same)]
        while todo:
            factor = todo.pop(0)
            meeting = unify([(factor.left, factor.right)], {v.name for v in cube.variables}.__contains__)
            if meeting is None:
                return None
            if not meeting.equal:
                rest = list(cube.factors)
                rest.remove(factor)
                applied = apply(replace(cube, factors=tuple(rest)), meeting, self.known)
                if applied is None:
                    return None
                cube = applied
                todo = [factor for factor in cube.factors if isinstance(factor, Same)]
        return cube

    def _in_order(self, cube: Cube) -> Cube:
        """Write C(b,a) of a symmetric predicate as C(a,b), and [x=y] once, so that `collect` finds equal terms."""
        factors: list[Factor] = []
        for f in cube.factors:
            if isinstance(f, Literal) and self._predicate(f).symmetric:
                factors.append(replace(f, args=tuple(sorted(f.args, key=str))))
            elif not isinstance(f, (Same, Differ)) or not (f in factors or _is_trivial(f)):
                factors.append(f)
        return replace(cube, factors=tuple(factors))

    def _settle_products(self, cube: Cube, outside: tuple[Literal, ...]) -> Cube:
        inside = tuple(f for f in cube.factors if isinstance(f, Literal)) + outside
        factors: list[Factor] = []
        for factor in cube.factors:
            if isinstance(factor, Product):
                try:
                    terms = collect((coefficient * inner, settled) for coefficient, term in factor.terms
                                    for inner, settled in self.settle(term, inside))
                except MeetError as error:
                    raise MeetError(error.variable or factor.over.name) from None
                factor = replace(factor, terms=terms)
            factors.append(factor)
        return replace(cube, factors=tuple(factors))

    def _predicate(self, literal: Literal) -> Predicate:
        return self.theory.predicate[literal.predicate]

    def _treat(self, work: _Work, pairs: tuple[Pair, ...], own: int) -> list[tuple[int, _Work]]:
        """Resolve all pairs: V(c) becomes V(c) - V(c where a pair meets) + V(c where it meets, merged)."""
        open_states: dict[tuple[_Work, tuple[Pair, ...]], int] = {(work, pairs): 1}
        done: list[tuple[int, _Work]] = []
        while open_states:
            # the oldest first, so that equal states of one generation are merged
            (work, pairs), coefficient = next(iter(open_states.items()))
            del open_states[work, pairs]
            if not pairs:
                done.append((coefficient, work))
                continue
            self.budget.spend(PER_REWRITE + len(work.slots) + len(work.base.factors) + len(pairs) // 8)
            for sign, state, rest in self._treat_first(work, pairs, own):
                key = (state, rest)
                open_states[key] = open_states.get(key, 0) + sign * coefficient
                if open_states[key] == 0:
                    del open_states[key]
        return done

    def _treat_first(self, work: _Work, pairs: tuple[Pair, ...],
                     own: int) -> Iterator[tuple[int, _Work, tuple[Pair, ...]]]:
        (i, j, swapped), rest = pairs[0], pairs[1:]
        # the literal outside, if any, is the second
        i, j = min(i, j), max(i, j)
        literals = dict(work.slots)
        if i == j or i >= own or i not in literals or j not in literals:
            yield 1, work, rest
            return
        names = {v.name for v in work.base.variables}
        meeting = unify(self._facing(literals[i], literals[j], swapped), names.__contains__)
        met = None if meeting is None else self._apply(work, meeting)
        if meeting is None or met is None:
            yield 1, work, rest
            return
        terms = list(self._merge(met, i, j, own))
        if not terms and len(meeting.mapping) == 1 and not meeting.equal:
            ((name, term),) = meeting.mapping.items()
            apart = Differ(Var(name), term).in_order()
            yield 1, replace(work, base=replace(work.base, factors=(*work.base.factors, apart))), rest
            return
        if meeting.mapping or meeting.equal:
            yield 1, work, rest
            yield -1, met, rest
        for sign, merged, gone in terms:
            kept = i if gone == j else j
            yield sign, merged, tuple((kept if a == gone else a, kept if b == gone else b, s) for a, b, s in rest)

    def _facing(self, one: Literal, other: Literal, swapped: bool) -> list[tuple[Term, Term]]:
        """The argument pairs that must be equal for the literals to meet."""
        functional = self._predicate(one).functional
        args = tuple(reversed(other.args)) if swapped else other.args
        return [(a, b) for k, (a, b) in enumerate(zip(one.args, args, strict=True)) if k not in functional]

    def _apply(self, work: _Work, meeting: Meeting) -> _Work | None:
        base = apply(work.base, meeting, self.known)
        if base is None:
            return None
        slots = ((slot, substitute(literal, meeting.mapping)) for slot, literal in work.slots)
        return _Work(tuple((slot, literal) for slot, literal in slots if isinstance(literal, Literal)), base)

    def _merge(self, work: _Work, i: int, j: int, own: int) -> Iterator[tuple[int, _Work, int]]:
        """Merge two literals that meet into one, or into several terms; yield the slot that is removed.

        A literal from outside (j >= own) is not changed, and makes the one inside redundant.
        """
        one, other = dict(work.slots)[i], dict(work.slots)[j]
        if self._predicate(one).functional:
            yield from self._merge_functional(work, i, j, own)
        elif one.labels is not None and other.labels is not None:
            common = one.labels & other.labels
            if j >= own and common not in (frozenset(), other.labels):
                # the labels outside do not decide the labels inside: the two are not independent
                raise MeetError("")
            if common and j >= own:
                yield 1, work.without(i), i
            elif common:
                names = self._predicate(one).labels or ()
                shown = tuple(names[k] for k in sorted(common))
                yield 1, work.without(j).put(i, replace(one, labels=common, shown=shown)), j
        elif one.negated == other.negated:
            gone = i if j >= own else j
            yield 1, work.without(gone), gone

    def _merge_functional(self, work: _Work, i: int, j: int, own: int) -> Iterator[tuple[int, _Work, int]]:
        """Merge two values of one function:  y z = [y=z] y;  y !z = y - [y=z] y;  !y !z = 1 - y - z + [y=z] y."""
        one, other = dict(work.slots)[i], dict(work.slots)[j]
        if j >= own and other.negated:
            # excluding one value outside changes the odds of all others
            raise MeetError("")
        names = {v.name for v in work.base.variables}
        functional = self._predicate(one).functional
        values = unify([(one.args[k], other.args[k]) for k in functional], names.__contains__)
        same = None if values is None else self._apply(work, values)
        if one.negated and other.negated:
            yield 1, work.without(i, j), j
            yield -1, work.without(j).put(i, replace(one, negated=False)), j
            yield -1, work.without(i).put(j, replace(other, negated=False)), i
            if same is not None:
                yield 1, same.without(j).put(i, replace(dict(same.slots)[i], negated=False)), j
            return
        # keep the true literal of a true and a false one; of two true ones the first, or the one outside
        gone = i if one.negated or j >= own else j
        if one.negated or other.negated:
            yield 1, work.without(gone), gone
        if same is not None:
            yield -1 if one.negated or other.negated else 1, same.without(gone), gone

    # the factors of a product for different values must not share atoms, nor may two products

    def _check_products(self, products: list[Product]) -> None:
        for product in products:
            inside = list(_literals(product))
            for one, _ in inside:
                for other, bound in inside:
                    self._check_apart(one, other, bound, product.over)
        for k, product in enumerate(products):
            for earlier in products[:k]:
                for one, _ in _literals(product):
                    for other, _ in _literals(earlier):
                        for _ in self._meetings(one, other):
                            raise MeetError(product.over.name)

    def _check_apart(self, one: Literal, other: Literal, bound: frozenset[str], over: Range) -> None:
        fresh = {name: Var(name + "'") for name in bound}
        renamed = substitute(other, fresh)
        assert isinstance(renamed, Literal)
        for meeting in self._meetings(one, renamed):
            if at(Var(over.name), meeting) != at(Var(over.name + "'"), meeting):
                raise MeetError(over.name)

    def _meetings(self, one: Literal, other: Literal) -> Iterator[Mapping[str, Term]]:
        """Every way in which two literals can meet, whichever variables must be bound."""
        if one.predicate == other.predicate:
            for swapped in (False, True) if self._predicate(one).symmetric else (False,):
                meeting = unify(self._facing(one, other, swapped), lambda name: True)
                if meeting is not None:
                    yield meeting.mapping


def _is_trivial(factor: Factor) -> bool:
    """Whether a factor is [x=x], or [x!=y] for two terms that never are equal."""
    if isinstance(factor, Same):
        return factor.left == factor.right
    return isinstance(factor, Differ) and unify([(factor.left, factor.right)], lambda name: True) is None


def split_difference(cube: Cube, apart: Differ, known: Mapping[str, int]) -> tuple[Signed, ...]:
    """Apply `[x!=y] = 1 - [x=y]`, for a condition that no literal can host in a plan."""
    rest = replace(cube, factors=tuple(f for f in cube.factors if f is not apart))
    names = {v.name for v in cube.variables}
    meeting = unify([(apart.left, apart.right)], names.__contains__)
    met = None if meeting is None else apply(rest, meeting, known)
    return ((1, rest),) if met is None else ((1, rest), (-1, met))


def _literals(product: Product) -> Iterator[tuple[Literal, frozenset[str]]]:
    """Every literal under a product, with the variables bound on the way to it."""
    for _, cube in product.terms:
        bound = frozenset({product.over.name, *(v.name for v in cube.variables)})
        for factor in cube.factors:
            if isinstance(factor, Literal):
                yield factor, bound
            elif isinstance(factor, Product):
                for literal, deeper in _literals(factor):
                    yield literal, bound | deeper
