"""The oracle: every grounding and every assignment, straight from Eq. 1-3; it calls nothing of the pipeline.

Stage: parse -> **execute**.  Paper: Eq. 1 (the MLN), Eq. 2-3 (mean field), Theorems 1-2 and the multi-class theorem.

    Smokes(x) ^ Friends(x,y) => Smokes(y)      one table of 0/1 for each grounding, one axis for each ground variable
    Eq. 3                                      the table contracted with every Q_j except the receiver's own

Slow and obvious on purpose; the groundings come from `grounding.py`.  All tensors are float64, `{predicate: tensor}`,
with one axis for each argument in the declared order, and a last axis for the labels of a multi-class predicate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import LogicMPError
from ..parse.theory import Theory
from .grounding import Ground, GroundAtom, GroundVariable, Network, Tensors, build_network, truth, variables_in
from .tensors import Weights, _logits, _probabilities, _to_tensors, _weight, _weights

# the largest table of one grounding: one entry for each assignment of its variables
MAX_TABLE = 2**22


# Eq. 2-3: mean field


def _table(formula: Ground, network: Network) -> tuple[list[GroundVariable], Tensor]:
    """phi_f of one grounding: its variables, and its truth (0 or 1) with one axis for each of them."""
    variables = list(variables_in(formula))
    shape = [network.variables[v] for v in variables]
    if math.prod(shape) > MAX_TABLE:
        raise LogicMPError(f"one grounding has {len(variables)} variables and {math.prod(shape)} assignments "
                           f"(limit {MAX_TABLE})", "use fewer constants or more evidence")

    def lookup(atom: GroundAtom) -> Any:
        axis = variables.index(atom.variable)
        values = np.isin(np.arange(shape[axis]), list(atom.values))
        return values.reshape([-1 if i == axis else 1 for i in range(len(shape))])

    table = np.broadcast_to(truth(formula, lookup), shape)
    return variables, torch.tensor(table, dtype=torch.float64)


def _expect(table: Tensor, q: Sequence[Tensor], keep: int | None = None) -> Tensor:
    """The sum over all assignments of table * prod_j Q_j(v_j); `keep` leaves out one variable and stays an axis."""
    for axis in reversed(range(len(q))):
        if axis != keep:
            table = torch.tensordot(table, q[axis], dims=([axis], [0]))
    return table


def _all_false(tables: Sequence[tuple[list[GroundVariable], Tensor]], q: Mapping[GroundVariable, Tensor]) -> Tensor:
    """The probability that factors taken as independent are all false."""
    result = torch.ones((), dtype=torch.float64)
    for variables, table in tables:
        result = result * _expect(1 - table, [q[v] for v in variables])
    return result


def mean_field_step(theory: Theory, unary: Tensors | None, q: Tensors, evidence: Tensors | None = None,
                    sizes: Mapping[str, int] | None = None, semantics: str = "exact", weights: Weights | None = None,
                    hard_weight: float = 10.0) -> dict[str, Tensor]:
    """One synchronous update of all marginals by Eq. 2-3, differentiable in `unary`, `q` and `weights`.

    >>> from logicmp import parse_theory
    >>> mean_field_step(parse_theory("A\\n2 A"), None, {"A": 0.5})["A"]
    tensor(0.8808, dtype=torch.float64)

    Args:
        q: the marginals so far; those of observed atoms are not read, excluded values should have 0.
        hard_weight: the weight of a hard rule.
    """
    network = build_network(theory, evidence, sizes, semantics)
    energy = _logits(theory, network, unary)
    marginals = _probabilities(theory, network, q)
    numbers = _weights(theory, network.sizes, weights, hard_weight)
    for grounding in network.groundings:
        weight = _weight(numbers, grounding)
        tables = [_table(factor, network) for factor in grounding.factors]
        for i, (variables, table) in enumerate(tables):
            # Theorem 1: the other literals must be false for this one to matter; nothing is left in exact semantics
            others = _all_false(tables[:i] + tables[i + 1 :], marginals)
            for axis, variable in enumerate(variables):
                # Eq. 3; for a single literal it is Theorem 1's indicator, 1 if the value makes the literal true
                message = _expect(table, [marginals[v] for v in variables], keep=axis)
                energy[variable] = energy[variable] + weight * others * message
    updated = {}
    for variable, n in network.variables.items():
        left = torch.tensor(network.possible[variable])
        updated[variable] = torch.zeros(n, dtype=torch.float64).index_put(
            (left,), torch.softmax(energy[variable][left], 0))
    return _to_tensors(theory, network.sizes, updated)


def expected_violations(theory: Theory, q: Tensors, evidence: Tensors | None = None,
                        sizes: Mapping[str, int] | None = None, semantics: str = "exact") -> Tensor:
    """V_f(q) for each rule: the expected number of its groundings, or of its clauses' groundings, that are false."""
    network = build_network(theory, evidence, sizes, semantics)
    marginals = _probabilities(theory, network, q)
    found = [torch.zeros((), dtype=torch.float64) for _ in theory.rules]
    for grounding in network.groundings:
        tables = [_table(factor, network) for factor in grounding.factors]
        found[grounding.rule] = found[grounding.rule] + grounding.share * _all_false(tables, marginals)
    return torch.stack(found) if found else torch.zeros(0, dtype=torch.float64)


def elbo(theory: Theory, unary: Tensors | None, q: Tensors, evidence: Tensors | None = None,
         sizes: Mapping[str, int] | None = None, semantics: str = "exact", weights: Weights | None = None,
         hard_weight: float = 10.0) -> Tensor:
    """E_q of the exponent of Eq. 1 plus the entropy of q: in exact semantics a lower bound of `log_partition`."""
    network = build_network(theory, evidence, sizes, semantics)
    logits = _logits(theory, network, unary)
    marginals = _probabilities(theory, network, q)
    numbers = _weights(theory, network.sizes, weights, hard_weight)
    total = torch.zeros((), dtype=torch.float64)
    for variable in network.variables:
        if variable not in network.observed:
            total = total + (logits[variable] * marginals[variable] + torch.special.entr(marginals[variable])).sum()
    for grounding in network.groundings:
        tables = [_table(factor, network) for factor in grounding.factors]
        total = total + _weight(numbers, grounding) * (1 - _all_false(tables, marginals))
    return total
