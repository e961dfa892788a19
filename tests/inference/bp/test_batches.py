"""Messages of tables: binary pairs send one number, which is the vector that other tables send."""

from __future__ import annotations

import numpy as np
import pytest

from logicmp.inference.bp.batches import Pairs, Vectors
from logicmp.inference.bp.graph import Tables


@pytest.mark.parametrize("seed", range(5))
def test_pairs_send_what_vectors_send(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logicmp.inference.bp.batches.PIECE", 4)
    rng = np.random.default_rng(seed)
    n_variables, n = 5, 11
    starts, size = 2 * np.arange(n_variables + 1), rng.integers(1, 4, n_variables).astype(float)
    values = np.where(rng.random((n, 2, 2)) < 0.1, -1e6, rng.normal(0, 2, (n, 2, 2)))
    var = np.stack([rng.permutation(n_variables)[:2] for _ in range(n)])
    table = Tables(values, var, rng.integers(1, 4, n).astype(float))
    pairs, vectors = Pairs(table, starts, size), Vectors(table, starts, size)
    potentials = rng.normal(0, 1, 2 * n_variables)
    for _ in range(4):
        beliefs = [potentials.copy(), potentials.copy()]
        for batch, belief in zip((pairs, vectors), beliefs, strict=True):
            batch.add_to(belief)
            batch.update(belief, 0.2)
        one, other = (belief.reshape(-1, 2) for belief in beliefs)
        # equal up to a constant for each variable
        np.testing.assert_allclose(one[:, 1] - one[:, 0], other[:, 1] - other[:, 0], rtol=1e-9, atol=1e-8)
        joints = [batch.joint(belief) for batch, belief in zip((pairs, vectors), beliefs, strict=True)]
        joints = [np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True)) for joint in joints]
        np.testing.assert_allclose(*joints, rtol=1e-7, atol=1e-12)
