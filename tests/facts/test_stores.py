"""Facts from databases and from folders of Parquet parts; a part that is missing or damaged is named."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pytest

from logicmp import Evidence, LogicMPError, load_facts, parse_theory
from logicmp.facts.stores import read_parts, write_parts

THEORY = parse_theory("Friends(person, person)\nSmokes(person)\n1.1 Friends(x,y) ^ Smokes(x) => Smokes(y)")
PAIRS = [("Anna", "Bob"), ("Bob", "Carl"), ("Carl", "Anna")]


def rows(facts: Evidence) -> list[tuple[str, ...]]:
    return facts.tables["Friends"].args


def write(folder: Path) -> None:
    write_parts(folder, [{"a": np.array(["Anna", "Bob"]), "b": np.array(["Bob", "Carl"])},
                         {"a": np.array(["Carl"]), "b": np.array(["Anna"])}])


def test_parts(tmp_path: Path) -> None:
    write(tmp_path / "friends")
    assert rows(load_facts(f"Friends={tmp_path}/friends/", THEORY)) == PAIRS
    # without the list, all files count
    (tmp_path / "friends/parts.json").unlink()
    assert rows(load_facts(f"Friends={tmp_path}/friends/", THEORY)) == PAIRS


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "part-00001.parquet").unlink()
    with pytest.raises(LogicMPError, match=r"the part '.*part-00001\.parquet' is missing"):
        read_parts(tmp_path)


@pytest.mark.parametrize("has_list", [True, False])
def test_a_damaged_part_is_named(tmp_path: Path, has_list: bool) -> None:
    write(tmp_path)
    part = tmp_path / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-20] if not has_list else part.read_bytes().replace(b"Anna", b"Emma"))
    if not has_list:
        (tmp_path / "parts.json").unlink()
    with pytest.raises(LogicMPError, match=r"the part '.*part-00000\.parquet' is damaged"):
        read_parts(tmp_path)


def test_a_damaged_list_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "parts.json").write_text(json.dumps({"parts": [1]}))
    with pytest.raises(LogicMPError, match=r"cannot read the list of parts '.*parts\.json'"):
        read_parts(tmp_path)


@pytest.mark.parametrize("what", ["friends", "SELECT one, two FROM friends WHERE one <> two"])
def test_a_file_of_duckdb(tmp_path: Path, what: str) -> None:
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE friends (one VARCHAR, two VARCHAR)")
        connection.executemany("INSERT INTO friends VALUES (?, ?)", PAIRS)
    assert rows(load_facts(f"Friends={tmp_path}/people.duckdb#{what}", THEORY)) == PAIRS
    with pytest.raises(LogicMPError, match=r"cannot read 'enemies' from '.*people\.duckdb': Catalog Error"):
        load_facts(f"Friends={tmp_path}/people.duckdb#enemies", THEORY)


@pytest.mark.parametrize("place, told", [
    ("Friends=nowhere.duckdb#friends", "there is no such file"),
    ("Friends=nowhere/", "there is no such folder"),
    ("Friends=postgresql://host/db", "names a database, but no table"),
    ("Fiends=nowhere.duckdb#friends", "predicate 'Fiends' is not declared")])
def test_errors(place: str, told: str) -> None:
    with pytest.raises(LogicMPError, match=told):
        load_facts(place, THEORY)


def as_user() -> dict[str, str]:
    """PostgreSQL does not run as root."""
    return {"user": "postgres"} if os.geteuid() == 0 else {}


@pytest.mark.slow
def test_postgresql(tmp_path_factory: pytest.TempPathFactory) -> None:
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    found = [shutil.which("initdb"), *sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))]
    programs = next((Path(path).parent for path in found if path), None)
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp())
    if as_user():
        shutil.chown(folder, "postgres")

    def run(*words: str) -> None:
        subprocess.run([str(programs / words[0]), *words[1:]], check=True, capture_output=True, timeout=60, cwd=folder,
                       **as_user())  # type: ignore[call-overload]

    run("initdb", "-D", f"{folder}/data", "-A", "trust", "-U", "me")
    run("pg_ctl", "-D", f"{folder}/data", "-o", f"-p 54327 -k {folder} -c listen_addresses=127.0.0.1", "-w", "-l",
        f"{folder}/log", "start")
    try:
        place = "postgresql://me:secret@127.0.0.1:54327/postgres"
        with dbapi.connect(place) as connection, connection.cursor() as cursor:
            values = ", ".join(str(pair) for pair in PAIRS)
            cursor.execute(f"CREATE TABLE friends AS SELECT * FROM (VALUES {values}) AS t (one, two)")
            connection.commit()
        assert rows(load_facts(f"Friends={place}#friends", THEORY)) == PAIRS
        with pytest.raises(LogicMPError, match=r"cannot read 'enemies' from 'postgresql://127\.0\.0\.1:54327"):
            load_facts(f"Friends={place}#enemies", THEORY)
    finally:
        run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
        shutil.rmtree(folder)
