"""Dense evidence that is mostly false runs as a list: the same outputs and gradients, and only where that is faster."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from torch import Tensor

from logicmp import LogicMP, LogicMPError
from logicmp.execute import listed
from logicmp.execute.lists import SparseRun

N = 20
RULES = {
    "hierarchy": "*parent(label, label)\nL(label)\n2 parent(c, p) ^ L(c) => L(p)\n0.3 L(c) => L(A)",
    "hard": "*parent(label, label)\nL(label)\nparent(c, p) ^ L(c) => L(p).",
    "three literals": "*parent(label, label)\nL(label)\n0.7 parent(c, p) ^ parent(p, g) ^ L(c) ^ L(p) => L(g)",
    "labels": "*parent(n, n)\ny(n) in {P, Q, R}\n0.5 parent(x,z) ^ y(x)=P => y(z)=P\n"
              "0.4 parent(x,z) ^ y(x)=Q => y(z)!=R",
    "symmetric": "*symmetric parent(n, n)\nL(n)\n0.8 parent(x,y) ^ L(x) => L(y)",
    "pairs": "*parent(n, n)\nC(n, n)\n0.8 parent(x,y) ^ C(x,y) => C(y,x)",
    "exists": "*parent(n, n)\nL(n)\n0.8 L(x) => EXIST y (parent(x,y) ^ L(y))",
    "offsets": "*parent(k, k)\nL(k)\n0.8 parent(i,j) ^ L(i+1) => L(j)",
    "one weight per constant": "*parent(n, n)\nL(n)\n0.8 parent(+x,y) ^ L(x) => L(y)",
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """List small tensors, whatever they cost."""
    monkeypatch.setattr(listed, "DENSE_ATOMS", N * N)
    monkeypatch.setattr(listed, "LISTED_SHARE", 1 / 8)
    monkeypatch.setattr(listed, "ROW_COST", 0)


def links(seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(N, N, generator=generator) < 0.05


def layer_of(name: str, **options: object) -> LogicMP:
    text = RULES[name]
    sizes = {"n": N} if "+x" in text else {}
    if " A)" in text or "(A)" in text:
        text = f"label = {{A, {', '.join(f'B{k}' for k in range(N - 1))}}}\n{text}"
    return LogicMP(text, dtype=torch.float64, sizes=sizes, **options)  # type: ignore[arg-type]


def unary_of(layer: LogicMP, batch: tuple[int, ...]) -> Tensor:
    (latent,) = (p for p in layer.theory.predicates if p.name != "parent")
    generator = torch.Generator().manual_seed(1)
    shape = latent.shape({t.name: N for t in layer.theory.types})
    return torch.randn(*batch, *shape, generator=generator, dtype=torch.float64).requires_grad_()


def is_listed(layer: LogicMP, unary: Tensor, evidence: Tensor) -> bool:
    return isinstance(layer._run(unary, {"parent": evidence}, None), SparseRun)


def results(layer: LogicMP, unary: Tensor, evidence: Tensor, mask: Tensor | None = None) -> list[Tensor]:
    out = layer(unary, {"parent": evidence}, mask)
    loss = (out * torch.linspace(-1, 1.5, out.numel(), dtype=out.dtype).reshape(out.shape)).sum()
    known = {"parent": evidence}
    return [out, layer.violations(unary, known, mask), layer.elbo(unary, unary, known, mask),
            *torch.autograd.grad(loss, [unary, *(w for w in layer.parameters() if w.requires_grad)])]


@pytest.mark.parametrize("schedule, batch", [("paper", ()), ("adaptive", (2, 2))])
@pytest.mark.parametrize("name", RULES)
@pytest.mark.filterwarnings("ignore")
def test_equal_to_dense(name: str, schedule: str, batch: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    layer = layer_of(name, schedule=schedule)
    unary, evidence = unary_of(layer, batch), links()
    evidence = evidence | evidence.mT if name == "symmetric" else evidence
    found = []
    for form in (evidence, evidence.double()):
        assert is_listed(layer, unary, form)
        found.append(results(layer, unary, form))
    monkeypatch.setattr(listed, "DENSE_ATOMS", 10**9)
    assert not is_listed(layer, unary, evidence)
    want = results(layer, unary, evidence)
    for got in found:
        for one, other in zip(got, want, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["three literals", "labels", "exists", "offsets"])
def test_masks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = layer_of(name)
    unary, evidence = unary_of(layer, (3,)), links()
    mask = torch.arange(N) < torch.tensor([[N], [N - 5], [4]])
    assert isinstance(layer._run(unary, {"parent": evidence}, mask), SparseRun)
    got = results(layer, unary, evidence, mask)
    monkeypatch.setattr(listed, "DENSE_ATOMS", 10**9)
    for one, other in zip(got, results(layer, unary, evidence, mask), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_a_report_and_a_trace_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, evidence = layer_of("hierarchy"), {"parent": links()}
    unary = unary_of(layer, (2,)).detach()
    report, trace = str(layer.report(unary, evidence)), layer.trace(unary, evidence)
    monkeypatch.setattr(listed, "DENSE_ATOMS", 10**9)
    assert report == str(layer.report(unary, evidence))
    torch.testing.assert_close(trace.violations, layer.trace(unary, evidence).violations, rtol=1e-9, atol=1e-11)
    assert layer.explain("L(A)", unary, evidence)


# which tensors are listed


def test_a_tensor_that_changed_in_place_is_listed_again() -> None:
    layer, evidence = layer_of("hierarchy"), links()
    unary = unary_of(layer, (2,))
    before = layer(unary, {"parent": evidence})
    evidence[3, 4] = ~evidence[3, 4]
    after = layer(unary, {"parent": evidence})
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, layer(unary, {"parent": evidence.clone()}))


def test_a_list_lives_as_long_as_its_tensor() -> None:
    layer, evidence = layer_of("hierarchy"), links()
    layer(unary_of(layer, ()), {"parent": evidence})
    kept = layer._solver.listed
    assert kept is not None
    assert len(kept._known) == 1
    del evidence
    gc.collect()
    assert not kept._known


def test_lists_are_made_once_per_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    make = listed._list
    monkeypatch.setattr(listed, "_list", lambda *args: made.append(1) or make(*args))
    layer, evidence = layer_of("hierarchy"), links()
    unary = unary_of(layer, ())
    for form in (evidence, evidence, evidence.clone(), evidence):
        layer(unary, {"parent": form})
    assert len(made) == 2
    copy.deepcopy(layer)(unary, {"parent": evidence})
    assert len(made) == 3


def test_what_stays_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = layer_of("hierarchy")
    unary = unary_of(layer, (2,))
    assert is_listed(layer, unary, links())
    assert not is_listed(layer, unary, torch.rand(N, N) < 0.4)
    assert not is_listed(layer, unary, links().expand(2, N, N))
    unknown = links().double()
    unknown[0, 0] = torch.nan
    assert not is_listed(layer, unary, unknown)
    monkeypatch.setattr(listed, "ROW_COST", 256)
    # so small that a list saves nothing
    assert not is_listed(layer, unary, links(7))
    # all pairs of entities would be listed
    pairs = LogicMP("*parent(n, n)\nC(n, n)\n0.8 parent(x,y) ^ C(y,z) => C(x,z)", dtype=torch.float64)
    assert not is_listed(pairs, unary_of(pairs, ()), links())
    rule = LogicMP("*parent(n, n)\nL(n)\n0.8 L(x) => FORALL y (parent(x,y) => L(y))\n0.5 L(x) => FORALL y parent(x,y)")
    assert not is_listed(rule, torch.zeros(N), links())


def test_errors_are_those_of_dense_tensors() -> None:
    layer = layer_of("symmetric")
    with pytest.raises(LogicMPError, match="makes an atom true in one order and false in the other"):
        layer(unary_of(layer, ()), {"parent": links()})
    layer = layer_of("hierarchy")
    with pytest.raises(LogicMPError, match="the tensor of L has shape"):
        layer(torch.zeros(N + 1, dtype=torch.float64), {"parent": links()})
    with pytest.raises(LogicMPError, match="unary"):
        layer([0.0] * N, {"parent": links()})  # type: ignore[call-overload]
    soft = links().double() * 0.5
    with pytest.raises(LogicMPError, match="has values other than 0, 1 and NaN"):
        layer(torch.zeros(N, dtype=torch.float64), {"parent": soft})


def test_a_first_call_in_inference_mode_does_no_harm() -> None:
    layer = layer_of("hierarchy")
    unary, evidence = unary_of(layer, ()), links()
    with torch.inference_mode():
        layer(unary, {"parent": evidence})
        layer(unary, {"parent": evidence.clone()})
    layer(unary, {"parent": evidence}).sum().backward()
    assert unary.grad is not None
