"""`logicmp convert`: the files of one program as those of another."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import LogicMPError
from ..facts.columns import Evidence
from ..facts.db import load_facts, parse_facts
from ..facts.psl import read_psl
from ..files import check_places, write_whole
from ..limits import Progress
from ..page import plural
from ..parse.load import load_theory
from ..parse.theory import Theory
from ..show.dialects import DIALECTS, RULES_FILE, write_dialect
from ..show.progress import print_message, shown_progress
from .options import EvidenceOption


class Dialect(StrEnum):
    alchemy = "alchemy"
    tuffy = "tuffy"
    pracmln = "pracmln"
    expressgnn = "expressgnn"
    psl = "psl"
    csv = "csv"


def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="An .mln or .psl file, - for stdin, or a folder of "
                                                             "ExpressGNN, of PSL, or of CSV files with rules.mln.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The .mln file to write, with the facts in a .db file "
                                                               "of the same name; or the folder, for ExpressGNN, PSL "
                                                               "and CSV.")],
    came: Annotated[Dialect | None, typer.Option("--from", help="Dialect of IN; by default what its files look like.")
                    ] = None,
    to: Annotated[Dialect | None, typer.Option("--to", help="Dialect of OUT; by default alchemy for an .mln file.")
                  ] = None,
    evidence: EvidenceOption = None,
) -> None:
    """Rewrite rules and facts for another program.

    Everything that cannot be carried over is named in a line on stderr.

    \b
        logicmp convert model.mln -e evidence.db out.mln --to tuffy
        logicmp convert uw_cse/ai out.mln --from expressgnn --to alchemy
        logicmp convert model.mln -e evidence.db out --to psl
    """
    to = to or _guess_target(target)
    is_folder = to in (Dialect.expressgnn, Dialect.psl, Dialect.csv)
    if not is_folder:
        check_places({"the rules": target, "the facts": target.with_suffix(".db")}, [source, *(evidence or [])])
    elif target.is_file() or not target.parent.is_dir():
        raise LogicMPError(f"cannot write the folder {str(target)!r}: "
                           + ("it is a file" if target.is_file() else f"there is no folder {str(target.parent)!r}"))
    if is_folder and target.resolve() == Path(source).resolve():
        raise LogicMPError(f"the files would overwrite the input {source!r}", "write to another folder")
    with shown_progress(quiet=source == "-") as progress:
        progress("reading", 0, 0)
        theory, facts, notes = _read(source, came or _guess_source(source), evidence or [], progress)
        progress("writing", 0, 0)
        done = write_dialect(theory, facts, to.value)
        if is_folder:
            target.mkdir(exist_ok=True)
            for name, text in done.files.items():
                write_whole(target / name, text, "the files")
        else:
            write_whole(target, done.files[".mln"], "the rules")
            if ".db" in done.files:
                write_whole(target.with_suffix(".db"), done.files[".db"], "the facts")
    for note in (*notes, *done.notes):
        print_message(note)
    print_message(f"{plural(len(theory.rules), 'rule')} and {plural(len(facts), 'fact')} in {target}")


def _guess_target(target: Path) -> Dialect:
    if target.suffix != ".mln":
        raise LogicMPError(f"the dialect of {str(target)!r} is not known", f"add --to {', '.join(DIALECTS)}")
    return Dialect.alchemy


def _guess_source(source: str) -> Dialect:
    path = Path(source)
    if path.suffix == ".psl" or (path.is_dir() and any(path.glob("*.psl"))):
        return Dialect.psl
    if path.is_dir():
        return Dialect.csv if (path / RULES_FILE).is_file() else Dialect.expressgnn
    return Dialect.alchemy


def _read(source: str, dialect: Dialect, evidence: list[str], progress: Progress
          ) -> tuple[Theory, Evidence, list[str]]:
    if dialect is Dialect.psl:
        if evidence:
            raise LogicMPError("-e is given, but PSL's facts are listed in its .data file", "remove -e")
        return read_psl(Path(source))
    path: str | Path = source
    files: list[str] = list(evidence)
    if dialect is Dialect.csv:
        path = Path(source) / RULES_FILE
        theory = load_theory(path)
        files += [f"{name}={Path(source) / name}.csv" for name in theory.predicate
                  if (Path(source) / f"{name}.csv").is_file()]
    else:
        theory = load_theory(path)
    if dialect is Dialect.expressgnn and (Path(source) / "facts").is_file():
        files.append(str(Path(source) / "facts"))
    return theory, load_facts(files, theory, progress) if files else parse_facts("", theory), []
