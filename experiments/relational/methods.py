"""Every row of the table: a function from a split to the log-odds of its queries.

    logicmp             inference alone: a constant log-odds for every atom, all groundings, damped updates
    logicmp+weights     rule weights and one bias per predicate, learned through the iterations on the other splits
    logicmp+embedding   a vector per constant, taught by LogicMP's output (posterior regularization)
    logicmp+gnn         the same with a graph network
    gs                  the graph network trained on sampled groundings (ExpressGNN with grounding scores)
    expressgnn          the graph network fitted to the facts alone
    gibbs, bp, ...      the classical methods of `infer`, under a time limit

No choice looks at a split's own queries: settings come from the other splits (`settings.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from sklearn.metrics import average_precision_score
from torch import Tensor, nn

from logicmp import LogicMP, LogicMPError
from logicmp.ground import World
from logicmp.infer import method_class
from logicmp.infer.base import Problem
from logicmp.normalize.clauses import to_clauses
from logicmp.parse.syntax import Atom, Constant, Not, Variable

from .data import Split, load_split, others
from .encoders import Embedding, Encoder, Graph

CLASSICAL = ("gibbs", "mc-sat", "bp", "lifted-bp", "hl-mrf")


@dataclass(frozen=True)
class Context:
    """What a run may use besides its split."""

    seed: int = 0
    max_seconds: float = 600.0
    data: str | None = None
    settings: Mapping[str, Any] | None = None
    # told (what, done, total), and the average precision of the test split for learning curves, which nothing reads
    progress: Callable[[str, int, int], None] = lambda what, done, total: None
    curve: Callable[[Tensor], None] = lambda scores: None

    def get(self, name: str, default: Any) -> Any:
        return (self.settings or {}).get(name, default)


def average_precision(split: Split, scores: Tensor) -> float:
    """scikit-learn's average precision over all queries of a split, predicates pooled."""
    return float(average_precision_score(split.truth, scores.detach().double().numpy()))


# inference alone


def layer_for(world: World, scale: float = 1.0, iterations: int = 20, damping: float = 0.5, reduce: str = "sum",
              ) -> LogicMP:
    """The layer with all weights at one value."""
    rules = tuple(rule if rule.is_hard else replace(rule, weight=scale) for rule in world.theory.rules)
    return LogicMP(replace(world.theory, rules=rules), iterations, damping, sizes=world.sizes, reduce=reduce,
                   learn_weights=False)


def run_logicmp(split: Split, context: Context) -> Tensor:
    unary, evidence = split.world.tensors(torch.float32)
    layer = layer_for(split.world, context.get("scale", 0.3), context.get("iterations", 15),
                      context.get("damping", 0.5), context.get("reduce", "sum"))
    bias = context.get("bias", -1.5)
    with torch.no_grad():
        return split.pick(layer.run({name: x + bias for name, x in unary.items()}, evidence))


# weights from the other splits


class Weighted(nn.Module):
    """A weight for each rule and a bias for each predicate, shared by all splits of a data set."""

    def __init__(self, split: Split, weight: float, bias: float):
        super().__init__()
        self.weight = nn.Parameter(torch.full((len(split.theory.rules),), weight))
        self.bias = nn.Parameter(torch.full((len(split.theory.predicates),), bias))
        self.place = {p.name: k for k, p in enumerate(split.theory.predicates)}


class SharedLayer(LogicMP):
    """The layer of one split, with the weights of `Weighted`."""

    def __init__(self, split: Split, shared: Weighted, iterations: int, damping: float, reduce: str):
        world = split.closed()
        super().__init__(world.theory, iterations, damping, sizes=world.sizes, reduce=reduce, learn_weights=False)
        # not a submodule: it belongs to all layers
        self.__dict__["shared"] = shared
        self.split = split
        self.unary, self.evidence = world.tensors(torch.float32)

    @property
    def weights(self) -> list[Tensor]:
        return list(self.__dict__["shared"].weight)

    def scores(self) -> Tensor:
        shared = self.__dict__["shared"]
        unary = {name: x + shared.bias[shared.place[name]] for name, x in self.unary.items()}
        return self.split.pick(self(unary, self.evidence))


