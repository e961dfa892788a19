"""The layer against the oracle, by hand computation, and at the edges: one constant, no batch, padding, evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from torch import Tensor
from torch.func import functional_call

from logicmp import CostError, LogicMP, Theory, normalize_theory, oracle, parse_theory
from logicmp.execute.marginals import CERTAIN
from logicmp.normalize.build import SEMANTICS
from logicmp.parse.theory import Predicate
from logicmp.testing.random_models import Model, models

each_semantics = pytest.mark.parametrize("semantics", SEMANTICS)
with_and_without_evidence = pytest.mark.parametrize("with_evidence", [False, True], ids=["free", "evidence"])

TRANSITIVITY = "C(a,b) ^ C(b,c) => C(a,c)"
SMOKERS = "1.4 S(x) ^ F(x,y) => S(y)\n-0.6 S(x)\n0.8 F(x,y) => F(y,x)"
CHAIN = "label(token) in {O, B, I}\n2 label(i) in {O} => label(i+1) in {O, B}\n0.5 label(i) in {B} => label(i+1) in {I}"
EXIST = "A(t)\nR(t, u)\n1.2 A(x) => EXIST y R(x,y)\n-0.3 R(x,y)"


def close(got: Tensor, want: Tensor, rtol: float = 1e-9, atol: float = 1e-12) -> None:
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol)


def all_close(got: Mapping[str, Tensor], want: Mapping[str, Tensor], rtol: float = 1e-9, atol: float = 1e-12) -> None:
    assert got.keys() == want.keys()
    for name in want:
        close(got[name], want[name], rtol, atol)


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def random_unary(theory: Theory, sizes: Mapping[str, int], *batch: int, seed: int = 0) -> dict[str, Tensor]:
    """Logits of all predicates."""
    found = {}
    for k, p in enumerate(theory.predicates):
        shape = [sizes[t] for t in p.types] + ([len(p.labels)] if p.labels else [])
        found[p.name] = randn(*batch, *shape, seed=seed + k)
    return found


def probabilities(predicate: Predicate, logits: Tensor) -> Tensor:
    """What the logits of one item say: sigmoid, or softmax over the values of a categorical variable."""
    if predicate.labels is not None:
        return logits.softmax(-1)
    if not predicate.functional:
        return logits.sigmoid()
    none = torch.zeros_like(logits.amax(predicate.functional, keepdim=True)) if predicate.may_be_none else None
    log_z = torch.logsumexp(logits, predicate.functional, keepdim=True)
    return (logits - (log_z if none is None else torch.logaddexp(log_z, none))).exp()


def layer_for(model: Model, semantics: str, iterations: int) -> LogicMP:
    """The layer of a random model, with weights that differ from constant to constant."""
    try:
        # nested quantifiers over one predicate can take seconds at the usual limit
        normalize_theory(model.theory, semantics, model.sizes, 32)
    except CostError:
        assume(False)
    layer = LogicMP(model.theory, iterations=iterations, semantics=semantics, sizes=model.sizes,
                    schedule="paper").double()
    for weight in layer.raw_weights:
        if weight.dim():
            with torch.no_grad():
                weight *= torch.linspace(1, 2, weight.numel(), dtype=torch.float64).reshape(weight.shape)
    return layer


def oracle_start(model: Model, unary: Mapping[str, Tensor], evidence: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Eq. 2 without any rule."""
    return oracle.mean_field_step(replace(model.theory, rules=()), unary, model.q, evidence, model.sizes)


def per_variable(predicate: Predicate, gradient: Tensor) -> Tensor:
    """One variable for both orders of a symmetric predicate: its gradient is the sum of both entries'."""
    return gradient + gradient.mT if predicate.symmetric else gradient


# the oracle


@each_semantics
@with_and_without_evidence
@settings(max_examples=40, deadline=None)
@given(model=models())
def test_two_steps_and_the_bound_are_the_oracles(semantics: str, with_evidence: bool, model: Model) -> None:
    evidence = model.evidence if with_evidence else {}
    layer = layer_for(model, semantics, 2)
    try:
        trace = layer.trace(model.unary, evidence=evidence)
    except CostError:
        assume(False)
    weights = [w.detach() for w in layer.weights]
    q = oracle_start(model, model.unary, evidence)
    all_close(trace.marginals[0], q)
    for step in range(3):
        want = oracle.elbo(model.theory, model.unary, q, evidence, model.sizes, semantics, weights)
        close(trace.elbo[step], want, 1e-9, 1e-9)
        counts = oracle.expected_violations(model.theory, q, evidence, model.sizes, semantics)
        close(trace.violations[step], counts, 1e-9, 1e-9)
        if step < 2:
            q = oracle.mean_field_step(model.theory, model.unary, q, evidence, model.sizes, semantics, weights)
            all_close(trace.marginals[step + 1], q)


