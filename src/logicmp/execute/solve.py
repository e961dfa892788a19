"""What a layer does with an input: mean field on dense or sparse tensors, exact inference where rules are narrow.

Room: plans, lists, exact_run -> **execute** -> layer.

    solver = Solver(theory, Options(method="auto"))
    solver.output(unary, evidence, mask, weights)   # logits, in the form of `unary`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..errors import CostError, LogicMPError
from ..ground.engine import Grounding
from ..normalize.build import SEMANTICS
from ..parse.theory import Theory
from ..plan.build import MAX_ELEMENTS
from .entries import ONE_SIZE
from .exact_run import ExactPlans, ExactRun
from .inputs import Evidence, Inputs, Logits, Mask, has_sparse, read_inputs
from .listed import Listed
from .lists import KnownPlans, make_sparse_run
from .marginals import as_given
from .mean_field import Run
from .plans import Plans
from .report import Report, Warnings, build_exact_report, build_report
from .schedule import SCHEDULES, Schedule
from .state import is_tracing
from .strength import calibrates

METHODS = ("mean-field", "exact", "auto")


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

    @property
    def is_plain(self) -> bool:
        """Whether these options leave mean field only; method "exact" has checked them."""
        return self.method == "mean-field" or (self.method == "auto" and (self.semantics == "paper"
                                                                          or self.reduce == "mean"))


class Solver:
    """The method of a layer, with its plans.

    Args:
        theory: the rules, without facts.
        options: of the layer.
        group: a process group that shares the rows of sparse tensors.
    """

    def __init__(self, theory: Theory, options: Options, group: Any = None):
        self.theory, self.options = theory, options
        self.plans = Plans(theory, options.semantics, options.reduce, options.max_elements)
        self.warn = Warnings()
        self._grounding: Grounding | None = None
        if group is not None:
            from .shares import ProcessShares

            self._grounding = Grounding(shares=ProcessShares(group))
        self._forget()

    def _forget(self) -> None:
        # plans for sparse tensors, by their indices
        self._sparse = KnownPlans()
        # dense evidence that is mostly false
        self.listed: Listed | None = None
        # plans of exact inference, made when first needed
        self._exact: ExactPlans | None = None

    def __getstate__(self) -> dict[str, Any]:
        # plans are made again when needed; a process group cannot be copied
        return {"theory": self.theory, "options": self.options, "plans": self.plans, "warn": self.warn,
                "_grounding": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def read(self, unary: Logits, evidence: Evidence | None, mask: Mask | None, weights: Sequence[Tensor]) -> Inputs:
        """The tensors of a call, checked."""
        inputs = read_inputs(self.theory, unary, evidence, mask, self.options.sizes)
        if weights and weights[0].device != inputs.like.device:
            raise LogicMPError(f"the layer's weights are on {weights[0].device}, log-odds on {inputs.like.device}",
                               f"call .to({str(inputs.like.device)!r}) on the layer")
        return inputs

    def run(self, unary: Logits, evidence: Evidence | None, mask: Mask | None, weights: Sequence[Tensor],
            may_list: bool = True) -> Run:
        """Mean field on an input, ready to run; dense evidence that is mostly false is listed if it may."""
        options = self.options
        if has_sparse(self.theory, unary, evidence):
            return make_sparse_run(self.theory, unary, evidence, mask, options.sizes, weights, options.semantics,
                                   options.reduce, self._sparse, grounding=self._grounding)
        if may_list and isinstance(evidence, Mapping) and not is_tracing():
            self.listed = self.listed or Listed()
            run = self.listed.run(self.plans.find, self.theory, unary, evidence, mask, options.sizes, weights,
                                  options.semantics, options.reduce)
            if run is not None:
                return run
        return self._run_on(self.read(unary, evidence, mask, weights), weights)

    def _run_on(self, inputs: Inputs, weights: Sequence[Tensor]) -> Run:
        return Run(self.plans.find(inputs.sizes, tuple(inputs.observed)), inputs, weights, self.options.reduce)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def exact(self, inputs: Inputs, evidence: Evidence | None, weights: Sequence[Tensor],
              is_cheap: bool = False) -> ExactRun:
        """Exact inference, ready to run; what is too wide raises a CostError, or is left out if it must be cheap."""
        if is_tracing():
            raise LogicMPError("exact inference cannot be exported or transformed by torch.func",
                               "use method='mean-field' there")
        if self._exact is None:
            self._exact = ExactPlans(self.theory, self.options.semantics)
        run = ExactRun(self._exact.find(inputs, evidence, is_cheap), inputs, weights)
        for part in run.parts:
            if not is_cheap and part.plan is not None:
                part.plan.reject_wide()
        return run

    def narrow(self, inputs: Inputs, evidence: Evidence | None, weights: Sequence[Tensor], way_out: str) -> ExactRun:
        """Exact inference on all components, whatever the method; the error for those too wide names a way out."""
        try:
            run: ExactRun = self.exact(inputs, evidence, weights)
        except CostError as error:
            is_mask = (error.hint or "").startswith(ONE_SIZE)
            raise CostError(error.message, error.span, f"{ONE_SIZE}; or {way_out}" if is_mask else way_out) from None
        return run

    def output(self, unary: Logits, evidence: Evidence | None, mask: Mask | None,
               weights: Sequence[Tensor]) -> Tensor | dict[str, Tensor]:
        """The logits of a call, of the shapes that came in; DTensors for DTensors."""
        mesh = None if torch.compiler.is_compiling() else _mesh(unary, evidence)
        if mesh is None:
            return self._output(unary, evidence, mask, weights)
        from .sharded import as_placed, replicate, sharded

        with sharded(mesh, self.options.method, self.options.schedule.tolerance, unary):
            placed: Tensor | dict[str, Tensor] = as_placed(self._output(unary, evidence, mask, replicate(weights)),
                                                           unary)
        return placed

    def _output(self, unary: Logits, evidence: Evidence | None, mask: Mask | None,
                weights: Sequence[Tensor]) -> Tensor | dict[str, Tensor]:
        if self.options.method == "mean-field":
            self.warn.of_hard_rules(self.theory, self.options.hard_weight)
            run = self.run(unary, evidence, mask, weights)
            inputs, logits = run.inputs, run.iterate(self.options.schedule)
            self.warn.of_collapse(run, logits)
            output = run.output
        else:
            inputs = self.read(unary, evidence, mask, weights)
            logits = self._solve(inputs, evidence, weights)
            output = partial(_as_given, inputs, self.theory)
        if isinstance(unary, Tensor):
            # it belongs to the predicate that comes first
            return output(logits, next(iter(inputs.unary)), unary.shape)
        return {name: output(logits, name, x.shape) for name, x in unary.items()}

    def _solve(self, inputs: Inputs, evidence: Evidence | None, weights: Sequence[Tensor]) -> dict[str, Tensor]:
        """The logits of method "exact" or "auto": exact marginals, and mean field for what is too wide."""
        if self.options.is_plain:
            return self._mean_field(inputs, weights)
        run = self._exact_output(inputs, evidence, weights)
        if all(part.plan is None for part in run.parts):
            return self._mean_field(inputs, weights)
        exact = run.logits()
        if run.is_complete:
            return exact
        rest = self._mean_field(inputs, weights, run.has_wide_hard_rules)
        return {name: torch.where(run.is_exact(name), exact[name], x) for name, x in rest.items()}

    def _exact_output(self, inputs: Inputs, evidence: Evidence | None, weights: Sequence[Tensor]) -> ExactRun:
        """Exact inference for the output; under "auto" the logits decide how strong rules without weights are."""
        is_auto, schedule = self.options.method == "auto", self.options.schedule
        run: ExactRun = self.exact(inputs, evidence, weights, is_auto)
        if is_auto and calibrates(schedule, self.theory) and any(part.plan is not None for part in run.parts):
            return run.sharpened(self._run_on(inputs, weights).strength(schedule))
        return run

    def _mean_field(self, inputs: Inputs, weights: Sequence[Tensor], has_hard_rules: bool = True) -> dict[str, Tensor]:
        if has_hard_rules:
            self.warn.of_hard_rules(self.theory, self.options.hard_weight)
        return self._run_on(inputs, weights).iterate(self.options.schedule)

    def report(self, unary: Logits, evidence: Evidence | None, mask: Mask | None, weights: Sequence[Tensor]) -> Report:
        """What the rules did to these logits."""
        run = self.run(unary, evidence, mask, weights, may_list=self.options.is_plain)
        if self.options.is_plain:
            return build_report(run, self.options.schedule)
        exact = self._exact_output(run.inputs, evidence, weights)
        if not exact.is_complete:
            return build_report(run, self.options.schedule, str(exact))
        return build_exact_report(run, exact.logits(), exact.violations(), str(exact))


def _mesh(*given: Logits | Evidence | None) -> Any:
    """The devices over which a tensor of a call is sharded; None if none is."""
    tensors = [x for some in given for x in (some.values() if isinstance(some, Mapping) else [some])]
    return next((mesh for x in tensors if (mesh := getattr(x, "device_mesh", None)) is not None), None)


def _as_given(inputs: Inputs, theory: Theory, logits: Mapping[str, Tensor], name: str, shape: torch.Size) -> Tensor:
    return as_given(inputs, theory.predicate[name], logits, shape)
