"""Read files with errors that help, and write them whole or not at all.

Room: errors -> **files** -> every room that reads or writes.

    read_source(Path("smokers.mln"))                 cannot read 'smokers.mln': No such file or directory
                                                     hint: did you mean 'smoker.mln'?
    write_whole(Path("out.json"), text, "answers")   a reader sees the old file or the new one, never half of it
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import LogicMPError, RuleError, Source, Span

if TYPE_CHECKING:
    from torch import Tensor

# names of descriptors that are open in this process
_DESCRIPTOR = re.compile(r"/dev/(stdout|stderr)|(?:/dev/fd|/proc/self/fd)/(\d+)")
# results that are HTML pages
PAGES = ("the report", "the drawing")
_STANDARD = {"stdout": 1, "stderr": 2}


def read_stdin(hint: str) -> Source:
    """Return the text of the standard input."""
    try:
        return Source("<stdin>", sys.stdin.read())
    except UnicodeDecodeError as cause:
        raise LogicMPError(f"cannot read the standard input: {cause}", hint) from None


def reject_path(text: str, call: str) -> None:
    """Raise an error if a text is the name of a file; `call` reads files.

    >>> reject_path("examples/smokers.db", "load_facts({}, theory)")
    Traceback (most recent call last):
    logicmp.errors.LogicMPError: 'examples/smokers.db' is the name of a file, expected its text
    hint: to read the file, write load_facts('examples/smokers.db', theory)
    """
    if re.fullmatch(r"\s*[^\s(]+\.(mln|db|txt|csv|tsv|parquet)\s*", text):
        name = repr(text.strip())
        raise LogicMPError(f"{name} is the name of a file, expected its text",
                           f"to read the file, write {call.format(name)}")


def read_source(path: Path, span: Span | None = None) -> Source:
    """Return the text of a file; an error names the file and the reason, and shows the line `span` that includes it."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as cause:
        raise RuleError(f"cannot read {str(path)!r}: {_reason(cause)}", span, _similar(path)) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # latin-1 decodes every byte
        text = data.decode("latin-1")
    # universal newlines, as `open` in text mode reads them
    return Source(str(path), text.replace("\r\n", "\n").replace("\r", "\n"))


def write_whole(path: Path, data: bytes | str, what: str = "", hint: str | None = None) -> None:
    """Write a file whole or not at all; `what` and `hint` are for the error.

    The data goes to a temporary file in the same folder, which then replaces the old file. A killed process leaves the
    old file as it was, two writers cannot mix their data, and a replaced file keeps its owner and permissions. A link
    stays a link: the file that it points to is replaced. A device, a pipe or an open descriptor such as /dev/stdout is
    written to as it is.
    """
    raw = data.encode() if isinstance(data, str) else data
    try:
        descriptor = _DESCRIPTOR.fullmatch(str(path))
        if descriptor is not None:
            number = descriptor[1] or descriptor[2]
            # the caller may have opened a file to append to it: replacing it would remove what it contains
            with os.fdopen(os.dup(int(number) if number.isdecimal() else _STANDARD[number]), "wb") as file:
                file.write(raw)
        elif path.exists() and not path.is_file():
            path.write_bytes(raw)
        else:
            _replace(Path(os.path.realpath(path)), raw)
    except (OSError, ValueError) as cause:
        place = f"{what} to {str(path)!r}" if what else repr(str(path))
        raise LogicMPError(f"cannot write {place}: {_reason(cause)}", hint) from None


