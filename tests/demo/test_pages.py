"""Word boxes and groups of words."""

from __future__ import annotations

import torch

from logicmp.demo.forms import make_form
from logicmp.demo.pages import (
    MARGIN,
    PAGES,
    STRIP,
    STRIP_SCALE,
    TRAINING_PAGES,
    connected,
    describe_pairs,
    describe_words,
    draw_iterations,
    first_words,
    geometry,
    read_words,
    strip_size,
)
from logicmp.show.picture import Picture

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


def test_the_model_is_not_trained_on_the_pages_it_is_scored_on() -> None:
    assert not set(PAGES) & set(TRAINING_PAGES)


def test_words_are_described_by_capitals_punctuation_text_and_position() -> None:
    words = [{"text": "DATE:", "box": [0, 0, 9, 15]}, {"text": "date:", "box": [0, 0, 9, 15]},
             {"text": "May", "box": [0, 0, 9, 15]}]
    capital, small, other = describe_words([{"words": words}])
    assert capital[:2].tolist() == [1, 1] and small[:2].tolist() == [0, 1] and other[:2].tolist() == [0, 0]
    # the same word in lower case has the same hash; at the same place only the hash of another word differs
    assert torch.equal(capital[2:], small[2:]) and torch.equal(small[10:], other[10:])
    assert not torch.equal(small[2:10], other[2:10])


def test_pairs_are_described_in_both_orders_alike() -> None:
    found = describe_pairs(make_form(0)["form"])
    assert torch.equal(found, found.transpose(0, 1))


def test_the_strip_has_a_matrix_for_each_iteration_and_fits() -> None:
    n = 60
    block = torch.zeros(n, dtype=torch.long)
    runs = {name: [torch.full((n, n), number / numbers[-1]) for number in range(numbers[-1] + 1)]
            for name, numbers in STRIP.items()}
    picture = Picture(*strip_size(n))
    draw_iterations(picture, 0, runs, block)
    for row, numbers in enumerate(STRIP.values()):
        for k, number in enumerate(numbers):
            x, y = (MARGIN + place * (MARGIN + STRIP_SCALE * n) + n for place in (k, row))
            assert picture.pixels[y, x, 0] == round(255 - 225 * number / numbers[-1])
    # white on all sides: nothing was clipped
    assert all((edge == 255).all() for edge in (picture.pixels[0], picture.pixels[-1], picture.pixels[:, -1]))
