"""Rules as constraints: a CNF over booleans.

Room: ground -> **cnf** -> compile, cluster, decoding.

    C(a,b) ^ C(b,c) => C(a,c)      clause  !C(A,B) v !C(B,C) v C(A,C)   for each grounding
    label(i) in {B, I, O}          three booleans, exactly one of which is true

Every rule is a constraint, whatever its weight; with `rules="hard"` only the rules that end with a full stop are.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..errors import CostError, LogicMPError, RuleError
from ..execute.inputs import read_inputs
from ..execute.worlds import world_from_tensors
from ..facts.world import with_sizes
from ..ground.build import build_network
from ..ground.network import HARD, Network
from ..parse.load import parse_theory
from ..parse.theory import Theory


def as_constraints(theory: Theory | str, rules: str = "all") -> Theory:
    """The theory with its rules as hard rules.

    >>> print(*as_constraints("2 C(a,b) ^ C(b,c) => C(a,c)").rules)
    C(a, b) ^ C(b, c) => C(a, c).
    """
    theory = parse_theory(theory) if isinstance(theory, str) else theory
    if rules not in ("all", "hard"):
        raise LogicMPError(f"rules must be 'all' or 'hard', got {rules!r}")
    chosen = [rule for rule in theory.rules if rules == "all" or rule.is_hard]
    for rule in chosen:
        if not rule.is_hard and rule.weight is not None and rule.weight <= 0:
            raise RuleError(f"a rule with weight {rule.weight:g} is not a constraint", rule.span,
                            "negate the formula; or use rules='hard'; or use the LogicMP layer, which accepts every "
                            "weight")
    if not chosen:
        raise LogicMPError("the theory has no rule that is a constraint" + (
            ": none ends with a full stop" if theory.rules else ""), "add one, or use rules='all'")
    return replace(theory, rules=tuple(replace(rule, is_hard=True, weight=None) for rule in chosen))


def ground_constraints(theory: Theory, sizes: Mapping[str, int], evidence: Mapping[str, Tensor] | None = None,
                       unary: Mapping[str, Tensor] | None = None, hint: str | None = None) -> Network:
    """The ground network of constraints; `hint` replaces the hint of the error for too many groundings."""
    try:
        return build_network(world_from_tensors(with_sizes(theory, sizes), unary, evidence))
    except CostError as cause:
        raise CostError(cause.message, cause.span, hint or cause.hint) from None


def read_evidence(theory: Theory, sizes: Mapping[str, int], evidence: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Evidence without batch, checked, as 1, 0 and NaN for unobserved atoms."""
    known = with_sizes(theory, sizes)
    zeros = {p.name: torch.zeros(p.shape(known.sizes), dtype=torch.float64) for p in known.predicates}
    inputs = read_inputs(known, zeros, evidence, None, known.sizes) if evidence else None
    if inputs is not None and inputs.batch:
        raise LogicMPError(f"the evidence of a circuit has batch dimensions {list(inputs.batch)}; expected none",
                           "compile one circuit for each item")
    return {} if inputs is None else {name: x[0] for name, x in {**inputs.evidence, **inputs.observed}.items()}


@dataclass(frozen=True)
class Cnf:
    """Constraints over booleans: one for a variable of two values, one for each value of any other."""

    network: Network
    # by boolean: its variable and its value
    variable: np.ndarray
    value: np.ndarray
    # by boolean: indices of its log-weights in the potentials, false and true; the index after the last means 0
    place: np.ndarray
    # boolean b is written b + 1, and -b - 1 where it is negated
    clauses: list[tuple[int, ...]]
    # the rule of each clause, -1 for clauses that give a variable exactly one value
    rule: list[int]

    @property
    def n_booleans(self) -> int:
        return len(self.variable)

    def values(self, truth: Tensor) -> Tensor:
        """The values of the variables, [batch, variables], from booleans, [batch, booleans]."""
        found = torch.zeros(len(truth), len(self.network.cards), dtype=torch.long)
        return found.index_add_(1, torch.from_numpy(self.variable), truth.long() * torch.from_numpy(self.value))


def build_cnf(network: Network) -> Cnf:
    """The hard features of a network as clauses: a clause is the negation of a feature, which is a conjunction.

    >>> build_cnf(ground_constraints(as_constraints("A => B"), {})).clauses
    [(-1, 2)]
    """
    n = np.where(network.cards == 2, 1, network.cards)
    first = np.cumsum(n) - n
    variable = np.repeat(np.arange(len(n)), n)
    is_binary = network.cards[variable] == 2
    value = np.where(is_binary, 1, np.arange(len(variable)) - first[variable])
    start = network.starts[variable]
    place = np.stack([np.where(is_binary, start, len(network.potentials)), start + value], -1)
    clauses, rule = [], []
    for v in np.flatnonzero(network.cards > 2).tolist():
        own = range(int(first[v]) + 1, int(first[v] + n[v]) + 1)
        found = [tuple(own), *((-a, -b) for a, b in itertools.combinations(own, 2))]
        clauses += found
        rule += [-1] * len(found)
    members, cards = network.sets.members, network.sets.cards
    for f in np.flatnonzero(network.param == HARD).tolist():
        clause: list[int] = []
        for j in range(network.begins[f], network.begins[f + 1]):
            k, boolean = network.set[j], int(first[network.var[j]]) + 1
            if cards[k] == 2:
                clause.append(-boolean if 1 in members[k] else boolean)
            else:
                clause += [boolean + other for other in range(cards[k]) if other not in members[k]]
        clauses.append(tuple(clause))
        rule.append(int(network.rule[f]))
    return Cnf(network, variable, value, place, clauses, rule)
