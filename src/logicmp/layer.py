"""The layer: rules in, corrected and differentiable predictions out.

Room: execute, inference -> **layer** -> learning, constrain.  Paper: Algorithm 1, Eq. 2.

    layer = LogicMP("2 C(a,b) ^ C(b,c) => C(a,c)")
    logits = layer(logits)                          # [batch, n, n] in, [batch, n, n] out
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, overload

import torch
from torch import Tensor, nn

from .arguments import AtLeastOne, Count, FinitePositive, Range, Sizes, checked
from .errors import CostError, LogicMPError
from .execute import saved
from .execute.dense import DenseExecutor
from .execute.exact_run import ExactRun, read_labels
from .execute.explain import Push, explain_atom
from .execute.inputs import FLOATS, Evidence, Logits, Mask, has_sparse
from .execute.mean_field import Run, Watch, initial_weights
from .execute.networks import Networks
from .execute.report import Report, Trace, build_trace
from .execute.schedule import Schedule, make_schedule
from .execute.solve import Options, Solver
from .execute.worlds import fact_tensors
from .limits import Limits
from .parse.load import parse_theory
from .parse.theory import Theory
from .plan.build import MAX_ELEMENTS

Float = Annotated[torch.dtype, Range("floating point, for example torch.float32", FLOATS.__contains__)]


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
        group: a process group of torch.distributed whose processes share the rows of rules over sparse tensors, and
            the atoms that these rows read, with their marginals and messages. All of them call the layer with the same
            tensors, and get the same output and the same gradients.
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
        # as it was given; `theory` is without the facts, which are evidence
        self.source = parse_theory(theory) if isinstance(theory, str) else theory
        self.theory, facts = self.source.split_facts()
        self._solver = Solver(self.theory, self.options, group)
        self._facts = tuple(facts)
        for k, values in enumerate(fact_tensors(self.theory, facts).values() if facts else ()):
            self.register_buffer(f"_facts_{k}", values, persistent=False)
        self.networks = Networks(self.theory, predicates) if predicates else None
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
        return [nn.functional.softplus(raw) if self.options.positive_weights and not rule.is_hard else raw
                for raw, rule in zip(self.raw_weights, self.theory.rules, strict=True)]

    def executor(self, sizes: Mapping[str, int], observed: Sequence[str] = ()) -> DenseExecutor:
        """The plan for given sizes and observed predicates, ready to run; planned when first needed."""
        return self._solver.plans.find(sizes, observed)

    def _given(self, unary: Logits, evidence: Evidence | None) -> tuple[Logits, Evidence | None]:
        """Logits of networks in place of features, and facts in the theory for predicates without evidence."""
        if self.networks is not None:
            unary = self.networks.evaluate(unary, evidence)
        if self._facts and (evidence is None or isinstance(evidence, Mapping)):
            evidence = {**{name: getattr(self, f"_facts_{k}") for k, name in enumerate(self._facts)},
                        **(evidence or {})}
        return unary, evidence

    def _run(self, unary: Logits, evidence: Evidence | None, mask: Mask | None, may_list: bool = True) -> Run:
        return self._solver.run(*self._given(unary, evidence), mask, self.weights, may_list)

    def _narrow(self, unary: Logits, evidence: Evidence | None, mask: Mask | None, way_out: str) -> ExactRun:
        """Exact inference on all components; the error for those too wide names a way out."""
        unary, evidence = self._given(unary, evidence)
        inputs = self._solver.read(unary, evidence, mask, self.weights)
        return self._solver.narrow(inputs, evidence, self.weights, way_out)

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
        return self._solver.output(*self._given(unary, evidence), mask, self.weights)

    def exact(self, unary: Logits, evidence: Evidence | None = None, mask: Mask | None = None) -> ExactRun:
        """Exact inference on an input, ready to run; `print` it for its width and cost. Planned once per evidence.

        Under method "auto" the limits are lower, and what exceeds them is left to mean field.

        Args:
            unary, evidence, mask: as for `forward`.
        """
        unary, evidence = self._given(unary, evidence)
        inputs = self._solver.read(unary, evidence, mask, self.weights)
        found: ExactRun = self._solver.exact(inputs, evidence, self.weights, self.options.method == "auto")
        return found

    def log_z(self, unary: Logits, evidence: Evidence | None = None) -> Tensor:
        """The log-partition function of Eq. 1 by exact inference, [batch...]; differentiable.

        Args:
            unary, evidence: as for `forward`.
        """
        run = self._narrow(unary, evidence, None, "use elbo, a lower bound")
        return run.log_z().reshape(run.inputs.batch)

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
        run = self._narrow(unary, evidence, mask, "train with a loss on the output, for example binary cross-entropy")
        given = {next(iter(run.inputs.unary)): labels} if isinstance(labels, Tensor) else labels
        return run.loss(read_labels(self.theory, given, run.inputs)).reshape(run.inputs.batch)

    @overload
    def decode(self, unary: Tensor, evidence: Evidence | None = None, mask: Mask | None = None,
               max_seconds: float = 60.0) -> Tensor: ...

    @overload
    def decode(self, unary: Mapping[str, Tensor], evidence: Evidence | None = None, mask: Mask | None = None,
               max_seconds: float = 60.0) -> dict[str, Tensor]: ...

    def decode(self, unary: Logits, evidence: Evidence | None = None, mask: Mask | None = None,
               max_seconds: float = 60.0) -> Tensor | dict[str, Tensor]:
        """The most probable world: bool tensors, or label indices for a multi-class predicate.

        Soft rules count with their weights, and hard rules are always satisfied. Narrow rules are solved exactly, the
        whole batch at once; others by the solvers of `infer`'s method "map", item by item, which need
        `logicmp[map]`. A warning says for how many items the world is not proven to be the best.

        Args:
            unary, evidence, mask: as for `forward`. Atoms of masked entities are false, their labels 0.
            max_seconds: time limit of the solvers for the whole batch, in seconds.

        Returns:
            A tensor for a tensor, a dict for a dict; observed predicates are left out.
        """
        given, evidence = self._given(unary, evidence)
        inputs = self._solver.read(given, evidence, mask, self.weights)
        try:
            run: ExactRun = self._solver.exact(inputs, evidence, self.weights)
            found = run.best(self.theory)
        except CostError:
            from .inference.search.tensors import best_worlds

            found, n_proven = best_worlds(self.theory, inputs, self.weights, self.options.semantics,
                                          Limits(max_seconds))
            self._solver.warn.of_unproven(len(inputs.like) - n_proven, len(inputs.like))
        return next(iter(found.values())) if isinstance(unary, Tensor) else found

    def train(self, mode: bool = True) -> LogicMP:
        """Switch to training or, with `mode=False`, to evaluation; a weight that training drove to 0 or below is said.

        Args:
            mode: whether the layer will be trained.
        """
        if self.training and not mode:
            self._solver.warn.of_useless_weights(self.theory, self.weights)
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
        whole = None if watch is None else lambda seen: watch(replace(
            seen, marginals=run.whole(seen.marginals), logits=run.whole(seen.logits)))
        return run.outputs(run.iterate(self.options.schedule, first, whole))

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
            unary, evidence = self._given(unary, evidence)
            if has_sparse(self.theory, unary, evidence):
                raise LogicMPError("explain needs dense tensors",
                                   "call .to_dense() on a part of the data that has the atom")
            run = self._solver.run(unary, evidence, mask, self.weights, may_list=False)
            return explain_atom(run, self.options.schedule, atom, item, self.options.semantics)

    def report(self, unary: Logits, evidence: Evidence | None = None, mask: Mask | None = None) -> Report:
        """What the rules did to these logits, without labels: violations, pushes, convergence, and what to change.

        Args:
            unary, evidence, mask: as for `forward`; all items of a batch are reported together.
        """
        with torch.no_grad():
            return self._solver.report(*self._given(unary, evidence), mask, self.weights)

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

    def extra_repr(self) -> str:
        return f"{len(self.theory.rules)} rules, {self.options.schedule}"
