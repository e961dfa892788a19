"""Data files, checked against the files the results were made with; and folders and figures to write.

    FUNSD = DataFiles("FUNSD", "download it from ...", Path("checksums.txt"), "funsd")
    FUNSD.read("testing_data/annotations/82092117.json", data="folder of --data, or None for LOGICMP_DATA")
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from logicmp import LogicMPError
from logicmp.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class DataFiles:
    """The files of a data set that is not in this repository.

    Args:
        name: of the data set.
        origin: where to download the files and where to put them.
        sums: a file with lines `checksum path`.
        under: folder of these paths, relative to the folder of all data sets.
    """

    name: str
    origin: str
    sums: Path
    under: str = "."

    @cached_property
    def checksums(self) -> dict[str, str]:
        return {path: total for total, path in (line.split() for line in self.sums.read_text().splitlines())}

    def folder(self, data: str | Path | None = None) -> Path:
        folder = data or os.environ.get("LOGICMP_DATA")
        if not folder:
            raise LogicMPError(f"{self.name} not found: set --data or LOGICMP_DATA", self.origin)
        return Path(folder) / self.under

    def read(self, file: str, data: str | Path | None = None) -> bytes:
        """The content of a file, after checking its checksum."""
        path = self.folder(data) / file
        try:
            content = path.read_bytes()
        except OSError as cause:
            raise LogicMPError(f"cannot read {str(path)!r}: {cause.strerror}", self.origin) from None
        found = hashlib.sha256(content).hexdigest()[:16]
        if found != self.checksums[file]:
            raise LogicMPError(f"{str(path)!r} is not the file the results were made with: its checksum is {found}, "
                               f"expected {self.checksums[file]}", self.origin)
        return content


def make_folder(path: Path) -> Path:
    """Create a folder and its parents, if needed."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise LogicMPError(f"cannot create the folder {str(path)!r}: {cause.strerror}") from None
    return path


def need_matplotlib() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise LogicMPError("the figures need matplotlib, which is not installed", 'pip install "logicmp[plot]"')


def write_figure(figure: Figure, path: Path, dpi: int = 150) -> Path:
    """Write a figure as PNG; returns the path."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=dpi)
    make_folder(path.parent)
    write_whole(path, content.getvalue(), "a figure")
    return path
