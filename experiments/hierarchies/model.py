"""The model of all rows, an MLP, for several seeds at once, and its training.

Seeds share matrix products and calls of the layer, nothing else: each has its own start, order of items and dropout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from logicmp.limits import Progress, need, silent

from ..checkpoint import Checkpoint
from .data import DataSet
from .methods import Head

LAYERS = 3
# largest batch of a fused step
MAX_FUSED = 16


@dataclass(frozen=True)
class Settings:
    """How a model is trained."""

    units: int
    rate: float
    epochs: int
    batch: int = 4
    dropout: float = 0.7
    decay: float = 1e-5
    # of the products; parameters are float32
    dtype: str = "float32"


# C-HMCNN's, except on ImCLEF: batches and rates are 64 times as large, epochs an eighth, and products are in bfloat16
SETTINGS = {
    "cellcycle_FUN": Settings(500, 1e-4, 106),
    "eisen_FUN": Settings(500, 1e-4, 110),
    "derisi_FUN": Settings(500, 1e-4, 67),
    "ImCLEF07A": Settings(1000, 6.4e-4, 74, batch=256, dtype="bfloat16"),
    "ImCLEF07D": Settings(1000, 6.4e-4, 74, batch=256, dtype="bfloat16"),
}


class Models:
    """An MLP for each seed: [seeds, items, features] to log-odds, [seeds, items, labels].

    The derivative is written out, into gradients that are allocated once: batches are so small that torch's autograd
    would take longer than the products.

    Args:
        sizes: numbers of features, units of each hidden layer, and labels.
        dropout: share of hidden values set to zero in training.
        seeds: one for each model.
        dtype: of the products; parameters are float32.
    """

    def __init__(self, sizes: Sequence[int], dropout: float, seeds: Sequence[int], dtype: torch.dtype = torch.float32):
        self.dropout, self.dtype = dropout, dtype
        self.random = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.weights = [self._start(n_in, (n_in, n_out)) for n_in, n_out in pairwise(sizes)]
        self.biases = [self._start(n_in, (1, n_out)) for n_in, n_out in pairwise(sizes)]
        # of the last call: inputs of each layer, and cast weights
        self.inputs: list[Tensor] = []
        self._cast: list[Tensor] = []
        self.scale = 1.0

    def _start(self, n_in: int, shape: tuple[int, int]) -> Tensor:
        """As in torch's nn.Linear."""
        found = torch.stack([torch.rand(shape, generator=generator) for generator in self.random])
        found = (2 * found - 1) / math.sqrt(n_in)
        found.grad = torch.zeros_like(found)
        return found

    @property
    def parameters(self) -> list[Tensor]:
        return [*self.weights, *self.biases]

    def __call__(self, x: Tensor, is_training: bool = False) -> Tensor:
        """The log-odds. In training, values are dropped and `backward` can follow."""
        self.inputs, self._cast = [x.to(self.dtype)], [w.to(self.dtype) for w in self.weights]
        self.scale = 1 / (1 - self.dropout) if is_training else 1.0
        for k, (weight, bias) in enumerate(zip(self._cast, self.biases, strict=True)):
            y = torch.bmm(self.inputs[-1], weight).add_(bias)
            if k < len(self._cast) - 1:
                y.relu_()
                if is_training and self.dropout:
                    y.mul_(self._draw(y)).mul_(self.scale)
            self.inputs.append(y)
        return self.inputs.pop().float()

    def backward(self, slope: Tensor) -> None:
        """Write the gradients of all parameters, from the gradient of the log-odds of the last call."""
        slope = slope.to(self.dtype)
        for k in reversed(range(len(self._cast))):
            x, weight, bias = self.inputs[k], self.weights[k].grad, self.biases[k].grad
            assert weight is not None and bias is not None
            if self.dtype == weight.dtype:
                torch.bmm(x.mT, slope, out=weight)
            else:
                weight.copy_(torch.bmm(x.mT, slope))
            torch.sum(slope, 1, keepdim=True, out=bias, dtype=bias.dtype)
            if k:
                # a value that was dropped is 0 too, and has no slope
                slope = torch.ops.aten.threshold_backward(torch.bmm(slope, self._cast[k].mT), x, 0.0).mul_(self.scale)

    def _draw(self, like: Tensor) -> Tensor:
        """1 for values that dropout keeps, 0 for others.

        Four values come from each random number: drawing them is a tenth of a step otherwise.
        """
        n = like[0].numel()
        bits = torch.empty(len(like), -(-n // 4), dtype=torch.int64)
        for own, generator in zip(bits, self.random, strict=True):
            own.random_(-2**63, None, generator=generator)
        # compare in place: the result has the width of its operands, which is faster than bool
        bits = bits.view(torch.int16)
        torch.lt(bits, round((1 - self.dropout) * 2**16) - 2**15, out=bits)
        return bits[:, :n].view(like.shape).to(like.dtype)


class Trainer:
    """Models, their loss and Adam.

    Args:
        models: one for each seed.
        head: what the loss is computed with.
        data: its training items are used.
        settings: rate and weight decay.
    """

    def __init__(self, models: Models, head: Head, data: DataSet, settings: Settings):
        self.models, self.head, self.items = models, head, data.train
        if settings.batch <= MAX_FUSED and models.dtype == torch.float32:
            need("numba", "sampling", "training with small batches")
            from .fused import FusedAdam

            self.optimizer = FusedAdam(models, settings.rate, settings.decay)
            self._update = self.optimizer.step
        else:
            self.optimizer = torch.optim.Adam(models.parameters, settings.rate, weight_decay=settings.decay, fused=True)
            self._update = self._update_by_torch

    def order(self) -> Tensor:
        """All items in a random order for each seed, [seeds, items]."""
        return torch.stack([torch.randperm(len(self.items), generator=own) for own in self.models.random])

    def step(self, chosen: Tensor) -> Tensor:
        """Train on some items of each seed, [seeds, batch]; returns the sum of their losses."""
        labels = self.items.labels[chosen].flatten(0, 1)
        logits = self.models(self.items.features[chosen], is_training=True).requires_grad_()
        total = self.head.loss(logits.view(labels.shape), labels).sum()
        # every seed gets the gradient of its own mean
        (slope,) = torch.autograd.grad(total, [logits], torch.tensor(1 / chosen.shape[1]))
        self._update(slope)
        return total.detach()

    def _update_by_torch(self, slope: Tensor) -> None:
        self.models.backward(slope)
        self.optimizer.step()


def train(models: Models, head: Head, data: DataSet, settings: Settings, checkpoint: Checkpoint,
          made_with: Mapping[str, Any] | None = None, progress: Progress = silent, what: str = "training",
          after: Mapping[int, Callable[[list[float]], None]] | None = None) -> list[float]:
    """Train the models of all seeds; returns the mean loss of each epoch. An interrupted run can be continued.

    Args:
        after: functions by number of epochs; each is called with the losses so far.
    """
    trainer = Trainer(models, head, data, settings)
    losses: list[float] = []
    before = checkpoint.load(made_with)
    if before is not None:
        for parameter, kept in zip(models.parameters, before["parameters"], strict=True):
            parameter.copy_(kept)
        trainer.optimizer.load_state_dict(before["optimizer"])
        for generator, state in zip(models.random, before["random"], strict=True):
            generator.set_state(state)
        losses = list(before["losses"])
    for epoch in range(len(losses), settings.epochs):
        order, total = trainer.order(), torch.zeros(())
        for chosen in order.split(settings.batch, 1):
            total += trainer.step(chosen)
        losses.append(round(float(total) / order.numel(), 6))
        checkpoint.save(parameters=models.parameters, optimizer=trainer.optimizer.state_dict(), losses=losses,
                        random=[generator.get_state() for generator in models.random])
        progress(what, epoch + 1, settings.epochs)
        if after and epoch + 1 in after:
            after[epoch + 1](losses)
    return losses
