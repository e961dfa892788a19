r"""A last layer that only gives answers which obey the rules: the semantic probabilistic layer.

Stage: circuits -> **learn**.  Paper: SPL in the experiments; Ahmed et al. 2022.

    .. math:: p(y \mid x) = \prod_i p(y_i \mid x) \, [y \text{ obeys the rules}] \, / \, Z(x)

    spl.loss(logits, labels)      -log p(labels | x)
    spl(logits)                   the marginals of p
    spl.predict(logits)           its most probable y

Limits. Ahmed et al. multiply the constraint with a second circuit, which the network parametrizes; here the
distribution below the constraint is the product of the network's atoms, and what ties atoms together is the rules
alone. As with every circuit, rules that do not compile are refused: transitivity is, beyond 7 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..layer import LogicMP
from ..parse.theory import Theory
from .compile import Compiled
from .tensors import read_labels, read_potentials, write_marginals, write_values


class SemanticLoss(Compiled):
    """Semantic loss (Xu et al. 2018): minus the log-probability that independent atoms obey all rules.

    >>> import torch
    >>> loss = SemanticLoss("A v B")
    >>> round(float(loss({"A": torch.zeros(()), "B": torch.zeros(())}).exp()), 4)  # 1 / (3/4)
    1.3333

    For rules that compile; others are refused with numbers. A missing entity of a padded batch cannot be left out of a
    circuit: give items of one size. Arguments as for `Compiled`.
    """

    def forward(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None) -> Tensor:
        """The loss of each item, [batch...]; arguments as for `LogicMP`."""
        inputs, circuit, potentials = self.read(logits, evidence)
        log_p = circuit.log_z(potentials)
        self.refuse_broken(log_p, inputs, "evidence")
        return -log_p.reshape(inputs.batch)


class SLrelax(nn.Module):
    """The paper's relaxation of semantic loss: the layer's `theory_loss`, for any rules and sizes.

    >>> import torch
    >>> loss = SLrelax("A v B")
    >>> float(loss({"A": torch.zeros(()), "B": torch.zeros(())}))  # the clause is broken with probability 1/4
    0.25

    To first order in the violations it is semantic loss with each grounding on its own. The weights of the rules count,
    and are not learned: the loss would be least where they vanish.

    Args:
        theory: rules as text, or a `Theory`.
        options: as for `LogicMP`.
    """

    def __init__(self, theory: Theory | str, **options: Any):
        super().__init__()
        self.layer = LogicMP(theory, learn_weights=False, **options)

    def forward(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None,
                mask: Tensor | Mapping[str, Tensor] | None = None) -> Tensor:
        """The loss of each item, [batch...]; arguments as for `LogicMP`."""
        return self.layer.theory_loss(logits, evidence, mask)


class SPL(Compiled):
    """The distribution of a network's atoms among the worlds that obey the rules.

    >>> spl = SPL("A v B")
    >>> logits = {"A": torch.tensor(-1.0), "B": torch.tensor(-2.0)}
    >>> {name: bool(answer) for name, answer in spl.predict(logits).items()}
    {'A': True, 'B': False}

    Labels are bool tensors, floats with NaN for what is not known, or whole numbers for a multi-class predicate. Other
    arguments as for `Compiled` and `LogicMP`; there is no mask, so give items of one size.
    """

    def forward(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None
                ) -> dict[str, Tensor]:
        """The probability of each atom and label, by predicate, in the shapes of the logits; differentiable."""
        inputs, circuit, potentials = self.read(logits, evidence)
        self.refuse_broken(circuit.log_z(potentials.detach()), inputs, "evidence")
        return write_marginals(circuit.cnf.network, inputs, circuit.marginals(potentials))

    def loss(self, logits: Tensor | Mapping[str, Tensor], labels: Mapping[str, Tensor],
             evidence: Mapping[str, Tensor] | None = None) -> Tensor:
        """Minus the log-probability of the labels, [batch...]; of those that are known, where some are not."""
        inputs, circuit, potentials = self.read(logits, evidence)
        labelled = read_labels(self.theory, logits, labels, evidence)
        # the worlds that the labels leave, each with the weight it has without them
        excluded = read_potentials(circuit.cnf.network, labelled) == -torch.inf
        log_joint = circuit.log_z(potentials.masked_fill(excluded, -torch.inf))
        self.refuse_broken(log_joint, labelled, "labels")
        return (circuit.log_z(potentials) - log_joint).reshape(inputs.batch)

    def predict(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None
                ) -> dict[str, Tensor]:
        """The most probable answer that obeys the rules: bool by atom, the number of the label if multi-class."""
        inputs, circuit, potentials = self.read(logits, evidence)
        values, log_p = circuit.best(potentials)
        self.refuse_broken(log_p, inputs, "evidence")
        return write_values(circuit.cnf.network, inputs, values)
