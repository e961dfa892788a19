"""Files: what is read from them, what an error says, and what a reader finds while someone writes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from logicmp import LogicMP, LogicMPError, RuleError, infer
from logicmp.errors import Source, Span
from logicmp.files import check_places, load_tensors, read_source, save_tensors, write_whole


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_newlines_of_every_system_are_read_as_one(tmp_path: Path, newline: str) -> None:
    path = tmp_path / "people.db"
    path.write_bytes(newline.join(["// people", "", "Smokes(Anna)"]).encode())
    assert read_source(path) == Source(str(path), "// people\n\nSmokes(Anna)")


def test_a_byte_order_mark_is_dropped_and_latin_1_is_read(tmp_path: Path) -> None:
    path = tmp_path / "people.db"
    path.write_bytes(b"\xef\xbb\xbfSmokes(Anna)")
    assert read_source(path).text == "Smokes(Anna)"
    path.write_bytes("Smokes(Müller)".encode("latin-1"))
    assert read_source(path).text == "Smokes(Müller)"


def test_a_missing_file_has_a_hint(tmp_path: Path) -> None:
    (tmp_path / "people.db").write_text("")
    for name, hint in [("peple.db", f"did you mean '{tmp_path}/people.db'?"),
                       ("none/a.db", f"there is no folder '{tmp_path}/none'")]:
        with pytest.raises(LogicMPError) as caught:
            read_source(tmp_path / name)
        assert str(caught.value) == f"cannot read '{tmp_path}/{name}': No such file or directory\nhint: {hint}"


@pytest.mark.parametrize("path, reason", [("x" * 300, "File name too long"), ("a\0b", "embedded null byte")])
def test_an_impossible_path_cannot_be_read_or_written(path: str, reason: str) -> None:
    with pytest.raises(LogicMPError) as caught:
        read_source(Path(path))
    assert str(caught.value).startswith(f"cannot read {path!r}: {reason}")
    with pytest.raises(LogicMPError) as caught:
        write_whole(Path(path), "text")
    assert str(caught.value) == f"cannot write {path!r}: {reason}"


def test_an_error_shows_the_line_that_includes_the_file(tmp_path: Path) -> None:
    source = Source("main.mln", '#include "none.mln"')
    with pytest.raises(RuleError) as caught:
        read_source(tmp_path / "none.mln", Span(source, 0, 19))
    assert " --> main.mln:1:1\n" in str(caught.value)


# writing


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "answers.json"
    write_whole(path, "old")

    def fail(descriptor: int) -> None:
        # everything is in the temporary file by now
        assert [p.read_text() for p in tmp_path.glob(".*.part")] == ["new"]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(LogicMPError) as caught:
        write_whole(path, "new", "answers", "free some space")
    assert str(caught.value) == (f"cannot write answers to {str(path)!r}: No space left on device\n"
                                 "hint: free some space")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["answers.json"]


def test_two_writers_at_once_leave_one_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "answers.json"
    fsync = os.fsync

    def write_another(descriptor: int) -> None:
        monkeypatch.setattr("os.fsync", fsync)
        write_whole(path, "a second writer")
        assert path.read_text() == "a second writer"

    monkeypatch.setattr("os.fsync", write_another)
    write_whole(path, "first")
    assert path.read_text() == "first"
    assert [p.name for p in tmp_path.iterdir()] == ["answers.json"]


def test_a_replaced_file_keeps_its_permissions_and_a_new_one_has_the_usual(tmp_path: Path) -> None:
    usual, private = tmp_path / "usual", tmp_path / "private"
    usual.touch()
    private.touch(0o600)
    write_whole(private, "new")
    write_whole(tmp_path / "new", "new")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert (tmp_path / "new").stat().st_mode == usual.stat().st_mode


def test_a_link_and_a_device_stay_what_they_are(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    (tmp_path / "folder").mkdir()
    link.symlink_to("folder/file")
    write_whole(link, "text")
    assert link.is_symlink() and (tmp_path / "folder/file").read_text() == "text"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "text")
    assert os.read(reader, 100) == b"text" and pipe.is_fifo()
    os.close(reader)


def test_a_link_to_itself_stays_and_is_an_error(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("link")
    with pytest.raises(LogicMPError, match="Too many levels of symbolic links"):
        write_whole(link, "text")
    assert link.is_symlink()


def test_no_file_of_the_user_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", lambda n: bytes(n))
    # even if the temporary name is taken
    for name in ("answers.part", "answers.00000000.part", f".{16 * '0'}.part"):
        (tmp_path / name).write_text("mine")
    with pytest.raises(LogicMPError, match="File exists"):
        write_whole(tmp_path / "answers", "new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"] * 3


def test_a_file_can_have_the_longest_name(tmp_path: Path) -> None:
    write_whole(tmp_path / ("x" * 255), "text")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["text"]


def test_a_temporary_file_is_never_more_readable_than_the_old_one(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, modes = tmp_path / "private", []
    path.touch(0o600)
    fsync = os.fsync

    def look(descriptor: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", look)
    write_whole(path, "secret")
    assert modes == [0o600]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_that_root_replaces_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.chown(path, 1234, 4321)
    path.chmod(0o640)
    write_whole(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid, stat.S_IMODE(path.stat().st_mode)) == (1234, 4321, 0o640)


@pytest.mark.parametrize("place", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_what_the_shell_appends_to_is_not_replaced(tmp_path: Path, place: str) -> None:
    path = tmp_path / "all.txt"
    path.write_text("old\n")
    code = f"from pathlib import Path; from logicmp.files import write_whole; write_whole(Path({place!r}), 'new\\n')"
    with path.open("a") as end:
        subprocess.run([sys.executable, "-c", code], stdout=end, check=True)
    assert path.read_text() == "old\nnew\n"


# tensors


def test_tensors_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    tensors = {"half": torch.tensor([0.5, 2.0], dtype=torch.bfloat16), "one": torch.tensor(1.0, dtype=torch.float64)}
    save_tensors(path, tensors, {"theory": "A v B"}, "weights")
    found, metadata = load_tensors(path, "weights")
    assert metadata == {"theory": "A v B"}
    assert {name: (t.dtype, t.tolist()) for name, t in found.items()} == {
        name: (t.dtype, t.tolist()) for name, t in tensors.items()}


def test_what_is_no_file_of_tensors_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    for data, reason in [(None, "No such file or directory"), (b"PK\x03\x04", "")]:
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(LogicMPError) as caught:
            load_tensors(path, "weights", "choose another file")
        assert str(caught.value).startswith(f"cannot read weights from {str(path)!r}: {reason}")
        assert caught.value.hint == "choose another file"


def test_a_flipped_bit_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    save_tensors(path, {"w": torch.tensor([0.5, 2.0])}, {"theory": "A v B"}, "weights")
    raw = path.read_bytes()
    name = range(raw.index(b"checksum"), raw.index(b"checksum") + 8)
    for place in range(len(raw)):
        for bit in range(8):
            path.write_bytes(raw[:place] + bytes([raw[place] ^ 1 << bit]) + raw[place + 1:])
            # without the name of the checksum the file is an older one, with all it contains
            if place in name:
                continue
            with pytest.raises(LogicMPError, match="cannot read weights"):
                load_tensors(path, "weights")
    path.write_bytes(raw)
    assert load_tensors(path, "weights")[1] == {"theory": "A v B"}


def test_a_damaged_file_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    save_tensors(path, {"w": torch.tensor([0.5, 2.0])}, {}, "weights")
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    with pytest.raises(LogicMPError) as caught:
        load_tensors(path, "weights")
    assert str(caught.value) == (f"cannot read weights from {str(path)!r}: its checksum is wrong, so the file is "
                                 "damaged\nhint: use a copy of the file, or save it again")


def test_a_file_without_a_checksum_is_read(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(save({"w": torch.tensor([0.5])}, {"theory": "A v B"}))
    tensors, metadata = load_tensors(path, "weights")
    assert (tensors["w"].tolist(), metadata) == ([0.5], {"theory": "A v B"})
    path.write_bytes(save({"w": torch.tensor([0.5])}))
    assert load_tensors(path, "weights")[1] == {}


def test_a_page_is_not_written_to_a_file_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(LogicMPError, match=r"the drawing is an HTML page, got(.|\n)*hint: write to .*plan.html"):
        check_places({"the drawing": tmp_path / "plan.svg"}, [])
    check_places({"the plot": tmp_path / "plan.svg", "the report": tmp_path / "a.HTML", "the drawing": None}, [])


@pytest.mark.parametrize("call, reads", [
    (lambda: LogicMP("rules.mln"), r"load_theory\('rules.mln'\)"),
    (lambda: infer("1 P(x)", "data/a.db\n", "P"), r"load_facts\('data/a.db', theory\)")])
def test_the_name_of_a_file_is_not_taken_for_its_text(call: Callable[[], object], reads: str) -> None:
    with pytest.raises(LogicMPError, match=f"is the name of a file(.|\n)*{reads}"):
        call()
