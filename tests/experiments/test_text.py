"""The text experiment on news that is made up; the real files are only counted."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from generated_text import make_corpora, make_text, make_vectors
from torch.nn import functional

from experiments.runs import Result, load_results, run_all
from experiments.text import __main__ as command
from experiments.text import data as files
from experiments.text import methods
from experiments.text.crf import Crf
from experiments.text.data import LABELS, Document, Sentence, parse_corpus, to_bioes, to_entities
from experiments.text.encode import Batch, Gazetteer, make_batches
from experiments.text.heads import DECODE, CrfHead, DocumentHead, ExactHead, Head, RuleHead
from experiments.text.lists import find_names, find_pairs, purity, split_units
from experiments.text.methods import METHODS, Context, train_backbone, train_method
from experiments.text.model import Backbone
from experiments.text.names import common_words, find_mentions, whole_document
from experiments.text.results import ROWS, as_table
from experiments.text.rules import (
    OUTSIDE,
    allowed_transitions,
    count_invalid,
    decode_tags,
    frame,
    frame_labels,
    load_rules,
    may_follow,
    pad,
)
from experiments.text.show import explain, load_tagger, to_corpus
from experiments.text.speed import measure
from experiments.text.train import Budget, Data, Tagger, build_data, evaluate, fit, predict, score
from experiments.text.untrained import measure as measure_untrained
from experiments.text.untrained import plan_untrained
from logicmp import LogicMP, LogicMPError, SemanticLoss, oracle

SMALL = Context(None, Budget(epochs=8, rate=1e-2, n_tokens=60), Budget(epochs=1, rate=5e-3, n_tokens=60), hidden=24)


@pytest.fixture(scope="module")
def text() -> Data:
    corpora = make_corpora()
    return build_data(corpora, make_vectors(corpora))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Context:
    """Small, with a folder where the backbone is kept for all tests."""
    return replace(SMALL, work=tmp_path_factory.mktemp("work"))


def document(*lines: str) -> Document:
    return Document(tuple(Sentence(tuple(line.split()), ("O",) * len(line.split())) for line in lines))


def pairs_of(*lines: str) -> set[str]:
    """The pairs of names in one list, as text."""
    found = document(*lines)

    def name(n) -> str:
        return " ".join(found.sentences[n.sentence].words[n.start : n.end])

    return {f"{name(a)} ~ {name(b)}" for a, b in find_pairs(found)}


# tags


@pytest.mark.parametrize("given, expected", [
    # I after O starts an entity
    ("O I-PER I-PER O", "O B-PER E-PER O"),
    # B is used only between two entities of one type
    ("I-LOC B-LOC O", "S-LOC S-LOC O"),
    ("I-LOC I-LOC B-LOC I-LOC", "B-LOC E-LOC B-LOC E-LOC"),
    # another type starts another entity, without B
    ("I-LOC I-ORG I-ORG", "S-LOC B-ORG E-ORG"),
    # an entity ends with its sentence
    ("O I-MISC", "O S-MISC"),
    ("I-PER I-PER I-PER", "B-PER I-PER E-PER"),
    # B of one type, I of another
    ("B-PER I-LOC", "S-PER S-LOC"),
    # IOB2 is read too
    ("B-PER I-PER O B-PER", "B-PER E-PER O S-PER"),
    ("", ""),
])
def test_iob1_becomes_bioes(given: str, expected: str) -> None:
    assert " ".join(to_bioes(given.split())) == expected


@pytest.mark.parametrize("tag", ["E-PER", "X", "I-", "-DOCSTART-"])
def test_a_tag_of_another_scheme_is_rejected(tag: str) -> None:
    with pytest.raises(LogicMPError) as caught:
        to_bioes(["O", tag])
    assert str(caught.value) == f"unexpected tag {tag!r} in IOB1\nhint: tags are O, I-X and B-X"


def test_every_annotated_sequence_is_valid_and_seqeval_finds_the_same_entities() -> None:
    from seqeval.scheme import IOBES, Entities

    tags = [list(s.tags) for d in parse_corpus(make_text(5, 30)) for s in d.sentences]
    assert count_invalid(tags) == 0
    for own, found in zip(tags, Entities(tags, IOBES).entities, strict=True):
        assert to_entities(own) == {(e.start, e.end - 1, e.tag) for e in found}


def test_documents_start_at_docstart_and_the_line_is_dropped() -> None:
    found = parse_corpus("-DOCSTART- -X- O O\n\nA X X O\n\nB X X I-LOC\nC X X I-LOC\n\n-DOCSTART- -X- O O\n\nD X X O")
    assert [[s.words for s in d.sentences] for d in found] == [[("A",), ("B", "C")], [("D",)]]
    assert found[0].sentences[1].tags == ("B-LOC", "E-LOC")


def test_a_line_with_other_columns_is_shown() -> None:
    with pytest.raises(LogicMPError) as caught:
        parse_corpus("A X X O\nB O", "my.txt")
    assert str(caught.value) == "my.txt:2 has 2 columns, expected 4: word, part of speech, chunk, tag\n2 | B O"


# lists


def test_lists_are_found_in_the_words() -> None:
    # a row of names and numbers, and the same slots of the line above
    assert pairs_of("St Pauli 4 Schalke 4", "Hansa Rostock 0 Hamburg 1") == {
        "St Pauli ~ Schalke", "Hansa Rostock ~ Hamburg", "St Pauli ~ Hansa Rostock", "Schalke ~ Hamburg"}
    # numbered lines: the text in brackets differs from the text before them
    assert pairs_of("1. Koech ( Kenya ) 8:14", "2. Boulami ( Morocco ) 8:15") == {
        "Koech ~ Boulami", "Kenya ~ Morocco"}
    # an enumeration
    assert pairs_of("To bat : Croft , Cork and Mullally") == {"Croft ~ Cork", "Cork ~ Mullally"}
    # each name with the one before it: lists may be long
    assert pairs_of("Boston 5 3", "Detroit 4 2", "Chicago 1 1") == {"Boston ~ Detroit", "Detroit ~ Chicago"}


def test_what_is_no_list_stays_alone() -> None:
    assert pairs_of("Smith met Jones in Paris last week .", "Brown met Miller in Rome last month .") == set()
    # a place and its country
    assert pairs_of("LONDON , England 1996-08-22") == set()
    # too far apart
    assert pairs_of("Boston 5 3", *["nothing to see here ."] * 4, "Detroit 4 2") == set()
    assert pairs_of("Boston 5 3", *["nothing to see here ."] * 3, "Detroit 4 2") == {"Boston ~ Detroit"}


def test_names_are_runs_of_capitalised_words() -> None:
    assert find_names(("New", "York", "'s", "Wall", "Street", "fell")) == [(0, 2), (3, 5)]
    assert find_names(("nothing",)) == []


def test_units_keep_every_list_together_and_every_sentence_once(text: Data) -> None:
    for found in text.train.corpus:
        units = split_units(found)
        assert tuple(s for unit in units for s in unit.sentences) == found.sentences
        assert sum(len(unit.pairs) for unit in units) == len(find_pairs(found))
    assert len(text.train.in_list) == len(text.train.tags)
    total, same = purity(text.train.corpus)
    assert same / total > 0.95


def test_a_long_list_is_cut() -> None:
    found = document(*["Boston 5 3"] * 20)
    units = split_units(found, max_tokens=12)
    assert [len(unit.sentences) for unit in units] == [4] * 5
    assert all(b.sentence < 4 for unit in units for _, b in unit.pairs)


# batches


def test_batches_contain_every_token_once_and_framed_sentences_do_not_touch(text: Data) -> None:
    batches = make_batches(text.train.items, 100, seed=3)
    assert sum(len(batch.forms) for batch in batches) == sum(len(item.forms) for item in text.train.items)
    for batch in batches:
        assert torch.equal(pad(batch.place + batch.place_from_end + 1, batch).amax(1), batch.lengths)
        places = batch.framed.tolist()
        for a, b in itertools.pairwise(range(len(places))):
            apart = 1 if batch.sentence[a] == batch.sentence[b] else 2
            assert places[b] - places[a] == apart
        assert places[0] == 1 and places[-1] < batch.framed_length - 1
    lists = [batch.has_list for batch in batches]
    assert any(lists) and not all(lists)


def test_the_network_reads_as_a_packed_bidirectional_lstm_does(text: Data) -> None:
    torch.manual_seed(8)
    batch = make_batches(text.testa.items, 80)[-1]
    backbone = Backbone(text.vocabulary, 8).eval()
    x = torch.randn(len(batch.forms), backbone.lstm.input_size)
    packed = torch.nn.utils.rnn.pack_padded_sequence(pad(x, batch), batch.lengths, batch_first=True,
                                                     enforce_sorted=False)
    states, _ = torch.nn.utils.rnn.pad_packed_sequence(backbone.lstm(packed)[0], batch_first=True)
    got = torch.cat([backbone._read(x, batch.place, batch, ""),
                     backbone._read(x, batch.place_from_end, batch, "_reverse")], 1)
    torch.testing.assert_close(got, states[batch.sentence, batch.place])


def test_the_gazetteer_of_a_training_sentence_does_not_know_its_own_document() -> None:
    corpus = parse_corpus("-DOCSTART- - - O\n\nLondon X X I-LOC\n\n-DOCSTART- - - O\n\nParis X X I-LOC\n\n"
                          "-DOCSTART- - - O\n\nParis X X I-LOC\nParis X X I-ORG\n")
    gazetteer = Gazetteer(corpus)
    assert gazetteer.find(["in", "London", "."]) == [[], [3], []]
    assert gazetteer.find(["London"], document=0) == [[]]
    assert gazetteer.find(["PARIS"], document=1) == [[3, 11]]
    assert gazetteer.find(["PARIS"], document=2) == [[3]]


# rules


def test_the_rules_leave_exactly_the_transitions_of_bioes() -> None:
    layer = LogicMP(load_rules("adj"))
    for a, b in itertools.product(range(len(LABELS)), repeat=2):
        logits = torch.full((2, len(LABELS)), -50.0)
        logits[0, a] = logits[1, b] = 50.0
        assert bool(layer.violations(logits).sum() < 0.5) == may_follow(LABELS[a], LABELS[b]), (LABELS[a], LABELS[b])
    assert len(load_rules("adj").rules) == 8 and load_rules("adj").predicate["label"].labels == LABELS


def test_violated_rules_and_the_checker_agree_on_random_tags(text: Data) -> None:
    layer = LogicMP(load_rules("adj"))
    torch.manual_seed(1)
    for batch in make_batches(text.testa.items, 60, seed=1)[:6]:
        labels = torch.randint(len(LABELS), batch.labels.shape)
        certain = frame(100.0 * torch.nn.functional.one_hot(labels, len(LABELS)).float(), batch)
        violated = layer.violations(certain).sum().round()
        sentences = [[LABELS[k] for k in own] for own in labels.split(batch.lengths.tolist())]
        # by hand: each place breaks "goes on" of its left side, "was begun" of its right side, or both
        expected = sum((a[0] in "BI" and not (b[0] in "IE" and a[2:] == b[2:]))
                       + (b[0] in "IE" and not (a[0] in "BI" and a[2:] == b[2:]))
                       for tags in sentences for a, b in itertools.pairwise(["O", *tags, "O"]))
        assert violated == expected
        assert 0 < count_invalid(sentences) <= expected


def test_the_layer_on_framed_sentences_equals_the_oracle(text: Data) -> None:
    torch.manual_seed(2)
    theory = load_rules("adj+list")
    item = next(item for item in text.testa.items if len(item.pairs) and len(item.forms) < 20)
    batch = Batch.of([item])
    logits = torch.randn(len(batch.forms), len(LABELS), dtype=torch.float64)
    # without the boundary tokens that only fill up
    n = int(batch.framed[-1]) + 2
    unary, evidence = frame(logits, batch)[:n], batch.samelist[:n, :n]
    got = LogicMP(theory, iterations=2, dtype=torch.float64, schedule="paper")(unary, {"samelist": evidence})
    q = {"label": torch.softmax(unary, 1)}
    for _ in range(2):
        q = oracle.mean_field_step(theory, {"label": unary}, q, {"samelist": evidence}, {"token": n})
    torch.testing.assert_close(torch.softmax(got, 1), q["label"], rtol=1e-9, atol=1e-12)


def test_what_the_rules_say_of_a_sentence_does_not_depend_on_its_batch(text: Data) -> None:
    torch.manual_seed(3)
    head = RuleHead("adj+list", iterations=3)
    items = [item for item in text.testa.items if len(item.lengths) == 1][:5]
    together = Batch.of(items)
    logits = torch.randn(len(together.forms), len(LABELS))
    alone = torch.cat([head.scores(part, Batch.of([item])) for item, part in zip(
        items, logits.split([len(item.forms) for item in items]), strict=True)])
    torch.testing.assert_close(head.scores(logits, together), alone)


def test_a_batch_without_a_list_needs_no_list_rule(text: Data) -> None:
    torch.manual_seed(4)
    head = RuleHead("adj+list", iterations=3)
    batch = next(batch for batch in make_batches(text.testa.items, 100) if not batch.has_list)
    logits = torch.randn(len(batch.forms), len(LABELS))
    full = head.layer(frame(logits, batch), {"samelist": batch.samelist})[batch.framed]
    torch.testing.assert_close(head.scores(logits, batch), full)
    # one set of weights for both
    assert all(a is b for a, b in zip(head.without_list.raw_weights, head.layer.raw_weights, strict=False))
    assert len(list(head.parameters())) == 12


def test_the_slope_of_the_likelihood_is_that_of_the_bound(text: Data) -> None:
    torch.manual_seed(9)
    head = RuleHead("adj+list", iterations=5, damping=0.5)
    batch = next(batch for batch in make_batches(text.testa.items, 60) if batch.has_list)
    logits = torch.randn(len(batch.forms), len(LABELS), requires_grad=True)
    inputs = [logits, *head.layer.parameters()]
    got = torch.autograd.grad(head.loss(logits, batch, 0), inputs)
    # the bound at the marginals where mean field ends, less that at the labels, which is their score
    layer, framed, evidence = head.given(logits, batch)
    truth = 200 * torch.nn.functional.one_hot(frame_labels(batch), len(LABELS)).float() - 100
    bound = layer.elbo(framed, layer(framed, evidence).detach(), evidence) - layer.elbo(framed, truth, evidence)
    want = torch.autograd.grad(bound / len(batch.labels), inputs)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_mentions_are_capitalised_words_of_one_spelling() -> None:
    found = document("The Barcelona team beat A Rest", "the Barcelona coach", "Barcelona , The A")
    common = common_words((found,))
    pairs = [((a.sentence, a.start), (b.sentence, b.start)) for a, b in find_mentions(found, common)]
    # each mention with the one before it; "The" is seen in lower case, and A is an initial
    assert pairs == [((0, 1), (1, 1)), ((1, 1), (2, 0))]
    (unit,) = whole_document(found, common)
    assert unit.sentences == found.sentences and len(unit.pairs) == 2


def test_without_names_in_common_documents_are_sentences_with_exact_inference(text: Data) -> None:
    torch.manual_seed(0)
    batch = next(batch for batch in make_batches(text.testa.items, 100) if not batch.has_list)
    logits = torch.randn(len(batch.labels), len(LABELS))
    document_head, exact_head = DocumentHead(), ExactHead()
    torch.testing.assert_close(document_head.loss(logits, batch, 0), exact_head.loss(logits, batch, 0))
    assert torch.equal(document_head.labels(logits, batch), exact_head.labels(logits, batch))


def test_the_slope_over_a_document_is_that_of_its_marginals(text: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of exact marginals on narrow components, of mean field on the others."""
    monkeypatch.setattr("logicmp.execute.exact_run.CHEAP_CELLS", 5000)
    torch.manual_seed(0)
    head = DocumentHead(iterations=40, damping=0.5)
    kinds = set()
    for batch in make_batches(text.testa.documents, 60):
        logits = torch.randn(len(batch.labels), len(LABELS), requires_grad=True)
        layer, framed, evidence = head.given(logits, batch)
        run = layer.exact(framed, evidence)
        kinds |= set(run.is_exact("label")[0, batch.framed, 0].tolist())
        (slope,) = torch.autograd.grad(head.loss(logits, batch, 0), logits)
        q = torch.softmax(layer(framed, evidence)[batch.framed], 1).detach()
        want = (q - functional.one_hot(batch.labels, len(LABELS))) / len(batch.labels)
        torch.testing.assert_close(slope, want, rtol=1e-4, atol=1e-6)
    assert kinds == {True, False}


