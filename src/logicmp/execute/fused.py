"""Messages of a plan of rows without gradients: every list adds to the new logits in place.

Room: plan -> **execute** -> layer.  Paper: Eq. 2, 4-5.

    58 million rows over 44 million atoms: one array of logits is made per iteration, and no array per rule

`SparseExecutor` uses it for one item on the CPU where numba is installed. It needs neither matrices nor copies of the
columns: the plan's own columns are read.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from importlib.util import find_spec

import numpy as np
from torch import Tensor

from ..ground.engine import ALONE, Shares
from ..parse.theory import Theory
from ..plan.forms import Form, Made, Operand, ReadAll, RowPlan
from .atoms import Part

Arrays = dict[Operand, np.ndarray]
NONE = np.ones(0)


def can_fuse(rows: RowPlan, theory: Theory) -> bool:
    """Whether all values of a plan are marginals without labels, or sums over rows, and the loops are installed."""
    return find_spec("numba") is not None and all(
        isinstance(v, Made) or (isinstance(v, ReadAll) and v.labels is None and not _is_symmetric(v, theory))
        for v in rows.values)


def is_thin(rows: RowPlan, lengths: Sequence[int], shares: Shares, are_shared: bool) -> bool:
    """Whether lists have fewer rows than their operands have values: then arrays for each list cost more than it.

    Args:
        lengths: the number of values of each operand.
        shares: the processes, all of which must choose alike: the rows of all of them count.
        are_shared: whether values are divided over the processes, too.
    """
    read = sum(lengths[o.value] for root in rows.roots for o in root.form.operands)
    n_rows, n_read = shares.total(np.array([rows.n_rows, read])).tolist()
    return bool(0 < n_rows < (n_read if are_shared else read))


def _is_symmetric(value: ReadAll, theory: Theory) -> bool:
    # an observed sparse predicate is not in the flat theory, and not read
    return theory.predicate[value.predicate].symmetric


class Fused:
    """The lists of a plan as its own columns.

    Args:
        rows: a plan for which `can_fuse` holds.
        shares: the processes that have the other rows.
        parts: the places of this process, by predicate or number of a value; of others it has all.
    """

    def __init__(self, rows: RowPlan, shares: Shares | None = None, parts: Mapping[Hashable, Part] | None = None):
        self.rows, self.shares, self.parts = rows, shares or ALONE, parts or {}

    def _total(self, key: Hashable, x: np.ndarray) -> np.ndarray:
        """The sum over all processes of what each adds to a value."""
        found: np.ndarray = self.parts[key].add_flat(x) if key in self.parts else self.shares.total(x)
        return found

    def subtract(self, logits: Mapping[str, np.ndarray], q: Mapping[str, np.ndarray], weights: Sequence[float],
                 rules: frozenset[int] | None = None) -> None:
        """Subtract the weighted derivatives of all violation counts from logits, in place.

        Args:
            logits: by unobserved predicate, flat, float64.
            q: the marginals of all predicates that the plan reads, flat, float64.
            weights: one for each rule.
            rules: only these; None for all.
        """
        roots = [root for root in self.rows.roots if rules is None or root.rule in rules]
        x = self._values(q, None if rules is None else {o.value for root in roots for o in root.form.operands})
        out: Arrays = {}
        into = logits
        if self.shares.share.size > 1:
            # of this process, and then of all; a shared atom has its logit where it is owned
            logits = {name: self.parts[name].keep_owned(array) if name in self.parts else np.zeros(len(array))
                      for name, array in into.items()}
        for root in roots:
            self._add(root.form, -root.coefficient * weights[root.rule], x, out, logits)
        for k in range(len(self.rows.values) - 1, -1, -1):
            value, own = self.rows.values[k], Operand(k)
            if Operand(k, True) in out:
                # the derivative by 1 - x
                self._out(own, x, out, logits)[...] -= out.pop(Operand(k, True))
            if isinstance(value, Made) and self.rows.live[k] and own in out:
                self._pull_back(value, self._total(k, out.pop(own)), x, out, logits)
        if logits is not into:
            for name, array in into.items():
                if name in self.parts:
                    self._total(name, array)
                else:
                    array += self._total(name, logits[name])

    def counts(self, q: Mapping[str, np.ndarray]) -> np.ndarray:
        """The expected violations of each rule, without the terms that have no sparse literal."""
        from .fused_loops import sum_products

        x = self._values(q, None)
        found = np.array(self.rows.constants, dtype=np.float64)
        for root in self.rows.roots:
            xs = tuple(self._read(o, x) for o in root.form.operands)
            found[root.rule] += root.coefficient * sum_products(_factors(root.form), _columns(root.form), xs)
        # all processes have the constants
        return np.asarray(self.shares.total(found - self.rows.constants) + self.rows.constants)

    # up

    def _values(self, q: Mapping[str, np.ndarray], wanted: set[int] | None) -> Arrays:
        """The values of the plan; only those that some values are made of, if given."""
        from .fused_loops import add_products, spread

        needed = wanted
        if needed is not None:
            for k in range(len(self.rows.values) - 1, -1, -1):
                value = self.rows.values[k]
                if k in needed and isinstance(value, Made):
                    needed |= {o.value for o in value.form.operands}
        found: Arrays = {}
        for k, value in enumerate(self.rows.values):
            if needed is not None and k not in needed:
                continue
            if isinstance(value, ReadAll):
                found[Operand(k)] = q[value.predicate]
                continue
            assert isinstance(value, Made)
            made = found[Operand(k)] = np.zeros(value.n_places)
            form = value.form
            xs = tuple(self._read(o, found) for o in form.operands)
            if len(xs) == 1:
                spread(_factors(form), form.columns[0], xs[0], value.output, made)
            else:
                add_products(_factors(form), _columns(form), xs, value.output, made)
            found[Operand(k)] = self._total(k, made)
        return found

    def _read(self, operand: Operand, x: Arrays) -> np.ndarray:
        if operand.negated and operand not in x:
            x[operand] = 1 - x[Operand(operand.value)]
        return x[operand]

    # down

    def _out(self, operand: Operand, x: Arrays, out: Arrays, logits: Mapping[str, np.ndarray]) -> np.ndarray:
        """The array that an operand's derivative is added to."""
        value = self.rows.values[operand.value]
        if isinstance(value, ReadAll) and not operand.negated and value.predicate in logits:
            return logits[value.predicate]
        if operand not in out:
            out[operand] = np.zeros(len(x[Operand(operand.value)]))
        return out[operand]

    def _add(self, form: Form, scale: float, x: Arrays, out: Arrays, logits: Mapping[str, np.ndarray]) -> None:
        from .fused_loops import add_many, add_one, add_three, add_two

        if not any(self.rows.live[o.value] for o in form.operands):
            return
        columns = _columns(form)
        xs = tuple(self._read(o, x) for o in form.operands)
        outs = tuple(self._out(o, x, out, logits) for o in form.operands)
        if len(xs) == 1:
            add_one(scale, _factors(form), *columns, *outs)
        elif len(xs) <= 3:
            (add_two if len(xs) == 2 else add_three)(scale, _factors(form), *columns, *xs, *outs)
        else:
            add_many(scale, _factors(form), columns, xs, outs)

    def _pull_back(self, made: Made, adjoint: np.ndarray, x: Arrays, out: Arrays,
                   logits: Mapping[str, np.ndarray]) -> None:
        """Add the derivative by a sum over rows to what it is a sum of."""
        from .fused_loops import add_many, spread

        form = made.form
        outs = tuple(self._out(o, x, out, logits) for o in form.operands)
        if len(outs) == 1:
            spread(_factors(form), made.output, adjoint, form.columns[0], outs[0])
            return
        xs = tuple(self._read(o, x) for o in form.operands)
        # the output is one more operand, whose own derivative is not needed
        add_many(1.0, _factors(form), (made.output, *form.columns), (adjoint, *xs), (np.zeros(len(adjoint)), *outs))


def _columns(form: Form) -> tuple[np.ndarray, ...]:
    return tuple(np.ascontiguousarray(c) for c in form.columns)


def _factors(form: Form) -> np.ndarray:
    return NONE if form.factors is None else form.factors


def flat(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Tensors with one item as flat arrays that share their memory, if they are float64 and contiguous."""
    return {name: x.double().reshape(-1).numpy() for name, x in tensors.items()}