@each_semantics
@with_and_without_evidence
@settings(max_examples=25, deadline=None)
@given(model=models())
def test_gradients_are_the_oracles(semantics: str, with_evidence: bool, model: Model) -> None:
    evidence = model.evidence if with_evidence else {}
    layer = layer_for(model, semantics, 2)
    names = list(model.unary)
    factors = {name: randn(*model.unary[name].shape, seed=k) for k, name in enumerate(names)}
    for name in names:
        if model.theory.predicate[name].symmetric:
            factors[name] = factors[name] + factors[name].mT
    own = {name: tensor.clone().requires_grad_() for name, tensor in model.unary.items()}
    trained = [w for w in layer.raw_weights if w.requires_grad]
    try:
        out = layer(own, evidence=evidence)
    except CostError:
        assume(False)
    got_q = {name: probabilities(model.theory.predicate[name], out[name]) for name in names}

    theirs = {name: tensor.clone().requires_grad_() for name, tensor in model.unary.items()}
    weights = [w.detach().clone().requires_grad_(w.requires_grad) for w in layer.raw_weights]
    q = oracle_start(model, theirs, evidence)
    for _ in range(2):
        q = oracle.mean_field_step(model.theory, theirs, q, evidence, model.sizes, semantics, weights)
    all_close(got_q, q, atol=1e-11)

    got = torch.autograd.grad(sum((factors[n] * got_q[n]).sum() for n in names), [*own.values(), *trained],
                              allow_unused=True, materialize_grads=True)
    want = torch.autograd.grad(sum((factors[n] * q[n]).sum() for n in names),
                               [*theirs.values(), *(w for w in weights if w.requires_grad)],
                               allow_unused=True, materialize_grads=True)
    for name, g, w in zip(names, got, want, strict=False):
        predicate = model.theory.predicate[name]
        close(per_variable(predicate, g), per_variable(predicate, w), 1e-8, 1e-10)
    for g, w in zip(got[len(names) :], want[len(names) :], strict=True):
        close(g, w, 1e-8, 1e-10)


CHECKED = {
    "transitivity": (f"1.5 {TRANSITIVITY}", {"thing": 3}, 2),
    "symmetric transitivity": (f"symmetric C(t, t)\n1.5 {TRANSITIVITY}", {"t": 3}, 2),
    "smokers": (SMOKERS, {"thing": 2}, 2),
    "chain": (CHAIN, {"token": 3}, 2),
    "exists": (EXIST, {"t": 2, "u": 2}, 2),
    "exactly one": ("f(a, b!)\nP(b)\n1.7 f(x,y) => P(y)", {"a": 2, "b": 2}, 1),
    "one weight per constant": ("0.8 A(+x) ^ B(y) => R(x,y)", {"thing": 2}, 1),
}


@pytest.mark.parametrize("name", CHECKED)
def test_first_and_second_derivatives_are_those_of_finite_differences(name: str) -> None:
    text, sizes, iterations = CHECKED[name]
    layer = LogicMP(text, iterations=iterations, sizes=sizes, schedule="paper").double()
    unary = random_unary(layer.theory, sizes)
    keys = [key for key, _ in layer.named_parameters()]

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        logits = dict(zip(unary, tensors, strict=False))
        weights = dict(zip(keys, tensors[len(unary) :], strict=True))
        return tuple(functional_call(layer, weights, (logits,)).values())

    inputs = [x.detach().clone().requires_grad_() for x in (*unary.values(), *layer.parameters())]
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)


# iterations, damping, tolerance


def test_no_iterations_give_back_the_logits() -> None:
    x = randn(3, 3)
    assert torch.equal(LogicMP(TRANSITIVITY, iterations=0)(x), x)


@pytest.mark.parametrize("damping", [0.0, 0.3, 0.9])
def test_damping_keeps_that_much_of_the_old_logits(damping: float) -> None:
    # the message of "2 A(x)" is -2 wherever the marginals are
    x = randn(4)
    want = x
    for _ in range(3):
        want = damping * want + (1 - damping) * (x + 2)
    close(LogicMP("A(t)\n2 A(x)", iterations=3, damping=damping, schedule="paper").double()(x), want)


