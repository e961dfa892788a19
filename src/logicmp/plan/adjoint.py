"""Down: every message is a gradient, made of the values of the way up.

Room: normalize -> **plan** -> execute.  Paper: Section 3.2, Eq. 4-5.

    up      %3 = F(a,b), !S(b)  -> a      V = S(a), %3(a)  ->
    down    dV/dS(a) = %3(a)              dV/dF(a,b) = S(a), !S(b)  -> ab      dV/d!S(b) = S(a), F(a,b)  -> b

V is multilinear, so its derivative with respect to an atom is the sum of that atom's grounding messages. Reverse-mode
differentiation of the plan gives them all: it needs contractions of the same values, and many of those exist already.
"""

from __future__ import annotations

from dataclasses import replace

from .steps import Combine, Contract, Message, Multiply, Others, Read, Scaled, Step
from .values import LETTERS, Operand, Values


def walk_down(values: Values, seeds: dict[int, list[Scaled]]) -> list[Message]:
    """Differentiate all counts at once, each times its weight; return the messages to the reads.

    Args:
        values: the values of the way up; those that the messages need are added.
        seeds: for each value that is a term of a count, its factors in the weighted sum of all counts.
    """
    adjoints = {value: list(terms) for value, terms in seeds.items()}
    messages: list[Message] = []
    for value in range(len(values.steps) - 1, -1, -1):
        step, terms = values.steps[value], values.add_up(adjoints.get(value, ()))
        if not terms or not values.live[value]:
            continue
        if isinstance(step, Read):
            messages += (Message(value, term, term.value in values.symmetric and len(term.axes) == 2)
                         for term in terms)
            continue
        for operand, term in _pull_back(values, step, values.combine(terms, step.axes)):
            adjoints.setdefault(operand, []).append(term)
    return messages


def _pull_back(values: Values, step: Step, adjoint: Scaled) -> list[tuple[int, Scaled]]:
    """Return the adjoint of a step as adjoints of the values it is made of."""
    found: list[tuple[int, Scaled]] = []
    if isinstance(step, Contract):
        left_side, output = step.equation.split("->")
        terms = left_side.split(",")
        above = _as_operand(adjoint, tuple(output))
        for k, operand in enumerate(step.operands):
            if values.live[operand]:
                others = [(v, tuple(terms[j])) for j, v in enumerate(step.operands) if j != k]
                found.append((operand, _contribution(values, adjoint, [*above, *others], tuple(terms[k]))))
    elif isinstance(step, Combine):
        output_letters = tuple(LETTERS[: len(step.axes)])
        above = _as_operand(adjoint, output_letters)
        for term in step.terms:
            if term.value is not None and values.live[term.value]:
                letters = tuple(output_letters[k] for k in term.axes)
                # an axis that the term is constant along is summed over on the way down
                spread = tuple(axis for k, axis in enumerate(step.axes)
                               if k not in term.axes and k not in adjoint.axes)
                scaled = replace(adjoint, coefficient=adjoint.coefficient * term.coefficient,
                                 counts=adjoint.counts + term.counts + spread)
                found.append((term.value, _contribution(values, scaled, above, letters)))
    else:
        assert isinstance(step, Multiply)
        inner = values.steps[step.value]
        letters = tuple(LETTERS[: len(inner.axes)])
        above = _as_operand(adjoint, tuple(n for k, n in enumerate(letters) if k != step.over))
        rest = values.add(Others(step.value, step.over, inner.axes))
        found.append((step.value, _contribution(values, adjoint, [*above, (rest, letters)], letters)))
    return found


def _as_operand(adjoint: Scaled, letters: tuple[str, ...]) -> list[Operand]:
    return [] if adjoint.value is None else [(adjoint.value, tuple(letters[k] for k in adjoint.axes))]


def _contribution(values: Values, adjoint: Scaled, operands: list[Operand], letters: tuple[str, ...]) -> Scaled:
    """Return the adjoint with the contraction of some operands as its value."""
    value = values.contract(operands, letters)
    if value is None:
        return replace(adjoint, value=None, axes=())
    return replace(adjoint, value=value[0], axes=tuple(letters.index(n) for n in value[1]))
