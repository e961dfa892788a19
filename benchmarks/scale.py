"""Load, join, iteration and communication apart, from 10^5 to 10^7 people, and what more rows would take."""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from logicmp.facts.world import World
    from logicmp.ground.engine import Grounding

RULES = {
    "people": "Friends(person, person)\nSmokes(person)\nCancer(person)\n1.5 Smokes(x) => Cancer(x)\n"
              "0.5 Friends(x,y) => (Smokes(x) <=> Smokes(y))\n",
    "triples": "Same(item, item)\n0.1 Same(a,b) ^ Same(b,c) => Same(a,c)\n",
}
# the same rules by belief propagation, whose rows are factors; friends are among the 50 people before and after
RULES["neighbours"] = RULES["people"]
# the same rules over more facts for each atom
RULES["crowd"] = RULES["people"]
FRIENDS, NEAR, MANY_FRIENDS = 3, 50, 30
# items of a block: all pairs inside are candidates, so that there are 38 triples for each pair
BLOCK = 40
# rows of all rules on which the prediction is made, machines, and bytes per second between them
ROWS, MACHINES, ETHERNET = (1e9, 1e10), (8, 64), 1.25e9


def main(arguments: list[str]) -> int:
    """Run every size in processes of its own, print the stages, and write the numbers as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__)
    parser.add_argument("--people", type=int, nargs="*", default=[100_000, 1_000_000, 10_000_000], metavar="N",
                        help="numbers of people, each with three friends (default: 10^5, 10^6, 10^7)")
    parser.add_argument("--triples", type=int, nargs="*", default=[10_000_000], metavar="N",
                        help="rows of a transitivity rule over blocks of candidates (default: 10^7)")
    parser.add_argument("--neighbours", type=int, nargs="*", default=[1_000_000], metavar="N",
                        help="numbers of people with three friends nearby, by bp (default: 10^6)")
    parser.add_argument("--crowd", type=int, nargs="*", default=[1_000_000], metavar="N",
                        help="numbers of people with thirty friends each (default: 10^6)")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2], metavar="W",
                        help="numbers of processes (default: 1 and 2)")
    parser.add_argument("--engine", default="torch", help="torch or duckdb (default: torch)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the stages by the number of rows")
    parser.add_argument("--read", type=Path, nargs="+", metavar="FILE", help="show earlier results, measure nothing")
    parser.add_argument("--child", nargs=2, metavar=("CASE", "FOLDER"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.child:
        print(json.dumps(measure(chosen.child[0], Path(chosen.child[1]), chosen.engine)))
        return 0
    results: list[dict[str, Any]] = []
    if chosen.read:
        results = [x for path in chosen.read for x in json.loads(path.read_text())["results"]]
        chosen.people, chosen.triples, chosen.neighbours, chosen.crowd = [], [], [], []
    for case in RULES:
        for n in getattr(chosen, case):
            with tempfile.TemporaryDirectory() as folder:
                write(case, n, Path(folder))
                for ranks in chosen.ranks:
                    print(f"{case} {n:,}, {ranks} process{'es' * (ranks > 1)}", file=sys.stderr)
                    results.append({"case": case, "n": n, "ranks": ranks,
                                    **merged(run(case, Path(folder), ranks, chosen.engine))})
    show(results)
    if chosen.plot is not None:
        draw(results, chosen.plot)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps({"engine": chosen.engine, "results": results}, indent=2))
    return 0


def write(case: str, n: int, folder: Path) -> None:
    """The facts as Parquet parts, and the rules; one block of triples at least."""
    from logicmp.facts.stores import write_parts

    (folder / "rules.mln").write_text(RULES[case])
    rng = np.random.default_rng(0)
    if case != "triples":
        friends = MANY_FRIENDS if case == "crowd" else FRIENDS
        one = np.repeat(np.arange(n), friends)
        keys = np.unique(one * n + (rng.integers(0, n, len(one)) if case != "neighbours" else
                                    (one + rng.integers(-NEAR, NEAR + 1, len(one))) % n))
        one, two = np.divmod(keys, n)
        known = rng.permutation(n)[: n // 10]
        write_parts(folder / "Smokes", [{"a": known, "value": rng.integers(0, 2, len(known))}])
        write_parts(folder / "Friends", [{"a": a, "b": b} for a, b in zip(np.array_split(one, 4),
                                                                         np.array_split(two, 4), strict=True)])
        return
    blocks = max(1, round(n / (BLOCK * (BLOCK - 1) * (BLOCK - 2))))
    a, b = (x.reshape(-1) for x in np.meshgrid(np.arange(BLOCK), np.arange(BLOCK), indexing="ij"))
    a, b = a[a != b], b[a != b]
    one, two = ((np.arange(blocks)[:, None] * BLOCK + x).reshape(-1) for x in (a, b))
    write_parts(folder / "Same", [{"a": one, "b": two, "value": 0.3 + 0.4 * rng.random(len(one))}])


def run(case: str, folder: Path, ranks: int, engine: str) -> list[dict[str, float]]:
    """Run the child in several processes, with one thread each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks", "scale", "--child", case, str(folder), "--engine", engine]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={
        **os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}) for rank in range(ranks)]
    found = [process.communicate()[0] for process in processes]
    for process in processes:
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}")
    return [json.loads(text) for text in found]


