"""A checked theory: types, predicates and rules.

Room: **parse** -> normalize.  Paper: Section 2, the knowledge base {E, R, O} and the formulas F.

    person = {Anna, Bob}
    Smokes(person)
    1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)

`str(theory)` is text that parses to an equal theory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..errors import LogicMPError, Span, closest
from ..page import code, fragment
from .syntax import PLAIN_LABEL, Atom, Constant, Formula, Variable, atoms, free_variables, quoted, terms

# the type of every argument in a theory that declares no predicate
DEFAULT_TYPE = "thing"


@dataclass(frozen=True, slots=True)
class Type:
    """A set of constants; closed if the theory lists them, otherwise facts may add more."""

    name: str
    # a tuple, or numbers that are shown as strings (`numerals.py`)
    constants: Sequence[str] = ()
    closed: bool = False

    def __str__(self) -> str:
        return f"{self.name} = {{{', '.join(quoted(c) for c in self.constants)}}}"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a predicate: `person`, `person!` (exactly one) or `person?` (at most one)."""

    type: str
    mark: str = ""

    def __str__(self) -> str:
        return self.type + self.mark


@dataclass(frozen=True, slots=True)
class Predicate:
    """A declared predicate: `Friends(person, person)`, `label(token) in {O, B}`, `*Seen(x)`, `symmetric C(t, t)`."""

    name: str
    arguments: tuple[Argument, ...] = ()
    # the values of a multi-class predicate
    labels: tuple[str, ...] | None = None
    # atoms without a fact are false
    closed_world: bool = False
    symmetric: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(argument.type for argument in self.arguments)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of the predicate's tensor, without batch dimensions; labels are last."""
        labels = () if self.labels is None else (len(self.labels),)
        return (*(sizes[t] for t in self.types), *labels)

    @property
    def functional(self) -> tuple[int, ...]:
        """The positions marked `!` or `?`; together they are the value of one categorical variable."""
        return tuple(i for i, argument in enumerate(self.arguments) if argument.mark)

    @property
    def may_be_none(self) -> bool:
        """Whether the categorical variable may have no value (`?`)."""
        return any(argument.mark == "?" for argument in self.arguments)

    @property
    def is_categorical(self) -> bool:
        return self.labels is not None or bool(self.functional)

    def __str__(self) -> str:
        args = f"({', '.join(map(str, self.arguments))})" if self.arguments else ""
        chosen = ", ".join(quoted(label, PLAIN_LABEL) for label in self.labels or ())
        return (f"{'*' if self.closed_world else ''}{'symmetric ' if self.symmetric else ''}{self.name}{args}"
                f"{'' if self.labels is None else f' in {{{chosen}}}'}")


@dataclass(frozen=True, slots=True)
class Rule:
    """A formula with a weight, without one (to be learned; 1 in the layer), or hard."""

    formula: Formula
    weight: float | None = None
    is_hard: bool = False
    # written in [ ]: `semantics="alchemy"` does not split it
    indivisible: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def variables(self) -> dict[str, str]:
        """The free variables, which the rule quantifies universally, and their types."""
        return free_variables(self.formula)

    @property
    def per_constant(self) -> tuple[str, ...]:
        """The variables marked `+`: the rule has one weight for each of their constants."""
        marked = {term.name for leaf in atoms(self.formula) for term in terms(leaf)
                  if isinstance(term, Variable) and term.per_constant}
        return tuple(name for name in self.variables if name in marked)

    def __str__(self) -> str:
        formula = f"[{self.formula}]" if self.indivisible else str(self.formula)
        if self.is_hard:
            return f"{formula}."
        if self.weight is None:
            # brackets, because a bare atom would read as a declaration
            return f"({formula})" if isinstance(self.formula, Atom) and not self.indivisible else formula
        return f"{number(self.weight)} {formula}"


