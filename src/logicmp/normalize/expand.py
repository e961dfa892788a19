"""Any formula as a signed sum of products, by Shannon expansion over its atoms.

Room: parse -> **normalize** -> ground, plan.  The page "Architecture" of the documentation has the derivation.

    !((a v b) ^ (a v c))   ->   !a !b  +  !a b !c            disjoint, so their probabilities add up
    EXIST y A(x,y)         ->   1 - prod_y !A(x,y)           multilinear, if no atom is in two factors

A branch fixes one atom everywhere in the formula, also below quantifiers. So atoms that a quantifier does not bind are
expanded before the quantifier becomes a product.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..parse.syntax import (
    And,
    Atom,
    Constant,
    Equal,
    Exists,
    Forall,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Variable,
    children,
    free_variables,
    map_terms,
    terms,
    with_children,
)
from ..parse.syntax import Term as SyntaxTerm
from ..parse.theory import Theory
from .budget import Budget
from .cubes import Const, Cube, Differ, Factor, Literal, Product, Range, Same, Signed, Term, Var

Truth = Formula | bool
# the empty product
ONE: Signed = (1, Cube((), ()))


def simplify_not(body: Truth) -> Truth:
    if isinstance(body, bool):
        return not body
    return body.body if isinstance(body, Not) else Not(body)


def simplify_many(parts: list[Truth], conjunction: bool) -> Truth:
    """Simplify `^` or `v` of parts, some of them decided: a decided part decides the result or drops out."""
    if any(part is (not conjunction) for part in parts):
        return not conjunction
    left = tuple(dict.fromkeys(part for part in parts if not isinstance(part, bool)))
    if len(left) < 2:
        return left[0] if left else conjunction
    return And(left) if conjunction else Or(left)


@dataclass(frozen=True)
class Expander:
    """Expand the formulas of one rule."""

    theory: Theory
    # every variable of the rule, bound ones renamed apart
    ranges: Mapping[str, Range]
    budget: Budget

    def expand(self, formula: Truth) -> list[Signed]:
        """Return signed cubes that add up to the probability that the formula is true, for fixed free variables."""
        found: list[Signed] = []
        # products of the atoms decided so far, each with what is left of the formula; a list and not a recursion,
        # because a formula may have more atoms than Python has stack frames
        todo: list[tuple[Signed, Truth]] = [(ONE, self.simplify(formula))]
        while todo:
            decided, rest = todo.pop()
            self.budget.spend(1)
            if rest is False:
                continue
            product = [ONE] if isinstance(rest, bool) else self._product(rest)
            if product is not None:
                found += multiply([decided], product)
                self.budget.check(len(found))
                continue
            assert not isinstance(rest, bool)
            branches = [(term, left) for terms, left in self._branches(rest, self._choose(rest)) for term in terms]
            todo += [(multiply([decided], [term])[0], left) for term, left in reversed(branches)]
        return found

    def _product(self, formula: Formula) -> list[Signed] | None:
        """A literal, or a conjunction of literals, as at most one cube; None for any other formula."""
        literals = formula.parts if isinstance(formula, And) else (formula,)
        if isinstance(formula, Not) and isinstance(formula.body, Or):
            literals = tuple(part.body if isinstance(part, Not) else Not(part) for part in formula.body.parts)
        groups: dict[object, list[Formula]] = {}
        for literal in literals:
            leaf = literal.body if isinstance(literal, Not) else literal
            if not isinstance(leaf, (Atom, Equal)):
                return None
            groups.setdefault(self._group(leaf), []).append(literal)
        found = [ONE]
        # the most frequent atom first, as in `_choose`
        for group in sorted(groups.values(), key=len, reverse=True):
            both = group[0] if len(group) == 1 else And(tuple(group))
            leaf = group[0].body if isinstance(group[0], Not) else group[0]
            found = [term for terms, left in self._branches(both, leaf) if left is True
                     for term in multiply(found, terms)]
        return found

    def _choose(self, formula: Formula) -> Formula:
        """Return the most frequent atom that no quantifier binds; a quantifier only if there is none."""
        candidates = list(_unbound(formula, frozenset()))
        leaves = [c for c in candidates if isinstance(c, (Atom, Equal))]
        if leaves:
            groups = [self._group(leaf) for leaf in leaves]
            (most, _), = Counter(groups).most_common(1)
            return leaves[groups.index(most)]
        # the innermost first: it may be below another quantifier without depending on it
        return min(candidates, key=_size)

    @staticmethod
    def _group(leaf: Atom | Equal) -> object:
        """Atoms of one multi-class variable are expanded together."""
        return (leaf.predicate, leaf.args) if isinstance(leaf, Atom) else leaf

    def _branches(self, formula: Formula, leaf: Formula) -> Iterator[tuple[list[Signed], Truth]]:
        """Yield each value of an atom or a quantified part, with the formula simplified for that value."""
        if isinstance(leaf, (Exists, Forall)):
            yield from self._quantified_branches(formula, leaf)
            return
        if isinstance(leaf, Equal):
            left, right = self._term(leaf.left), self._term(leaf.right)
            yield [(1, Cube((), (Same(left, right).in_order(),)))], self._assign(formula, {leaf: True})
            yield [(1, Cube((), (Differ(left, right).in_order(),)))], self._assign(formula, {leaf: False})
            return
        assert isinstance(leaf, Atom)
        args = tuple(map(self._term, leaf.args))
        if leaf.labels is None:
            for value in (True, False):
                literal = Literal(leaf.predicate, args, negated=not value)
                yield [(1, Cube((), (literal,)))], self._assign(formula, {leaf: value})
            return
        names = self.theory.predicate[leaf.predicate].labels or ()
        atoms = [a for a in dict.fromkeys(_leaves(formula))
                 if isinstance(a, Atom) and (a.predicate, a.args) == (leaf.predicate, leaf.args)]
        classes: dict[tuple[bool, ...], list[int]] = {}
        for k, name in enumerate(names):
            classes.setdefault(tuple(name in (a.labels or ()) for a in atoms), []).append(k)
        for values, labels in classes.items():
            chosen = Literal(leaf.predicate, args, False, frozenset(labels), tuple(names[k] for k in labels))
            yield [(1, Cube((), (chosen,)))], self._assign(formula, dict(zip(atoms, values, strict=True)))

    def _term(self, term: SyntaxTerm) -> Term:
        if isinstance(term, Variable):
            return Var(term.name, term.offset)
        return Const(self.theory.index(term.type, term.name), "" if term.name.startswith("\0") else term.name)

    def simplify(self, formula: Truth) -> Truth:
        """Simplify decided parts, and write symmetric atoms and equalities in one way only."""
        return formula if isinstance(formula, bool) else self._assign(formula, {})

    def _leaf(self, leaf: Atom | Equal) -> Truth:
        if isinstance(leaf, Atom):
            if not self.theory.predicate[leaf.predicate].symmetric:
                return leaf
            return replace(leaf, args=tuple(sorted(leaf.args, key=str)))
        if isinstance(leaf.left, Constant) and isinstance(leaf.right, Constant):
            return leaf.left.name == leaf.right.name
        if leaf.left == leaf.right:
            return True
        return leaf if str(leaf.left) < str(leaf.right) else replace(leaf, left=leaf.right, right=leaf.left)

    def _assign(self, formula: Formula, values: Mapping[Formula, bool]) -> Truth:
        """Return the formula with some atoms decided, simplified."""
        # connectives are never in `values`, so do not hash them
        if values and isinstance(formula, (Atom, Equal, Exists, Forall)) and formula in values:
            return values[formula]
        if isinstance(formula, (Atom, Equal)):
            return self._leaf(formula)
        parts = [self._assign(child, values) for child in children(formula)]
        self.budget.steps -= (1 + len(parts)) // 2
        if isinstance(formula, Not):
            return simplify_not(parts[0])
        if isinstance(formula, (And, Or)):
            return simplify_many(parts, isinstance(formula, And))
        if isinstance(formula, Implies):
            return simplify_many([simplify_not(parts[0]), parts[1]], False)
        if isinstance(formula, Iff):
            if isinstance(parts[0], bool) or isinstance(parts[1], bool):
                known, other = parts if isinstance(parts[0], bool) else reversed(parts)
                return other if known is True else simplify_not(other)
            return True if parts[0] == parts[1] else Iff(parts[0], parts[1])
        assert isinstance(formula, (Exists, Forall))
        body, of_nothing = parts[0], isinstance(formula, Forall)
        window = self.ranges[formula.variables[0].name]
        if isinstance(body, bool) and (body is of_nothing or not (window.low or window.high)):
            return body
        # offsets can make the range empty, so keep a quantifier over it and multiply over it as usual
        return replace(formula, body=And(()) if body is True else Or(()) if body is False else body)

    def _quantified_branches(self, formula: Formula, unit: Exists | Forall) -> Iterator[tuple[list[Signed], Truth]]:
        """Both values of a quantified part: P(true) f1 + P(false) f0."""
        # FORALL y p is false where EXIST y !p is true
        is_forall = isinstance(unit, Forall)
        exists, none = self.quantified(unit.variables[0].name, Not(unit.body) if is_forall else unit.body)
        yield exists, self._assign(formula, {unit: not is_forall})
        yield none, self._assign(formula, {unit: is_forall})

    def quantified(self, name: str, body: Formula) -> tuple[list[Signed], list[Signed]]:
        """Return the probability that the body is true for some value of a variable, and that it is true for none."""
        exclusive = self._exclusive(self.ranges[name], body)
        if exclusive is not None:
            return exclusive, [ONE, *((-c, cube) for c, cube in exclusive)]
        product = Product(self.ranges[name], tuple(self.expand(Not(body))))
        return [ONE, (-1, Cube((), (product,)))], [(1, Cube((), (product,)))]

    def _exclusive(self, over: Range, body: Formula) -> list[Signed] | None:
        """Return the sum over a variable's values, if a functional argument makes the body true for at most one."""
        if not any(isinstance(leaf, Atom) and self.theory.predicate[leaf.predicate].functional
                   for leaf in _leaves(body)):
            return None
        cubes = self.expand(body)
        # all cubes must name the value with the same function
        named = [{key for factor in cube.factors for key in self._names_value(factor, over.name)} for _, cube in cubes]
        if not named or not set.intersection(*named):
            return None
        return [(c, replace(cube, variables=(over, *cube.variables))) for c, cube in cubes]

    def _names_value(self, factor: Factor, name: str) -> Iterator[object]:
        """Yield the functions that have this variable as their value if the literal is true."""
        if isinstance(factor, Literal) and not factor.negated:
            functional = self.theory.predicate[factor.predicate].functional
            applied_to = tuple(t for k, t in enumerate(factor.args) if k not in functional)
            if not any(isinstance(t, Var) and t.name == name for t in applied_to):
                for k in functional:
                    value = factor.args[k]
                    if isinstance(value, Var) and value.name == name:
                        yield factor.predicate, applied_to, k, value.offset


