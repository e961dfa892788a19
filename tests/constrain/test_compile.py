"""Compiling rules: options, limits and errors."""

from __future__ import annotations

import math
import random
import sys

import pytest
import torch

from logicmp import CostError, LogicMPError, compile_rules
from logicmp.constrain import compile as compile_
from logicmp.constrain.cnf import as_constraints, build_cnf, ground_constraints
from logicmp.constrain.compile import depth_first

TRANSITIVITY = "C(a,b) ^ C(b,c) => C(a,c)"
TREE = "*parent(label, label)\nL(label)\nparent(c, p) ^ L(c) => L(p)."


@pytest.mark.parametrize("options", [{"vtree": "right"}, {"minimize": False}])
def test_the_vtree_does_not_change_the_models(options: dict[str, object]) -> None:
    assert compile_rules(TRANSITIVITY, {"thing": 4}, **options).count_models() == 3994


def tree_of(n: int, seed: int, n_parents: int = 1) -> torch.Tensor:
    """parent[c, p] for labels in random order; with several parents a directed acyclic graph."""
    rng = random.Random(seed)
    order = rng.sample(range(n), n)
    parent = torch.zeros(n, n, dtype=torch.bool)
    for c in range(1, n):
        for _ in range(n_parents):
            parent[order[c], order[rng.randrange(c)]] = True
    return parent


def test_a_tree_compiles_in_any_order_of_its_constants() -> None:
    for seed in range(3):
        parent = tree_of(500, seed)
        circuit = compile_rules(TREE, {"label": 500}, evidence={"parent": parent})
        # observed atoms are no variables
        assert circuit.cnf.n_booleans == 500 and circuit.n_nodes < 3000
        assert circuit.count_models() == closed_sets(parent)


def closed_sets(parent: torch.Tensor) -> int:
    """The sets of labels that contain the parent of each of their labels: a product over the children plus one."""
    below: dict[int, list[int]] = {}
    for child, above in parent.nonzero().tolist():
        below.setdefault(above, []).append(child)

    def count(label: int) -> int:
        return 1 + math.prod(map(count, below.get(label, ())))

    return count(int((~parent.any(1)).nonzero()))


def test_every_boolean_has_one_place_in_the_order() -> None:
    for text, sizes in ((TRANSITIVITY, {"thing": 4}), ("P(t) in {A, B, C}\nP(x) in {A} => P(x+1) in {B}", {"t": 5}),
                        ("A v B v C v D v E v F v G", {})):
        cnf = build_cnf(ground_constraints(as_constraints(text), sizes))
        assert sorted(depth_first(cnf).tolist()) == list(range(cnf.n_booleans))


def test_better_splits_make_a_smaller_circuit_of_the_same_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_, "FEW_NODES", 100)
    monkeypatch.setattr(compile_, "SEARCH_SHARE", 1.0)
    parent = tree_of(40, 0, n_parents=2)
    plain, better = (compile_rules(TREE, {"label": 40}, evidence={"parent": parent}, minimize=m) for m in (False, True))
    assert better.n_nodes < 0.8 * plain.n_nodes
    assert better.count_models() == plain.count_models()


def test_evidence_comes_before_compilation() -> None:
    parent = tree_of(6, 1)
    known = torch.full((6,), torch.nan)
    known[2] = 1
    circuit = compile_rules(TREE, {"label": 6}, evidence={"parent": parent, "L": known})
    whole = compile_rules(TREE, {"label": 6}, evidence={"parent": parent})
    assert circuit.cnf.n_booleans == 5
    potentials = torch.zeros(1, 12, dtype=torch.float64)
    potentials[0, 4] = -torch.inf
    assert math.log(circuit.count_models()) == pytest.approx(float(whole.log_z(potentials)))
    with pytest.raises(LogicMPError, match=r"evidence of a circuit has batch dimensions \[2\]; expected none"):
        compile_rules(TREE, {"label": 6}, evidence={"parent": parent.expand(2, 6, 6)})
    with pytest.raises(LogicMPError, match=r"tensor of parent has shape \[5, 5\]"):
        compile_rules(TREE, {"label": 6}, evidence={"parent": parent[:5, :5]})


def test_the_error_names_the_ways_out() -> None:
    with pytest.raises(CostError) as caught:
        compile_rules(TRANSITIVITY, {"thing": 4}, max_nodes=20, minimize=False)
    assert str(caught.value.hint) == (
        "for chains and trees use LogicMP(theory, method='exact'), SPL or SemanticLoss, which need no circuit; or use "
        "minimize=True; give evidence for observed atoms, which are then no variables; raise max_seconds or max_nodes; "
        "or use SLrelax for a loss, the LogicMP layer for marginals, decode for an answer that satisfies the rules")


def test_rules_without_open_groundings_compile_to_true() -> None:
    assert compile_rules("P(x) v !P(x)", {"thing": 3}).count_models() == 8


@pytest.mark.parametrize("options", [{"max_nodes": 20}, {"max_seconds": 0.0}])
def test_a_limit_stops_compilation_and_names_the_rule_and_an_alternative(options: dict[str, float]) -> None:
    with pytest.raises(CostError, match=r"do not compile(.|\n)*C\(a,b\) \^ C\(b,c\)(.|\n)*SLrelax"):
        compile_rules(TRANSITIVITY, {"thing": 4}, **options)


def test_too_many_groundings_are_rejected_before_compilation() -> None:
    with pytest.raises(CostError, match=r"groundings(.|\n)*SLrelax"):
        compile_rules(TRANSITIVITY, {"thing": 512})


def test_rules_that_contradict_each_other_are_named() -> None:
    with pytest.raises(LogicMPError, match=r"cannot all be satisfied:\n  A v B\.\n  !A\.\n  !B\."):
        compile_rules("A v B\n!A.\n!B.\n")


def test_the_error_without_pysdd_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pysdd", "pysdd.sdd"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LogicMPError, match=r"logicmp\[circuits\]"):
        compile_rules("A v B")
