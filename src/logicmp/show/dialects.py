"""A theory and its facts in the files of another program, with a line for everything that cannot be carried over.

Room: parse, facts, normalize -> **show** -> cli.

    write_dialect(theory, facts, "tuffy").files         {".mln": "*Friends(person, person)\\n...", ".db": "..."}

Every rewriting below leaves the distribution as it is: `w A ^ B` becomes the clause `-w !A v !B`, a formula of several
clauses becomes one clause for each part of a decision tree, soft evidence becomes a rule about one atom.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import CostError, LogicMPError
from ..facts.columns import Column, Evidence, FactTable
from ..facts.frames import table_bytes
from ..normalize.clauses import Clause, push_negation, to_clauses
from ..parse.syntax import (
    And,
    Atom,
    Constant,
    Equal,
    Exists,
    Forall,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Term,
    Variable,
    atoms,
    children,
    quoted,
    terms,
    with_children,
)
from ..parse.theory import Argument, Predicate, Rule, Theory, Type, number

DIALECTS = ("alchemy", "tuffy", "pracmln", "expressgnn", "psl", "csv")
# atoms of a formula that a decision tree splits, and rows of a file of targets
MAX_ATOMS = 8
MAX_TARGETS = 1_000_000
# one file for each of the predicates, named after them, in these dialects
RULES_FILE = "rules.mln"


@dataclass
class Written:
    """The files of a dialect, and what they lack.

    Attributes:
        files: by name in a folder; those of one program's file pair have the names ".mln" and ".db".
        notes: a line for everything that was left out or has to be said to the other program.
    """

    files: dict[str, str | bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def write_dialect(theory: Theory, facts: Evidence, dialect: str) -> Written:
    """Write a theory and its facts as files of another program.

    >>> from logicmp import parse_facts, parse_theory
    >>> theory = parse_theory("Smokes(person)\\nCancer(person)\\n1.5 Smokes(x) <=> Cancer(x)")
    >>> print(write_dialect(theory, parse_facts("Smokes(Anna)", theory), "tuffy").files[".mln"], end="")
    Smokes(person)
    Cancer(person)
    <BLANKLINE>
    1.5 Smokes(x) v !Cancer(x)
    1.5 !Smokes(x) v Cancer(x)

    Args:
        theory: the rules.
        facts: the evidence for them.
        dialect: one of `DIALECTS`.
    """
    if dialect not in DIALECTS:
        raise LogicMPError(f"unknown dialect {dialect!r}", f"available dialects: {', '.join(DIALECTS)}")
    # with the constants that the facts add
    theory = replace(facts.theory, rules=theory.rules)
    if dialect == "csv":
        return _write_csv(theory, facts)
    writer = {"alchemy": _Alchemy, "tuffy": _Tuffy, "pracmln": _Pracmln, "expressgnn": _ExpressGNN, "psl": _PSL}[dialect]
    return writer(theory, facts).write()


def _write_csv(theory: Theory, facts: Evidence) -> Written:
    done = Written({RULES_FILE: str(_close_types(theory, facts.tables))})
    for name, table in facts.tables.items():
        types = table.predicate.types
        names = [t if types.count(t) == 1 else f"{t}_{k + 1}" for k, t in enumerate(types)]
        names += ["label"] * (len(table.columns) - len(types))
        columns = {n: [column.names[k] for k in column.codes] for n, column in zip(names, table.columns, strict=True)}
        if not columns or bool((table.values != 1).any()):
            columns["value"] = ["" if math.isnan(value) else number(value) for value in table.values.tolist()]
        done.files[f"{name}.csv"] = table_bytes(columns, ".csv")
    return done


class _Writer:
    """What all programs have in common; each class says what its program has."""

    name = ""
    # formulas, not only clauses; a dot for hard rules; * for closed predicates; ! and ? on arguments; lists of constants
    has_formulas = has_hard = True
    has_closed = has_types = has_soft = has_per_constant = has_unweighted = has_unknown = False
    marks = "!"
    differs = "!="

    def __init__(self, theory: Theory, facts: Evidence):
        self.theory, self.facts = theory, facts
        self.done = Written()

    def note(self, text: str, rule: Rule | None = None) -> None:
        place = "" if rule is None or rule.span is None else f"line {rule.span.line}: "
        shown = "" if rule is None else f"{rule}: "
        self.done.notes.append(f"{place}{shown}{text}")

    def write(self) -> Written:
        # soft evidence for values of an argument, so labels come first
        theory, tables = _without_labels(self.theory, self.facts.tables)
        for predicate in theory.predicates:
            if predicate.closed_world and not self.has_closed:
                self.note(self.closed_hint(predicate.name))
        theory, tables = _without_symmetry(theory, tables)
        theory = self.without_marks(theory)
        theory, tables = self.without_soft(theory, tables)
        if self.has_types:
            theory = _close_types(theory, tables)
        else:
            theory, tables = _types_as_facts(theory, tables)
        lines = [line for rule in theory.rules for line in self.rule(rule)]
        facts = [line for name, table in tables.items() for line in self.fact_lines(table)]
        self.files(theory, tables, lines, facts)
        return self.done

    def closed_hint(self, name: str) -> str:
        return f"{name} is closed (*), which {self.name} has no mark for"

    def files(self, theory: Theory, tables: Mapping[str, FactTable], lines: list[str], facts: list[str]) -> None:
        types = [str(t) for t in theory.types if t.constants and t.closed] if self.has_types else []
        predicates = [str(predicate if self.has_closed else replace(predicate, closed_world=False))
                      for predicate in theory.predicates]
        self.done.files[".mln"] = "\n\n".join("\n".join(part) for part in (types, predicates, lines) if part) + "\n"
        if facts:
            self.done.files[".db"] = "\n".join(facts) + "\n"

    def without_marks(self, theory: Theory) -> Theory:
        """Write arguments of which one value at most, or one value exactly, is true as hard rules."""
        rules, predicates = list(theory.rules), []
        for predicate in theory.predicates:
            marks = {argument.mark for argument in predicate.arguments} - {""}
            if marks <= set(self.marks):
                predicates.append(predicate)
                continue
            predicates.append(replace(predicate, arguments=tuple(replace(a, mark="") for a in predicate.arguments)))
            rules += self.functional(predicate)
        return replace(theory, predicates=tuple(predicates), rules=tuple(rules))

    def functional(self, predicate: Predicate) -> Iterator[Rule]:
        """The hard rules that stand for the marks of a predicate."""
        one = [Variable(f"v{k}", t) for k, t in enumerate(predicate.types)]
        other = [Variable(f"w{k}", v.type) if k in predicate.functional else v for k, v in enumerate(one)]
        for k in predicate.functional:
            both = And((Atom(predicate.name, tuple(one)), Atom(predicate.name, tuple(other))))
            yield Rule(Implies(both, Equal(one[k], other[k])), is_hard=True)
        if not predicate.may_be_none:
            chosen = tuple(one[k] for k in predicate.functional)
            yield Rule(Exists(chosen, Atom(predicate.name, tuple(one))), is_hard=True)

    def without_soft(self, theory: Theory, tables: Mapping[str, FactTable]) -> tuple[Theory, dict[str, FactTable]]:
        """Write soft evidence as rules about single atoms, and leave out unobserved atoms."""
        rules, kept = list(theory.rules), {}
        for name, table in tables.items():
            is_soft = (table.values > 0) & (table.values < 1)
            is_unknown = np.isnan(table.values)
            drop = is_soft & (not self.has_soft) | is_unknown & (not self.has_unknown)
            if (is_unknown & drop).any():
                self.note(f"{int(is_unknown.sum())} unobserved facts of {name} (?{name}) are left out")
            for args, p in zip(table.args, table.values.tolist(), strict=True) if (is_soft & drop).any() else ():
                if 0 < p < 1:
                    types = theory.predicate[name].types
                    atom = Atom(name, tuple(Constant(arg, t) for arg, t in zip(args, types, strict=True)))
                    rules.append(Rule(atom, math.log(p) - math.log1p(-p)))
            kept[name] = table.take(np.flatnonzero(~drop)) if drop.any() else table
        return replace(theory, rules=tuple(rules)), {name: table for name, table in kept.items() if len(table)}

    def rule(self, rule: Rule) -> Iterator[str]:
        """The lines of a rule; none, with a note, if the program cannot have it."""
        if any(isinstance(term, Variable) and term.offset for leaf in atoms(rule.formula) for term in terms(leaf)):
            self.note(f"left out: {self.name} has no offsets such as i+1", rule)
            return
        if rule.is_hard and not self.has_hard:
            self.note(f"left out: {self.name} has no hard rules", rule)
            return
        if rule.per_constant and not self.has_per_constant:
            if rule.weight is None and not rule.is_hard:
                self.note(f"left out: {self.name} has no weights for single constants (+x)", rule)
                return
            # they all have the same weight
            rule = replace(rule, formula=_plain(rule.formula))
        if rule.weight is None and not rule.is_hard and not self.has_unweighted:
            self.note("it has no weight, so it is written with weight 1", rule)
            rule = replace(rule, weight=1.0)
        if self.has_formulas:
            yield self.weighted(rule, self.formula(rule.formula))
            return
        try:
            found = list(_as_clauses(rule))
        except (CostError, _NoClausesError):
            self.note(f"left out: {self.name} has clauses only, and this formula has none of the same meaning", rule)
            return
        for weight, clause in found:
            yield from self.clause(replace(rule, weight=weight, formula=Or(clause)), clause)

    def clause(self, rule: Rule, clause: Clause) -> Iterator[str]:
        if any(isinstance(part, Exists) for part in clause):
            self.note(f"left out: {self.name} has no EXIST", rule)
            return
        yield self.weighted(rule, " v ".join(map(self.literal, clause)))

    def weighted(self, rule: Rule, text: str) -> str:
        if rule.is_hard:
            return f"{text}."
        if rule.weight is None:
            return f"({text})" if isinstance(rule.formula, Atom) else text
        return f"{number(rule.weight)} {text}"

    def literal(self, literal: Formula) -> str:
        if isinstance(literal, Not):
            inner = literal.body
            return (f"{self.term(inner.left)} {self.differs} {self.term(inner.right)}" if isinstance(inner, Equal)
                    else f"!{self.literal(inner)}")
        if isinstance(literal, Equal):
            return f"{self.term(literal.left)} = {self.term(literal.right)}"
        assert isinstance(literal, Atom)
        args = f"({', '.join(map(self.term, literal.args))})" if literal.args else ""
        return f"{literal.predicate}{args}"

    def term(self, term: Term) -> str:
        return str(term)

    def formula(self, formula: Formula) -> str:
        """A formula with parentheses around every part that is not a literal, whatever binds tighter."""
        def part(below: Formula) -> str:
            text = self.formula(below)
            return text if isinstance(below, (Atom, Not)) else f"({text})"

        if isinstance(formula, (Atom, Equal)) or (isinstance(formula, Not) and isinstance(formula.body, (Atom, Equal))):
            return self.literal(formula)
        if isinstance(formula, Not):
            return f"!({self.formula(formula.body)})"
        if isinstance(formula, (Exists, Forall)):
            names = ", ".join(variable.name for variable in formula.variables)
            return f"{'EXIST' if isinstance(formula, Exists) else 'FORALL'} {names} ({self.formula(formula.body)})"
        sign = {And: " ^ ", Or: " v ", Implies: " => ", Iff: " <=> "}[type(formula)]
        return sign.join(map(part, children(formula)))

    def fact_lines(self, table: FactTable) -> Iterator[str]:
        name = table.predicate.name
        for args, value in zip(table.args, table.values.tolist(), strict=True):
            shown = f"({','.join(map(quoted, args))})" if args else ""
            sign = "" if value == 1 else "!" if value == 0 else "?" if math.isnan(value) else f"{number(value)} "
            yield f"{sign}{name}{shown}"


class _Alchemy(_Writer):
    name = "Alchemy"
    has_types = has_per_constant = has_unweighted = has_unknown = True

    def closed_hint(self, name: str) -> str:
        return f"{name} is closed (*): run Alchemy with -cw {name}"

    def weighted(self, rule: Rule, text: str) -> str:
        return super().weighted(rule, f"[{text}]" if rule.indivisible else text)


class _Tuffy(_Writer):
    name = "Tuffy"
    has_formulas = False
    has_closed = has_soft = True

    def clause(self, rule: Rule, clause: Clause) -> Iterator[str]:
        """A part `EXIST y P(x,y)` is written in front of the clause, which means the same."""
        inside = [part for part in clause if isinstance(part, Exists)]
        bodies = [push_negation(part.body, False) for part in inside]
        leaves = [body.parts if isinstance(body, Or) else (body,) for body in bodies]
        if any(isinstance(leaf, (And, Or, Exists, Forall)) for parts in leaves for leaf in parts):
            self.note("left out: Tuffy has EXIST for literals only", rule)
            return
        variables = [variable.name for part in inside for variable in part.variables]
        others = {v.name for part in clause if not isinstance(part, Exists) for leaf in atoms(part)
                  for v in terms(leaf) if isinstance(v, Variable)}
        if len(set(variables)) < len(variables) or others & set(variables):
            self.note("left out: two variables of an EXIST have the same name", rule)
            return
        literals = [leaf for part in clause if not isinstance(part, Exists) for leaf in [part]]
        text = " v ".join(self.literal(leaf) for leaf in (*literals, *itertools.chain(*leaves)))
        yield self.weighted(rule, f"EXIST {', '.join(variables)} {text}" if variables else text)


class _Pracmln(_Writer):
    name = "pracmln"
    has_types = has_soft = has_per_constant = True
    marks = "!?"
    differs = "=/="

    def closed_hint(self, name: str) -> str:
        return f"{name} is closed (*): run pracmln with cw_preds={name}"

    def formula(self, formula: Formula) -> str:
        if isinstance(formula, Forall):
            return f"!(EXIST {', '.join(v.name for v in formula.variables)} ({self.formula(Not(formula.body))}))"
        return super().formula(formula)


class _ExpressGNN(_Writer):
    name = "ExpressGNN"
    has_formulas = has_hard = False
    has_per_constant = True
    marks = ""

    def functional(self, predicate: Predicate) -> Iterator[Rule]:
        self.note(f"{predicate}: ExpressGNN has no marks ! and ?, so its atoms are independent")
        return iter(())

    def files(self, theory: Theory, tables: Mapping[str, FactTable], lines: list[str], facts: list[str]) -> None:
        predicates = [str(replace(predicate, closed_world=False)) for predicate in theory.predicates]
        for name, rows in (("predicates", predicates), ("rules", lines), ("facts", facts)):
            self.done.files[name] = "".join(f"{row}\n" for row in rows)


class _PSL(_Writer):
    name = "PSL"
    has_formulas = False
    has_closed = True

    def term(self, term: Term) -> str:
        if isinstance(term, Variable):
            return term.name[0].upper() + term.name[1:]
        return "'" + term.name.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def weighted(self, rule: Rule, text: str) -> str:
        return f"{text} ." if rule.is_hard else f"{number(rule.weight or 0.0)}: {text}"

    def clause(self, rule: Rule, clause: Clause) -> Iterator[str]:
        if any(isinstance(part, Exists) for part in clause):
            self.note("left out: PSL has no EXIST", rule)
            return
        if rule.weight is not None and rule.weight < 0:
            if len(clause) > 1:
                self.note("left out: PSL has no negative weights", rule)
                return
            clause = (push_negation(clause[0], True),)
            rule = replace(rule, weight=-rule.weight)
        # comparisons are premises
        compared = [part for part in clause if isinstance(part.body if isinstance(part, Not) else part, Equal)]
        body = [part.body for part in clause if isinstance(part, Not) and isinstance(part.body, Atom)]
        head = [part for part in clause if isinstance(part, Atom)]
        premises = [self.literal(atom) for atom in body]
        for part in compared:
            equal = part.body if isinstance(part, Not) else part
            assert isinstance(equal, Equal)
            premises.append(f"{self.term(equal.left)} {'==' if isinstance(part, Not) else '!='} {self.term(equal.right)}")
        if compared or (body and head):
            if not body:
                self.note("left out: a comparison needs a premise in PSL", rule)
                return
            conclusion = " | ".join(map(self.literal, head)) or "!" + premises.pop(0)
            yield self.weighted(rule, f"{' & '.join(premises)} -> {conclusion}")
        else:
            yield self.weighted(rule, " | ".join(map(self.literal, clause)))

    def without_marks(self, theory: Theory) -> Theory:
        return theory

    def files(self, theory: Theory, tables: Mapping[str, FactTable], lines: list[str], facts: list[str]) -> None:
        data: dict[str, list[str]] = {"predicates": [], "observations": [], "targets": []}
        for predicate in theory.predicates:
            name, table = predicate.name, tables.get(predicate.name, FactTable(predicate))
            is_closed = predicate.closed_world
            if not predicate.types:
                self.note(f"{name} has no arguments, which PSL does not allow")
            data["predicates"].append(f"  {name}/{len(predicate.types)}: {'closed' if is_closed else 'open'}")
            lines += self.sums(predicate)
            rows = zip(table.args, table.values.tolist(), strict=True)
            observed = ["\t".join((*args, number(value))) for args, value in rows]
            if observed:
                data["observations"].append(f"  {name}: {name}_obs.txt")
                self.done.files[f"{name}_obs.txt"] = "".join(f"{row}\n" for row in observed)
            n_atoms = math.prod(theory.sizes[t] for t in predicate.types)
            if is_closed:
                continue
            if n_atoms > MAX_TARGETS:
                self.note(f"{name} has {n_atoms:,} atoms: list the targets that you want in {name}_targets.txt")
                continue
            known = set(table.args)
            targets = ["\t".join(args) for args in itertools.product(*(theory.type[t].constants for t in predicate.types))
                       if args not in known]
            if targets:
                data["targets"].append(f"  {name}: {name}_targets.txt")
                self.done.files[f"{name}_targets.txt"] = "".join(f"{row}\n" for row in targets)
        self.note("PSL's truth values and hinge losses are not probabilities: the weights keep their numbers only")
        self.done.files["model.psl"] = "".join(f"{line}\n" for line in lines)
        self.done.files["model.data"] = "".join(f"{part}:\n" + "".join(f"{row}\n" for row in rows) + "\n"
                                                for part, rows in data.items() if rows)

    def sums(self, predicate: Predicate) -> Iterator[str]:
        """Functional arguments as PSL's constraints on sums."""
        if predicate.functional:
            args = [f"{'+' if k in predicate.functional else ''}V{k}" for k in range(len(predicate.types))]
            sign = "<=" if predicate.may_be_none else "="
            yield f"{predicate.name}({', '.join(args)}) {sign} 1 ."