def test_the_list_rule_draws_the_names_of_a_list_together() -> None:
    # two lines of a table; the network is sure of the first name, and undecided about the second
    found = to_corpus("Boston 5 3 | Detroit 4 2")
    corpora = {"train": found, "testa": found, "testb": found}
    batch = Batch.of(build_data(corpora, {}).train.items)
    logits = torch.zeros(len(batch.forms), len(LABELS))
    logits[:, OUTSIDE] = 6.0
    logits[0, LABELS.index("S-ORG")] = 12.0
    logits[3, [LABELS.index("S-ORG"), LABELS.index("S-LOC")]] = torch.tensor([7.9, 8.0])
    assert LABELS[int(RuleHead("adj").labels(logits, batch)[3])] == "S-LOC"
    assert LABELS[int(RuleHead("adj+list").labels(logits, batch)[3])] == "S-ORG"


# chains


def test_the_forward_algorithm_and_viterbi_equal_enumeration() -> None:
    torch.manual_seed(5)
    crf = Crf(3, torch.rand(4, 4) < 0.8).double()
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    lengths = torch.tensor([4, 1, 3])
    logits = torch.randn(3, 4, 3, dtype=torch.float64)
    for k, n in enumerate(lengths.tolist()):
        every = torch.tensor(list(itertools.product(range(3), repeat=n)))
        scores = crf.score(logits[k, :n].expand(len(every), -1, -1), every, torch.full((len(every),), n))
        torch.testing.assert_close(crf.log_z(logits, lengths)[k], torch.logsumexp(scores, 0))
        assert crf.best(logits, lengths)[k, :n].tolist() == every[scores.argmax()].tolist()
        assert not crf.best(logits, lengths)[k, n:].any()


