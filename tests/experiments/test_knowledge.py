"""The experiment on knowledge graphs, on a small generated graph."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.knowledge import data, methods, rules
from experiments.knowledge.__main__ import main
from experiments.knowledge.data import Graph, build_graph
from experiments.knowledge.embedding import ComplEx, EmbeddingSettings, _Queries, _SharedSoftmax, train_embedding
from experiments.knowledge.methods import Experiment
from experiments.knowledge.ranking import AtomScores, filtered_ranks, summarize
from experiments.knowledge.results import as_table
from experiments.knowledge.rules import Listed, RuleSettings, build_rules, facts_of, infer_atoms, learn_rules
from experiments.runs import load_results, run_all
from logicmp import LogicMPError
from logicmp.facts import supports

RULES = """
parent(entity, entity)
grand(entity, entity)
near(entity, entity)
parent(x, y) ^ parent(y, z) => grand(x, z)
near(x, y) => near(y, x)
near(x, h) ^ near(h, y) => near(x, y)
"""


def graph(n: int = 40) -> Graph:
    """A tree with parents and grandparents, and neighbours on a ring; a fifth of each goes to validation and test."""
    rng = random.Random(0)
    facts = [f"parent(E{k // 2}, E{k})" for k in range(2, n)]
    facts += [f"grand(E{k // 4}, E{k})" for k in range(4, n)]
    facts += [f"near(E{k}, E{(k + step) % n})" for k in range(n) for step in (1, 2, n - 1, n - 2)]
    rng.shuffle(facts)
    tenth = len(facts) // 10
    return build_graph("ring", RULES, {"valid": "\n".join(facts[:tenth]), "test": "\n".join(facts[tenth : 2 * tenth]),
                                       "train": "\n".join(facts[2 * tenth :])})


@pytest.fixture(autouse=True)
def _lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of atoms also for a small graph."""
    from logicmp.ground import reach
    from logicmp.inference.mean_field import MeanField
    from logicmp.learning import databases

    monkeypatch.setattr(databases, "DENSE_ATOMS", 100)
    monkeypatch.setattr(MeanField, "dense_atoms", 100)
    monkeypatch.setattr(reach.reach, "__defaults__", (*reach.reach.__defaults__[:-1], 100))
    monkeypatch.setattr(supports, "DENSE_ATOMS", 100)


def test_triples_are_numbers_of_one_set_of_entities() -> None:
    found = graph()
    assert found.relations == ["parent", "grand", "near"]
    assert found.n_entities == 40
    assert {part: len(x) for part, x in found.triples.items()} == {"train": 188, "valid": 23, "test": 23}
    names = found.theory.types[0].constants
    shown = {f"{found.relations[r]}({names[h]}, {names[t]})" for h, r, t in found.triples["test"].tolist()}
    assert len(shown) == 23


def test_a_fact_is_no_premise_of_itself() -> None:
    shown = [str(rule.formula) for rule in build_rules(graph()).theory.rules]
    assert shown[:3] == ["known_parent(x, y) ^ known_parent(y, z) => grand(x, z)",
                         "known_near(x, y) ^ x != y => near(y, x)",
                         "known_near(x, h) ^ known_near(h, y) ^ h != y ^ h != x => near(x, y)"]
    assert shown[3:] == ["grand(x, y)", "near(x, y)"]


def test_rules_with_many_rows_are_skipped_by_name() -> None:
    found = build_rules(graph(), max_rows=200)
    assert [line.partition(" (")[0] for line in found.skipped] == ["skipped: near(x, h) ^ near(h, y) => near(x, y)"]
    assert found.relations == ["grand", "near"]


def test_weights_and_log_odds_equal_those_counted_one_by_one() -> None:
    found = graph()
    built = build_rules(found)
    weights = learn_rules(found, built, RuleSettings())
    listed = infer_atoms(found, built, weights)
    names = {name: k for k, name in enumerate(found.relations)}
    facts = {(int(h), int(r), int(t)) for h, r, t in found.triples["train"]}
    near, n = names["near"], found.n_entities
    atoms = listed[near]
    assert len(atoms.heads) < n * n
    for h, t, odds in zip(atoms.heads.tolist(), atoms.tails.tolist(), atoms.log_odds.tolist(), strict=True):
        back = (t, near, h) in facts and h != t
        paths = sum((h, near, m) in facts and (m, near, t) in facts and m not in (h, t) for m in range(n))
        assert odds == pytest.approx(weights[1] * back + weights[2] * paths + weights[4], abs=1e-4)
    # where the loss is smallest, expected and observed counts differ by what the prior takes
    p = 1 / (1 + np.exp(-atoms.log_odds.astype(float)))
    truth = np.array([(h, near, t) in facts for h, t in zip(atoms.heads.tolist(), atoms.tails.tolist(), strict=True)])
    # facts that no rule reaches are predicted too: their log-odds are the base rate alone
    n_other = sum(r == near for _, r, _ in facts) - truth.sum()
    rest = n_other * (1 - 1 / (1 + np.exp(-weights[4])))
    assert (truth - p).sum() + rest == pytest.approx(weights[4], abs=0.2)


