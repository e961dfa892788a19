"""Run a plan of rows: marginals of dense and sparse predicates in, messages and violation counts out.

Room: plan -> **execute** -> layer.  Paper: Eq. 4-5.

    F(x,y) S(x) !S(y)      F observed: a sparse matrix; messages are its products with S and with 1 - S
    C(a,b) C(b,c) C(a,c)   one list of triangles; all three messages in one pass

Terms without sparse literals run as dense tensors. A sparse predicate is one vector of values, [batch, rows], so the
loop and the marginals need not know of it. Here every value is [places, items], one item if all of a batch share it:
a list serves all items, and what they read at a place lies together. Sums are float64, whatever the precision of the
marginals.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from functools import cached_property

import torch
from torch import Tensor

from ..facts.supports import Support, flat_theory, rows_type, values_type
from ..ground.engine import ALONE, Grounding, Shares
from ..normalize.build import normalize_theory
from ..normalize.cubes import NormalForm
from ..parse.theory import Theory
from ..plan.build import MAX_ELEMENTS, build_plan
from ..plan.eliminate import MAX_ROWS, build_rows
from ..plan.forms import Form, Grouped, Made, Operand, Present, ReadAll, Root, RowPlan, WeightsOf
from .atoms import Part, divide_atoms
from .fused import Fused, can_fuse, flat, is_thin
from .matrix_terms import LabelBlock, MatrixTerms, stack_items
from .plans import make_executor
from .recompute import Replay
from .rows import Bilinear, Groups, Rows, make_rows
from .state import Call, Values, is_tracing

# a value of the rows, beside the values of the dense plan
_ROW = "row"
# of each sparse matrix, what depends on weights only
_MIX, _ONES = "mix of rows", "ones of rows"


def build_sparse_executor(theory: Theory, sizes: Mapping[str, int], supports: Mapping[str, Support],
                          observed: Collection[str] = (), semantics: str = "exact", max_rows: int = MAX_ROWS,
                          max_elements: int = MAX_ELEMENTS, device: torch.device | None = None,
                          masked: Collection[str] = (), grounding: Grounding | None = None) -> SparseExecutor:
    """Normalize and plan a theory; arguments as for `plan_sparse_executor`.

    Args:
        theory: the rules.
        semantics: "exact", "paper" or "alchemy".
    """
    return plan_sparse_executor(normalize_theory(theory, semantics, sizes), sizes, supports, observed, max_rows,
                                max_elements, device, masked, grounding)


def plan_sparse_executor(form: NormalForm, sizes: Mapping[str, int], supports: Mapping[str, Support],
                         observed: Collection[str] = (), max_rows: int = MAX_ROWS, max_elements: int = MAX_ELEMENTS,
                         device: torch.device | None = None, masked: Collection[str] = (),
                         grounding: Grounding | None = None) -> SparseExecutor:
    """Plan a theory for given sizes, sparse predicates and observed predicates.

    Args:
        form: the rules.
        sizes: the number of constants of each type.
        supports: the sparse predicates.
        observed: predicates that are evidence as a whole; every row of a sparse one is true.
        max_rows: reject a rule that needs a list with more rows.
        max_elements: as for `build_plan`.
        device: of the tensors.
        masked: types of which some entities may be missing; a call has masks for them.
        grounding: how rows are made, and which of them this process has; by default all, by the built-in join.
    """
    grounding, device = grounding or Grounding(), device or torch.device("cpu")
    shares = grounding.shares
    is_divided = shares.share.size > 1
    # where atoms are divided, terms without sparse literals are lists, too: dense ones need whole predicates
    plan = build_rows(form, sizes, supports, observed, max_rows, masked, grounding, lists_short=is_divided)
    if not is_divided:
        return SparseExecutor(plan, form.theory, sizes, supports, observed, max_elements, device)
    open_ones = {name: support for name, support in supports.items() if name not in set(observed)}
    flat = flat_theory(form.theory, supports, [name for name in supports if name not in open_ones])
    parts, flat = divide_atoms(plan, flat, sizes, open_ones, shares, device)
    own = {rows_type(name): len(part) for name, part in parts.items() if isinstance(name, str)}
    own |= {values_type(name): s.width for name, s in open_ones.items() if s.lists_values}
    return SparseExecutor(plan, flat, {**sizes, **own}, {}, observed, max_elements, device, shares, parts)


class SparseExecutor:
    """A plan of rows, ready to run; what has no sparse literal runs in a dense executor."""

    def __init__(self, rows: RowPlan, theory: Theory, sizes: Mapping[str, int], supports: Mapping[str, Support],
                 observed: Collection[str], max_elements: int, device: torch.device, shares: Shares | None = None,
                 parts: Mapping[Hashable, Part] | None = None):
        self.rows = rows
        # of the rows; all processes have all values, but for those with parts, of which they have some
        self.shares, self.parts = shares or ALONE, parts or {}
        # without the types of rows
        plain = {t.name: sizes[t.name] for t in rows.dense.theory.types}
        self.dense = make_executor(build_plan(rows.dense, plain, observed, max_elements), rows.dense, theory, observed,
                                   max_elements)
        self.plan = self.dense.plan
        self.device = device
        self.observed = frozenset(observed)
        self.theory = flat_theory(theory, supports, [name for name in supports if name in set(observed)])
        self._lengths = [self._length(k, sizes, supports, theory) for k in range(len(rows.values))]
        self._lists: dict[Hashable, Rows] = {}
        self._groups = {k: Groups(v.output, v.n_places, device) for k, v in enumerate(rows.values)
                        if isinstance(v, Grouped)}
        is_plain = device.type == "cpu" and not any(rule.n_weight_axes for rule in self.plan.rules)
        # all lists as the plan's own columns, if they can run in place; used if that is faster
        self.columns = Fused(rows, self.shares, self.parts) if is_plain and can_fuse(rows, self.theory) else None
        self.fused = self.columns if is_thin(rows, self._lengths, self.shares, bool(self.parts)) else None
        # by predicate with labels, the sets of them that are read
        self._labels: dict[str, LabelBlock] = {}
        for p in theory.predicates:
            reads = [(k, v.labels) for k, v in enumerate(rows.values)
                     if isinstance(v, ReadAll) and v.predicate == p.name and v.labels is not None]
            if p.labels is not None and reads:
                self._labels[p.name] = LabelBlock(len(self._labels), reads, len(p.labels), device)
        self._outputs = {k: torch.from_numpy(v.output.copy()).to(device) for k, v in enumerate(rows.values)
                         if isinstance(v, Grouped)}

    # lists; made when first used, which a fused run never does

    @cached_property
    def _roots(self) -> list[tuple[Root, Rows]]:
        # a first call in inference mode must leave nothing that training cannot use
        with torch.inference_mode(False):
            return [(root, self._list(root.form)) for root in self.rows.roots]

    @cached_property
    def _made(self) -> dict[int, Rows]:
        with torch.inference_mode(False):
            return {k: self._made_list(v) for k, v in enumerate(self.rows.values) if isinstance(v, Made)}

    @cached_property
    def _batches(self) -> list[MatrixTerms]:
        with torch.inference_mode(False):
            return self._find_batches()

    @cached_property
    def _reads_sets(self) -> bool:
        """Whether some form reads a set of labels by itself."""
        alone = [*(v.form for v in self.rows.values if isinstance(v, Made)),
                 *(root.form for root, found in self._roots if not self._is_batched(root, found))]
        return any(o.value in block.numbers for form in alone for o in form.operands for block in self._labels.values())

    def _length(self, k: int, sizes: Mapping[str, int], supports: Mapping[str, Support], theory: Theory) -> int:
        value = self.rows.values[k]
        if isinstance(value, (Made, Grouped)):
            return value.n_places
        if isinstance(value, Present):
            return sizes[value.type]
        if isinstance(value, WeightsOf):
            rule = theory.rules[value.rule]
            types = [rule.variables[name] for name in rule.per_constant]
        elif value.predicate in supports:
            return supports[value.predicate].n_values
        else:
            types = list(theory.predicate[value.predicate].types)
        return int(torch.Size([sizes[t] for t in types]).numel())

    def _list(self, form: Form) -> Rows:
        lengths = tuple(self._lengths[o.value] for o in form.operands)
        # equal rows can be read with other values, such as the labels of one predicate
        key = (form.key, lengths)
        if key not in self._lists:
            self._lists[key] = make_rows(form.columns, lengths, form.factors, self.device)
        return self._lists[key]

    def _made_list(self, made: Made) -> Rows:
        """The form with its output as one more operand: the value is the derivative by it."""
        lengths = [made.n_places, *(self._lengths[o.value] for o in made.form.operands)]
        return make_rows([made.output, *made.form.columns], lengths, made.form.factors, self.device)

    def _find_batches(self) -> list[MatrixTerms]:
        """The terms of each sparse matrix, in both directions: rules alike are one product of matrices."""
        terms: dict[tuple[int, int], list[tuple[Root, Bilinear]]] = {}
        for root, rows in self._roots:
            if self._is_batched(root, rows):
                assert isinstance(rows, Bilinear)
                for k, operand in enumerate(root.form.operands):
                    if self.rows.live[operand.value]:
                        terms.setdefault((id(rows), k), []).append((root, rows))
        blocks = list(self._labels.values())
        return [MatrixTerms(found[0][1], k, [root for root, _ in found], blocks, self.device)
                for (_, k), found in terms.items()]

    def _is_batched(self, root: Root, rows: Rows) -> bool:
        return isinstance(rows, Bilinear) and not self.plan.rules[root.rule].n_weight_axes

    # running

    def constants(self, call: Call) -> Values:
        """The values that depend only on evidence and weights: once per call, not once per iteration."""
        values = self.dense.constants(call)
        if self.fused is not None and self._runs_fused(call):
            return values
        found = self._values({}, call, {}, only_constant=True)
        values |= {(_ROW, k): x for k, x in found.items()}
        if self._batches:
            # a rule with one weight per constant has no terms here
            plain = [w if rule.n_weight_axes == 0 else w.new_zeros(()) for w, rule in
                     zip(call.weights, self.plan.rules, strict=True)]
            # [items or 1, rules]
            weights = self.shares.copy(stack_items([w.to(torch.float64).reshape(1, -1) for w in plain])[0])
            for k, batch in enumerate(self._batches):
                values[_MIX, k], values[_ONES, k] = batch.mix(weights)
        return values

    def messages(self, q: Mapping[str, Tensor], call: Call, constants: Values) -> dict[str, Tensor]:
        """The weighted derivatives of all violation counts: d(sum of w V)/dq, for every predicate of `q`."""
        zeros = {name: torch.zeros_like(x) for name, x in q.items()}
        return {name: -update for name, update in self.subtract_messages(zeros, q, call, constants).items()}

    def subtract_messages(self, base: Mapping[str, Tensor], q: Mapping[str, Tensor], call: Call, constants: Values,
                          replay: Replay | None = None) -> dict[str, Tensor]:
        """Eq. 2 without the normalization: base - d(sum of w V)/dq, for every predicate of `base`."""
        found = self.dense.subtract_messages(base, q, call, constants, replay)
        if self.fused is not None and self._runs_fused(call):
            new = {name: x.to(torch.float64, copy=x is base[name]).contiguous() for name, x in found.items()}
            self.fused.subtract(flat(new), flat({**call.observed, **q}), [float(w) for w in call.weights])
            return {name: x.to(found[name].dtype) for name, x in new.items()}
        known = {key[1]: x for key, x in constants.items() if isinstance(key, tuple) and key[0] == _ROW}
        for name, message in self._messages(self._values(q, call, known, with_sets=self._reads_sets), call, q,
                                            constants).items():
            shape = found[name].shape
            message = self._add_up(name, message)
            total = message.to(found[name].dtype).expand(shape[0], *message.shape[1:]).reshape(shape)
            if replay is not None:
                replay.updates.setdefault(name, []).append((total.detach(), None))
            found[name] = found[name] - total
        return found

    def _add_up(self, key: Hashable, x: Tensor) -> Tensor:
        """The sum over all processes of what each adds to a value: of a predicate [items, places], else [places]."""
        part = self.parts.get(key)
        found: Tensor = self.shares.add_up(x) if part is None else part.add_up(x, int(isinstance(key, str)))
        return found

    def _copy(self, key: Hashable, x: Tensor) -> Tensor:
        """A value for use with the rows of this process."""
        part = self.parts.get(key)
        found: Tensor = self.shares.copy(x) if part is None else part.copy(x, int(isinstance(key, str)))
        return found

    def _runs_fused(self, call: Call) -> bool:
        return call.like.shape[0] == 1 and not torch.is_grad_enabled() and not is_tracing()

    def counts(self, q: Mapping[str, Tensor], call: Call, weighted: bool = False) -> Tensor:
        """The expected violations of each rule, [batch, rules]; weighted, times the rule's weight."""
        if self.fused is not None and self._runs_fused(call):
            found = torch.from_numpy(self.fused.counts(flat({**call.observed, **q})))
            if weighted:
                found = found * torch.stack([w.to(torch.float64).reshape(()) for w in call.weights])
            dense = self.dense.counts(q, call, weighted)
            return dense + found.to(dense.dtype)
        values = self._values(q, call, {}, with_weights=weighted)
        products: dict[Hashable, Tensor] = {}
        n_items = call.like.shape[0]
        # all processes have the constants: one of them counts
        is_first = self.shares.share.rank == 0
        totals = [call.like.new_full((n_items,), is_first * constant, dtype=torch.float64)
                  for constant in self.rows.constants]
        for root, rows in self._roots:
            first = self._operand(root.form.operands[0], values)
            slope = self._derivatives(root.form, rows, values, (0,), products)[0]
            totals[root.rule] = totals[root.rule] + root.coefficient * (first * slope).sum(0)
        if weighted:
            totals = [total if self.plan.rules[f].n_weight_axes else total * self._weight(f, call)
                      for f, total in enumerate(totals)]
        dense = self.dense.counts(q, call, weighted)
        if not totals:
            return dense
        whole: Tensor = self.shares.add_up(torch.stack(totals, -1))
        return dense + whole.to(dense.dtype)

    def weighted_groundings(self, call: Call) -> Tensor:
        """The groundings of each rule times their weights, [batch, rules]: its score if none is violated."""
        return self.dense.weighted_groundings(call)

    def _weight(self, f: int, call: Call) -> Tensor:
        """[1], or one for each item."""
        found: Tensor = self.shares.copy(call.weights[f].to(torch.float64).reshape(-1))
        return found

    # up

    def _values(self, q: Mapping[str, Tensor], call: Call, known: Mapping[int, Tensor], with_weights: bool = True,
                only_constant: bool = False, with_sets: bool = True) -> dict[int, Tensor]:
        """The values of the plan, [places, items or 1] in float64; of labels with sets, or all labels only."""
        values = dict(known)
        for k, value in enumerate(self.rows.values):
            if k in values or (only_constant and self.rows.live[k]):
                continue
            if isinstance(value, ReadAll):
                if value.labels is None or self._labels[value.predicate].key not in values:
                    self._read(k, value, q, call, values, with_sets)
            elif isinstance(value, WeightsOf):
                weights = self.shares.copy(call.weights[value.rule].to(torch.float64).flatten(1).mT)
                values[k] = weights if with_weights else torch.ones_like(weights)
            elif isinstance(value, Present):
                values[k] = call.masks[value.type].to(torch.float64).mT.contiguous()
            elif isinstance(value, Made):
                xs = [self._operand(o, values) for o in value.form.operands]
                output = torch.zeros(value.n_places, 1, dtype=torch.float64, device=self.device)
                values[k] = self._copy(k, self._add_up(k, self._made[k].derivatives([output, *xs], (0,))[0]))
            else:
                product = self._groups[k].products(self._inside(value, values))
                values[k] = product - 1 if value.minus_one else product
        return values

    def _read(self, k: int, value: ReadAll, q: Mapping[str, Tensor], call: Call, values: dict[int, Tensor],
              with_sets: bool) -> None:
        """Read a predicate; of one with labels, all sets of them at once."""
        x = (q[value.predicate] if value.predicate in q else call.observed[value.predicate]).to(torch.float64)
        x = self._copy(value.predicate, x)
        if value.labels is None:
            values[k] = x.reshape(len(x), -1).mT.contiguous()
            return
        values.update(self._labels[value.predicate].read(x, with_sets))

    def _operand(self, operand: Operand, values: Mapping[int, Tensor]) -> Tensor:
        x = values[operand.value]
        return 1 - x if operand.negated else x

    def _operands(self, form: Form, values: Mapping[int, Tensor]) -> list[Tensor]:
        """The operands of a form; equal ones are one tensor."""
        found = {operand: self._operand(operand, values) for operand in form.operands}
        return [found[operand] for operand in form.operands]

    def _inside(self, value: Grouped, values: Mapping[int, Tensor]) -> Tensor:
        total: Tensor | None = None
        for part, coefficient in value.parts:
            x = coefficient * values[part]
            total = value.base + x if total is None else total + x
        return torch.ones(len(value.output), 1, dtype=torch.float64, device=self.device) if total is None else total

    # down

    def _derivatives(self, form: Form, rows: Rows, values: Mapping[int, Tensor], wanted: tuple[int, ...],
                     products: dict[Hashable, Tensor]) -> list[Tensor]:
        """The derivatives of a form; products of one matrix with one vector are made once."""
        if not isinstance(rows, Bilinear):
            return rows.derivatives(self._operands(form, values), wanted)
        found = []
        for k in wanted:
            other = form.operands[1 - k]
            key = (id(rows), k, other.value)
            if key not in products:
                products[key] = rows.product(k, values[other.value])
            found.append(rows.sums[k] - products[key] if other.negated else products[key])
        return found

    def _messages(self, values: Mapping[int, Tensor], call: Call, q: Mapping[str, Tensor],
                  constants: Values) -> dict[str, Tensor]:
        """By predicate, [items or 1, places] or [items or 1, places, labels]."""
        adjoints: dict[int, list[Tensor]] = {}
        products: dict[Hashable, Tensor] = {}
        for number, batch in enumerate(self._batches):
            for v, slope in batch.derivatives(values, constants[_MIX, number], constants[_ONES, number]).items():
                adjoints.setdefault(v, []).append(slope)
        for root, rows in self._roots:
            if self._is_batched(root, rows):
                continue
            seed: Tensor | float = root.coefficient
            if not self.plan.rules[root.rule].n_weight_axes:
                seed = seed * self._weight(root.rule, call)
            wanted = tuple(k for k, o in enumerate(root.form.operands) if self.rows.live[o.value])
            slopes = self._derivatives(root.form, rows, values, wanted, products) if wanted else []
            for k, slope in zip(wanted, slopes, strict=True):
                # equal operands of a list have one derivative, at the first of them
                if isinstance(rows, Bilinear) or root.form.operands[k] not in root.form.operands[:k]:
                    self._add(adjoints, root.form.operands[k], seed * slope)
        found: dict[str, Tensor] = {}
        by_label: dict[str, dict[int, Tensor]] = {}
        for k in range(len(self.rows.values) - 1, -1, -1):
            value = self.rows.values[k]
            if k not in adjoints or not self.rows.live[k]:
                continue
            total = adjoints.pop(k)
            adjoint = sum(total[1:], total[0])
            if isinstance(value, Made):
                # pulled back over the rows of this process, so it must be that of all rows
                adjoint = self._copy(k, self._add_up(k, adjoint))
            if isinstance(value, ReadAll) and value.labels is not None:
                by_label.setdefault(value.predicate, {})[k] = adjoint
            elif isinstance(value, ReadAll):
                found[value.predicate] = self._both_orders(value.predicate, adjoint.mT, q)
            elif isinstance(value, Made):
                operands = value.form.operands
                wanted = tuple(1 + j for j, o in enumerate(operands) if self.rows.live[o.value])
                xs = [adjoint, *(self._operand(o, values) for o in operands)]
                for j, slope in zip(wanted, self._made[k].derivatives(xs, wanted), strict=True):
                    self._add(adjoints, operands[j - 1], slope)
            elif isinstance(value, Grouped):
                others = self._groups[k].others(self._inside(value, values)) * adjoint[self._outputs[k]]
                for part, coefficient in value.parts:
                    self._add(adjoints, Operand(part), coefficient * others)
        for name, block in self._labels.items():
            if block.key in adjoints or name in by_label:
                found[name] = block.spread(adjoints.get(block.key, []), by_label.get(name, {}))
        return found

    def _add(self, adjoints: dict[int, list[Tensor]], operand: Operand, slope: Tensor) -> None:
        adjoints.setdefault(operand.value, []).append(-slope if operand.negated else slope)

    def _both_orders(self, name: str, adjoint: Tensor, q: Mapping[str, Tensor]) -> Tensor:
        """Add up the messages to the two orders of a dense symmetric predicate, which are one variable."""
        if not self.theory.predicate[name].symmetric:
            return adjoint
        square = adjoint.reshape(-1, *q[name].shape[1:])
        # on the diagonal the two orders are one atom
        return square + square.mT - torch.diag_embed(square.diagonal(0, 1, 2))
