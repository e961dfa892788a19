"""Heads on the backbone: from the same logits, a loss for training and labels for prediction.

    plain             each token independently
    crf               a linear chain: exact inference, mean field, or with forbidden transitions
    semantic, spl     circuits of the adjacent rules
    relaxed           expected violations added to the loss (SLrelax)
    dist              logic distillation: p predicts without rules, q with rules
    logicmp           the layer, trained with the model: mean field, exact, or exact where the rules are narrow
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from logicmp import SPL, LogicDist, LogicMP, SemanticLoss

from .crf import Crf
from .data import LABELS
from .encode import Batch
from .rules import (
    CERTAIN,
    allowed_transitions,
    decode_tags,
    frame,
    frame_labels,
    frame_sentence_labels,
    frame_sentences,
    frame_truth,
    is_pair_rule,
    load_rules,
    pad,
    with_weights,
)

# an answer that satisfies the adjacent rules, for any head
DECODE = "decode"


class Head(nn.Module):
    """Each token independently: the plain tagger, and the base class of all heads."""

    # the kinds of answers; the best epoch is chosen for each
    answers: tuple[str, ...] = ("",)
    # whether batches consist of whole documents
    needs_documents = False

    def loss(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        """The loss, a mean over tokens."""
        return functional.cross_entropy(self.scores(logits, batch), batch.labels)

    def scores(self, logits: Tensor, batch: Batch, answer: str = "") -> Tensor:
        """The logits of the answer, [tokens, labels]."""
        return logits

    def labels(self, logits: Tensor, batch: Batch, answer: str = "") -> Tensor:
        """[tokens]"""
        scores = self.scores(logits, batch, answer)
        best = scores.argmax(1)
        return decode_tags(scores, best, batch) if answer == DECODE else best


class CrfHead(Head):
    """A linear chain, trained with the forward algorithm."""

    def __init__(self, forbidden: bool = False):
        super().__init__()
        self.crf = Crf(len(LABELS), allowed_transitions() if forbidden else None)

    def loss(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        found = self.crf.loss(pad(logits, batch), pad(batch.labels, batch), batch.lengths)
        return found.sum() / len(batch.labels)

    def labels(self, logits: Tensor, batch: Batch, answer: str = "") -> Tensor:
        return self.crf.best(pad(logits, batch), batch.lengths)[batch.sentence, batch.place]


class MeanFieldCrf(Head):
    """The same chain with mean field (Wang et al. 2020); updates all tokens in parallel."""

    def __init__(self, iterations: int = 3):
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(len(LABELS), len(LABELS)))
        self.iterations = iterations

    def scores(self, logits: Tensor, batch: Batch, answer: str = "") -> Tensor:
        unary = found = frame(logits, batch)
        for _ in range(self.iterations):
            q = torch.softmax(found, 1)
            found = unary + functional.pad(q[:-1] @ self.transitions, (0, 0, 1, 0)) + functional.pad(
                q[1:] @ self.transitions.mT, (0, 0, 0, 1))
        return found[batch.framed]


class SemanticHead(Head):
    """Cross-entropy plus the semantic loss of the adjacent rules."""

    def __init__(self, strength: float = 1.0):
        super().__init__()
        self.semantic = SemanticLoss(load_rules("adj"))
        self.strength = strength

    def loss(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        violated = self.semantic(frame_sentences(logits, batch)).sum() / len(batch.labels)
        return functional.cross_entropy(logits, batch.labels) + self.strength * violated


class SplHead(Head):
    """A semantic probabilistic layer: every answer satisfies the adjacent rules."""

    def __init__(self) -> None:
        super().__init__()
        self.spl = SPL(load_rules("adj"))

    def loss(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        framed = frame_sentences(logits, batch)
        labels = frame_sentence_labels(batch, framed.shape[1])
        return self.spl.loss(framed, {"label": labels}).sum() / len(batch.labels)

    def labels(self, logits: Tensor, batch: Batch, answer: str = "") -> Tensor:
        found = self.spl.predict(frame_sentences(logits, batch))["label"]
        return found[batch.sentence, batch.place + 1]


class RuleHead(Head):
    r"""The layer: logits in, logits out, trained together with the weights of the rules.

    Batches without a list skip the list rule and share the other weights.

    There are two losses. "marginals" is the cross-entropy of the layer's output, with the gradient through its
    iterations, as in the paper. "likelihood" is the negative log-likelihood of all labels of the batch, with mean
    field's lower bound in place of log Z. At the fixed point q of mean field the derivative of the bound in q is zero,
    so the gradient needs no pass through the iterations:

    .. math:: \partial / \partial \phi = q - y, \qquad \partial / \partial w_f = V_f(y) - V_f(q)

    Args:
        rules: "adj", "adj+list" or "adj+doc".
        adjacent, of_pairs: initial weights of the two kinds of rules; None for rules without weights.
        objective: "marginals" or "likelihood".
        iterations, final_iterations: number of iterations in training and in prediction.
        schedule: of the layer.
        options: for `LogicMP`.
    """

    def __init__(self, rules: str, adjacent: float | None = 4.0, of_pairs: float | None = 0.3,
                 objective: str = "likelihood", iterations: int = 5, final_iterations: int = 10,
                 schedule: str = "paper", weights: Sequence[float | None] | None = None, **options: Any):
        super().__init__()
        theory = load_rules(rules)
        theory = with_weights(theory, adjacent, of_pairs) if weights is None else replace(theory, rules=tuple(
            replace(rule, weight=weight) for rule, weight in zip(theory.rules, weights, strict=True)))
        self.layer = LogicMP(theory, iterations, schedule=schedule, **options)
        self.without_list = self.layer
        if rules == "adj+list":
            self.without_list = LogicMP(with_weights(load_rules("adj"), adjacent, of_pairs), iterations,
                                        schedule=schedule, **options)
            self.without_list.raw_weights = nn.ParameterList(
                [w for k, w in enumerate(self.layer.raw_weights) if not is_pair_rule(theory, k)])
        self.objective = objective
        self.iterations = iterations
        self.final_iterations = final_iterations

    def train(self, mode: bool = True) -> RuleHead:
        for layer in (self.layer, self.without_list):
            iterations = self.iterations if mode else self.final_iterations
            layer.options = replace(layer.options, schedule=replace(layer.options.schedule, iterations=iterations))
        return super().train(mode)

    def given(self, logits: Tensor, batch: Batch) -> tuple[LogicMP, Tensor, dict[str, Tensor]]:
        """The layer for a batch, and its inputs."""
        if self.layer is self.without_list or not batch.has_list:
            return self.without_list, frame(logits, batch), {}
        return self.layer, frame(logits, batch), {"samelist": batch.samelist}

    def corrected(self, logits: Tensor, batch: Batch) -> Tensor:
        layer, framed, evidence = self.given(logits, batch)
        return layer(framed, evidence)[batch.framed]

    def scores(self, logits: Tensor, batch: Batch, answer: str = "") -> Tensor:
        return self.corrected(logits, batch)

    def loss(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        if self.objective == "marginals":
            return super().loss(logits, batch, epoch)
        layer, framed, evidence = self.given(logits, batch)
        with torch.no_grad():
            out = layer(framed, evidence)
        return self.slope(layer, framed, out, frame_truth(batch), evidence) / len(batch.labels)

    def slope(self, layer: LogicMP, framed: Tensor, out: Tensor, truth: Tensor, evidence: Mapping[str, Tensor]
              ) -> Tensor:
        """A number with the gradient of the likelihood of all labels, at the output of mean field."""
        with torch.no_grad():
            q = torch.softmax(out, 1)
            # both in one call, as a batch of two
            both = {name: x.expand(2, *x.shape) for name, x in evidence.items()}
            expected, true = layer.violations(torch.stack([out, (2 * truth - 1) * CERTAIN]), both)
            violated = expected - true
        return ((q - truth) * framed).sum() - (torch.stack(layer.weights) * violated).sum()


class ExactHead(Head):
    """The layer with exact inference over the adjacent rules, sentence by sentence; predicts the best world."""

    def __init__(self, adjacent: float = 4.0):
        super().__init__()
        self.layer = LogicMP(with_weights(load_rules("adj"), adjacent, None), method="exact")

    def loss(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        framed = frame_sentences(logits, batch)
        labels = frame_sentence_labels(batch, framed.shape[1])
        return self.layer.loss(framed, labels).sum() / len(batch.labels)

    def labels(self, logits: Tensor, batch: Batch, answer: str = "") -> Tensor:
        return self.layer.decode(frame_sentences(logits, batch))[batch.sentence, batch.place + 1]


class DocumentHead(RuleHead):
    """The layer over whole documents: exact on the components that are narrow, mean field on the others.

    Observed boundaries separate the sentences, and mentions of a name connect them. The loss is the likelihood of the
    labels: log Z on narrow components, and mean field's lower bound, as in `RuleHead`, on the others.
    """

    needs_documents = True

    def __init__(self, **options: Any):
        super().__init__("adj+same", method="auto", **options)

    def given(self, logits: Tensor, batch: Batch) -> tuple[LogicMP, Tensor, dict[str, Tensor]]:
        return self.layer, frame(logits, batch), {"samename": batch.samename, "label": batch.boundaries}

    def loss(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        layer, framed, evidence = self.given(logits, batch)
        run = layer.exact(framed, evidence)
        truth = frame_truth(batch)
        if run.is_complete:
            return run.loss({"label": truth.unsqueeze(0)}).sum() / len(batch.labels)
        with torch.no_grad():
            out = layer.run(framed, evidence)["label"]
            if run.parts[0].plan is not None:
                # narrow components have their labels here, so that their violations cancel
                out = torch.where(run.is_exact("label")[0], (2 * truth - 1) * CERTAIN, out)
        total = self.slope(layer, framed, out, truth, evidence)
        if run.parts[0].plan is not None:
            total = total + run.loss({"label": truth.unsqueeze(0)}).sum()
        return total / len(batch.labels)

    def labels(self, logits: Tensor, batch: Batch, answer: str = "") -> Tensor:
        layer, framed, evidence = self.given(logits, batch)
        run = layer.exact(framed, evidence)
        found = run.best(layer.theory)["label"]
        if not run.is_complete:
            found = torch.where(run.is_exact("label")[0, :, 0], found, layer(framed, evidence).argmax(1))
        return found[batch.framed]


class NamesHead(RuleHead):
    """The layer over whole documents, then the adjacent rules with exact inference, sentence by sentence.

    Mentions of names and entries of lexicons are sparse evidence. The adjacent rules come second, because mean field
    over them makes tokens too sure: then mentions in doubt no longer follow sure ones.

    Args:
        rules: "adj+doc" or "adj+doc+lex".
        weights: of the rules, in their order; None for those of the file.
        iterations, options: of the layer.
    """

    needs_documents = True

    def __init__(self, rules: str, weights: Sequence[float] | None = None, iterations: int = 3, **options: Any):
        own = [rule.weight for rule in load_rules(rules).rules] if weights is None else weights
        super().__init__(rules, weights=own, objective="marginals", iterations=iterations,
                         final_iterations=iterations, **options)
        self.adjacent = LogicMP(load_rules("adj"), method="exact", learn_weights=False)

    def given(self, logits: Tensor, batch: Batch) -> tuple[LogicMP, Tensor, dict[str, Tensor]]:
        return self.layer, frame(logits, batch), {p.name: batch.facts[p.name] for p in self.layer.theory.predicates
                                                  if p.closed_world}

    def labels(self, logits: Tensor, batch: Batch, answer: str = "") -> Tensor:
        framed = frame_sentences(self.corrected(logits, batch), batch)
        return self.adjacent.decode(framed)[batch.sentence, batch.place + 1]


class RelaxedHead(RuleHead):
    """SLrelax: cross-entropy plus expected violations; predicts without rules."""

    def __init__(self, rules: str, strength: float = 1.0, adjacent: float = 1.0, of_pairs: float = 0.1):
        super().__init__(rules, adjacent, of_pairs, learn_weights=False)
        self.strength = strength

    def loss(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        layer, framed, evidence = self.given(logits, batch)
        violated = layer.theory_loss(framed, evidence) / len(batch.labels)
        return functional.cross_entropy(logits, batch.labels) + self.strength * violated

    def scores(self, logits: Tensor, batch: Batch, answer: str = "") -> Tensor:
        return logits


class DistHead(Head):
    """Logic distillation (Hu et al. 2016): the student p learns from the labels and from the teacher q."""

    answers = ("p", "q")

    def __init__(self, rules: str, adjacent: float = 4.0, of_pairs: float = 0.3, pi_max: float = 0.9,
                 alpha: float = 0.9, **options: Any):
        super().__init__()
        kinds = {True: "adj+list", False: "adj"} if rules == "adj+list" else {False: "adj", True: "adj"}
        self.kinds: Mapping[bool, str] = kinds
        self.dist = nn.ModuleDict({name.replace("+", "_"): LogicDist(
            with_weights(load_rules(name), adjacent, of_pairs), pi_max=pi_max, alpha=alpha, schedule="paper",
            **options)
            for name in set(kinds.values())})

    def _dist(self, batch: Batch) -> tuple[LogicDist, dict[str, Tensor]]:
        kind = self.kinds[batch.has_list]
        dist = self.dist[kind.replace("+", "_")]
        assert isinstance(dist, LogicDist)
        return dist, {"samelist": batch.samelist} if kind == "adj+list" else {}

    def loss(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        dist, evidence = self._dist(batch)
        found = dist(frame(logits, batch), {"label": frame_labels(batch)}, epoch + 1, evidence)
        # boundary tokens have no loss, but count in the mean
        return found.loss * (batch.framed_length / len(batch.labels))

    def scores(self, logits: Tensor, batch: Batch, answer: str = "p") -> Tensor:
        if answer != "q":
            return logits
        dist, evidence = self._dist(batch)
        return dist.teacher(frame(logits, batch), evidence)[batch.framed]