def test_ranks_leave_out_other_answers_and_share_ties() -> None:
    found = graph()
    triples = found.triples["test"]
    flat = filtered_ranks(found, triples, lambda h, r: torch.zeros(len(h), found.n_entities))
    for k, (h, r, t) in enumerate(triples.tolist()):
        known = {int(b) for a, s, b in found.known.tolist() if (a, s) == (h, r)} - {t}
        assert flat[k] == 1 + (found.n_entities - len(known) - 1) / 2
    listed = {}
    for k in set(triples[:, 1].tolist()):
        heads, tails = zip(*sorted((h, t) for h, r, t in triples.tolist() if r == k), strict=True)
        listed[k] = Listed(np.array(heads), np.array(tails), np.ones(len(heads), dtype=np.float32))
    best = filtered_ranks(found, triples, AtomScores(found, listed, 0.0))
    assert summarize(best) == {"mrr": 1.0, "hits_1": 1.0, "hits_3": 1.0, "hits_10": 1.0}


def test_the_shared_softmax_is_that_of_single_triples() -> None:
    found = graph()
    queries = _Queries(found)
    heads, relations, rows, answers, counts = queries.batch(np.arange(len(queries)))
    assert int(counts.sum()) == len(rows) == 2 * len(found.triples["train"])
    torch.manual_seed(0)
    model = ComplEx(found.n_entities, 3, 4).double()
    vectors = model.queries(heads, relations)
    got = _SharedSoftmax.apply(vectors, model.entities, counts.double(), rows, answers, torch.float64)
    scores = (vectors @ model.entities.mT)[rows]
    want = torch.nn.functional.cross_entropy(scores, answers, reduction="sum")
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    slopes = [torch.autograd.grad(x, model.entities, retain_graph=True)[0] for x in (got, want)]
    torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-4)


def test_all_rows_run_and_are_stored(tmp_path: Path) -> None:
    experiment = Experiment(None, tmp_path, EmbeddingSettings(rank=8, epochs=30, batch=50, precision="float32"),
                            RuleSettings(), n_chosen_on=20, given=graph())
    run_all([experiment.plan(method) for method in methods.METHODS], experiment, tmp_path)
    found = {r.method: r.values for r in load_results(tmp_path)}
    assert found["rules"]["mrr"] > 0.3
    assert found["complex"]["mrr"] > 0.1
    assert found["complex+rules"]["gain"] == pytest.approx(
        found["complex+rules"]["mrr"] - found["complex"]["mrr"], abs=2e-4)
    shown = as_table(load_results(tmp_path))
    assert "| ComplEx, rules on top |" in shown
    assert "| seed | strength | log floor | gain in MRR | standard error |" in shown
    # a second run has everything stored, and the model and the rules of an interrupted one are read
    again = Experiment(None, tmp_path, experiment.embedding, RuleSettings(), n_chosen_on=20, given=graph())
    assert again(again.plan("complex+rules"))[0].values == found["complex+rules"]


def test_training_is_resumed(tmp_path: Path) -> None:
    from experiments.checkpoint import Checkpoint

    found, settings = graph(), EmbeddingSettings(rank=4, epochs=2, batch=50, precision="float32")
    once = train_embedding(found, settings, 1)
    train_embedding(found, EmbeddingSettings(rank=4, epochs=1, batch=50, precision="float32"), 1,
                    checkpoint=Checkpoint(tmp_path / "model", every=0.0))
    twice = train_embedding(found, settings, 1, checkpoint=Checkpoint(tmp_path / "model", every=0.0))
    assert torch.equal(once.entities, twice.entities)


def test_errors_name_the_data_and_the_rule(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                                           tmp_path: Path) -> None:
    monkeypatch.delenv("LOGICMP_DATA", raising=False)
    assert main(["run", "--method", "rules", "--results", str(tmp_path)]) == 1
    assert "FB15k-237 not found: set --data or LOGICMP_DATA" in capsys.readouterr().err
    assert main(["run", "--method", "rules", "--results", str(tmp_path), "--data", str(tmp_path)]) == 1
    assert "cannot read" in capsys.readouterr().err
    with pytest.raises(LogicMPError, match="is not a rule of this experiment"):
        rules._split(graph().theory.rules[0].formula.premise)
    assert set(data.FILES.checksums) == {"rules.mln", "train.db", "valid.db", "test.db"}
    assert set(facts_of(graph(), build_rules(graph()), with_conclusions=False).tables) == {"known_parent", "known_near"}
