"""Mean field by loops over all groundings and assignments: one step, expected violations, the ELBO.

Room: grounding, tensors -> **mean_field**.  Paper: Eq. 2-3, Theorems 1-2 and the multi-class theorem.

    Smokes(x) ^ Friends(x,y) => Smokes(y)      one table of 0/1 for each grounding, one axis for each ground variable
    Eq. 3                                      the table contracted with every Q_j except the receiver's own
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
from .grounding import Ground, GroundAtom, GroundTheory, GroundVariable, Tensors, ground_theory, truth, variables_in
from .tensors import Weights, read_logits, read_marginals, read_weights, to_tensors, weight_of

# the largest table of one grounding: one entry for each assignment of its variables
MAX_TABLE = 2**22


def _table(formula: Ground, ground: GroundTheory) -> tuple[list[GroundVariable], Tensor]:
    """phi_f of one grounding: its variables, and its truth (0 or 1) with one axis for each of them."""
    variables = list(variables_in(formula))
    shape = [ground.variables[v] for v in variables]
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
    """The sum over all assignments of table * prod_j Q_j(v_j); `keep` is an axis that is not summed over."""
    for axis in reversed(range(len(q))):
        if axis != keep:
            table = torch.tensordot(table, q[axis], dims=([axis], [0]))
    return table


def _all_false(tables: Sequence[tuple[list[GroundVariable], Tensor]], q: Mapping[GroundVariable, Tensor]) -> Tensor:
    """The probability that all factors are false, as if they were independent."""
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
        theory, unary, evidence, sizes, semantics, weights: as for `log_partition`.
        q: the current marginals; those of observed atoms and excluded values are ignored.
        hard_weight: finite weight that stands in for a hard rule.
    """
    ground = ground_theory(theory, evidence, sizes, semantics)
    energy = read_logits(theory, ground, unary)
    marginals = read_marginals(theory, ground, q)
    numbers = read_weights(theory, ground.sizes, weights, hard_weight)
    for grounding in ground.groundings:
        weight = weight_of(numbers, grounding)
        tables = [_table(factor, ground) for factor in grounding.factors]
        for i, (variables, table) in enumerate(tables):
            # Theorem 1: this literal matters where the others are false; in exact semantics there are no others
            others = _all_false(tables[:i] + tables[i + 1 :], marginals)
            for axis, variable in enumerate(variables):
                # Eq. 3; for a single literal it is Theorem 1's indicator, 1 if the value makes the literal true
                message = _expect(table, [marginals[v] for v in variables], keep=axis)
                energy[variable] = energy[variable] + weight * others * message
    updated = {}
    for variable, n in ground.variables.items():
        left = torch.tensor(ground.possible[variable])
        updated[variable] = torch.zeros(n, dtype=torch.float64).index_put(
            (left,), torch.softmax(energy[variable][left], 0))
    return to_tensors(theory, ground.sizes, updated)


def expected_violations(theory: Theory, q: Tensors, evidence: Tensors | None = None,
                        sizes: Mapping[str, int] | None = None, semantics: str = "exact") -> Tensor:
    """V_f(q) for each rule: the expected number of violated groundings of the rule or of its clauses."""
    ground = ground_theory(theory, evidence, sizes, semantics)
    marginals = read_marginals(theory, ground, q)
    found = [torch.zeros((), dtype=torch.float64) for _ in theory.rules]
    for grounding in ground.groundings:
        tables = [_table(factor, ground) for factor in grounding.factors]
        found[grounding.rule] = found[grounding.rule] + grounding.share * _all_false(tables, marginals)
    return torch.stack(found) if found else torch.zeros(0, dtype=torch.float64)


def elbo(theory: Theory, unary: Tensors | None, q: Tensors, evidence: Tensors | None = None,
         sizes: Mapping[str, int] | None = None, semantics: str = "exact", weights: Weights | None = None,
         hard_weight: float = 10.0) -> Tensor:
    """E_q of the exponent of Eq. 1 plus the entropy of q; in exact semantics at most `log_partition`."""
    ground = ground_theory(theory, evidence, sizes, semantics)
    logits = read_logits(theory, ground, unary)
    marginals = read_marginals(theory, ground, q)
    numbers = read_weights(theory, ground.sizes, weights, hard_weight)
    total = torch.zeros((), dtype=torch.float64)
    for variable in ground.variables:
        if variable not in ground.observed:
            total = total + (logits[variable] * marginals[variable] + torch.special.entr(marginals[variable])).sum()
    for grounding in ground.groundings:
        tables = [_table(factor, ground) for factor in grounding.factors]
        total = total + weight_of(numbers, grounding) * (1 - _all_false(tables, marginals))
    return total
