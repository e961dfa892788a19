"""Compile constraints into a circuit: exact sums and maxima over all worlds that obey the rules, batched, in torch.

Stage: ground -> **learn**.  Paper: the ACs of SL and SPL, and the table of compile times in the appendix.

    A(x) => B(x)      a sentential decision diagram: every node is a sum of products prime * sub, run level by level
    log Z(theta)      the log-weight of all worlds that obey the rules; its gradient are the marginals

A circuit may be exponentially larger than its rules: that of transitivity has 27,000 nodes over 6 tokens, 310,000 over
7, and over 8 it is not done in a minute. So there is a limit of time and one of nodes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import CostError, LogicMPError
from ..execute.inputs import Inputs, read_inputs
from ..parse.theory import Theory
from .circuit import FALSE, LITERALS, TRUE, Circuit, Level
from .cnf import Cnf, as_constraints, build_cnf, ground_constraints
from .tensors import read_potentials

# which method can, where a circuit cannot
OTHERWISE = ("without a circuit: SLrelax for a loss, the LogicMP layer for marginals, decode for an answer that obeys "
             "the rules")


class Compiled(nn.Module):
    """What semantic loss and SPL share: a circuit for each size they are called with, compiled when first needed.

    Args:
        theory: rules as text, or a `Theory`; all of them are constraints, whatever their weight.
        sizes: how many constants each type has, to compile now instead of in the first call.
        options: as for `compile_rules`.
    """

    def __init__(self, theory: Theory | str, sizes: Mapping[str, int] | None = None, **options: Any):
        super().__init__()
        self.theory = as_constraints(theory, options.pop("rules", "all"))
        self.options = options
        self._circuits: dict[tuple[tuple[str, int], ...], Circuit] = {}
        if sizes is not None:
            self.circuit(self.theory.with_sizes(sizes))

    def circuit(self, sizes: Mapping[str, int]) -> Circuit:
        """The circuit for these sizes: it prints its size, and knows the `seconds` it took."""
        key = tuple(sorted(sizes.items()))
        if key not in self._circuits:
            self._circuits[key] = compile_rules(self.theory, sizes, **self.options)
        return self._circuits[key]

    def read(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None
             ) -> tuple[Inputs, Circuit, Tensor]:
        """What was given, its circuit, and the log-probabilities of the circuit's variables."""
        inputs = read_inputs(self.theory, logits, evidence, None)
        circuit = self.circuit(inputs.sizes)
        return inputs, circuit, read_potentials(circuit.cnf.network, inputs)

    def refuse_broken(self, log_z: Tensor, inputs: Inputs, what: str) -> None:
        """Raise where no world is left, with the first rule that is broken whatever the unknown atoms are."""
        if not bool((log_z == -torch.inf).any()):
            return
        item = int((log_z == -torch.inf).nonzero()[0])
        known = {name: tensor[item] for name, tensor in {**inputs.evidence, **inputs.observed}.items()}
        # raises itself where one grounding shows it
        ground_constraints(self.theory, inputs.sizes, known)
        raise LogicMPError(f"no world obeys the rules and the {what} of item {item}",
                           f"correct the {what}, or use the LogicMP layer, where rules may be broken")

    def extra_repr(self) -> str:
        return f"{len(self.theory.rules)} rules"


# compilation


def compile_rules(theory: Theory | str, sizes: Mapping[str, int] | None = None, rules: str = "all",
                  max_seconds: float = 60.0, max_nodes: int = 1_000_000, vtree: str = "balanced",
                  minimize: bool = False) -> Circuit:
    """Compile the rules of a theory, grounded over given sizes.

    >>> circuit = compile_rules("C(a,b) ^ C(b,c) => C(a,c)", {"thing": 3})
    >>> print(circuit)
    circuit: 9 booleans, 12 clauses; 52 nodes, 118 products, 4 levels
    >>> circuit.count_models()
    171

    Args:
        rules: which rules are constraints, "all" or "hard".
        max_seconds, max_nodes: give up beyond; looked at after every clause.
        vtree: how the variables are split, "balanced" or "right".
        minimize: search for better splits on the way: smaller circuits, several times the time.
    """
    cnf = build_cnf(ground_constraints(as_constraints(theory, rules), sizes or {}, hint=OTHERWISE))
    if not cnf.clauses:
        return Circuit(cnf, (), TRUE, 0.0)
    started = time.monotonic()
    manager, root = conjoin_clauses(cnf, max_seconds, max_nodes, vtree, minimize)
    seconds = time.monotonic() - started
    if root.is_false():
        shown = "\n".join(f"  {rule}" for rule in cnf.rules())
        raise LogicMPError(f"no world obeys the rules; these cannot hold together:\n{shown}", "take one of them out")
    levels, number = _read_levels(root, manager)
    return Circuit(cnf, levels, number, seconds)