def merged(found: list[dict[str, float]]) -> dict[str, float]:
    """Of all ranks: rows together, of all else the largest."""
    return {name: sum(x[name] for x in found) if name == "rows" else max(x[name] for x in found) for name in found[0]}


def measure(case: str, folder: Path, engine: str) -> dict[str, float]:
    """The stages of one process."""
    import torch

    from logicmp import infer, load_facts, load_theory
    from logicmp.execute.processes import joined_processes
    from logicmp.facts.divided import Division
    from logicmp.facts.supports import DENSE_ATOMS
    from logicmp.facts.world import build_world
    from logicmp.ground.engine import Alone, Grounding, make_engine

    torch.set_num_threads(1)
    # import and compile everything before memory is measured
    with tempfile.TemporaryDirectory() as small:
        write("triples", 0, Path(small))
        theory = load_theory(Path(small) / "rules.mln")
        toy = load_facts(f"Same={small}/Same/", theory)
        infer(theory, toy, "Same", "mean-field", candidates=toy, correction="none", iterations=1)
    del theory, toy
    idle = _memory()
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    context: Any = joined_processes() if several else nullcontext(Alone())
    with context as shares, torch.no_grad():
        clock = _Clock()
        theory = load_theory(folder / "rules.mln")
        tables = sorted(path.name for path in folder.iterdir() if path.is_dir())
        # every rule about people reads a friendship once
        is_divided = several and case in ("people", "crowd")
        division = Division(("Friends",), shares.share.rank, shares.share.size) if is_divided else None
        evidence = load_facts([f"{name}={folder}/{name}/" for name in tables], theory, division=division)
        found = {"facts": float(len(evidence)), "load, s": clock.lap()}
        if case == "triples":
            world = build_world(evidence, ["Same"], candidates=evidence)
        else:
            world = build_world(evidence, ["Smokes", "Cancer"], dense_atoms=DENSE_ATOMS)
        del evidence
        grounding = Grounding(make_engine(engine), shares)
        found["world, s"] = clock.lap()
        work = _Messages(world, grounding) if case == "neighbours" else _MeanField(world, grounding)
        found["join, s"] = clock.lap()
        # the compiled loops are compiled, or read from their cache
        work.iterate(1)
        shares.agree(False)
        clock.lap()
        before, used = getattr(shares, "seconds", 0.0), time.process_time()
        work.iterate(4)
        found["iteration, s"] = clock.lap() / 4
        found["iteration, CPU s"] = (time.process_time() - used) / 4
        found["of it exchange and waiting, s"] = (getattr(shares, "seconds", 0.0) - before) / 4
        values = np.zeros(work.shared)
        shares.total(values)
        clock.lap()
        for _ in range(3):
            shares.total(values)
        found["exchange alone, s"] = clock.lap() / 3 if several else 0.0
        found |= {"shared": float(work.shared), "own values": float(work.own), "values": float(work.values),
                  "rows": float(work.rows), "memory, GB": _memory()}
        found["memory of the run, GB"] = found["memory, GB"] - idle
    return found


