"""Rules that differ only in constants, as one rule over a type of their own: one weight for each of them.

Room: normalize -> **plan** -> execute.

    0.5 L(A1) => L(A0)              L of A1, A2, ... (r) => L of A0, A0, ... (r), r: which of the rules
    0.7 L(A2) => L(A0)              weight [r]

After normalization, so that atoms which meet are already taken care of. What a literal reads is gathered from its
predicate by a table of constants, and its messages are added back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..normalize.cubes import (
    Const,
    Cube,
    Differ,
    Factor,
    Literal,
    NormalForm,
    NormalRule,
    Product,
    Range,
    Same,
    Signed,
    Var,
)
from ..parse.syntax import Atom, Variable
from ..parse.theory import Argument, Predicate, Rule, Theory, Type

# rules alike become one if there are at least this many
MIN_RULES = 4
# and if the values of one literal of all of them are at most this many: large tensors have no overhead to save
MAX_GATHERED = 2**16


@dataclass(frozen=True)
class Gathered:
    """A predicate read at constants that differ by rule."""

    name: str
    source: str
    # the arguments that are constants, and for each of them the constant of each rule
    axes: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Batch:
    """The rules of a theory with rules alike as one.

    Attributes:
        form: the rules; those alike have one weight for each of them.
        groups: for each rule of the form, the numbers of the rules that it is made of.
        gathered: the predicates that the form adds.
        types: the types that it adds, with their sizes.
    """

    form: NormalForm
    groups: tuple[tuple[int, ...], ...]
    gathered: tuple[Gathered, ...]
    types: Mapping[str, int]


def batch_rules(form: NormalForm, sizes: Mapping[str, int]) -> Batch | None:
    """Merge rules that differ only in constants; None if there are none."""
    shapes: dict[object, list[int]] = {}
    for number, normal in enumerate(form.rules):
        shape = _shape(form.theory, normal)
        shapes.setdefault(number if shape is None else shape, []).append(number)
    theory = form.theory
    rules: list[NormalRule] = []
    groups: list[tuple[int, ...]] = []
    gathered: dict[Gathered, None] = {}
    types: dict[str, int] = {}
    for numbers in shapes.values():
        merged = _merge(theory, form.rules, numbers, sizes, gathered) if len(numbers) >= MIN_RULES else None
        if merged is None:
            rules += [form.rules[k] for k in numbers]
            groups += [(k,) for k in numbers]
        else:
            rules.append(merged)
            groups.append(tuple(numbers))
            types[_type(numbers)] = len(numbers)
    if not types:
        return None
    added = [_predicate(theory.predicate[g.source], g) for g in gathered]
    wider = Theory((*theory.types, *map(Type, types)), (*theory.predicates, *added), tuple(r.rule for r in rules))
    return Batch(replace(form, theory=wider, rules=tuple(rules)), tuple(groups), tuple(gathered), types)


def _type(numbers: Sequence[int]) -> str:
    """The type whose entities are the rules of a group; no text can contain this name."""
    return f"rules like {numbers[0]}"


def _predicate(source: Predicate, gathered: Gathered) -> Predicate:
    kept = [Argument(a.type) for k, a in enumerate(source.arguments) if k not in gathered.axes]
    # the name ends with that of the type of rules
    return Predicate(gathered.name, (*kept, Argument(gathered.name.rpartition(" at ")[2])), source.labels)


def _shape(theory: Theory, normal: NormalRule) -> object | None:
    """What rules alike have in common; None for a rule that stays alone."""
    if normal.rule.per_constant or not any(map(_has_constant, _factors(normal.terms))):
        return None
    for factor in _factors(normal.terms):
        # the two orders of a symmetric atom are one
        if _has_constant(factor) and not (isinstance(factor, Literal)
                                          and not theory.predicate[factor.predicate].symmetric):
            return None
    names: dict[str, str] = {}
    text = [normal.n_clauses, *((c, _show(cube, names)) for c, cube in normal.terms),
            *(tuple(map(str, ranges)) for ranges in _renamed(normal.groundings, names))]
    return tuple(text)


def _renamed(groundings: Sequence[tuple[Range, ...]], names: dict[str, str]) -> list[list[Range]]:
    return [[replace(v, name=names.setdefault(v.name, f"v{len(names)}")) for v in ranges] for ranges in groundings]


def _factors(terms: Iterable[Signed]) -> Iterator[Literal | Same | Differ]:
    """All literals and conditions, those below quantifiers too."""
    for _, cube in terms:
        for factor in cube.factors:
            if isinstance(factor, Product):
                yield from _factors(factor.terms)
            else:
                yield factor


def _has_constant(factor: Literal | Same | Differ) -> bool:
    args = factor.args if isinstance(factor, Literal) else (factor.left, factor.right)
    return any(isinstance(t, Const) for t in args)


def _show(cube: Cube, names: dict[str, str]) -> str:
    """A cube as text, without its constants, with variables by number."""
    def term(t: Var | Const) -> str:
        return "#" if isinstance(t, Const) else f"{names.setdefault(t.name, f'v{len(names)}')}{t.offset:+d}"

    def factor(f: Factor) -> str:
        if isinstance(f, Literal):
            labels = None if f.labels is None else sorted(f.labels)
            return f"{f.negated}{f.predicate}({','.join(map(term, f.args))}){labels}"
        if isinstance(f, Product):
            over = replace(f.over, name=term(Var(f.over.name)))
            return f"prod {over} {[(c, _show(inner, names)) for c, inner in f.terms]}"
        return f"{type(f).__name__} {term(f.left)} {term(f.right)}"

    factors = [factor(f) for f in cube.factors]
    return f"{factors} {[str(v) for v in _renamed([cube.variables], names)[0]]} {cube.needs}"


def _merge(theory: Theory, rules: Sequence[NormalRule], numbers: Sequence[int], sizes: Mapping[str, int],
           gathered: dict[Gathered, None]) -> NormalRule | None:
    """The rules of a group as one; None if what they read is large."""
    of_rules = _type(numbers)
    # the literals with constants, in the same order in every rule
    columns = zip(*([f for f in _factors(rules[k].terms) if isinstance(f, Literal) and _has_constant(f)]
                    for k in numbers), strict=True)
    found: list[Literal] = []
    new: dict[Gathered, None] = {}
    for literals in columns:
        first = literals[0]
        axes = tuple(k for k, t in enumerate(first.args) if isinstance(t, Const))
        tables = tuple(tuple(t.index for t in column if isinstance(t, Const))
                       for column in zip(*([f.args[k] for k in axes] for f in literals), strict=True))
        source = theory.predicate[first.predicate]
        kept = [sizes[t] for k, t in enumerate(source.types) if k not in axes]
        if math.prod(kept) * len(numbers) * len(source.labels or "1") > MAX_GATHERED:
            return None
        same = next((g for g in (*gathered, *new) if g.source == first.predicate and g.axes == axes
                     and g.tables == tables and g.name.endswith(f" at {of_rules}")), None)
        name = f"{first.predicate} {len(gathered) + len(new)} at {of_rules}"
        chosen = same or Gathered(name, first.predicate, axes, tables)
        new[chosen] = None
        args = (*(t for t in first.args if isinstance(t, Var)), Var(of_rules))
        found.append(replace(first, predicate=chosen.name, args=args))
    gathered.update(new)
    normal, in_order = rules[numbers[0]], iter(found)
    terms = tuple((c, replace(cube, variables=(*cube.variables, Range(of_rules, of_rules)), weight_at=(Var(of_rules),)))
                  for c, cube in _rewritten(normal.terms, in_order))
    groundings = tuple((*ranges, Range(of_rules, of_rules)) for ranges in normal.groundings)
    which = Variable(of_rules, of_rules, per_constant=True)
    # an atom that tells which variable has the weights
    atom = Atom(next(iter(new)).name, (which,))
    rule = Rule(atom, 1.0, span=normal.rule.span)
    return NormalRule(rule, terms, normal.n_clauses, groundings)


def _rewritten(terms: Iterable[Signed], literals: Iterator[Literal]) -> tuple[Signed, ...]:
    """The terms with other literals in place of those with constants, in the order of `_factors`."""
    found = []
    for coefficient, cube in terms:
        factors = tuple(replace(f, terms=_rewritten(f.terms, literals)) if isinstance(f, Product) else
                        next(literals) if isinstance(f, Literal) and _has_constant(f) else f for f in cube.factors)
        found.append((coefficient, replace(cube, factors=factors)))
    return tuple(found)