def learn_weighted(train: list[Split], context: Context, watch: Callable[[int, Weighted], None] = lambda k, w: None
                   ) -> Weighted:
    """Cross-entropy of the queries of some splits, by gradient through the iterations."""
    torch.manual_seed(context.seed)
    shared = Weighted(train[0], context.get("weight", 0.3), context.get("bias", -1.5))
    layers = [SharedLayer(s, shared, context.get("iterations", 5), context.get("damping", 0.5),
                          context.get("reduce", "sum")) for s in train]
    steps = context.get("steps", 150)
    optimizer = torch.optim.Adam(shared.parameters(), lr=context.get("rate", 0.05))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    positive = torch.tensor(context.get("positive", 5.0))
    start = time.monotonic()
    for step in range(steps):
        optimizer.zero_grad()
        for layer in layers:
            truth = torch.from_numpy(layer.split.truth).float()
            loss = nn.functional.binary_cross_entropy_with_logits(layer.scores(), truth, pos_weight=positive)
            prior = context.get("prior", 1e-3) * shared.weight.square().sum()
            ((loss + prior) / len(layers)).backward()
        nn.utils.clip_grad_norm_(shared.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        watch(step, shared)
        context.progress("learning weights", step + 1, steps)
        if time.monotonic() - start > context.max_seconds:
            break
    return shared


def run_weights(split: Split, context: Context) -> Tensor:
    train = [load_split(name, context.data) for name in others(split.name)]
    own = None

    def watch(step: int, shared: Weighted) -> None:
        nonlocal own
        if step % 10 == 9:
            own = own or scorer(split, shared, context)
            with torch.no_grad():
                context.curve(own.scores())

    shared = learn_weighted(train, context, watch)
    with torch.no_grad():
        return scorer(split, shared, context).scores()


def scorer(split: Split, shared: Weighted, context: Context) -> SharedLayer:
    return SharedLayer(split, shared, context.get("iterations", 5), context.get("damping", 0.5),
                       context.get("reduce", "sum"))


# networks


def train_encoder(encoder: Encoder, split: Split, context: Context, loss_of: Callable[[dict[str, Tensor]], Tensor]
                  ) -> Tensor:
    """Adam on a loss of the log-odds of all atoms; the encoder alone is evaluated."""
    steps = context.get("steps", 200)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=context.get("rate", 5e-3))
    start = time.monotonic()
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(encoder()).backward()
        optimizer.step()
        context.progress("training", step + 1, steps)
        if step % 10 == 9:
            with torch.no_grad():
                context.curve(split.pick(encoder()))
        if time.monotonic() - start > context.max_seconds:
            break
    with torch.no_grad():
        return split.pick(encoder())


def _fit(split: Split) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """How well the facts are predicted, the mean over predicates that have some."""
    known = {name: torch.from_numpy(values) for name, values in split.world.values.items() if (values != -1).any()}

    def loss(logits: Mapping[str, Tensor]) -> Tensor:
        parts = [nn.functional.binary_cross_entropy_with_logits(logits[name][x != -1], x[x != -1].float())
                 for name, x in known.items()]
        return torch.stack(parts).mean()

    return loss


def _distilled(kind: type[Encoder]) -> Callable[[Split, Context], Tensor]:
    def run(split: Split, context: Context) -> Tensor:
        torch.manual_seed(context.seed)
        encoder = kind(split.world, context.get("dim", 128))
        _, evidence = split.world.tensors(torch.float32)
        layer = layer_for(split.world, context.get("scale", 0.3), 5, context.get("damping", 0.0),
                          context.get("reduce", "sum"))
        fit, bias, limit = _fit(split), context.get("bias", -1.5), context.get("limit", 8.0)

        def loss(logits: dict[str, Tensor]) -> Tensor:
            with torch.no_grad():
                # LogicMP's output is the target, and no gradient goes through it (App. "Details of Our Method")
                target = layer.run({name: logits[name] + bias for name in logits if name not in evidence
                                    or evidence[name].dtype != torch.bool}, evidence)
            parts = [(logits[name] - x.clamp(-limit, limit)).square().mean() for name, x in target.items()]
            return torch.stack(parts).mean() + fit(logits)

        return train_encoder(encoder, split, context, loss)

    return run


def run_expressgnn(split: Split, context: Context) -> Tensor:
    torch.manual_seed(context.seed)
    fit = _fit(split)
    return train_encoder(Graph(split.world, context.get("dim", 128)), split, context, fit)


