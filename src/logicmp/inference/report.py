"""A report of answers as one HTML page: the input, the assumptions, the answers, the course, and explanations.

Room: answers -> **report** -> show, serve, cli.

    infer(theory, facts, "Smokes").report("smokes.html")
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import LogicMPError
from ..page import (
    Html,
    Page,
    bar,
    code,
    curves,
    fragment,
    heading,
    histogram,
    indented,
    listed,
    paragraph,
    plural,
    table,
)
from ..page import probability as shown
from ..parse.syntax import PLAIN_LABEL, Atom, Constant, Formula, free_variables, put_constants, quoted
from ..parse.theory import Rule, Theory
from .method import n_hard_groundings

if TYPE_CHECKING:
    from ..execute.report import Trace
    from ..execute.schedule import Schedule
    from ..facts.columns import Evidence
    from ..facts.world import World
    from .answers import Marginals

# rows of the table of answers, in a report and in a notebook
MAX_ROWS, NOTEBOOK_ROWS = 500, 20
# groundings of a rule in an explanation
TOP_GROUNDINGS = 4
# a report explains this many atoms, if the tensors of the world have no more atoms than this
EXPLAINED, MAX_EXPLAINED_ATOMS = 5, 2**20
# how a run ended
STATUS = {"exact": "exact inference", "optimal": "the most probable world, proven", "converged": "converged",
          "iterations": "all iterations were used before the answers converged", "time": "the time limit was reached",
          "none": "no answers"}
# what pushed an atom: amount and rule, with the amount and text of its strongest groundings
Pushes = Sequence[tuple[float, Rule, Sequence[tuple[float, str]]]]
# of mean field: the bound after each iteration, and the expected violations of each rule
Course = tuple[Sequence[float], Sequence[Sequence[float]]]


def report_answers(found: Marginals, seconds: float | None = None, difference: Mapping[str, Any] | None = None,
                   course: Course | None = None, explained: Sequence[tuple[str, Pushes]] = (),
                   sources: Mapping[str, str] | None = None) -> str:
    """The report of a run, as the text of an HTML file that needs no other file.

    Args:
        found: the answers.
        seconds: time that inference took.
        difference: "largest", "atom" and "mean" difference to exact inference, if it was measured.
        course: of mean field, if there is one.
        explained: atoms with the pushes that each rule gave them.
        sources: texts of the model by name.
    """
    page = Page("LogicMP report")
    lines = [*found.describe(), f"status: {STATUS[found.status]}"]
    if seconds is not None:
        lines.append(f"time: {seconds:.3g} s")
    if difference is not None:
        lines.append(f"difference to exact inference: at most {difference['largest']:.4f}, for {difference['atom']}; "
                     f"{difference['mean']:.4f} on average")
    page.add("Summary", listed([line for text in lines for line in text.splitlines()]))
    page.add("Answers", histogram(found.probabilities.tolist()), *answer_table(found, MAX_ROWS))
    page.add("Mean field", *([] if course is None else _course(found, *course)))
    page.add("Why", *([paragraph("What the rules add to the log-odds of an atom in mean field. Other methods can give "
                                 "another probability.", True)] if explained else []),
             *(part for atom, pushes in explained for part in _explained(atom, pushes)))
    page.add("Model", *(part for name, text in (sources or {}).items() if text.strip()
                        for part in (heading(name), code(text))))
    return page.to_html()


def answer_table(found: Marginals, most: int) -> list[Html]:
    """The most probable answers with bars, and how many others there are."""
    p = found.probabilities
    texts = [text for answer in found.answers for text in answer.texts()]
    order = sorted(range(len(p)), key=lambda k: -p[k])
    parts = [table(["answer", "probability", ""],
                   [[texts[k], shown(float(p[k])), bar(float(p[k]))] for k in order[:most]])]
    if len(order) > most:
        parts.append(paragraph(f"{plural(len(order) - most, 'more answer')}, less probable, not shown", True))
    return parts


def to_notebook(found: Marginals) -> str:
    """The answers for a notebook."""
    by = found.solution.used or found.method
    summary = f"{plural(len(found.probabilities), 'answer')} by {by}; {found.status}"
    return fragment(paragraph(summary, True), *answer_table(found, NOTEBOOK_ROWS))


def _course(found: Marginals, bound: Sequence[float], violations: Sequence[Sequence[float]]) -> list[Html]:
    rules = [str(rule) for rule in found.world.theory.rules]
    by_rule = {rule: [row[f] for row in violations] for f, rule in enumerate(rules)}
    most = sorted(by_rule, key=lambda rule: -by_rule[rule][-1])
    return [paragraph(f"The course of mean field over {plural(len(bound) - 1, 'iteration')}; the rule with most "
                      "expected violations is first.", True),
            curves({"lower bound of log Z": bound, **{rule: by_rule[rule] for rule in most}},
                   "bound, then expected violations")]


def _explained(atom: str, pushes: Pushes) -> list[Html]:
    rows: list[list[str | float | Html]] = []
    for amount, rule, groundings in pushes:
        if amount:
            rows.append([f"{amount:+.3f}", str(rule)])
            rows += [[f"{part:+.3f}", indented(f"through {text}")] for part, text in groundings]
    return [heading(atom), table(["log-odds", "rule"], rows) if rows else paragraph("no rule pushed it", True)]


# mean field once more, to see the course and the pushes


def build_report(found: Marginals, seconds: float | None = None, difference: Mapping[str, Any] | None = None) -> str:
    """The report of answers, with the course of mean field and explanations where its tensors are small enough.

    Args:
        found, seconds, difference: as for `report_answers`.
    """
    from ..execute.schedule import Schedule

    course: Course | None = None
    if found.solution.trace:
        course = [line.elbo for line in found.solution.trace], [line.violations for line in found.solution.trace]
    explained: list[tuple[str, Pushes]] = []
    n_atoms = sum(values.size for values in found.world.values.values())
    if found.world.latent and not found.world.supports and n_atoms <= MAX_EXPLAINED_ATOMS:
        try:
            explain = Explainer(found.world, Schedule(20, 0.5), found.semantics)
            if course is None:
                trace = explain.trace()
                course = trace.elbo.tolist(), trace.violations.tolist()
            explained = [(atom, explain(atom)) for atom in most_certain(found)]
        except LogicMPError as error:
            found.solution.notes.append(f"no explanations: {error.message}")
    sources = {"Rules": str(found.facts.theory), "Facts": facts_text(found.facts),
               "Query": "\n".join(answer.query.text for answer in found.answers)}
    return report_answers(found, seconds, difference, course, explained, sources)


def facts_text(facts: Evidence, most: int = MAX_ROWS) -> str:
    """The first facts, one per line, and how many there are in all."""
    lines: list[str] = []
    for given in facts.tables.values():
        first = given.take(np.arange(min(len(given), most - len(lines))))
        for args, value in zip(first.args, first.values.tolist(), strict=True):
            mark = {0.0: "!", 1.0: ""}.get(value, "?" if math.isnan(value) else f"{value:.6g} ")
            n = len(given.predicate.arguments)
            label = "".join(f" = {quoted(name, PLAIN_LABEL)}" for name in args[n:])
            lines.append(f"{mark}{Atom(given.predicate.name, tuple(map(Constant, args[:n])))}{label}")
    more = len(facts) - len(lines)
    return "\n".join([*lines, *([f"// and {plural(more, 'more fact')}"] if more else [])])


def most_certain(found: Marginals, count: int = EXPLAINED) -> list[str]:
    """Queried atoms to explain: the most probable ones, then those nearest to 0 or 1; none that is decided."""
    p: dict[str, float] = {}
    seen = set()
    for given in found.answers:
        formula = given.query.formula
        if not isinstance(formula, Atom):
            continue
        is_symmetric = found.world.theory.predicate[formula.predicate].symmetric
        for text, odds in zip(given.texts(), given.log_odds.tolist(), strict=True):
            # of C(A,B) and C(B,A), the first one
            args = text[len(formula.predicate) + 1 : -1].split(",")
            atom = formula.predicate, *(sorted(args) if is_symmetric else args)
            if math.isfinite(odds) and atom not in seen:
                seen.add(atom)
                p[text] = odds
    top = sorted(p, key=lambda text: -p[text])[: (count + 1) // 2]
    return [*top, *sorted(p.keys() - set(top), key=lambda text: (-abs(p[text]), text))][:count]


class Explainer:
    """Mean field on the rules and the tensors of a world: which rules push an atom, and through which groundings."""

    def __init__(self, world: World, schedule: Schedule, semantics: str):
        from ..execute.mean_field import initial_weights
        from ..execute.solve import Options, Solver
        from ..execute.worlds import world_tensors

        self.world, self.schedule, self.semantics = world, schedule, semantics
        unary, evidence = world_tensors(world)
        dtype = next(iter(unary.values())).dtype if unary else None
        theory, options = world.theory.split_facts()[0], Options(schedule, semantics=semantics)
        self.hard_weight = options.hard_weight
        weights = initial_weights(theory, theory.sizes, options.hard_weight, dtype)
        self.run = Solver(theory, options).run(unary, evidence, None, weights, may_list=False)
        self._rules = {str(rule): rule for rule in reversed(world.theory.rules)}

    def trace(self) -> Trace:
        """The course of mean field, with a bound of the log Z that methods report."""
        from ..execute.report import build_trace

        found = build_trace(self.run, self.schedule)
        # a true grounding of a hard rule adds nothing to log Z, but its weight to the bound
        return replace(found, elbo=found.elbo - self.hard_weight * n_hard_groundings(self.world, self.semantics))

    def __call__(self, atom: str) -> Pushes:
        from ..execute.explain import explain_atom

        found = []
        for push in explain_atom(self.run, self.schedule, atom, 0, self.semantics):
            rule = self._rules[push.rule]
            found.append((push.amount, rule, [(amount, _grounded(rule.formula, names, self.world.theory))
                                              for amount, names in push.groundings(TOP_GROUNDINGS)]))
        return found


def _grounded(formula: Formula, names: Mapping[str, str], theory: Theory) -> str:
    """A formula with constants instead of its variables; the constants alone where they are not its variables."""
    types = free_variables(formula)
    if set(names) != set(types):
        return ", ".join(f"{name}={value}" for name, value in names.items())
    chosen = {name: theory.index(types[name], value) for name, value in names.items()}
    return str(put_constants(formula, chosen, {t.name: t.constants for t in theory.types}))