def _plain(formula: Formula) -> Formula:
    """The formula without +."""
    return _map_leaves(formula, lambda leaf: Atom(leaf.predicate, tuple(
        replace(t, per_constant=False) if isinstance(t, Variable) else t for t in leaf.args), leaf.labels)
        if isinstance(leaf, Atom) else leaf)


def _map_leaves(formula: Formula, change: Callable[[Atom | Equal], Formula]) -> Formula:
    if isinstance(formula, (Atom, Equal)):
        return change(formula)
    return with_children(formula, [_map_leaves(part, change) for part in children(formula)])


def _without_labels(theory: Theory, tables: Mapping[str, FactTable]) -> tuple[Theory, dict[str, FactTable]]:
    """Give a multi-class predicate one more argument, of which exactly one value is true: `label(x, B)`."""
    classes = {p.name: p for p in theory.predicates if p.labels is not None}
    if not classes:
        return theory, dict(tables)

    def changed(leaf: Atom | Equal) -> Formula:
        if not isinstance(leaf, Atom) or leaf.predicate not in classes:
            return leaf
        kind = f"{leaf.predicate}_label"
        parts = tuple(Atom(leaf.predicate, (*leaf.args, Constant(label, kind))) for label in leaf.labels or ())
        return parts[0] if len(parts) == 1 else Or(parts)

    predicates = tuple(replace(p, labels=None, arguments=(*p.arguments, Argument(f"{p.name}_label", "!")))
                       if p.name in classes else p for p in theory.predicates)
    types = (*theory.types, *(Type(f"{p.name}_label", p.labels or (), True) for p in classes.values()))
    rules = tuple(replace(rule, formula=_map_leaves(rule.formula, changed)) for rule in theory.rules)
    found = Theory(types, predicates, rules)
    return found, {name: replace(table, predicate=found.predicate[name]) for name, table in tables.items()}


