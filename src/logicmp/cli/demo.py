"""`logicmp demo`: the point of it all, in a minute."""

from __future__ import annotations

import typer


def demo() -> None:
    """Show LogicMP at work on a small theory.

    \b
        logicmp demo
    """
    typer.echo("demo")
