r"""Distill rules into a model: it is trained to reproduce the layer's output.

Room: layer, tensors -> **distillation**.  Paper: posterior regularization (appendix), LogicDist in the text task.

    distill      loss(p, q)                               q = LogicMP(p), no gradient through q
    LogicDist    (1 - pi) CE(labels, p) + pi CE(q, p)     pi grows with the training steps; Hu et al. 2016

p are the model's predictions, q those of the layer. Atoms that are observed or masked do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..arguments import Count, FinitePositive, Share, checked
from ..errors import LogicMPError
from ..execute.inputs import Inputs, read_inputs
from ..execute.marginals import IMPOSSIBLE
from ..execute.values import open_values, read_labels, to_atoms, value_scores
from ..layer import LogicMP
from ..parse.load import parse_theory
from ..parse.theory import Predicate, Theory


def distillation_loss(theory: Theory | str, logits: Tensor | Mapping[str, Tensor],
                      target: Tensor | Mapping[str, Tensor], kind: str = "mse",
                      evidence: Mapping[str, Tensor] | None = None,
                      mask: Tensor | Mapping[str, Tensor] | None = None) -> Tensor:
    """The distance of logits from those of a fixed target, [batch...]: the mean over unobserved atoms.

    >>> float(distillation_loss("P(x)\\n1 P(x)", torch.tensor([0.0, 1.0]), torch.tensor([2.0, 1.0])))
    2.0

    Args:
        theory: declares the predicates, as text or as a `Theory`.
        logits: the student's logits, as for `LogicMP`.
        target: the teacher's logits, in the same form; no gradient goes through them.
        kind: "mse": squared difference of logits, as in the paper; "kl": KL divergence from the target's probabilities.
        evidence: as for `LogicMP`; observed atoms do not count.
        mask: as for `LogicMP`; masked entities do not count.
    """
    if kind not in ("mse", "kl"):
        raise LogicMPError(f"kind must be 'mse' or 'kl', got {kind!r}")
    theory = parse_theory(theory) if isinstance(theory, str) else theory
    student, teacher = (read_inputs(theory, given, evidence, mask) for given in (logits, target))
    parts = []
    for name in _given(logits, student):
        predicate = theory.predicate[name]
        counts = open_values(student, predicate)
        if kind == "mse":
            distance = (student.unary[name] - teacher.unary[name].detach()) ** 2
            parts.append((distance, to_atoms(predicate, counts, student.sizes)))
        else:
            log_q = _log_p(teacher, predicate, counts).detach()
            distance = (log_q.exp() * (log_q - _log_p(student, predicate, counts))).sum(-1)
            parts.append((distance, counts.any(-1)))
    return _mean(parts).reshape(student.batch)


@checked
def distill(layer: LogicMP, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None,
            mask: Tensor | Mapping[str, Tensor] | None = None, kind: str = "mse") -> Tensor:
    """A loss that moves logits towards the layer's output: posterior regularization, as in the paper's appendix.

    >>> layer = LogicMP("A => B", iterations=1, schedule="paper")
    >>> logits = {"A": torch.tensor(0.0, requires_grad=True), "B": torch.tensor(0.0, requires_grad=True)}
    >>> distill(layer, logits).backward()
    >>> float(logits["A"].grad), float(logits["B"].grad)  # A falls and B rises when the loss is reduced
    (0.5, -0.5)

    Args:
        layer: the `LogicMP` layer with the rules; its weights get no gradient.
        logits: the model's logits: a tensor, or tensors by predicate, as for the layer.
        evidence: observed atoms by predicate, as for the layer; they do not count in the loss.
        mask: which entities exist, as for the layer; the others do not count in the loss.
        kind: "mse": squared difference of logits, as in the paper; "kl": KL divergence from the layer's probabilities.

    Returns:
        The loss of each item, [batch...]: the mean over unobserved atoms.
    """
    with torch.no_grad():
        target = layer(logits, evidence, mask)
    return distillation_loss(layer.theory, logits, target, kind, evidence, mask)


@dataclass(frozen=True)
class Imitation:
    """The result of one call of `LogicDist`."""

    # [batch...]
    loss: Tensor
    # the teacher's logits, in the same form as the student's
    teacher: Any
    # share of the teacher in the loss
    pi: float


class LogicDist(nn.Module):
    r"""Logic distillation (Hu et al. 2016): a student p is trained with labels and with a teacher q, p given the rules.

    .. math:: q(y) \propto p(y) \, e^{-C \sum_f w_f V_f(y)}, \quad
              \pi_t = \min(\pi_{max}, 1 - \alpha^t)

    The teacher is computed by mean field: it is the layer with the rules' weights times C. It runs the paper's loop,
    because q is this distribution and not its best answer. After training you can use the student or the teacher,
    `teacher(logits)`.

    >>> dist = LogicDist("A => B", strength=2.0)
    >>> logits, labels = {"A": torch.tensor(1.0), "B": torch.tensor(0.0)}, {"A": torch.tensor(True)}
    >>> round(float(dist(logits, labels, step=1).loss), 2)
    0.35

    Args:
        theory: rules as text, or a `Theory`; a rule without a weight has weight 1.
        strength: C in the formula, above 0: factor on the weights of soft rules.
        pi_max: largest share of the teacher in the loss, 0 to 1.
        alpha: decay of the labels' share, 0 to 1: the teacher's share at step t is 1 - alpha^t, at most pi_max.
        options: arguments of `LogicMP` other than `learn_weights`, for example `iterations=3`; `schedule` is "paper" by
            default.
    """

    @checked
    def __init__(self, theory: Theory | str, strength: FinitePositive = 1.0, pi_max: Share = 0.9, alpha: Share = 0.9,
                 **options: Any):
        super().__init__()
        theory = parse_theory(theory) if isinstance(theory, str) else theory
        weights = [1.0 if rule.weight is None else rule.weight for rule in theory.rules]
        rules = (rule if rule.is_hard else replace(rule, weight=strength * weight)
                 for rule, weight in zip(theory.rules, weights, strict=True))
        self.teacher = LogicMP(replace(theory, rules=tuple(rules)), learn_weights=False,
                               **{"schedule": "paper", **options})
        self.pi_max = pi_max
        self.alpha = alpha

    @checked
    def pi(self, step: Count) -> float:
        """The share of the teacher in the loss at a step, counted from 0.

        >>> dist = LogicDist("A => B")
        >>> [round(dist.pi(step), 3) for step in (0, 1, 10, 100)]
        [0.0, 0.1, 0.651, 0.9]
        """
        return min(self.pi_max, 1 - self.alpha**step)

    def forward(self, logits: Tensor | Mapping[str, Tensor], labels: Mapping[str, Tensor], step: int,
                evidence: Mapping[str, Tensor] | None = None,
                mask: Tensor | Mapping[str, Tensor] | None = None) -> Imitation:
        """The student's loss, the teacher's logits, and the teacher's share.

        Args:
            logits: the student's logits, as for `LogicMP`.
            labels: by predicate: bool tensors, floats with NaN for missing labels, or integers for a multi-class
                predicate.
            step: the training step or epoch, from 0.
            evidence: as for `LogicMP`; observed atoms do not count.
            mask: as for `LogicMP`; masked entities do not count.
        """
        theory, pi = self.teacher.theory, self.pi(step)
        with torch.no_grad():
            teacher = self.teacher(logits, evidence, mask)
        student = read_inputs(theory, logits, evidence, mask)
        labelled = read_labels(theory, logits, labels, evidence)
        q = read_inputs(theory, teacher, evidence, mask)
        supervised, imitated = [], []
        for name in _given(logits, student):
            predicate = theory.predicate[name]
            counts = open_values(student, predicate)
            log_p = _log_p(student, predicate, counts)
            is_labelled = counts.any(-1) & ~open_values(labelled, predicate).any(-1)
            truth = value_scores(labelled, predicate).detach().exp()
            supervised.append((-(truth * log_p).sum(-1), is_labelled))
            imitated.append((-(_log_p(q, predicate, counts).detach().exp() * log_p).sum(-1), counts.any(-1)))
        loss = (1 - pi) * _mean(supervised) + pi * _mean(imitated)
        return Imitation(loss.reshape(student.batch), teacher, pi)


def _given(logits: Tensor | Mapping[str, Tensor], inputs: Inputs) -> list[str]:
    """The predicates with logits; the others start undecided and get no loss."""
    return [name for name in inputs.unary if not isinstance(logits, Mapping) or name in logits]


def _log_p(inputs: Inputs, predicate: Predicate, counts: Tensor) -> Tensor:
    """The log-probabilities of the values that count, finite everywhere."""
    scores = value_scores(replace(inputs, evidence={}), predicate)
    return torch.log_softmax(scores.masked_fill(~counts, IMPOSSIBLE), -1)


def _mean(parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """The mean over all entries that count, of all predicates, [batch]."""
    values, counted = (torch.cat([tensor.reshape(len(tensor), -1) for tensor in tensors], 1)
                       for tensors in zip(*parts, strict=True))
    return torch.where(counted, values, values.new_zeros(())).sum(1) / counted.sum(1).clamp_min(1)
