"""The answers that a user reads, from the log-odds that a method computes.

Room: method -> **inference** -> show, cli.

    Solution(log_odds)   ->   answer(query, ...)   ->   Marginals: {"Smokes(Anna)": 0.93}
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CostError, LogicMPError, closest
from ..facts.collect import PLAIN_FACT_CONSTANT
from ..facts.columns import Evidence
from ..facts.frames import make_frame
from ..facts.world import World
from ..files import write_whole
from ..ground.engine import ALONE, Shares
from ..ground.network import Network, card_of
from ..ground.worlds import describe_supports
from ..normalize.expand import variable_ranges
from ..page import plural
from ..parse.query import Query
from ..parse.syntax import PLAIN_LABEL, Atom, Variable, free_variables, put_constants, quoted
from ..parse.theory import Predicate, Rule, Theory
from .method import Problem, Solution, Status
from .report import build_report, to_notebook

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from torch import Tensor


# the smallest probability of a formula that counts as more than 0
EPSILON = 1e-15
# bindings of a queried formula in a world with sparse predicates
MAX_BINDINGS = 2**26


def log_odds_of(p: np.ndarray, axis: int = -1) -> np.ndarray:
    """The log-odds of each value of a categorical variable against all others together, accurate near 0 and near 1.

    >>> log_odds_of(np.array([0.5, 0.25, 0.25])).round(3).tolist()
    [0.0, -1.099, -1.099]
    """
    p = np.moveaxis(p, axis, -1)
    # add up the others, because 1 - p loses its digits near 1
    before = np.concatenate([np.zeros_like(p[..., :1]), p.cumsum(-1)[..., :-1]], -1)
    after = np.concatenate([p[..., ::-1].cumsum(-1)[..., ::-1][..., 1:], np.zeros_like(p[..., :1])], -1)
    with np.errstate(divide="ignore"):
        return np.moveaxis(np.log(p) - np.log(before + after), -1, axis)


def atom_log_odds(predicate: Predicate, world: World, probabilities: np.ndarray) -> np.ndarray:
    """Turn probabilities of values, [variables..., values], into log-odds in the shape of the predicate's tensor.

    Args:
        predicate: as its values are stored.
    """
    odds = log_odds_of(probabilities)
    if not predicate.is_categorical:
        return odds[..., 1]
    values = world.values[predicate.name]
    if predicate.labels is not None:
        return odds
    if predicate.may_be_none:
        odds = odds[..., :-1]
    last = range(values.ndim - len(predicate.functional), values.ndim)
    moved = np.moveaxis(values, predicate.functional, last)
    return np.moveaxis(odds.reshape(moved.shape), last, predicate.functional)


def with_evidence(world: World, log_odds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Set the log-odds of observed atoms to plus or minus infinity."""
    found = {}
    for name, odds in log_odds.items():
        values = world.values[name]
        # one number for a list of true facts, which can be long
        found[name] = np.broadcast_to(np.inf, values.shape) if bool((values == 1).all()) else np.where(
            values == 1, np.inf, np.where(values == 0, -np.inf, odds))
    return found


def as_probability(log_odds: np.ndarray) -> np.ndarray:
    """Turn log-odds into probabilities, strictly between 0 and 1 unless the log-odds are infinite.

    >>> as_probability(np.array([0.0, 800.0, np.inf])).tolist()
    [0.5, 0.9999999999999999, 1.0]
    """
    finite = np.clip(log_odds, -700, 700)
    inside = np.minimum(np.exp(finite - np.logaddexp(0, finite)), np.nextafter(1, 0))
    return np.where(np.isinf(log_odds), log_odds > 0, inside)


def odds_of_values(network: Network, p: np.ndarray) -> dict[str, np.ndarray]:
    """Log-odds by predicate, from the probability of every value of every variable of a ground network."""
    world = network.world
    # an observed variable has no place of its own: it reads any value, and with_evidence replaces it
    starts = np.append(network.starts[:-1], 0)
    odds = {}
    for name, variables in network.variables.items():
        if not (variables >= 0).any():
            odds[name] = np.broadcast_to(0.0, world.values[name].shape)
            continue
        predicate = world.stored(name)
        card = card_of(world, name)
        places = starts[variables][..., None] + np.arange(card)
        with np.errstate(invalid="ignore"):
            odds[name] = atom_log_odds(predicate, world, np.append(p, np.zeros(card))[places])
    return with_evidence(world, odds)


