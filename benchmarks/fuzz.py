"""Fuzzing: random inputs end in a right answer or in a LogicMPError.

    python -m benchmarks fuzz                           all stages, 1,000 inputs each
    python -m benchmarks fuzz plan --count 1000000      text through parse, normalize and plan
    python -m benchmarks fuzz infer --seconds 600       small worlds, compared with the oracle's enumeration
    python -m benchmarks fuzz layer --seed 7            the layer with odd tensors
    python -m benchmarks fuzz sparse                    the layer with sparse tensors, compared with dense ones
    python -m benchmarks fuzz --replay fuzz-failures/plan-0-123.json

Input number k depends only on the seed, the stage and k: `--first k` continues where a run stopped. The input of a
failure is written to a file, from which `--replay` runs it again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from logicmp import LogicMPError, build_plan, infer, normalize_theory, parse_facts, parse_theory
from logicmp.facts.world import build_world
from logicmp.normalize.build import SEMANTICS
from logicmp.parse.theory import Predicate, Theory
from logicmp.testing.random_models import random_model
from logicmp.testing.random_theories import random_theory

ROOT = Path(__file__).parent.parent
# processor seconds after which an input is a failure: nothing may run for long without a word
MAX_SECONDS = 60.0
# characters of a text to damage
MAX_TEXT = 4000
# values that a mutation puts into a text
PIECES = [
    "P(x)", "Q", "P", "x", "y", "X", "A", "t", "?x", "+x", "i+1", "i-1", "-1", "1", "0.5", "1e3", "log(2)", '"a b"',
    "v", " v ", "^", "=>", "<=>", "!", "!=", "=", "(", ")", "[", "]", "{", "}", ",", ".", "...", "*", "EXIST",
    "forall ", "exist y ", "in", "not", "not in", "symmetric ", "//", "/*", "*/", "#include", '"', "\\", "\n", "\n",
    " ", " ", " ", "\t", "\r", "∃", "∧", "¬", "é", "İ", ":", "<", "?", "'", "P(t)\n", "P(t!, u?)\n", "t = {A, B}\n",
    "P(t) in {A, b-1}\n", "2 ", "~", "&", "|", "->", "or", "and",
]
NUMBERS = ["0", "-0", "1e308", "-1e308", "1e-320", "99999999999999999999", "0.1", "007", "1e999", "log(0)"]


# stages: each makes an input from a random generator, and runs one


def make_plan(rng: random.Random, texts: list[str]) -> dict[str, Any]:
    """A damaged theory: a random one, or one from a file."""
    if rng.random() < 0.4:
        text = str(random_theory(rng, max_constants=4, max_atoms=rng.choice((2, 4, 6))))
    elif rng.random() < 0.1:
        text = "".join(rng.choices(PIECES, k=rng.randint(0, 30)))
    else:
        lines = rng.choice(texts).split("\n")
        kept = min(1.0, 20 / len(lines)) if rng.random() < 0.5 else 1.0
        text = "\n".join(line for line in lines if rng.random() <= kept)[:MAX_TEXT]
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        text = mutate(rng, text, texts)
    # with a low limit most of the time, so that rules that are too large are rejected sooner
    return {"text": text, "semantics": rng.choice(SEMANTICS), "size": rng.choice((0, 1, 2, 3, 5, 1000)),
            "max_cubes": 512 if rng.random() < 0.01 else rng.choice((4, 32))}


def run_plan(case: dict[str, Any]) -> None:
    theory = parse_theory(case["text"])
    if parse_theory(str(theory), "<printed>") != theory:
        raise AssertionError(f"the printed theory reads back as another one:\n{theory}")
    sizes = {t.name: max(len(t.constants), case["size"]) for t in theory.types if not t.closed}
    form = normalize_theory(theory, case["semantics"], sizes, case["max_cubes"])
    if not str(form) or not str(build_plan(form, sizes)):
        raise AssertionError("nothing to print")


def make_infer(rng: random.Random, texts: list[str]) -> dict[str, Any]:
    """A small theory with facts, and a method."""
    theory = random_theory(rng, max_ground=8)
    facts = [fact for predicate in theory.predicates for fact in _facts(rng, theory, predicate)]
    method = rng.choice(("exact", "auto", "exact", "auto", "exact", "bp", "mean-field", "map", "lifted-bp", "hl-mrf"))
    return {"text": str(theory), "facts": "\n".join(facts), "method": method,
            "world": rng.choice(("open", "alchemy", "closed"))}


def _facts(rng: random.Random, theory: Theory, predicate: Predicate) -> Iterator[str]:
    for _ in range(rng.choice((0, 0, 1, 2))):
        args = ", ".join(rng.choice(theory.type[t].constants) for t in predicate.types)
        atom = f"{predicate.name}({args})" if args else predicate.name
        if predicate.labels is not None:
            atom += f" = {rng.choice(predicate.labels)}"
        yield rng.choice(("", "!", "?", "0.3 ", "0.9 ")) + atom


def run_infer(case: dict[str, Any]) -> None:
    import torch

    from logicmp import oracle

    theory = parse_theory(case["text"])
    evidence = parse_facts(case["facts"], theory)
    names = [p.name for p in theory.predicates]
    world = build_world(evidence, names, case["world"])
    known = {name: torch.tensor(values).double() for name, values in world.values.items()}
    known = {name: values.where(values >= 0, math.nan) for name, values in known.items()}
    unary = {name: torch.tensor(values) for name, values in world.unary.items()}
    try:
        want = oracle.exact_marginals(theory, unary, known)
    except LogicMPError:
        want = None
    try:
        found = infer(theory, evidence, names, case["method"], world=case["world"])
    except LogicMPError:
        if want is not None and case["method"] in ("exact", "auto", "map"):
            raise AssertionError("rejected, but the enumeration has an answer") from None
        raise
    if want is None:
        if case["method"] in ("exact", "auto"):
            raise AssertionError("answered, but the enumeration finds no world")
        return
    for name, p in found.to_tensors().items():
        if not bool(((p >= 0) & (p <= 1)).all()):
            raise AssertionError(f"{name} has a probability outside of 0 to 1: {p}")
        if case["method"] in ("exact", "auto") and found.status == "exact":
            torch.testing.assert_close(p.double(), want[name], rtol=1e-7, atol=1e-9, msg=lambda text, n=name:
                                       f"{n} differs from the enumeration: {text}")
        if case["method"] == "map" and bool(((p == 1) & (want[name] == 0)).any()):
            raise AssertionError(f"the best world has an impossible atom of {name}")


def make_layer(rng: random.Random, texts: list[str]) -> dict[str, Any]:
    return {"seed": rng.getrandbits(48)}


def run_layer(case: dict[str, Any]) -> None:
    """Call a layer with tensors of odd types, shapes and values; those it accepts get the answer of plain ones."""
    import torch

    from logicmp import LogicMP

    rng = random.Random(case["seed"])
    model = random_model(rng, features=["formulas", "quantifiers", "equality", "constants", "repeated", "symmetric",
                                        "multiclass", "functional", "negative", "zero_arity", "unweighted", "hard"])
    layer = LogicMP(model.theory, sizes=None, iterations=rng.randint(1, 3))
    name = rng.choice(list(model.unary))
    what, odd, is_equal = rng.choice(ODD)
    changed = odd(model.unary[name].clone(), rng)
    inputs = {**model.unary, name: changed}
    found = layer(inputs)
    for key, tensor in found.items():
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
            raise AssertionError(f"{what}: the answer for {key} is {type(tensor).__name__}")
    if is_equal:
        want = layer(model.unary)
        for key, tensor in found.items():
            torch.testing.assert_close(tensor.double(), want[key], rtol=1e-2, atol=1e-2)
    elif not all(bool(tensor.to_dense().isfinite().all()) for tensor in found.values()):
        raise AssertionError(f"{what}: the answer is not finite, and no error says so")


def run_sparse(case: dict[str, Any]) -> None:
    """Call a layer with sparse tensors, and with dense ones whose other atoms are evidence: false."""
    import torch

    from logicmp import LogicMP

    rng = random.Random(case["seed"])
    model = random_model(rng)
    layer = LogicMP(model.theory, schedule="paper", iterations=rng.randint(1, 3), learn_weights=False)
    numbers = torch.Generator().manual_seed(rng.getrandbits(40))
    unary, evidence, masks = dict(model.unary), {}, {}
    for predicate in model.theory.predicates:
        if predicate.is_categorical or not predicate.arguments or rng.random() < 0.3:
            continue
        given = unary[predicate.name]
        mask = torch.rand(given.shape, generator=numbers) < rng.choice((0.2, 0.5, 0.9))
        mask = mask | mask.mT if predicate.symmetric else mask
        if not mask.any():
            continue
        masks[predicate.name] = mask
        evidence[predicate.name] = torch.where(mask, math.nan, 0.0).to(given)
        unary[predicate.name] = torch.sparse_coo_tensor(mask.nonzero().T, given[mask], given.shape)
    if not masks:
        raise LogicMPError("no predicate can be sparse")
    found = layer(unary)
    want = layer(model.unary, evidence=evidence)
    for name, tensor in found.items():
        got = tensor.coalesce().values() if name in masks else tensor
        torch.testing.assert_close(got, want[name][masks[name]] if name in masks else want[name], rtol=1e-7, atol=1e-8,
                                   msg=lambda text, n=name: f"{n} differs from the dense layer: {text}")


def _same(tensor: Any, rng: random.Random) -> Any:
    return tensor


# a name, what it does to a tensor, and whether the answer must stay the same
ODD: list[tuple[str, Callable[[Any, random.Random], Any], bool]] = [
    ("plain", _same, True),
    ("float32", lambda x, rng: x.float(), True),
    ("not contiguous", lambda x, rng: x.unsqueeze(-1).repeat_interleave(2, -1)[..., 0], True),
    ("requires grad", lambda x, rng: x.requires_grad_(), True),
    ("nan", lambda x, rng: x.fill_(math.nan), False),
    ("infinite", lambda x, rng: x.fill_(rng.choice((math.inf, -math.inf))), False),
    ("1e30", lambda x, rng: x.fill_(rng.choice((1e30, -1e30))), False),
    ("1e308", lambda x, rng: x.fill_(rng.choice((1e308, -1e308))), False),
    ("half", lambda x, rng: x.half(), False),
    ("bfloat16", lambda x, rng: x.bfloat16(), False),
    ("integers", lambda x, rng: x.long(), False),
    ("bool", lambda x, rng: x > 0, False),
    ("complex", lambda x, rng: x + 1j, False),
    ("sparse", lambda x, rng: x.to_sparse(), False),
    ("meta", lambda x, rng: x.to("meta"), False),
    ("array", lambda x, rng: x.numpy(), False),
    ("list", lambda x, rng: x.tolist(), False),
    ("none", lambda x, rng: None, False),
    ("text", lambda x, rng: "logits", False),
    ("one axis more", lambda x, rng: x.unsqueeze(rng.randint(0, x.dim())), False),
    ("one axis less", lambda x, rng: x.sum(0) if x.dim() else x, False),
    ("empty", lambda x, rng: x[:0] if x.dim() else x, False),
    ("longer", lambda x, rng: x.repeat_interleave(2, rng.randrange(x.dim())) if x.dim() else x, False),
    ("empty batch", lambda x, rng: x.new_zeros(0, *x.shape), False),
]

STAGES: dict[str, tuple[Callable[[random.Random, list[str]], dict[str, Any]], Callable[[dict[str, Any]], None]]] = {
    "plan": (make_plan, run_plan), "infer": (make_infer, run_infer), "layer": (make_layer, run_layer),
    "sparse": (make_layer, run_sparse),
}


# mutations


def mutate(rng: random.Random, text: str, texts: list[str]) -> str:
    """The text with one damage: characters, numbers, names or lines changed."""
    kind = rng.choice(("delete", "insert", "insert", "double", "swap", "number", "name", "name", "line", "other",
                       "long"))
    start = rng.randint(0, len(text))
    end = min(len(text), start + rng.randint(0, 12))
    lines = text.split("\n")
    place = rng.randrange(len(lines))
    match kind:
        case "delete":
            return text[:start] + text[end:]
        case "insert":
            return text[:start] + rng.choice(PIECES) + text[start:]
        case "double":
            return text[:end] + text[start:]
        case "swap":
            other = min(len(text), end + rng.randint(0, 12))
            return text[:start] + text[end:other] + text[start:end] + text[other:]
        case "number":
            return _replace_one(rng, r"-?\d+(?:\.\d+)?", text, rng.choice(NUMBERS))
        case "name":
            names = re.findall(r"[^\W\d]\w*", text)
            return _replace_one(rng, r"[^\W\d]\w*", text, rng.choice(names)) if names else text
        case "line":
            return "\n".join(lines[:place] + lines[place + 1 :] if rng.random() < 0.5 else [*lines, lines[place]])
        case "other":
            lines.insert(place, rng.choice(rng.choice(texts).split("\n")))
            return "\n".join(lines)
        case _:
            # the same part of a rule many times
            return "\n".join([*lines[:place], rng.choice((" v ", " ^ ", " => ", " <=> ")).join(
                [lines[place].rstrip(".")] * rng.choice((2, 3, 5, 40))), *lines[place + 1 :]])


def _replace_one(rng: random.Random, pattern: str, text: str, new: str) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    one = rng.choice(found)
    return text[: one.start()] + new + text[one.end() :]


def real_texts(data: Path | None) -> list[str]:
    """The theories of the examples, of the tests' fixtures and of the data sets, if there are any."""
    paths = [*sorted((ROOT / "examples").glob("*.mln")), *sorted((ROOT / "tests/fixtures").glob("**/*.txt"))]
    if data is not None:
        paths += sorted(data.glob("mln/**/*.mln"))
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths if path.stat().st_size < 200_000]
    if not texts:
        raise LogicMPError("there are no theories to damage", "run this in a checkout of the repository")
    return texts


