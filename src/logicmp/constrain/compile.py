"""Compile rules into a circuit with PySDD.

Room: cnf, circuit -> **compile** -> losses.  Paper: the table of compile times in the appendix.

    C(a,b) ^ C(b,c) => C(a,c)      tokens     6         7          8
                                   nodes      27,000    310,000    not compiled within a minute

A circuit may be exponentially larger than its rules, so compiling has a limit on time and one on nodes.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from ..arguments import AtLeastOne, NotNegative, Sizes, checked
from ..errors import CostError, LogicMPError
from ..limits import need
from ..parse.theory import Theory
from .circuit import FALSE, LITERALS, TRUE, Circuit, Level
from .cnf import Cnf, as_constraints, build_cnf, ground_constraints

# alternatives for rules that do not compile
OTHERWISE = ("without a circuit: SLrelax for a loss, the LogicMP layer for marginals, decode for an answer that "
             "satisfies the rules")


@checked
def compile_rules(theory: Theory | str, sizes: Sizes | None = None, rules: str = "all",
                  max_seconds: NotNegative = 60.0, max_nodes: AtLeastOne = 1_000_000, vtree: str = "balanced",
                  minimize: bool = False) -> Circuit:
    """Compile the rules of a theory into a circuit, for counts, sums, maxima and marginals over worlds.

    >>> circuit = compile_rules("C(a,b) ^ C(b,c) => C(a,c)", {"thing": 3})
    >>> print(circuit)
    circuit: 9 booleans, 12 clauses; 52 nodes, 118 products, 4 levels
    >>> circuit.count_models()
    171

    Args:
        theory: rules as text, or a `Theory`; each rule is a constraint, and weights do not count.
        sizes: number of constants by type; default: as many as the theory declares.
        rules: which rules are constraints: "all", or "hard" for those that end with a full stop.
        max_seconds: time limit in seconds, at least 0, checked after every clause.
        max_nodes: limit on the nodes of the circuit, at least 1, checked after every clause.
        vtree: how the circuit splits its variables: "balanced" or "right".
        minimize: search for better splits while compiling: a smaller circuit, but several times slower to compile.

    Returns:
        The circuit; `print` shows its size.

    Raises:
        CostError: a limit is reached; the error shows the rule.
        LogicMPError: PySDD is not installed, or no world satisfies the rules.
    """
    cnf = build_cnf(ground_constraints(as_constraints(theory, rules), sizes or {}, hint=OTHERWISE))
    if not cnf.clauses:
        return Circuit(cnf, (), TRUE, 0.0)
    started = time.monotonic()
    manager, root = conjoin_clauses(cnf, max_seconds, max_nodes, vtree, minimize)
    seconds = time.monotonic() - started
    if root.is_false():
        shown = "\n".join(f"  {rule}" for rule in cnf.rules())
        raise LogicMPError(f"no world satisfies the rules; these cannot all be satisfied:\n{shown}",
                           "remove one of them")
    levels, number = _read_levels(root, manager)
    return Circuit(cnf, levels, number, seconds)


def conjoin_clauses(cnf: Cnf, max_seconds: float, max_nodes: int, vtree: str = "balanced", minimize: bool = False
                    ) -> tuple[Any, Any]:
    """The conjunction of all clauses as a diagram, after its manager, which must outlive it."""
    need("pysdd", "circuits", "a circuit", OTHERWISE)
    from pysdd.sdd import SddManager, Vtree

    if vtree not in ("balanced", "right"):
        raise LogicMPError(f"vtree must be 'balanced' or 'right', got {vtree!r}")
    started, order = time.monotonic(), _close_together(cnf)
    manager = SddManager.from_vtree(Vtree(cnf.n_booleans, [b + 1 for b in order], vtree))
    manager.auto_gc_and_minimize_on() if minimize else manager.auto_gc_and_minimize_off()
    place = {int(b) + 1: k for k, b in enumerate(order)}
    # the last variables first: this halves the time for transitivity
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
                            f"(limit {max_seconds:g}), with {done + 1:,} of {len(todo):,} clauses; the last one comes "
                            "from this rule", span, f"raise max_seconds or max_nodes; or {OTHERWISE}")
    return manager, root


def _close_together(cnf: Cnf, rounds: int = 20) -> np.ndarray:
    """An order of the booleans in which those of one clause are close together, by FORCE (Aloul 2003).

    Each round moves a boolean to the mean of its clauses. The order with the smallest total span is kept.
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
    """The nodes below a diagram's root as tensors, each on the level after the last of its parts."""
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
