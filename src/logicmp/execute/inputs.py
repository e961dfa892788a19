"""Check the tensors of a call: shapes against the theory, batch dimensions, masks and evidence.

Room: plan -> **execute** -> layer.

    unary['Friends'] has shape [32, 50, 40]; expected [batch, 50, 50], because Friends(person, person) and person has 50

Every tensor that is returned has exactly one batch dimension; that of evidence given without one has length 1, so that
evidence which all items share is stored and multiplied once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..arguments import wrong_type
from ..errors import LogicMPError, closest
from ..facts.supports import rows_type
from ..parse.theory import Predicate, Theory
from .atoms import Part
from .operations import spread
from .state import is_tracing

# one tensor for the only predicate without evidence, or a tensor for each predicate
Logits = Tensor | Mapping[str, Tensor]
# by predicate; by type, or one tensor for the only type
Evidence = Mapping[str, Tensor]
Mask = Tensor | Mapping[str, Tensor]
# layouts of sparse tensors, and the dtypes in which the layer computes
SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Inputs:
    """Checked tensors of one call, all with one batch dimension; of length 1 where all items share the evidence."""

    unary: dict[str, Tensor]
    # predicates that are observed as a whole, as zeros and ones
    observed: dict[str, Tensor]
    # atoms observed one by one: one, zero, or NaN where an atom is unobserved
    evidence: dict[str, Tensor]
    # by type, [batch, n]: one where an entity exists
    masks: dict[str, Tensor]
    sizes: dict[str, int]
    batch: tuple[int, ...]
    # of predicates whose atoms are divided over processes, those of this one: all tensors have these only
    parts: Mapping[str, Part] = field(default_factory=dict)
    # by predicate, the places of observed atoms and their values, if they are few; made when first used
    _few: dict[str, tuple[Tensor, Tensor] | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def with_evidence(self, name: str, q: Tensor) -> Tensor:
        """Marginals with the values of observed atoms; without gradients, few of them are written into `q`."""
        evidence = self.evidence[name]
        if torch.is_grad_enabled() or is_tracing() or evidence.shape != q.shape or not q.is_contiguous():
            return torch.where(evidence.isnan(), q, evidence)
        if name not in self._few:
            known = evidence.isnan().logical_not_().reshape(-1).nonzero()[:, 0]
            self._few[name] = (known, evidence.reshape(-1)[known]) if 8 * len(known) < q.numel() else None
        few = self._few[name]
        if few is None:
            return torch.where(evidence.isnan(), q, evidence)
        q.view(-1)[few[0]] = few[1]
        return q

    def total(self, name: str, x: Tensor) -> Tensor:
        """A sum over the atoms of a predicate that count in this process, of all processes."""
        found: Tensor = self.parts[name].shares.add_up(x) if name in self.parts else x
        return found

    def divided(self, theory: Theory, parts: Mapping[str, Part]) -> Inputs:
        """The atoms of this process, from the inputs that all have; their predicates get one argument.

        Args:
            theory: of these inputs.
            parts: by predicate, the atoms.
        """
        def taken(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: parts[name].take(x) if name in parts else x for name, x in tensors.items()}

        masks = dict(self.masks)
        for name, part in parts.items():
            # the other dimensions are those of values
            exists = self._exist(theory.predicate[name].types[: len(part.shape)])
            if exists is not None:
                masks[rows_type(name)] = part.take(exists)
        sizes = {**self.sizes, **{rows_type(name): len(part) for name, part in parts.items()}}
        return replace(self, unary=taken(self.unary), observed=taken(self.observed), evidence=taken(self.evidence),
                       masks=masks, sizes=sizes, parts=parts)

    def owned(self, name: str) -> Inputs:
        """The atoms of a predicate that count in this process, without exchange."""
        at, rows = self.parts[name].is_own, rows_type(name)
        evidence, masks = ({key: x[:, at] if key == own else x for key, x in tensors.items()}
                           for own, tensors in ((name, self.evidence), (rows, self.masks)))
        return replace(self, evidence=evidence, masks=masks, sizes={**self.sizes, rows: int(at.sum())}, parts={})

    @property
    def like(self) -> Tensor:
        return next(iter((self.unary or self.observed).values()))

    def exists(self, predicate: Predicate) -> Tensor | None:
        """[batch, n_1, ..., n_k, 1 for labels]: one where all entities of an atom exist; None without masks."""
        found = self._exist(predicate.types)
        return found if found is None or predicate.labels is None else found.unsqueeze(-1)

    def _exist(self, types: Sequence[str]) -> Tensor | None:
        found: Tensor | None = None
        for k, type_name in enumerate(types):
            if type_name in self.masks:
                part = spread(self.masks[type_name], (k,), len(types))
                found = part if found is None else found * part
        return None if found is None else found.expand(-1, *(self.sizes[t] for t in types))


def value_dims(predicate: Predicate) -> tuple[int, ...]:
    """The dimensions, batch first, along which the values of one categorical variable lie."""
    return (-1,) if predicate.labels is not None else tuple(1 + k for k in predicate.functional)


def read_inputs(theory: Theory, unary: Logits, evidence: Evidence | None, mask: Mask | None,
                fixed_sizes: Mapping[str, int] | None = None) -> Inputs:
    """Check the tensors of a call against the theory, and give each one batch dimension.

    Args:
        fixed_sizes: the sizes of types for which the layer was made; tensors of other sizes are rejected.
    """
    # without `check_argument`, so that torch.compile can trace it
    if not isinstance(unary, (Tensor, Mapping)):
        raise wrong_type("unary", unary, Logits)
    if evidence is not None and not isinstance(evidence, Mapping):
        raise wrong_type("evidence", evidence, Evidence)
    if mask is not None and not isinstance(mask, (Tensor, Mapping)):
        raise wrong_type("mask", mask, Mask)
    given_evidence = dict(evidence or {})
    given = dict(unary) if isinstance(unary, Mapping) else {only_predicate(theory, given_evidence): unary}
    if not given:
        raise LogicMPError("unary is empty", f"give log-odds for one of: {', '.join(theory.predicate)}")
    like = next(iter(given.values()))
    for what, tensors in (("unary", given), ("evidence", given_evidence)):
        for name, tensor in tensors.items():
            _check_predicate(what, name, tensor, theory, like)
    batch = _batch_shape(theory, given, {})
    for name, tensor in given_evidence.items():
        if _is_labels(theory.predicate[name], tensor):
            given_evidence[name] = _one_hot(theory.predicate[name], tensor, batch, like.dtype)
    sizes = _sizes(theory, (*given_evidence.items(), *given.items()), fixed_sizes or {})
    batch = _batch_shape(theory, given, given_evidence)
    n_batch = math.prod(batch)

    def flat(name: str, tensor: Tensor) -> Tensor:
        shape = theory.predicate[name].shape(sizes)
        return tensor.expand((*batch, *shape)).reshape((n_batch, *shape))

    def shared(name: str, tensor: Tensor) -> Tensor:
        is_shared = tensor.dim() == _n_dims(theory.predicate[name])
        return (tensor.unsqueeze(0) if is_shared else flat(name, tensor)).to(like.dtype)

    masks = read_masks(theory, mask, sizes, batch, like)
    found = Inputs({}, {}, {}, masks, sizes, batch)
    for name, tensor in given_evidence.items():
        is_whole = tensor.dtype == torch.bool or (name not in given and _is_complete(theory.predicate[name], tensor))
        if not is_whole and not is_tracing() and not (tensor.isnan() | (tensor == 0) | (tensor == 1)).all():
            raise LogicMPError(f"evidence[{name!r}] has values other than 0, 1 and NaN",
                               "1 is true, 0 false, NaN unobserved; pass probabilities as log-odds in unary")
        values = as_variables(found, theory.predicate[name], shared(name, tensor))
        if is_whole:
            found.observed[name] = _without_missing(found, theory.predicate[name], values)
        else:
            found.evidence[name] = values
    logits = {name: _finite_logits(found, theory.predicate[name], flat(name, tensor)) for name, tensor in given.items()}
    found.unary.update({name: tensor for name, tensor in logits.items() if name not in found.observed})
    for predicate in theory.predicates:
        if predicate.name not in found.unary and predicate.name not in found.observed:
            if predicate.closed_world and predicate.name not in found.evidence:
                raise LogicMPError(f"{predicate.name} is closed world (*) and needs evidence",
                                   f"pass evidence={{{predicate.name!r}: a bool tensor}}")
            found.unary[predicate.name] = like.new_zeros(n_batch, *predicate.shape(sizes))
    if not found.unary:
        # the batch size must be visible somewhere
        found.observed.update({name: x.expand(n_batch, *x.shape[1:]) for name, x in found.observed.items()})
    return found


def _without_missing(inputs: Inputs, predicate: Predicate, values: Tensor) -> Tensor:
    """Observed atoms, false where an entity does not exist."""
    exists = inputs.exists(predicate)
    if exists is None:
        return values
    if not is_tracing():
        # padding is false in most data: then evidence that all items share stays shared
        is_missing = [(1 + k, (inputs.masks[t] == 0).any(0)) for k, t in enumerate(predicate.types)
                      if t in inputs.masks]
        if not any(bool(values.index_select(k, missing.nonzero()[:, 0]).any()) for k, missing in is_missing):
            return values
    return values * exists


def _finite_logits(inputs: Inputs, predicate: Predicate, logits: Tensor) -> Tensor:
    """The logits, finite: those of padding can be anything, and become 0 if one is not finite."""
    exists = inputs.exists(predicate)
    if exists is not None and not is_tracing() and not math.isfinite(logits.detach().sum().item()):
        logits = logits.masked_fill(exists == 0, 0)
    check_finite(logits, f"unary[{predicate.name!r}] has values that are NaN or infinite",
                 "check the model's output; use mask for padding, evidence for observed atoms")
    return logits


def check_finite(tensor: Tensor, message: str, hint: str) -> None:
    """Raise an error if a value is NaN or infinite, unless the call is traced and has no values yet."""
    # a sum is finite only if all its parts are; it can overflow, so look at the parts where it is not
    if not is_tracing() and not math.isfinite(tensor.detach().sum().item()) and not torch.isfinite(tensor).all():
        raise LogicMPError(message, hint)


def only_predicate(theory: Theory, evidence: Mapping[str, Tensor]) -> str:
    """The predicate of a tensor without a name: the only one without evidence."""
    # float evidence observes some atoms and leaves the others to unary
    whole = {name for name, x in evidence.items() if isinstance(x, Tensor) and x.dtype == torch.bool}
    latent = [p.name for p in theory.predicates if p.name not in evidence]
    latent = latent or [p.name for p in theory.predicates if p.name not in whole]
    if len(latent) != 1:
        example = ", ".join(f"{name!r}: ..." for name in latent[:3])
        closed = [name for name in latent if theory.predicate[name].closed_world]
        if len(latent) - len(closed) == 1:
            raise LogicMPError(f"evidence is missing: {', '.join(f'*{name}' for name in closed)} in the theory",
                               f"pass evidence={{{', '.join(f'{name!r}: ...' for name in closed)}}}")
        raise LogicMPError(f"unary is one tensor, but the theory has {len(latent)} predicates without evidence: "
                           f"{', '.join(latent)}", f"pass a dict: {{{example}}}")
    return latent[0]


def _check_predicate(what: str, name: str, tensor: Tensor, theory: Theory, like: Tensor) -> None:
    if name not in theory.predicate:
        raise LogicMPError(f"{what} names {name!r}, which is not a predicate of the theory",
                           closest(str(name), list(theory.predicate), "predicate"))
    place, predicate = f"{what}[{name!r}]", theory.predicate[name]
    check_tensor(place, tensor, like)
    if what == "evidence":
        check_data(place, tensor)
    elif tensor.dtype not in FLOATS:
        raise LogicMPError(f"{place} has dtype {tensor.dtype}; log-odds are floating point", "call .float() on it")
    elif tensor.dtype != like.dtype and not torch.is_autocast_enabled(like.device.type):
        raise LogicMPError(f"{place} has dtype {tensor.dtype}, the tensor before it {like.dtype}",
                           "all log-odds have one dtype: convert with .float() or .to(dtype)")
    if tensor.dim() < _n_dims(predicate) - _is_labels(predicate, tensor):
        raise LogicMPError(f"{place} has shape {list(tensor.shape)}; expected {_expected(predicate, {})}, "
                           f"because {predicate}")


def _is_complete(predicate: Predicate, evidence: Tensor) -> bool:
    """Whether floats observe a predicate as a whole: all zeros and ones, no NaN."""
    if is_tracing() or predicate.is_categorical or not evidence.is_floating_point():
        return False
    return bool(((evidence == 0) | (evidence == 1)).all())


def check_tensor(place: str, tensor: Tensor, like: Tensor) -> None:
    """Raise for anything but a dense tensor with values, on the device of the other tensors."""
    if not isinstance(tensor, Tensor):
        raise wrong_type(place, tensor, Tensor)
    if tensor.is_nested:
        raise LogicMPError(f"{place} is a nested tensor; expected a dense one",
                           "pad it with torch.nested.to_padded_tensor, and give a mask")
    if tensor.layout != torch.strided:
        raise LogicMPError(f"{place} is a sparse tensor ({tensor.layout}); expected a dense one",
                           "call .to_dense() on it")
    if tensor.is_meta and not is_tracing():
        raise LogicMPError(f"{place} is on the meta device, where tensors have no values",
                           "move the model and its inputs to a real device: .to_empty(device='cpu'), then load weights")
    if tensor.device != like.device:
        raise LogicMPError(f"{place} is on {tensor.device}, log-odds are on {like.device}",
                           f"call .to({str(like.device)!r}) on it")


def check_data(place: str, tensor: Tensor) -> None:
    """Raise for evidence, labels and masks that no data set contains."""
    if tensor.is_complex():
        raise LogicMPError(f"{place} has dtype {tensor.dtype}; expected bool, floating point or integers")
    if tensor.requires_grad:
        raise LogicMPError(f"{place} requires a gradient, but it is data: it is true or false, and has no gradient",
                           "call .detach() on it; pass predictions as log-odds in unary")


def _is_labels(predicate: Predicate, tensor: Tensor) -> bool:
    """Whether evidence is the index of a label for each entity, and not a value for each label."""
    is_whole = not tensor.is_floating_point() and tensor.dtype != torch.bool
    return predicate.labels is not None and is_whole


def _one_hot(predicate: Predicate, labels: Tensor, batch: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Labels by index, [batch..., n], as evidence, [batch..., n, labels]; -1 is unobserved."""
    place, n_labels = f"evidence[{predicate.name!r}]", len(predicate.labels or ())
    own = tuple(labels.shape[: labels.dim() - len(predicate.arguments)])
    # one-hot integers would pass for labels of a larger batch
    if own not in ((), batch):
        expected = _expected(predicate, {}).rpartition(",")[0]
        raise LogicMPError(f"{place} has integers, which are labels by index, and shape {list(labels.shape)}; expected "
                           f"{expected}] with the batch dimensions of unary, {list(batch)}",
                           "for one value per label call .bool() on it, or .float() with NaN for unobserved ones")
    if not is_tracing() and bool(((labels < -1) | (labels >= n_labels)).any()):
        raise LogicMPError(f"{place} has labels outside 0 to {n_labels - 1}, because {predicate}",
                           "-1 marks an unobserved entity: labels.masked_fill(labels == -100, -1)")
    labels = labels.unsqueeze(-1)
    chosen = (labels == torch.arange(n_labels, device=labels.device)).to(dtype)
    return chosen.masked_fill(labels < 0, torch.nan)


