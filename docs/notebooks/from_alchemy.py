# %% [markdown]
# # Notebook: coming from Alchemy
#
# The same files, from Python: query, compare methods, learn weights. Run it in a clone of the repository, which has the
# files. The command line does the same:
# [Coming from Alchemy, Tuffy or pracmln](../alchemy.md).

# %%
from pathlib import Path

import matplotlib.pyplot as plt

from logicmp import infer, learn, load_facts, load_theory

theory = load_theory("examples/smokers.mln")
facts = load_facts("examples/smokers.db", theory)
print(Path("examples/smokers.mln").read_text())
print(Path("examples/smokers.db").read_text())

# %% [markdown]
# Alchemy's convention: a predicate that has facts and is not queried is closed.

# %%
found = infer(theory, facts, "Smokes, Cancer")
print(found.world.describe())
print(found.to_pandas().round(3).to_string(index=False))

# %% [markdown]
# Other methods on the same question, and the largest difference of each to exact inference.

# %%
exact = infer(theory, facts, "Smokes, Cancer", method="exact")
errors = {}
for method in ("mean-field", "bp", "gibbs", "mc-sat"):
    answers = infer(theory, facts, "Smokes, Cancer", method=method)
    errors[method] = max(abs(answers[atom] - exact[atom]) for atom in exact)
figure, axis = plt.subplots(figsize=(5, 2.5))
axis.barh(list(errors), list(errors.values()))
axis.set_xlabel("largest error of a probability")
figure.tight_layout()
plt.show()

# %% [markdown]
# Learn the weights again from the database, as `learnwts -g` does, and write them as an `.mln`.

# %%
learned = learn(theory, ["examples/smokers.db"], relearn="all")
print(learned)
