r"""Put the rules into the network itself: the layer's output is what the network below it learns.

Stage: layer -> **learn**.  Paper: posterior regularization (appendix), LogicDist in the experiments on text.

    distill      loss(p, q)                               q = LogicMP(p), no gradient through it
    LogicDist    (1 - pi) CE(labels, p) + pi CE(q, p)     pi grows with the steps; Hu et al. 2016

p are the network's logits and q what the rules make of them. Atoms that are observed or do not exist do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import LogicMPError
from ..execute.inputs import Inputs, read_inputs
from ..execute.marginals import IMPOSSIBLE
from ..layer import LogicMP
from ..parse.load import parse_theory
from ..parse.theory import Predicate, Theory
from .tensors import open_values, read_labels, to_atoms, value_scores

KINDS = ("mse", "kl")


def distillation_loss(theory: Theory | str, logits: Tensor | Mapping[str, Tensor],
                      target: Tensor | Mapping[str, Tensor], kind: str = "mse",
                      evidence: Mapping[str, Tensor] | None = None,
                      mask: Tensor | Mapping[str, Tensor] | None = None) -> Tensor:
    """How far logits are from those of a target, [batch...]: the mean over what is not known; the target is fixed.

    >>> float(distillation_loss("P(x)\\n1 P(x)", torch.tensor([0.0, 1.0]), torch.tensor([2.0, 1.0])))
    2.0

    Args:
        kind: "mse" of the logits, as in the paper, or "kl" from the target's probabilities.
        evidence, mask: as for `LogicMP`.
    """
    if kind not in KINDS:
        raise LogicMPError(f"unknown kind {kind!r}", f"known: {', '.join(KINDS)}")
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


def distill(layer: LogicMP, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None,
            mask: Tensor | Mapping[str, Tensor] | None = None, kind: str = "mse") -> Tensor:
    """Posterior regularization as in the paper's appendix, [batch...]: the layer's output is what the logits should be.

    >>> layer = LogicMP("A => B", iterations=1)
    >>> logits = {"A": torch.tensor(0.0, requires_grad=True), "B": torch.tensor(0.0, requires_grad=True)}
    >>> distill(layer, logits).backward()
    >>> float(logits["A"].grad), float(logits["B"].grad)  # A falls and B rises when the loss is reduced
    (0.5, -0.5)

    Args:
        logits, evidence, mask: as for the layer.
        kind: "mse" of the logits, as in the paper, or "kl".
    """
    with torch.no_grad():
        target = layer(logits, evidence, mask)
    return distillation_loss(layer.theory, logits, target, kind, evidence, mask)


@dataclass(frozen=True)
class Imitation:
    """One step of `LogicDist`."""

    # [batch...]
    loss: Tensor
    # the teacher's logits, in the form that the student's came in
    teacher: Any
    # how much of the loss is imitation
    pi: float


class LogicDist(nn.Module):
    r"""Logic distillation (Hu et al. 2016): a student p learns from labels and from a teacher q that knows the rules.

    .. math:: q(y) \propto p(y) \, e^{-C \sum_f w_f V_f(y)}, \quad
              \pi_t = \min(\pi_{max}, 1 - \alpha^t)

    The teacher is the projection of the student onto the rules; here mean field computes it, which is the layer with
    the rules' weights times C. After training either can answer: `teacher(logits)` is q.

    Args:
        theory: rules as text, or a `Theory`; a rule without a weight has 1.
        strength: C.
        pi_max, alpha: the schedule of imitation: how far it goes, and what is left of the way after each step.
        options: as for `LogicMP`.
    """

    def __init__(self, theory: Theory | str, strength: float = 1.0, pi_max: float = 0.9, alpha: float = 0.9,
                 **options: Any):
        super().__init__()
        if strength <= 0 or not 0 <= pi_max <= 1 or not 0 <= alpha <= 1:
            raise LogicMPError(f"strength={strength}, pi_max={pi_max}, alpha={alpha} cannot be",
                               "strength is above 0, pi_max and alpha are from 0 to 1")
        theory = parse_theory(theory) if isinstance(theory, str) else theory
        weights = [1.0 if rule.weight is None else rule.weight for rule in theory.rules]
        rules = (rule if rule.is_hard else replace(rule, weight=strength * weight)
                 for rule, weight in zip(theory.rules, weights, strict=True))
        self.teacher = LogicMP(replace(theory, rules=tuple(rules)), learn_weights=False, **options)
        self.pi_max = pi_max
        self.alpha = alpha

    def pi(self, step: int) -> float:
        """How much of the loss is imitation at a step, counted from 0.

        >>> dist = LogicDist("A => B")
        >>> [round(dist.pi(step), 3) for step in (0, 1, 10, 100)]
        [0.0, 0.1, 0.651, 0.9]
        """
        return min(self.pi_max, 1 - self.alpha**step)

    def forward(self, logits: Tensor | Mapping[str, Tensor], labels: Mapping[str, Tensor], step: int,
                evidence: Mapping[str, Tensor] | None = None,
                mask: Tensor | Mapping[str, Tensor] | None = None) -> Imitation:
        """The student's loss, and the teacher.

        Args:
            labels: by predicate, bool tensors, floats with NaN for what has no label, or whole numbers for a
                multi-class predicate.
            step: the epoch or iteration, from 0.
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
    """The predicates that have logits of their own; others start undecided, and have nothing to learn."""
    return [name for name in inputs.unary if not isinstance(logits, Mapping) or name in logits]


def _log_p(inputs: Inputs, predicate: Predicate, counts: Tensor) -> Tensor:
    """The log-probabilities that logits give to the values that count, finite everywhere."""
    scores = value_scores(replace(inputs, evidence={}), predicate)
    return torch.log_softmax(scores.masked_fill(~counts, IMPOSSIBLE), -1)


def _mean(parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """The mean, over all predicates, of what counts, [batch]."""
    values, counted = (torch.cat([tensor.reshape(len(tensor), -1) for tensor in tensors], 1)
                       for tensors in zip(*parts, strict=True))
    return torch.where(counted, values, values.new_zeros(())).sum(1) / counted.sum(1).clamp_min(1)
