"""The layer inside torch's own machinery: compile, export, ONNX, autocast, several processes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.export import Dim

from logicmp import LogicMP, LogicMPError

TRANSITIVITY = "0.7 C(a,b) ^ C(b,c) => C(a,c)"
SYMMETRIC = f"symmetric C(t, t)\n{TRANSITIVITY}"
SMOKERS = "1.4 S(x) ^ F(x,y) => S(y)\n-0.6 S(x)\n0.8 F(x,y) => F(y,x)"
CHAIN = "label(token) in {O, B, I}\n2 label(i) in {O} => label(i+1) in {O, B}"
EXIST = "A(t)\nR(t, t)\n1.2 A(x) => EXIST y R(x,y)"

BATCH, N = Dim("batch", min=1, max=64), Dim("n", min=4, max=512)
# theory, the shape of each tensor with "b" for the batch and "n" for the entities
SHAPES: dict[str, tuple[str, dict[str, str]]] = {
    "transitivity": (TRANSITIVITY, {"C": "bnn"}),
    "symmetric": (SYMMETRIC, {"C": "bnn"}),
    "smokers": (SMOKERS, {"S": "bn", "F": "bnn"}),
    "chain": (CHAIN, {"label": "bn3"}),
    "exists": (EXIST, {"A": "bn", "R": "bnn"}),
}


def example(name: str, batch: int, n: int, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = {"b": batch, "n": n, "3": 3}
    return {key: torch.randn([sizes[c] for c in shape], generator=generator) for key, shape in SHAPES[name][1].items()}


def dynamic(name: str) -> dict[str, dict[int, Any]]:
    return {key: {k: {"b": BATCH, "n": N}[c] for k, c in enumerate(shape) if c != "3"}
            for key, shape in SHAPES[name][1].items()}


def make(name: str) -> LogicMP:
    return LogicMP(SHAPES[name][0], iterations=2).eval()


def check(got: dict[str, Tensor], want: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    assert got.keys() == want.keys()
    for name in want:
        torch.testing.assert_close(got[name], want[name], rtol=tolerance, atol=tolerance)


# compile


@pytest.fixture
def dynamo() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("name", ["transitivity", *(pytest.param(n, marks=pytest.mark.slow) for n in SHAPES
                                                    if n != "transitivity")])
def test_one_graph_contains_the_whole_layer(dynamo: Any, name: str) -> None:
    unary = example(name, 2, 5)
    # a fresh layer: planning runs while the call is traced
    check(torch.compile(make(name), backend="aot_eager", fullgraph=True)(unary), make(name)(unary))


def test_a_compiled_layer_runs_at_every_size_and_with_evidence(dynamo: Any) -> None:
    layer = make("smokers")
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for n in (5, 6, 40):
        unary = example("smokers", 2, n, seed=n)
        check(compiled(unary), layer(unary))
    friends = torch.eye(6, dtype=torch.bool)
    smokes = example("smokers", 2, 6)["S"]
    check({"S": compiled({"S": smokes}, {"F": friends})["S"]}, layer({"S": smokes}, {"F": friends}))


def compiled(layer: LogicMP, **options: Any) -> tuple[Any, CompileCounterWithBackend]:
    """A compiled layer, and the counter of its compilations."""
    counter = CompileCounterWithBackend("eager")
    return torch.compile(layer, backend=counter, fullgraph=True, **options), counter


@pytest.mark.parametrize("dynamic, n_graphs", [(None, 2), (True, 1)])
def test_one_graph_serves_every_size(dynamo: Any, dynamic: bool | None, n_graphs: int) -> None:
    layer = make("smokers")
    run, counter = compiled(layer, dynamic=dynamic)
    # more sizes than torch compiles graphs for one function; by default the first graph is for the first size alone
    for n in (5, 6, 7, 9, 12, 17, 23, 31, 40, 64):
        unary = example("smokers", 2, n, seed=n)
        check(run(unary), layer(unary))
    assert counter.frame_count == n_graphs


def test_one_graph_serves_every_size_with_labels_and_padding(dynamo: Any) -> None:
    layer = make("chain")
    run, counter = compiled(layer)
    for n in (5, 6, 9, 17):
        unary, mask = example("chain", 2, n, seed=n), torch.ones(2, n, dtype=torch.bool)
        mask[0, -1] = False
        labels = {"label": torch.arange(2 * n).reshape(2, n) % 4 - 1}
        check(run(unary, labels, mask), layer(unary, labels, mask))
    assert counter.frame_count == 2


@pytest.mark.slow
def test_a_plan_that_depends_on_the_sizes_is_compiled_for_each(dynamo: Any) -> None:
    layer = LogicMP("t = {A, B}\nP(t, t)\nC(s)\n1 EXIST u (P(u, x) ^ P(x, u) ^ P(A, u)) v C(y)", iterations=1).eval()
    run, counter = compiled(layer)
    for n in (5, 6):
        unary = {"P": torch.randn(2, 2, 2), "C": torch.randn(2, n)}
        check(run(unary), layer(unary))
    assert counter.frame_count == 2
    assert not layer._solver.plans.open


def test_compiling_prints_no_warning(dynamo: Any, capfd: pytest.CaptureFixture[str]) -> None:
    run, _ = compiled(make("transitivity"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (5, 6, 7):
            run(example("transitivity", 2, n))
    assert capfd.readouterr() == ("", "")


def test_copies_and_pickles_of_a_layer_compile(dynamo: Any) -> None:
    layer = make("transitivity")
    unary = example("transitivity", 2, 5)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        check(torch.compile(other, backend="aot_eager", fullgraph=True)(unary), layer(unary))


def test_a_compiled_layer_trains(dynamo: Any) -> None:
    layer, other = make("exists"), make("exists")
    unary = example("exists", 2, 5)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for run in (compiled, other):
        sum(x.square().sum() for x in run(unary).values()).backward()
    for one, two in zip(layer.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_inductor_gives_the_same(dynamo: Any, name: str) -> None:
    layer = make(name)
    unary = example(name, 2, 5)
    want = layer(unary)
    check(torch.compile(layer, fullgraph=True)(unary), want)


# export


@pytest.mark.parametrize("name", SHAPES)
def test_an_exported_layer_runs_at_other_sizes(name: str) -> None:
    layer = make(name)
    program = torch.export.export(layer, (example(name, 3, 6),), dynamic_shapes=(dynamic(name),)).module()
    for batch, n in ((1, 4), (5, 9)):
        unary = example(name, batch, n, seed=n)
        check(program(unary), layer(unary))


def run_onnx(name: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    layer = make(name)
    program = torch.onnx.export(layer, (), kwargs={"unary": example(name, 3, 6)}, dynamo=True, verbose=False,
                                dynamic_shapes={"unary": dynamic(name)})
    session = runtime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for batch, n in ((1, 4), (5, 9)):
        unary = example(name, batch, n, seed=n)
        given = {i.name: x.numpy() for i, x in zip(session.get_inputs(), unary.values(), strict=True)}
        got = dict(zip(unary, map(torch.tensor, session.run(None, given)), strict=True))
        check(got, layer(unary), 1e-4)


@pytest.mark.parametrize("name", ["transitivity", "smokers"])
def test_onnxruntime_gives_the_same_at_other_sizes(name: str) -> None:
    run_onnx(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["symmetric", "chain", "exists"])
def test_onnxruntime_gives_the_same_for_other_rules(name: str) -> None:
    run_onnx(name)


# autocast


@pytest.mark.parametrize("name", SHAPES)
def test_autocast_stays_close(name: str) -> None:
    layer = make(name)
    unary = example(name, 2, 6)
    want = layer(unary)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = layer(unary)
    check({key: x.float() for key, x in got.items()}, want, 0.1)
    assert all(x.isfinite().all() for x in got.values())


def test_training_under_autocast_gives_finite_gradients() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), LogicMP(TRANSITIVITY))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.ones(2, 6, 6)).float().square().mean()
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


# several threads


def test_calls_from_eight_threads_give_what_calls_in_turn_give() -> None:
    sizes = (2, 3, 4, 5, 7, 9, 12, 17)
    unary = [example("smokers", 1, sizes[k % len(sizes)], seed=k) for k in range(200)]
    want = [make("smokers")(x) for x in unary]
    # a fresh layer: eight threads plan at once
    layer = make("smokers")

    def run(thread: int) -> int:
        for k in range(200):
            at = (k + 25 * thread) % 200
            check(layer(unary[at]), want[at], 0)
        return thread

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(8))) == list(range(8))


# several processes


def logits_and_gradient(layer: LogicMP, unary: dict[str, Tensor]) -> dict[str, Tensor]:
    """What a spawned process does: a call and its gradient."""
    torch.set_num_threads(1)
    out = layer(unary)
    sum(x.square().sum() for x in out.values()).backward()
    return {**{name: x.detach() for name, x in out.items()}, "w": next(layer.parameters()).grad}


def test_a_layer_runs_in_a_spawned_process() -> None:
    layer = make("smokers")
    unary = [example("smokers", 2, n, seed=n) for n in (4, 6)]
    # a layer that has been called, with its plans
    layer(unary[0])
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(logits_and_gradient, [layer, layer], unary))
    for got, x in zip(found, unary, strict=True):
        check(got, logits_and_gradient(copy.deepcopy(layer), x))


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 5), LogicMP(TRANSITIVITY, iterations=2)).double()


def batch_of_four() -> Tensor:
    return torch.randn(4, 5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def one_of_two(rank: int, folder: str) -> None:
    """What each process does: its half of the batch, gradients averaged over both."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2,
                                         timeout=timedelta(seconds=60))
    try:
        model = torch.nn.parallel.DistributedDataParallel(network())
        model(batch_of_four()[2 * rank : 2 * rank + 2]).square().mean().backward()
        torch.save([p.grad for p in model.parameters()], f"{folder}/gradients{rank}")
        # neither leaves while the other may still talk to it
        torch.distributed.barrier()
    finally:
        torch.distributed.destroy_process_group()