class _MeanField:
    """Mean field, ready to iterate; what of its values a process has, and shares."""

    def __init__(self, world: World, grounding: Grounding):
        import torch

        from logicmp.execute.mean_field import initial_weights
        from logicmp.execute.worlds import world_tensors
        from logicmp.inference.mean_field import make_run

        unary, known = world_tensors(world)
        weights = initial_weights(world.theory, world.sizes, 10.0, torch.float64)
        self.run = make_run(world, world.theory, unary, known, "exact", weights, grounding)
        del unary, known
        self.rows = self.run.executor.rows.n_rows  # type: ignore[attr-defined]
        self.shared = sum(part.n_shared for part in self.run.inputs.parts.values())
        self.own = sum(x.numel() for x in self.run.base.values())
        self.values = sum(math.prod(shape) for shape in self.run.shapes.values())

    def iterate(self, n: int) -> None:
        from logicmp.execute.schedule import Schedule

        self.run.iterate(Schedule(n, 0.5))


class _Messages:
    """Belief propagation, likewise; a process has the values of its variables."""

    def __init__(self, world: World, grounding: Grounding):
        from logicmp.ground.propagate import propagate
        from logicmp.inference.bp.graph import build_graph
        from logicmp.inference.bp.messages import Messages
        from logicmp.inference.method import Problem
        from logicmp.limits import Limits

        shares = grounding.shares
        problem = Problem(world, limits=Limits(groundings=10**9), grounding=grounding)
        network = problem.network(share=shares.share)
        graph, _ = build_graph(network, propagate(network, shares), shares=shares)
        self.rows, self.values = graph.n_factors, len(graph.potentials)
        del network, problem
        self.messages = Messages(graph, shares)
        places = self.messages.places
        self.own, self.shared = (self.values, 0) if places is None else (len(places[1]), places[1].n_shared)

    def iterate(self, n: int) -> None:
        for _ in range(n):
            self.messages.update(self.messages.beliefs(), 0.5)


class _Clock:
    def __init__(self) -> None:
        self.last = time.perf_counter()

    def lap(self) -> float:
        now = time.perf_counter()
        self.last, passed = now, now - self.last
        return passed


def _memory() -> float:
    # not ru_maxrss, which begins with the memory of the process that started this one
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e9


