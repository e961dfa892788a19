"""Random models: theories with random logits, marginals and evidence.

Room: random_theories -> **random_models** -> executor_battery, method_battery.

    @given(models(max_constants=3))
    def test_messages_equal_brute_force(model): ...

torch and hypothesis are imported only where they are used.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..parse.theory import Predicate, Theory
from .random_theories import chance, random_theory

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy
    from torch import Generator, Tensor


@dataclass(frozen=True, eq=False)
class Model:
    """A theory with tensors: the input of one mean-field step.

    Shapes (n_t = number of constants of type t), float64:
        plain, symmetric and functional predicates: [n_t1, ..., n_tk]
        multi-class predicates: [n_t1, ..., n_tk, labels]
    """

    theory: Theory
    sizes: dict[str, int]
    # log-odds, or logits of a categorical variable
    unary: dict[str, Tensor]
    # valid marginals; equal to the evidence where there is evidence
    q: dict[str, Tensor]
    # 1 true, 0 false, NaN unobserved; predicates without evidence are left out
    evidence: dict[str, Tensor]

    def __repr__(self) -> str:
        return f"Model(theory={str(self.theory)!r}, unary={self.unary}, q={self.q}, evidence={self.evidence})"


def random_model(rng: random.Random, **options: Any) -> Model:
    """A random theory with random logits, marginals and evidence.

    >>> model = random_model(random.Random(3), max_rules=1, features={"negative"})
    >>> model.sizes, {name: list(q.shape) for name, q in model.q.items()}
    ({'person': 3}, {'P': [3], 'Q': [3]})

    Args:
        rng: the source of every choice.
        options: arguments of `random_theory`.
    """
    import torch

    theory = random_theory(rng, **options)
    sizes = theory.sizes
    generator = torch.Generator().manual_seed(rng.getrandbits(32))
    unary, q, evidence = {}, {}, {}
    for predicate in theory.predicates:
        unary[predicate.name] = _random_logits(predicate, sizes, generator)
        marginals = _marginals(predicate, _random_logits(predicate, sizes, generator))
        if not predicate.functional and chance(rng, 0.4):
            observed = _random_evidence(predicate, sizes, generator)
            evidence[predicate.name] = observed
            marginals = torch.where(observed.isnan(), marginals, observed)
        q[predicate.name] = marginals
    return Model(theory, sizes, unary, q, evidence)


def models(**options: Any) -> SearchStrategy[Model]:
    """A hypothesis strategy of random models; `options` are arguments of `random_theory`."""
    from hypothesis import strategies

    return strategies.randoms(use_true_random=False).map(lambda rng: random_model(rng, **options))


# tensors


def _shape(predicate: Predicate, sizes: dict[str, int]) -> list[int]:
    return [sizes[type_name] for type_name in predicate.types] + ([len(predicate.labels)] if predicate.labels else [])


def _mirror(matrix: Tensor) -> Tensor:
    return matrix.triu() + matrix.triu(1).T


def _random_logits(predicate: Predicate, sizes: dict[str, int], generator: Generator) -> Tensor:
    import torch

    logits = torch.randn(_shape(predicate, sizes), generator=generator, dtype=torch.float64)
    return _mirror(logits) if predicate.symmetric else logits


def _marginals(predicate: Predicate, logits: Tensor) -> Tensor:
    """The marginals of logits: sigmoid, or softmax over the values of a categorical variable."""
    import torch

    if predicate.labels is not None:
        return logits.softmax(-1)
    if not predicate.functional:
        return logits.sigmoid()
    weights = logits.exp()
    # "none of them" has logit 0
    return weights / (weights.sum(predicate.functional, keepdim=True) + torch.tensor(float(predicate.may_be_none)))


def _random_evidence(predicate: Predicate, sizes: dict[str, int], generator: Generator) -> Tensor:
    """1, 0 and NaN; a row of a multi-class predicate is observed as a whole."""
    import torch

    shape = [sizes[type_name] for type_name in predicate.types]
    known = torch.rand(shape, generator=generator, dtype=torch.float64) < 0.3
    if predicate.labels is not None:
        values = torch.randint(len(predicate.labels), shape, generator=generator)
        truth = torch.nn.functional.one_hot(values, len(predicate.labels)).double()
        return torch.where(known.unsqueeze(-1), truth, math.nan)
    truth = (torch.rand(shape, generator=generator, dtype=torch.float64) < 0.5).double()
    if predicate.symmetric:
        # as floats, because `_mirror` adds two matrices
        known, truth = _mirror(known.double()) > 0, _mirror(truth)
    return torch.where(known, truth, math.nan)
