"""Belief propagation on groups of variables and factors that send and receive the same messages.

Room: inference/bp.  Singla & Domingos (2008), Kersting, Ahmadi & Natarajan (2009).

    a hundred people without evidence      one group; a message is sent once, and counted a hundred times

Variables and factors start with a colour for their kind, and exchange colours until no group splits. Then all members
of a group have the same messages in every round of `bp`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from typing import ClassVar

import numpy as np

from ...ground.engine import Share
from ...ground.join import number_rows, ragged_ranges
from ...ground.network import Network
from ..method import Problem, Solution
from .classes import find_classes
from .graph import Graph, Products, Readings, Tables, mix, rounded, take_factors
from .method import BeliefPropagation


@dataclass
class LiftedBeliefPropagation(BeliefPropagation):
    """The messages of `bp`, round by round, sent once for each group of equal variables and factors.

    The notes report how much smaller the graph became. Options are those of `bp`.
    """

    name: ClassVar[str] = "lifted-bp"

    def solve(self, problem: Problem, network: Network | None = None) -> Solution:
        classes = find_classes(problem.world) if network is None and not problem.formulas else None
        if classes is None:
            # groups are found in the whole graph
            return super().solve(problem, network or problem.network())
        small = replace(problem, world=classes.small)
        network = small.network(multiples=classes)
        solution = self._solve(network, small, classes.scopes(network))
        return replace(solution, log_odds=classes.expand(solution.log_odds))

    def _compress(self, graph: Graph, readings: Readings, share: Share
                  ) -> tuple[Graph, np.ndarray, Readings, list[str]]:
        group, factors = find_groups(graph)
        small = quotient(graph, group, factors)
        tables = tuple(replace(reading, row=factors[k + 1][reading.row]) for k, reading in enumerate(readings.tables))
        n_variables, n_factors, n_edges = graph.n_ground
        times = max(1, n_edges) / max(1, small.n_edges)
        part, readings = take_factors(small, replace(readings, tables=tables), share)
        return part, group, readings, [
            f"{n_variables:,} variables in {len(small.cards):,} groups, {n_factors:,} factors in "
            f"{small.n_factors:,}: {f'{times:,.0f}' if times >= 10 else f'{times:.2g}'}x fewer messages"]


def find_groups(graph: Graph) -> tuple[np.ndarray, list[np.ndarray]]:
    """The group of each variable; and of each product, then of each table of every batch."""
    products = graph.products
    with_head = np.flatnonzero(products.head_var >= 0)
    kinds = [number_rows(products.gain, products.head_var >= 0)]
    factor, var = [products.owner, with_head], [products.var, products.head_var[with_head]]
    # the kind of each edge: the set of a literal or of a head, or the axis of a table
    label = [products.set, len(graph.sets.cards) + products.head_set[with_head]]
    n_labels = 2 * len(graph.sets.cards)
    n_factors = len(products.gain)
    for table in graph.tables:
        kind, axes = (column[table.kind] for column in _table_kinds(table.values))
        kinds.append(kind)
        n, width = table.var.shape
        factor.append(n_factors + np.repeat(np.arange(n), width))
        var.append(table.var.reshape(-1))
        label.append(n_labels + axes.reshape(-1))
        n_factors, n_labels = n_factors + n, n_labels + width
    all_var, all_factor = np.concatenate(var), np.concatenate(factor)
    sizes = np.concatenate([products.size, *(table.size for table in graph.tables)])
    counts = sizes[all_factor] / graph.size[all_var] if bool((sizes != 1).any()) else None
    batch = np.repeat(np.arange(len(kinds)), [len(kind) for kind in kinds])
    variables, colours = _refine(_variable_kinds(graph), number_rows(batch, np.concatenate(kinds)),
                                 all_var, all_factor, np.concatenate(label), counts)
    parts = np.split(colours, np.cumsum([len(kind) for kind in kinds])[:-1])
    return variables, [number_rows(part) for part in parts]


def _refine(variables: np.ndarray, factors: np.ndarray, var: np.ndarray, factor: np.ndarray, label: np.ndarray,
            counts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Split colours until all of one colour have the same colours along the same kinds of edges, equally often.

    Args:
        variables, factors: the colours at first.
        var, factor: the two ends of each edge.
        label: the kind of each edge.
        counts: how many edges of its variable each edge stands for, None for one.
    """
    generator = np.random.default_rng(0)
    of_label = generator.integers(2**64, size=int(label.max(initial=-1)) + 1, dtype=np.uint64)[label]

    def codes(colours: np.ndarray) -> np.ndarray:
        code = generator.integers(2**64, size=int(colours.max(initial=-1)) + 1, dtype=np.uint64)
        return mix(code[colours] + of_label)

    def seen(at: np.ndarray, n: int, colours: np.ndarray) -> np.ndarray:
        # a multiset as the sum of random numbers modulo 2^64: of a million different ones, two have the same sum with
        # probability 1e-7
        total = np.zeros(n, dtype=np.uint64)
        np.add.at(total, at, codes(colours))
        return total

    counted = [] if counts is None else [(prime, _modulo(counts, prime)) for prime in PRIMES]
    while True:
        n_before = int(variables.max(initial=-1)) + int(factors.max(initial=-1))
        factors = number_rows(factors, seen(factor, len(factors), variables[var]))
        colours = factors[factor]
        if counts is None:
            sums = [seen(var, len(variables), colours)]
        else:
            # counts are fractions, and their sums whole numbers: exact modulo a prime
            sums = [np.zeros(len(variables), dtype=np.uint64) for _ in PRIMES]
            for total, (prime, count) in zip(sums, counted, strict=True):
                np.add.at(total, var, codes(colours) % prime * count % prime)
            sums = [total % prime for total, (prime, _) in zip(sums, counted, strict=True)]
        variables = number_rows(variables, *sums)
        if int(variables.max(initial=-1)) + int(factors.max(initial=-1)) == n_before:
            return variables, factors


