"""Add the layer to a model and train both end to end.

A small model predicts for each pair of points whether both are in the same cluster. It judges each pair alone; the
layer adds the rule that the answers are transitive. The weight of the rule is trained with the model.

    python examples/train.py
"""

import torch
from torch import nn

from logicmp import LogicMP

RULES = """
symmetric Same(point, point)
0.3 Same(a, b) ^ Same(b, c) => Same(a, c)
"""


class Pairs(nn.Module):
    """Logits for every pair of points, from the points' features; with `rules`, corrected by the layer."""

    def __init__(self, rules: str | None):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 8))
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.bias = nn.Parameter(torch.tensor(1.0))
        self.rules = None if rules is None else LogicMP(rules)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        code = self.encode(points)
        logits = self.bias - self.scale * torch.cdist(code, code)
        return logits if self.rules is None else self.rules(logits)


def batch(generator: torch.Generator, size: int = 16, n: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    """Random points around four centres, and which pairs have the same centre."""
    centres = torch.randn(size, 4, 2, generator=generator) * 2
    cluster = torch.randint(4, (size, n), generator=generator)
    points = centres.gather(1, cluster.unsqueeze(-1).expand(-1, -1, 2))
    points = points + torch.randn(size, n, 2, generator=generator) * 0.6
    return points, (cluster.unsqueeze(2) == cluster.unsqueeze(1)).float()


def train(rules: str | None, steps: int = 100) -> tuple[float, float]:
    """Train; return the share of wrong pairs and the violated triples per item, on new data."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = Pairs(rules)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        points, same = batch(generator)
        loss = nn.functional.binary_cross_entropy_with_logits(model(points), same)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        points, same = batch(torch.Generator().manual_seed(2), size=64)
        logits = model(points)
        decided = torch.where(logits > 0, 50.0, -50.0)
        violated = LogicMP(RULES).violations(decided).mean()
        return float(((logits > 0) != (same > 0)).float().mean()), float(violated)


if __name__ == "__main__":
    for name, rules in (("model alone", None), ("with LogicMP", RULES)):
        wrong, violated = train(rules)
        print(f"{name:<15} {wrong:6.2%} of the pairs wrong, {violated:6.1f} violated triples per item")
