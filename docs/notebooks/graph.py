# %% [markdown]
# # Notebook: labels in a graph
#
# A weak classifier of nodes, and a rule along the links: linked nodes usually have the same label.
# [Graphs](../graphs.md) has the details.

# %%
import matplotlib.pyplot as plt
import torch
from torch.nn.functional import cross_entropy, one_hot

from logicmp import LogicMP

_ = torch.manual_seed(0)

# %% [markdown]
# 600 nodes of three kinds, 2,400 links, 80% of them between nodes of one kind. Features are weak.

# %%
n, kinds = 600, 3
kind = torch.randint(kinds, (n,))
links = torch.randint(n, (2, 12_000))
alike = kind[links[0]] == kind[links[1]]
links = torch.cat([links[:, alike][:, :1_920], links[:, ~alike][:, :480]], 1)
features = one_hot(kind, kinds) + 1.2 * torch.randn(n, kinds)
is_training = torch.arange(n) < 120

# %% [markdown]
# A model of the features alone, trained on 120 labelled nodes:

# %%
model = torch.nn.Linear(kinds, kinds)


def train(parameters, predict, steps):
    optimizer = torch.optim.Adam(parameters, lr=0.05)
    losses = []
    for _ in range(steps):
        loss = cross_entropy(predict()[is_training], kind[is_training])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def show(name, predict):
    with torch.no_grad():
        right = (predict().argmax(-1) == kind)[~is_training].float().mean().item()
    print(f"{name:30} {right:.1%} of the other {int((~is_training).sum())} nodes right")


losses = train(model.parameters(), lambda: model(features), 40)
show("model alone", lambda: model(features))

# %% [markdown]
# One rule per label. Without numbers, the logits decide how strong the rules are: the model is trained, so they help
# without further training. Training both together helps more.

# %%
RULES = "*Link(node, node)\nlabel(node) in {A, B, C}\n" + "\n".join(
    f"Link(x, y) => (label(x) in {{{name}}} <=> label(y) in {{{name}}})" for name in "ABC")
print(RULES)
layer = LogicMP(RULES)


def predict_with_rules():
    return layer({"label": model(features)}, evidence={"Link": links})["label"]


show("with rules, not trained", predict_with_rules)
losses += train([*model.parameters(), *layer.parameters()], predict_with_rules, 40)
show("with rules, trained together", predict_with_rules)

# %%
figure, axis = plt.subplots(figsize=(5, 3))
axis.plot(losses)
axis.set_xlabel("step")
axis.set_ylabel("loss on 120 labelled nodes")
figure.tight_layout()
plt.show()
