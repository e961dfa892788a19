"""Warnings: rules that are valid, but may not mean what the user intended.

Room: parse -> **normalize** -> cli, where `logicmp check` prints them.

    1.5 Smokes(x) => Cancer(x)      also makes Smokes(x) less likely, unless another rule or fact supports it
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import Span
from ..parse.syntax import Atom, Exists, Forall, Formula, Implies, Variable, atoms, children, free_variables, terms
from ..parse.theory import Rule
from .cubes import NormalForm


@dataclass(frozen=True, slots=True)
class Warning:
    """One message, and the rules or declarations it applies to."""

    message: str
    spans: tuple[Span | None, ...]

    @property
    def lines(self) -> tuple[int, ...]:
        return tuple(span.line for span in self.spans if span is not None)

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.lines[:8])) + (", ..." if len(self.lines) > 8 else "")
        return f"line{'s' * (len(self.lines) > 1)} {shown}: {self.message}" if self.lines else self.message


def find_warnings(form: NormalForm) -> list[Warning]:
    """Return all warnings about a theory; rules with the same warning share one."""
    theory = form.theory
    found: dict[str, list[Span | None]] = {}

    def say(message: str, span: Span | None) -> None:
        found.setdefault(message, []).append(span)

    used = {leaf.predicate for rule in theory.rules for leaf in atoms(rule.formula) if isinstance(leaf, Atom)}
    for predicate in theory.predicates:
        if predicate.name not in used:
            say(f"predicate {predicate.name} is in no rule", predicate.span)
    constants = {name.lower() for t in theory.types for name in t.constants}
    for normal in form.rules:
        rule = normal.rule
        if not normal.terms:
            say("this rule is always true and changes nothing", rule.span)
        elif all(not cube.factors for _, cube in normal.terms):
            say("this rule is never true" + (": no world satisfies it" if rule.is_hard else " and changes nothing"),
                rule.span)
        for message in _warnings(rule, constants):
            say(message, rule.span)
    seen: dict[Formula, Span | None] = {}
    for rule in theory.rules:
        if rule.formula in seen:
            say("this formula is given twice: the weights add up", rule.span)
        seen.setdefault(rule.formula, rule.span)
    return [Warning(message, tuple(spans)) for message, spans in found.items()]


def _warnings(rule: Rule, constants: set[str]) -> Iterator[str]:
    """Yield the warnings about one rule; `constants` are those of the theory, in lower case."""
    formula = rule.formula
    if isinstance(formula, Implies):
        if not rule.is_hard and (rule.weight is None or rule.weight > 0):
            yield ("a weighted implication also lowers its premise: an atom there becomes less likely "
                   "where the conclusion is unlikely")
        only = sorted(free_variables(formula.conclusion).keys() - free_variables(formula.premise).keys())
        if only:
            yield (f"{', '.join(only)} appear{'s' * (len(only) == 1)} only in the conclusion, so the rule requires the "
                   "conclusion for every constant")
    if rule.weight == 0:
        yield "the weight is zero: the rule changes nothing"
    variables = {t.name for leaf in atoms(formula) for t in terms(leaf) if isinstance(t, Variable)}
    for name in sorted(variables & constants):
        if len(name) > 1:
            yield f"{name} is a variable, but a constant has the same letters: capitalise or quote constants"
    if any(isinstance(part, (Exists, Forall)) for part in _parts(formula)) and rule.per_constant:
        yield "weights per constant and a quantifier in one rule: variables of the quantifier have no weights"


def _parts(formula: Formula) -> Iterator[Formula]:
    yield formula
    for child in children(formula):
        yield from _parts(child)
