"""Sparse tensors in the layer: outputs and gradients equal those of dense tensors; errors name the row."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from logicmp import CostError, LogicMP, LogicMPError

GRAPH = """
Link(node, node)
label(node) in {A, B, C}
1.3 Link(x,y) ^ label(x)=A => label(y)=A
0.7 Link(x,y) ^ label(x)=B => label(y)=B
"""
PAIRS = "symmetric C(t, t)\nS(t)\n1.2 C(a,b) ^ C(b,c) => C(a,c)\n0.3 S(a) ^ C(a,b) => S(b)"
N = 15


def close(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


def random_links(seed: int = 0, n: int = N) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    # int64 [2, links]; a transposed view, as it often is
    return (torch.rand(n, n, generator=generator) < 0.2).nonzero().t()


def dense_links(links: Tensor, n: int = N) -> Tensor:
    matrix = torch.zeros(n, n, dtype=torch.bool)
    matrix[links[0], links[1]] = True
    return matrix


def coo(indices: Tensor, values: Tensor, n: int = N) -> Tensor:
    return torch.sparse_coo_tensor(indices, values, (n, n, *values.shape[1:]), check_invariants=True)


@pytest.mark.parametrize("schedule", ["paper", "adaptive", "cold"])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_an_edge_index_equals_a_matrix(schedule: str, reduce: str) -> None:
    layer = LogicMP(GRAPH, dtype=torch.float64, schedule=schedule, reduce=reduce)
    links = random_links()
    unary = torch.randn(N, 3, dtype=torch.float64, requires_grad=True)
    matrix = dense_links(links)
    inputs = [unary, *layer.parameters()]
    want = layer({"label": unary}, {"Link": matrix})["label"]
    factors = torch.randn_like(want)
    slopes = torch.autograd.grad((want * factors).sum(), inputs)
    for form in (links, torch.cat([links, links[:, :3]], 1).flip(1), matrix.double().to_sparse_coo(),
                 matrix.double().to_sparse_csr()):
        got = layer({"label": unary}, {"Link": form})["label"]
        close(got, want)
        for one, other in zip(torch.autograd.grad((got * factors).sum(), inputs), slopes, strict=True):
            close(one, other)
    close(layer.violations({"label": unary}, {"Link": links}), layer.violations({"label": unary}, {"Link": matrix}))
    close(layer.elbo(unary, unary, {"Link": links}), layer.elbo(unary, unary, {"Link": matrix}))
    close(layer.trace(unary, {"Link": links}).violations, layer.trace(unary, {"Link": matrix}).violations)
    assert str(layer.report(unary, {"Link": links})) == str(layer.report(unary, {"Link": matrix}))


@pytest.mark.parametrize("batch", [(3,), (2, 2)])
@pytest.mark.parametrize("schedule", ["paper", "adaptive"])
def test_all_items_of_a_batch_share_an_edge_index(schedule: str, batch: tuple[int, ...]) -> None:
    layer = LogicMP(GRAPH, dtype=torch.float64, schedule=schedule)
    links = random_links()
    unary = torch.randn(*batch, N, 3, dtype=torch.float64, requires_grad=True)
    found = []
    for form in (links, dense_links(links)):
        out = layer({"label": unary}, {"Link": form})["label"]
        loss = (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)).sum()
        found.append([out, layer.violations({"label": unary}, {"Link": form}), layer.elbo(unary, unary, {"Link": form}),
                      *torch.autograd.grad(loss, [unary, *layer.parameters()])])
    for one, other in zip(*found, strict=True):
        close(one, other)


def test_one_graph_of_several_items_equals_each_alone() -> None:
    # triangles and pairs are tied by their literals, so nothing crosses items
    layer = LogicMP(f"C(node, node)\n{GRAPH}0.4 C(x,y) ^ C(y,z) => C(x,z)\n0.3 Link(x,y) ^ label(x)=B => C(x,y)",
                    dtype=torch.float64, schedule="paper")
    sizes = [6, 9, 7]
    links, pairs = ([random_links(k + first, n) for k, n in enumerate(sizes)] for first in (0, 10))
    unary = [torch.randn(n, 3, dtype=torch.float64) for n in sizes]
    values = [torch.randn(p.shape[1], dtype=torch.float64) for p in pairs]
    starts = [0, 6, 15]
    moved = [torch.cat([x + k for x, k in zip(group, starts, strict=True)], 1) for group in (links, pairs)]
    out = layer({"label": torch.cat(unary), "C": coo(moved[1], torch.cat(values), 22)}, {"Link": moved[0]})
    alone = [layer({"label": unary[k], "C": coo(pairs[k], values[k], n)}, {"Link": links[k]})
             for k, n in enumerate(sizes)]
    close(out["label"], torch.cat([x["label"] for x in alone]))
    close(out["C"].values(), torch.cat([x["C"].values() for x in alone]))


@pytest.mark.parametrize("schedule, reduce", [("paper", "sum"), ("adaptive", "mean")])
def test_masks_equal_those_of_dense_tensors(schedule: str, reduce: str) -> None:
    layer = LogicMP(f"{GRAPH}0.4 Link(x,y) ^ Link(y,z) ^ label(x)=B => label(z)!=C\n0.2 Link(x,y) => label(x)=C",
                    dtype=torch.float64, schedule=schedule, reduce=reduce)
    links = random_links()
    unary = torch.randn(3, N, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.arange(N) < torch.tensor([[N], [N - 4], [3]])
    found = []
    for form in (links, dense_links(links)):
        out = layer({"label": unary}, {"Link": form}, mask)["label"]
        loss = (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)).sum()
        found.append([out, layer.violations({"label": unary}, {"Link": form}, mask),
                      *torch.autograd.grad(loss, [unary, *layer.parameters()])])
    for one, other in zip(*found, strict=True):
        close(one, other)
    # an item is as if its missing entities were removed
    kept = links[:, (links < N - 4).all(0)]
    if reduce == "sum":
        close(found[0][0][1, : N - 4], layer({"label": unary[1, : N - 4]}, {"Link": kept})["label"])


def test_masks_of_candidates() -> None:
    layer = LogicMP(PAIRS, dtype=torch.float64)
    indices, mask = random_links(1), torch.arange(N) != 4
    values, single = torch.randn(indices.shape[1], dtype=torch.float64), torch.randn(N, dtype=torch.float64)
    got = layer({"C": coo(indices, values), "S": single}, mask=mask)
    kept = (indices != 4).all(0)
    want = layer({"C": coo(indices[:, kept], values[kept]), "S": single}, {"S": torch.where(mask, torch.nan, 0.0)})
    close(got["S"][mask], want["S"][mask])
    at = (got["C"].indices() != 4).all(0)
    close(got["C"].values()[at], want["C"].values())
    # what does not exist is returned as it was given
    close(got["S"][4], single[4])


def test_a_mask_and_a_constant_of_its_type_are_rejected() -> None:
    layer = LogicMP("F(n, n)\nS(n)\n0.5 F(x,A) => S(x)")
    with pytest.raises(CostError, match=r"mask\['n'\] and the constant A of this rule cannot be combined"):
        layer({"S": torch.zeros(3)}, {"F": torch.tensor([[0, 1], [2, 0]])}, torch.ones(3))


def test_candidates_equal_evidence_that_all_others_are_false() -> None:
    layer = LogicMP(PAIRS, dtype=torch.float64)
    indices = random_links(1)
    values = torch.randn(indices.shape[1], dtype=torch.float64, requires_grad=True)
    single = torch.randn(N, dtype=torch.float64, requires_grad=True)
    got = layer({"C": coo(indices, values), "S": single})
    given = dense_links(indices).double()
    times = given + given.mT
    matrix = torch.zeros(N, N, dtype=torch.float64).index_put((indices[0], indices[1]), values)
    mean = (matrix + matrix.mT) / times.clamp_min(1)
    false = torch.where(times > 0, torch.nan, torch.zeros_like(times))
    want = layer({"C": mean, "S": single}, {"C": false})
    close(got["S"], want["S"])
    assert got["C"].is_coalesced()
    assert torch.equal(got["C"].indices(), coo(indices, values).coalesce().indices())
    close(got["C"].values(), want["C"][indices[0], indices[1]])
    losses = [found["S"].sum() + (pairs ** 2).sum() for found, pairs in (
        (got, got["C"].values()), (want, want["C"][indices[0], indices[1]]))]
    inputs = [values, single, *layer.parameters()]
    for one, other in zip(*(torch.autograd.grad(loss, inputs) for loss in losses), strict=True):
        close(one, other)


def test_one_sparse_tensor_gives_one() -> None:
    layer = LogicMP("0.5 C(a,b) ^ C(b,c) => C(a,c)")
    indices = random_links(2)
    out = layer(coo(indices, torch.randn(indices.shape[1])))
    assert out.is_sparse
    assert out.dtype == torch.float32
    assert out.shape == (N, N)


def test_labels_of_candidate_pairs() -> None:
    layer = LogicMP("r(n, n) in {P, Q}\n0.5 r(x,y)=P ^ r(y,z)=P => r(x,z)=P", dtype=torch.float64)
    indices = random_links(3)
    values = torch.randn(indices.shape[1], 2, dtype=torch.float64)
    out = layer(coo(indices, values))
    assert out.shape == (N, N, 2)
    # with all pairs as candidates it is the dense layer
    every = torch.ones(N, N).nonzero().t()
    values = torch.randn(N * N, 2, dtype=torch.float64)
    close(layer(coo(every, values)).to_dense(), layer(values.reshape(N, N, 2)))


@pytest.mark.parametrize("mark", ["!", "?"])
@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("schedule", ["paper", "adaptive"])
def test_candidate_values_of_functional_variables(mark: str, is_last: bool, schedule: str) -> None:
    declared = f"P(e, c{mark})" if is_last else f"P(c{mark}, e)"
    x, z = ("P(x,y)", "P(z,y)") if is_last else ("P(y,x)", "P(y,z)")
    layer = LogicMP(f"{declared}\nF(e, e)\nS(c)\n0.8 F(x,z) ^ {x} => {z}\n0.3 {x} => S(y)\n"
                    f"0.2 {x} ^ {z} ^ x != z => S(y)", dtype=torch.float64, schedule=schedule)
    torch.manual_seed(0)
    can = torch.rand(N, 6) < 0.3
    can[torch.arange(N), torch.randint(6, (N,))] = True
    can[3] = False if mark == "?" else can[3]
    can = can if is_last else can.mT
    indices = can.nonzero().t()
    values = torch.randn(indices.shape[1], dtype=torch.float64, requires_grad=True)
    single = torch.randn(6, dtype=torch.float64, requires_grad=True)
    links = random_links()
    tensor = torch.sparse_coo_tensor(indices, values, tuple(can.shape))
    got = layer({"P": tensor, "S": single}, {"F": links})
    matrix = torch.zeros(can.shape, dtype=torch.float64).index_put(tuple(indices), values)
    false = torch.where(can, torch.nan, 0.0)
    want = layer({"P": matrix, "S": single}, {"F": dense_links(links), "P": false})
    close(got["S"], want["S"])
    close(got["P"].values(), want["P"][tuple(indices)])
    losses = [found["S"].sum() + (pairs ** 2).sum() for found, pairs in (
        (got, got["P"].values()), (want, want["P"][tuple(indices)]))]
    inputs = [values, single, *layer.parameters()]
    for one, other in zip(*(torch.autograd.grad(loss, inputs) for loss in losses), strict=True):
        close(one, other)
    # some of the candidates are observed
    known = torch.where(torch.arange(len(values)) % 7 == 0, 0.0, torch.nan).double()
    facts = torch.sparse_coo_tensor(indices, known, tuple(can.shape))
    got = layer({"P": tensor, "S": single}, {"F": links, "P": facts})
    false = false.double().index_put(tuple(indices), known)
    want = layer({"P": matrix, "S": single}, {"F": dense_links(links), "P": false})
    close(got["P"].values(), want["P"][tuple(indices)])


def test_observed_values_of_functional_variables() -> None:
    layer = LogicMP("P(e, c!)\nF(e, e)\nS(c)\n0.8 F(x,z) ^ P(x,y) => P(z,y)\n0.3 F(x,x) ^ P(x,y) => S(y)",
                    dtype=torch.float64, sizes={"e": N})
    value = torch.randint(6, (N,), generator=torch.Generator().manual_seed(0))
    single, links = torch.randn(6, dtype=torch.float64), random_links()
    pairs = torch.stack([torch.arange(N), value])
    whole = torch.zeros(N, 6, dtype=torch.bool)
    whole[pairs[0], pairs[1]] = True
    want = layer({"S": single}, {"F": dense_links(links), "P": whole})["S"]
    close(layer({"S": single}, {"F": links, "P": pairs})["S"], want)
    close(layer({"S": single}, {"F": links, "P": whole.double().to_sparse_coo()})["S"], want)
    with pytest.raises(LogicMPError, match="makes 2 values of one variable true; expected one, because P"):
        layer({"S": single}, {"F": links, "P": torch.cat([pairs, (pairs[:, :1] + torch.tensor([[0], [1]])) % 6], 1)})
    with pytest.raises(LogicMPError, match="has one value for each e, but entity 4 has no candidate"):
        layer({"S": single}, {"F": links, "P": pairs[:, pairs[0] != 4]})
    with pytest.raises(LogicMPError, match=r"mask\['c'\] and candidates of P\(e, c!\) cannot be combined"):
        layer({"P": whole.double().to_sparse_coo(), "S": single}, {"F": links}, {"c": torch.ones(6)})


def test_evidence_on_candidates() -> None:
    layer = LogicMP("0.5 C(a,b) ^ C(b,c) => C(a,c)", dtype=torch.float64)
    indices = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 2]])
    unary = coo(indices, torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64), 4)
    # one candidate is true, one false, and one true atom is no candidate
    facts = coo(torch.tensor([[0, 1, 3], [1, 2, 3]]), torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64), 4)
    got = layer({"C": unary}, {"C": facts})["C"]
    evidence = torch.zeros(4, 4, dtype=torch.float64)
    evidence[[2, 0], [0, 2]] = torch.nan
    evidence[[0, 3], [1, 3]] = 1
    close(got.values(), layer({"C": unary.to_dense()}, {"C": evidence})["C"][tuple(got.indices())])


def test_evidence_of_false_atoms_only_changes_nothing() -> None:
    layer = LogicMP(GRAPH, dtype=torch.float64)
    links, unary = random_links(4), torch.randn(N, 3, dtype=torch.float64)
    values = torch.ones(links.shape[1], dtype=torch.float64)
    values[::3] = 0
    got = layer({"label": unary}, {"Link": coo(links, values)})["label"]
    close(got, layer({"label": unary}, {"Link": links[:, values > 0]})["label"])


def test_gradients_of_candidates() -> None:
    layer = LogicMP("0.5 C(a,b) ^ C(b,c) => C(a,c)", iterations=2, dtype=torch.float64, schedule="paper")
    indices = random_links(5, 5)
    values = torch.randn(indices.shape[1], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: layer(coo(indices, v, 5)).values(), values)


def test_gradients_of_gradients() -> None:
    # of a dense tensor: torch's own sparse tensors give wrong second derivatives
    layer = LogicMP("F(p, p)\nG(p, p)\nS(p)\n0.5 F(x,y) ^ S(x) => S(y)\n"
                    "0.3 F(a,b) ^ F(b,c) ^ G(a,c) ^ S(a) ^ S(b) => S(c)",
                    iterations=2, dtype=torch.float64, schedule="paper")
    evidence = {"F": random_links(5, 5), "G": random_links(6, 5)}
    unary = torch.randn(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: layer({"S": x}, evidence)["S"], unary)


# plans


def test_a_plan_is_kept_while_the_indices_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    from logicmp.execute import lists

    made: list[int] = []
    build = lists.plan_sparse_executor

    def counted(*args: object, **options: object) -> object:
        made.append(1)
        return build(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(lists, "plan_sparse_executor", counted)
    layer = LogicMP(GRAPH, dtype=torch.float64)
    links, unary = random_links().contiguous(), torch.randn(N, 3, dtype=torch.float64)
    for form in (links, links, links.clone()):
        layer(unary, {"Link": form})
    assert len(made) == 1
    links[0, 0] = (links[0, 0] + 1) % N
    want = LogicMP(GRAPH, dtype=torch.float64)(unary, {"Link": dense_links(links)})
    close(layer(unary, {"Link": links}), want)
    assert len(made) == 2
    copy.deepcopy(layer)(unary, {"Link": links})
    assert len(made) == 3


@pytest.mark.parametrize("rules, n_forms", [(GRAPH, 1), ("F(t, t)\nS(t)\nT(t)\n"
                                                       "1 T(x) => EXIST y,z S(y) ^ S(z) ^ y != z\n"
                                                       "1 F(x, y) => (S(x) <=> T(y))", 2)],
                         ids=["for every size", "a quantifier that is written out"])
def test_rules_are_normalized_again_only_if_their_form_depends_on_the_size(
        rules: str, n_forms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from logicmp.execute import lists

    made: list[int] = []
    normalize = lists.normalize_theory

    def counted(*args: object) -> object:
        made.append(1)
        return normalize(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(lists, "normalize_theory", counted)
    layer, shapes = LogicMP(rules, dtype=torch.float64), {}
    (name,) = {"Link", "F"} & set(layer.theory.predicate)
    for n in (4, 6):
        links = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
        shapes = {p.name: torch.randn(p.shape({t.name: n for t in layer.theory.types}), dtype=torch.float64)
                  for p in layer.theory.predicates if p.name != name}
        dense = torch.zeros(n, n, dtype=torch.bool).index_put((links[0], links[1]), torch.tensor(True))
        want = LogicMP(rules, dtype=torch.float64)(shapes, {name: dense})
        for predicate, x in layer(shapes, {name: links}).items():
            close(x, want[predicate])
    assert len(made) == n_forms


def test_a_first_call_in_inference_mode_does_no_harm() -> None:
    layer = LogicMP(GRAPH)
    links, unary = random_links(), torch.randn(N, 3)
    with torch.inference_mode():
        layer(unary, {"Link": links})
    layer(unary, {"Link": links}).sum().backward()
    assert all(w.grad is not None for w in layer.parameters())


# errors


@pytest.mark.parametrize("unary, evidence, mask, message", [
    ({"label": torch.zeros(3, 3)}, {"Link": torch.tensor([[0, 1], [2, 3]])}, None,
     "evidence['Link'] names entity 3 of node in column 1, but there are 3"),
    ({"label": torch.zeros(2, 3)}, {"Link": torch.tensor([[0, 1], [1, 0]])}, None,
     "evidence['Link'] is an int64 tensor of shape [2, 2], which can be a matrix of zeros and ones or a list"),
    ({"label": torch.zeros(2, 3, 3), "Link": coo(torch.tensor([[0], [1]]), torch.ones(1), 3)}, None, None,
     "the tensors have batch dimensions [2], but sparse tensors in unary have none"),
    ({"label": torch.zeros(3, 3)}, {"Link": torch.tensor([[0], [2]])}, torch.ones(4),
     "mask['node'] has shape [4]; expected [3], one entry for each node"),
    ({"label": torch.zeros(3, 3)}, {"Lnk": torch.tensor([[0], [2]]), "Link": torch.tensor([[0], [2]])}, None,
     "evidence names 'Lnk', which is not a predicate of the theory"),
    ({"label": torch.zeros(3, 3), "Link": coo(torch.tensor([[0], [1]]), torch.ones(1), 4)}, None, None,
     "the tensor of Link has 4 of node, but others have 3"),
    ({"label": coo(torch.tensor([[0], [1]]), torch.ones(1), 3)}, None, None,
     "unary['label'] has 2 sparse and 0 dense dimensions; expected 1 and 1"),
    ({"label": torch.zeros(3, 3), "Link": coo(torch.tensor([[0], [1]]), torch.ones(1), 3)},
     {"Link": torch.ones(3, 3, dtype=torch.bool)}, None, "unary['Link'] and evidence['Link'] are a sparse and a dense"),
])
def test_errors(unary: dict[str, Tensor], evidence: dict[str, Tensor] | None, mask: Tensor | None,
                message: str) -> None:
    with pytest.raises(LogicMPError) as error:
        LogicMP(GRAPH)(unary, evidence, mask)
    assert str(error.value).startswith(message)


def test_explain_needs_dense_tensors() -> None:
    with pytest.raises(LogicMPError, match="explain needs dense tensors"):
        LogicMP(GRAPH).explain("label(0) = A", torch.zeros(N, 3), {"Link": random_links()})