def number(value: float) -> str:
    """A float in the fewest digits that read back as the same float.

    >>> number(2.0), number(0.1), number(1e-7)
    ('2', '0.1', '1e-07')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


@dataclass(frozen=True)
class Theory:
    """Types, predicates and rules; every name is declared and every variable has one type.

    Attributes:
        types: every type with its constants.
        predicates: every predicate with the types of its arguments.
        rules: the rules in the order of the text.
    """

    types: tuple[Type, ...] = ()
    predicates: tuple[Predicate, ...] = ()
    rules: tuple[Rule, ...] = ()

    # types and predicates by name, and the position of each constant in its type; plain dicts, made at once, because
    # torch.compile cannot trace the lock of a cached property
    type: Mapping[str, Type] = field(init=False, compare=False, repr=False)
    predicate: Mapping[str, Predicate] = field(init=False, compare=False, repr=False)
    _index: Mapping[str, Mapping[str, int]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        tables = {
            "type": {t.name: t for t in self.types},
            "predicate": {p.name: p for p in self.predicates},
            "_index": {t.name: _positions(t.constants) for t in self.types},
        }
        for name, table in tables.items():
            object.__setattr__(self, name, table)

    def index(self, type_name: str, constant: str) -> int:
        """The position of a constant in its type, which is its index in every tensor."""
        return self._index[type_name][constant]

    def indices(self, type_name: str) -> Mapping[str, int]:
        """The position of every constant of a type."""
        return self._index[type_name]

    def has_constant(self, type_name: str, constant: str) -> bool:
        return constant in self._index[type_name]

    @property
    def sizes(self) -> dict[str, int]:
        """The number of constants of each type so far."""
        return {t.name: len(t.constants) for t in self.types}

    def with_constants(self, more: Mapping[str, Sequence[str]]) -> Theory:
        """The same theory with more constants; new ones come last."""
        return replace(self, types=tuple(replace(t, constants=_merged(t.constants, more.get(t.name, ())))
                                         for t in self.types))

    def with_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The size of each type: the given one, else the number of its constants; contradictions are errors."""
        unknown = set(sizes) - set(self.type)
        if unknown:
            name = sorted(unknown)[0]
            raise LogicMPError(f"sizes names the type {name!r}, which the theory does not have",
                               closest(name, self.type, "type"))
        for t in self.types:
            size = sizes.get(t.name, len(t.constants))
            if size < len(t.constants) or (t.closed and size != len(t.constants)):
                raise LogicMPError(f"type {t.name!r} has {len(t.constants)} constants, but its size is given as {size}")
        return {t.name: sizes.get(t.name, len(t.constants)) for t in self.types}

    def split_facts(self) -> tuple[Theory, dict[str, list[tuple[int, ...]]]]:
        """The theory without the facts of closed predicates (`parent(Dog, Animal).`), and these facts, as indices."""
        found: dict[str, list[tuple[int, ...]]] = {}
        rules = []
        for rule in self.rules:
            atom = rule.formula
            if (rule.is_hard and isinstance(atom, Atom) and atom.labels is None and not rule.variables
                    and self.predicate[atom.predicate].closed_world):
                place = tuple(self.index(term.type, term.name) for term in atom.args if isinstance(term, Constant))
                found.setdefault(atom.predicate, []).append(place)
                if self.predicate[atom.predicate].symmetric:
                    found[atom.predicate].append(place[::-1])
            else:
                rules.append(rule)
        return (replace(self, rules=tuple(rules)) if found else self), found

    def _repr_html_(self) -> str:
        return fragment(code(str(self)))

    def __str__(self) -> str:
        listed = [str(t) for t in self.types if t.closed]
        parts = [listed, [str(p) for p in self.predicates], [str(r) for r in self.rules]]
        return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _positions(constants: Sequence[str]) -> Mapping[str, int]:
    if isinstance(constants, (tuple, list)):
        return {c: i for i, c in enumerate(constants)}
    from .numerals import positions

    return positions(constants)


def _merged(constants: Sequence[str], more: Sequence[str]) -> Sequence[str]:
    if isinstance(constants, (tuple, list)) and isinstance(more, (tuple, list)):
        return tuple(dict.fromkeys((*constants, *more)))
    from .numerals import merge

    return merge([constants, more])