def test_decoding_is_viterbi_with_forbidden_transitions(text: Data) -> None:
    torch.manual_seed(6)
    batch = make_batches(text.testa.items, 60)[0]
    logits = 2 * torch.randn(len(batch.forms), len(LABELS))
    found = decode_tags(logits, logits.argmax(1), batch)
    best = Crf(len(LABELS), allowed_transitions()).best(pad(logits, batch), batch.lengths)
    assert torch.equal(pad(found, batch), best)
    tags = [[LABELS[k] for k in own] for own in found.split(batch.lengths.tolist())]
    assert count_invalid(tags) == 0
    # what was in order stays as it was
    assert torch.equal(decode_tags(logits, found, batch), found)


def test_the_adjacent_rules_compile_and_the_circuit_agrees_with_the_chain() -> None:
    torch.manual_seed(7)
    logits = torch.randn(2, 4, len(LABELS), dtype=torch.float64)
    logits[:, [0, 3], OUTSIDE] += 40
    loss = SemanticLoss(load_rules("adj"))(logits)
    chain = Crf(len(LABELS), allowed_transitions()).double()
    log_p = torch.log_softmax(logits, 2)[:, 1:3]
    torch.testing.assert_close(-loss, chain.log_z(log_p, torch.tensor([2, 2])), rtol=1e-6, atol=1e-6)


