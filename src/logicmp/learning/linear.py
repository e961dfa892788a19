"""Pseudo-likelihood over lists of atoms: log-odds as counts times weights, counted once.

Room: execute -> **learning**.  Paper: Eq. 2.

    K(A, B) and K(C, D), both false, each with two groundings of one rule        one row, which counts twice

At marginals equal to the data, the log-odds of an atom given all others are linear in the weights. Atoms with equal
counts and equal truth values have equal terms, so the loss is a sum over distinct rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ..execute.atoms import Part
from ..execute.fused import Fused
from ..execute.rows import Bilinear
from ..facts.supports import distinct
from ..parse.theory import Theory


class LinearOdds:
    """The counts of all atoms of some predicates as one matrix, [distinct rows, rules].

    Args:
        theory: the rules; each has one weight.
        fused: the lists of the rules.
        q: marginals of the data by predicate, flat, zeros and ones.
        truth: by predicate to predict, which atoms are true, flat.
        parts: of predicates whose atoms are divided over processes, those of this one.
    """

    def __init__(self, theory: Theory, fused: Fused, q: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray],
                 parts: Mapping[str, Part]):
        n_rules = len(theory.rules)
        self.shares = fused.shares
        is_first_rank = self.shares.share.rank == 0
        # how often each atom counts in this process
        own = np.concatenate([np.zeros(0), *(np.repeat(parts[name].found.is_own, parts[name].width) if name in parts
                                             else np.full(len(x), is_first_rank) for name, x in truth.items())])
        is_true = np.concatenate([np.zeros(0), *truth.values()])
        # Rows of counts are compared by a number of 64 bits: a million distinct ones have two equal numbers with a
        # probability of 1e-7.
        keys = np.where(is_true > 0, np.uint64(1), np.uint64(0))
        factors = np.random.default_rng(0).integers(1, 2**63, n_rules, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        entries = count_atoms(fused, q, {name: len(x) for name, x in truth.items()})
        for factor, (atoms, counts) in zip(factors, entries, strict=True):
            keys[atoms] += _scrambled(counts.view(np.uint64)) * factor
        known = distinct(keys)
        number = np.searchsorted(known, keys)
        first = np.zeros(len(known), dtype=np.int64)
        first[number] = np.arange(len(keys))
        del keys
        self.n_atoms = torch.from_numpy(np.bincount(number, own, len(first)))
        self.truth = torch.from_numpy(is_true[first].astype(np.float64))
        is_first = np.zeros(len(is_true), dtype=bool)
        is_first[first] = True
        rows, columns, values = [], [], []
        for f, (atoms, counts) in enumerate(entries):
            kept = is_first[atoms]
            rows.append(number[atoms[kept]].astype(np.int32))
            columns.append(np.full(len(rows[-1]), f, dtype=np.int32))
            values.append(counts[kept])
        self.matrix = Bilinear((np.concatenate(rows), np.concatenate(columns)), (len(first), n_rules),
                               np.concatenate(values), torch.device("cpu"))

    def loss(self, weights: Sequence[Tensor]) -> Tensor:
        """Minus the sum over atoms of all processes of the log-probability of what is true."""
        vector = self.shares.copy(torch.stack([w.reshape(()) for w in weights]))
        odds = self.matrix.product(0, vector.unsqueeze(1))[:, 0]
        surprise = torch.nn.functional.softplus(odds) - self.truth * odds
        found: Tensor = self.shares.add_up((self.n_atoms * surprise).sum())
        return found


def count_atoms(fused: Fused, q: Mapping[str, np.ndarray], lengths: Mapping[str, int]
                ) -> list[tuple[np.ndarray, np.ndarray]]:
    """What the log-odds of atoms gain by each rule with the weight 1: for each rule, atoms and numbers that are not 0.

    Args:
        fused: the lists of the rules.
        q: marginals by predicate, flat.
        lengths: the predicates to look at, with the number of their atoms; atoms are numbered in this order.
    """
    starts = dict(zip(lengths, np.cumsum([0, *lengths.values()]).tolist(), strict=False))
    out = {name: np.zeros(n) for name, n in lengths.items()}
    n_rules = len(fused.rows.constants)
    entries = []
    for f, reads in enumerate(_predicates(fused)):
        fused.subtract(out, q, [float(f == k) for k in range(n_rules)], frozenset([f]))
        atoms, counts = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        for name in sorted(reads & out.keys()):
            at = np.flatnonzero(out[name])
            atoms.append(at + starts[name])
            counts.append(out[name][at])
            out[name][at] = 0
        entries.append((np.concatenate(atoms), np.concatenate(counts)))
    return entries


def _predicates(fused: Fused) -> list[set[str]]:
    """The predicates that the lists of each rule read."""
    reads: list[set[str]] = []
    for value in fused.rows.values:
        below = getattr(value, "form", None)
        reads.append({value.predicate} if hasattr(value, "predicate") else
                     set().union(*(reads[o.value] for o in below.operands)) if below is not None else set())
    found: list[set[str]] = [set() for _ in fused.rows.constants]
    for root in fused.rows.roots:
        found[root.rule] |= set().union(*(reads[o.value] for o in root.form.operands))
    return found


def _scrambled(x: np.ndarray) -> np.ndarray:
    """Numbers of 64 bits in which every bit depends on all bits of the given ones (the finalizer of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
