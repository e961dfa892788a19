"""The layer: rules in, corrected and differentiable predictions out.

Stage: execute -> **layer** -> infer.  Paper: Algorithm 1, Eq. 2.

    layer = LogicMP("2 C(a,b) ^ C(b,c) => C(a,c)")
    logits = layer(logits)                          # [batch, n, n] in, [batch, n, n] out
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .errors import LogicMPError
from .execute.dense import DenseExecutor
from .execute.explain import Push, find_atom, strongest
from .execute.inputs import Inputs, read_inputs
from .execute.marginals import as_given, marginals, one_per_variable, unary_and_entropy
from .execute.receive import subtract
from .execute.recompute import Recompute
from .execute.state import State, is_tracing
from .files import write_whole
from .normalize.build import SEMANTICS, normalize_theory
from .parse.load import parse_theory
from .parse.theory import Theory
from .plan.build import MAX_ELEMENTS, build_plan

# how many plans a layer keeps
MAX_PLANS = 256


@dataclass(frozen=True)
class Trace:
    """What happened in a run, one entry for the start and one for each iteration."""

    marginals: list[dict[str, Tensor]]
    # [iterations + 1, batch...]
    elbo: Tensor
    # [iterations + 1, batch..., rules]
    violations: Tensor
    logits: dict[str, Tensor]


@dataclass(frozen=True)
class Step:
    """One iteration of a run; number 0 is the start. ELBO and violations are computed when they are asked for."""

    number: int
    # by predicate, and the log-odds they come from, [1, ...] where there is no batch
    marginals: dict[str, Tensor]
    logits: dict[str, Tensor]
    # [batch...]
    elbo: Callable[[], Tensor]
    # [batch..., rules]
    violations: Callable[[], Tensor]


# sees every iteration of a run, and stops it by returning True
Watch = Callable[[Step], bool | None]


class LogicMP(nn.Module):
    r"""Mean-field inference over a Markov logic network, as a layer.

    .. math:: \ell_r \leftarrow \phi_r - \sum_f w_f \, \partial V_f / \partial q_r

    Our `unary` is the paper's \Phi_u, `weights[f]` its w_f, `iterations` its T (Algorithm 1).

    Shapes (n_t = number of entities of type t):
        unary[pred]:  [batch..., n_t1, ..., n_tk]  log-odds, or [..., labels] for a multi-class predicate
        returns:      the same keys and shapes, logits again

    Args:
        theory: rules as text, or a `Theory`. One line without declarations will do.
        iterations: mean-field updates.
        damping: how much of the old logits stays in each update, 0 to below 1.
        tolerance: stop early when no marginal moves by more than this; 0 runs all iterations.
        learn_weights: whether the weights of soft rules are trained.
        semantics: "exact", "paper" or "alchemy"; see docs/language.md.
        reduce: "sum", or "mean" to divide a rule's weight by its groundings per atom, for inputs of different size.
        hard_weight: the weight a hard rule acts with here.
        positive_weights: keep learned weights above zero.
        sizes: how many constants a type has, where rules with `+x` need to know before the first call.
        dtype: of the weights, torch's default if none is given.
    """

    def __init__(self, theory: Theory | str, iterations: int = 5, damping: float = 0.0, tolerance: float = 0.0,
                 learn_weights: bool = True, semantics: str = "exact", reduce: str = "sum", hard_weight: float = 10.0,
                 positive_weights: bool = False, sizes: Mapping[str, int] | None = None,
                 max_elements: int = MAX_ELEMENTS, dtype: torch.dtype | None = None):
        super().__init__()
        if semantics not in SEMANTICS:
            raise LogicMPError(f"unknown semantics {semantics!r}", f"known: {', '.join(SEMANTICS)}")
        if reduce not in ("sum", "mean"):
            raise LogicMPError(f"unknown reduce {reduce!r}", "known: sum, mean")
        if not isinstance(iterations, int) or iterations < 0 or not 0 <= damping < 1 or tolerance < 0:
            raise LogicMPError(f"iterations={iterations}, damping={damping}, tolerance={tolerance} cannot be",
                               "iterations is a whole number, it and tolerance are at least 0, damping is from 0 to "
                               "below 1")
        self.theory = parse_theory(theory) if isinstance(theory, str) else theory
        self.options: dict[str, Any] = {
            "iterations": iterations, "damping": damping, "tolerance": tolerance, "learn_weights": learn_weights,
            "semantics": semantics, "reduce": reduce, "hard_weight": hard_weight, "positive_weights": positive_weights,
            "sizes": dict(sizes or {}), "max_elements": max_elements}
        # plans by sizes and observed predicates, each made in the first call that needs it and used for all sizes near
        # its own, unless it depends on them
        self._executors: dict[Any, DenseExecutor] = {}
        known = self.theory.with_sizes(sizes or {})
        self.raw_weights = nn.ParameterList()
        for rule in self.theory.rules:
            value = hard_weight if rule.is_hard else 1.0 if rule.weight is None else rule.weight
            shape = [known[rule.variables[name]] for name in rule.per_constant]
            if 0 in shape:
                raise LogicMPError(f"the rule '{rule}' has one weight per constant, and the constants are not known",
                                   "declare them in the theory, or give sizes")
            weight = torch.full(shape, float(value), dtype=dtype)
            if positive_weights and not rule.is_hard:
                if value <= 0:
                    raise LogicMPError(f"the rule '{rule}' has weight {value:g}, but positive_weights is set")
                weight = torch.log(torch.expm1(weight))
            self.raw_weights.append(nn.Parameter(weight, requires_grad=learn_weights and not rule.is_hard))

    # weights and plans

    @property
    def weights(self) -> list[Tensor]:
        """The weight of each rule, as it acts; a tensor for a rule with one weight per constant."""
        positive = self.options["positive_weights"]
        return [nn.functional.softplus(raw) if positive and not rule.is_hard else raw
                for raw, rule in zip(self.raw_weights, self.theory.rules, strict=True)]

    def executor(self, sizes: Mapping[str, int], observed: Sequence[str] = ()) -> DenseExecutor:
        """The plan for given sizes and observed predicates, made when first needed."""
        # under export a size is a symbol: the plan is made for the example's size and runs at any
        is_open = any(isinstance(size, torch.SymInt) for size in sizes.values())
        sizes = {name: size.node.hint if isinstance(size, torch.SymInt) else size for name, size in sizes.items()}
        at, near = ((which, tuple((name, f(size)) for name, size in sorted(sizes.items())), tuple(sorted(observed)))
                    for which, f in (("at", int), ("near", _about)))
        executor = self._executors.get(near) or self._executors.get(at)
        if executor is None:
            form = normalize_theory(self.theory, self.options["semantics"], sizes)
            plan = build_plan(form, sizes, observed, self.options["max_elements"])
            executor = DenseExecutor(plan, self.theory)
            # how messages are averaged depends on which type is the largest
            is_sized = plan.is_sized or self.options["reduce"] == "mean"
            if len(self._executors) >= MAX_PLANS:
                del self._executors[next(iter(self._executors))]
            self._executors[at if is_sized else near] = executor
        if is_open and executor.plan.is_sized:
            raise LogicMPError("the plan of these rules depends on the sizes: they cannot be left open in an export",
                               "export with fixed sizes, or raise max_elements if values were cut into pieces")
        return executor

    def _state(self, inputs: Inputs, executor: DenseExecutor, q: Mapping[str, Tensor]) -> State:
        state = State({**q, **inputs.observed}, [], inputs.sizes, inputs.masks)
        weights = []
        for weight, rule in zip(self.weights, executor.plan.rules, strict=True):
            weight = weight.to(inputs.like.dtype)
            if rule.n_weight_axes:
                weight = weight.unsqueeze(0)
            if self.options["reduce"] == "mean":
                counted = _product(executor.count(axis, state) for ranges in rule.groundings[:1] for axis in ranges)
                per_atom = counted / _product(executor.count(axis, state) for axis in rule.spread)
                # an atom below a quantifier stands in less than one grounding of its own: nothing to divide
                if isinstance(per_atom, Tensor):
                    per_atom = per_atom.clamp_min(1.0).reshape(-1, *[1] * rule.n_weight_axes)
                else:
                    per_atom = max(per_atom, 1.0)
                weight = weight / per_atom
            weights.append(weight)
        state.weights = weights
        return state

    # inference

    def forward(self, unary: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None,
                mask: Tensor | Mapping[str, Tensor] | None = None) -> Any:
        """Correct log-odds by the rules.

        Args:
            unary: log-odds or logits by predicate; one tensor if only one predicate has no evidence. A predicate
                without unary and evidence starts undecided.
            evidence: by predicate, a bool tensor (all atoms observed) or a float one with 1, 0, and NaN for unknown.
            mask: which entities exist, by type, [batch..., n]; one tensor if there is only one type.

        Returns:
            A tensor for a tensor, a dict for a dict, of the shapes that came in.
        """
        inputs = read_inputs(self.theory, unary, evidence, mask)
        logits = self._iterate(inputs)
        if isinstance(unary, Tensor):
            return self._output(inputs, logits, next(n for n in inputs.unary if n not in inputs.observed), unary)
        return {name: self._output(inputs, logits, name, tensor) for name, tensor in unary.items()}

    def run(self, unary: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None,
            mask: Tensor | Mapping[str, Tensor] | None = None, start: Mapping[str, Tensor] | None = None,
            watch: Watch | None = None) -> dict[str, Tensor]:
        """Run as `forward` does, in view of the caller; returns the logits of every predicate that is not observed.

        Args:
            start: logits to start from instead of `unary`, by predicate.
            watch: called with every iteration; the run ends when it returns True.
        """
        inputs = read_inputs(self.theory, unary, evidence, mask)
        first = None if start is None else read_inputs(self.theory, start, evidence, mask).unary
        logits = self._iterate(inputs, watch, first)
        return {name: self._output(inputs, logits, name, tensor) for name, tensor in inputs.unary.items()}

    def _step(self, inputs: Inputs, number: int, q: dict[str, Tensor], logits: dict[str, Tensor]) -> Step:
        shape = (*inputs.batch, len(self.theory.rules))
        return Step(number, q, logits, lambda: self._elbo(inputs, q).reshape(inputs.batch),
                    lambda: self._counts(inputs, q).reshape(shape))

    def _iterate(self, inputs: Inputs, watch: Watch | None = None,
                 start: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Algorithm 1: update all marginals at once, `iterations` times."""
        executor = self.executor(inputs.sizes, tuple(inputs.observed))
        base = self._prepared(inputs.unary)
        logits = base if start is None else self._prepared(start)
        constants = None
        q: dict[str, Tensor] = {}
        recompute = self._recompute(inputs, base)
        state = self._state(inputs, executor, base)
        with contextlib.nullcontext() if recompute is None else recompute.hooks():
            for number in range(self.options["iterations"]):
                before, q = q, self._all_marginals(inputs, logits)
                if watch is not None and watch(self._step(inputs, number, q, logits)):
                    break
                if before and self._has_settled(before, q):
                    break
                if recompute is not None:
                    state.iteration = recompute.iteration(q, partial(self._remake, inputs, base, state.updates))
                state.q, state.updates = {**q, **inputs.observed}, {}
                constants = executor.constants(state) if constants is None else constants
                # without damping nothing needs the old logits: their memory goes before the new ones come
                old, logits = (logits if self.options["damping"] else {}), base
                logits = executor.subtract_messages(base, state, constants)
                logits = {name: torch.lerp(x, old[name], self.options["damping"]) if old else x
                          for name, x in logits.items()}
            else:
                if watch is not None:
                    q = self._all_marginals(inputs, logits)
                    watch(self._step(inputs, self.options["iterations"], q, logits))
        if recompute is not None:
            recompute.finish()
        return logits

    def _all_marginals(self, inputs: Inputs, logits: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: marginals(inputs, self.theory.predicate[name], tensor) for name, tensor in logits.items()}

    def _prepared(self, unary: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: one_per_variable(self.theory.predicate[name], tensor) for name, tensor in unary.items()}

    def _output(self, inputs: Inputs, logits: Mapping[str, Tensor], name: str, given: Tensor) -> Tensor:
        return as_given(inputs, self.theory.predicate[name], logits, given.shape)

    def _has_settled(self, before: Mapping[str, Tensor], q: Mapping[str, Tensor]) -> bool:
        """Whether no marginal moved by more than the tolerance."""
        if not self.options["tolerance"] or is_tracing():
            return False
        moved = [float((q[name] - before[name]).detach().abs().max()) for name in q if q[name].numel()]
        return bool(max(moved, default=0.0) < self.options["tolerance"])

    def _recompute(self, inputs: Inputs, base: Mapping[str, Tensor]) -> Recompute | None:
        """In training, keep less for the backward pass; not where logits depend on those of the iteration before."""
        needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in (*base.values(), *self.raw_weights))
        if not needs_grad or self.options["damping"] or is_tracing():
            return None
        return Recompute([*base.values(), *inputs.evidence.values(), *inputs.masks.values(), *self.raw_weights])

    def _remake(self, inputs: Inputs, base: Mapping[str, Tensor], updates: Mapping[str, Any], name: str) -> Tensor:
        """The marginals an iteration started with, from what its logits were made of."""
        logits = base[name].detach()
        for total, weight in updates.get(name, ()):
            logits = subtract(logits, total, weight)
        return marginals(inputs, self.theory.predicate[name], logits)

    # what the same plan gives besides

    def trace(self, unary: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None,
              mask: Tensor | Mapping[str, Tensor] | None = None) -> Trace:
        """Run as `forward` does, and keep marginals, ELBO and expected violations of every iteration."""
        inputs = read_inputs(self.theory, unary, evidence, mask)
        seen: list[Step] = []
        logits = self._iterate(inputs, seen.append)
        shaped = [{name: q.reshape((*inputs.batch, *q.shape[1:])) for name, q in step.marginals.items()}
                  for step in seen]
        return Trace(shaped, torch.stack([step.elbo() for step in seen]),
                     torch.stack([step.violations() for step in seen]),
                     {name: tensor.reshape((*inputs.batch, *tensor.shape[1:])) for name, tensor in logits.items()})

    def violations(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None,
                   mask: Tensor | Mapping[str, Tensor] | None = None) -> Tensor:
        """The expected number of violated groundings of each rule, [batch..., rules]."""
        inputs = read_inputs(self.theory, logits, evidence, mask)
        return self._counts(inputs, self._independent(inputs)).reshape(*inputs.batch, len(self.theory.rules))

    def theory_loss(self, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None,
                    mask: Tensor | Mapping[str, Tensor] | None = None) -> Tensor:
        """The weighted expected violations, [batch...]: the paper's SLrelax, a loss for the network below."""
        inputs = read_inputs(self.theory, logits, evidence, mask)
        return self._counts(inputs, self._independent(inputs), weighted=True).sum(-1).reshape(inputs.batch)

    def elbo(self, unary: Tensor | Mapping[str, Tensor], logits: Tensor | Mapping[str, Tensor],
             evidence: Mapping[str, Tensor] | None = None, mask: Tensor | Mapping[str, Tensor] | None = None) -> Tensor:
        """The lower bound of log Z that mean field climbs, at the marginals given by `logits`, [batch...]."""
        inputs = read_inputs(self.theory, unary, evidence, mask)
        at = read_inputs(self.theory, logits, evidence, mask)
        return self._elbo(inputs, self._independent(at)).reshape(inputs.batch)

    def explain(self, atom: str, unary: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None,
                mask: Tensor | Mapping[str, Tensor] | None = None, item: int = 0) -> list[Push]:
        """Which rules pushed an atom of one batch item, and by how much, strongest first.

        The amounts are what the rules add to the atom's log-odds at the marginals where the run ended: `unary` plus
        their sum is the next update. `push.groundings()` says which groundings it came from.
        """
        inputs = read_inputs(self.theory, unary, evidence, mask)
        found = find_atom(atom, self.theory, inputs.sizes)
        with torch.no_grad():
            seen: list[Step] = []
            self._iterate(inputs, seen.append)
            executor = self.executor(inputs.sizes, tuple(inputs.observed))
            state = self._state(inputs, executor, seen[-1].marginals)
            form = normalize_theory(self.theory, self.options["semantics"], inputs.sizes)
            zeros = {found.predicate: torch.zeros_like(state.q[found.predicate])}
            weights, q = [w.detach() for w in state.weights], {name: tensor[item] for name, tensor in state.q.items()}
            pushes, place = [], (item, *found.place)
            for f, normal in enumerate(form.rules):
                state.weights = [w if k == f else torch.zeros_like(w) for k, w in enumerate(weights)]
                update = executor.subtract_messages(zeros, state, executor.constants(state))[found.predicate]
                weight = weights[f][item if weights[f].shape[0] > 1 else 0] if weights[f].dim() else weights[f]
                pushes.append(Push(str(normal.rule), float(update[place]),
                                   partial(strongest, normal, weight, found, q, inputs.sizes, self.theory)))
        return sorted(pushes, key=lambda push: -abs(push.amount))

    def _independent(self, inputs: Inputs) -> dict[str, Tensor]:
        return self._all_marginals(inputs, self._prepared(inputs.unary))

    def _counts(self, inputs: Inputs, q: Mapping[str, Tensor], weighted: bool = False) -> Tensor:
        executor = self.executor(inputs.sizes, tuple(inputs.observed))
        return executor.counts(self._state(inputs, executor, q), weighted)

    def _elbo(self, inputs: Inputs, q: Mapping[str, Tensor]) -> Tensor:
        executor = self.executor(inputs.sizes, tuple(inputs.observed))
        state = self._state(inputs, executor, q)
        total = -executor.counts(state, weighted=True).sum(-1)
        for f, rule in enumerate(executor.plan.rules):
            total = total + executor.weighted_groundings(f, state) / rule.n_clauses
        for name, unary in self._prepared(inputs.unary).items():
            total = total + unary_and_entropy(inputs, self.theory.predicate[name], unary, q[name])
        return total

    # saving

    def get_extra_state(self) -> Tensor:
        """The rules, as bytes in a tensor: nothing that has to be unpickled."""
        return torch.tensor(list(str(self.theory).encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        text = bytes(state.tolist()).decode()
        if parse_theory(text) != parse_theory(str(self.theory)):
            raise LogicMPError("the saved state belongs to other rules:\n" + text,
                               "make the layer from these rules, or use LogicMP.load")

    def save(self, path: str | Path) -> None:
        """Write rules, options and weights to one safetensors file, whole or not at all."""
        from safetensors.torch import save

        write_whole(Path(path), save(
            {k: v for k, v in self.state_dict().items() if not k.endswith("_extra_state")},
            {"theory": str(self.theory), "options": json.dumps(self.options)}), "a layer")

    @staticmethod
    def load(path: str | Path) -> LogicMP:
        """Read a layer that `save` wrote."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), "pt") as file:
                metadata = file.metadata() or {}
                weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as cause:
            raise LogicMPError(f"cannot read a layer from {str(path)!r}: {cause}") from None
        if "theory" not in metadata:
            raise LogicMPError(f"{str(path)!r} is not a saved layer: it holds no theory")
        try:
            layer = LogicMP(metadata["theory"], **json.loads(metadata["options"]))
        except (KeyError, TypeError, ValueError) as cause:
            raise LogicMPError(f"{str(path)!r} is not a saved layer: {cause}") from None
        expected = {name: list(weight.shape) for name, weight in layer.named_parameters()}
        found = {name: list(weight.shape) for name, weight in weights.items()}
        if found != expected:
            raise LogicMPError(f"the weights in {str(path)!r} are not those of its rules: it has {found}, "
                               f"expected {expected}")
        # assign: the weights keep the dtype they were saved with
        layer.load_state_dict(weights, strict=False, assign=True)
        return layer

    def __getstate__(self) -> dict[str, Any]:
        # plans are made again when needed
        return {**self.__dict__, "_executors": {}}

    def extra_repr(self) -> str:
        return f"{len(self.theory.rules)} rules, iterations={self.options['iterations']}"


def _about(size: int) -> int:
    """A size with its four leading bits: what is best for it is good for all that have the same.

    >>> [_about(size) for size in (15, 16, 17, 18, 512, 575, 576)]
    [15, 16, 16, 18, 512, 512, 576]
    """
    shift = max(0, size.bit_length() - 4)
    return size >> shift << shift


def _product(values: Any) -> Any:
    result: Any = 1.0
    for value in values:
        result = result * value
    return result
