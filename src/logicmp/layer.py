"""The layer: rules in, corrected and differentiable predictions out.

Room: execute -> **layer** -> inference, learning, constrain.  Paper: Algorithm 1, Eq. 2.

    layer = LogicMP("2 C(a,b) ^ C(b,c) => C(a,c)")
    logits = layer(logits)                          # [batch, n, n] in, [batch, n, n] out
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, overload

import torch
from torch import Tensor, nn

from .arguments import AtLeastOne, Count, FinitePositive, Range, Sizes, checked
from .errors import CostError, LogicMPError
from .execute import saved
from .execute.dense import DenseExecutor
from .execute.entries import ONE_SIZE
from .execute.exact_run import ExactPlans, ExactRun, read_labels
from .execute.explain import Push, explain_atom
from .execute.inputs import FLOATS, Evidence, Inputs, Logits, Mask, fact_tensors, has_sparse, read_inputs
from .execute.listed import Listed
from .execute.lists import make_sparse_run
from .execute.marginals import as_given
from .execute.mean_field import Run, Watch, calibrates, initial_weights
from .execute.networks import Networks
from .execute.plans import Plans
from .execute.report import Report, Trace, Warnings, build_exact_report, build_report, build_trace
from .execute.schedule import SCHEDULES, Schedule, make_schedule
from .execute.state import is_sharded, is_tracing
from .ground.engine import Grounding
from .normalize.build import SEMANTICS
from .parse.load import parse_theory
from .parse.theory import Theory
from .plan.build import MAX_ELEMENTS

METHODS = ("mean-field", "exact", "auto")
Float = Annotated[torch.dtype, Range("floating point, for example torch.float32", FLOATS.__contains__)]


@dataclass(frozen=True)
class Options:
    """Everything a layer is made from besides its rules; saved with it."""

    schedule: Schedule = SCHEDULES["adaptive"]
    learn_weights: bool = True
    semantics: str = "exact"
    reduce: str = "sum"
    hard_weight: float = 10.0
    positive_weights: bool = False
    sizes: dict[str, int] = field(default_factory=dict)
    max_elements: int = MAX_ELEMENTS
    method: str = "mean-field"

    def __post_init__(self) -> None:
        for name, value, known in (("semantics", self.semantics, SEMANTICS), ("reduce", self.reduce, ("sum", "mean")),
                                   ("method", self.method, METHODS)):
            if value not in known:
                raise LogicMPError(f"unknown {name} {value!r}", f"available: {', '.join(known)}")
        if self.method == "exact" and self.reduce == "mean":
            raise LogicMPError("method='exact' needs reduce='sum': 'mean' divides weights as mean field needs it",
                               "use reduce='sum', or method='mean-field'")


class LogicMP(nn.Module):
    """Mean-field inference over a Markov logic network, as a layer.

    In each iteration the log-odds of an atom become `unary - sum over rules f of w_f dV_f/dq`: `V_f` is the expected
    number of violations of rule f, `q` the marginal of the atom. `unary` is the paper's Phi_u, `weights[f]` its w_f,
    `iterations` its T (Algorithm 1).

    `unary[predicate]` has the shape `[batch..., n_1, ..., n_k]`, `n_i` entities of the type of argument i: log-odds. A
    multi-class predicate has `[..., labels]` more. The output has the same keys and shapes: logits again.

    Args:
        theory: rules as text, or a `Theory`. One line without declarations is enough. Facts of closed predicates
            (`parent(Dog, Animal).` where `*parent(label, label)`) are evidence of every call that gives none.
        iterations: mean-field updates per call, at least 0; by default those of the schedule (15 for
            "adaptive", 5 for "paper").
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
        schedule: "adaptive" (weak pushes first, and rules without weights as strong as the logits support), "paper"
            (Algorithm 1), "cold", or a `Schedule` of your own.
        method: "mean-field" (any rules and sizes), "exact" (exact marginals for chains, trees and other narrow rules;
            hard rules are always satisfied; raises a CostError with numbers where it is too wide), or "auto" (exact
            where that is cheap, mean field elsewhere; `report` says which). Rules without weights have weight 1 under
            "exact"; under "auto" the schedule "adaptive" decides how strong they are, as it does for mean field.
        predicates: networks that score the atoms of predicates, trained with the rules; `layer({"person": x})` then
            takes features by type, [batch..., n, features], and returns the logits of these predicates. A network takes
            one tensor for each argument, all [..., features], and returns log-odds [...] or [..., 1]. For the
            predicate's candidates alone, add them to the call: `{"person": x, "Friends": edge_index}`.
        group: a process group of torch.distributed whose processes share the rows of rules over sparse tensors. All of
            them call the layer with the same tensors, and get the same output and the same gradients.
    """

    @checked
    def __init__(self, theory: Theory | str, iterations: int | None = None, damping: float | None = None,
                 tolerance: float | None = None,
                 learn_weights: bool = True, semantics: str = "exact", reduce: str = "sum",
                 hard_weight: FinitePositive = 10.0, positive_weights: bool = False, sizes: Sizes | None = None,
                 max_elements: AtLeastOne = MAX_ELEMENTS, dtype: Float | None = None,
                 schedule: str | Schedule = "adaptive", method: str = "mean-field",
                 predicates: Mapping[str, nn.Module] | None = None, group: Any = None):
        super().__init__()
        self.options = Options(make_schedule(schedule, iterations, damping, tolerance), learn_weights, semantics,
                               reduce, hard_weight, positive_weights,
                               {name: int(size) for name, size in (sizes or {}).items()}, max_elements, method)
        # for sparse tensors, by their indices
        self._sparse: list[Any] = []
        self._grounding: Grounding | None = None
        if group is not None:
            from .execute.shares import ProcessShares

            self._grounding = Grounding(shares=ProcessShares(group))
        # dense evidence that is mostly false
        self._listed: Listed | None = None
        self._warn = Warnings()
        # as it was given; `theory` is without the facts, which are evidence
        self.source = parse_theory(theory) if isinstance(theory, str) else theory
        self.theory, facts = self.source.split_facts()
        self._plans = Plans(self.theory, semantics, reduce, max_elements)
        self._facts = tuple(facts)
        for k, values in enumerate(fact_tensors(self.theory, facts).values() if facts else ()):
            self.register_buffer(f"_facts_{k}", values, persistent=False)
        self.networks = Networks(self.theory, predicates) if predicates else None
        # plans of exact inference, made when first needed
        self._exact_plans: ExactPlans | None = None
        known = self.theory.with_sizes(self.options.sizes)
        self.raw_weights = nn.ParameterList()
        weights = initial_weights(self.theory, known, hard_weight, dtype)
        for rule, weight in zip(self.theory.rules, weights, strict=True):
            if positive_weights and not rule.is_hard:
                if not (weight > 0).all():
                    raise LogicMPError(f"the rule '{rule}' has weight {rule.weight:g}, but positive_weights is set")
                # the inverse of softplus, log(e^w - 1), without overflow
                weight = weight + torch.log(-torch.expm1(-weight))
            self.raw_weights.append(nn.Parameter(weight, requires_grad=learn_weights and not rule.is_hard))
        if method != "exact" and all(t.closed or t.name in self.options.sizes for t in self.theory.types):
            self.executor(known, [p.name for p in self.theory.predicates if p.closed_world])

    # weights and plans

    @property
    def weights(self) -> list[Tensor]:
        """The weight of each rule, as it acts; a tensor for a rule with one weight per constant."""
        found = [nn.functional.softplus(raw) if self.options.positive_weights and not rule.is_hard else raw
                 for raw, rule in zip(self.raw_weights, self.theory.rules, strict=True)]
        if not is_sharded():
            return found
        from .execute.sharded import replicate

        return replicate(found)

    def executor(self, sizes: Mapping[str, int], observed: Sequence[str] = ()) -> DenseExecutor:
        """The plan for given sizes and observed predicates, ready to run; planned when first needed."""
        return self._plans.find(sizes, observed)

    def _with_facts(self, evidence: Evidence | None) -> Evidence | None:
        """The evidence of a call, and the facts in the theory for predicates without evidence."""
        if not self._facts or (evidence is not None and not isinstance(evidence, Mapping)):
            return evidence
        return {**{name: getattr(self, f"_facts_{k}") for k, name in enumerate(self._facts)}, **(evidence or {})}

    def _logits(self, unary: Logits, evidence: Evidence | None) -> Logits:
        """What a call has given, with the logits of networks in place of features."""
        return unary if self.networks is None else self.networks.evaluate(unary, evidence)

    def _inputs(self, unary: Logits, evidence: Evidence | None, mask: Mask | None) -> Inputs:
        unary = self._logits(unary, evidence)
        inputs = read_inputs(self.theory, unary, self._with_facts(evidence), mask, self.options.sizes)
        if len(self.raw_weights) and self.raw_weights[0].device != inputs.like.device:
            raise LogicMPError(f"the layer's weights are on {self.raw_weights[0].device}, log-odds on "
                               f"{inputs.like.device}", f"call .to({str(inputs.like.device)!r}) on the layer")
        return inputs

    def _run(self, unary: Logits, evidence: Evidence | None, mask: Mask | None, may_list: bool = True) -> Run:
        weights, unary = self.weights, self._logits(unary, evidence)
        if has_sparse(self.theory, unary, evidence):
            return make_sparse_run(self.theory, unary, self._with_facts(evidence), mask, self.options.sizes, weights,
                                   self.options.semantics, self.options.reduce, self._sparse,
                                   grounding=self._grounding)
        given = self._with_facts(evidence)
        if may_list and isinstance(given, Mapping) and not is_tracing():
            self._listed = self._listed or Listed()
            run = self._listed.run(self.executor, self.theory, unary, given, mask, self.options.sizes, weights,
                                   self.options.semantics, self.options.reduce)
            if run is not None:
                return run
        inputs = self._inputs(unary, evidence, mask)
        return Run(self.executor(inputs.sizes, tuple(inputs.observed)), inputs, weights, self.options.reduce)

    def exact(self, unary: Logits, evidence: Evidence | None = None, mask: Mask | None = None) -> ExactRun:
        """Exact inference on an input, ready to run; `print` it for its width and cost. Planned once per evidence.

        Under method "auto" the limits are lower, and what exceeds them is left to mean field.

        Args:
            unary, evidence, mask: as for `forward`.
        """
        inputs = self._inputs(unary, evidence, mask)
        found: ExactRun = self._exact(inputs, evidence, self.options.method == "auto")
        return found

    @property
    def _may_be_exact(self) -> bool:
        """Whether the options allow exact inference; method "exact" has checked them."""
        return self.options.method == "exact" or (self.options.semantics != "paper" and self.options.reduce == "sum")

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _exact(self, inputs: Inputs, evidence: Evidence | None, is_cheap: bool = False) -> ExactRun:
        if is_tracing():
            raise LogicMPError("exact inference cannot be exported or transformed by torch.func",
                               "use method='mean-field' there")
        if self._exact_plans is None:
            self._exact_plans = ExactPlans(self.theory, self.options.semantics)
        run = ExactRun(self._exact_plans.find(inputs, self._with_facts(evidence), is_cheap), inputs, self.weights)
        for part in run.parts:
            if not is_cheap and part.plan is not None:
                part.plan.reject_wide()
        return run

    def _narrow(self, inputs: Inputs, evidence: Evidence | None, way_out: str) -> ExactRun:
        """Exact inference on all components, whatever the method; the error for those too wide names a way out."""
        try:
            run: ExactRun = self._exact(inputs, evidence)
        except CostError as error:
            is_mask = (error.hint or "").startswith(ONE_SIZE)
            raise CostError(error.message, error.span, f"{ONE_SIZE}; or {way_out}" if is_mask else way_out) from None
        return run

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
                without unary and evidence starts undecided. With networks (`predicates`), also features by type.
            evidence: by predicate, a bool tensor (all atoms observed) or a float one with 1, 0, and NaN for unobserved;
                for a multi-class predicate also integer labels, [batch..., n], with -1 for unobserved; or the true
                atoms only, as an int64 tensor [arguments, n] of entity numbers (`edge_index`) or as a sparse tensor. A
                sparse tensor in `unary` lists the candidates: all other atoms are false.
            mask: which entities exist, by type, [batch..., n], bool or 0 and 1: True or 1 exists, False or 0 is
                padding; one tensor if there is only one type.

        A tensor can be a DTensor, sharded along an argument over several devices; then the output is one too.

        Returns:
            A tensor for a tensor, a dict for a dict, of the shapes that came in; and the logits of all networks.
        """
        unary = self._logits(unary, evidence)
        if not torch.compiler.is_compiling() and not is_sharded():
            given = [x for x in (unary, evidence) if isinstance(x, Mapping)]
            tensors = [unary, *(x for group in given for x in group.values())]
            mesh = next((x.device_mesh for x in tensors if hasattr(x, "device_mesh")), None)
            if mesh is not None:
                from .execute.sharded import as_placed, sharded

                with sharded(mesh, self.options.method, self.options.schedule.tolerance, unary):
                    placed: Tensor | dict[str, Tensor] = as_placed(self.forward(unary, evidence, mask), unary)
                return placed
        if self.options.method == "mean-field":
            self._warn.of_hard_rules(self.theory, self.options.hard_weight)
            run = self._run(unary, evidence, mask)
            inputs, logits = run.inputs, run.iterate(self.options.schedule)
            self._warn.of_collapse(run, logits)
            output = run.output
        else:
            inputs = self._inputs(unary, evidence, mask)
            logits = self._solve(inputs, evidence)
            output = partial(_output, inputs, self.theory)
        if isinstance(unary, Tensor):
            # it belongs to the predicate that comes first
            return output(logits, next(iter(inputs.unary)), unary.shape)
        return {name: output(logits, name, x.shape) for name, x in unary.items()}

    def _solve(self, inputs: Inputs, evidence: Evidence | None) -> dict[str, Tensor]:
        """The logits of method "exact" or "auto": exact marginals, and mean field for what is too wide."""
        if not self._may_be_exact:
            return self._mean_field(inputs)
        run = self._exact_output(inputs, evidence)
        if all(part.plan is None for part in run.parts):
            return self._mean_field(inputs)
        exact = run.logits()
        if run.is_complete:
            return exact
        rest = self._mean_field(inputs, run.has_wide_hard_rules)
        return {name: torch.where(run.is_exact(name), exact[name], x) for name, x in rest.items()}

    def _exact_output(self, inputs: Inputs, evidence: Evidence | None) -> ExactRun:
        """Exact inference for the output; under "auto" the logits decide how strong rules without weights are."""
        is_auto, schedule = self.options.method == "auto", self.options.schedule
        run: ExactRun = self._exact(inputs, evidence, is_auto)
        if is_auto and calibrates(schedule, self.theory) and any(part.plan is not None for part in run.parts):
            return run.sharpened(self._run_on(inputs).strength(schedule))
        return run

    def _mean_field(self, inputs: Inputs, has_hard_rules: bool = True) -> dict[str, Tensor]:
        if has_hard_rules:
            self._warn.of_hard_rules(self.theory, self.options.hard_weight)
        return self._run_on(inputs).iterate(self.options.schedule)

    def _run_on(self, inputs: Inputs) -> Run:
        return Run(self.executor(inputs.sizes, tuple(inputs.observed)), inputs, self.weights, self.options.reduce)

    def log_z(self, unary: Logits, evidence: Evidence | None = None) -> Tensor:
        """The log-partition function of Eq. 1 by exact inference, [batch...]; differentiable.

        Args:
            unary, evidence: as for `forward`.
        """
        inputs = self._inputs(unary, evidence, None)
        return self._narrow(inputs, evidence, "use elbo, a lower bound").log_z().reshape(inputs.batch)

    def loss(self, unary: Logits, labels: Logits, evidence: Evidence | None = None,
             mask: Mask | None = None) -> Tensor:
        """Minus the log-probability of labels under the rules, [batch...]: the likelihood, by exact inference.

        Atoms without a label are summed out. Rules that are too wide raise a CostError: train with a loss on the
        layer's output instead.

        Args:
            unary, evidence, mask: as for `forward`.
            labels: in the form of `unary`: bool, floats with NaN for a missing label, or integers, negative where the
                label is missing: 1 and 0, or the index of the label if multi-class. Those of masked entities are
                ignored.
        """
        inputs = self._inputs(unary, evidence, mask)
        given = {next(iter(inputs.unary)): labels} if isinstance(labels, Tensor) else labels
        run = self._narrow(inputs, evidence, "train with a loss on the output, for example binary cross-entropy")
        return run.loss(read_labels(self.theory, given, inputs)).reshape(inputs.batch)

    @overload
    def decode(self, unary: Tensor, evidence: Evidence | None = None, mask: Mask | None = None) -> Tensor: ...

    @overload
    def decode(self, unary: Mapping[str, Tensor], evidence: Evidence | None = None,
               mask: Mask | None = None) -> dict[str, Tensor]: ...

    def decode(self, unary: Logits, evidence: Evidence | None = None,
               mask: Mask | None = None) -> Tensor | dict[str, Tensor]:
        """The most probable world by exact inference: bool tensors, or label indices for a multi-class predicate.

        Soft rules count with their weights, and hard rules are always satisfied. Rules that are too wide raise a
        CostError: use `logicmp.decode`, whose solvers take every rule as hard.

        Args:
            unary, evidence, mask: as for `forward`. Atoms of masked entities are false, their labels 0.

        Returns:
            A tensor for a tensor, a dict for a dict; observed predicates are left out.
        """
        inputs = self._inputs(unary, evidence, mask)
        found = self._narrow(inputs, evidence, "use logicmp.decode(theory, logits, method='ilp'), whose solvers take "
                             "every rule as hard; or give more evidence").best(self.theory)
        return next(iter(found.values())) if isinstance(unary, Tensor) else found

    def train(self, mode: bool = True) -> LogicMP:
        """Switch to training or, with `mode=False`, to evaluation; a weight that training drove to 0 or below is said.

        Args:
            mode: whether the layer will be trained.
        """
        if self.training and not mode:
            self._warn.of_useless_weights(self.theory, self.weights)
        super().train(mode)
        return self

    @overload
    def __call__(self, unary: Tensor, evidence: Evidence | None = None, mask: Mask | None = None) -> Tensor: ...

    @overload
    def __call__(self, unary: Mapping[str, Tensor], evidence: Evidence | None = None,
                 mask: Mask | None = None) -> dict[str, Tensor]: ...

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call `forward`, with its hooks."""
        return super().__call__(*args, **options)

    @checked
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
        return build_trace(self._run(unary, evidence, mask), self.options.schedule)

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

    @checked
    def explain(self, atom: str, unary: Logits, evidence: Evidence | None = None, mask: Mask | None = None,
                item: Count = 0) -> list[Push]:
        """Which rules pushed an atom of one batch item, and by how much, strongest first.

        The amounts are what the rules add to the atom's log-odds at the marginals where the run ended, with the weights
        and limits of its last iteration: `unary` plus their sum is the next update. `push.groundings()` lists the
        groundings with the largest amounts.

        Args:
            atom: "Friends(Anna, Bob)", "Same(0, 2)" with indices, or "label(3) = B-PER".
            unary, evidence, mask: as for `forward`.
            item: which item of the batch.
        """
        with torch.no_grad():
            unary = self._logits(unary, evidence)
            if has_sparse(self.theory, unary, evidence):
                raise LogicMPError("explain needs dense tensors",
                                   "call .to_dense() on a part of the data that has the atom")
            return explain_atom(self._run(unary, evidence, mask, may_list=False), self.options.schedule, atom, item,
                                self.options.semantics)

    def report(self, unary: Logits, evidence: Evidence | None = None, mask: Mask | None = None) -> Report:
        """What the rules did to these logits, without labels: violations, pushes, convergence, and what to change.

        Args:
            unary, evidence, mask: as for `forward`; all items of a batch are reported together.
        """
        with torch.no_grad():
            is_plain = self.options.method == "mean-field" or not self._may_be_exact
            run = self._run(unary, evidence, mask, may_list=is_plain)
            if is_plain:
                return build_report(run, self.options.schedule)
            exact = self._exact_output(run.inputs, evidence)
            if not exact.is_complete:
                return build_report(run, self.options.schedule, str(exact))
            return build_exact_report(run, exact.logits(), exact.violations(), str(exact))

    # saving

    def get_extra_state(self) -> Tensor:
        return saved.write_state(self.source, self.options)

    def set_extra_state(self, state: Tensor) -> None:
        saved.check_state(state, self.source, self.options)

    def _saved(self) -> saved.Saved:
        weights = {k: v for k, v in self.state_dict().items() if not k.endswith("_extra_state")}
        rules = saved.put_weights(self.source, self.theory, self.weights)
        options = json.dumps(asdict(self.options), default=saved.to_plain)
        return saved.Saved(self.source, rules, options, weights, tuple(self.networks or ()))

    @checked
    def save(self, path: str | Path) -> None:
        """Write rules, options and weights to one safetensors file at `path`, whole or not at all."""
        self._saved().write(Path(path))

    @staticmethod
    @checked
    def load(path: str | Path, predicates: Mapping[str, nn.Module] | None = None) -> LogicMP:
        """Read a layer from the file at `path` that `save` wrote; `predicates` are its networks, if it has any."""
        return saved.read_saved(Path(path)).build(LogicMP, predicates, path)

    @checked
    def save_pretrained(self, folder: str | Path, figures: Mapping[str, float | str] | None = None) -> None:
        """Write the layer to a folder, as people share models: weights, rules and a card.

        `model.safetensors` is what `save` writes, `rules.mln` has the rules with their present weights, `README.md`
        shows rules, options and figures. A new folder appears whole or not at all.

        Args:
            folder: the folder; it is created, or has files of an earlier layer only.
            figures: results for the card, for example {"F1 on the test set": 0.91}.
        """
        self._saved().write_folder(Path(folder), figures or {})

    @staticmethod
    @checked
    def from_pretrained(folder: str | Path, predicates: Mapping[str, nn.Module] | None = None) -> LogicMP:
        """Read a layer from a folder that `save_pretrained` wrote.

        Args:
            folder: the folder.
            predicates: networks of the same form as those of the saved layer, if it has any; their weights are loaded.
        """
        layer = LogicMP.load(saved.find_saved(Path(folder)), predicates)
        saved.check_rules(Path(folder), layer._saved().rules)
        return layer

    def __getstate__(self) -> dict[str, Any]:
        # plans are made again when needed; a process group cannot be copied
        return {**self.__dict__, "_exact_plans": None, "_sparse": [], "_listed": None, "_grounding": None}

    def extra_repr(self) -> str:
        return f"{len(self.theory.rules)} rules, {self.options.schedule}"


def _output(inputs: Inputs, theory: Theory, logits: Mapping[str, Tensor], name: str, shape: torch.Size) -> Tensor:
    return as_given(inputs, theory.predicate[name], logits, shape)
