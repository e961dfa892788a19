"""What the processes of test_processes.py do, by name: `python processes_of_tests.py TASK` with RANK and so on set."""

from __future__ import annotations

import os
import random
import sys
import time
from typing import Any

import torch
from torch import Tensor

import logicmp
from logicmp.errors import LogicMPError
from logicmp.execute.processes import joined_processes
from logicmp.execute.shares import ProcessShares

RULES = "0.7 C(a,b) ^ C(b,c) => C(a,c)\n0.3 S(a) ^ C(a,b) ^ C(b,a) => S(b)"
N = 30


def inputs() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    pairs = torch.unique(torch.randint(0, N * N, (200,), generator=generator))
    # the first entity has half of all pairs
    index = torch.stack([torch.where(pairs % 2 == 0, 0, pairs // N), pairs % N]).unique(dim=1)
    values = torch.randn(index.shape[1], generator=generator, dtype=torch.float64)
    return {"C": torch.sparse_coo_tensor(index, values, (N, N)).coalesce(),
            "S": torch.randn(N, generator=generator, dtype=torch.float64)}


def train(group: object = None, wrap: bool = False, schedule: str = "adaptive") -> list[float]:
    """Some steps of training through the layer; the weights, and the last output."""
    torch.manual_seed(0)
    scale = torch.nn.Parameter(torch.ones((), dtype=torch.float64))

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = scale
            self.layer = logicmp.LogicMP(RULES, dtype=torch.float64, group=group, schedule=schedule, iterations=4)

        def forward(self, given: dict[str, torch.Tensor]) -> torch.Tensor:
            scaled = {"S": given["S"] * self.scale, "C": torch.sparse_coo_tensor(
                given["C"].indices(), given["C"].values() * self.scale, (N, N), is_coalesced=True)}
            out = self.layer(scaled)
            return torch.cat([out["C"].values(), out["S"]])

    model: torch.nn.Module = Model()
    if wrap:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    given = inputs()
    for _ in range(3):
        optimizer.zero_grad()
        out = model(given)
        out.sigmoid().square().mean().backward()
        optimizer.step()
    return [*(float(p.detach()) for p in model.parameters()), *out.tolist()]


def learned(shares: ProcessShares | None = None) -> list[float]:
    """The weights of pseudo-likelihood over lists: 1,100 people have more than a million pairs."""
    rng = random.Random(0)
    ring = {f"F(P{k}, P{(k + 1) % 1100})" for k in range(1100)}
    facts = ring | {f"{name}(P{rng.randrange(1100)}, P{rng.randrange(30)})" for _ in range(900) for name in "FK"}
    theory = logicmp.parse_theory("F(p, p)\nK(p, p)\nF(x,y) ^ F(y,z) => K(x,z)\nK(x,y) => K(y,x)\nK(x,y)\n")
    evidence = logicmp.parse_facts("\n".join(sorted(facts)), theory)
    found = logicmp.learn(theory, [evidence], reach=1, query=["K"], shares=shares)
    return [float(w) for w in found.weights]


SHARDED = "0.7 C(a,b) ^ C(b,c) => C(a,c)\n0.3 S(a) ^ E(a,b) => S(b)\n-0.2 S(a)\n0.1 C(a,b) ^ a != b => S(a)"


def dense(mesh: Any = None, dim: int = 0, schedule: str = "adaptive") -> list[float]:
    """Output, loss and gradients of dense tensors, whole or sharded along one argument."""
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    torch.manual_seed(0)
    n = 7
    layer = logicmp.LogicMP(SHARDED, dtype=torch.float64, schedule=schedule, iterations=3)
    unary = {"C": torch.randn(n, n, dtype=torch.float64), "S": torch.randn(n, dtype=torch.float64)}
    evidence = {"E": torch.rand(n, n) < 0.3}
    if mesh is not None:
        unary = {name: distribute_tensor(x, mesh, [Shard(dim if x.dim() > 1 else 0)]) for name, x in unary.items()}
        evidence = {name: distribute_tensor(x, mesh, [Shard(dim)]) for name, x in evidence.items()}
    unary = {name: x.requires_grad_() for name, x in unary.items()}
    out = layer(unary, evidence)
    loss = sum((x.sigmoid() ** 2).sum() for x in out.values())
    loss.backward()
    with torch.no_grad():
        # products in shards
        again = layer(unary, evidence)

    def whole(x: Tensor) -> Tensor:
        return x.full_tensor() if isinstance(x, DTensor) else x

    if mesh is not None:
        assert out["C"].placements == (Shard(dim),)
    gradients = [*(x.grad for x in unary.values()), *(w.grad for w in layer.raw_weights)]
    found = [*out.values(), *again.values(), loss, *gradients]
    return [float(v) for x in found for v in whole(x).detach().flatten()]


def main(task: str) -> None:
    torch.set_num_threads(1)
    with joined_processes() as shares:
        rank = shares.share.rank
        if task == "train":
            # under "paper", the backward pass computes messages again
            for schedule, wrap in (("paper", False), ("adaptive", True)):
                print(schedule, *train(torch.distributed.group.WORLD, wrap, schedule))
            print("learned", *learned(shares))
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.tensor import DTensor, Shard, distribute_tensor

            mesh = init_device_mesh("cpu", (shares.share.size,))
            for dim in (0, 1):
                for schedule in ("paper", "adaptive"):
                    print(f"dense-{schedule}", *dense(mesh, dim, schedule))
            try:
                logicmp.LogicMP(SHARDED, tolerance=0.1)(distribute_tensor(torch.zeros(4, 4), mesh, [Shard(0)]))
            except LogicMPError as error:
                print("error", error.message)
            nan = torch.full((4, 4), torch.nan if rank == 1 else 0.0)
            try:
                logicmp.LogicMP("1 C(a,b)")(DTensor.from_local(nan, mesh, [Shard(0)]))
            except LogicMPError as error:
                print("error", error.message)
            return
        bad = shares.share.size - 1
        for step in range(10**6):
            if rank == bad and step == 3:
                if task == "kill":
                    os.kill(os.getpid(), 9)
                if task == "stop":
                    os.kill(os.getpid(), 19)
                if task == "raise":
                    raise LogicMPError("the disk is full")
                if task == "hang":
                    time.sleep(1000)
            shares.agree(False)
            time.sleep(0.05)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except LogicMPError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
