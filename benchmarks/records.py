"""Groups of records: `resolve` compared with connected components, agglomerative clustering and splink.

    python -m benchmarks records --data DIR              # Cora's bibliography, three splits
    python -m benchmarks records --data DIR --without Title --skip "resolve, rule first"      # worse scores
    python -m benchmarks records speed --n 1000000       # seconds for a million scored pairs

Cora: the records of a split are bibliography entries with an author, a title and a venue; entries of one paper are one
cluster. Candidates are the pairs that share a word of the title or of the author. A logistic regression on two string
similarities of each field scores them; it is trained on the other splits. All methods but splink get the same scores.
splink has a model of its own, fitted to the records of the split without labels, and groups by connected components.
The settings of each method (its grid is in GRIDS) are those with the highest mean of both F1 on the other splits, where
each split is scored by a model that has seen neither it nor the test split. Install splink to run it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from logicmp import LogicMPError, resolve
from logicmp.constrain.groups import PairGraph, best_groups, find_components

from .measure import machine

FIELDS = ("Author", "Title", "Venue")
SPLITS = ("S1", "S2", "S3", "S4", "S5")
TESTED = SPLITS[:3]
TRANSITIVE = "{w} Same(a,b) ^ Same(b,c) => Same(a,c)"


@dataclass(frozen=True)
class Split:
    """The records of a split, their true clusters, and candidate pairs with the similarities of their fields."""

    fields: tuple[tuple[str, ...], ...]
    truth: np.ndarray
    one: np.ndarray
    other: np.ndarray
    similarities: np.ndarray

    @property
    def n(self) -> int:
        return len(self.truth)

    @property
    def is_same(self) -> np.ndarray:
        found: np.ndarray = self.truth[self.one] == self.truth[self.other]
        return found


def read_split(folder: Path) -> Split:
    """Read the facts of a split of Cora, as ExpressGNN writes them."""
    try:
        lines = (folder / "facts").read_text(encoding="utf-8").splitlines()
    except OSError as cause:
        raise LogicMPError(f"cannot read {str(folder / 'facts')!r}: {cause.strerror}",
                           "pass the folder of the data sets with --data, or set LOGICMP_DATA") from None
    facts = [found.groups() for line in lines if (found := re.fullmatch(r"(\w+)\((\w+),\s*(.+)\)", line.strip()))]
    records = {name: k for k, name in enumerate(sorted({one for kind, one, _ in facts if kind in FIELDS}))}
    text = {(records[one], kind): other.partition("_")[2].replace("_", " ").strip()
            for kind, one, other in facts if kind in FIELDS}
    same = np.array([(records[one], records[other]) for kind, one, other in facts if kind == "SameBib"])
    fields = tuple(tuple(text.get((k, field), "") for field in FIELDS) for k in range(len(records)))
    words = [{(k, word) for k in (0, 1) for word in field[k].split() if len(word) > 1} for field in fields]
    pairs = np.array([(a, b) for a, b in itertools.combinations(range(len(fields)), 2) if words[a] & words[b]])
    similarities = np.array([[f(fields[a][k], fields[b][k]) for k in range(3) for f in (overlap, likeness)]
                             for a, b in pairs.tolist()])
    return Split(fields, find_components(len(records), *same.T), *pairs.T, similarities)


@cache
def overlap(one: str, other: str) -> float:
    """The share of common words."""
    a, b = set(one.split()), set(other.split())
    return len(a & b) / max(len(a | b), 1)


@cache
def likeness(one: str, other: str) -> float:
    """How much of the characters is common, in order."""
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def without(split: Split, field: str) -> Split:
    """The split without the similarities of one field; the candidates stay."""
    kept = [k for k in range(2 * len(FIELDS)) if k // 2 != FIELDS.index(field)]
    texts = tuple(tuple("" if FIELDS[k] == field else text for k, text in enumerate(fields)) for fields in split.fields)
    return replace(split, fields=texts, similarities=split.similarities[:, kept])


def score(train: Sequence[Split], split: Split) -> np.ndarray:
    """The probability of each candidate pair, by a logistic regression on other splits."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=1000)
    model.fit(np.concatenate([part.similarities for part in train]), np.concatenate([part.is_same for part in train]))
    found: np.ndarray = model.predict_proba(split.similarities)[:, 1]
    return found


def components(split: Split, scores: np.ndarray, threshold: float) -> np.ndarray:
    kept = scores > threshold
    return find_components(split.n, split.one[kept], split.other[kept])


def agglomerative(split: Split, scores: np.ndarray, linkage: str, threshold: float) -> np.ndarray:
    """scikit-learn's clustering; a pair that is not a candidate has distance 1."""
    from sklearn.cluster import AgglomerativeClustering

    distance = np.ones((split.n, split.n))
    np.fill_diagonal(distance, 0)
    distance[split.one, split.other] = distance[split.other, split.one] = 1 - scores
    model = AgglomerativeClustering(n_clusters=None, metric="precomputed", linkage=linkage,
                                    distance_threshold=1 - threshold)
    found: np.ndarray = model.fit_predict(distance)
    return found


