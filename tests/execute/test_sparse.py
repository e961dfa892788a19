"""Rules over lists of rows: counts, messages and gradients equal the dense ones with every other atom false."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from logicmp import CostError, Theory, parse_theory
from logicmp.execute import rows as rows_module
from logicmp.execute.inputs import Inputs
from logicmp.execute.plans import build_executor
from logicmp.execute.sparse import SparseExecutor, build_sparse_executor
from logicmp.execute.state import Call
from logicmp.facts.supports import Support, make_support
from logicmp.normalize.build import SEMANTICS
from logicmp.parse.theory import Predicate
from logicmp.plan import eliminate
from logicmp.testing.executor_battery import weights_of
from logicmp.testing.random_models import random_model


@dataclass
class Case:
    """A theory with marginals that are zero outside the supports."""

    theory: Theory
    sizes: dict[str, int]
    supports: dict[str, Support]
    q: dict[str, Tensor]
    observed: list[str]
    semantics: str

    @property
    def latent(self) -> list[str]:
        return [name for name in self.q if name not in self.observed]

    def rows(self, name: str, x: Tensor) -> Tensor:
        """The values of a sparse predicate, [batch, rows], from its tensor [batch, n, ...]."""
        if name not in self.supports:
            return x
        support, predicate = self.supports[name], self.theory.predicate[name]
        value = x[:, *(torch.from_numpy(c.astype(np.int64)) for c in support.columns)]
        if support.places is not None:
            value = value[:, torch.from_numpy(np.unique(support.places, return_index=True)[1])]
        if predicate.functional:
            value = value.reshape(len(x), -1, *(self.sizes[predicate.types[k]] for k in predicate.functional))
        return value


def random_case(seed: int) -> Case | None:
    """Some predicates of a random theory are sparse; None if none can be."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    model = random_model(rng)
    theory, sizes = model.theory, model.sizes
    semantics = rng.choice(SEMANTICS)
    supports: dict[str, Support] = {}
    q, observed = {}, []
    for p in theory.predicates:
        x = model.q[p.name].clone()
        is_plain = p.labels is None and not p.functional
        if len(p.functional) < len(p.arguments) and rng.random() < 0.6:
            mask = random_mask(p, sizes, numbers)
            supports[p.name] = support_of(p, mask, sizes)
            if rng.random() < 0.3 and is_plain:
                observed.append(p.name)
                x = torch.ones_like(x)
            x = x * (mask if p.labels is None else mask.unsqueeze(-1))
        elif rng.random() < 0.2 and is_plain:
            observed.append(p.name)
            x = (x > 0.5).double()
        q[p.name] = x.unsqueeze(0)
    return Case(theory, sizes, supports, q, observed, semantics) if supports else None


def random_mask(p: Predicate, sizes: Mapping[str, int], numbers: np.random.Generator) -> Tensor:
    shape = [1 if k in p.functional else sizes[t] for k, t in enumerate(p.types)]
    mask = numbers.random(shape) < numbers.choice([0.2, 0.5, 0.9])
    return torch.from_numpy(mask | mask.T if p.symmetric else mask)


def support_of(p: Predicate, mask: Tensor, sizes: Mapping[str, int]) -> Support:
    found = np.nonzero(mask.numpy())
    return make_support(p, [c for k, c in enumerate(found) if k not in p.functional], sizes)


def random_masks(case: Case, n_items: int, masked: Sequence[str]) -> dict[str, Tensor]:
    """Every item lacks some entities of its own; the first item has all."""
    generator = torch.Generator().manual_seed(n_items)
    found = {}
    for name in masked:
        lengths = torch.randint(1, case.sizes[name] + 1, (n_items, 1), generator=generator)
        found[name] = (torch.arange(case.sizes[name]) < lengths).double()
        found[name][0] = 1
    return found


