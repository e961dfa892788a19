"""The plans of a layer, each made when first needed: one serves all sizes near its own, and graphs of torch.compile.

Room: plan -> **execute** -> layer.

    plans = Plans(theory, "exact", "sum", MAX_ELEMENTS)
    plans.find({"t": 120}, ())                      # planned
    plans.find({"t": 125}, ())                      # the same plan
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from operator import index
from typing import Any
from weakref import WeakValueDictionary

import torch

from ..errors import LogicMPError
from ..normalize.build import normalize_theory
from ..normalize.cubes import NormalForm
from ..parse.theory import Theory
from ..plan import batch
from ..plan.build import MAX_ELEMENTS, build_plan
from ..plan.steps import Plan
from .batched import BatchedExecutor
from .dense import DenseExecutor

# how many plans a layer keeps
MAX_PLANS = 256
# by number: torch.compile passes numbers, not objects, to the function that plans while it traces
_PLANS: WeakValueDictionary[int, Plans] = WeakValueDictionary()
_numbers = itertools.count()
# the sizes of the call that torch.compile traces: numbers, or symbols where one graph serves every size
_traced_sizes: dict[str, int | torch.SymInt] = {}


def build_executor(theory: Theory, sizes: Mapping[str, int], observed: Collection[str] = (), semantics: str = "exact",
                   max_elements: int = MAX_ELEMENTS) -> DenseExecutor:
    """Normalize and plan a theory for given sizes and observed predicates."""
    form = normalize_theory(theory, semantics, sizes)
    return make_executor(build_plan(form, sizes, observed, max_elements), form, theory, observed, max_elements)


def make_executor(plan: Plan, form: NormalForm, theory: Theory, observed: Collection[str],
                  max_elements: int) -> DenseExecutor:
    """A plan of a normal form, ready to run; rules that differ only in constants run as one."""
    sizes = dict(plan.sizes)
    found = batch.batch_rules(form, sizes) if len(form.rules) >= batch.MIN_RULES else None
    if found is None:
        return DenseExecutor(plan, theory)
    known = {*observed, *(g.name for g in found.gathered if g.source in observed)}
    inner = build_plan(found.form, {**sizes, **found.types}, known, max_elements)
    return BatchedExecutor(plan, theory, inner, found)


class Plans:
    """Executors by sizes and observed predicates; a copy plans again.

    Args:
        theory, semantics, max_elements: as for `build_executor`.
        reduce: "sum" or "mean"; how messages are averaged depends on which type is the largest.
    """

    def __init__(self, theory: Theory, semantics: str, reduce: str, max_elements: int):
        self.theory, self.semantics, self.reduce, self.max_elements = theory, semantics, reduce, max_elements
        # a plan serves all sizes near its own, unless it depends on them
        self.known: dict[Any, DenseExecutor] = {}
        # by observed predicates, plans for graphs that serve every size; never replaced, because graphs depend on them
        self.open: dict[tuple[str, ...], DenseExecutor] = {}
        self._number = next(_numbers)
        _PLANS[self._number] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return Plans, (self.theory, self.semantics, self.reduce, self.max_elements)

    def find(self, sizes: Mapping[str, int], observed: Sequence[str] = ()) -> DenseExecutor:
        """The plan for given sizes and observed predicates, ready to run."""
        if torch.compiler.is_dynamo_compiling():
            # planning cannot be traced: it runs now, and the trace finds its result
            from torch._dynamo.comptime import comptime

            # _note_size reads both variables
            for name, size in sizes.items():  # noqa: B007
                comptime(_note_size)
            if _plan_for_open_sizes(self._number, tuple(sizes), tuple(observed)):
                return self.open[tuple(observed)]
            sizes = {name: index(size) for name, size in sizes.items()}
            _plan_while_tracing(self._number, tuple(sizes.items()), tuple(observed))
        # under export a size is a symbol: the plan is made for the example's size and runs at any
        is_open = any(isinstance(size, torch.SymInt) for size in sizes.values())
        sizes = {name: _example(size) for name, size in sizes.items()}
        at, near = ((which, tuple((name, f(size)) for name, size in sorted(sizes.items())), tuple(sorted(observed)))
                    for which, f in (("at", int), ("near", _about)))
        executor = self.known.get(near) or self.known.get(at)
        if executor is None:
            executor = build_executor(self.theory, sizes, observed, self.semantics, self.max_elements)
            is_sized = executor.plan.is_sized or self.reduce == "mean"
            if len(self.known) >= MAX_PLANS:
                # another thread may have removed it
                self.known.pop(next(iter(self.known)), None)
            self.known[at if is_sized else near] = executor
        if is_open and executor.plan.is_sized:
            raise LogicMPError("the plan of these rules depends on the sizes: they cannot be left open in an export",
                               "export with fixed sizes, or raise max_elements if values were sliced")
        return executor


def _note_size(context: Any) -> None:
    """Note the local variables `name` and `size` of a traced function, without fixing the size to its example."""
    size = context.get_local("size")
    _traced_sizes[context.get_local("name").as_python_constant()] = (
        size.as_python_constant() if size.is_python_constant() else size.as_fake())


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _plan_for_open_sizes(number: int, names: tuple[str, ...], observed: tuple[str, ...]) -> bool:
    """Whether some size is open and a plan serves every size; it is then known, made for the example's sizes."""
    plans, sizes = _PLANS[number], {name: _traced_sizes[name] for name in names}
    if not any(isinstance(size, torch.SymInt) for size in sizes.values()):
        return False
    if observed not in plans.open:
        executor = plans.find({name: _example(size) for name, size in sizes.items()}, observed)
        if executor.plan.is_sized or (plans.reduce == "mean" and len(sizes) > 1):
            return False
        plans.open[observed] = executor
    return True


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _plan_while_tracing(number: int, sizes: tuple[tuple[str, int], ...], observed: tuple[str, ...]) -> bool:
    _PLANS[number].find(dict(sizes), observed)
    return True


def _example(size: int | torch.SymInt) -> int:
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size


def _about(size: int) -> int:
    """A size with its four leading bits: the best plan for it is good for all sizes that share them.

    >>> [_about(size) for size in (15, 16, 17, 18, 512, 575, 576)]
    [15, 16, 16, 18, 512, 512, 576]
    """
    shift = max(0, size.bit_length() - 4)
    return size >> shift << shift