def resolved(split: Split, scores: np.ndarray, unscored: float, threshold: float, weight: float = 0,
             objective: str = "likelihood") -> np.ndarray:
    rules = TRANSITIVE.format(w=weight) if weight else None
    found = resolve({"a": split.one, "b": split.other, "score": scores}, rules=rules, unscored=unscored,
                    threshold=threshold, objective=objective)
    # a record without a candidate is alone
    labels = np.arange(split.n) + split.n
    labels[found["id"]] = found["cluster"]
    return labels


def splink_scores(split: Split) -> np.ndarray:
    """Match probabilities of splink for the same candidates, by a model fitted to the records without labels."""
    import pandas
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on
    from splink import comparison_library as compare

    logging.getLogger("splink").setLevel(logging.ERROR)
    records = pandas.DataFrame(split.fields, columns=[field.lower() for field in FIELDS])
    records["unique_id"] = range(split.n)
    names = [name for name in records.columns[:3] if records[name].any()]
    # the candidates of the other methods are picked below; here all pairs are scored
    settings = SettingsCreator(
        link_type="dedupe_only",
        comparisons=[compare.JaroWinklerAtThresholds(name, [0.95, 0.85, 0.7]) for name in names],
        blocking_rules_to_generate_predictions=["1=1"])
    database = DuckDBAPI()
    try:
        linker = Linker(database.register(records), settings)
    except (AttributeError, TypeError):
        # before version 5
        linker = Linker(records, settings, database)
    linker.training.estimate_probability_two_random_records_match([block_on(*names[:2])], recall=0.5)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e5, seed=0)
    for field in names[:2]:
        linker.training.estimate_parameters_using_expectation_maximisation(block_on(field))
    table = linker.inference.predict().as_pandas_dataframe()
    found = {(min(a, b), max(a, b)): p for a, b, p in
             table[["unique_id_l", "unique_id_r", "match_probability"]].itertuples(index=False)}
    return np.array([found.get(pair, 0.0) for pair in zip(split.one.tolist(), split.other.tolist(), strict=True)])


THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
Method = Callable[..., np.ndarray]
# a method and the settings to choose from
GRIDS: Mapping[str, tuple[Method, list[dict[str, Any]]]] = {
    "connected components": (components, [{"threshold": t} for t in THRESHOLDS]),
    "agglomerative": (agglomerative, [{"linkage": link, "threshold": t} for link in ("single", "average", "complete")
                                      for t in THRESHOLDS]),
    "resolve": (resolved, [{"unscored": u, "threshold": t} for u in (0.5, 0.3, 0.1) for t in THRESHOLDS]),
    "resolve, objective pairs": (resolved, [{"unscored": u, "threshold": t, "objective": "pairs"}
                                            for u in (0.5, 0.3) for t in (0.2, 0.3, 0.5, 0.7, 0.9)]),
    "resolve, rule first": (resolved, [{"unscored": 0.5, "threshold": 0.5, "weight": w} for w in (0.02, 0.1)]),
}
SPLINK = (components, [{"threshold": t} for t in (*THRESHOLDS, 0.999, 0.9999)])


