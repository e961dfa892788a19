"""Tag a sentence before and after the rules, and explain which rules changed it.

    python -m experiments.text show "West Indian all-rounder Phil Simmons took four for 38"
    python -m experiments.text show --method logicmp-adj+doc "Phil Simmons took four for 38 | Simmons said nothing"

"before" are the logits of the model that was trained with the layer, "after" is the output of the layer. Separate the
lines of a document with |: a list can span several lines.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from logicmp import LogicMPError

from ..checkpoint import Checkpoint
from .data import LABELS, Corpus, Document, Sentence, load_corpus, load_vectors
from .encode import Batch, Gazetteer, Vocabulary, encode, normal_form
from .heads import NamesHead, RuleHead
from .lists import split_units
from .methods import Context, make_tagger
from .moved import rule_amounts, shorten
from .names import LINKS, common_words, whole_document
from .rules import decode_tags
from .train import Tagger

# a change of probability worth an explanation
MOVED = 0.05
# rules and groundings shown for one token
SHOWN = 3


def show(text: str, method: str, seed: int, folder: str | None, context: Context) -> str:
    """Load the model of a finished run and tag a text with it."""
    corpus = to_corpus(text)
    train = load_corpus("train", folder)
    wanted = {form for s in corpus[0].sentences for w in s.words for form in (w.lower(), normal_form(w))}
    # the vocabulary learns vectors for words of the training data
    wanted |= {form for d in train for s in d.sentences for w in s.words for form in (w.lower(), normal_form(w))}
    vocabulary = Vocabulary.build(train, [corpus], load_vectors(wanted, folder))
    return explain(load_tagger(method, seed, vocabulary, context), vocabulary, corpus, train)


def to_corpus(text: str) -> Corpus:
    lines = [tuple(line.split()) for line in text.split("|") if line.split()]
    if not lines:
        raise LogicMPError("no words to tag", "type words and punctuation, separated by spaces")
    return (Document(tuple(Sentence(words, ("O",) * len(words)) for words in lines)),)


def load_tagger(method: str, seed: int, vocabulary: Vocabulary, context: Context) -> Tagger:
    """The best epoch of a finished run."""
    kept = Checkpoint(context.checkpoint(method, seed)).load()
    if kept is None:
        raise LogicMPError(f"there is no model of {method} with seed {seed}",
                           f"train it: python -m experiments.text run --method {method} --seed {seed}")
    tagger = make_tagger(method, vocabulary, kept["made_with"]["settings"], kept["made_with"]["hidden"])
    tagger.load_state_dict(kept["fitted"]["best"][""])
    return tagger.eval()


@torch.no_grad()
def explain(tagger: Tagger, vocabulary: Vocabulary, corpus: Corpus, train: Corpus = ()) -> str:
    """The text of `show`; `train` is the training data, for lexicons."""
    head = tagger.head
    assert isinstance(head, RuleHead)
    units = partial(whole_document, common=common_words(train)) if head.needs_documents else split_units
    batch = Batch.of(encode(corpus, vocabulary, Gazetteer(train), units))
    logits = tagger.backbone(batch)
    after = head.corrected(logits, batch)
    p, q = torch.softmax(logits, 1), torch.softmax(after, 1)
    decoded = decode_tags(after, after.argmax(1), batch)
    words = [w for s in corpus[0].sentences for w in s.words]
    width = max(8, *map(len, words))
    lines = [f"{'word':{width}}  {'before':14}  {'after':14}  decoded"]
    for k, word in enumerate(words):
        if k and batch.sentence[k] != batch.sentence[k - 1]:
            lines.append("")
        lines.append(f"{word:{width}}  {_best(p[k]):14}  {_best(q[k]):14}  {LABELS[int(decoded[k])]}")
    moved = [k for k in range(len(words)) if p[k].argmax() != q[k].argmax()
             or float((p[k] - q[k]).abs().max()) >= MOVED]
    lines += ["", "changed by the rules" if moved else f"the rules change no probability by {MOVED:g} or more"]
    for k in moved:
        if isinstance(head, NamesHead):
            lines += _explain_name(k, head, logits, batch, p[k], q[k], words)
        else:
            lines += _explain_token(k, head, logits, batch, p[k], q[k], words)
    return "\n".join(lines) + "\n"


def _best(p: Tensor) -> str:
    return f"{LABELS[int(p.argmax())]:7} {float(p.max()):.3f}"


def _explain_token(k: int, head: RuleHead, logits: Tensor, batch: Batch, p: Tensor, q: Tensor,
                   words: list[str]) -> list[str]:
    """The labels of a token that gained and lost most, and the rules with the largest effect on each."""
    layer, framed, evidence = head.given(logits, batch)
    at = {int(place): words[n] for n, place in enumerate(batch.framed)}
    lines = []
    for label in dict.fromkeys([int((q - p).argmax()), int((p - q).argmax())]):
        lines.append(f"  {words[k]}: {LABELS[label]} {float(p[label]):.3f} -> {float(q[label]):.3f}")
        pushes = layer.explain(f"label({int(batch.framed[k])}) = {LABELS[label]}", framed, evidence)
        for push in pushes[:SHOWN]:
            if abs(push.amount) < 0.01:
                break
            # omit the weight of the .mln file: the model has learned another one
            lines.append(f"    {push.amount:+.3f}   {push.rule.partition(' ')[2]}")
            for amount, variables in push.groundings(SHOWN):
                others = [at.get(place, "boundary") for place in sorted(_places(variables))
                          if place != int(batch.framed[k])]
                if abs(amount) >= 0.01:
                    lines.append(f"    {amount:+.3f}     with {' and '.join(others) or words[k]}")
    return lines


def _explain_name(k: int, head: NamesHead, logits: Tensor, batch: Batch, p: Tensor, q: Tensor, words: list[str]
                  ) -> list[str]:
    """What each rule adds to the log-odds of the label that gained most over the one that lost most."""
    gained, lost = int((q - p).argmax()), int((p - q).argmax())
    lines = [f"  {words[k]}: {LABELS[lost]} {float(p[lost]):.3f} -> {float(q[lost]):.3f}, "
             f"{LABELS[gained]} {float(p[gained]):.3f} -> {float(q[gained]):.3f}"]
    before, after = logits.argmax(1), logits.argmax(1)
    before[k], after[k] = lost, gained
    amounts = rule_amounts(head, logits, batch, before, after)
    for rule in amounts.abs().argsort(descending=True)[:SHOWN].tolist():
        if abs(float(amounts[rule])) >= 0.01:
            lines.append(f"    {float(amounts[rule]):+.3f}   {shorten(str(head.layer.theory.rules[rule]))}")
    at = {int(place): n for n, place in enumerate(batch.framed)}
    others = {at[int(b if a == batch.framed[k] else a)] for kind in LINKS for a, b in batch.facts[kind].T
              if int(batch.framed[k]) in (int(a), int(b))}
    if others:
        lines.append("    linked to " + ", ".join(f"{words[n]} (word {n + 1})" for n in sorted(others)))
    return lines


def _places(variables: dict[str, str]) -> set[int]:
    """The tokens of a grounding: i and j, or i and i+1."""
    numbers = {int(value.removeprefix("#")) for value in variables.values()}
    return numbers | {n + 1 for n in numbers} if len(variables) == 1 else numbers
