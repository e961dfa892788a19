"""Answers as a Parquet file: a column for each argument, so that no text is made for an answer.

Room: inference -> **show** -> cli.

    query           a0      a1     label   probability   log_odds
    Friends(x,y)    Anna    Bob            0.478         -0.088
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..files import write_whole
from ..limits import need
from ..parse.syntax import Atom, Variable, free_variables

if TYPE_CHECKING:
    from ..inference.answers import Answer, Marginals


def write_answers(found: Marginals, path: Path) -> None:
    """Write all answers to one Parquet file, whole or not at all."""
    need("pyarrow", "tables", "writing a Parquet file", "use --format csv")
    import pyarrow
    from pyarrow import parquet

    sink = pyarrow.BufferOutputStream()
    tables = [_table(answer, p) for answer, p in zip(found.answers, _split(found), strict=True)]
    parquet.write_table(pyarrow.concat_tables(tables, promote_options="permissive"), sink)
    write_whole(path, memoryview(sink.getvalue()).tobytes(), "the answers")


def _split(found: Marginals) -> list[np.ndarray]:
    ends = np.cumsum([len(answer.log_odds) for answer in found.answers])
    return np.split(found.probabilities, ends[:-1])


def _table(answer: Answer, probabilities: np.ndarray) -> Any:
    import pyarrow

    formula, n = answer.query.formula, len(answer.log_odds)
    types = free_variables(formula)
    labels = answer.labels()
    columns: dict[str, Any] = {"query": pyarrow.DictionaryArray.from_arrays(np.zeros(n, dtype=np.int32),
                                                                           [str(formula)])}
    terms = list(formula.args) if isinstance(formula, Atom) else [Variable(v, t) for v, t in types.items()]
    for k, term in enumerate(terms):
        if isinstance(term, Variable):
            index = np.repeat(answer.bindings[term.name].astype(np.int32), max(len(labels), 1))
            constants = list(answer.theory.type[types[term.name]].constants)
        else:
            index, constants = np.zeros(n, dtype=np.int32), [term.name]
        name = f"a{k}" if isinstance(formula, Atom) else term.name
        columns[name] = pyarrow.DictionaryArray.from_arrays(index, pyarrow.array(constants, pyarrow.string()))
    if labels:
        columns["label"] = pyarrow.DictionaryArray.from_arrays(
            np.tile(np.arange(len(labels), dtype=np.int32), n // len(labels)), pyarrow.array(list(labels)))
    return pyarrow.table({**columns, "probability": probabilities, "log_odds": answer.log_odds})
