"""Small theories for the oracle, with random logits and marginals."""

import torch

from logicmp import parse_theory

TRANSITIVITY = "C(a,b) ^ C(b,c) => C(a,c)"
# name: (theory, sizes); small enough to enumerate
CASES = {
    "smokers": ("2 S(x) ^ F(x,y) => S(y)\n-0.7 S(x)", {"thing": 2}),
    "repeated variable": ("1.1 R(x,x) v !R(x,y) v A(y)", {"thing": 2}),
    "doubled literal": ("1.3 !R(x,y) v !R(x,y)", {"thing": 2}),
    "transitivity": (f"1.5 {TRANSITIVITY}", {"thing": 3}),
    "transitivity, single constant": (f"1.5 {TRANSITIVITY}", {"thing": 1}),
    "iff": ("1.2 A(x) <=> B(x) v A(y)", {"thing": 2}),
    "conjunction": ("0.7 A(x) ^ (B(x) v !A(y))", {"thing": 2}),
    "overlapping clauses": ("1.2 (A(x) v B(x)) ^ (A(x) v C(x))", {"thing": 2}),
    "exists": ("1.3 A(x) => EXIST y R(x,y)", {"thing": 2}),
    "not exists": ("1.3 B(x) => !(EXIST y (R(x,y) ^ B(y)))", {"thing": 2}),
    "nested quantifiers": ("1.1 EXIST x FORALL y (R(x,y) v A(y))", {"thing": 2}),
    "forall inside": ("0.9 A(x) <=> FORALL y R(x,y)", {"thing": 2}),
    "shadowed variable": ("0.9 A(x) v (EXIST x B(x)) v FORALL x C(x)", {"thing": 2}),
    "equality": ("A(t)\n0.9 A(x) ^ A(y) => x = y", {"t": 3}),
    "inequality": ("0.8 x != y ^ R(x,y) => A(x)", {"thing": 2}),
    "constants": ("t = {K, L}\nA(t)\nR(t, t)\n1.4 R(K, x) => A(L)", {}),
    "per constant": ("0.8 A(+x) ^ B(y) => R(x, y)", {"thing": 2}),
    "per constant, not in every clause": ("0.8 A(+x) ^ B(y)", {"thing": 2}),
    "symmetric": (f"symmetric C(t, t)\n1.4 {TRANSITIVITY}", {"t": 3}),
    "labels and offsets": ("label(k) in {O, B, I}\n2 label(i) in {O} => label(i+1) in {O, B}", {"k": 3}),
    "labels that meet": ("l(k) in {O, B, I}\nN(k, k)\n1 l(i) in {O, B} ^ l(j) in {B, I} => N(i, j)", {"k": 2}),
    "offset in one clause only": ("A(k)\nB(k)\n1.5 A(i) ^ B(i+1)", {"k": 3}),
    "offset below exists": ("A(k)\nB(k)\n1.5 A(i) => EXIST j (B(j+1) ^ A(j) ^ A(i-1))", {"k": 3}),
    "exactly one": ("f(a, b!)\nP(b)\n1.7 f(x,y) ^ f(z,y) => x = z v P(y)", {"a": 2, "b": 2}),
    "exactly one of one": ("f(a, b!)\nP(b)\n1.7 f(x,y) => P(y)", {"a": 2, "b": 1}),
    "at most one": ("g(a, b?)\nP(b)\n-1.2 g(x,y) ^ P(y)\n0.4 EXIST y g(x,y)", {"a": 2, "b": 2}),
    "no arguments": ("Rain\nWet(place)\n1.5 Rain => Wet(x)\n-1 Rain", {"place": 2}),
    "indivisible": ("1.2 [A(x) <=> B(x)]", {"thing": 2}),
    "several rules": ("1 A(x) => B(x)\n0.5 B(x) ^ R(x,y) => B(y)\n-0.3 R(x,x)", {"thing": 2}),
}


def case(name):
    text, sizes = CASES[name]
    theory = parse_theory(text)
    return theory, theory.with_sizes(sizes)


def shape(predicate, sizes):
    return [sizes[t] for t in predicate.types] + ([] if predicate.labels is None else [len(predicate.labels)])


def random_unary(theory, sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {p.name: torch.randn(shape(p, sizes), dtype=torch.float64, generator=generator) for p in theory.predicates}


def marginals(theory, logits):
    """Proper marginals from logits; a functional argument must be the last one."""
    found = {}
    for p in theory.predicates:
        x = logits[p.name]
        if p.symmetric:
            found[p.name] = torch.sigmoid((x + x.mT) / 2)
        elif p.may_be_none:
            found[p.name] = torch.softmax(torch.cat([x, torch.zeros_like(x[..., :1])], -1), -1)[..., :-1]
        elif p.is_categorical:
            found[p.name] = torch.softmax(x, -1)
        else:
            found[p.name] = torch.sigmoid(x)
    return found


def own_weights(theory):
    return [1.0 if rule.weight is None else rule.weight for rule in theory.rules]


def assert_same(got, want, tolerance=1e-10):
    assert got.keys() == want.keys()
    for name in want:
        torch.testing.assert_close(got[name], want[name], rtol=tolerance, atol=tolerance)
