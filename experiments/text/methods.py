"""Every method: its head, its training, and the rows of the table it fills.

    blstm, blstm-lex                     the tagger; with the entities of the training data as a gazetteer
    crf, crf-mean-field, crf-forbidden   chains of learned transitions; the last one allows only those of BIOES
    sl, spl                              circuits of the adjacent rules
    slrelax, logicdist-*, logicmp-*      the rules relaxed, distilled, and as a layer with mean field
    logicmp-adj+doc, logicmp-adj+doc+lex mentions of names in a document, and lexicons; on the fine-tuned BLSTM
    through-adj+doc, through-adj+doc+lex the same rules, with the tagger trained through them
    exact-adj, auto-adj+doc              the layer with exact inference, and with exact inference where that is cheap

One backbone is trained per seed; every method starts from it and has the same budget. Settings are chosen on testa with
seed 0: `python -m experiments.text choose` tries all `choices` and stores the best.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from logicmp import CostError, LogicMPError, compile_rules
from logicmp.files import write_whole
from logicmp.limits import Progress, silent

from ..checkpoint import Checkpoint
from ..runs import Result
from .encode import Vocabulary
from .heads import (
    DECODE,
    CrfHead,
    DistHead,
    DocumentHead,
    ExactHead,
    Head,
    MeanFieldCrf,
    NamesHead,
    RelaxedHead,
    RuleHead,
    SemanticHead,
    SplHead,
)
from .held_out import held_out_logits, learn_weights
from .model import Backbone
from .rules import load_rules, store_weights
from .train import Budget, Data, Fitted, Tagger, evaluate, fit

CHOSEN = Path(__file__).with_name("settings.json")
BACKBONE = Budget(epochs=14, rate=3e-3)
FINE_TUNING = Budget(epochs=3, rate=1e-3, head_rate=1e-2)


@dataclass(frozen=True)
class Method:
    """A head, and the rows of the table it fills: `rows` gives the kind of answer of each row."""

    make: Callable[..., Head]
    rows: Mapping[str, str]
    gazetteer: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    # to try on testa, see `grid`
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    # learning rate of the head (default: that of the budget)
    head_rate: float | None = None
    # rules whose weights are learned from predictions for held-out training documents
    held_out: str = ""
    # put the layer of these rules on the fine-tuned BLSTM, without training the tagger through it
    is_put_on: bool = False


# without damping, neighbours that contradict each other oscillate forever
LAYER = {"iterations": 5, "damping": 0.5}
NAMES = {"iterations": 3, "damping": 0.0}
# the likelihood of sequences without violations grows with the weights: a low rate keeps the weights where mean field
# still converges
RULE_RATE = 1e-3
METHODS: Mapping[str, Method] = {
    "blstm": Method(Head, {"blstm": "", "blstm+decode": DECODE}),
    "blstm-lex": Method(Head, {"blstm-lex": ""}, gazetteer=True),
    "crf": Method(CrfHead, {"crf": ""}),
    "crf-mean-field": Method(MeanFieldCrf, {"crf-mean-field": ""}, settings={"iterations": 3}),
    "crf-forbidden": Method(lambda: CrfHead(forbidden=True), {"crf-forbidden": ""}),
    "sl": Method(SemanticHead, {"sl": ""}, choices={"strength": (0.1, 1.0)}),
    "spl": Method(SplHead, {"spl": ""}),
    "slrelax": Method(lambda **options: RelaxedHead("adj+list", **options), {"slrelax": ""},
                      choices={"strength": (0.1, 1.0)}),
    "logicdist-adj": Method(lambda **options: DistHead("adj", **options),
                            {"logicdist-adj-p": "p", "logicdist-adj-q": "q"}, settings=LAYER,
                            choices={"adjacent": (2.0, 4.0)}),
    "logicdist-adj+list": Method(lambda **options: DistHead("adj+list", **options),
                                 {"logicdist-adj+list-p": "p", "logicdist-adj+list-q": "q"}, settings=LAYER,
                                 choices={"of_pairs": (0.1, 0.3)}),
    "logicmp-adj": Method(lambda **options: RuleHead("adj", **options),
                          {"logicmp-adj": "", "logicmp-adj+decode": DECODE}, settings=LAYER,
                          choices={"adjacent": (2.0, 4.0, 8.0)}, head_rate=RULE_RATE),
    "logicmp-adj+list": Method(lambda **options: RuleHead("adj+list", **options),
                               {"logicmp-adj+list": "", "logicmp-adj+list+decode": DECODE}, settings=LAYER,
                               choices={"of_pairs": (0.1, 0.3, 1.0)}, head_rate=RULE_RATE),
    "exact-adj": Method(ExactHead, {"exact-adj": ""}, choices={"adjacent": (2.0, 4.0, 8.0)}, head_rate=RULE_RATE),
    "logicmp-adj+doc": Method(lambda **options: NamesHead("adj+doc", **options), {"logicmp-adj+doc": ""},
                              settings=NAMES, held_out="adj+doc", is_put_on=True,
                              choices={"iterations": (1, 3)}),
    "logicmp-adj+doc+lex": Method(lambda **options: NamesHead("adj+doc+lex", **options), {"logicmp-adj+doc+lex": ""},
                                  settings=NAMES, held_out="adj+doc+lex", is_put_on=True,
                                  choices={"iterations": (1, 3)}),
    # the tagger trained through the same rules, which start from the weights of their file
    **{f"through-{rules}": Method(partial(NamesHead, rules), {f"through-{rules}": ""}, head_rate=RULE_RATE,
                                  settings={**NAMES, "iterations": iterations}, held_out=rules,
                                  choices={"learn_weights": (False, True)})
       for rules, iterations in (("adj+doc", 3), ("adj+doc+lex", 1))},
    # 1.0 was chosen on testa, with the layer on the BLSTM of seed 0, from 0.1, 0.3, 1, 2 and 4
    "auto-adj+doc": Method(DocumentHead, {"auto-adj+doc": ""}, settings={**LAYER, "of_pairs": 1.0},
                           choices={"of_pairs": (0.3, 1.0, 2.0)}, head_rate=RULE_RATE),
}
# methods without a model, because their circuit does not compile; the result says how far it compiles
CIRCUITS = ("sl-list", "spl-list")


def find_method(name: str) -> Method:
    if name not in METHODS:
        raise LogicMPError(f"unknown method {name!r}", f"methods: {', '.join([*METHODS, *CIRCUITS])}, or all")
    return METHODS[name]


def load_settings(name: str) -> dict[str, Any]:
    """The fixed settings of a method, and those chosen on testa."""
    stored = json.loads(CHOSEN.read_text()) if CHOSEN.exists() else {}
    return {**find_method(name).settings, **stored.get(name, {}).get("settings", {})}


def grid(name: str) -> Iterator[dict[str, Any]]:
    """All settings for `choose` to try."""
    method = find_method(name)
    for values in itertools.product(*method.choices.values()):
        yield {**load_settings(name), **dict(zip(method.choices, values, strict=True))}


def store_settings(name: str, settings: Mapping[str, Any], tried: list[tuple[dict[str, Any], float]],
                   path: Path = CHOSEN) -> None:
    """Store chosen settings; weights of rules go into the file of the rules."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    if find_method(name).is_put_on and "weights" in settings:
        store_weights(find_method(name).held_out, settings["weights"])
    plain = [({what: x for what, x in s.items() if what != "weights"}, f1) for s, f1 in ((settings, 0.0), *tried)]
    stored[name] = {"settings": plain[0][0], "testa": [[s, round(f1, 2)] for s, f1 in plain[1:]]}
    write_whole(path, json.dumps(stored, indent=1) + "\n", "settings")


