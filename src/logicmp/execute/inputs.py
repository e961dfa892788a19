"""Check the tensors of a call: shapes against the theory, batch dimensions, masks and evidence; worlds as tensors.

Room: plan -> **execute** -> layer.

    unary['Friends'] has shape [32, 50, 40]; expected [batch, 50, 50], because Friends(person, person) and person has 50

Every tensor that is returned has exactly one batch dimension.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import LogicMPError, closest
from ..facts.supports import Support
from ..facts.world import UNKNOWN, World, one_value_each
from ..parse.theory import Predicate, Theory
from .state import is_tracing


@dataclass(frozen=True)
class Inputs:
    """Checked tensors of one call, all with one batch dimension."""

    unary: dict[str, Tensor]
    # predicates that are observed as a whole, as zeros and ones
    observed: dict[str, Tensor]
    # atoms observed one by one: one, zero, or NaN where an atom is unobserved
    evidence: dict[str, Tensor]
    # by type, [batch, n]: one where an entity exists
    masks: dict[str, Tensor]
    sizes: dict[str, int]
    batch: tuple[int, ...]

    @property
    def like(self) -> Tensor:
        return next(iter((self.unary or self.observed).values()))


def read_inputs(theory: Theory, unary: Tensor | Mapping[str, Tensor], evidence: Mapping[str, Tensor] | None,
                mask: Tensor | Mapping[str, Tensor] | None) -> Inputs:
    """Check the tensors of a call against the theory, and give each one batch dimension."""
    for what, argument in (("evidence", evidence), ("mask", mask)):
        if argument is not None and not isinstance(argument, (Mapping, Tensor) if what == "mask" else Mapping):
            raise LogicMPError(f"{what} is a {type(argument).__name__}; expected a dict of torch tensors")
    given_evidence = dict(evidence or {})
    given = dict(unary) if isinstance(unary, Mapping) else {only_predicate(theory, given_evidence): unary}
    for what, tensors in (("unary", given), ("evidence", given_evidence)):
        for name, tensor in tensors.items():
            _check_tensor(what, name, tensor, theory)
    if not given:
        raise LogicMPError("unary is empty", f"give log-odds for one of: {', '.join(theory.predicate)}")
    for name in given:
        if not given[name].is_floating_point():
            raise LogicMPError(f"unary[{name!r}] has dtype {given[name].dtype}; log-odds are floating point",
                               "call .float() on it")
        # a sum is finite only if all its parts are; it can overflow, so look at the parts where it is not
        if not is_tracing() and not torch.isfinite(given[name].sum()) and not torch.isfinite(given[name]).all():
            raise LogicMPError(f"unary[{name!r}] has values that are NaN or infinite",
                               "check the model's output; use mask for padding, evidence for observed atoms")
    like = next(iter(given.values()))
    sizes = _sizes(theory, {**given_evidence, **given})
    batch = _batch_shape(theory, given, given_evidence)
    n_batch = math.prod(batch)

    def flat(name: str, tensor: Tensor) -> Tensor:
        shape = theory.predicate[name].shape(sizes)
        return tensor.expand((*batch, *shape)).reshape((n_batch, *shape))

    observed = {name: flat(name, tensor).to(like.dtype) for name, tensor in given_evidence.items()
                if tensor.dtype == torch.bool}
    partial = {name: flat(name, tensor).to(like.dtype) for name, tensor in given_evidence.items()
               if tensor.dtype != torch.bool}
    for name, tensor in partial.items():
        if not is_tracing() and not (tensor.isnan() | (tensor == 0) | (tensor == 1)).all():
            raise LogicMPError(f"evidence[{name!r}] has values other than 0, 1 and NaN",
                               "1 is true, 0 false, NaN unobserved; pass probabilities as log-odds in unary")
    full = {name: flat(name, tensor) for name, tensor in given.items() if name not in observed}
    for predicate in theory.predicates:
        if predicate.name not in full and predicate.name not in observed:
            if predicate.closed_world and predicate.name not in partial:
                raise LogicMPError(f"{predicate.name} is closed world (*) and needs evidence",
                                   f"pass evidence={{{predicate.name!r}: a bool tensor}}")
            full[predicate.name] = like.new_zeros(n_batch, *predicate.shape(sizes))
    return Inputs(full, observed, partial, _masks(theory, mask, sizes, batch, like), sizes, batch)


def only_predicate(theory: Theory, evidence: Mapping[str, Tensor]) -> str:
    """The predicate of a tensor without a name: the only one without evidence."""
    # float evidence observes some atoms and leaves the others to unary
    whole = {name for name, x in evidence.items() if isinstance(x, Tensor) and x.dtype == torch.bool}
    latent = [p.name for p in theory.predicates if p.name not in evidence]
    latent = latent or [p.name for p in theory.predicates if p.name not in whole]
    if len(latent) != 1:
        example = ", ".join(f"{name!r}: ..." for name in latent[:3])
        raise LogicMPError(f"unary is one tensor, but the theory has {len(latent)} predicates without evidence: "
                           f"{', '.join(latent)}", f"pass a dict: {{{example}}}")
    return latent[0]


def _check_tensor(what: str, name: str, tensor: Tensor, theory: Theory) -> None:
    if name not in theory.predicate:
        raise LogicMPError(f"{what} names {name!r}, which is not a predicate of the theory",
                           closest(name, list(theory.predicate), "predicate"))
    if not isinstance(tensor, Tensor):
        raise LogicMPError(f"{what}[{name!r}] is a {type(tensor).__name__}; expected a torch tensor")
    predicate = theory.predicate[name]
    if tensor.dim() < _n_dims(predicate):
        raise LogicMPError(f"{what}[{name!r}] has shape {list(tensor.shape)}; expected {_expected(predicate, {})}, "
                           f"because {predicate}")


def _n_dims(predicate: Predicate) -> int:
    return len(predicate.arguments) + (predicate.labels is not None)


def _expected(predicate: Predicate, sizes: Mapping[str, int]) -> str:
    parts = ["batch...", *(str(sizes.get(t, t)) for t in predicate.types)]
    return f"[{', '.join(parts + ([str(len(predicate.labels))] if predicate.labels else []))}]"


def _sizes(theory: Theory, tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """The size of every type, from the tensors; raise if two tensors, or a tensor and the theory, disagree."""
    sizes: dict[str, int] = {}
    source: dict[str, str] = {}
    for t in theory.types:
        if t.closed:
            sizes[t.name], source[t.name] = len(t.constants), f"{t.name} has {len(t.constants)} constants"
    for name, tensor in tensors.items():
        predicate = theory.predicate[name]
        shape = tensor.shape[tensor.dim() - _n_dims(predicate) :]
        for type_name, size in zip(predicate.types, shape, strict=False):
            sizes.setdefault(type_name, size)
            source.setdefault(type_name, f"{name} has {size} of {type_name}")
        if tuple(shape) != predicate.shape(sizes):
            why = "; ".join(source[t] for t in dict.fromkeys(predicate.types))
            raise LogicMPError(f"the tensor of {name} has shape {list(tensor.shape)}; expected "
                               f"{_expected(predicate, sizes)}, because {predicate}" + (f" and {why}" if why else ""))
    for t in theory.types:
        size = sizes.setdefault(t.name, len(t.constants))
        if size < len(t.constants):
            raise LogicMPError(f"the tensors have {size} of {t.name}, but the theory names {len(t.constants)}: "
                               f"{', '.join(t.constants[:6])}")
        if size == 0:
            raise LogicMPError(f"no tensor shows how many of {t.name} there are, or there are none",
                               f"give a tensor for a predicate over {t.name}, with at least one entity")
    return sizes


def _batch_shape(theory: Theory, unary: Mapping[str, Tensor], evidence: Mapping[str, Tensor]) -> tuple[int, ...]:
    batch: tuple[int, ...] = ()
    first = ""
    for name, tensor in {**evidence, **unary}.items():
        own = tuple(tensor.shape[: tensor.dim() - _n_dims(theory.predicate[name])])
        if own and batch and own != batch:
            raise LogicMPError(f"the tensor of {name} has batch dimensions {list(own)}, that of {first} has "
                               f"{list(batch)}", "all tensors have the same batch dimensions, or none")
        if own:
            batch, first = own, name
    return batch


def _masks(theory: Theory, mask: Tensor | Mapping[str, Tensor] | None, sizes: Mapping[str, int],
           batch: tuple[int, ...], like: Tensor) -> dict[str, Tensor]:
    if mask is None:
        return {}
    if isinstance(mask, Tensor):
        if len(theory.types) != 1:
            raise LogicMPError(f"mask is one tensor, but the theory has {len(theory.types)} types",
                               f"pass a dict by type: {', '.join(theory.type)}")
        mask = {theory.types[0].name: mask}
    masks = {}
    for name, tensor in mask.items():
        if name not in theory.type:
            raise LogicMPError(f"mask names {name!r}, which is not a type of the theory",
                               closest(name, list(theory.type), "type"))
        if not isinstance(tensor, Tensor):
            raise LogicMPError(f"mask[{name!r}] is a {type(tensor).__name__}; expected a torch tensor")
        if tuple(tensor.shape) not in ((*batch, sizes[name]), (sizes[name],)):
            raise LogicMPError(f"mask[{name!r}] has shape {list(tensor.shape)}; expected {[*batch, sizes[name]]}, one "
                               f"entry for each {name}")
        masks[name] = tensor.expand((*batch, sizes[name])).reshape(math.prod(batch), sizes[name]).to(like.dtype)
    return masks


def has_sparse(theory: Theory, unary: object, evidence: object) -> bool:
    """Whether a call of the layer has a sparse tensor or a list of index columns."""
    given = list(unary.values()) if isinstance(unary, Mapping) else [unary]
    columns = evidence.items() if isinstance(evidence, Mapping) else ()
    return (any(isinstance(x, Tensor) and x.layout != torch.strided for x in given)
            or any(isinstance(x, Tensor) and is_sparse(theory, name, x) for name, x in columns))


def is_sparse(theory: Theory, name: str, tensor: Tensor) -> bool:
    """Whether evidence is a sparse tensor or a list of index columns."""
    return tensor.layout != torch.strided or _is_columns(theory, name, tensor)


def _is_columns(theory: Theory, name: str, tensor: Tensor) -> bool:
    """Whether evidence is `edge_index`: int64, one row for each argument."""
    predicate = theory.predicate.get(name)
    return (predicate is not None and tensor.dtype == torch.int64 and tensor.dim() == 2
            and len(predicate.arguments) >= 2 and predicate.labels is None
            and tensor.shape[0] == len(predicate.arguments))


def world_tensors(world: World, dtype: torch.dtype = torch.float64) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Unary potentials and evidence of a world, as the layer takes them; fully observed predicates are bool."""
    unary: dict[str, Tensor] = {}
    evidence: dict[str, Tensor] = {}
    for name, values in world.values.items():
        known = torch.from_numpy(values)
        if bool((known != UNKNOWN).all()):
            evidence[name] = known == 1
            continue
        soft = world.unary.get(name)
        unary[name] = torch.zeros(values.shape, dtype=dtype) if soft is None else torch.from_numpy(soft).to(dtype)
        if bool((known != UNKNOWN).any()):
            evidence[name] = torch.where(known == UNKNOWN, torch.nan, known.to(dtype))
    return unary, evidence


