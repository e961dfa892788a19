r"""Losses and a last layer from rules: semantic loss, its relaxation SLrelax, and the semantic probabilistic layer.

Room: layer, compile, plans -> **losses**.  Paper: SL, SLrelax and SPL in the experiments.

    SemanticLoss    -log P(rules)                              Xu et al. 2018; P of independent atoms
    SLrelax         sum of w_f V_f(q)                          the paper's relaxation, for all rules and sizes
    SPL             p(y) [y satisfies the rules] / P(rules)    Ahmed et al. 2022

Limits: Ahmed et al. multiply the constraint with a second circuit, whose parameters come from the model. Here p is the
product of the model's atoms, and only the rules tie atoms together. Rules that are neither narrow nor compile are
rejected, for example transitivity beyond 7 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..arguments import AtLeastOne, NotNegative, Sizes, checked
from ..execute.exact_run import ExactRun, read_labels
from ..execute.inputs import read_inputs
from ..execute.worlds import fact_tensors
from ..layer import LogicMP
from ..parse.theory import Theory
from .circuit import Circuit
from .cnf import as_constraints
from .compile import compile_rules
from .plans import ConstraintPlans


class Constrained(nn.Module):
    """Base of `SemanticLoss` and `SPL`: one plan for each combination of sizes and evidence, made in the first call."""

    @checked
    def __init__(self, theory: Theory | str, sizes: Sizes | None = None, *, rules: str = "all",
                 max_seconds: NotNegative = 60.0, max_nodes: AtLeastOne = 1_000_000, vtree: str = "balanced",
                 minimize: bool = True):
        super().__init__()
        self.theory, facts = as_constraints(theory, rules).split_facts()
        self._facts = tuple(facts)
        for k, values in enumerate(fact_tensors(self.theory, facts).values() if facts else ()):
            self.register_buffer(f"_facts_{k}", values, persistent=False)
        self.options: dict[str, Any] = {"max_seconds": max_seconds, "max_nodes": max_nodes, "vtree": vtree,
                                        "minimize": minimize}
        self._plans = ConstraintPlans(self.theory, self.options)
        if sizes is not None and not any(p.closed_world for p in self.theory.predicates):
            self._plans.part(self.theory.with_sizes(sizes), {})

    def circuit(self, sizes: Mapping[str, int], evidence: Mapping[str, Tensor] | None = None) -> Circuit:
        """Compile a circuit for these sizes; `print` shows its size, `seconds` is its compile time.

        Calls use one only where tables would be too wide, see `exact`.

        Args:
            sizes: number of constants by type.
            evidence: as for `compile_rules`.
        """
        return compile_rules(self.theory, sizes, evidence=evidence, **self.options)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def exact(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None) -> ExactRun:
        """Exact inference on an input, ready to run; `print` it for tables or circuit, and their sizes.

        Args:
            logits, evidence: as for a call.
        """
        if self._facts and (evidence is None or isinstance(evidence, Mapping)):
            own = {name: getattr(self, f"_facts_{k}") for k, name in enumerate(self._facts)}
            evidence = {**own, **(evidence or {})}
        inputs = read_inputs(self.theory, logits, evidence, None)
        return ExactRun(self._plans.find(inputs, evidence, False), inputs, ())

    def __getstate__(self) -> dict[str, Any]:
        # plans are made again when needed
        return {**self.__dict__, "_plans": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._plans = ConstraintPlans(self.theory, self.options)

    def extra_repr(self) -> str:
        return f"{len(self.theory.rules)} rules"


class SemanticLoss(Constrained):
    """Semantic loss (Xu et al. 2018): -log of the probability that independent atoms satisfy all rules.

    >>> import torch
    >>> loss = SemanticLoss("A v B")
    >>> round(float(loss({"A": torch.zeros(()), "B": torch.zeros(())}).exp()), 4)  # 1 / (3/4)
    1.3333

    For rules that are narrow (chains, trees) or compile into a circuit; others raise a `CostError` with numbers. There
    is no mask: call it with items of equal size.

    Args:
        theory: rules as text, or a `Theory`; each rule is a constraint, and weights do not count. Facts of closed
            predicates are evidence.
        sizes: number of constants by type, to plan now; default, and always for rules with closed predicates: plan in
            the first call, for its sizes and evidence.
        rules: which rules are constraints: "all", or "hard" for those that end with a full stop.
        max_seconds: time limit for compiling, in seconds, at least 0.
        max_nodes: limit on the nodes of the circuit, at least 1.
        vtree: how the circuit splits its variables, see `compile_rules`: "balanced" or "right".
        minimize: search for better splits while compiling, see `compile_rules`.
    """

    def forward(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None) -> Tensor:
        """The loss of each item, [batch...], 0 or more.

        Args:
            logits: the model's logits, as for `LogicMP`: a tensor, or tensors by predicate.
            evidence: observed atoms by predicate: bool tensors, or floats with NaN for unobserved atoms.

        Raises:
            LogicMPError: no world satisfies the rules and the evidence of an item.
        """
        run: ExactRun = self.exact(logits, evidence)
        return -run.each(lambda plan, inputs: {"": plan.log_p(inputs)})[""].reshape(run.inputs.batch)


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


class SPL(Constrained):
    """Semantic probabilistic layer (Ahmed et al. 2022): the distribution of the model's atoms given the rules.

    >>> spl = SPL("A v B")
    >>> logits = {"A": torch.tensor(-1.0), "B": torch.tensor(-2.0)}
    >>> {name: bool(answer) for name, answer in spl.predict(logits).items()}
    {'A': True, 'B': False}

    Train with `loss`, answer with `predict`; a call returns marginals by exact inference. For rules that are narrow
    (chains, trees) or compile into a circuit; others raise a `CostError` with numbers. There is no mask: call it with
    items of equal size. Narrow rules give the probabilities, loss and answers of `LogicMP(theory, method="exact")`.

    Args:
        theory: rules as text, or a `Theory`; each rule is a constraint, and weights do not count. Facts of closed
            predicates are evidence.
        sizes: number of constants by type, to plan now; default, and always for rules with closed predicates: plan in
            the first call, for its sizes and evidence.
        rules: which rules are constraints: "all", or "hard" for those that end with a full stop.
        max_seconds: time limit for compiling, in seconds, at least 0.
        max_nodes: limit on the nodes of the circuit, at least 1.
        vtree: how the circuit splits its variables, see `compile_rules`: "balanced" or "right".
        minimize: search for better splits while compiling, see `compile_rules`.
    """

    def forward(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None
                ) -> dict[str, Tensor]:
        """The probability of each atom and label, by predicate, in the shapes of the logits; differentiable.

        Args:
            logits: the model's logits, as for `LogicMP`: a tensor, or tensors by predicate.
            evidence: observed atoms by predicate: bool tensors, or floats with NaN for unobserved atoms.
        """
        run: ExactRun = self.exact(logits, evidence)
        found = run.each(lambda plan, inputs: plan.probabilities(inputs, ()))
        return {name: x.reshape((*run.inputs.batch, *x.shape[1:])) for name, x in found.items()}

    def loss(self, logits: Tensor | Mapping[str, Tensor], labels: Tensor | Mapping[str, Tensor],
             evidence: Mapping[str, Tensor] | None = None) -> Tensor:
        """-log p(labels) of each item, [batch...]; atoms without a label are summed out.

        Args:
            logits: as for a call.
            labels: in the form of `logits`: bool tensors, floats with NaN for missing labels, or integers, negative for
                missing labels: 1 and 0, or the index of the label if multi-class.
            evidence: as for a call.
        """
        run: ExactRun = self.exact(logits, evidence)
        given = {next(iter(run.inputs.unary)): labels} if isinstance(labels, Tensor) else labels
        return run.loss(read_labels(self.theory, given, run.inputs)).reshape(run.inputs.batch)

    def predict(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None
                ) -> dict[str, Tensor]:
        """The most probable answer that satisfies the rules: bool tensors, or label indices if multi-class.

        Args:
            logits: as for a call.
            evidence: as for a call.
        """
        run: ExactRun = self.exact(logits, evidence)
        return run.best(self.theory)
