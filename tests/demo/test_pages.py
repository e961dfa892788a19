"""Word boxes and groups of words."""

from __future__ import annotations

import torch

from logicmp.demo.pages import connected, first_words, geometry, read_words

FORM = [{"words": [{"box": [0, 0, 9, 15]}, {"box": [18, 0, 27, 15]}]}, {"words": [{"box": [0, 48, 9, 63]}]}]


def test_every_word_has_a_box_and_a_block() -> None:
    boxes, block = read_words(FORM)
    assert boxes.tolist() == [[0, 0, 9, 15], [18, 0, 27, 15], [0, 48, 9, 63]]
    assert block.tolist() == [0, 0, 1]
    assert first_words(block) == [0, 2]


def test_geometry_does_not_depend_on_the_order_of_a_pair() -> None:
    boxes, _ = read_words(FORM)
    found = geometry(boxes)
    assert found.shape == (3, 3, 8)
    assert torch.equal(found, found.transpose(0, 1))
    # the last entry: on one line
    assert found[..., -1].tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]


def test_a_chain_of_pairs_connects_its_words() -> None:
    together = torch.zeros(5, 5, dtype=torch.bool)
    together[3, 1] = together[1, 4] = True
    assert connected(together).tolist() == [0, 1, 2, 1, 1]
