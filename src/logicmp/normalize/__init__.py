"""A checked theory to its exact normal form.

Stage: parse -> **normalize** -> plan.  Paper: Eq. 1-3, Theorems 1 and 2.

    exact     not-f as a disjoint sum of products, atoms that meet resolved: V is Eq. 1's count, to the letter
    paper     a sum over the clauses of f, each with the whole weight, meeting atoms taken as independent (Eq. 4-5)
    alchemy   a sum over the clauses of f, the weight divided among them, each clause exact
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..errors import CostError, LogicMPError
from ..parse.syntax import And, Constant, Exists, Formula, Not, Or, children, free_variables
from ..parse.theory import Rule, Theory
from .clauses import is_clause, to_clauses
from .coincide import MeetError, Resolver
from .cubes import Cube, NormalForm, NormalRule, Range, Signed, Var, collect
from .expand import Expander, multiply, rename_apart, variable_ranges, write_out

__all__ = ["SEMANTICS", "NormalForm", "normalize"]

SEMANTICS = ("exact", "paper", "alchemy")
MAX_CUBES = 512


def normalize(theory: Theory, semantics: str = "exact", sizes: Mapping[str, int] | None = None,
              max_cubes: int = MAX_CUBES) -> NormalForm:
    """Every rule as signed cubes whose sum is its expected number of violations.

    >>> from logicmp.parse import parse_theory
    >>> print(normalize(parse_theory("2 C(a,b) ^ C(b,c) => C(a,c)")), end="")
    2 C(a, b) ^ C(b, c) => C(a, c)
      + C(a,b) C(b,c) !C(a,c) [b!=c] [a!=b]

    Args:
        sizes: the number of constants of each type; only a quantifier that has to be written out needs them.
        max_cubes: refuse a rule that needs more products than this.
    """
    if semantics not in SEMANTICS:
        raise LogicMPError(f"unknown semantics {semantics!r}", f"known: {', '.join(SEMANTICS)}")
    normalizer = _Normalizer(theory, semantics, theory.with_sizes(sizes or {}), max_cubes)
    rules = tuple(normalizer.rule(rule) for rule in theory.rules)
    return NormalForm(theory, semantics, rules, normalizer.is_sized)


class _Normalizer:
    def __init__(self, theory: Theory, semantics: str, sizes: Mapping[str, int], max_cubes: int):
        self.theory = theory
        self.semantics = semantics
        self.sizes = sizes
        self.max_cubes = max_cubes
        self.is_sized = False

    def rule(self, rule: Rule) -> NormalRule:
        formula = rename_apart(rule.formula)
        if self.semantics == "exact" or (rule.indivisible and not is_clause(formula)):
            return NormalRule(rule, self._exact(rule, formula), 1, (self._free(rule, formula),))
        clauses = to_clauses(replace(rule, formula=formula), self.max_cubes)
        one = self._exact if self.semantics == "alchemy" else self._paper
        formulas = [rename_apart(Or(clause)) for clause in clauses]
        terms = collect(term for clause in formulas for term in one(rule, clause))
        # a hard clause is as hard as the rule it came from
        is_divided = self.semantics == "alchemy" and clauses and not rule.is_hard
        groundings = tuple(self._free(rule, clause) for clause in formulas)
        return NormalRule(rule, terms, len(clauses) if is_divided else 1, groundings)

    def _free(self, rule: Rule, formula: Formula) -> tuple[Range, ...]:
        """The variables that are summed over: those of the formula, and those that have weights of their own."""
        found = variable_ranges(formula)
        free = {name: found[name] for name in free_variables(formula)}
        for name in rule.per_constant:
            free.setdefault(name, Range(name, rule.variables[name]))
        return tuple(free.values())

    def _exact(self, rule: Rule, formula: Formula) -> tuple[Signed, ...]:
        """Expand, then resolve what meets; a quantifier under which that fails is written out, and all begins anew."""
        free = self._free(rule, formula)
        weight_at = tuple(Var(name) for name in rule.per_constant)
        theory = self.theory
        while True:
            ranges = {**variable_ranges(formula), **{v.name: v for v in free}}
            expander = Expander(theory, rule, ranges, self.max_cubes)
            resolver = Resolver(theory, rule, self.max_cubes)
            try:
                return collect(
                    (coefficient * c, settled) for coefficient, cube in self._violations(expander, formula)
                    for c, settled in resolver.settle(Cube((*free, *cube.variables), cube.factors, weight_at)))
            except MeetError as error:
                theory, formula = self._write_out(theory, rule, formula, ranges[error.variable])

    def _violations(self, expander: Expander, formula: Formula) -> list[Signed]:
        """not-f, or 1 - f where that has fewer products."""
        try:
            violated = expander.expand(Not(formula))
        except CostError:
            violated = None
        if violated is not None and len(violated) < 2:
            return violated
        try:
            satisfied = expander.expand(formula)
        except CostError:
            if violated is None:
                raise
            return violated
        if violated is not None and len(violated) <= len(satisfied):
            return violated
        return [(1, Cube((), ())), *((-coefficient, cube) for coefficient, cube in satisfied)]

    def _write_out(self, theory: Theory, rule: Rule, formula: Formula, over: Range) -> tuple[Theory, Formula]:
        """Replace a quantifier by a disjunction over all constants; the unnamed ones get names for it."""
        why = f"a quantifier over {over.type!r} must be written out here, because atoms meet below it, "
        size = self.sizes[over.type]
        if size == 0:
            raise CostError(f"{why}but {over.type!r} has no constants yet", rule.span,
                            f"declare them ({over.type} = {{A, B, C}}) or give sizes")
        if size > self.max_cubes:
            raise CostError(f"{why}and {over.type!r} has {size} constants (limit {self.max_cubes})", rule.span,
                            "split the rule so that no atom can stand under the quantifier twice, or raise max_cubes")
        self.is_sized = True
        named = theory.type[over.type].constants
        # no text can hold such a name, so that none of the user's is taken
        theory = theory.with_constants({over.type: tuple(f"\0{k}" for k in range(len(named), size))})
        values = [Constant(name, over.type) for name in theory.type[over.type].constants]
        return theory, rename_apart(write_out(formula, over.name, values, over))

    def _paper(self, rule: Rule, clause: Formula) -> tuple[Signed, ...]:
        """One product over the literals of a clause as they stand, coincidences ignored (Eq. 4)."""
        weight_at = tuple(Var(name) for name in rule.per_constant)
        terms: list[Signed] = [(1, Cube(self._free(rule, clause), ()))]
        for part in children(clause):
            terms = multiply(terms, self._false(rule, part, clause))
        resolver = Resolver(self.theory, rule, self.max_cubes)
        equated = ((c, resolver.eliminate_equalities(replace(cube, weight_at=weight_at))) for c, cube in terms)
        return tuple((c, cube) for c, cube in equated if cube is not None)

    def _false(self, rule: Rule, part: Formula, clause: Formula) -> list[Signed]:
        """The probability that one literal of a clause, or one quantified part, is false; exact within the part."""
        theory = self.theory
        while True:
            ranges = {**variable_ranges(part), **{v.name: v for v in self._free(rule, clause)}}
            cubes = Expander(theory, rule, ranges, self.max_cubes).expand(Not(part))
            if not isinstance(part, (Exists, And, Or)):
                return cubes
            resolver = Resolver(theory, rule, self.max_cubes)
            try:
                return [(c * k, settled) for c, cube in cubes for k, settled in resolver.settle(cube)]
            except MeetError as error:
                theory, part = self._write_out(theory, rule, part, ranges[error.variable])