def as_variables(inputs: Inputs, predicate: Predicate, values: Tensor, what: str = "evidence") -> Tensor:
    """Evidence or labels of a predicate with one value per variable: complete them; raise if they contradict."""
    if predicate.symmetric:
        mirrored = values.mT
        if not is_tracing() and bool((values + mirrored == 1).any()):
            raise LogicMPError(f"{what}[{predicate.name!r}] makes an atom true in one order and false in the other, "
                               f"but {predicate}",
                               "the tensor of a symmetric predicate equals its transpose; NaN is unobserved")
        values = torch.where(values.isnan(), mirrored, values)
    if predicate.is_categorical and values.numel() and not is_tracing():
        # all unobserved values together count half: one look at the least and the largest sum is enough
        dims = value_dims(predicate)
        share = 0.5 / math.prod(values.shape[k] for k in dims)
        least, most = values.nan_to_num(nan=share).sum(dims).aminmax()
        if most.item() > 1.75 or (not predicate.may_be_none and least.item() == 0):
            _check_one_value(inputs, predicate, values, what)
    return values


def _check_one_value(inputs: Inputs, predicate: Predicate, values: Tensor, what: str) -> None:
    """Raise if evidence makes two values of a variable true, or none that must be; padding does not count."""
    exists, dims = inputs.exists(predicate), value_dims(predicate)
    counted = torch.ones_like(values, dtype=torch.bool) if exists is None else (exists > 0).expand_as(values)
    n_true = ((values == 1) & counted).sum(dims)
    is_wrong = n_true > 1
    if not predicate.may_be_none:
        # NaN is not zero
        is_wrong = is_wrong | (((values != 0) & counted).sum(dims) == 0) & (counted.sum(dims) > 0)
    if bool(is_wrong.any()):
        at = is_wrong.nonzero()[0]
        n, place = int(n_true[tuple(at)]), at.tolist()[0 if inputs.batch else 1 :]
        by_index = "; or give labels by index, [batch..., n], -1 for unobserved" if predicate.labels else ""
        raise LogicMPError(f"{what}[{predicate.name!r}] makes {n or 'no'} values true at index {place}; expected "
                           f"{'at most one' if predicate.may_be_none else 'one'}, because {predicate}",
                           f"make one value true and the others false, NaN is unobserved{by_index}")


