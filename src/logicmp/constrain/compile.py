"""Compile rules into a circuit with PySDD.

Room: cnf, circuit -> **compile** -> losses.  Paper: the table of compile times in the appendix.

    C(a,b) ^ C(b,c) => C(a,c)      tokens     6         7          8
                                   nodes      27,000    310,000    not compiled within a minute

A circuit may be exponentially larger than its rules, so compiling has a limit on time and one on nodes. Evidence comes
first: observed atoms are no variables. The order of variables comes from the graph of the rules, and the splits of the
circuit are improved while it grows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arguments import AtLeastOne, NotNegative, Sizes, checked
from ..errors import CostError, LogicMPError
from ..execute.worlds import fact_tensors
from ..ground.network import MAX_LITERALS
from ..ground.order import eliminate
from ..ground.propagate import contradiction
from ..limits import need
from ..parse.theory import Theory
from .circuit import FALSE, LITERALS, TRUE, Circuit, Level
from .cnf import Cnf, as_constraints, build_cnf, ground_constraints, read_evidence

# ways out for rules that do not compile
OTHERWISE = "SLrelax for a loss, the LogicMP layer for marginals, decode for an answer that satisfies the rules"
# a circuit with fewer, or with more, nodes is not searched for better splits; seconds of one search; share of the time
FEW_NODES, MANY_NODES = 10_000, 200_000
SEARCH_SECONDS = 1
SEARCH_SHARE = 0.3


@checked
def compile_rules(theory: Theory | str, sizes: Sizes | None = None, rules: str = "all",
                  max_seconds: NotNegative = 60.0, max_nodes: AtLeastOne = 1_000_000, vtree: str = "balanced",
                  minimize: bool = True, evidence: Mapping[str, Tensor] | None = None) -> Circuit:
    """Compile the rules of a theory into a circuit, for counts, sums, maxima and marginals over worlds.

    >>> circuit = compile_rules("C(a,b) ^ C(b,c) => C(a,c)", {"thing": 3})
    >>> print(circuit)
    circuit: 9 booleans, 12 clauses; 46 nodes, 106 products, 4 levels
    >>> circuit.count_models()
    171

    Args:
        theory: rules as text, or a `Theory`; each rule is a constraint, and weights do not count.
        sizes: number of constants by type; default: as many as the theory declares.
        rules: which rules are constraints: "all", or "hard" for those that end with a full stop.
        max_seconds: time limit in seconds, at least 0, checked after every clause.
        max_nodes: limit on the nodes of the circuit, at least 1, checked after every clause.
        vtree: how the circuit splits its variables: "balanced" or "right" (fewer nodes for chains and trees, but more
            levels, so it runs longer).
        minimize: search for better splits whenever the circuit has doubled, from 10,000 to 200,000 nodes: a smaller
            circuit, in up to one and a half times the time.
        evidence: observed atoms by predicate, without batch: bool tensors, or floats with NaN for unobserved atoms.
            They are no variables of the circuit.

    Returns:
        The circuit; `print` shows its size.

    Raises:
        CostError: a limit is reached; the error shows the rule.
        LogicMPError: PySDD is not installed, or no world satisfies the rules.
    """
    constraints, facts = as_constraints(theory, rules).split_facts()
    known = read_evidence(constraints, sizes or {}, {**fact_tensors(constraints, facts), **(evidence or {})})
    try:
        cnf = build_cnf(ground_constraints(constraints, sizes or {}, known, hint=f"use {OTHERWISE}"))
        return compile_cnf(cnf, max_seconds, max_nodes, vtree, minimize)
    except CostError as cause:
        raise CostError(cause.message, cause.span, "for chains and trees use LogicMP(theory, method='exact'), SPL or "
                        f"SemanticLoss, which need no circuit; or {cause.hint}") from None


def compile_cnf(cnf: Cnf, max_seconds: float, max_nodes: int, vtree: str = "balanced", minimize: bool = True
                ) -> Circuit:
    """Compile clauses into a circuit; the options are those of `compile_rules`."""
    if not cnf.clauses:
        return Circuit(cnf, (), TRUE, 0.0)
    started = time.monotonic()
    manager, root = conjoin_clauses(cnf, max_seconds, max_nodes, vtree, minimize)
    seconds = time.monotonic() - started
    if root.is_false():
        raise contradiction(cnf.network)
    levels, number = _read_levels(root, manager)
    return Circuit(cnf, levels, number, seconds)


def conjoin_clauses(cnf: Cnf, max_seconds: float, max_nodes: int, vtree: str = "balanced", minimize: bool = True
                    ) -> tuple[Any, Any]:
    """The conjunction of all clauses as a diagram, after its manager, which must outlive it."""
    need("pysdd", "circuits", "a circuit", f"use {OTHERWISE}")
    from pysdd.sdd import SddManager, Vtree

    if vtree not in ("balanced", "right"):
        raise LogicMPError(f"vtree must be 'balanced' or 'right', got {vtree!r}")
    started, order = time.monotonic(), depth_first(cnf)
    manager = SddManager.from_vtree(Vtree(cnf.n_booleans, [b + 1 for b in order], vtree))
    manager.auto_gc_and_minimize_off()
    for limit in ("search", "fragment", "operation", "apply"):
        getattr(manager, f"set_vtree_{limit}_time_limit")(SEARCH_SECONDS)
    place = {int(b) + 1: k for k, b in enumerate(order)}
    # the last variables first: this halves the time for transitivity
    todo = sorted(range(len(cnf.clauses)), key=lambda c: sorted(place[abs(x)] for x in cnf.clauses[c]), reverse=True)
    root, most, searched = manager.true(), FEW_NODES, 0.0
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
        nodes, seconds = manager.live_count(), time.monotonic() - started
        if minimize and most < nodes < MANY_NODES and searched <= SEARCH_SHARE * seconds:
            manager.minimize_limited()
            nodes, before_search, seconds = manager.live_count(), seconds, time.monotonic() - started
            searched += seconds - before_search
            most = max(FEW_NODES, 2 * nodes)
        if done + 1 < len(todo) and (seconds > max_seconds or nodes > max_nodes):
            span = cnf.network.rules[cnf.rule[c]].span if cnf.rule[c] >= 0 else None
            other = "" if minimize else "use minimize=True; "
            raise CostError(f"the rules do not compile: {nodes:,} nodes (limit {max_nodes:,}) after {seconds:.1f} s "
                            f"(limit {max_seconds:g}), with {done + 1:,} of {len(todo):,} clauses; the last one comes "
                            "from this rule", span, f"{other}give evidence for observed atoms, which are then no "
                            f"variables; raise max_seconds or max_nodes; or use {OTHERWISE}")
    return manager, root


def depth_first(cnf: Cnf) -> np.ndarray:
    """The booleans in the order of a depth-first walk through the tree in which variables would be summed out.

    A variable is summed out before the neighbours that it has then, and hangs below the first of them. In a tree of
    rules, this is the order of a depth-first walk from its root; for other rules, atoms of one clause stay close.
    """
    n = len(cnf.network.cards)
    scopes = {tuple(sorted({int(cnf.variable[abs(x) - 1]) for x in clause})) for clause in cnf.clauses}
    # a long clause would connect everything, but costs little in any order
    near = [list(scope) for scope in sorted(scopes) if len(scope) <= MAX_LITERALS]
    scope = eliminate([2] * n, near, np.zeros(n, dtype=np.int64), 0, 2 ** (n + 2) * n).scope
    place = {v: k for k, v in enumerate(scope)}
    below: dict[int, list[int]] = {v: [] for v in scope}
    size = dict.fromkeys(scope, 1)
    roots = []
    for v, others in scope.items():
        if others:
            above = min(others, key=place.__getitem__)
            below[above].append(v)
            size[above] += size[v]
        else:
            roots.append(v)
    found, stack = [], roots[::-1]
    while stack:
        v = stack.pop()
        found.append(v)
        # small parts first, so that few variables are open at any place
        stack += sorted(below[v], key=lambda u: -size[u])
    return np.argsort(np.argsort(found)[cnf.variable], kind="stable")


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
