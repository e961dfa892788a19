"""Pair each capitalised word with the same word before it in the document. Uses words only, no tags.

    Barcelona beat Atletico . | Barcelona lead .      Barcelona ~ Barcelona
    The team ... | The ...                            nothing: the training data has "the" in lower case
"""

from __future__ import annotations

from .data import Corpus, Document
from .lists import Name, Unit


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


def whole_document(document: Document, common: frozenset[str]) -> list[Unit]:
    """A document as one unit, with the pairs of its names."""
    return [Unit(document.sentences, tuple(find_mentions(document, common)))]
