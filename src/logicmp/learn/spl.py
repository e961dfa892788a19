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

import torch
from torch import Tensor

from .circuits import Compiled
from .constraints import read_labels, read_potentials, write_marginals, write_values


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