def multiply(left: list[Signed], right: list[Signed]) -> list[Signed]:
    return [(a * b, Cube(one.variables + other.variables, one.factors + other.factors))
            for a, one in left for b, other in right]


def _leaves(formula: Formula) -> Iterator[Formula]:
    if isinstance(formula, (Atom, Equal)):
        yield formula
    for child in children(formula):
        yield from _leaves(child)


def _unbound(formula: Formula, bound: frozenset[str]) -> Iterator[Formula]:
    """Yield atoms and quantified parts, at any depth, without a variable bound above them."""
    if isinstance(formula, (Atom, Equal)):
        if not any(isinstance(t, Variable) and t.name in bound for t in terms(formula)):
            yield formula
    elif isinstance(formula, (Exists, Forall)):
        if not bound & set(free_variables(formula)):
            yield formula
        yield from _unbound(formula.body, bound | {v.name for v in formula.variables})
    else:
        for child in children(formula):
            yield from _unbound(child, bound)


def _size(formula: Formula) -> int:
    return 1 + sum(map(_size, children(formula)))


def rename_apart(formula: Formula) -> Formula:
    """Give every quantifier a variable with a unique name that is not free in the formula.

    `EXIST x P(x) ^ EXIST x Q(x)  ->  EXIST x P(x) ^ EXIST x' Q(x')`
    """
    taken = set(free_variables(formula))

    def walk(node: Formula, names: Mapping[str, str]) -> Formula:
        if isinstance(node, (Atom, Equal)):
            return map_terms(node, lambda v: Variable(names.get(v.name, v.name), v.type, v.offset, span=v.span))
        if isinstance(node, (Exists, Forall)):
            inner = dict(names)
            for variable in node.variables:
                new = variable.name
                while new in taken:
                    new += "'"
                taken.add(new)
                inner[variable.name] = new
            variables = tuple(replace(v, name=inner[v.name]) for v in node.variables)
            body = walk(node.body, inner)
            # one variable to a quantifier
            for variable in reversed(variables):
                body = replace(node, variables=(variable,), body=body)
            return body
        return with_children(node, [walk(child, names) for child in children(node)])

    return walk(formula, {})


