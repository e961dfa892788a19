"""Speed of the compiled loops and of the samplers: flips and draws per second, seconds to 1,000 effective samples.

    python -m benchmarks sampling                      # 10,000 and 100,000 variables
    walksat, random 3-SAT, 10,000 variables            1.4e+06 flips/s
    walksat, smokers, 10,000 variables                 1.9e+06 flips/s
    gibbs, smokers, 10,000 variables                   1.8e+07 draws/s
    mc-sat, smokers, 10,000 variables                  4.1e+06 draws/s
    mc-sat, S(x) v T(x)                                0.3 s to 1,000 effective samples of each atom
    python -m benchmarks sampling --data DIR           # also the published models with exact answers

The target is 10^6 per second at 10,000 variables. WalkSAT reads the ground network in random order. At 100,000
variables the ground network exceeds the processor's cache and memory limits the speed, so there is no target. The
ground networks are built as arrays, which is faster than reading them from files. The models of 1,000 atoms have one
rule of weight 1; the target is 5 s with mc-sat. The target of all published models together is 10 s for each sampler,
with errors of at most 0.02 for mc-sat and 0.01 for gibbs. Compiling the loops, once per installation, is not counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from logicmp import infer, parse_facts, parse_theory
from logicmp.facts.world import build_world
from logicmp.ground.build import build_network
from logicmp.ground.network import HARD, Network
from logicmp.inference.moves.arrays import build_arrays
from logicmp.inference.sampling.blocks import build_blocks
from logicmp.inference.sampling.chains import new_tally
from logicmp.inference.sampling.fields import prepare
from logicmp.inference.sampling.mcsat import MAX_STATES
from logicmp.inference.search.walksat import max_walksat
from logicmp.limits import Limits, silent

from .methods import find_published, run_method

TARGET = 1e6
# the target applies up to this many variables
TARGET_SIZE = 10_000
# clauses per variable: so hard that the search does not end early, but not hopeless
RATIO = 4.2


def network_of(n_variables: int, features: list[np.ndarray], sets: list[np.ndarray], param: np.ndarray,
               weights: np.ndarray) -> Network:
    """A ground network of binary variables, from [features, literals] arrays of variables and sets."""
    empty = build_network(build_world(parse_facts("", parse_theory("p = {A}\nS(p)\n0 S(x)"))))
    lengths = np.concatenate([np.full(len(rows), rows.shape[1]) for rows in features])
    return replace(
        empty, cards=np.full(n_variables, 2, dtype=np.int64), potentials=np.zeros(2 * n_variables), n_own=n_variables,
        begins=np.concatenate([[0], np.cumsum(lengths)]), var=np.concatenate([rows.reshape(-1) for rows in features]),
        set=np.concatenate([rows.reshape(-1) for rows in sets]), param=param, share=np.ones(len(param)),
        rule=np.zeros(len(param), dtype=np.int64), weights=weights, offsets=np.array([0, len(weights)]),
        base=np.zeros(len(weights)), defines=np.full(len(param), -1))


def random_3sat(n: int, seed: int = 0) -> Network:
    """Random clauses of three literals, all hard."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.integers(0, n, (int(RATIO * n), 3)), 1)
    rows = rows[(np.diff(rows, axis=1) > 0).all(1)]
    return network_of(n, [rows], [rng.integers(0, 2, rows.shape)], np.full(len(rows), HARD), np.zeros(1))


def smokers(n: int, seed: int = 0) -> Network:
    """A ground network of n/2 people with five friends each, and soft evidence on all atoms.

    Smokes(x) => Cancer(x), Friends(x,y) ^ Smokes(x) => Smokes(y), !Smokes(x).
    """
    rng = np.random.default_rng(seed)
    people = n // 2
    x = np.arange(people)
    pairs = np.stack([np.repeat(x, 5), (np.repeat(x, 5) + rng.integers(1, 100, 5 * people)) % people], 1)
    features = [np.stack([x, x + people], 1), pairs, x[:, None]]
    sets = [np.tile([0, 1], (people, 1)), np.tile([0, 1], (len(pairs), 1)), np.zeros((people, 1), dtype=np.int64)]
    param = np.repeat([0, 1, 2], [people, len(pairs), people])
    found = network_of(n, features, sets, param, np.array([1.5, 0.4, 0.5]))
    return replace(found, potentials=rng.normal(size=2 * n))


def flips_per_second(n: int, build: Callable[[int], Network] = random_3sat, flips: int = 1_000_000) -> float:
    """WalkSAT flips per second."""
    arrays = build_arrays(build(n), unary_features=True)
    rng = np.random.default_rng(0)
    max_walksat(arrays, rng, 1000, 1, 0.5, Limits(), silent)
    walk = max_walksat(arrays, rng, flips, 1, 0.5, Limits(), silent)
    return walk.flips / walk.seconds


