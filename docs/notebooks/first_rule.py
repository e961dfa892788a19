# %% [markdown]
# # Notebook: a first rule
#
# Noisy scores of pairs, one rule, and a picture of what it does. [Your first rule](../first-rule.md) explains every
# word.

# %%
import matplotlib.pyplot as plt
import torch

from logicmp import LogicMP

_ = torch.manual_seed(1)

# %% [markdown]
# Twelve records of four customers. A model scores each pair, and its scores are noisy.

# %%
customer = torch.arange(12) // 3
same = customer[:, None] == customer
noise = torch.randn(12, 12)
logits = 2.0 * (2 * same.float() - 1) + 1.5 * (noise + noise.T)
layer = LogicMP("Same(a,b) ^ Same(b,c) => Same(a,c)")
with torch.no_grad():
    corrected = layer(logits)
for name, x in (("before", logits), ("after", corrected)):
    print(f"{name:7}{int(((x > 0) != same).sum()):3} of 144 pairs are wrong, "
          f"{layer.violations(x).item():6.1f} violated groundings expected")

# %% [markdown]
# The matrix before the rule, after it, and the truth:

# %%
figure, axes = plt.subplots(1, 3, figsize=(9, 3))
for axis, title, values in zip(axes, ("before", "after", "truth"), (logits.sigmoid(), corrected.sigmoid(), same),
                               strict=True):
    axis.imshow(values, vmin=0, vmax=1, cmap="Blues")
    axis.set_title(title)
    axis.set_xticks([])
    axis.set_yticks([])
figure.tight_layout()
plt.show()

# %% [markdown]
# What the layer did in each iteration, and why one pair changed:

# %%
run = layer.trace(logits)
changed = ((corrected > 0) != (logits > 0)).nonzero()[0].tolist()
print("expected violations:", [round(count, 1) for count in run.violations[::3, 0].tolist()])
print(f"Same({changed[0]}, {changed[1]}):", layer.explain(f"Same({changed[0]}, {changed[1]})", logits)[0])
