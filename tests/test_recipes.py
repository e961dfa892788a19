"""Every recipe allows exactly the worlds that a plain function allows, by enumeration; its text reads well."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from test_public_names import undocumented
from torch import Tensor

from logicmp import LogicMP, LogicMPError, parse_theory, recipes
from logicmp.execute.worlds import fact_tensors
from logicmp.oracle.worlds import log_partition

BIO = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
BIOES = ["O", "B-PER", "I-PER", "E-PER", "S-PER"]
BILOU = ["L-PER", "O", "U-PER", "B-PER", "I-PER", "B-LOC", "L-LOC"]


parse = functools.cache(parse_theory)


def allows(text: str, world: Mapping[str, Tensor]) -> bool:
    """Whether a world, in which every atom is observed, satisfies all hard rules of a text."""
    theory, facts = parse(text).split_facts()
    known = {name: x.double() for name, x in {**fact_tensors(theory, facts), **world}.items()}
    assert known.keys() == theory.predicate.keys()
    sizes = {t: n for name, x in known.items() for t, n in zip(theory.predicate[name].types, x.shape, strict=False)}
    try:
        log_partition(theory, evidence=known, sizes=sizes)
    except LogicMPError as error:
        assert "violates the hard rule" in str(error) or "no value is left" in str(error)
        return False
    return True


def sequences(labels: list[str], longest: int = 3) -> Iterator[tuple[str, ...]]:
    for n in range(1, longest + 1):
        yield from itertools.product(labels, repeat=n)


def as_world(labels: list[str], sequence: tuple[str, ...], ends: str) -> dict[str, Tensor]:
    n = len(sequence)
    index = torch.tensor([labels.index(name) for name in sequence])
    world = {"label": torch.nn.functional.one_hot(index, len(labels))}
    return world | {name: torch.arange(n) == k for name, k in (("first", 0), ("last", n - 1)) if name in ends}


def is_bio(sequence: tuple[str, ...], starts: bool = True) -> bool:
    """Whether every I follows B or I of its kind; without `starts`, anything may come first."""
    return all(not name.startswith("I") or (before is None and not starts)
               or before in (name, "B" + name[1:]) for before, name in zip((None, *sequence), sequence, strict=False))


def is_bioes(sequence: tuple[str, ...]) -> bool:
    """Read the names one after the other: O, S, or B I* E of one kind; BILOU has U and L."""
    inside = None
    for name in sequence:
        place, _, kind = name.partition("-")
        if (inside is None) != (place in "OSUB") or (inside is not None and kind != inside):
            return False
        inside = kind if place in "BI" else None
    return inside is None


def test_bio_allows_the_sequences_whose_names_begin_with_b() -> None:
    text = recipes.bio(BIO)
    for sequence in sequences(BIO):
        assert allows(text, as_world(BIO, sequence, "first")) == is_bio(sequence), sequence


def test_bio_without_ends_leaves_the_first_token_free() -> None:
    text = recipes.bio(BIO, ends=False)
    for sequence in sequences(BIO):
        assert allows(text, as_world(BIO, sequence, "")) == is_bio(sequence, starts=False), sequence


@pytest.mark.parametrize("labels", [BIOES, BILOU])
def test_bioes_allows_the_sequences_of_whole_names(labels: list[str]) -> None:
    text = recipes.bioes(labels)
    for sequence in sequences(labels):
        assert allows(text, as_world(labels, sequence, "first last")) == is_bioes(sequence), sequence


def test_bioes_without_ends_is_complete_between_tokens_observed_as_o() -> None:
    text = recipes.bioes(BIOES, ends=False)
    for sequence in sequences(BIOES):
        assert allows(text, as_world(BIOES, ("O", *sequence, "O"), "")) == is_bioes(sequence), sequence


def test_labels_come_from_a_model_in_any_order_and_form() -> None:
    by_index = {1: "B-PER", 0: "O", 2: "I-PER"}
    assert recipes.bio(by_index) == recipes.bio(["O", "B-PER", "I-PER"])
    # names without a kind, and names that need quotes
    assert is_bio(("B", "I")) and allows(recipes.bio(["O", "B", "I"]), as_world(["O", "B", "I"], ("B", "I"), "first"))
    odd = ["O", "B-a/b c", "I-a/b c"]
    assert parse_theory(recipes.bio(odd)).predicate["label"].labels == tuple(odd)
    # a kind whose names have one token only
    assert "first" not in recipes.bio(["O", "B-DAY"])


def test_the_layer_decodes_with_a_recipe() -> None:
    layer = LogicMP(recipes.bio(BIO), method="exact")
    logits = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(0)) * 3
    for found in layer.decode(logits, {"first": torch.arange(6) == 0}):
        assert is_bio(tuple(BIO[k] for k in found))


EDGES = [("Dog", "Animal"), ("Cat", "Animal"), ("poodle", "Dog"), ("Rose", "Plant")]
NAMES = ["Dog", "Animal", "Cat", "poodle", "Rose", "Plant"]


@pytest.mark.parametrize("one_path", [False, True])
def test_a_hierarchy_allows_closed_sets_or_single_paths(one_path: bool) -> None:
    text, parent = recipes.hierarchy(EDGES, one_path=one_path), dict(EDGES)
    leaves = [name for name in NAMES if name not in parent.values()]

    def path(name: str) -> set[str]:
        return {name} | (path(parent[name]) if name in parent else set())

    paths = [path(leaf) for leaf in leaves]
    n_allowed = 0
    for chosen in itertools.product([False, True], repeat=len(NAMES)):
        has = {name for name, yes in zip(NAMES, chosen, strict=True) if yes}
        wanted = has in paths if one_path else all(parent[name] in has for name in has & parent.keys())
        assert allows(text, {"Has": torch.tensor(chosen)}) == wanted, has
        n_allowed += wanted
    assert n_allowed == (3 if one_path else 21)


def test_a_hierarchy_can_be_a_dag_and_takes_the_order_of_the_logits() -> None:
    labels = {0: "Root", 1: "Left", 2: "Right", 3: "Both", 4: "Alone"}
    text = recipes.hierarchy([("Left", "Root"), ("Right", "Root"), ("Both", "Left"), ("Both", "Right")], labels=labels)
    assert text.startswith("label = {Root, Left, Right, Both, Alone}\n")
    assert allows(text, {"Has": torch.tensor([1, 1, 1, 1, 0])})
    assert allows(text, {"Has": torch.tensor([0, 0, 0, 0, 1])})
    assert not allows(text, {"Has": torch.tensor([1, 1, 0, 1, 0])})


def relations(n: int) -> Iterator[Tensor]:
    for bits in itertools.product([False, True], repeat=n * n):
        yield torch.tensor(bits).reshape(n, n)


def is_transitive(r: Tensor) -> bool:
    return not bool(((r.int() @ r.int() > 0) & ~r).any())


def compare(text: str, name: str, wanted: Callable[[Tensor], bool], n: int = 3) -> int:
    n_allowed = 0
    for relation in relations(n):
        assert allows(text, {name: relation}) == wanted(relation), relation
        n_allowed += wanted(relation)
    return n_allowed


def test_equivalence_allows_the_partitions() -> None:
    # the predicate is symmetric by its declaration; evidence that is not is an error of its own
    text = recipes.equivalence("C")
    symmetric = [r for r in relations(3) if torch.equal(r, r.T)]
    found = [r for r in symmetric if allows(text, {"C": r})]
    assert all((bool(r.diagonal().all()) and is_transitive(r)) == any(r is f for f in found) for r in symmetric)
    assert len(found) == 5


@pytest.mark.parametrize("total, n_orders", [(False, 19), (True, 6)])
def test_order_allows_strict_orders(total: bool, n_orders: int) -> None:
    def is_order(r: Tensor) -> bool:
        everything = r | r.T | torch.eye(3).bool()
        return not r.diagonal().any() and is_transitive(r) and (not total or bool(everything.all()))

    assert compare(recipes.order("Before", over="event", total=total), "Before", is_order) == n_orders


def test_exactly_one_allows_one_value_each() -> None:
    text = recipes.exactly_one("Lives", over="city", each="person")
    assert compare(text, "Lives", lambda r: bool((r.sum(1) == 1).all())) == 27
    assert recipes.exactly_one("Root", over="token") == "Root(token!)"
    assert recipes.exactly_one("Sits", over="seat", each=["day", "guest"]) == "Sits(day, guest, seat!)"


@pytest.mark.parametrize("perfect, n_matchings", [(False, 34), (True, 6)])
def test_matching_allows_one_partner_each(perfect: bool, n_matchings: int) -> None:
    def is_matching(r: Tensor) -> bool:
        degrees = torch.cat([r.sum(0), r.sum(1)])
        return bool((degrees == 1).all() if perfect else (degrees <= 1).all())

    assert compare(recipes.matching("M", perfect=perfect), "M", is_matching) == n_matchings


def test_same_label_allows_equal_labels_along_links() -> None:
    text, links = recipes.same_label("Link", ["A", "B", "C"]), torch.tensor([[0, 1, 0], [0, 0, 0], [0, 0, 1]])
    for labels in itertools.product(range(3), repeat=3):
        world = {"Link": links, "label": torch.nn.functional.one_hot(torch.tensor(labels), 3)}
        assert allows(text, world) == (labels[0] == labels[1]), labels


TEXTS = {
    "bio": lambda **o: recipes.bio(BIO, **o), "bioes": lambda **o: recipes.bioes(BIOES, **o),
    "hierarchy": lambda **o: recipes.hierarchy(EDGES, one_path=True, **o),
    "equivalence": lambda **o: recipes.equivalence("C", **o),
    "order": lambda **o: recipes.order("B", total=True, **o),
    "matching": lambda **o: recipes.matching("M", perfect=True, **o),
    "same_label": lambda **o: recipes.same_label("Link", BIO, **o),
}


@pytest.mark.parametrize("name", TEXTS)
def test_rules_are_hard_weighted_or_open(name: str) -> None:
    hard, soft, open_ones = (parse_theory(TEXTS[name](weight=weight)).split_facts()[0]
                             for weight in ("hard", 0.5, None))
    assert all(rule.is_hard for rule in hard.rules)
    assert {(rule.weight, rule.is_hard) for rule in soft.rules} == {(0.5, False)}
    assert {(rule.weight, rule.is_hard) for rule in open_ones.rules} == {(None, False)}
    assert [rule.formula for rule in hard.rules] == [rule.formula for rule in soft.rules]
    assert [rule.formula for rule in hard.rules] == [rule.formula for rule in open_ones.rules]
    with pytest.raises(LogicMPError, match="weight is 'soft'; expected a number, None or 'hard'"):
        TEXTS[name](weight="soft")


def test_recipes_can_be_joined() -> None:
    both = f"{recipes.bio(BIO)}\n{recipes.same_label('Same', BIO, over='token', weight=1)}"
    assert len(parse_theory(both).rules) == 3 + len(BIO)


WRONG: list[tuple[Callable[[], str], str]] = [
    (lambda: recipes.bio(["O", "X-PER"]),
     "the label 'X-PER' at index 1 has an unknown form; expected O, B-... or I-...\n"
     "hint: rename the label, or add a rule of your own for it"),
    (lambda: recipes.bio(BIOES), "the label 'E-PER' at index 3 has an unknown form; expected O, B-... or I-...\n"
     "hint: use recipes.bioes for such labels"),
    (lambda: recipes.bio({0: "LABEL_0", 1: "LABEL_1"}),
     "the label 'LABEL_0' at index 0 has an unknown form; expected O, B-... or I-...\n"
     "hint: give the model its labels: model.config.id2label = {0: 'O', 1: 'B-PER', ...}"),
    (lambda: recipes.bio(["O", "I-PER"]), "the labels have I-PER but not B-PER\n"
     "hint: BIO: a name begins with B; convert IOB1 labels first"),
    (lambda: recipes.bioes(["O", "B-PER", "I-PER"]), "the labels have B-PER, I-PER but not E-PER\n"
     "hint: BIOES: a longer name begins with B and ends with E (BILOU: L)"),
    (lambda: recipes.bioes(["B", "E", "U"]), "the labels of names without a kind mix BIOES and BILOU: B, E, U\n"
     "hint: use E and S, or L and U"),
    (lambda: recipes.bio({1: "O", 2: "B-PER"}), "labels has no name for index 0, but 2 names\nhint: the keys are 0, 1, "
     "2, ..., as in model.config.id2label; for label2id swap names and numbers: {k: name for name, k in "
     "label2id.items()}"),
    (lambda: recipes.bio(["O", "B-PER", "O"]), "the label 'O' is given 2 times, at index 0, 2\n"
     "hint: each label has one index"),
    (lambda: recipes.bio([]), "labels is empty\nhint: give the names of the labels in the order of the logits"),
    (lambda: recipes.bio(["O", ""]), "the label at index 1 is an empty text"),
    (lambda: recipes.hierarchy([("A", "B"), ("B", "C"), ("D", "A"), ("C", "A")]),
     "the edges have a cycle: A -> B -> C -> A\n"
     "hint: a label cannot be above itself; edges are pairs of child and parent"),
    (lambda: recipes.hierarchy([("A", "A")]), "the edges have a cycle: A -> A\n"
     "hint: a label cannot be above itself; edges are pairs of child and parent"),
    (lambda: recipes.hierarchy([("A", "B"), ("A", "B")]), "edges has the pair ('A', 'B') twice\n"
     "hint: remove one of them"),
    (lambda: recipes.hierarchy([("A", "B"), ("A", "C")], one_path=True), "'A' has 2 parents: B, C\nhint: one path "
     "needs a tree, in which each label has at most one parent; or use one_path=False"),
    (lambda: recipes.hierarchy([("Dgo", "Animal")], labels=["Dog", "Animal"]),
     "the edges name 'Dgo', which is not one of the labels\nhint: did you mean 'Dog'?"),
    (lambda: recipes.hierarchy([]), "edges is empty\n"
     "hint: give pairs of child and parent, for example ('Dog', 'Animal')"),
    (lambda: recipes.hierarchy([("A", "B", "C")]),  # type: ignore[list-item]
     "edges[0] is ('A', 'B', 'C'); expected a pair of names, child and parent"),
    (lambda: recipes.matching("M", left="t", right="t"), "left and right are both 't'; expected two types\n"
     "hint: rename one of them"),
    (lambda: recipes.equivalence("same as"), "predicate is 'same as'; expected a name of letters, digits and '_'"),
    (lambda: recipes.bio("O"), "labels is 'O'; expected a dict of texts or a list of texts\n"
     "hint: put it in a list: ['O']"),
]


@pytest.mark.parametrize("call, message", WRONG, ids=[message.partition("\n")[0] for _, message in WRONG])
def test_what_cannot_be_right_is_named(call: Callable[[], str], message: str) -> None:
    with pytest.raises(LogicMPError) as error:
        call()
    assert str(error.value) == message


def test_a_deep_hierarchy_needs_no_recursion() -> None:
    edges = [(f"N{k}", f"N{k + 1}") for k in range(3000)]
    assert recipes.hierarchy(edges).count("\n") == 3004


@pytest.mark.parametrize("name", [name for name, value in vars(recipes).items() if inspect.isfunction(value)
                                  and value.__module__ == "logicmp.recipes" and name[0] != "_"])
def test_help_names_every_argument(name: str) -> None:
    function: Any = getattr(recipes, name)
    assert not undocumented(function)
