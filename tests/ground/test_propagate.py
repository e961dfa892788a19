"""Unit propagation against a slow loop, and the one error for hard rules that contradict each other."""

from __future__ import annotations

import numpy as np
import pytest
from networks import literals, network_of, random_network, score, worlds

from logicmp import LogicMPError, infer
from logicmp.ground.network import HARD, Network
from logicmp.ground.propagate import propagate


def slow_propagate(network: Network) -> list[set[int]] | None:
    """The possible values of each variable, feature by feature until none changes; None if a variable has none."""
    starts = network.starts
    possible = [{x for x in range(card) if network.potentials[starts[v] + x] > -np.inf}
                for v, card in enumerate(network.cards.tolist())]
    changed = True
    while changed:
        changed = False
        for f in np.flatnonzero(network.param == HARD).tolist():
            open_literals = [(v, members) for v, members in literals(network, f) if not possible[v] <= members]
            if not open_literals:
                return None
            if len(open_literals) == 1:
                v, members = open_literals[0]
                changed |= bool(possible[v] & members)
                possible[v] -= members
                if not possible[v]:
                    return None
    return possible


@pytest.mark.parametrize("seed", range(150))
def test_propagation_is_that_of_a_slow_loop(seed: int) -> None:
    network = random_network(seed, max_ground=12)
    want = slow_propagate(network)
    if want is None:
        with pytest.raises(LogicMPError, match="no world satisfies the hard rules and the evidence"):
            propagate(network)
        return
    found = propagate(network)
    for v, values in enumerate(want):
        assert np.flatnonzero(found[network.starts[v] : network.starts[v + 1]]).tolist() == sorted(values)


@pytest.mark.parametrize("seed", range(30))
def test_no_world_has_a_value_that_propagation_excludes(seed: int) -> None:
    network = random_network(seed, max_ground=5)
    if np.prod(network.cards, dtype=float) > 2**10:
        return
    possible = [values for values in worlds(network) if score(network, values) > -np.inf]
    try:
        found = propagate(network)
    except LogicMPError:
        assert not possible
        return
    for values in possible:
        assert found[network.starts[:-1] + values].all()


def test_propagation_follows_a_chain_of_hard_rules() -> None:
    network = network_of("p = {A, B, C}\nS(p)\nF(p, p)\nF(x, y) ^ S(x) => S(y).\nS(A).", "F(A, B)\nF(B, C)")
    assert propagate(network).tolist() == [False, True] * 3


def test_labels_are_excluded_until_one_is_left() -> None:
    network = network_of("p = {A}\nmood(p) in {Glad, Sad, Calm}\nS(p)\nmood(x) in {Glad, Sad}.\n!(mood(x) = Glad).\n"
                         "mood(x) = Sad => S(x).")
    assert propagate(network).tolist() == [False, True, False, False, True]


def test_a_network_without_variables_or_hard_rules_is_left_as_it_is() -> None:
    assert len(propagate(network_of("p = {A}\nS(p)\n1 S(x)", "S(A)"))) == 0
    assert propagate(network_of("p = {A}\nS(p)\n1 S(x)")).tolist() == [True, True]


SEEN = "p = {A}\nS(p)\nT(p)\nS(x).\n!S(x) v T(x).\n!T(x)."
UNSEEN = "p = {A}\nS(p)\nT(p)\nS(x) v T(x).\n!S(x) v T(x).\nS(x) v !T(x).\n!S(x) v !T(x)."
METHODS = [("exact", {}), ("map", {"solver": "ilp"}), ("map", {"solver": "maxsat"}), ("gibbs", {"max_flips": 1000}),
           ("mc-sat", {"max_flips": 1000})]


def error_of(theory: str, method: str, **options: object) -> str:
    with pytest.raises(LogicMPError) as caught:
        infer(theory, query="S", method=method, **options)
    return str(caught.value)


@pytest.mark.parametrize("method, options", [*METHODS, ("bp", {}), ("lifted-bp", {}), ("hl-mrf", {}), (
    "map", {"solver": "walksat"})])
def test_every_method_reports_a_contradiction_in_the_same_words(method: str, options: dict[str, object]) -> None:
    assert error_of(SEEN, method, **options) == """\
no world satisfies the hard rules and the evidence; these cannot all be satisfied:
  S(x).
  !S(x) v T(x).
  !T(x).
hint: give one of them a weight, or correct the evidence"""


@pytest.mark.parametrize("method, options", METHODS)
def test_a_contradiction_that_propagation_misses_is_reported_in_the_same_words(
        method: str, options: dict[str, object]) -> None:
    assert error_of(UNSEEN, method, **options) == """\
no world satisfies the hard rules and the evidence; these cannot all be satisfied:
  S(x) v T(x).
  !S(x) v T(x).
  S(x) v !T(x).
  !S(x) v !T(x).
hint: give one of them a weight, or correct the evidence"""


def test_the_error_lists_only_hard_rules_of_the_component_and_counts_those_it_omits() -> None:
    rules = "".join(f"S(x) v T(x) v R{k}(x).\n" for k in range(4))
    names = "".join(f"R{k}(p)\n" for k in range(4))
    theory = (f"p = {{A}}\nS(p)\nT(p)\nU(p)\n{names}U(x).\n1 S(x) <=> EXIST y (T(y) ^ R0(y))\n{rules}"
              "S(x).\n!S(x) v T(x).\n!T(x).")
    with pytest.raises(LogicMPError) as caught:
        propagate(network_of(theory))
    assert caught.value.message.splitlines()[1:] == [
        *(f"  S(x) v T(x) v R{k}(x)." for k in range(4)), "  S(x).", "  ... and 2 more"]
