"""Training and evaluation, the same for every method: the best epoch on testa counts; every epoch is a checkpoint.

    tagger = Tagger(Backbone(vocabulary), Head())
    fitted = fit(tagger, data, Budget(epochs=12), seed=0, checkpoint=folder / "backbone-0.pt")
    evaluate(tagger, data.testb)
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from logicmp.limits import Progress, silent

from ..checkpoint import Checkpoint
from .data import LABELS, SPLITS, Corpus, load_corpus, load_vectors
from .encode import Gazetteer, Item, Vocabulary, encode, make_batches, normal_form
from .heads import Head
from .lists import split_units
from .model import Backbone
from .names import common_words, whole_document
from .rules import count_invalid

# data


@dataclass(frozen=True)
class Part:
    """One file of the corpus, and its encoding."""

    corpus: Corpus
    # sentences, and lines that a list connects
    items: list[Item]
    # whole documents, with the pairs of their names
    documents: list[Item]

    @property
    def tags(self) -> list[list[str]]:
        """The annotated tags of each sentence."""
        return [list(s.tags) for document in self.corpus for s in document.sentences]

    @property
    def in_list(self) -> np.ndarray:
        """[sentences], bool"""
        return np.concatenate([item.in_list for item in self.items])

    def items_for(self, head: Head) -> list[Item]:
        return self.documents if head.needs_documents else self.items


@dataclass(frozen=True)
class Data:
    vocabulary: Vocabulary
    gazetteer: Gazetteer
    train: Part
    testa: Part
    testb: Part


def build_data(corpora: Mapping[str, Corpus], vectors: Mapping[str, np.ndarray]) -> Data:
    """Encode all files."""
    train = corpora["train"]
    vocabulary = Vocabulary.build(train, [corpora[split] for split in SPLITS[1:]], vectors)
    gazetteer = Gazetteer(train)
    documents = partial(whole_document, common=common_words(train))
    parts = {split: Part(corpora[split], *(encode(corpora[split], vocabulary, gazetteer, units, split == "train")
                                           for units in (split_units, documents))) for split in SPLITS}
    return Data(vocabulary, gazetteer, **parts)


def load_data(folder: str | Path | None = None, share: float = 1.0, seed: int = 0) -> Data:
    """Read and check the data; with a share below 1, the seed draws the training documents."""
    corpora = {split: load_corpus(split, folder) for split in SPLITS}
    words = {w for corpus in corpora.values() for d in corpus for s in d.sentences for w in s.words}
    wanted = {form for word in words for form in (word.lower(), normal_form(word))}
    if share < 1:
        documents = list(corpora["train"])
        random.Random(seed).shuffle(documents)
        corpora["train"] = tuple(documents[: max(1, round(share * len(documents)))])
    return build_data(corpora, load_vectors(wanted, folder))


# evaluation


class Tagger(nn.Module):
    """A backbone and a head."""

    def __init__(self, backbone: Backbone, head: Head):
        super().__init__()
        self.backbone = backbone
        self.head = head


@dataclass(frozen=True)
class Score:
    """Scores of entities in percent (strict BIOES), and invalid transitions per 1,000 sentences."""

    f1: float
    precision: float
    recall: float
    # on the sentences of lists
    list_f1: float
    invalid: float


@torch.no_grad()
def predict(tagger: Tagger, part: Part, answer: str = "", n_tokens: int = 1000) -> list[list[str]]:
    """The labels of every sentence, in the order of the corpus."""
    was_training = tagger.training
    tagger.eval()
    found: dict[int, list[str]] = {}
    for batch in make_batches(part.items_for(tagger.head), n_tokens):
        labels = tagger.head.labels(tagger.backbone(batch), batch, answer)
        for number, own in zip(batch.numbers.tolist(), labels.split(batch.lengths.tolist()), strict=True):
            found[number] = [LABELS[k] for k in own.tolist()]
    tagger.train(was_training)
    return [found[k] for k in range(len(found))]


def score(truth: list[list[str]], found: list[list[str]], in_list: np.ndarray) -> Score:
    """Score with seqeval in strict mode: an entity counts if all its labels are right."""
    from seqeval.metrics.v1 import precision_recall_fscore_support
    from seqeval.scheme import IOBES

    def measure(a: list[list[str]], b: list[list[str]]) -> tuple[float, float, float]:
        if not any(tag != "O" for tags in (*a, *b) for tag in tags):
            return 0.0, 0.0, 0.0
        p, r, f, _ = precision_recall_fscore_support(a, b, average="micro", scheme=IOBES, zero_division=0)
        return 100 * float(p), 100 * float(r), 100 * float(f)

    precision, recall, f1 = measure(truth, found)
    places = np.flatnonzero(in_list)
    _, _, list_f1 = measure([truth[k] for k in places], [found[k] for k in places])
    return Score(f1, precision, recall, list_f1, 1000 * count_invalid(found) / max(1, len(found)))


def evaluate(tagger: Tagger, part: Part, answer: str = "") -> Score:
    return score(part.tags, predict(tagger, part, answer), part.in_list)


# training


@dataclass(frozen=True)
class Budget:
    """Epochs, learning rates and batches; the same for all heads."""

    epochs: int = 5
    # of the backbone and of the head
    rate: float = 1e-3
    head_rate: float = 1e-2
    # per batch
    n_tokens: int = 500
    warm_up: float = 0.1
    # per epoch, for quick trials; None: all
    max_batches: int | None = None


@dataclass
class Fitted:
    """The state of training, with the best model for each kind of answer."""

    epoch: int = 0
    seconds: float = 0.0
    # for each answer: F1 on testa after each epoch
    curves: dict[str, list[float]] = field(default_factory=dict)
    best: dict[str, dict[str, Tensor]] = field(default_factory=dict)


def learning_rate(progress: float, warm_up: float) -> float:
    """The share of the full rate: linear warm-up, then a cosine to zero."""
    if progress < warm_up:
        return progress / warm_up
    return 0.5 * (1 + math.cos(math.pi * (progress - warm_up) / (1 - warm_up)))


def fit(tagger: Tagger, data: Data, budget: Budget, seed: int, checkpoint: Path | None = None,
        made_with: Mapping[str, Any] | None = None, progress: Progress = silent,
        say: Callable[[str], None] = lambda text: None) -> Fitted:
    """Train, and evaluate on testa after every epoch; an interrupted run continues after its last full epoch.

    Args:
        checkpoint: file for the state after every epoch.
        made_with: what else the checkpoint must agree with, besides budget and seed.
    """
    groups = [{"params": list(tagger.backbone.parameters()), "full": budget.rate},
              {"params": [p for p in tagger.head.parameters() if p.requires_grad], "full": budget.head_rate}]
    optimizer = torch.optim.Adam([group for group in groups if group["params"]], lr=budget.rate, fused=True)
    state = Checkpoint(checkpoint, every=0.0)
    before = state.load({"budget": asdict(budget), "seed": seed, **(made_with or {})})
    fitted = Fitted()
    if before is not None:
        tagger.load_state_dict(before["model"])
        optimizer.load_state_dict(before["optimizer"])
        fitted = Fitted(**before["fitted"])
    tagger.train()
    while fitted.epoch < budget.epochs:
        # random numbers depend on the epoch, so that a resumed run is the same run
        torch.manual_seed(1000 * seed + fitted.epoch)
        items = data.train.items_for(tagger.head)
        batches = make_batches(items, budget.n_tokens, 1000 * seed + fitted.epoch)[: budget.max_batches]
        started, total = time.monotonic(), 0.0
        for k, batch in enumerate(batches):
            share = learning_rate((fitted.epoch + k / len(batches)) / budget.epochs, budget.warm_up)
            for group in optimizer.param_groups:
                group["lr"] = group["full"] * share
            total += train_step(tagger, batch, optimizer, fitted.epoch)
            progress(f"epoch {fitted.epoch + 1} of {budget.epochs}", k + 1, len(batches))
        fitted.seconds += time.monotonic() - started
        for answer in tagger.head.answers:
            f1 = evaluate(tagger, data.testa, answer).f1
            curve = fitted.curves.setdefault(answer, [])
            if f1 > max(curve, default=-1.0):
                fitted.best[answer] = {name: t.detach().clone() for name, t in tagger.state_dict().items()}
            curve.append(f1)
        fitted.epoch += 1
        shown = ", ".join(f"{answer} {curve[-1]:.2f}".strip() for answer, curve in fitted.curves.items())
        say(f"epoch {fitted.epoch} of {budget.epochs}: loss {total / len(batches):.4f}, testa {shown}, "
            f"{fitted.seconds:.0f} s")
        state.save(fitted=asdict(fitted), model=tagger.state_dict(), optimizer=optimizer.state_dict())
    return fitted


def train_step(tagger: Tagger, batch: Any, optimizer: torch.optim.Optimizer, epoch: int) -> float:
    """Update the model once; return the loss."""
    optimizer.zero_grad()
    loss = tagger.head.loss(tagger.backbone(batch), batch, epoch)
    loss.backward()
    nn.utils.clip_grad_norm_(tagger.parameters(), 5.0)
    optimizer.step()
    return float(loss.detach())
