"""Every method: its head on the encoder, its training, and how blocks are read from its output.

    pair               each pair independently
    slrelax            Pair, with the expected violations of the rule added to the loss
    logicmp            the rule as a layer on the pairs, trained end to end
    links              SPADE's links with the rules of links.mln, trained on the blocks that follow
    pair+clustering    another way to read blocks from a trained model
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from logicmp import LogicMP, SLrelax

from .blocks import RULE, cluster_blocks, exact_blocks, read_blocks
from .features import Batch, Item, collate
from .heads import Bioes, BothHead, LinksHead, PairHead, SpadeHead, SpanHead, StartHead, pair_loss

SYMMETRIC = f"symmetric C(thing, thing)\n{RULE}"


@dataclass(frozen=True)
class Settings:
    """Settings of all methods and seeds; `choose` compares some of them on held-out pages."""

    dim: int = 128
    layers: int = 3
    dropout: float = 0.1
    batch: int = 2
    # of the encoder, on pairs and on links, which have this weight
    epochs: int = 50
    rate: float = 1.5e-3
    links: float = 3.0
    # share of words whose vector is hidden in training
    hidden: float = 0.1
    # decay per step of the averaged weights that are used after training; 0 for the last weights
    average: float = 0.998
    # of each method, starting from the encoder
    row_epochs: int = 15
    row_rate: float = 1e-3
    # of the layer; "paper" has 5 iterations
    schedule: str = "paper"
    # share of the epochs before the layer comes in
    late: float = 0.7
    # initial weight of the rule, and its learning rate: with a higher rate the weight falls before the model relies on
    # the rule
    weight: float = 1.0
    weight_rate: float = 1e-3
    # weight of SLrelax in the loss
    slrelax: float = 0.1
    # weight of the pairs in the loss of links with rules; 0 for the likelihood of the blocks instead
    pairs: float = 0.0

    def of_encoder(self) -> dict[str, Any]:
        """The settings that the encoder depends on."""
        return {name: getattr(self, name) for name in ("dim", "layers", "dropout", "batch", "epochs", "rate", "links",
                                                   "hidden", "average")}


@dataclass(frozen=True)
class Method:
    """A method with training of its own."""

    title: str
    # the paper's F1, full and long
    paper: tuple[float, float] | None = None
    head: type[nn.Module] = PairHead
    rule: str | None = None
    has_slrelax: bool = False


METHODS: Mapping[str, Method] = {
    "bioes": Method("BIOES", (80.1, 33.7), Bioes),
    "spanner": Method("SpanNER", (74.0, 22.0), SpanHead),
    "spade": Method("SPADE", (80.1, 43.5), SpadeHead),
    "links": Method("SPADE w/ rules on links", head=LinksHead),
    "links+pairs": Method("SPADE w/ rules on links and pairs", head=BothHead),
    "pair": Method("Pair", (82.0, 46.7)),
    "slrelax": Method("Pair w/ SLrelax", (82.0, 47.8), has_slrelax=True),
    "logicmp": Method("Pair w/ LogicMP", (83.3, 50.1), rule=RULE),
    "slrelax+logicmp": Method("Pair w/ SLrelax+LogicMP", (83.4, 50.3), rule=RULE, has_slrelax=True),
    "logicmp-symmetric": Method("Pair w/ LogicMP, symmetric", rule=SYMMETRIC),
}
# the encoder that the methods start from
START = Method("encoder", head=StartHead)
# returns blocks, and whether they are proven to be optimal
ReadOut = Callable[[Tensor], tuple[np.ndarray, bool]]


@dataclass(frozen=True)
class Decoded:
    """Another way to read blocks from the model of a method."""

    title: str
    method: str
    read: ReadOut


DECODED: Mapping[str, Decoded] = {
    "pair+logicmp": Decoded("Pair, then LogicMP", "pair",
                            lambda odds: (read_blocks(LogicMP(RULE)(odds).detach()), False)),
    "pair+logicmp+threshold": Decoded("Pair, then LogicMP, likely above log-odds of 1", "pair",
                                      lambda odds: (read_blocks(LogicMP(RULE)(odds).detach(), 1.0), False)),
    "pair+threshold": Decoded("Pair, likely above log-odds of 1", "pair", lambda odds: (read_blocks(odds, 1.0), False)),
    "pair+ilp": Decoded("Pair, then ILP where it finishes", "pair", exact_blocks),
    "spade+rules": Decoded("SPADE, then rules on links", "spade", lambda odds: (cluster_blocks(odds), False)),
    "pair+clustering": Decoded("Pair, then best clustering", "pair", lambda odds: (cluster_blocks(odds), False)),
    "logicmp+clustering": Decoded("Pair w/ LogicMP, then best clustering", "logicmp",
                                  lambda odds: (cluster_blocks(odds), False)),
}
# methods that need the rule as a circuit
COMPILED = {"sl": "Pair w/ SL", "spl": "Pair w/ SPL"}
ORDER = ("bioes", "spanner", "spade", "spade+rules", "links", "links+pairs", "pair", "sl", "spl", "slrelax", "logicmp",
         "slrelax+logicmp", "logicmp-symmetric", "pair+logicmp", "pair+threshold",
         "pair+logicmp+threshold", "pair+ilp", "pair+clustering", "logicmp+clustering")


class Model(nn.Module):
    """An encoder, the head of a method, and its layer."""

    def __init__(self, encoder: nn.Module, method: Method, settings: Settings):
        super().__init__()
        self.encoder = encoder
        self.head = method.head(encoder.dim)
        self.layer: LogicMP | None = None
        self.relaxed: SLrelax | None = None
        self.share = settings.slrelax
        # off in training before the layer comes in
        self.is_layer_on = True
        if isinstance(self.head, LinksHead):
            self.head.share = settings.pairs
        if isinstance(self.head, StartHead):
            self.head.share = settings.links
        if method.rule is not None:
            self.layer = LogicMP(method.rule, positive_weights=True, schedule=settings.schedule)
            with torch.no_grad():
                # softplus of the raw weight is the weight
                # a symmetric pair receives the messages of both orders
                weight = settings.weight / 2 if method.rule == SYMMETRIC else settings.weight
                self.layer.raw_weights[0].fill_(float(np.log(np.expm1(weight))))
        if method.has_slrelax:
            self.relaxed = SLrelax(RULE)

    @property
    def is_pair(self) -> bool:
        return isinstance(self.head, PairHead)

    def pairs(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The log-odds of pairs below and above the layer; equal without a layer. Links have pairs by their rules."""
        states = self.encoder(batch)
        below = self.head(states, batch) if self.is_pair else self.head.relation(states, batch)[1]
        return below, below if self.layer is None or not self.is_layer_on else self.layer(below, mask=batch.mask)

    def loss(self, batch: Batch) -> Tensor:
        if not self.is_pair:
            return self.head.loss(self.encoder(batch), batch)
        _, log_odds = self.pairs(batch)
        loss = pair_loss(log_odds, batch)
        if self.relaxed is not None:
            loss = loss + self.share * self.relaxed(log_odds, mask=batch.mask).sum() / batch.mask.sum()
        return loss

    @torch.no_grad()
    def log_odds(self, item: Item) -> tuple[Tensor, Tensor]:
        """The log-odds of the pairs of one page, [n, n], below and above the layer."""
        self.eval()
        below, above = self.pairs(collate([item]))
        return below[0], above[0]

    def read(self, log_odds: Tensor) -> np.ndarray:
        """The block of each word, from the log-odds of pairs."""
        return read_blocks(log_odds) if self.is_pair else cluster_blocks(log_odds)

    @torch.no_grad()
    def blocks(self, item: Item) -> np.ndarray:
        """The block of each word of one page."""
        if self.is_pair:
            return self.read(self.log_odds(item)[1])
        self.eval()
        batch = collate([item])
        return self.head.blocks(self.encoder(batch), batch)
