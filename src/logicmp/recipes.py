"""Rules that many people need, as text to read, change and pass to `LogicMP`, `infer` or `decode`.

Room: parse -> **recipes** -> facts.

    from logicmp import LogicMP, recipes
    layer = LogicMP(recipes.bio(model.config.id2label), method="exact")
    print(recipes.equivalence("Same", over="record"))

A recipe declares its predicates and types. Recipes and rules of your own can be joined with newlines; a declaration may
be repeated. Every rule is hard by default. With `weight=2` it has this weight, with `weight=None` it has none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from .arguments import checked
from .errors import LogicMPError, closest
from .parse.syntax import PLAIN_LABEL, quoted
from .parse.theory import number
from .parse.tokens import NAME

# of a model's configuration, index to name; or the names in the order of the logits
Labels = Mapping[int, str] | Sequence[str]
Weight = float | str | None
# a label with its place in a name: B-PER; or B alone, if there is one kind of name
_PLACED = re.compile(r"([BILUES])(?:-(.+))?")
_MAX_SHOWN = 6


@checked
def bio(labels: Labels, predicate: str = "label", over: str = "token", weight: Weight = "hard",
        ends: bool = True) -> str:
    """Rules for BIO labels: a name begins with B and continues with I.

    >>> print(bio(["O", "B-PER", "I-PER"]))
    label(token) in {O, B-PER, I-PER}
    *first(token)
    // a name that continues has begun
    label(i+1) in {I-PER} => label(i) in {B-PER, I-PER}.
    // the first token continues nothing
    first(i) => label(i) not in {I-PER}.

    Args:
        labels: `model.config.id2label`, or the names of the labels in the order of the logits.
        predicate: the name of the predicate.
        over: the type of its entities.
        weight: of each rule: a number, None for no weight, or "hard".
        ends: whether there is a rule for the first token, for which you give evidence `first`. Leave it out if each
            sequence has tokens around it that you observe as O, such as [CLS] and [SEP].
    """
    names, kinds = _kinds(labels, "BI", "bioes")
    rules, begun = _Rules(weight), "// a name that continues has begun"
    for kind, of in kinds.items():
        if "I" in of:
            _require(of, "B", kind, "BIO: a name begins with B; convert IOB1 labels first")
            rules.add(f"{predicate}(i+1) in {_set([of['I']])} => {predicate}(i) in {_set([of['B'], of['I']])}", begun)
    continues = [of["I"] for of in kinds.values() if "I" in of]
    declared = [_labelled(predicate, over, names)]
    if ends and continues:
        declared.append(f"*first({_name('over', over)})")
        rules.add(f"first(i) => {predicate}(i) not in {_set(continues)}", "// the first token continues nothing")
    return rules.text(declared)


@checked
def bioes(labels: Labels, predicate: str = "label", over: str = "token", weight: Weight = "hard",
          ends: bool = True) -> str:
    """Rules for BIOES labels: a name is S, or begins with B, continues with I and ends with E. BILOU works, too.

    >>> print(bioes(["O", "B-PER", "I-PER", "E-PER", "S-PER"], ends=False))
    label(token) in {O, B-PER, I-PER, E-PER, S-PER}
    // a name that has begun continues
    label(i) in {B-PER, I-PER} => label(i+1) in {I-PER, E-PER}.
    // a name that continues has begun
    label(i+1) in {I-PER, E-PER} => label(i) in {B-PER, I-PER}.

    Args:
        labels: `model.config.id2label`, or the names of the labels in the order of the logits.
        predicate: the name of the predicate.
        over: the type of its entities.
        weight: of each rule: a number, None for no weight, or "hard".
        ends: whether there are rules for the first and the last token, for which you give evidence `first` and `last`.
            Leave them out if each sequence has tokens around it that you observe as O, such as [CLS] and [SEP].
    """
    names, kinds = _kinds(labels, "BIESLU", "bio")
    rules = _Rules(weight)
    opens, closes = [], []
    for kind, of in kinds.items():
        if {"E", "S"} & of.keys() and {"L", "U"} & of.keys():
            raise LogicMPError(f"the labels of {_of_kind(kind)} mix BIOES and BILOU: {', '.join(of.values())}",
                               "use E and S, or L and U")
        end = "L" if {"L", "U"} & of.keys() else "E"
        if of.keys() & {"B", "I", end}:
            _require(of, "B", kind, "BIOES: a longer name begins with B and ends with E (BILOU: L)")
            _require(of, end, kind, "BIOES: a longer name begins with B and ends with E (BILOU: L)")
            opens.append([of[place] for place in "BI" if place in of])
            closes.append([of[place] for place in ("I", end) if place in of])
    for begun, rest in zip(opens, closes, strict=True):
        rules.add(f"{predicate}(i) in {_set(begun)} => {predicate}(i+1) in {_set(rest)}",
                  "// a name that has begun continues")
    for begun, rest in zip(opens, closes, strict=True):
        rules.add(f"{predicate}(i+1) in {_set(rest)} => {predicate}(i) in {_set(begun)}",
                  "// a name that continues has begun")
    declared = [_labelled(predicate, over, names)]
    if ends and opens:
        declared += [f"*first({_name('over', over)})", f"*last({over})"]
        rules.add(f"first(i) => {predicate}(i) not in {_set([*chain(*closes)])}",
                  "// the first token continues nothing")
        rules.add(f"last(i) => {predicate}(i) not in {_set([*chain(*opens)])}",
                  "// no name continues after the last token")
    return rules.text(declared)


@checked
def hierarchy(edges: Iterable[tuple[str, str]], one_path: bool = False, labels: Labels | None = None,
              predicate: str = "Has", over: str = "label", weight: Weight = "hard") -> str:
    """Rules for labels in a hierarchy: a label implies its parents.

    >>> print(hierarchy([("Dog", "Animal"), ("Poodle", "Dog")]))
    label = {Dog, Animal, Poodle}
    *parent(label, label)
    Has(label)
    // a label implies its parents
    parent(c, p) ^ Has(c) => Has(p).
    parent(Dog, Animal).
    parent(Poodle, Dog).

    Args:
        edges: pairs of child and parent; a label can have several parents.
        one_path: whether an item has the labels of exactly one path, from a root to a leaf. Each label then has at most
            one parent.
        labels: `model.config.id2label`, or the names of the labels in the order of the logits. Without it, labels are
            in the order in which the edges name them.
        predicate: the name of the predicate.
        over: the type of the labels.
        weight: of each rule: a number, None for no weight, or "hard".
    """
    pairs = _pairs(edges)
    listed = list(dict.fromkeys(name for pair in pairs for name in pair))
    names = listed if labels is None else _names(labels)
    unknown = next((name for name in listed if name not in set(names)), None) if labels is not None else None
    if unknown is not None:
        raise LogicMPError(f"the edges name {unknown!r}, which is not one of the labels",
                           closest(unknown, names, "label"))
    _reject_cycle(pairs)
    of, rules = _name("predicate", predicate), _Rules(weight)
    declared = [f"{_name('over', over)} = {_set(names, is_type=True)}", f"*parent({over}, {over})"]
    rules.add(f"parent(c, p) ^ {of}(c) => {of}(p)", "// a label implies its parents")
    facts = [f"parent({quoted(child)}, {quoted(parent)})." for child, parent in pairs]
    if one_path:
        children, parents = Counter(child for child, _ in pairs), {parent for _, parent in pairs}
        several, n_parents = children.most_common(1)[0]
        if n_parents > 1:
            raise LogicMPError(f"{several!r} has {n_parents} parents: "
                               f"{', '.join(parent for child, parent in pairs if child == several)}",
                               "one path needs a tree, in which each label has at most one parent; or use "
                               "one_path=False")
        declared += [f"*root({over})", f"*leaf({over})"]
        rules.add(f"{of}(p) => leaf(p) v (EXIST c parent(c, p) ^ {of}(c))",
                  "// the path ends at a leaf, does not branch, and starts at one root")
        rules.add(f"parent(a, p) ^ parent(b, p) ^ {of}(a) ^ {of}(b) => a = b")
        rules.add(f"EXIST a root(a) ^ {of}(a)")
        rules.add(f"root(a) ^ root(b) ^ {of}(a) ^ {of}(b) => a = b")
        facts += [f"root({quoted(name)})." for name in names if name not in children]
        facts += [f"leaf({quoted(name)})." for name in names if name not in parents]
    return rules.text([*declared, f"{of}({over})"], facts)


@checked
def equivalence(predicate: str, over: str = "thing", weight: Weight = "hard") -> str:
    """Rules that make a predicate over pairs an equivalence relation, such as "the same record".

    >>> print(equivalence("C"))
    symmetric C(thing, thing)
    C(a, a).
    C(a, b) ^ C(b, c) => C(a, c).

    Args:
        predicate: its name.
        over: the type of both arguments.
        weight: of each rule: a number, None for no weight, or "hard".
    """
    of, rules = _name("predicate", predicate), _Rules(weight)
    rules.add(f"{of}(a, a)" if weight is not None else f"({of}(a, a))")
    rules.add(f"{of}(a, b) ^ {of}(b, c) => {of}(a, c)")
    return rules.text([f"symmetric {of}({_name('over', over)}, {over})"])


@checked
def order(predicate: str, over: str = "thing", total: bool = False, weight: Weight = "hard") -> str:
    """Rules that make a predicate over pairs a strict order, such as "before".

    >>> print(order("Before", over="event"))
    Before(event, event)
    !Before(a, a).
    Before(a, b) ^ Before(b, c) => Before(a, c).

    Args:
        predicate: its name.
        over: the type of both arguments.
        total: whether one of any two comes before the other.
        weight: of each rule: a number, None for no weight, or "hard".
    """
    of, rules = _name("predicate", predicate), _Rules(weight)
    rules.add(f"!{of}(a, a)")
    rules.add(f"{of}(a, b) ^ {of}(b, c) => {of}(a, c)")
    if total:
        rules.add(f"a != b => {of}(a, b) v {of}(b, a)")
    return rules.text([f"{of}({_name('over', over)}, {over})"])


@checked
def exactly_one(predicate: str, over: str, each: str | Sequence[str] = ()) -> str:
    """A predicate that is true for exactly one entity of a type, for each choice of the other arguments.

    >>> print(exactly_one("Lives", over="city", each="person"))
    Lives(person, city!)

    The declaration is the rule: its atoms are one variable with several values, whose logits are those of a softmax.

    Args:
        predicate: its name.
        over: the type of which exactly one entity is chosen; the last argument.
        each: the types of the other arguments.
    """
    others = [each] if isinstance(each, str) else list(each)
    types = [*(_name("each", name) for name in others), f"{_name('over', over)}!"]
    return f"{_name('predicate', predicate)}({', '.join(types)})"


@checked
def matching(predicate: str, left: str = "left", right: str = "right", perfect: bool = False,
             weight: Weight = "hard") -> str:
    """Rules that make a predicate a one-to-one matching of two types.

    >>> print(matching("M", left="mention", right="entity"))
    M(mention, entity?)
    // no two have the same partner
    M(a, c) ^ M(b, c) => a = b.

    The `?` is a rule, too: each entity on the left has at most one partner.

    Args:
        predicate: its name.
        left, right: the two types.
        perfect: whether each entity has a partner.
        weight: of the rules for the right type: a number, None for no weight, or "hard".
    """
    if left == right:
        raise LogicMPError(f"left and right are both {left!r}; expected two types", "rename one of them")
    of, rules = _name("predicate", predicate), _Rules(weight)
    rules.add(f"{of}(a, c) ^ {of}(b, c) => a = b", "// no two have the same partner")
    if perfect:
        rules.add(f"EXIST a {of}(a, c)")
    return rules.text([f"{of}({_name('left', left)}, {_name('right', right)}{'!' if perfect else '?'})"])


@checked
def same_label(link: str, labels: Labels, predicate: str = "label", over: str = "node",
               weight: Weight = "hard") -> str:
    """Rules that give linked entities the same label, one rule for each label.

    >>> print(same_label("Cites", ["Theory", "Vision"], predicate="topic", over="paper", weight=0.3))
    *Cites(paper, paper)
    topic(paper) in {Theory, Vision}
    0.3 Cites(x, y) => (topic(x) in {Theory} <=> topic(y) in {Theory})
    0.3 Cites(x, y) => (topic(x) in {Vision} <=> topic(y) in {Vision})

    Args:
        link: the predicate of the links, which are evidence.
        labels: `model.config.id2label`, or the names of the labels in the order of the logits.
        predicate: the name of the predicate of the labels.
        over: the type of the entities.
        weight: of each rule: a number, None for no weight, or "hard".
    """
    names, rules = _names(labels), _Rules(weight)
    declared = [f"*{_name('link', link)}({_name('over', over)}, {over})", _labelled(predicate, over, names)]
    for name in names:
        rules.add(f"{link}(x, y) => ({predicate}(x) in {_set([name])} <=> {predicate}(y) in {_set([name])})")
    return rules.text(declared)


class _Rules:
    """Lines of rules with one weight, each after a comment that is written once."""

    def __init__(self, weight: Weight):
        if isinstance(weight, str) and weight != "hard":
            raise LogicMPError(f"weight is {weight!r}; expected a number, None or 'hard'")
        self.before = "" if weight is None or isinstance(weight, str) else f"{number(float(weight))} "
        self.after = "." if weight == "hard" else ""
        self.lines: list[str] = []

    def add(self, formula: str, comment: str = "") -> None:
        if comment and comment not in self.lines:
            self.lines.append(comment)
        self.lines.append(f"{self.before}{formula}{self.after}")

    def text(self, declared: Sequence[str], facts: Sequence[str] = ()) -> str:
        return "\n".join([*declared, *self.lines, *facts])


def _names(labels: Labels) -> list[str]:
    """The names in the order of the logits; raise if one is missing or given twice."""
    if isinstance(labels, Mapping):
        missing = next((k for k in range(len(labels)) if k not in labels), None)
        if missing is not None:
            raise LogicMPError(f"labels has no name for index {missing}, but {len(labels)} names",
                               "the keys are 0, 1, 2, ..., as in model.config.id2label; for label2id swap names and "
                               "numbers: {k: name for name, k in label2id.items()}")
        names = [labels[k] for k in range(len(labels))]
    else:
        names = list(labels)
    if not names:
        raise LogicMPError("labels is empty", "give the names of the labels in the order of the logits")
    twice, n_times = Counter(names).most_common(1)[0]
    if n_times > 1:
        places = [str(k) for k, name in enumerate(names) if name == twice]
        raise LogicMPError(f"the label {twice!r} is given {n_times} times, at index {_shown(places)}",
                           "each label has one index")
    if "" in names:
        raise LogicMPError(f"the label at index {names.index('')} is an empty text")
    return names


def _kinds(labels: Labels, places: str, other: str) -> tuple[list[str], dict[str, dict[str, str]]]:
    """The names of the labels, and for each kind of name its labels by place: {"PER": {"B": "B-PER", ...}}."""
    names = _names(labels)
    kinds: dict[str, dict[str, str]] = {}
    for k, name in enumerate(names):
        if name == "O":
            continue
        found = _PLACED.fullmatch(name)
        if found is None or found[1] not in places:
            forms = [f"{place}-..." for place in places[:4]]
            hint = (f"use recipes.{other} for such labels" if found is not None else
                    "give the model its labels: model.config.id2label = {0: 'O', 1: 'B-PER', ...}"
                    if re.fullmatch(r"LABEL_\d+", name) else "rename the label, or add a rule of your own for it")
            raise LogicMPError(f"the label {name!r} at index {k} has an unknown form; expected O, "
                               f"{', '.join(forms[:-1])} or {forms[-1]}", hint)
        kinds.setdefault(found[2] or "", {})[found[1]] = name
    return names, kinds


def _of_kind(kind: str) -> str:
    return f"the kind {kind!r}" if kind else "names without a kind"


def _require(of: Mapping[str, str], place: str, kind: str, hint: str) -> None:
    if place not in of:
        missing = f"{place}-{kind}" if kind else place
        raise LogicMPError(f"the labels have {', '.join(of.values())} but not {missing}", hint)


def _pairs(edges: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    seen: set[tuple[str, str]] = set()
    for k, edge in enumerate(edges):
        if not (isinstance(edge, (tuple, list)) and len(edge) == 2 and all(isinstance(name, str) for name in edge)):
            raise LogicMPError(f"edges[{k}] is {edge!r}; expected a pair of names, child and parent")
        if tuple(edge) in seen:
            raise LogicMPError(f"edges has the pair {tuple(edge)!r} twice", "remove one of them")
        pairs.append((edge[0], edge[1]))
        seen.add(pairs[-1])
    if not pairs:
        raise LogicMPError("edges is empty", "give pairs of child and parent, for example ('Dog', 'Animal')")
    return pairs


def _reject_cycle(pairs: Sequence[tuple[str, str]]) -> None:
    parents: dict[str, list[str]] = {}
    for child, parent in pairs:
        parents.setdefault(child, []).append(parent)
    done: set[str] = set()
    for start in parents:
        # depth first, without recursion, because a hierarchy may be deep
        path, left = [start], [iter(parents[start])]
        while path:
            above = next(left[-1], None)
            if above is None:
                done.add(path.pop())
                left.pop()
            elif above in path:
                cycle = [*path[path.index(above) :], above]
                raise LogicMPError(f"the edges have a cycle: {' -> '.join(cycle)}",
                                   "a label cannot be above itself; edges are pairs of child and parent")
            elif above not in done:
                path.append(above)
                left.append(iter(parents.get(above, ())))


def _name(what: str, name: str) -> str:
    if not re.fullmatch(NAME, name):
        raise LogicMPError(f"{what} is {name!r}; expected a name of letters, digits and '_'")
    return name


def _labelled(predicate: str, over: str, names: Sequence[str]) -> str:
    return f"{_name('predicate', predicate)}({_name('over', over)}) in {_set(names)}"


def _set(names: Sequence[str], is_type: bool = False) -> str:
    """`{B-PER, "a/b"}`; a constant of a type needs quotes if it starts with a lower-case letter."""
    return f"{{{', '.join(quoted(name) if is_type else quoted(name, PLAIN_LABEL) for name in names)}}}"


def _shown(names: Collection[str]) -> str:
    return ", ".join(list(names)[:_MAX_SHOWN]) + (", ..." if len(names) > _MAX_SHOWN else "")