# scores


def test_an_entity_with_an_invalid_sequence_does_not_count() -> None:
    truth = [["B-PER", "E-PER", "O"], ["S-LOC"]]
    found = score(truth, [["B-PER", "O", "O"], ["S-LOC"]], np.array([False, True]))
    assert (found.precision, found.recall, found.list_f1) == (100.0, 50.0, 100.0)
    assert found.invalid == 500.0
    assert score(truth, truth, np.array([False, False])).f1 == 100.0


# training


@pytest.fixture(scope="module")
def untrained(text: Data) -> float:
    torch.manual_seed(0)
    return evaluate(Tagger(Backbone(text.vocabulary, 24), Head()), text.testb).f1


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_learns(text: Data, small: Context, untrained: float, method: str, tmp_path: Path) -> None:
    found = []

    def work(plan: Result) -> list[Result]:
        found.extend(methods.run_method(method, plan, text, small))
        return found

    run_all([Result("conll2003", "testb", row) for row in METHODS[method].rows], work, tmp_path)
    assert [result.method for result in found] == list(METHODS[method].rows)
    stored = load_results(tmp_path)
    for result in stored:
        assert result.method in ROWS
        assert result.get("f1") > untrained + 30
        assert len(result.get("testa")) == 1 and result.memory > 0
        assert result.get("invalid") is not None
        if result.method.endswith("decode") or method in ("spl", "crf-forbidden"):
            assert result.get("invalid") == 0
    assert {r.method: r.values for r in stored} == {r.method: r.values for r in found}
    assert len(stored) == len(found)


