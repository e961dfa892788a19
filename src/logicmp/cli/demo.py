"""`logicmp demo`: a one-minute tour."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import check_place


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Write the picture to this .png file.")] = Path("logicmp-demo.png"),
) -> None:
    """Show LogicMP on two examples, smokers and a form; draw a picture.

    \b
        logicmp demo
        logicmp demo -o blocks.png
    """
    check_place(output)
    # importing torch is slow
    from ..demo.tour import show_blocks, show_smokers

    for text in show_smokers():
        typer.echo(text)
    for text in show_blocks(output):
        typer.echo(text)
