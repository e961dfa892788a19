"""The table of the stored results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..runs import Result
from ..tables import mean, table

RESULTS = Path(__file__).with_name("results")
ORDER = {"rules": "rules", "complex": "ComplEx", "complex+rules": "ComplEx, rules on top"}
SHOWN = {"mrr": "MRR", "hits_1": "Hits@1", "hits_3": "Hits@3", "hits_10": "Hits@10", "valid_mrr": "MRR, valid"}
COSTS = ("rules", "rules left out", "atoms", "rows", "iteration, s", "iteration, s of the CPU", "memory, GiB")


def as_table(results: Sequence[Result]) -> str:
    """Markdown: ranks of all methods, the gain by the rules, and the cost of inference."""
    rows = []
    for method, title in ORDER.items():
        own = [r for r in results if r.method == method]
        if own:
            rows.append([title, *(mean((r.get(name) for r in own), 4) for name in SHOWN), str(len(own)),
                         mean((r.seconds for r in own), 0)])
    parts = [table(["test triples, both sides", *SHOWN.values(), "seeds", "s"], rows)]
    gains = [r for r in results if r.method == "complex+rules"]
    if gains:
        parts.append(table(["seed", "strength", "log floor", "gain in MRR", "standard error"], [
            [str(r.seed), f"{r.values['strength']:g}", f"{r.values['floor']:g}", f"{r.values['gain']:+.5f}",
             f"{r.values['gain_error']:.5f}"] for r in gains]))
    for r in results:
        if r.method == "speed":
            parts.append(table(["inference, all premises open", "value"],
                               [[name, f"{r.values[name]:,.4g}" if r.values[name] < 1e4 else f"{r.values[name]:,.0f}"]
                                for name in COSTS]))
    return "\n\n".join(parts) + "\n"
