"""What a run did, for people: its course, a report with advice, and warnings.

Room: plan -> **execute** -> layer.

     violations before       after     push  support   rule
                   3.1         0.2      1.4     0.61   2 C(a, b) ^ C(b, c) => C(a, c)
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..page import curves, fragment, plural
from ..parse.theory import Theory
from .marginals import is_latent
from .mean_field import Iteration, Run
from .schedule import Schedule
from .state import is_tracing

# a run has converged if no marginal changed by more in its last iteration
CONVERGED = 0.01
# so many first calls of a layer are checked for a collapse
CHECKED_CALLS = 10


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

    def _repr_html_(self) -> str:
        # a batch is shown by its mean
        lines = {"lower bound of log Z": self.elbo, "push": self.push, "temperature": self.temperature,
                 **{f"violations of rule {f + 1}": self.violations[..., f] for f in range(self.violations.shape[-1])}}
        means = {name: x.detach().flatten(1).mean(1).tolist() if x.dim() > 1 else x.detach().tolist()
                 for name, x in lines.items()}
        return fragment(curves(means, f"over {plural(len(self.elbo) - 1, 'iteration')}"))


def build_trace(run: Run, schedule: Schedule) -> Trace:
    """Iterate, and note marginals, bound and expected violations of every iteration."""
    batch = run.inputs.batch
    seen: list[Iteration] = []
    logits = run.iterate(schedule, watch=seen.append)
    shaped = [{name: q.reshape((*batch, *q.shape[1:])) for name, q in run.whole(iteration.marginals).items()}
              for iteration in seen]
    return Trace(shaped, torch.stack([iteration.elbo() for iteration in seen]),
                 torch.stack([iteration.violations() for iteration in seen]),
                 torch.stack([iteration.temperature() for iteration in seen]),
                 torch.stack([iteration.push() for iteration in seen]),
                 {name: tensor.reshape((*batch, *tensor.shape[1:])) for name, tensor in run.whole(logits).items()})


@dataclass(frozen=True)
class RuleReport:
    """One rule: its expected violations before and after the run, the size of its push at the end, and its support."""

    rule: str
    before: float
    after: float
    # None where all rules act together, in exact inference: the push, as root mean square over the unobserved atoms;
    # the correlation of its first messages with the logits of the atoms that receive them, and the standard error
    push: float | None
    support: float | None
    error: float | None


@dataclass(frozen=True)
class Report:
    """What the rules did in a run."""

    rules: tuple[RuleReport, ...]
    # "converged", "oscillating", "changing" or "exact"
    status: str
    # the largest change of a marginal in the last iteration
    change: float
    # by predicate, the share of decisions (log-odds above or below 0) that changed sides
    moved: Mapping[str, float]
    # predicates of which an item lost nine tenths or more of the decisions on one side
    collapsed: tuple[str, ...]
    advice: tuple[str, ...]
    # which components are exact, under the methods "exact" and "auto"
    method: str = ""

    def __str__(self) -> str:
        lines = [self.method] if self.method else []
        lines.append(f"{'violations before':>18}{'after':>12}{'push':>9}{'support':>9}   rule")
        lines += [f"{r.before:18.6g}{r.after:12.6g}{'-' if r.push is None else f'{r.push:.3g}':>9}"
                  f"{'-' if r.support is None else f'{r.support:.2f}':>9}   {r.rule}" for r in self.rules]
        if self.status != "exact":
            lines.append(f"{self.status}: a marginal changed by {self.change:.2g} in the last iteration")
        lines += [f"{name}: {share:.1%} of the decisions changed" for name, share in self.moved.items()]
        return "\n".join([*lines, *(f"advice: {text}" for text in self.advice)])


def build_report(run: Run, schedule: Schedule, method: str = "") -> Report:
    """Iterate, and compare the start with the end; `method` says where the layer uses exact inference instead."""
    seen: list[Iteration] = []
    logits = run.iterate(schedule, watch=seen.append)
    before, after = (run.counts(run.marginals(x)).sum(0) for x in (run.base, logits))
    q = run.marginals(logits)
    rules = []
    for f, rule in enumerate(run.theory.rules):
        call = replace(run.call, weights=[w if k == f else torch.zeros_like(w) for k, w in enumerate(run.call.weights)])
        zeros = {name: torch.zeros_like(x) for name, x in q.items()}
        first, last = (run.executor.subtract_messages(zeros, at, call, run.executor.constants(call))
                       for at in (run.marginals(), q))
        rules.append(RuleReport(str(rule), float(before[f]), float(after[f]), float(run.measures.size(last).mean()),
                                *run.measures.correlation(first)))
    steps = [{name: later.marginals[name] - earlier.marginals[name] for name in later.marginals}
             for earlier, later in itertools.pairwise(seen[-3:])]
    change = run.largest_change(seen[-2].marginals, seen[-1].marginals) if len(seen) > 1 else 0.0
    turns = len(steps) == 2 and _product(run, *steps) < 0
    status = "converged" if change < CONVERGED else "oscillating" if turns else "changing"
    collapsed = run.measures.collapsed(logits)
    return Report(tuple(rules), status, change, _moved(run, logits), tuple(collapsed),
                  tuple(_advice(rules, status, collapsed, schedule)), method)


def build_exact_report(run: Run, logits: Mapping[str, Tensor], violations: Sequence[float], method: str) -> Report:
    """Compare the model's own marginals with exact ones.

    Args:
        run: mean field on the same input, which is not run.
        logits: of the exact marginals.
        violations: the expected violations of each rule, summed over the batch.
        method: which components are exact, as text.
    """
    before = run.counts(run.marginals(run.base)).sum(0)
    rules = tuple(RuleReport(str(rule), float(b), max(after, 0.0), None, None, None)
                  for rule, b, after in zip(run.theory.rules, before, violations, strict=True))
    return Report(rules, "exact", 0.0, _moved(run, logits), tuple(run.measures.collapsed(logits)), (), method)


def _product(run: Run, one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """The sum of products over the unobserved atoms."""
    latent = {name: is_latent(run.inputs, run.theory.predicate[name], x) for name, x in one.items()}
    return sum(float(run.inputs.total(name, (x * other[name] * latent[name]).sum())) for name, x in one.items())


def _moved(run: Run, logits: Mapping[str, Tensor]) -> dict[str, float]:
    """By predicate the share of decisions that changed sides."""
    moved = {}
    for name, x in logits.items():
        latent = is_latent(run.inputs, run.theory.predicate[name], x)
        changed = ((run.base[name] > 0) != (x > 0)) & latent
        n, n_changed = run.inputs.total(name, torch.stack([latent.sum(), changed.sum()])).tolist()
        moved[name] = n_changed / n if n else 0.0
    return moved


def _advice(rules: list[RuleReport], status: str, collapsed: Sequence[str], schedule: Schedule) -> list[str]:
    way_out = "smaller weights" if schedule.push is not None else "schedule='adaptive', or smaller weights"
    found = [f"nearly all atoms of {name} ended on one side: use {way_out}" for name in collapsed]
    if status == "oscillating":
        found.append("the run oscillates: raise damping, for example damping=0.5")
    if status == "changing":
        found.append("the run has not converged: raise iterations")
    found += [f"the logits do not support this rule (correlation {rule.support:.2f} +- {rule.error:.2f}): {rule.rule}; "
              "check that it fits the data" for rule in rules if rule.support is not None and rule.error is not None
              and rule.error < 0.2 and rule.support < 2 * rule.error]
    found += [f"more violations after than before: {rule.rule}; check that it fits the data" for rule in rules
              if rule.after > 1.05 * rule.before + 0.5]
    return found


class Warnings:
    """What a layer says of itself, each at most once."""

    def __init__(self) -> None:
        self._has_warned = False
        # calls that were checked for a collapse, and rules whose weight was said to be useless
        self._calls, self._told = 0, set[int]()

    def of_hard_rules(self, theory: Theory, hard_weight: float) -> None:
        """Mean field may violate a hard rule."""
        # in this order: a graph must not depend on whether the layer has warned
        if is_tracing() or self._has_warned:
            return
        self._has_warned = True
        hard = [rule for rule in theory.rules if rule.is_hard]
        if hard:
            more = f" and {len(hard) - 1} more are" if len(hard) > 1 else " is"
            warnings.warn(
                f"the rule '{hard[0]}'{more} hard, but mean field can only give a weight (hard_weight={hard_weight:g}) "
                "to such a rule, so the output may violate it; use method='exact' for narrow rules (chains, trees), "
                "decode for an answer that satisfies all rules, or give the rule a weight of its own",
                stacklevel=8)

    def of_collapse(self, run: Run, logits: Mapping[str, Tensor]) -> None:
        """The rules pushed all atoms of a predicate to one side."""
        if is_tracing() or self._calls >= CHECKED_CALLS:
            return
        self._calls += 1
        with torch.no_grad():
            names = run.measures.collapsed(logits)
        if names:
            # one warning is enough
            self._calls = CHECKED_CALLS
            warnings.warn(f"the rules pushed all atoms of {', '.join(names)} to one side; layer.report(logits) says "
                          f"more, and schedule='adaptive' or smaller weights may help", stacklevel=8)

    @staticmethod
    def of_unproven(n: int, n_items: int) -> None:
        """The solvers stopped before they could prove their worlds."""
        if n:
            warnings.warn(f"{n} of {n_items} decoded worlds {'is' if n == 1 else 'are'} not proven to be the best; "
                          "raise max_seconds for a proof", stacklevel=3)

    def of_useless_weights(self, theory: Theory, weights: Sequence[Tensor]) -> None:
        """Training drove the weight of a rule to 0 or below."""
        for f, (rule, weight) in enumerate(zip(theory.rules, weights, strict=True)):
            start = 1.0 if rule.weight is None else rule.weight
            if start > 0 and not rule.is_hard and bool((weight.detach() <= 0).any()) and f not in self._told:
                self._told.add(f)
                warnings.warn(f"training drove the weight of '{rule}' to {float(weight.detach().min()):.2g}: it "
                              "does not help this model; remove it, or set positive_weights=True", stacklevel=3)
