"""Which of several calls does a piece of work: the one that asks first.

Calls that are given the same pieces take them one by one: whoever makes the file of a piece's
number, in a folder that all see, has the piece. So workers end together without being handed every
few pieces by the driver, which would cost it some milliseconds each time. A piece whose worker died
stays taken: the driver sees in the end that nobody has done it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TypeVar

from gdatalog.records import dataclass

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class WorkQueue:
    """The folder where pieces are taken."""

    folder: str

    def take(self, pieces: Sequence[Item]) -> Iterator[tuple[int, Item]]:
        """Pieces with their numbers that nobody has taken, each when it is asked for."""
        for number, piece in enumerate(pieces):
            if self._first(number):
                yield number, piece

    def _first(self, number: int) -> bool:
        try:
            os.close(os.open(f"{self.folder}/{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except OSError:  # somebody was first; or the folder is not seen here, or is gone
            return False
        return True
