"""Correct the topics of papers by their citations, in the data format of torch-geometric.

A paper mostly cites papers on its own topic. A small model predicts the topic from the words of a paper; the layer
adds one rule per topic along the citations. The weights of the rules are trained with the model.

The data is one object with `x`, `edge_index`, `y`, `train_mask` and `test_mask`: a `torch_geometric.data.Data` if that
package is installed, else a plain object. Put your own in its place, such as `Planetoid(root, "Cora")[0]`.

    python examples/citations.py
"""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from logicmp import LogicMP

TOPICS = ["Theory", "Vision", "Language", "Speech", "Robots", "Games"]
RULES = "\n".join([
    "*Cites(paper, paper)",
    f"topic(paper) in {{{', '.join(TOPICS)}}}",
    *(f"0.3 Cites(x, y) => (topic(x) in {{{name}}} <=> topic(y) in {{{name}}})" for name in TOPICS),
])


def make_graph(n: int = 1500, n_words: int = 200, seed: int = 0) -> Any:
    """Papers with 4 citations each, two thirds to their own topic; 20 labels per topic are for training."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(len(TOPICS), (n,), generator=generator)
    # every topic prefers other words, but only a little
    words = torch.rand(len(TOPICS), n_words, generator=generator) ** 4 * 0.2
    x = torch.bernoulli(words[y] + 0.03, generator=generator)
    source = torch.arange(n).repeat_interleave(4)
    # papers by topic: a random one of the same topic, or any
    count = torch.bincount(y, minlength=len(TOPICS))
    place = (count.cumsum(0) - count)[y[source]] + (torch.rand(4 * n, generator=generator) * count[y[source]]).long()
    is_same = torch.rand(4 * n, generator=generator) < 0.6
    target = torch.where(is_same, y.argsort()[place], torch.randint(n, (4 * n,), generator=generator))
    edge_index = torch.stack([source, target])[:, source != target]
    train_mask = torch.zeros(n, dtype=torch.bool)
    for topic in range(len(TOPICS)):
        train_mask[torch.nonzero(y == topic)[:20, 0]] = True
    parts = {"x": x, "edge_index": edge_index, "y": y, "train_mask": train_mask, "test_mask": ~train_mask}
    try:
        from torch_geometric.data import Data
    except ImportError:
        return SimpleNamespace(**parts)
    return Data(**parts)


class Topics(nn.Module):
    """Logits of the topic of every paper from its words; with rules, corrected along the citations."""

    def __init__(self, n_words: int, rules: str | None):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(n_words, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, len(TOPICS)))
        self.rules = None if rules is None else LogicMP(rules, schedule="paper", positive_weights=True)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        if self.rules is None:
            return logits
        return self.rules({"topic": logits}, evidence={"Cites": edge_index})["topic"]


def train(data: Any, rules: str | None, steps: int = 80) -> tuple[float, Topics]:
    """Train on the labelled papers; return the share of right topics of the others."""
    torch.manual_seed(0)
    model = Topics(data.x.shape[1], rules)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(steps):
        logits = model.train()(data.x, data.edge_index)
        loss = nn.functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        found = model.eval()(data.x, data.edge_index).argmax(-1)
    return float((found == data.y)[data.test_mask].float().mean()), model


if __name__ == "__main__":
    data = make_graph()
    for name, rules in (("model alone", None), ("with LogicMP", RULES)):
        right, trained = train(data, rules)
        print(f"{name:<15} {right:.1%} of {int(data.test_mask.sum()):,} papers right")
    weights = [f"{float(w.detach()):.2f}" for w in trained.rules.weights]
    print(f"weights of the rules: {', '.join(weights)}")
