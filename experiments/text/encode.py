"""Encode words as numbers, and make batches of sentences of similar length without padding.

Tensors are flat: one row for each token of a batch, sentence after sentence.

    forms      [tokens]      the spelling of a word: characters, capitals and vectors are tables over spellings
    place      [tokens]      position of a token in its sentence
    framed     [tokens]      position of a token if boundary tokens separate the sentences

The rules apply to the framed sequence. Its boundary tokens have the label O, so rules about neighbours also constrain
how a sentence starts and ends, and sentences do not affect each other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from .data import CATEGORIES, LABELS, Corpus, Document, to_entities
from .lists import Unit

MAX_CHARACTERS = 20
# the framed length is a multiple of this, so that few plans are needed
STEP = 64
# learned vectors: none, because the word has a given vector; and the vector of all unknown words
NO_WORD, UNKNOWN = 0, 1
NUMBER_OF = {label: k for k, label in enumerate(LABELS)}
# position in a gazetteer entry (B, I, E, S), for each category
N_GAZETTEER = 4 * len(CATEGORIES)
# how the training documents use a capitalised word: in one document, in all documents alike, or in most
USES = tuple(f"{how}-{category}" for how in ("Once", "Always", "Mostly") for category in ("O", *CATEGORIES))
MOSTLY = 0.75
# evidence whose second argument is an entry of the gazetteer, or a use
INLEX, USED = "inlex", "used"


def normal_form(word: str) -> str:
    """The form of a word for look-ups: lower case, with 0 for every digit.

    >>> normal_form("1996-08-22"), normal_form("EU")
    ('0000-00-00', 'eu')
    """
    return "".join("0" if c.isdigit() else c for c in word.lower())


def letter_case(word: str) -> list[float]:
    """Features of the capitals and digits of a word."""
    return [float(flag) for flag in (
        word.islower(), word.isupper(), word.istitle(), word[0].isupper(), any(c.isupper() for c in word[1:]),
        any(c.isdigit() for c in word), all(c.isdigit() for c in word), not any(c.isalnum() for c in word))]


def spell(word: str, letters: Mapping[str, int]) -> list[int]:
    """The characters of a word as numbers, 1 for unknown, 0 for padding; long words lose their middle."""
    if len(word) > MAX_CHARACTERS:
        word = word[: MAX_CHARACTERS // 2] + word[-MAX_CHARACTERS // 2 :]
    return [letters.get(c, 1) for c in word] + [0] * (MAX_CHARACTERS - len(word))


@dataclass(frozen=True)
class Vocabulary:
    """Tables over all spellings. Learned vectors depend on the training data only."""

    form: Mapping[str, int]
    # [forms, characters]
    characters: Tensor
    n_characters: int
    # [forms, features]
    case: Tensor
    # [forms, dim]: given vectors, or zero
    vectors: Tensor
    # [forms]: index of the learned vector that is added
    learned: Tensor
    n_learned: int

    @staticmethod
    def build(train: Corpus, others: Iterable[Corpus], vectors: Mapping[str, np.ndarray],
              least: int = 2) -> Vocabulary:
        """Build tables over the words of all corpora; words with `least` training occurrences get a learned vector."""
        counted = Counter(normal_form(w) for w in _words(train))
        letters = {c: k + 2 for k, c in enumerate(sorted({c for w in _words(train) for c in w}))}
        own = sorted(w for w, n in counted.items() if n >= least and w not in vectors)
        number = {w: k + 2 for k, w in enumerate(own)}
        forms = sorted({w for corpus in (train, *others) for w in _words(corpus)})
        zero = np.zeros(len(next(iter(vectors.values()))) if vectors else 1, dtype=np.float32)
        given = [vectors.get(w.lower(), vectors.get(normal_form(w))) for w in forms]
        learned = [number.get(normal_form(w), UNKNOWN) if v is None else NO_WORD
                   for w, v in zip(forms, given, strict=True)]
        return Vocabulary({w: k for k, w in enumerate(forms)},
                          torch.tensor([spell(w, letters) for w in forms]), len(letters) + 2,
                          torch.tensor([letter_case(w) for w in forms]),
                          torch.from_numpy(np.stack([zero if v is None else v for v in given])),
                          torch.tensor(learned), len(number) + 2)


def _words(corpus: Corpus) -> Iterable[str]:
    return (word for document in corpus for sentence in document.sentences for word in sentence.words)


# the gazetteer


class Gazetteer:
    """The entities of the training data, to look up in any sentence.

    In a training document an entry counts only if another document has it too. Otherwise every entity would be found,
    and the model would rely on the gazetteer alone.
    """

    def __init__(self, train: Corpus):
        self.documents: dict[tuple[str, ...], dict[str, set[int]]] = {}
        # of every capitalised word, the documents in which it has a category, or O
        self.words: dict[str, dict[str, set[int]]] = {}
        for number, document in enumerate(train):
            for s in document.sentences:
                for word, tag in zip(s.words, s.tags, strict=True):
                    if word[0].isupper():
                        self.words.setdefault(word.lower(), {}).setdefault(tag[2:] or "O", set()).add(number)
                for first, last, category in to_entities(s.tags):
                    name = tuple(word.lower() for word in s.words[first : last + 1])
                    self.documents.setdefault(name, {}).setdefault(category, set()).add(number)
        # for each first word, the length of the longest entry
        self.longest: dict[str, int] = {}
        for name in self.documents:
            self.longest[name[0]] = max(len(name), self.longest.get(name[0], 0))

    def find(self, words: Sequence[str], document: int | None = None) -> list[list[int]]:
        """The features of each word as numbers: its position in the longest entry of each category.

        Args:
            document: number of the document, if the words are from the training data.
        """
        lower = [word.lower() for word in words]
        found: list[list[int]] = [[] for _ in words]
        for c, category in enumerate(CATEGORIES):
            i = 0
            while i < len(lower):
                most = min(self.longest.get(lower[i], 0), len(lower) - i)
                length = next((n for n in range(most, 0, -1) if self._counts(
                    tuple(lower[i : i + n]), category, document)), 0)
                for k in range(length):
                    place = 3 if length == 1 else 0 if k == 0 else 2 if k == length - 1 else 1
                    found[i + k].append(4 * c + place)
                i += max(length, 1)
        return found

    def uses(self, words: Sequence[str], document: int | None = None) -> list[int | None]:
        """How other documents use each capitalised word, as a number of `USES`; None if none has it.

        Args:
            document: number of the document, if the words are from the training data.
        """
        found: list[int | None] = []
        for word in words:
            known = self.words.get(word.lower(), {}) if word[0].isupper() else {}
            counts = {c: len(own - {document}) for c, own in known.items()}
            total = sum(counts.values())
            best = max(counts, key=lambda c: counts[c], default="O")
            how = ("" if not total else "Once" if total == 1 else "Always" if counts[best] == total
                   else "Mostly" if counts[best] >= MOSTLY * total else "")
            found.append(USES.index(f"{how}-{best}") if how else None)
        return found

    def _counts(self, name: tuple[str, ...], category: str, document: int | None) -> bool:
        return bool(self.documents.get(name, {}).get(category, set()) - {document})


# batches


@dataclass(frozen=True)
class Item:
    """An encoded unit."""

    # [tokens]
    forms: np.ndarray
    labels: np.ndarray
    # [tokens, N_GAZETTEER]
    gazetteer: np.ndarray
    # [sentences]
    lengths: np.ndarray
    # [pairs, 2]: tokens of the same list, or two mentions of a name; each pair once
    pairs: np.ndarray
    # [sentences]: whether a pair includes it
    in_list: np.ndarray
    # index in the corpus
    first_sentence: int
    # evidence as columns, [2, n]: two tokens (`links` of a unit), or a token and a number (`inlex`, `used`)
    facts: Mapping[str, np.ndarray]


def encode(corpus: Corpus, vocabulary: Vocabulary, gazetteer: Gazetteer, split: Callable[[Document], list[Unit]],
           is_train: bool = False) -> list[Item]:
    """Encode a corpus; `split` makes the units of a document."""
    found: list[Item] = []
    n = 0
    for number, document in enumerate(corpus):
        for unit in split(document):
            found.append(_encode_unit(unit, vocabulary, gazetteer, number if is_train else None, n))
            n += len(unit.sentences)
    return found


def _encode_unit(unit: Unit, vocabulary: Vocabulary, gazetteer: Gazetteer, document: int | None, first: int) -> Item:
    lengths = np.array([len(s.words) for s in unit.sentences])
    starts = np.cumsum(lengths) - lengths
    features = np.zeros((int(lengths.sum()), N_GAZETTEER), dtype=np.float32)
    used = []
    for start, s in zip(starts, unit.sentences, strict=True):
        for k, numbers in enumerate(gazetteer.find(s.words, document)):
            features[start + k, numbers] = 1
        used += [(start + k, use) for k, use in enumerate(gazetteer.uses(s.words, document)) if use is not None]
    facts = {kind: [(starts[a.sentence] + a.start, starts[b.sentence] + b.start) for a, b in links]
             for kind, links in unit.links.items()}
    pairs = [(starts[a.sentence] + i, starts[b.sentence] + j) for a, b in unit.pairs
             for i in range(a.start, a.end) for j in range(b.start, b.end)]
    in_list = np.zeros(len(lengths), dtype=bool)
    in_list[[name.sentence for pair in unit.pairs for name in pair]] = True
    return Item(np.array([vocabulary.form[w] for s in unit.sentences for w in s.words]),
                np.array([NUMBER_OF[t] for s in unit.sentences for t in s.tags]), features, lengths,
                np.array(pairs, dtype=np.int64).reshape(-1, 2), in_list, first,
                {name: np.array(rows, dtype=np.int64).reshape(-1, 2).T for name, rows in
                 (*facts.items(), (INLEX, np.argwhere(features)), (USED, used))})


@dataclass(frozen=True)
class Batch:
    """Several units together."""

    forms: Tensor
    labels: Tensor
    gazetteer: Tensor
    # [sentences]; then the sentence and position of each token
    lengths: Tensor
    sentence: Tensor
    place: Tensor
    # [2, pairs]
    pairs: Tensor
    in_list: Tensor
    # [sentences]: index in the corpus
    numbers: Tensor
    # evidence as columns, [2, n], with places in the framed sequence
    facts: Mapping[str, Tensor]

    @staticmethod
    def of(items: Sequence[Item]) -> Batch:
        lengths = np.concatenate([item.lengths for item in items])
        sizes = np.array([len(item.forms) for item in items])
        shift = np.repeat(np.cumsum(sizes) - sizes, [len(item.pairs) for item in items])
        pairs = np.concatenate([item.pairs for item in items]) + shift[:, None]
        place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        arrays = (np.concatenate([item.forms for item in items]), np.concatenate([item.labels for item in items]),
                  np.concatenate([item.gazetteer for item in items]), lengths,
                  np.repeat(np.arange(len(lengths)), lengths), place, pairs.T.copy(),
                  np.concatenate([item.in_list for item in items]),
                  np.concatenate([item.first_sentence + np.arange(len(item.lengths)) for item in items]))
        framed = np.arange(lengths.sum()) + np.repeat(np.arange(len(lengths)), lengths) + 1
        starts = np.cumsum(sizes) - sizes
        facts = {}
        for name in items[0].facts:
            is_link = name not in (INLEX, USED)
            first, second = np.concatenate([item.facts[name] + [[n], [n * is_link]] for item, n
                                            in zip(items, starts, strict=True)], 1)
            facts[name] = torch.from_numpy(np.stack([framed[first], framed[second] if is_link else second]))
        return Batch(*map(torch.from_numpy, arrays), facts)

    @cached_property
    def place_from_end(self) -> Tensor:
        """The position of each token, counted from the end of its sentence."""
        return self.lengths[self.sentence] - 1 - self.place

    # the framed sequence, for the rules

    @cached_property
    def framed(self) -> Tensor:
        return torch.arange(len(self.forms)) + self.sentence + 1

    @property
    def framed_length(self) -> int:
        return -(-(len(self.forms) + len(self.lengths) + 1) // STEP) * STEP

    @cached_property
    def has_list(self) -> bool:
        return self.pairs.shape[1] > 0

    @cached_property
    def samelist(self) -> Tensor:
        """[framed, framed], bool."""
        found = torch.zeros(self.framed_length, self.framed_length, dtype=torch.bool)
        a, b = self.framed[self.pairs]
        found[a, b] = True
        found[b, a] = True
        return found

    @cached_property
    def samename(self) -> Tensor:
        """[framed, framed], bool: a mention and the one after it."""
        found = torch.zeros(self.framed_length, self.framed_length, dtype=torch.bool)
        found[tuple(self.framed[self.pairs])] = True
        return found

    @cached_property
    def boundaries(self) -> Tensor:
        """[framed, labels]: evidence that boundary tokens are O, NaN for words."""
        found = torch.zeros(self.framed_length, len(LABELS))
        found[:, NUMBER_OF["O"]] = 1
        return found.index_fill(0, self.framed, torch.nan)


def make_batches(items: Sequence[Item], n_tokens: int, seed: int | None = None) -> list[Batch]:
    """Batches of about `n_tokens` tokens, of similar length, all with a list or all without; a seed shuffles them."""
    shuffled = random.Random(seed)

    def key(item: Item) -> tuple[bool, float]:
        length = float(item.lengths.mean())
        return len(item.pairs) > 0, length if seed is None else length * shuffled.uniform(0.9, 1.1)

    batches: list[list[Item]] = []
    size = 0
    last = None
    for (has_list, _), item in sorted(((key(item), item) for item in items), key=lambda entry: entry[0]):
        if size + len(item.forms) > n_tokens or has_list != last or not batches:
            batches.append([])
            size = 0
        batches[-1].append(item)
        size += len(item.forms)
        last = has_list
    if seed is not None:
        shuffled.shuffle(batches)
    return [Batch.of(items) for items in batches]
