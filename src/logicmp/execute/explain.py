"""Explain one atom: which rules pushed it, by how much, and in which groundings most.

Room: plan -> **execute** -> layer.  Paper: the grounding message of Eq. 3, one by one.

    Smokes(Bob)   +1.38   1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)
                  +1.21     x=Anna, y=Bob
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from ..errors import LogicMPError, closest
from ..normalize.build import normalize_theory, terms_by_grounding
from ..normalize.cubes import Const, Cube, Differ, Factor, Literal, NormalRule, Range, Same, Term
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
              theory: Theory, semantics: str, top: int) -> list[tuple[float, dict[str, str]]]:
    """The groundings of a rule that push an atom most, each once; atoms below a quantifier are skipped."""
    # clauses with the same variables share their groundings
    pieces: dict[frozenset[Range], list[_Piece]] = {}
    for free, terms in terms_by_grounding(normal.rule, theory, semantics, sizes):
        shared = pieces.setdefault(frozenset(free), [])
        for coefficient, cube in terms:
            if any(sizes[t] < n for t, n in cube.needs):
                continue
            values = {v.name: term for v, term in zip(free, cube.weight_at, strict=True)}
            weight_at = [values[name] for name in normal.rule.per_constant]
            for k, literal in enumerate(cube.factors):
                if isinstance(literal, Literal) and literal.predicate == atom.predicate:
                    scale = -coefficient * (-1 if literal.negated else 1) / normal.n_clauses
                    shared += [_Piece.of(cube, values, k, at, scale, weight, weight_at, q, sizes)
                               for at in _bindings(literal, atom, cube, sizes, theory)]
    found = [grounding for free, shared in pieces.items() if shared
             for grounding in _strongest_of(shared, {v.name: v.type for v in free}, theory, top)]
    found.sort(key=lambda grounding: -abs(grounding[0]))
    return found[:top]


def _strongest_of(pieces: Sequence[_Piece], types: Mapping[str, str], theory: Theory,
                  top: int) -> list[tuple[float, dict[str, str]]]:
    """Add up what the products of a rule give to the same grounding, and return the largest sums."""
    which, inverse = torch.cat([piece.rows for piece in pieces]).unique(  # type: ignore[no-untyped-call]
        dim=0, return_inverse=True)
    amounts = torch.cat([piece.amounts for piece in pieces])
    sums = amounts.new_zeros(len(which)).index_add_(0, inverse, amounts)
    best = torch.topk(sums.abs(), min(top, len(sums))).indices
    return [(amount, {name: _name(theory, types[name], k) for name, k in zip(sorted(types), row, strict=False)})
            for amount, row in zip(sums[best].tolist(), which[best].tolist(), strict=True) if amount]


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


@dataclass(frozen=True)
class _Piece:
    """What the groundings of one product give to an atom: the values of variables, sorted by name, and amounts."""

    rows: Tensor
    amounts: Tensor

    @classmethod
    def of(cls, cube: Cube, values: Mapping[str, Term], skip: int, at: Mapping[str, int], scale: float, weight: Tensor,
           weight_at: Sequence[Term], q: Mapping[str, Tensor], sizes: Mapping[str, int]) -> _Piece:
        """Multiply the factors of a cube but one, over the variables that are not in `at`."""
        free = [v for v in cube.variables if v.name not in at]
        shape = [sizes[v.type] + v.low - v.high for v in free]
        if math.prod(shape) > MAX_GROUNDINGS:
            raise LogicMPError(f"the atom has {math.prod(shape)} groundings in this rule (limit {MAX_GROUNDINGS})",
                               "use `amount`, which needs no groundings")
        places = {name: torch.tensor(value) for name, value in at.items()}
        for k, v in enumerate(free):
            places[v.name] = torch.arange(-v.low, sizes[v.type] - v.high).reshape([-1, *[1] * (len(free) - k - 1)])
        amounts = (weight[tuple(_where(term, places) for term in weight_at)] if weight_at else weight) * scale
        for k, factor in enumerate(cube.factors):
            if k != skip:
                amounts = amounts * _value(factor, places, q, sizes)
        flat = amounts.expand(shape).reshape(-1)
        rows = [_where(term, places).expand(shape).reshape(-1) for _, term in sorted(values.items())]
        # a last column of zeros, because `unique` needs one also for a rule without variables
        return cls(torch.stack([*rows, torch.zeros(len(flat), dtype=torch.long)], -1), flat)


def _where(term: Term, places: Mapping[str, Tensor]) -> Tensor:
    return torch.tensor(term.index) if isinstance(term, Const) else places[term.name] + term.offset


def _value(factor: Factor, places: Mapping[str, Tensor], q: Mapping[str, Tensor], sizes: Mapping[str, int]) -> Tensor:
    """A factor at the marginals, over the axes of `places`."""
    if isinstance(factor, Literal):
        x = q[factor.predicate][tuple(_where(term, places) for term in factor.args)]
        if factor.labels is not None:
            x = x[..., sorted(factor.labels)].sum(-1)
        return 1 - x if factor.negated else x
    if isinstance(factor, (Same, Differ)):
        return (_where(factor.left, places) == _where(factor.right, places)) == isinstance(factor, Same)
    # a last axis for the variable of the product, and one for each variable of a sum in it
    result = _over(factor.over, places, sizes)
    total = torch.zeros(())
    for coefficient, cube in factor.terms:
        inner = result
        for v in cube.variables:
            inner = _over(v, inner, sizes)
        term = torch.ones(())
        for part in cube.factors:
            term = term * _value(part, inner, q, sizes)
        term = term.expand(_shape(term, inner))
        # `sum` over no axes is one over all axes
        total = total + coefficient * (term.sum(tuple(range(-len(cube.variables), 0))) if cube.variables else term)
    return total.expand(_shape(total, result)).prod(-1)


def _shape(x: Tensor, others: Mapping[str, Tensor]) -> torch.Size:
    """The shape of a tensor together with others."""
    found: torch.Size = torch.broadcast_shapes(  # type: ignore[no-untyped-call]
        x.shape, *(y.shape for y in others.values()))
    return found


def _over(v: Range, places: Mapping[str, Tensor], sizes: Mapping[str, int]) -> dict[str, Tensor]:
    """The places with a new last axis, over the values of a variable."""
    values = torch.arange(-v.low, sizes[v.type] - v.high)
    return {**{name: x.unsqueeze(-1) for name, x in places.items()}, v.name: values}


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
    pushes = [Push(str(normal.rule), amount, partial(strongest, normal, weight, atom, all_q, inputs.sizes, theory,
                                                        semantics))
              for normal, weight, amount in zip(rules, weights, amounts, strict=True)]
    return sorted(pushes, key=lambda push: -abs(push.amount))
