"""Sparse worlds: reading facts, mean field over lists, other methods, candidate pairs, graphs in the layer, and PSL."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from logicmp import LogicMP, load_facts, load_theory, parse_theory
from logicmp.execute.mean_field import Run, initial_weights
from logicmp.execute.schedule import Schedule
from logicmp.execute.worlds import world_tensors
from logicmp.facts.supports import DENSE_ATOMS
from logicmp.facts.world import build_world
from logicmp.ground.reach import count_premises, reach
from logicmp.inference.mean_field import make_run
from logicmp.testing.text_classification import text_classification

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
    results: dict[str, dict[str, float | str]] = {}
    for name in chosen.cases or CASES:
        print(name, file=sys.stderr)
        try:
            results[name] = {**CASES[name](chosen.n)}
        except NotRunError as why:
            results[name] = {"not run": str(why)}
    table = Table("case", "what", "value")
    for name, numbers in results.items():
        for what, value in numbers.items():
            table.add_row(name, what, value if isinstance(value, str) else f"{value:,.4g}")
    Console().print(table)
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB, "
          f"{torch.get_num_threads()} threads")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps({"n": chosen.n, "threads": torch.get_num_threads(), **results}, indent=2))
    return 0


class NotRunError(Exception):
    """What a case needs and this machine lacks."""


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
    world = build_world(evidence, ["Smokes", "Cancer"], dense_atoms=DENSE_ATOMS)
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


# options of the command for each method; a sampler gets a number of sweeps
METHODS = {"bp": (), "map": (), "gibbs": ("chains=2", "burn_in=20", "samples=100"), "auto": ()}


def method(name: str, n: int) -> dict[str, float]:
    """The same people by `logicmp infer`, in a process of its own: from files to a file of answers."""
    with tempfile.TemporaryDirectory() as folder:
        facts, rules = smokers_file(n, Path(folder)), Path(folder, "smokers.mln")
        rules.write_text(SMOKERS)
        options = [word for option in METHODS[name] for word in ("--set", option)]
        return run_command(rules, facts, "Smokes,Cancer", name, ["--max-groundings", str(40 * n), *options])


# of the made model of documents; seconds that each may take on two cores, with at most 2 GB
TEXT_TARGETS = {"auto": 30.0, "mean-field": 30.0, "map": 60.0, "mc-sat": 120.0}


def text(name: str, n: int) -> dict[str, float]:
    """2,500 documents with 32 words each, 10 categories and 15 rules by `logicmp infer`; n / 40 documents if fewer."""
    made = text_classification(min(2500, max(40, n // 40)))
    with tempfile.TemporaryDirectory() as folder:
        rules, facts = Path(folder, "text.mln"), Path(folder, "text.db")
        rules.write_text(made.rules)
        facts.write_text(made.facts)
        return {**run_command(rules, facts, "Category", name, []), "target, s": TEXT_TARGETS[name]}


def run_command(rules: Path, facts: Path, query: str, name: str, options: list[str]) -> dict[str, float]:
    """Answers, seconds and memory of `logicmp infer`, in a process of its own: from files to a file of answers."""
    answers = rules.with_name("answers.txt")
    command = [sys.executable, "-m", "logicmp", "infer", "-i", str(rules), "-e", str(facts), "-q", query, "-m", name,
               "-r", str(answers), "--quiet", *options]
    start = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)}: exit code {os.waitstatus_to_exitcode(status)}")
    with answers.open() as file:
        n_answers = sum(1 for _ in file)
    return {"answers": float(n_answers), "all in, s": time.perf_counter() - start,
            "processor time, s": used.ru_utime + used.ru_stime, "largest memory, GiB": used.ru_maxrss / 2**20}


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


# a rule whose premises have more rows over the candidates is left out
MAX_PREMISES = 1.5e6


def fb15k(n: int) -> dict[str, float]:
    """The rules of FB15k-237 over all atoms that they reach from its training facts; n does not count."""
    folder = Path(os.environ.get("LOGICMP_DATA", ".")) / "kg/fb15k-237"
    if not folder.is_dir():
        raise NotRunError("set LOGICMP_DATA to a folder with kg/fb15k-237/rules.mln and train.db")
    return knowledge_graph(folder / "rules.mln", folder / "train.db")


def knowledge_graph(rules: Path, facts: Path, max_premises: float = MAX_PREMISES, dense_atoms: int = DENSE_ATOMS
                    ) -> dict[str, float]:
    """Measure mean field over the candidates of a graph in a process of its own, so that its memory is its own."""
    processes = multiprocessing.get_context("spawn")
    with processes.Pool(1) as pool:
        return dict(pool.apply(_knowledge_graph, (rules, facts, max_premises, dense_atoms, torch.get_num_threads())))


def _knowledge_graph(rules: Path, facts: Path, max_premises: float, dense_atoms: int, threads: int
                     ) -> dict[str, float]:
    torch.set_num_threads(threads)
    start = time.perf_counter()
    evidence = load_facts(facts, load_theory(rules))
    names = {p.name for p in evidence.theory.predicates}
    candidates = reach(evidence, 1, names, "open", dense_atoms=dense_atoms)
    reached = time.perf_counter() - start
    counts = count_premises(candidates)
    kept = tuple(rule for rule, rows in zip(evidence.theory.rules, counts, strict=True) if rows <= max_premises)
    evidence, candidates = (replace(x, theory=replace(x.theory, rules=kept)) for x in (evidence, candidates))
    world = build_world(evidence, names, "open", dense_atoms=dense_atoms, candidates=candidates)
    found = {"rules": float(len(kept)), "rules left out": float(len(counts) - len(kept)),
             "atoms": float(sum(map(len, world.supports.values())))}
    del evidence, candidates
    unary, known = world_tensors(world)
    weights = [torch.tensor(0.01, dtype=torch.float64) for _ in kept]
    run = make_run(world, world.theory, unary, known, "exact", weights)
    found |= {"rows": float(run.executor.rows.n_rows), "read and reach, s": reached,
              "read and plan, s": time.perf_counter() - start}
    with torch.no_grad():
        run.iterate(Schedule(1))
        wall, cpu = time.perf_counter(), time.process_time()
        run.iterate(Schedule(5))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {**found, "iteration, s": wall / 5, "iteration, s of the CPU": cpu / 5,
            "memory, GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


# read, check and index a file; runs in a process of its own, whose memory is then that of this work alone
READ = """
import json, re, sys, time
from pathlib import Path
started, used = time.perf_counter(), time.process_time()
from logicmp import load_facts, parse_theory
from logicmp.facts.supports import DENSE_ATOMS
from logicmp.facts.world import build_world
theory = parse_theory("Friends(person, person)\\nSmokes(person)\\n1 Friends(x,y) ^ Smokes(x) => Smokes(y)")
evidence = load_facts(sys.argv[1], theory)
world = build_world(evidence, ["Smokes"], dense_atoms=DENSE_ATOMS)
print(json.dumps({"facts": len(evidence), "s": time.perf_counter() - started,
                  "processor, s": time.process_time() - used,
                  # not ru_maxrss, which a process inherits from the one that started it
                  "GB": int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 2**20}))