def _without_symmetry(theory: Theory, tables: Mapping[str, FactTable]) -> tuple[Theory, dict[str, FactTable]]:
    """Add the hard rule that both orders are equal, and both orders of every fact; soft facts stay as they are."""
    rules, found = list(theory.rules), dict(tables)
    predicates = tuple(replace(p, symmetric=False) for p in theory.predicates)
    for predicate in theory.predicates:
        if not predicate.symmetric:
            continue
        x, y = (Variable(name, predicate.types[0]) for name in "xy")
        rules.append(Rule(Implies(Atom(predicate.name, (x, y)), Atom(predicate.name, (y, x))), is_hard=True))
        table = tables.get(predicate.name)
        if table is None:
            continue
        known = table.args
        rows = [(args, value) for (a, b), value in zip(known, table.values.tolist(), strict=True)
                for args in ([(a, b), (b, a)] if value in (0, 1) else [(a, b)])]
        rows = list(dict.fromkeys(rows))
        names = [list(dict.fromkeys(args[k] for args, _ in rows)) for k in (0, 1)]
        index = [{name: i for i, name in enumerate(column)} for column in names]
        codes = [np.array([index[k][args[k]] for args, _ in rows], dtype=np.int32) for k in (0, 1)]
        found[predicate.name] = FactTable(
            replace(predicate, symmetric=False), [Column(n, c) for n, c in zip(names, codes, strict=True)],
            np.array([value for _, value in rows]), np.arange(len(rows)))
    return replace(theory, predicates=predicates, rules=tuple(rules)), found


