"""Pair capitalised words with the same words elsewhere in the document. Uses words only, no tags.

    Barcelona beat Atletico . | Barcelona lead .      Barcelona ~ Barcelona
    The team ... | The ...                            nothing: the training data has "the" in lower case

`find_mentions` pairs each word with the one before it. `find_links` pairs all mentions and tells four kinds apart, because
they agree in category to different degrees (pairs of the training documents with one category):

    whole        Simmons ... Simmons                  the whole name is the same                        99%
    last         Simmons ... Phil Simmons             a word, and the last word of a longer name        95%
    part         China ... China Daily                any other word that two different names share     78%
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
    # the words of the name, and which one it is
    name: tuple[str, ...]
    offset: int
    in_headline: bool


def find_links(document: Document, common: frozenset[str]) -> dict[str, list[tuple[Name, Name]]]:
    """All pairs of words with the same spelling, by kind: the shorter name first, the headline first, `whole` both ways.

    >>> from .data import Sentence
    >>> lines = ("SIMMONS WINS AGAIN", "Phil Simmons beat Croft", "But Simmons left")
    >>> found = Document(tuple(Sentence(tuple(line.split()), ("O",) * len(line.split())) for line in lines))
    >>> for kind, pairs in find_links(found, frozenset({"but", "wins", "again"})).items():
    ...     print(kind, [(a.sentence, a.start, b.sentence, b.start) for a, b in pairs])
    whole []
    last [(2, 1, 1, 1)]
    part []
    headline [(0, 0, 1, 1), (0, 0, 2, 1)]
    """
    found: dict[str, list[tuple[Name, Name]]] = {kind: [] for kind in LINKS}
    seen: defaultdict[str, list[_Mention]] = defaultdict(list)
    for k in range(len(document.sentences)):
        for mention in _mentions(document, k, common):
            word = mention.name[mention.offset].lower()
            for other in seen[word]:
                kind, is_reversed = _kind(other, mention)
                if kind:
                    pair = (mention.place, other.place) if is_reversed else (other.place, mention.place)
                    found[kind] += [pair, pair[::-1]] if kind == "whole" else [pair]
            seen[word].append(mention)
    return found


def _mentions(document: Document, k: int, common: frozenset[str]) -> list[_Mention]:
    words = document.sentences[k].words
    in_headline = is_headline(words)
    found = []
    for start, end in [(i, i + 1) for i in range(len(words))] if in_headline else find_names(words):
        # "But Simmons": the first word of a sentence has a capital anyway
        first = start + (start == 0 and end > 1 and words[0].lower() in common)
        name = words[first:end]
        # a single capital is an initial
        found += [_Mention(Name(k, first + i, first + i + 1), name, i, in_headline) for i, word in enumerate(name)
                  if len(word) > 1 and word[0].isupper() and word.lower() not in common]
    return found


def is_headline(words: tuple[str, ...]) -> bool:
    """Whether most words of a sentence are in capitals.

    >>> is_headline(("SOCCER", "-", "BARCELONA", "WIN")), is_headline(("The", "EU", "won"))
    (True, False)
    """
    letters = [word for word in words if word[0].isalpha() and len(word) > 1]
    return len(letters) > 1 and sum(word.isupper() for word in letters) >= CAPITALS * len(letters)


def _kind(a: _Mention, b: _Mention) -> tuple[str, bool]:
    """How two mentions of one word are linked, and whether the second is to be first."""
    if a.in_headline or b.in_headline:
        return ("headline", b.in_headline) if a.in_headline != b.in_headline else ("", False)
    if a.name[a.offset] != b.name[b.offset]:
        return "", False
    if a.name == b.name:
        return "whole", False
    short, long = sorted((a, b), key=lambda mention: len(mention.name))
    is_last = len(short.name) == 1 and long.offset == len(long.name) - 1
    return "last" if is_last else "part", short is b


def whole_document(document: Document, common: frozenset[str]) -> list[Unit]:
    """A document as one unit, with the pairs of its names."""
    return [Unit(document.sentences, tuple(find_mentions(document, common)),
                 {kind: tuple(pairs) for kind, pairs in find_links(document, common).items()})]
