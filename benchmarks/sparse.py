"""Sparse worlds: reading facts, mean field over lists, candidate pairs, graphs in the layer."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from logicmp import LogicMP, load_facts, parse_theory
from logicmp.execute.inputs import world_tensors
from logicmp.execute.mean_field import Run, initial_weights
from logicmp.execute.schedule import Schedule
from logicmp.facts.world import build_world
from logicmp.inference.mean_field import MeanField, make_run

SMOKERS = """
Friends(person, person)
Smokes(person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x,y) => (Smokes(x) <=> Smokes(y))
"""
FRIENDS = 10


def main(arguments: list[str]) -> int:
    """Run the chosen cases, print a table, and write the numbers as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sparse", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--n", type=int, default=100_000, metavar="N", help="people, or entities (default: 100000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument("--threads", type=int, metavar="T", help="number of torch threads (default: torch decides)")
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.cases) - set(CASES)
    if unknown:
        parser.error(f"unknown case {sorted(unknown)[0]!r}, available: {', '.join(CASES)}")
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    results: dict[str, dict[str, float]] = {}
    for name in chosen.cases or CASES:
        print(name, file=sys.stderr)
        results[name] = CASES[name](chosen.n)
    table = Table("case", "what", "value")
    for name, numbers in results.items():
        for what, value in numbers.items():
            table.add_row(name, what, f"{value:,.4g}")
    Console().print(table)
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB, "
          f"{torch.get_num_threads()} threads")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps({"n": chosen.n, "threads": torch.get_num_threads(), **results}, indent=2))
    return 0


def seconds(run: Callable[[], Any], times: int = 5) -> float:
    """The median time of a call; the first one is not counted."""
    run()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return float(np.median(found))


def smokers_file(n: int, folder: Path) -> Path:
    """People with ten friends each, a tenth of them observed."""
    rng = np.random.default_rng(0)
    path = folder / "smokers.db"
    friends = zip(np.repeat(np.arange(n), FRIENDS).tolist(), rng.integers(0, n, n * FRIENDS).tolist(), strict=True)
    observed = zip(rng.permutation(n)[: n // 10].tolist(), rng.integers(0, 2, n // 10).tolist(), strict=True)
    with path.open("w") as file:
        file.writelines(f"Friends(P{a},P{b})\n" for a, b in friends)
        file.writelines(f"{'!' * v}Smokes(P{a})\n" for a, v in observed)
    return path


def smokers(n: int) -> dict[str, float]:
    """From a file to marginals, and one iteration compared with two products of scipy."""
    with tempfile.TemporaryDirectory() as folder:
        path = smokers_file(n, Path(folder))
        start = time.perf_counter()
        theory = parse_theory(SMOKERS)
        evidence = load_facts(path, theory)
        read = time.perf_counter() - start
    world = build_world(evidence, ["Smokes", "Cancer"], dense_atoms=MeanField.dense_atoms)
    unary, known = world_tensors(world)
    weights = initial_weights(world.theory, world.sizes, 10.0, torch.float64)
    run = make_run(world, world.theory, unary, known, "exact", weights)
    planned = time.perf_counter() - start
    with torch.no_grad():
        run.iterate(Schedule(50, 0.5))
    whole = time.perf_counter() - start
    each = _iteration(run)
    found = {"read facts, s": read, "read and plan, s": planned, "with 50 iterations, s": whole, "iteration, s": each}
    try:
        from scipy.sparse import csr_matrix
    except ImportError:
        return found
    support = world.supports["Friends"]
    matrix = csr_matrix((np.ones(len(support)), support.columns), shape=support.sizes)
    transposed, x = matrix.T.tocsr(), np.random.default_rng(0).random(support.sizes[0])
    scipy = seconds(lambda: (matrix @ x, transposed @ x))
    return {**found, "two products of scipy, s": scipy, "iteration / scipy": each / scipy}


def _iteration(run: Run) -> float:
    with torch.no_grad():
        return seconds(lambda: run.iterate(Schedule(4))) / 4


def transitivity(n: int) -> dict[str, float]:
    """Candidate pairs in blocks of 11 among n entities, about 10 n of them."""
    blocks = np.arange(n // 11)
    one, other = (x.reshape(-1) for x in np.meshgrid(np.arange(11), np.arange(11), indexing="ij"))
    apart = one != other
    indices = torch.from_numpy(np.stack([(blocks[:, None] * 11 + x[apart]).reshape(-1) for x in (one, other)]))
    values = torch.randn(indices.shape[1], dtype=torch.float64)
    layer = LogicMP("0.3 C(a,b) ^ C(b,c) => C(a,c)", dtype=torch.float64, iterations=4)
    tensor = torch.sparse_coo_tensor(indices, values, (n, n), check_invariants=False).coalesce()
    with torch.no_grad():
        start = time.perf_counter()
        layer(tensor)
        first = time.perf_counter() - start
        return {"candidates": float(indices.shape[1]), "first call, s": first,
                "iteration, s": seconds(lambda: layer(tensor)) / 4}


def graph(n: int) -> dict[str, float]:
    """A training step of a network on nodes with 5 links each, with and without the layer; n / 5 nodes."""
    n //= 5
    generator = torch.Generator().manual_seed(0)
    links = torch.randint(n, (2, 5 * n), generator=generator)
    x, y = torch.randn(n, 500, generator=generator), torch.randint(6, (n,), generator=generator)
    model = torch.nn.Sequential(torch.nn.Linear(500, 64), torch.nn.ReLU(), torch.nn.Linear(64, 6))
    names = "ABCDEF"
    rules = "\n".join(f"0.5 Link(x,y) ^ label(x)={a} => label(y)={a}" for a in names)
    layer = LogicMP(f"Link(node, node)\nlabel(node) in {{{', '.join(names)}}}\n{rules}")

    def step(with_rules: bool) -> None:
        logits = model(x)
        if with_rules:
            logits = layer({"label": logits}, {"Link": links})["label"]
        torch.nn.functional.cross_entropy(logits, y).backward()

    plain, ruled = seconds(lambda: step(False)), seconds(lambda: step(True))
    return {"nodes": float(n), "step of the model, s": plain, "with the layer, s": ruled, "ratio": ruled / plain}


def alike(n: int) -> dict[str, float]:
    """79 rules over 80 labels that differ in constants, and the same as one rule with a table; 8 items."""
    names = [f"A{k}" for k in range(80)]
    head = f"label = {{{', '.join(names)}}}\nL(label)\n"
    rules = LogicMP(head + "\n".join(f"0.5 L({names[k]}) => L({names[k // 2]})" for k in range(1, 80)),
                    schedule="paper")
    table = LogicMP(head + "*parent(label, label)\n0.5 parent(x,y) ^ L(x) => L(y)", schedule="paper")
    parent = torch.zeros(80, 80, dtype=torch.bool)
    parent[torch.arange(1, 80), torch.arange(1, 80) // 2] = True
    unary = torch.randn(8, 80, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        one, other = seconds(lambda: rules(unary), 15), seconds(lambda: table(unary, {"parent": parent}), 15)
    return {"79 rules, ms": 1e3 * one, "one rule with a table, ms": 1e3 * other}


CASES: dict[str, Callable[[int], dict[str, float]]] = {
    "smokers": smokers, "transitivity": transitivity, "graph": graph, "alike": alike}