def test_an_update_by_hand() -> None:
    # S(x) F(x,y) !S(y): with one entity the rule is a tautology, so only the weight -1 of S acts
    layer = LogicMP("S(t)\nF(t, t)\n1.5 S(x) ^ F(x,y) => S(y)\n-1 S(x)", iterations=1, schedule="paper").double()
    out = layer({"S": torch.tensor([0.5]).double(), "F": torch.tensor([[0.3]]).double()})
    close(out["S"], torch.tensor([-0.5]).double())
    close(out["F"], torch.tensor([[0.3]]).double())
    # with two: Anna's S gets -1 from the weight, -w F(a,b) !S(b) as a premise, +w F(b,a) S(b) as a conclusion
    s, f = torch.tensor([0.2, -0.4]).double(), torch.tensor([[0.1, 0.7], [-0.3, 0.9]]).double()
    out = layer({"S": s, "F": f})
    a, b, ab, ba = *s.sigmoid(), f[0, 1].sigmoid(), f[1, 0].sigmoid()
    close(out["S"], torch.stack([s[0] - 1 - 1.5 * ab * (1 - b) + 1.5 * ba * b,
                                 s[1] - 1 - 1.5 * ba * (1 - a) + 1.5 * ab * a]))
    close(out["F"], torch.stack([torch.stack([f[0, 0], f[0, 1] - 1.5 * a * (1 - b)]),
                                 torch.stack([f[1, 0] - 1.5 * b * (1 - a), f[1, 1]])]))


def test_tolerance_stops_early_where_nothing_moves_any_more() -> None:
    x = randn(2, 4, 4)
    options = {"iterations": 300, "damping": 0.3, "schedule": "paper"}
    long = LogicMP(f"0.4 {TRANSITIVITY}", **options).double().trace(x)
    short = LogicMP(f"0.4 {TRANSITIVITY}", tolerance=1e-7, **options).double().trace(x)
    assert len(long.elbo) == 301
    assert 2 < len(short.elbo) < 150
    close(short.marginals[-1]["C"], long.marginals[-1]["C"], 0, 1e-6)
    moved = [(after["C"] - before["C"]).abs().max()
             for before, after in zip(short.marginals, short.marginals[1:], strict=False)]
    assert moved[-1] < 1e-7 <= moved[-2]


# batches and sizes


# in the last, weights without a batch meet marginals with one in a matrix product
@pytest.mark.parametrize("text, sizes", [
    (SMOKERS, {"thing": 3}), (CHAIN, {"token": 4}), (EXIST, {"t": 2, "u": 3}),
    ("t = {K, L}\nsymmetric P(t, t)\n0.5 P(+z, x) v P(x, x) v P(x, +y)", {"t": 2}),
])
def test_batch_dimensions_are_items_side_by_side(text: str, sizes: dict[str, int]) -> None:
    layer = LogicMP(text, iterations=3).double()
    unary = random_unary(layer.theory, sizes, 2, 3)
    together = layer(unary)
    trace = layer.trace(unary)
    assert trace.elbo.shape == (4, 2, 3)
    assert trace.violations.shape == (4, 2, 3, len(layer.theory.rules))
    for i in range(2):
        for j in range(3):
            item = {name: tensor[i, j] for name, tensor in unary.items()}
            all_close({name: tensor[i, j] for name, tensor in together.items()}, layer(item))
            close(trace.elbo[:, i, j], layer.trace(item).elbo)
            close(trace.violations[:, i, j], layer.trace(item).violations)


def test_a_tensor_without_batch_is_spread_over_the_batch_of_the_others() -> None:
    layer = LogicMP(SMOKERS, iterations=2).double()
    unary = random_unary(layer.theory, {"thing": 3}, 4)
    shared = {"S": unary["S"], "F": unary["F"][0]}
    want = layer({"S": unary["S"], "F": unary["F"][:1].expand(4, 3, 3)})
    close(layer(shared)["S"], want["S"])
    close(layer({"S": unary["S"]}, evidence={"F": unary["F"][0] > 0})["S"],
          layer({"S": unary["S"]}, evidence={"F": (unary["F"][:1] > 0).expand(4, 3, 3)})["S"])


@pytest.mark.parametrize("text, sizes", [(TRANSITIVITY, {"thing": 3}), (SMOKERS, {"thing": 3}), (CHAIN, {"token": 4}),
                                         (EXIST, {"t": 2, "u": 3})])
def test_an_empty_batch_stays_empty(text: str, sizes: dict[str, int]) -> None:
    layer = LogicMP(text, iterations=2, tolerance=1e-3)
    unary = {name: x.float().requires_grad_() for name, x in random_unary(layer.theory, sizes, 0).items()}
    out = layer(unary)
    for name, tensor in unary.items():
        assert out[name].shape == tensor.shape
    sum(x.sum() for x in out.values()).backward()
    assert all(x.grad.shape == x.shape for x in unary.values())
    assert layer.trace(unary).elbo.shape[1:] == (0,)


