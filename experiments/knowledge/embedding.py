"""ComplEx (Trouillon et al. 2016) with reciprocal relations and the loss of Lacroix et al. (2018).

    score(h, r, t) = Re <h, r, conj(t)>         of vectors of complex numbers
    loss           = -log softmax over all entities, for tails and for heads, plus the cubes of all moduli (N3)

Every relation has a reciprocal one, so a missing head is a missing tail. Triples with equal (head, relation) share one
softmax: the loss of their sum is that of the triples one by one, for a quarter of the cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from logicmp.limits import Progress, silent

from ..checkpoint import Checkpoint
from .data import Graph


@dataclass(frozen=True)
class EmbeddingSettings:
    """Chosen by the MRR on the validation triples."""

    rank: int = 128
    epochs: int = 15
    rate: float = 0.1
    n3: float = 0.05
    # queries (head, relation) in a batch
    batch: int = 500
    # of the products with all entities in training
    precision: str = "bfloat16"


class ComplEx(nn.Module):
    """Vectors of entities and of relations, each followed by its reciprocal: [real part, imaginary part]."""

    def __init__(self, n_entities: int, n_relations: int, rank: int):
        super().__init__()
        self.entities = nn.Parameter(1e-3 * torch.randn(n_entities, 2 * rank))
        self.relations = nn.Parameter(1e-3 * torch.randn(2 * n_relations, 2 * rank))

    def queries(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Vectors whose products with the entities are scores, [n, 2 rank]."""
        a, b = self.entities[heads].chunk(2, -1)
        c, d = self.relations[relations].chunk(2, -1)
        return torch.cat([a * c - b * d, a * d + b * c], -1)

    @torch.no_grad()
    def scores(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The scores of all entities as tails, [n, entities]."""
        return self.queries(heads, relations) @ self.entities.mT


class _SharedSoftmax(torch.autograd.Function):
    """Sum over answers of -log softmax(query @ entities), for queries with several answers each."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, entities: Tensor, counts: Tensor, rows: Tensor, answers: Tensor,
                dtype: torch.dtype) -> Tensor:
        low, all_entities = queries.to(dtype), entities.to(dtype)
        scores = (low @ all_entities.mT).float()
        total = (counts * scores.logsumexp(1)).sum() - scores[rows, answers].sum()
        slope = scores.softmax(1).mul_(counts.unsqueeze(1))
        slope.index_put_((rows, answers), slope.new_full((), -1.0), accumulate=True)
        slope = slope.to(dtype)
        ctx.save_for_backward((slope @ all_entities).float(), (slope.mT @ low).float())
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        of_queries, of_entities = ctx.saved_tensors
        return gradients[0] * of_queries, gradients[0] * of_entities, None, None, None, None


def train_embedding(graph: Graph, settings: EmbeddingSettings, seed: int = 0, progress: Progress = silent,
                    checkpoint: Checkpoint | None = None) -> ComplEx:
    """Train on the training triples, resumed from a checkpoint if it has one."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = ComplEx(graph.n_entities, len(graph.relations), settings.rank)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=settings.rate)
    checkpoint = checkpoint or Checkpoint()
    state = checkpoint.load({"seed": seed, "rank": settings.rank, "n3": settings.n3, "rate": settings.rate})
    first = 0
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        generator.set_state(state["generator"])
        first = state["epoch"]
    queries = _Queries(graph)
    for epoch in range(first, settings.epochs):
        order = torch.randperm(len(queries), generator=generator)
        for start in range(0, len(order), settings.batch):
            heads, relations, rows, answers, counts = queries.batch(order[start : start + settings.batch].numpy())
            fit = _SharedSoftmax.apply(  # type: ignore[no-untyped-call]
                model.queries(heads, relations), model.entities, counts, rows, answers,
                getattr(torch, settings.precision))
            cubes = (counts * (_cubes(model.entities[heads]) + _cubes(model.relations[relations]))).sum()
            loss = (fit + settings.n3 * (cubes + _cubes(model.entities[answers]).sum())) / counts.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            progress(f"embedding, seed {seed}", epoch * len(order) + start, settings.epochs * len(order))
        checkpoint.save(model=model.state_dict(), optimizer=optimizer.state_dict(), generator=generator.get_state(),
                        epoch=epoch + 1)
    return model.eval()


def _cubes(x: Tensor) -> Tensor:
    real, imaginary = x.chunk(2, -1)
    return (real.square() + imaginary.square()).pow(1.5).sum(-1)


class _Queries:
    """The distinct (head, relation) of the training triples and of their reciprocals, with all their answers."""

    def __init__(self, graph: Graph):
        both = with_reciprocals(graph.triples["train"], len(graph.relations))
        keys = both[:, 0] * (2 * len(graph.relations)) + both[:, 1]
        order = np.argsort(keys, kind="stable")
        self.answers = both[order, 2]
        _, first, self.counts = np.unique(keys[order], return_index=True, return_counts=True)
        self.first = first
        self.pairs = both[order][first, :2]

    def __len__(self) -> int:
        return len(self.pairs)

    def batch(self, chosen: np.ndarray) -> tuple[Tensor, ...]:
        """Heads, relations, the row and entity of each answer, and the number of answers of each row."""
        counts = self.counts[chosen]
        rows = np.repeat(np.arange(len(chosen)), counts)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + self.first[chosen][rows]
        return tuple(map(torch.from_numpy, (self.pairs[chosen, 0], self.pairs[chosen, 1], rows, self.answers[place],
                                            counts.astype(np.float32))))


def with_reciprocals(triples: np.ndarray, n_relations: int) -> np.ndarray:
    """The triples, then (tail, relation + n_relations, head) for each of them."""
    h, r, t = triples.T
    return np.concatenate([triples, np.stack([t, r + n_relations, h], 1)])