def world_from_tensors(theory: Theory, unary: Mapping[str, Tensor] | None = None,
                       evidence: Mapping[str, Tensor] | None = None) -> World:
    """A world from what the layer takes, without batch dimensions; every type has all its constants named."""
    values, soft = {}, {}
    for predicate in theory.predicates:
        name = predicate.name
        given = (evidence or {}).get(name)
        known = (torch.full(predicate.shape(theory.sizes), UNKNOWN, dtype=torch.int8) if given is None else
                 torch.where(given.isnan(), UNKNOWN, given.nan_to_num()).to(torch.int8))
        values[name] = known.clone().numpy()
        if predicate.is_categorical:
            one_value_each(predicate, values[name])
        if name in (unary or {}):
            tensor = unary[name].detach().to(torch.float64)  # type: ignore[index]
            soft[name] = ((tensor + tensor.mT) / 2 if predicate.symmetric else tensor).numpy()
    return World(theory, values, soft, {predicate.name: "" for predicate in theory.predicates})


def to_tensors(arrays: Mapping[str, np.ndarray], supports: Mapping[str, Support]) -> dict[str, Tensor]:
    """Arrays of numpy as tensors that share their memory; those of sparse predicates as sparse tensors."""
    found = {name: torch.from_numpy(array) for name, array in arrays.items()}
    for name in found.keys() & supports.keys():
        support = supports[name]
        places = slice(None) if support.places is None else torch.from_numpy(support.places)
        labels = found[name].shape[1:] if support.width == 1 else ()
        values = found[name].reshape(support.n_values, *labels)[places]
        indices = torch.from_numpy(np.stack(support.columns).astype(np.int64))
        found[name] = torch.sparse_coo_tensor(indices, values, (*support.sizes, *labels), is_coalesced=True,
                                              check_invariants=False)
    return found