def test_the_layer_leaves_fewer_invalid_transitions_than_no_layer(text: Data, small: Context) -> None:
    taggers = [train_method(name, text, 0, small)[0] for name in ("blstm", "logicmp-adj")]
    plain, layer = (evaluate(tagger, text.testb) for tagger in taggers)
    assert layer.invalid < plain.invalid / 2
    assert evaluate(taggers[1], text.testb, DECODE).invalid == 0


@pytest.mark.parametrize("rules, schedule", [("adj", "paper"), ("adj+list", "adaptive")])
def test_an_untrained_layer_is_measured_on_a_trained_tagger(text: Data, small: Context, rules: str,
                                                            schedule: str) -> None:
    plain = evaluate(train_method("blstm", text, 0, small)[0], text.testb)
    found, weak = (measure_untrained(plan_untrained(rules, schedule, 0, "", is_plain), text, small)
                   for is_plain in (False, True))
    assert (found.method, found.variant) == (f"blstm+layer-{rules}", f"schedule={schedule}")
    assert weak.variant == f"schedule={schedule} plain" and weak.settings["adjacent"] is None
    for result in (found, weak):
        assert result.get("f1_before") == pytest.approx(plain.f1, abs=1e-3)
        assert result.get("invalid_before") == pytest.approx(plain.invalid, abs=1e-3)
        assert result.get("invalid") < plain.invalid
    # the weight of the rule file is 4
    assert found.get("invalid") != weak.get("invalid")


