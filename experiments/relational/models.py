"""Train models that give every atom its log-odds.

    logicmp+embedding, logicmp+gnn   distilled: the target is LogicMP's output over all groundings, without gradient
    gs                               maximizes the expected truth of sampled groundings (grounding scores)
    expressgnn                       fits the facts only

The models are evaluated without the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from logicmp.execute.inputs import world_tensors
from logicmp.normalize.clauses import to_clauses
from logicmp.parse.syntax import Atom, Constant, Not, Variable

from .data import Split
from .encoders import Encoder, Graph
from .inference import layer_for
from .training import Context, descend


def train_encoders(encoders: list[Encoder], split: Split, context: Context,
                   loss_of: Callable[[dict[str, Tensor]], Tensor],
                   distillation: Distillation | None = None) -> Tensor:
    """Minimize a loss of the log-odds of all atoms; return the mean scores of the models."""
    def losses() -> Iterator[Tensor]:
        for encoder in encoders:
            yield loss_of(encoder())

    def scores() -> Tensor:
        return split.pick(mean_odds(encoders))

    return descend(distillation or nn.ModuleList(encoders), losses, split, scores, context, context.get("steps", 60),
                   context.get("rate", 2e-3), distillation)


def mean_odds(encoders: Iterable[Encoder]) -> dict[str, Tensor]:
    found = [encoder() for encoder in encoders]
    return {name: torch.stack([odds[name] for odds in found]).mean(0) for name in found[0]}


def make_encoders(kind: type[Encoder], split: Split, context: Context) -> list[Encoder]:
    torch.manual_seed(context.seed)
    return [kind(split.world, context.get("dim", 128), context.get("free", True))
            for _ in range(context.get("networks", 1))]


def _fit(split: Split) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Cross-entropy of the facts, the mean over predicates with facts."""
    known = {name: torch.from_numpy(values) for name, values in split.world.values.items() if (values != -1).any()}

    def loss(logits: Mapping[str, Tensor]) -> Tensor:
        parts = [nn.functional.binary_cross_entropy_with_logits(logits[name][x != -1], x[x != -1].float())
                 for name, x in known.items()]
        return torch.stack(parts).mean()

    return loss


class Distillation(nn.Module):
    """The target of the models: LogicMP's output for their log-odds (App. "Details of Our Method").

    In the first round LogicMP starts from a constant instead. Targets are buffers, so that a checkpoint has them.
    """

    def __init__(self, encoders: list[Encoder], split: Split, context: Context):
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.unary, self.evidence = world_tensors(split.world, torch.float32)
        self.layer = layer_for(split.world, context, context.get("iterations", 5))
        self.bias, self.is_moved = context.get("bias", -1.5), context.get("moved", True)
        self.n = context.get("lessons", 1)
        for name, x in self.unary.items():
            self.register_buffer(f"target {name}", torch.zeros_like(x))
            self.register_buffer(f"weight {name}", torch.zeros_like(x))

    @torch.no_grad()
    def begin(self, number: int) -> None:
        odds = mean_odds(self.encoders) if number else {name: x + self.bias for name, x in self.unary.items()}
        blank = self.layer.run(odds)
        for name, x in self.layer.run(odds, self.evidence).items():
            # the log-odds of predicates differ by orders of magnitude
            for encoder in self.encoders:
                encoder.measure(name, x)
            # weight atoms by the effect of the facts: the rules give no information about the others
            moved = (x - blank[name]).abs()
            weight = moved / moved.sum() if self.is_moved and moved.any() else torch.full_like(x, 1 / x.numel())
            spread = (weight * (x - x.mean()).square()).sum()
            self.get_buffer(f"target {name}").copy_(x)
            self.get_buffer(f"weight {name}").copy_(weight / spread.clamp_min(0.01))

    def distance(self, logits: Mapping[str, Tensor]) -> Tensor:
        """The unexplained share of the targets: 1 if a model gives all atoms of a predicate their mean."""
        missed = [(self.get_buffer(f"weight {name}") * (x - self.get_buffer(f"target {name}")).square()).sum()
                  for name, x in logits.items()]
        return torch.stack(missed).mean()


def distilled(kind: type[Encoder]) -> Callable[[Split, Context], Tensor]:
    """Distill LogicMP into an encoder."""
    def run(split: Split, context: Context) -> Tensor:
        encoders = make_encoders(kind, split, context)
        distillation, fit = Distillation(encoders, split, context), _fit(split)

        def loss(logits: dict[str, Tensor]) -> Tensor:
            return distillation.distance(logits) + context.get("fit", 0.1) * fit(logits)

        return train_encoders(encoders, split, context, loss, distillation)

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
