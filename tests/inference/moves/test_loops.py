"""The compiled loops: counts after moves, quantified parts that follow, starts of a search."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import network_of, random_network

from logicmp import LogicMPError
from logicmp.ground.features import true_features
from logicmp.inference.moves import loops
from logicmp.inference.moves.arrays import build_arrays


@pytest.mark.parametrize("seed", range(40))
def test_after_any_moves_the_counts_are_those_of_a_fresh_count(seed: int) -> None:
    try:
        arrays = build_arrays(random_network(seed, max_ground=8))
    except LogicMPError as error:
        assert "no world satisfies" in error.message
        return
    network, rng = arrays.network, np.random.default_rng(seed)
    weight = np.where(arrays.ground.is_hard, 1.0, arrays.ground.log_weight)
    state = arrays.new_state(weight, np.sign(weight))
    loops.random_world(arrays.ground, state, 2, rng)
    for _ in range(50 * (network.n_own > 0)):
        v = int(rng.integers(network.n_own))
        new = int(rng.integers(network.cards[v]))
        before = state.score[0]
        expected = loops.change(arrays.ground, state, None, v, new)
        loops.move(arrays.ground, state, None, v, new)
        assert state.score[0] - before == pytest.approx(expected, abs=1e-9)
    holds = true_features(network, state.values)
    assert (state.n_false == 0).tolist() == holds.tolist()
    assert state.score[0] == pytest.approx(weight[holds].sum(), abs=1e-9)
    is_violated = np.where(weight > 0, holds, ~holds) & (weight != 0)
    assert sorted(state.violated[: state.n_violated[0]].tolist()) == np.flatnonzero(is_violated).tolist()
    # quantified parts followed: no feature that defines one is true
    assert not holds[network.defines >= 0].any()


def test_a_world_starts_with_the_first_the_last_or_random_values_of_the_domain() -> None:
    network = network_of("p = {A, B}\nmood(p) in {Glad, Sad, Calm}\n1 mood(x) = Glad\n!(mood(A) = Glad).")
    arrays = build_arrays(network)
    state = arrays.new_state(arrays.ground.log_weight, arrays.ground.is_hard)
    rng, found = np.random.default_rng(0), []
    for kind in (0, 1):
        loops.random_world(arrays.ground, state, kind, rng)
        found.append(state.values.tolist())
    assert found == [[1, 0], [2, 2]]
    drawn = set()
    for _ in range(200):
        loops.random_world(arrays.ground, state, 2, rng)
        drawn.add(tuple(state.values.tolist()))
    assert drawn == {(a, b) for a in (1, 2) for b in (0, 1, 2)}


def test_a_literal_is_certain_open_or_impossible_in_a_domain() -> None:
    arrays = build_arrays(network_of("p = {A}\nmood(p) in {Glad, Sad, Calm}\n1 mood(x) in {Glad, Sad}"))
    g, chosen = arrays.ground, int(arrays.ground.set[0])
    members = np.flatnonzero(g.member[chosen]).tolist()
    for domain in range(1, 8):
        mask = np.array([bool(domain >> x & 1) for x in range(3)])
        inside, outside = mask[members].any(), np.delete(mask, members).any()
        want = 0 if inside and outside else 1 if inside else -1
        assert loops.literal_truth(g, mask, 0, chosen) == want


def test_compiled_code_is_read_from_disk_until_a_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                                ) -> None:
    (tmp_path / "made_loop.py").write_text("def add_one(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("made_loop")

    def is_read() -> bool:
        made: Any = loops.compiled(module.add_one)
        assert made(1) == 2
        return bool(made.stats.cache_hits)

    assert [is_read(), is_read()] == [False, True]
    # another file, such as the one of the arrays
    monkeypatch.setattr(loops, "SOURCES", loops.SOURCES + b"# changed")
    assert [is_read(), is_read()] == [False, True]
