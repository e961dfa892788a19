"""News in the four-column form of CoNLL-2003, made up: a few hundred sentences, some of them lines of tables.

No word of the real corpus is needed. Names are put together from syllables, so that every split has names that the
training data does not have; what decides a category is the context, and in tables the lines around.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import numpy as np

from experiments.text.data import Corpus, parse_corpus

SYLLABLES = ("ka", "lo", "mi", "ten", "ru", "bar", "sel", "no", "vik", "dor", "an", "est")
CATEGORIES = {"LOC": ("burg", "ton"), "ORG": ("corp", "bank"), "PER": ("son", "ova"), "MISC": ("ish", "cup")}
SENTENCES = (
    "{PER} of {LOC} said on Monday that {ORG} would sell its {MISC} unit .",
    "{ORG} shares fell 3 percent in {LOC} .",
    "{PER} met {PER} in {LOC} for the {MISC} final .",
    "The {MISC} team beat {LOC} 2-1 .",
    "Police in {LOC} , {LOC} , {LOC} and {LOC} said nothing .",
)
TABLES = ("{ORG} 2 {ORG} 1", "{n}. {PER} ( {LOC} ) 12.5", "{LOC} 12 7 5")


def make_name(draw: random.Random, category: str) -> list[str]:
    """One to three words; the last one has an ending that often, not always, gives the category away."""
    words = ["".join(draw.choices(SYLLABLES, k=2)).capitalize() for _ in range(draw.choice((1, 1, 2, 3)))]
    ending = draw.choice(CATEGORIES[category if draw.random() < 0.7 else draw.choice(list(CATEGORIES))])
    return [*words[:-1], words[-1] + ending]


def make_sentence(draw: random.Random, template: str, number: int) -> Iterator[str]:
    """The lines of one sentence, tagged in IOB1."""
    before = "O"
    for word in template.replace("{n}", str(number)).split():
        category = word.strip("{}")
        if category == word:
            yield f"{word} X X O"
            before = "O"
            continue
        for k, part in enumerate(make_name(draw, category)):
            tag = f"B-{category}" if k == 0 and before == f"I-{category}" else f"I-{category}"
            yield f"{part} X X {tag}"
            before = f"I-{category}"
    yield ""


def make_text(seed: int, n_documents: int) -> str:
    """Documents of four sentences, and of a heading and a table of six lines, in turn."""
    draw = random.Random(seed)
    lines = []
    for document in range(n_documents):
        lines += ["-DOCSTART- -X- O O", ""]
        if document % 2:
            table = draw.choice(TABLES)
            for number, template in enumerate(["RESULTS FROM {LOC}", *[table] * 6]):
                lines += make_sentence(draw, template, number)
        else:
            for template in draw.choices(SENTENCES, k=4):
                lines += make_sentence(draw, template, 0)
    return "\n".join(lines) + "\n"


def make_corpora() -> dict[str, Corpus]:
    return {split: parse_corpus(make_text(seed, n), split) for seed, (split, n) in
            enumerate((("train", 50), ("testa", 12), ("testb", 12)))}


def make_vectors(corpora: Mapping[str, Corpus], dim: int = 8) -> dict[str, np.ndarray]:
    """Vectors for half of the words, and for none of the names."""
    words = sorted({w for corpus in corpora.values() for d in corpus for s in d.sentences for w in s.words
                    if w.islower()})
    random_numbers = np.random.default_rng(0)
    return {w: random_numbers.normal(size=dim).astype(np.float32) for w in words[::2]}
