"""The tables of the stored results and of the paper's.

The values of a result: `full`, `long`, F1 in percent of blocks that match exactly, of all blocks and of those with 20
words or more; `pairs`, `rand`, the F1 of pairs of words in one block and the adjusted Rand index, in percent; `blocks`,
`long_blocks`, the numbers of matched, predicted and true blocks; `violated_before`, `violated`, the shares of triples
that violate the rule, below and above the layer; `weight` of the rule, learned; `losses` of each epoch;
`encoder_seconds`, the training time of the seed's encoder. Without `full` there is no model, and `status` says why. The
result "speed" has the costs of the layer.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..runs import Result
from ..tables import mean, table
from .methods import COMPILED, DECODED, METHODS, ORDER

RESULTS = Path(__file__).with_name("results")


def title_of(method: str) -> str:
    if method in COMPILED:
        return COMPILED[method]
    return METHODS[method].title if method in METHODS else DECODED[method].title


def as_table(results: Sequence[Result]) -> str:
    """Markdown: F1, violated triples and costs by method, gains over Pair, and the cost of the layer."""
    by_method = {method: [r for r in results if r.method == method] for method in ORDER}
    scores, costs, notes = [], [], []
    for method, found in by_method.items():
        if not found:
            continue
        title, paper = title_of(method), METHODS[method].paper if method in METHODS else None
        scores.append([title, *(mean((r.get(what) for r in found), 1) for what in ("full", "long", "pairs", "rand")),
                       *(["-", "-"] if method in COMPILED else map(str, paper or ("", ""))), str(len(found))])
        weights = [r.get("weight") for r in found if r.get("weight") is not None]
        costs.append([title, *(_ppm(r.get(what) for r in found) for what in ("violated_before", "violated")),
                      mean(weights) if weights else "",
                      f"{statistics.mean(r.seconds for r in found):.0f}", f"{max(r.memory for r in found):,.0f}"])
        notes += [f"- {title}: {status}." for status in dict.fromkeys(r.status for r in found) if status != "done"]
    parts = [table(["method", "full, %", "long, %", "pairs, %", "Rand index, %", "paper: full, %", "paper: long, %",
                    "seeds"], scores),
             table(["method", "violated below the layer, ppm", "violated, ppm", "weight", "training, s", "memory, MB"],
                   costs), "\n".join(notes),
             _gains(by_method, "pair", ("slrelax", "logicmp", "slrelax+logicmp", "logicmp-symmetric", "pair+logicmp",
                                        "pair+threshold", "pair+logicmp+threshold", "pair+clustering",
                                        "logicmp+clustering")),
             _gains(by_method, "spade", ("spade+rules", "links", "links+pairs"))]
    parts += [_speed(r.values, r.threads) for r in results if r.method == "speed"]
    parts.append("± standard deviation over seeds; ppm: violated triples per million triples of the pages.")
    return "\n\n".join(filter(None, parts)) + "\n"


def _ppm(shares: Iterable[float | None]) -> str:
    known = [1e6 * share for share in shares if share is not None]
    return f"{statistics.mean(known):,.1f}" if known else ""


def _gains(by_method: Mapping[str, Sequence[Result]], plain: str, methods: Sequence[str]) -> str:
    """Differences to the plain method of the same seed, which starts from the same encoder."""
    base, rows = {r.seed: r for r in by_method[plain]}, []
    for method in methods:
        found = [r for r in by_method[method] if r.seed in base]
        if found:
            rows.append([title_of(method), *(gain(found, base, what) for what in ("full", "long", "pairs", "rand"))])
    return table([f"gain over {title_of(plain)} of the same seed", "full, points", "long, points", "pairs, points",
                  "Rand index, points"], rows) if rows else ""


def gain(results: Sequence[Result], plain: Mapping[int, Result], what: str) -> str:
    known = [(r.get(what), plain[r.seed].get(what)) for r in results]
    return mean(one - other for one, other in known if one is not None and other is not None)


def _speed(speed: Mapping[str, Any], threads: int) -> str:
    rows = [[what, f"{ms:.1f}"] for what, ms in speed["layer_ms"].items()]
    return table(["layer alone, T=5, one page", "ms"], rows) + (
        f"\n\nA training step with the layer takes {speed['step_ratio']:.2f}x the time of Pair "
        f"({speed['step_ms']['logicmp']:.0f} ms and {speed['step_ms']['pair']:.0f} ms, batches of {speed['batch']} "
        f"pages, {threads} threads).")
