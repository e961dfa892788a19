"""Find records that are one person: block, score pairs, group them with `resolve`, and look at doubtful records.

    python examples/records.py
"""

from difflib import SequenceMatcher
from itertools import combinations

import pandas as pd

from logicmp import resolve

NAMES = ["Anna Schmidt", "Anna Schmitt", "A. Schmidt", "Bob Miller", "Robert Miller", "Bob Muller", "Carla Rossi",
         "Carla Rosi", "Karla Rossi", "Dora Lang", "Dora Long"]


def score_pairs(names: list[str]) -> pd.DataFrame:
    """A score for each pair of names that share the first letter of a word."""
    rows = []
    for (a, one), (b, other) in combinations(enumerate(names), 2):
        letters = [{word[0] for word in name.split()} for name in (one, other)]
        if letters[0] & letters[1]:
            likeness = SequenceMatcher(None, one.lower(), other.lower()).ratio()
            # a likeness of 0.75 counts as undecided
            rows.append((a, b, min(max(0.5 + 2 * (likeness - 0.75), 0.01), 0.99)))
    return pd.DataFrame(rows, columns=["id_a", "id_b", "score"])


def main() -> pd.DataFrame:
    """The names with their clusters, unscored pairs being a weak reason against a cluster."""
    found = resolve(score_pairs(NAMES), unscored=0.4)
    return found.assign(name=[NAMES[k] for k in found["id"]]).sort_values(["cluster", "id"])


if __name__ == "__main__":
    people = main()
    print(people[["name", "cluster", "confidence"]].round(2).to_string(index=False))
    print("to look at:", ", ".join(people["name"][people["confidence"] < 0.7]))
