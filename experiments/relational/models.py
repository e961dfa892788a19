"""Train models that give every atom its log-odds.

    logicmp+embedding, logicmp+gnn   distilled: the target is LogicMP's output over all groundings, without gradient
    gs                               maximizes the expected truth of sampled groundings (grounding scores)
    expressgnn                       fits the facts only

The models are evaluated without the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from logicmp.normalize.clauses import to_clauses
from logicmp.parse.syntax import Atom, Constant, Not, Variable

from .data import Split
from .encoders import Encoder, Graph
from .inference import Teacher
from .training import Context, descend


def train_encoders(encoders: list[Encoder], split: Split, context: Context,
                   loss_of: Callable[[dict[str, Tensor]], Tensor]) -> Tensor:
    """Minimize a loss of the log-odds of all atoms; return the mean scores of the models."""
    def losses() -> Iterator[Tensor]:
        for encoder in encoders:
            yield loss_of(encoder())

    def scores() -> Tensor:
        return split.pick(mean_odds(encoders))

    return descend(nn.ModuleList(encoders), losses, split, scores, context, context.get("steps", 60),
                   context.get("rate", 2e-3))


def mean_odds(encoders: Iterable[Encoder]) -> dict[str, Tensor]:
    found = [encoder() for encoder in encoders]
    return {name: torch.stack([odds[name] for odds in found]).mean(0) for name in found[0]}


def make_encoders(kind: type[Encoder], split: Split, context: Context,
                  predicates: Collection[str] | None = None) -> list[Encoder]:
    torch.manual_seed(context.seed)
    added = {"is_added": context.get("added", False)} if issubclass(kind, Graph) else {}
    return [kind(split.world, context.get("dim", 128), context.get("free", True), predicates, **added)
            for _ in range(context.get("networks", 1))]


def _fit(split: Split) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Cross-entropy of the facts, the mean over predicates with facts; 0 if the model has none of them."""
    known = {name: torch.from_numpy(values) for name, values in split.world.values.items() if (values != -1).any()}

    def loss(logits: Mapping[str, Tensor]) -> Tensor:
        parts = [nn.functional.binary_cross_entropy_with_logits(logits[name][x != -1], x[x != -1].float())
                 for name, x in known.items() if name in logits]
        return torch.stack(parts).mean() if parts else torch.zeros(())

    return loss


class Targets:
    """The log-odds that models are distilled on, and the weights of the atoms of each predicate.

    Observed atoms have no weight: the log-odds that the rules give a fact contradict the fact, and no rule reads them.

    Args:
        log_odds: LogicMP's output.
        evidence: NaN for unobserved atoms.
        blank: the output without facts, to weight atoms by the effect of the facts; None for equal weights.
        top: share of the weight that is given to the likeliest atoms, in proportion to their odds.
    """

    def __init__(self, log_odds: Mapping[str, Tensor], evidence: Mapping[str, Tensor],
                 blank: Mapping[str, Tensor] | None = None, top: float = 0.0):
        self.parts: dict[str, tuple[Tensor, Tensor]] = {}
        self.units: dict[str, tuple[Tensor, Tensor]] = {}
        for name, x in log_odds.items():
            is_open = evidence[name].isnan() if name in evidence else torch.ones_like(x, dtype=torch.bool)
            weight = is_open.to(x) if blank is None else (x - blank[name]).abs() * is_open
            weight = weight / weight.sum() if weight.any() else is_open / is_open.sum()
            weight = (1 - top) * weight + top * x.where(is_open, -torch.inf).flatten().softmax(0).view_as(x)
            # the log-odds of predicates differ by orders of magnitude
            mean = x[is_open].mean()
            spread = (weight * (x - mean).square()).sum()
            self.parts[name] = x.float(), (weight / spread.clamp_min(0.01)).float()
            self.units[name] = mean.float(), x[is_open].std(correction=0).float()

    def distance(self, logits: Mapping[str, Tensor]) -> Tensor:
        """The unexplained share of the targets: 1 if a model gives all atoms of a predicate their mean."""
        return torch.stack([(weight * (logits[name] - target).square()).sum()
                            for name, (target, weight) in self.parts.items()]).mean()


