"""Records that are the same: a frame of scored pairs in, a frame of records with their clusters out.

Room: facts, inference, groups -> **records**.

    id_a  id_b  score              id  cluster  confidence
    A1    B7    0.93        ->     A1  0        0.98
    B7    C2    0.88               B7  0        0.99
    A1    C2    0.30               C2  0        0.93
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..arguments import Share, checked
from ..errors import LogicMPError
from ..facts.frames import kind_of, make_frame
from ..facts.tables import MAX_LOG_ODDS, MISSING, SCORES, columns_of, misspelt, numbered, read_values, value_column
from ..inference.run import infer
from ..limits import need
from ..parse.load import parse_theory
from .groups import PairGraph, best_groups, confidences, renumber

OBJECTIVES = ("likelihood", "pairs")
REPEATED = ("error", "mean")
# stands for infinite log-odds, which have no sum
CERTAIN_ODDS = 1e5


@checked
def resolve(pairs: Any, predicate: str = "Same", rules: str | None = None, *,
            evidence: Mapping[str, Any] | None = None, unscored: Share = 0.5, threshold: Share = 0.5,
            objective: str = "likelihood", one_to_one: bool = False, max_size: int | None = None,
            repeated: str = "error", **options: Any) -> Any:
    """Group records by scored pairs: the most probable clusters, if pairs are independent.

    >>> pairs = {"a": ["A1", "B7", "A1"], "b": ["B7", "C2", "C2"], "score": [0.93, 0.88, 0.30]}
    >>> found = resolve(pairs)
    >>> found["id"].tolist(), found["cluster"].tolist()
    (['A1', 'B7', 'C2'], [0, 0, 0])

    Being the same is transitive, so clusters do not overlap. The search merges and moves greedily: it is deterministic,
    and not proven to find the best clusters. With `one_to_one` it is exact.

    Args:
        pairs: a frame with two columns of ids and a column "score" or "probability" (from 0 to 1) or "logit". It can be
            of pandas, polars or pyarrow, or a dict of columns. A record paired with itself is only listed.
        predicate: the name of the pairs in `rules`.
        rules: weighted rules that correct the scores before records are grouped, over the scored pairs only, by mean
            field; for example "2 Same(a,b) ^ Same(b,c) => Same(a,c)". The predicate is declared as
            `symmetric Same(record, record)` unless the rules declare it.
        evidence: tables of other predicates in `rules`, as for `infer`.
        unscored: the probability that two records are the same if their pair is not listed, at most 0.5, which means
            that such pairs do not count.
        threshold: the score that counts as undecided; above 0 and below 1.
        objective: "likelihood" (the sum of the log-odds of the pairs in clusters) or "pairs" (the sum of their
            probabilities less `threshold`: the expected number of right pairs), which single pairs with extreme scores
            influence less.
        one_to_one: match the first column's ids with the second's: a cluster has at most one of each (needs SciPy).
        max_size: the largest number of records in a cluster, at least 1.
        repeated: what to do if a pair is listed again, or as (b, a), with another score: "error", or "mean" to average
            the log-odds.
        options: of `infer`, for `rules`.

    Returns:
        A frame of the same kind as `pairs` with the columns id, cluster and confidence, in the order in which records
        are first listed. The confidence is the probability of the record's cluster given the clusters of all other
        records.
    """
    if objective not in OBJECTIVES:
        raise LogicMPError(f"objective must be 'likelihood' or 'pairs', got {objective!r}")
    if repeated not in REPEATED:
        raise LogicMPError(f"repeated must be 'error' or 'mean', got {repeated!r}")
    if not 0 < threshold < 1:
        raise LogicMPError(f"threshold must be above 0 and below 1, got {threshold:g}")
    if not 0 < unscored <= 0.5:
        raise LogicMPError(f"unscored must be above 0 and at most 0.5, got {unscored:g}",
                           "0.5 means that such pairs do not count")
    if max_size is not None and max_size < 1:
        raise LogicMPError(f"max_size must be at least 1, got {max_size}")
    if rules is None and (evidence or options):
        raise LogicMPError(f"{'evidence' if evidence else next(iter(options))!r} is given without rules",
                           'write the rules: rules="2 Same(a,b) ^ Same(b,c) => Same(a,c)"')
    names, columns = _read(pairs)
    ids, one, other = _number(names, columns)
    graph = _graph(len(ids), one, other, _log_odds(columns[names[2]], names[2]), repeated)
    shift, missing = (float(np.log(p) - np.log1p(-p)) for p in (threshold, unscored))
    graph = replace(graph, weights=graph.weights - shift, unscored=missing, max_size=max_size)
    if rules is not None and len(graph.weights):
        graph = replace(graph, weights=_corrected(graph, ids, predicate, rules, evidence or {}, options))
    odds = graph
    if objective == "pairs":
        # a certain pair outweighs all others
        p = 1 / (1 + np.exp(-(graph.weights + shift).clip(-MAX_LOG_ODDS, MAX_LOG_ODDS)))
        certain = np.where(np.abs(graph.weights) > CERTAIN_ODDS / 2, np.sign(graph.weights) * CERTAIN_ODDS, 0)
        graph = replace(graph, weights=p - threshold + certain, unscored=unscored - 0.5)
    if one_to_one:
        if max_size is not None:
            raise LogicMPError("one_to_one and max_size cannot be combined", "one_to_one means clusters of at most two")
        labels, confidence = _match(graph, odds, one, other, ids, names)
    else:
        labels = best_groups(graph)
        confidence = confidences(odds, labels)
    return make_frame({"id": _as_column(ids), "cluster": labels, "confidence": confidence}, kind_of(pairs))


def _read(pairs: Any) -> tuple[list[str], dict[str, Any]]:
    """The names of the two columns of ids and of the scores, and all columns."""
    columns = columns_of(pairs, "pairs")
    scored = value_column(list(columns), 2, "pairs")
    ids = [name for name in columns if name != scored]
    if scored is None or len(ids) != 2:
        raise LogicMPError(f"pairs: expected two columns of ids and one of scores, got {len(columns)} columns "
                           f"({', '.join(map(repr, columns))})", (scored is None and misspelt(ids)) or
                           f"name the scores {', '.join(map(repr, SCORES[:2]))} or {SCORES[2]!r}, and select the "
                           "columns: pairs[['id_a', 'id_b', 'score']]")
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise LogicMPError("pairs: the columns have different lengths: "
                           f"{', '.join(f'{name!r} {len(column)}' for name, column in columns.items())}")
    return [*ids, scored], columns


def _number(names: Sequence[str], columns: Mapping[str, Any]) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """The ids in the order in which the rows list them, and the numbers of both ids of each row."""
    number: dict[str, int] = {}
    ids: list[Any] = []
    found = []
    for name in names[:2]:
        values, codes = numbered(columns[name])
        places = np.zeros(len(values), dtype=np.int64)
        for k, value in enumerate(values):
            at = number.setdefault(str(value), len(ids))
            if at == len(ids):
                ids.append(value)
            if type(value) not in (str, int) or value == "" or type(ids[at]) is not type(value):
                raise _wrong_id(value, ids[at], f"pairs, row {int(np.argmax(codes == k)) + 1}, column {name!r}")
            places[k] = at
        found.append(places[codes])
    first = np.full(len(ids), 2 * len(found[0]))
    for side, places in enumerate(found):
        np.minimum.at(first, places, 2 * np.arange(len(places)) + side)
    order = np.argsort(first)
    rank = np.empty(len(ids), dtype=np.int64)
    rank[order] = np.arange(len(ids))
    return [ids[k] for k in order.tolist()], rank[found[0]], rank[found[1]]


def _wrong_id(value: Any, other: Any, where: str) -> LogicMPError:
    if type(value) in (str, int) and value != "":
        return LogicMPError(f"{where}: the ids {other!r} and {value!r} are a number and a text, which look alike",
                            "convert both columns to one type")
    if value is None or value == "" or value != value or str(value) in MISSING:
        return LogicMPError(f"{where}: the id is missing", "remove the row, or fill it in")
    return LogicMPError(f"{where}: expected a name or a whole number, got {value!r}", "convert the column to strings")


def _as_column(ids: list[Any]) -> np.ndarray:
    """The ids as an array, of whole numbers if all are."""
    if ids and all(type(value) is int for value in ids):
        return np.array(ids)
    found = np.empty(len(ids), dtype=object)
    found[:] = ids
    return found


def _log_odds(column: Any, name: str) -> np.ndarray:
    values = read_values(column, "pairs", name)
    if np.isnan(values).any():
        row = int(np.argmax(np.isnan(values)))
        raise LogicMPError(f"pairs, row {row + 1}, column {name!r}: the score is missing",
                           "remove the row, for a pair that is not scored, or fill it in")
    with np.errstate(divide="ignore"):
        odds: np.ndarray = (np.log(values) - np.log1p(-values)).clip(-CERTAIN_ODDS, CERTAIN_ODDS)
    return odds


def _graph(n: int, one: np.ndarray, other: np.ndarray, odds: np.ndarray, repeated: str) -> PairGraph:
    """Each pair once, without pairs of a record with itself."""
    rows = np.flatnonzero(one != other)
    low, high, odds = np.minimum(one, other)[rows], np.maximum(one, other)[rows], odds[rows]
    keys, first, number, counts = np.unique(low * n + high, return_index=True, return_inverse=True, return_counts=True)
    differs = odds != odds[first][number]
    if repeated == "error" and differs.any():
        again = int(np.argmax(differs))
        raise LogicMPError(f"pairs, rows {rows[first[number[again]]] + 1} and {rows[again] + 1}: one pair has two "
                           "different scores", 'keep one of them, or pass repeated="mean" to average their log-odds')
    return PairGraph(n, *np.divmod(keys, n), np.bincount(number, odds, len(keys)) / counts)


def _corrected(graph: PairGraph, ids: list[Any], predicate: str, rules: str, evidence: Mapping[str, Any],
               options: Mapping[str, Any]) -> np.ndarray:
    """The log-odds of the pairs after mean field over the rules."""
    is_declared = re.search(rf"^\s*\*?\s*(?:symmetric\s+)?{re.escape(predicate)}\s*\([^()]*\)\s*$", rules, re.MULTILINE)
    theory = parse_theory(rules if is_declared else f"symmetric {predicate}(record, record)\n{rules}")
    if predicate not in theory.predicate or len(theory.predicate[predicate].types) != 2:
        raise LogicMPError(f"the rules do not declare {predicate} as a predicate of pairs",
                           f"write: symmetric {predicate}(record, record)")
    texts = np.array([str(value) for value in ids], dtype=object)
    pairs = {"one": texts[graph.one], "other": texts[graph.other], "logit": graph.weights}
    found = infer(theory, {predicate: pairs, **evidence}, predicate, **{
        "method": "mean-field", "unscored": "skip", **options})
    kind, support = found.world.theory.predicate[predicate].types[0], found.world.supports[predicate]
    index = found.world.theory.indices(kind)
    place = np.array([index.get(text, 0) for text in texts])
    odds = found.solution.log_odds[predicate].reshape(-1)[support.find((place[graph.one], place[graph.other]))]
    corrected: np.ndarray = odds.clip(-CERTAIN_ODDS, CERTAIN_ODDS)
    return corrected


def _match(graph: PairGraph, odds: PairGraph, one: np.ndarray, other: np.ndarray, ids: list[Any], names: Sequence[str]
           ) -> tuple[np.ndarray, np.ndarray]:
    """The best matching of the two columns, and the probability of each record's partner among its candidates."""
    differ = one != other
    both = np.intersect1d(one[differ], other[differ])
    if len(both):
        raise LogicMPError(f"one_to_one: the id {ids[both[0]]!r} is in both columns, {names[0]!r} and {names[1]!r}",
                           "give the records of the two sources different ids")
    need("scipy", "map", "one_to_one")
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    n, labels, weights = graph.n, np.arange(graph.n), graph.weights
    is_left = np.zeros(n, dtype=bool)
    is_left[one[differ]] = True
    swap = is_left[graph.one]
    left, right = np.where(swap, graph.one, graph.other), np.where(swap, graph.other, graph.one)
    rows = np.flatnonzero(weights > 0)
    chosen = np.zeros(n)
    if len(rows):
        # every record on the left can also stay alone: column n + left
        alone, most = np.unique(left[rows]), weights.max() + 1
        at, row = np.unique(np.append(left[rows], alone), return_inverse=True)
        to, column = np.unique(np.append(right[rows], n + alone), return_inverse=True)
        costs = np.append(most - weights[rows], np.full(len(alone), most))
        matched, partner = min_weight_full_bipartite_matching(csr_array((costs, (row, column)), (len(at), len(to))))
        is_pair = to[partner] < n
        labels[to[partner][is_pair]] = at[matched][is_pair]
    together = labels[left] == labels[right]
    for ends in (left, right):
        chosen[ends[together]] = odds.weights[together]
    source, _, weight = odds.links
    top = np.zeros(n)
    np.maximum.at(top, source, weight)
    total = np.exp(-top) + np.bincount(source, np.exp(weight - top[source]), n)
    return renumber(labels), np.exp(chosen - top) / total
