"""One run: a row with a seed, from the encoder of that seed.

For each seed one encoder is trained on pairs. Every row then starts from it and is trained for the same epochs on the
same batches, the plain Pair too: what a row gains is not that it was trained longer, and a seed takes an hour.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.compile_time import compile_row
from logicmp import LogicMPError
from logicmp.files import write_whole

from ..runs import Checkpoint, peak_memory
from .blocks import LONG, count_violated, read_blocks, score
from .data import Page, load_pages
from .encoders import LayoutEncoder, MiniEncoder
from .features import WORK, Item, WordVectors, build_item, kept_vectors
from .methods import COMPILED, DECODED, ORDER, ROWS, Network, Settings
from .results import RESULTS, Result
from .training import Progress, Watch, train

# the files that need a trained network say how it is made
HOW = "python -m experiments.documents run --method {} --seed {}"


@dataclass(frozen=True)
class Experiment:
    """What all runs of a command share."""

    data: str | None = None
    results: Path = RESULTS
    work: Path = WORK
    settings: Settings = field(default_factory=Settings)
    encoder: str = "minilm"
    weights: Path | None = None
    # train without the held-out pages and measure on these: how settings are chosen
    is_held_out: bool = False
    # other settings of the rows, by name: their networks and results have a folder of their own
    tried: str = ""
    # for the circuits of SL and SPL, of each size
    max_seconds: float = 60.0
    progress: Progress = lambda what, done, total: None
    # made up pages in place of FUNSD, and the vectors of their words
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
        """Where networks are kept: those of other encoders and pages are others."""
        return self.work / (self.encoder + ("-held-out" if self.is_held_out else ""))

    @property
    def results_folder(self) -> Path:
        return (self.results / "held-out" if self.is_held_out else self.results) / self.tried

    def make_encoder(self) -> nn.Module:
        if self.encoder == "layoutlm":
            if self.weights is None:
                raise LogicMPError("LayoutLM needs weights, which this project does not have",
                                   "give --weights DIR, a folder that save_pretrained wrote")
            return LayoutEncoder(self.weights)
        return MiniEncoder(self.settings.dim, self.settings.layers, dropout=self.settings.dropout)

    # networks

    def _fit(self, network: Network, path: Path, epochs: int, rate: float, seed: int, what: str,
             made_with: Mapping[str, Any]) -> dict[str, Any]:
        """Train a network and keep it; gives what is kept."""
        checkpoint = Checkpoint(Path(f"{path}.unfinished"))
        watch = Watch(self.progress, checkpoint)
        settings = self.settings
        losses = train(network, self.train_items, epochs, rate, settings.weight_rate, settings.batch, seed, watch, what)
        kept = {"network": network.state_dict(), "losses": losses, "seconds": round(watch.seconds, 1),
                "settings": made_with}
        buffer = io.BytesIO()
        torch.save(kept, buffer)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, buffer.getvalue(), "a network")
        checkpoint.remove()
        return kept

    def _kept(self, path: Path, made_with: Mapping[str, Any]) -> dict[str, Any] | None:
        kept = Checkpoint(path).load()
        if kept is not None and kept["settings"] != made_with:
            raise LogicMPError(f"{str(path)!r} was made with other settings",
                               "give another --work, or take its folder away")
        return kept

    def pretrained(self, seed: int) -> tuple[Network, float]:
        """The network on pairs that all rows of a seed start from, and the seconds it took."""
        path, made_with = self.folder / f"encoder-{seed}.pt", self.settings.of_encoder()
        kept = self._kept(path, made_with)
        torch.manual_seed(seed)
        network = Network(self.make_encoder(), ROWS["pair"], self.settings)
        if kept is None:
            kept = self._fit(network, path, self.settings.epochs, self.settings.rate, seed, f"encoder, seed {seed}",
                             made_with)
        network.load_state_dict(kept["network"])
        return network, float(kept["seconds"])

    def fitted(self, method: str, seed: int) -> tuple[Network, dict[str, Any]]:
        """The network of a row, trained if it is not there; and what was kept of its training."""
        path, made_with = self.folder / self.tried / f"{method}-{seed}.pt", asdict(self.settings)
        kept = self._kept(path, made_with)
        start, encoder_seconds = self.pretrained(seed)
        torch.manual_seed(seed)
        network = Network(start.encoder, ROWS[method], self.settings)
        if hasattr(network.head, "scores"):
            # links start from what pairs have learned, as the encoder does
            network.head.scores = start.head.scores
        if kept is None:
            kept = self._fit(network, path, self.settings.row_epochs, self.settings.row_rate, seed,
                             " ".join([f"{method}, seed {seed}", self.tried]).strip(), made_with)
        network.load_state_dict(kept["network"])
        return network.eval(), {**kept, "encoder_seconds": encoder_seconds}

    def load(self, method: str, seed: int) -> Network:
        """The network of a row that was trained before."""
        for path in (self.folder / f"encoder-{seed}.pt", self.folder / self.tried / f"{method}-{seed}.pt"):
            if not path.exists():
                raise LogicMPError(f"the network of {method!r} with seed {seed} is not in {str(self.folder)!r}",
                                   f"train it: {HOW.format(method, seed)}")
        return self.fitted(method, seed)[0]

    # results

    def run(self, method: str, seed: int) -> Result:
        """Train a row if it is not trained, measure it, and store what it gave."""
        result = Result(method, seed, encoder=self.encoder, threads=torch.get_num_threads(),
                        pages="held-out" if self.is_held_out else "test", settings=asdict(self.settings))
        if method in COMPILED:
            self._compile(result)
        else:
            self._measure(result)
        result.peak_memory = peak_memory()
        result.save(self.results_folder)
        return result

    def _measure(self, result: Result) -> None:
        decoded = DECODED.get(result.method)
        row = decoded.row if decoded else result.method
        network, kept = self.fitted(row, result.seed)
        found, violated, violated_before, triples, n_proven = [], 0, 0, 0, 0
        for k, item in enumerate(self.test_items):
            if network.is_pair:
                below, above = network.log_odds(item)
                labels, is_proven = decoded.read(above) if decoded else (read_blocks(above), False)
                n_proven += is_proven
                violated_before += count_violated(below)
                # an answer of clusters breaks nothing
                violated += 0 if decoded else count_violated(above)
                triples += len(item.page) ** 3
            else:
                labels = network.blocks(item)
            found.append((labels, item.page.block))
            self.progress(f"measuring {result.method}", k + 1, len(self.test_items))
        full, long = score(found), score(found, LONG)
        result.full, result.long = round(full.f1, 3), round(long.f1, 3)
        result.blocks, result.long_blocks = (full.matched, full.predicted, full.true), (
            long.matched, long.predicted, long.true)
        if network.is_pair:
            result.violated_before, result.violated = violated_before / triples, violated / triples
        if network.layer is not None:
            result.weight = round(float(network.layer.weights[0].detach()), 4)
        result.losses, result.seconds, result.encoder_seconds = kept["losses"], kept["seconds"], kept["encoder_seconds"]
        if result.method == "pair+ilp":
            result.status = f"proven to be the best for {n_proven} of {len(found)} pages, for the others the best found"

    def _compile(self, result: Result) -> None:
        """How far the circuit of the rule goes: both methods need one over all words of a page."""
        done, tokens = [], 4
        while not done or done[-1].seconds is not None:
            tokens += 1
            self.progress("compiling, tokens", tokens, tokens)
            done.append(compile_row(tokens, self.max_seconds))
        result.seconds = round(sum(row.seconds or self.max_seconds for row in done), 1)
        shown = ", ".join(f"{row.tokens} tokens {row.seconds:.2f} s" for row in done if row.seconds is not None)
        smallest = min(len(item.page) for item in self.test_items)
        result.status = (f"the circuit of {shown}; {tokens} tokens not within {self.max_seconds:g} s; the smallest "
                         f"page has {smallest}")


def shown(result: Result) -> str:
    """A finished run in a line."""
    if result.full is None:
        return f"{result.title}: {result.status}"
    violated = "" if result.violated is None else f", {1e6 * result.violated:.1f} ppm of the triples violated"
    return (f"{result.title}: F1 {result.full:.2f}, long {result.long:.2f}{violated}; {result.seconds:.0f} s, "
            f"{result.peak_memory:.0f} MB")


def run_all(experiment: Experiment, methods: Sequence[str], seeds: Sequence[int], again: bool = False) -> None:
    """Run rows that have no result yet, and say what each gave."""
    for given in seeds:
        for method in sorted(methods, key=ORDER.index):
            # circuits know no seed: once is enough
            seed = 0 if method in COMPILED else given
            if (experiment.results_folder / Result(method, seed).file).exists() and not again:
                print(f"{method} seed {seed}: there already", file=sys.stderr)
            else:
                print(shown(experiment.run(method, seed)), flush=True)
