# %% [markdown]
# # Notebook: pairs in a DataFrame
#
# Scored pairs of records in, a cluster for every record out. [From scored pairs to groups](../records.md) has the
# details.

# %%
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from logicmp import resolve

random = np.random.default_rng(0)
n_records = 120
truth = random.integers(40, size=n_records)

# %% [markdown]
# 120 records of 40 customers. A model scores pairs; its log-odds are noisy. Yours come from a comparison of fields.

# %%
pairs = pd.DataFrame(combinations(range(n_records), 2), columns=["id_a", "id_b"])
is_same = truth[pairs["id_a"]] == truth[pairs["id_b"]]
log_odds = np.where(is_same, 2.0, -4.0) + 1.8 * random.standard_normal(len(pairs))
pairs["score"] = 1 / (1 + np.exp(-log_odds))
print(pairs.head().round(2).to_string(index=False))

# %% [markdown]
# Components at a threshold join whatever one high score connects. `resolve` weighs all pairs of a cluster.

# %%
found = resolve(pairs)
print(found.head().round(2).to_string(index=False))
print(f"{found['cluster'].nunique()} clusters, {len(np.unique(truth))} customers")


# %%
def score(cluster):
    """F1 over pairs of records."""
    same = {(a, b) for a, b in combinations(range(n_records), 2) if cluster[a] == cluster[b]}
    true = {(a, b) for a, b in combinations(range(n_records), 2) if truth[a] == truth[b]}
    return 2 * len(same & true) / (len(same) + len(true)) if same or true else 1.0


def components(threshold):
    cluster = list(range(n_records))
    for a, b, p in pairs.itertuples(index=False):
        if p > threshold:
            cluster = [cluster[int(a)] if c == cluster[int(b)] else c for c in cluster]
    return cluster


thresholds = [k / 20 for k in range(1, 20)]
by_rule = score(dict(zip(found["id"], found["cluster"], strict=True)))
figure, axis = plt.subplots(figsize=(6, 3))
axis.plot(thresholds, [score(components(t)) for t in thresholds], marker=".", label="components")
axis.axhline(by_rule, color="tab:orange", label="resolve")
axis.set_xlabel("threshold of the components")
axis.set_ylabel("F1 over pairs")
axis.legend()
figure.tight_layout()
plt.show()
print(f"F1 over pairs: resolve {by_rule:.2f}, components at 0.5 {score(components(0.5)):.2f}")
