"""Supports: sorted, merged, both orders of symmetric atoms, values of functional ones."""

from __future__ import annotations

import numpy as np
import pytest

from logicmp import LogicMPError, parse_theory
from logicmp.facts.supports import distinct, flat_theory, make_keys, make_support, rows_type, split_keys

THEORY = parse_theory("F(p, p)\nsymmetric S(p, p)\nHome(p, c!)\nr(p, p) in {A, B}\n1 F(x,y) => S(x,y)")
SIZES = {"p": 4, "c": 3}


def test_rows_are_sorted_and_merged() -> None:
    support = make_support(THEORY.predicate["F"], [np.array([3, 0, 3]), np.array([1, 2, 1])], SIZES)
    assert [c.tolist() for c in support.columns] == [[0, 3], [2, 1]]
    assert (len(support), support.n_values, support.places) == (2, 2, None)
    assert support.find([np.array([3, 3, 0]), np.array([1, 0, 2])]).tolist() == [1, -1, 0]
    assert all(c.dtype == np.int32 for c in support.columns)


def test_both_orders_of_a_symmetric_atom_read_one_value() -> None:
    support = make_support(THEORY.predicate["S"], [np.array([3, 1, 2, 1]), np.array([1, 3, 2, 0])], SIZES)
    rows = list(zip(*(c.tolist() for c in support.columns), support.places.tolist(), strict=True))
    assert rows == [(0, 1, 0), (1, 0, 0), (1, 3, 1), (2, 2, 2), (3, 1, 1)]
    assert support.n_values == 3


def test_a_functional_variable_has_all_its_values() -> None:
    support = make_support(THEORY.predicate["Home"], [np.array([2, 0])], SIZES)
    assert [c.tolist() for c in support.columns] == [[0, 0, 0, 2, 2, 2], [0, 1, 2, 0, 1, 2]]
    assert (support.width, support.n_values) == (3, 6)
    front = parse_theory("Home(c!, p)").predicate["Home"]
    turned = make_support(front, [np.array([2, 0])], SIZES)
    assert turned.find([np.array([1, 1]), np.array([2, 1])]).tolist() == [4, -1]
    with pytest.raises(LogicMPError, match="it has no arguments that are not values"):
        make_support(parse_theory("Home(c!)").predicate["Home"], [], SIZES)


def test_empty() -> None:
    support = make_support(THEORY.predicate["S"], [np.zeros(0, dtype=np.int64)] * 2, SIZES)
    assert (len(support), support.n_values) == (0, 0)
    assert support.find([np.array([1]), np.array([1])]).tolist() == [-1]


def test_too_many_atoms_to_number() -> None:
    predicate = parse_theory("F(p, p, p)").predicate["F"]
    with pytest.raises(LogicMPError, match="too many to number"):
        make_support(predicate, [np.zeros(1, dtype=np.int64)] * 3, {"p": 10**7})


def test_flat_predicates() -> None:
    supports = {name: make_support(THEORY.predicate[name], [np.array([0]), np.array([1])], SIZES)
                for name in ("F", "S", "r")}
    supports["Home"] = make_support(THEORY.predicate["Home"], [np.array([0])], SIZES)
    flat = flat_theory(THEORY, supports, ["F"])
    assert list(flat.predicate) == ["S", "Home", "r"]
    assert not flat.predicate["S"].symmetric
    assert flat.predicate["Home"].shape({rows_type("Home"): 1, "c": 3}) == (1, 3)
    assert flat.predicate["Home"].functional == (1,)
    assert flat.predicate["r"].shape({rows_type("r"): 7}) == (7, 2)
    assert flat.rules == THEORY.rules


def test_keys() -> None:
    columns = [np.array([1, 0]), np.array([2, 1])]
    keys = make_keys(columns, (2, 3))
    assert keys.tolist() == [5, 1]
    assert [c.tolist() for c in split_keys(keys, (2, 3))] == [[1, 0], [2, 1]]
    assert distinct(np.array([3, 1, 3])).tolist() == [1, 3]
    assert distinct(np.zeros(0)).tolist() == []