def test_every_head_starts_from_the_same_backbone(text: Data, small: Context) -> None:
    start = train_backbone(text, 0, small)
    idle = replace(small, fine_tuning=replace(small.fine_tuning, epochs=0))
    answers = []
    for name in ("blstm", "blstm-lex", "slrelax"):
        tagger, _ = train_method(name, text, 0, idle, kept=False)
        assert all(torch.equal(tagger.state_dict()[key], tensor) for key, tensor in start.items())
        answers.append(predict(tagger, text.testb))
    # the gazetteer has no effect at first
    assert answers[0] == answers[1] == answers[2]


class Interrupted(Exception):
    pass


def test_a_run_that_was_killed_goes_on_and_ends_the_same(text: Data, tmp_path: Path) -> None:
    budget = Budget(epochs=3, rate=1e-2, n_tokens=150)

    def make() -> Tagger:
        torch.manual_seed(0)
        return Tagger(Backbone(text.vocabulary, 8), CrfHead())

    def stop(what: str, done: int, total: int) -> None:
        if what == "epoch 2 of 3" and done == 2:
            raise Interrupted

    whole = make()
    expected = fit(whole, text, budget, 0)
    path = tmp_path / "crf-0.pt"
    with pytest.raises(Interrupted):
        fit(make(), text, budget, 0, path, progress=stop)
    said: list[str] = []
    again = make()
    found = fit(again, text, budget, 0, path, say=said.append)
    assert [line.split(":")[0] for line in said] == ["epoch 2 of 3", "epoch 3 of 3"]
    assert found.curves == expected.curves
    assert all(torch.equal(a, b) for a, b in zip(again.state_dict().values(), whole.state_dict().values(), strict=True))
    # and once more: it is done
    assert fit(make(), text, budget, 0, path, say=said.append).curves == expected.curves
    assert len(said) == 2


def test_a_checkpoint_of_another_run_is_rejected(text: Data, tmp_path: Path) -> None:
    path = tmp_path / "blstm-0.pt"
    budget = Budget(epochs=1, max_batches=1)

    def tagger() -> Tagger:
        return Tagger(Backbone(text.vocabulary, 8), Head())

    fit(tagger(), text, budget, 0, path)
    with pytest.raises(LogicMPError) as caught:
        fit(tagger(), text, budget, 1, path)
    assert str(caught.value) == (f"{str(path)!r} was made with seed = 0, not 1\n"
                                 "hint: delete the file to start over, or choose another --work")
    path.write_bytes(b"no checkpoint")
    with pytest.raises(LogicMPError, match="is not a checkpoint: "):
        fit(tagger(), text, budget, 0, path)


# settings


def test_settings_are_chosen_on_testa(text: Data, small: Context, tmp_path: Path) -> None:
    settings, tried = methods.choose("slrelax", text, 0, small)
    assert [s["strength"] for s, _ in tried] == list(METHODS["slrelax"].choices["strength"])
    assert dict(settings) == max(tried, key=lambda entry: entry[1])[0]
    path = tmp_path / "settings.json"
    methods.store_settings("slrelax", settings, tried, path)
    assert json.loads(path.read_text())["slrelax"]["settings"] == settings