def variable_ranges(formula: Formula) -> dict[str, Range]:
    """Return the type and offsets of every variable, free or bound, of a formula renamed apart."""
    ranges: dict[str, Range] = {}

    def walk(node: Formula) -> None:
        if isinstance(node, (Exists, Forall)):
            for v in node.variables:
                ranges.setdefault(v.name, Range(v.name, v.type))
        if isinstance(node, (Atom, Equal)):
            for t in terms(node):
                if isinstance(t, Variable):
                    known = ranges.setdefault(t.name, Range(t.name, t.type))
                    if not known.low <= t.offset <= known.high:
                        ranges[t.name] = replace(known, low=min(known.low, t.offset), high=max(known.high, t.offset))
        for child in children(node):
            walk(child)

    walk(formula)
    return ranges


def write_out(formula: Formula, variable: str, values: list[Constant], window: Range) -> Formula:
    """Replace the quantifier of one variable by a disjunction or conjunction over the constants of its type."""
    def put(body: Formula, value: int) -> Formula:
        return map_terms(body, lambda v: values[value + v.offset] if v.name == variable else v)

    if isinstance(formula, (Exists, Forall)) and formula.variables[0].name == variable:
        inside = range(-window.low, len(values) - window.high)
        parts = tuple(put(formula.body, value) for value in inside)
        return Or(parts) if isinstance(formula, Exists) else And(parts)
    if isinstance(formula, (Atom, Equal)):
        return formula
    return with_children(formula, [write_out(child, variable, values, window) for child in children(formula)])
