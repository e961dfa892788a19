"""Every public name is listed, and its help names every argument."""

from __future__ import annotations

import inspect
import re

import pytest

import logicmp


def undocumented(function: object) -> list[str]:
    """The parameters that the docstring names neither in a list, as `name:` or `one, other:`, nor in backquotes."""
    text = inspect.getdoc(function) or ""
    entries = [name for line in re.findall(r"^ +(\w[\w, ]*):", text, re.MULTILINE) for name in line.split(", ")]
    named = {*entries, *re.findall(r"`(\w+)", text)}
    assert callable(function)
    return [name for name in inspect.signature(function).parameters if name not in named]


def test_dir_lists_every_public_name() -> None:
    assert set(logicmp.__all__) <= set(dir(logicmp))


@pytest.mark.parametrize("name", logicmp.__all__)
def test_help_names_every_argument(name: str) -> None:
    assert not undocumented(getattr(logicmp, name))


def test_a_missing_argument_is_found() -> None:
    def function(one: int, two: int, three: int, four: int) -> None:
        """Add `one` to something.

        Args:
            two, three: to add. Note: four is not an entry of this list.
        """

    assert undocumented(function) == ["four"]
