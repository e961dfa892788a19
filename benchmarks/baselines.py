"""Baselines for the layer: code that a user could write by hand instead.

    paper_code                 the paper's listing, "Pseudo Code of LogicMP for Transitivity Rule", as code
    matrix_products            only the matrix products that an iteration needs: a lower bound
    EinsumPerImplication       Eq. 4-5 as written: one cached, optimized einsum per implication of every clause

Paper: Algorithm 1, Eq. 4-5 and the appendix with the listing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import opt_einsum
import torch
from torch import Tensor

from logicmp import Theory
from logicmp.parse.syntax import Atom, Constant, Formula, Not, Or, Variable


def paper_code(logits: Tensor, weight: Tensor | float, iterations: int) -> Tensor:
    """The paper's listing, line by line; input and output are [batch, n, n, 2].

    One typo is fixed: the listing adds msg_to_ac twice and msg_to_ab never.
    """
    cur_logits = logits.clone()
    for _ in range(iterations):
        q = torch.softmax(cur_logits, dim=-1)
        cur_logits = logits.clone()
        msg_to_ac = torch.einsum("kab,kbc->kac", q[..., 1], q[..., 1])
        msg_to_bc = -torch.einsum("kab,kac->kbc", q[..., 1], q[..., 0])
        msg_to_ab = -torch.einsum("kbc,kac->kab", q[..., 1], q[..., 0])
        msg = msg_to_ac + msg_to_bc + msg_to_ab
        cur_logits[..., 1] += msg * weight
    return cur_logits


def two_channels(log_odds: Tensor) -> Tensor:
    """Log-odds in the form of the listing: a logit for false (zero), and one for true."""
    return torch.stack([torch.zeros_like(log_odds), log_odds], -1)


def matrix_products(x: Tensor, iterations: int, per_iteration: int) -> Tensor:
    """Only the products of [batch, n, n] tensors, in the three layouts that the messages need."""
    layouts = [(x, x), (x.mT, x), (x, x.mT)]
    result = x
    for _ in range(iterations):
        for k in range(per_iteration):
            result = torch.bmm(*layouts[k % 3])
    return result


@dataclass(frozen=True)
class _Literal:
    predicate: str
    negated: bool
    args: tuple[Variable | Constant, ...]


@dataclass(frozen=True)
class _Operand:
    """A literal of the premise: a view of its predicate's marginals, or of one minus them."""

    predicate: str
    # use 1 - q: the probability that a positive literal is false
    complement: bool
    view: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class _Implication:
    head: _Literal
    # +1 pushes the head up, -1 down
    sign: float
    weight: float
    premises: tuple[_Operand, ...]
    expression: Callable[..., Tensor] | None
    # returns the part of the predicate's tensor to which the message is added
    place: Callable[[Tensor], Tensor]
    # axes of the head whose variable is not in the premises
    missing: tuple[int, ...]


