"""What the page sends and receives: the schema of the JSON interface, with its limits.

Room: **serve** (schema -> app).  `GET /openapi.json` shows it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# characters
MAX_RULES, MAX_FACTS, MAX_QUERY, MAX_ATOM = 50_000, 200_000, 5_000, 500
# bytes of a request: a character may take twelve, written as \ud83d\ude00
MAX_BODY = 12 * (MAX_RULES + MAX_FACTS + MAX_QUERY + MAX_ATOM) + 2_000
# "layer" is mean field with a fixed number of iterations, as in the layer
MethodName = Literal["auto", "exact", "mean-field", "layer", "bp", "lifted-bp", "gibbs", "mc-sat", "hl-mrf", "map"]
Where = Literal["rules", "facts", "query", "model"]


class Given(BaseModel):
    """Anything that is sent: types are not converted, and unknown fields are rejected."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Model(Given):
    """Rules, facts and queries, as in files of the command line."""

    rules: Annotated[str, Field(max_length=MAX_RULES, description="Types, predicates and rules, as in an .mln file; "
                                "`#include` is rejected.")]
    facts: Annotated[str, Field(max_length=MAX_FACTS, description="Facts, as in a .db file.")] = ""
    query: Annotated[str, Field(max_length=MAX_QUERY, description="Predicates, atoms or formulas, separated by commas; "
                                "empty for every predicate that is not closed.")] = ""


class Question(Model):
    """A model, and how to answer its queries."""

    method: Annotated[MethodName, Field(description="A method of `logicmp infer -m`, or `layer`: mean field with "
                                        "a fixed number of iterations.")] = "auto"
    semantics: Literal["exact", "alchemy", "paper"] = "exact"
    iterations: Annotated[int, Field(ge=1, le=100, description="Iterations of mean field that are traced; those of "
                                     "method `layer`.")] = 12
    damping: Annotated[float, Field(ge=0, le=0.95, description="Share of the previous log-odds kept.")] = 0.5
    temperature: Annotated[float, Field(ge=0.05, le=20, description="Log-odds are divided by it before they become "
                                        "the marginals that send messages.")] = 1.0
    seed: Annotated[int, Field(ge=0, le=2**31 - 1, description="For methods that draw random numbers.")] = 0


class AtomQuestion(Question):
    """A question about one atom."""

    atom: Annotated[str, Field(min_length=1, max_length=MAX_ATOM, examples=["Smokes(Anna)"])]


class Problem(BaseModel):
    """What is wrong, and where."""

    kind: Annotated[Literal["model", "limit", "request", "busy", "internal"], Field(
        description="model: correct the text; limit: make the model smaller; request: the request itself is wrong; "
        "busy: try again later; internal: a defect of the program.")]
    where: Annotated[Where, Field(description="The text that it is about.")] = "model"
    message: str
    hint: str | None = None
    text: Annotated[str, Field(description="Message, line, caret and hint, as the command line prints them.")]
    line: Annotated[int | None, Field(description="Counted from 1.")] = None
    column: Annotated[int | None, Field(description="Counted from 1.")] = None
    start: Annotated[int | None, Field(description="First character, in UTF-16 units from 0.")] = None
    end: int | None = None


class Remark(BaseModel):
    """A warning about some lines."""

    where: Where
    lines: list[int]
    message: str


class Weight(BaseModel):
    """A weight in the text of the rules, so that a slider can replace it."""

    line: int
    rule: Annotated[str, Field(description="The formula as it was written.")]
    value: float
    start: Annotated[int, Field(description="First character of the number, in UTF-16 units from 0.")]
    end: int


class Checked(BaseModel):
    """Errors and warnings of a model that was read but not run."""

    problems: list[Problem]
    warnings: list[Remark]
    weights: list[Weight]
    predicates: list[str]


class AnswerAtom(BaseModel):
    """One answer."""

    atom: str
    args: Annotated[list[str], Field(description="Constants, without the one that is the value.")]
    value: Annotated[str | None, Field(description="Label or functional constant of a categorical predicate.")]
    probability: float
    log_odds: Annotated[float | None, Field(description="None if evidence or hard rules decide the answer.")]
    before: Annotated[float | None, Field(description="Probability from the facts alone, before any rule.")]
    observed: Annotated[bool, Field(description="Whether a fact decides the atom.")]


class Group(BaseModel):
    """The answers to one query."""

    query: str
    predicate: str | None
    views: Annotated[list[Literal["bars", "matrix", "graph", "sequence", "grid"]], Field(
        description="Ways to draw the answers that fit the predicate, the best first.")]
    types: Annotated[list[str], Field(description="Types of `args`.")]
    answers: list[AnswerAtom]


class Relation(BaseModel):
    """A fully observed predicate over pairs of one type: the edges of a graph."""

    predicate: str
    type: str
    pairs: list[tuple[str, str]]


class Trace(BaseModel):
    """Mean field, iteration by iteration."""

    iterations: list[int]
    bound: Annotated[list[float], Field(description="Lower bound of log Z after each iteration.")]
    rules: list[str]
    violations: Annotated[list[list[float]], Field(description="By iteration, the expected violations of each rule.")]
    frames: Annotated[list[list[float | None]], Field(
        description="By iteration, the probability of each answer of all groups in order; null for a formula.")]


class Difference(BaseModel):
    """How far the answers are from exact inference."""

    largest: float
    atom: str
    mean: float


class Answers(BaseModel):
    """Probabilities, and how they were computed."""

    method: str
    used: Annotated[str, Field(description="The methods that `auto` used; else the method.")]
    status: str
    is_exact: bool
    seconds: float
    log_partition: float | None
    bound: float | None
    notes: list[str]
    difference: Difference | None
    why_no_difference: Annotated[str | None, Field(description="Why there is no difference to exact inference.")]
    groups: list[Group]
    relations: list[Relation]
    trace: Trace | None
    plan: Annotated[str, Field(description="The tensor plan of mean field.")]


class Grounding(BaseModel):
    """A grounding of a rule, and what it adds to the log-odds of the atom."""

    amount: float
    text: str


class RulePush(BaseModel):
    """What one rule adds to the log-odds of an atom."""

    rule: str
    line: int | None
    amount: float
    groundings: list[Grounding]


class Explanation(BaseModel):
    """Which rules pushed an atom in mean field."""

    atom: str
    observed: bool
    before: Annotated[float | None, Field(description="Log-odds from the facts alone.")]
    pushes: list[RulePush]


class Code(BaseModel):
    """Programs that do the same."""

    python: str
    command: str


class ExampleModel(BaseModel):
    """A model to start from."""

    name: str
    title: str
    about: str
    rules: str
    facts: str
    query: str


class Health(BaseModel):
    """Whether the server can answer."""

    status: Literal["ok", "starting"]
    version: str
