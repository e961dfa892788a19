"""Includes are limited in depth and number, and long lines are read in linear time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from logicmp import RuleError, load_theory, parse_theory


def test_a_long_chain_of_includes_is_rejected(tmp_path: Path) -> None:
    for i in range(1500):
        (tmp_path / f"f{i}.mln").write_text(f'#include "f{i + 1}.mln"\n')
    (tmp_path / "f1500.mln").write_text("1 P(x)\n")
    with pytest.raises(RuleError, match="more than 50 deep"):
        load_theory(tmp_path / "f0.mln")


def test_includes_that_double_at_every_level_are_rejected(tmp_path: Path) -> None:
    for i in range(22):
        (tmp_path / f"g{i}.mln").write_text(f'#include "g{i + 1}.mln"\n' * 2)
    (tmp_path / "g22.mln").write_text("1 P(x)\n")
    with pytest.raises(RuleError, match="more than 1,000 files"):
        load_theory(tmp_path / "g0.mln")


def test_a_string_that_is_never_closed_is_found_soon() -> None:
    start = time.process_time()
    with pytest.raises(RuleError, match="this string is never closed"):
        parse_theory('1 P("' + 'a\\"' * 50_000)
    assert time.process_time() - start < 5


def test_many_labels_are_read_soon() -> None:
    labels = ",".join(f"A{i}" for i in range(30_000))
    start = time.process_time()
    theory = parse_theory(f"L(t) in {{{labels}}}\n1 L(x) in {{{labels}}}")
    assert len(theory.predicates[0].labels or ()) == 30_000
    assert time.process_time() - start < 5
