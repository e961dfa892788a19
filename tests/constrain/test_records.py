"""`resolve`: a frame of pairs in, a frame of the same kind out; its rules, its matching, its errors."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

from logicmp import LogicMPError, resolve

PAIRS = pandas.DataFrame({"id_a": [1, 2, 1, 3, 5, 4, 9], "id_b": [2, 3, 3, 4, 6, 6, 9],
                          "score": [0.9, 0.9, 0.3, 0.1, 0.8, 0.6, 0.5]})
KINDS: list[Any] = [pandas.DataFrame, polars.DataFrame, pyarrow.table, dict]
TRANSITIVE = "2 Same(a,b) ^ Same(b,c) => Same(a,c)"


def as_dict(frame: Any) -> dict[str, list[Any]]:
    frame = frame.to_pydict() if isinstance(frame, pyarrow.Table) else frame
    return {name: list(frame[name]) for name in ("id", "cluster", "confidence")}


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_a_frame_of_the_same_kind(kind: Any) -> None:
    pairs = kind(PAIRS.to_dict("list"))
    found = resolve(pairs)
    assert type(found) is type(pairs)
    assert as_dict(found)["id"] == [1, 2, 3, 4, 5, 6, 9]
    assert as_dict(found)["cluster"] == [0, 0, 0, 1, 1, 1, 2]
    assert as_dict(found)["confidence"][-1] == 1
    assert as_dict(resolve(kind({"id_a": [], "id_b": [], "score": []}))) == {"id": [], "cluster": [], "confidence": []}


def test_logits_and_probabilities_are_the_same() -> None:
    score = PAIRS["score"]
    as_logit = PAIRS.drop(columns="score").assign(logit=np.log(score / (1 - score)))
    for other in (as_logit, PAIRS.rename(columns={"score": "probability"})):
        pandas.testing.assert_frame_equal(resolve(other), resolve(PAIRS))


def test_the_order_of_rows_and_columns_of_ids_does_not_change_the_clusters() -> None:
    other = PAIRS.iloc[::-1].rename(columns={"id_a": "id_b", "id_b": "id_a"})
    one, other = (resolve(frame).groupby("cluster")["id"].apply(frozenset) for frame in (PAIRS, other))
    assert set(one) == set(other)


def test_a_certain_pair_stays_together_and_an_excluded_one_apart() -> None:
    pairs = pandas.DataFrame({"a": ["A", "B", "A"], "b": ["B", "C", "C"], "logit": [3.0, 3.0, -np.inf]})
    found = resolve(pairs).set_index("id")["cluster"]
    assert found["A"] != found["C"]
    pairs["logit"] = [-9.0, -9.0, np.inf]
    found = resolve(pairs).set_index("id")["cluster"]
    assert found["A"] == found["C"] != found["B"]


def test_unscored_pairs_can_count_against_a_cluster() -> None:
    chain = pandas.DataFrame({"a": [1, 2], "b": [2, 3], "score": [0.8, 0.7]})
    assert resolve(chain)["cluster"].nunique() == 1
    assert resolve(chain, unscored=0.1)["cluster"].nunique() == 2


def test_a_threshold_moves_the_undecided_score() -> None:
    assert resolve(PAIRS, threshold=0.95)["cluster"].nunique() == len(resolve(PAIRS))
    assert resolve(PAIRS, threshold=0.05)["cluster"].nunique() == 2


def test_one_extreme_score_counts_less_for_the_objective_of_pairs() -> None:
    # record 4 belongs to 1 and 2, and one score says that it does not belong to 3
    pairs = pandas.DataFrame({"a": [1, 1, 2, 1, 2, 3], "b": [2, 3, 3, 4, 4, 4], "score": [0.9] * 5 + [0.001]})
    assert resolve(pairs)["cluster"].nunique() == 2
    assert resolve(pairs, objective="pairs")["cluster"].nunique() == 1
    known = pairs.drop(columns="score").assign(logit=[2.0] * 5 + [-np.inf])
    assert resolve(known, objective="pairs")["cluster"].nunique() == 2


def test_rules_correct_the_scores_first() -> None:
    pairs = pandas.DataFrame({"a": [1, 1], "b": [2, 3], "score": [0.9, 0.9]})
    apart = "*Other(record, record)\n10 Other(a,b) => !Same(a,b)"
    found = resolve(pairs, "Same", apart, evidence={"Other": {"a": [1], "b": [3]}}).set_index("id")["cluster"]
    assert found[1] == found[2] != found[3]
    assert resolve(PAIRS, rules=TRANSITIVE)["cluster"].tolist() == resolve(PAIRS)["cluster"].tolist()
    declared = "symmetric Same(thing, thing)\n" + TRANSITIVE
    pandas.testing.assert_frame_equal(resolve(PAIRS, rules=declared), resolve(PAIRS, rules=TRANSITIVE))


def test_one_to_one_is_the_best_matching() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        odds = rng.normal(0.5, 2, (4, 3))
        a, b = np.indices(odds.shape).reshape(2, -1)
        pairs = pandas.DataFrame({"a": [f"a{k}" for k in a], "b": [f"b{k}" for k in b], "logit": odds.reshape(-1)})
        found = resolve(pairs, one_to_one=True).set_index("id")["cluster"]
        got = sum(odds[i, j] for i, j in zip(a, b, strict=True) if found[f"a{i}"] == found[f"b{j}"])
        # every left record with a right one or with none
        want = max(sum(odds[i, j] for i, j in enumerate(chosen) if j < 3)
                   for chosen in itertools.product(range(4), repeat=4)
                   if len([j for j in chosen if j < 3]) == len({j for j in chosen if j < 3}))
        assert got == pytest.approx(want)
        assert found.value_counts().max() <= 2


def test_the_confidence_of_a_match_is_among_its_candidates() -> None:
    pairs = pandas.DataFrame({"a": ["a1", "a1", "a2"], "b": ["b1", "b2", "b1"], "score": [0.9, 0.5, 0.5]})
    found = resolve(pairs, one_to_one=True).set_index("id")
    assert found.loc["a1", "cluster"] == found.loc["b1", "cluster"]
    # odds 9 for b1, 1 for b2, 1 for nobody
    assert found.loc["a1", "confidence"] == pytest.approx(9 / 11)


def test_a_cluster_has_at_most_max_size_records() -> None:
    found = resolve(PAIRS, max_size=2)
    assert found["cluster"].value_counts().max() == 2


def test_repeated_pairs_are_one_pair() -> None:
    again = pandas.concat([PAIRS, PAIRS.rename(columns={"id_a": "id_b", "id_b": "id_a"})])
    pandas.testing.assert_frame_equal(resolve(again), resolve(PAIRS))
    changed = pandas.concat([PAIRS, PAIRS.assign(score=1 - PAIRS["score"])])
    assert resolve(changed, repeated="mean")["cluster"].nunique() == len(resolve(PAIRS))


def test_texts_stay_texts_and_numbers_numbers() -> None:
    assert resolve(PAIRS)["id"].dtype == np.int64
    texts = resolve(PAIRS.astype({"id_a": str, "id_b": str}))
    assert texts["id"].tolist() == [str(x) for x in resolve(PAIRS)["id"]]
    mixed = {"a": [1, "x"], "b": ["y", "y"], "score": [0.9, 0.9]}
    assert resolve(mixed)["id"].tolist() == [1, "y", "x"]


@pytest.mark.parametrize("change, options, message", [
    ({"rename": {"score": "sccore"}}, {}, "got 3 columns ('id_a', 'id_b', 'sccore')\nhint: rename the column 'sccore' "
                                          "to 'score'"),
    ({"assign": {"x": 1}}, {}, "got 4 columns ('id_a', 'id_b', 'score', 'x')\nhint: name the scores 'score', "
                               "'probability' or 'logit', and select the columns: pairs[['id_a', 'id_b', 'score']]"),
    ({"assign": {"score": [np.nan] + [0.5] * 6}}, {}, "row 1, column 'score': the score is missing"),
    ({"assign": {"score": 7}}, {}, "row 1, column 'score': expected a number between 0 and 1, got 7"),
    ({"assign": {"id_b": [1] * 7, "id_a": [2] * 7}}, {}, "rows 1 and 3: one pair has two different scores"),
    ({"astype": {"id_b": str}}, {}, "row 1, column 'id_b': the ids 2 and '2' are a number and a text, which look "
                                    "alike"),
    ({"astype": {"id_b": float}}, {}, "row 1, column 'id_b': expected a name or a whole number, got 2.0"),
    ({"assign": {"id_a": None}}, {}, "row 1, column 'id_a': the id is missing"),
    ({}, {"one_to_one": True}, "the id 2 is in both columns, 'id_a' and 'id_b'"),
    ({}, {"one_to_one": True, "max_size": 2}, "one_to_one and max_size cannot be combined"),
    ({}, {"max_size": 0}, "max_size must be at least 1, got 0"),
    ({}, {"unscored": 0.7}, "unscored must be above 0 and at most 0.5, got 0.7"),
    ({}, {"threshold": 1.0}, "threshold must be above 0 and below 1, got 1"),
    ({}, {"objective": "f1"}, "objective must be 'likelihood' or 'pairs', got 'f1'"),
    ({}, {"repeated": "first"}, "repeated must be 'error' or 'mean', got 'first'"),
    ({}, {"damping": 0.5}, "'damping' is given without rules"),
    ({}, {"rules": "1 Sam(a, b)"}, "predicate 'Sam' is used but not declared"),
    ({}, {"rules": "Same(t)\n1 Same(a)"}, "the rules do not declare Same as a predicate of pairs"),
])
def test_errors_name_rows_and_columns(change: dict[str, Any], options: dict[str, Any], message: str) -> None:
    pairs = PAIRS
    for name, argument in change.items():
        pairs = pairs.assign(**argument) if name == "assign" else (
            pairs.rename(columns=argument) if name == "rename" else pairs.astype(argument))
    with pytest.raises(LogicMPError, match=re.escape(message)):
        resolve(pairs, **options)


def test_many_pairs_take_seconds() -> None:
    rng = np.random.default_rng(0)
    n = 20_000
    pairs = {"a": rng.integers(0, n, 100_000), "b": rng.integers(0, n, 100_000), "logit": rng.normal(-1, 2, 100_000)}
    found = resolve(pairs, repeated="mean")
    assert len(found["id"]) == len(np.unique(np.append(pairs["a"], pairs["b"])))
