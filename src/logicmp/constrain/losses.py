r"""Losses and a last layer from rules: semantic loss, its relaxation SLrelax, and the semantic probabilistic layer.

Room: layer, compile, tensors -> **losses**.  Paper: SL, SLrelax and SPL in the experiments.

    SemanticLoss    -log P(rules)                              Xu et al. 2018; P of independent atoms
    SLrelax         sum of w_f V_f(q)                          the paper's relaxation, for all rules and sizes
    SPL             p(y) [y satisfies the rules] / P(rules)    Ahmed et al. 2022

Limits: Ahmed et al. multiply the constraint with a second circuit, whose parameters come from the model. Here p is the
product of the model's atoms, and only the rules tie atoms together. Rules that do not compile are rejected, for example
transitivity beyond 7 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..arguments import AtLeastOne, NotNegative, Sizes, checked
from ..errors import LogicMPError
from ..execute.inputs import Inputs, read_inputs
from ..layer import LogicMP
from ..parse.theory import Theory
from .circuit import Circuit
from .cnf import as_constraints, ground_constraints
from .compile import compile_rules
from .tensors import read_labels, read_potentials, write_marginals, write_values


class Compiled(nn.Module):
    """Base of `SemanticLoss` and `SPL`: one circuit for each combination of sizes, compiled in the first call."""

    @checked
    def __init__(self, theory: Theory | str, sizes: Sizes | None = None, *, rules: str = "all",
                 max_seconds: NotNegative = 60.0, max_nodes: AtLeastOne = 1_000_000, vtree: str = "balanced",
                 minimize: bool = False):
        super().__init__()
        self.theory = as_constraints(theory, rules)
        self.options: dict[str, Any] = {"max_seconds": max_seconds, "max_nodes": max_nodes, "vtree": vtree,
                                        "minimize": minimize}
        self._circuits: dict[tuple[tuple[str, int], ...], Circuit] = {}
        if sizes is not None:
            self.circuit(self.theory.with_sizes(sizes))

    def circuit(self, sizes: Mapping[str, int]) -> Circuit:
        """The circuit for these sizes; `print` shows its size, `seconds` is its compile time."""
        key = tuple(sorted(sizes.items()))
        if key not in self._circuits:
            self._circuits[key] = compile_rules(self.theory, sizes, **self.options)
        return self._circuits[key]

    def read(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None
             ) -> tuple[Inputs, Circuit, Tensor]:
        """The checked inputs, their circuit, and the log-probabilities of the circuit's variables."""
        inputs = read_inputs(self.theory, logits, evidence, None)
        circuit = self.circuit(inputs.sizes)
        return inputs, circuit, read_potentials(circuit.cnf.network, inputs)

    def reject_impossible(self, log_z: Tensor, inputs: Inputs, what: str) -> None:
        """Raise if no world satisfies the rules and the evidence, with the first rule that the evidence violates."""
        if not bool((log_z == -torch.inf).any()):
            return
        item = int((log_z == -torch.inf).nonzero()[0])
        known = {name: tensor[item if len(tensor) > 1 else 0]
                 for name, tensor in {**inputs.evidence, **inputs.observed}.items()}
        # raises an error that shows the rule if the evidence violates a single grounding
        ground_constraints(self.theory, inputs.sizes, known)
        raise LogicMPError(f"no world satisfies the rules and the {what} of item {item}",
                           f"correct the {what}, or use the LogicMP layer, in which rules may be violated")

    def extra_repr(self) -> str:
        return f"{len(self.theory.rules)} rules"


class SemanticLoss(Compiled):
    """Semantic loss (Xu et al. 2018): -log of the probability that independent atoms satisfy all rules.

    >>> import torch
    >>> loss = SemanticLoss("A v B")
    >>> round(float(loss({"A": torch.zeros(()), "B": torch.zeros(())}).exp()), 4)  # 1 / (3/4)
    1.3333

    For rules that compile into a circuit; others raise a `CostError` with numbers. There is no mask: a circuit is
    compiled for one size, so call it with items of equal size.

    Args:
        theory: rules as text, or a `Theory`; each rule is a constraint, and weights do not count.
        sizes: number of constants by type, to compile now; default: compile in the first call, for its sizes.
        rules: which rules are constraints: "all", or "hard" for those that end with a full stop.
        max_seconds: time limit for compiling, in seconds, at least 0.
        max_nodes: limit on the nodes of the circuit, at least 1.
        vtree: how the circuit splits its variables: "balanced" or "right".
        minimize: search for better splits while compiling: a smaller circuit, but several times slower to compile.
    """

    def forward(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None) -> Tensor:
        """The loss of each item, [batch...], 0 or more.

        Args:
            logits: the model's logits, as for `LogicMP`: a tensor, or tensors by predicate.
            evidence: observed atoms by predicate: bool tensors, or floats with NaN for unobserved atoms.

        Raises:
            LogicMPError: no world satisfies the rules and the evidence of an item.
        """
        inputs, circuit, potentials = self.read(logits, evidence)
        log_p = circuit.log_z(potentials)
        self.reject_impossible(log_p, inputs, "evidence")
        return -log_p.reshape(inputs.batch)


