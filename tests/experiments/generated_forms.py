"""Form pages, made up, as the experiment on documents reads them."""

from __future__ import annotations

import random

from experiments.documents.data import Page, build_page
from logicmp.demo.forms import HEIGHT, WIDTH, make_form


def form_page(seed: int, lines: int = 3) -> Page:
    """A page whose stored order is shuffled: nothing may depend on it."""
    content = make_form(seed, lines)
    random.Random(seed).shuffle(content["form"])
    return build_page(f"form-{seed}", content, (WIDTH, HEIGHT))


def form_pages(first: int, n: int, lines: int = 3) -> list[Page]:
    return [form_page(seed, lines) for seed in range(first, first + n)]