def test_an_unknown_method_is_an_error() -> None:
    with pytest.raises(LogicMPError) as caught:
        methods.find_method("crff")
    assert str(caught.value).startswith("unknown method 'crff'\nhint: methods: blstm, blstm-lex, crf, ")


def test_the_list_rule_does_not_compile_for_long() -> None:
    done, reason = methods.compile_until("adj+list", 12, 600, max_nodes=2000)
    # three times as many with each token
    assert [tokens for tokens, _, _ in done] == [2, 3, 4]
    assert reason.startswith("the rules do not compile: ")
    # and the adjacent rules grow as the sentence does
    done, reason = methods.compile_until("adj", 8, 600, max_nodes=2000)
    assert reason == "" and len(done) == 7


# results


def test_the_table_has_the_mean_over_seeds_and_the_papers_numbers() -> None:
    results = [Result("conll2003", "testb", row, seed, seconds=60.0, memory=500.0,
                      values={"f1": f1 + seed, "list_f1": 95.0, "invalid": 0.25})
               for row, f1 in (("blstm", 88.0), ("logicmp-adj", 89.5)) for seed in range(2)]
    results.append(Result("conll2003", "testb", "sl-list", status="does not compile beyond 7 tokens", seconds=18.0))
    results.append(Result("conll2003", "train", "speed", values={"ratio": {"blstm": 1.25}}))
    table = as_table(results)
    assert "| BLSTM | 88.50 ±0.71 |  | 89.98 | 95.00 ±0.00 | 0.2 ±0.0 |" in table
    assert "| BLSTM | 1.25x | 60 ±0 | 500 ±0 | 2 |" in table
    assert "| BLSTM w/ LogicMP (adj) | 90.00 ±0.71 | +1.50 ±0.00 | 91.25 | 95.00 ±0.00 | " in table
    assert "| BLSTM w/ SL (adj+list) | - | - | - | - | - |" in table
    assert table.endswith("\n\n- BLSTM w/ SL (adj+list): does not compile beyond 7 tokens\n")


def test_every_row_of_the_table_is_filled_by_a_method() -> None:
    filled = [row for method in METHODS.values() for row in method.rows]
    assert sorted([*filled, *methods.CIRCUITS]) == sorted(ROWS)


# commands


def test_show_says_which_rule_moved_what(text: Data, small: Context) -> None:
    train_method("logicmp-adj+list", text, 0, small)
    tagger = load_tagger("logicmp-adj+list", 0, text.vocabulary, small)
    # a network that breaks off an entity, whatever the words
    with torch.no_grad():
        tagger.backbone.label.weight.zero_()
        tagger.backbone.label.bias.zero_()
        tagger.backbone.label.bias[LABELS.index("B-PER")] = 2.0
    words = text.testa.corpus[0].sentences[0].words[:3]
    shown = explain(tagger, text.vocabulary, to_corpus(" ".join(words)))
    lines = shown.splitlines()
    assert lines[0].split() == ["word", "before", "after", "decoded"]
    assert [line.split()[:2] for line in lines[1:4]] == [[word, "B-PER"] for word in words]
    assert count_invalid([[line.split()[5] for line in lines[1:4]]]) == 0
    assert "changed by the rules" in lines
    assert "label(i) in {B-PER, I-PER} => label(i+1) in {I-PER, E-PER}" in shown
    assert "with boundary" in shown


def test_show_without_a_model_says_how_to_make_one(text: Data, tmp_path: Path) -> None:
    with pytest.raises(LogicMPError) as caught:
        load_tagger("logicmp-adj", 7, text.vocabulary, Context(tmp_path))
    assert str(caught.value) == ("there is no model of logicmp-adj with seed 7\nhint: train it: python -m "
                                 "experiments.text run --method logicmp-adj --seed 7")
    with pytest.raises(LogicMPError, match="no words to tag"):
        to_corpus(" | ")


def test_speed_is_measured_side_by_side(text: Data) -> None:
    found = measure(text, ["crf", "logicmp-adj"], n_batches=1, n_tokens=100, hidden=8)
    assert set(found["ratio"]) == {"blstm", "crf", "logicmp-adj"}
    assert found["ratio"]["blstm"] == 1.0


