"""The tables of the stored results.

The values of a result: `auprc`, the average precision over all pairs of item and label; `exact_match`, percent of items
whose labels are all right; `incoherent`, pairs of child and parent per item where the child is more probable;
`violated`, those where the child is predicted and the parent is not; `log_loss` per label; `loss` of the last epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..runs import Result
from ..tables import mean, table
from .data import DATA_SETS
from .methods import ORDER, TITLES

# mean of ten seeds, C-HMCNN's paper
PUBLISHED = {"cellcycle_FUN": 0.255, "derisi_FUN": 0.195, "eisen_FUN": 0.306, "ImCLEF07A": 0.956, "ImCLEF07D": 0.927}


def as_table(results: Sequence[Result]) -> str:
    """Markdown: one table for each data set."""
    parts = []
    for name in DATA_SETS:
        rows = []
        for method in ORDER:
            found = [r for r in results if (r.split, r.method, r.variant) == (name, method, "")]
            if found:
                rows.append([TITLES[method], *(mean((r.get(what) for r in found), digits) for what, digits in (
                    ("auprc", 4), ("exact_match", 1), ("incoherent", 1), ("log_loss", 4))), str(len(found))])
        if rows:
            parts.append(f"{name} (C-HMCNN, published: {PUBLISHED[name]})\n\n" + table(
                ["row", "AU(PRC)", "exact match, %", "incoherent pairs", "log loss", "seeds"], rows))
    return "\n\n".join(parts) + "\n"
