"""Sums over the worlds that satisfy constraints: by the tables of exact inference, or by a circuit.

Room: execute, cnf, circuit, compile, tensors -> **plans** -> losses.

    chains, trees        tables, as in LogicMP(method="exact"): a few tensor operations for the whole batch
    wide, with structure a circuit: transitivity over 5 tokens has tables of 2**17 cells, and a circuit of 2,420 nodes

Both are planned after the evidence that the items of a batch share, and kept. Observed atoms are no variables.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from ..errors import CostError
from ..execute.exact import ExactPlan, reject_impossible
from ..execute.exact_run import ExactPlans, Part
from ..execute.inputs import Inputs
from ..execute.values import as_evidence, read_potentials, write_marginals, write_values
from ..parse.theory import Theory
from .circuit import Circuit
from .cnf import build_cnf
from .compile import OTHERWISE, compile_cnf

# tables with fewer cells per item are used without asking whether a circuit is smaller
FEW_CELLS = 2**14
# rules with more groundings take long to compile: tables are used if they are not too wide
MANY_CLAUSES = 2**14


class TablePlan(ExactPlan):
    """Exact inference by tables, for constraints; `print` shows its width and its cost.

    Args:
        theory: the constraints.
        sizes: number of entities by type.
        known: observed atoms that all items share, by predicate, without batch: 1, 0, NaN for unobserved.
    """

    def __init__(self, theory: Theory, sizes: Mapping[str, int], known: Mapping[str, Tensor]):
        super().__init__(theory, sizes, known)
        self._free = ExactPlan(replace(theory, rules=()), sizes, known)

    def log_p(self, inputs: Inputs) -> Tensor:
        """The log-probability that independent atoms satisfy the constraints, [batch]."""
        # a small difference of large sums: in double precision
        wide = replace(inputs, unary={name: x.double() for name, x in inputs.unary.items()})
        return (self.log_z(wide, ()) - self._free.log_z(wide, ())).to(inputs.like.dtype)


class CircuitPlan:
    """A circuit with the methods of a `TablePlan`; there are no weights.

    Args:
        circuit: the compiled constraints, after the evidence that all items share.
    """

    def __init__(self, circuit: Circuit):
        self.circuit, self.network = circuit, circuit.cnf.network

    def __str__(self) -> str:
        return str(self.circuit)

    def log_p(self, inputs: Inputs) -> Tensor:
        """The log-probability that independent atoms satisfy the constraints, [batch]."""
        found = self.circuit.log_z(read_potentials(self.network, inputs))
        reject_impossible(found.detach() == -torch.inf, self.network, inputs)
        return found

    def probabilities(self, inputs: Inputs, weights: Sequence[Tensor] = ()) -> dict[str, Tensor]:
        """The probability of each atom and label, by predicate, [batch, ...]."""
        potentials = read_potentials(self.network, inputs)
        with torch.no_grad():
            reject_impossible(self.circuit.log_z(potentials) == -torch.inf, self.network, inputs)
        return write_marginals(self.network, _flat(inputs), self.circuit.marginals(potentials))

    def loss(self, inputs: Inputs, weights: Sequence[Tensor], labels: Mapping[str, Tensor]) -> Tensor:
        """Minus the log-probability of labels, [batch]; what has no label is summed out."""
        potentials = read_potentials(self.network, inputs)
        # the worlds that agree with the labels, each with its weight without labels
        excluded = read_potentials(self.network, replace(inputs, evidence=dict(labels))) == -torch.inf
        total, given = (self.circuit.log_z(x) for x in (potentials, potentials.masked_fill(excluded, -torch.inf)))
        reject_impossible(total.detach() == -torch.inf, self.network, inputs)
        reject_impossible(given.detach() == -torch.inf, self.network, inputs, labels)
        return total - given

    def best(self, inputs: Inputs, weights: Sequence[Tensor] = ()) -> dict[str, Tensor]:
        """The most probable world of each item, by predicate, bool, [batch, ...]."""
        values, log_p = self.circuit.best(read_potentials(self.network, inputs))
        reject_impossible(log_p == -torch.inf, self.network, inputs)
        return as_evidence(self.network.world.theory, write_values(self.network, _flat(inputs), values))


def _flat(inputs: Inputs) -> Inputs:
    """The same inputs with one batch dimension."""
    return replace(inputs, batch=(math.prod(inputs.batch),))


class ConstraintPlans(ExactPlans):
    """The plans of constraints, by sizes and evidence.

    Args:
        theory: the constraints.
        options: of `compile_cnf`.
    """

    def __init__(self, theory: Theory, options: Mapping[str, Any]):
        super().__init__(theory, "exact")
        self.options = dict(options)

    def _make(self, sizes: Mapping[str, int], known: Mapping[str, Tensor], masked: frozenset[str],
              is_cheap: bool) -> Part:
        try:
            table = TablePlan(self.theory, sizes, {name: x.cpu() for name, x in known.items()})
        except CostError as cause:
            raise CostError(cause.message, cause.span, f"use {OTHERWISE}") from None
        plan = table.elimination
        if not plan.n_wide and plan.n_cells <= FEW_CELLS:
            return Part(None, table)
        options = self.options
        if not plan.n_wide:
            if table.network.n_features > MANY_CLAUSES or importlib.util.find_spec("pysdd") is None:
                return Part(None, table)
            # a product of a circuit takes as long as a cell, and a node has two products or more
            options = {**options, "max_nodes": min(options["max_nodes"], plan.n_cells // 2)}
        try:
            circuit = compile_cnf(build_cnf(table.network), **options)
            if plan.n_wide or circuit.n_products < plan.n_cells:
                # a run calls only what both kinds of plan have
                return Part(None, cast(ExactPlan, CircuitPlan(circuit)))
        except CostError as cause:
            if plan.n_wide:
                raise CostError(f"tables need more than {plan.wide_cells:,} cells per item (limit {plan.max_cells:,}), "
                                f"and {cause.message}", cause.span, cause.hint) from None
        return Part(None, table)
