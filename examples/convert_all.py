"""Convert the smokers to every dialect and read them back: the answers stay, or a line says what is missing.

    python examples/convert_all.py
"""

import tempfile
from pathlib import Path

from logicmp import infer, load_facts, load_theory
from logicmp.show.dialects import write_dialect

HERE = Path(__file__).parent


def main() -> dict[str, float | str]:
    """By dialect, the largest difference of an answer, or the first line about what is missing."""
    theory = load_theory(HERE / "smokers.mln")
    facts = load_facts(HERE / "smokers.db", theory)
    want = infer(theory, facts, "Smokes,Cancer", "exact")
    found: dict[str, float | str] = {}
    for dialect in ("alchemy", "tuffy", "pracmln"):
        done = write_dialect(theory, facts, dialect)
        if any("left out" in note for note in done.notes):
            found[dialect] = done.notes[0]
            continue
        with tempfile.TemporaryDirectory() as folder:
            for name, text in done.files.items():
                Path(folder, f"smokers{name}").write_bytes(text if isinstance(text, bytes) else text.encode())
            back = load_theory(Path(folder, "smokers.mln"))
            got = infer(back, load_facts(Path(folder, "smokers.db"), back), "Smokes,Cancer", "exact")
        found[dialect] = max(abs(got[atom] - p) for atom, p in want.items())
    # folders; `logicmp convert` writes them
    for dialect in ("expressgnn", "psl", "csv"):
        done = write_dialect(theory, facts, dialect)
        found[dialect] = done.notes[0] if done.notes else f"{len(done.files)} files"
    return found


if __name__ == "__main__":
    for dialect, result in main().items():
        print(f"{dialect:<12}{result if isinstance(result, str) else f'answers differ by at most {result:.0e}'}")
