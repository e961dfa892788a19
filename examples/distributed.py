"""Train a model and its rules in two processes (DDP) with mixed precision (AMP).

    python examples/distributed.py
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from logicmp import LogicMP, recipes

RULES = recipes.hierarchy([("Dog", "Animal"), ("Cat", "Animal"), ("Poodle", "Dog")], weight=1)


def train(rank: int, folder: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), LogicMP(RULES)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    x = torch.eye(4)[rank::2]                               # each process has a share of the data
    y = torch.tensor([[1.0, 1, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [1, 1, 0, 1]])[rank::2]
    for _ in range(60):
        with torch.autocast("cpu", dtype=torch.bfloat16):   # on a GPU: "cuda", and "nccl" above
            loss = nn.functional.binary_cross_entropy_with_logits(model(x).float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    is_right = bool(((model(x) > 0) == (y > 0)).all())
    # one string, so that the lines of two processes do not mix
    print(f"all right: {is_right}, weight {model.module[1].weights[0].item():.3f}\n", end="")
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, (folder,), nprocs=2)
