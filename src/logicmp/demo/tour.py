"""A one-minute tour of the layer: smokers, the blocks of a form, and the plan behind them.

Room: show -> **demo** -> cli.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from ..layer import LogicMP
from ..show.picture import Picture
from .forms import make_form
from .pages import MARGIN, PAGE, PAGE_WIDTH, SCALE, connected, draw_page, first_words, judge_pairs, read_words

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
0.1 C(a, b) ^ C(b, c) => C(a, c)
"""


def show_smokers() -> Iterator[str]:
    """Text about four people: probabilities before and after the rules."""
    yield "1. Friends have similar smoking habits. The rules:\n"
    yield _indented(SMOKERS)
    layer = LogicMP(SMOKERS, iterations=30, damping=0.5, schedule="paper")
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
    """Text about a form whose words are grouped into blocks, and the plan; the picture is written to `output`."""
    yield ("2. The words of a form belong to blocks. A model trained on other forms judges each pair of words on its\n"
           "   own, by position alone. The rules:\n")
    yield _indented(BLOCKS)
    form = make_form(PAGE)["form"]
    boxes, block = read_words(form)
    truth = block[:, None] == block
    logits = judge_pairs(boxes)
    layer = LogicMP(BLOCKS, iterations=10, damping=0.5, schedule="paper")
    picture = Picture(3 * MARGIN + PAGE_WIDTH + SCALE * len(block), 2 * (MARGIN + SCALE * len(block)) + MARGIN)
    with torch.no_grad():
        for k, (name, tensor) in enumerate((("before", logits), ("after", layer(logits)))):
            wrong = float(((tensor > 0) != truth).float().mean())
            violations = float(layer.violations(torch.where(tensor > 0, 50.0, -50.0))[0])
            found = connected(tensor > 0)
            right = sum(bool((truth[b] == (found == found[b])).all()) for b in first_words(block))
            result = f"{right} of {len(form)} blocks right, {violations:.0f} triples violate the rule"
            yield f"   {name:<7} {wrong:5.1%} of the pairs wrong, {result}"
            draw_page(picture, k * (MARGIN + SCALE * len(block)), form, found, torch.sigmoid(tensor), block,
                      f"{name} the rule: {result}")
    picture.save(output)
    yield f"\n   picture: {output}   (left the blocks on the page, right the pairs; above before, below after)\n"
    yield "3. The plan: one matrix product computes all messages of the rule.\n"
    yield _indented(str(layer.executor({"token": len(block)}).plan)).rstrip("\n")


def _indented(text: str) -> str:
    return "".join(f"   {line}\n" for line in text.splitlines())
