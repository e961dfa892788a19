"""The paper's table of compile times: transitivity as a circuit, compared with the layer at 512 tokens.

    python -m benchmarks compile-time --tokens 5 6 7 8 --seconds-limit 60

Each row compiles in its own process, which is stopped at the time limit. Seconds are processor time for the diagram,
without the start of Python, grounding, and the search for better splits. The layer compiles nothing: its row is one
forward call of 5 iterations. The paper counts all n^3 clauses; here clauses that are always true are removed before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from logicmp import LogicMP, LogicMPError
from logicmp.constrain.cnf import Cnf, as_constraints, build_cnf, ground_constraints

from .case import Disagreement

RULE = "C(a,b) ^ C(b,c) => C(a,c)"
ITERATIONS = 5
# seconds in the table of the paper's appendix
PAPER = {5: "0.38", 6: "11.1", 7: "135.7", 8: "6419.2", 9: "> 24 h", 512: "0.03"}
# number of transitive relations over n elements (OEIS A006905): the model count of a correct circuit
MODELS = {1: 2, 2: 13, 3: 171, 4: 3994, 5: 154303, 6: 9415189, 7: 878222530}
# extra time before the process is stopped: for imports, and for steps that do not check the clock
GRACE_SECONDS = 20.0
# exit code of a process that stopped itself at the limit
OVER = 3
# arguments: tokens and limit; prints seconds, nodes, products and models
COMPILE = """
import sys, time
from logicmp import CostError
from benchmarks.compile_time import OVER, ground
from logicmp.constrain.compile import conjoin_clauses
cnf = ground(int(sys.argv[1]))
start = time.process_time()
try:
    manager, root = conjoin_clauses(cnf, float(sys.argv[2]), sys.maxsize, minimize=False)
except CostError:
    sys.exit(OVER)
print(time.process_time() - start, root.count(), root.size(), manager.global_model_count(root))
"""


@dataclass(frozen=True)
class Row:
    """One row of the table; `seconds` is None if the time limit was reached."""

    tokens: int
    variables: int
    clauses: int
    seconds: float | None
    nodes: int | None = None
    products: int | None = None
    models: int | None = None


def ground(tokens: int) -> Cnf:
    """The clauses of the rule over this many tokens."""
    return build_cnf(ground_constraints(as_constraints(RULE), {"thing": tokens}))


def compile_row(tokens: int, limit: float) -> Row:
    """Compile the rule over this many tokens in its own process, and stop it at the limit (in seconds)."""
    cnf = ground(tokens)
    row = Row(tokens, cnf.n_booleans, len(cnf.clauses), None)
    try:
        done = subprocess.run([sys.executable, "-c", COMPILE, str(tokens), str(limit)], stdout=subprocess.PIPE,
                              text=True, timeout=limit + GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        return row
    if done.returncode == OVER:
        return row
    if done.returncode:
        raise LogicMPError(f"compiling {tokens} tokens failed with exit code {done.returncode}",
                           "check the memory; use fewer --tokens or a smaller --seconds-limit")
    seconds, nodes, products, models = done.stdout.split()
    if int(models) != MODELS.get(tokens, int(models)):
        raise Disagreement(f"the circuit of {tokens} tokens has {models} models, expected {MODELS[tokens]}")
    return replace(row, seconds=float(seconds), nodes=int(nodes), products=int(products), models=int(models))


def layer_row(tokens: int, repeat: int = 5) -> Row:
    """Median time of `repeat` forward calls of the layer, float32."""
    layer = LogicMP(RULE, ITERATIONS, schedule="paper")
    logits = 2 * torch.randn(tokens, tokens, generator=torch.Generator().manual_seed(0))
    seconds = []
    with torch.no_grad():
        layer(logits)
        for _ in range(repeat):
            start = time.perf_counter()
            layer(logits)
            seconds.append(time.perf_counter() - start)
    return Row(tokens, tokens**2, tokens**3, sorted(seconds)[repeat // 2])


def as_markdown(circuits: Sequence[Row], layer: Row, limit: float) -> str:
    """The table, with a column for the paper's seconds."""
    lines = ["| tokens | variables | clauses | circuit, s | nodes | products | paper, s |",
             "|---:|---:|---:|---:|---:|---:|---:|"]
    for row in circuits:
        seconds = f"> {limit:g}" if row.seconds is None else f"{row.seconds:.2f}"
        nodes, products = ("" if x is None else f"{x:,}" for x in (row.nodes, row.products))
        lines.append(f"| {row.tokens} | {row.variables:,} | {row.clauses:,} | {seconds} | {nodes} | {products} | "
                     f"{PAPER.get(row.tokens, '')} |")
    lines.append(f"| {layer.tokens}, layer | {layer.variables:,} | {layer.clauses:,} | {layer.seconds:.3f} "
                 f"| | | {PAPER.get(layer.tokens, '')} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None, show: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks compile-time", description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[5, 6, 7, 8], metavar="N",
                        help="numbers of tokens, one row each")
    parser.add_argument("--layer-tokens", type=int, default=512, metavar="N",
                        help="tokens of the layer's row (default: 512)")
    parser.add_argument("--seconds-limit", type=float, default=60.0, metavar="S",
                        help="time limit per row, in seconds (default: 60)")
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE")
    chosen = parser.parse_args(arguments)
    circuits = []
    for tokens in chosen.tokens:
        print(f"{tokens} tokens ...", file=sys.stderr)
        circuits.append(compile_row(tokens, chosen.seconds_limit))
        if circuits[-1].seconds is None:
            # more tokens would take even longer
            break
    layer = layer_row(chosen.layer_tokens)
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump({"limit": chosen.seconds_limit, "circuits": [vars(row) for row in circuits],
                       "layer": vars(layer)}, file, indent=1)
    show(as_markdown(circuits, layer, chosen.seconds_limit))
    return 0
