"""The relational experiment on a split that is made up, and one real split end to end."""

from __future__ import annotations

import json
import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.checkpoint import Checkpoint
from experiments.relational import __main__ as command
from experiments.relational import data as data_sets
from experiments.relational import run, settings, weights
from experiments.relational.data import Split, build_split, others
from experiments.relational.inference import last_round, layer_for
from experiments.relational.methods import CLASSICAL, METHODS, run_method
from experiments.relational.models import Targets
from experiments.relational.results import as_table
from experiments.relational.settings import Round
from experiments.relational.training import Context, average_precision
from experiments.relational.weights import learn_weights
from experiments.runs import Result, load_results, run_all
from logicmp import LogicMPError
from logicmp.execute.schedule import SCHEDULES
from logicmp.execute.worlds import world_tensors

PREDICATES = "parent(person, person)\nolder(person, person)\n"
RULES = """\
1.0 !parent(x, y) v older(x, y)

1.0 !older(x, +y) v !older(+y, z) v older(x, z)
1.0 !older(x, y) v !older(y, x)
"""


def line_of(n: int, name: str = "made/up") -> Split:
    """So many people, each the parent of the next; who is older than whom follows."""
    facts = "\n".join(f"parent(P{i}, P{i + 1})" for i in range(n - 1)) + "\n!older(P3, P1)\n"
    queries = "\n".join(f"{'' if i < j else '!'}older(P{i}, P{j})" for i in range(n) for j in range(n)
                        if i != j and (i, j) != (3, 1))
    return build_split(name, PREDICATES, RULES, facts, queries)


@pytest.fixture(scope="module")
def split() -> Split:
    return line_of(10)


def test_facts_are_observed_and_all_else_is_open(split: Split) -> None:
    assert split.world.values["parent"].sum() == 9 - (100 - 9)
    assert split.world.values["older"][3, 1] == 0
    assert (split.world.values["older"] == -1).sum() == 99
    assert split.closed().values["parent"].min() == 0
    assert not any(rule.per_constant for rule in split.theory.rules)


@pytest.mark.parametrize("method", [m for m in METHODS if "weights" not in m and m not in CLASSICAL])
def test_every_method_ranks_the_queries(split: Split, method: str) -> None:
    seen: list[tuple[str, int, int]] = []
    context = Context(settings={"steps": 20, "dim": 8, "scale": 0.5, "bias": -1.0},
                      progress=lambda *step: seen.append(step))
    scores = run_method(method, split, context)
    assert scores.shape == (89,)
    assert torch.isfinite(scores).all()
    assert 0 < average_precision(split, scores) <= 1
    assert method in ("logicmp", "logicmp+lessons") or seen[-1] == ("training", 20, 20)


def test_inference_alone_finds_who_is_older(split: Split) -> None:
    scores = run_method("logicmp", split, Context(settings={"scale": 1.0, "bias": -1.0, "iterations": 30}))
    # half of the queries are true
    assert average_precision(split, scores) > 0.8


