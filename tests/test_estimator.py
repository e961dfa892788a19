"""`RuleCorrector` is an estimator of scikit-learn, and its rules do what they say."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from logicmp import LogicMP, LogicMPError, RuleCorrector

SAME = "\n".join(f"0.5 Next(i, j) => (Label(i) in {{{name}}} <=> Label(j) in {{{name}}})" for name in "AB")

# these checks fit random features, and X must have probabilities
EXPECTED_FAILED_CHECKS = dict.fromkeys([
    "check_estimators_overwrite_params", "check_dont_overwrite_parameters", "check_estimators_fit_returns_self",
    "check_readonly_memmap_input", "check_n_features_in_after_fitting", "check_positive_only_tag_during_fit",
    "check_estimators_dtypes", "check_dtype_object", "check_pipeline_consistency", "check_estimators_nan_inf",
    "check_estimators_pickle", "check_f_contiguous_array_estimator", "check_classifier_data_not_an_array",
    "check_classifiers_classes", "check_classifiers_train", "check_non_transformer_estimators_n_iter",
    "check_methods_sample_order_invariance", "check_methods_subset_invariance", "check_fit2d_1feature",
    "check_dict_unchanged", "check_fit_idempotent", "check_fit_check_is_fitted", "check_n_features_in",
    "check_fit2d_predict1d"], "X must have probabilities")


def bias(labels: list[str]) -> str:
    return "\n".join(f'0.1 Label(i) in {{"{name}"}}' for name in labels)


@pytest.fixture(scope="module")
def chains() -> tuple[pandas.DataFrame, np.ndarray]:
    """Labels that change every five samples, and probabilities with noise; ten samples are a sequence."""
    rng = np.random.default_rng(0)
    y = np.repeat(rng.choice(["A", "B"], 40), 5)
    p = np.clip(0.3 + 0.4 * (y == "A") + 0.25 * rng.normal(size=200), 0.01, 0.99)
    return pandas.DataFrame({"A": p, "B": 1 - p, "seq": np.arange(200) // 10}), y


def accuracy(P: np.ndarray, y: np.ndarray) -> float:
    return float((np.array(["A", "B"])[P.argmax(1)] == y).mean())


def test_rules_along_sequences_help(chains: tuple[pandas.DataFrame, np.ndarray]) -> None:
    X, y = chains
    corrector = RuleCorrector(SAME, sequence_column="seq").fit(X[:100], y[:100])
    P = corrector.predict_proba(X[100:])
    np.testing.assert_allclose(P.sum(1), 1)
    assert accuracy(P, y[100:]) > accuracy(X[["A", "B"]].to_numpy()[100:], y[100:]) + 0.05
    assert corrector.score(X[100:], y[100:]) == accuracy(P, y[100:])
    assert (corrector.predict(X[100:]) == np.array(["A", "B"])[P.argmax(1)]).all()


def test_the_answer_is_that_of_the_layer(chains: tuple[pandas.DataFrame, np.ndarray]) -> None:
    X, y = chains
    corrector = RuleCorrector(SAME, sequence_column="seq").fit(X, y)
    layer = LogicMP(corrector.rules_, dtype=torch.float64, schedule="paper")
    first = torch.tensor([k for k in range(199) if k % 10 != 9])
    logits = torch.log(torch.tensor(X[["A", "B"]].to_numpy()))
    with torch.no_grad():
        want = layer({"Label": logits}, evidence={"Next": torch.stack([first, first + 1])})["Label"].softmax(-1)
    np.testing.assert_allclose(corrector.predict_proba(X), want.numpy(), atol=1e-12)


def test_the_weights_are_at_the_best_likelihood(chains: tuple[pandas.DataFrame, np.ndarray]) -> None:
    X, y = chains
    corrector = RuleCorrector(bias, prior_std=5.0).fit(X[["A", "B"]], y)
    weights = np.array([float(w) for w in re.findall(r"^(-?[\d.e-]+) ", corrector.rules_, re.MULTILINE)])
    logits, target = np.log(X[["A", "B"]].to_numpy()), (y == "B").astype(int)

    def loss(w: np.ndarray) -> float:
        shifted = logits + w
        log_p = shifted - np.logaddexp(shifted[:, :1], shifted[:, 1:])
        return float(-log_p[np.arange(len(y)), target].mean() + (w**2).sum() / (2 * 25 * len(y)))

    assert all(loss(weights + step) >= loss(weights) for step in 0.01 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]))


def test_a_graph_links_ids_and_ignores_absent_ones(chains: tuple[pandas.DataFrame, np.ndarray]) -> None:
    X, y = chains
    P = X[["A", "B"]].set_axis([f"day{k}" for k in range(200)])
    kept = [k for k in range(199) if y[k] == y[k + 1]]
    links = pandas.DataFrame({"one": [f"day{k}" for k in kept], "other": [f"day{k + 1}" for k in kept]})
    rules = SAME.replace("Next", "Near")
    corrector = RuleCorrector(rules, evidence={"Near": links}).fit(P[:100], y[:100])
    found = corrector.predict_proba(P[100:])
    assert accuracy(found, y[100:]) > accuracy(P.to_numpy()[100:], y[100:]) + 0.1
    as_column = P.reset_index(names="id")
    named = RuleCorrector(rules, evidence={"Near": polars.DataFrame(links.to_dict("list"))}, id_column="id")
    np.testing.assert_allclose(named.fit(as_column[:100], y[:100]).predict_proba(as_column[100:]), found)


def test_without_links_nothing_but_the_links_is_missing(chains: tuple[pandas.DataFrame, np.ndarray]) -> None:
    X, y = chains
    corrector = RuleCorrector(SAME, sequence_column="seq").fit(X, y)
    alone = X[::10].reset_index(drop=True)
    np.testing.assert_allclose(corrector.predict_proba(alone), alone[["A", "B"]], atol=1e-9)


def test_columns_with_the_names_of_classes_may_be_in_any_order(chains: tuple[pandas.DataFrame, np.ndarray]) -> None:
    X, y = chains
    one, other = (RuleCorrector(bias).fit(X[names], y).predict_proba(X[names]) for names in (["A", "B"], ["B", "A"]))
    np.testing.assert_allclose(one, other)
    binary = RuleCorrector(bias).fit(X[["B"]].to_numpy(), y)
    np.testing.assert_allclose(binary.predict_proba(X[["B"]].to_numpy()), one)


def test_in_a_pipeline_and_in_cross_validation(chains: tuple[pandas.DataFrame, np.ndarray]) -> None:
    X, y = chains
    features = X[["A", "seq"]].to_numpy()
    model = make_pipeline(FunctionTransformer(), RuleCorrector(
        SAME, LogisticRegression(), sequence_column=1, labels=["A", "B"], cv=3))
    found = cross_val_predict(model, features, y, cv=GroupKFold(4), groups=features[:, 1], method="predict_proba")
    alone = cross_val_predict(LogisticRegression(), features[:, :1], y, cv=GroupKFold(4), groups=features[:, 1],
                              method="predict_proba")
    assert accuracy(found, y) > accuracy(alone, y) + 0.05


def test_it_can_be_cloned_and_saved(chains: tuple[pandas.DataFrame, np.ndarray]) -> None:
    X, y = chains
    corrector = RuleCorrector(SAME, sequence_column="seq", evidence=None).fit(X, y)
    again = clone(corrector).fit(X, y)
    saved = pickle.loads(pickle.dumps(corrector))
    for other in (again, saved):
        np.testing.assert_array_equal(other.predict_proba(X), corrector.predict_proba(X))


@pytest.mark.parametrize("change, X, message", [
    ({}, [[0.5, 0.6, 0.1]] * 4, "X has 3 columns of probabilities, expected 2, one for each class in y: A, B"),
    ({}, [[1.5, -0.5]] * 4, "X must have probabilities, got 1.5 in row 0, column 0"),
    ({"sequence_column": 7}, [[0.5, 0.5]] * 4, "X has no column 7\nhint: its columns are 0, 1"),
    ({"evidence": {"Near": {"a": [0], "b": [1]}}}, [[0.5, 0.5]] * 4, "the samples have no ids"),
    ({"evidence": {"Near": {"a": [0], "b": [1]}}, "id_column": 2}, [[0.5, 0.5, 1]] * 4, "two samples have the same id"),
    ({"labels": ["A"]}, [[0.5, 0.5]] * 4, "labels has 1 names, but y has 2 classes: A, B"),
    ({"rules": "1 Label(x) in {C}"}, [[0.5, 0.5]] * 4, "'C' is not a label of Label"),
    ({"rules": "*Near(place, place)\n1 Label(x) in {A}", "evidence": {"Near": {"a": [0], "b": [1]}}, "id_column": 2},
     [[0.5, 0.5, k] for k in range(4)], "*Near(place, place) must be about samples only, Near(item, item)"),
])
def test_errors_name_columns_and_classes(change: dict[str, Any], X: list[list[float]], message: str) -> None:
    with pytest.raises((ValueError, LogicMPError), match=re.escape(message)):
        RuleCorrector(**{"rules": "1 Label(x) in {A}", **change}).fit(np.array(X), ["A", "A", "B", "B"])


def test_scikit_learn_accepts_it_with_a_classifier() -> None:
    results = check_estimator(RuleCorrector(bias, LogisticRegression()), on_fail=None)
    assert [found["check_name"] for found in results if found["status"] == "failed"] == []
    assert sum(found["status"] == "passed" for found in results) >= 40


def test_scikit_learn_accepts_it_where_probabilities_are_not_needed() -> None:
    results = check_estimator(RuleCorrector(bias), expected_failed_checks=EXPECTED_FAILED_CHECKS, on_fail=None)
    assert [found["check_name"] for found in results if found["status"] == "failed"] == []
    assert sum(found["status"] == "passed" for found in results) >= 25