"""


def facts(n: int) -> dict[str, float]:
    """Ten facts for each of n people from a .db and a Parquet file: parsed, checked and indexed, with all imports."""
    rng = np.random.default_rng(0)
    names = np.array([f"P{k}" for k in range(n)], dtype=object)
    one, other = names[np.repeat(np.arange(n), FRIENDS)], names[rng.integers(0, n, n * FRIENDS)]
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        text, table = Path(folder, "friends.db"), Path(folder, "friends.parquet")
        with text.open("w") as file:
            file.writelines(f"Friends({a},{b})\n" for a, b in zip(one.tolist(), other.tolist(), strict=True))
        paths = {".db": str(text)}
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            print("facts: no Parquet, because pyarrow is not installed", file=sys.stderr)
        else:
            parquet.write_table(pyarrow.table({"a": one, "b": other}), table)
            paths["Parquet"] = f"Friends={table}"
        del names, one, other
        for kind, path in paths.items():
            done = subprocess.run([sys.executable, "-c", READ, path], stdout=subprocess.PIPE, check=True)
            found |= {f"{kind}, {what}": value for what, value in json.loads(done.stdout).items()}
    return found


PSL_RULES = ["1.5: Smokes(X) -> Cancer(X) ^2", "1.1: Friends(X, Y) & Smokes(X) -> Smokes(Y) ^2",
             "1.1: Friends(X, Y) & Smokes(Y) -> Smokes(X) ^2"]
# the two programs must agree on the objective to this share of it
SAME_OBJECTIVE = 1e-3


def psl(n: int) -> dict[str, float]:
    """The command on n / 10 people, all in, compared with PSL on the same facts, without pslpython's imports.

    The objective of both is computed here, from their answers. On a busy machine, compare processor times: PSL uses
    several threads.
    """
    if shutil.which("java") is None:
        raise NotRunError("PSL needs Java, which is not installed")
    try:
        from pslpython.model import Model
    except ImportError:
        raise NotRunError('PSL needs pslpython, which is not installed: pip install "pslpython>=2.4"') from None
    n = max(1, n // 10)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = smokers_file(n, folder)
        (folder / "smokers.mln").write_text(SMOKERS)
        found: dict[str, float] = {"people": float(n)}
        for method in ("mean-field", "hl-mrf"):
            words = [sys.executable, "-m", "logicmp", "infer", "-i", str(folder / "smokers.mln"), "-e", str(path), "-q",
                     "Smokes,Cancer", "-m", method, "-r", str(folder / f"{method}.txt"), "--quiet"]
            found |= _timed(method, partial(subprocess.run, words, check=True))
        files = _psl_files(path, n, folder)
        answers: list[dict[str, float]] = []
        found |= _timed("PSL", lambda: answers.append(_run_psl(Model("smokers"), files, folder)))
        ours = dict(line.rsplit(" ", 1) for line in (folder / "hl-mrf.txt").read_text().splitlines())
        # PSL does not answer observed atoms
        found |= {"answers": float(len(ours)), "answers of PSL": float(len(answers[0]))}
        own = {atom: float(p) for atom, p in ours.items()}
        losses = [smokers_loss(path, answer) for answer in (own, {**own, **answers[0]})]
        found |= {"objective": losses[0], "objective of PSL": losses[1]}
        if losses[0] > (1 + SAME_OBJECTIVE) * losses[1]:
            raise RuntimeError(f"the objective of hl-mrf is {losses[0]:.6g}, that of PSL {losses[1]:.6g}")
        for method in ("mean-field", "hl-mrf"):
            found |= {f"PSL / {method}{what}": found[f"PSL{what}, s"] / found[f"{method}{what}, s"]
                      for what in ("", ", processor")}
        return found


def smokers_loss(path: Path, truth: dict[str, float]) -> float:
    """The sum of squared distances to satisfaction, by a loop over the facts.

    Args:
        truth: of every `Smokes(P1)` and `Cancer(P1)`.
    """
    total = sum(1.5 * max(0.0, p - truth[atom.replace("Smokes", "Cancer")]) ** 2
                for atom, p in truth.items() if atom.startswith("Smokes"))
    for line in set(path.read_text().splitlines()):
        if line.startswith("Friends("):
            one, other = (truth[f"Smokes({name})"] for name in line.removeprefix("Friends(").rstrip(")").split(","))
            total += 1.1 * (one - other) ** 2
    return total


def _timed(what: str, run: Callable[[], Any]) -> dict[str, float]:
    """The time of a call, and the processor time of this process and those that it started."""
    start, before = time.perf_counter(), os.times()
    run()
    after = os.times()
    return {f"{what}, s": time.perf_counter() - start, f"{what}, processor, s": sum(after[:4]) - sum(before[:4])}


def _psl_files(path: Path, n: int, folder: Path) -> dict[tuple[str, str], Path]:
    """The facts of a .db file as the tables of PSL, and the atoms to answer."""
    rows: dict[tuple[str, str], list[str]] = {("Friends", "OBSERVATIONS"): [], ("Smokes", "OBSERVATIONS"): []}
    known = set()
    for line in sorted(set(path.read_text().splitlines())):
        predicate, _, args = line.removeprefix("!").rstrip(")").partition("(")
        value = f"\t{int(not line.startswith('!'))}"
        rows[predicate, "OBSERVATIONS"].append(args.replace(",", "\t") + value)
        known |= {args} if predicate == "Smokes" else set()
    rows["Smokes", "TARGETS"] = [f"P{k}" for k in range(n) if f"P{k}" not in known]
    rows["Cancer", "TARGETS"] = [f"P{k}" for k in range(n)]
    found = {}
    for key, lines in rows.items():
        found[key] = folder / f"{key[0]}-{key[1]}.txt"
        found[key].write_text("\n".join(lines) + "\n")
    return found


def _run_psl(model: Any, files: dict[tuple[str, str], Path], folder: Path) -> dict[str, float]:
    from pslpython.partition import Partition
    from pslpython.predicate import Predicate
    from pslpython.rule import Rule

    predicates = {name: Predicate(name, size=size) for name, size in (("Friends", 2), ("Smokes", 1), ("Cancer", 1))}
    for (name, part), path in files.items():
        predicates[name].add_data_file(Partition[part], str(path))
    for predicate in predicates.values():
        model.add_predicate(predicate)
    for rule in PSL_RULES:
        model.add_rule(Rule(rule))
    answers = model.infer(psl_options={"runtime.log.level": "ERROR"}, jvm_options=[f"-Djava.io.tmpdir={folder}"])
    return {f"{predicate.name().capitalize()}({row[0]})": float(row[-1])
            for predicate, table in answers.items() for row in table.itertuples(index=False)}


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
    "smokers": smokers, **{name: partial(method, name) for name in METHODS},
    **{f"text-{name}": partial(text, name) for name in TEXT_TARGETS}, "transitivity": transitivity,
    "graph": graph, "alike": alike, "facts": facts, "psl": psl, "fb15k": fb15k}
