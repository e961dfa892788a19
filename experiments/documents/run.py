"""Train and measure a method with a seed.

One encoder per seed is trained on pairs and links. Every method, also the plain Pair, starts from it and is trained for
the same epochs on the same batches. So no method is trained longer than another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.compile_time import compile_row
from logicmp import LogicMPError
from logicmp.limits import Progress, silent

from ..checkpoint import Checkpoint
from ..runs import Result, run_all
from .blocks import LONG, agreement, count_violated, score
from .data import Page, load_pages
from .encoders import LayoutEncoder, MiniEncoder
from .features import WORK, Item, WordVectors, build_item, kept_vectors
from .heads import BothHead, LinksHead, PairHead, SpadeHead
from .methods import COMPILED, DECODED, METHODS, ORDER, START, Model, Settings
from .results import RESULTS
from .training import train

# the hint of errors that miss a trained model
HOW = "python -m experiments.documents run --method {} --seed {}"


@dataclass(frozen=True)
class Experiment:
    """Options and data of a command."""

    data: str | None = None
    results: Path = RESULTS
    work: Path = WORK
    settings: Settings = field(default_factory=Settings)
    encoder: str = "minilm"
    weights: Path | None = None
    # train without the held-out pages and measure on them, to choose settings
    is_held_out: bool = False
    # settings that `choose` tries, such as "weight=0.1"
    tried: str = ""
    # whether they need an encoder of their own
    is_new_encoder: bool = False
    # for each circuit of SL and SPL
    max_seconds: float = 60.0
    progress: Progress = silent
    # generated pages instead of FUNSD (train, test), and vectors of their words
    given: tuple[Sequence[Page], Sequence[Page]] | None = None
    vectors: WordVectors | None = None

    def item(self, page: Page) -> Item:
        return build_item(page, self.vectors or kept_vectors(self.work / "minilm"))

    def _items(self, what: str, pages: Sequence[Page]) -> list[Item]:
        found = []
        for k, page in enumerate(pages):
            found.append(self.item(page))
            self.progress(what, k + 1, len(pages))
        return found

    @cached_property
    def train_items(self) -> list[Item]:
        pages = self.given[0] if self.given else load_pages("kept" if self.is_held_out else "train", self.data)
        return self._items("reading training pages", pages)

    @cached_property
    def test_items(self) -> list[Item]:
        pages = self.given[1] if self.given else load_pages("held-out" if self.is_held_out else "test", self.data)
        return self._items("reading test pages", pages)

    @property
    def folder(self) -> Path:
        """Where trained models are stored, by encoder and training pages."""
        return self.work / (self.encoder + ("-held-out" if self.is_held_out else ""))

    def make_encoder(self) -> nn.Module:
        if self.encoder == "layoutlm":
            if self.weights is None:
                raise LogicMPError("LayoutLM needs weights, which this project does not include",
                                   "use --weights DIR, a folder written by save_pretrained")
            return LayoutEncoder(self.weights)
        return MiniEncoder(self.settings.dim, self.settings.layers, dropout=self.settings.dropout)

    # models

    def _fit(self, model: Model, path: Path, epochs: int, rate: float, seed: int, what: str,
             made_with: Mapping[str, Any]) -> dict[str, Any]:
        """Load a trained model, or train and store it; returns its losses and seconds."""
        finished = Checkpoint(path, every=0.0)
        kept = finished.load(made_with)
        if kept is None:
            checkpoint = Checkpoint(Path(f"{path}.unfinished"))
            losses = train(model, self.train_items, epochs, rate, self.settings, seed, self.progress, checkpoint, what,
                           made_with)
            kept = {"model": model.state_dict(), "losses": losses, "seconds": round(checkpoint.seconds, 1)}
            finished.save(**kept)
            checkpoint.remove()
        model.load_state_dict(kept["model"])
        return {"losses": kept["losses"], "seconds": kept["seconds"]}

    def encoder_path(self, seed: int) -> Path:
        return self.folder / (self.tried if self.is_new_encoder else "") / f"encoder-{seed}.pt"

    def pretrained(self, seed: int) -> tuple[Model, float]:
        """The model that all methods of a seed start from, and its training time in seconds."""
        torch.manual_seed(seed)
        model = Model(self.make_encoder(), START, self.settings)
        kept = self._fit(model, self.encoder_path(seed), self.settings.epochs, self.settings.rate, seed,
                         f"encoder, seed {seed}", self.settings.of_encoder())
        return model, float(kept["seconds"])

    def fitted(self, method: str, seed: int) -> tuple[Model, dict[str, Any]]:
        """The trained model of a method; its losses, and seconds of its training and of the encoder's."""
        start, encoder_seconds = self.pretrained(seed)
        torch.manual_seed(seed)
        model = Model(start.encoder, METHODS[method], self.settings)
        head, pair, link = model.head, start.head.pair, start.head.link
        if isinstance(head, PairHead):
            head.scores = pair.scores
        elif isinstance(head, SpadeHead):
            # links start from the scores of pairs if the encoder was not trained on links
            head.scores = link.scores if self.settings.links else pair.scores
            head.first = link.first if self.settings.links else head.first
        if isinstance(head, BothHead):
            head.pair = deepcopy(pair)
        kept = self._fit(model, self.folder / self.tried / f"{method}-{seed}.pt", self.settings.row_epochs,
                         self.settings.row_rate, seed, " ".join([f"{method}, seed {seed}", self.tried]).strip(),
                         asdict(self.settings))
        return model.eval(), {**kept, "encoder_seconds": encoder_seconds}

    def load(self, method: str, seed: int) -> Model:
        """The model of a method, which must be trained already."""
        for path in (self.encoder_path(seed), self.folder / self.tried / f"{method}-{seed}.pt"):
            if not path.exists():
                raise LogicMPError(f"there is no model of {method!r} with seed {seed} in {str(self.folder)!r}",
                                   f"train it: {HOW.format(method, seed)}")
        return self.fitted(method, seed)[0]

    # results

    def plan(self, method: str, seed: int = 0) -> Result:
        variant = " ".join(filter(None, ["" if self.encoder == "minilm" else self.encoder, self.tried]))
        return Result("funsd", "held-out" if self.is_held_out else "test", method, seed, variant,
                      settings={"encoder": self.encoder, **asdict(self.settings)})

    def is_own(self, result: Result) -> bool:
        """Whether a result has the pages, encoder and tried settings of this experiment."""
        return result.key == self.plan(result.method, result.seed).key

    def run(self, methods: Sequence[str], seeds: Sequence[int], again: bool = False) -> None:
        """Run methods without a stored result."""
        # circuits ignore the seed: run them once
        plans = [self.plan(method, 0 if method in COMPILED else seed) for seed in seeds
                 for method in sorted(methods, key=ORDER.index)]
        run_all(plans, lambda plan: [self.compile(plan) if plan.method in COMPILED else self.measure(plan)],
                self.results, again)

    def measure(self, plan: Result) -> Result:
        """Train a method, if it is not trained, and measure it."""
        decoded = DECODED.get(plan.method)
        model, kept = self.fitted(decoded.method if decoded else plan.method, plan.seed)
        has_pairs = decoded is not None or model.is_pair or isinstance(model.head, LinksHead)
        found, violated, violated_before, triples, n_proven = [], 0, 0, 0, 0
        for k, item in enumerate(self.test_items):
            if has_pairs:
                below, above = model.log_odds(item)
                labels, is_proven = decoded.read(above) if decoded else (model.read(above), False)
                n_proven += is_proven
                violated_before += count_violated(below)
                # clusters violate nothing
                violated += count_violated(above) if model.is_pair and not decoded else 0
                triples += len(item.page) ** 3
            else:
                labels = model.blocks(item)
            found.append((labels, item.page.block))
            self.progress(f"measuring {plan.method}", k + 1, len(self.test_items))
        full, long = score(found), score(found, LONG)
        values: dict[str, Any] = {"full": round(full.f1, 3), "long": round(long.f1, 3), **agreement(found),
                                  "blocks": list(astuple(full)), "long_blocks": list(astuple(long))}
        if has_pairs:
            values |= {"violated_before": violated_before / triples, "violated": violated / triples}
        if model.layer is not None:
            values["weight"] = round(float(model.layer.weights[0].detach()), 4)
        elif isinstance(model.head, BothHead):
            values["weight"] = round(float(model.head.weight.detach()), 4)
        values |= {"encoder_seconds": kept["encoder_seconds"], "losses": kept["losses"]}
        status = (f"proven optimal for {n_proven} of {len(found)} pages; best solution found for the others"
                  if plan.method == "pair+ilp" else "done")
        return replace(plan, status=status, values=values, seconds=kept["seconds"])

    def compile(self, plan: Result) -> Result:
        """Measure how far the circuit of the rule compiles; SL and SPL need one over all words of a page."""
        done, tokens = [], 4
        while not done or done[-1].seconds is not None:
            tokens += 1
            self.progress("compiling, tokens", tokens, tokens)
            done.append(compile_row(tokens, self.max_seconds))
        shown = ", ".join(f"{row.tokens} tokens {row.seconds:.2f} s" for row in done if row.seconds is not None)
        smallest = min(len(item.page) for item in self.test_items)
        status = (f"the circuit of {shown}; {tokens} tokens not within {self.max_seconds:g} s; the smallest page has "
                  f"{smallest}")
        return replace(plan, status=status, seconds=round(sum(row.seconds or self.max_seconds for row in done), 1))
