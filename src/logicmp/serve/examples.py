"""Models to start from, one for each kind of problem.

Room: **serve** (examples -> app).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """Rules, facts and queries with a title, and what to try with them."""

    name: str
    title: str
    # what the rules do, and what to try
    about: str
    rules: str
    facts: str
    query: str


SMOKERS = Example(
    "smokers", "Friends and smoking",
    "Friends have similar habits, and smokers get cancer more often. Raise the weight of the second rule: Carl is two "
    "steps away from Anna, and his probability follows.", """\
person = {Anna, Bob, Carl, Dora, Eve}
Smokes(person)
Cancer(person)
Friends(person, person)

1.5 Smokes(x) => Cancer(x)
2 Friends(x, y) => (Smokes(x) <=> Smokes(y))
-0.3 Cancer(x)
""", """\
Friends(Anna, Bob)
Friends(Bob, Carl)
Friends(Carl, Dora)
Smokes(Anna)
!Cancer(Dora)
""", "Smokes, Cancer")

BLOCKS = Example(
    "blocks", "Blocks of a page",
    "A model judged each pair of words: do they belong to one block? The rule is transitivity. It joins pairs that the "
    "model missed, and separates pairs that contradict the others.", """\
word = {Request, For, Analysis, Sample, Number, Paper, Date, May, Ninth}
symmetric C(word, word)

0.5 C(a, b) ^ C(b, c) => C(a, c)
C(a, a).
""", """\
// the probabilities of a model, pair by pair
0.92 C(Request, For)
0.40 C(Request, Analysis)
0.88 C(For, Analysis)
0.90 C(Sample, Number)
0.45 C(Sample, Paper)
0.84 C(Number, Paper)
0.95 C(Date, May)
0.35 C(Date, Ninth)
0.90 C(May, Ninth)
0.35 C(Analysis, Sample)
0.05 C(Request, Sample)
0.05 C(Request, Number)
0.05 C(Request, Paper)
0.05 C(For, Sample)
0.05 C(For, Number)
0.05 C(For, Paper)
0.08 C(Analysis, Number)
0.08 C(Analysis, Paper)
0.30 C(Paper, Date)
0.05 C(Paper, May)
0.05 C(Paper, Ninth)
0.05 C(Sample, Date)
0.05 C(Sample, May)
0.05 C(Sample, Ninth)
0.05 C(Number, Date)
0.05 C(Number, May)
0.05 C(Number, Ninth)
0.05 C(Request, Date)
0.05 C(Request, May)
0.05 C(Request, Ninth)
0.05 C(For, Date)
0.05 C(For, May)
0.05 C(For, Ninth)
0.05 C(Analysis, Date)
0.05 C(Analysis, May)
0.05 C(Analysis, Ninth)
""", "C")

TAGGER = Example(
    "tagger", "Tagger with BIO labels",
    "A tagger decides word by word: it gives New the label O, and York I-LOC. The rules ask for a name that begins "
    "before it continues, and New becomes B-LOC. Set both weights to 0 to see the tagger alone.", """\
token = {Anna, Maria, visited, New, York, City}
label(token) in {O, B-PER, I-PER, B-LOC, I-LOC}

3 label(i+1) = I-PER => label(i) in {B-PER, I-PER}
3 label(i+1) = I-LOC => label(i) in {B-LOC, I-LOC}
label(Anna) not in {I-PER, I-LOC}.
""", """\
// the scores of a tagger, label by label
0.20 label(Anna) = O
0.60 label(Anna) = B-PER
0.30 label(Anna) = I-PER
0.30 label(Anna) = B-LOC
0.10 label(Anna) = I-LOC
0.20 label(Maria) = O
0.30 label(Maria) = B-PER
0.60 label(Maria) = I-PER
0.10 label(Maria) = B-LOC
0.10 label(Maria) = I-LOC
0.90 label(visited) = O
0.10 label(visited) = B-PER
0.10 label(visited) = I-PER
0.10 label(visited) = B-LOC
0.10 label(visited) = I-LOC
0.50 label(New) = O
0.10 label(New) = B-PER
0.10 label(New) = I-PER
0.45 label(New) = B-LOC
0.10 label(New) = I-LOC
0.20 label(York) = O
0.30 label(York) = B-PER
0.10 label(York) = I-PER
0.20 label(York) = B-LOC
0.75 label(York) = I-LOC
0.55 label(City) = O
0.10 label(City) = B-PER
0.10 label(City) = I-PER
0.10 label(City) = B-LOC
0.60 label(City) = I-LOC
""", "label")

SUDOKU = Example(
    "sudoku", "Sudoku, 4 x 4",
    "Hard rules only: no digit twice in a row, a column or a box. There is one solution. Remove the first three digits "
    "from the facts: two solutions are left, and the undecided cells show both.", """\