def check(case: Case, sparse: Any, n_items: int = 1, masked: Sequence[str] = ()) -> None:
    """Compare counts, messages, and their gradients by marginals and weights; observed predicates are shared.

    Args:
        masked: types of which every item but the first lacks some entities.
    """
    dense = build_executor(case.theory, case.sizes, case.observed, case.semantics)
    weights = weights_of(case.theory, case.sizes)
    if n_items > 1:
        # every item has its own weights
        factors = torch.linspace(1, 2, n_items, dtype=torch.float64)
        weights = [w * factors.reshape(-1, *[1] * (w.dim() - 1)) if w.dim() else w * factors for w in weights]
    weights = [w.detach().requires_grad_() for w in weights]
    q = {name: torch.cat([case.q[name] ** (1 + k) for k in range(n_items)]) for name in case.latent}
    like = next(iter(q.values()), torch.zeros(n_items, dtype=torch.float64))
    masks = random_masks(case, n_items, masked)
    inputs = Inputs({}, {}, {}, masks, case.sizes, (n_items,))
    one = torch.ones((), dtype=torch.float64)
    exists = {p.name: one if (here := inputs.exists(p)) is None else here for p in case.theory.predicates}
    q_dense = {name: x.clone().requires_grad_() for name, x in q.items()}
    q_rows = {name: case.rows(name, x).clone().requires_grad_() for name, x in q.items()}
    known = {name: case.q[name] * exists[name] for name in case.observed}
    known_rows = {name: x for name, x in known.items() if name not in case.supports}
    totals: list[Tensor] = []
    found: list[dict[str, Tensor]] = []
    executors: list[tuple[Any, dict[str, Tensor], dict[str, Tensor]]] = [(dense, q_dense, known),
                                                                         (sparse, q_rows, known_rows)]
    for executor, leaves, observed in executors:
        call = Call(weights, case.sizes, like, masks, observed)
        # atoms of missing entities are false, and what they receive does not matter
        here = {name: exists[name].expand_as(q[name]) for name in q}
        here = here if executor is dense else {name: case.rows(name, x) for name, x in here.items()}
        own = {name: x * here[name] for name, x in leaves.items()}
        messages = executor.messages(own, call, executor.constants(call))
        messages = {name: x * here[name] for name, x in messages.items()}
        found.append({name: case.rows(name, x) if executor is dense else x for name, x in messages.items()})
        everything = {**own, **known} if executor is dense else own
        counts = [executor.counts(everything, call, weighted) for weighted in (False, True)]
        total = counts[0].sum() + 2 * counts[1].sum()
        for x in found[-1].values():
            # a different factor for each message
            total = total + (x * torch.linspace(-1, 1.3, x.numel()).to(x).reshape(x.shape)).sum() + 0.1 * (x * x).sum()
        totals.append(total)
    for name in case.latent:
        torch.testing.assert_close(found[1][name], found[0][name], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(totals[1], totals[0], rtol=1e-9, atol=1e-9)
    if not totals[0].requires_grad:
        return
    slopes = []
    for total, leaves in zip(totals, (q_dense, q_rows), strict=True):
        inputs_of = [*leaves.values(), *weights]
        # where lists have no rows, nothing depends on anything
        slopes.append(torch.autograd.grad(total, inputs_of, materialize_grads=True, allow_unused=True)
                      if total.requires_grad else [torch.zeros_like(x) for x in inputs_of])
    for k, (want, got) in enumerate(zip(*slopes, strict=True)):
        if k < len(case.latent):
            name = case.latent[k]
            if case.theory.predicate[name].symmetric:
                # the two orders are one variable: only the sum of their slopes means anything
                want = want + want.mT - torch.diag_embed(want.diagonal(0, 1, 2))
                got = got if name in case.supports else got + got.mT - torch.diag_embed(got.diagonal(0, 1, 2))
            want = case.rows(name, want)
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)


def sparse_of(case: Case, masked: Sequence[str] = ()) -> SparseExecutor:
    return build_sparse_executor(case.theory, case.sizes, case.supports, case.observed, case.semantics, masked=masked)


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_random_theories_equal_the_dense_ones(first: int) -> None:
    n_checked = 0
    for seed in range(first, first + 20):
        case = random_case(seed)
        if case is None:
            continue
        try:
            sparse = sparse_of(case)
        except CostError:
            # quantifiers over all constants are rejected
            continue
        check(case, sparse, 1 + seed % 3)
        n_checked += 1
    assert n_checked >= 5


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_random_theories_with_masks(first: int) -> None:
    n_checked = 0
    for seed in range(first, first + 40):
        case = random_case(seed)
        if case is None:
            continue
        masked = [t.name for t in case.theory.types if t.name in case.sizes][: 1 + seed % 2]
        try:
            sparse = sparse_of(case, masked)
        except CostError:
            # a constant of a masked type
            continue
        check(case, sparse, 2, masked)
        n_checked += 1
    assert n_checked >= 3