def show(results: list[dict[str, Any]]) -> None:
    """The stages, their growth, and what more rows would take on more machines."""
    console = Console(width=160)
    names = ["rows", "load, s", "world, s", "join, s", "iteration, s", "iteration, CPU s", "exchange alone, s",
             "own values", "shared", "memory, GB", "memory of the run, GB"]
    table = Table("case", "n", "processes", *names)
    for x in results:
        table.add_row(x["case"], f"{x['n']:,}", str(x["ranks"]), f"{x['rows']:,.0f}", *(
            f"{x[name]:,.0f}" if name in ("own values", "shared") else f"{x[name]:.3g}" for name in names[1:]))
    console.print(table)
    for line in (*growth(results), *compared(results), *predictions(results)):
        print(line)


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """The seconds of each stage by the number of people, in one and two processes, with the fitted powers."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for k, name in enumerate(STAGES):
        for ranks, marker in ((1, "o"), (2, "s")):
            chosen = of_case(results, "people", ranks)
            axes.loglog([x["rows"] for x in chosen], [x[name] for x in chosen], marker=marker, color=f"C{k}",
                        linestyle="none", markerfacecolor=f"C{k}" if ranks == 1 else "none",
                        label=name[:-3] if ranks == 1 else None)
        alone = of_case(results, "people", 1)
        if len(alone) > 1:
            power, first = fit(alone, name)
            rows = np.geomspace(alone[0]["rows"], 1e8, 20)
            axes.loglog(rows, math.exp(first) * rows**power, color=f"C{k}", linewidth=0.8)
    axes.set(xlabel="rows", ylabel="seconds", title="people with three friends: one process (full), two (empty)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


STAGES = ("load, s", "world, s", "join, s", "iteration, s")


def of_case(results: list[dict[str, Any]], case: str, ranks: int) -> list[dict[str, Any]]:
    """The results of one case and number of processes, by rows."""
    return sorted((x for x in results if x["case"] == case and x["ranks"] == ranks), key=lambda x: x["rows"])


def fit(chosen: list[dict[str, Any]], name: str) -> tuple[float, float]:
    """The power of rows that a stage grows with, and the logarithm of its factor, by least squares."""
    found = np.polyfit(np.log([x["rows"] for x in chosen]), np.log([max(x[name], 1e-9) for x in chosen]), 1)
    return float(found[0]), float(found[1])


def growth(results: list[dict[str, Any]]) -> list[str]:
    """The exponent of each stage by the number of rows, over the sizes of one process."""
    chosen = of_case(results, "people", 1)
    return [] if len(chosen) < 2 else [f"{name[:-3]} grows as rows^{fit(chosen, name)[0]:.2f}" for name in STAGES]


def compared(results: list[dict[str, Any]]) -> list[str]:
    """Several processes against one: the time of an iteration, and the memory of a process."""
    lines = []
    for x in results:
        one = next((y for y in results if y["ranks"] == 1 and (y["case"], y["n"]) == (x["case"], x["n"])), None)
        if x["ranks"] > 1 and one is not None:
            lines.append(f"{x['case']} {x['n']:,}, {x['ranks']} processes: an iteration is "
                         f"{one['iteration, s'] / x['iteration, s']:.2f}x as fast (processor time of a process "
                         f"{one['iteration, CPU s'] / x['iteration, CPU s']:.2f}x less), a process takes "
                         f"{x['memory of the run, GB'] / one['memory of the run, GB']:.2f}x the memory of the run, "
                         f"{x['memory, GB'] / one['memory, GB']:.2f}x with its libraries")
    return lines


def predictions(results: list[dict[str, Any]]) -> list[str]:
    """An iteration of more rows on more machines: rows and values are divided, shared values are exchanged."""
    lines = []
    for case in dict.fromkeys(x["case"] for x in results):
        alone, together = of_case(results, case, 1), of_case(results, case, 2)
        if not alone or not together:
            continue
        x, y = alone[-1], together[-1]
        each, per_row = x["iteration, s"] / x["rows"], x["values"] / x["rows"]
        # of all values, those that two processes share; each further cut shares as many more, at most all
        share = y["shared"] / y["values"]
        local = 8 * y["shared"] / max(y["exchange alone, s"], 1e-9)
        # what every process has, and what is divided: from one = whole + divided, two = whole + divided / 2
        one, two = x["memory of the run, GB"], y["memory of the run, GB"]
        whole, divided = max(0.0, 2 * two - one), min(one, 2 * (one - two))
        lines.append(f"{case}: {each * 1e9:.2f} ns per row and process, {per_row:.3g} values per row, {share:.3g} of "
                     f"them shared by two processes, {local / 1e9:.2f} GB/s between the processes of this machine, "
                     f"{whole / x['rows'] * 1e9:.0f} bytes per row in every process and "
                     f"{divided / x['rows'] * 1e9:.0f} divided")
        for rows in ROWS:
            for machines in MACHINES:
                shared = min(1.0, share * (machines - 1)) * per_row * rows
                exchange = 8 * shared * 2 * (machines - 1) / machines / ETHERNET
                memory = (whole + divided / machines) * rows / x["rows"]
                lines.append(f"  10^{math.log10(rows):.0f} rows on {machines} machines: {each * rows / machines:.3g} s "
                             f"of computing and at most {exchange:.3g} s of exchange at 1.25 GB/s per iteration, "
                             f"{memory:,.0f} GB of memory in each")
    return lines
