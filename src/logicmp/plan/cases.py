"""Cubes over sparse predicates to cubes without their complements, and without missing entities.

Room: normalize -> **plan** -> eliminate.

    C(a,b) C(b,c) !C(a,c)        C(a,b) C(b,c)  - C(a,b) C(b,c) C(a,c)
    [x!=y] without a host        1 - [x=y]
    masks                        one more literal for each entity of a grounding, true where the entity exists
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ..errors import CostError, Span
from ..facts.supports import Support
from ..normalize.cubes import Cube, Differ, Factor, Literal, Product, Range, Same, Signed, Var, collect, names_in
from ..normalize.meet import split_difference
from ..parse.theory import Theory
from .build import hosts

# complements of sparse literals are expanded: 2^m terms for m of them
MAX_COMPLEMENTS = 6


class Minus(Product):
    """A quantifier minus 1: zero where it has no rows."""


class Cases:
    """The cases of the cubes of a theory.

    Args:
        theory: its predicates.
        sizes: the number of constants of each type.
        supports: the sparse predicates.
        masked: types of which some entities may be missing.
        observed: predicates that are evidence as a whole.
    """

    def __init__(self, theory: Theory, sizes: Mapping[str, int], supports: Mapping[str, Support],
                 masked: Collection[str], observed: Collection[str]):
        self.theory, self.sizes, self.supports, self.observed = theory, sizes, supports, observed
        # by the name of a literal, its type; no predicate can have such a name
        self.present = {f"{name} exists": name for name in masked}

    def is_sparse(self, cube: Cube) -> bool:
        """Whether a cube has a literal of a sparse predicate, or one that is true where an entity exists."""
        return any(f.predicate in self.supports or f.predicate in self.present if isinstance(f, Literal) else
                   isinstance(f, Product) and any(self.is_sparse(inner) for _, inner in f.terms) for f in cube.factors)

    def of_rule(self, terms: Iterable[Signed], span: Span | None) -> tuple[Signed, ...]:
        """The cases of a rule's violation count; cubes without sparse literals stay as they are."""
        found: list[Signed] = []
        terms = [(c, self._without_empty(cube)) for c, cube in terms]
        todo = [part for c, cube in terms for part in (
            self._expand(c, self._masked(cube, cube.variables, span), bool(self.present), span)
            if self.is_sparse(cube) else [(c, cube)])]
        while todo:
            coefficient, cube = todo.pop(0)
            if any(self.sizes[t] < n for t, n in cube.needs):
                continue
            product = next((f for f in cube.factors if isinstance(f, Product) and self.is_sparse(cube)
                            and len(set(names_in(f))) > 1), None)
            apart = next((f for f in cube.factors if isinstance(f, Differ) and not hosts(cube, f)), None)
            if not self.is_sparse(cube):
                found.append((coefficient, cube))
            elif apart is not None:
                todo[:0] = [(coefficient * c, part) for c, part in split_difference(cube, apart, self.theory.sizes)]
            elif (product is not None and not isinstance(product, Minus)
                    and self.elsewhere(self.of_quantifier(product, span)) != 0):
                rest = tuple(f for f in cube.factors if f is not product)
                # 1 + (product - 1): the second term is zero where the product has no rows
                minus = Minus(product.over, product.terms)
                todo[:0] = [(coefficient, replace(cube, factors=rest)),
                            (coefficient, replace(cube, factors=(*rest, minus)))]
            else:
                found.append((coefficient, cube))
        return collect(found)

    def _without_empty(self, cube: Cube) -> Cube:
        """The cube without products over no values, which are 1: `u+1` in a type with one constant."""
        if not any(isinstance(f, Product) for f in cube.factors):
            return cube
        kept: list[Factor] = []
        for f in cube.factors:
            if not isinstance(f, Product):
                kept.append(f)
            elif self.sizes[f.over.type] + f.over.low - f.over.high > 0:
                kept.append(replace(f, terms=tuple((c, self._without_empty(inner)) for c, inner in f.terms)))
        return replace(cube, factors=tuple(kept))

    def of_quantifier(self, product: Product, span: Span | None) -> tuple[Signed, ...]:
        """The cases of a quantified part, without any complement; 1 where an entity is missing."""
        return collect((c, self._masked(part, (product.over, *part.variables), span) if part.factors else part)
                       for c, cube in product.terms for c, part in self._expand(c, cube, True, span)
                       for c, part in _without_differences(c, part))

    def elsewhere(self, terms: Iterable[Signed]) -> int | None:
        """What the cases of a quantified part add up to where they have no rows; None if that depends on a mask."""
        found = [(c, cube.variables) for c, cube in terms if not cube.factors]
        if any(v.type in self.present.values() for _, variables in found for v in variables):
            return None
        return sum(c * math.prod(self.sizes[v.type] + v.low - v.high for v in variables) for c, variables in found)

    def _masked(self, cube: Cube, variables: Collection[Range], span: Span | None) -> Cube:
        """A cube that is zero where an entity of these variables is missing."""
        types = {v.name: v.type for v in variables if v.type in self.present.values()}
        if not self.present:
            return cube
        literals = [f for f in cube.factors if isinstance(f, Literal)]
        for literal in literals:
            for term, name in zip(literal.args, self.theory.predicate[literal.predicate].types, strict=True):
                if not isinstance(term, Var) and name in self.present.values():
                    raise CostError(f"mask[{name!r}] and the constant {term} of this rule cannot be combined with "
                                    "sparse tensors", span,
                                    "remove the mask, and the rows of entities that do not exist")
        terms = [t for f in literals for t in f.args if isinstance(t, Var)]
        used = {t.name for t in terms}
        # all entities of a grounding exist, also those that only other terms of the rule read
        terms += [Var(v.name, offset) for v in variables for offset in (v.low, 0, v.high)
                  if offset or v.name not in used]
        here = [Literal(f"{types[t.name]} exists", (t,)) for t in dict.fromkeys(terms) if t.name in types]
        return replace(cube, factors=(*cube.factors, *here))

    def _expand(self, coefficient: int, cube: Cube, every: bool, span: Span | None) -> list[Signed]:
        """The complement of a sparse literal is 1 minus the literal; with `every`, that of a dense literal, too."""
        chosen = [f for f in cube.factors if isinstance(f, Literal) and f.negated
                  and (every or (f.predicate in self.supports and not self._is_inside(f, cube)))]
        if len(chosen) > MAX_COMPLEMENTS:
            raise CostError(f"this rule has {len(chosen)} negated sparse literals (limit {MAX_COMPLEMENTS})",
                            span, f"split its head, or make one of {', '.join({f.predicate for f in chosen})} "
                            "dense")
        rest = tuple(f for f in cube.factors if f not in chosen)
        found = []
        for picked in itertools.product((False, True), repeat=len(chosen)):
            own = tuple(replace(f, negated=False) for f, take in zip(chosen, picked, strict=True) if take)
            found.append((coefficient * (-1) ** len(own), replace(cube, factors=(*rest, *own))))
        return found

    def _is_inside(self, literal: Literal, cube: Cube) -> bool:
        """Whether another literal restricts the cube to the rows of this one, so that its complement has these rows."""
        support = self.supports[literal.predicate]
        return literal.predicate not in self.observed and any(
            isinstance(f, Literal) and not f.negated and f.args == literal.args
            and self.supports.get(f.predicate) is support for f in cube.factors)


def _without_differences(coefficient: int, cube: Cube) -> list[Signed]:
    """Apply `[x!=y] = 1 - [x=y]` where no literal has both."""
    apart = next((f for f in cube.factors if isinstance(f, Differ) and not hosts(cube, f)), None)
    if apart is None:
        return [(coefficient, cube)]
    rest = tuple(f for f in cube.factors if f is not apart)
    same = Same(apart.left, apart.right).in_order()
    return [part for c, factors in ((coefficient, rest), (-coefficient, (*rest, same)))
            for part in _without_differences(c, replace(cube, factors=factors))]