@dataclass(frozen=True)
class _Clause:
    """A clause as literals (predicate, sign, argument places), and the types of its variables."""

    literals: list[tuple[str, bool, list[tuple[str, int]]]]
    types: list[str]


def _clauses(split: Split) -> list[_Clause]:
    found = []
    for rule in split.theory.rules:
        (clause,) = to_clauses(rule, 1)
        names = list(rule.variables)
        literals = []
        for part in clause:
            atom = part.body if isinstance(part, Not) else part
            assert isinstance(atom, Atom)
            places = []
            for arg in atom.args:
                if isinstance(arg, Constant):
                    places.append(("constant", split.theory.index(arg.type, arg.name)))
                else:
                    assert isinstance(arg, Variable)
                    places.append(("variable", names.index(arg.name)))
            literals.append((atom.predicate, not isinstance(part, Not), places))
        found.append(_Clause(literals, [rule.variables[name] for name in names]))
    return found


def run_gs(split: Split, context: Context) -> Tensor:
    """Sampled groundings, with a chance of 0.9 one atom anchored on a fact; their expected truth is maximized."""
    torch.manual_seed(context.seed)
    world, batch = split.world, context.get("batch", 256)
    clauses, fit = _clauses(split), _fit(split)
    facts = {name: torch.from_numpy(values == 1).nonzero() for name, values in world.values.items()}
    known = {name: torch.from_numpy(values) for name, values in world.values.items()}
    encoder = Graph(world, context.get("dim", 128))

    def sample(clause: _Clause) -> Tensor:
        rows = torch.stack([torch.randint(world.sizes[t], (batch,)) for t in clause.types], 1)
        anchors = [(name, places) for name, _, places in clause.literals if len(facts[name])]
        if anchors:
            name, places = anchors[int(torch.randint(len(anchors), ()))]
            chosen = facts[name][torch.randint(len(facts[name]), (batch,))]
            is_anchored = torch.rand(batch) < 0.9
            for k, (kind, place) in enumerate(places):
                if kind == "variable":
                    rows[:, place] = torch.where(is_anchored, chosen[:, k], rows[:, place])
        return rows

    def loss(logits: dict[str, Tensor]) -> Tensor:
        q = {}
        for name, x in logits.items():
            p = torch.sigmoid(x)
            q[name] = torch.where(known[name] == -1, p, known[name].to(p))
        total = []
        for clause in clauses:
            rows = sample(clause)
            false = torch.ones(batch)
            for name, positive, places in clause.literals:
                at = tuple(rows[:, place] if kind == "variable" else torch.full((batch,), place)
                           for kind, place in places)
                p = q[name][at]
                false = false * (1 - p if positive else p)
            total.append(false.mean())
        return torch.stack(total).mean() * context.get("rules", 10.0) + fit(logits)

    return train_encoder(encoder, split, context, loss)


# the classical methods


def _classical(name: str) -> Callable[[Split, Context], Tensor]:
    def run(split: Split, context: Context) -> Tensor:
        solver = method_class(name).make({"max_seconds": context.max_seconds,
                                          "max_groundings": context.get("max_groundings", 20_000_000)})
        solution = solver.solve(Problem(split.world, seed=context.seed, progress=context.progress))
        odds = {predicate: torch.from_numpy(solution.log_odds[predicate]) for predicate in split.queries}
        return split.pick(odds).nan_to_num(nan=0.0, posinf=1e3, neginf=-1e3)

    return run


METHODS: dict[str, Callable[[Split, Context], Tensor]] = {
    "logicmp": run_logicmp,
    "logicmp+weights": run_weights,
    "logicmp+embedding": _distilled(Embedding),
    "logicmp+gnn": _distilled(Graph),
    "gs": run_gs,
    "expressgnn": run_expressgnn,
    **{name: _classical(name) for name in CLASSICAL},
}
# the same whatever the seed
DETERMINISTIC = ("logicmp", "bp", "lifted-bp", "hl-mrf", "logicmp+weights")


def run_method(name: str, split: Split, context: Context) -> Tensor:
    if name not in METHODS:
        raise LogicMPError(f"unknown method {name!r}", f"methods: {', '.join(METHODS)}")
    return METHODS[name](split, context)
