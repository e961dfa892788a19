"""Exact inference in the layer, where rules are narrow: a tree of labels, a tagger; evidence shared by a batch; "auto".

    python -m benchmarks narrow
    python -m benchmarks narrow --cases tree tagger --repeat 20

Every time is that of one training step on the layer alone (forward and backward), or of one call where it says so. The
baseline of the tagger is the linear-chain CRF of experiments/text; both must give the same loss before they are timed.
Processor time is measured, and cases take turns with their baselines, so that other work on the machine matters less.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from experiments.text.crf import Crf
from experiments.text.rules import allowed_transitions, load_rules
from logicmp import SPL, LogicMP, SemanticLoss
from logicmp.constrain.cnf import as_constraints
from logicmp.constrain.plans import CircuitPlan
from logicmp.execute.exact_run import read_labels

from .case import Disagreement

TREE = "*parent(label, label)\nL(label)\nparent(c, p) ^ L(c) => L(p)."
SOFT = "*parent(label, label)\nL(label)\n2 parent(c, p) ^ L(c) => L(p)"
ITEMS = "*parent(label, label)\nL(item, label)\n2 parent(c, p) ^ L(i, c) => L(i, p)"
WARM_UP = 3


@dataclass(frozen=True)
class Row:
    """One line of the table: milliseconds, the baseline's if there is one, and the target."""

    name: str
    milliseconds: float
    baseline: float | None
    target: str

    def __str__(self) -> str:
        ratio = "" if self.baseline is None else f"{self.milliseconds / self.baseline:.2f}x"
        baseline = "" if self.baseline is None else f"{self.baseline:.1f}"
        return f"| {self.name} | {self.milliseconds:.1f} | {baseline} | {ratio} | {self.target} |"


def random_forest(n: int, n_roots: int, depth: int, n_parents: int = 1, seed: int = 0) -> Tensor:
    """parent[c, p] for n labels: a forest, or with several parents per label a directed acyclic graph."""
    rng = random.Random(seed)
    parent, height = torch.zeros(n, n, dtype=torch.bool), [0] * n
    for c in range(n_roots, n):
        for _ in range(n_parents):
            p = rng.choice([p for p in (rng.randrange(c) for _ in range(20)) if height[p] < depth - 1] or [0])
            parent[c, p] = True
            height[c] = max(height[c], height[p] + 1)
    return parent