def odds_of_counts(network: Network, expected: np.ndarray, shares: Shares = ALONE) -> list[np.ndarray]:
    """Log-odds of the queried formulas, which follow the rules of the theory in the ground network.

    Args:
        expected: the expected count of every weight; that of a formula for one binding is its probability.
        shares: the processes that have the other features, if the network is divided.
    """
    has_feature = shares.total(np.isin(np.arange(len(expected)), network.param)) > 0
    # a formula without features is decided by the evidence alone
    p = np.where(has_feature, expected.clip(EPSILON, 1 - EPSILON), expected.round())
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(p) - np.log1p(-p)
    first = len(network.world.theory.rules)
    return [odds[network.offsets[k] : network.offsets[k + 1]].reshape(formula_shape(rule, network.world))
            for k, rule in enumerate(network.rules) if k >= first]


def formula_shape(rule: Rule, world: World) -> list[int]:
    """How many constants each variable of a formula ranges over."""
    return [world.sizes[rule.variables[name]] for name in rule.per_constant]


def check_bindings(problem: Problem) -> None:
    """Reject queried formulas with too many bindings in a world whose predicates have too many atoms."""
    for rule in problem.formulas if problem.world.supports else ():
        n = math.prod(formula_shape(rule, problem.world))
        if n > MAX_BINDINGS:
            raise CostError(f"the query '{rule.formula}' has {n:,} bindings (limit {MAX_BINDINGS:,})", None,
                            "query atoms instead: of a sparse predicate, only those in its support are answered")


@dataclass(frozen=True)
class Answer:
    """The log-odds of all answers to one query, as one array."""

    query: Query
    theory: Theory
    # by variable of the query, the index of its constant in each answer
    bindings: Mapping[str, np.ndarray]
    log_odds: np.ndarray

    def texts(self) -> Iterator[str]:
        """The text of each answer, in order: `Friends(Anna,Bob)`."""
        types = free_variables(self.query.formula)
        names = {v: [_shown(c) for c in self.theory.type[types[v]].constants] for v in self.bindings}
        formula = self.query.formula
        labels = self._labels()
        if isinstance(formula, Atom):
            n = len(self.log_odds) // len(labels)
            columns = [[names[arg.name][i] for i in self.bindings[arg.name].tolist()]
                       if isinstance(arg, Variable) else [_shown(arg.name)] * n for arg in formula.args]
            for args in zip(*columns, strict=True) if columns else [()]:
                atom = f"{formula.predicate}({','.join(args)})" if args else formula.predicate
                yield from (atom + label for label in labels)
            return
        constants = {t.name: t.constants for t in self.theory.types}
        places = [column.tolist() for column in self.bindings.values()]
        for values in zip(*places, strict=True) if places else [()]:
            yield str(put_constants(formula, dict(zip(self.bindings, values, strict=True)), constants))

    def arguments(self) -> dict[str, np.ndarray]:
        """The constants of each argument of a queried atom, for each answer; a multi-class one has its label last."""
        atom = self.query.formula
        assert isinstance(atom, Atom)
        predicate = self.theory.predicate[atom.predicate]
        labels = (None,) if predicate.labels is None else atom.labels or predicate.labels
        n = len(self.log_odds) // len(labels)
        found = {}
        for k, (argument, term) in enumerate(zip(predicate.types, atom.args, strict=True)):
            name = argument if predicate.types.count(argument) == 1 else f"{argument}_{k + 1}"
            if isinstance(term, Variable):
                constants = np.array(self.theory.type[argument].constants, dtype=object)
                found[name] = constants[self.bindings[term.name]].repeat(len(labels))
            else:
                found[name] = np.full(n * len(labels), term.name, dtype=object)
        return found if predicate.labels is None else {**found, "label": np.array(labels * n, dtype=object)}

    def _labels(self) -> list[str]:
        """The suffix of each answer for one atom: ` = B-PER` for a multi-class predicate, else empty."""
        formula = self.query.formula
        if isinstance(formula, Atom) and self.theory.predicate[formula.predicate].labels is not None:
            known = formula.labels or self.theory.predicate[formula.predicate].labels or ()
            return [f" = {quoted(label, PLAIN_LABEL)}" for label in known]
        return [""]


def _shown(constant: str) -> str:
    return constant if PLAIN_FACT_CONSTANT.fullmatch(constant) else quoted(constant)