def _unnamed(theory: Theory, tables: Mapping[str, FactTable]) -> dict[str, list[str]]:
    """By type, the constants that neither facts nor rules name."""
    named: dict[str, set[str]] = {t.name: set() for t in theory.types}
    for table in tables.values():
        for column, t in zip(table.columns, table.predicate.types, strict=False):
            named[t].update(column.names)
    for leaf in (leaf for rule in theory.rules for leaf in atoms(rule.formula)):
        for term in terms(leaf):
            if isinstance(term, Constant):
                named.setdefault(term.type, set()).add(term.name)
    missing = {t.name: [constant for constant in t.constants if constant not in named[t.name]] for t in theory.types}
    return {name: constants for name, constants in missing.items() if constants}


def _close_types(theory: Theory, tables: Mapping[str, FactTable]) -> Theory:
    """List the constants of every type that has others than facts and rules name."""
    missing = _unnamed(theory, tables)
    return replace(theory, types=tuple(replace(t, closed=t.closed or t.name in missing) for t in theory.types))


def _types_as_facts(theory: Theory, tables: Mapping[str, FactTable]) -> tuple[Theory, dict[str, FactTable]]:
    """Name such constants in facts of a predicate that no rule uses."""
    predicates, found = list(theory.predicates), dict(tables)
    for name, missing in _unnamed(theory, tables).items():
        predicate = Predicate(f"of_{name}", (Argument(name),), closed_world=True)
        predicates.append(predicate)
        n = len(missing)
        found[predicate.name] = FactTable(predicate, [Column(missing, np.arange(n, dtype=np.int32))], np.ones(n),
                                          np.arange(n))
    return replace(theory, predicates=tuple(predicates)), found