@pytest.mark.parametrize("text", [TRANSITIVITY, SMOKERS, CHAIN, EXIST, "f(a, b!)\nP(b)\n1.7 f(x,y) => P(y)",
                                  "g(a, b?)\n1 g(x,y) ^ g(z,y) => x = z", f"symmetric C(t, t)\n1.4 {TRANSITIVITY}"])
@each_semantics
def test_one_constant_of_each_type(text: str, semantics: str) -> None:
    theory = parse_theory(text)
    sizes = dict.fromkeys(theory.type, 1)
    unary = random_unary(theory, sizes)
    layer = LogicMP(theory, iterations=1, semantics=semantics, schedule="paper").double()
    weights = [w.detach() for w in layer.weights]
    model = Model(theory, sizes, unary, {name: torch.zeros_like(x) for name, x in unary.items()}, {})
    q = oracle_start(model, unary, {})
    want = oracle.mean_field_step(theory, unary, q, None, sizes, semantics, weights)
    out = layer(unary)
    all_close({name: probabilities(theory.predicate[name], out[name]) for name in out}, want)


# padding

PADDED = {
    "unary": ("A(t)\nB(t)\n1.1 A(x) => B(x)\n0.5 A(x) ^ A(y) => x = y", {"t": 5}),
    "transitivity": (f"1.5 {TRANSITIVITY}", {"thing": 5}),
    "symmetric": (f"symmetric C(t, t)\n1.5 {TRANSITIVITY}", {"t": 5}),
    "smokers": (SMOKERS, {"thing": 4}),
    "two types": ("R(t, u)\nP(t)\nQ(u)\n0.9 P(x) ^ R(x,y) => Q(y)\n-0.4 !R(x,y)", {"t": 4, "u": 5}),
    "labels": ("l(t) in {O, B, I}\nN(t, t)\n1 l(i) in {O, B} ^ l(j) in {B, I} => N(i,j)", {"t": 4}),
    "chain": (CHAIN, {"token": 6}),
    "long offsets": ("A(k)\n0.9 A(i) ^ A(i+2) => A(i+1)\n0.6 A(i-1) => A(i)", {"k": 6}),
    "exactly one": ("f(a, b!)\nP(b)\n1.7 f(x,y) => P(y)\n0.4 f(x,y) ^ f(z,y) => x = z", {"a": 4, "b": 5}),
    "at most one": ("g(a, b?)\nP(b)\n-1.2 g(x,y) ^ P(y)\n0.4 EXIST y g(x,y)", {"a": 4, "b": 5}),
    "one pair": ("h(a!, b!)\nP(b)\n1.7 h(x,y) => P(y)", {"a": 4, "b": 5}),
    "exists": (EXIST, {"t": 4, "u": 5}),
    "exists of two": ("A(t)\nB(t)\nR(t, t)\n1.3 A(x) => EXIST y (R(x,y) ^ B(y))\n0.7 FORALL y R(x,y) => B(x)",
                      {"t": 4}),
    "a variable of no literal": ("A(t)\nB(t)\n0.8 (A(x) v B(y)) ^ A(z)", {"t": 4}),
    "a constant": ("A(t)\nR(t, t)\n1.4 R(K, x) => A(K)", {"t": 4}),
    "no arguments": ("Rain\nWet(t)\n1.5 Rain => Wet(x)\n-1 Rain", {"t": 4}),
    "inequality": ("A(t)\nR(t, t)\n0.8 x != y ^ R(x,y) => A(x)", {"t": 4}),
}


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@each_semantics
@pytest.mark.parametrize("name", PADDED)
def test_a_padded_batch_is_its_items_one_by_one(name: str, semantics: str, reduce: str) -> None:
    text, sizes = PADDED[name]
    layer = LogicMP(text, iterations=2, semantics=semantics, reduce=reduce).double()
    theory = layer.theory
    # one item of full size, some smaller
    lengths = [{t: max(1, n - (k * (j + 1)) % n) for j, (t, n) in enumerate(sizes.items())} for k in range(4)]
    # the values in the padding are large and must not matter
    unary = {n: x.clone() for n, x in random_unary(theory, sizes, len(lengths)).items()}
    mask = {t: torch.stack([torch.arange(n) < length[t] for length in lengths]) for t, n in sizes.items()}
    cuts = []
    for k, length in enumerate(lengths):
        cut = {p.name: tuple(slice(length[t]) for t in p.types) for p in theory.predicates}
        for n, x in unary.items():
            kept = x[k][cut[n]].clone()
            x[k] = x[k] * 3 + 7
            x[k][cut[n]] = kept
        cuts.append(cut)
    out = layer(unary, mask=mask)
    trace = layer.trace(unary, mask=mask)
    assert trace.elbo.isfinite().all()
    for k, cut in enumerate(cuts):
        item = {n: x[k][cut[n]] for n, x in unary.items()}
        alone = layer(item)
        for n, x in out.items():
            close(x[k][cut[n]], alone[n])
            outside = torch.ones_like(x[k], dtype=torch.bool)
            outside[cut[n]] = False
            assert torch.equal(x[k][outside], unary[n][k][outside])
        close(trace.violations[:, k], layer.trace(item).violations, 1e-9, 1e-10)
        close(trace.elbo[:, k], layer.trace(item).elbo, 1e-9, 1e-9)
        close(layer.theory_loss(unary, mask=mask)[k], layer.theory_loss(item), 1e-9, 1e-10)


