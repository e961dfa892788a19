"""A one-minute tour of the layer: smokers, the blocks of a form, and the plan behind them.

Room: show -> **demo** -> cli.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from ..layer import LogicMP
from ..show.picture import Picture
from ..show.progress import shown_progress
from .forms import make_form
from .pages import (
    MARGIN,
    PAGE_WIDTH,
    PAGES,
    SCALE,
    STRIP,
    connected,
    describe_pairs,
    draw_iterations,
    draw_page,
    first_words,
    read_words,
    strip_size,
    train_model,
)

SMOKERS = """\
person = {Anna, Bob, Carl, Dora}
Smokes(person)
Cancer(person)
*Friends(person, person)

1 Smokes(x) => Cancer(x)
2 Friends(x, y) => (Smokes(x) <=> Smokes(y))
"""
BLOCKS = """\
symmetric C(token, token)
C(a, b) ^ C(b, c) => C(a, c)
"""


def show_smokers() -> Iterator[str]:
    """Text about four people: probabilities before and after the rules."""
    yield "1. Friends have similar smoking habits. The rules:\n"
    yield _indented(SMOKERS)
    layer = LogicMP(SMOKERS)
    names = layer.theory.type["person"].constants
    friends = torch.zeros(4, 4, dtype=torch.bool)
    for one, other in (("Anna", "Bob"), ("Bob", "Carl")):
        friends[names.index(one), names.index(other)] = friends[names.index(other), names.index(one)] = True
    smokes = torch.full((4,), float("nan"))
    smokes[0] = 1.0
    unary = {"Smokes": torch.full((4,), -0.5), "Cancer": torch.full((4,), -1.0)}
    with torch.no_grad():
        run = layer.trace(unary, evidence={"Friends": friends, "Smokes": smokes})
    yield "   Anna smokes. Anna and Bob are friends, Bob and Carl are friends, Dora has no friends.\n"
    yield f"   {'':6}{'Smokes':>10}{'':>10}{'Cancer':>10}"
    yield f"   {'':6}{'before':>10}{'after':>10}{'before':>10}{'after':>10}"
    for k, name in enumerate(names):
        row = [p for predicate in ("Smokes", "Cancer")
               for p in (float(torch.sigmoid(unary[predicate][k])), float(run.marginals[-1][predicate][k]))]
        yield f"   {name:<6}" + "".join(f"{value:>10.2f}" for value in row)
    yield (f"\n   The lower bound of log Z rises from {float(run.elbo[0]):.3f} to {float(run.elbo[-1]):.3f} "
           f"in {len(run.elbo) - 1} iterations.\n")


def show_blocks(output: Path) -> Iterator[str]:
    """Text about forms whose words are grouped into blocks, and the plan; the picture is written to `output`."""
    yield ("2. The words of a form belong to blocks. A model trained on twelve other forms judges each pair of\n"
           "   words on its own, by position and text. The rule has no weight, the layer its default settings:\n")
    yield _indented(BLOCKS)
    # the first page, before and after
    drawn: list[tuple[Score, Tensor]] = []
    totals = {"before": Score(), "after": Score()}
    with shown_progress() as progress, torch.no_grad():
        with torch.enable_grad():
            layer, model = LogicMP(BLOCKS), train_model(progress)
        for seed in PAGES:
            progress("applying the rule", seed - PAGES[0], len(PAGES))
            form = make_form(seed)["form"]
            logits = model(describe_pairs(form))
            for name, tensor in (("before", logits), ("after", layer(logits))):
                score = judge(layer, tensor, read_words(form)[1])
                totals[name] = totals[name] + score
                if seed == PAGES[0]:
                    drawn.append((score, tensor))
    yield f"   Pages {PAGES[0]} to {PAGES[-1]} together:"
    for name, score in totals.items():
        yield f"   {name:<7} {score}"
    block = draw_blocks(output, drawn)
    yield (f"\n   picture: {output}   (page {PAGES[0]}, before and after: left the blocks, right the pairs;\n"
           "   at the bottom the pairs during the iterations of two schedules, paper and adaptive, the default)\n")
    yield "3. The plan: one matrix product computes all messages of the rule.\n"
    yield _indented(str(layer.executor({"token": len(block)}).plan)).rstrip("\n")


@dataclass(frozen=True)
class Score:
    """Decisions about pairs compared with the true blocks, of one page or several."""

    wrong: int = 0
    pairs: int = 0
    right: int = 0
    blocks: int = 0
    violations: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __str__(self) -> str:
        return f"{self.wrong / self.pairs:5.1%} of the pairs wrong, {self.short()}"

    def short(self) -> str:
        return f"{self.right} of {self.blocks} blocks right, {self.violations:,} triples violate the rule"


def judge(layer: LogicMP, logits: Tensor, block: Tensor) -> Score:
    """Decide every pair, and compare pairs and connected groups with the true blocks."""
    truth, found, firsts = block[:, None] == block, connected(logits > 0), first_words(block)
    right = sum(bool((truth[b] == (found == found[b])).all()) for b in firsts)
    violations = layer.violations(torch.where(logits > 0, 50.0, -50.0))[0]
    return Score(int(((logits > 0) != truth).sum()), truth.numel(), right, len(firsts), int(violations.round()))


def draw_blocks(output: Path, drawn: list[tuple[Score, Tensor]]) -> Tensor:
    """Draw the first page before and after the rule, and its pairs during the iterations; return its blocks."""
    form = make_form(PAGES[0])["form"]
    block = read_words(form)[1]
    n = len(block)
    height = MARGIN + SCALE * n
    width, below = strip_size(n)
    picture = Picture(max(3 * MARGIN + PAGE_WIDTH + SCALE * n, width), 2 * height + MARGIN + below)
    for k, (name, (score, logits)) in enumerate(zip(("before", "after"), drawn, strict=True)):
        draw_page(picture, k * height, form, connected(logits > 0), torch.sigmoid(logits), block,
                  f"{name} the rule: {score.short()}")
    with torch.no_grad():
        runs = {name: [q["C"] for q in LogicMP(BLOCKS, schedule=name).trace(drawn[0][1]).marginals] for name in STRIP}
    draw_iterations(picture, 2 * height + MARGIN, runs, block)
    picture.save(output)
    return block


def _indented(text: str) -> str:
    return "".join(f"   {line}\n" for line in text.splitlines())
