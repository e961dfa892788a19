"""From marginals to an answer that obeys the rules.

Stage: layer, ground -> **learn**.  Paper: the segmentation of documents into blocks, where the answer is a clustering.

    threshold     each atom on its own: what the rules are broken by
    ilp, maxsat   the most probable answer that obeys all rules, exact
    clustering    the best equivalence relation, for one predicate over pairs; exact for a few, good for many

Every rule is a constraint here, whatever its weight (`rules="hard"`: only those with a full stop).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..errors import CostError, LogicMPError, RuleError
from ..execute.inputs import Inputs, read_inputs, world_from_tensors
from ..ground.build import build_network
from ..inference.moves.arrays import build_arrays
from ..inference.search.ilp import solve_ilp
from ..inference.search.maxsat import solve_maxsat
from ..layer import LogicMP
from ..limits import Clock
from ..parse.syntax import Not
from ..parse.theory import Predicate, Theory
from .cluster import best_clusters
from .cnf import as_constraints, ground_constraints, with_sizes
from .tensors import as_evidence, certain_logits, value_scores, write_answer, write_values

SOLVERS = {"ilp": solve_ilp, "maxsat": solve_maxsat}
METHODS = ("threshold", *SOLVERS, "clustering")
TOO_BIG = ("use clustering, if the rules make one predicate an equivalence relation; or threshold after the LogicMP "
           "layer")
Answer = dict[str, Tensor]


@dataclass(frozen=True)
class Decoded:
    """An answer, and what it did to the rules."""

    method: str
    # by predicate: bool in the shape of its logits; the number of the label for a multi-class predicate
    values: Answer
    # groundings broken by the threshold and by the answer, [batch..., rules]
    violated_before: Tensor
    violated_after: Tensor
    # whether it is proven that no answer which obeys the rules is more probable
    optimal: bool
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        proven = "the best answer" if self.optimal else "not proven to be the best answer"
        return "; ".join([f"{self.method}: {int(self.violated_before.sum()):,} groundings violated before, "
                          f"{int(self.violated_after.sum()):,} after", proven, *self.notes])


def decode(theory: Theory | str, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None,
           method: str = "ilp", rules: str = "all", max_seconds: float = 60.0) -> Decoded:
    """The most probable answer that obeys the rules, for each item of a batch.

    >>> logits = {"A": torch.tensor(2.0), "B": torch.tensor(-1.0)}
    >>> decoded = decode("A => B", logits)
    >>> print(decoded)
    ilp: 1 groundings violated before, 0 after; the best answer
    >>> {name: bool(value) for name, value in decoded.values.items()}
    {'A': True, 'B': True}

    Args:
        logits, evidence: as for `LogicMP`, of the network or of the layer; there is no mask, so cut padding off.
        method: "threshold", "ilp" (needs SciPy), "maxsat" (needs python-sat) or "clustering".
        rules: which rules are constraints, "all" or "hard".
        max_seconds: for the whole batch; an ILP gives the best answer it has by then, and says so.
    """
    if method not in METHODS:
        raise LogicMPError(f"unknown method {method!r}", f"known: {', '.join(METHODS)}")
    constraints = as_constraints(theory, rules)
    inputs = read_inputs(constraints, logits, evidence, None)
    items = [_item(inputs, k) for k in range(len(inputs.like))]
    if not items:
        raise LogicMPError("there is nothing to decode: the batch has no items")
    layer, clock = LogicMP(constraints), Clock(max_seconds)
    found = [_threshold(constraints, item) for item in items]
    before = after = count_violations(layer, found)
    optimal, notes = (~before.any(1)).tolist(), []
    if method != "threshold":
        # what breaks no rule is the best answer already, unless it has to be an equivalence relation
        todo = [k for k, done in enumerate(optimal) if not done or method == "clustering"]
        for k in todo:
            if method == "clustering":
                answer, optimal[k] = _cluster(constraints, items[k], clock)
            else:
                answer, optimal[k] = _solve(constraints, items[k], method, clock)
            # observed predicates stay, for the count
            found[k] = {**found[k], **answer}
        after = count_violations(layer, found) if todo else before
        if len(items) > 1 and not all(optimal):
            notes.append(f"{len(items) - sum(optimal)} of {len(items)} items without proof")
    if method == "clustering":
        _refuse_other_rules(constraints, after)
    shape = (*inputs.batch, len(constraints.rules))
    values = {name: torch.stack([answer[name] for answer in found]).reshape((*inputs.batch, *found[0][name].shape))
              for name in found[0] if name in inputs.unary}
    return Decoded(method, values, before.reshape(shape), after.reshape(shape), all(optimal), tuple(notes))


def count_violations(layer: LogicMP, answers: Sequence[Answer]) -> Tensor:
    """How many groundings of each rule each answer makes false, [answers, rules]; answers have no batch dimensions."""
    theory = layer.theory
    try:
        together = {name: torch.stack([answer[name] for answer in answers]) for name in answers[0]}
        return layer.violations(certain_logits(theory, together)).round().long()
    except CostError:
        # a rule with too many products for the layer; with all atoms known it can be grounded
        return torch.stack([_count_by_grounding(theory, answer) for answer in answers])


def _count_by_grounding(theory: Theory, answer: Answer) -> Tensor:
    """The same for one answer: the groundings of a rule's negation that hold are those that break it."""
    known = {name: tensor.double() for name, tensor in as_evidence(theory, answer).items()}
    sizes = {t: n for name, tensor in known.items()
             for t, n in zip(theory.predicate[name].types, tensor.shape, strict=False)}
    negated = [replace(rule, formula=Not(rule.formula), is_hard=False, weight=1.0) for rule in theory.rules]
    network = build_network(world_from_tensors(with_sizes(theory, sizes), None, known), negated)
    # one weight for each constant of +x, all of one rule together
    return torch.tensor([round(part.sum()) for part in np.split(network.base, network.offsets[1:-1])])