def measure(sides: Mapping[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """The median processor time of each function in milliseconds, taken in turns."""
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for k in range(WARM_UP + repeat):
        for name, side in sides.items():
            start = time.process_time()
            side()
            if k >= WARM_UP:
                samples[name].append(1e3 * (time.process_time() - start))
    return {name: statistics.median(found) for name, found in samples.items()}


def step(leaf: Tensor, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """A function that computes a loss and its gradient."""
    def run() -> None:
        leaf.grad = None
        loss().sum().backward()

    return run


def tree(repeat: int) -> list[Row]:
    """500 labels in a tree of depth 6, 64 items, a hard rule."""
    evidence = {"parent": random_forest(500, 17, 6)}
    layer = LogicMP(TREE, method="exact")
    unary = torch.randn(64, 500, requires_grad=True)
    with torch.no_grad():
        labels = layer.decode(unary, evidence)
        child, above = evidence["parent"].nonzero().T
        if bool((labels[:, child] & ~labels[:, above]).any()):
            raise Disagreement("tree: the best world violates the rule")
    found = measure({
        "output": step(unary, lambda: binary_cross_entropy_with_logits(layer(unary, evidence), labels.float())),
        "loss": step(unary, lambda: layer.loss(unary, labels, evidence)),
        "decode": lambda: layer.decode(unary, evidence)}, repeat)
    return [Row("tree of 500 labels, batch 64: BCE on the output", found["output"], None, "10 ms, beyond 2 ms"),
            Row("the same: likelihood", found["loss"], None, "10 ms, beyond 2 ms"),
            Row("the same: decode", found["decode"], None, "")]


def semantic(repeat: int) -> list[Row]:
    """The same tree in SPL and SemanticLoss, against a circuit of the same constraints."""
    evidence = {"parent": random_forest(500, 17, 6)}
    unary = torch.randn(64, 500, requires_grad=True)
    spl, semantic_loss = SPL(TREE), SemanticLoss(TREE)
    plain = CircuitPlan(spl.circuit({"label": 500}, evidence))
    inputs = spl.exact(unary, evidence).inputs
    with torch.no_grad():
        ours, theirs = spl(unary, evidence)["L"], plain.probabilities(inputs)["L"]
        labels = spl.predict(unary, evidence)
        if not torch.allclose(ours, theirs, atol=1e-4) or not torch.equal(labels["L"], plain.best(inputs)["L"]):
            raise Disagreement("semantic: tables and circuit differ")
    given = read_labels(spl.theory, labels, inputs)
    found = measure({
        "call": step(unary, lambda: spl(unary, evidence)["L"].square()),
        "circuit call": step(unary, lambda: plain.probabilities(inputs)["L"].square()),
        "loss": step(unary, lambda: spl.loss(unary, labels, evidence)),
        "circuit loss": step(unary, lambda: plain.loss(inputs, (), given)),
        "predict": lambda: spl.predict(unary, evidence), "circuit predict": lambda: plain.best(inputs),
        "semantic": step(unary, lambda: semantic_loss(unary, evidence)),
        "circuit semantic": step(unary, lambda: plain.log_p(inputs))}, repeat)
    names = {"call": "SPL, tree of 500 labels, batch 64: probabilities, against a circuit", "loss": "the same: loss",
             "predict": "the same: predict", "semantic": "the same: SemanticLoss"}
    return [Row(text, found[name], found[f"circuit {name}"], "10 ms" if name == "call" else "")
            for name, text in names.items()]


def tagger(repeat: int) -> list[Row]:
    """A BIOES tagger: 17 labels, 32 sentences of 25 to 50 words."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(25, 51, (32,), generator=generator)
    lengths[0] = 50
    mask = torch.arange(50) < lengths.unsqueeze(1)
    unary = torch.randn(32, 50, 17, generator=generator).requires_grad_()
    # the transitions of the rules, and nothing about start and end
    allowed = allowed_transitions()
    allowed[-1], allowed[:, -1] = True, True
    crf, layer = Crf(17, allowed), LogicMP(as_constraints(load_rules("adj")), method="exact")
    soft = LogicMP(load_rules("adj"), method="exact")
    with torch.no_grad():
        labels = layer.decode(unary, mask=mask)
        ours, theirs = layer.loss(unary, labels, mask=mask), crf.loss(unary, labels, lengths)
        # a forbidden transition of the CRF has the score -10,000
        if not torch.allclose(ours, theirs, atol=0.05, rtol=1e-3) or not torch.equal(labels, crf.best(unary, lengths)):
            raise Disagreement(f"tagger: losses {ours[:3].tolist()} and {theirs[:3].tolist()}")
    found = measure({
        "crf": step(unary, lambda: crf.loss(unary, labels, lengths)),
        "loss": step(unary, lambda: soft.loss(unary, labels, mask=mask)),
        "output": step(unary, lambda: soft(unary, mask=mask).logsumexp(-1)),
        "decode": lambda: soft.decode(unary, mask=mask), "viterbi": lambda: crf.best(unary, lengths)}, repeat)
    return [Row("BIOES tagger, 32 x 50 words: likelihood, against the CRF", found["loss"], found["crf"],
                "1.5x, beyond 1.0x"),
            Row("the same: marginals", found["output"], found["crf"], ""),
            Row("the same: decode, against Viterbi", found["decode"], found["viterbi"], "")]


def shared(repeat: int) -> list[Row]:
    """Mean field with evidence that all items share, against the same rule with items as a type."""
    parent = random_forest(500, 17, 6)
    batch, items = LogicMP(SOFT, schedule="paper"), LogicMP(ITEMS, schedule="paper")
    unary = torch.randn(64, 500, requires_grad=True)
    with torch.no_grad():
        if not torch.allclose(batch(unary, {"parent": parent}), items(unary, {"parent": parent}), atol=1e-4):
            raise Disagreement("shared: the two forms of the rule differ")
    found = measure({
        "items": step(unary, lambda: items(unary, {"parent": parent})),
        "bool": step(unary, lambda: batch(unary, {"parent": parent})),
        "float": step(unary, lambda: batch(unary, {"parent": parent.float()}))}, repeat)
    return [Row(f"mean field, 500 labels, batch 64, {kind} evidence: batch form against items as a type", found[kind],
                found["items"], "1.2x, beyond 1.0x") for kind in ("bool", "float")]


def graph(repeat: int) -> list[Row]:
    """Mean field over a directed acyclic graph of 4,100 labels, as a dense matrix."""
    evidence = {"parent": random_forest(4100, 1, 13, n_parents=2)}
    layer = LogicMP(SOFT, schedule="paper")
    unary = torch.randn(4, 4100)
    leaf = unary.clone().requires_grad_()

    def call() -> None:
        with torch.no_grad():
            layer(unary, evidence)

    found = measure({"call": call, "step": step(leaf, lambda: layer(leaf, evidence))}, repeat)
    return [Row("mean field, DAG of 4,100 labels, batch 4", found["step"], None, "20 ms, beyond 5 ms"),
            Row("the same: one call", found["call"], None, "")]


def auto(repeat: int) -> list[Row]:
    """Method "auto" against mean field: inputs that are too wide, and evidence that is new in every call."""
    transitive, linked = "2 C(a,b) ^ C(b,c) => C(a,c)", "*E(x, x)\nL(x)\n1 E(a, b) ^ L(a) => L(b)"
    cases: list[tuple[str, str, tuple[int, ...], tuple[int, ...] | None]] = [
        *((f"transitivity, {n} elements", transitive, (n, n), None) for n in (3, 128, 512)),
        ("links of 200 nodes, new in every call", linked, (200,), (200, 200)),
        ("the same, batch 32, 30 nodes, links of each item", linked, (32, 30), (32, 30, 30))]
    rows = []
    for name, rules, shape, links in cases:
        unary = torch.randn(shape)
        sides: dict[str, Callable[[], object]] = {}
        for method in ("mean-field", "auto"):
            layer = LogicMP(rules, method=method)

            def call(layer: LogicMP = layer, unary: Tensor = unary, links: tuple[int, ...] | None = links) -> None:
                layer(unary, None if links is None else {"E": torch.rand(links) < 1.2 / links[-1]})

            sides[method] = call
        with torch.no_grad():
            found = measure(sides, repeat)
        rows.append(Row(f"auto against mean field: {name}", found["auto"], found["mean-field"], ""))
    return rows


CASES: dict[str, Callable[[int], list[Row]]] = {
    "tree": tree, "semantic": semantic, "tagger": tagger, "shared": shared, "graph": graph, "auto": auto}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks narrow", description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE",
                        help=f"which cases to run: {', '.join(CASES)} (default: all)")
    parser.add_argument("--repeat", type=int, default=15, help="samples per median (default: 15)")
    chosen = parser.parse_args(arguments)
    torch.manual_seed(0)
    print("| case | ms | baseline, ms | ratio | target |\n|---|--:|--:|--:|---|")
    for name in chosen.cases:
        for row in CASES[name](chosen.repeat):
            print(row, flush=True)
    return 0
