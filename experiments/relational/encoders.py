"""Models that give every atom its log-odds: a free vector per constant, or a graph neural network over the facts.

    Embedding    the authors' released code: a 128-d vector per constant, logit = u . tanh(e'We + Ve + b), 8 slices
    Graph        the paper's text: vectors from messages along the facts (as in ExpressGNN), the same read-out
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from logicmp.facts.world import World
from logicmp.parse.theory import Predicate

SLICES = 8


class ReadOut(nn.Module):
    """Log-odds of all atoms of one predicate: u . tanh(e'We + Ve + b), bilinear in neighbouring arguments."""

    def __init__(self, predicate: Predicate, dim: int):
        super().__init__()
        n = len(predicate.arguments)
        self.predicate = predicate
        self.pairs = list(itertools.pairwise(range(n))) or [(0, 0)] * (n == 1)
        self.bilinear = nn.ParameterList((torch.randn(len(self.pairs), SLICES, dim, dim) / dim).unbind())
        self.linear = nn.Parameter(torch.randn(n, SLICES, dim) / dim**0.5)
        self.bias = nn.Parameter(torch.zeros(SLICES))
        self.weight = nn.Parameter(torch.randn(SLICES) / SLICES**0.5)
        self.offset = nn.Parameter(torch.zeros(()))
        self.unit: Tensor
        self.zero: Tensor
        self.register_buffer("unit", torch.ones(()))
        self.register_buffer("zero", torch.zeros(()))

    def forward(self, vectors: dict[str, Tensor]) -> Tensor:
        """[n_1, ..., n_k]"""
        args = [vectors[t] for t in self.predicate.types]

        def spread(x: Tensor, *axes: int) -> Tensor:
            # [n_i, (n_j,) slices], broadcast over the axes of the other arguments
            shape = [1] * len(args) + [SLICES]
            for axis, size in zip(axes, x.shape, strict=False):
                shape[axis] = size
            return x.reshape(shape)

        total = self.bias
        for k, x in enumerate(args):
            total = total + spread(x @ self.linear[k].mT, k)
        for (i, j), w in zip(self.pairs, self.bilinear, strict=True):
            if i == j:
                total = total + spread(torch.einsum("nd,sde,ne->ns", args[i], w, args[i]), i)
            else:
                total = total + spread(torch.einsum("nd,sde,me->nms", args[i], w, args[j]), i, j)
        return (torch.tanh(total) @ self.weight + self.offset) * self.unit + self.zero


class Encoder(nn.Module):
    """Vectors of the constants, and a read-out for each predicate.

    Args:
        is_free: one vector per constant; otherwise one per type, so that constants with the same facts are equal.
        predicates: those to give log-odds for (default: all).
    """

    def __init__(self, world: World, dim: int = 128, is_free: bool = True, predicates: Collection[str] | None = None):
        super().__init__()
        self.sizes = world.sizes
        self.free = nn.ParameterDict({t: nn.Parameter(torch.randn(n if is_free else 1, dim) / dim**0.5)
                                      for t, n in world.sizes.items()})
        self.read_out = nn.ModuleDict({p.name: ReadOut(p, dim) for p in world.theory.predicates
                                       if predicates is None or p.name in predicates})

    def measure(self, units: Mapping[str, tuple[Tensor, Tensor]]) -> None:
        """Scale the output of each predicate to a mean and a standard deviation."""
        for name, (zero, unit) in units.items():
            self.read_out[name].zero, self.read_out[name].unit = zero, unit.clamp_min(0.1)

    def vectors(self) -> dict[str, Tensor]:
        return {t: x.expand(self.sizes[t], -1) for t, x in self.free.items()}

    def forward(self) -> dict[str, Tensor]:
        vectors = self.vectors()
        return {name: read_out(vectors) for name, read_out in self.read_out.items()}


class Embedding(Encoder):
    """A free vector per constant."""


class Graph(Encoder):
    """Vectors from messages along the true facts, one matrix per predicate and pair of arguments.

    Args:
        is_added: add the vectors that the messages start from to the result. With free vectors, constants with similar
            facts can then differ as much as their targets do.
    """

    def __init__(self, world: World, dim: int = 128, is_free: bool = True, predicates: Collection[str] | None = None,
                 is_added: bool = False, layers: int = 2):
        super().__init__(world, dim, is_free, predicates)
        self.is_added = is_added
        self.kinds = []
        for predicate in world.theory.predicates:
            facts = torch.from_numpy(world.values[predicate.name] == 1).nonzero(as_tuple=True)
            n = len(predicate.arguments)
            if len(facts[0]):
                self.kinds += [(predicate.types[i], predicate.types[j], facts[i], facts[j])
                               for i in range(n) for j in range(n) if i != j or n == 1]
        self.messages = nn.ParameterList([nn.Parameter(torch.randn(layers, dim, dim) / dim**0.5) for _ in self.kinds])
        self.own = nn.Parameter(torch.randn(layers, dim, dim) / dim**0.5)

    def vectors(self) -> dict[str, Tensor]:
        first = found = super().vectors()
        for layer in range(len(self.own)):
            new = {t: x @ self.own[layer] for t, x in found.items()}
            for (source, target, at, to), weight in zip(self.kinds, self.messages, strict=True):
                sent = (found[source] @ weight[layer])[at]
                count = torch.bincount(to, minlength=len(found[target])).clamp_min(1).unsqueeze(1)
                new[target] = new[target] + torch.zeros_like(new[target]).index_add(0, to, sent) / count
            # unit length: longer vectors saturate the read-out
            found = {t: nn.functional.normalize(found[t] + torch.relu(x), dim=1) for t, x in new.items()}
        return {t: x + first[t] for t, x in found.items()} if self.is_added else found