class EinsumPerImplication:
    """The messages of a theory of clauses, by one einsum per literal of each clause; nothing is shared or folded.

    The contraction order is found once (`optimize="dp"`) and cached; `1 - q` is computed once per predicate and
    iteration, not once per literal. Rules must be soft clauses without quantifiers, offsets and labels, as in the
    relational data sets. Two literals of one atom are treated as two separate atoms, as in the paper.

    Args:
        latent: compute only messages to these predicates; to all if None.
        is_optimized: use the best contraction order; otherwise multiply the literals from left to right.
    """

    def __init__(self, theory: Theory, sizes: Mapping[str, int], latent: Collection[str] | None = None,
                 is_optimized: bool = True):
        self.theory = theory
        self.is_optimized = is_optimized
        self.sizes = sizes
        self.latent = [p.name for p in theory.predicates] if latent is None else list(latent)
        self.implications: list[_Implication] = []
        for rule in theory.rules:
            literals = _literals(rule.formula)
            weight = 1.0 if rule.weight is None else rule.weight
            self.implications += [self._implication(literals, k, weight) for k, head in enumerate(literals)
                                  if head.predicate in self.latent]

    def messages(self, q: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The messages to add to the log-odds of every latent predicate; `q` is [n_1, ..., n_k] by predicate."""
        complements = {name: 1 - tensor for name, tensor in q.items()}
        total = {name: torch.zeros_like(q[name]) for name in self.latent}
        for implication in self.implications:
            target = implication.place(total[implication.head.predicate])
            if implication.expression is None:
                target += implication.sign * implication.weight
                continue
            operands = [operand.view((complements if operand.complement else q)[operand.predicate])
                        for operand in implication.premises]
            message = implication.expression(*operands)
            for axis in implication.missing:
                message = message.unsqueeze(axis)
            target.add_(message, alpha=implication.sign * implication.weight)
        return total

    def _implication(self, literals: list[_Literal], k: int, weight: float) -> _Implication:
        head = literals[k]
        others = literals[:k] + literals[k + 1 :]
        letters: dict[str, str] = {}
        for literal in literals:
            for arg in literal.args:
                if isinstance(arg, Variable):
                    letters.setdefault(arg.name, opt_einsum.get_symbol(len(letters)))
        terms, shapes, operands = [], [], []
        for literal in others:
            names = _variables(literal)
            terms.append("".join(letters[name] for name in names))
            shapes.append(tuple(self._size(literal, name) for name in names))
            operands.append(_Operand(literal.predicate, not literal.negated, self._view(literal)))
        wanted = _variables(head)
        present = [name for name in wanted if any(letters[name] in term for term in terms)]
        missing = tuple(axis for axis, name in enumerate(wanted) if name not in present)
        expression = None
        if others:
            equation = ",".join(terms) + "->" + "".join(letters[name] for name in present)
            # opt_einsum appends the result of each pair at the end
            as_written = [(0, 1)] * (len(others) > 1) + [(0, n) for n in range(len(others) - 2, 0, -1)]
            order = "dp" if self.is_optimized else as_written or [(0,)]
            expression = opt_einsum.contract_expression(equation, *shapes, optimize=order)
        return _Implication(head, -1.0 if head.negated else 1.0, weight, tuple(operands), expression, self._view(head),
                            missing)

    def _size(self, literal: _Literal, name: str) -> int:
        types = self.theory.predicate[literal.predicate].types
        return next(self.sizes[types[i]] for i, arg in enumerate(literal.args)
                    if isinstance(arg, Variable) and arg.name == name)

    def _view(self, literal: _Literal) -> Callable[[Tensor], Tensor]:
        """Return a function that indexes a predicate's tensor: constants select, repeated variables are diagonals."""
        types = self.theory.predicate[literal.predicate].types
        index = tuple(self.theory.index(types[i], arg.name) if isinstance(arg, Constant) else slice(None)
                      for i, arg in enumerate(literal.args))
        names = [arg.name for arg in literal.args if isinstance(arg, Variable)]
        pairs: list[tuple[int, int]] = []
        distinct: list[str] = []
        for name in names:
            if name in distinct:
                pairs.append((distinct.index(name), len(distinct)))
            else:
                distinct.append(name)

        def view(x: Tensor) -> Tensor:
            x = x[index]
            for first, again in pairs:
                x = x.diagonal(0, first, again).movedim(-1, first)
            return x

        return view


def _variables(literal: _Literal) -> list[str]:
    return list(dict.fromkeys(arg.name for arg in literal.args if isinstance(arg, Variable)))


def _literals(formula: Formula) -> list[_Literal]:
    if isinstance(formula, Or):
        return [literal for part in formula.parts for literal in _literals(part)]
    negated = isinstance(formula, Not)
    atom = formula.body if isinstance(formula, Not) else formula
    if not isinstance(atom, Atom) or atom.labels is not None:
        raise ValueError(f"the baseline supports only clauses of plain literals, got {formula}")
    return [_Literal(atom.predicate, negated, atom.args)]


_FACT = re.compile(r"\s*(!?)(\w+)\(([^()]*)\)")
_RULE = re.compile(r"\s*([\d.]+)\s+(.*)")
_ATOM = re.compile(r"(!?)(\w+)\(([^()]*)\)")


def regex_facts(text: str) -> dict[str, list[tuple[bool, tuple[str, ...]]]]:
    """The facts of a text by predicate, without any checks: one regular expression per line."""
    tables: dict[str, list[tuple[bool, tuple[str, ...]]]] = {}
    for line in text.split("\n"):
        found = _FACT.match(line)
        if found:
            sign, name, args = found.groups()
            tables.setdefault(name, []).append((not sign, tuple(arg.strip() for arg in args.split(","))))
    return tables


def regex_rules(text: str) -> list[tuple[float, list[tuple[str, str, tuple[str, ...]]]]]:
    """The weight and the atoms of every line, without checks or a tree: two regular expressions per line."""
    rules = []
    for line in text.split("\n"):
        found = _RULE.match(line)
        if found:
            rules.append((float(found[1]), [(sign, name, tuple(arg.strip() for arg in args.split(",")))
                                            for sign, name, args in _ATOM.findall(found[2])]))
    return rules
