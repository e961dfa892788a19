"""The layer: rules in, corrected and differentiable predictions out.

Room: execute -> **layer** -> inference, learning, constrain.  Paper: Algorithm 1, Eq. 2.

    layer = LogicMP("2 C(a,b) ^ C(b,c) => C(a,c)")
    logits = layer(logits)                          # [batch, n, n] in, [batch, n, n] out
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from operator import index
from pathlib import Path
from typing import Any, overload
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from .errors import LogicMPError
from .execute.dense import DenseExecutor, build_executor
from .execute.explain import Push, Report, build_report, find_atom, push_of_each_rule, strongest
from .execute.inputs import has_sparse, read_inputs
from .execute.lists import make_sparse_run
from .execute.mean_field import Iteration, Run, Watch, initial_weights
from .execute.schedule import SCHEDULES, Schedule, make_schedule
from .files import load_tensors, save_tensors
from .normalize.build import SEMANTICS, normalize_theory
from .parse.load import parse_theory
from .parse.theory import Theory
from .plan.build import MAX_ELEMENTS

# how many plans a layer keeps
MAX_PLANS = 256
# layers by number: torch.compile passes numbers, not layers, to the function that plans while it traces
_LAYERS: WeakValueDictionary[int, LogicMP] = WeakValueDictionary()
_numbers = itertools.count()

# one tensor for the only predicate without evidence, or a tensor for each predicate
Logits = Tensor | Mapping[str, Tensor]
# by predicate; by type, or one tensor for the only type
Evidence = Mapping[str, Tensor]
Mask = Tensor | Mapping[str, Tensor]


@dataclass(frozen=True)
class Trace:
    """The course of a run: one entry for the start and one for each iteration."""

    marginals: list[dict[str, Tensor]]
    # [iterations + 1, batch...]
    elbo: Tensor
    # [iterations + 1, batch..., rules]
    violations: Tensor
    # [iterations + 1, batch...]: temperature of the marginals that send messages, root mean square of all pushes so far
    temperature: Tensor
    push: Tensor
    logits: dict[str, Tensor]


@dataclass(frozen=True)
class Options:
    """Everything a layer is made from besides its rules; saved with it."""

    schedule: Schedule = SCHEDULES["paper"]
    learn_weights: bool = True
    semantics: str = "exact"
    reduce: str = "sum"
    hard_weight: float = 10.0
    positive_weights: bool = False
    sizes: dict[str, int] = field(default_factory=dict)
    max_elements: int = MAX_ELEMENTS

    def __post_init__(self) -> None:
        for name, value, known in (("semantics", self.semantics, SEMANTICS), ("reduce", self.reduce, ("sum", "mean"))):
            if value not in known:
                raise LogicMPError(f"unknown {name} {value!r}", f"available: {', '.join(known)}")


class LogicMP(nn.Module):
    r"""Mean-field inference over a Markov logic network, as a layer.

    .. math:: \ell_r \leftarrow \phi_r - \sum_f w_f \, \partial V_f / \partial q_r

    Our `unary` is the paper's \Phi_u, `weights[f]` its w_f, `iterations` its T (Algorithm 1).

    Shapes (n_t = number of entities of type t):
        unary[pred]:  [batch..., n_t1, ..., n_tk]  log-odds, or [..., labels] for a multi-class predicate
        returns:      the same keys and shapes, logits again

    Args:
        theory: rules as text, or a `Theory`. One line without declarations is enough.
        iterations: mean-field updates per call, at least 0; by default those of the schedule (5 for "paper",
            15 for "adaptive").
        damping: share of the previous log-odds kept in each update, 0 to below 1; by default that of the schedule.
        tolerance: stop early when no marginal changes by more than this; 0 runs all iterations.
        learn_weights: whether the weights of soft rules are trained.
        semantics: "exact" (counts of true groundings), "paper" (Eq. 4-5 as printed) or "alchemy" (a formula's weight
            is divided over its clauses).
        reduce: "sum", or "mean" to divide a rule's weight by its groundings per atom, for inputs of different size.
        hard_weight: finite weight that stands in for a hard rule (mean field needs one).
        positive_weights: keep learned weights above zero.
        sizes: number of entities by type. Rules with `+x` need it; with all sizes known the layer plans when it is
            made, and a rule that costs too much fails there.
        max_elements: largest tensor that a plan may create; larger ones are sliced, or the rule is rejected.
        dtype: of the weights; torch's default dtype by default.
        schedule: "paper" (Algorithm 1), "adaptive" (weak pushes first: finds clusters and matchings that "paper"
            loses), "cold", or a `Schedule` of your own.
    """

    def __init__(self, theory: Theory | str, iterations: int | None = None, damping: float | None = None,
                 tolerance: float | None = None,
                 learn_weights: bool = True, semantics: str = "exact", reduce: str = "sum", hard_weight: float = 10.0,
                 positive_weights: bool = False, sizes: Mapping[str, int] | None = None,
                 max_elements: int = MAX_ELEMENTS, dtype: torch.dtype | None = None,
                 schedule: str | Schedule = "paper"):
        super().__init__()
        self.options = Options(make_schedule(schedule, iterations, damping, tolerance), learn_weights, semantics,
                               reduce, hard_weight, positive_weights, dict(sizes or {}), max_elements)
        # by sizes and observed predicates; a plan serves all sizes near its own, unless it depends on them
        self._executors: dict[Any, DenseExecutor] = {}
        # for sparse tensors, by their indices
        self._sparse: list[Any] = []
        self._register()
        self.theory = parse_theory(theory) if isinstance(theory, str) else theory
        known = self.theory.with_sizes(self.options.sizes)
        self.raw_weights = nn.ParameterList()
        weights = initial_weights(self.theory, known, hard_weight, dtype)
        for rule, weight in zip(self.theory.rules, weights, strict=True):
            if positive_weights and not rule.is_hard:
                if not (weight > 0).all():
                    raise LogicMPError(f"the rule '{rule}' has weight {rule.weight:g}, but positive_weights is set")
                weight = torch.log(torch.expm1(weight))
            self.raw_weights.append(nn.Parameter(weight, requires_grad=learn_weights and not rule.is_hard))
        if all(t.closed or t.name in self.options.sizes for t in self.theory.types):
            self.executor(known, [p.name for p in self.theory.predicates if p.closed_world])

    # weights and plans

    @property
    def weights(self) -> list[Tensor]:
        """The weight of each rule, as it acts; a tensor for a rule with one weight per constant."""
        return [nn.functional.softplus(raw) if self.options.positive_weights and not rule.is_hard else raw
                for raw, rule in zip(self.raw_weights, self.theory.rules, strict=True)]

    def executor(self, sizes: Mapping[str, int], observed: Sequence[str] = ()) -> DenseExecutor:
        """The plan for given sizes and observed predicates, ready to run; planned when first needed."""
        if torch.compiler.is_dynamo_compiling():
            # planning cannot be traced: it runs now, and the trace finds its result below
            sizes = {name: index(size) for name, size in sizes.items()}
            _plan_while_tracing(self._number, tuple(sizes.items()), tuple(observed))
        # under export a size is a symbol: the plan is made for the example's size and runs at any
        is_open = any(isinstance(size, torch.SymInt) for size in sizes.values())
        sizes = {name: size.node.hint if isinstance(size, torch.SymInt) else size for name, size in sizes.items()}
        at, near = ((which, tuple((name, f(size)) for name, size in sorted(sizes.items())), tuple(sorted(observed)))
                    for which, f in (("at", int), ("near", _about)))
        executor = self._executors.get(near) or self._executors.get(at)
        if executor is None:
            executor = build_executor(self.theory, sizes, observed, self.options.semantics, self.options.max_elements)
            # how messages are averaged depends on which type is the largest
            is_sized = executor.plan.is_sized or self.options.reduce == "mean"
            if len(self._executors) >= MAX_PLANS:
                del self._executors[next(iter(self._executors))]
            self._executors[at if is_sized else near] = executor
        if is_open and executor.plan.is_sized:
            raise LogicMPError("the plan of these rules depends on the sizes: they cannot be left open in an export",
                               "export with fixed sizes, or raise max_elements if values were sliced")
        return executor

    def _run(self, unary: Logits, evidence: Evidence | None, mask: Mask | None) -> Run:
        weights = self.weights
        if has_sparse(self.theory, unary, evidence):
            return make_sparse_run(self.theory, unary, evidence, mask, self.options.sizes, weights,
                                   self.options.semantics, self.options.reduce, self._sparse)
        inputs = read_inputs(self.theory, unary, evidence, mask)
        return Run(self.executor(inputs.sizes, tuple(inputs.observed)), inputs, weights, self.options.reduce)

    # inference

    @overload
    def forward(self, unary: Tensor, evidence: Evidence | None = None, mask: Mask | None = None) -> Tensor: ...

    @overload
    def forward(self, unary: Mapping[str, Tensor], evidence: Evidence | None = None,
                mask: Mask | None = None) -> dict[str, Tensor]: ...

    def forward(self, unary: Logits, evidence: Evidence | None = None,
                mask: Mask | None = None) -> Tensor | dict[str, Tensor]:
        """Correct log-odds by the rules.

        Args:
            unary: log-odds or logits by predicate; one tensor if only one predicate has no evidence. A predicate
                without unary and evidence starts undecided.
            evidence: by predicate, a bool tensor (all atoms observed) or a float one with 1, 0, and NaN for unobserved;
                or the true atoms only, as an int64 tensor [arguments, n] of entity numbers (`edge_index`) or as a
                sparse tensor. A sparse tensor in `unary` lists the candidates: all other atoms are false.
            mask: which entities exist, by type, [batch..., n]; one tensor if there is only one type.

        Returns:
            A tensor for a tensor, a dict for a dict, of the shapes that came in.
        """
        run = self._run(unary, evidence, mask)
        logits = run.iterate(self.options.schedule)
        if isinstance(unary, Tensor):
            # the predicate that was given comes first
            return run.output(logits, next(iter(run.inputs.unary)), unary.shape)
        return {name: run.output(logits, name, tensor.shape) for name, tensor in unary.items()}

    @overload
    def __call__(self, unary: Tensor, evidence: Evidence | None = None, mask: Mask | None = None) -> Tensor: ...

    @overload
    def __call__(self, unary: Mapping[str, Tensor], evidence: Evidence | None = None,
                 mask: Mask | None = None) -> dict[str, Tensor]: ...

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call `forward`, with its hooks."""
        return super().__call__(*args, **options)

    def run(self, unary: Logits, evidence: Evidence | None = None, mask: Mask | None = None,
            start: Mapping[str, Tensor] | None = None, watch: Watch | None = None) -> dict[str, Tensor]:
        """Like `forward`, but call `watch` after every iteration; returns the logits of every unobserved predicate.

        Args:
            unary, evidence, mask: as for `forward`.
            start: logits to start from instead of `unary`, by predicate.
            watch: called with every iteration; the run ends when it returns True.
        """
        run = self._run(unary, evidence, mask)
        first = None if start is None else self._run(start, evidence, mask).inputs.unary
        return run.outputs(run.iterate(self.options.schedule, first, watch))

    def trace(self, unary: Logits, evidence: Evidence | None = None, mask: Mask | None = None) -> Trace:
        """Like `forward`, but return marginals, bound and expected violations of every iteration.

        Args:
            unary, evidence, mask: as for `forward`.
        """
        run = self._run(unary, evidence, mask)
        batch = run.inputs.batch
        seen: list[Iteration] = []
        logits = run.iterate(self.options.schedule, watch=seen.append)
        shaped = [{name: q.reshape((*batch, *q.shape[1:])) for name, q in iteration.marginals.items()}
                  for iteration in seen]
        return Trace(shaped, torch.stack([iteration.elbo() for iteration in seen]),
                     torch.stack([iteration.violations() for iteration in seen]),
                     torch.stack([iteration.temperature() for iteration in seen]),
                     torch.stack([iteration.push() for iteration in seen]),
                     {name: tensor.reshape((*batch, *tensor.shape[1:])) for name, tensor in logits.items()})

    def violations(self, logits: Logits, evidence: Evidence | None = None, mask: Mask | None = None) -> Tensor:
        """The expected number of violated groundings of each rule at these logits, [batch..., rules].

        Args:
            logits, evidence, mask: as for `forward`.
        """
        run = self._run(logits, evidence, mask)
        return run.counts(run.marginals()).reshape(*run.inputs.batch, len(self.theory.rules))

    def theory_loss(self, logits: Logits, evidence: Evidence | None = None, mask: Mask | None = None) -> Tensor:
        """The weighted expected violations, [batch...]: the paper's SLrelax, a loss for the model below.

        Args:
            logits, evidence, mask: as for `forward`.
        """
        run = self._run(logits, evidence, mask)
        return run.counts(run.marginals(), weighted=True).sum(-1).reshape(run.inputs.batch)

    def elbo(self, unary: Logits, logits: Logits, evidence: Evidence | None = None, mask: Mask | None = None) -> Tensor:
        """The lower bound of log Z that mean field maximizes, [batch...].

        Args:
            unary, evidence, mask: as for `forward`.
            logits: where the bound is taken: logits of the marginals, in the same form as `unary`.
        """
        run = self._run(unary, evidence, mask)
        at = self._run(logits, evidence, mask)
        return run.elbo(at.marginals()).reshape(run.inputs.batch)

    def explain(self, atom: str, unary: Logits, evidence: Evidence | None = None, mask: Mask | None = None,
                item: int = 0) -> list[Push]:
        """Which rules pushed an atom of one batch item, and by how much, strongest first.

        The amounts are what the rules add to the atom's log-odds at the marginals where the run ended, each with its
        full weight. Under the schedule "paper", `unary` plus their sum is the next update; "adaptive" limits the size
        of large ones. `push.groundings()` lists the groundings with the largest amounts.

        Args:
            atom: "Friends(Anna, Bob)", "Same(0, 2)" with indices, or "label(3) = B-PER".
            unary, evidence, mask: as for `forward`.
            item: which item of the batch.
        """
        with torch.no_grad():
            run = self._run(unary, evidence, mask)
            inputs = run.inputs
            if has_sparse(self.theory, unary, evidence):
                raise LogicMPError("explain needs dense tensors",
                                   "call .to_dense() on a part of the data that has the atom")
            found = find_atom(atom, self.theory, inputs.sizes)
            q = run.marginals(run.iterate(self.options.schedule))
            rules = normalize_theory(self.theory, self.options.semantics, inputs.sizes).rules
            amounts = push_of_each_rule(run, q, found, item)
            all_q = {name: tensor[item] for name, tensor in {**q, **inputs.observed}.items()}
            weights = [w.detach()[item if w.shape[0] > 1 else 0] if w.dim() else w.detach() for w in run.call.weights]
            pushes = [Push(str(normal.rule), amount, partial(strongest, normal, weight, found, all_q, inputs.sizes,
                                                             self.theory))
                      for normal, weight, amount in zip(rules, weights, amounts, strict=True)]
        return sorted(pushes, key=lambda push: -abs(push.amount))

    def report(self, unary: Logits, evidence: Evidence | None = None, mask: Mask | None = None) -> Report:
        """What the rules did to these logits, without labels: violations, pushes, convergence, and what to change.

        Args:
            unary, evidence, mask: as for `forward`; all items of a batch are reported together.
        """
        with torch.no_grad():
            return build_report(self._run(unary, evidence, mask), self.options.schedule)

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
        """Write rules, options and weights to one safetensors file at `path`, whole or not at all."""
        save_tensors(Path(path), {k: v for k, v in self.state_dict().items() if not k.endswith("_extra_state")},
                     {"theory": str(self.theory), "options": json.dumps(asdict(self.options))}, "a layer")

    @staticmethod
    def load(path: str | Path) -> LogicMP:
        """Read a layer from the file at `path` that `save` wrote."""
        weights, metadata = load_tensors(Path(path), "a layer")
        if "theory" not in metadata:
            raise LogicMPError(f"{str(path)!r} is not a saved layer: it contains no theory")
        try:
            options = json.loads(metadata["options"])
            # files of version 0.1 have iterations, damping and tolerance of the paper's loop instead of a schedule
            schedule = Schedule(**options.pop("schedule")) if "schedule" in options else "paper"
            layer = LogicMP(metadata["theory"], schedule=schedule, **options)
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

    def _register(self) -> None:
        self._number = next(_numbers)
        _LAYERS[self._number] = self

    def __getstate__(self) -> dict[str, Any]:
        # plans are made again when needed
        return {**self.__dict__, "_executors": {}, "_sparse": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._register()

    def extra_repr(self) -> str:
        return f"{len(self.theory.rules)} rules, {self.options.schedule}"


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _plan_while_tracing(number: int, sizes: tuple[tuple[str, int], ...], observed: tuple[str, ...]) -> bool:
    _LAYERS[number].executor(dict(sizes), observed)
    return True


def _about(size: int) -> int:
    """A size with its four leading bits: the best plan for it is good for all sizes that share them.

    >>> [_about(size) for size in (15, 16, 17, 18, 512, 575, 576)]
    [15, 16, 16, 18, 512, 512, 576]
    """
    shift = max(0, size.bit_length() - 4)
    return size >> shift << shift
