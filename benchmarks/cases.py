"""All cases, with their sizes, baselines and targets.

    forward       transitivity, forward                      the layer, the paper's listing, matrix products
    ...
    loading       files of 20,000 rules and 160,000 facts    load_theory, load_facts, regular expressions
    infer         the five splits of UW-CSE                  marginals from files, in one process and by command

Targets are for 2 CPU cores in float32; at other sizes a ratio has no target. `case.py` defines a case; `files.py` has
the cases that start from files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from logicmp import LogicMP, LogicMPError, Theory, parse_facts, parse_theory
from logicmp.execute.state import Call, Values

from .baselines import EinsumPerImplication, matrix_products, paper_code, two_channels
from .case import Case, Options, Ratio, Task, Unavailable
from .files import infer_tasks, loading_tasks
from .measure import Side, interleave, median

ITERATIONS = 5
TRANSITIVITY = "1 C(a,b) ^ C(b,c) => C(a,c)"
SYMMETRIC = f"symmetric C(token, token)\n{TRANSITIVITY}"
EXACT, PAPER, LISTING, PRODUCTS, EINSUM = "layer", "layer, paper semantics", "paper's listing", "products", "einsum"
COMPILED = "layer, torch.compile"


# transitivity


def _logits(batch: int, n: int, dtype: torch.dtype = torch.float32, symmetric: bool = False) -> Tensor:
    """Random logits [batch, n, n], the same in every call."""
    x = 2 * torch.randn(batch, n, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return ((x + x.mT) / 2 if symmetric else x).to(dtype)


def _layers(text: str = TRANSITIVITY) -> dict[str, LogicMP]:
    return {EXACT: LogicMP(text, ITERATIONS, schedule="paper"),
            PAPER: LogicMP(text, ITERATIONS, semantics="paper", schedule="paper")}


def _forward(run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with torch.no_grad():
        return run(x)


def _backward(run: Callable[[Tensor], Tensor], x: Tensor, weight: Tensor, slope: Tensor) -> tuple[Tensor, ...]:
    """Run forward, and return the gradients of the logits and of the rule's weight."""
    return torch.autograd.grad(run(x), (x, weight), slope)


def _listing(weight: Tensor) -> Callable[[Tensor], Tensor]:
    return partial(paper_code, weight=weight, iterations=ITERATIONS)


def _pair_weight(n: int, symmetric: bool, dtype: torch.dtype) -> Tensor:
    """The weight for which the listing equals the layer: a symmetric pair gets the messages of both its orders."""
    return (2 - torch.eye(n, dtype=dtype)) if symmetric else torch.ones((), dtype=dtype)


def _check_transitivity(text: str, batch: int, n: int, symmetric: bool, gradients: bool) -> float:
    """Difference between the layer with `semantics="paper"` and the listing, in float64."""
    layer = LogicMP(text, ITERATIONS, semantics="paper", schedule="paper").double()
    x = _logits(batch, n, torch.float64, symmetric).requires_grad_(gradients)
    channels = two_channels(x.detach()).requires_grad_(gradients)
    listing = _listing(_pair_weight(n, symmetric, torch.float64))
    if not gradients:
        with torch.no_grad():
            return _difference(layer(x), listing(channels)[..., 1])
    slope = _logits(batch, n, torch.float64, symmetric)
    got, want = layer(x), listing(channels)
    worst = _difference(got, want[..., 1])
    (dx,) = torch.autograd.grad(got, x, slope)
    (d_channels,) = torch.autograd.grad(want, channels, two_channels(slope))
    return max(worst, _difference(dx, d_channels[..., 1]))


def _difference(got: Tensor, want: Tensor) -> float:
    with torch.no_grad():
        return float((got - want).abs().max() / want.abs().max().clamp_min(1))


def _transitivity(n: int, options: Options, *, gradients: bool, batches: tuple[int, ...], faster: Mapping[int, float],
                  within: Mapping[int, float] | None = None, symmetric: bool = False) -> Iterator[Task]:
    text = SYMMETRIC if symmetric else TRANSITIVITY
    for batch in batches:
        x = _logits(batch, n, symmetric=symmetric)
        sides = _transitivity_sides(text, x, gradients)
        ratios = [Ratio(of, LISTING, at_least=faster.get(n)) for of in (EXACT, PAPER)]
        if within is not None:
            products = 9 if gradients else 3
            name = f"{products} {PRODUCTS}"
            q = torch.sigmoid(x)
            sides[name] = partial(_forward, partial(matrix_products, iterations=ITERATIONS, per_iteration=products), q)
            ratios += [Ratio(of, name, at_most=within.get(n), is_share=True) for of in (EXACT, PAPER)]
        yield Task(f"N={n} B={batch}", sides, partial(_check_transitivity, text, batch, n, symmetric, gradients),
                   tuple(ratios))


