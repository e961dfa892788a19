"""Circuits compared with enumeration: counts, sums, gradients and maxima over the worlds that satisfy the rules."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logicmp import LogicMPError, compile_rules, oracle
from logicmp.constrain.circuit import Circuit
from logicmp.constrain.cnf import as_constraints
from logicmp.execute.inputs import read_inputs
from logicmp.execute.values import read_potentials
from logicmp.testing.random_models import random_model
from logicmp.testing.random_theories import ALL, random_theory

CASES = st.randoms(use_true_random=False)
TRANSITIVITY = "C(a,b) ^ C(b,c) => C(a,c)"
LABELS = "label(token) in {O, B, I}\nlabel(i) in {O} => label(i+1) in {O, B}"


def compiled(theory: object) -> Circuit | None:
    try:
        return compile_rules(theory)
    except LogicMPError:
        return None


@given(CASES)
@settings(max_examples=40, deadline=None)
def test_a_circuit_has_as_many_models_as_enumeration_finds(rng: random.Random) -> None:
    theory = random_theory(rng, max_ground=8, features=ALL - {"negative"})
    circuit = compiled(theory)
    assert (circuit.count_models() if circuit else 0) == oracle.count_models(as_constraints(theory))


@given(CASES)
@settings(max_examples=40, deadline=None)
def test_log_z_equals_enumeration(rng: random.Random) -> None:
    model = random_model(rng, max_ground=8, features=ALL - {"negative"})
    circuit = compiled(model.theory)
    if circuit is None:
        return
    theory = as_constraints(model.theory)
    inputs = read_inputs(theory, model.unary, None, None)
    found = circuit.log_z(read_potentials(circuit.cnf.network, inputs))
    want = oracle.log_partition(theory, model.unary) - oracle.log_partition(
        type(theory)(theory.types, theory.predicates), model.unary)
    assert float(found) == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("text, sizes", [(TRANSITIVITY, {"thing": 3}), (LABELS, {"token": 4}), ("A v B\nA v D", {})])
def test_gradients_of_log_z_are_those_of_finite_differences(text: str, sizes: dict[str, int]) -> None:
    circuit = compile_rules(text, sizes)
    potentials = torch.randn(2, len(circuit.cnf.network.potentials), dtype=torch.float64,
                             generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(circuit.log_z, potentials)
    assert torch.autograd.gradcheck(circuit.marginals, potentials)


def test_a_certain_value_has_a_finite_gradient() -> None:
    circuit = compile_rules(LABELS, {"token": 2})
    potentials = torch.zeros(1, 6, dtype=torch.float64)
    potentials[0, 1:3] = -torch.inf
    potentials.requires_grad_()
    circuit.log_z(potentials).sum().backward()
    # the first token is O, so the second is O or B
    torch.testing.assert_close(potentials.grad, torch.tensor([[1, 0, 0, 0.5, 0.5, 0]], dtype=torch.float64))


def test_log_z_is_minus_infinity_where_evidence_leaves_no_world() -> None:
    circuit = compile_rules("A => B")
    potentials = torch.tensor([[-torch.inf, 0, 0, -torch.inf]])
    assert float(circuit.log_z(potentials)) == -torch.inf
    assert float(circuit.best(potentials)[1]) == -torch.inf


@pytest.mark.parametrize("text, sizes", [(TRANSITIVITY, {"thing": 3}), (LABELS, {"token": 4})])
def test_no_world_that_satisfies_the_rules_has_more_weight_than_the_best(text: str, sizes: dict[str, int]) -> None:
    circuit = compile_rules(text, sizes)
    network = circuit.cnf.network
    potentials = torch.randn(5, len(network.potentials), generator=torch.Generator().manual_seed(1))
    values, weight = circuit.best(potentials)
    chosen = potentials.gather(1, torch.from_numpy(network.starts[:-1]) + values)
    torch.testing.assert_close(chosen.sum(1), weight)
    # at a low temperature the sum is the maximum
    torch.testing.assert_close(circuit.log_z(1000 * potentials.double()) / 1000, weight.double(), atol=1e-2, rtol=0)


def test_the_best_of_worlds_of_equal_weight_satisfies_the_rules() -> None:
    circuit = compile_rules(TRANSITIVITY, {"thing": 3})
    values, weight = circuit.best(torch.zeros(1, 18))
    truth = values[0].reshape(3, 3).bool()
    assert float(weight) == 0 and not bool((((truth.int() @ truth.int()) > 0) & ~truth).any())