class SLrelax(nn.Module):
    """The paper's relaxation of semantic loss, for all rules and sizes: the weighted expected violations.

    >>> import torch
    >>> loss = SLrelax("A v B")
    >>> float(loss({"A": torch.zeros(()), "B": torch.zeros(())}))  # the clause is violated with probability 1/4
    0.25

    It equals semantic loss to first order in the violations, with each grounding on its own. Rule weights count, but
    are not trained: the loss would be smallest at weight 0.

    Args:
        theory: rules as text, or a `Theory`; a rule without a weight has weight 1.
        options: arguments of `LogicMP` other than `learn_weights`, for example `semantics="paper"` or
            `reduce="mean"`.
    """

    def __init__(self, theory: Theory | str, **options: Any):
        super().__init__()
        self.layer = LogicMP(theory, learn_weights=False, **options)

    def forward(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None,
                mask: Tensor | Mapping[str, Tensor] | None = None) -> Tensor:
        """The loss of each item, [batch...], 0 or more.

        Args:
            logits: the model's logits, as for `LogicMP`: a tensor, or tensors by predicate.
            evidence: observed atoms by predicate: bool tensors, or floats with NaN for unobserved atoms.
            mask: which entities exist, [batch..., n], for padded batches; by type if there are several types.
        """
        return self.layer.theory_loss(logits, evidence, mask)


class SPL(Compiled):
    """Semantic probabilistic layer (Ahmed et al. 2022): the distribution of the model's atoms given the rules.

    >>> spl = SPL("A v B")
    >>> logits = {"A": torch.tensor(-1.0), "B": torch.tensor(-2.0)}
    >>> {name: bool(answer) for name, answer in spl.predict(logits).items()}
    {'A': True, 'B': False}

    Train with `loss`, answer with `predict`; a call returns marginals by exact inference. For rules that compile into a
    circuit; others raise a `CostError` with numbers. There is no mask: call it with items of equal size.

    Args:
        theory: rules as text, or a `Theory`; each rule is a constraint, and weights do not count.
        sizes: number of constants by type, to compile now; default: compile in the first call, for its sizes.
        rules: which rules are constraints: "all", or "hard" for those that end with a full stop.
        max_seconds: time limit for compiling, in seconds, at least 0.
        max_nodes: limit on the nodes of the circuit, at least 1.
        vtree: how the circuit splits its variables: "balanced" or "right".
        minimize: search for better splits while compiling: a smaller circuit, but several times slower to compile.
    """

    def forward(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None
                ) -> dict[str, Tensor]:
        """The probability of each atom and label, by predicate, in the shapes of the logits; differentiable.

        Args:
            logits: the model's logits, as for `LogicMP`: a tensor, or tensors by predicate.
            evidence: observed atoms by predicate: bool tensors, or floats with NaN for unobserved atoms.
        """
        inputs, circuit, potentials = self.read(logits, evidence)
        self.reject_impossible(circuit.log_z(potentials.detach()), inputs, "evidence")
        return write_marginals(circuit.cnf.network, inputs, circuit.marginals(potentials))

    def loss(self, logits: Tensor | Mapping[str, Tensor], labels: Mapping[str, Tensor],
             evidence: Mapping[str, Tensor] | None = None) -> Tensor:
        """-log p(labels) of each item, [batch...]; atoms without a label are summed out.

        Args:
            logits: as for a call.
            labels: by predicate: bool tensors, floats with NaN for missing labels, or integers for a multi-class
                predicate.
            evidence: as for a call.
        """
        inputs, circuit, potentials = self.read(logits, evidence)
        labelled = read_labels(self.theory, logits, labels, evidence)
        # the worlds that agree with the labels, each with its weight without labels
        excluded = read_potentials(circuit.cnf.network, labelled) == -torch.inf
        log_joint = circuit.log_z(potentials.masked_fill(excluded, -torch.inf))
        self.reject_impossible(log_joint, labelled, "labels")
        return (circuit.log_z(potentials) - log_joint).reshape(inputs.batch)

    def predict(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None
                ) -> dict[str, Tensor]:
        """The most probable answer that satisfies the rules: bool tensors, or label indices if multi-class.

        Args:
            logits: as for a call.
            evidence: as for a call.
        """
        inputs, circuit, potentials = self.read(logits, evidence)
        values, log_p = circuit.best(potentials)
        self.reject_impossible(log_p, inputs, "evidence")
        return write_values(circuit.cnf.network, inputs, values)
