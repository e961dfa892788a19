"""Items with labels in a small tree, as ARFF text: features are noisy sums of a vector for each label."""

from __future__ import annotations

import numpy as np

# a label is listed twice, and one before the label above it, as in the real files
LABELS = ("1", "1/1/2", "1/1", "1/1/1", "1/2", "1/2/1", "2", "2/1", "2/1/1", "2/1/2", "1", "2/2", "2/2/1", "3", "3/1",
          "3/1/1")
LEAVES = ("1/1/1", "1/1/2", "1/2/1", "2/1/1", "2/1/2", "2/2/1", "3/1/1")
N_FEATURES = 6


def arff_text(n_items: int, seed: int, has_one_path: bool, noise: float = 0.6) -> str:
    """Header and data; without `has_one_path`, items have one or two paths, some of which end early."""
    vectors = {label: np.random.default_rng(k).normal(size=N_FEATURES) for k, label in enumerate(LEAVES)}
    draw = np.random.default_rng(1000 + seed)
    lines = ["@RELATION made_up", "", *(f"@ATTRIBUTE a{k} NUMERIC" for k in range(N_FEATURES)),
             f"@ATTRIBUTE class hierarchical {','.join(LABELS)}", "", "@DATA"]
    for item in range(n_items):
        leaves = draw.choice(LEAVES, 1 if has_one_path else draw.integers(1, 3), replace=False)
        numbers = sum(vectors[leaf] for leaf in leaves) + noise * draw.normal(size=N_FEATURES)
        columns = [f"{x:.3f}" for x in numbers]
        columns[item % N_FEATURES] = "?" if item % 7 == 0 else columns[item % N_FEATURES]
        paths = [leaf if has_one_path or draw.random() < 0.7 else leaf[:3] for leaf in leaves]
        lines.append(",".join([*columns, "@".join(paths)]) + (" % an item" if item % 5 == 0 else ""))
    return "\n".join([*lines, ""])
