"""A node classifier of torch-geometric with a rule along the links: linked nodes often have the same label.

    pip install torch-geometric
    python examples/geometric.py
"""

import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import stochastic_blockmodel_graph

from logicmp import LogicMP, recipes


class Nodes(torch.nn.Module):
    def __init__(self, has_rules):
        super().__init__()
        self.convolve = GCNConv(3, 3)
        rules = recipes.same_label("Cites", ["Theory", "Vision", "Speech"], "topic", "paper", weight=0.3)
        self.rules = LogicMP(rules) if has_rules else None

    def forward(self, data):
        logits = self.convolve(data.x, data.edge_index)
        return logits if self.rules is None else self.rules({"topic": logits}, {"Cites": data.edge_index})["topic"]


if __name__ == "__main__":
    torch.manual_seed(0)
    y, train = torch.arange(300) // 100, torch.arange(300) % 20 == 0
    links = stochastic_blockmodel_graph([100, 100, 100], 0.005 + 0.035 * torch.eye(3))
    data = Data(x=torch.eye(3)[y] / 2 + torch.randn(300, 3), edge_index=links)
    for has_rules in (False, True):
        model = Nodes(has_rules)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(60):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(data)[train], y[train]).backward()
            optimizer.step()
        print(f"rules: {has_rules}, right: {float((model(data).argmax(-1) == y)[~train].float().mean()):.2f}")