# the loop


class TimeLimitError(BaseException):
    """An input that runs for too long; no `except Exception` catches it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise a TimeLimitError after some processor seconds."""
    def stop(*_: object) -> None:
        raise TimeLimitError(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def run_case(stage: str, case: dict[str, Any], seconds: float = MAX_SECONDS) -> str | None:
    """Run one input: None if it is right, the class of the error if it is rejected; anything else raises."""
    try:
        with time_limit(seconds):
            STAGES[stage][1](case)
    except LogicMPError as error:
        if not str(error):
            raise AssertionError("the error has no text") from error
        return type(error).__name__
    return None


def fuzz(stage: str, seed: int, first: int, count: int, seconds: float, failures: Path, texts: list[str],
         say: Callable[[str], None]) -> int:
    """Run the inputs `first` to `first + count`, or as many as the time allows; returns how many failed."""
    counts: Counter[str] = Counter()
    start = last = time.monotonic()
    number = first
    for number in range(first, first + count):
        now = time.monotonic()
        if now - start > seconds:
            number -= 1
            break
        if now - last > 30:
            last = now
            say(f"{stage}: {number - first:,} of {count:,} in {now - start:.0f} s, {counts['failed']} failed")
        case = STAGES[stage][0](random.Random(f"{seed} {stage} {number}"), texts)
        try:
            outcome = run_case(stage, case)
            counts["accepted" if outcome is None else "rejected"] += 1
        except (Exception, TimeLimitError) as error:
            counts["failed"] += 1
            failures.mkdir(parents=True, exist_ok=True)
            path = failures / f"{stage}-{seed}-{number}.json"
            path.write_text(json.dumps({"stage": stage, "seed": seed, "number": number, "case": case,
                                        "error": traceback.format_exc()}, indent=1) + "\n", encoding="utf-8")
            say(f"FAILED {path}: {type(error).__name__}: {str(error)[:200]}")
    say(f"{stage}: inputs {first:,} to {number:,} of seed {seed}: {counts['accepted']:,} accepted, "
        f"{counts['rejected']:,} rejected, {counts['failed']:,} failed, {time.monotonic() - start:.0f} s")
    return counts["failed"]


def main(arguments: list[str]) -> int:
    """Exit codes: 0 no input failed, 1 some did, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"{', '.join(STAGES)} (default: all)")
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="inputs per stage (default: 1000)")
    parser.add_argument("--seconds", type=float, default=math.inf, metavar="S", help="time limit per stage, in seconds")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all inputs (default: 0)")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="number of the first input (default: 0)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the data sets (default: $LOGICMP_DATA)")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), metavar="DIR",
                        help="folder for the inputs that fail (default: fuzz-failures)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run the input of one failure again")
    chosen = parser.parse_args(arguments)
    if chosen.replay is not None:
        stored = json.loads(chosen.replay.read_text(encoding="utf-8"))
        print(run_case(stored["stage"], stored["case"]) or "accepted")
        return 0
    unknown = [stage for stage in chosen.stages if stage not in STAGES]
    if unknown:
        parser.error(f"unknown stage {unknown[0]!r}; available: {', '.join(STAGES)}")
    data = chosen.data or (Path(os.environ["LOGICMP_DATA"]) if os.environ.get("LOGICMP_DATA") else None)
    texts = real_texts(data)
    failed = [fuzz(stage, chosen.seed, chosen.first, chosen.count, chosen.seconds, chosen.failures, texts,
                   lambda text: print(text, file=sys.stderr, flush=True))
              for stage in chosen.stages or STAGES]
    return int(sum(failed) > 0)
