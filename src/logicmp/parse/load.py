"""Files, includes and folders: from a path to a theory.

Room: errors, files -> **parse** -> facts, normalize.

    load_theory("smoking.mln")            an .mln file of Alchemy, Tuffy or pracmln
    load_theory("uw_cse/ai")              a folder of ExpressGNN with `predicates`, `rules` and `facts`
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..arguments import checked
from ..errors import LogicMPError, RuleError, Source
from ..files import read_source, read_stdin, reject_path
from .reader import read_statements
from .resolve import resolve
from .theory import Theory
from .tokens import Include, Statement

GRAMMARS = ("auto", "standard", "prac")
# files that includes may read, and how deep they may be inside each other
MAX_INCLUDES = 1000
MAX_INCLUDE_DEPTH = 50


@checked
def parse_theory(text: str, name: str = "<text>", grammar: str = "auto") -> Theory:
    """Parse and check a theory given as text.

    >>> print(parse_theory("2 Smokes(x) => Cancer(x)"), end="")
    Smokes(thing)
    Cancer(thing)
    <BLANKLINE>
    2 Smokes(x) => Cancer(x)

    Args:
        text: the theory; `#include` is looked up from the current folder.
        name: what errors call the text.
        grammar: "standard" (lower-case variables), "prac" (`?x` variables), or "auto".
    """
    _check_grammar(grammar)
    reject_path(text, "load_theory({})")
    return resolve(_expand(Source(name, text), Path(), grammar, ()))


def _check_grammar(grammar: str) -> None:
    if grammar not in GRAMMARS:
        raise LogicMPError(f"unknown grammar {grammar!r}", f"available grammars: {', '.join(GRAMMARS)}")


@checked
def load_theory(paths: str | Path | Sequence[str | Path], grammar: str = "auto") -> Theory:
    """Read a theory from a file, from `-` (standard input), from a folder of ExpressGNN, or from several of them.

    Args:
        paths: one or several files, `-` for standard input, or ExpressGNN folders.
        grammar: "standard" or "prac" (pracmln); "auto" detects it.
    """
    _check_grammar(grammar)
    paths = [paths] if isinstance(paths, (str, Path)) else paths
    if not paths:
        raise LogicMPError("paths is empty", "give at least one file")
    return resolve([statement for path in paths for statement in _statements(path, grammar)])


def _statements(path: str | Path, grammar: str) -> list[Statement | Include]:
    if str(path) == "-":
        return _expand(read_stdin("a theory is plain text in UTF-8"), Path(), grammar, ())
    # os.path, because Path.is_dir raises what it does not expect, such as a name that is too long
    if os.path.isdir(path):
        return _folder(Path(path))
    path = Path(path)
    return _expand(read_source(path), path.parent, grammar, (path.resolve(),))


def _expand(source: Source, folder: Path, grammar: str, open_files: tuple[Path, ...],
            read: list[Path] | None = None) -> list[Statement | Include]:
    """The statements of a text with every include replaced by the file's own statements; `read` are all its files."""
    statements: list[Statement | Include] = []
    read = [] if read is None else read
    for statement in read_statements(source, grammar):
        if not isinstance(statement, Include):
            statements.append(statement)
            continue
        path = folder / statement.path
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            # reading a device or a pipe may never end
            raise RuleError(f"cannot include {str(path)!r}: it is not a regular file", statement.span)
        included = read_source(path, statement.span)
        resolved = path.resolve()
        if resolved in open_files:
            chain = " -> ".join(p.name for p in (*open_files[open_files.index(resolved) :], resolved))
            raise RuleError(f"the file includes itself: {chain}", statement.span)
        read.append(resolved)
        if len(open_files) >= MAX_INCLUDE_DEPTH or len(read) > MAX_INCLUDES:
            raise RuleError(f"includes read more than {MAX_INCLUDES:,} files, or are nested more than "
                            f"{MAX_INCLUDE_DEPTH} deep", statement.span, "include each file once, or join the files")
        statements += _expand(included, path.parent, grammar, (*open_files, resolved), read)
    return statements


def _folder(folder: Path) -> list[Statement | Include]:
    missing = [name for name in ("predicates", "rules") if not (folder / name).is_file()]
    if missing:
        raise LogicMPError(f"the folder {str(folder)!r} has no file {missing[0]!r}",
                           "expected 'predicates' and 'rules', as ExpressGNN writes them; or give an .mln file")
    # a theory may have no rules
    return [statement for source in (read_source(folder / name) for name in ("predicates", "rules"))
            if source.name.endswith("predicates") or source.text.strip()
            for statement in _expand(source, folder, "standard", ())]