def _replace(target: Path, raw: bytes) -> None:
    if target.is_symlink():
        # realpath returns a link only if it leads back to itself
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    old = target.stat() if target.exists() else None
    # its length does not depend on that of the target's name, which may be the longest possible
    temporary = target.with_name(f".{os.urandom(8).hex()}.part")
    # private until it has the permissions of the old file
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if old is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
            file.flush()
            # without this, a power failure after the renaming can leave an empty file
            os.fsync(file.fileno())
        if old is not None:
            # only root may give a file to another owner; the owner comes first, because changing it resets permissions
            with contextlib.suppress(OSError):
                os.chown(temporary, old.st_uid, old.st_gid)
            temporary.chmod(stat.S_IMODE(old.st_mode))
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def check_place(path: Path | None) -> None:
    """Raise before a long run if its result cannot be written."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        why = "it is a folder" if path.is_dir() else f"there is no folder {str(path.parent)!r}"
        raise LogicMPError(f"cannot write {str(path)!r}: {why}")


def check_places(outputs: Mapping[str, Path | None], inputs: Iterable[str | Path | None]) -> None:
    """Raise before a long run if a result cannot be written, or would overwrite an input or another result."""
    taken = [("the input", str(path)) for path in inputs if path is not None and str(path) != "-"]
    for what, path in outputs.items():
        check_place(path)
        if path is not None and what in PAGES and path.suffix.lower() not in ("", ".html", ".htm"):
            raise LogicMPError(f"{what} is an HTML page, got {str(path)!r}",
                               f"write to {str(path.with_suffix('.html'))!r}")
        # devices, such as /dev/stdout, may be used twice
        if path is None or (path.exists() and not path.is_file()):
            continue
        for other, place in taken:
            if _is_same(str(path), place):
                raise LogicMPError(f"{what} would overwrite {other} {place!r}", "write to another file")
        taken.append((what, str(path)))


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):
        # one of them does not exist yet
        return os.path.abspath(path) == os.path.abspath(other)


def write_files(folder: Path, files: Mapping[str, bytes], what: str) -> None:
    """Write several files to one folder; a new folder appears whole or not at all, `what` is for the error.

    All files are complete before the first one replaces an old file.
    """
    target = Path(os.path.realpath(folder))
    stage = target.with_name(f".{os.urandom(8).hex()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        stage.mkdir()
        try:
            for name, raw in files.items():
                _replace(stage / name, raw)
            if target.is_dir():
                for name in files:
                    (stage / name).replace(target / name)
                stage.rmdir()
            else:
                stage.rename(target)
        except BaseException:
            for name in files:
                (stage / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                stage.rmdir()
            raise
    except (OSError, ValueError) as cause:
        raise LogicMPError(f"cannot write {what} to {str(folder)!r}: {_reason(cause)}") from None


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], what: str) -> None:
    """Write tensors, metadata and their checksum to one safetensors file, whole or not at all."""
    write_whole(path, tensor_bytes(tensors, metadata), what)


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """A safetensors file of tensors, metadata and their checksum."""
    # imports torch, which the owner of a tensor has imported before
    from safetensors.torch import save

    checksum, _ = _checksum(save(dict(tensors), dict(metadata)))
    return bytes(save(dict(tensors), {**metadata, "checksum": checksum}))


def load_tensors(path: Path, what: str, hint: str | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the metadata of a safetensors file; reject it if they do not have its checksum.

    A file without a checksum, as earlier versions wrote it, is read unchecked.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        raw = path.read_bytes()
        tensors = load(raw)
    except (OSError, ValueError, KeyError, SafetensorError) as cause:
        reason = _reason(cause) if isinstance(cause, OSError) else str(cause)
        raise LogicMPError(f"cannot read {what} from {str(path)!r}: {reason}", hint) from None
    checksum, metadata = _checksum(raw)
    if metadata.pop("checksum", checksum) != checksum:
        raise LogicMPError(f"cannot read {what} from {str(path)!r}: its checksum is wrong, so the file is damaged",
                           hint or "use a copy of the file, or save it again")
    return tensors, metadata


def _checksum(raw: bytes) -> tuple[str, dict[str, str]]:
    """A hash of a safetensors file without the checksum in its metadata, and the metadata."""
    # the length of the header, the header as JSON, the values of the tensors
    end = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:end])
    metadata = header.get("__metadata__") or {}
    header["__metadata__"] = {name: text for name, text in metadata.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode() + raw[end:]).hexdigest(), metadata


def _reason(cause: OSError | ValueError) -> str:
    return getattr(cause, "strerror", None) or str(cause)


def _similar(path: Path) -> str | None:
    """The hint for a missing file: a file with a similar name, or the folder that is missing too."""
    folder = path.parent
    if not os.path.isdir(folder):
        return f"there is no folder {str(folder)!r}"
    try:
        close = difflib.get_close_matches(path.name, {p.name for p in folder.iterdir()} - {path.name}, n=1)
    except OSError:
        return None
    return f"did you mean {str(folder / close[0])!r}?" if close else None