def _item(inputs: Inputs, k: int) -> Inputs:
    """One item of a batch, as inputs without batch dimensions."""
    unary, observed, evidence = ({name: tensor[k : k + 1].detach().cpu() for name, tensor in tensors.items()}
                                 for tensors in (inputs.unary, inputs.observed, inputs.evidence))
    return Inputs(unary, observed, evidence, {}, inputs.sizes, ())


def _threshold(theory: Theory, item: Inputs) -> Answer:
    return {predicate.name: write_answer(predicate, value_scores(item, predicate).argmax(-1), item)
            for predicate in theory.predicates}


def _solve(theory: Theory, item: Inputs, method: str, clock: Clock) -> tuple[Answer, bool]:
    """The best answer by ILP or MaxSAT, and whether that is proven."""
    known = {name: tensor[0] for name, tensor in {**item.evidence, **item.observed}.items()}
    unary = {name: tensor[0] for name, tensor in item.unary.items()}
    network = ground_constraints(theory, item.sizes, known, unary, TOO_BIG)
    values, is_proven = SOLVERS[method](build_arrays(network, None, unary_features=True), clock.left())
    if values is None:
        rules = sorted({int(r) for r in network.rule})
        raise CostError(f"{method} has no answer after {clock.seconds:g} s; {network}, of this rule among others",
                        network.rules[rules[0]].span,
                        f"raise max_seconds; or take the other of ilp and maxsat; or {TOO_BIG}")
    return write_values(network, item, torch.from_numpy(values).long()[None]), is_proven


def _cluster(theory: Theory, item: Inputs, clock: Clock) -> tuple[Answer, bool]:
    """The best equivalence relation, and whether that is proven."""
    predicate = _relation(theory, item)
    odds = item.unary[predicate.name][0].double()
    weights = (odds + odds.mT).cpu().numpy()
    evidence = item.evidence.get(predicate.name)
    if evidence is not None:
        # more than all beliefs together
        certain = (2 * evidence[0].double() - 1).nan_to_num().cpu().numpy() * (1 + np.abs(weights).sum())
        weights = weights + certain + certain.T
    labels, is_best = best_clusters(weights, clock.left() or 0.0)
    together = torch.from_numpy(labels[:, None] == labels)
    if evidence is not None and bool((~evidence[0].isnan() & (evidence[0] != together)).any()):
        raise LogicMPError(f"the evidence of {predicate.name} is of no equivalence relation, or none was found that "
                           "agrees with it", "use method='ilp'")
    return {predicate.name: together}, is_best


def _relation(theory: Theory, item: Inputs) -> Predicate:
    unknown = [theory.predicate[name] for name in item.unary]
    fits = [p for p in unknown if not p.is_categorical and len(p.types) == 2 and p.types[0] == p.types[1]]
    if len(unknown) != 1 or not fits:
        raise LogicMPError(f"clustering is for one predicate over pairs, C(t, t); here: {', '.join(map(str, unknown))}",
                           "use ilp or maxsat, or give evidence for the others")
    return fits[0]


def _refuse_other_rules(theory: Theory, violated: Tensor) -> None:
    for rule, broken in zip(theory.rules, violated.sum(0).tolist(), strict=True):
        if broken:
            raise RuleError(f"clustering gives an equivalence relation: it breaks {broken:,} groundings of this rule",
                            rule.span, "use ilp or maxsat, which obey every rule")
