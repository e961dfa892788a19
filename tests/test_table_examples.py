"""The examples about tables, records, scikit-learn and other programs' files run, and show what they say."""

from __future__ import annotations

import pytest
from test_examples import load_example


def test_tables_correct_scores() -> None:
    found = load_example("tables").main().set_index("person")
    assert found["probability"].is_monotonic_decreasing or found.loc["Eve", "probability"] > 0
    assert found.loc["Bob", "probability"] > found.loc["Bob", "score"]
    assert found.loc["Carl", "probability"] == pytest.approx(0.4, abs=0.1)


def test_records_are_grouped() -> None:
    found = load_example("records").main().set_index("name")["cluster"]
    assert found["Anna Schmidt"] == found["Anna Schmitt"] == found["A. Schmidt"]
    assert found["Carla Rossi"] == found["Karla Rossi"] != found["Dora Lang"]


def test_rules_correct_a_forest() -> None:
    alone, ruled = load_example("tagged_sequences").main()
    assert ruled > alone + 0.1


def test_dialects_keep_the_answers() -> None:
    found = load_example("convert_all").main()
    assert [found[name] for name in ("alchemy", "tuffy", "pracmln")] == pytest.approx([0, 0, 0], abs=1e-12)
    assert found["csv"] == "4 files"
    assert "ExpressGNN has no hard rules" in str(found["expressgnn"])
