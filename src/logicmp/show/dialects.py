"""A theory and its facts in the files of another program, with a line for everything that cannot be carried over.

Room: parse, facts, normalize -> **show** -> cli.

    write_dialect(theory, facts, "tuffy").files         {".mln": "*Friends(person, person)\\n...", ".db": "..."}

What is written has the same distribution: see `rewrite.py`. Soft evidence becomes a rule about one atom where a program
has none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import CostError, LogicMPError
from ..facts.columns import Evidence, FactTable
from ..facts.frames import table_bytes
from ..normalize.clauses import Clause, push_negation
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
)
from ..parse.theory import Predicate, Rule, Theory, number
from .rewrite import (
    NoClausesError,
    as_clauses,
    close_types,
    types_as_facts,
    without_labels,
    without_plus,
    without_symmetry,
)

DIALECTS = ("alchemy", "tuffy", "pracmln", "expressgnn", "psl", "csv")
# rows of a file of targets
MAX_TARGETS = 1_000_000
# next to one .csv file for each predicate
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
    writers = {"alchemy": _Alchemy, "tuffy": _Tuffy, "pracmln": _Pracmln, "expressgnn": _ExpressGNN, "psl": _PSL}
    return writers[dialect](theory, facts).write()


def _write_csv(theory: Theory, facts: Evidence) -> Written:
    done = Written({RULES_FILE: str(close_types(theory, facts.tables))})
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
    # formulas, not only clauses; hard rules; * for closed predicates; lists of constants; 0.7 P(A), +x, rules without
    # a weight, ?P(A); then the marks of arguments, and the sign for "differs"
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
        theory, tables = without_labels(self.theory, self.facts.tables)
        for predicate in theory.predicates:
            if predicate.closed_world and not self.has_closed:
                self.note(self.closed_hint(predicate.name))
        theory, tables = without_symmetry(theory, tables)
        theory = self.without_marks(theory)
        theory, tables = self.without_soft(theory, tables)
        if self.has_types:
            theory = close_types(theory, tables)
        else:
            theory, tables = types_as_facts(theory, tables)
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
            rule = replace(rule, formula=without_plus(rule.formula))
        if rule.weight is None and not rule.is_hard and not self.has_unweighted:
            self.note("it has no weight, so it is written with weight 1", rule)
            rule = replace(rule, weight=1.0)
        if self.has_formulas:
            yield self.weighted(rule, self.formula(rule.formula))
            return
        try:
            found = list(as_clauses(rule))
        except (CostError, NoClausesError):
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
        literals = [part for part in clause if not isinstance(part, Exists)]
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
            sign = "==" if isinstance(part, Not) else "!="
            premises.append(f"{self.term(equal.left)} {sign} {self.term(equal.right)}")
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
            constants = (theory.type[t].constants for t in predicate.types)
            targets = ["\t".join(args) for args in itertools.product(*constants) if args not in known]
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
