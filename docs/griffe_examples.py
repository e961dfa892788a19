"""An extension of mkdocstrings: examples (`>>>`) anywhere in a docstring are shown as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^(>>> .*(?:\n(?!\s*$).+)*)", re.MULTILINE)


class Examples(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **options: Any) -> None:
        if obj.docstring is not None and "Examples:" not in obj.docstring.value:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\1\n```", obj.docstring.value)