def test_the_commands_work_on_a_folder_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    """Files, checksums, training, results and the table, as a user calls them."""
    import gzip
    import hashlib

    folder = tmp_path / "data"
    (folder / "conll2003").mkdir(parents=True)
    (folder / "embeddings").mkdir()
    corpora = make_corpora()
    for seed, (split, n) in enumerate((("train", 10), ("testa", 4), ("testb", 4))):
        (folder / f"conll2003/eng.{split}").write_text(make_text(seed, n))
    vectors = make_vectors(corpora)
    lines = "\n".join(f"{w} {' '.join(map(str, v))}" for w, v in vectors.items())
    (folder / files.VECTORS).write_bytes(gzip.compress(lines.encode()))
    names = [*(f"conll2003/eng.{split}" for split in files.SPLITS), files.VECTORS]
    sums = tmp_path / "checksums.txt"
    totals = [hashlib.sha256((folder / name).read_bytes()).hexdigest()[:16] for name in names]
    sums.write_text("".join(f"{total}  {name}\n" for total, name in zip(totals, names, strict=True)))
    monkeypatch.setattr(files, "FILES", replace(files.FILES, sums=sums))
    monkeypatch.setattr(command, "Context", lambda work, *budgets, **options: replace(
        SMALL, work=work, backbone=Budget(epochs=1), fine_tuning=Budget(epochs=1), hidden=8))
    monkeypatch.setattr(command, "measure_circuit", lambda plan: replace(plan, status="too big"))
    shared = ["--data", str(folder), "--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    assert command.main(["run", "--method", "logicmp-adj", "--seed", "3", *shared]) == 0
    assert "logicmp-adj seed 3: f1 " in capsys.readouterr().out
    assert command.main(["run", "--method", "logicmp-adj", "--seed", "3", *shared]) == 0
    assert "logicmp-adj seed 3: already stored" in capsys.readouterr().err
    assert command.main(["run", "--method", "sl-list", *shared]) == 0
    assert command.main(["run", "--method", "blstm", "--share", "0.5", *shared]) == 0
    assert [(r.variant, r.method, r.seed) for r in load_results(tmp_path / "results")] == [
        ("", "logicmp-adj", 3), ("", "logicmp-adj+decode", 3), ("", "sl-list", 0), ("share=0.5", "blstm", 0),
        ("share=0.5", "blstm+decode", 0)]
    words = ["untrained", "--schedule", "paper", "--plain", "--share", "0.5", *shared]
    for _ in range(2):
        assert command.main(words) == 0
        said = capsys.readouterr()
    assert "| mean | " in said.out
    assert said.err == "conll2003/testb blstm+layer-adj seed 0 share=0.5 schedule=paper plain: already stored\n"
    assert command.main(["table", *shared]) == 0
    assert "| BLSTM w/ LogicMP (adj) | " in capsys.readouterr().out
    assert command.main(["scores", "--out", str(tmp_path / "scores.png"), *shared]) == 0
    assert (tmp_path / "scores.png").read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    assert command.main(["show", "Police in Kaloburg said nothing .", "--seed", "3", *shared]) == 0
    assert capsys.readouterr().out.startswith("word ")
    assert command.main(["lists", *shared]) == 0
    assert "pairs of tokens in one list" in capsys.readouterr().out


def test_a_missing_data_set_says_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("LOGICMP_DATA", raising=False)
    assert command.main(["run", "--method", "blstm", "--results", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        "error: CoNLL-2003 not found: set --data or LOGICMP_DATA\n"
        f"hint: {files.FILES.origin}\n")


def test_a_changed_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "conll2003").mkdir()
    (tmp_path / "conll2003/eng.train").write_text("A X X O\n")
    with pytest.raises(LogicMPError, match="is not the file the results were made with: its checksum is "):
        files.load_corpus("train", tmp_path)
    with pytest.raises(LogicMPError, match="No such file or directory"):
        files.load_corpus("testa", tmp_path)
    with pytest.raises(LogicMPError, match="unknown split 'testc'\nhint: splits: train, testa, testb"):
        files.load_corpus("testc", tmp_path)


@pytest.mark.parametrize("split, expected", [
    # as published, without the lines that only mark a document
    ("train", (946, 14041, 203621, 23499)),
    ("testa", (216, 3250, 51362, 5942)),
    ("testb", (231, 3453, 46435, 5648)),
])
def test_the_real_files_have_the_published_counts(data: Path, split: str, expected: tuple[int, ...]) -> None:
    corpus = files.load_corpus(split, data)
    assert files.count(corpus) == expected
    assert count_invalid([list(s.tags) for d in corpus for s in d.sentences]) == 0
    total, same = purity(corpus)
    assert same / total > 0.95
