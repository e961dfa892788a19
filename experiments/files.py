"""Files of a data set that is not in this repository: found, and the ones the results were made with.

    FUNSD = DataFiles("FUNSD is", "github guillaumejaume/FUNSD says where it is ...", Path("checksums.txt"), "funsd")
    FUNSD.read("testing_data/annotations/82092117.json", given="--data's folder, or None for LOGICMP_DATA")
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from logicmp import LogicMPError


@dataclass(frozen=True)
class DataFiles:
    """The files that a list of checksums names.

    Args:
        what: the data set and its verb, such as "FUNSD is".
        origin: where the files come from and where they belong.
        sums: a file with lines `checksum path`.
        under: the folder of the paths, below that of all data sets.
    """

    what: str
    origin: str
    sums: Path
    under: str = "."

    @cached_property
    def checksums(self) -> dict[str, str]:
        return {path: total for total, path in (line.split() for line in self.sums.read_text().splitlines())}

    def folder(self, given: str | Path | None = None) -> Path:
        """Where the files are."""
        folder = given or os.environ.get("LOGICMP_DATA")
        if not folder:
            raise LogicMPError(f"{self.what} not there: neither --data nor LOGICMP_DATA is given", self.origin)
        return Path(folder) / self.under

    def read(self, file: str, given: str | Path | None = None) -> bytes:
        """One file, checked."""
        path = self.folder(given) / file
        try:
            data = path.read_bytes()
        except OSError as cause:
            raise LogicMPError(f"cannot read {str(path)!r}: {cause.strerror}", self.origin) from None
        found = hashlib.sha256(data).hexdigest()[:16]
        if found != self.checksums[file]:
            raise LogicMPError(f"{str(path)!r} is not the file the results were made with: its checksum is {found}, "
                               f"expected {self.checksums[file]}", self.origin)
        return data