def _transitivity_sides(text: str, x: Tensor, gradients: bool) -> dict[str, Side]:
    weight = torch.ones(())
    channels = two_channels(x)
    layers = _layers(text)
    if not gradients:
        return {**{name: partial(_forward, layer, x) for name, layer in layers.items()},
                LISTING: partial(_forward, _listing(weight), channels)}
    x, channels, weight = (tensor.clone().requires_grad_() for tensor in (x, channels, weight))
    slope = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    slopes = two_channels(slope)
    return {**{name: partial(_backward, layer, x, layer.raw_weights[0], slope) for name, layer in layers.items()},
            LISTING: partial(_backward, _listing(weight), channels, weight, slopes)}


def _compiled(n: int, options: Options) -> Iterator[Task]:
    x = _logits(1, n)
    layer = LogicMP(TRANSITIVITY, ITERATIONS, schedule="paper")
    compiled = torch.compile(LogicMP(TRANSITIVITY, ITERATIONS, schedule="paper"), fullgraph=True)
    sides = {EXACT: partial(_forward, layer, x), COMPILED: partial(_forward, compiled, x),
             LISTING: partial(_forward, _listing(torch.ones(())), two_channels(x))}

    def check() -> float:
        # in float32, because float64 would be compiled for the check alone; 1e-6 is to float32 what 1e-9 is to float64
        return 1e-3 * _difference(_forward(compiled, x), _forward(layer, x))

    yield Task(f"N={n} B=1", sides, check,
               (Ratio(COMPILED, LISTING, at_least={128: 5.0}.get(n)), Ratio(COMPILED, EXACT)))


def _memory(n: int, options: Options) -> Iterator[Task]:
    batch = 4
    sides = _transitivity_sides(TRANSITIVITY, _logits(batch, n), gradients=True)
    target = 0.5 if n == 512 else None
    yield Task(f"N={n} B={batch}", sides, partial(_check_transitivity, TRANSITIVITY, batch, n, False, True),
               tuple(Ratio(of, LISTING, at_most=target, is_share=True) for of in (EXACT, PAPER)), measures="memory")


# relational data sets


@dataclass(frozen=True)
class _DataSet:
    theory: Theory
    # [n_1, ..., n_k] by predicate: 1 for a true fact, 0 for a false fact and for atoms without one
    evidence: dict[str, Tensor]
    # the queried predicates
    queries: tuple[str, ...]

    @property
    def sizes(self) -> dict[str, int]:
        return self.theory.sizes


def load_data_set(folder: Path) -> _DataSet:
    """Load the rules, facts and queries of an ExpressGNN folder; `+w` is read as a plain variable."""
    if not folder.is_dir():
        raise Unavailable(f"folder {str(folder)!r} does not exist")
    text = {name: (folder / name).read_text() for name in ("predicates", "rules", "facts", "queries")}
    rules = re.sub(r"\+(?=\w)", "", text["rules"])
    facts = parse_facts(text["facts"], parse_theory(f"{text['predicates']}\n{rules}", str(folder)))
    queries = parse_facts(text["queries"], facts.theory)
    theory = queries.theory
    evidence = {}
    for predicate in theory.predicates:
        tensor = torch.zeros([theory.sizes[t] for t in predicate.types], dtype=torch.float64)
        table = facts.tables.get(predicate.name)
        if table is not None:
            for args, value in zip(table.args, table.values, strict=True):
                at = tuple(theory.index(t, arg) for t, arg in zip(predicate.types, args, strict=True))
                tensor[at] = value
        evidence[predicate.name] = tensor
    return _DataSet(theory, evidence, tuple(queries.tables))


def _marginals(data: _DataSet, latent: tuple[str, ...]) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {name: torch.rand(tensor.shape, generator=generator, dtype=torch.float64) if name in latent else tensor
            for name, tensor in data.evidence.items()}


class _Iteration:
    """One iteration of the layer's plan: all messages to the latent predicates; constants are computed before."""

    def __init__(self, data: _DataSet, latent: tuple[str, ...], q: Mapping[str, Tensor], semantics: str):
        layer = LogicMP(data.theory, semantics=semantics, learn_weights=False)
        observed = tuple(name for name in q if name not in latent)
        self.executor = layer.executor(data.sizes, observed)
        batched = {name: tensor.unsqueeze(0) for name, tensor in q.items()}
        self.q = {name: batched[name] for name in latent}
        like = next(iter(batched.values()))
        self.call = Call([weight.to(like.dtype) for weight in layer.weights], data.sizes, like,
                         observed={name: batched[name] for name in observed})
        self.constants = self.once()

    def once(self) -> Values:
        with torch.no_grad():
            return self.executor.constants(self.call)

    def run(self) -> dict[str, Tensor]:
        with torch.no_grad():
            return self.executor.messages(self.q, self.call, self.constants)


def _run_einsum(einsum: EinsumPerImplication, q: Mapping[str, Tensor]) -> dict[str, Tensor]:
    with torch.no_grad():
        return einsum.messages(q)


