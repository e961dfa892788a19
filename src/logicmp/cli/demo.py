"""`logicmp demo`: the point of it all, in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..demo.forms import make_form
from ..demo.pages import MARGIN, PAGE, PAGE_WIDTH, SCALE, connected, draw_page, first_words, judge_pairs, read_words

if TYPE_CHECKING:
    pass


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
    from ..show.picture import Picture

    typer.echo("2. The words of a form belong to blocks. A network learned from other forms to judge each pair of\n"
               "   words on its own, by where they stand. The rules:\n")
    typer.echo("".join(f"   {line}\n" for line in BLOCKS.splitlines()))
    form = make_form(PAGE)["form"]
    boxes, block = read_words(form)
    truth = block[:, None] == block
    logits = judge_pairs(boxes)
    layer = LogicMP(BLOCKS, iterations=10, damping=0.5)
    picture = Picture(3 * MARGIN + PAGE_WIDTH + SCALE * len(block), 2 * (MARGIN + SCALE * len(block)) + MARGIN)
    with torch.no_grad():
        for k, (name, tensor) in enumerate((("before", logits), ("after", layer(logits)))):
            wrong = float(((tensor > 0) != truth).float().mean())
            broken = float(layer.violations(torch.where(tensor > 0, 50.0, -50.0))[0])
            found = connected(tensor > 0)
            right = sum(bool((truth[b] == (found == found[b])).all()) for b in first_words(block))
            said = f"{right} of {len(form)} blocks right, {broken:.0f} triples break the rule"
            typer.echo(f"   {name:<7} {wrong:5.1%} of the pairs wrong, {said}")
            draw_page(picture, k * (MARGIN + SCALE * len(block)), form, found, torch.sigmoid(tensor), block,
                  f"{name} the rule: {said}")
    picture.save(output)
    typer.echo(f"\n   picture: {output}   (the blocks on the page, and the pairs; above before, below after)\n")
    typer.echo("3. The plan: one matrix product for all messages of the rule.\n")
    plan = layer.executor({"token": len(block)}).plan
    typer.echo("".join(f"   {line}\n" for line in str(plan).splitlines()), nl=False)
