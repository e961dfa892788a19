"""The Python program and the shell commands that compute what the page shows.

Room: **serve** (programs -> app).
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping
from typing import Any

from .reading import Ask


def method_options(ask: Ask) -> tuple[str, dict[str, Any]]:
    """The method of `infer` and its options; "layer" is mean field with a fixed number of iterations."""
    if ask["method"] != "layer":
        return ask["method"], {}
    found: dict[str, Any] = {"iterations": ask["iterations"], "damping": ask["damping"], "tolerance": 0.0,
                             "correction": "none"}
    return "mean-field", found | ({"temperature": ask["temperature"]} if ask["temperature"] != 1 else {})


def python_program(ask: Ask) -> str:
    """A program that prints the answers."""
    method, options = method_options(ask)
    words = ["RULES", "FACTS"] if ask["facts"].strip() else ["RULES"]
    named = {"query": ask["query"].strip() or None, "method": method if method != "auto" else None, **_other(ask),
             **options}
    words += [f"{name}={value!r}" for name, value in named.items() if value is not None]
    facts = f"FACTS = {_literal(ask['facts'])}\n" if ask["facts"].strip() else ""
    return (f"from logicmp import infer\n\nRULES = {_literal(ask['rules'])}\n{facts}\n"
            f"found = infer({', '.join(words)})\n"
            'for atom, probability in found.items():\n    print(f"{probability:.4f}  {atom}")\n')


def shell_commands(ask: Ask) -> str:
    """Commands for a shell that write the files and print the answers."""
    method, options = method_options(ask)
    words = ["logicmp", "infer", "-i", "rules.mln"]
    parts = [_file("rules.mln", ask["rules"])]
    if ask["facts"].strip():
        words += ["-e", "facts.db"]
        parts.append(_file("facts.db", ask["facts"]))
    if ask["query"].strip():
        words += ["-q", ask["query"].strip()]
    if method != "auto":
        words += ["-m", method]
    for name, value in {**_other(ask), **options}.items():
        # the command line has an option for each of these but the temperature
        words += ["--set", f"temperature={value}"] if name == "temperature" else [f"--{name}", str(value)]
    return f"{''.join(parts)}{shlex.join(words)}\n"


def _other(ask: Ask) -> Mapping[str, Any]:
    """The options that every method has, where they are not the usual ones."""
    return {name: ask[name] for name, usual in (("semantics", "exact"), ("seed", 0)) if ask[name] != usual}


def _literal(text: str) -> str:
    """A text as Python writes it, over several lines where these read back as the same text."""
    text = text if text.endswith("\n") else f"{text}\n"
    is_plain = not any(part in text for part in ('"""', "\\", "\r", "\0")) and text.replace("\n", "").isprintable()
    return f'"""\\\n{text}"""' if is_plain else repr(text)


def _file(name: str, text: str) -> str:
    """A command that writes a file; the mark of its end is no line of the text."""
    lines = set(text.split("\n"))
    end = next(mark for k in itertools.count() if (mark := f"END{k or ''}") not in lines)
    return f"cat > {name} <<'{end}'\n{text if text.endswith(chr(10)) else text + chr(10)}{end}\n"
