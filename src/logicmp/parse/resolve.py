"""Turn statements into a checked theory: find declarations, check names, give every variable one type.

Room: **parse** -> normalize.

    Smokes(person)               the first bare occurrence is a declaration
    1.5 Smokes(x) => Cancer(x)   x is a person, because Smokes(person)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import RuleError, Span, closest, similar
from .syntax import (
    Atom,
    Constant,
    Equal,
    Exists,
    Forall,
    Formula,
    Not,
    Term,
    Variable,
    children,
    depth,
    with_children,
)
from .theory import DEFAULT_TYPE, Argument, Predicate, Rule, Theory, Type
from .tokens import Defined, Enclosed, Include, Marked, Starred, Statement, collector_paused

# every atom marked `*` doubles the number of rules
MAX_STARRED = 8
# below the limit of the reader, because printing adds up to two brackets per level
MAX_DEPTH = 50


@dataclass
class _VariableInfo:
    """One variable of one rule, while its type is inferred."""

    name: str
    type: str = ""
    span: Span | None = None


@dataclass
class _Types:
    """The constants read so far, by type."""

    declared: dict[str, Span | None] = field(default_factory=dict)
    constants: dict[str, dict[str, None]] = field(default_factory=dict)

    def use(self, constant: Constant, type_name: str) -> None:
        """Add a constant to a type, or raise an error if the type lists its constants."""
        known = self.constants.setdefault(type_name, {})
        if type_name in self.declared and constant.name not in known:
            raise unknown_constant(constant.name, type_name, known, constant.span)
        known[constant.name] = None


def unknown_constant(name: str, type_name: str, known: Iterable[str], span: Span | None) -> RuleError:
    return RuleError(f"{name!r} is not a constant of type {type_name!r}, whose constants are listed", span,
                     closest(name, list(known), "constant"))


def unknown_predicate(name: str, declared: Iterable[str], span: Span | None,
                      missing: Predicate | None = None) -> RuleError:
    """The error for a predicate without a declaration; the hint is a similar name, else the `missing` declaration."""
    if span is not None:
        span = Span(span.source, span.start, span.start + len(name))
    known = list(declared)
    hint = closest(name, known, "predicate") if missing is None else similar(name, known) or f"declare it: {missing}"
    return RuleError(f"predicate {name!r} is used but not declared", span, hint)


def wrong_arity(predicate: Predicate, given: int, span: Span | None) -> RuleError:
    expected = len(predicate.arguments)
    return RuleError(f"{predicate.name} has {expected} argument{'s' * (expected != 1)}, but {given} "
                     f"{'is' if given == 1 else 'are'} given", span, f"it is declared as {predicate}")


@collector_paused()
def resolve(statements: Iterable[Statement | Include]) -> Theory:
    """Check the statements of all files together and return the theory."""
    types = _Types()
    predicates: dict[str, Predicate] = {}
    rest: list[Statement] = []
    for statement in statements:
        assert isinstance(statement, Statement), "includes are replaced by what they include before this"
        if isinstance(statement.formula, Defined):
            _declare_type(statement, types)
        elif (declared := _declaration(statement, predicates)) is not None:
            predicates.setdefault(declared.name, declared)
        else:
            rest.append(statement)
    if not predicates:
        for statement in rest:
            for atom in _atoms(statement.formula):
                _declare_default(atom, predicates)
    for predicate in predicates.values():
        for argument in predicate.arguments:
            types.constants.setdefault(argument.type, {})
    rules = [rule for statement in rest for rule in _rules(statement, predicates, types)]
    return Theory(
        tuple(Type(name, tuple(known), name in types.declared) for name, known in types.constants.items()),
        tuple(predicates.values()),
        tuple(rules),
    )


def _plain(formula: Any) -> Any:
    while isinstance(formula, Enclosed):
        formula = formula.body
    return formula


def _atoms(formula: Any) -> Iterator[Atom]:
    """The atoms of a formula before it is resolved, from left to right."""
    formula = _plain(formula)
    if isinstance(formula, (Atom, Starred)):
        yield formula.atom if isinstance(formula, Starred) else formula
    for child in children(formula):
        yield from _atoms(child)


# declarations


def _declare_type(statement: Statement, types: _Types) -> None:
    defined: Defined = statement.formula
    if statement.weight is not None or statement.is_hard:
        raise RuleError("a type declaration has no weight and no final '.'", statement.span)
    known = types.constants.setdefault(defined.name, {})
    known.update(dict.fromkeys(defined.items))
    if not known:
        raise RuleError(f"type {defined.name!r} is declared without constants", defined.span,
                        "list at least one constant")
    types.declared[defined.name] = defined.span


def _declaration(statement: Statement, predicates: dict[str, Predicate]) -> Predicate | None:
    """The predicate that a statement declares, or None for a rule: the first bare atom is the declaration."""
    if statement.weight is not None or statement.is_hard:
        return None
    atom, starred = statement.formula, statement.closed_world
    if isinstance(atom, Starred):
        atom, starred = atom.atom, True
    if not isinstance(atom, Atom) or not all(_names_type(arg) for arg in atom.args):
        if statement.word is not None:
            raise RuleError("a declaration names the types of the arguments", statement.span,
                            "for example: symmetric Friends(person, person)")
        return None
    declared = Predicate(
        atom.predicate,
        tuple(Argument(arg.name, getattr(arg, "mark", "")) for arg in atom.args),
        None if atom.labels is None else atom.labels, starred, statement.word is not None, atom.span)
    known = predicates.get(atom.predicate)
    if known is None:
        _check_declaration(declared)
        return declared
    if known == replace(declared, closed_world=known.closed_world):
        predicates[known.name] = replace(known, closed_world=known.closed_world or starred)
        return known
    if statement.word is not None or starred or any(isinstance(arg, Marked) for arg in atom.args):
        raise RuleError(f"{atom.predicate} is declared twice, and differently", atom.span, also=known.span)
    return None


def _names_type(arg: Any) -> bool:
    if isinstance(arg, Variable):
        return not (arg.offset or arg.per_constant or (arg.span is not None and arg.span.text.startswith("?")))
    return isinstance(arg, Marked) or (isinstance(arg, Constant) and arg.name[:1].isidentifier()
                                       and arg.span is not None and not arg.span.text.startswith('"'))


def _check_declaration(predicate: Predicate) -> None:
    marks = {argument.mark for argument in predicate.arguments} - {""}
    if len(marks) > 1:
        raise RuleError("a predicate cannot have both '!' and '?'", predicate.span)
    if predicate.symmetric and (len(predicate.arguments) != 2 or len(set(predicate.types)) != 1 or marks):
        raise RuleError("a symmetric predicate has two plain arguments of one type", predicate.span,
                        "for example: symmetric Friends(person, person)")
    if predicate.labels is not None and marks:
        raise RuleError("a multi-class predicate has no functional argument", predicate.span)
    if predicate.labels is not None and len(predicate.labels) < 2:
        raise RuleError("a multi-class predicate has at least two labels", predicate.span)


def _declare_default(atom: Atom, predicates: dict[str, Predicate]) -> None:
    """Declare the predicate of a theory without declarations: all its arguments have the default type."""
    if atom.labels is not None:
        types = ", ".join(["token"] * len(atom.args))
        raise RuleError(f"the labels of {atom.predicate!r} are not known", atom.span,
                        f"declare them: {atom.predicate}({types}) in {{A, B, C}}")
    predicates.setdefault(atom.predicate, Predicate(
        atom.predicate, (Argument(DEFAULT_TYPE),) * len(atom.args), span=atom.span))


# rules


def _rules(statement: Statement, predicates: dict[str, Predicate], types: _Types) -> list[Rule]:
    indivisible = isinstance(statement.formula, Enclosed) and statement.formula.bracket == "["
    starred = _count_starred(statement.formula)
    if starred > MAX_STARRED:
        raise RuleError(f"{starred} atoms marked '*' make {2**starred} rules (limit {2**MAX_STARRED})", statement.span)
    rules = [
        Rule(_Checker(predicates, types, signs).check(statement.formula),
             statement.weight, statement.is_hard, indivisible, statement.span)
        for signs in itertools.product((True, False), repeat=starred)
    ]
    for rule in rules:
        if depth(rule.formula) > MAX_DEPTH:
            raise RuleError(f"this formula is nested more than {MAX_DEPTH} deep", statement.span, "split the rule")
    return rules


def resolve_formula(raw: Any, theory: Theory) -> Formula:
    """Check one formula against a theory; new predicates and constants are errors."""
    if _count_starred(raw):
        raise RuleError("'*' is allowed only before an atom of a rule", raw.span)
    known = {t.name: dict.fromkeys(t.constants) for t in theory.types}
    return _Checker(dict(theory.predicate), _Types(dict.fromkeys(known), known), ()).check(raw)


def _count_starred(formula: Any) -> int:
    formula = _plain(formula)
    if isinstance(formula, Starred):
        return 1
    return 0 if isinstance(formula, Defined) else sum(_count_starred(child) for child in children(formula))


class _Checker:
    """Resolve one rule: bind variables to quantifiers, infer their types, check every atom."""

    def __init__(self, predicates: dict[str, Predicate], types: _Types, signs: tuple[bool, ...]):
        self.predicates = predicates
        self.types = types
        self.signs = list(signs)
        self.free: dict[str, _VariableInfo] = {}
        # the variable of each occurrence, by identity, because a rule can have two variables of one name
        self.meaning: dict[int, _VariableInfo] = {}
        self.equalities: list[Equal] = []
        self.bound: list[_VariableInfo] = []
        self.raw: Any = None

    def check(self, raw: Any) -> Formula:
        self.raw = raw
        self._bind(raw, {})
        self._type_equalities()
        for info in (*self.free.values(), *self.bound):
            if not info.type:
                raise RuleError(f"variable {info.name!r} has no type", info.span, "use it in an atom, or remove it")
        self._rename()
        return self._finish(raw)

    def _bind(self, raw: Any, scope: dict[str, _VariableInfo]) -> None:
        """Check atoms, and find the variable of every occurrence."""
        raw = _plain(raw)
        if isinstance(raw, Atom):
            self._bind_atom(raw, scope)
        elif isinstance(raw, Defined):
            raise RuleError("a declaration cannot be part of a rule", raw.span)
        elif isinstance(raw, Starred):
            self._bind_atom(raw.atom, scope)
        elif isinstance(raw, Equal):
            for side in (raw.left, raw.right):
                if isinstance(side, Variable):
                    self._occurrence(side, "", scope)
            self.equalities.append(raw)
        elif isinstance(raw, (Exists, Forall)):
            for variable in raw.variables:
                info = _VariableInfo(variable.name, span=variable.span)
                self.bound.append(info)
                self.meaning[id(variable)] = info
            self._bind(raw.body, {**scope, **{v.name: self.meaning[id(v)] for v in raw.variables}})
        else:
            for child in children(raw):
                self._bind(child, scope)

    def _bind_atom(self, raw: Atom, scope: dict[str, _VariableInfo]) -> None:
        predicate = self.predicates.get(raw.predicate)
        if predicate is None:
            raise unknown_predicate(raw.predicate, self.predicates, raw.span, self._missing(raw))
        if len(raw.args) != len(predicate.arguments):
            raise wrong_arity(predicate, len(raw.args), raw.span)
        if (raw.labels is None) != (predicate.labels is None):
            raise RuleError(
                f"{predicate.name} is {'not ' if predicate.labels is None else ''}multi-class", raw.span,
                f"it is declared as {predicate}" if predicate.labels is None
                else f"name the labels: {predicate.name}(...) in {{{predicate.labels[0]}}}")
        known = set(predicate.labels or ())
        for label in raw.labels or ():
            if label not in known:
                raise RuleError(f"{label!r} is not a label of {predicate.name}", raw.span,
                                closest(label, predicate.labels or (), "label"))
        if raw.labels == ():
            raise RuleError("the set of labels is empty", raw.span)
        for arg, argument in zip(raw.args, predicate.arguments, strict=True):
            if isinstance(arg, Variable):
                self._occurrence(arg, argument.type, scope)
            elif isinstance(arg, Constant):
                self.types.use(arg, argument.type)
            else:
                raise RuleError(f"'{arg.name}{arg.mark}' is allowed only in a declaration", arg.span)

    def _missing(self, atom: Atom) -> Predicate:
        """The declaration to add for an undeclared atom, with types from the other atoms of the rule."""
        types = {arg.name: type_name for other in _atoms(self.raw) if other.predicate in self.predicates
                 for arg, type_name in zip(other.args, self.predicates[other.predicate].types, strict=False)}
        arguments = tuple(Argument(types.get(arg.name, DEFAULT_TYPE)) for arg in atom.args)
        labels = (*atom.labels, "Other") if atom.labels is not None and len(atom.labels) < 2 else atom.labels
        return Predicate(atom.predicate, arguments, labels)

    def _occurrence(self, variable: Variable, type_name: str, scope: dict[str, _VariableInfo]) -> None:
        info = scope.get(variable.name)
        if info is not None and variable.per_constant:
            raise RuleError(f"'+{variable.name}' is bound by a quantifier", variable.span,
                            "weights are per constant of a free variable")
        if info is None:
            info = self.free.get(variable.name)
        if info is None:
            info = self.free[variable.name] = _VariableInfo(variable.name, span=variable.span)
        self.meaning[id(variable)] = info
        self._set_type(info, type_name, variable.span)

    def _set_type(self, info: _VariableInfo, type_name: str, span: Span | None) -> None:
        if not type_name:
            return
        if info.type and info.type != type_name:
            raise RuleError(f"variable {info.name!r} is a {info.type} in one place and a {type_name} in another",
                            info.span, also=span)
        if not info.type:
            info.type, info.span = type_name, span

    def _type_equalities(self) -> None:
        """Give both sides of `x = y` the same type, also through chains of equalities."""
        for _ in range(len(self.equalities)):
            for equal in self.equalities:
                for one, other in ((equal.left, equal.right), (equal.right, equal.left)):
                    if isinstance(one, Variable) and isinstance(other, Variable):
                        self._set_type(self.meaning[id(other)], self.meaning[id(one)].type, other.span)
        for equal in self.equalities:
            if isinstance(equal.left, Constant) and isinstance(equal.right, Constant):
                raise RuleError("both sides of this equality are constants", equal.span,
                                "different names are different constants, so this is always true or always false")

    def _rename(self) -> None:
        """Give variables names that read back as variables: pracmln's ?X becomes x, unless x is taken."""
        infos = (*self.free.values(), *self.bound)
        taken = {info.name for info in infos}
        renamed: dict[str, str] = {}
        for name in sorted(name for name in taken if name[0].isupper()):
            new = name[0].lower() + name[1:]
            # some letters have no lower case that can start a name
            new = new if len(new) == len(name) and not new[0].isupper() else f"_{name}"
            while new in taken:
                new += "_"
            taken.add(new)
            renamed[name] = new
        for info in infos:
            info.name = renamed.get(info.name, info.name)

    def _finish(self, raw: Any) -> Formula:
        """The formula with types, final names and signs for `*`, without brackets."""
        raw = _plain(raw)
        if isinstance(raw, Atom):
            predicate = self.predicates[raw.predicate]
            chosen = set(raw.labels or ())
            labels = None if raw.labels is None else tuple(
                label for label in predicate.labels or () if label in chosen)
            return Atom(raw.predicate, tuple([self._term(arg, argument.type) for arg, argument
                                              in zip(raw.args, predicate.arguments, strict=True)]), labels, raw.span)
        if isinstance(raw, Starred):
            atom = self._finish(raw.atom)
            return atom if self.signs.pop(0) else Not(atom, raw.span)
        if isinstance(raw, Equal):
            type_name = next(self.meaning[id(s)].type for s in (raw.left, raw.right) if isinstance(s, Variable))
            for side in (raw.left, raw.right):
                if isinstance(side, Constant):
                    self.types.use(side, type_name)
            return Equal(self._term(raw.left, type_name), self._term(raw.right, type_name), raw.span)
        if isinstance(raw, (Exists, Forall)):
            variables = tuple(self._variable(v) for v in raw.variables)
            return type(raw)(variables, self._finish(raw.body), raw.span)
        return with_children(raw, [self._finish(child) for child in children(raw)])

    def _term(self, term: Term, type_name: str) -> Term:
        return self._variable(term) if isinstance(term, Variable) else Constant(term.name, type_name, term.span)

    def _variable(self, variable: Variable) -> Variable:
        info = self.meaning[id(variable)]
        return Variable(info.name, info.type, variable.offset, variable.per_constant, variable.span)
