"""Every public function with every argument replaced by odd values: a `LogicMPError`, or a result."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import logicmp
from logicmp import (
    SPL,
    LogicDist,
    LogicMP,
    LogicMPError,
    RuleCorrector,
    Schedule,
    SemanticLoss,
    SLrelax,
    build_plan,
    compile_rules,
    decode,
    distill,
    infer,
    learn,
    load_facts,
    load_theory,
    normalize_theory,
    parse_facts,
    parse_theory,
    resolve,
)
from logicmp.arguments import Sizes, check_argument, checked
from logicmp.limits import Limits

TEXT = "P(t)\nQ(t)\n1 P(x) => Q(x)"
ODD: dict[str, Any] = {
    "None": None, "bytes": TEXT.encode(), "a fraction": 3.5, "a negative number": -1, "NaN": math.nan,
    "infinity": math.inf, "a huge number": 10**400, "a complex number": 1j, "True": True,
    "a number of numpy": np.int64(3), "an object": object(), "an empty dict": {}, "an empty list": [],
    "an empty text": "", "a word": "x",
    "a dict of numbers": {1: 2}, "a dict without values": {"P": None}, "negative sizes": {"t": -1},
    "half sizes": {"t": 2.5}, "a list of nothing": [None], "an array": np.zeros(3), "a tensor": torch.zeros(3),
    "a theory": parse_theory(TEXT), "a set": {1}, "a function": lambda *_: None, "a path": Path("no/such/file"),
}


@functools.cache
def calls() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Calls that succeed, by name."""
    theory, open_theory = parse_theory(TEXT), parse_theory("P(t)\nQ(t)\nP(x) => Q(x)")
    logits = {"P": torch.zeros(3), "Q": torch.ones(3)}
    labels = {"P": torch.ones(3), "Q": torch.ones(3)}
    layer, student = LogicMP(theory), LogicDist(theory)
    spl = SPL(theory)
    evidence = {"theory": theory, "evidence": "P(A)", "query": "Q"}
    return {
        "LogicMP": (LogicMP, {"theory": theory}), "forward": (layer.forward, {"unary": logits}),
        "run": (layer.run, {"unary": logits}), "trace": (layer.trace, {"unary": logits}),
        "violations": (layer.violations, {"logits": logits}), "theory_loss": (layer.theory_loss, {"logits": logits}),
        "elbo": (layer.elbo, {"unary": logits, "logits": logits}), "report": (layer.report, {"unary": logits}),
        "explain": (layer.explain, {"atom": "P(0)", "unary": logits}), "Schedule": (Schedule, {}),
        "infer": (infer, evidence), "infer by mean field": (infer, {**evidence, "method": "mean-field"}),
        "learn": (learn, {"theory": open_theory, "databases": [parse_facts("P(A)\nQ(A)\nP(B)", open_theory)],
                          "max_iterations": 1}),
        "decode": (decode, {"theory": theory, "logits": logits, "method": "threshold"}),
        "distill": (distill, {"layer": layer, "logits": logits}), "parse_theory": (parse_theory, {"text": TEXT}),
        "parse_facts": (parse_facts, {"text": "P(A)", "theory": theory}),
        "normalize_theory": (normalize_theory, {"theory": theory}),
        "build_plan": (build_plan, {"form": normalize_theory(theory), "sizes": {"t": 3}}),
        "compile_rules": (compile_rules, {"theory": theory, "sizes": {"t": 2}}),
        "SPL": (SPL, {"theory": theory, "sizes": {"t": 2}}), "SPL call": (spl.forward, {"logits": logits}),
        "SPL.loss": (spl.loss, {"logits": logits, "labels": labels}), "SPL.predict": (spl.predict, {"logits": logits}),
        "SemanticLoss": (SemanticLoss, {"theory": theory, "sizes": {"t": 2}}),
        "SemanticLoss call": (SemanticLoss(theory).forward, {"logits": logits}),
        "SLrelax": (SLrelax, {"theory": theory}), "SLrelax call": (SLrelax(theory).forward, {"logits": logits}),
        "LogicDist": (LogicDist, {"theory": theory}), "LogicDist.pi": (student.pi, {"step": 1}),
        "LogicDist call": (student.forward, {"logits": logits, "labels": labels, "step": 1}),
        "Limits": (Limits, {}),
        "resolve": (resolve, {"pairs": {"a": ["A", "B"], "b": ["B", "C"], "score": [0.9, 0.4]}}),
        "RuleCorrector": (RuleCorrector, {}),
    }


# these read files: a wrong argument is an error, and so is every file that is missing
READERS = {"load_theory": (load_theory, {"paths": "no.mln"}), "load": (LogicMP.load, {"path": "no.safetensors"}),
           "load_facts": (load_facts, {"paths": "no.db", "theory": parse_theory(TEXT)})}


