"""Train a model of pairs under an equivalence rule as a Lightning module.

    pip install lightning
    python examples/lightning_module.py
"""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from logicmp import LogicMP, recipes


class Pairs(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.encode = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
        self.rules = LogicMP(recipes.equivalence("Same", over="point", weight=0.3))

    def forward(self, points):
        code = self.encode(points)
        return self.rules(1 - torch.cdist(code, code))

    def training_step(self, batch, number):
        return torch.nn.functional.binary_cross_entropy_with_logits(self(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.02)


if __name__ == "__main__":
    lightning.seed_everything(0, verbose=False)
    cluster = torch.randint(4, (256, 16))
    points = 2 * torch.randn(256, 4, 2).gather(1, cluster[..., None].expand(-1, -1, 2)) + 0.4 * torch.randn(256, 16, 2)
    same = (cluster[:, :, None] == cluster[:, None]).float()
    model = Pairs()
    lightning.Trainer(max_epochs=5, accelerator="cpu", logger=False, enable_checkpointing=False).fit(
        model, DataLoader(TensorDataset(points, same), batch_size=16))
    print("more than 9 of 10 pairs right:", bool(((model(points) > 0) == (same > 0)).float().mean() > 0.9))
