"""Read the files of PSL: logical rules (.psl) and the lists of their data (.data), as a theory and evidence.

Room: parse -> **facts** -> cli.

    1.5: Friends(X, Y) & Smokes(X) -> Smokes(Y) ^2       1.5 Friends(x, y) ^ Smokes(x) => Smokes(y)
    Lives(X, +C) = 1 .                                   Lives(t1, t2!)
    Friends/2: closed                                    *Friends(t1, t1)

PSL has no types: two arguments have one type if a rule has the same variable, or a comparison, in both places.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import LogicMPError
from ..files import read_source
from ..parse.load import parse_theory
from ..parse.syntax import quoted
from ..parse.theory import Theory
from .columns import Evidence
from .db import load_facts, parse_facts

_STRING = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_TOKEN = re.compile(rf"""\s*(?:(?P<string>{_STRING})"""
                    r"""|(?P<sign>->|>>|<-|<<|==|!=|&&|\|\||[&|!~(),])|(?P<word>[\w-]+))""")
_RULE = re.compile(r"(?:(?P<weight>[-+\d.eE]+)\s*:\s*)?(?P<body>.*?)\s*(?P<power>\^[12])?\s*(?P<hard>\.)?$", re.DOTALL)
_SUM = re.compile(r"(\w+)\(([^()]*\+[^()]*)\)\s*(=|<=)\s*1(?:\.0)?\s*$")
_SIGNS = {"->": " => ", ">>": " => ", "&": " ^ ", "&&": " ^ ", "|": " v ", "||": " v ", "!": "!", "~": "!", "(": "(",
          ")": ")", ",": ", ", "==": " = ", "!=": " != "}
_ENTRY = re.compile(r"\s+([\w-]+)\s*(?:/\s*(\d+))?\s*:\s*(.*?)\s*$")
SECTIONS = ("predicates", "observations", "targets", "truth")


@dataclass
class _Model:
    """Rules as text of ours, and how often each predicate and which variables stand in which arguments."""

    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    arity: dict[str, int] = field(default_factory=dict)
    marks: dict[tuple[str, int], str] = field(default_factory=dict)
    # places of arguments that have one type
    parent: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)

    def root(self, place: tuple[str, int]) -> tuple[str, int]:
        while self.parent.setdefault(place, place) != place:
            place = self.parent[place]
        return place


def read_psl(path: Path) -> tuple[Theory, Evidence, list[str]]:
    """The theory, the facts, and a line for everything that was left out.

    Args:
        path: a .psl file with a .data file of the same name next to it, or the folder of one.
    """
    if path.is_dir():
        found = sorted(path.glob("*.psl"))
        if len(found) != 1:
            raise LogicMPError(f"the folder {str(path)!r} has {len(found)} .psl files, expected one",
                               "give the file itself")
        path = found[0]
    sections = _read_data(path.with_suffix(".data"))
    model = _Model()
    for name, size, _ in sections["predicates"]:
        model.arity[name] = int(size or 0)
    for number, line in enumerate(_statements(read_source(path).text), 1):
        try:
            _add_rule(line, model)
        except ValueError as cause:
            model.notes.append(f"{path.name}, rule {number}: {line}: left out: {cause}")
    closed = {name for name, _, value in sections["predicates"] if value.lower() == "closed"}
    theory = parse_theory(_declared(model, closed) + "\n".join(model.lines) + "\n", str(path))
    tables: dict[str, list[list[str]]] = {}
    constants: dict[str, dict[str, None]] = {}
    for section in ("observations", "targets"):
        for name, _, file in sections[section]:
            if name not in theory.predicate:
                raise LogicMPError(f"{path.with_suffix('.data')}: predicate {name!r} has {section}, but no declaration",
                                   f"add it to predicates: {name}/2: open")
            rows = [line.split("\t") for line in read_source(path.parent / file).text.splitlines() if line]
            types = theory.predicate[name].types
            for row in rows:
                if len(row) not in (len(types), len(types) + 1):
                    raise LogicMPError(f"{file}: {len(row)} fields, expected {len(types)}, because {name}/{len(types)}",
                                       "separate the fields by tabs")
                for t, constant in zip(types, row, strict=False):
                    constants.setdefault(t, {})[constant] = None
            if section == "observations":
                tables.setdefault(name, []).extend([*row, "1"] if len(row) == len(types) else row for row in rows)
    theory = theory.with_constants({name: tuple(known) for name, known in constants.items()})
    facts = load_facts({name: {**{str(k): column for k, column in enumerate(list(zip(*rows, strict=True))[:-1])},
                               "value": [row[-1] for row in rows]} for name, rows in tables.items() if rows}, theory)
    return theory, facts if tables else parse_facts("", theory), model.notes


def _statements(text: str) -> list[str]:
    text = re.sub(rf"({_STRING})|//[^\n]*|#[^\n]*|/\*.*?\*/", lambda found: found[1] or "", text, flags=re.DOTALL)
    return [line.strip() for line in text.splitlines() if line.strip()]


def _read_data(path: Path) -> dict[str, list[tuple[str, str | None, str]]]:
    """The entries of each section: name, arity, value."""
    found: dict[str, list[tuple[str, str | None, str]]] = {name: [] for name in SECTIONS}
    section = None
    for number, line in enumerate(read_source(path).text.splitlines(), 1):
        plain = line.partition("#")[0].rstrip()
        if not plain:
            continue
        entry = _ENTRY.fullmatch(plain)
        if plain.rstrip(":").strip() in SECTIONS and plain.endswith(":") and not plain[0].isspace():
            section = plain.rstrip(":").strip()
        elif entry is not None and section is not None:
            found[section].append((entry[1], entry[2], entry[3]))
        else:
            raise LogicMPError(f"{path}, line {number}: expected a section or an entry, got {line.strip()!r}",
                               "write 'predicates:' or, indented, 'Friends/2: closed'")
    return found


def _add_rule(line: str, model: _Model) -> None:
    """Translate one rule; ValueError says what it has that we do not."""
    parts = _RULE.fullmatch(line)
    assert parts is not None
    total = _SUM.fullmatch(parts["body"])
    if total is not None:
        if parts["hard"] is None:
            raise ValueError("a weighted sum")
        args = [arg.strip() for arg in total[2].split(",")]
        model.arity.setdefault(total[1], len(args))
        for k, arg in enumerate(args):
            if arg.startswith("+"):
                model.marks[total[1], k] = "!" if total[3] == "=" else "?"
        return
    if re.search(r"[=<>]=?\s*-?[\d.]+|\+\s*\w|\*", re.sub(f"{_STRING}|->", "", parts["body"])):
        raise ValueError("an arithmetic rule")
    formula = _translate(parts["body"], model)
    if parts["power"] == "^2":
        model.notes.append(f"{line}: the loss is squared in PSL; a weight here is linear")
    if parts["weight"] is None and parts["hard"] is None:
        raise ValueError("no weight, and no full stop for a hard rule")
    model.lines.append(f"{parts['weight']} {formula}" if parts["weight"] else f"{formula}.")


def _translate(body: str, model: _Model) -> str:
    out: list[str] = []
    at, places = 0, dict[str, tuple[str, int]]()
    predicate, k, compared = "", -1, list[str]()
    reverse = None
    while at < len(body.rstrip()):
        token = _TOKEN.match(body, at)
        if token is None:
            raise ValueError(f"unexpected {body[at:].strip()[:1]!r}")
        at = token.end()
        sign, word, text = token["sign"], token["word"], token["string"]
        if sign in ("<-", "<<"):
            reverse, out = "".join(out), []
            continue
        if sign is not None:
            if sign == "," and k >= 0:
                k += 1
            if sign == ")" and k >= 0:
                model.arity.setdefault(predicate, k + 1)
                predicate, k = "", -1
            out.append(_SIGNS[sign])
            if sign == "(" and predicate:
                k = 0
            if sign in ("==", "!=") and not compared:
                compared = [out[-2]]
            continue
        is_call = word is not None and k < 0 and body[at:].lstrip().startswith("(")
        if is_call:
            assert word is not None
            predicate = word
            out.append(word)
            continue
        if word is not None and word[0].isupper():
            shown = word[0].lower() + word[1:]
            if k >= 0:
                first = places.setdefault(shown, (predicate, k))
                model.parent[model.root((predicate, k))] = model.root(first)
        else:
            name = word if word is not None else re.sub(r"\\(.)", r"\1", (text or "")[1:-1])
            shown = quoted(name)
        if compared:
            sides = [places.get(side) for side in (compared[0], shown)]
            if sides[0] is not None and sides[1] is not None:
                model.parent[model.root(sides[0])] = model.root(sides[1])
            compared = []
        out.append(shown)
    written = "".join(out)
    return written if reverse is None else f"{written} => {reverse}"


def _declared(model: _Model, closed: set[str]) -> str:
    types: dict[tuple[str, int], str] = {}
    lines = []
    for name, arity in model.arity.items():
        args = []
        for k in range(arity):
            root = model.root((name, k))
            types.setdefault(root, f"t{len(types) + 1}")
            args.append(types[root] + model.marks.get((name, k), ""))
        listed = f"({', '.join(args)})" if args else ""
        lines.append(f"{'*' if name in closed else ''}{name}{listed}\n")
    return "".join(lines)
