"""`logicmp demo`: the point of it all, in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .forms import LEADING, LETTER, WIDTH, make_form

if TYPE_CHECKING:
    from torch import Tensor

    from .picture import Picture

# which of the made up forms is shown, and how
PAGE = 3
PAGE_WIDTH = WIDTH * 2 // 3
SCALE, MARGIN = 5, 24

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


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the picture goes.")] = Path("logicmp-demo.png"),
) -> None:
    """Show LogicMP at work on smokers and on a page of tokens.

    \b
        logicmp demo
        logicmp demo -o blocks.png
    """
    _smokers()
    _blocks(output)


def _smokers() -> None:
    import torch

    from ..layer import LogicMP

    typer.echo("1. Smoking is a matter of friends. The rules:\n")
    typer.echo("".join(f"   {line}\n" for line in SMOKERS.splitlines()))
    layer = LogicMP(SMOKERS, iterations=30, damping=0.5)
    names = layer.theory.type["person"].constants
    friends = torch.zeros(4, 4, dtype=torch.bool)
    for one, other in (("Anna", "Bob"), ("Bob", "Carl")):
        friends[names.index(one), names.index(other)] = friends[names.index(other), names.index(one)] = True
    smokes = torch.full((4,), float("nan"))
    smokes[0] = 1.0
    unary = {"Smokes": torch.full((4,), -0.5), "Cancer": torch.full((4,), -1.0)}
    with torch.no_grad():
        run = layer.trace(unary, evidence={"Friends": friends, "Smokes": smokes})
    typer.echo("   Anna smokes; Anna and Bob are friends, and so are Bob and Carl. Dora is on her own.\n")
    typer.echo(f"   {'':6}{'Smokes':>10}{'':>10}{'Cancer':>10}")
    typer.echo(f"   {'':6}{'before':>10}{'after':>10}{'before':>10}{'after':>10}")
    for k, name in enumerate(names):
        row = [float(torch.sigmoid(unary[p][k])) if when == 0 else float(run.marginals[-1][p][k])
               for p in ("Smokes", "Cancer") for when in (0, 1)]
        typer.echo(f"   {name:<6}" + "".join(f"{value:>10.2f}" for value in row))
    typer.echo(f"\n   the bound on log Z climbs from {float(run.elbo[0]):.3f} to {float(run.elbo[-1]):.3f} "
               f"in {len(run.elbo) - 1} iterations\n")


def _blocks(output: Path) -> None:
    import torch

    from ..layer import LogicMP
    from .picture import Picture

    typer.echo("2. The words of a form belong to blocks. A network learned from other forms to judge each pair of\n"
               "   words on its own, by where they stand. The rules:\n")
    typer.echo("".join(f"   {line}\n" for line in BLOCKS.splitlines()))
    form = make_form(PAGE)["form"]
    boxes, block = _words(form)
    truth = block[:, None] == block
    logits = _judge(boxes)
    layer = LogicMP(BLOCKS, iterations=10, damping=0.5)
    picture = Picture(3 * MARGIN + PAGE_WIDTH + SCALE * len(block), 2 * (MARGIN + SCALE * len(block)) + MARGIN)
    with torch.no_grad():
        for k, (name, tensor) in enumerate((("before", logits), ("after", layer(logits)))):
            wrong = float(((tensor > 0) != truth).float().mean())
            broken = float(layer.violations(torch.where(tensor > 0, 50.0, -50.0))[0])
            found = _connected(tensor > 0)
            right = sum(bool((truth[b] == (found == found[b])).all()) for b in _firsts(block))
            said = f"{right} of {len(form)} blocks right, {broken:.0f} triples break the rule"
            typer.echo(f"   {name:<7} {wrong:5.1%} of the pairs wrong, {said}")
            _draw(picture, k * (MARGIN + SCALE * len(block)), form, found, torch.sigmoid(tensor), block,
                  f"{name} the rule: {said}")
    picture.save(output)
    typer.echo(f"\n   picture: {output}   (the blocks on the page, and the pairs; above before, below after)\n")
    typer.echo("3. The plan: one matrix product for all messages of the rule.\n")
    plan = layer.executor({"token": len(block)}).plan
    typer.echo("".join(f"   {line}\n" for line in str(plan).splitlines()), nl=False)


def _words(form: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
    """The boxes of all words, [n, 4], and the block of each, [n]."""
    import torch

    found = [(word["box"], number) for number, block in enumerate(form) for word in block["words"]]
    return torch.tensor([box for box, _ in found]).float(), torch.tensor([number for _, number in found])


def _geometry(boxes: Tensor) -> Tensor:
    """How far apart two words are, sideways and up or down, at several scales, [n, n, 8]."""
    import torch

    x0, y0, x1, _ = boxes.T
    gap = (torch.maximum(x0[:, None], x0) - torch.minimum(x1[:, None], x1)) / LETTER
    down = (y0[:, None] - y0).abs() / LEADING
    start = (x0[:, None] - x0).abs() / LETTER
    return torch.stack([torch.tanh(gap - 1.5), torch.tanh(gap / 6), torch.tanh(gap / 24), torch.tanh(down),
                        torch.tanh(3 * (down - 1.2)), torch.tanh(down / 4), torch.tanh(start / 8), down < 0.5], -1)


def _judge(boxes: Tensor) -> Tensor:
    """The log-odds of all pairs, [n, n], by a small network that has seen twelve other pages."""
    import torch
    from torch import nn

    pages = [_words(make_form(seed)["form"]) for seed in range(PAGE + 1, PAGE + 13)]
    inputs = torch.cat([_geometry(page).flatten(0, 1) for page, _ in pages])
    labels = torch.cat([(block[:, None] == block).float().flatten() for _, block in pages])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))
        optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
        for _ in range(500):
            some = torch.randint(len(labels), (4096,))
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(network(inputs[some]).squeeze(-1), labels[some])
            torch.autograd.backward(loss)
            optimizer.step()
    with torch.no_grad():
        return torch.as_tensor(network(_geometry(boxes)).squeeze(-1))


def _connected(together: Tensor) -> Tensor:
    """A number for each word, the same for words that a chain of pairs connects, [n]."""
    import torch

    n = len(together)
    together = together | together.T | torch.eye(n, dtype=torch.bool)
    numbers = torch.arange(n)
    for _ in range(n):
        numbers = torch.where(together, numbers, n).amin(1)
    return numbers


def _firsts(block: Tensor) -> list[int]:
    """The first word of each block."""
    return [int((block == number).nonzero()[0]) for number in sorted(set(block.tolist()))]


def _draw(picture: Picture, top: int, form: list[dict[str, Any]], found: Tensor, q: Tensor, block: Tensor,
          title: str) -> None:
    """The page with the blocks that were found, in colours; beside it the pairs, with frames around the true blocks."""
    from .picture import COLOURS

    picture.write(MARGIN, top + MARGIN // 3, title)
    top, left = top + MARGIN, MARGIN
    words = [word for entry in form for word in entry["words"]]
    places = [[round(x * 2 / 3) for x in word["box"]] for word in words]
    for k, number in enumerate(sorted(set(found.tolist()))):
        colour = COLOURS[k % len(COLOURS)]
        members = [places[w] for w in (found == number).nonzero().flatten().tolist()]
        for x0, y0, x1, y1 in members:
            picture.fill(left + x0 - 1, top + y0, left + x1, top + y1, colour, 0.4)
        picture.frame(left + min(p[0] for p in members) - 3, top + min(p[1] for p in members) - 2,
                      left + max(p[2] for p in members) + 2, top + max(p[3] for p in members) + 2, colour)
    for word, (x0, y0, _, _) in zip(words, places, strict=True):
        picture.write(left + x0, top + y0 + 2, word["text"])
    left += PAGE_WIDTH + MARGIN
    picture.matrix(left, top, q.numpy(), SCALE)
    for first in _firsts(block):
        size = int((block == block[first]).sum())
        corner = left + SCALE * first, top + SCALE * first
        picture.frame(*corner, corner[0] + SCALE * size, corner[1] + SCALE * size, COLOURS[4])
