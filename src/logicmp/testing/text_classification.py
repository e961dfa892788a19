"""A made model of the size that Markov logic is used for: documents with words and links, one category each.

Room: **text_classification** -> benchmarks, tests of methods.

    made = text_classification()      2,500 documents, 10 categories, 80,000 facts about words, 15 rules
    made.rules, made.facts            texts, as in an .mln and a .db file
    made.category                     by document, the category that its words and links were drawn from
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ONE_CATEGORY = "Category(doc, category!)"
# the same worlds, written as rules
AS_RULES = """Category(doc, category)
Category(d,c) ^ Category(d,b) => c = b.
EXIST c Category(d,c)."""

RULES = """
0.8 HasWord(d,w) ^ Typical(w,c) => Category(d,c)
0.1 HasWord(d,w) ^ !Typical(w,c) => !Category(d,c)
0.6 Links(d,e) ^ Category(d,c) => Category(e,c)
0.4 Links(d,e) ^ Category(e,c) => Category(d,c)
0.1 Links(d,e) ^ Links(e,f) ^ Category(d,c) => Category(f,c)
0.1 Links(d,e) ^ Links(d,f) ^ Category(e,c) => Category(f,c)
0.1 Links(d,f) ^ Links(e,f) ^ Category(d,c) => Category(e,c)
0.3 Wrote(a,d) ^ Wrote(a,e) ^ Category(d,c) => Category(e,c)
0.2 Links(d,e) ^ Category(d,c) ^ Category(e,b) => Near(c,b)
0.1 Links(d,e) ^ HasWord(e,w) ^ Typical(w,c) => Category(d,c)
0.02 HasWord(d,w) ^ HasWord(e,w) ^ Rare(w) ^ Category(d,c) => Category(e,c)
0.3 Wrote(a,d) ^ Expert(a,c) => Category(d,c)
-0.2 Category(d,c) ^ Broad(c)
0.1 HasWord(d,w) ^ Rare(w) ^ Category(d,c) => Broad(c) v Typical(w,c)
0.1 Links(d,e) => Category(d,c) v !Category(e,c) v Broad(c)
"""


@dataclass(frozen=True)
class TextClassification:
    """Rules and facts of a made model, and the categories that the facts were drawn from."""

    rules: str
    facts: str
    category: np.ndarray


def text_classification(n_documents: int = 2500, n_categories: int = 10, words_each: int = 32, links_each: int = 2,
                        observed: float = 0.1, as_rules: bool = False, seed: int = 0) -> TextClassification:
    """Documents whose words, links and authors mostly agree with their category.

    >>> made = text_classification(n_documents=20, n_categories=3)
    >>> made.facts.count("HasWord"), len(made.category)
    (640, 20)

    Args:
        n_documents: of which some have an observed category.
        n_categories: of which each has its own typical words.
        words_each: different words of each document.
        links_each: links from each document to others.
        observed: share of the documents with an observed category.
        as_rules: write "exactly one category" as hard rules instead of `category!`.
        seed: of every choice.
    """
    rng = np.random.default_rng(seed)
    n_words, n_authors = max(4 * words_each, n_documents), max(1, n_documents // 3)
    category = rng.integers(0, n_categories, n_documents)
    by_category = [np.flatnonzero(category == c) for c in range(n_categories)]
    # words have a rank, the frequent ones first; a word is typical of at most one category
    frequency = 1 / (10 + np.arange(n_words))
    typical = np.where(rng.random(n_words) < 0.3, rng.integers(0, n_categories, n_words), -1)
    lines = []
    for d, c in enumerate(category.tolist()):
        p = frequency * np.where(typical == c, 2.0, 1.0)
        words = rng.choice(n_words, words_each, replace=False, p=p / p.sum())
        lines += [f"HasWord(D{d}, W{w})" for w in sorted(words.tolist())]
        near = rng.random(links_each) < 0.7
        to = np.where(near, rng.choice(by_category[c], links_each), rng.integers(0, n_documents, links_each))
        lines += [f"Links(D{d}, D{e})" for e in sorted(set(to.tolist()) - {d})]
        author = c + n_categories * rng.integers(0, n_authors // n_categories + 1)
        lines.append(f"Wrote(A{author}, D{d})")
    lines += [f"Typical(W{w}, C{c})" for w, c in enumerate(typical.tolist()) if c >= 0]
    lines += [f"Rare(W{w})" for w in range(n_words * 4 // 5, n_words)]
    lines += [f"Near(C{c}, C{b})" for c in range(n_categories) for b in range(n_categories) if abs(c - b) <= 1]
    lines += [f"Expert(A{a}, C{a % n_categories})" for a in range(0, n_authors, 5)]
    lines += [f"Broad(C{c})" for c in range(max(1, n_categories // 4))]
    known = rng.permutation(n_documents)[: round(observed * n_documents)]
    lines += [f"Category(D{d}, C{category[d]})" for d in sorted(known.tolist())]
    declared = [f"category = {{{', '.join(f'C{c}' for c in range(n_categories))}}}", "*HasWord(doc, word)",
                "*Typical(word, category)", "*Rare(word)", "*Links(doc, doc)", "*Wrote(author, doc)",
                "*Near(category, category)", "*Expert(author, category)", "*Broad(category)",
                AS_RULES if as_rules else ONE_CATEGORY]
    return TextClassification("\n".join(declared) + "\n" + RULES, "\n".join(lines) + "\n", category)