def conjoin_clauses(cnf: Cnf, max_seconds: float, max_nodes: int, vtree: str = "balanced", minimize: bool = False
                    ) -> tuple[Any, Any]:
    """The manager of a diagram, which has to outlive it, and the diagram of all clauses, one after the other."""
    try:
        from pysdd.sdd import SddManager, Vtree
    except ImportError:
        raise LogicMPError("circuits need PySDD, which is not installed",
                           f'pip install "logicmp[circuits]"; or {OTHERWISE}') from None
    if vtree not in ("balanced", "right"):
        raise LogicMPError(f"unknown vtree {vtree!r}", "known: balanced, right")
    started, order = time.monotonic(), _close_together(cnf)
    manager = SddManager.from_vtree(Vtree(cnf.n_booleans, [b + 1 for b in order], vtree))
    manager.auto_gc_and_minimize_on() if minimize else manager.auto_gc_and_minimize_off()
    place = {int(b) + 1: k for k, b in enumerate(order)}
    # the last variables first: measured on transitivity it halves the time
    todo = sorted(range(len(cnf.clauses)), key=lambda c: sorted(place[abs(x)] for x in cnf.clauses[c]), reverse=True)
    root = manager.true()
    for done, c in enumerate(todo):
        clause = manager.false()
        for literal in cnf.clauses[c]:
            clause = manager.disjoin(clause, manager.literal(literal))
        before, root = root, manager.conjoin(root, clause)
        root.ref()
        if done:
            before.deref()
        if manager.dead_count() > 10_000 + manager.live_count():
            manager.garbage_collect()
        seconds, nodes = time.monotonic() - started, manager.live_count()
        if done + 1 < len(todo) and (seconds > max_seconds or nodes > max_nodes):
            span = cnf.network.rules[cnf.rule[c]].span if cnf.rule[c] >= 0 else None
            raise CostError(f"the rules do not compile: {nodes:,} nodes (limit {max_nodes:,}) after {seconds:.1f} s "
                            f"(limit {max_seconds:g}), with {done + 1:,} of {len(todo):,} clauses; the last one is of "
                            "this rule", span, f"raise max_seconds or max_nodes; or {OTHERWISE}")
    return manager, root


def _close_together(cnf: Cnf, rounds: int = 20) -> np.ndarray:
    """An order of the booleans in which those of one clause stand close together, as FORCE finds it (Aloul 2003).

    Each round moves a boolean to the mean of its clauses; the order with the smallest spans, the given one if none is
    better, is kept.
    """
    row = np.repeat(np.arange(len(cnf.clauses)), [len(c) for c in cnf.clauses])
    column = np.array([abs(x) - 1 for clause in cnf.clauses for x in clause])
    n_in_clause = np.bincount(row)
    n_in_boolean = np.bincount(column, minlength=cnf.n_booleans)
    best, least = np.arange(cnf.n_booleans), np.inf
    place = best.astype(np.float64)
    for _ in range(rounds):
        span = float((np.maximum.reduceat(place[column], np.cumsum(n_in_clause) - n_in_clause)
                      - np.minimum.reduceat(place[column], np.cumsum(n_in_clause) - n_in_clause)).sum())
        if span < least:
            best, least = np.argsort(place, kind="stable"), span
        center = np.bincount(row, place[column]) / n_in_clause
        moved = np.bincount(column, center[row], cnf.n_booleans) / np.maximum(n_in_boolean, 1)
        order = np.argsort(np.where(n_in_boolean, moved, place), kind="stable")
        place[order] = np.arange(cnf.n_booleans)
    return best


def _read_levels(root: Any, manager: Any) -> tuple[tuple[Level, ...], int]:
    """The nodes below a diagram's root as tensors, each on the first level where all it needs is known."""
    number = {manager.true().id: TRUE, manager.false().id: FALSE}
    depth: dict[int, int] = {}
    products: dict[int, list[tuple[int, int]]] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.id in number or node.id in depth:
            continue
        if node.is_literal():
            number[node.id] = LITERALS + 2 * (abs(node.literal) - 1) + (node.literal > 0)
            continue
        if node.id not in products:
            found = node.elements()
            products[node.id] = [(prime.id, sub.id) for prime, sub in found]
            stack += [node, *(part for pair in found for part in pair)]
            continue
        depth[node.id] = 1 + max(depth.get(part, 0) for pair in products[node.id] for part in pair)
    by_depth: list[list[int]] = [[] for _ in range(max(depth.values(), default=0))]
    for key, level in depth.items():
        by_depth[level - 1].append(key)
    n = LITERALS + 2 * manager.var_count()
    levels = []
    for keys in by_depth:
        triples = [(number[p], number[s], k) for k, key in enumerate(keys) for p, s in products[key]]
        prime, sub, owner = torch.tensor(triples).unbind(1)
        levels.append(Level(prime, sub, owner, len(keys)))
        number.update({key: n + k for k, key in enumerate(keys)})
        n += len(keys)
    return tuple(levels), number[root.id]