def _check_relational(data: _DataSet, latent: tuple[str, ...]) -> float:
    """Difference between the layer's messages (`semantics="paper"`) and one einsum per implication, in float64."""
    q = _marginals(data, latent)
    got = _Iteration(data, latent, q, "paper").run()
    want = EinsumPerImplication(data.theory, data.sizes, latent).messages(q)
    # messages push against violations, so the layer subtracts them
    return max(_difference(-got[name].squeeze(0), want[name]) for name in latent)


def _relational(n: int, options: Options, *, closed: bool, targets: Mapping[str, float]) -> Iterator[Task]:
    for name, target in targets.items():
        data = load_data_set(options.data_folder / "relational" / name)
        latent = data.queries if closed else tuple(data.evidence)
        q = {key: tensor.float() for key, tensor in _marginals(data, latent).items()}
        layers = {EXACT: _Iteration(data, latent, q, "exact"), PAPER: _Iteration(data, latent, q, "paper")}
        einsum = EinsumPerImplication(data.theory, data.sizes, latent)
        sides: dict[str, Side] = {side: iteration.run for side, iteration in layers.items()}
        sides[EINSUM] = partial(_run_einsum, einsum, q)
        yield Task(name, sides, partial(_check_relational, data, latent),
                   tuple(Ratio(of, EINSUM, at_least=target) for of in (EXACT, PAPER)),
                   notes=partial(_relational_notes, layers, einsum, closed))


def _relational_notes(layers: Mapping[str, _Iteration], einsum: EinsumPerImplication, closed: bool,
                      medians: Mapping[str, float]) -> dict[str, str]:
    notes = {}
    for side, iteration in layers.items():
        cost = iteration.executor.plan.cost
        notes[f"{side}: plan"] = (f"{cost.steps_each} steps, {cost.each:.3g} multiply-adds per iteration"
                                  + (f"; once per call {cost.steps_once} steps, {cost.once:.3g}" if closed else ""))
        notes[f"{side}: groundings per second"] = f"{cost.groundings / medians[side]:.3g}"
        if closed:
            once = median(interleave({side: iteration.once}, 3)[side])
            notes[f"{side}: constants, once per call"] = f"{once * 1e3:.3g} ms"
    groundings = layers[PAPER].executor.plan.cost.groundings
    notes["groundings"] = f"{groundings:.4g}"
    notes[f"{EINSUM}: implications"] = str(len(einsum.implications))
    notes[f"{EINSUM}: groundings per second"] = f"{groundings / medians[EINSUM]:.3g}"
    return notes


CASES = {case.name: case for case in (
    Case("forward", "transitivity, forward; baselines: the paper's listing, 3 products per iteration", (512,),
         partial(_transitivity, gradients=False, batches=(1, 4), faster={512: 2.7, 128: 5}, within={512: 1.2})),
    Case("backward", "transitivity, forward and backward; baselines: the listing, 9 products per iteration", (512,),
         partial(_transitivity, gradients=True, batches=(1, 4), faster={512: 2}, within={512: 1.3})),
    Case("symmetric-forward", "transitivity of a symmetric predicate, forward; baseline: the listing", (512,),
         partial(_transitivity, gradients=False, batches=(1, 4), faster={512: 7}, symmetric=True)),
    Case("symmetric-backward", "the same, forward and backward", (512,),
         partial(_transitivity, gradients=True, batches=(1, 4), faster={512: 5}, symmetric=True)),
    Case("small", "transitivity, forward, at a size where the overhead per step matters", (128,),
         partial(_transitivity, gradients=False, batches=(1, 4), faster={512: 2.7, 128: 5})),
    Case("compiled", "transitivity, forward, the layer under torch.compile; baselines: the listing, the layer",
         (32, 128), _compiled),
    Case("memory", "peak memory of transitivity, forward and backward; baseline: the listing", (512,), _memory),
    Case("open-world", "one iteration of relational rules, no evidence; baseline: one einsum per implication",
         (), partial(_relational, closed=False, targets={"uw_cse/ai": 1.7, "cora/S1": 1.7})),
    Case("evidence", "the same, only the queried predicates unobserved", (),
         partial(_relational, closed=True, targets={"uw_cse/ai": 4, "cora/S1": 1.5})),
    Case("loading", "a file of many rules, and one of many facts; baseline: regular expressions without checks",
         (20_000,), loading_tasks),
    Case("infer", "probabilities of advisedBy in the splits of UW-CSE, from files, closed and open world", (),
         infer_tasks),
)}


def find_cases(names: list[str]) -> list[Case]:
    """The cases with these names; all cases if `names` is empty."""
    for name in names:
        if name not in CASES:
            raise LogicMPError(f"unknown case {name!r}", f"available cases: {', '.join(CASES)}")
    return [CASES[name] for name in names] if names else list(CASES.values())
