"""Read the CoNLL-2003 files: words and tags of each document, in BIOES.

    corpus = load_corpus("testa", folder)
    corpus[0].sentences[0].words        ('CRICKET', '-', 'LEICESTERSHIRE', 'TAKE', ...)
    corpus[0].sentences[0].tags         ('O', 'O', 'S-ORG', 'O', ...)

The files are in IOB1: I-X continues or starts an entity; B-X starts one right after another of the same type.
"""

from __future__ import annotations

import gzip
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from logicmp import LogicMPError

from ..files import DataFiles

CATEGORIES = ("LOC", "MISC", "ORG", "PER")
# the order of labels, in tensors and in the .mln files
LABELS = ("O", *(f"{place}-{category}" for category in CATEGORIES for place in "BIES"))
SPLITS = ("train", "testa", "testb")
VECTORS = "embeddings/glove.6B.100d.subset.txt.gz"
FILES = DataFiles("CoNLL-2003", (
    "conll2003/eng.{train,testa,testb} come from github synalp/NER, folder corpus/CoNLL-2003, commit c0ea07c; "
    "embeddings/glove.6B.100d.subset.txt.gz holds GloVe 6B, 100 dimensions, for the words of the corpus; put "
    "both folders into FOLDER and use --data FOLDER, or set LOGICMP_DATA"), Path(__file__).with_name("checksums.txt"))


@dataclass(frozen=True)
class Sentence:
    """A sentence, or a line of a table: the files do not distinguish them."""

    words: tuple[str, ...]
    # in BIOES
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Document:
    sentences: tuple[Sentence, ...]


Corpus = tuple[Document, ...]


def to_bioes(tags: Sequence[str]) -> list[str]:
    """Convert IOB1 (as in the files) or IOB2 to BIOES.

    >>> to_bioes(["I-LOC", "O", "I-PER", "I-PER", "B-PER", "I-ORG"])
    ['S-LOC', 'O', 'B-PER', 'E-PER', 'S-PER', 'S-ORG']
    """
    found = []
    for i, tag in enumerate(tags):
        kind = tag[2:]
        if tag == "O":
            found.append("O")
            continue
        if tag[:2] not in ("I-", "B-") or not kind:
            raise LogicMPError(f"unexpected tag {tag!r} in IOB1", "tags are O, I-X and B-X")
        starts = tag[0] == "B" or i == 0 or tags[i - 1][2:] != kind
        ends = i + 1 == len(tags) or tags[i + 1] != f"I-{kind}"
        found.append(("S-" if ends else "B-") + kind if starts else ("E-" if ends else "I-") + kind)
    return found


def to_entities(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """The entities of a valid BIOES sequence: first token, last token, category.

    >>> sorted(to_entities(["B-PER", "E-PER", "O", "S-LOC"]))
    [(0, 1, 'PER'), (3, 3, 'LOC')]
    """
    found, start = set(), 0
    for i, tag in enumerate(tags):
        if tag[:1] in ("B", "S"):
            start = i
        if tag[:1] in ("E", "S"):
            found.add((start, i, tag[2:]))
    return found


def parse_corpus(text: str, name: str = "<text>") -> Corpus:
    """Parse the four-column format: word, part of speech, chunk, tag; an empty line ends a sentence."""
    documents: list[list[Sentence]] = []
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        columns = line.split()
        if columns and columns[0] != "-DOCSTART-":
            if len(columns) != 4:
                raise LogicMPError(f"{name}:{number} has {len(columns)} columns, expected 4: word, part of speech, "
                                   f"chunk, tag\n{number} | {line}")
            words.append(columns[0])
            tags.append(columns[3])
            continue
        if words:
            if not documents:
                documents.append([])
            documents[-1].append(Sentence(tuple(words), tuple(to_bioes(tags))))
            words, tags = [], []
        if columns:
            documents.append([])
    return tuple(Document(tuple(sentences)) for sentences in documents if sentences)


def count(corpus: Corpus) -> tuple[int, int, int, int]:
    """The numbers of documents, sentences, tokens and entities."""
    sentences = [s for document in corpus for s in document.sentences]
    return (len(corpus), len(sentences), sum(len(s.words) for s in sentences),
            sum(len(to_entities(s.tags)) for s in sentences))


# files


def load_corpus(split: str, data: str | Path | None = None) -> Corpus:
    """Read and check one of the three files."""
    if split not in SPLITS:
        raise LogicMPError(f"unknown split {split!r}", f"splits: {', '.join(SPLITS)}")
    file = f"conll2003/eng.{split}"
    return parse_corpus(FILES.read(file, data).decode(), file)


def load_vectors(words: Collection[str], data: str | Path | None = None) -> dict[str, np.ndarray]:
    """The GloVe vectors of the given words, if they have one."""
    lines = gzip.decompress(FILES.read(VECTORS, data)).decode().splitlines()
    return parse_vectors(lines, words)


def parse_vectors(lines: Iterable[str], words: Collection[str]) -> dict[str, np.ndarray]:
    """Parse lines `word v1 v2 ...`, keeping only the given words."""
    found = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word in words:
            found[word] = np.array(rest.split(), dtype=np.float32)
    return found
