"""A circuit of rules: sums and maxima over all worlds that satisfy them, batched and differentiable.

Room: cnf -> **circuit** -> compile, losses.  Paper: the arithmetic circuits of SL and SPL.

    A(x) => B(x)      a sentential decision diagram: every node is a sum of products prime * sub, run level by level
    log Z(theta)      the log-weight of all worlds that satisfy the rules; its gradients are the marginals
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from .cnf import Cnf

# indices of the constants in the values of a circuit; literals follow, !b at 2 + 2b and b at 3 + 2b
TRUE, FALSE, LITERALS = 0, 1, 2


@dataclass(frozen=True)
class Level:
    """Nodes that depend on earlier levels only: sums of products of two values, one entry for each product."""

    prime: Tensor
    sub: Tensor
    # the node of the level that a product belongs to
    owner: Tensor
    n_nodes: int

    def to(self, device: torch.device) -> Level:
        return Level(self.prime.to(device), self.sub.to(device), self.owner.to(device), self.n_nodes)


@dataclass(frozen=True, eq=False)
class Circuit:
    """Compiled rules. `potentials` are log-weights of the values of the network's variables, [batch, values].

    A node leaves out variables that do not matter to it. Log-weights are relative to the contribution of such a
    variable (the sum, or the maximum, of its two), so that a missing variable adds 0.
    """

    cnf: Cnf
    levels: tuple[Level, ...]
    root: int
    # compile time
    seconds: float

    @property
    def n_nodes(self) -> int:
        return sum(level.n_nodes for level in self.levels)

    @property
    def n_products(self) -> int:
        return sum(len(level.owner) for level in self.levels)

    def __str__(self) -> str:
        return (f"circuit: {self.cnf.n_booleans:,} booleans, {len(self.cnf.clauses):,} clauses; {self.n_nodes:,} "
                f"nodes, {self.n_products:,} products, {len(self.levels)} levels")

    def count_models(self) -> int:
        """How many worlds satisfy the rules, as an exact integer."""
        half = Fraction(1, 2)
        values = [Fraction(1), Fraction(0), *[half] * (2 * self.cnf.n_booleans)]
        for level in self.levels:
            sums = [Fraction(0)] * level.n_nodes
            for prime, sub, owner in zip(level.prime.tolist(), level.sub.tolist(), level.owner.tolist(), strict=True):
                sums[owner] += values[prime] * values[sub]
            values += sums
        return int(values[self.root] * 2**self.cnf.n_booleans)

    def log_z(self, potentials: Tensor) -> Tensor:
        """The log-weight of all worlds that satisfy the rules, [batch]; -inf where evidence violates them."""
        pairs = self._pairs(potentials)
        free = torch.logsumexp(pairs, -1, keepdim=True)
        return self._run(pairs - free, _log_sum)[self.root] + free.sum((1, 2))

    def marginals(self, potentials: Tensor) -> Tensor:
        """The probability of each value given the rules, [batch, values]: the gradient of log Z; differentiable."""
        at = potentials if potentials.requires_grad else potentials.detach().requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(self.log_z(at).sum(), at, create_graph=potentials.requires_grad)
        return slope

    @torch.no_grad()
    def best(self, potentials: Tensor) -> tuple[Tensor, Tensor]:
        """The best world that satisfies the rules: its values, [batch, variables], and its log-weight, [batch].

        If several worlds are best, it is one of them; if there is none, the log-weight is -inf.
        """
        device, potentials = potentials.device, potentials.cpu()
        pairs = self._pairs(potentials)
        free = pairs.amax(-1, keepdim=True)
        values = self._run(pairs - free, _segment_max)
        # from the root down: of each chosen node, the first of its best products
        taken = torch.zeros(values.shape, dtype=torch.bool)
        taken[self.root] = True
        first = len(values)
        for level in reversed(self.levels):
            first -= level.n_nodes
            products = values[level.prime] + values[level.sub]
            is_best = products == values[first : first + level.n_nodes][level.owner]
            # the first index among equals is the largest when counted from the end
            numbers = torch.arange(len(products), 0, -1)[:, None] * is_best
            chosen = len(products) - _segment_max(numbers.double(), level).long()
            node, item = taken[first : first + level.n_nodes].nonzero(as_tuple=True)
            taken[level.prime[chosen[node, item]], item] = True
            taken[level.sub[chosen[node, item]], item] = True
        is_false, is_true = (taken[LITERALS + k : LITERALS + 2 * self.cnf.n_booleans : 2].T for k in (0, 1))
        truth = is_true | (~is_false & (pairs[..., 1] > pairs[..., 0]))
        return self.cnf.values(truth).to(device), (values[self.root] + free.sum((1, 2))).to(device)

    def _pairs(self, potentials: Tensor) -> Tensor:
        """The log-weights of every boolean, false and true, [batch, booleans, 2]."""
        padded = torch.cat([potentials, potentials.new_zeros(len(potentials), 1)], 1)
        return padded[:, torch.from_numpy(self.cnf.place)]

    def _run(self, pairs: Tensor, add: Callable[[Tensor, Level], Tensor]) -> Tensor:
        """The values of constants and literals, then of all nodes, [values, batch]."""
        constants = pairs.new_tensor([0.0, -torch.inf]).unsqueeze(-1).expand(2, len(pairs))
        values = torch.cat([constants, pairs.flatten(1).T])
        for level in (level.to(values.device) for level in self.levels):
            products = values.index_select(0, level.prime) + values.index_select(0, level.sub)
            values = torch.cat([values, add(products, level)])
        return values


def _segment_max(products: Tensor, level: Level) -> Tensor:
    """The largest product of each node, [nodes, batch]."""
    lowest = products.new_full((level.n_nodes, products.shape[1]), -torch.inf)
    return lowest.scatter_reduce(0, level.owner.unsqueeze(-1).expand_as(products), products, "amax")


def _log_sum(products: Tensor, level: Level) -> Tensor:
    """log sum exp of the products of each node, -inf if none is possible, without NaN in the gradient."""
    top = _segment_max(products.detach(), level)
    top = torch.where(top == -torch.inf, torch.zeros_like(top), top)
    total = torch.zeros_like(top).index_add(0, level.owner, torch.exp(products - top.index_select(0, level.owner)))
    is_possible = total > 0
    logs = torch.log(torch.where(is_possible, total, torch.ones_like(total)))
    return torch.where(is_possible, logs + top, torch.full_like(logs, -torch.inf))
