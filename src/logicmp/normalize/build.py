"""Turn every rule of a theory into signed products that add up to its expected number of violations.

Room: parse -> **normalize** -> ground, plan.  Paper: Eq. 1-3, Theorems 1 and 2.

    exact     not-f as a sum of disjoint products, with atoms that meet resolved: V is the expected count of Eq. 1
    paper     a sum over the clauses of f, each with the full weight, atoms that meet taken as independent (Eq. 4-5)
    alchemy   a sum over the clauses of f, the weight divided among them, the expected count of each clause exact
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..arguments import AtLeastOne, Count, checked
from ..errors import CostError, LogicMPError
from ..parse.syntax import And, Constant, Exists, Formula, Not, Or, children, free_variables
from ..parse.theory import Rule, Theory
from .budget import MAX_CUBES, Budget
from .clauses import is_clause, to_clauses
from .cubes import Cube, NormalForm, NormalRule, Range, Signed, Var, collect
from .expand import Expander, multiply, rename_apart, variable_ranges, write_out
from .meet import MeetError, Resolver

SEMANTICS = ("exact", "paper", "alchemy")


@checked
def normalize_theory(theory: Theory, semantics: str = "exact", sizes: Mapping[str, Count] | None = None,
                     max_cubes: AtLeastOne = MAX_CUBES) -> NormalForm:
    """Return every rule as signed cubes whose sum is its expected number of violations.

    >>> from logicmp import parse_theory
    >>> print(normalize_theory(parse_theory("2 C(a,b) ^ C(b,c) => C(a,c)")), end="")
    2 C(a, b) ^ C(b, c) => C(a, c)
      + C(a,b) C(b,c) !C(a,c) [b!=c] [a!=b]

    Args:
        theory: the rules.
        semantics: "exact", "paper" or "alchemy".
        sizes: the number of constants of each type; needed only for a quantifier that must be written out.
        max_cubes: reject a rule that needs more products than this.
    """
    if semantics not in SEMANTICS:
        raise LogicMPError(f"unknown semantics {semantics!r}", f"available semantics: {', '.join(SEMANTICS)}")
    normalizer = _Normalizer(theory, semantics, theory.with_sizes(sizes or {}), max_cubes)
    rules = tuple(normalizer.rule(rule) for rule in theory.rules)
    return NormalForm(theory, semantics, rules, normalizer.is_sized)


def terms_by_grounding(rule: Rule, theory: Theory, semantics: str, sizes: Mapping[str, int]
                       ) -> list[tuple[tuple[Range, ...], tuple[Signed, ...]]]:
    """The formula of a rule, or each of its clauses: its variables and its cubes.

    `weight_at` of a cube has a term for each of these variables, also for those that the cube does not sum over. Cubes
    of different groundings are not merged.
    """
    normalizer = _Normalizer(theory, semantics, theory.with_sizes(sizes), MAX_CUBES, by_grounding=True)
    return [(free, collect(terms)) for free, terms in normalizer.parts(rule)]


def counted_formulas(rule: Rule, semantics: str, max_clauses: int = MAX_CUBES
                     ) -> list[tuple[Formula, float, tuple[Range, ...]]]:
    """Return the formula of a rule, or its clauses, each with its share of the weight and the variables to sum over.

    Every formula is renamed apart.
    """
    formula = rename_apart(rule.formula)
    if _is_whole(rule, semantics):
        return [(formula, 1.0, _free(rule, formula))]
    clauses = [rename_apart(Or(clause)) for clause in to_clauses(replace(rule, formula=formula), max_clauses)]
    # the clauses of a hard rule are hard too
    share = 1 / len(clauses) if semantics == "alchemy" and clauses and not rule.is_hard else 1.0
    return [(clause, share, _free(rule, clause)) for clause in clauses]


def _is_whole(rule: Rule, semantics: str) -> bool:
    """Whether the formula itself is counted, and not its clauses."""
    return semantics == "exact" or (rule.indivisible and not is_clause(rename_apart(rule.formula)))


def _free(rule: Rule, formula: Formula) -> tuple[Range, ...]:
    """The variables to sum over: the free ones of the formula, and those with one weight per constant."""
    found = variable_ranges(formula)
    free = {name: found[name] for name in free_variables(formula)}
    for name in rule.per_constant:
        free.setdefault(name, Range(name, rule.variables[name]))
    return tuple(free.values())


class _Normalizer:
    def __init__(self, theory: Theory, semantics: str, sizes: Mapping[str, int], max_cubes: int,
                 by_grounding: bool = False):
        self.theory = theory
        self.semantics = semantics
        self.sizes = sizes
        self.max_cubes = max_cubes
        self.by_grounding = by_grounding
        self.is_sized = False

    def rule(self, rule: Rule) -> NormalRule:
        parts = list(self.parts(rule))
        terms = collect(term for _, found in parts for term in found)
        self.budget.check(len(terms))
        is_shared = self.semantics == "alchemy" and parts and not rule.is_hard
        return NormalRule(rule, terms, len(parts) if is_shared else 1, tuple(free for free, _ in parts))

    def parts(self, rule: Rule) -> Iterator[tuple[tuple[Range, ...], tuple[Signed, ...]]]:
        """The variables and terms of the formula, or of each clause."""
        # shared by its clauses, and by all tries to write its quantifiers out
        self.budget = Budget(rule, self.max_cubes)
        one = self._paper if self.semantics == "paper" and not _is_whole(rule, self.semantics) else self._exact
        for formula, _, free in counted_formulas(rule, self.semantics, self.max_cubes):
            yield free, one(rule, formula)

    def _weight_at(self, rule: Rule, free: Sequence[Range]) -> tuple[Var, ...]:
        return tuple(map(Var, (v.name for v in free) if self.by_grounding else rule.per_constant))

    def _exact(self, rule: Rule, formula: Formula) -> tuple[Signed, ...]:
        """Expand, then resolve atoms that meet; write out a quantifier below which that fails, and start again."""
        free = _free(rule, formula)
        weight_at = self._weight_at(rule, free)
        theory = self.theory
        while True:
            ranges = {**variable_ranges(formula), **{v.name: v for v in free}}
            expander, resolver = Expander(theory, ranges, self.budget), Resolver(theory, self.budget)
            try:
                return collect(
                    (coefficient * c, settled) for coefficient, cube in self._violations(expander, formula)
                    for c, settled in resolver.settle(Cube((*free, *cube.variables), cube.factors, weight_at)))
            except MeetError as error:
                theory, formula = self._write_out(theory, rule, formula, ranges[error.variable])

    def _violations(self, expander: Expander, formula: Formula) -> list[Signed]:
        """Expand not-f, or 1 - f if that has fewer products."""
        steps = self.budget.steps
        try:
            violated = expander.expand(Not(formula))
        except CostError:
            violated = None
            # half of them again, so that all tries together are limited
            self.budget.steps = steps // 2
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
        """Replace a quantifier by a disjunction over all constants, unnamed ones included."""
        why = f"the quantifier over {over.type!r} must be written out, because it can contain an atom twice, "
        size = self.sizes[over.type]
        if size == 0:
            raise CostError(f"{why}but {over.type!r} has no constants yet", rule.span,
                            f"declare them ({over.type} = {{A, B, C}}) or give sizes")
        if size > self.max_cubes:
            raise CostError(f"{why}and {over.type!r} has {size} constants (limit {self.max_cubes})", rule.span,
                            "split the rule so that the quantifier cannot contain an atom twice, or raise max_cubes")
        self.is_sized = True
        named = theory.type[over.type].constants
        # a text cannot contain these names, so they differ from the user's
        theory = theory.with_constants({over.type: tuple(f"\0{k}" for k in range(len(named), size))})
        values = [Constant(name, over.type) for name in theory.type[over.type].constants]
        return theory, rename_apart(write_out(formula, over.name, values, over))

    def _paper(self, rule: Rule, clause: Formula) -> tuple[Signed, ...]:
        """One product over the literals of a clause, even where two of them are one atom (Eq. 4)."""
        free = _free(rule, clause)
        weight_at = self._weight_at(rule, free)
        terms: list[Signed] = [(1, Cube(free, ()))]
        for part in children(clause):
            terms = multiply(terms, self._false(rule, part, free))
            self.budget.check(len(terms))
        resolver = Resolver(self.theory, self.budget)
        equated = ((c, resolver.eliminate_equalities(replace(cube, weight_at=weight_at))) for c, cube in terms)
        return tuple((c, cube) for c, cube in equated if cube is not None)

    def _false(self, rule: Rule, part: Formula, free: tuple[Range, ...]) -> list[Signed]:
        """The probability that a literal or quantified part of a clause is false; atoms meet only inside the part."""
        theory = self.theory
        while True:
            ranges = {**variable_ranges(part), **{v.name: v for v in free}}
            cubes = Expander(theory, ranges, self.budget).expand(Not(part))
            if not isinstance(part, (Exists, And, Or)):
                return cubes
            resolver = Resolver(theory, self.budget)
            try:
                return [(c * k, settled) for c, cube in cubes for k, settled in resolver.settle(cube)]
            except MeetError as error:
                theory, part = self._write_out(theory, rule, part, ranges[error.variable])
