"""Explain one atom: which rules pushed it, by how much, and in which groundings most.

Room: plan -> **execute** -> layer.  Paper: the grounding message of Eq. 3, one by one.

    Smokes(Bob)   +1.38   1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)
                  +1.21     x=Anna, y=Bob
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from ..errors import LogicMPError, closest
from ..normalize.build import normalize_theory
from ..normalize.cubes import Const, Cube, Differ, Literal, NormalRule, Product, Same, Term
from ..parse.theory import Theory
from .mean_field import Run
from .schedule import Schedule

# limit of the groundings of one atom in one product
MAX_GROUNDINGS = 2**24


@dataclass(frozen=True)
class AtomIndex:
    """An atom by its indices, with the label if the predicate is multi-class."""

    predicate: str
    index: tuple[int, ...]
    label: int | None = None

    @property
    def place(self) -> tuple[int, ...]:
        return self.index if self.label is None else (*self.index, self.label)


def find_atom(text: str, theory: Theory, sizes: Mapping[str, int]) -> AtomIndex:
    """The atom that `Friends(Anna, Bob)`, `C(3, 7)` or `label(2) = B-PER` names; unnamed entities by their index."""
    found = re.fullmatch(r"\s*([^\W\d][\w'-]*)\s*(?:\((.*)\))?\s*(?:=\s*(\S+)\s*)?", text)
    if found is None:
        raise LogicMPError(f"{text!r} is not an atom", "write it as Friends(Anna, Bob), or label(2) = B-PER")
    name, args, label = found.groups()
    if name not in theory.predicate:
        raise LogicMPError(f"{text!r} names {name!r}, which is not a predicate of the theory",
                           closest(name, list(theory.predicate), "predicate"))
    predicate = theory.predicate[name]
    given = [part.strip().strip('"') for part in args.split(",")] if args else []
    if len(given) != len(predicate.arguments) or (label is None) != (predicate.labels is None):
        raise LogicMPError(f"{text!r} does not fit {predicate}")
    index = []
    for part, type_name in zip(given, predicate.types, strict=True):
        if theory.has_constant(type_name, part):
            index.append(theory.index(type_name, part))
        elif part.isdecimal() and int(part) < sizes[type_name]:
            index.append(int(part))
        else:
            raise LogicMPError(f"{part!r} in {text!r} is not a {type_name}",
                               f"name a constant, or an index below {sizes[type_name]}")
    if label is not None and label not in (predicate.labels or ()):
        raise LogicMPError(f"{label!r} is not a label of {name}", closest(label, predicate.labels or (), "label"))
    return AtomIndex(name, tuple(index), None if label is None else (predicate.labels or ()).index(label))


@dataclass(frozen=True)
class Push:
    """What one rule adds to the log-odds of one atom."""

    rule: str
    amount: float
    _find: Callable[[int], list[tuple[float, dict[str, str]]]] = field(repr=False, compare=False)

    def groundings(self, top: int = 3) -> list[tuple[float, dict[str, str]]]:
        """The groundings that push most, strongest first, each with its variables; computed on call."""
        return self._find(top)

    def __str__(self) -> str:
        return f"{self.amount:+.3f}   {self.rule}"


def push_of_each_rule(run: Run, q: Mapping[str, Tensor], atom: AtomIndex, item: int) -> list[float]:
    """What each rule alone adds to the log-odds of an atom, at given marginals."""
    weights = [w.detach() for w in run.call.weights]
    amounts = []
    for f in range(len(weights)):
        call = replace(run.call, weights=[w if k == f else torch.zeros_like(w) for k, w in enumerate(weights)])
        zeros = {atom.predicate: torch.zeros_like(q[atom.predicate])}
        update = run.executor.subtract_messages(zeros, q, call, run.executor.constants(call))
        amounts.append(float(update[atom.predicate][(item, *atom.place)]))
    return amounts


def strongest(normal: NormalRule, weight: Tensor, atom: AtomIndex, q: Mapping[str, Tensor], sizes: Mapping[str, int],
              theory: Theory, top: int) -> list[tuple[float, dict[str, str]]]:
    """The groundings of a rule that push an atom most; terms with a quantified part are skipped."""
    found: list[tuple[float, dict[str, str]]] = []
    for coefficient, cube in normal.terms:
        if any(isinstance(f, Product) for f in cube.factors):
            continue
        for k, literal in enumerate(cube.factors):
            if isinstance(literal, Literal) and literal.predicate == atom.predicate:
                for at in _bindings(literal, atom, cube, sizes, theory):
                    scale = -coefficient * (-1 if literal.negated else 1) / normal.n_clauses
                    found += _ranked(cube, k, at, scale, weight, q, sizes, theory, top)
    found.sort(key=lambda grounding: -abs(grounding[0]))
    return found[:top]


def _bindings(literal: Literal, atom: AtomIndex, cube: Cube, sizes: Mapping[str, int],
              theory: Theory) -> list[dict[str, int]]:
    """The values of variables under which a literal is the atom."""
    if literal.labels is not None and atom.label not in literal.labels:
        return []
    orders = {atom.index, atom.index[::-1]} if theory.predicate[atom.predicate].symmetric else {atom.index}
    ranges = {v.name: v for v in cube.variables}
    found = []
    for index in sorted(orders):
        at: dict[str, int] = {}
        for term, value in zip(literal.args, index, strict=True):
            if isinstance(term, Const):
                if term.index != value:
                    break
            elif at.setdefault(term.name, value - term.offset) != value - term.offset:
                break
        else:
            if all(x + ranges[n].low >= 0 and x + ranges[n].high < sizes[ranges[n].type] for n, x in at.items()):
                found.append(at)
    return found


def _ranked(cube: Cube, skip: int, at: Mapping[str, int], scale: float, weight: Tensor, q: Mapping[str, Tensor],
            sizes: Mapping[str, int], theory: Theory, top: int) -> list[tuple[float, dict[str, str]]]:
    """All groundings of one product at once: the other factors over the variables that are still free."""
    free = [v for v in cube.variables if v.name not in at]
    shape = [sizes[v.type] + v.low - v.high for v in free]
    if math.prod(shape) > MAX_GROUNDINGS:
        raise LogicMPError(f"the atom has {math.prod(shape)} groundings in this rule (limit {MAX_GROUNDINGS})",
                           "use `amount`, which needs no groundings")
    places: dict[str, Tensor] = {name: torch.tensor(value) for name, value in at.items()}
    for k, v in enumerate(free):
        own = [1] * len(free)
        own[k] = shape[k]
        places[v.name] = torch.arange(-v.low, sizes[v.type] - v.high).reshape(own)

    def where(term: Term) -> Tensor:
        return torch.tensor(term.index) if isinstance(term, Const) else places[term.name] + term.offset

    w = weight[tuple(map(where, cube.weight_at))] if cube.weight_at else weight
    amount = (w * scale).expand(shape) if shape else w * scale
    for k, factor in enumerate(cube.factors):
        if k == skip:
            continue
        if isinstance(factor, Literal):
            x = q[factor.predicate][tuple(map(where, factor.args))]
            if factor.labels is not None:
                x = x[..., sorted(factor.labels)].sum(-1)
            amount = amount * (1 - x if factor.negated else x)
        elif isinstance(factor, (Same, Differ)):
            amount = amount * ((where(factor.left) == where(factor.right)) == isinstance(factor, Same))
    amount = amount.expand(shape).reshape(-1)
    best = torch.topk(amount.abs(), min(top, amount.numel())).indices
    found = []
    for position in best.tolist():
        values = dict(at)
        rest = position
        for v, n in zip(reversed(free), reversed(shape), strict=True):
            values[v.name] = rest % n - v.low
            rest //= n
        names = {v.name: _name(theory, v.type, values[v.name]) for v in cube.variables}
        if amount[position] != 0:
            found.append((float(amount[position]), names))
    return found


def _name(theory: Theory, type_name: str, index: int) -> str:
    constants = theory.type[type_name].constants
    return constants[index] if index < len(constants) else f"#{index}"


def explain_atom(run: Run, schedule: Schedule, text: str, item: int, semantics: str) -> list[Push]:
    """What each rule pushed an atom of one item by at the end of a run, strongest first."""
    inputs, theory = run.inputs, run.theory
    atom = find_atom(text, theory, inputs.sizes)
    if item >= len(inputs.like):
        raise LogicMPError(f"item must be below the number of items, {len(inputs.like)}, got {item}")
    q = run.marginals(run.iterate(schedule), run.temperature)
    rules = normalize_theory(theory, semantics, inputs.sizes).rules
    scale = 1.0 if run.scale is None else float(run.scale[item])
    amounts = [scale * amount for amount in push_of_each_rule(run, q, atom, item)]
    all_q = {name: tensor[item] for name, tensor in {**q, **inputs.observed}.items()}
    weights = [scale * (w.detach()[item if w.shape[0] > 1 else 0] if w.dim() else w.detach())
               for w in run.call.weights]
    pushes = [Push(str(normal.rule), amount, partial(strongest, normal, weight, atom, all_q, inputs.sizes, theory))
              for normal, weight, amount in zip(rules, weights, amounts, strict=True)]
    return sorted(pushes, key=lambda push: -abs(push.amount))
