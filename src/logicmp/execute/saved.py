"""A layer outside the program: a state, a file, or a folder as people share models. Nothing in it is pickled.

Room: files, parse -> **execute** -> layer.

    layer.save("rules.safetensors")          rules and options in the metadata, weights, a checksum
    layer.save_pretrained("folder")          model.safetensors    the same file
                                             rules.mln            the rules with their present weights
                                             README.md            a card: rules, options, figures
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .. import __version__
from ..errors import LogicMPError
from ..files import load_tensors, read_source, tensor_bytes, write_files, write_whole
from ..parse.load import parse_theory
from ..parse.theory import Theory
from .schedule import Schedule

L = TypeVar("L", bound=nn.Module)

WEIGHTS, RULES, CARD = "model.safetensors", "rules.mln", "README.md"
# options that change what a weight means: a state is loaded only where they are equal
OF_WEIGHTS = ("semantics", "reduce", "hard_weight", "positive_weights")


@dataclass(frozen=True)
class Saved:
    """Everything that a layer is made from.

    Attributes:
        source: the rules as they were given.
        rules: the rules with their present weights; the same as `source` in a file that was read.
        options: of the layer, as JSON.
        weights: all parameters and buffers.
        networks: the predicates that have networks.
    """

    source: Theory
    rules: Theory
    options: str
    weights: dict[str, Tensor]
    networks: tuple[str, ...] = ()

    def _metadata(self) -> dict[str, str]:
        more = {"networks": json.dumps(self.networks)} if self.networks else {}
        return {"theory": str(self.source), "options": self.options, **more}

    def _tensors(self) -> dict[str, Tensor]:
        """The weights; a network that several predicates share is written once for each."""
        seen: set[int] = set()
        found = {}
        for name, x in self.weights.items():
            found[name] = x.clone() if x.data_ptr() in seen else x.contiguous()
            seen.add(x.data_ptr())
        return found

    def write(self, path: Path) -> None:
        """Write one file, whole or not at all."""
        write_whole(path, tensor_bytes(self._tensors(), self._metadata()), "a layer")

    def write_folder(self, folder: Path, figures: Mapping[str, float | str]) -> None:
        """Write weights, rules and a card with figures to a folder, which is new or has a saved layer only."""
        others = sorted(path.name for path in folder.iterdir() if path.name not in (WEIGHTS, RULES, CARD)
                        ) if folder.is_dir() else []
        if others:
            raise LogicMPError(f"the folder {str(folder)!r} has other files: {', '.join(others[:4])}"
                               f"{', ...' if len(others) > 4 else ''}",
                               f"save the layer to a folder of its own, for example {str(folder / 'logicmp')!r}")
        card = _card(folder.resolve().name, self.rules, json.loads(self.options), self.networks, figures)
        write_files(folder, {WEIGHTS: tensor_bytes(self._tensors(), self._metadata()), RULES: str(self.rules).encode(),
                             CARD: card.encode()}, "a layer")

    def build(self, make: Callable[..., L], networks: Mapping[str, nn.Module] | None, path: str | Path) -> L:
        """A layer with these rules, options and weights.

        Args:
            make: the class of the layer.
            networks: by predicate, of the same form as those that were saved.
            path: the file, for errors.
        """
        given = list(networks or ())
        if set(self.networks) != set(given):
            has = f"networks for {', '.join(self.networks)}" if self.networks else "no networks"
            example = ", ".join(f"{name!r}: net" for name in self.networks)
            raise LogicMPError(f"the layer in {str(path)!r} has {has}, but predicates "
                               f"{'is not given' if not given else 'has ' + ', '.join(given)}",
                               f"pass predicates={{{example}}}" if self.networks else "leave out predicates")
        try:
            options = json.loads(self.options)
            # files of version 0.1 have iterations, damping and tolerance of the paper's loop instead of a schedule
            schedule = Schedule(**options.pop("schedule")) if "schedule" in options else "paper"
            layer = make(self.source, schedule=schedule, predicates=networks, **options)
        except (KeyError, TypeError, ValueError) as cause:
            raise LogicMPError(f"{str(path)!r} is not a saved layer: {cause}") from None
        _load_weights(layer, self.weights, path)
        return layer


def put_weights(source: Theory, theory: Theory, weights: Sequence[Tensor]) -> Theory:
    """The rules with their present weights, rounded; facts, hard rules and rules without weights stay as they are.

    Args:
        source: rules and facts.
        theory: the rules alone.
        weights: of these rules, as they act. A rule with one weight for each constant keeps its initial weight.
    """
    now = {id(rule): float(f"{w.item():.6g}") for rule, w in zip(theory.rules, weights, strict=True)
           if rule.weight is not None and not rule.is_hard and w.dim() == 0}
    return replace(source, rules=tuple(replace(rule, weight=now.get(id(rule), rule.weight)) for rule in source.rules))


def read_saved(path: Path) -> Saved:
    """Read a file that `Saved.write` wrote; raise if it is damaged."""
    weights, metadata = load_tensors(path, "a layer")
    if "theory" not in metadata or "options" not in metadata:
        missing = "options" if "theory" in metadata else "theory"
        raise LogicMPError(f"{str(path)!r} is not a saved layer: it contains no {missing}")
    source = parse_theory(metadata["theory"])
    return Saved(source, source, metadata["options"], weights, tuple(json.loads(metadata.get("networks", "[]"))))


def find_saved(folder: Path) -> Path:
    """The file with the weights in a folder; raise if it is not a folder of a layer."""
    if not folder.is_dir():
        raise LogicMPError(f"there is no folder {str(folder)!r}" if not folder.exists() else
                           f"{str(folder)!r} is a file; expected a folder", "save_pretrained writes such a folder; "
                           "LogicMP.load reads a single file; models of a hub have to be downloaded first")
    missing = [name for name in (WEIGHTS, RULES) if not (folder / name).is_file()]
    if missing:
        raise LogicMPError(f"the folder {str(folder)!r} has no {' and no '.join(missing)}",
                           "write it again with save_pretrained, or use a complete copy")
    return folder / WEIGHTS


def check_rules(folder: Path, expected: Theory) -> None:
    """Raise if the rules of a folder are not those of its weights."""
    path = folder / RULES
    source = read_source(path)
    if parse_theory(source.text, source.name) != parse_theory(str(expected)):
        raise LogicMPError(f"the rules in {str(path)!r} are not those of the saved weights: the file was changed",
                           f"LogicMP(load_theory({str(path)!r})) makes a new layer from it; or save the layer again")


def _load_weights(layer: nn.Module, weights: Mapping[str, Tensor], path: str | Path) -> None:
    """Put the weights of a file into a new layer; raise if they belong to other rules or networks."""
    expected = {name: list(x.shape) for name, x in layer.state_dict().items() if not name.endswith("_extra_state")}
    found = {name: list(x.shape) for name, x in weights.items()}
    for name in sorted(expected.keys() | found.keys()):
        if name.startswith("networks.") and expected.get(name) != found.get(name):
            raise LogicMPError(f"the networks in {str(path)!r} are not those of predicates: {name} has shape "
                               f"{found.get(name, 'none')} in the file, {expected.get(name, 'none')} in the layer",
                               "pass networks of the same form as those that were saved")
    if found != expected:
        raise LogicMPError(f"the weights in {str(path)!r} are not those of its rules: it has {found}, "
                           f"expected {expected}")
    of_rules = {name: x for name, x in weights.items() if not name.startswith("networks.")}
    # assign: the weights keep the dtype they were saved with
    layer.load_state_dict(of_rules, strict=False, assign=True)
    layer.load_state_dict(weights, strict=False)


# states


def write_state(source: Theory, options: Any) -> Tensor:
    """The rules and the options that weights depend on, as bytes in a tensor: nothing that has to be unpickled."""
    state = {"theory": str(source), **{name: getattr(options, name) for name in OF_WEIGHTS}}
    return torch.tensor(list(json.dumps(state, default=to_plain).encode()), dtype=torch.uint8)


def check_state(state: Tensor, source: Theory, options: Any) -> None:
    """Raise if a state belongs to other rules, or to options with which weights mean something else."""
    try:
        text = bytes(state.tolist()).decode()
        # states of version 0.2 and earlier have the rules alone
        found = json.loads(text) if text.startswith("{") else {"theory": text}
        theory = parse_theory(found.pop("theory"))
    except (AttributeError, KeyError, TypeError, ValueError) as cause:
        raise LogicMPError(f"the saved state is not that of a layer: {cause}") from None
    if theory != parse_theory(str(source)):
        raise LogicMPError(f"the saved state belongs to other rules:\n{theory}",
                           "make the layer from these rules, or use LogicMP.load")
    for name, value in found.items():
        own = getattr(options, name, None)
        if value != own:
            raise LogicMPError(f"the saved state belongs to a layer with {name}={value!r}, this layer has "
                               f"{name}={own!r}", f"make the layer with {name}={value!r}")


def to_plain(value: Any) -> Any:
    """A number of numpy as a number of Python, which JSON can write."""
    return value.item()


# the card


def _card(name: str, rules: Theory, options: Mapping[str, Any], networks: Sequence[str],
          figures: Mapping[str, float | str]) -> str:
    """The card of a folder, in the form in which hubs show it."""
    plain = rules.split_facts()[0]
    n_facts = len(rules.rules) - len(plain.rules)
    weights = ["hard" if rule.is_hard else "none" if rule.weight is None else
               "one per constant" if rule.per_constant else f"{rule.weight:g}" for rule in plain.rules]
    formulas = [str(replace(rule, is_hard=False, weight=None)) for rule in plain.rules]
    call = ", predicates={" + ", ".join(f"{of!r}: ..." for of in networks) + "}" if networks else ""
    parts = [
        "---\nlibrary_name: logicmp\ntags:\n- logicmp\n- rules\n---",
        f"# {name}",
        f"Rules as a PyTorch layer, made with LogicMP {__version__}: logits in, corrected logits out.",
        "```python\nfrom logicmp import LogicMP\n\nlayer = LogicMP.from_pretrained(" f"{json.dumps(name)}{call})\n```",
        "## Rules",
        _table(("Weight", "Rule"), [(weight, f"`{formula}`") for weight, formula in
                                    zip(weights, formulas, strict=True)], "--:|---"),
        f"`{RULES}` has them with all declarations{f' and {n_facts} facts' if n_facts else ''}.",
        *([f"Networks score {', '.join(networks)}; `{WEIGHTS}` has their weights."] if networks else []),
        "## Options",
        _table(("Option", "Value"), [(f"`{key}`", f"`{json.dumps(value)}`") for key, value in options.items()],
               "---|---"),
    ]
    if figures:
        shown = [(key, value if isinstance(value, str) else f"{value:g}") for key, value in figures.items()]
        parts += ["## Figures", _table(("Figure", "Value"), shown, "---|--:")]
    return "\n\n".join(parts) + "\n"


def _table(head: tuple[str, str], rows: Sequence[tuple[str, str]], line: str) -> str:
    cells = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{line}|", *(f"| {row} |" for row in cells)])