class Marginals(Mapping[str, float]):
    """A mapping from the text of each answer to its probability, with the method's status and notes.

    >>> from logicmp import infer
    >>> found = infer("person = {Anna}\\nSmokes(person)\\n1 Smokes(x)", query="Smokes")
    >>> found["Smokes(Anna)"]
    0.7310585786300049
    >>> print(found.status)
    exact

    Args:
        answers: the queried atoms and formulas, in order.
        solution: the result of the method.
        world: the evidence, and the constants.
        method: name of the method.
        semantics: "exact", "paper" or "alchemy".
        facts: the evidence as it was given.
    """

    def __init__(self, answers: Sequence[Answer], solution: Solution, world: World, method: str, semantics: str,
                 facts: Evidence):
        self.answers = list(answers)
        self.solution = solution
        self.world = world
        self.method = method
        self.semantics = semantics
        self.facts = facts
        self._index: dict[str, int] | None = None

    @property
    def log_odds(self) -> np.ndarray:
        """In the order of iteration; infinite where the evidence or hard rules decide an answer."""
        return np.concatenate([np.zeros(0), *(answer.log_odds for answer in self.answers)])

    @property
    def probabilities(self) -> np.ndarray:
        return as_probability(self.log_odds)

    @property
    def log_partition(self) -> float | None:
        """log Z, None if the method does not compute it."""
        return self.solution.log_partition

    @property
    def status(self) -> Status:
        """Why the method stopped: exact, optimal, converged, or at its limit of iterations or time."""
        return self.solution.status

    @property
    def is_complete(self) -> bool:
        """Whether the method ended by itself; if not, these are the best answers up to the time limit."""
        return self.status is not Status.TIME

    @property
    def notes(self) -> list[str]:
        """Warnings and remarks for people to read."""
        return [*self.world.warnings, *self.solution.notes]

    def _places(self) -> dict[str, int]:
        if self._index is None:
            texts = (text for answer in self.answers for text in answer.texts())
            self._index = {text: k for k, text in enumerate(texts)}
        return self._index

    def __getitem__(self, atom: str) -> float:
        places = self._places()
        place = places.get(atom, places.get(re.sub(r"\s*,\s*", ",", atom)))
        if place is None:
            raise KeyError(f"{atom!r} was not queried; {closest(atom, list(places), 'answer')}")
        return float(as_probability(self.log_odds[place : place + 1])[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places())

    def __len__(self) -> int:
        return len(self._places())

    def describe(self) -> Iterator[str]:
        """Lines about the input, the assumptions, and how the answers were computed."""
        theory = self.facts.theory
        n_facts = len(self.facts) + sum(n - len(self.facts.tables[name]) for name, n in self.world.divided.items())
        yield (f"{plural(len(theory.predicates), 'predicate')}, {plural(len(theory.rules), 'rule')}, "
               f"{plural(n_facts, 'fact')}")
        n_unweighted = sum(rule.weight is None and not rule.is_hard for rule in theory.rules)
        if n_unweighted:
            yield f"{plural(n_unweighted, 'rule')} without a weight: using 1 (logicmp learn learns weights)"
        yield self.world.describe()
        if self.world.supports:
            dense = ", ".join(f"{report.predicate} ({report.atoms:,} atoms)" for report in describe_supports(self.world)
                              if report.kind == "dense")
            yield f"dense:        {dense or 'none'}"
            if self.solution.n_rows is not None:
                yield f"rows of the rules over sparse predicates: {self.solution.n_rows:,}"
        yield f"semantics: {self.semantics}; method: {self.method}"
        yield from self.notes
        if self.log_partition is not None:
            yield f"log Z = {self.log_partition:.9g}"
        elif self.solution.elbo is not None:
            has_hard = any(rule.is_hard for rule in theory.rules)
            yield f"lower bound of log Z{', hard rules softened,' * has_hard} = {self.solution.elbo:.9g}"

    def __repr__(self) -> str:
        return f"Marginals({len(self)} answers by {self.method})"

    def _repr_html_(self) -> str:
        return to_notebook(self)

    def report(self, path: str | Path | None = None) -> str:
        """One HTML page that needs no other file: what was read and assumed, answers, course, explanations.

        Args:
            path: also write the page to this file.
        """
        page = build_report(self)
        if path is not None:
            write_whole(Path(path), page, "the report")
        return page

    def to_pandas(self, predicate: str | None = None) -> pandas.DataFrame:
        """A table of pandas; see `columns`."""
        return make_frame(self.columns(predicate), "pandas")

    def to_polars(self, predicate: str | None = None) -> polars.DataFrame:
        """A table of polars; see `columns`."""
        found: polars.DataFrame = make_frame(self.columns(predicate), "polars")
        return found

    def to_arrow(self, predicate: str | None = None) -> pyarrow.Table:
        """A table of pyarrow; see `columns`."""
        return make_frame(self.columns(predicate), "arrow")

    def columns(self, predicate: str | None = None) -> dict[str, Any]:
        """The answers as columns: atom, probability and log_odds.

        >>> from logicmp import infer
        >>> found = infer("Friends(person, person)\\n1 Friends(x, y)", "?Friends(Anna, Bob)", "Friends(x, Bob)")
        >>> list(found.columns()), list(found.columns("Friends"))
        (['atom', 'probability', 'log_odds'], ['person_1', 'person_2', 'probability', 'log_odds'])

        Args:
            predicate: a queried predicate, for a table of its atoms only, with one column for each argument instead of
                the text of the atom; the columns have the names of the types, with numbers if a type is there twice.
        """
        chosen = self.answers
        if predicate is None:
            found: dict[str, Any] = {"atom": [text for answer in chosen for text in answer.texts()]}
        else:
            chosen = [answer for answer in self.answers if isinstance(answer.query.formula, Atom)
                      and answer.query.formula.predicate == predicate]
            if not chosen:
                names = [atom.predicate for answer in self.answers if isinstance(atom := answer.query.formula, Atom)]
                raise LogicMPError(f"predicate {predicate!r} was not queried", closest(predicate, names, "predicate"))
            parts = [answer.arguments() for answer in chosen]
            found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        odds = np.concatenate([np.zeros(0), *(answer.log_odds for answer in chosen)])
        return {**found, "probability": as_probability(odds), "log_odds": odds}

    def to_tensors(self) -> dict[str, Tensor]:
        """The probabilities of all atoms of each queried predicate, as tensors of the layer; sparse ones are sparse."""
        queried = {answer.query.formula.predicate: None for answer in self.answers
                   if isinstance(answer.query.formula, Atom)}
        from ..execute.worlds import to_tensors

        return to_tensors({name: as_probability(self.solution.log_odds[name]) for name in queried}, self.world.supports)


def answer(query: Query, solution: Solution, problem: Problem) -> Answer:
    """Pick the answers to a query from a solution."""
    theory, formula = problem.world.theory, query.formula
    types = free_variables(formula)
    if isinstance(formula, Atom) and query.is_atom and formula.predicate in problem.world.supports:
        return _sparse_answer(query, formula, solution, problem)
    if isinstance(formula, Atom) and query.is_atom:
        shape = [len(theory.type[t].constants) for t in types.values()]
        grid = dict(zip(types, (column.reshape(-1) for column in np.indices(shape)), strict=True))
        n = int(np.prod(shape, dtype=np.int64))
        places = tuple(grid[arg.name] if isinstance(arg, Variable) else np.full(n, theory.index(arg.type, arg.name))
                       for arg in formula.args)
        odds = solution.log_odds[formula.predicate][places]
        labels = theory.predicate[formula.predicate].labels
        if labels is not None:
            odds = odds.reshape(n, len(labels))[:, [labels.index(label) for label in formula.labels or labels]]
        return Answer(query, theory, grid, odds.reshape(-1))
    k = [str(rule.formula) for rule in problem.formulas].index(str(query.as_rule().formula))
    odds = solution.formulas[k]
    ranges = variable_ranges(formula)
    # only bindings for which i+1 and similar terms are constants
    windows = [np.arange(-ranges[v].low, len(theory.type[t].constants) - ranges[v].high) for v, t in types.items()]
    grid = dict(zip(types, (column.reshape(-1) for column in np.meshgrid(*windows, indexing="ij")), strict=True))
    return Answer(query, theory, grid, odds[np.ix_(*windows)].reshape(-1) if types else odds.reshape(-1))


def _sparse_answer(query: Query, atom: Atom, solution: Solution, problem: Problem) -> Answer:
    """The answers for the atoms in the support that a query matches; an atom without variables is always answered."""
    theory = problem.world.theory
    support, odds = problem.world.supports[atom.predicate], solution.log_odds[atom.predicate]
    keep = np.ones(len(support), dtype=bool)
    bindings: dict[str, np.ndarray] = {}
    for arg, column in zip(atom.args, support.columns, strict=True):
        if not isinstance(arg, Variable):
            keep &= column == theory.index(arg.type, arg.name)
        elif arg.name in bindings:
            keep &= bindings[arg.name] == column
        else:
            bindings[arg.name] = column
    rows = np.flatnonzero(keep)
    labels = theory.predicate[atom.predicate].labels
    places = rows if support.places is None else support.places[rows]
    found = odds.reshape(support.n_values, 1 if labels is None else len(labels))[places]
    if not len(rows) and not bindings:
        found = np.full((1, found.shape[1]), -np.inf)
    if labels is not None:
        found = found[:, [labels.index(label) for label in atom.labels or labels]]
    return Answer(query, theory, {name: column[rows] for name, column in bindings.items()}, found.reshape(-1))
