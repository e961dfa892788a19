"""The figures of the relational experiment, on results that are made up, and on the data where it is there."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.ablation import VARIANTS
from experiments.files import write_figure
from experiments.relational import figures
from experiments.relational.data import Split, build_split, load_split, split_names
from experiments.relational.inference import run_logicmp
from experiments.relational.settings import load_settings
from experiments.relational.training import Context, average_precision
from experiments.runs import Result
from logicmp import LogicMPError

pytest.importorskip("matplotlib")
PNG = b"\x89PNG\r\n\x1a\n"


def result(split: str, method: str, auc_pr: float | None, seconds: float, curve: tuple[tuple[float, float], ...] = (),
           seed: int = 0, status: str = "done") -> Result:
    values = {"auc_pr": auc_pr, "curve": list(curve)}
    return Result(*split.split("/"), method, seed, status=status, values=values, seconds=seconds)


@pytest.fixture(scope="module")
def smokers() -> Split:
    """Two friends and one smoker among three: who else smokes is asked; B is named before A."""
    return build_split("smoke/made_up", "smoke(person)\nfriend(person, person)\n",
                       "1.0 !smoke(a) v !friend(a, b) v smoke(b)\n", "friend(B, A)\n!friend(B, C)\nsmoke(B)\n",
                       "smoke(A)\n!smoke(C)\n")


def test_a_mean_of_curves_keeps_each_value_until_the_next_point() -> None:
    times, mean, spread = figures.mean_curve([[(0, 0.0), (10, 0.4), (30, 0.8)], [(5, 0.2), (20, 0.6)]])
    assert times.tolist() == [5, 10, 20, 30]
    np.testing.assert_allclose(mean, [0.1, 0.3, 0.5, 0.7])
    np.testing.assert_allclose(spread, [0.1, 0.1, 0.1, 0.1])


def test_a_mean_of_curves_may_be_weighted() -> None:
    _, mean, spread = figures.mean_curve([[(1, 0.0)], [(1, 0.4)]], [3, 1])
    np.testing.assert_allclose(mean, [0.1])
    np.testing.assert_allclose(spread, [np.sqrt((3 * 0.1**2 + 0.3**2) / 4)])


def test_every_split_counts_the_same_however_many_seeds_it_has() -> None:
    runs = [result("uw_cse/ai", "gs", 0.1, 60, seed=seed) for seed in range(3)]
    panel = figures.draw_minutes([*runs, result("uw_cse/theory", "gs", 0.3, 180)]).axes[1]
    (marker,) = [line for line in panel.lines if line.get_marker() == "o" and len(line.get_xdata())]
    np.testing.assert_allclose([marker.get_xdata()[0], marker.get_ydata()[0]], [2.0, 0.2])
    assert panel.get_xlabel() == "minutes\ngs: 2 of 5 splits"


def test_a_curve_is_drawn_in_minutes_and_ends_in_its_marker() -> None:
    results = [result(name, "logicmp+gnn", 0.5, 125, ((60, 0.1), (120, 0.5))) for name in split_names("cora")]
    panel = figures.draw_minutes(results).axes[2]
    paper, curve, marker = (line for line in panel.lines if len(line.get_xdata()))
    assert curve.get_drawstyle() == "steps-post"
    assert curve.get_xdata().tolist() == [1, 2]
    np.testing.assert_allclose(curve.get_ydata(), [0.1, 0.5])
    np.testing.assert_allclose([marker.get_xdata()[0], marker.get_ydata()[0]], [2, 0.5])
    assert paper.get_linestyle() == "--"
    np.testing.assert_allclose(paper.get_ydata(), [0.824, 0.824])


def test_every_split_has_the_mean_of_its_seeds_above_the_papers_bar() -> None:
    runs = [result("uw_cse/graphics", "weights+gnn", value, 1, seed=seed) for seed, value in enumerate((0.2, 0.4))]
    panel = figures.draw_splits(runs).axes[1]
    assert [bar.get_height() for bar in panel.patches] == [0.26, 0.30, 0.42, 0.25, 0.28]
    (drawn,) = [c for c in panel.containers if c.get_label() == "weights+gnn"]
    (x,), (y,) = drawn[0].get_data()
    assert y == pytest.approx(0.3) and round(x) == 1


def test_a_method_over_the_limit_has_an_open_marker() -> None:
    names = split_names("kinship")
    results = [*(result(name, "mc-sat", 0.5, 600, status="> cap") for name in names),
               *(result(name, "hl-mrf", 0.9, 60) for name in names)]
    panel = figures.draw_minutes(results).axes[0]
    faces = {line.get_marker(): line.get_markerfacecolor() for line in panel.lines if len(line.get_xdata()) == 1}
    assert faces == {"^": "white", "P": figures.GREEN}


def test_what_has_no_number_is_said_and_not_drawn() -> None:
    results = [result("kinship/S1", "bp", None, 600, status="> cap"), result("kinship/S1", "a new one", 0.5, 0)]
    figure = figures.draw_minutes(results)
    assert figure.axes[0].get_xlabel() == "minutes\nbp: > cap\na new one: 1 of 5 splits"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["paper: ExpressGNN w/ LogicMP", "a new one"]


def test_a_data_set_without_results_says_so() -> None:
    other = replace(result("cora/S1", "logicmp", 0.3, 1), variant="schedule=cold")
    axes = figures.draw_minutes([result("uw_cse/ai", "logicmp", 0.3, 1), other]).axes
    assert [[text.get_text() for text in panel.texts] for panel in axes] == [["no results stored"], [],
                                                                             ["no results stored"]]


def test_pictures_are_written_as_png(tmp_path: Path, smokers: Split) -> None:
    seconds = {variant: 10.0**-k for k, variant in enumerate(VARIANTS)}
    drawn = {"splits": figures.draw_splits([]), "minutes": figures.draw_minutes([]),
             "speed": figures.draw_speed("made up", seconds),
             "iterations": figures.draw_iterations({"kinship/S1": [0.5, 0.6], "kinship/S2": [0.7, 0.8]}),
             "smoke": figures.draw_smoke(smokers)}
    for name, figure in drawn.items():
        path = write_figure(figure, tmp_path / f"{name}.png")
        assert path.read_bytes().startswith(PNG)
        assert path.stat().st_size > 5000


def test_iterations_have_a_line_for_each_split_and_their_mean() -> None:
    panel = figures.draw_iterations({"kinship/S1": [0.5, 0.6], "kinship/S2": [0.7, 0.8]}).axes[0]
    lines = {line.get_label(): line for line in panel.lines}
    assert list(lines) == ["S1", "S2", "mean"]
    np.testing.assert_allclose(lines["mean"].get_ydata(), [0.6, 0.7])


def test_one_run_gives_what_runs_of_every_length_give(smokers: Split) -> None:
    settings = {"scale": 1.0, "bias": -1.0, "damping": 0.5}
    each = [average_precision(smokers, run_logicmp(smokers, Context(settings={**settings, "iterations": n})))
            for n in (1, 2, 3)]
    assert figures.by_iteration(smokers, settings, 3) == each


def test_the_speed_of_every_variant_is_measured(smokers: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    # what `measure` compares with mean field, it does for every variant
    short = tuple(replace(variant, updates=2) for variant in VARIANTS if "compiled" not in variant.name)
    monkeypatch.setattr(figures, "VARIANTS", short)
    assert list(figures.measure_speed(smokers)) == list(short)


def test_a_row_of_smoke_is_a_constant(smokers: Split) -> None:
    left, right = figures.draw_smoke(smokers).axes[:2]
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["A", "B", "C"]
    known = left.images[0].get_array().filled(np.nan)
    # friend is [3, 3], then an empty column, then smoke
    np.testing.assert_array_equal(known, [[-1, -1, -1, np.nan, -1], [1, -1, 0, np.nan, 1], [-1, -1, -1, np.nan, -1]])
    predicted = right.images[0].get_array().filled(np.nan)
    assert predicted[0, 4] > predicted[2, 4]
    true, false = right.lines
    assert (true.get_xdata().tolist(), true.get_ydata().tolist()) == ([4], [0])
    assert (false.get_xdata().tolist(), false.get_ydata().tolist()) == ([4], [2])


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LogicMPError, match=r'hint: pip install "logicmp\[plot\]"'):
        next(figures.draw_all([], tmp_path, None))


def test_without_data_the_stored_results_are_still_drawn(tmp_path: Path) -> None:
    drawn = figures.draw_all([], tmp_path / "new/folder", str(tmp_path))
    assert next(drawn).read_bytes().startswith(PNG)
    assert next(drawn).read_bytes().startswith(PNG)
    with pytest.raises(LogicMPError, match=r"cannot read .*smoke/all"):
        next(drawn)


def test_all_figures_are_drawn_from_the_data(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the ablation takes minutes, and the other splits are like the first
    monkeypatch.setattr(figures, "measure_speed", lambda split: dict.fromkeys(VARIANTS, 1.0))
    monkeypatch.setattr(figures, "split_names", lambda dataset: split_names(dataset)[:1])
    paths = list(figures.draw_all([], tmp_path, str(data)))
    assert [path.name for path in paths] == ["splits.png", "minutes.png", "smoke.png", "iterations.png", "speed.png"]
    assert all(path.read_bytes().startswith(PNG) for path in paths)


def test_smoke_is_answered_without_a_fault(data: Path) -> None:
    assert figures.draw_smoke(load_split("smoke/all", data)).get_suptitle().startswith("Smoke: AUC-PR 1.000")


def test_the_last_iteration_is_what_inference_alone_gives(data: Path) -> None:
    split = load_split("kinship/S1", data)
    settings = {**load_settings(split.name, "logicmp"), "iterations": 4}
    assert figures.by_iteration(split, settings, 4)[-1] == average_precision(
        split, run_logicmp(split, Context(settings=settings)))