def test_observed_atoms_of_missing_entities_do_not_count() -> None:
    # the second argument of F is in no other literal: evidence that is true in the padding was counted
    layer = LogicMP("F(p, p)\nS(p)\n1 F(x,y) => S(x)", dtype=torch.float64)
    x, links = torch.randn(2, 4, dtype=torch.float64), torch.ones(4, 4, dtype=torch.bool)
    mask = torch.tensor([[True, True, True, False], [True, True, True, True]])
    got = layer({"S": x}, {"F": links}, mask)["S"]
    close(got[0, :3], layer({"S": x[0, :3]}, {"F": links[:3, :3]})["S"])
    close(got[1], layer({"S": x[1]}, {"F": links})["S"])


def test_one_mask_without_batch_is_for_all_items() -> None:
    layer = LogicMP(TRANSITIVITY, iterations=2).double()
    x = randn(3, 4, 4)
    mask = torch.tensor([True, True, True, False])
    assert torch.equal(layer(x, mask=mask), layer(x, mask=mask.expand(3, 4)))
    close(layer(x, mask=mask)[:, :3, :3], layer(x[:, :3, :3]))


def test_gradients_of_the_padding_are_zero_through_the_rules() -> None:
    layer = LogicMP(TRANSITIVITY, iterations=2).double()
    x = randn(4, 4).requires_grad_()
    layer(x, mask=torch.tensor([1.0, 1, 1, 0]).double())[:3, :3].sum().backward()
    assert torch.equal(x.grad[3], torch.zeros(4).double())
    assert torch.equal(x.grad[:, 3], torch.zeros(4).double())
    assert (x.grad[:3, :3] != 0).all()


# evidence


def full_evidence(predicate: Predicate, like: Tensor) -> Tensor:
    """A world for one predicate."""
    if not predicate.functional and predicate.labels is None:
        return like > 0
    found = torch.zeros_like(like, dtype=torch.bool)
    if predicate.labels is not None:
        return found.scatter(-1, like.argmax(-1, keepdim=True), True)
    found[tuple(0 if k in predicate.functional else slice(None) for k in range(like.dim()))] = True
    return found


@each_semantics
@settings(max_examples=30, deadline=None)
@given(model=models())
def test_observing_a_whole_predicate_is_clamping_all_its_atoms(semantics: str, model: Model) -> None:
    names = list(model.unary)[::2]
    latent = [n for n in model.unary if n not in names]
    layer = layer_for(model, semantics, 2)
    known = {n: full_evidence(model.theory.predicate[n], model.unary[n]) for n in names}
    try:
        folded = layer(model.unary, evidence=known)
        clamped = layer(model.unary, evidence={n: x.double() for n, x in known.items()})
    except CostError:
        assume(False)
    all_close(folded, clamped, 1e-9, 1e-11)
    for n in names:
        assert torch.equal(folded[n], torch.where(known[n], CERTAIN, -CERTAIN).double())
    if latent:
        without = layer({n: model.unary[n] for n in latent}, evidence=known)
        all_close(without, {n: folded[n] for n in latent})


def test_evidence_never_changes() -> None:
    layer = LogicMP(SMOKERS, iterations=3).double()
    nan = math.nan
    out = layer(random_unary(layer.theory, {"thing": 3}), evidence={"S": torch.tensor([1, 0, nan])})
    assert out["S"][0] == CERTAIN
    assert out["S"][1] == -CERTAIN
    assert abs(out["S"][2]) < 20
    assert (out["F"].abs() < 20).all()


