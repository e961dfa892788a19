"""Learning as a whole: the weights that come out."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor
from worlds import all_assignments, conditional_scores, features, newton, to_facts

from logicmp import Evidence, LogicMPError, Theory, learn, parse_facts, parse_theory
from logicmp.facts.columns import FactTable
from logicmp.learning.minimize import LearningProgress

SMOKERS = parse_theory("""
person = {Anna, Bob}
Smokes(person)
Cancer(person)
Friends(person, person)
Smokes(x) => Cancer(x)
Friends(x, y) ^ Smokes(x) => Smokes(y)
(Smokes(x))
(Friends(x, y))
""")


def sample(theory: Theory, weights: list[float], n: int, seed: int) -> list[Evidence]:
    """Databases drawn from the distribution of Eq. 1 itself, by enumeration of all worlds."""
    worlds = all_assignments(theory)
    scores = torch.stack([features(theory, world) for world in worlds]) @ torch.tensor(weights, dtype=torch.float64)
    chosen = torch.multinomial(scores.softmax(0), n, replacement=True,
                               generator=torch.Generator().manual_seed(seed))
    return [to_facts(theory, worlds[int(k)]) for k in chosen]


def people(n: int, seed: int) -> Evidence:
    """Independent people under 0.8 Smokes, 1.5 Smokes => Cancer, 0.5 Smokes ^ Cancer => Sick."""
    rng = random.Random(seed)
    states = [(s, c, k) for s in (0, 1) for c in (0, 1) for k in (0, 1)]
    weights = [2.718281828 ** (0.8 * s + 1.5 * (c or not s) + 0.5 * (k or not (s and c))) for s, c, k in states]
    lines = ["person = {" + ", ".join(f"P{i}" for i in range(n)) + "}"]
    for i, state in enumerate(rng.choices(states, weights, k=n)):
        lines += [f"{name}(P{i})" for name, holds in zip(("Smokes", "Cancer", "Sick"), state, strict=True) if holds]
    return parse_facts("\n".join(lines), PEOPLE)


PEOPLE = parse_theory("Smokes(person)\nCancer(person)\nSick(person)\n"
                      "(Smokes(x))\nSmokes(x) => Cancer(x)\nSmokes(x) ^ Cancer(x) => Sick(x)")


def test_weights_equal_maximum_pseudo_likelihood_by_enumeration() -> None:
    databases = sample(SMOKERS, [1.2, 0.7, -0.4, 0.3], 12, seed=1)
    n = len(SMOKERS.rules)
    rows: list[tuple[Tensor, int]] = []
    for evidence in databases:
        assignment = dict.fromkeys(all_assignments(SMOKERS)[0], 0)
        for name, table in evidence.tables.items():
            for args in table.args:
                assignment[next(v for v in assignment if v.predicate == name
                                and [SMOKERS.types[0].constants[k] for k in v.args] == list(args))] = 1
        # how much each rule's true groundings change from one value to the other, by one unit weight at a time
        units = [conditional_scores(SMOKERS, assignment, [torch.tensor(float(f == k)) for k in range(n)])
                 for f in range(n)]
        rows += [(torch.stack([unit[variable][1] - unit[variable][0] for unit in units]), value)
                 for variable, value in assignment.items()]
    matrix, signs = torch.stack([row for row, _ in rows]), torch.tensor([2.0 * value - 1 for _, value in rows])
    best = newton(lambda w: torch.nn.functional.softplus(-signs * (matrix @ w)).sum() + w.square().sum() / 2e4, n)
    learned = learn(SMOKERS, databases)
    torch.testing.assert_close(torch.stack(learned.weights), best, atol=1e-3, rtol=0)


@pytest.mark.parametrize("method", ["pseudo-likelihood", "discriminative"])
def test_weights_equal_maximum_likelihood_where_query_atoms_do_not_meet(method: str) -> None:
    """Given Smokes and Friends the Cancer atoms are independent: both methods are exact conditional likelihood."""
    theory = parse_theory(str(SMOKERS.with_constants({})) + "Friends(x, y) ^ Smokes(x) => Cancer(y)")
    theory = Theory(theory.types, theory.predicates, (theory.rules[0], theory.rules[-1]))
    databases = sample(theory, [1.0, -0.5], 20, seed=2)

    def loss(w: Tensor) -> Tensor:
        total = w.square().sum() / (2 * 2.0**2)
        for evidence in databases:
            true = {(name, *args) for name, table in evidence.tables.items() for args in table.args}
            for y in ("Anna", "Bob"):
                # each rule with Cancer(y) as its conclusion is one more true grounding if Cancer(y) is true
                odds = (("Smokes", y) in true) * w[0] + sum(
                    ("Friends", x, y) in true and ("Smokes", x) in true for x in ("Anna", "Bob")) * w[1]
                total = total + torch.nn.functional.softplus(-odds if ("Cancer", y) in true else odds)
        return total

    learned = learn(theory, databases, method, ["Cancer"], prior_std=2.0)
    torch.testing.assert_close(torch.stack(learned.weights), newton(loss, 2), atol=1e-3, rtol=0)


@pytest.mark.parametrize("query", [[], ["Smokes", "Cancer"]])
def test_maximum_likelihood_is_that_of_exact_gradients(query: list[str]) -> None:
    """Newton on the log-likelihood of Eq. 1, by enumeration of all worlds that agree with the given predicates."""
    databases = sample(SMOKERS, [1.2, 0.7, -0.4, 0.3], 12, seed=1)
    worlds = all_assignments(SMOKERS)
    counts = torch.stack([features(SMOKERS, world) for world in worlds])
    texts = [to_facts(SMOKERS, world).tables for world in worlds]
    given = [name for name in ("Smokes", "Cancer", "Friends") if query and name not in query]

    def facts_of(tables: dict[str, FactTable], names: list[str]) -> set[tuple[str, ...]]:
        return {(name, *args) for name in names if name in tables for args in tables[name].args}

    everything = ["Smokes", "Cancer", "Friends"]
    terms = []
    for evidence in databases:
        agree = [k for k, tables in enumerate(texts) if facts_of(tables, given) == facts_of(evidence.tables, given)]
        own = next(k for k in agree if facts_of(texts[k], everything) == facts_of(evidence.tables, everything))
        terms.append((counts[own], counts[agree]))

    def loss(w: Tensor) -> Tensor:
        return sum((torch.logsumexp(among @ w, 0) - own @ w for own, among in terms), w.square().sum() / (2 * 100.0**2))

    learned = learn(SMOKERS, databases, "maximum-likelihood", query)
    torch.testing.assert_close(torch.stack(learned.weights), newton(loss, len(SMOKERS.rules)), atol=1e-3, rtol=0)


def test_maximum_likelihood_rejects_data_that_violate_a_hard_rule() -> None:
    theory = parse_theory("t = {A, B}\nP(t)\nQ(t)\nP(x) => Q(x).\n(P(x))")
    with pytest.raises(LogicMPError, match="the evidence violates this hard rule where x = A"):
        learn(theory, [parse_facts("P(A)", theory)], "maximum-likelihood")


@pytest.mark.parametrize("method", ["pseudo-likelihood", "maximum-likelihood"])
def test_weights_come_back_from_many_small_databases(method: str) -> None:
    true = [1.2, 0.7, -0.4, 0.3]
    learned = learn(SMOKERS, sample(SMOKERS, true, 250, seed=0), method, tolerance=1e-2)
    # two and a half standard errors or more; in the mean over many draws they agree
    assert [float(w) for w in learned.weights] == pytest.approx(true, abs=0.5)


def test_weights_come_back_from_one_large_database() -> None:
    learned = learn(PEOPLE, [people(4000, seed=0)])
    assert [float(w) for w in learned.weights] == pytest.approx([0.8, 1.5, 0.5], abs=0.2)


def test_a_schedule_finds_another_start_and_the_same_weights() -> None:
    world = people(200, seed=0)
    plain, adaptive = (learn(PEOPLE, [world], "discriminative", ["Cancer", "Sick"], schedule=schedule)
                       for schedule in (None, "adaptive"))
    for one, other in zip(plain.weights, adaptive.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-3)
    with pytest.raises(LogicMPError, match="method 'pseudo-likelihood' runs no mean field"):
        learn(PEOPLE, [world], schedule="adaptive")


def test_discriminative_weights_come_back_for_the_query() -> None:
    learned = learn(PEOPLE, [people(4000, seed=0)], "discriminative", ["Cancer", "Sick"], prior_std=100)
    assert [float(w) for w in learned.weights[1:]] == pytest.approx([1.5, 0.5], abs=0.3)


def test_attractive_rule_does_not_run_away_in_mean_field() -> None:
    """From undecided marginals alone mean field stays on the saddle, and the weight grows to what the prior allows."""
    theory = parse_theory("t = {A, B, C, D, E, F}\nP(t)\nP(x) => P(y)")
    learned = learn(theory, [parse_facts("\n".join(f"P({c})" for c in "ABCDEF"), theory)], "discriminative",
                    ["P"])
    assert 0 < float(learned.weights[0]) < 3


# which weights change


def test_fixed_and_hard_rules_keep_their_weights_and_take_part() -> None:
    text = "t = {A, B, C}\nP(t)\nQ(t)\n2 P(x)\nP(x) => Q(x)\n!P(A) v Q(A)."
    facts = parse_facts("P(A)\nQ(A)\nP(B)\nQ(B)\nP(C)", parse_theory(text))
    learned = learn(text, [facts])
    assert [rule.weight for rule in learned.to_theory().rules] == [2, pytest.approx(float(learned.weights[1])), None]
    other = learn(text.replace("2 P(x)", "-2 P(x)"), [facts])
    assert abs(float(other.weights[1] - learned.weights[1])) > 0.1


def test_relearned_rule_starts_from_its_weight() -> None:
    text = "t = {A, B}\nP(t)\n3 P(x)"
    facts = parse_facts("P(A)", parse_theory(text))
    assert float(learn(text, [facts], relearn="all", max_iterations=0).weights[0]) == 3
    assert float(learn(text, [facts], relearn=[3]).weights[0]) == pytest.approx(0, abs=1e-3)


def test_one_weight_per_constant_over_all_databases() -> None:
    theory = parse_theory("Word(text, word)\nTopic(text)\nWord(t, +w) ^ Topic(t) => Topic(t)\nWord(t, +w) => Topic(t)")
    one = parse_facts("Word(T1, Goal)\nTopic(T1)\nWord(T2, Vote)", theory)
    other = parse_facts("Word(T9, Goal)\nTopic(T9)\nWord(T8, Rain)\nWord(T7, Vote)", theory)
    learned = learn(theory, [one, other], query=["Topic"])
    assert learned.shared.type["word"].constants == ("Goal", "Vote", "Rain")
    goal, vote, rain = learned.weights[1].tolist()
    assert goal > 1 and vote < -1 and rain < -1
    assert [str(rule.formula) for rule in learned.rules(1)] == [
        f"Word(t, {word}) => Topic(t)" for word in ("Goal", "Vote", "Rain")]


def test_rule_that_is_never_violated_stays_finite_and_is_noted() -> None:
    theory = parse_theory("t = {A, B}\nP(t)\nQ(t)\nP(x) => Q(x)\n(Q(x))\nP(x) ^ Q(x).")
    learned = learn(theory, [parse_facts("P(A)\nQ(A)", theory)])
    assert 3 < float(learned.weights[0]) < 50
    assert learned.report.notes == (
        "line 4: never violated in the data; only the prior bounds the weight",
        "line 6: the data violates this hard rule (groundings: 1)")


# held-out databases


def test_weights_of_the_best_iteration_on_held_out_data_are_kept() -> None:
    # the held-out world has other proportions than the training world
    theory = parse_theory("t = {A, B, C, D}\nP(t)\nQ(t)\n(P(x))\n(Q(x))")
    train = parse_facts("P(A)\nP(B)\nP(C)\nP(D)\nQ(A)", theory)
    held_out = parse_facts("P(A)\nP(B)\nQ(A)", theory)
    seen: list[LearningProgress] = []
    learned = learn(theory, [train], held_out=[held_out], patience=2, on_iteration=seen.append)
    losses = [i.held_out for i in seen]
    assert learned.report.kept == losses.index(min(losses)) < len(seen) - 1
    assert -learned.report.held_out_after == pytest.approx(min(losses))
    assert learned.report.ended.startswith("stopped early") and learned.report.iterations == learned.report.kept + 2


# errors


@pytest.mark.parametrize("options, message, hint", [
    ({"method": "magic"}, "unknown method 'magic'",
     "available methods: pseudo-likelihood, discriminative, maximum-likelihood"),
    ({"method": "discriminative"}, "method 'discriminative' needs query predicates",
     "query=['Friends'], on the command line -ne Friends; predicates: Smokes, Cancer, Friends"),
    ({"query": ["Smoke"]}, "the query predicate 'Smoke' is not declared", "did you mean 'Smokes'?"),
    ({"semantics": "paper"}, "weights cannot be learned in 'paper' semantics",
     "available semantics: exact, alchemy"),
    ({"databases": []}, "databases is empty", "give at least one database"),
    ({"prior_std": 0}, "prior_std must be above 0, got 0", None),
    ({"patience": 0}, "patience must be at least 1, got 0", None),
    ({"max_iterations": -1}, "max_iterations must be at least 0, got -1", None),
    ({"tolerance": -0.5}, "tolerance must be at least 0, got -0.5", None),
])
def test_wrong_options_are_rejected(options: dict, message: str, hint: str | None) -> None:
    with pytest.raises(LogicMPError) as caught:
        learn(**{"theory": SMOKERS, "databases": [parse_facts("", SMOKERS)], **options})
    assert (caught.value.message, caught.value.hint) == (message, hint)
