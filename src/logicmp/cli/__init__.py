"""The command line.  Room: everything -> **cli**."""

from .app import main

__all__ = ["main"]
