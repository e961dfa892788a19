"""Which rule moved which name: the names that the rules over documents mended, and those they spoilt.

    python -m experiments.text moved --method logicmp-adj+doc+lex --seed 0

A mended name is an annotated entity that the tagger with rules finds and the same tagger without rules does not; a
spoilt name is one that only the tagger without rules finds. The log-odds of two labels of a word are those of the
tagger plus one amount for each rule; the table shows the evidence whose rules add most, and the strongest of them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..tables import table
from .data import LABELS, to_entities
from .encode import Batch
from .heads import NamesHead
from .rules import CERTAIN
from .train import Part, Tagger

# words of the longest name shown
LONGEST = 3


@dataclass(frozen=True)
class Moved:
    """A name that the rules moved, and what moved it most."""

    name: str
    # labels of its words, without rules and with them
    before: str
    after: str
    # the evidence whose rules together moved it most, the strongest of these rules, and the log-odds of all of them
    kind: str
    rule: str
    amount: float


@torch.no_grad()
def rule_amounts(head: NamesHead, logits: Tensor, batch: Batch, before: Tensor, after: Tensor) -> Tensor:
    """What each rule adds to the log-odds of labels `after` over `before`, [rules]; both are [tokens].

    The other tokens have the marginals where the layer ended.
    """
    layer, framed, evidence = head.given(logits, batch)
    out = layer(framed, evidence)
    moved = before != after
    worlds = out.repeat(2, 1, 1)
    for world, labels in zip(worlds, (before, after), strict=True):
        world[batch.framed[moved]] = (2 * torch.nn.functional.one_hot(labels[moved], len(LABELS)) - 1) * CERTAIN
    violated = layer.violations(worlds, evidence)
    return torch.stack([w.detach() for w in layer.weights]) * (violated[0] - violated[1])


def shorten(rule: str) -> str:
    """A rule without its weight, with the name of a category for its four labels.

    >>> shorten("0.3 last(i, j) ^ label(i) in {B-PER, I-PER, E-PER, S-PER} ^ label(j) in {O}")
    'last(i, j) ^ label(i) in PER ^ label(j) in O'
    """
    rule = re.sub(r"^-?[\d.e-]+ ", "", rule)
    rule = re.sub(r"\{B-(\w+), I-\1, E-\1, S-\1\}", r"\1", rule)
    return re.sub(r"\{(\w+)\}", r"\1", rule)


@torch.no_grad()
def find_moved(tagger: Tagger, part: Part) -> tuple[list[Moved], list[Moved]]:
    """All mended and all spoilt names of a part that have at most `LONGEST` words."""
    head = tagger.head
    assert isinstance(head, NamesHead)
    tagger.eval()
    rules = [shorten(str(rule)) for rule in head.layer.theory.rules]
    mended: list[Moved] = []
    spoilt: list[Moved] = []
    sentences = [s for document in part.corpus for s in document.sentences]
    for item in part.documents:
        batch = Batch.of([item])
        logits = tagger.backbone(batch)
        plain, final = logits.argmax(1), head.labels(logits, batch)
        starts = (batch.lengths.cumsum(0) - batch.lengths).tolist()
        for k, start in enumerate(starts):
            sentence = sentences[item.first_sentence + k]
            for first, last, _ in sorted(to_entities(sentence.tags)):
                name = slice(start + first, start + last + 1)
                # strict: an entity is found if all its labels are right
                is_found = [torch.equal(labels[name], batch.labels[name]) for labels in (plain, final)]
                if is_found[0] == is_found[1] or last - first >= LONGEST:
                    continue
                # the name, and the words beside it
                near = torch.zeros_like(plain, dtype=torch.bool)
                near[max(start, start + first - 1) : start + last + 2] = True
                amounts = rule_amounts(head, logits, batch, plain, torch.where(near, final, plain))
                kind, amount, best = _strongest(amounts.tolist(), rules)
                before, after = (" ".join(LABELS[n] for n in x[name].tolist()) for x in (plain, final))
                (mended if is_found[1] else spoilt).append(Moved(
                    " ".join(sentence.words[first : last + 1]), before, after, kind, best, amount))
    return mended, spoilt


def _strongest(amounts: Sequence[float], rules: Sequence[str]) -> tuple[str, float, str]:
    """The kind of evidence whose rules add most, their sum, and the strongest of them; "adjacent" if none adds."""
    total: dict[str, float] = {}
    for amount, rule in zip(amounts, rules, strict=True):
        kind = rule.partition("(")[0]
        total[kind] = total.get(kind, 0.0) + amount
    kind = max(total, key=lambda one: total[one])
    if total[kind] <= 0:
        return "adjacent", 0.0, "adjacent.mln"
    return kind, total[kind], max((x, rule) for x, rule in zip(amounts, rules, strict=True)
                                  if rule.startswith(f"{kind}("))[1]


def as_text(mended: Sequence[Moved], spoilt: Sequence[Moved], n: int, seed: int = 0) -> str:
    """Markdown: `n` of each, drawn at random, and how often each kind of rule moved a name."""
    parts = []
    for title, names in (("mended", mended), ("spoilt", spoilt)):
        drawn = random.Random(seed).sample(list(names), min(n, len(names)))
        drawn.sort(key=lambda one: (one.kind, one.name))
        rows = [[one.name, one.before, one.after, one.kind, f"{one.amount:+.1f}", f"`{one.rule}`"] for one in drawn]
        kinds: dict[str, int] = {}
        for one in names:
            kinds[one.kind] = kinds.get(one.kind, 0) + 1
        counted = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items(), key=lambda entry: -entry[1]))
        parts += [f"{len(names)} {title} names of at most {LONGEST} words, by their strongest evidence: {counted}.",
                  table([title, "without rules", "with rules", "evidence", "log-odds", "its strongest rule"], rows)]
    return "\n\n".join(parts) + "\n"
