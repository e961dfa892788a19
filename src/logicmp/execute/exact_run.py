"""One call of exact inference: the items of a batch that share their evidence share a plan, which is kept.

Room: exact -> **execute** -> layer.

    evidence without batch, or the same for all items      one plan, found by the identity of the tensors
    observed predicates that differ by item                one plan for each kind of item
    observed atoms (floats with NaN) that differ by item   one plan: their other values are impossible
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..arguments import wrong_type
from ..errors import CostError, LogicMPError
from ..parse.theory import Predicate, Theory
from .exact import ExactPlan
from .inputs import Inputs, as_variables, check_data, check_tensor, value_dims
from .marginals import for_each_item

# limits of method "auto": exact where it costs about as much as mean field
CHEAP_CELLS = 2**16
CHEAP_GROUNDINGS = 2**18
# how many plans a layer keeps
MAX_PLANS = 64
# rules without weights: their weights by the temperature. Higher, the output approaches that of the best world alone;
# lower, the number of worlds matters more than the logits. Chosen from 4, 8 and 16 on seeds 0 to 5 of the quality tasks
SHARPNESS = 16.0


@dataclass(frozen=True)
class Part:
    """Some items of a batch (None: all) that share their evidence, and their plan; None if it costs too much."""

    items: Tensor | None
    plan: ExactPlan | None
    why: str = ""

    def __str__(self) -> str:
        return str(self.plan) if self.plan is not None else f"mean field on all components: {self.why}"


class ExactRun:
    """Exact inference on one input.

    Args:
        parts: from `ExactPlans.find`.
        inputs: checked tensors of the call.
        weights: one tensor for each rule; gradients flow to them. The weight of a hard rule is not used.
        temperature: what the logits of each item were divided by, [batch]; None for 1.
    """

    def __init__(self, parts: Sequence[Part], inputs: Inputs, weights: Sequence[Tensor],
                 temperature: Tensor | None = None):
        self.parts, self.inputs, self.weights = tuple(parts), inputs, list(weights)
        self.temperature = temperature

    @property
    def is_complete(self) -> bool:
        """Whether every component of every item is narrow enough."""
        return all(part.plan is not None and not part.plan.elimination.n_wide for part in self.parts)

    @property
    def has_wide_hard_rules(self) -> bool:
        """Whether a hard rule connects atoms of a component that is too wide."""
        return any(part.plan is None or part.plan.elimination.has_wide_hard_rules for part in self.parts)

    def __str__(self) -> str:
        if len(self.parts) == 1:
            return str(self.parts[0])
        return "\n".join(f"items {', '.join(map(str, [] if part.items is None else part.items.tolist()))}: {part}"
                         for part in self.parts)

    def sharpened(self, strength: Tensor) -> ExactRun:
        """The same for rules without weights: all weights times `strength`, [batch], at a low temperature.

        The worlds of such rules have no probabilities: only the logits do. At temperature 1 an atom would also gain
        from the number of worlds that it is true in, which for the root of a tree is nearly all of them.
        """
        temperature = strength / SHARPNESS
        unary = {name: x / for_each_item(temperature, x) for name, x in self.inputs.unary.items()}
        return ExactRun(self.parts, replace(self.inputs, unary=unary), [w * SHARPNESS for w in self.weights],
                        temperature)

    def logits(self) -> dict[str, Tensor]:
        """The logits of all unobserved predicates, [batch, ...]; 0 where a component is too wide."""
        found = self.each(lambda plan, inputs: plan.logits(inputs, self.weights))
        if self.temperature is None:
            return found
        return {name: x * for_each_item(self.temperature, x) for name, x in found.items()}

    def log_z(self, with_constant: bool = True) -> Tensor:
        """log Z of each item, [batch]; see `ExactPlan.log_z`."""
        return self.each(lambda plan, inputs: {"": plan.log_z(inputs, self.weights, with_constant)})[""]

    def loss(self, labels: Mapping[str, Tensor]) -> Tensor:
        """Minus the log-probability of labels, [batch]; see `ExactPlan.loss`."""
        return self.each(lambda plan, inputs, own: {"": plan.loss(inputs, self.weights, own)}, labels)[""]

    def violations(self) -> list[float]:
        """The expected number of violated groundings of each rule, summed over the batch; 0 for a hard rule."""
        with torch.enable_grad():
            weights = [w.detach().clone().requires_grad_() for w in self.weights]
            log_z = ExactRun(self.parts, self.inputs, weights).log_z(with_constant=False).sum()
            # log Z falls by the count of violations where a weight grows
            slopes = torch.autograd.grad(log_z, weights, allow_unused=True, materialize_grads=True)
        return [-float(slope.sum()) for slope in slopes]

    def best(self, theory: Theory) -> dict[str, Tensor]:
        """The best world of each item, [batch..., ...]: bool, or label indices for a multi-class predicate.

        Args:
            theory: the rules.
        """
        world = self.each(lambda plan, inputs: plan.best(inputs, self.weights))
        for name, x in world.items():
            x = x if theory.predicate[name].labels is None else x.to(torch.uint8).argmax(-1)
            world[name] = x.reshape((*self.inputs.batch, *x.shape[1:]))
        return world

    def is_exact(self, name: str) -> Tensor:
        """For each atom of a predicate whether its marginal is exact, [batch or 1, ...]."""
        like = self.inputs.unary[name]
        found = torch.zeros(like.shape, dtype=torch.bool, device=like.device)
        for part in self.parts:
            own = False if part.plan is None else part.plan.exact_atoms(name, like.device)
            found[slice(None) if part.items is None else part.items] = own
        return found

    def each(self, run: Callable[..., dict[str, Tensor]], labels: Mapping[str, Tensor] | None = None
             ) -> dict[str, Tensor]:
        """Run each part on its items, and put the results in order; torch.compile leaves it as it is.

        Args:
            run: called with a plan, its inputs, and its labels if there are any; returns tensors by predicate, or one
                by the empty name.
            labels: as for `loss`.
        """
        found: dict[str, Tensor] = torch.compiler.disable(self._run_each)(run, labels)  # type: ignore[no-untyped-call]
        return found

    def _run_each(self, run: Callable[..., dict[str, Tensor]], labels: Mapping[str, Tensor] | None
                  ) -> dict[str, Tensor]:
        found: list[dict[str, Tensor]] = []
        for part in self.parts:
            inputs = self.inputs if part.items is None else _select(self.inputs, part.items)
            more = () if labels is None else ({name: x if part.items is None or x.shape[0] == 1 else x[part.items]
                                               for name, x in labels.items()},)
            if part.plan is None:
                found.append({name: torch.zeros_like(x) for name, x in inputs.unary.items()})
                continue
            own = run(part.plan, inputs, *more)
            # predicates that evidence decides as a whole have no variables
            found.append(own if "" in own else {name: own[name] if name in own else (inputs.evidence[name] == 1).to(
                next(iter(own.values()), x).dtype).expand(x.shape) for name, x in inputs.unary.items()})
        if len(found) == 1:
            return found[0]
        order = torch.cat([part.items for part in self.parts if part.items is not None]).argsort()
        return {name: torch.cat([part[name] for part in found])[order] for name in found[0]}


class ExactPlans:
    """The plans of a layer, by sizes and evidence.

    Args:
        theory: the rules.
        semantics: as for `LogicMP`.
    """

    def __init__(self, theory: Theory, semantics: str):
        self.theory, self.semantics = theory, semantics
        self._plans: dict[object, Part] = {}
        # sizes at which nothing was cheap enough without evidence: larger inputs are not tried
        self._too_large: list[tuple[frozenset[str], dict[str, int], Part]] = []
        # the evidence tensors of the last call, with their versions, and what was found for them
        self._last: tuple[object, list[weakref.ref[Tensor]], list[Part]] | None = None

    def find(self, inputs: Inputs, evidence: Mapping[str, Tensor] | None, is_cheap: bool) -> list[Part]:
        """The plans for a call.

        Args:
            inputs: checked tensors of the call.
            evidence: as it was given: the same tensors find the same plans without a look at their values.
            is_cheap: for method "auto": small limits, and no error where they are exceeded.
        """
        given = list((evidence or {}).values())
        masked = frozenset(inputs.masks)
        key = None
        if not any(x.is_inference() for x in given):
            key = (is_cheap, inputs.sizes, masked, inputs.batch, tuple(evidence or ()),
                   tuple((id(x), x._version) for x in given))
            if self._last is not None and self._last[0] == key and all(ref() is x for ref, x in zip(
                    self._last[1], given, strict=True)):
                return self._last[2]
        found = [replace(self.part(inputs.sizes, known, masked, is_cheap), items=items)
                 for items, known in _patterns(inputs)]
        if key is not None:
            self._last = key, [weakref.ref(x) for x in given], found
        return found

    def part(self, sizes: Mapping[str, int], known: Mapping[str, Tensor], masked: frozenset[str] = frozenset(),
             is_cheap: bool = False) -> Part:
        """The plan for given sizes and evidence; planned when first needed.

        Args:
            sizes: number of entities by type.
            known: observed atoms, by predicate, without batch: 1, 0, NaN for unobserved.
            masked: the types with a mask.
            is_cheap: as for `find`.
        """
        place = (is_cheap, tuple(sorted(sizes.items())), masked,
                 tuple((name, _bytes(x)) for name, x in known.items()))
        if place not in self._plans:
            if len(self._plans) >= MAX_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[place] = self._make(sizes, known, masked, is_cheap)
        return self._plans[place]

    def _make(self, sizes: Mapping[str, int], known: Mapping[str, Tensor], masked: frozenset[str],
              is_cheap: bool) -> Part:
        known = {name: x.cpu() for name, x in known.items()}
        if not is_cheap:
            return Part(None, ExactPlan(self.theory, sizes, known, masked, self.semantics))
        for types, smaller, part in self._too_large:
            if not known and types == masked and all(sizes[name] >= n for name, n in smaller.items()):
                return part
        try:
            plan = ExactPlan(self.theory, sizes, known, masked, self.semantics, CHEAP_CELLS, CHEAP_GROUNDINGS)
        except CostError as error:
            place = f", in line {error.span.line}" if error.span is not None else ""
            part = Part(None, None, error.message + place)
        else:
            part = Part(None, plan)
            if not plan.elimination.n_components:
                part = Part(None, None, str(plan).splitlines()[-1])
        if part.plan is None and not known:
            self._too_large.append((masked, dict(sizes), part))
        return part


def _patterns(inputs: Inputs) -> list[tuple[Tensor | None, dict[str, Tensor]]]:
    """The items that share their observed predicates, with the evidence that they share, without batch."""
    shared = {name: x[0] for name, x in inputs.evidence.items() if _is_shared(x)}
    own = {name: x for name, x in inputs.observed.items() if not _is_shared(x)}
    shared |= {name: x[0] for name, x in inputs.observed.items() if name not in own}
    if not own:
        return [(None, shared)]
    groups: dict[tuple[bytes, ...], list[int]] = {}
    on_cpu = {name: x.cpu() for name, x in own.items()}
    for k in range(math.prod(inputs.batch)):
        groups.setdefault(tuple(_bytes(x[k]) for x in on_cpu.values()), []).append(k)
    return [(torch.tensor(items, device=inputs.like.device),
             {**shared, **{name: x[items[0]] for name, x in own.items()}}) for items in groups.values()]


def _bytes(x: Tensor) -> bytes:
    # numpy has no bfloat16
    return x.detach().cpu().float().numpy().tobytes()


def _is_shared(x: Tensor) -> bool:
    """Whether all items have the same values."""
    return x.shape[0] == 1 or bool(((x == x[:1]) | (x.isnan() & x[:1].isnan())).all())


def _select(inputs: Inputs, items: Tensor) -> Inputs:
    """Some items of a batch."""
    unary, observed, evidence, masks = (
        {name: x if x.shape[0] == 1 else x[items] for name, x in tensors.items()}
        for tensors in (inputs.unary, inputs.observed, inputs.evidence, inputs.masks))
    return Inputs(unary, observed, evidence, masks, inputs.sizes, (len(items),))


def read_labels(theory: Theory, labels: Mapping[str, Tensor], inputs: Inputs) -> dict[str, Tensor]:
    """Labels as 1, 0 and NaN, [batch, ...]; integers of a multi-class predicate become one-hot.

    Args:
        theory: the rules.
        labels: by predicate: bool, floats with NaN for a missing label, or integers, negative for a missing label: the
            index of the label of a multi-class predicate, else 1 and 0.
        inputs: checked tensors of the call.
    """
    if not isinstance(labels, Mapping):
        raise wrong_type("labels", labels, Mapping[str, Tensor])
    found = {}
    for name, x in labels.items():
        check_tensor(f"labels[{name!r}]", x, inputs.like)
        check_data(f"labels[{name!r}]", x)
        if name not in inputs.unary:
            raise LogicMPError(f"labels names {name!r}, which is not an unobserved predicate",
                               f"give labels for: {', '.join(inputs.unary)}")
        predicate, like = theory.predicate[name], inputs.unary[name]
        shape = predicate.shape(inputs.sizes)
        if predicate.labels is not None and not x.is_floating_point() and x.dtype != torch.bool:
            n = len(predicate.labels)
            if bool((x >= n).any()):
                raise LogicMPError(f"labels[{name!r}] has the label {int(x.max())}; expected 0 to {n - 1}, because "
                                   f"{predicate}", "use -1 for a missing label")
            x = torch.where((x < 0).unsqueeze(-1), torch.nan, one_hot(x.long().clamp_min(0), n).to(like.dtype))
        elif not x.is_floating_point() and x.dtype != torch.bool:
            x = torch.where(x < 0, torch.nan, x.to(like.dtype))
        if tuple(x.shape) not in ((*inputs.batch, *shape), shape):
            raise LogicMPError(f"labels[{name!r}] has shape {list(x.shape)}; expected {[*inputs.batch, *shape]}")
        x = x.to(like.dtype).expand((*inputs.batch, *shape)).reshape(-1, *shape)
        if not bool((x.isnan() | (x == 0) | (x == 1)).all()):
            raise LogicMPError(f"labels[{name!r}] has values other than 0, 1 and NaN",
                               "1 is true, 0 false, NaN a missing label")
        found[name] = as_variables(inputs, predicate, x, "labels")
        _reject_contradiction(predicate, found[name], inputs)
    return found


def _reject_contradiction(predicate: Predicate, labels: Tensor, inputs: Inputs) -> None:
    """Raise if a label contradicts the evidence of the same atom, or of another value of its variable."""
    evidence = inputs.evidence.get(predicate.name)
    if evidence is None:
        return
    differ = labels + evidence == 1
    if predicate.is_categorical:
        merged = torch.where(labels.isnan(), evidence, labels)
        differ = differ | ((merged == 1).sum(value_dims(predicate), keepdim=True) > 1)
    exists = inputs.exists(predicate)
    differ = differ if exists is None else differ & (exists > 0)
    if bool(differ.any()):
        at = differ.nonzero()[0].tolist()
        raise LogicMPError(f"labels[{predicate.name!r}] contradicts the evidence at index {at[1:]} of item {at[0]}",
                           "correct the label, or use NaN for observed atoms")