@pytest.mark.parametrize("name", [*calls(), *READERS])
def test_odd_values_end_in_an_error_that_helps_or_in_a_result(name: str, tmp_path: Path,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pysdd")
    # a checkpoint named by an odd value is written here
    monkeypatch.chdir(tmp_path)
    function, right = {**calls(), **READERS}[name]
    if name not in READERS:
        function(**right)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD or parameter.name == "now":
            continue
        for what, odd in ODD.items():
            try:
                function(**{**right, parameter.name: odd})
            except LogicMPError as error:
                assert error.message
            except Exception as error:
                raise AssertionError(f"{name}({parameter.name}={what}) raised {error!r}") from error


def test_no_public_function_is_left_out() -> None:
    functions = {name for name in logicmp.__all__ if not name.endswith("Error")}
    # made by the package and handed to the user
    values = {"Decoded", "Evidence", "Learned", "Marginals", "Plan", "Theory"}
    assert functions - values == {name for name in {*calls(), *READERS} if name in functions}


def message(function: Callable[..., Any], *args: Any, **options: Any) -> str:
    with pytest.raises(LogicMPError) as caught:
        function(*args, **options)
    return str(caught.value)


FROM_FILES = "hint: load_theory(path) reads rules from a file, parse_theory(text) from text"


def test_the_error_names_argument_value_and_what_is_expected() -> None:
    facts = parse_facts("P(A)", parse_theory(TEXT))
    assert message(infer, TEXT, {"P": ["A"]}) == (
        "P: expected a table, got a list\nhint: pass a DataFrame, a dict of columns, or a 2-d array")
    assert message(infer, TEXT, 3).startswith("evidence is 3; expected an Evidence, text,")
    assert message(infer, Path("rules.mln")) == f"theory is a PosixPath; expected a Theory or text\n{FROM_FILES}"
    assert message(infer, TEXT, "P(A)", closed="P") == (
        "closed is 'P'; expected a list of texts\nhint: put it in a list: ['P']")
    assert message(infer, TEXT, "P(A)", query=["P", 3]) == "query[1] is 3; expected text"
    assert message(infer, TEXT, "P(A)", max_seconds=-1) == "max_seconds must be at least 0, got -1"
    assert message(infer, TEXT, "P(A)", seed=1.5) == "seed is 1.5; expected a whole number"
    assert message(learn, TEXT, "train.db") == (
        "databases is 'train.db'; expected a list of texts or paths or Evidences\n"
        "hint: put it in a list: ['train.db']")
    assert message(learn, TEXT, [facts], patience=0) == "patience must be at least 1, got 0"
    assert message(compile_rules, TEXT, {"t": -2}) == "sizes['t'] must be at least 1, got -2"
    assert message(compile_rules, TEXT, {"t": 2}, max_seconds=math.nan) == "max_seconds must be at least 0, got nan"
    assert message(decode, TEXT, [[0.0]]) == (
        "logits is a list; expected a torch tensor or a dict of torch tensors\n"
        "hint: torch.as_tensor converts arrays and lists")
    assert message(parse_theory, b"A => B") == "text is a bytes; expected text\nhint: call .decode() on it"
    assert message(load_theory, []) == "paths is empty\nhint: give at least one file"


def test_a_folder_or_nothing_in_place_of_a_theory_is_an_error(tmp_path: Path) -> None:
    assert message(load_theory, tmp_path).startswith(f"the folder {str(tmp_path)!r} has no file 'predicates'")
    assert message(load_facts, tmp_path, parse_theory(TEXT)) == f"the folder {str(tmp_path)!r} has no file 'facts'"
    assert message(LogicMP.load, tmp_path).startswith(f"cannot read a layer from {str(tmp_path)!r}: ")
    assert message(LogicMP(TEXT).save, tmp_path).startswith(f"cannot write a layer to {str(tmp_path)!r}: ")


def test_functions_keep_name_help_and_signature() -> None:
    assert infer.__name__ == "infer"
    assert "Answer queries" in (infer.__doc__ or "")
    assert list(inspect.signature(infer).parameters)[:3] == ["theory", "evidence", "query"]


def test_unknown_and_missing_arguments_are_errors_of_python() -> None:
    with pytest.raises(TypeError, match=r"parse_theory\(\) got an unexpected keyword argument 'nome'"):
        parse_theory(TEXT, nome="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'text'"):
        parse_theory()  # type: ignore[call-arg]


@pytest.mark.parametrize("value, hint", [
    (3, float), (np.float32(0.5), float), (np.int64(3), int), (None, int | None), ("P", str | list[str]),
    (["P"], str | list[str]), ({"t": 3}, Sizes), ((1.0, 2), tuple[float, float]), ({}, Sizes | None),
    (print, Callable)])
def test_values_that_fit(value: object, hint: Any) -> None:
    check_argument("value", value, hint)


def test_defaults_are_not_checked_and_names_may_come_later() -> None:
    @checked
    def function(value: Later = None) -> object:  # type: ignore[assignment]
        return value

    assert function() is None
    assert message(function, 3) == "value is 3; expected a Later"


class Later:
    """A class that is defined after the function that takes it."""
