"""Drop the layer on a model and train both end to end.

A small network judges pairs of points: same cluster or not? The layer adds what it cannot know of one pair alone:
that the answers must be transitive. The weight of the rule is learned with the rest.

    python examples/train.py
"""

import torch
from torch import nn

from logicmp import LogicMP

RULES = """
symmetric Same(point, point)
0.1 Same(a, b) ^ Same(b, c) => Same(a, c)
"""


class Pairs(nn.Module):
    """Log-odds for every pair of points, from the points' own features; then, if asked, the rules."""

    def __init__(self, rules: str | None):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 8))
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.bias = nn.Parameter(torch.tensor(1.0))
        self.rules = None if rules is None else LogicMP(rules, iterations=5)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        code = self.encode(points)
        logits = self.bias - self.scale * torch.cdist(code, code)
        return logits if self.rules is None else self.rules(logits)


def batch(generator: torch.Generator, size: int = 16, n: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    """Points around four centres, blurred; and which pairs share a centre."""
    centres = torch.randn(size, 4, 2, generator=generator) * 2
    cluster = torch.randint(4, (size, n), generator=generator)
    points = centres.gather(1, cluster.unsqueeze(-1).expand(-1, -1, 2))
    points = points + torch.randn(size, n, 2, generator=generator) * 0.6
    return points, (cluster.unsqueeze(2) == cluster.unsqueeze(1)).float()


def train(rules: str | None, steps: int = 100) -> tuple[float, float]:
    """Train, then say how many pairs of new data are wrong, and how many triples break transitivity."""
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
        broken = LogicMP(RULES).violations(decided).mean()
        return float(((logits > 0) != (same > 0)).float().mean()), float(broken)


if __name__ == "__main__":
    for name, rules in (("network alone", None), ("with LogicMP", RULES)):
        wrong, broken = train(rules)
        print(f"{name:<15} {wrong:6.2%} of the pairs wrong, {broken:6.1f} broken triples per item")