def distilled(kind: type[Encoder], teacher: Teacher) -> Callable[[Split, Context], Tensor]:
    """Distill LogicMP into an encoder."""
    def run(split: Split, context: Context) -> Tensor:
        layer, unary, evidence = teacher(split, context)
        with torch.no_grad():
            log_odds = layer.run(unary, evidence)
            blank = layer.run(unary) if context.get("moved", True) else None
        # no rule reads what the model says about other predicates: the rounds of the teacher have been run
        names = split.queries if context.get("queried", False) else None
        targets = Targets({name: x for name, x in log_odds.items() if names is None or name in names}, evidence, blank,
                          context.get("top", 0.0))
        encoders, fit = make_encoders(kind, split, context, names), _fit(split)
        for encoder in encoders:
            encoder.measure(targets.units)
        return train_encoders(encoders, split, context, lambda logits: targets.distance(logits)
                              + context.get("fit", 0.1) * fit(logits))

    return run


def run_expressgnn(split: Split, context: Context) -> Tensor:
    return train_encoders(make_encoders(Graph, split, context), split, context, _fit(split))


@dataclass(frozen=True)
class _Clause:
    """A clause as literals (predicate, sign, arguments), and the types of its variables."""

    literals: list[tuple[str, bool, list[tuple[str, int]]]]
    types: list[str]


def _clauses(split: Split) -> list[_Clause]:
    found = []
    for rule in split.theory.rules:
        (clause,) = to_clauses(rule, 1)
        names = list(rule.variables)
        literals = []
        for part in clause:
            atom = part.body if isinstance(part, Not) else part
            assert isinstance(atom, Atom)
            places = []
            for arg in atom.args:
                if isinstance(arg, Constant):
                    places.append(("constant", split.theory.index(arg.type, arg.name)))
                else:
                    assert isinstance(arg, Variable)
                    places.append(("variable", names.index(arg.name)))
            literals.append((atom.predicate, not isinstance(part, Not), places))
        found.append(_Clause(literals, [rule.variables[name] for name in names]))
    return found


def run_gs(split: Split, context: Context) -> Tensor:
    """Maximize the expected truth of sampled groundings; with probability 0.9 one atom is a fact."""
    encoders = make_encoders(Graph, split, context)
    world, batch = split.world, context.get("batch", 256)
    clauses, fit = _clauses(split), _fit(split)
    facts = {name: torch.from_numpy(values == 1).nonzero() for name, values in world.values.items()}
    known = {name: torch.from_numpy(values) for name, values in world.values.items()}

    def sample(clause: _Clause) -> Tensor:
        rows = torch.stack([torch.randint(world.sizes[t], (batch,)) for t in clause.types], 1)
        anchors = [(name, places) for name, _, places in clause.literals if len(facts[name])]
        if anchors:
            name, places = anchors[int(torch.randint(len(anchors), ()))]
            chosen = facts[name][torch.randint(len(facts[name]), (batch,))]
            is_anchored = torch.rand(batch) < 0.9
            for k, (kind, place) in enumerate(places):
                if kind == "variable":
                    rows[:, place] = torch.where(is_anchored, chosen[:, k], rows[:, place])
        return rows

    def loss(logits: dict[str, Tensor]) -> Tensor:
        q = {}
        for name, x in logits.items():
            p = torch.sigmoid(x)
            q[name] = torch.where(known[name] == -1, p, known[name].to(p))
        total = []
        for clause in clauses:
            rows = sample(clause)
            false = torch.ones(batch)
            for name, positive, places in clause.literals:
                at = tuple(rows[:, place] if kind == "variable" else torch.full((batch,), place)
                           for kind, place in places)
                p = q[name][at]
                false = false * (1 - p if positive else p)
            total.append(false.mean())
        return torch.stack(total).mean() * context.get("rules", 10.0) + fit(logits)

    return train_encoders(encoders, split, context, loss)
