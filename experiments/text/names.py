"""Pair capitalised words with the same words elsewhere in the document. Uses words only, no tags.

    Barcelona beat Atletico . | Barcelona lead .      Barcelona ~ Barcelona
    The team ... | The ...                            nothing: the training data has "the" in lower case

`find_mentions` pairs each word with the one before it. `find_links` tells four kinds of pairs apart, because they agree
in category to different degrees (share of pairs in the training documents):

    whole        Simmons ... Simmons                  the whole name is the same                        99%
    last         Simmons ... Phil Simmons             a word, and the last word of a longer name        97%
    part         China ... China Daily                any other word that two different names share     79%
    headline     SIMMONS WINS ... Simmons             a word in a line of capitals, and outside one     80%
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from .data import Corpus, Document
from .lists import Name, Unit, find_names

LINKS = ("whole", "last", "part", "headline")
# least share of words in capitals in a headline
CAPITALS = 0.8


def common_words(corpus: Corpus) -> frozenset[str]:
    """The words that a corpus has in lower case: capitalised, they are seldom names."""
    return frozenset(word for document in corpus for s in document.sentences for word in s.words if word.islower())


def find_mentions(document: Document, common: frozenset[str]) -> list[tuple[Name, Name]]:
    """Pairs of tokens with the same spelling, the earlier token first; each is paired with its predecessor.

    >>> from .data import Sentence
    >>> lines = ("The Barcelona team", "Barcelona beat The Rest")
    >>> found = Document(tuple(Sentence(tuple(line.split()), ("O",) * len(line.split())) for line in lines))
    >>> find_mentions(found, frozenset({"the"}))
    [(Name(sentence=0, start=1, end=2), Name(sentence=1, start=0, end=1))]
    """
    found: list[tuple[Name, Name]] = []
    last: dict[str, Name] = {}
    for k, sentence in enumerate(document.sentences):
        for i, word in enumerate(sentence.words):
            # a single capital is an initial
            if len(word) > 1 and word[0].isupper() and word.lower() not in common:
                name = Name(k, i, i + 1)
                if word in last:
                    found.append((last[word], name))
                last[word] = name
    return found


@dataclass(frozen=True, slots=True)
class _Mention:
    """A word of a name."""

    place: Name
    # index in the document
    token: int
    # the words of the name, and which of them it is
    name: tuple[str, ...]
    offset: int
    in_headline: bool


def find_links(document: Document, common: frozenset[str]) -> dict[str, list[tuple[Name, Name]]]:
    """Pairs of words with the same spelling, by kind: each word with the nearest one.

    The first of a pair is the word in the headline, or that of the shorter name. `whole` has each pair in both orders.

    >>> from .data import Sentence
    >>> lines = ("SIMMONS WINS AGAIN", "Phil Simmons beat Croft", "But Simmons left")
    >>> found = Document(tuple(Sentence(tuple(line.split()), ("O",) * len(line.split())) for line in lines))
    >>> for kind, pairs in find_links(found, frozenset({"but", "wins", "again"})).items():
    ...     print(kind, [(a.sentence, a.start, b.sentence, b.start) for a, b in pairs])
    whole []
    last [(2, 1, 1, 1)]
    part []
    headline [(0, 0, 1, 1)]
    """
    found: dict[str, list[tuple[Name, Name]]] = {kind: [] for kind in LINKS}
    for same in _mentions(document, common).values():
        for a in same:
            nearest: dict[str, _Mention] = {}
            for b in same:
                kind = "" if a is b else _kind(a, b)
                if kind and (kind not in nearest or abs(a.token - b.token) < abs(a.token - nearest[kind].token)):
                    nearest[kind] = b
            for kind, b in nearest.items():
                pair = a.place, b.place
                found[kind] += [pair, pair[::-1]] if kind == "whole" else [pair]
    return found


def _mentions(document: Document, common: frozenset[str]) -> dict[str, list[_Mention]]:
    """The words of names, by their spelling in lower case."""
    found: defaultdict[str, list[_Mention]] = defaultdict(list)
    n = 0
    for k, sentence in enumerate(document.sentences):
        words = sentence.words
        in_headline = is_headline(words)
        for start, end in [(i, i + 1) for i in range(len(words))] if in_headline else find_names(words):
            # "But Simmons": the first word of a sentence has a capital anyway
            first = start + (start == 0 and end > 1 and words[0].lower() in common)
            for i in range(first, end):
                # a single capital is an initial
                if len(words[i]) > 1 and words[i][0].isupper() and words[i].lower() not in common:
                    found[words[i].lower()].append(
                        _Mention(Name(k, i, i + 1), n + i, words[first:end], i - first, in_headline))
        n += len(words)
    return found


def is_headline(words: tuple[str, ...]) -> bool:
    """Whether most words of a sentence are in capitals.

    >>> is_headline(("SOCCER", "-", "BARCELONA", "WIN")), is_headline(("The", "EU", "won"))
    (True, False)
    """
    letters = [word for word in words if word[0].isalpha() and len(word) > 1]
    return len(letters) > 1 and sum(word.isupper() for word in letters) >= CAPITALS * len(letters)


def _kind(a: _Mention, b: _Mention) -> str:
    """How two words with the same spelling are linked; "" if they are not, or in the other order only."""
    if a.in_headline or b.in_headline:
        return "headline" if a.in_headline and not b.in_headline else ""
    if a.name == b.name:
        return "whole" if b.token < a.token else ""
    if a.name[a.offset] != b.name[b.offset] or (len(a.name), a.token) > (len(b.name), b.token):
        return ""
    return "last" if len(a.name) == 1 and b.offset == len(b.name) - 1 else "part"


def whole_document(document: Document, common: frozenset[str]) -> list[Unit]:
    """A document as one unit, with the pairs of its names."""
    return [Unit(document.sentences, tuple(find_mentions(document, common)),
                 {kind: tuple(pairs) for kind, pairs in find_links(document, common).items()})]