def test_without_compiled_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "_has_numba", lambda: False)
    monkeypatch.setattr(rows_module, "CHUNK", 5)
    case = case_of("0.7 C(a,b) ^ C(b,c) => C(a,c)\n0.3 S(a) ^ C(a,b) ^ C(b,a) => S(b)", {"C": 0.4})
    check(case, sparse_of(case))
    check(case, sparse_of(case), 2)


def case_of(text: str, shares: Mapping[str, float], n: int = 6, observed: tuple[str, ...] = (),
            semantics: str = "exact") -> Case:
    """A theory over n entities of each type; some predicates are sparse, with this share of their atoms."""
    theory = parse_theory(text)
    sizes = {t.name: max(n, len(t.constants)) if not t.closed else len(t.constants) for t in theory.types}
    numbers = np.random.default_rng(0)
    q, supports = {}, {}
    for p in theory.predicates:
        x = torch.from_numpy(numbers.random(p.shape(sizes)))
        x = (x + x.mT) / 2 if p.symmetric else x / x.sum(-1, keepdim=True) if p.labels is not None else x
        if p.name in shares:
            # all values of a functional variable, or none
            shape = [1 if k in p.functional else n for k, n in enumerate(x.shape[: len(p.types)])]
            mask = torch.from_numpy(numbers.random(shape) < shares[p.name])
            mask = mask | mask.mT if p.symmetric else mask
            supports[p.name] = support_of(p, mask, sizes)
            x = (torch.ones_like(x) if p.name in observed else x) * (mask if p.labels is None else mask.unsqueeze(-1))
        elif p.name in observed:
            x = (x > 0.5).double()
        q[p.name] = x.unsqueeze(0)
    return Case(theory, sizes, supports, q, list(observed), semantics)


def test_constants_with_the_names_of_numbers() -> None:
    """In the key of a pattern a variable has a number, which is no constant of this name."""
    case = case_of("t = {0, 1, 2}\nC(t, t)\nS(t)\n0.7 C(0, b) ^ S(b)\n0.5 C(a, a) ^ S(a)\n"
                   "0.3 C(a, 1) ^ C(a, b) => S(b)",
                   {"C": 0.8}, n=3)
    check(case, build_sparse_executor(case.theory, case.sizes, case.supports, case.observed, case.semantics))