def test_a_schedule_has_its_own_iterations_and_settings_may_be_ignored(
        split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = {"scale": 0.5, "bias": -1.0, "damping": 0.5, "iterations": 30}
    monkeypatch.setattr(run, "load_split", lambda name, data: split)
    monkeypatch.setattr(run, "load_settings", lambda name, method: chosen)
    words = ["run", "uw_cse/ai", "--method", "logicmp", "--results", str(tmp_path), "--schedule"]
    for schedule in ("paper", "adaptive"):
        for plain in ([], ["--plain"]):
            assert command.main([*words, schedule, *plain]) == 0
    stored = {r.variant: r for r in load_results(tmp_path)}
    assert set(stored) == {f"schedule={s}{plain}" for s in ("paper", "adaptive") for plain in ("", " plain")}
    assert stored["schedule=paper"].settings.items() >= chosen.items()
    assert stored["schedule=paper plain"].settings == {"max_seconds": 600, "schedule": "paper", "scale": None}
    unary, evidence = world_tensors(split.world, torch.float64)
    for variant, scale, bias in (("schedule=adaptive", 0.5, -1.0), ("schedule=adaptive plain", None, -1.5)):
        layer = layer_for(split.world, Context(settings={"scale": scale, "schedule": "adaptive"}), 30).double()
        assert layer.options.schedule == SCHEDULES["adaptive"]
        with torch.no_grad():
            odds = layer.run({name: x + bias for name, x in unary.items()}, evidence)
        assert stored[variant].get("auc_pr") == pytest.approx(average_precision(split, split.pick(odds)), abs=1e-4)
    capsys.readouterr()
    assert command.main(["run", "uw_cse/ai", "--method", "gs", "--schedule", "paper"]) == 1
    assert capsys.readouterr().err == ("error: --schedule does not apply to gs\n"
                                       "hint: methods: logicmp, logicmp+lessons, logicmp+weights\n")


def test_the_same_seed_gives_the_same_scores(split: Split) -> None:
    context = Context(seed=3, settings={"steps": 5, "dim": 8})
    one, two = (run_method("logicmp+gnn", split, context) for _ in range(2))
    assert torch.equal(one, two)


def twelve_steps(folder: Path, stop_at: int = 0, kept: str = "kept.pt") -> Context:
    """Interrupted at one of the steps."""
    def progress(what: str, done: int, total: int) -> None:
        if done == stop_at:
            raise KeyboardInterrupt

    return Context(settings={"steps": 12, "dim": 8}, progress=progress,
                   checkpoint=Checkpoint(folder / kept, every=0))


def test_a_run_that_was_stopped_goes_on_where_it_was(
        split: Split, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # sampling goes on with the same random numbers
    whole = run_method("gs", split, twelve_steps(tmp_path, kept="other.pt"))
    with pytest.raises(KeyboardInterrupt):
        run_method("gs", split, twelve_steps(tmp_path, stop_at=7))
    assert (tmp_path / "kept.pt").exists()
    resumed = twelve_steps(tmp_path)
    assert torch.equal(run_method("gs", split, resumed), whole)
    assert len(resumed.curve) == 13
    # the checkpoint is that of 12 steps
    fresh = replace(twelve_steps(tmp_path), settings={"steps": 11, "dim": 8}, curve=[])
    run_method("gs", split, fresh)
    assert len(fresh.curve) == 12
    assert "not {'steps': 11, 'dim': 8}: starting over" in capsys.readouterr().err


def test_an_interrupted_command_continues_and_gives_the_same(
        split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_at = 0

    def progress(what: str, done: int, total: int) -> None:
        if done == stop_at:
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "load_split", lambda name, data: split)
    monkeypatch.setattr(run, "load_settings", lambda name, method: {"steps": 12, "dim": 8})
    monkeypatch.setattr(run, "Checkpoint", lambda path: Checkpoint(path, every=0))
    monkeypatch.setattr(run, "shown_progress", lambda: nullcontext(progress))
    plan = Result("made", "up", "gs", settings={"max_seconds": 600.0})
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    run_all([plan], run.Runner(None, whole), whole)
    stop_at = 7
    with pytest.raises(KeyboardInterrupt):
        run_all([plan], run.Runner(None, stopped), stopped)
    assert load_results(stopped) == [] and (stopped / "unfinished/made-up-gs-0.pt").exists()
    seen = []
    monkeypatch.setattr(run, "shown_progress", lambda: nullcontext(lambda what, done, total: seen.append(done)))
    run_all([plan], run.Runner(None, stopped), stopped)
    assert seen[0] == 7 and not (stopped / "unfinished/made-up-gs-0.pt").exists()
    (one,), (other,) = load_results(whole), load_results(stopped)
    assert one.get("auc_pr") == other.get("auc_pr")
    assert [value for _, value in one.get("curve")] == [value for _, value in other.get("curve")]


def test_targets_are_the_unobserved_atoms_of_the_last_round(split: Split) -> None:
    context = Context(settings={"iterations": 2, "bias": -1.0, "lessons": 2, "scale": 3.0})
    layer, start, evidence = last_round(split, context)
    with torch.no_grad():
        target = layer.run(start, evidence)
    assert torch.equal(split.pick(target), run_method("logicmp+lessons", split, context))
    for top in (0.0, 0.5):
        targets = Targets(target, evidence, top=top)
        assert targets.distance(target) == pytest.approx(0, abs=1e-9)
        for name, x in target.items():
            is_open = torch.from_numpy(split.world.values[name] == -1)
            # of one predicate nothing but the mean, and facts as the rules would not have them
            dull = {**target, name: x[is_open].mean().expand_as(x)}
            assert targets.distance(dull).item() == pytest.approx(1 / len(target), rel=1e-4)
            assert targets.distance({**target, name: x.where(is_open, 1e3)}) == pytest.approx(0, abs=1e-9)


def test_the_top_has_its_share_of_the_weight() -> None:
    target = {"p": torch.tensor([-30.0, -30.0, -20.0, -1.0, 0.0, 50.0])}
    evidence = {"p": torch.tensor([torch.nan] * 5 + [1.0])}
    missed = [Targets(target, evidence, top=top).distance({"p": target["p"] + torch.eye(6)[4]}) for top in (0.0, 0.5)]
    # a tenth of the weight, or a tenth and about a third, of the mean square around the mean
    weights = [np.full(5, 0.2), 0.1 + 0.5 * np.exp(target["p"][:5].numpy()) / (1 + np.exp(-1))]
    x = target["p"][:5].numpy()
    expected = [w[4] / (w * (x - x.mean()) ** 2).sum() for w in weights]
    np.testing.assert_allclose(missed, expected, rtol=1e-4)


@pytest.mark.parametrize(("method", "extra"), [
    ("logicmp+embedding", {}), ("logicmp+gnn", {}), ("logicmp+embedding", {"queried": True}),
    ("logicmp+gnn", {"queried": True, "added": True})])
def test_a_model_learns_the_order_of_its_teacher(split: Split, method: str, extra: dict[str, bool]) -> None:
    chosen = {"iterations": 5, "scale": 1.0, "bias": -1.0, "lessons": 3, "damping": 0.5, "moved": False, "top": 0.5}
    teacher = run_method("logicmp+lessons", split, Context(settings=chosen))
    context = Context(settings={**chosen, **extra, "steps": 150, "dim": 32, "rate": 0.02})
    scores = run_method(method, split, context)
    assert np.corrcoef(scores, teacher)[0, 1] > 0.98
    assert average_precision(split, scores) == pytest.approx(average_precision(split, teacher), abs=0.03)


def test_lessons_without_a_network_go_on_from_their_own_output(split: Split) -> None:
    settings = {"iterations": 2, "bias": -1.0, "damping": 0.0}
    unary, evidence = world_tensors(split.world, torch.float64)
    layer = layer_for(split.world, Context(settings=settings), 2).double()
    with torch.no_grad():
        once = layer.run({name: x - 1.0 for name, x in unary.items()}, evidence)
        twice = layer.run(once, evidence)
    found = run_method("logicmp+lessons", split, Context(settings={**settings, "lessons": 2}))
    assert torch.equal(found, split.pick(twice))
    assert not torch.equal(found, split.pick(once))


def test_a_single_atom_that_the_facts_moved_does_not_outweigh_all_others() -> None:
    # of 81 pairs one is moved, 9 spreads away from the mean
    facts = "parent(P1, P2)\n" + "\n".join(f"!parent(P{i}, P{i})" for i in range(9))
    split = build_split("made/up", PREDICATES, "1.0 !parent(x, y) v older(x, y)\n", facts, "older(P1, P2)")
    layer, start, evidence = last_round(split, Context(settings={"iterations": 2}))
    with torch.no_grad():
        target = layer.run(start, evidence)
        targets = Targets(target, evidence, layer.run(start))
    dull = {**target, "older": target["older"].mean().expand(9, 9)}
    assert targets.distance(target) == pytest.approx(0, abs=1e-9)
    assert targets.distance(dull).item() == pytest.approx(1 / 2, rel=1e-4)


def opposites(n: int, name: str = "made/up") -> Split:
    """One rule says the opposite of the other: which of them is right only the labels tell."""
    rules = "1.0 !parent(x, y) v older(x, y)\n1.0 !parent(x, y) v older(y, x)\n"
    facts = "\n".join(f"parent(P{i}, P{i + 1})" for i in range(n))
    queries = "\n".join(f"older(P{i}, P{i + 1})\n!older(P{i + 1}, P{i})" for i in range(n))
    return build_split(name, PREDICATES, rules, facts, queries)


@pytest.mark.parametrize("schedule", ["", "adaptive"])
def test_weights_learned_on_one_split_serve_another(schedule: str) -> None:
    context = Context(settings={"steps": 40, "schedule": schedule})
    test = opposites(9)
    assert average_precision(test, run_method("logicmp", test, context).round(decimals=3)) == 0.5
    layer = learn_weights([opposites(5), opposites(7)], test, context)
    assert layer.options.schedule.iterations == (SCHEDULES["adaptive"].iterations if schedule else 5)
    assert average_precision(test, layer.scores()) == 1.0


@pytest.mark.parametrize("method", ["weights+embedding", "weights+gnn"])
def test_a_model_learns_from_weights_of_the_other_splits(
        method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {f"made/{name}": opposites(n, f"made/{name}") for name, n in (("a", 9), ("b", 5), ("c", 7))}
    monkeypatch.setitem(data_sets.SPLITS, "made", ("a", "b", "c"))
    seen = []
    monkeypatch.setattr(weights, "load_split", lambda name, data: seen.append(name) or made[name])
    chosen = {"steps": 60, "dim": 16, "rate": 0.02, "moved": False, "teacher": {"steps": 40}}
    steps: list[int] = []
    for seed in range(2):
        context = Context(seed, settings=chosen, progress=lambda what, done, total: steps.append(total),
                          checkpoint=Checkpoint(tmp_path / f"{seed}.pt"))
        assert average_precision(made["made/a"], run_method(method, made["made/a"], context)) == 1.0
    # the second seed has the weights of the first
    assert (steps.count(40), steps.count(60)) == (40, 120)
    assert (tmp_path / "made-a-teacher.pt").exists() and "made/a" not in seen


def test_settings_come_from_the_other_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"made/a": line_of(5, "made/a"), "made/b": line_of(7, "made/b"), "made/c": line_of(9, "made/c")}
    tried: dict[tuple[str, float], float] = {}

    def run(method: str, split: Split, context: Context) -> torch.Tensor:
        scores = run_method(method, split, context)
        tried[split.name, context.settings["scale"]] = average_precision(split, scores)
        return scores

    monkeypatch.setitem(data_sets.SPLITS, "made", ("a", "b", "c"))
    monkeypatch.setattr(settings, "load_split", lambda name, data: made[name])
    monkeypatch.setattr(settings, "run_method", run)
    monkeypatch.setattr(settings, "GRIDS", {"logicmp": (Round("logicmp", {"scale": (-1.0, 0.1, 1.0)}),)})
    chosen = settings.choose("made", "logicmp", Context())
    for name in made:
        best = max((-1.0, 0.1, 1.0), key=lambda scale: sum(tried[other, scale] for other in others(name)))
        assert chosen[name]["settings"]["scale"] == best


def test_a_round_goes_on_from_the_best_of_the_one_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = {name: line_of(4, name) for name in ("made/a", "made/b")}
    seen = []

    def run(method: str, split: Split, context: Context) -> torch.Tensor:
        tried = context.settings
        seen.append((method, split.name, tried["scale"], tried["bias"], tried["damping"]))
        good = tried["scale"] == 2.0 and tried["bias"] == -1.0
        truth = torch.from_numpy(split.truth).double()
        return truth if good else -truth

    monkeypatch.setitem(data_sets.SPLITS, "made", ("a", "b"))
    monkeypatch.setattr(settings, "load_split", lambda name, data: made[name])
    monkeypatch.setattr(settings, "run_method", run)
    rounds = (Round("logicmp", {"scale": (1.0, 2.0), "bias": (0.0, -1.0)}), Round("gs", {"damping": (0.5, 0.1)}))
    monkeypatch.setattr(settings, "GRIDS", {"gs": rounds})
    monkeypatch.setattr(settings, "FIXED", {})
    chosen = settings.choose("made", "gs", Context())
    assert chosen["made/a"] == {"settings": {"steps": 60, "scale": 2.0, "bias": -1.0, "damping": 0.5},
                                "auc_pr_of_others": 1.0}
    # four combinations with one method, two values of damping with the other, each once
    assert len(seen) == len(set(seen)) == 2 * 6
    assert ("gs", "made/a", 2.0, -1.0, 0.1) in seen
    # the second round alone goes on from what was stored
    monkeypatch.setattr(settings, "CHOSEN", tmp_path / "settings.json")
    settings.store("gs", chosen)
    seen.clear()
    assert settings.choose("made", "gs", Context(), from_round=2) == chosen
    assert {method for method, *_ in seen} == {"gs"} and len(seen) == 4


def test_a_choice_may_look_at_the_smallest_splits_only(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"made/a": line_of(9, "made/a"), "made/b": line_of(5, "made/b"), "made/c": line_of(7, "made/c")}
    seen = []

    def run(method: str, split: Split, context: Context) -> torch.Tensor:
        seen.append(split.name)
        return run_method(method, split, context)

    monkeypatch.setitem(data_sets.SPLITS, "made", ("a", "b", "c"))
    monkeypatch.setattr(settings, "load_split", lambda name, data: made[name])
    monkeypatch.setattr(settings, "run_method", run)
    monkeypatch.setattr(settings, "GRIDS", {"logicmp": (Round("logicmp", {"scale": (1.0,)}),)})
    settings.choose("made", "logicmp", Context(), look_at=1)
    # b for a and c, c for b
    assert seen == ["made/b", "made/c"]


def test_a_choice_may_take_the_mean_of_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {name: line_of(4, name) for name in ("made/a", "made/b")}
    seen = []

    def run(method: str, split: Split, context: Context) -> torch.Tensor:
        seen.append((split.name, context.seed))
        truth = torch.from_numpy(split.truth).double()
        # one of two seeds goes astray, unless there are three networks
        return truth if context.seed == 0 or context.settings["networks"] == 3 else -truth

    monkeypatch.setitem(data_sets.SPLITS, "made", ("a", "b"))
    monkeypatch.setattr(settings, "load_split", lambda name, data: made[name])
    monkeypatch.setattr(settings, "run_method", run)
    monkeypatch.setattr(settings, "GRIDS", {"gs": (Round("gs", {"networks": (1, 3)}),)})
    assert settings.choose("made", "gs", Context())["made/a"]["settings"]["networks"] == 1
    assert settings.choose("made", "gs", Context(), seeds=2)["made/a"]["settings"]["networks"] == 3
    assert seen[-4:] == [("made/b", 0), ("made/b", 1), ("made/a", 0), ("made/a", 1)]


def test_a_round_by_loss_looks_at_no_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {name: line_of(n, name) for name, n in (("made/a", 4), ("made/b", 6))}
    blind = {name: replace(split, queries={p: replace(q, truth=np.zeros_like(q.truth))
                                           for p, q in split.queries.items()}) for name, split in made.items()}
    rates = (1e-4, 3e-2)
    losses: dict[tuple[str, float], float] = {}

    def run(method: str, split: Split, context: Context) -> torch.Tensor:
        scores = run_method(method, split, context)
        losses[split.name, context.settings["rate"]] = context.loss
        return scores

    monkeypatch.setitem(data_sets.SPLITS, "made", ("a", "b"))
    monkeypatch.setattr(settings, "run_method", run)
    monkeypatch.setattr(settings, "GRIDS", {"logicmp+gnn": (Round("logicmp+gnn", {"rate": rates}, is_by_loss=True),)})
    monkeypatch.setattr(settings, "FIXED", {"logicmp+gnn": {"steps": 20, "dim": 8}})
    found = []
    for splits in (made, blind):
        monkeypatch.setattr(settings, "load_split", lambda name, data, splits=splits: splits[name])
        with warnings.catch_warnings():
            # average precision without a single true query
            warnings.simplefilter("ignore")
            found.append(settings.choose("made", "logicmp+gnn", Context()))
    assert found[0] == found[1]
    for name in made:
        assert losses[name, 3e-2] < losses[name, 1e-4]
        assert found[0][name]["settings"]["rate"] == 3e-2


def test_learning_for_a_choice_leaves_the_split_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(weights, "load_split", lambda name, data: seen.append(name))
    monkeypatch.setattr(weights, "learn_weights", lambda train, split, context: None)
    weights.learn_from_others(line_of(4, "uw_cse/ai"), Context(without="uw_cse/theory"))
    assert seen == ["uw_cse/graphics", "uw_cse/language", "uw_cse/systems"]


def test_no_split_is_among_those_that_choose_for_it() -> None:
    assert others("uw_cse/ai") == ["uw_cse/graphics", "uw_cse/language", "uw_cse/systems", "uw_cse/theory"]


def test_a_changed_file_is_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "relational/kinship/S1"
    folder.mkdir(parents=True)
    for file in data_sets.PARTS:
        (folder / file).write_text("P(t)")
    with pytest.raises(LogicMPError, match="is not the file the results were made with"):
        data_sets.load_split("kinship/S1", tmp_path)


def test_a_missing_data_set_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOGICMP_DATA", raising=False)
    with pytest.raises(LogicMPError, match="set --data or LOGICMP_DATA\nhint: the files are public"):
        data_sets.load_split("kinship/S1")


def test_the_table_has_the_mean_over_seeds_and_the_papers_rows() -> None:
    results = [Result("uw_cse", split, "logicmp+gnn", seed, values={"auc_pr": 0.2 + seed / 10}, seconds=30.0 * seed)
               for split in data_sets.SPLITS["uw_cse"] for seed in range(2)]
    results.append(Result("uw_cse", "ai", "bp", status="> cap", values={"auc_pr": 0.3}, seconds=610.0,
                          settings={"max_seconds": 600.0}))
    results.append(Result("uw_cse", "ai", "gibbs", status="too large"))
    assert "Schedules" not in as_table(results)
    results += [Result("uw_cse", split, "logicmp", variant=variant, values={"auc_pr": auc_pr})
                for split in data_sets.SPLITS["uw_cse"]
                for variant, auc_pr in (("schedule=cold", 0.4), ("schedule=paper plain", 0.3))]
    table = as_table(results)
    assert "| logicmp | cold | chosen |  | 0.40 |  |" in table
    assert "| logicmp | paper | none |  | 0.30 |  |" in table
    assert "| logicmp+gnn | 0.25 ±0.07 | 0.25 ±0.07 | 0.25 ±0.07 | 0.25 ±0.07 | 0.25 ±0.07 |" in table
    assert "| logicmp+gnn |  | 0.25 |  | 2 | 30 |" in table
    assert "| logicmp+gnn |  |  | 15 | 30 |  |  |" in table
    assert "| paper: ExpressGNN w/ LogicMP | 0.99 | 0.30 | 0.82 |  |  |" in table
    assert "| bp | 0.30† |  |  |  |  |" in table
    assert "| bp |  |  | 610 | 610 |  |  |" in table
    assert "| paper: ExpressGNN w/ LogicMP | 0.26 | 0.30 | 0.42 | 0.25 | 0.28 |" in table
    assert "| logicmp+gnn | 0.25 | 0.25 | 0.25 | 0.25 | 0.25 |" in table
    assert "| bp | > 10 |  |  |  |  |" in table
    assert "| gibbs | too large |  |  |  |  |" in table


def test_one_real_split_from_the_command_to_the_table(
        data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "kinship/S1", "--method", "logicmp", "--data", str(data), "--results", str(tmp_path)]
    assert command.main(words) == 0
    (result,) = load_results(tmp_path)
    assert result.get("auc_pr") > 0.9
    (entry,) = json.loads((tmp_path / "kinship.json").read_text())
    assert (entry["dataset"], entry["split"]) == ("kinship", "S1")
    assert command.main(words) == 0
    assert "already stored" in capsys.readouterr().err
    assert command.main(["table", "--results", str(tmp_path)]) == 0
    assert "| logicmp | " in capsys.readouterr().out


def test_several_runs_each_have_their_process(data: Path, tmp_path: Path) -> None:
    words = ["run", "smoke/all", "--method", "gibbs", "--seeds", "2", "--data", str(data), "--results", str(tmp_path)]
    assert command.main(words) == 0
    assert [r.seed for r in load_results(tmp_path)] == [0, 1]
    assert all(r.get("auc_pr") > 0.5 and r.memory > 50 for r in load_results(tmp_path))


def test_an_unknown_split_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["run", "kinship/S9", "--method", "logicmp", "--data", "."]) == 1
    assert "unknown split 'kinship/S9'" in capsys.readouterr().err


def test_a_classical_method_that_would_be_far_over_its_limit_is_given_up(tmp_path: Path,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    made = line_of(6, "uw_cse/ai")
    monkeypatch.setattr(run, "load_split", lambda name, data: made)
    work = run.Runner(None, tmp_path, give_up=0.0)
    # where there is time for all of its iterations it goes on
    run_all([Result("uw_cse", "ai", "gibbs", settings={"max_seconds": 600.0})], work, tmp_path)
    (stored,) = load_results(tmp_path)
    assert stored.status == "done" and stored.get("auc_pr") is not None
    # a million samples take longer than that on every machine
    run_all([Result("uw_cse", "ai", "gibbs", settings={"max_seconds": 0.2, "samples": 1_000_000})], work, tmp_path,
            again=True)
    (stored,) = load_results(tmp_path)
    assert (stored.status, stored.get("auc_pr")) == ("> cap", None)
    assert stored.get("expected") >= 0.4
    # the pace is shown of a run that did not have its whole time
    assert "| gibbs | > 0 |" in as_table([replace(stored, seconds=1.0)])
    assert "| gibbs | > 0 (≈ " in as_table([replace(stored, seconds=0.0)])
    # there is no pace of a run that ended while grounding
    run_all([Result("uw_cse", "ai", "gibbs", settings={"max_seconds": 0.0})], work, tmp_path, again=True)
    (stored,) = load_results(tmp_path)
    assert (stored.status, stored.get("expected")) == ("> cap", None)