# training


def make_tagger(name: str, vocabulary: Vocabulary, settings: Mapping[str, Any], hidden: int) -> Tagger:
    method = find_method(name)
    return Tagger(Backbone(vocabulary, hidden, gazetteer=method.gazetteer), method.make(**settings))


@dataclass(frozen=True)
class Context:
    """Options of a command."""

    # folder of checkpoints; None: save none
    work: Path | None = None
    backbone: Budget = BACKBONE
    fine_tuning: Budget = FINE_TUNING
    hidden: int = 200
    # whether the seed draws the training documents
    draws: bool = False
    progress: Progress = silent
    say: Callable[[str], None] = lambda text: None

    def checkpoint(self, name: str, seed: int) -> Path | None:
        return None if self.work is None else self.work / f"{name}-{seed}.pt"


def train_backbone(data: Data, seed: int, context: Context) -> dict[str, Tensor]:
    """Train the plain tagger; every method starts from its best epoch."""
    torch.manual_seed(seed)
    tagger = Tagger(Backbone(data.vocabulary, context.hidden), Head())
    fitted = fit(tagger, data, context.backbone, seed, context.checkpoint("backbone", seed),
                 {"hidden": context.hidden}, context.progress, context.say)
    return fitted.best[""]


def train_method(name: str, data: Data, seed: int, context: Context, settings: Mapping[str, Any] | None = None,
                 kept: bool = True) -> tuple[Tagger, Fitted]:
    """Fine-tune the backbone of a seed with the head of a method.

    Rules over names have the weights of their file, which `choose` learns. If the seed draws the training documents,
    their weights are learned from these documents alone.

    Args:
        kept: save a checkpoint.
    """
    settings, method = load_settings(name) if settings is None else settings, find_method(name)
    if method.held_out and context.draws:
        settings = {**settings, "weights": learn_rules(name, data, seed, context, settings)}
    if method.is_put_on:
        return put_layer(name, data, seed, context, settings, kept)
    start = train_backbone(data, seed, context)
    torch.manual_seed(seed)
    tagger = make_tagger(name, data.vocabulary, settings, context.hidden)
    missing, unexpected = tagger.load_state_dict(start, strict=False)
    assert not unexpected and not any(key.startswith("backbone") and "gazetteer" not in key for key in missing)
    # seed 100 + seed: other batches and dropout than those of the backbone, the same for every method
    budget = context.fine_tuning if method.head_rate is None else replace(context.fine_tuning,
                                                                          head_rate=method.head_rate)
    fitted = fit(tagger, data, budget, 100 + seed, context.checkpoint(name, seed) if kept else None,
                 {"settings": dict(settings), "hidden": context.hidden}, context.progress, context.say)
    return tagger, fitted