def test_a_label_that_is_ruled_out_leaves_the_others_open() -> None:
    layer = LogicMP(CHAIN, iterations=3).double()
    nan = math.nan
    x = randn(3, 3)
    evidence = torch.tensor([[0, nan, nan], [nan, 1, nan], [nan, nan, nan]])
    out = layer({"label": x}, evidence={"label": evidence})["label"]
    assert out[0, 0] == -CERTAIN
    assert (out[0, 1:].abs() < 20).all()
    assert out[1].tolist() == [-CERTAIN, CERTAIN, -CERTAIN]
    q = layer.trace({"label": x}, evidence={"label": evidence}).marginals[-1]["label"]
    close(q.sum(-1), torch.ones(3).double())
    assert q[0, 0] == 0
    assert q[1].tolist() == [0, 1, 0]


def test_a_predicate_without_unary_starts_undecided() -> None:
    layer = LogicMP(SMOKERS, iterations=2).double()
    f = randn(3, 3)
    close(layer({"F": f})["F"], layer({"F": f, "S": torch.zeros(3).double()})["F"])


def test_gradients_of_observed_atoms_are_zero() -> None:
    layer = LogicMP(SMOKERS, iterations=2).double()
    unary = {n: x.requires_grad_() for n, x in random_unary(layer.theory, {"thing": 3}).items()}
    out = layer(unary, evidence={"S": torch.tensor([1, math.nan, 0])})
    (out["S"].sum() + out["F"].sum()).backward()
    assert unary["S"].grad[[0, 2]].tolist() == [0, 0]
    assert unary["S"].grad[1] != 0


# weights