RULES = {
    "smokers": ("F(p, p)\nS(p)\n1.1 F(x,y) => (S(x) <=> S(y))\n0.4 S(x)", {"F": 0.3}, ("F",)),
    "transitivity": ("0.7 C(a,b) ^ C(b,c) => C(a,c)", {"C": 0.4}, ()),
    "symmetric": ("symmetric C(t, t)\n0.7 C(a,b) ^ C(b,c) => C(a,c)", {"C": 0.4}, ()),
    "chain": ("0.7 A(a,b) ^ B(b,c) ^ C(c,d) => A(a,b)\n0.3 A(a,b) ^ B(b,c) ^ C(c,d) => D(d)",
              {"A": 0.3, "B": 0.3, "C": 0.3}, ()),
    "four-cycle": ("0.7 !(A(a,b) ^ B(b,c) ^ A(c,d) ^ B(d,a))", {"A": 0.4, "B": 0.4}, ()),
    "a dense pair between sparse ones": ("0.5 A(a,b) ^ D(b,c) ^ B(c,d) => S(a)", {"A": 0.3, "B": 0.3}, ()),
    "inequality": ("0.5 A(a,b) ^ A(a,c) ^ b != c => B(b,c)", {"A": 0.4, "B": 0.5}, ("A",)),
    "offsets": ("A(k, k)\n0.5 A(i,i+1) ^ A(i+1,j) => A(i,j-1)", {"A": 0.5}, ()),
    "constants": ("t = {X, Y, Z}\nA(t, t)\n0.5 A(X,b) ^ A(b,Y) => A(X,Y)\n0.2 A(a,a)", {"A": 0.6}, ()),
    "labels": ("L(n, n)\ny(n) in {P, Q, R}\n0.5 L(x,z) ^ y(x)=P => y(z)=P\n0.4 L(x,z) ^ y(x)=Q => y(z)!=R",
               {"L": 0.4}, ("L",)),
    "labels of pairs": ("r(n, n) in {P, Q, R}\n0.5 r(x,y)=P ^ r(y,z)=P => r(x,z)=P", {"r": 0.5}, ()),
    "a hard rule": ("F(p, p)\nS(p)\nF(x,y) ^ S(x) => S(y).", {"F": 0.3}, ("F",)),
    "functional, the values dense": ("P(e, c!)\nF(e, e)\n0.5 F(x,z) ^ P(x,y) => P(z,y)\n0.4 P(x,y) ^ P(z,y) ^ x != z",
                                     {"P": 0.6, "F": 0.4}, ("F",)),
    "functional, the value first": ("P(c?, e)\nF(e, e)\n0.5 F(x,z) ^ P(y,x) => P(y,z)", {"P": 0.6, "F": 0.4}, ()),
    "repeated variables": ("0.5 A(a,a) ^ B(a,b) ^ B(b,b) => A(b,a)", {"A": 0.6, "B": 0.6}, ()),
    "an inequality that no literal has": ("0.5 A(a,b) ^ A(c,d) ^ a != d ^ S(b) => S(c)", {"A": 0.4}, ()),
    "forall with a premise": ("0.5 (FORALL y (F(x,y) => S(y))) => T(x)", {"F": 0.4}, ("F",)),
    "forall of the whole rule": ("0.5 FORALL y ((F(x,y) => S(y)) => S(x))", {"F": 0.9}, ("F",)),
    "forall": ("0.5 S(x) ^ (FORALL y F(x,y)) => T(x)\n0.3 (FORALL y F(A,y)) => S(B)\n0.2 A(x,z) => FORALL y F(x,y)",
               {"F": 0.9, "A": 0.5}, ()),
    "exists with an inequality": ("0.5 S(x) => EXIST y (F(x,y) ^ x != y ^ S(y))", {"F": 0.5}, ()),
    "exists over two variables": ("0.5 S(x) => EXIST y, z (F(x,y) ^ G(y,z))", {"F": 0.4, "G": 0.4}, ()),
    "exists of a symmetric predicate": ("symmetric C(t, t)\n0.5 C(a,a) => EXIST b (C(a,b) ^ C(b,b))", {"C": 0.4}, ()),
    "two weights per constant": ("0.5 A(+a,+b) ^ S(b) => B(a,b)", {"A": 0.4, "B": 0.4}, ()),
    "one weight per constant": ("0.5 A(+a,b) ^ S(b) => B(a,b)", {"A": 0.4, "B": 0.4}, ()),
    "exists": ("0.5 S(x) => EXIST y F(x,y)\n"
               "0.3 A(x,z) => EXIST y (F(x,y) ^ G(y,z))", {"F": 0.4, "A": 0.5, "G": 0.4}, ()),
    "exists with a dense part": ("0.5 S(x) => EXIST y (F(x,y) ^ S(y))", {"F": 0.4}, ("F",)),
    "a count of its own": ("0.5 F(x,y) => S(z)", {"F": 0.4}, ()),
    "empty": ("0.5 C(a,b) ^ C(b,c) => C(a,c)\n0.2 C(a,b) ^ S(a)", {"C": 0.0}, ()),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_rules_equal_the_dense_ones(name: str, semantics: str) -> None:
    text, shares, observed = RULES[name]
    case = case_of(text, shares, observed=observed, semantics=semantics)
    sparse = sparse_of(case)
    check(case, sparse)
    check(case, sparse, 3)


def test_single_precision_sums_in_double() -> None:
    case = case_of("0.7 C(a,b) ^ C(b,c) => C(a,c)", {"C": 0.9}, n=60)
    sparse = sparse_of(case)
    weights = weights_of(case.theory, case.sizes)
    q = case.rows("C", case.q["C"])
    calls = [Call(weights, case.sizes, x) for x in (q, q.float())]
    exact, single = (sparse.messages({"C": x}, call, sparse.constants(call))["C"]
                     for x, call in zip((q, q.float()), calls, strict=True))
    assert single.dtype == torch.float32
    assert float((single.double() - exact).abs().max()) < 5e-6 * float(exact.abs().max())


# lists


def test_a_chain_is_not_joined() -> None:
    case = case_of(RULES["chain"][0], RULES["chain"][1], n=30)
    assert sparse_of(case).rows.n_rows < 4 * sum(len(s) for s in case.supports.values())


def test_observed_links_are_one_matrix_for_both_directions() -> None:
    case = case_of(RULES["smokers"][0], {"F": 0.3}, n=20, observed=("F",))
    sparse = sparse_of(case)
    assert len({id(rows) for _, rows in sparse._roots}) == 1
    assert sparse.rows.n_rows == len(case.supports["F"]) - int((case.q["F"][0].diagonal() > 0).sum())


def test_a_list_above_the_limit_is_rejected() -> None:
    case = case_of("0.7 C(a,b) ^ C(b,c) => C(a,c)", {"C": 0.9}, n=20)
    with pytest.raises(CostError, match="this rule needs a list of more than 100 rows"):
        build_sparse_executor(case.theory, case.sizes, case.supports, max_rows=100)


def test_a_quantifier_over_all_constants_is_rejected() -> None:
    # S(y) is not zero where F has no rows
    case = case_of("0.5 S(x) => EXIST y (F(x,y) v S(y))", {"F": 0.5})
    with pytest.raises(CostError, match="EXIST y ranges over all 6 constants of thing") as error:
        sparse_of(case)
    assert error.value.hint == "give the quantified part a predicate that has facts"


def test_all_bindings_of_dense_predicates_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eliminate, "MAX_BOX", 100)
    case = case_of("0.5 F(a,b) ^ D(b,c) => S(c)", {"F": 0.5}, n=20)
    with pytest.raises(CostError, match="this rule needs all 400 bindings of b, c") as error:
        sparse_of(case)
    assert error.value.hint == ("add a literal with facts that binds them, or give candidates for the dense predicate")


