"""`RuleCorrector`: a scikit-learn classifier that corrects the probabilities of another one by rules.

Room: layer -> **estimator**.

    corrector = RuleCorrector("1 Cites(x, y) ^ Label(x) in {Bio} => Label(y) in {Bio}", evidence={"Cites": edges})
    corrector.fit(P, y).predict_proba(P)

`P` has a row for each sample and a column for each class, as `predict_proba` returns it. The samples are the constants
of the rules; evidence links them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .errors import LogicMPError
from .facts.tables import columns_of, numbered
from .layer import LogicMP
from .limits import need
from .parse.load import parse_theory
from .parse.syntax import PLAIN_LABEL, quoted
from .parse.theory import Theory

need("sklearn", "sklearn", "RuleCorrector")
from sklearn.base import BaseEstimator, ClassifierMixin, clone  # noqa: E402
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_predict  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import check_is_fitted, validate_data  # noqa: E402

# the type of the samples, and the relation of neighbours in a sequence
ITEM, NEXT = "item", "Next"
# probabilities of 0 and 1 count as this close to them
EPSILON = 1e-6


class RuleCorrector(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Correct the class probabilities of any classifier by rules, with weights learned from labels.

    >>> P = np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2], [0.2, 0.8]])
    >>> rules = "1 Next(i, j) ^ Label(i) in {A} => Label(j) in {A}"
    >>> X = np.column_stack([P, [1, 1, 1, 2]])
    >>> corrector = RuleCorrector(rules, sequence_column=2).fit(X, ["A", "A", "A", "B"])
    >>> corrector.predict(X).tolist()
    ['A', 'A', 'A', 'B']

    The rules are about `Label(item) in {..}`, with the classes as labels, and about the predicates of the evidence.
    Both are declared for you, the evidence as `*Name(item, item)`, unless the rules declare it. Inference is mean
    field. Weights in the rules are where learning starts; hard rules stay as they are. Fit on probabilities that the
    classifier did not see the labels of, such as those of `cross_val_predict`, or give the classifier as `estimator`.

    Args:
        rules: the rules as text, or a function that returns the text for a list of labels.
        estimator: a classifier. With it, X has features: `fit` learns the weights on its out-of-fold probabilities,
            then fits it on all samples. Without it, X has the probabilities.
        evidence: by predicate, a frame of links between samples, with one column of ids for each argument. Links
            to samples that are not in X are ignored.
        id_column: the column of X with the ids of the samples, by name or by number; by default the index of a pandas
            frame.
        sequence_column: the column of X with the sequence of each sample, by name or by number. Neighbours in a
            sequence are linked by `Next(item, item)`, in the order of the rows.
        labels: names of the classes for the rules, in the order of the sorted classes; by default the classes
            themselves. `cross_val_predict(..., method="predict_proba")` replaces the classes by numbers, so rules that
            name them need this.
        prior_std: standard deviation of the Gaussian prior of the weights.
        max_iter: iterations of L-BFGS.
        cv: folds for the out-of-fold probabilities of `estimator`; a sequence stays in one fold.
    """

    def __init__(self, rules: str | Callable[[list[str]], str] = "", estimator: Any = None, *,
                 evidence: Mapping[str, Any] | None = None, id_column: str | int | None = None,
                 sequence_column: str | int | None = None, labels: Sequence[str] | None = None,
                 prior_std: float = 2.0, max_iter: int = 50, cv: int = 5):
        self.rules = rules
        self.estimator = estimator
        self.evidence = evidence
        self.id_column = id_column
        self.sequence_column = sequence_column
        self.labels = labels
        self.prior_std = prior_std
        self.max_iter = max_iter
        self.cv = cv

    def fit(self, X: Any, y: Any) -> RuleCorrector:
        """Learn the weights of the rules.

        Args:
            X: probabilities, or features with `estimator`; and the columns of ids and sequences.
            y: the class of each sample.
        """
        values, ids, sequences = self._split(X)
        values, y = validate_data(self, values, y)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has 1 class, {self.classes_[0]!r}; RuleCorrector needs at least 2 classes")
        if self.estimator is None:
            probabilities = self._probabilities(values)
        else:
            probabilities = self._out_of_fold(values, y, sequences)
            self.estimator_ = clone(self.estimator).fit(values, y)
        theory = self._theory()
        layer = LogicMP(theory, dtype=torch.float64, schedule="paper")
        self._learn(layer, probabilities, torch.from_numpy(numbers), self._links(theory, ids, sequences, len(values)))
        with torch.no_grad():
            weights = [round(float(weight), 6) + 0.0 for weight in layer.weights]
        # rules as text, so that they can be read, and saved with the estimator
        self.rules_ = str(replace(theory, rules=tuple(
            rule if rule.is_hard else replace(rule, weight=weight)
            for rule, weight in zip(theory.rules, weights, strict=True))))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The corrected probabilities, [samples, classes].

        Args:
            X: as for `fit`; all samples are corrected together.
        """
        check_is_fitted(self)
        values, ids, sequences = self._split(X)
        values = validate_data(self, values, reset=False)
        probabilities = (self._probabilities(values) if self.estimator is None
                         else self.estimator_.predict_proba(values))
        theory = parse_theory(self.rules_)
        layer = LogicMP(theory, dtype=torch.float64, schedule="paper")
        with torch.no_grad():
            corrected = _correct(layer, probabilities, self._links(theory, ids, sequences, len(values)))
        return corrected.softmax(-1).numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each sample.

        Args:
            X: as for `fit`.
        """
        probabilities = self.predict_proba(X)
        found: np.ndarray = self.classes_[probabilities.argmax(1)]
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.estimator is None
        return tags

    def _split(self, X: Any) -> tuple[Any, np.ndarray | None, np.ndarray | None]:
        """The columns of values, the ids and the sequences."""
        named = [column for column in (self.id_column, self.sequence_column) if column is not None]
        is_frame = hasattr(X, "columns")
        ids = np.asarray(X.index) if self.id_column is None and hasattr(X, "index") and is_frame else None
        if not named:
            return X, ids, None
        columns = list(X.columns) if is_frame else list(range(np.shape(X)[1]))
        missing = [column for column in named if column not in columns]
        if missing:
            raise LogicMPError(f"X has no column {missing[0]!r}", f"its columns are {', '.join(map(repr, columns))}")
        rest = [column for column in columns if column not in named]
        values = X[rest] if is_frame else np.asarray(X)[:, rest]
        found = [None if column is None else np.asarray(X[column] if is_frame else np.asarray(X)[:, int(column)])
                 for column in (self.id_column, self.sequence_column)]
        return values, ids if found[0] is None else found[0], found[1]

    def _probabilities(self, values: np.ndarray) -> np.ndarray:
        """The probabilities of the classes, in their order."""
        n = len(self.classes_)
        if values.shape[1] == 1 and n == 2:
            values = np.column_stack([1 - values, values])
        if values.shape[1] != n:
            raise ValueError(f"X has {values.shape[1]} columns of probabilities, expected {n}, one for each class in "
                             f"y: {', '.join(map(str, self.classes_))}. For features, pass a classifier as estimator.")
        names = list(getattr(self, "feature_names_in_", ()))
        if names and set(names) == set(self._labels()):
            values = values[:, [names.index(label) for label in self._labels()]]
        outside = (values < 0) | (values > 1)
        if outside.any():
            row, column = np.argwhere(outside)[0].tolist()
            raise ValueError(f"X must have probabilities, got {values[row, column]:g} in row {row}, column {column}. "
                             "For features, pass a classifier as estimator.")
        return values

    def _out_of_fold(self, values: np.ndarray, y: np.ndarray, sequences: np.ndarray | None) -> np.ndarray:
        smallest = int(np.unique(y, return_counts=True)[1].min())
        folds: Any = StratifiedKFold(min(self.cv, max(smallest, 2)))
        if sequences is not None:
            folds = GroupKFold(min(self.cv, len(np.unique(sequences))))
        elif smallest < 2:
            raise ValueError("y has a class with 1 sample; out-of-fold probabilities need at least 2 of each class")
        found: np.ndarray = cross_val_predict(clone(self.estimator), values, y, cv=folds, groups=sequences,
                                              method="predict_proba")
        return found

    def _labels(self) -> list[str]:
        """The names of the classes in the rules."""
        if self.labels is not None and len(self.labels) != len(self.classes_):
            raise ValueError(f"labels has {len(self.labels)} names, but y has {len(self.classes_)} classes: "
                             f"{', '.join(map(str, self.classes_))}")
        return [str(label) for label in (self.classes_ if self.labels is None else self.labels)]

    def _theory(self) -> Theory:
        """The rules with declarations for the labels and the evidence."""
        labels = self._labels()
        rules = self.rules if isinstance(self.rules, str) else self.rules(labels)
        lines = [f"Label({ITEM}) in {{{', '.join(quoted(label, PLAIN_LABEL) for label in labels)}}}"]
        sizes = {name: len(columns_of(table, name)) for name, table in (self.evidence or {}).items()}
        if self.sequence_column is not None:
            sizes[NEXT] = 2
        for name, n in sizes.items():
            if not re.search(rf"^\s*\*?\s*(?:symmetric\s+)?{re.escape(name)}\s*\([^()]*\)\s*$", rules, re.MULTILINE):
                lines.append(f"*{name}({', '.join([ITEM] * n)})")
        return parse_theory("\n".join([*lines, rules]), "rules")

    def _links(self, theory: Theory, ids: np.ndarray | None, sequences: np.ndarray | None, n: int) -> dict[str, Tensor]:
        """The evidence about these samples: pairs of row numbers by predicate."""
        found: dict[str, np.ndarray] = {}
        if sequences is not None:
            order = np.argsort(np.unique(sequences, return_inverse=True)[1], kind="stable")
            same = sequences[order][1:] == sequences[order][:-1]
            found[NEXT] = np.stack([order[:-1][same], order[1:][same]])
        if self.evidence and ids is None:
            raise LogicMPError("the samples have no ids that the evidence could name",
                               "pass a pandas frame with the ids as its index, or name a column: id_column='id'")
        place = {} if ids is None else {str(name): k for k, name in enumerate(ids.tolist())}
        if self.evidence and len(place) < n:
            raise LogicMPError("two samples have the same id", "ids must be unique")
        for name, table in (self.evidence or {}).items():
            rows = []
            for column in columns_of(table, name).values():
                values, codes = numbered(column)
                rows.append(np.array([place.get(str(value), -1) for value in values], dtype=np.int64)[codes])
            at = np.stack(rows)
            found[name] = at[:, (at >= 0).all(0)]
        for name in found:
            if set(theory.predicate[name].types) != {ITEM}:
                raise LogicMPError(f"{theory.predicate[name]} must be about samples only, {name}({ITEM}, {ITEM})")
        return {name: torch.from_numpy(pairs.astype(np.int64)) for name, pairs in found.items()}

    def _learn(self, layer: LogicMP, probabilities: np.ndarray, y: Tensor, links: Mapping[str, Tensor]) -> None:
        """Fit the weights to the labels, by the likelihood of each sample."""
        self.n_iter_ = 0
        parameters = [parameter for parameter in layer.parameters() if parameter.requires_grad]
        if not parameters:
            return
        optimizer = torch.optim.LBFGS(parameters, max_iter=self.max_iter, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimizer.zero_grad()
            prior = sum((parameter**2).sum() for parameter in parameters) / (2 * self.prior_std**2 * len(y))
            total: Tensor = torch.nn.functional.cross_entropy(_correct(layer, probabilities, links), y) + prior
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(loss)  # type: ignore[no-untyped-call]
        self.n_iter_ = int(optimizer.state[parameters[0]]["n_iter"])


def _correct(layer: LogicMP, probabilities: np.ndarray, links: Mapping[str, Tensor]) -> Tensor:
    logits = torch.from_numpy(np.log(np.clip(probabilities, EPSILON, 1)).astype(np.float64))
    return layer({"Label": logits}, evidence=dict(links))["Label"]
