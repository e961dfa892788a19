"""The tables of the stored results and of the paper's.

The values of a result: `f1`, `precision`, `recall`; `list_f1`, F1 on sentences with a list; `invalid`, invalid
transitions per 1,000 sentences; `testa`, F1 on testa after each epoch; `rule_weights`, learned, in the order of the
.mln file. Without `f1` there is no model, and `status` says why. Seconds are those of fine-tuning. The result "speed"
compares training steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..figures import draw_dots
from ..runs import Result
from ..tables import mean, table
from .methods import METHODS

RESULTS = Path(__file__).with_name("results")
# method: its title and the paper's F1, in the order of the table; "-" failed in the paper, None is not in the paper
ROWS: Mapping[str, tuple[str, str | None]] = {
    "blstm": ("BLSTM", "89.98"),
    "blstm-lex": ("BLSTM (lex: training entities)", "90.77"),
    "crf": ("BLSTM w/ CRF", "90.94"),
    "crf-mean-field": ("BLSTM w/ CRF (mean field)", "91.07"),
    "crf-forbidden": ("BLSTM w/ CRF, forbidden transitions", None),
    "sl": ("BLSTM w/ SL (adj)", None),
    "spl": ("BLSTM w/ SPL (adj)", None),
    "sl-list": ("BLSTM w/ SL (adj+list)", "-"),
    "spl-list": ("BLSTM w/ SPL (adj+list)", "-"),
    "slrelax": ("BLSTM w/ SLrelax (adj+list)", "90.38"),
    "logicdist-adj-p": ("BLSTM w/ LogicDist (adj), p", "89.80"),
    "logicdist-adj-q": ("BLSTM w/ LogicDist (adj), q", "91.11"),
    "logicdist-adj+list-p": ("BLSTM w/ LogicDist (adj+list), p", "89.93"),
    "logicdist-adj+list-q": ("BLSTM w/ LogicDist (adj+list), q", "91.18"),
    "logicmp-adj": ("BLSTM w/ LogicMP (adj)", "91.25"),
    "logicmp-adj+list": ("BLSTM w/ LogicMP (adj+list)", "91.42"),
    "logicmp-adj+doc": ("BLSTM w/ LogicMP (adj+doc)", None),
    "logicmp-adj+doc+lex": ("BLSTM w/ LogicMP (adj+doc+lex)", None),
    "through-adj+doc": ("LogicMP (adj+doc), trained through", None),
    "through-adj+doc+lex": ("LogicMP (adj+doc+lex), trained through", None),
    "exact-adj": ("BLSTM w/ LogicMP exact (adj)", None),
    "auto-adj+doc": ("BLSTM w/ LogicMP exact or mean field (adj+doc)", None),
    "blstm+decode": ("BLSTM, then decode", None),
    "logicmp-adj+decode": ("LogicMP (adj), then decode", None),
    "logicmp-adj+list+decode": ("LogicMP (adj+list), then decode", None),
}
# methods with rules begin with one of these
RULED = ("logicmp", "through", "exact", "auto", "sl", "spl", "logicdist")


def as_table(results: Sequence[Result]) -> str:
    """Markdown: F1 with the paper's, and the costs."""
    base = {r.seed: r.get("f1") for r in results if r.method == "blstm"}
    ratio = next((r.get("ratio") for r in results if r.method == "speed"), {})
    trained = {row: name for name, method in METHODS.items() for row in method.rows}
    scores, costs, notes = [], [], []
    for row, (title, paper) in ROWS.items():
        own = [r for r in results if r.method == row]
        if not own:
            continue
        if own[0].get("f1") is None:
            scores.append([title, "-", "-", paper or "", "-", "-"])
            notes.append(f"{title}: {own[0].status}")
            continue
        gain = mean(r.get("f1") - base[r.seed] if r.seed in base else None for r in own) if row != "blstm" else ""
        scores.append([title, mean(r.get("f1") for r in own), gain if gain[:1] in ("", "-") else f"+{gain}",
                       paper or "", mean(r.get("list_f1") for r in own), mean((r.get("invalid") for r in own), 1)])
        step = ratio.get(trained[row])
        costs.append([title, "" if step is None else f"{step:.2f}x", mean((r.seconds for r in own), 0),
                      mean((r.memory for r in own), 0), str(len(own))])
    parts = [table(["method", "F1, %", "over BLSTM", "paper's F1, %", "F1 with lists, %",
                    "invalid per 1,000 sentences"], scores),
             table(["method", "step, BLSTM = 1", "training, s", "memory, MB", "seeds"], costs)]
    return "\n\n".join([*parts, *(["\n".join(f"- {note}" for note in notes)] if notes else [])]) + "\n"


def draw_scores(results: Sequence[Result], path: Path) -> Path:
    """Draw F1 of every method, with all training documents and with fewer, one dot for each seed; write it as PNG."""
    panels = {("all documents" if not variant else f"{variant.removeprefix('share=')} of the documents"): {
        title: found for row, (title, _) in ROWS.items()
        if (found := [r.values["f1"] for r in results if (r.method, r.variant) == (row, variant) and r.get("f1")])}
        for variant in sorted({r.variant for r in results if r.method != "speed"})}
    return draw_dots({f"F1, %, {name}": values for name, values in panels.items()},
                     {title for row, (title, _) in ROWS.items() if row.startswith(RULED)},
                     "CoNLL-2003, testb: methods with rules in blue; a dot for each seed, a line at the mean", path)
