"""The generated forms: reproducible, and words inside the boxes of their blocks."""

from __future__ import annotations

import pytest

from logicmp.demo.forms import WIDTH, make_form


@pytest.mark.parametrize("seed", range(5))
def test_words_are_inside_their_block_and_on_the_page(seed: int) -> None:
    form = make_form(seed, lines=4)["form"]
    assert [block["id"] for block in form] == list(range(len(form)))
    for block in form:
        x0, y0, x1, y1 = block["box"]
        assert block["text"].split() == [word["text"] for word in block["words"]]
        for word in block["words"]:
            left, top, right, bottom = word["box"]
            assert 0 <= x0 <= left < right <= x1 <= WIDTH and 0 <= y0 <= top < bottom <= y1