def put_layer(name: str, data: Data, seed: int, context: Context, settings: Mapping[str, Any], kept: bool
              ) -> tuple[Tagger, Fitted]:
    """Put the layer on the fine-tuned BLSTM of a seed; `train_method` describes the arguments."""
    plain, before = train_method("blstm", data, seed, context)
    plain.load_state_dict(before.best[""])
    tagger = Tagger(plain.backbone, find_method(name).make(**settings))
    fitted = Fitted(before.epoch, before.seconds, {"": [evaluate(tagger, data.testa).f1]}, {"": tagger.state_dict()})
    state = Checkpoint(context.checkpoint(name, seed) if kept else None, every=0.0)
    # for `show`
    state.made_with = {"settings": dict(settings), "hidden": context.hidden}
    state.save(fitted=asdict(fitted))
    return tagger, fitted


def learn_rules(name: str, data: Data, seed: int, context: Context, settings: Mapping[str, Any]) -> list[float]:
    """The weights of a method's rules, learned from predictions for held-out training documents."""
    head = find_method(name).make(**{**settings, "learn_weights": True})
    assert isinstance(head, NamesHead)
    return learn_weights(head, data.train.documents, held_out_logits(data, seed, context), say=context.say)


def choose(name: str, data: Data, seed: int, context: Context) -> tuple[dict[str, Any], list[tuple[dict[str, Any],
                                                                                                  float]]]:
    """The settings with the best F1 on testa; of a method with two answers, the last answer counts."""
    tried = []
    for settings in grid(name):
        if find_method(name).is_put_on:
            settings = {**settings, "weights": learn_rules(name, data, seed, context, settings)}
        tagger, fitted = train_method(name, data, seed, context, settings, kept=False)
        tried.append((settings, max(fitted.curves[tagger.head.answers[-1]])))
        context.say(f"{name} {settings}: testa {tried[-1][1]:.2f}")
    return max(tried, key=lambda entry: entry[1])[0], tried


def run_method(name: str, plan: Result, data: Data, context: Context) -> list[Result]:
    """Train a method with the seed of a plan; measure all of its rows on testb."""
    tagger, fitted = train_method(name, data, plan.seed, context)
    found = []
    for row, answer in find_method(name).rows.items():
        # an answer that is not trained for, such as decoding, uses the model of the first answer
        trained = answer if answer in fitted.best else tagger.head.answers[0]
        tagger.load_state_dict(fitted.best[trained])
        score = {what: round(value, 3) for what, value in asdict(evaluate(tagger, data.testb, answer)).items()}
        values: dict[str, Any] = {**score, "testa": [round(f1, 3) for f1 in fitted.curves[trained]]}
        if isinstance(tagger.head, (RuleHead, ExactHead)):
            values["rule_weights"] = [round(float(w.detach()), 4) for w in tagger.head.layer.weights]
        found.append(replace(plan, method=row, values=values, seconds=round(fitted.seconds, 1),
                             settings={**load_settings(name), "budget": asdict(context.fine_tuning)}))
    return found


# circuits


def measure_circuit(plan: Result, max_seconds: float = 60.0) -> Result:
    """The result of a method whose circuit does not compile: how far it compiles."""
    done, reason = compile_until("adj+list", 12, max_seconds)
    tokens, nodes, seconds = done[-1]
    return replace(plan, seconds=sum(s for _, _, s in done), status=(
        f"does not compile beyond {tokens} tokens ({nodes:,} nodes, {seconds:.1f} s); {tokens + 1} tokens: {reason}"))


def compile_until(rules: str, max_tokens: int, max_seconds: float = 60.0, max_nodes: int = 1_000_000
                  ) -> tuple[list[tuple[int, int, float]], str]:
    """Compile rules for 2, 3, ... tokens: (tokens, nodes, seconds) of each, and why the last one failed, or \"\"."""
    theory, found = load_rules(rules), []
    for n in range(2, max_tokens + 1):
        try:
            circuit = compile_rules(theory, {"token": n}, max_seconds=max_seconds, max_nodes=max_nodes)
        except CostError as error:
            return found, error.message
        found.append((n, circuit.n_nodes, round(circuit.seconds, 2)))
    return found, ""
