"""Tables and circuits against enumeration: probabilities, losses, answers and gradients; and which of them is used."""

from __future__ import annotations

import copy
import pickle
import random
import sys
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor
from worlds import all_assignments, to_tensors

from logicmp import SPL, CostError, LogicMP, LogicMPError, SemanticLoss, Theory, compile_rules, oracle, parse_theory
from logicmp.constrain.cnf import as_constraints, build_cnf
from logicmp.constrain.compile import compile_cnf
from logicmp.constrain.plans import CircuitPlan, ConstraintPlans, TablePlan
from logicmp.execute.exact_run import ExactRun, Part, _patterns, read_labels
from logicmp.execute.inputs import Inputs, read_inputs
from logicmp.testing.random_models import random_model
from logicmp.testing.random_theories import ALL

OPTIONS = {"max_seconds": 60.0, "max_nodes": 100_000}
TRANSITIVITY = "C(a,b) ^ C(b,c) => C(a,c)"
TREE = "*parent(label, label)\nL(label)\nparent(c, p) ^ L(c) => L(p)."
LABELS = "label(token) in {O, B, I}\nlabel(i) in {O} => label(i+1) in {O, B}"


class Enumeration:
    """All worlds that satisfy the constraints and agree with the evidence, straight from the definition."""

    def __init__(self, theory: Theory, unary: Mapping[str, Tensor], evidence: Mapping[str, Tensor]):
        self.theory, self.unary = theory, unary
        worlds = [to_tensors(theory, assignment) for assignment in all_assignments(theory)]
        self.all = [world for world in worlds if self.agrees(world, evidence)]
        self.worlds = [world for world in self.all if self.satisfies(world)]

    @staticmethod
    def agrees(world: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> bool:
        return all(bool((x.isnan() | (x == world[name])).all()) for name, x in given.items())

    def satisfies(self, world: dict[str, Tensor]) -> bool:
        try:
            oracle.log_partition(self.theory, evidence=world)
        except LogicMPError:
            return False
        return True

    def scores(self, worlds: list[dict[str, Tensor]]) -> Tensor:
        """The exponent of Eq. 1 without rules; the two atoms of a symmetric pair are one variable."""
        return torch.stack([torch.stack([
            ((self.unary[p.name] + self.unary[p.name].mT) / 2 * world[p.name]).triu().sum() if p.symmetric
            else (self.unary[p.name] * world[p.name]).sum() for p in self.theory.predicates]).sum()
            for world in worlds])

    def log_p(self) -> Tensor:
        return torch.logsumexp(self.scores(self.worlds), 0) - torch.logsumexp(self.scores(self.all), 0)

    def probabilities(self, name: str) -> Tensor:
        share = torch.softmax(self.scores(self.worlds), 0)
        return sum(p * world[name] for p, world in zip(share, self.worlds, strict=True))

    def loss(self, labels: Mapping[str, Tensor]) -> Tensor:
        agreeing = [world for world in self.worlds if self.agrees(world, labels)]
        return torch.logsumexp(self.scores(self.worlds), 0) - torch.logsumexp(self.scores(agreeing), 0)


def runs_of(theory: Theory, inputs: Inputs) -> list[ExactRun]:
    """The same input by tables and by a circuit."""
    ((_, known),) = _patterns(inputs)
    table = TablePlan(theory, inputs.sizes, known)
    plans = [table, CircuitPlan(compile_cnf(build_cnf(table.network), **OPTIONS))]
    return [ExactRun([Part(None, plan)], inputs, ()) for plan in plans]


def missing(rng: random.Random, world: Mapping[str, Tensor], evidence: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The labels of a world, about half of them."""
    found = {}
    for name, x in world.items():
        keep = torch.tensor([rng.random() < 0.5 for _ in range(x.numel())]).reshape(x.shape)
        if name not in evidence:
            found[name] = torch.where(keep, x, torch.nan)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_tables_and_circuits_equal_enumeration(seed: int) -> None:
    # seeds with symmetric predicates, whose labels may have either order: 60, 71, 75
    rng = random.Random(seed + 40)
    model = random_model(rng, max_ground=6, features=ALL - {"negative"})
    theory = as_constraints(model.theory)
    unary = {name: x.clone().requires_grad_() for name, x in model.unary.items()}
    inputs = read_inputs(theory, unary, model.evidence, None)
    want = Enumeration(theory, unary, model.evidence)
    if not want.worlds:
        with pytest.raises(LogicMPError):
            runs_of(theory, inputs)[0].each(lambda plan, own: {"": plan.log_p(own)})
        return
    leaves = list(unary.values())
    labels = missing(rng, rng.choice(want.worlds), {**inputs.observed, **inputs.evidence})
    mixed = {name: torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(0))
             for name, x in inputs.unary.items()}

    def check(found: Tensor, expected: Tensor) -> None:
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
        for a, b in zip(*(torch.autograd.grad(x.sum(), leaves, allow_unused=True, materialize_grads=True)
                          for x in (found, expected)), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-9)

    for run in runs_of(theory, inputs):
        check(run.each(lambda plan, own: {"": plan.log_p(own)})[""][0], want.log_p())
        q = run.each(lambda plan, own: plan.probabilities(own, ()))
        if q:
            check(torch.stack([(mixed[name] * x).sum() for name, x in q.items()]).sum(),
                  torch.stack([(mixed[name][0] * want.probabilities(name)).sum() for name in q]).sum())
        for name, x in q.items():
            torch.testing.assert_close(x[0], want.probabilities(name), rtol=0, atol=1e-9)
        check(run.loss(read_labels(theory, labels, inputs))[0], want.loss(labels))
        world = run.each(lambda plan, own: plan.best(own, ()))
        near = [one for one in want.worlds if all(torch.equal(one[name], x[0].double()) for name, x in world.items())]
        assert near
        with torch.no_grad():
            scores = want.scores(want.worlds)
            assert float(want.scores(near).max()) == pytest.approx(float(scores.max()), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_spl_equals_the_exact_layer(seed: int) -> None:
    model = random_model(random.Random(seed), max_ground=8, features=ALL - {"negative"})
    spl = SPL(model.theory)
    layer = LogicMP(spl.theory, method="exact", dtype=torch.float64)
    try:
        out = layer(model.unary, model.evidence)
    except LogicMPError:
        return
    found = spl(model.unary, model.evidence)
    for name, x in found.items():
        if not spl.theory.predicate[name].is_categorical:
            torch.testing.assert_close(x, out[name].sigmoid(), rtol=0, atol=1e-9)
    answer = spl.predict(model.unary, model.evidence)
    torch.testing.assert_close(answer, layer.decode(model.unary, model.evidence))
    torch.testing.assert_close(spl.loss(model.unary, answer, model.evidence),
                               layer.loss(model.unary, answer, model.evidence), rtol=0, atol=1e-9)


# which one is used


def plan_of(theory: str, sizes: dict[str, int], **options: object) -> object:
    return ConstraintPlans(as_constraints(theory), {**OPTIONS, **options}).part(sizes, {}).plan


def test_narrow_rules_use_tables_and_need_no_circuit(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pysdd", "pysdd.sdd"):
        monkeypatch.setitem(sys.modules, module, None)
    assert isinstance(plan_of(LABELS, {"token": 50}), TablePlan)
    # 182,782 cells, where a circuit would be smaller
    assert isinstance(plan_of(TRANSITIVITY, {"thing": 5}), TablePlan)
    with pytest.raises(LogicMPError, match=r"logicmp\[circuits\]"):
        plan_of(TRANSITIVITY, {"thing": 6})


def test_wide_rules_use_a_circuit_if_it_is_smaller() -> None:
    assert isinstance(plan_of(TRANSITIVITY, {"thing": 5}), CircuitPlan)
    # tables have fewer cells than this circuit may have products
    assert isinstance(plan_of(TRANSITIVITY, {"thing": 5}, max_nodes=100), TablePlan)


def test_rules_too_wide_for_both_say_so_with_numbers_and_ways_out() -> None:
    with pytest.raises(CostError, match=r"tables need more than 1,\d+,\d+ cells per item \(limit 1,048,576\), and the "
                       r"rules do not compile: \d+ nodes \(limit 100\)") as error:
        plan_of(TRANSITIVITY, {"thing": 6}, max_nodes=100)
    assert error.value.hint is not None and "give evidence" in error.value.hint and "SLrelax" in error.value.hint


def random_tree(n: int, seed: int = 0) -> Tensor:
    """parent[c, p] for labels in random order."""
    rng = random.Random(seed)
    order = list(range(n))
    rng.shuffle(order)
    parent = torch.zeros(n, n, dtype=torch.bool)
    for c in range(1, n):
        parent[order[c], order[rng.randrange(c)]] = True
    return parent


def test_a_tree_of_labels_uses_tables_after_the_evidence() -> None:
    evidence, logits = {"parent": random_tree(500)}, torch.randn(8, 500)
    spl = SPL(TREE, {"label": 500})
    run = spl.exact(logits, evidence)
    assert str(run).startswith("exact on 1 of 1 components: 500 variables")
    child, above = evidence["parent"].nonzero().T
    found, answer = spl(logits, evidence)["L"], spl.predict(logits, evidence)["L"]
    assert bool((found[:, child] <= found[:, above] + 1e-6).all())
    assert not bool((answer[:, child] & ~answer[:, above]).any())
    # one plan: the same evidence is looked up, not planned again
    assert spl.exact(logits, evidence).parts[0].plan is run.parts[0].plan


def test_evidence_of_each_item_is_an_own_plan_or_an_impossible_value() -> None:
    lists = "label(token) in {O, B, I}\n*List(token, token)\nList(i,j) ^ label(i) in {B, I} => label(j) in {B, I}"
    spl, logits = SPL(lists), torch.randn(3, 4, 3, dtype=torch.float64)
    evidence = {"List": torch.rand(3, 4, 4, generator=torch.Generator().manual_seed(0)) < 0.3,
                "label": torch.full((3, 4, 3), torch.nan, dtype=torch.float64)}
    evidence["label"][0, 1, 2] = 1
    labels = {"label": torch.tensor([[-1, 2, -1, -1], [0, 0, 0, 0], [-1, -1, -1, -1]])}
    found, loss = spl(logits, evidence)["label"], spl.loss(logits, labels, evidence)
    assert len(spl.exact(logits, evidence).parts) == 3
    for k in range(3):
        own = {name: x[k] for name, x in evidence.items()}
        torch.testing.assert_close(found[k], spl(logits[k], own)["label"])
        torch.testing.assert_close(loss[k], spl.loss(logits[k], {"label": labels["label"][k]}, own))
        torch.testing.assert_close(SemanticLoss(lists)(logits, evidence)[k], SemanticLoss(lists)(logits[k], own))
    assert loss[2] == 0


# borders


def test_facts_in_the_theory_are_evidence() -> None:
    text = "label = {Animal, Dog, Cat}\n" + TREE
    logits = torch.randn(2, 3)
    parent = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 0, 0]]).bool()
    spl = SPL(text + "\nparent(Dog, Animal).\nparent(Cat, Animal).")
    torch.testing.assert_close(spl(logits)["L"], SPL(text)(logits, {"parent": parent})["L"])
    assert compile_rules(text + "\nparent(Dog, Animal).").cnf.n_booleans == 3
    assert spl.state_dict() == {}


def test_labels_that_contradict_the_evidence_are_rejected() -> None:
    nan = torch.nan
    layer, spl = LogicMP(LABELS, method="exact"), SPL(LABELS)
    logits, evidence = torch.zeros(2, 2, 3), {"label": torch.tensor([[1, nan, nan], [nan, nan, nan]])}
    for loss in (layer.loss, spl.loss):
        with pytest.raises(LogicMPError, match=r"contradicts the evidence at index \[0, 0\] of item 1"):
            loss(logits, {"label": torch.tensor([[0, 0], [1, 0]])}, evidence)
        partly = torch.full((2, 2, 3), nan)
        partly[0, 0, 1] = 1
        with pytest.raises(LogicMPError, match=r"contradicts the evidence at index \[0, 0\] of item 0"):
            loss(logits, {"label": partly}, evidence)
        with pytest.raises(LogicMPError, match="values other than 0, 1 and NaN"):
            loss(logits, {"label": torch.full((2, 2, 3), 0.5)})
        with pytest.raises(LogicMPError, match="'tag', which is not an unobserved predicate"):
            loss(logits, {"tag": torch.zeros(2, 2).long()})


@pytest.mark.parametrize("text, sizes", [(LABELS, {"token": 3}), (TRANSITIVITY, {"thing": 5})])
def test_a_copy_plans_again(text: str, sizes: dict[str, int]) -> None:
    spl = SPL(text, sizes)
    logits = torch.randn(*spl.theory.predicates[0].shape(sizes))
    want = spl(logits)
    for other in (copy.deepcopy(spl), pickle.loads(pickle.dumps(spl))):
        torch.testing.assert_close(other(logits), want)


def test_semantic_loss_is_precise_where_the_rules_are_nearly_certain() -> None:
    # the difference of two sums of about 2,500 each
    logits = 50 * torch.sign(torch.randn(100, generator=torch.Generator().manual_seed(0))).cummax(0).values
    loss = SemanticLoss("L(x) => L(x+1)")
    assert 0 <= float(loss(logits)) < 1e-12
    assert float(loss(torch.zeros(3).double())) == pytest.approx(-torch.tensor(4 / 8).double().log())


def test_the_theory_of_a_model_has_the_answers_of_its_parse() -> None:
    theory = parse_theory(LABELS)
    logits = torch.randn(4, 3)
    torch.testing.assert_close(SPL(theory)(logits)["label"], SPL(LABELS)(logits)["label"])
