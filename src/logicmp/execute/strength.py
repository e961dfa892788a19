"""What a schedule reads off logits and messages: how sharp marginals are, and how hard rules push. No gradients here.

Room: schedule -> **execute** -> mean_field.

    size(messages) = 0.4, limit of pushes 0.1       messages are multiplied by 0.25
    size(messages) = 0.02                           not at all: they are below the limit
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from ..parse.theory import Theory
from .inputs import Inputs
from .marginals import from_their_mean, is_latent, n_latent, n_values, per_item
from .schedule import Schedule

# below this, a number counts as 0
TINY = 1e-6
# logits whose root mean square around their mean is smaller are sharpened less
INFORMATIVE = 0.2
# the limit of pushes grows by exp(LIFT * share) with the share of overturned decisions
LIFT = 40.0
# what a rule without a weight is worth where the logits say nothing, with the precision 1; the smallest and largest
# worth; and what an estimate is multiplied by, because the marginals that send messages are noisy themselves
UNINFORMED, STRENGTHS, ATTENUATION = 2.0, (0.05, 5.0), 1.5


class Strength(NamedTuple):
    """Of each item, [batch]: the share of the limit of pushes that may be lifted, and a factor of all weights."""

    dense: Tensor
    factor: Tensor


def calibrates(schedule: Schedule, theory: Theory) -> bool:
    """Whether the logits decide how strong the rules are: no rule has a weight, and none is hard."""
    return schedule.calibrate and all(rule.weight is None and not rule.is_hard for rule in theory.rules)


class Measures:
    """Sizes and agreement of the messages of one run, over the unobserved atoms of each item.

    Args:
        theory: the rules of the run.
        inputs: its checked tensors.
        base: unary potentials, one per variable.
    """

    def __init__(self, theory: Theory, inputs: Inputs, base: Mapping[str, Tensor]):
        self.theory, self.inputs, self.base = theory, inputs, base

    def _sum(self, name: str, x: Tensor) -> Tensor:
        """The sum over the atoms of a predicate, [batch]."""
        return self.inputs.total(name, per_item(x))

    def size(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """The root mean square over the unobserved atoms of each item that exist, [batch]; without gradient."""
        total = count = _for_sums(self.inputs.like.new_zeros(self.inputs.like.shape[0]))
        for name, tensor in tensors.items():
            predicate = self.theory.predicate[name]
            tensor = _for_sums(tensor)
            total = total + self._sum(name, from_their_mean(self.inputs, predicate, tensor).square())
            count = count + n_latent(self.inputs, predicate, tensor)
        return (total / count.clamp_min(1)).sqrt()

    def sharpened(self, schedule: Schedule, size: Tensor) -> Tensor | float:
        """The temperature of each item from the size of its first messages, [batch]."""
        if schedule.sharpen is None:
            return schedule.temperature
        floor = 0.1 * self.size(self.base).clamp(0.3, 1.0)
        temperature = torch.minimum((schedule.sharpen / size.clamp_min(TINY)).clamp_min(floor), torch.ones_like(floor))
        differences = self.size({name: self._deviation(name, x) for name, x in self.base.items()})
        return temperature ** (differences / INFORMATIVE).clamp_max(1.0)

    def _deviation(self, name: str, tensor: Tensor) -> Tensor:
        return from_their_mean(self.inputs, self.theory.predicate[name], _for_sums(tensor), over_atoms=True)

    def support(self, q: Mapping[str, Tensor], messages: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The factor that makes messages at the marginals of the logits worth what they say, and its precision.

        A message to an atom comes from the other atoms, so the atom's own logit is a noisy label for it. If messages
        times a factor are log-odds, their covariance with the logits is the factor times their variance times the
        covariance of logits and marginals. Both returned tensors are [batch]; the precision is 1 / variance.
        """
        total = precision = _for_sums(self.inputs.like.new_zeros(self.inputs.like.shape[0]))
        for name, message in messages.items():
            predicate = self.theory.predicate[name]
            u, x, p = (self._deviation(name, tensor) for tensor in (self.base[name], message, q[name]))
            n = n_latent(self.inputs, predicate, u).clamp_min(1)
            cov, var, noise, label = (self._sum(name, a * b) / n for a, b in ((u, x), (x, x), (u, u), (u, p)))
            if predicate.is_categorical:
                k = n_values(predicate, u)
                label = label * (k / max(k - 1, 1))
            # the precision of cov / (var * label), and the estimate times its precision
            total = total + n * cov * label / noise.clamp_min(TINY)
            precision = precision + n * var * label.square() / noise.clamp_min(TINY)
        return total / precision.clamp_min(TINY), precision

    def correlation(self, messages: Mapping[str, Tensor]) -> tuple[float, float]:
        """The correlation of messages with the logits of the atoms that receive them, and its standard error.

        For messages at the marginals of the logits. Near 0, a rule does not predict an atom from the others.
        """
        cov = var = noise = n = torch.zeros((), dtype=torch.float64)
        for name, message in messages.items():
            u, x = (self._deviation(name, tensor).double() for tensor in (self.base[name], message))
            cov, var, noise = (total + self._sum(name, product).sum() for total, product in
                               ((cov, u * x), (var, x * x), (noise, u * u)))
            n = n + n_latent(self.inputs, self.theory.predicate[name], u).sum()
        return float(cov / (var * noise).sqrt().clamp_min(TINY)), float(n.clamp_min(1) ** -0.5)

    def scale(self, schedule: Schedule, number: int, size: Tensor, strength: Strength,
               logits: Mapping[str, Tensor], messages: Mapping[str, Tensor]) -> Tensor:
        """What the messages of each item are multiplied by, [batch]: never more than the weights that were given."""
        full = schedule.weight_factor(number) * strength.factor
        limit = schedule.largest_push(number)
        if limit is None:
            return full
        scale = limit / size.clamp_min(TINY)
        if schedule.lift is not None:
            beyond = (self._overturned(logits, messages) - schedule.lift).clamp_min(0)
            scale = scale * (LIFT * strength.dense * beyond).exp()
        return torch.minimum(full, scale)

    def _overturned(self, logits: Mapping[str, Tensor], messages: Mapping[str, Tensor]) -> Tensor:
        """The share of decisions that changed sides, times how far messages differ from their mean, [batch].

        The second is their deviation by their mean, at most 1: where all messages push one way, changed decisions are
        the beginning of a collapse.
        """
        changed = count = mean = differing = _for_sums(self.inputs.like.new_zeros(self.inputs.like.shape[0]))
        for name, x in messages.items():
            x = _for_sums(x)
            predicate = self.theory.predicate[name]
            if not predicate.is_categorical:
                n = n_latent(self.inputs, predicate, x)
                sides = ((logits[name] > 0) != (self.base[name] > 0)).to(x.dtype)
                changed = changed + self._sum(name, from_their_mean(self.inputs, predicate, sides))
                count = count + n
                deviation = self._sum(name, self._deviation(name, x).square())
                all_of_it = self._sum(name, from_their_mean(self.inputs, predicate, x).square())
                mean, differing = mean + (all_of_it - deviation), differing + deviation
        ratio = (differing / mean.clamp_min(TINY)).sqrt().clamp_max(1.0)
        return changed / count.clamp_min(1) * ratio

    def collapsed(self, logits: Mapping[str, Tensor]) -> list[str]:
        """Predicates of which an item kept at most a tenth of its decisions on one side, of three and 5% or more."""
        found = []
        for name, x in logits.items():
            predicate = self.theory.predicate[name]
            latent = is_latent(self.inputs, predicate, x).unsqueeze(-1).flatten(1)
            base, now = (tensor.detach().unsqueeze(-1).flatten(1) for tensor in (self.base[name], x))
            lost = False
            for before, after in (((base > 0) & latent, now > 0), ((base < 0) & latent, now < 0)):
                n, left, n_all = self.inputs.total(name, torch.stack([x.sum(1) for x in
                                                                      (before, after & latent, latent)]))
                lost |= bool(((n >= 3) & (n >= 0.05 * n_all) & (left <= 0.1 * n)).any())
            if lost and not predicate.is_categorical:
                found.append(name)
        return found


def _for_sums(x: Tensor) -> Tensor:
    """Without gradient, and of at least 32 bits: the squares of a large matrix do not fit into float16."""
    return x.detach().to(torch.promote_types(x.dtype, torch.float32))
