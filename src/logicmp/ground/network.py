"""The ground network: variables, and weighted products of literals over them.

Room: ground.  Paper: Eq. 1.

    w Smokes(A) => Cancer(A)        feature  Smokes(A) !Cancer(A)  with log-weight -w: true where the rule is violated

The score of a world is  sum_p w_p (base_p - sum of the shares of its true features); a hard feature is never true.
The features of a formula that is no clause exclude each other, so the formula is still counted once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..facts.world import World
from ..parse.theory import Predicate, Rule
from .literals import Literals, Sets, simplify
from .places import Owners


def n_values(predicate: Predicate, sizes: Mapping[str, int]) -> int:
    """The number of values of each variable of a predicate; the last one of a `?` predicate is "none"."""
    if predicate.labels is not None:
        return len(predicate.labels)
    if predicate.functional:
        return math.prod(sizes[predicate.types[k]] for k in predicate.functional) + predicate.may_be_none
    return 2


def card_of(world: World, name: str) -> int:
    """The number of values of each variable of a predicate, as a world stores them."""
    predicate, support = world.theory.predicate[name], world.supports.get(name)
    if support is not None and support.lists_values:
        return support.width + predicate.may_be_none
    return n_values(predicate, world.sizes)


HARD = -1
# a product with more literals is split into a chain of small ones
MAX_LITERALS = 6


class Draft:
    """The features and variables of a network while it is built."""

    def __init__(self, n_own: int, owners: Owners | None = None) -> None:
        self.sets = Sets()
        self.n_variables = n_own
        # of several processes, each keeps the features with a variable that it owns
        self.owners = owners
        # the rule that features are added for
        self.rule = 0
        # of each entry: the lengths of its features, their variables, sets, weights and defined variables
        self._columns: list[tuple[np.ndarray, ...]] = []
        # of each entry: how many features, their shares and rule
        self._about: list[tuple[int, np.ndarray, int]] = []

    def new_variables(self, n: int) -> np.ndarray:
        """The numbers of n more variables, with two values each."""
        self.n_variables += n
        return np.arange(self.n_variables - n, self.n_variables)

    def add(self, literals: Literals, params: np.ndarray, shares: np.ndarray | None = None,
            defined: np.ndarray | None = None) -> None:
        """Add features of the current rule, without those that contradict themselves.

        Args:
            params: the weight of each feature, or HARD.
            shares: what each feature counts, None for 1.
            defined: the quantified part's variable that each feature defines, -1 for none.
        """
        simple, left = simplify(literals, self.sets)
        if self.owners is not None:
            is_kept = np.bincount(simple.row, self.owners.has(simple.var), simple.n) > 0
            simple, left[left] = simple.keep(is_kept), is_kept
        if simple.n:
            defines = np.broadcast_to(np.int32(-1), simple.n) if defined is None else defined[left]
            columns = simple.counts, simple.var, simple.set, params if left.all() else params[left], defines
            self._columns.append(tuple(column.astype(np.int32, copy=False) for column in columns))
            shares = np.broadcast_to(1.0, simple.n) if shares is None else shares[left]
            if bool((shares == shares[0]).all()):
                shares = np.broadcast_to(shares[0], simple.n)
            self._about.append((simple.n, shares, self.rule))

    def tie(self, products: Literals, variable: np.ndarray, is_true: bool) -> None:
        """Forbid each product together with the given value of its variable, which it helps to define."""
        sign = Literals(products.n, np.arange(products.n), variable,
                        np.full(products.n, 0 if is_true else 1, dtype=np.int64))
        self.add(Literals.joined([products, sign]), np.full(products.n, HARD, dtype=np.int64), defined=variable)

    def arrays(self) -> dict[str, np.ndarray]:
        """The features as fields of a `Network`; the draft is empty afterwards."""
        empty = np.zeros(0, dtype=np.int32)
        found = {}
        for k, name in enumerate(("lengths", "var", "set", "param", "defines")):
            found[name] = np.concatenate([empty, *(columns[k] for columns in self._columns)])
        lengths = found.pop("lengths")
        n = np.array([n for n, _, _ in self._about], dtype=np.int64)
        found |= {"begins": np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
                  "share": np.concatenate([np.zeros(0), *(shares for _, shares, _ in self._about)]),
                  "rule": np.repeat(np.array([rule for _, _, rule in self._about], dtype=np.int32), n)}
        for name in ("share", "defines"):
            # one number for all features needs no memory
            if len(lengths) and bool((found[name] == found[name][0]).all()):
                found[name] = np.broadcast_to(found[name][0], lengths.shape)
        self._columns.clear()
        self._about.clear()
        return found

    @property
    def n_features(self) -> int:
        return sum(n for n, _, _ in self._about)

    def mark(self) -> tuple[int, int]:
        """How many entries there are, for `cut`."""
        return len(self._columns), self.n_variables

    def cut(self, mark: tuple[int, int]) -> None:
        """Remove what was added since a mark."""
        del self._columns[mark[0] :], self._about[mark[0] :]
        self.n_variables = mark[1]


@dataclass(frozen=True)
class Network:
    """Variables, features and weights: the input of every method that works on atoms."""

    world: World
    rules: tuple[Rule, ...]
    # variables: how many values each has, and the log-potential of each value, -inf if it is impossible
    cards: np.ndarray
    potentials: np.ndarray
    # by predicate, the variable of each atom (functional arguments left out), -1 where it is decided
    variables: Mapping[str, np.ndarray]
    # variables from here on represent quantified parts, whose atoms decide them
    n_own: int
    sets: Sets
    # features: feature f is a product of the literals begins[f] to begins[f+1]
    begins: np.ndarray
    var: np.ndarray
    set: np.ndarray
    # the weight of each feature (HARD if it must be false), its share of the weight, and its rule
    param: np.ndarray
    share: np.ndarray
    rule: np.ndarray
    # weights: those of rule r are offsets[r] to offsets[r+1], one for each constant of its +x
    weights: np.ndarray
    offsets: np.ndarray
    # the count of each weight if no feature were true
    base: np.ndarray
    # the quantified part's variable that each feature defines, -1 for the features of rules
    defines: np.ndarray
    # if other processes have other features: who owns a variable has all features with it
    owners: Owners | None = None

    @property
    def starts(self) -> np.ndarray:
        """Where the potentials of each variable begin."""
        return np.concatenate([[0], np.cumsum(self.cards)])

    @property
    def n_features(self) -> int:
        return len(self.param)

    @property
    def owner(self) -> np.ndarray:
        """The feature of each literal."""
        return np.repeat(np.arange(self.n_features), np.diff(self.begins))

    def __str__(self) -> str:
        soft, hard = int((self.param != HARD).sum()), int((self.param == HARD).sum())
        own = f"{self.n_own:,} unobserved variables"
        more = f" and {len(self.cards) - self.n_own:,} for quantifiers" if len(self.cards) > self.n_own else ""
        return f"ground network: {own}{more}, {soft:,} soft and {hard:,} hard features, {len(self.var):,} literals"

    def name(self, variable: int) -> str:
        """The atom of a variable, as text."""
        for predicate, numbers in self.variables.items():
            at = np.argwhere(numbers == variable)
            if len(at):
                declared = self.world.theory.predicate[predicate]
                types = [t for k, t in enumerate(declared.types) if k not in declared.functional]
                place = at[0].tolist()
                if predicate in self.world.supports:
                    place = self.world.supports[predicate].entities(place[0], declared.functional)
                args = [self.world.theory.type[t].constants[i] for t, i in zip(types, place, strict=True)]
                return f"{predicate}({','.join(args)})" if args else predicate
        return "a quantified part"


def label_components(network: Network) -> np.ndarray:
    """A number for each variable, the same for all variables of a component."""
    label = np.arange(len(network.cards))
    if not network.n_features:
        return label
    owner = network.owner
    while True:
        lowest = np.minimum.reduceat(label[network.var], network.begins[:-1])[owner]
        new = label.copy()
        # the lowest label goes to all variables with the same label, not to this one alone
        np.minimum.at(new, label[network.var], lowest)
        while (new != new[new]).any():
            new = new[new]
        if (new == label).all():
            return label
        label = new


def select_features(network: Network, keep: np.ndarray) -> Network:
    """The network with some of its features only."""
    literals, counts = keep[network.owner], np.diff(network.begins)[keep]
    return replace(network, begins=np.concatenate([[0], np.cumsum(counts)]), var=network.var[literals],
                   set=network.set[literals], param=network.param[keep], share=network.share[keep],
                   rule=network.rule[keep], defines=network.defines[keep])


def shorten(network: Network, max_literals: int = MAX_LITERALS) -> Network:
    """Split long products: l1 l2 l3 ... becomes a chain of variables a2 = l1 l2, a3 = a2 l3, ...

    `EXIST y P(y)` over a hundred constants is then a hundred tables of eight cells, and not one of 2^100.
    """
    counts = np.diff(network.begins)
    is_long = counts > max_literals
    if not is_long.any():
        return network
    n_variables = len(network.cards)
    var: list[int] = []
    sets: list[int] = []
    about: list[tuple[int, int, float, int, int]] = []

    def add(literals: Sequence[tuple[int, int]], param: int, share: float, rule: int, defined: int) -> None:
        var.extend(v for v, _ in literals)
        sets.extend(s for _, s in literals)
        about.append((len(literals), param, share, rule, defined))

    complement = {int(k): int(network.sets.complement(np.array([k]))[0]) for k in np.unique(network.set)}
    complement |= {0: 1, 1: 0}
    for f in np.flatnonzero(is_long).tolist():
        span = slice(network.begins[f], network.begins[f + 1])
        literals = list(zip(network.var[span].tolist(), network.set[span].tolist(), strict=True))
        param, share, rule = int(network.param[f]), float(network.share[f]), int(network.rule[f])
        held = literals[0]
        for literal in literals[1:-1]:
            new = (n_variables, 0)
            n_variables += 1
            for part in (held, literal):
                add([new, (part[0], complement[part[1]])], HARD, 1.0, rule, new[0])
            add([(new[0], 1), held, literal], HARD, 1.0, rule, new[0])
            held = new
        add([held, literals[-1]], param, share, rule, int(network.defines[f]))
    short = np.repeat(~is_long, counts)
    n_more = n_variables - len(network.cards)
    lengths, params, shares, rules, defines = (np.array(column) for column in zip(*about, strict=True))
    return replace(
        network,
        cards=np.concatenate([network.cards, np.full(n_more, 2, dtype=np.int64)]),
        potentials=np.concatenate([network.potentials, np.zeros(2 * n_more)]),
        begins=np.concatenate([[0], np.cumsum(np.concatenate([counts[~is_long], lengths]))]),
        var=np.concatenate([network.var[short], var]), set=np.concatenate([network.set[short], sets]),
        param=np.concatenate([network.param[~is_long], params]),
        share=np.concatenate([network.share[~is_long], shares]),
        rule=np.concatenate([network.rule[~is_long], rules]),
        defines=np.concatenate([network.defines[~is_long], defines]))
