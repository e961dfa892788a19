"""The rules of a graph as a theory whose premises are the training facts, learned and applied by the library.

    r25(x, h) ^ r25(y, h) => r76(x, y)            in rules.mln
    known_r25(x, h) ^ known_r25(y, h) => r76(x, y)     known_r25 has the training facts of r25 and is closed
    r76(x, y)                                     and one weight for each relation that rules conclude: its base rate

So a premise is never a guess, and one iteration gives the log-odds of every atom. A fact does not support itself: where
a premise can be the conclusion, an inequality excludes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from logicmp import Evidence, LogicMPError, Theory, infer, learn, parse_theory
from logicmp.facts.columns import FactTable
from logicmp.ground.reach import count_premises
from logicmp.learning.minimize import LearningProgress
from logicmp.limits import Progress, silent
from logicmp.parse.syntax import Atom, Implies, atoms

from .data import Graph

KNOWN = "known_"


@dataclass(frozen=True)
class RuleSettings:
    """Chosen by the MRR on the validation triples."""

    # skip rules whose premises have more rows over the training facts
    max_rows: float = 1.5e6
    # standard deviation of the Gaussian prior of all weights
    prior_std: float = 1.0
    max_iterations: int = 300


@dataclass(frozen=True)
class Rules:
    """A theory over known facts, and the rules that were skipped, as text."""

    theory: Theory
    skipped: tuple[str, ...]
    # rows of all premises over the training facts
    n_rows: float

    @property
    def relations(self) -> list[str]:
        """The relations that rules conclude."""
        return [p.name for p in self.theory.predicates if not p.name.startswith(KNOWN)]


def build_rules(graph: Graph, max_rows: float = np.inf) -> Rules:
    """Rewrite the rules of a graph; one with more premise rows than the limit is skipped."""
    counts = count_premises(graph.facts)
    kept = [k for k, n in enumerate(counts) if n <= max_rows]
    skipped = tuple(f"skipped: {graph.theory.rules[k]} ({counts[k]:,.0f} premise rows, limit {max_rows:,.0f})"
                    for k in range(len(counts)) if k not in kept)
    parts = [_split(graph.theory.rules[k].formula) for k in kept]
    heads = list(dict.fromkeys(head.predicate for _, head in parts))
    premises = list(dict.fromkeys(atom.predicate for body, _ in parts for atom in body))
    entity = graph.theory.types[0].name
    lines = [f"*{KNOWN}{name}({entity}, {entity})" for name in premises]
    lines += [f"{name}({entity}, {entity})" for name in heads]
    lines += [_rewritten(body, head) for body, head in parts]
    lines += [f"{name}(x, y)" for name in heads]
    theory = parse_theory("\n".join(lines), f"{graph.name}/known")
    theory = theory.with_constants({entity: graph.theory.type[entity].constants})
    return Rules(theory, skipped, sum(counts[k] for k in kept))


def _split(formula: object) -> tuple[list[Atom], Atom]:
    """Premises and conclusion of a rule."""
    if isinstance(formula, Implies) and isinstance(formula.conclusion, Atom):
        body = list(atoms(formula.premise))
        if all(isinstance(atom, Atom) for atom in body):
            return [atom for atom in body if isinstance(atom, Atom)], formula.conclusion
    raise LogicMPError(f"'{formula}' is not a rule of this experiment", "premises joined by ^, then => and one atom")


def _rewritten(body: Sequence[Atom], head: Atom) -> str:
    parts = [f"{KNOWN}{atom}" for atom in body]
    for atom in body:
        # the premise is the conclusion only where all these pairs are equal, so it is enough that one differs
        apart = [(a, b) for a, b in zip(atom.args, head.args, strict=True) if a != b]
        if atom.predicate == head.predicate and apart:
            a, b = next((pair for pair in apart if set(pair) <= set(atom.args)), apart[0])
            parts.append(f"{a} != {b}")
    return f"{' ^ '.join(dict.fromkeys(parts))} => {head}"


def facts_of(graph: Graph, rules: Rules, with_conclusions: bool) -> Evidence:
    """The training facts as premises, and also as the atoms to predict."""
    tables: dict[str, FactTable] = {}
    for predicate in rules.theory.predicates:
        is_known = predicate.name.startswith(KNOWN)
        table = graph.facts.tables.get(predicate.name.removeprefix(KNOWN))
        if table is not None and (is_known or with_conclusions):
            tables[predicate.name] = FactTable(predicate, table.columns, table.values, table.lines)
    return Evidence(rules.theory, tables)


def learn_rules(graph: Graph, rules: Rules, settings: RuleSettings, progress: Progress = silent) -> list[float]:
    """The weight of each rule, by pseudo-likelihood: every atom that the rules reach is true or false."""

    def watch(state: LearningProgress) -> None:
        progress("learning weights", state.number, settings.max_iterations)

    found = learn(rules.theory, [facts_of(graph, rules, with_conclusions=True)], query=rules.relations, reach=1,
                  prior_std=settings.prior_std, max_iterations=settings.max_iterations, tolerance=0.1,
                  on_iteration=watch)
    return [float(w) for w in found.weights]


@dataclass(frozen=True)
class Listed:
    """The atoms of one relation that rules reach: heads, tails, and their log-odds."""

    heads: np.ndarray
    tails: np.ndarray
    log_odds: np.ndarray


def infer_atoms(graph: Graph, rules: Rules, weights: Sequence[float], progress: Progress = silent
                ) -> dict[int, Listed]:
    """By relation, the log-odds of every atom that the rules reach from the training facts."""
    theory = replace(rules.theory, rules=tuple(replace(rule, weight=float(w)) for rule, w in
                                               zip(rules.theory.rules, weights, strict=True)))
    facts = facts_of(graph, rules, with_conclusions=False)
    found = infer(theory, replace(facts, theory=theory), rules.relations, "mean-field", reach=1, damping=0.0,
                  iterations=3, progress=progress)
    number = {name: k for k, name in enumerate(graph.relations)}
    listed: dict[int, Listed] = {}
    for name in rules.relations:
        support = found.world.supports.get(name)
        if support is None:
            # a relation with few atoms has all of them
            heads, tails = np.nonzero(np.ones(found.world.values[name].shape, dtype=bool))
        else:
            heads, tails = support.columns
        listed[number[name]] = Listed(heads, tails, found.solution.log_odds[name].reshape(-1).astype(np.float32))
    return listed