class _NoClausesError(Exception):
    """A formula has no clauses of the same meaning."""


def _as_clauses(rule: Rule) -> Iterator[tuple[float | None, Clause]]:
    """Clauses with weights that together have the meaning of a rule, for every assignment."""
    clauses = to_clauses(rule, 2**MAX_ATOMS)
    if rule.is_hard or len(clauses) == 1:
        yield from ((rule.weight, clause) for clause in clauses)
        return
    negated = to_clauses(replace(rule, formula=Not(rule.formula)), 2**MAX_ATOMS)
    weight = 1.0 if rule.weight is None else rule.weight
    has_quantifier = any(isinstance(part, (Exists, Forall)) for clause in (*clauses, *negated) for part in clause)
    if len(negated) == 1 and not has_quantifier:
        yield -weight, negated[0]
        return
    if has_quantifier:
        raise _NoClausesError
    leaves = list(dict.fromkeys(atoms(rule.formula)))
    if len(leaves) > MAX_ATOMS:
        raise _NoClausesError
    for cube in _violations(rule.formula, leaves, {}):
        yield weight, cube


def _violations(formula: Formula, leaves: Sequence[Atom | Equal], chosen: dict[Formula, bool]) -> Iterator[Clause]:
    """The clauses whose negations are the parts of a decision tree where the formula is false; they do not overlap."""
    value = _value(formula, chosen)
    if value is False:
        yield tuple(Not(leaf) if is_true else leaf for leaf, is_true in chosen.items())
    elif value is None:
        leaf = leaves[len(chosen)]
        for is_true in (False, True):
            yield from _violations(formula, leaves, {**chosen, leaf: is_true})


def _value(formula: Formula, chosen: Mapping[Formula, bool]) -> bool | None:
    """The truth of a formula if these atoms decide it, else None."""
    if isinstance(formula, (Atom, Equal)):
        return chosen.get(formula)
    if isinstance(formula, Implies):
        return _value(Or((Not(formula.premise), formula.conclusion)), chosen)
    found = [_value(part, chosen) for part in children(formula)]
    if isinstance(formula, Not):
        return None if found[0] is None else not found[0]
    if isinstance(formula, Iff):
        return None if None in found else found[0] == found[1]
    decisive = isinstance(formula, Or)
    return decisive if decisive in found else None if None in found else not decisive