# below 2^31, so that products of two numbers fit into 64 bits
PRIMES = (np.uint64(2**31 - 1), np.uint64(2**31 - 19))
# of the fractions that count edges: products of the sizes of classes
MAX_DENOMINATOR = 10**6


def _modulo(fractions: np.ndarray, prime: np.uint64) -> np.ndarray:
    """Fractions as numbers modulo a prime.

    >>> int(_modulo(np.array([1.5]), PRIMES[0])[0]) * 2 % (2**31 - 1)
    3
    """
    known, place = np.unique(rounded(fractions), return_inverse=True)
    exact = [Fraction(x).limit_denominator(MAX_DENOMINATOR) for x in known.tolist()]
    found = [x.numerator * pow(x.denominator, -1, int(prime)) % int(prime) for x in exact]
    return np.array(found, dtype=np.uint64)[place.reshape(-1)]


def _variable_kinds(graph: Graph) -> np.ndarray:
    """A number for each variable, the same for variables with the same values and potentials."""
    starts = np.concatenate([[0], np.cumsum(graph.cards)])[:-1]
    kinds = np.zeros(len(graph.cards), dtype=np.int64)
    n = 0
    for card in np.unique(graph.cards).tolist():
        chosen = np.flatnonzero(graph.cards == card)
        kinds[chosen] = n + number_rows(*graph.potentials[starts[chosen][:, None] + np.arange(card)].T)
        n += len(chosen)
    return number_rows(kinds)


def _table_kinds(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tables that are equal up to the order of their axes have one kind; and a number for each axis, [tables, axes].

    Axes that can be swapped without changing the table have the same number: those of A <=> B, but not of A => B.

    >>> [x.tolist() for x in _table_kinds(np.array([[[1.0, 0], [0, 1]], [[0, 1], [0, 0]], [[0, 0], [1, 0]]]))]
    [[0, 1, 1], [[0, 0], [1, 0], [0, 1]]]
    """
    width = values.ndim - 1
    numbers: dict[tuple[tuple[int, ...], bytes], int] = {}
    kinds, axes = [], []
    for table in values:
        forms: dict[tuple[tuple[int, ...], bytes], tuple[int, ...]] = {}
        for order in permutations(range(width)):
            turned = table.transpose(order)
            forms.setdefault((turned.shape, turned.tobytes()), order)
        key = min(forms)
        # the place of each axis in the chosen form, and the first axis it can be swapped with
        places = np.argsort(forms[key]).tolist()
        kinds.append(numbers.setdefault(key, len(numbers)))
        axes.append([min(places[b] for b in range(width) if _is_same(table, a, b)) for a in range(width)])
    return np.array(kinds, dtype=np.int64), np.array(axes, dtype=np.int64).reshape(-1, width)


def _is_same(table: np.ndarray, a: int, b: int) -> bool:
    return table.shape[a] == table.shape[b] and bool((table == table.swapaxes(a, b)).all())


def quotient(graph: Graph, group: np.ndarray, factors: list[np.ndarray]) -> Graph:
    """The graph with one variable and one factor for each group, with the sizes of the groups."""
    starts = np.concatenate([[0], np.cumsum(graph.cards)])[:-1]
    _, example = np.unique(group, return_index=True)
    _, place = ragged_ranges(starts[example], graph.cards[example])
    products = graph.products
    _, chosen = np.unique(factors[0], return_index=True)
    counts = np.diff(products.begins)[chosen]
    _, literal = ragged_ranges(products.begins[:-1][chosen], counts)
    head_var = products.head_var[chosen]
    small = Products(np.concatenate([[0], np.cumsum(counts)]), group[products.var[literal]], products.set[literal],
                     products.gain[chosen], np.where(head_var >= 0, np.append(group, -1)[head_var], -1),
                     products.head_set[chosen], np.bincount(factors[0], products.size))
    tables = []
    for number, table in zip(factors[1:], graph.tables, strict=True):
        _, chosen = np.unique(number, return_index=True)
        tables.append(Tables(table.values, table.kind[chosen], group[table.var[chosen]],
                             np.bincount(number, table.size)))
    return Graph(graph.cards[example], graph.potentials[place], np.bincount(group, graph.size), graph.sets, small,
                 tuple(tables))
