"""`logicmp+weights`: learn a weight for each rule and a bias for each predicate on the other splits.

The world is Alchemy's: a predicate with facts is closed unless it is queried. The queries of the other splits are the
labels; the gradient passes through the iterations of the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from logicmp import LogicMP
from logicmp.execute.worlds import world_tensors

from ..checkpoint import Checkpoint
from .data import Split, load_split, others
from .inference import schedule_options
from .training import Context, descend


class Weights(nn.Module):
    """Weights and biases that all splits share. A weight is divided by the effect of its rule on the scores."""

    def __init__(self, split: Split, weight: float, bias: float):
        super().__init__()
        self.scaled = nn.Parameter(torch.full((len(split.theory.rules),), weight))
        self.bias = nn.Parameter(torch.full((len(split.theory.predicates),), bias))
        self.unit: Tensor
        self.register_buffer("unit", torch.ones(len(self.scaled)))
        self.place = {p.name: k for k, p in enumerate(split.theory.predicates)}

    @property
    def weight(self) -> Tensor:
        return self.scaled / self.unit

    @torch.no_grad()
    def measure(self, scores: Callable[[], Tensor]) -> None:
        """Set the unit of each weight so that 1 changes the scores by about 1, however many groundings a rule has."""
        scaled = self.scaled.clone()
        self.scaled.zero_()
        base = scores()
        for r in range(len(scaled)):
            self.scaled[r] = 1.0
            self.unit[r] = (scores() - base).std().clamp_min(1.0)
            self.scaled[r] = 0.0
        self.scaled.copy_(scaled)


class SharedLayer(LogicMP):
    """The layer of one split with the shared weights."""

    def __init__(self, split: Split, shared: Weights, reduce: str, **schedule: Any):
        world = split.closed()
        super().__init__(world.theory, sizes=world.sizes, reduce=reduce, learn_weights=False, **schedule)
        # not a submodule: all layers share it
        self.__dict__["shared"] = shared
        self.split = split
        self.unary, self.evidence = world_tensors(world, torch.float32)

    @property
    def weights(self) -> list[Tensor]:
        return list(self.__dict__["shared"].weight)

    def start(self) -> dict[str, Tensor]:
        """The input of the layer: the bias of each predicate."""
        shared = self.__dict__["shared"]
        return {name: x + shared.bias[shared.place[name]] for name, x in self.unary.items()}

    def scores(self) -> Tensor:
        """The log-odds of the queries."""
        return self.split.pick(self(self.start(), self.evidence))


def learn_weights(train: list[Split], split: Split, context: Context) -> SharedLayer:
    """Learn weights from the queries of some splits; return the layer of another."""
    torch.manual_seed(context.seed)
    shared = Weights(split, context.get("weight", 0.1), context.get("bias", -1.5))
    reduce, schedule = context.get("reduce", "sum"), schedule_options(context, context.get("iterations", 5))
    first = [SharedLayer(s, shared, reduce, schedule="paper", iterations=1) for s in train]
    shared.measure(lambda: torch.cat([layer.scores() for layer in first]))
    layers = [SharedLayer(s, shared, reduce, **schedule) for s in train]
    own = SharedLayer(split, shared, reduce, **schedule)
    positive = torch.tensor(context.get("positive", 5.0))

    def losses() -> Iterator[Tensor]:
        for layer in layers:
            truth = torch.from_numpy(layer.split.truth).float()
            loss = nn.functional.binary_cross_entropy_with_logits(layer.scores(), truth, pos_weight=positive)
            yield (loss + context.get("prior", 1e-3) * shared.scaled.square().sum()) / len(layers)

    descend(shared, losses, split, own.scores, context, context.get("steps", 60), context.get("rate", 0.1))
    return own


def learn_from_others(split: Split, context: Context) -> SharedLayer:
    train = [name for name in others(split.name) if name != context.without]
    return learn_weights([load_split(name, context.data) for name in train], split, context)


def run_weights(split: Split, context: Context) -> Tensor:
    return learn_from_others(split, context).scores().detach()


def learned(split: Split, context: Context) -> tuple[SharedLayer, dict[str, Tensor], dict[str, Tensor]]:
    """The teacher with the settings of `logicmp+weights`; all seeds of a split share its checkpoint."""
    path = context.checkpoint.path
    kept = path and path.with_name(f"{split.name.replace('/', '-')}-teacher.pt")
    layer = learn_from_others(split, replace(context, seed=0, settings=context.get("teacher", {}), curve=[],
                                             checkpoint=Checkpoint(kept, every=0)))
    return layer, {name: x.detach() for name, x in layer.start().items()}, layer.evidence
