"""What is right but perhaps not meant: warnings about a theory.

Stage: parse -> **normalize**.  Shown by `logicmp check`.

    1.5 Smokes(x) => Cancer(x)      also makes Smokes(x) less likely, unless something else speaks for it
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
    """One remark, and the rules or declarations it is about."""

    message: str
    spans: tuple[Span | None, ...]

    @property
    def lines(self) -> tuple[int, ...]:
        return tuple(span.line for span in self.spans if span is not None)

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.lines[:8])) + (", ..." if len(self.lines) > 8 else "")
        return f"line{'s' * (len(self.lines) > 1)} {shown}: {self.message}" if self.lines else self.message


def find_warnings(form: NormalForm) -> list[Warning]:
    """Everything worth a second look, one remark for all the rules it is about."""
    theory = form.theory
    found: dict[str, list[Span | None]] = {}

    def say(message: str, span: Span | None) -> None:
        found.setdefault(message, []).append(span)

    used = {leaf.predicate for rule in theory.rules for leaf in atoms(rule.formula) if isinstance(leaf, Atom)}
    for predicate in theory.predicates:
        if predicate.name not in used:
            say(f"predicate {predicate.name} stands in no rule", predicate.span)
    constants = {name.lower() for t in theory.types for name in t.constants}
    for normal in form.rules:
        rule = normal.rule
        if not normal.terms:
            say("this rule is always true and changes nothing", rule.span)
        elif all(not cube.factors for _, cube in normal.terms):
            say("this rule is never true" + (": no world satisfies it" if rule.is_hard else " and changes nothing"),
                rule.span)
        for message in _remarks(rule, constants):
            say(message, rule.span)
    seen: dict[Formula, Span | None] = {}
    for rule in theory.rules:
        if rule.formula in seen:
            say("the same formula stands twice: the weights add up", rule.span)
        seen.setdefault(rule.formula, rule.span)
    return [Warning(message, tuple(spans)) for message, spans in found.items()]


def _remarks(rule: Rule, constants: set[str]) -> Iterator[str]:
    """Remarks on one rule; `constants` are those of the theory, in small letters."""
    formula = rule.formula
    if isinstance(formula, Implies):
        if not rule.is_hard and (rule.weight is None or rule.weight > 0):
            yield ("a weighted implication also lowers its premise: an atom there becomes less likely "
                   "where the conclusion is unlikely")
        only = sorted(free_variables(formula.conclusion).keys() - free_variables(formula.premise).keys())
        if only:
            yield f"{', '.join(only)} stands only in the conclusion, so the rule claims it for every constant"
    if rule.weight == 0:
        yield "the weight is zero: the rule changes nothing"
    variables = {t.name for leaf in atoms(formula) for t in terms(leaf) if isinstance(t, Variable)}
    for name in sorted(variables & constants):
        if len(name) > 1:
            yield f"{name} is a variable, though a constant has its letters: constants are capitalised or quoted"
    if any(isinstance(part, (Exists, Forall)) for part in _parts(formula)) and rule.per_constant:
        yield "weights per constant and a quantifier in one rule: only the free variables have weights of their own"


def _parts(formula: Formula) -> Iterator[Formula]:
    yield formula
    for child in children(formula):
        yield from _parts(child)
