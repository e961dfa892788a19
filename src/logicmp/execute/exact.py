"""Between the layer's tensors and exact inference: logits to potentials, log-probabilities to logits, best worlds.

Room: ground, narrow -> **execute** -> layer.  Paper: Eq. 1.

    log-odds of an atom          values false and true with log-weights 0 and its log-odds
    evidence of one item         the other values of the variable are impossible
    an entity that is masked     its atoms have one more value, at which every literal is false

A plan is made for what all items of a batch share: sizes, observed predicates, evidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from ..errors import CostError, LogicMPError, RuleError
from ..facts.world import with_sizes
from ..ground.build import build_network
from ..ground.elimination import MAX_CELLS, Elimination, build_elimination
from ..ground.network import MAX_LITERALS, Network, n_values
from ..ground.propagate import contradiction
from ..ground.reduce import reduce_network
from ..limits import MAX_GROUNDINGS
from ..parse.theory import Theory
from .entries import NO_MASK, Entries, reject_uncovered
from .inputs import Inputs
from .marginals import CERTAIN, one_per_variable
from .narrow import NEVER, Pick, Waves, is_impossible
from .worlds import world_from_tensors


class ExactPlan:
    """Exact inference for inputs that share sizes and evidence; `print` shows its width and its cost.

    Args:
        theory: the rules.
        sizes: number of entities by type.
        known: observed atoms that all items share, by predicate, without batch: 1, 0, NaN for unobserved.
        masked: the types with a mask.
        semantics: as for `LogicMP`.
        max_cells: a component that needs more table cells per item is too wide.
        max_groundings: limit of the open groundings of all rules.
    """

    def __init__(self, theory: Theory, sizes: Mapping[str, int], known: Mapping[str, Tensor],
                 masked: frozenset[str] = frozenset(), semantics: str = "exact", max_cells: int = MAX_CELLS,
                 max_groundings: int = MAX_GROUNDINGS):
        self.known = frozenset(known)
        latent = [p for p in theory.predicates if p.name not in known or bool(known[p.name].isnan().any())]
        if masked:
            reject_uncovered(theory, semantics, masked, {p.name for p in latent})
        world = world_from_tensors(with_sizes(theory, sizes), None, known)
        network = build_network(world, None, semantics, max_groundings)
        if masked and np.diff(network.begins).max(initial=0) > MAX_LITERALS:
            raise CostError(f"a grounding with more than {MAX_LITERALS} unobserved atoms cannot be combined with a "
                            "mask in method='exact'", None, NO_MASK)
        self._map = Entries(network, latent, sizes, masked)
        reduced = reduce_network(network, self._map.may_miss)
        self.elimination: Elimination = build_elimination(reduced, max_cells)
        self._map.build(self.elimination)
        self._on: dict[torch.device, tuple[Waves, dict[str, Tensor]]] = {}
        self._picked: dict[torch.device, dict[str, Pick]] = {}

    @property
    def network(self) -> Network:
        """The ground network."""
        return self.elimination.reduced.origin

    def __str__(self) -> str:
        return str(self.elimination)

    def reject_wide(self) -> None:
        """Raise a CostError with the numbers if a component is too wide."""
        plan = self.elimination
        if plan.n_wide:
            raise CostError(
                f"{plan.n_wide:,} of {plan.n_components + plan.n_wide:,} components are too wide for method='exact': "
                f"that of {plan.names()} has {len(plan.wide_variables):,} unobserved variables and needs more than "
                f"{plan.wide_cells:,} table cells per item (limit {plan.max_cells:,})", None,
                "use method='auto', which uses mean field for these, or method='mean-field'; or give more evidence")

    def exact_atoms(self, name: str, device: torch.device) -> Tensor:
        """For each atom of a predicate whether it is decided, or in a component that is narrow enough."""
        begin, shape = self._map.places[name]
        return self._tensors(device)[1]["is_exact"][begin : begin + math.prod(shape)].view(shape)

    # what runs

    def log_z(self, inputs: Inputs, weights: Sequence[Tensor], with_constant: bool = True) -> Tensor:
        """log Z of each item, [batch].

        Args:
            inputs: checked tensors of the call.
            weights: one tensor for each rule.
            with_constant: add the weights of all groundings, as Eq. 1 does; otherwise a world gets minus the weights
                of the groundings that it violates. Needs inputs without masks.
        """
        waves, potentials, tables = self._read(inputs, weights)
        total = waves.log_z(potentials, tables)
        reject_impossible(is_impossible(total.detach()), self.network, inputs)
        if weights and with_constant:
            total = total + (_flat(weights, total) * torch.from_numpy(self.network.base).to(total)).sum()
        for predicate in self._map.latent:
            # a variable with one value is in no table
            if n_values(predicate, inputs.sizes) == 1 and predicate.name not in inputs.evidence:
                total = total + inputs.unary[predicate.name].flatten(1).sum(1)
        return total

    def loss(self, inputs: Inputs, weights: Sequence[Tensor], labels: Mapping[str, Tensor]) -> Tensor:
        """Minus the log-probability of labels, [batch]; what has no label is summed out.

        Args:
            inputs: checked tensors of the call.
            weights: one tensor for each rule.
            labels: 1, 0, and NaN for a missing label, by predicate, [batch, ...].
        """
        waves, potentials, tables = self._read(inputs, weights)
        total = waves.log_z(potentials, tables)
        reject_impossible(is_impossible(total.detach()), self.network, inputs)
        excluded = self._excluded(labels, inputs, potentials)
        world, is_one = self._world(excluded, potentials.detach())
        if is_one:
            given = waves.score(potentials, tables, world)
        else:
            given = waves.log_z(potentials + NEVER * excluded, tables)
        reject_impossible(is_impossible(given.detach()), self.network, inputs, labels)
        return total - given

    def logits(self, inputs: Inputs, weights: Sequence[Tensor]) -> dict[str, Tensor]:
        """The logits of all predicates that are not observed, with exact marginals; 0 where it is too wide."""
        log_p = self._log_p(inputs, weights)
        extra = log_p.new_tensor([[0.0], [CERTAIN], [-CERTAIN]]).expand(3, log_p.shape[1])
        rows = torch.cat([log_p, extra, *(_of_the_others(log_p[a:b].view(n, -1, log_p.shape[1])).flatten(0, 1)
                                          for a, b, n in self._map.merged)])
        picks = self._picks(log_p.device)
        # the log-odds of something certain are finite, so that no loss becomes NaN
        minus = picks["minus"](rows)
        # where "none" is impossible, the logits of the values still differ
        odds = picks["row"](rows) - minus.masked_fill(is_impossible(minus), -CERTAIN)
        odds = odds.masked_fill(is_impossible(odds), -CERTAIN)
        return {name: x.to(inputs.like.dtype) for name, x in self._by_predicate(odds).items()}

    def probabilities(self, inputs: Inputs, weights: Sequence[Tensor]) -> dict[str, Tensor]:
        """The probability of each atom and label of all predicates that are not observed; 0 where it is too wide."""
        log_p = self._log_p(inputs, weights)
        extra = log_p.new_tensor([[0.0], [1.0], [0.0]]).expand(3, log_p.shape[1])
        n_more = sum(b - a for a, b, _ in self._map.merged)
        rows = torch.cat([log_p.exp(), extra, log_p.new_zeros(n_more, log_p.shape[1])])
        found = self._by_predicate(self._picks(log_p.device)["row"](rows))
        return {name: x.to(inputs.like.dtype) for name, x in found.items()}

    def best(self, inputs: Inputs, weights: Sequence[Tensor]) -> dict[str, Tensor]:
        """The most probable world of each item, by predicate, bool, [batch, ...]; false for masked entities."""
        with torch.no_grad():
            waves, potentials, tables = self._read(inputs, weights)
            world, total = waves.best(potentials, tables)
            reject_impossible(is_impossible(total), self.network, inputs)
            _, maps = self._tensors(world.device)
            # a decided entry is true if the variable after the last one has the value 0
            world = torch.cat([world, world.new_zeros(1, world.shape[1])])
            return self._by_predicate(world.index_select(0, maps["variable"]) == maps["value"].unsqueeze(1))

    # tensors

    def _tensors(self, device: torch.device) -> tuple[Waves, dict[str, Tensor]]:
        if device not in self._on:
            with torch.inference_mode(False):
                self._on[device] = Waves(self.elimination, device), {
                    name: torch.from_numpy(array).to(device) for name, array in self._map.arrays.items()}
        return self._on[device]

    def _picks(self, device: torch.device) -> dict[str, Pick]:
        """From entries to rows of potentials, and from log-probabilities to entries."""
        if device not in self._picked:
            _, maps = self._tensors(device)
            n_rows = self.elimination.n_rows + 3 + sum(b - a for a, b, _ in self._map.merged)
            self._picked[device] = {"entry": Pick(maps["entry"], self._map.n_entries + 1),
                                    "row": Pick(maps["row"], n_rows), "minus": Pick(maps["minus"], n_rows)}
        return self._picked[device]

    def _by_predicate(self, entries: Tensor) -> dict[str, Tensor]:
        """Entries, [entries, batch], in the shapes of the predicates, [batch, ...]."""
        return {name: entries[begin : begin + math.prod(shape)].t().reshape(-1, *shape)
                for name, (begin, shape) in self._map.places.items()}

    def _entries(self, tensors: Mapping[str, Tensor], like: Tensor) -> Tensor:
        """Tensors of the predicates as entries, [entries + 1, batch], with a last one that is 0."""
        n_batch = like.shape[-1]
        parts = [tensors[name].reshape(tensors[name].shape[0], -1).to(like.dtype).expand(n_batch, -1)
                 if name in tensors else like.new_zeros(n_batch, math.prod(shape))
                 for name, (_, shape) in self._map.places.items()]
        return torch.cat([*parts, like.new_zeros(n_batch, 1)], 1).t()

    def _read(self, inputs: Inputs, weights: Sequence[Tensor]) -> tuple[Waves, Tensor, Tensor]:
        """The log-weights of all values, [rows, batch], and those of all tables."""
        like = inputs.like
        waves, maps = self._tensors(like.device)
        dtype = like.dtype if like.dtype in (torch.float32, torch.float64) else torch.float32
        empty = torch.empty(0, math.prod(inputs.batch), dtype=dtype, device=like.device)
        given = {p.name: one_per_variable(p, inputs.unary[p.name]) for p in self._map.latent}
        potentials = self._picks(like.device)["entry"](self._entries(given, empty))
        own = {name: x for name, x in inputs.evidence.items() if name not in self.known}
        if own:
            # an observed variable is not summed over, so its unary potential does not count
            potentials = potentials * (1 - self._by_row(self._true(own, empty)))
            potentials = potentials + NEVER * self._excluded(own, inputs, empty)
        if self._map.has_static:
            potentials = potentials + (NEVER * maps["never"].to(dtype)).unsqueeze(1)
        if inputs.masks:
            exists = self._exists(inputs.masks, empty)
            missing = torch.where(maps["is_missing"].unsqueeze(1), exists, 1 - exists)
            for key, name in self._map.value_masks.items():
                missing = missing + 1 - _with_one(inputs.masks[name]).to(dtype).t().index_select(0, maps[key])
            potentials = potentials + NEVER * missing
        return waves, potentials, waves.tables(_flat(weights, empty))

    def _log_p(self, inputs: Inputs, weights: Sequence[Tensor]) -> Tensor:
        """The log-probability of each value of each variable, [rows, batch]."""
        waves, potentials, tables = self._read(inputs, weights)
        log_p, total = waves.marginals(potentials, tables)
        reject_impossible(is_impossible(total), self.network, inputs)
        return log_p

    def _by_variable(self, rows: Tensor) -> Tensor:
        """The sum over the values of each variable that has rows, in their order."""
        _, maps = self._tensors(rows.device)
        return embedding_bag(maps["all_rows"], rows, maps["begin"], mode="sum")

    def _by_row(self, rows: Tensor) -> Tensor:
        """The same, for each row."""
        return self._by_variable(rows).index_select(0, self._tensors(rows.device)[1]["place"])

    def _true(self, given: Mapping[str, Tensor], like: Tensor) -> Tensor:
        """One for each row that is given as true, [rows, batch]."""
        true = self._entries({name: x == 1 for name, x in given.items()}, like)
        return true.index_select(0, self._tensors(like.device)[1]["entry"])

    def _excluded(self, given: Mapping[str, Tensor], inputs: Inputs, like: Tensor) -> Tensor:
        """For each row how many given atoms exclude it: its own is false, or another of its variable is true."""
        _, maps = self._tensors(like.device)
        false = self._entries({name: x == 0 for name, x in given.items()}, like)
        true = self._true(given, like)
        found = false.index_select(0, maps["entry"]) - true + self._by_row(true)
        return found * self._exists(inputs.masks, like) if inputs.masks else found

    def _exists(self, masks: Mapping[str, Tensor], like: Tensor) -> Tensor:
        """For each row whether the entities of its variable exist, 0 or 1."""
        _, maps = self._tensors(like.device)
        found = like.new_ones(self.elimination.n_rows, like.shape[-1])
        for key, name in self._map.masks.items():
            found = found * _with_one(masks[name]).to(like.dtype).t().index_select(0, maps[key])
        return found

    def _world(self, excluded: Tensor, potentials: Tensor) -> tuple[Tensor, bool]:
        """The values that are left, by variable, and whether each variable has one."""
        _, maps = self._tensors(excluded.device)
        left = ((excluded == 0) & ~is_impossible(potentials)).to(potentials.dtype)
        world = torch.zeros(len(self.elimination.network.cards), left.shape[1], dtype=torch.long, device=left.device)
        world[maps["ordered"]] = self._by_variable(left * maps["row_value"].to(left).unsqueeze(1)).long()
        return world, bool((self._by_variable(left) == 1).all())


def reject_impossible(impossible: Tensor, network: Network, inputs: Inputs, labels: Mapping[str, Tensor] | None = None
                      ) -> None:
    """Raise if an item has no possible world, with the first rule that its evidence, or its labels, violate.

    Args:
        impossible: whether an item has none, [batch].
        network: the ground network of the hard rules.
        inputs: checked tensors of the call.
        labels: if they decide: 1, 0, and NaN for a missing label, by predicate, [batch, ...].
    """
    if not bool(impossible.any()):
        return
    item = int(impossible.nonzero()[0])
    known = {name: x[item if len(x) > 1 else 0].cpu() for name, x in {**inputs.evidence, **inputs.observed}.items()}
    for name, x in (labels or {}).items():
        own = x[item if len(x) > 1 else 0].cpu()
        known[name] = torch.where(own.isnan(), known[name], own) if name in known else own
    theory, what = network.world.theory, "evidence" if labels is None else "labels"
    if not inputs.masks:
        try:
            build_network(world_from_tensors(theory, None, known), [rule for rule in theory.rules if rule.is_hard])
        except RuleError as cause:
            # a single grounding is violated
            raise RuleError(f"this hard rule is violated by the {what} of item {item}", cause.span,
                            f"correct the {what}, or give the rule a weight") from None
    if labels is None and bool(impossible.all()):
        raise contradiction(network)
    raise LogicMPError(f"no world satisfies the hard rules and the {what} of item {item}",
                       f"correct the {what}, or give a rule a weight")


def _flat(weights: Sequence[Tensor], like: Tensor) -> Tensor:
    """All weights, one after the other."""
    return torch.cat([like.new_zeros(0), *(w.reshape(-1).to(like) for w in weights)])


def _with_one(mask: Tensor) -> Tensor:
    """A mask, [batch, n], with one more entity, which exists."""
    return torch.cat([mask, mask.new_ones(mask.shape[0], 1)], 1)


def _of_the_others(log_p: Tensor) -> Tensor:
    """log(1 - p) of each value, [n, values, batch], from the other values: precise where p is nearly 1."""
    top, at = log_p.detach().max(1, keepdim=True)
    is_top = torch.zeros_like(log_p, dtype=torch.bool).scatter_(1, at, True)
    p = (log_p - top).exp()
    rest = p.masked_fill(is_top, 0).sum(1, keepdim=True)
    others = torch.where(is_top, rest, p.sum(1, keepdim=True) - p)
    never = others <= 0
    return (others.masked_fill(never, 1).log() + top).masked_fill(never, 2 * NEVER)
