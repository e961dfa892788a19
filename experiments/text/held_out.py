"""Predictions for the training documents by taggers that have not seen them, and weights of rules learned from these.

    logits = held_out_logits(data, seed=0, context)      # one tensor for each training document, [tokens, labels]

A tagger is too sure of the documents it was trained on. So they are cut into folds; a tagger is trained without each
fold, and then tags it. These taggers have fewer documents and epochs than the backbone, and are used for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..checkpoint import Checkpoint
from .encode import Batch, Item
from .heads import Head, NamesHead
from .model import Backbone
from .names import LINKS
from .rules import frame_labels
from .train import Data, Part, Tagger, fit, learning_rate

if TYPE_CHECKING:
    from .methods import Context

FOLDS = 2
EPOCHS = 8


def held_out_logits(data: Data, seed: int, context: Context) -> list[Tensor]:
    """The logits of every training document by a tagger trained without it; kept in the folder of checkpoints."""
    kept = Checkpoint(context.checkpoint("held-out", seed), every=0.0)
    budget = replace(context.backbone, epochs=min(EPOCHS, context.backbone.epochs))
    before = kept.load({"folds": FOLDS, "epochs": budget.epochs, "hidden": context.hidden})
    if before is not None:
        return list(before["logits"])
    found: list[Tensor] = [torch.empty(0)] * len(data.train.documents)
    for fold in range(FOLDS):
        own = range(fold, len(found), FOLDS)
        torch.manual_seed(seed)
        tagger = Tagger(Backbone(data.vocabulary, context.hidden), Head())
        fitted = fit(tagger, replace(data, train=without(data.train, own)), budget, seed,
                     context.checkpoint(f"fold-{fold}", seed), {"folds": FOLDS, "hidden": context.hidden},
                     context.progress, context.say)
        tagger.load_state_dict(fitted.best[""])
        for k, logits in zip(own, document_logits(tagger, [data.train.documents[k] for k in own]), strict=True):
            found[k] = logits
    kept.save(logits=found)
    return found


def without(part: Part, documents: Sequence[int]) -> Part:
    """A part without some of its documents, to train on."""
    lengths = [len(document.sentences) for document in part.corpus]
    number = np.repeat(np.arange(len(lengths)), lengths)
    left = [k for k in range(len(lengths)) if k not in set(documents)]
    return Part(tuple(part.corpus[k] for k in left),
                [item for item in part.items if number[item.first_sentence] not in set(documents)],
                [part.documents[k] for k in left])


@torch.no_grad()
def document_logits(tagger: Tagger, documents: Sequence[Item]) -> list[Tensor]:
    """The logits of a tagger, without its head, for each document."""
    tagger.eval()
    return [tagger.backbone(Batch.of([item])) for item in documents]


# weights


def learn_weights(head: NamesHead, documents: Sequence[Item], logits: Sequence[Tensor], steps: int = 40,
                  rate: float = 0.25, decay: float = 2e-5, say: Callable[[str], None] = lambda text: None
                  ) -> list[float]:
    """Learn the weights of all rules from fixed logits, starting at 0.

    The loss is the cross-entropy of the layer's output, with the gradient through its iterations. Only tokens with
    evidence take part: no rule mentions the others.

    Args:
        documents: the training documents, and `logits` of taggers that have not seen them.
        steps: updates, each with all documents.
    """
    batch = Batch.of(documents)
    layer, framed, evidence = head.given(torch.cat(list(logits)), batch)
    tokens = {name: columns if name in LINKS else columns[:1] for name, columns in evidence.items()}
    places = torch.cat([columns.flatten() for columns in tokens.values()]).unique()
    number = torch.empty(len(framed), dtype=torch.int64).index_copy(0, places, torch.arange(len(places)))
    facts = {name: number[columns] if name in LINKS else torch.stack([number[columns[0]], columns[1]])
             for name, columns in evidence.items()}
    given, truth = framed[places], frame_labels(batch)[places]
    own = list(layer.raw_weights)
    with torch.no_grad():
        for weight in own:
            weight.zero_()
    optimizer = torch.optim.Adam(own, lr=rate, weight_decay=decay)
    for step in range(steps):
        for options in optimizer.param_groups:
            options["lr"] = rate * learning_rate(step / steps, 0.1)
        optimizer.zero_grad()
        loss = functional.cross_entropy(layer(given, facts), truth, reduction="sum") / len(batch.labels)
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            say(f"weights of rules, step {step + 1} of {steps}: loss {float(loss.detach()):.5f}")
    return [round(float(weight.detach()), 3) for weight in own]
