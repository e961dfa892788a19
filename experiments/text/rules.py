"""The rules, the framed sequence they apply to, and a check of transitions that does not use the rules.

    adjacent.mln     which label may follow which
    list.mln         in addition: names of one list have the same category
    document.mln     in addition: the same capitalised word in a document has the same category
    names.mln        without the adjacent rules: mentions of a name in a document, a weight for each pair of categories
    lexicon.mln      the same, and lexicons from the training entities
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from logicmp import Theory, decode, load_theory
from logicmp.files import write_whole

from .data import LABELS
from .encode import Batch

FOLDER = Path(__file__).parent
FILES = {"adj": "adjacent.mln", "adj+list": "list.mln", "adj+same": "document.mln", "adj+doc": "names.mln",
         "adj+doc+lex": "lexicon.mln"}
# the logit of O at a boundary token, far above any weight
CERTAIN = 30.0
OUTSIDE = LABELS.index("O")


@cache
def load_rules(name: str) -> Theory:
    """The theory of one of `FILES`."""
    return load_theory(FOLDER / FILES[name])


def is_pair_rule(theory: Theory, rule: int) -> bool:
    """Whether a rule connects tokens of a list, or mentions of a name."""
    return "same" in str(theory.rules[rule])


def with_weights(theory: Theory, adjacent: float | None, of_pairs: float | None) -> Theory:
    """The same rules with other weights, or without."""
    return replace(theory, rules=tuple(replace(rule, weight=of_pairs if is_pair_rule(theory, k) else adjacent)
                                       for k, rule in enumerate(theory.rules)))


def store_weights(name: str, weights: Sequence[float]) -> None:
    """Write the weights of all rules into their file; every rule is on a line of its own."""
    path = FOLDER / FILES[name]
    lines = path.read_text().splitlines()
    places = [rule.span.line - 1 for rule in load_rules(name).rules]
    for place, weight in zip(places, weights, strict=True):
        lines[place] = f"{weight:g} {lines[place].split(' ', 1)[1]}"
    write_whole(path, "\n".join(lines) + "\n", "rules")
    load_rules.cache_clear()


# transitions


def may_follow(label: str, following: str) -> bool:
    """Whether one label may follow another in BIOES.

    >>> may_follow("B-PER", "I-PER"), may_follow("B-PER", "I-LOC"), may_follow("E-PER", "B-LOC")
    (True, False, True)
    """
    if label[0] in "BI":
        return following[0] in "IE" and following[2:] == label[2:]
    return following[0] in "OBS"


def allowed_transitions() -> Tensor:
    """[labels + 1, labels + 1], bool; the last row is the start, the last column the end of a sentence."""
    framed = [*LABELS, "O"]
    return torch.tensor([[may_follow(a, b) for b in framed] for a in framed])


def count_invalid(tags: list[list[str]]) -> int:
    """The number of invalid transitions in sentences, starts and ends included.

    >>> count_invalid([["B-PER", "O"], ["E-LOC"], ["S-LOC", "O"]])
    2
    """
    return sum(not may_follow(a, b) for sentence in tags for a, b in zip(["O", *sentence], [*sentence, "O"],
                                                                          strict=True))


# the framed sequence


def frame(logits: Tensor, batch: Batch) -> Tensor:
    """The logits of the framed sequence, [framed, labels], with O at every boundary."""
    boundary = logits.new_zeros(batch.framed_length, len(LABELS))
    boundary[:, OUTSIDE] = CERTAIN
    return boundary.index_copy(0, batch.framed, logits)


def frame_labels(batch: Batch) -> Tensor:
    """[framed]"""
    return torch.full((batch.framed_length,), OUTSIDE).index_copy(0, batch.framed, batch.labels)


def frame_truth(batch: Batch) -> Tensor:
    """The labels of the framed sequence as [framed, labels], 0 and 1."""
    return torch.nn.functional.one_hot(frame_labels(batch), len(LABELS)).float()


def pad(values: Tensor, batch: Batch, length: int | None = None) -> Tensor:
    """Values of tokens as [sentences, longest, ...], padded with zeros."""
    shape = (len(batch.lengths), length or int(batch.lengths.max()), *values.shape[1:])
    return values.new_zeros(shape).index_put((batch.sentence, batch.place), values)


def frame_sentences(logits: Tensor, batch: Batch, step: int = 8) -> Tensor:
    """Logits as [sentences, length, labels], O before and after a sentence; `length` is a multiple of `step`."""
    length = -(-(int(batch.lengths.max()) + 2) // step) * step
    boundary = logits.new_zeros(len(batch.lengths), length, len(LABELS))
    boundary[..., OUTSIDE] = CERTAIN
    return boundary.index_put((batch.sentence, batch.place + 1), logits)


def frame_sentence_labels(batch: Batch, length: int) -> Tensor:
    """[sentences, length]"""
    return torch.full((len(batch.lengths), length), OUTSIDE).index_put((batch.sentence, batch.place + 1), batch.labels)


# decoding


def decode_tags(logits: Tensor, labels: Tensor, batch: Batch) -> Tensor:
    """The most probable labels that satisfy the adjacent rules; `labels` are the best ones without rules."""
    allowed = allowed_transitions()
    found = labels.clone()
    padded = pad(labels, batch)
    before = torch.nn.functional.pad(padded, (1, 0), value=OUTSIDE)
    after = torch.nn.functional.pad(padded, (0, 1), value=OUTSIDE)
    # padding is 0, which is O, so it violates nothing
    violated = (~allowed[before, after]).any(1)
    for k in violated.nonzero().flatten().tolist():
        own = batch.sentence == k
        framed = torch.nn.functional.pad(logits[own], (0, 0, 1, 1))
        framed[[0, -1], OUTSIDE] = CERTAIN
        found[own] = decode(load_rules("adj"), framed).values["label"][1:-1]
    return found