def _n_dims(predicate: Predicate) -> int:
    return len(predicate.arguments) + (predicate.labels is not None)


def _expected(predicate: Predicate, sizes: Mapping[str, int]) -> str:
    parts = ["batch...", *(str(sizes.get(t, t)) for t in predicate.types)]
    return f"[{', '.join(parts + ([str(len(predicate.labels))] if predicate.labels else []))}]"


def _sizes(theory: Theory, tensors: Sequence[tuple[str, Tensor]], fixed: Mapping[str, int]) -> dict[str, int]:
    """The size of every type, from the tensors; raise if two tensors, or a tensor and the theory, disagree."""
    sizes = {**fixed, **{t.name: len(t.constants) for t in theory.types if t.closed}}
    # by type, the predicate whose tensor decides its size; no text yet, because a text would fix the size in a trace
    source: dict[str, str] = {}
    for name, tensor in tensors:
        predicate = theory.predicate[name]
        shape = tensor.shape[tensor.dim() - _n_dims(predicate) :]
        for type_name, size in zip(predicate.types, shape, strict=False):
            if type_name not in sizes:
                sizes[type_name], source[type_name] = size, name
        if tuple(shape) != predicate.shape(sizes):
            why = "; ".join(f"{source[t]} has {sizes[t]} of {t}" if t in source else
                            f"{t} has {sizes[t]} constants" if theory.type[t].closed else
                            f"the layer was made with sizes={{{t!r}: {sizes[t]}}}"
                            for t in dict.fromkeys(predicate.types))
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
    for name, tensor in (*evidence.items(), *unary.items()):
        own = tuple(tensor.shape[: tensor.dim() - _n_dims(theory.predicate[name])])
        if own and batch and own != batch:
            raise LogicMPError(f"the tensor of {name} has batch dimensions {list(own)}, that of {first} has "
                               f"{list(batch)}", "all tensors have the same batch dimensions, or none")
        if own:
            batch, first = own, name
    return batch


