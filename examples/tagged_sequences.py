"""Correct a classifier of scikit-learn along sequences: activities by the minute, from noisy sensors.

A random forest classifies every minute alone. `RuleCorrector` adds one rule per activity, "the next minute is the
same", and learns its weight; cross-validation keeps each day in one fold.

    python examples/tagged_sequences.py
"""

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GroupKFold, cross_val_predict

from logicmp import RuleCorrector

ACTIVITIES = ["sit", "walk", "sleep"]


def same_as_before(labels: list[str]) -> str:
    """One rule for each label, so that each has a weight of its own."""
    return "\n".join(f"0.5 Next(i, j) ^ Label(i) in {{{name}}} => Label(j) in {{{name}}}" for name in labels)


def make_days(n_days: int = 20, n_minutes: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features with the day in the last column, and activities that last ten minutes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(ACTIVITIES), (n_days, n_minutes // 10)).repeat(10, axis=1).reshape(-1)
    features = np.eye(len(ACTIVITIES))[y] + rng.normal(scale=1.0, size=(len(y), len(ACTIVITIES)))
    return np.column_stack([features, np.repeat(np.arange(n_days), n_minutes)]), np.array(ACTIVITIES)[y]


def main() -> tuple[float, float]:
    """The share of right minutes, of the forest alone and with rules, both by cross-validation."""
    X, y = make_days()
    forest = RandomForestClassifier(50, random_state=0)
    days = X[:, -1]
    alone = cross_val_predict(forest, X[:, :-1], y, cv=GroupKFold(4), groups=days)
    model = RuleCorrector(same_as_before, forest, sequence_column=X.shape[1] - 1, cv=3)
    ruled = cross_val_predict(model, X, y, cv=GroupKFold(4), groups=days)
    return float((alone == y).mean()), float((ruled == y).mean())


if __name__ == "__main__":
    alone, ruled = main()
    print(f"forest alone    {alone:.1%} of minutes right\nwith rules      {ruled:.1%}")