@pytest.mark.parametrize("weight", [1e-3, 1e-1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("declared", ["", "symmetric C(thing, thing)\n"], ids=["plain", "symmetric"])
def test_large_domains_give_finite_outputs_and_gradients(weight: float, declared: str) -> None:
    layer = LogicMP(f"{declared}{weight} {TRANSITIVITY}", iterations=5)
    x = randn(1, 512, 512, dtype=torch.float32).requires_grad_()
    out = layer(x)
    assert out.isfinite().all()
    torch.nn.functional.binary_cross_entropy_with_logits(out, (x > 0).float()).backward()
    assert x.grad.isfinite().all()
    assert layer.raw_weights[0].grad.isfinite()
    assert layer.violations(out.detach()).isfinite().all()
    assert layer.elbo(x.detach(), out.detach()).isfinite().all()


def test_a_hard_rule_acts_with_hard_weight_and_is_not_trained() -> None:
    x = randn(3, 3)
    hard = LogicMP(f"{TRANSITIVITY}.", hard_weight=7.0).double()
    close(hard(x), LogicMP(f"7 {TRANSITIVITY}").double()(x))
    assert [w.requires_grad for w in hard.raw_weights] == [False]
    assert hard.weights[0].item() == 7
    default = LogicMP(f"{TRANSITIVITY}.").double()
    close(default(x), LogicMP(f"10 {TRANSITIVITY}").double()(x))


def test_weights_are_fixed_if_asked() -> None:
    assert [w.requires_grad for w in LogicMP(SMOKERS).raw_weights] == [True] * 3
    assert [w.requires_grad for w in LogicMP(SMOKERS, learn_weights=False).raw_weights] == [False] * 3


def test_a_rule_without_weight_has_weight_one() -> None:
    assert LogicMP(TRANSITIVITY).weights[0].item() == 1


def test_one_weight_for_each_constant() -> None:
    text = "word = {a, b, c}\nW(place, word)\nTag(place) in {X, Y}\n0.5 W(i, +w) => Tag(i) in {X}"
    layer = LogicMP(text, iterations=1, schedule="paper").double()
    assert [w.shape for w in layer.weights] == [(3,)]
    with torch.no_grad():
        layer.raw_weights[0].copy_(torch.tensor([1.0, -2.0, 0.0]))
    words = torch.eye(3, dtype=torch.bool)
    out = layer(torch.zeros(3, 2).double(), evidence={"W": words})
    # W(i,w) !X(i): the weight of the word at i
    close(out[:, 0] - out[:, 1], torch.tensor([1.0, -2.0, 0.0]).double())


def test_weights_per_constant_of_an_open_type_are_given_by_size() -> None:
    layer = LogicMP("0.5 A(+x) => B(x)", sizes={"thing": 4})
    assert [w.tolist() for w in layer.weights] == [[0.5] * 4]


def test_positive_weights_start_where_the_theory_says_and_stay_positive() -> None:
    layer = LogicMP(f"1.5 {TRANSITIVITY}\nC(a,a).", positive_weights=True)
    torch.testing.assert_close(layer.weights[0], torch.tensor(1.5))
    assert layer.weights[1].item() == 10
    x = randn(3, 3, dtype=torch.float32)
    torch.testing.assert_close(layer(x), LogicMP(f"1.5 {TRANSITIVITY}\nC(a,a).")(x))
    optimizer = torch.optim.SGD(layer.parameters(), lr=5.0)
    for _ in range(20):
        optimizer.zero_grad()
        layer.weights[0].backward()
        optimizer.step()
    assert 0 < layer.weights[0].item() < 0.1


# reduce="mean": the weight divided by groundings per atom of the largest latent predicate


def mean_equals(text: str, same: str, unary: Mapping[str, Tensor],
                evidence: Mapping[str, Tensor] | None = None) -> None:
    all_close(LogicMP(text, reduce="mean").double()(unary, evidence=evidence),
              LogicMP(same).double()(unary, evidence=evidence), 1e-6)


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_mean_divides_transitivity_by_the_number_of_entities(n: int) -> None:
    # n^3 groundings, n^2 atoms
    mean_equals(f"4 {TRANSITIVITY}", f"{4 / n} {TRANSITIVITY}", {"C": randn(n, n)})


def test_mean_counts_the_atoms_of_the_largest_latent_predicate() -> None:
    rule = "S(x) ^ F(x,y) => S(y)"
    unary = {"S": randn(4), "F": randn(4, 4, seed=1)}
    # 16 groundings: F has 16 atoms; if it is observed, S is the largest, with 4
    mean_equals(f"2 {rule}", f"2 {rule}", unary)
    mean_equals(f"2 {rule}", f"0.5 {rule}", {"S": unary["S"]}, {"F": unary["F"] > 0})


def test_mean_makes_equal_inputs_of_any_size_move_alike() -> None:
    # all atoms alike: the message to one of them is then nearly the same in a large and in a small domain
    layer = LogicMP(f"2 {TRANSITIVITY}", reduce="mean", iterations=3, semantics="paper").double()
    moved = [layer(torch.zeros(n, n).double()) for n in (2, 7, 20)]
    for out in moved:
        close(out, moved[0][0, 0].expand_as(out))


# what the same plan gives besides


@each_semantics
@pytest.mark.parametrize("text, sizes", [(SMOKERS, {"thing": 3}), (CHAIN, {"token": 4}), (EXIST, {"t": 2, "u": 3}),
                                         (f"symmetric C(t, t)\n1.5 {TRANSITIVITY}", {"t": 4})])
def test_trace_violations_loss_and_bound_agree(text: str, sizes: dict[str, int], semantics: str) -> None:
    layer = LogicMP(text, iterations=3, semantics=semantics).double()
    unary = random_unary(layer.theory, sizes, 2)
    if "C" in unary:
        unary["C"] = unary["C"] + unary["C"].mT
    out, trace = layer(unary), layer.trace(unary)
    all_close(trace.logits, out)
    assert len(trace.marginals) == 4
    for step, logits in ((0, unary), (-1, out)):
        close(layer.violations(logits), trace.violations[step])
        close(layer.theory_loss(logits), (trace.violations[step] * torch.stack(layer.weights)).sum(-1))
        close(layer.elbo(unary, logits), trace.elbo[step])


def test_losses_have_gradients_for_logits_and_weights() -> None:
    layer = LogicMP(SMOKERS).double()
    unary = {n: x.requires_grad_() for n, x in random_unary(layer.theory, {"thing": 3}).items()}
    (layer.theory_loss(unary) - layer.elbo(unary, layer(unary))).sum().backward()
    assert all((x.grad != 0).any() for x in unary.values())
    assert all(w.grad.isfinite() and w.grad != 0 for w in layer.parameters())


def test_the_bound_has_finite_gradients_at_certain_marginals() -> None:
    layer = LogicMP(SMOKERS)
    unary = {"S": torch.tensor([200.0, -200.0]).requires_grad_(), "F": torch.zeros(2, 2).requires_grad_()}
    layer.elbo(unary, unary).backward()
    assert all(x.grad.isfinite().all() for x in unary.values())


def test_the_output_of_a_symmetric_predicate_is_symmetric() -> None:
    layer = LogicMP(f"symmetric C(t, t)\n1.5 {TRANSITIVITY}", iterations=3).double()
    x = randn(2, 4, 4)
    out = layer(x)
    assert torch.equal(out, out.mT)
    # one variable for both orders: what was given for the two is averaged
    close(out, layer((x + x.mT) / 2))


def test_repairs_a_matrix_that_violates_transitivity() -> None:
    truth = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]]) * 8.0 - 4
    violating = truth.clone()
    violating[0, 2] = -1
    layer = LogicMP(f"2 {TRANSITIVITY}")
    assert layer(violating)[0, 2] > 0
    assert layer.violations(layer(violating)) < layer.violations(violating)