def read_masks(theory: Theory, mask: Tensor | Mapping[str, Tensor] | None, sizes: Mapping[str, int],
               batch: tuple[int, ...], like: Tensor) -> dict[str, Tensor]:
    """Masks by type, [batch, n], checked."""
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
                               closest(str(name), list(theory.type), "type"))
        check_tensor(f"mask[{name!r}]", tensor, like)
        check_data(f"mask[{name!r}]", tensor)
        if tuple(tensor.shape) not in ((*batch, sizes[name]), (sizes[name],)):
            raise LogicMPError(f"mask[{name!r}] has shape {list(tensor.shape)}; expected {[*batch, sizes[name]]}, one "
                               f"entry for each {name}")
        if tensor.dtype != torch.bool and not is_tracing():
            zeros_and_ones = tensor.bool().to(tensor.dtype)
            if not torch.equal(tensor, zeros_and_ones):
                value = float(tensor[tensor != zeros_and_ones][0])
                raise LogicMPError(f"mask[{name!r}] has the value {value:g}; expected True or 1 "
                                   "for an entity that exists, False or 0 for padding",
                                   "an additive mask (0 exists, -1e4 is padding) becomes one by `mask == 0`, a "
                                   "key_padding_mask (True is padding) by `~mask`")
        masks[name] = tensor.expand((*batch, sizes[name])).reshape(math.prod(batch), sizes[name]).to(like.dtype)
    return masks


def has_sparse(theory: Theory, unary: object, evidence: object) -> bool:
    """Whether a call of the layer has a sparse tensor or a list of index columns."""
    given = list(unary.values()) if isinstance(unary, Mapping) else [unary]
    columns = evidence.items() if isinstance(evidence, Mapping) else ()
    return (any(isinstance(x, Tensor) and x.layout in SPARSE for x in given)
            or any(isinstance(x, Tensor) and is_sparse(theory, name, x) for name, x in columns))


def is_sparse(theory: Theory, name: str, tensor: Tensor) -> bool:
    """Whether evidence is a sparse tensor or a list of index columns."""
    return tensor.layout in SPARSE or _is_columns(theory, name, tensor)


def _is_columns(theory: Theory, name: str, tensor: Tensor) -> bool:
    """Whether evidence is `edge_index`: int64, one row for each argument."""
    predicate = theory.predicate.get(name)
    return (predicate is not None and tensor.dtype == torch.int64 and tensor.dim() == 2
            and len(predicate.arguments) >= 2 and predicate.labels is None
            and tensor.shape[0] == len(predicate.arguments))
