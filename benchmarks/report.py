"""Run cases, print the results as a table, and compare two runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from .case import TOLERANCE, Case, Disagreement, Options, Task, Unavailable
from .measure import interleave, machine, median, peak_memory

# two runs of the same code differ by up to this many percent
NOISE = 3.0


def run_task(case: Case, task: Task, repeat: int) -> dict[str, Any]:
    """Check one task, measure its functions, and compare the ratios with their targets."""
    difference = abs(task.check())
    if not difference <= TOLERANCE:
        raise Disagreement(f"{case.name}, {task.setting}: results differ from the baseline by {difference:.2g} (limit "
                           f"{TOLERANCE:g}), so the case is not timed")
    if task.measures == "memory":
        samples = {name: [float(peak_memory(side))] for name, side in task.sides.items()}
    else:
        samples = interleave(task.sides, repeat)
    medians = {name: median(values) for name, values in samples.items()}
    ratios = []
    for ratio in task.ratios:
        value = ratio.value(medians)
        ratios.append({"of": ratio.of, "baseline": ratio.baseline, "value": value, "share": ratio.is_share,
                       "target": ratio.target, "met": ratio.is_met(value)})
    return {"case": case.name, "setting": task.setting, "measures": task.measures, "difference": difference,
            "sides": {name: {"median": medians[name], "samples": samples[name]} for name in samples},
            "ratios": ratios, "notes": task.notes(medians)}


def run_cases(cases: Iterable[Case], options: Options, repeat: int, console: Console) -> dict[str, Any]:
    """Run the cases in turn; list those that cannot run or that differ from their baseline, with the reason."""
    results: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    for case in cases:
        tasks = case.tasks(options)
        while True:
            try:
                task = next(tasks, None)
                if task is None:
                    break
                console.print(f"{case.name}, {task.setting} ...", style="dim")
                results.append(run_task(case, task, repeat))
            except Disagreement as cause:
                failed.append({"case": case.name, "kind": "disagreement", "reason": str(cause)})
                console.print(f"error: {cause}", style="bold red", markup=False)
            except Unavailable as cause:
                failed.append({"case": case.name, "kind": "unavailable", "reason": str(cause)})
                console.print(f"{case.name} skipped: {cause}", style="yellow", markup=False)
                break
    return {"machine": machine(), "results": results, "failed": failed}


def show(run: dict[str, Any], console: Console) -> None:
    """Print the table of a run, and its notes."""
    about = run["machine"]
    changed = " with uncommitted changes" if about["uncommitted_changes"] else ""
    table = Table(title=f"commit {about['commit']}{changed}, torch {about['torch']}, {about['threads']} threads",
                  title_justify="left")
    for column in ("case", "setting", "measured", "median", "baseline", "ratio", "target", "met"):
        table.add_column(column, justify="right" if column in ("median", "ratio", "target") else "left",
                         no_wrap=column in ("median", "ratio", "target"))
    for result in run["results"]:
        first = True
        for name, side in result["sides"].items():
            ratios = [r for r in result["ratios"] if r["of"] == name] or [None]
            for k, ratio in enumerate(ratios):
                table.add_row(
                    result["case"] if first else "", result["setting"] if first else "", name if k == 0 else "",
                    quantity(side["median"], result["measures"]) if k == 0 else "",
                    *(("", "", "", "") if ratio is None else (
                        ratio["baseline"], f"{ratio['value']:.2f}x" + (" cost" if ratio["share"] else ""),
                        ratio["target"],
                        {True: "[green]yes[/]", False: "[bold red]no[/]", None: ""}[ratio["met"]])))
                first = False
        table.add_section()
    console.print(table)
    for result in run["results"]:
        for name, text in result["notes"].items():
            console.print(f"{result['case']}, {result['setting']}: {name} {text}", markup=False, highlight=False)


def quantity(value: float, measures: str) -> str:
    """A time in ms below one second and in s above, memory in MB.

    >>> quantity(0.0123, "time"), quantity(2.49, "time"), quantity(2.5e8, "memory")
    ('12.3 ms', '2.49 s', '250 MB')
    """
    if measures == "time":
        return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"
    return f"{value / 1e6:.4g} MB"


def compare(old: dict[str, Any], new: dict[str, Any]) -> str:
    """A markdown table of two runs: both medians, and the change in percent."""
    before = {(r["case"], r["setting"], name): side["median"]
              for r in old["results"] for name, side in r["sides"].items()}
    lines = ["| case | setting | measured | old | new | change |", "|---|---|---|---:|---:|---|"]
    seen = set()
    for result in new["results"]:
        for name, side in result["sides"].items():
            key = (result["case"], result["setting"], name)
            seen.add(key)
            was = before.get(key)
            shown = "-" if was is None else quantity(was, result["measures"])
            lines.append(f"| {' | '.join(key)} | {shown} | {quantity(side['median'], result['measures'])} "
                         f"| {change(was, side['median'], result['measures'])} |")
    lines += [f"| {' | '.join(key)} | | | only in old |" for key in before if key not in seen]
    differ = [f"{key} {old['machine'].get(key)} -> {new['machine'].get(key)}"
              for key in ("commit", "torch", "threads", "processor", "load")
              if old["machine"].get(key) != new["machine"].get(key)]
    return "\n".join([*lines, "", f"Differences between the runs: {'; '.join(differ) or 'nothing'}.", ""])


def change(old: float | None, new: float, measures: str = "time") -> str:
    """How much faster or slower, in percent of the old value.

    >>> change(2.0, 1.0), change(1.0, 1.5), change(1.0, 1.01)
    ('50% faster', '50% slower', 'same')
    """
    if not old:
        return "new"
    percent = 100 * (new - old) / old
    if abs(percent) < NOISE:
        return "same"
    words = ("faster", "slower") if measures == "time" else ("less", "more")
    return f"{abs(percent):.0f}% {words[percent > 0]}"
