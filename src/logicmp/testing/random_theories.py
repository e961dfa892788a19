"""Random theories for property tests and benchmarks.

Room: parse -> **random_theories** -> random_models.

    @given(theories(max_constants=3))
    def test_a_theory_prints_and_reads_back(theory): ...

A random theory is written as text and then parsed, so a user could have written it. Only `theories`
imports hypothesis.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import LogicMPError
from ..parse.load import parse_theory
from ..parse.theory import Predicate, Theory

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# what a random theory may use besides weighted clauses
ALL = frozenset({
    "formulas", "quantifiers", "equality", "constants", "repeated", "symmetric", "multiclass", "functional", "offsets",
    "per_constant", "hard", "negative", "zero_arity", "unweighted",
})
MAX_FREE = 3
MAX_QUANTIFIED = 2


def random_theory(
    rng: random.Random,
    *,
    max_constants: int = 3,
    max_atoms: int = 4,
    max_predicates: int = 4,
    max_rules: int = 3,
    max_ground: int = 12,
    features: Collection[str] = ALL,
) -> Theory:
    """A small random theory, reproducible with the state of `rng`.

    >>> print(random_theory(random.Random(3), max_rules=1, features={"negative"}), end="")
    person = {1, 2, 3}
    <BLANKLINE>
    P(person)
    Q(person)
    <BLANKLINE>
    0.16 !P(x) => !Q(x) v P(y)

    Args:
        rng: the source of every choice.
        max_constants: constants of a type, at least 1.
        max_atoms: atoms and equalities of a rule, at least 1.
        max_predicates: declared predicates, at least 1.
        max_rules: rules, at least 1.
        max_ground: atoms of all predicates together, at least 1; there are up to 2^max_ground worlds.
        features: what may occur besides weighted clauses, a subset of `ALL`.
    """
    unknown = set(features) - ALL
    if unknown:
        raise LogicMPError(f"unknown feature {sorted(unknown)[0]!r}", f"available features: {', '.join(sorted(ALL))}")
    if min(max_constants, max_atoms, max_predicates, max_rules, max_ground) < 1:
        raise LogicMPError("the limits of a random theory must be at least 1")
    features = frozenset(features)
    sizes = {name: rng.randint(1, min(max_constants, max_ground))
             for name in (("person",), ("person", "item"))[chance(rng, 0.4)]}
    predicates = _random_predicates(rng, sizes, max_predicates, max_ground, features)
    constants, lines = {}, []
    for (name, size), letter in zip(sizes.items(), "AB", strict=False):
        if chance(rng, 0.3):
            constants[name] = [str(i) for i in range(1, size + 1)]
            # '...' needs two different numbers
            lines.append(f"{name} = {{1, ..., {size}}}" if size > 1 else f"{name} = {{1}}")
        else:
            constants[name] = [f"{letter}{i}" for i in range(1, size + 1)]
            lines.append(f"{name} = {{{', '.join(constants[name])}}}")
    lines += map(str, predicates)
    for _ in range(rng.randint(1, max_rules)):
        lines.append(_RuleWriter(rng, predicates, constants, features).write(rng.randint(1, max_atoms)))
    return parse_theory("\n".join(lines), "<random theory>")


def theories(**options: Any) -> SearchStrategy[Theory]:
    """A hypothesis strategy of random theories; `options` are arguments of `random_theory`.

    >>> from hypothesis import find
    >>> find(theories(features={"hard"}), lambda theory: theory.rules[0].is_hard).rules[0].weight is None
    True
    """
    from hypothesis import strategies

    return strategies.randoms(use_true_random=False).map(lambda rng: random_theory(rng, **options))


def chance(rng: random.Random, probability: float) -> bool:
    """True with a given probability."""
    # hypothesis shrinks draws towards 0, which must be the simpler choice
    return rng.random() > 1 - probability


# declarations


def _random_predicates(
    rng: random.Random, sizes: dict[str, int], max_predicates: int, max_ground: int, features: frozenset[str],
) -> list[Predicate]:
    kinds = ["plain", "plain", *(kind for kind in ("symmetric", "multiclass", "functional") if kind in features)]
    predicates: list[Predicate] = []
    for name in [f"{'PQRS'[i % 4]}{i // 4 or ''}" for i in range(rng.randint(1, max_predicates))]:
        # three tries: a predicate over the limit is dropped
        for _ in range(3):
            predicate = _random_predicate(rng, name, rng.choice(kinds), list(sizes), features)
            if n_ground(predicate, sizes) <= max_ground:
                predicates.append(predicate)
                max_ground -= n_ground(predicate, sizes)
                break
    # no type has more constants than max_ground, so this one fits
    return predicates or [_declare(f"P({next(iter(sizes))})")]


def _random_predicate(
    rng: random.Random, name: str, kind: str, types: list[str], features: frozenset[str],
) -> Predicate:
    if kind == "symmetric":
        type_name = rng.choice(types)
        return _declare(f"symmetric {name}({type_name}, {type_name})")
    # a functional predicate needs an argument to mark
    at_least = 0 if "zero_arity" in features and kind != "functional" else 1
    arguments = [rng.choice(types) for _ in range(max(at_least, rng.choice((1, 2, 1, 2, 0, 3))))]
    if kind == "functional":
        mark = rng.choice("!?")
        for position in rng.sample(range(len(arguments)), min(len(arguments), rng.choice((1, 1, 2)))):
            arguments[position] += mark
    text = f"{name}({', '.join(arguments)})" if arguments else name
    return _declare(text + (" in {L, M}", " in {L, M, N-1}")[chance(rng, 0.4)] if kind == "multiclass" else text)


def _declare(text: str) -> Predicate:
    return parse_theory(text).predicates[0]


def n_ground(predicate: Predicate, sizes: dict[str, int]) -> int:
    """How many atoms a predicate has, one for each label of a multi-class predicate.

    >>> n_ground(_declare("symmetric C(t, t)"), {"t": 3})
    6
    """
    n = math.prod(sizes[type_name] for type_name in predicate.types)
    if predicate.symmetric:
        size = sizes[predicate.types[0]]
        return size * (size + 1) // 2
    return n * len(predicate.labels or (1,))


# rules


@dataclass(frozen=True)
class _Scope:
    """The types of the variables in scope, by name; quantified variables hide free ones."""

    free: dict[str, str]
    quantified: dict[str, str]

    def of_type(self, type_name: str) -> list[str]:
        return [name for name, known in {**self.free, **self.quantified}.items() if known == type_name]

    def is_free(self, name: str) -> bool:
        return name not in self.quantified


class _RuleWriter:
    """Writes the text of one rule."""

    def __init__(
        self,
        rng: random.Random,
        predicates: list[Predicate],
        constants: dict[str, list[str]],
        features: frozenset[str],
    ):
        self.rng = rng
        self.predicates = predicates
        self.constants = constants
        self.features = features
        self.plus: set[str] = set()
        # free variables that already occur in an atom: only these have a type for an equality
        self.typed: set[str] = set()
        self.n_quantified = 0

    def write(self, n_atoms: int) -> str:
        rng = self.rng
        lead = rng.choice(self.predicates)
        types = [*lead.types, *(rng.choice(list(self.constants)) for _ in range(rng.randint(0, MAX_FREE)))][:MAX_FREE]
        free = dict(zip("xyz", types, strict=False))
        hard = "hard" in self.features and chance(rng, 0.15)
        if "per_constant" in self.features and not hard and chance(rng, 0.2):
            self.plus = set(rng.sample(sorted(free), min(len(free), rng.choice((1, 1, 2)))))
        formula = self._top(n_atoms, _Scope(free, {}), lead)
        if hard:
            return f"{formula}."
        if "unweighted" in self.features and chance(rng, 0.1):
            return f"({formula})"
        sign = "-" if "negative" in self.features and chance(rng, 0.3) else ""
        return f"{sign}{rng.randint(1, 300) / 100:g} {formula}"

    def _top(self, n_atoms: int, scope: _Scope, lead: Predicate) -> str:
        rng = self.rng
        if "formulas" in self.features and chance(rng, 0.6):
            formula = self._formula(n_atoms, scope, lead)
            return f"[{formula}]" if chance(rng, 0.1) else formula
        parts = [self._part(scope, lead if i == 0 else None) for i in range(n_atoms)]
        rng.shuffle(parts)
        if len(parts) > 1 and chance(rng, 0.5):
            split = rng.randint(1, len(parts) - 1)
            return f"{' ^ '.join(parts[:split])} => {' v '.join(parts[split:])}"
        return " v ".join(parts)

    def _formula(self, n_atoms: int, scope: _Scope, lead: Predicate | None = None) -> str:
        rng = self.rng
        if n_atoms == 1:
            return self._part(scope, lead)
        if (quantified := self._quantified(scope)) is not None:
            inner, name, before = quantified
            # the first atom contains the variable, so that it has a type
            first = self._atom(inner, None, name)
            rest = self._formula(n_atoms - 1, inner, lead)
            return self._not(f"({before} ({self._joined(first, rest)}))")
        left = rng.randint(1, n_atoms - 1)
        joined = self._joined(self._formula(left, scope, lead), self._formula(n_atoms - left, scope))
        return self._not(f"({joined})")

    def _joined(self, left: str, right: str) -> str:
        return f"{left} {self.rng.choice(('v', '^', '=>', '<=>'))} {right}"

    def _not(self, formula: str) -> str:
        return f"!{formula}" if chance(self.rng, 0.25) else formula

    def _part(self, scope: _Scope, lead: Predicate | None) -> str:
        """A literal, an equality, or a quantified literal."""
        rng = self.rng
        if lead is None and "equality" in self.features and chance(rng, 0.15):
            equality = self._equality(scope)
            if equality:
                return equality
        if lead is None and (quantified := self._quantified(scope)) is not None:
            inner, name, before = quantified
            return self._not(f"({before} {self._not(self._atom(inner, None, name))})")
        atom = self._atom(scope, lead, None)
        return f"!{atom}" if chance(rng, 0.5) else atom

    def _quantified(self, scope: _Scope) -> tuple[_Scope, str, str] | None:
        """Sometimes a new quantifier: the scope of its body, its variable, and its text; else None."""
        rng = self.rng
        if "quantifiers" not in self.features or self.n_quantified == MAX_QUANTIFIED or not chance(rng, 0.2):
            return None
        # sometimes a name that exists already: the inner variable hides the outer one
        name = rng.choice("uuuuw" + "x" * ("x" in scope.free))
        inner = {type_name: _Scope(scope.free, {**scope.quantified, name: type_name}) for type_name in self.constants}
        possible = [t for t in inner if any(t in p.types and self._has_variables(p, inner[t]) for p in self.predicates)]
        if not possible:
            return None
        self.n_quantified += 1
        return inner[rng.choice(possible)], name, f"{rng.choice(('EXIST', 'FORALL'))} {name}"

    def _equality(self, scope: _Scope) -> str | None:
        rng = self.rng
        known = [name for name in (*scope.free, *scope.quantified) if name in scope.quantified or name in self.typed]
        if not known:
            return None
        name = rng.choice(known)
        type_name = {**scope.free, **scope.quantified}[name]
        others = [other for other in scope.of_type(type_name) if other != name or "repeated" in self.features]
        if "constants" in self.features:
            others += self.constants[type_name][:2]
        return f"{name} {rng.choice(('=', '!='))} {rng.choice(others)}" if others else None

    def _atom(self, scope: _Scope, predicate: Predicate | None, must: str | None) -> str:
        """An atom; `must` is a quantified variable that occurs in it."""
        rng = self.rng
        if predicate is None or not self._has_variables(predicate, scope):
            predicate = rng.choice([p for p in self.predicates if self._has_variables(p, scope)
                                    and (must is None or scope.quantified[must] in p.types)])
        used: list[str] = []
        # the argument that is `must`
        place = -1
        if must is not None:
            used.append(must)
            place = rng.choice([i for i, t in enumerate(predicate.types) if t == scope.quantified[must]])
        args: list[str] = []
        for i, type_name in enumerate(predicate.types):
            if i == place:
                args.append(self._occurrence(used[0], scope))
            elif "constants" in self.features and chance(rng, 0.15):
                args.append(rng.choice(self.constants[type_name]))
            else:
                names = scope.of_type(type_name)
                used.append(rng.choice([name for name in names if "repeated" in self.features or name not in used]))
                args.append(self._occurrence(used[-1], scope))
        text = f"{predicate.name}({', '.join(args)})" if args else predicate.name
        return text if predicate.labels is None else f"{text} {self._labels(predicate.labels)}"

    def _has_variables(self, predicate: Predicate, scope: _Scope) -> bool:
        return all(len(scope.of_type(t)) >= (1 if "repeated" in self.features else predicate.types.count(t))
                   for t in predicate.types)

    def _occurrence(self, name: str, scope: _Scope) -> str:
        rng = self.rng
        if scope.is_free(name):
            self.typed.add(name)
            if name in self.plus:
                return f"+{name}"
        if "offsets" in self.features and chance(rng, 0.12):
            return name + rng.choice(("+1", "-1"))
        return name

    def _labels(self, labels: tuple[str, ...]) -> str:
        chosen = self.rng.sample(labels, self.rng.choice((1, 1, 1, 2)))
        return f"in {{{', '.join(chosen)}}}"