def test_one_tensor_in_is_one_tensor_out_and_a_dict_is_a_dict() -> None:
    layer = LogicMP(TRANSITIVITY).double()
    x = randn(2, 3, 3)
    assert torch.equal(layer(x), layer({"C": x})["C"])
    smokers = LogicMP(SMOKERS).double()
    evidence = {"F": randn(3, 3) > 0}
    assert torch.equal(smokers(randn(3), evidence), smokers({"S": randn(3)}, evidence)["S"])


@pytest.mark.parametrize("change", ["weight", "logits"])
def test_a_change_in_place_before_the_backward_pass_is_an_error_and_not_silently_wrong(change: str) -> None:
    layer = LogicMP("0.5 C(a,b) ^ C(b,c) => C(a,c)", schedule="paper")
    leaf = torch.randn(3, 3, requires_grad=True)
    logits = leaf * 1.0
    loss = layer(logits).sum()
    with torch.no_grad():
        (layer.raw_weights[0] if change == "weight" else logits).add_(1.0)
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_under_adaptive_a_change_of_the_logits_in_place_does_not_change_their_gradient() -> None:
    layer = LogicMP("0.5 C(a,b) ^ C(b,c) => C(a,c)", schedule="adaptive")
    leaf = torch.randn(3, 3, requires_grad=True)
    want, = torch.autograd.grad(layer(leaf).sum(), leaf)
    logits = leaf * 1.0
    loss = layer(logits).sum()
    with torch.no_grad():
        logits.add_(1.0)
    assert torch.equal(torch.autograd.grad(loss, leaf)[0], want)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_message_that_does_not_depend_on_an_argument_meets_one_on_the_diagonal(batch: tuple[int, ...]) -> None:
    """Without gradients messages are added in place, and this one has one entry for all values of y."""
    layer = LogicMP("0.7 P(x, x) v P(x, y)", iterations=2)
    x = randn(*batch, 4, 4)
    with torch.no_grad():
        got = layer(x)
    close(got, layer(x))


@settings(max_examples=100, deadline=None)
@given(model=models(max_ground=12))
def test_without_gradients_the_layer_gives_the_same(model: Model) -> None:
    layer = LogicMP(model.theory, iterations=2, damping=0.3, sizes=model.sizes)
    batch = {name: torch.stack([x, -x]) for name, x in model.unary.items()}
    try:
        want = layer(batch, model.evidence)
    except CostError:
        assume(False)
    with torch.no_grad():
        all_close(layer(batch, model.evidence), want)


@pytest.mark.parametrize("rules", [
    "A(t)\nB(t)\n1 (A(i) ^ A(i+1)) v (B(i+2) ^ A(i))",
    "A(t)\nB(t)\n1 (A(i) ^ A(i+1)) v (B(i-1) ^ A(i))",
    "label = {X, Y, Z}\nA(t, label!)\nB(t)\n" + "".join(
        f"{k} (A(i, {a}) ^ A(i+1, {b})) v (B(i+2) ^ A(i, {a}))\n" for k, (a, b) in enumerate(
            [("X", "Y"), ("Y", "Z"), ("Z", "X"), ("X", "X"), ("Y", "Y")], 1))])
def test_padding_counts_nowhere_if_terms_of_a_rule_read_different_neighbours(rules: str) -> None:
    layer = LogicMP(rules, schedule="paper", iterations=2, dtype=torch.float64)
    rng, n_labels = torch.Generator().manual_seed(0), (3,) * ("label" in rules)
    unary = {"A": torch.randn(3, 7, *n_labels, dtype=torch.float64, generator=rng),
             "B": torch.randn(3, 7, dtype=torch.float64, generator=rng)}
    lengths = [7, 4, 2]
    mask = {"t": torch.arange(7) < torch.tensor(lengths)[:, None]}
    together, counts = layer(unary, mask=mask), layer.violations(unary, mask=mask)
    for k, n in enumerate(lengths):
        own = {name: x[k, :n] for name, x in unary.items()}
        alone = layer(own)
        assert all(torch.allclose(together[name][k, :n], alone[name], rtol=1e-9) for name in alone)
        assert torch.allclose(counts[k], layer.violations(own), rtol=1e-9)
