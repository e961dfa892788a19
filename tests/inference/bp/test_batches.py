"""Messages of tables: binary variables get one number, which is the vector that other tables send."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from logicmp.inference.bp.batches import Binary, CompiledBinary, Vectors
from logicmp.inference.bp.graph import Distinct, Tables


def in_threes(loop: Callable[[int, int], float], n: int) -> float:
    return max(loop(first, min(n, first + 3)) for first in range(0, n, 3))


@pytest.mark.parametrize("width", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_binary_tables_send_what_vectors_send(seed: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logicmp.inference.bp.batches.PIECE", 4 * 2**width)
    rng = np.random.default_rng(seed)
    n_variables, n = 7, 11
    starts, size = 2 * np.arange(n_variables + 1), rng.integers(1, 4, n_variables).astype(float)
    values = rng.normal(0, 2, (n, *[2] * width))
    # some cells are impossible, some differ by more than the range of floats
    values = np.where(rng.random(values.shape) < 0.1, -1e6, np.where(rng.random(values.shape) < 0.1, -900.0, values))
    var = np.stack([rng.permutation(n_variables)[:width] for _ in range(n)])
    table = Tables(values[::2], rng.integers(0, len(values[::2]), n), var, rng.integers(1, 4, n).astype(float))
    batches = [Vectors(table, starts, size), Binary(table, starts, size),
               CompiledBinary(table, starts, size, in_threes)]
    potentials = rng.normal(0, 1, 2 * n_variables)
    for _ in range(4):
        beliefs, changes, joints = [], [], []
        for batch in batches:
            belief = potentials.copy()
            batch.add_to(belief)
            changes.append(batch.update(belief, 0.2))
            joint = batch.joint(belief, np.arange(n))
            joints.append(np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True)))
            # equal up to a constant for each variable
            beliefs.append(belief.reshape(-1, 2)[:, 1] - belief.reshape(-1, 2)[:, 0])
        for k in (1, 2):
            np.testing.assert_allclose(beliefs[k], beliefs[0], rtol=1e-9, atol=1e-8)
            np.testing.assert_allclose(joints[k], joints[0], rtol=1e-7, atol=1e-12)
        assert changes[2] == pytest.approx(changes[1], abs=1e-9)


def test_equal_tables_have_one_number() -> None:
    known = Distinct()
    one, two, again = known.number(np.array([[1.0, 0.0], [2.0, 4.0], [1.0, -0.0]])).tolist()
    assert one == again != two
    assert known.number(np.array([[3.0, 1.0], [2.0, 4.0]])).tolist() == [2, two]
    assert known.rows(2)[[one, two, 2]].tolist() == [[1.0, 0.0], [2.0, 4.0], [3.0, 1.0]]