def draws_per_second(n: int, method: str, sweeps: int = 20) -> float:
    """Variables drawn per second by one chain of a sampler, in the ground network of `smokers`."""
    from logicmp.inference.sampling import gibbs_loops, mcsat_loops

    prepared, rng = prepare(smokers(n), tables=method == "mc-sat"), np.random.default_rng(0)
    world, tally = prepared.start([rng], 1000, Limits())[0], new_tally(prepared)
    blocks, room, work = build_blocks(prepared, 5.0, 4096), np.zeros(2), mcsat_loops.new_slice(prepared)

    def run(n_sweeps: int) -> None:
        if method == "gibbs":
            gibbs_loops.sweep(prepared.fields, world, blocks, room, tally, n_sweeps, rng)
        else:
            mcsat_loops.sample(prepared.fields, world, work, tally, MAX_STATES, n_sweeps, rng)

    run(1)
    start = time.perf_counter()
    run(sweeps)
    return sweeps * n / (time.perf_counter() - start)


# one rule each, and how many constants give about 1,000 atoms
RULES = {"S(x) v T(x)": ("S(p)\nT(p)", 500), "F(x,y) => F(y,x)": ("F(p, p)", 32),
         "S(x) v T(x) v R(x)": ("S(p)\nT(p)\nR(p)", 333), "S(x) ^ F(x,y) => S(y)": ("S(p)\nF(p, p)", 31),
         "F(x,y) ^ F(y,z) => F(x,z)": ("F(p, p)", 32)}
SECONDS_TARGET, PUBLISHED_TARGET = 5.0, 10.0


def seconds_to_accuracy(rule: str, method: str, effective: int = 1000) -> tuple[float, str]:
    """Seconds until every atom has this many effective samples, and why the run stopped."""
    declared, n = RULES[rule]
    theory = f"p = {{{', '.join(f'P{i}' for i in range(n))}}}\n{declared}\n1 {rule}"
    # compile
    infer(theory, method=method, samples=1, chains=1)
    start = time.perf_counter()
    found = infer(theory, method=method, effective=effective, max_seconds=60)
    return time.perf_counter() - start, found.status


def published(data: Path) -> list[tuple[str, float, float, float]]:
    """By sampler: seconds for all published models, the largest error, and its target."""
    cases, found = find_published(data), []
    for method, target in (("mc-sat", 0.02), ("gibbs", 0.01)):
        outcomes = [run_method(case, method) for case in cases]
        found.append((method, sum(outcome.seconds for outcome in outcomes),
                      max(outcome.worst for outcome in outcomes), target))
    return found


CASES: dict[str, tuple[Callable[[int], float], str]] = {
    "walksat, random 3-SAT": (flips_per_second, "flips/s"),
    "walksat, smokers": (partial(flips_per_second, build=smokers), "flips/s"),
    "gibbs, smokers": (partial(draws_per_second, method="gibbs"), "draws/s"),
    "mc-sat, smokers": (partial(draws_per_second, method="mc-sat"), "draws/s"),
}


def measure(n: int, repeats: int = 5) -> dict[str, float]:
    """The median speed of each case, with `n` variables."""
    return {name: float(np.median([run(n) for _ in range(repeats)])) for name, (run, _) in CASES.items()}


def main(arguments: list[str]) -> int:
    """Print the tables; return 1 if a case misses its target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sampling")
    parser.add_argument("sizes", type=int, nargs="*", default=[10_000, 100_000], metavar="N")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the published models")
    chosen, is_slow = parser.parse_args(arguments), False
    for n in chosen.sizes:
        for name, speed in measure(n).items():
            print(f"{f'{name}, {n:,} variables':50} {speed:.1e} {CASES[name][1]}", flush=True)
            is_slow |= speed < TARGET and n <= TARGET_SIZE
    for rule in RULES:
        for method in ("mc-sat", "gibbs"):
            seconds, status = seconds_to_accuracy(rule, method)
            print(f"{f'{method}, {rule}':50} {seconds:.1f} s to 1,000 effective samples of each atom"
                  f"{'' if status == 'converged' else f', stopped: {status}'}", flush=True)
            is_slow |= method == "mc-sat" and seconds > SECONDS_TARGET
    for method, seconds, error, target in published(chosen.data) if chosen.data else ():
        print(f"{f'{method}, published models':50} {seconds:.1f} s, errors up to {error:.4f} (target {target})")
        is_slow |= seconds > PUBLISHED_TARGET or error > target
    return int(is_slow)
