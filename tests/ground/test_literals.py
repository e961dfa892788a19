"""Sets of values and products of literals, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logicmp import CostError
from logicmp.ground import literals as module
from logicmp.ground.literals import Literals, Sets, simplify

some_sets = st.lists(st.integers(2, 5).flatmap(lambda card: st.tuples(
    st.just(card), st.sets(st.integers(0, card - 1), min_size=1, max_size=card - 1))), max_size=8)


def sets_of(chosen: list[tuple[int, set[int]]]) -> tuple[Sets, np.ndarray]:
    sets = Sets()
    return sets, np.array([sets.of(card, members) for card, members in chosen], dtype=np.int64)


@given(some_sets)
def test_flat_lists_and_tables_have_the_members_of_each_set(chosen: list[tuple[int, set[int]]]) -> None:
    sets, numbers = sets_of(chosen)
    values, begins = sets.flat()
    for k, members in enumerate(sets.members):
        assert values[begins[k] : begins[k + 1]].tolist() == sorted(members)
        assert np.flatnonzero(sets.table()[k]).tolist() == sorted(members)
        assert np.flatnonzero(sets.indicator(k)).tolist() == sorted(members)
    owner, value = sets.values_of(numbers)
    want = [(k, v) for k, (_, members) in enumerate(chosen) for v in sorted(members)]
    assert list(zip(owner.tolist(), value.tolist(), strict=True)) == want
    assert [np.flatnonzero(row).tolist() for row in sets.table(numbers)] == [sorted(m) for _, m in chosen]


@given(some_sets)
def test_the_smaller_of_a_set_and_its_complement(chosen: list[tuple[int, set[int]]]) -> None:
    sets, _ = sets_of(chosen)
    members, cards = list(sets.members), list(sets.cards)
    smaller, is_other = sets.smaller()
    for k, (number, other) in enumerate(zip(smaller.tolist(), is_other.tolist(), strict=True)):
        assert sets.members[number] == (frozenset(range(cards[k])) - members[k] if other else members[k])
        assert 2 * len(sets.members[number]) <= cards[k]
    assert smaller[:2].tolist() == [0, 0]


def test_a_flat_list_is_made_again_after_a_new_set() -> None:
    sets = Sets()
    assert sets.flat()[0].tolist() == [1, 0]
    sets.of(3, {2})
    assert sets.flat()[0].tolist() == [1, 0, 2]


def test_a_table_of_too_many_cells_is_rejected_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CELLS", 10)
    sets = Sets()
    sets.single(4)
    with pytest.raises(CostError, match="the rules use 6 sets of up to 4 values: a table of more than 10 cells"):
        sets.table()


def test_literals_of_one_variable_are_merged_and_contradictions_dropped() -> None:
    sets = Sets()
    ab, bc, b, c = (sets.of(3, set(values)) for values in ((0, 1), (1, 2), (1,), (2,)))
    row, var, chosen = zip((0, 7, ab), (0, 7, bc), (0, 8, 0), (1, 7, ab), (1, 7, c), (2, 9, 0), (2, 9, 0), strict=True)
    found, left = simplify(Literals(3, np.array(row), np.array(var), np.array(chosen)), sets)
    assert left.tolist() == [True, False, True]
    assert list(zip(found.row.tolist(), found.var.tolist(), found.set.tolist(), strict=True)) == [
        (0, 7, b), (0, 8, 0), (1, 9, 0)]


def test_products_are_taken_in_any_order_and_more_than_once() -> None:
    products = Literals(3, np.array([2, 0, 2]), np.array([5, 6, 7]), np.array([0, 1, 0]))
    found = products.take(np.array([2, 1, 2]))
    assert (found.n, found.row.tolist(), found.var.tolist()) == (3, [0, 0, 2, 2], [5, 7, 5, 7])
