"""The tables of the stored results.

The values of a result: `auprc`, the average precision over all pairs of item and label; `exact_match`, percent of items
whose labels are all right; `incoherent`, pairs of child and parent per item where the child is more probable;
`violated`, those where the child is predicted and the parent is not; `log_loss` per label; `loss` of the last epoch.
The result "speed" of a data set has the milliseconds of a training step by row.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..runs import Result
from ..tables import mean, table
from .data import DATA_SETS
from .methods import ORDER, READ_FROM, TITLES

# mean of ten seeds, C-HMCNN's paper
PUBLISHED = {"cellcycle_FUN": 0.255, "derisi_FUN": 0.195, "eisen_FUN": 0.306, "ImCLEF07A": 0.956, "ImCLEF07D": 0.927}
SHOWN = (("auprc", "AU(PRC)", 4), ("exact_match", "exact match, %", 1), ("incoherent", "incoherent pairs", 1),
         ("log_loss", "log loss", 4))


def rows_of(results: Sequence[Result], name: str, method: str, variant: str = "") -> list[Result]:
    """The results of a row on a data set; without `variant`, on its test items with the settings of the table."""
    return [r for r in results if (r.split, r.method, r.variant) == (name, method, variant)]


def as_table(results: Sequence[Result]) -> str:
    """Markdown: one table for each data set, and one for each other choice of settings, such as more epochs."""
    parts = []
    for name in DATA_SETS:
        speed = next((r.values for r in rows_of(results, name, "speed")), {})
        for variant in sorted({r.variant for r in results if r.split == name}):
            rows = []
            for method in ORDER:
                found = rows_of(results, name, method, variant)
                if found:
                    step = speed.get(READ_FROM.get(method, method))
                    rows.append([TITLES[method], *(mean((r.get(what) for r in found), digits)
                                                   for what, _, digits in SHOWN),
                                 "-" if step is None else f"{step:.1f}", str(len(found))])
            if rows:
                title = " ".join([name, variant]).strip()
                parts.append(f"{title} (C-HMCNN, published: {PUBLISHED[name]})\n\n" + table(
                    ["row", *(title for _, title, _ in SHOWN), "step, ms", "seeds"], rows))
    return "\n\n".join([*parts, "± standard deviation over seeds."]) + "\n"
