"""From logits to an answer that satisfies the rules.

Room: layer, inference, cnf, tensors -> **decoding** -> cli.  Paper: the segmentation of documents into blocks.

    threshold     each atom on its own; it may violate rules
    ilp, maxsat   the most probable answer that satisfies all rules, proven by the solver
    exact         the same for the whole batch at once, where the rules are narrow: chains, trees
    clustering    an equivalence relation, for one predicate over pairs: proven best for few elements, good for many
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from ..arguments import NotNegative, checked
from ..errors import CostError, LogicMPError, RuleError
from ..execute.inputs import Inputs, Mask, read_inputs
from ..execute.items import Values, existing_entities, item_of, join_items, select_entities
from ..execute.values import as_evidence, certain_logits, value_scores, write_answer, write_values
from ..execute.worlds import fact_tensors, world_from_tensors
from ..facts.world import with_sizes
from ..ground.build import build_network
from ..inference.moves.arrays import build_arrays
from ..inference.search.ilp import solve_ilp
from ..inference.search.maxsat import solve_maxsat
from ..layer import LogicMP
from ..limits import Limits
from ..parse.syntax import Not
from ..parse.theory import Predicate, Theory
from .cluster import best_clusters
from .cnf import as_constraints, ground_constraints

_SOLVERS = {"ilp": solve_ilp, "maxsat": solve_maxsat}
DECODERS = ("threshold", *_SOLVERS, "exact", "clustering")
TOO_BIG = ("use clustering, if the rules make one predicate an equivalence relation; or threshold after the LogicMP "
           "layer")


@dataclass(frozen=True)
class Decoded:
    """The result of `decode`; `print` shows violations and whether the answer is proven to be best.

    Attributes:
        method: the method that was used.
        values: the answer by predicate: bool in the shape of its logits, or the index of the label for a multi-class
            predicate.
        violated_before: violated groundings of each rule if each atom is decided on its own, [batch..., rules].
        violated_after: violated groundings of each rule in the answer, [batch..., rules].
        optimal: whether it is proven that no answer that satisfies the rules is more probable.
        notes: remarks for the user.
        clusters: with method "clustering", the cluster of each element by predicate, [batch..., elements], numbered in
            the order of their first elements; else empty.
    """

    method: str
    values: Values
    violated_before: Tensor
    violated_after: Tensor
    optimal: bool
    notes: tuple[str, ...] = ()
    clusters: Mapping[str, Tensor] = field(default_factory=dict)

    def __str__(self) -> str:
        proven = "the best answer" if self.optimal else "not proven to be the best answer"
        before, after = int(self.violated_before.sum()), int(self.violated_after.sum())
        return "; ".join([f"{self.method}: {before:,} grounding{'s' * (before != 1)} violated before, {after:,} after",
                          proven, *self.notes])


@checked
def decode(theory: Theory | str, logits: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None = None,
           method: str = "ilp", rules: str = "all", max_seconds: NotNegative = 60.0,
           mask: Mask | None = None) -> Decoded:
    """The most probable answer that satisfies the rules, for each item of a batch.

    >>> logits = {"A": torch.tensor(2.0), "B": torch.tensor(-1.0)}
    >>> decoded = decode("A => B", logits)
    >>> print(decoded)
    ilp: 1 grounding violated before, 0 after; the best answer
    >>> {name: bool(value) for name, value in decoded.values.items()}
    {'A': True, 'B': True}

    Args:
        theory: rules as text, or a `Theory`; each rule is a constraint, and weights do not count.
        logits: of the model or of the layer: a tensor, or tensors by predicate, as for `LogicMP`.
        evidence: observed atoms by predicate: bool tensors, floats with NaN for unobserved atoms, or integer labels.
        method: "ilp" or "maxsat" (any rules, proven; `pip install "logicmp[map]"`), "exact" (narrow rules such as
            chains and trees, proven, the whole batch at once), "clustering" (one predicate over pairs, whose rules make
            it an equivalence relation) or "threshold" (each atom on its own).
        rules: which rules are constraints: "all", or "hard" for those that end with a full stop.
        max_seconds: time limit in seconds for the whole batch, at least 0. When it is reached, "ilp" and "clustering"
            return the best answer so far, with `optimal=False`.
        mask: which entities exist, as for `LogicMP`. Atoms of masked entities are false, their labels 0.

    Returns:
        The answer, with the violated groundings before and after, and whether it is proven to be best.

    Raises:
        CostError: there are too many groundings, or the solver found no answer in time.
        LogicMPError: no answer satisfies the rules and the evidence, or a package is not installed.
    """
    if method not in DECODERS:
        raise LogicMPError(f"unknown method {method!r}", f"available methods: {', '.join(DECODERS)}")
    constraints, facts = as_constraints(theory, rules).split_facts()
    inputs = read_inputs(constraints, logits, {**fact_tensors(constraints, facts), **(evidence or {})}, mask)
    n_items = len(inputs.like)
    if not n_items:
        raise LogicMPError("there is nothing to decode: the batch is empty")
    kept = [existing_entities(constraints, inputs, k) for k in range(n_items)]
    items = [item_of(constraints, inputs, k, kept[k]) for k in range(n_items)]
    layer, limits = LogicMP(constraints), Limits(max_seconds)
    found = [_threshold(constraints, item) for item in items]
    before = after = count_violations(layer, found)
    optimal, notes = (~before.any(1)).tolist(), []
    if method != "threshold":
        # an answer without violations is already the best, unless it must be an equivalence relation
        todo = [k for k, done in enumerate(optimal) if not done or method == "clustering"]
        best = _exact(layer, inputs) if method == "exact" and todo else {}
        for k in todo:
            if method == "exact":
                own = {name: x[k] for name, x in best.items()}
                answer, optimal[k] = select_entities(constraints, own, kept[k]), True
            elif method == "clustering":
                answer, optimal[k] = _cluster(layer, items[k], limits)
            else:
                answer, optimal[k] = _solve(constraints, items[k], method, limits)
            # keep observed predicates for the count
            found[k] = {**found[k], **answer}
        after = count_violations(layer, found) if todo else before
        if len(items) > 1 and not all(optimal):
            notes.append(f"{len(items) - sum(optimal)} of {len(items)} items are not proven")
    if method == "clustering":
        _reject_other_rules(constraints, after)
    shape = (*inputs.batch, len(constraints.rules))
    values = join_items(constraints, found, inputs, kept)
    # the first element that is together with each element, renumbered; padding is alone
    clusters = {} if method != "clustering" else {
        name: (together | torch.eye(together.shape[-1], dtype=torch.bool)).int().argmax(-1) for name, together in
        values.items()}
    clusters = {name: ((first == torch.arange(first.shape[-1])).cumsum(-1) - 1).gather(-1, first)
                for name, first in clusters.items()}
    return Decoded(method, values, before.reshape(shape), after.reshape(shape), all(optimal), tuple(notes), clusters)


def count_violations(layer: LogicMP, answers: Sequence[Values]) -> Tensor:
    """The violated groundings of each rule in each answer, [answers, rules]; answers have no batch dimensions."""
    theory = layer.theory
    if any(x.shape != answers[0][name].shape for answer in answers for name, x in answer.items()):
        # masks leave items of different sizes
        return torch.cat([count_violations(layer, [answer]) for answer in answers])
    try:
        together = {name: torch.stack([answer[name] for answer in answers]) for name in answers[0]}
        return layer.violations(certain_logits(theory, together)).round().long()
    except CostError:
        # too many products for the layer, but with every atom decided the rules can be grounded
        return torch.stack([_count_by_grounding(theory, answer) for answer in answers])


def _count_by_grounding(theory: Theory, answer: Values) -> Tensor:
    """The same for one answer: the violated groundings of a rule are the true ones of its negation."""
    known = {name: tensor.double() for name, tensor in as_evidence(theory, answer).items()}
    sizes = {t: n for name, tensor in known.items()
             for t, n in zip(theory.predicate[name].types, tensor.shape, strict=False)}
    negated = [replace(rule, formula=Not(rule.formula), is_hard=False, weight=1.0) for rule in theory.rules]
    network = build_network(world_from_tensors(with_sizes(theory, sizes), None, known), negated)
    # a rule with +x has one weight for each constant: add them up
    return torch.tensor([round(part.sum()) for part in np.split(network.base, network.offsets[1:-1])])


def _threshold(theory: Theory, item: Inputs) -> Values:
    return {predicate.name: write_answer(predicate, value_scores(item, predicate).argmax(-1), item)
            for predicate in theory.predicates}


def _exact(layer: LogicMP, inputs: Inputs) -> Values:
    """The best answers of all items by exact inference, [batch, ...]."""
    evidence = {name: x[0] if len(x) == 1 else x for name, x in {
        **inputs.evidence, **{name: x.bool() for name, x in inputs.observed.items()}}.items()}
    masks = {name: x > 0 for name, x in inputs.masks.items()} or None
    try:
        return layer.exact(inputs.unary, evidence, masks).best(layer.theory)
    except CostError as cause:
        raise CostError(cause.message, cause.span, "use method='ilp' or 'maxsat', or give more evidence") from None


def _solve(theory: Theory, item: Inputs, method: str, limits: Limits) -> tuple[Values, bool]:
    """The best answer by ILP or MaxSAT, and whether it is proven."""
    known = {name: tensor[0] for name, tensor in {**item.evidence, **item.observed}.items()}
    unary = {name: tensor[0] for name, tensor in item.unary.items()}
    network = ground_constraints(theory, item.sizes, known, unary, TOO_BIG)
    values, is_proven = _SOLVERS[method](build_arrays(network, None, unary_features=True), limits.left())
    if values is None:
        rules = sorted({int(r) for r in network.rule})
        raise CostError(f"{method} has no answer after {limits.seconds:g} s; {network}, from this rule among others",
                        network.rules[rules[0]].span,
                        f"raise max_seconds; or use {'maxsat' if method == 'ilp' else 'ilp'}; or {TOO_BIG}")
    return write_values(network, item, torch.from_numpy(values).long()[None]), is_proven


def _cluster(layer: LogicMP, item: Inputs, limits: Limits) -> tuple[Values, bool]:
    """The best equivalence relation, and whether it is proven; the layer's answer is one of the starts."""
    predicate = _relation(layer.theory, item)
    odds = item.unary[predicate.name][0].double()
    weights = (odds + odds.mT).cpu().numpy()
    evidence = item.evidence.get(predicate.name)
    if evidence is not None:
        # larger than the sum of all weights
        certain = (2 * evidence[0].double() - 1).nan_to_num().cpu().numpy() * (1 + np.abs(weights).sum())
        weights = weights + certain + certain.T
    try:
        with torch.no_grad():
            found = layer.run({predicate.name: torch.from_numpy(weights / 2)[None]}, item.observed)
        near = found[predicate.name][0] > 0
    except CostError:
        # the rules cost too much for the layer: one start less
        near = None
    labels, is_best = best_clusters(weights, limits.left() or 0.0, near=None if near is None else near.numpy())
    together = torch.from_numpy(labels[:, None] == labels)
    if evidence is not None and bool((~evidence[0].isnan() & (evidence[0] != together)).any()):
        raise LogicMPError(f"no equivalence relation was found that agrees with the evidence of {predicate.name}",
                           "correct the evidence, or use method='ilp'")
    return {predicate.name: together}, is_best


def _relation(theory: Theory, item: Inputs) -> Predicate:
    open_ones = [theory.predicate[name] for name in item.unary]
    fits = [p for p in open_ones if not p.is_categorical and len(p.types) == 2 and p.types[0] == p.types[1]]
    if len(open_ones) != 1 or not fits:
        raise LogicMPError("clustering is for one unobserved predicate over pairs, C(t, t), got "
                           f"{', '.join(map(str, open_ones))}", "use ilp or maxsat, or give evidence for the others")
    return fits[0]


def _reject_other_rules(theory: Theory, violated: Tensor) -> None:
    for rule, n_violated in zip(theory.rules, violated.sum(0).tolist(), strict=True):
        if n_violated:
            raise RuleError("clustering gives an equivalence relation, which violates this rule (groundings: "
                            f"{n_violated:,})", rule.span, "use ilp or maxsat, which satisfy every rule")