def pairwise(labels: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    """Precision, recall and F1 of the pairs in one cluster.

    >>> pairwise(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]))
    (0.5, 0.3333333333333333, 0.4)
    """
    upper = np.triu_indices(len(truth), 1)
    got, want = (x[upper[0]] == x[upper[1]] for x in (labels, truth))
    right = int((got & want).sum())
    return _f1(right / max(int(got.sum()), 1), right / max(int(want.sum()), 1))


def b_cubed(labels: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    """Precision, recall and F1, averaged over records: how much of a record's cluster is right.

    >>> b_cubed(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]))[:2]
    (0.75, 0.6666666666666666)
    """
    got, want = (x[:, None] == x for x in (labels, truth))
    right = (got & want).sum(1)
    return _f1(float((right / got.sum(1)).mean()), float((right / want.sum(1)).mean()))


def _f1(precision: float, recall: float) -> tuple[float, float, float]:
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-12)


def quality(labels: np.ndarray, split: Split) -> float:
    return (pairwise(labels, split.truth)[2] + b_cubed(labels, split.truth)[2]) / 2


def run_quality(folder: Path, field: str | None, skip: str) -> str:
    splits = {name: read_split(folder / "relational/cora" / name) for name in SPLITS}
    if field is not None:
        splits = {name: without(split, field) for name, split in splits.items()}
    for name in TESTED:
        split = splits[name]
        sizes = np.bincount(split.truth)
        recall = split.is_same.sum() / (sizes * (sizes - 1) // 2).sum()
        print(f"{name}: {split.n} records, {int((sizes > 0).sum())} clusters, {len(split.one):,} candidates with "
              f"{recall:.1%} of the true pairs")
    has_splink = importlib.util.find_spec("splink") is not None
    if not has_splink:
        print("splink is not installed: its row is left out")
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing), contextlib.redirect_stderr(nothing):
        fitted = {name: splink_scores(split) for name, split in splits.items()} if has_splink else {}
    rows: dict[str, list[tuple[float, ...]]] = {}
    chosen: dict[str, list[str]] = {}
    for test in TESTED:
        others = [name for name in SPLITS if name != test]
        known = {name: score([splits[x] for x in others if x != name], splits[name]) for name in others}
        known[test] = score([splits[x] for x in others], splits[test])
        methods = {**{name: (*grid, known) for name, grid in GRIDS.items() if name != skip},
                   **({"splink": (*SPLINK, fitted)} if has_splink else {})}
        for name, (method, grid, scores) in methods.items():
            best = max(grid, key=lambda settings: np.mean([
                quality(method(splits[x], scores[x], **settings), splits[x]) for x in others]))
            start = time.perf_counter()
            labels = method(splits[test], scores[test], **best)
            seconds = time.perf_counter() - start
            rows.setdefault(name, []).append((pairwise(labels, splits[test].truth)[2],
                                              b_cubed(labels, splits[test].truth)[2], seconds))
            chosen.setdefault(name, []).append(", ".join(f"{key} {value}" for key, value in best.items()))
    lines = ["| Method | " + " | ".join(f"{name}, pairwise F1" for name in TESTED) + " | "
             + " | ".join(f"{name}, B-cubed F1" for name in TESTED) + " | mean of both |",
             "|---|" + "--:|" * (2 * len(TESTED) + 1)]
    for name, found in rows.items():
        table = np.array(found)
        cells = [f"{x:.3f}" for k in (0, 1) for x in table[:, k]] + [f"{table[:, :2].mean():.3f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", *(f"{name}: {'; '.join(settings)}" for name, settings in chosen.items())]
    return "\n".join(lines)


def run_speed(n_pairs: int) -> str:
    """Seconds of one processor for random pairs: blocks of ten records in three clusters each, and any two records."""
    lines = ["| Pairs | Structure | Connected components, s | Best groups, s | resolve, s | Clusters |",
             "|--:|---|--:|--:|--:|--:|"]
    for structure, (n, one, other, odds) in {"blocks": blocks(n_pairs), "random": anyhow(n_pairs)}.items():
        times = [time.process_time()]
        find_components(n, one[odds > 0], other[odds > 0])
        times.append(time.process_time())
        labels = best_groups(PairGraph(n, one, other, odds))
        times.append(time.process_time())
        resolve({"a": one, "b": other, "logit": odds})
        times.append(time.process_time())
        lines.append(f"| {len(one):,} | {structure} | {' | '.join(f'{x:.1f}' for x in np.diff(times))} | "
                     f"{labels.max() + 1:,} |")
    return "\n".join(lines)


def blocks(n_pairs: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    n = 10 * -(-n_pairs // 45)
    low, high = np.triu_indices(10, 1)
    one, other = ((10 * np.arange(n // 10)[:, None] + side).reshape(-1)[:n_pairs] for side in (low, high))
    truth = rng.integers(0, 3, n)
    return n, one, other, np.where(truth[one] == truth[other], 2.0, -2.0) + 1.5 * rng.normal(size=len(one))


def anyhow(n_pairs: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    n = max(n_pairs // 4, 2)
    keys = np.unique(rng.integers(0, n, n_pairs) * n + rng.integers(0, n, n_pairs))
    one, other = np.divmod(keys, n)
    kept = one < other
    return n, one[kept], other[kept], rng.normal(-0.5, 2, int(kept.sum()))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks records", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["quality", "speed"], default="quality")
    parser.add_argument("--data", type=Path, default=os.environ.get("LOGICMP_DATA"), metavar="DIR")
    parser.add_argument("--without", choices=FIELDS, help="a field that is not compared, for worse scores")
    parser.add_argument("--skip", choices=GRIDS, default="", metavar="METHOD", help="a method to leave out")
    parser.add_argument("--n", type=int, default=1_000_000, metavar="N", help="pairs, for speed")
    chosen = parser.parse_args(arguments)
    if chosen.what == "quality" and chosen.data is None:
        raise LogicMPError("the data sets are missing", "pass their folder with --data, or set LOGICMP_DATA")
    print(run_speed(chosen.n) if chosen.what == "speed" else
          run_quality(Path(chosen.data), chosen.without, chosen.skip))
    print(f"\nmachine: {machine()}")
    return 0
