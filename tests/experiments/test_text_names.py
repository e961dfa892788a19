"""Rules over the names of a document and over lexicons, on documents that are made up."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from generated_text import make_corpora, make_vectors

from experiments.text import held_out, rules
from experiments.text.data import LABELS, Corpus, Document, Sentence
from experiments.text.encode import INLEX, USED, USES, Batch, Gazetteer, Item, Vocabulary, encode
from experiments.text.heads import Head, NamesHead
from experiments.text.held_out import held_out_logits, learn_weights, without
from experiments.text.methods import METHODS, Context, learn_rules, load_settings, train_method
from experiments.text.moved import as_text, find_moved, rule_amounts, shorten
from experiments.text.names import LINKS, find_links, whole_document
from experiments.text.rules import count_invalid, load_rules, store_weights
from experiments.text.show import explain, to_corpus
from experiments.text.train import Budget, Data, build_data, predict
from logicmp import LogicMP, LogicMPError

SMALL = Context(None, Budget(epochs=4, rate=1e-2, n_tokens=60), Budget(epochs=1, rate=5e-3, n_tokens=60), hidden=24)
COMMON = frozenset({"but", "wins", "again", "the"})


def document(*lines: str) -> Document:
    """Words with tags, `Simmons/S-PER`; O if there is none."""
    parts = [[(*word.split("/"), "O")[:2] for word in line.split()] for line in lines]
    return Document(tuple(Sentence(tuple(w for w, _ in line), tuple(t for _, t in line)) for line in parts))


def encoded(*documents: Document, train: Corpus = ()) -> list[Item]:
    vocabulary = Vocabulary.build(documents, (), {"a": np.zeros(2, dtype=np.float32)})
    return encode(documents, vocabulary, Gazetteer(train), partial(whole_document, common=COMMON))


def linked(*lines: str) -> dict[str, list[str]]:
    """The linked words with their places, as text, without kinds that have none."""
    found = document(*lines)

    def name(n) -> str:
        return f"{found.sentences[n.sentence].words[n.start]}@{n.sentence}"

    return {kind: [f"{name(a)} {name(b)}" for a, b in pairs] for kind, pairs in find_links(found, COMMON).items()
            if pairs}


@pytest.mark.parametrize("lines, expected", [
    # both orders
    (("Simmons won", "Simmons lost"), {"whole": ["Simmons@1 Simmons@0", "Simmons@0 Simmons@1"]}),
    # the nearest mention before
    (("Croft won", "Croft lost", "Croft left"), {"whole": ["Croft@1 Croft@0", "Croft@0 Croft@1", "Croft@2 Croft@1",
                                                           "Croft@1 Croft@2"]}),
    (("Phil Simmons won", "But Simmons lost"), {"last": ["Simmons@1 Simmons@0"]}),
    (("China Daily said", "China won"), {"part": ["China@1 China@0"]}),
    (("SIMMONS WINS AGAIN", "Simmons won"), {"headline": ["SIMMONS@0 Simmons@1"]}),
    # a common word, a single capital, another spelling
    (("The man", "The end", "A B c", "A d", "McKay won", "Mckay lost"), {}),
])
def test_mentions_are_linked_by_kind(lines: tuple[str, ...], expected: dict[str, list[str]]) -> None:
    assert linked(*lines) == expected


def test_a_lexicon_entry_counts_only_if_another_document_has_it() -> None:
    train = (document("Simmons/S-PER won"), document("Simmons/S-PER lost in China/S-LOC"), document("China/S-ORG won"))
    gazetteer = Gazetteer(train)
    words = ("Simmons", "China", "Croft", "won")
    named = {None: "", **dict(enumerate(USES))}
    assert [named[n] for n in gazetteer.uses(words)] == ["Always-PER", "", "", ""]
    assert [named[n] for n in gazetteer.uses(words, 1)] == ["Once-PER", "Once-ORG", "", ""]
    items = encode(train, Vocabulary.build(train, (), {"a": np.zeros(2, dtype=np.float32)}), gazetteer,
                   partial(whole_document, common=COMMON), is_train=True)
    batch = Batch.of(items)
    # (framed place, entry): Simmons in both documents; China as ORG in the second, as LOC in the third
    assert sorted(zip(*batch.facts[INLEX].tolist(), strict=True)) == [(1, 15), (4, 15), (7, 11), (9, 3)]
    assert [USES[n] for n in batch.facts[USED][1].tolist()] == ["Once-PER", "Once-PER", "Once-ORG", "Once-LOC"]


def test_facts_of_a_batch_are_those_of_its_documents() -> None:
    items = encoded(document("Simmons won", "Simmons lost"), document("Croft", "Phil Croft won", "Croft lost"))
    batch = Batch.of(items)
    forms = torch.full((batch.framed_length,), -1).index_copy(0, batch.framed, batch.forms)
    for kind in LINKS:
        first, second = batch.facts[kind]
        assert len(first) == sum(item.facts[kind].shape[1] for item in items)
        assert torch.equal(forms[first], forms[second])


@pytest.mark.parametrize("name", ["adj+doc", "adj+doc+lex"])
def test_sparse_evidence_gives_what_dense_evidence_gives(name: str) -> None:
    train = (document("Phil/B-PER Simmons/E-PER won"), document("Simmons/S-PER China/S-LOC"))
    batch = Batch.of(encoded(document("SIMMONS WINS AGAIN", "Phil Simmons in China", "Simmons of China", "Simmons"),
                             train=train))
    # a few rules of every kind: dense tensors of all of them take long
    theory = load_rules(name)
    kept = [k for k, rule in enumerate(theory.rules) if k % 12 == 0 or "<=>" in str(rule)]
    theory = replace(theory, rules=tuple(replace(theory.rules[k], weight=0.1 * (k % 7) - 0.2) for k in kept))
    layer = LogicMP(theory, 3, damping=0.0, schedule="paper")
    n, logits = batch.framed_length, torch.randn(batch.framed_length, len(LABELS))
    sparse = {p.name: batch.facts[p.name] for p in theory.predicates if p.closed_world}
    dense = {}
    for what, (first, second) in sparse.items():
        dense[what] = torch.zeros(n, {INLEX: 16, USED: len(USES)}.get(what, n), dtype=torch.bool)
        dense[what][first, second] = True
    torch.testing.assert_close(layer(logits, sparse), layer(logits, dense))


def doubtful(n: int = 12) -> tuple[list[Item], list[torch.Tensor]]:
    """Documents in which the tagger is sure of one mention of a person or place, and in doubt about the other one."""
    categories = ["PER", "LOC"] * (n // 2)
    items = encoded(*(document(f"Mr Kalo/S-{c} won", f"Kalo/S-{c} lost") for c in categories))
    logits = []
    for category in categories:
        found = torch.zeros(5, len(LABELS))
        found[:, 0] = 6.0
        found[1, [LABELS.index(f"S-{category}"), 0]] = torch.tensor([8.0, 0.0])
        # the wrong category is slightly ahead
        other = "LOC" if category == "PER" else "PER"
        found[3, [LABELS.index(f"S-{category}"), LABELS.index(f"S-{other}"), 0]] = torch.tensor([3.0, 3.3, 0.0])
        logits.append(found)
    return items, logits


def test_a_mention_in_doubt_follows_a_sure_one() -> None:
    items, logits = doubtful()
    head = NamesHead("adj+doc", iterations=3, damping=0.0)
    weights = learn_weights(head, items, logits, steps=24)
    assert len(weights) == len(load_rules("adj+doc").rules) and max(map(abs, weights)) > 0.1
    batch = Batch.of(items)
    given = torch.cat(logits)
    # 12 of the 24 mentions are wrong without rules
    assert int((given.argmax(1) != batch.labels).sum()) == 12
    assert torch.equal(head.labels(given, batch), batch.labels)
    # no rule mentions this name: it stays as it is
    alone = encoded(document("Kalo/S-PER lost"))
    assert torch.equal(head.corrected(logits[0][3:], Batch.of(alone)), logits[0][3:])


def test_amounts_of_rules_add_up_to_the_log_odds() -> None:
    items, logits = doubtful(2)
    head = NamesHead("adj+doc", weights=[0.01 * (k % 9) for k in range(len(load_rules("adj+doc").rules))],
                     iterations=60, damping=0.5)
    batch = Batch.of(items[:1])
    before = logits[0].argmax(1)
    after = before.clone()
    after[3] = batch.labels[3]
    found = head.corrected(logits[0], batch)
    expected = (found[3, after[3]] - found[3, before[3]]) - (logits[0][3, after[3]] - logits[0][3, before[3]])
    # at the fixed point the output is the input plus the amounts
    total = float(rule_amounts(head, logits[0], batch, before, after).sum())
    assert total == pytest.approx(float(expected.detach()), abs=1e-3)


def test_learned_weights_are_written_into_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (rules.FOLDER / "names.mln").read_text()
    (tmp_path / "names.mln").write_text(text)
    monkeypatch.setattr(rules, "FOLDER", tmp_path)
    load_rules.cache_clear()
    formulas = [str(rule.formula) for rule in load_rules("adj+doc").rules]
    store_weights("adj+doc", [k / 8 for k in range(len(formulas))])
    found = load_rules("adj+doc").rules
    assert [str(rule.formula) for rule in found] == formulas
    assert [rule.weight for rule in found] == [k / 8 for k in range(len(formulas))]
    assert (tmp_path / "names.mln").read_text().count("\n") == text.count("\n")
    load_rules.cache_clear()


# training


@pytest.fixture(scope="module")
def text() -> Data:
    corpora = make_corpora()
    return build_data(corpora, make_vectors(corpora))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Context:
    """Small; weights of rules are learned from the documents of the seed."""
    return replace(SMALL, work=tmp_path_factory.mktemp("work"), draws=True)


def test_held_out_documents_are_not_trained_on(text: Data, drawn: Context) -> None:
    left = without(text.train, range(0, 50, 2))
    assert [d.sentences for d in left.corpus] == [d.sentences for d in text.train.corpus[1::2]]
    assert sum(len(item.forms) for item in left.items) == sum(len(item.forms) for item in left.documents)
    logits = held_out_logits(text, 0, drawn)
    assert [len(x) for x in logits] == [len(item.forms) for item in text.train.documents]
    # kept
    assert all(torch.equal(a, b) for a, b in zip(logits, held_out_logits(text, 0, drawn), strict=True))


def test_taggers_of_other_folds_are_not_taken_for_these(text: Data, drawn: Context, tmp_path: Path,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    context = replace(drawn, work=tmp_path)
    held_out_logits(text, 0, context)
    (tmp_path / "held-out-0.pt").unlink()
    monkeypatch.setattr(held_out, "FOLDS", 3)
    with pytest.raises(LogicMPError, match=r"fold-0-0\.pt' was made with folds = 2, not 3"):
        held_out_logits(text, 0, context)


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.is_put_on])
def test_rules_over_documents_are_put_on_the_same_tagger(text: Data, drawn: Context, method: str) -> None:
    plain, before = train_method("blstm", text, 0, drawn)
    plain.load_state_dict(before.best[""])
    tagger, fitted = train_method(method, text, 0, drawn)
    assert all(torch.equal(tensor, tagger.state_dict()[name]) for name, tensor in plain.state_dict().items()
               if name.startswith("backbone"))
    # learned from these documents, not those of the file
    head = tagger.head
    assert isinstance(head, NamesHead)
    weights = [float(w.detach()) for w in head.layer.weights]
    assert weights != [rule.weight for rule in load_rules(METHODS[method].held_out).rules]
    assert fitted.curves[""] == [fitted.curves[""][-1]]
    assert count_invalid(predict(tagger, text.testb)) == 0
    moved = find_moved(tagger, text.testb)
    shown = as_text(*moved, n=2)
    assert f"{len(moved[0])} mended names" in shown and f"{len(moved[1])} spoilt names" in shown
    words = text.testb.corpus[0].sentences[0].words
    shown = explain(tagger, text.vocabulary, to_corpus(" ".join(words)), text.train.corpus)
    assert shown.count("\n") > len(words)


@pytest.mark.parametrize("learn_weights", [False, True])
def test_a_tagger_is_trained_through_the_rules(text: Data, drawn: Context, learn_weights: bool) -> None:
    plain, before = train_method("blstm", text, 0, drawn)
    settings = {**load_settings("through-adj+doc"), "learn_weights": learn_weights}
    tagger, _ = train_method("through-adj+doc", text, 0, drawn, settings, kept=False)
    assert any(not torch.equal(tensor, tagger.state_dict()[name]) for name, tensor in before.best[""].items()
               if name.startswith("backbone"))
    # the rules start from weights that are learned from these documents
    learned = torch.tensor(learn_rules("through-adj+doc", text, 0, drawn, settings))
    assert isinstance(tagger.head, NamesHead)
    moved = float((torch.stack(list(tagger.head.layer.weights)).detach() - learned).abs().max())
    assert moved < 0.05 and (moved > 0) == learn_weights
    # the gradient of the loss comes through the rules: without them it is another one
    batch = Batch.of(text.train.documents[:4])
    logits = plain.backbone(batch).detach().requires_grad_()
    slopes = [torch.autograd.grad(head.loss(logits, batch, 0), logits)[0] for head in (tagger.head, Head())]
    assert (slopes[0] - slopes[1]).abs().max() > 1e-6


def test_rules_are_shortened() -> None:
    assert shorten("-0.25 whole(i, j) ^ label(i) in {B-LOC, I-LOC, E-LOC, S-LOC} ^ label(j) in {O}") == (
        "whole(i, j) ^ label(i) in LOC ^ label(j) in O")
