"""Pipes and devices: their content can be read only once, and is kept in a temporary file."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from tempfile import SpooledTemporaryFile
from typing import IO

from gdatalog.records import dataclass, field
from gdatalog.storage.spill import default_folder

IN_MEMORY = 1 << 20  # bytes of a pipe that are kept in memory


def is_special(of: os.stat_result) -> bool:
    """Whether this is neither a file nor a folder but a pipe, a device or a socket."""
    return not (stat.S_ISREG(of.st_mode) or stat.S_ISDIR(of.st_mode))


@dataclass(slots=True, eq=False)
class Pipes:
    """The content of the pipes that a database's programs have read, by device and inode."""

    _kept: dict[tuple[int, int], IO[bytes]] = field(default_factory=dict)

    def read(self, name: str, read: Callable[[str], bytes]) -> bytes:
        """The content of a file; of a pipe, what was read the first time."""
        of = os.stat(name)
        if not is_special(of):
            return read(name)
        key = of.st_dev, of.st_ino
        if key in self._kept:
            self._kept[key].seek(0)
            return self._kept[key].read()
        data = read(name)
        kept = SpooledTemporaryFile(IN_MEMORY, dir=default_folder())  # noqa: SIM115, it stays open
        kept.write(data)
        self._kept[key] = kept
        return data
