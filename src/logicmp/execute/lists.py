"""Sparse predicates in, checked inputs and an executor of rows out; lists are kept while their indices are the same.

Room: plan -> **execute** -> layer, inference.

    evidence={"Link": edge_index}          [2, n]: the links that exist, all observed
    unary={"C": sparse_coo_tensor}         its indices are the candidates of C; every other atom is false
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from ..errors import CostError, LogicMPError, closest
from ..facts.supports import Support, flat_theory, make_support, rows_type, values_type
from ..ground.engine import Grounding
from ..normalize.build import normalize_theory
from ..normalize.cubes import NormalForm
from ..parse.theory import Predicate, Theory
from .inputs import Inputs, Mask, is_sparse, only_predicate, read_inputs, read_masks
from .mean_field import Run
from .sparse import SparseExecutor, build_sparse_executor, plan_sparse_executor

# plans that a layer keeps for sparse inputs
MAX_KEPT = 4
Tensors = Mapping[str, Tensor]


def read_rows(theory: Theory, sizes: Mapping[str, int], supports: Mapping[str, Support], unary: Tensors,
              evidence: Tensors, semantics: str, grounding: Grounding | None = None) -> tuple[Inputs, SparseExecutor]:
    """Check the tensors of a world with sparse predicates, and plan its rules.

    Args:
        theory: the rules.
        sizes: the number of constants of each type.
        supports: the sparse predicates; a tensor of one of them has one entry for each of its values.
        unary: log-odds by predicate.
        evidence: by predicate, bool (all atoms observed) or 1, 0 and NaN; a sparse one that is bool is true throughout.
        semantics: "exact", "paper" or "alchemy".
        grounding: how rows are made, and which of them this process has; by default all, by the built-in join.
    """
    true = [name for name in supports if name in evidence and evidence[name].dtype == torch.bool]
    inputs = flat_inputs(theory, sizes, supports, true, unary, evidence)
    executor = build_sparse_executor(theory, sizes, supports, (*inputs.observed, *true), semantics,
                                     device=inputs.like.device, grounding=grounding)
    return _divided(inputs, theory, supports, true, executor), executor


def _divided(inputs: Inputs, theory: Theory, supports: Mapping[str, Support], true: Sequence[str],
             executor: SparseExecutor) -> Inputs:
    """The atoms of this process; all of them, if it has all rows."""
    parts = {name: part for name, part in executor.parts.items() if isinstance(name, str)}
    return inputs.divided(flat_theory(theory, supports, true), parts) if parts else inputs


def flat_inputs(theory: Theory, sizes: Mapping[str, int], supports: Mapping[str, Support], true: Sequence[str],
                 unary: Tensors, evidence: Tensors, mask: Mask | None = None) -> Inputs:
    flat = flat_theory(theory, supports, true)
    if isinstance(mask, Tensor) and len(theory.types) == 1:
        mask = {theory.types[0].name: mask}
    of_dense = {name: x for name, x in mask.items() if name in flat.type} if isinstance(mask, Mapping) else None
    inputs = read_inputs(flat, unary, {name: x for name, x in evidence.items() if name not in true}, of_dense)
    if mask is not None:
        masks = read_masks(theory, mask, sizes, inputs.batch, inputs.like)
        of_rows = {rows_type(name): _rows_that_exist(theory.predicate[name], support, masks)
                   for name, support in supports.items() if name not in true}
        inputs = replace(inputs, masks={**masks, **{name: x for name, x in of_rows.items() if x is not None}})
    return replace(inputs, sizes={**sizes, **inputs.sizes})


def _rows_that_exist(predicate: Predicate, support: Support, masks: Tensors) -> Tensor | None:
    """By variable of a sparse predicate whether its entities exist, [batch, variables]; None without masks for them."""
    # the first row of each variable
    first = slice(None, None, support.width) if support.places is None else np.unique(
        support.places // support.width, return_index=True)[1]
    found = None
    for k in predicate.functional if support.lists_values else ():
        if predicate.types[k] in masks:
            raise LogicMPError(f"mask[{predicate.types[k]!r}] and candidates of {predicate} cannot be combined",
                               f"remove the candidates that do not exist, and the mask of {predicate.types[k]}")
    for k, name in enumerate(predicate.types):
        if name in masks and k not in predicate.functional:
            part = masks[name][:, torch.from_numpy(support.columns[k][first].astype(np.int64))]
            found = part if found is None else found * part
    return found


# tensors of the layer


@dataclass(frozen=True)
class _Rows:
    """The rows of one sparse tensor: entity numbers, [arguments, n], and a value for each, None for true."""

    indices: Tensor
    values: Tensor | None
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class _Plan:
    """What depends on indices only."""

    supports: dict[str, Support]
    executor: SparseExecutor
    # by predicate, the value that each given row reads
    unary_places: dict[str, Tensor]
    evidence_places: dict[str, Tensor]


class SparseRun(Run):
    """A run of a call with sparse tensors: what was given as a sparse tensor is returned as one."""

    rows: dict[str, _Rows]
    places: dict[str, Tensor]
    supports: Mapping[str, Support]

    def output(self, logits: Mapping[str, Tensor], name: str, shape: Sequence[int]) -> Tensor:
        """The logits of a predicate, dense or with the indices that were given; observed atoms are certain."""
        if name not in self.places:
            return super().output(logits, name, shape)
        values = super().output(logits, name, self.shapes[name][1:])
        # the values of a functional variable are listed, or they are dense
        is_listed = len(self.places[name]) and self.supports[name].lists_values
        values = (values.flatten() if is_listed else values)[self.places[name]]
        given = self.rows[name]
        return torch.sparse_coo_tensor(given.indices, values, given.shape, is_coalesced=True, check_invariants=False)


@dataclass
class KnownPlans:
    """Plans of earlier calls, and the normal form of the rules."""

    # what each was made for, its indices with the version of each, and the plan, or why there is none
    kept: list[tuple[object, list[tuple[Tensor, int]], _Plan | CostError]] = field(default_factory=list)
    # if it serves every size
    form: NormalForm | None = None


# raises a CostError for a plan that shall not run
Judge = Callable[[SparseExecutor], None]


def _find(plans: KnownPlans, key: object, indices: Sequence[Tensor]) -> _Plan | CostError | None:
    for known, tensors, plan in reversed(plans.kept):
        if known == key and all(_is_same(x, old, version) for x, (old, version) in zip(indices, tensors, strict=True)):
            return plan
    return None


def _is_same(new: Tensor, old: Tensor, version: int) -> bool:
    if old._version != version:
        # the tensor was changed in place after the plan was made
        return False
    if new is old or (new.data_ptr() == old.data_ptr() and new.shape == old.shape and new.stride() == old.stride()):
        return True
    return new.shape == old.shape and new.device == old.device and torch.equal(new, old)


def make_sparse_run(theory: Theory, unary: Tensor | Tensors, evidence: Tensors | None, mask: Mask | None,
                    known: Mapping[str, int], weights: Sequence[Tensor], semantics: str, reduce: str,
                    plans: KnownPlans, judge: Judge | None = None, grounding: Grounding | None = None) -> SparseRun:
    """A run of the layer on sparse and dense tensors.

    Args:
        theory: the rules.
        unary: log-odds by predicate, dense or sparse; the indices of a sparse one are its candidates.
        evidence: by predicate, dense, sparse, or columns of entity numbers.
        mask: which entities exist, by type.
        known: sizes of types that are given, as options of the layer.
        weights, semantics, reduce: of the layer.
        plans: plans of earlier calls; the one of this call is added.
        judge: called with a new plan; it can raise a CostError, which is kept in its place.
        grounding: how rows are made, and which of them this process has; the same in all calls with these plans.
    """
    given_evidence = dict(evidence or {})
    given = dict(unary) if isinstance(unary, Mapping) else {only_predicate(theory, given_evidence): unary}
    for what, tensors in (("unary", given), ("evidence", given_evidence)):
        for name in tensors:
            if name not in theory.predicate:
                raise LogicMPError(f"{what} names {name!r}, which is not a predicate of the theory",
                                   closest(name, list(theory.predicate), "predicate"))
    rows = {name: _read_rows(theory.predicate[name], f"unary[{name!r}]", x) for name, x in given.items()
            if x.layout != torch.strided}
    facts = {name: _read_rows(theory.predicate[name], f"evidence[{name!r}]", x) for name, x in given_evidence.items()
             if is_sparse(theory, name, x)}
    dense = {name: x for name, x in given.items() if name not in rows}
    dense_evidence = {name: x for name, x in given_evidence.items() if name not in facts}
    for name in rows.keys() & dense_evidence.keys() | facts.keys() & dense.keys():
        raise LogicMPError(f"unary[{name!r}] and evidence[{name!r}] are a sparse and a dense tensor",
                           "pass both as sparse tensors, or both as dense ones")
    sizes = _sizes(theory, {**dense_evidence, **dense}, {**facts, **rows}, known)
    for what, tensors_of in (("unary", rows), ("evidence", facts)):
        for name, part in tensors_of.items():
            check_range(theory.predicate[name], f"{what}[{name!r}]", part.indices, sizes)
            if part.shape is None:
                _check_meaning(theory.predicate[name], f"{what}[{name!r}]", part.indices, sizes)
    devices = [x.device for x in (*dense.values(), *(part.indices for part in rows.values()))]
    device = devices[0] if devices else torch.device("cpu")
    # rows that are not false: a change of their values changes the plan
    is_true = {name: _all_true(part) for name, part in facts.items() if name not in rows}
    masked = tuple(mask) if isinstance(mask, Mapping) else theory.type if mask is not None else ()
    masked = tuple(name for name in theory.type if name in masked)
    whole = tuple(name for name, x in dense_evidence.items() if x.dtype == torch.bool)
    key = (tuple(sizes.items()), tuple(rows), tuple(facts), tuple(is_true.items()), whole, masked, device,
           judge is None)
    indices = [part.indices for part in (*rows.values(), *facts.values())]
    plan = _find(plans, key, indices)
    if plan is None:
        # a first call in inference mode must leave nothing that training cannot use
        with torch.inference_mode(False):
            try:
                form = plans.form or normalize_theory(theory, semantics, sizes)
                plans.form = None if form.is_sized else form
                plan = _plan(form, sizes, rows, facts, is_true, whole, masked, device, grounding)
                if judge is not None:
                    judge(plan.executor)
            except CostError as error:
                plan = error
        plans.kept = [*plans.kept[1 - MAX_KEPT :], (key, [(x, x._version) for x in indices], plan)]
    if isinstance(plan, CostError):
        raise plan
    return _run(theory, sizes, dense, dense_evidence, mask, rows, facts, is_true, weights, reduce, plan)


def _all_true(part: _Rows) -> bool:
    return part.values is None or bool((part.values == 1).all())


def _plan(form: NormalForm, sizes: Mapping[str, int], rows: Mapping[str, _Rows], facts: Mapping[str, _Rows],
          is_true: Mapping[str, bool], whole: tuple[str, ...], masked: tuple[str, ...], device: torch.device,
          grounding: Grounding | None) -> _Plan:
    theory = form.theory
    supports: dict[str, Support] = {}
    places: list[dict[str, Tensor]] = [{}, {}]
    for name in {**rows, **facts}:
        predicate = theory.predicate[name]
        parts = [group[name].indices for group in (rows, facts) if name in group]
        if len({len(part) for part in parts}) > 1:
            raise LogicMPError(f"unary[{name!r}] and evidence[{name!r}] have different sparse dimensions",
                               "list the values of functional arguments in both, or in none")
        columns = torch.cat(parts, 1).cpu().numpy()
        support = supports[name] = make_support(predicate, list(columns), sizes)
        if is_true.get(name) and predicate.functional and support.width > 1:
            raise LogicMPError(f"evidence[{name!r}] makes {support.width} values of one variable true; expected "
                               f"{'at most one' if predicate.may_be_none else 'one'}, because {predicate}",
                               "keep one value for each; give a sparse tensor with NaN for values that are unobserved")
        for found, group in zip(places, (rows, facts), strict=True):
            if name in group:
                own = group[name].indices.cpu().numpy()
                found[name] = torch.from_numpy(_find_keys(predicate, support, own)).to(device)
    true = [name for name, yes in is_true.items() if yes]
    executor = plan_sparse_executor(form, sizes, supports, (*whole, *true), device=device, masked=masked,
                                    grounding=grounding)
    return _Plan(supports, executor, *places)


def _find_keys(predicate: Predicate, support: Support, own: np.ndarray) -> np.ndarray:
    """The value of each given tuple; of a functional predicate, the variable."""
    if not predicate.functional or support.lists_values:
        return support.find(list(own))
    keys = [k for k in range(len(predicate.arguments)) if k not in predicate.functional]
    columns: list[np.ndarray] = [np.zeros(own.shape[1], dtype=np.int64)] * len(predicate.arguments)
    for k, column in zip(keys, own, strict=True):
        columns[k] = column
    return support.find(columns) // support.width


def _run(theory: Theory, sizes: Mapping[str, int], dense: Tensors, dense_evidence: Tensors, mask: Mask | None,
         rows: Mapping[str, _Rows], facts: Mapping[str, _Rows], is_true: Mapping[str, bool],
         weights: Sequence[Tensor], reduce: str, plan: _Plan) -> SparseRun:
    unary, evidence = dict(dense), dict(dense_evidence)
    dtype = next((x.dtype for x in dense.values()), torch.get_default_dtype())
    dtype = next((part.values.dtype for part in rows.values() if part.values is not None), dtype)
    true = [name for name, yes in is_true.items() if yes]
    for name, support in plan.supports.items():
        if name in true:
            continue
        flat = plan.executor.theory.predicate[name]
        shape = flat.shape({**sizes, rows_type(name): support.n_values // support.width,
                            values_type(name): support.width})
        n_first = support.n_values if support.lists_values else shape[0]
        if name in rows:
            values = rows[name].values
            assert values is not None
            if not len(values):
                raise LogicMPError(f"unary[{name!r}] is a sparse tensor without entries: none of its atoms can be true",
                                   "give the atoms that can be true as entries, or call .to_dense() on it")
            at = plan.unary_places[name]
            unary[name] = values.new_zeros(n_first, *values.shape[1:]).index_add(0, at, values).reshape(shape)
            if theory.predicate[name].symmetric:
                # both orders may be given: one variable, whose potential is their mean
                unary[name] = unary[name] / torch.bincount(at, minlength=shape[0]).clamp_min(1)
        else:
            unary[name] = torch.zeros(shape, dtype=dtype, device=plan.executor.device)
        if name in facts or support.lists_values:
            known = torch.full(shape, torch.nan, dtype=dtype, device=plan.executor.device)
            if support.lists_values:
                # places without a candidate are false
                assert support.places is not None
                inside = torch.zeros(n_first, dtype=torch.bool, device=known.device)
                inside[torch.from_numpy(support.places).to(known.device)] = True
                known = torch.where(inside, known.flatten(), 0.0)
            if name in facts:
                values = facts[name].values
                own = known.new_ones(()) if values is None else values.to(dtype)
                known = known.index_put((plan.evidence_places[name],), own)
            evidence[name] = known.reshape(shape)
    if not unary:
        raise LogicMPError("unary is empty", f"give log-odds for one of: {', '.join(theory.predicate)}")
    # the tensors that were given come first
    order = [*[name for name in rows if name in unary], *[name for name in unary if name not in rows]]
    inputs = flat_inputs(theory, sizes, plan.supports, true, {name: unary[name] for name in order}, evidence,
                          mask)
    if inputs.batch and rows:
        raise LogicMPError(f"the tensors have batch dimensions {list(inputs.batch)}, but sparse tensors in unary have "
                           "none", "make one graph of all items: add to the entity numbers of each item the number of "
                           "entities before it, as torch_geometric's Batch does")
    inputs = _divided(inputs, theory, plan.supports, true, plan.executor)
    run = SparseRun(plan.executor, inputs, weights, reduce)
    run.rows, run.places, run.supports = dict(rows), dict(plan.unary_places), plan.supports
    return run


def _read_rows(predicate: Predicate, what: str, tensor: Tensor) -> _Rows:
    """The indices and values of a sparse tensor, or columns of entity numbers."""
    if tensor.layout == torch.strided:
        # a transposed list of pairs is not contiguous
        return _Rows(tensor.contiguous(), None, None)
    coo = (tensor if tensor.layout == torch.sparse_coo else tensor.to_sparse(layout=torch.sparse_coo)).coalesce()
    keys = len(predicate.arguments) - len(predicate.functional)
    n_dense = (predicate.labels is not None) + len(predicate.functional)
    is_last = predicate.functional == tuple(range(keys, len(predicate.arguments)))
    is_listed = bool(predicate.functional) and coo.sparse_dim() == len(predicate.arguments) and not coo.dense_dim()
    if not is_listed and (coo.sparse_dim() != keys or coo.dense_dim() != n_dense or not is_last):
        raise LogicMPError(f"{what} has {coo.sparse_dim()} sparse and {coo.dense_dim()} dense dimensions; expected "
                           f"{keys} and {n_dense}, because {predicate}",
                           "make all dimensions sparse: the values of a functional argument that can be true"
                           if not is_last else f"torch.sparse_coo_tensor(indices, values) with indices [{keys}, n]"
                           + (" and values [n, values]" if n_dense else ""))
    return _Rows(coo.indices(), coo.values(), tuple(coo.shape))


def _sizes(theory: Theory, dense: Tensors, sparse: Mapping[str, _Rows], known: Mapping[str, int]) -> dict[str, int]:
    """The size of every type, from the theory, the options of the layer, and the tensors."""
    sizes = {t.name: len(t.constants) for t in theory.types if t.closed} | dict(known)
    shapes = [(name, tuple(x.shape)[x.dim() - len(p.types) - (p.labels is not None) :]) for name, x in dense.items()
              for p in [theory.predicate[name]]]
    shapes += [(name, part.shape) for name, part in sparse.items() if part.shape is not None]
    for name, shape in shapes:
        for type_name, size in zip(theory.predicate[name].types, shape, strict=False):
            if sizes.setdefault(type_name, size) != size:
                raise LogicMPError(f"the tensor of {name} has {size} of {type_name}, but others have "
                                   f"{sizes[type_name]}", "all tensors over one type have the same number of entities")
    for t in theory.types:
        if t.name not in sizes and t.constants:
            sizes[t.name] = len(t.constants)
        if t.name not in sizes:
            raise LogicMPError(f"no tensor shows how many of {t.name} there are",
                               f"pass sizes={{{t.name!r}: n}} to the layer, or a tensor of a predicate over {t.name}")
    return sizes


def _check_meaning(predicate: Predicate, what: str, columns: Tensor, sizes: Mapping[str, int]) -> None:
    """Reject columns of entity numbers that could as well be a matrix of zeros and ones."""
    if tuple(columns.shape) == predicate.shape(sizes) and bool((columns <= 1).all()):
        raise LogicMPError(f"{what} is an int64 tensor of shape {list(columns.shape)}, which can be a matrix of zeros "
                           "and ones or a list of entity numbers", "call .bool() on a matrix, or pass a sparse tensor")


def check_range(predicate: Predicate, what: str, indices: Tensor, sizes: Mapping[str, int]) -> None:
    keys = [t for k, t in enumerate(predicate.types) if k not in predicate.functional]
    for k, type_name in enumerate(predicate.types if len(indices) == len(predicate.types) else keys):
        if not indices.shape[1]:
            continue
        low, high = (int(x) for x in indices[k].aminmax())
        if low < 0 or high >= sizes[type_name]:
            bad = (indices[k] < 0) | (indices[k] >= sizes[type_name])
            at = int(bad.nonzero()[0])
            raise LogicMPError(f"{what} names entity {int(indices[k, at])} of {type_name} in column {at}, but there "
                               f"are {sizes[type_name]}", "entities are numbered from 0")