def test_two_processes_average_to_the_gradients_of_the_whole_batch(tmp_path: Path,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    torch.multiprocessing.spawn(one_of_two, (str(tmp_path),), nprocs=2)
    model = network()
    model(batch_of_four()).square().mean().backward()
    for rank in range(2):
        got = torch.load(tmp_path / f"gradients{rank}", weights_only=True)
        for gradient, parameter in zip(got, model.parameters(), strict=True):
            torch.testing.assert_close(gradient, parameter.grad, rtol=1e-9, atol=1e-12)


def test_a_plan_that_depends_on_the_sizes_is_not_exported_with_open_ones() -> None:
    # atoms meet across the values of u, so the quantifier is written out over all constants
    layer = LogicMP("t = {A, B}\nP(t, t)\nC(s)\n1 EXIST u (P(u, x) ^ P(x, u) ^ P(A, u)) v C(y)").eval()
    unary = {"P": torch.randn(2, 2, 2), "C": torch.randn(2, 5)}
    n = torch.export.Dim("n", min=2)
    with pytest.raises(LogicMPError, match="depends on the sizes"):
        torch.export.export(layer, (unary,), dynamic_shapes=({"P": {}, "C": {1: n}},), strict=False)


@pytest.mark.parametrize("rules", ["2 C(a,b) ^ C(b,c) => C(a,c)",
                                   "label(token) in {A, B, C}\n1 label(i) in {A, B} => label(i+1) in {B, C}"])
def test_inference_mode_before_training(rules: str) -> None:
    logits = torch.randn(3, 3)

    def gradient(layer: LogicMP) -> torch.Tensor:
        x = logits.clone().requires_grad_()
        layer(x).sum().backward()
        assert x.grad is not None
        return x.grad

    layer = LogicMP(rules)
    with torch.inference_mode():
        layer(logits)
    assert torch.equal(gradient(layer), gradient(LogicMP(rules)))


def test_function_transforms_give_what_autograd_gives() -> None:
    torch.manual_seed(0)
    layer = LogicMP("2 C(a,b) ^ C(b,c) => C(a,c)", dtype=torch.float64)
    logits = torch.randn(4, 3, 3, dtype=torch.float64)
    weights = {name: weight.detach() for name, weight in layer.named_parameters()}

    def loss(weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(torch.func.functional_call(layer, weights, (x,)).square().sum())

    # a gradient for each item of a batch, as in differentially private training
    by_item = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, logits)["raw_weights.0"]
    for x, found in zip(logits, by_item, strict=True):
        expected, = torch.autograd.grad(layer(x).square().sum(), list(layer.parameters()))
        assert torch.allclose(found, expected)
    push = torch.randn(3, 3, dtype=torch.float64)
    forward = torch.func.jvp(layer, (logits[0],), (push,))[1]
    backward = torch.autograd.functional.jvp(layer, logits[0], push)[1]
    assert torch.allclose(forward, backward)
