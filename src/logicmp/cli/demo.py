"""`logicmp demo`: the point of it all, in a minute."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from torch import Tensor

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
0.08 C(a, b) ^ C(b, c) => C(a, c)
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

    typer.echo("2. Tokens of a page belong to blocks; a network judged each pair on its own. The rules:\n")
    typer.echo("".join(f"   {line}\n" for line in BLOCKS.splitlines()))
    generator = torch.Generator().manual_seed(7)
    block = torch.repeat_interleave(torch.arange(6), torch.tensor([7, 16, 10, 4, 18, 9]))
    truth = (block[:, None] == block[None, :]).float()
    noise = torch.randn(len(block), len(block), generator=generator)
    logits = (2 * truth - 1) * 1.5 + (noise + noise.mT) * 0.9
    layer = LogicMP(BLOCKS, iterations=10, damping=0.5)
    with torch.no_grad():
        repaired = layer(logits)
        for name, tensor in (("before", logits), ("after", repaired)):
            decided = torch.where(tensor > 0, 50.0, -50.0)
            wrong = float(((tensor > 0) != (truth > 0)).float().mean())
            broken = float(layer.violations(decided)[0])
            typer.echo(f"   {name:<7} {wrong:6.1%} of the pairs wrong, {broken:7.0f} of {len(block) ** 3} triples "
                       "break the rule")
    write_png(output, [truth, torch.sigmoid(logits), torch.sigmoid(repaired)])
    typer.echo(f"\n   picture: {output}   (left the truth, middle before, right after)\n")
    typer.echo("3. The plan: one matrix product for all messages of the rule.\n")
    plan = layer.executor({"token": len(block)}).plan
    typer.echo("".join(f"   {line}\n" for line in str(plan).splitlines()), nl=False)


def write_png(path: Path, panels: list[Tensor], scale: int = 5, gap: int = 10) -> None:
    """Matrices of values from 0 to 1, side by side, dark for one; written whole or not at all."""
    from ..errors import LogicMPError

    rows: list[bytes] = []
    height = panels[0].shape[0]
    for r in range(height):
        line = bytearray([255] * gap)
        for panel in panels:
            for value in panel[r].tolist():
                line += bytes([round(255 - 225 * value)]) * scale
            line += bytes([255] * gap)
        rows += [b"\0" + bytes(line)] * scale
    width = len(rows[0]) - 1
    margin = [b"\0" + b"\xff" * width] * gap
    rows = margin + rows + margin

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, len(rows), 8, 0, 0, 0, 0)
    data = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(rows)))
            + chunk(b"IEND", b""))
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as cause:
        raise LogicMPError(f"cannot write {str(path)!r}: {cause.strerror or cause}",
                           "choose another place with -o") from None
