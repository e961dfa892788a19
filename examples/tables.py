"""Tables in, tables out: frames of facts and of scores, corrected by rules, back as frames and files.

    python examples/tables.py
"""

import tempfile
from pathlib import Path

import pandas as pd

from logicmp import infer

RULES = """
Friends(person, person)
Smokes(person)
0.8 Friends(x, y) => (Smokes(x) <=> Smokes(y))
"""


def main() -> pd.DataFrame:
    """The corrected probabilities of Smokes, next to the scores of a model."""
    friends = pd.DataFrame({"one": ["Anna", "Bob", "Carl", "Dora"], "other": ["Bob", "Carl", "Dora", "Eve"]})
    # what a model thinks of four people; 'score' is soft evidence, and Eve has none
    scores = pd.DataFrame({"who": ["Anna", "Bob", "Carl", "Dora"], "score": [0.95, 0.55, 0.40, 0.10]})
    found = infer(RULES, {"Friends": friends, "Smokes": scores}, "Smokes", unscored=0.2)
    smokes = found.to_pandas("Smokes").merge(scores, left_on="person", right_on="who", how="left")
    with tempfile.TemporaryDirectory() as folder:
        # the command line writes the same files: logicmp infer ... -o answers.parquet
        path = Path(folder) / "answers.parquet"
        found.to_pandas().to_parquet(path)
        assert len(pd.read_parquet(path)) == len(found)
    return smokes[["person", "score", "probability"]]


if __name__ == "__main__":
    print(main().round(2).to_string(index=False))
