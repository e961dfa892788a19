"""Put the layer on trained taggers without training it: what a schedule makes of predictions of a real model.

    python -m experiments.text untrained --rules adj --schedule adaptive --seeds 3
    python -m experiments.text untrained --rules adj --schedule adaptive --seeds 3 --plain

The layer has the defaults of its schedule, and the rules have the weights of their file; with `--plain` they have none.
Results are stored by schedule; a value that ends in `_before` is that of the tagger alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from logicmp.execute.schedule import make_schedule

from ..runs import Result
from ..tables import with_layer
from .heads import RuleHead
from .methods import Context, train_method
from .train import Data, evaluate

SHOWN = {"f1": ("F1, %", 1, 2), "list_f1": ("F1 with lists, %", 1, 2), "invalid": ("invalid per 1,000", 1, 1)}
# rules without weights
PLAIN = {"adjacent": None, "of_pairs": None}


def plan_untrained(rules: str, schedule: str, seed: int, variant: str, plain: bool) -> Result:
    parts = [variant, f"schedule={schedule}", "plain" if plain else ""]
    return Result("conll2003", "testb", f"blstm+layer-{rules}", seed, " ".join(filter(None, parts)),
                  settings={"rules": rules, "schedule": schedule, **(PLAIN if plain else {})})


def measure(plan: Result, data: Data, context: Context) -> Result:
    """Train BLSTM, if it is not trained, and measure it with and without the layer."""
    tagger, fitted = train_method("blstm", data, plan.seed, context)
    tagger.load_state_dict(fitted.best[""])
    before = asdict(evaluate(tagger, data.testb))
    iterations = make_schedule(plan.settings["schedule"]).iterations
    tagger.head = RuleHead(**plan.settings, iterations=iterations, final_iterations=iterations)
    after = asdict(evaluate(tagger, data.testb))
    values = {name: round(x, 3) for name, x in (*after.items(), *((f"{name}_before", x) for name, x in before.items()))}
    return replace(plan, values=values)


def as_text(results: Sequence[Result]) -> str:
    return with_layer(results, SHOWN)