row = {1, 2, 3, 4}
column = {1, 2, 3, 4}
digit = {1, 2, 3, 4}
Cell(row, column, digit!)
*Box(row, column, box)

Cell(r, a, d) ^ Cell(r, b, d) => a = b.
Cell(r, a, d) ^ Cell(s, a, d) => r = s.
Box(r, a, x) ^ Box(s, b, x) ^ Cell(r, a, d) ^ Cell(s, b, d) => r = s ^ a = b.
""", """\
Cell(1, 1, 1)
Cell(1, 4, 4)
Cell(2, 2, 4)
Cell(3, 1, 2)
Cell(3, 3, 4)
Cell(4, 2, 3)
Cell(4, 4, 2)

Box(1, 1, A)
Box(1, 2, A)
Box(2, 1, A)
Box(2, 2, A)
Box(1, 3, B)
Box(1, 4, B)
Box(2, 3, B)
Box(2, 4, B)
Box(3, 1, C)
Box(3, 2, C)
Box(4, 1, C)
Box(4, 2, C)
Box(3, 3, D)
Box(3, 4, D)
Box(4, 3, D)
Box(4, 4, D)
""", "Cell")

HIERARCHY = Example(
    "hierarchy", "Hierarchy of labels",
    "A classifier is certain of Poodle and doubts Dog. A label implies its parent: the rule is hard, so the "
    "probability of a parent is never below that of its child. Replace the full stop by a weight of 3, and it can "
    "be.", """\
label = {Animal, Dog, Cat, Poodle, Terrier, Plant, Oak}
Has(label)
*parent(label, label)

parent(c, p) ^ Has(c) => Has(p).
1.5 !(Has(Animal) ^ Has(Plant))
""", """\
// the probabilities of a classifier
0.38 Has(Animal)
0.12 Has(Dog)
0.27 Has(Cat)
0.95 Has(Poodle)
0.30 Has(Terrier)
0.35 Has(Plant)
0.20 Has(Oak)

parent(Dog, Animal)
parent(Cat, Animal)
parent(Poodle, Dog)
parent(Terrier, Dog)
parent(Oak, Plant)
""", "Has")

ENTITIES = Example(
    "entities", "Same person? From a table",
    "Each column of a table of customers is a predicate. Equal values suggest one person, and transitivity joins C1 "
    "and C3, which share nothing. Select a pair to see which rules and which records link it.", """\
customer = {C1, C2, C3, C4, C5, C6}
symmetric Same(customer, customer)
*Name(customer, name)
*Mail(customer, mail)
*Town(customer, town)

2.5 Mail(a, m) ^ Mail(b, m) => Same(a, b)
2.2 Name(a, n) ^ Name(b, n) => Same(a, b)
0.2 Town(a, t) ^ Town(b, t) => Same(a, b)
-0.5 Same(a, b)
1.2 Same(a, b) ^ Same(b, c) => Same(a, c)
Same(a, a).
""", """\
// customer, name, mail, town
Name(C1, "Ann Lee")
Mail(C1, "lee@mail")
Town(C1, Oslo)
Name(C2, "A. Lee")
Mail(C2, "lee@mail")
Town(C2, Oslo)
Name(C3, "A. Lee")
Mail(C3, "ann@home")
Town(C3, Bergen)
Name(C4, "Bo Dahl")
Mail(C4, "bo@home")
Town(C4, Bergen)
Name(C5, "Bo Dahl")
Mail(C5, "dahl@mail")
Town(C5, Oslo)
Name(C6, "Kim Ek")
Mail(C6, "ek@mail")
Town(C6, Oslo)
""", "Same")

RANKING = Example(
    "ranking", "Ranking from comparisons",
    "Teams played some matches, and the results contradict each other: Elk beat Fox, Fox beat Owl, Owl beat Elk. The "
    "rules ask for an order. Read a row of the matrix: which teams does this one lead?", """\
team = {Elk, Fox, Owl, Yak, Cat}
Ahead(team, team)
*Beat(team, team)

1.2 Beat(a, b) => Ahead(a, b)
1.5 Ahead(a, b) ^ Ahead(b, c) => Ahead(a, c)
a != b => Ahead(a, b) v Ahead(b, a).
!(Ahead(a, b) ^ Ahead(b, a)).
""", """\
Beat(Elk, Fox)
Beat(Fox, Owl)
Beat(Owl, Elk)
Beat(Fox, Yak)
Beat(Elk, Yak)
Beat(Yak, Cat)
Beat(Owl, Cat)
""", "Ahead")

EXAMPLES = (SMOKERS, BLOCKS, TAGGER, SUDOKU, HIERARCHY, ENTITIES, RANKING)
