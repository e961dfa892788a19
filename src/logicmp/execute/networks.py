"""Predicates that networks score: features of entities by type in, log-odds by predicate out.

Room: inputs, lists -> **execute** -> layer.

    LogicMP(rules, predicates={"Smokes": net, "Friends": pair_net})
    layer({"person": x})                            x [batch..., n, features]
        net(x)                                      [batch..., n] or [batch..., n, 1]
        pair_net(x_i, x_j), all pairs               [batch..., n, n]; both inputs [batch..., n, n, features]
    layer({"person": x, "Friends": edge_index})     pair_net on these pairs only: inputs [pairs, features]
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..errors import LogicMPError, closest
from ..parse.theory import Predicate, Theory
from .inputs import check_tensor, is_sparse
from .lists import check_range

# modules that return probabilities or their logarithms, which are not log-odds
_PROBABILITIES = (nn.Sigmoid, nn.Softmax, nn.LogSigmoid, nn.Hardsigmoid)


class Networks(nn.ModuleDict):
    """The networks of a layer, by predicate.

    Args:
        theory: the rules.
        networks: by predicate. A network takes one tensor for each argument, all of one shape, [..., features], and
            returns log-odds, [...] or [..., 1]; logits [..., labels] for a multi-class predicate.
    """

    def __init__(self, theory: Theory, networks: Mapping[str, nn.Module]):
        super().__init__()
        self.theory = theory
        for name, network in networks.items():
            _check_network(theory, name, network)
            self[name] = network

    def evaluate(self, given: object, evidence: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        """Log-odds by predicate: those that are given, and those of the networks of all other predicates.

        Args:
            given: features by type; candidates, int64 [arguments, n], or log-odds by predicate.
            evidence: as for `LogicMP.forward`. The network of a predicate that is observed as a whole is not called.
        """
        if not isinstance(given, Mapping):
            example = ", ".join(f"{t!r}: features" for t in self._types())
            raise LogicMPError("unary is one tensor, but the layer has networks", f"pass a dict: {{{example}}}")
        features: dict[str, Tensor] = {}
        found: dict[str, Tensor] = {}
        for name, x in given.items():
            if name in self.theory.predicate:
                found[name] = x
            elif name in self._types():
                features[name] = x
            elif name in self.theory.type:
                raise LogicMPError(f"unary has features of {name!r}, but no network reads them",
                                   f"give features of: {', '.join(self._types())}")
            else:
                raise LogicMPError(f"unary names {name!r}, which is neither a type nor a predicate of the theory",
                                   closest(str(name), [*self._types(), *self.theory.predicate], "name"))
        for name, x in features.items():
            check_tensor(f"unary[{name!r}]", x, next(iter(features.values())))
            if x.dim() < 2:
                raise LogicMPError(f"unary[{name!r}] has shape {list(x.shape)}; expected [batch..., n, features], "
                                   f"because {name!r} is a type", "call .unsqueeze(-1) on it if there is one feature")
        for name, network in self.items():
            predicate, candidates = self.theory.predicate[name], found.get(name)
            is_listed = isinstance(candidates, Tensor) and _is_columns(candidates)
            if _is_observed(self.theory, name, evidence) or (candidates is not None and not is_listed):
                continue
            own = [self._features(predicate, t, features) for t in predicate.types]
            found[name] = _on_candidates(predicate, network, own, candidates) if candidates is not None else _on_all(
                predicate, network, own)
        return found

    def _types(self) -> list[str]:
        """The types whose features a network reads."""
        return list(dict.fromkeys(t for name in self for t in self.theory.predicate[name].types))

    @staticmethod
    def _features(predicate: Predicate, type_name: str, features: Mapping[str, Tensor]) -> Tensor:
        if type_name not in features:
            raise LogicMPError(f"the network of {predicate} needs features of {type_name}",
                               f"pass unary={{{type_name!r}: a tensor [batch..., n, features]}}")
        return features[type_name]


def _check_network(theory: Theory, name: str, network: object) -> None:
    if name not in theory.predicate:
        raise LogicMPError(f"predicates names {name!r}, which is not a predicate of the theory",
                           closest(str(name), list(theory.predicate), "predicate"))
    predicate = theory.predicate[name]
    if not isinstance(network, nn.Module):
        raise LogicMPError(f"predicates[{name!r}] is a {type(network).__name__}; expected a torch nn.Module",
                           "put a function into the forward method of a module")
    last = list(network.modules())[-1]
    if isinstance(last, _PROBABILITIES):
        raise LogicMPError(f"predicates[{name!r}] ends with {type(last).__name__}, but the layer takes log-odds",
                           f"remove {type(last).__name__}; the layer's output has log-odds, too: call .sigmoid() on it")
    if not predicate.arguments:
        raise LogicMPError(f"{name} has no arguments, so its network has no input",
                           "give its log-odds in each call: {" + f"{name!r}: a tensor" + "}")
    if predicate.closed_world:
        raise LogicMPError(f"{name} is closed world (*), but predicates has a network for it", "remove the *")
    both = next((t for t in theory.type if t in theory.predicate), None)
    if both is not None:
        raise LogicMPError(f"{both!r} is a type and a predicate: the layer could not tell features from log-odds",
                           "rename one of them")
    if hasattr(nn.ModuleDict, name):
        raise LogicMPError(f"a network cannot belong to {name!r}: torch modules have an attribute of this name",
                           f"rename the predicate, for example to {name.capitalize()!r}")


def _is_columns(x: Tensor) -> bool:
    return x.dtype == torch.int64 and x.layout == torch.strided


def _is_observed(theory: Theory, name: str, evidence: Mapping[str, Tensor] | None) -> bool:
    """Whether evidence decides every atom of a predicate."""
    known = evidence.get(name) if isinstance(evidence, Mapping) else None
    return isinstance(known, Tensor) and (known.dtype == torch.bool or is_sparse(theory, name, known))


def _on_all(predicate: Predicate, network: nn.Module, features: list[Tensor]) -> Tensor:
    """The logits of all atoms, [batch..., n_1, ..., n_k, labels]."""
    k = len(features)
    batch = torch.broadcast_shapes(*(x.shape[:-2] for x in features))  # type: ignore[no-untyped-call]
    sizes = tuple(x.shape[-2] for x in features)
    # each argument has a dimension of its own
    own = [x.reshape(*x.shape[:-2], *(sizes[i] if i == place else 1 for i in range(k)), x.shape[-1])
           for place, x in enumerate(features)]
    return _checked(predicate, network(*(x.expand(*batch, *sizes, x.shape[-1]) for x in own)), (*batch, *sizes))


def _on_candidates(predicate: Predicate, network: nn.Module, features: list[Tensor], candidates: Tensor) -> Tensor:
    """The logits of the candidates, as a sparse tensor."""
    place = f"unary[{predicate.name!r}]"
    if candidates.dim() != 2 or len(candidates) != len(features):
        raise LogicMPError(f"{place} has integers, which list candidates, and shape {list(candidates.shape)}; expected "
                           f"[{len(features)}, n], because {predicate}", "log-odds are floating point")
    if any(x.dim() > 2 for x in features):
        raise LogicMPError(f"candidates of {predicate.name} and features with batch dimensions cannot be combined",
                           "join the items to one: add to the entity numbers of each item the number of entities "
                           "before it")
    sizes = {t: len(x) for t, x in zip(predicate.types, features, strict=True)}
    check_range(predicate, place, candidates, sizes)
    shape = tuple(len(x) for x in features)
    # in order and once each, so that no log-odds are added up
    once = torch.sparse_coo_tensor(candidates, features[0].new_ones(candidates.shape[1]), shape, check_invariants=False)
    candidates = once.coalesce().indices()
    logits = _checked(predicate, network(*(x[row] for x, row in zip(features, candidates, strict=True))),
                      tuple(candidates.shape[1:]))
    return torch.sparse_coo_tensor(candidates, logits, (*shape, *logits.shape[1:]), is_coalesced=True,
                                   check_invariants=False)


def _checked(predicate: Predicate, logits: object, shape: tuple[int, ...]) -> Tensor:
    """A network's output, one value for each choice of entities, or one for each of their labels."""
    labels = () if predicate.labels is None else (len(predicate.labels),)
    if isinstance(logits, Tensor):
        if not labels and tuple(logits.shape) == (*shape, 1):
            return logits.squeeze(-1)
        if tuple(logits.shape) == (*shape, *labels):
            return logits
    got = f"shape {list(logits.shape)}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
    raise LogicMPError(f"the network of {predicate.name} returned {got}; expected shape {[*shape, *labels]}, because "
                       f"{predicate}", "it takes one tensor [..., features] for each argument, whatever the first "
                       "dimensions are, and returns one value for each")
