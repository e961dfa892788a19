r"""Losses that make a network obey rules: semantic loss, exact, and SLrelax, which needs no circuit.

Stage: layer, circuits -> **learn**.  Paper: SL and SLrelax in the experiments; Xu et al. 2018.

    SemanticLoss(rules)(logits)      -log P(all rules hold),  atoms independent with the network's probabilities
    SLrelax(rules)(logits)           sum over groundings of w P(the grounding is broken)

Both take rules and logits as the layer does and give one number for each item of the batch. Both are zero where the
network is certain of a world that obeys the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from ..layer import LogicMP
from ..parse import Theory
from .circuits import Compiled


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
