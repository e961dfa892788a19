"""Plans of exact inference: groups of equal tables, and what they print."""

from __future__ import annotations

from networks import network_of

from logicmp.ground.elimination import Elimination, build_elimination, strides
from logicmp.ground.reduce import reduce_network


def plan_of(theory: str, max_cells: int = 2**20) -> Elimination:
    return build_elimination(reduce_network(network_of(theory)), max_cells)


def test_equal_tables_are_one_group_with_one_table_of_weights() -> None:
    names = ", ".join(f"P{k}" for k in range(100))
    plan = plan_of(f"t = {{{names}}}\nS(t)\nC(t)\n1 S(x) => C(x)")
    assert len(plan.groups) == 2 and plan.n_waves == 2
    assert [group.n for group in plan.groups] == [100, 100]
    assert [group.n_kinds for group in plan.groups] == [1, 1]
    # four cells with a weight, and two without
    assert plan.n_kind_cells == 6 and len(plan.at) == 1


def test_a_weight_per_constant_has_a_table_for_each() -> None:
    plan = plan_of("t = {A, B, C}\nS(t)\nC(t)\n1 S(+x) => C(x)")
    assert sorted(group.n_kinds for group in plan.groups) == [1, 3]
    assert sorted(plan.weight.tolist()) == [0, 1, 2]


def test_the_plan_prints_its_width_and_its_cost() -> None:
    chain = "t = {A, B, C, D}\nlabel(t) in {O, B, I}\n1 label(x) in {O} => label(x+1) in {O, B}"
    assert str(plan_of(chain)) == ("exact on 1 of 1 components: 4 variables in 3 waves, 3 groups of equal tables, "
                                   "largest table 9 cells, 30 cells per item")


def test_a_wide_component_is_named() -> None:
    names = ", ".join(f"P{k}" for k in range(6))
    plan = plan_of(f"t = {{{names}}}\nC(t, t)\nS(t)\n1 C(x,y) ^ C(y,z) => C(x,z)\n1 S(x)\nS(x) => S(x+1).", 1000)
    assert plan.n_wide == 1 and plan.n_components == 1
    assert not plan.has_wide_hard_rules
    assert "too wide: 1 component; that of C(P0,P0), C(P0,P1), C(P0,P2), ... has 36 variables" in str(plan)


def test_strides() -> None:
    assert strides((3,)) == [1]
    assert strides(()) == []