def test_many_complements_are_rejected() -> None:
    heads = " v ".join(f"C(a,A{k})" for k in range(7))
    case = case_of(f"t = {{{', '.join(f'A{k}' for k in range(7))}}}\nC(t, t)\nS(t)\n0.5 S(a) => {heads}", {"C": 0.5})
    with pytest.raises(CostError, match=r"this rule has 7 negated sparse literals \(limit 6\)"):
        sparse_of(case)


def test_hubs_do_not_overflow_the_estimate() -> None:
    theory = parse_theory("0.5 F(x,y) ^ F(y,z) => S(z)")
    n = 1000
    hub = [np.zeros(n, dtype=np.int32), np.arange(n, dtype=np.int32)]
    support = make_support(theory.predicate["F"], [np.concatenate(hub), np.concatenate(hub[::-1])], {"thing": n})
    sparse = build_sparse_executor(theory, {"thing": n}, {"F": support}, ["F"])
    # the join has a million rows; it is never made
    assert sparse.rows.n_rows < 4 * n
    q = torch.full((1, n), 0.5, dtype=torch.float64)
    weights = [torch.tensor(0.5, dtype=torch.float64)]
    want = build_executor(theory, {"thing": n}, ["F"])
    matrix = torch.zeros(1, n, n, dtype=torch.float64)
    matrix[0, support.columns[0].astype(np.int64), support.columns[1].astype(np.int64)] = 1
    got = sparse.counts({"S": q}, Call(weights, {"thing": n}, q))
    truth = want.counts({"S": q, "F": matrix}, Call(weights, {"thing": n}, q))
    assert math.isclose(float(got[0, 0]), float(truth[0, 0]))
