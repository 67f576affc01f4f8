"""What a breadth-first run has read from a device: the numbers of rows of its levels.

The same run over the same indexes, with as many rows of a level at once, reads the same. So it can
be recorded: arrays have just the size that they need, and nothing waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Array = Any  # a device array
Found = TypeVar("Found")


class NotRecorded(Exception):
    """A run cannot be recorded."""


class LevelSizes:
    """The launches of one level, or a part of it: `rows` to expand, if they were known, and the
    `bound` of candidates; the rows that it keeps, the entry to go on from, and how many candidates
    there are."""

    __slots__ = ("bound", "kept", "kernel", "rows", "stop", "total")

    def __init__(self, kernel: object, rows: int, bound: int) -> None:
        self.kernel, self.rows, self.bound = kernel, rows, bound
        self.kept = self.stop = self.total = -1  # unknown


class LevelNotes:
    """Notes of one run: `sizes` in the order of launches. Once it `replays` them, `counts` gets the
    arrays that hold the counts of bindings."""

    def __init__(self) -> None:
        self.sizes: list[LevelSizes] = []
        self.counts: list[Array] = []
        self.replays = self._broken = False
        self._reads: list[Any] = []
        self._at = self._read = self._used = 0
        self._zeros: Array = None

    @property
    def tried(self) -> int:
        """How many candidates there were."""
        return sum(each.total for each in self.sizes)

    @property
    def complete(self) -> bool:
        """Whether all that a recorded run needs is noted."""
        return not self._broken and bool(self.sizes) and all(e.total >= 0 for e in self.sizes)

    def replay(self, zeros: Callable[[int], Array], state: Callable[[int], int]) -> None:
        """From now on a run gets what was noted. `zeros`: makes memory for the states of tiles,
        cleared in one go; `state`: how many words that of so many entries has."""
        self.replays, self._at, self._read, self._used = True, 0, 0, 0
        words = (2 + state(e.rows) + state(e.kept) + state(e.total) for e in self.sizes)
        self._zeros = zeros(sum(words))

    def next(self, kernel: object, rows: int, bound: int) -> LevelSizes:
        """The sizes of a launch: noted by the caller, or known. `kernel`: which it is; `rows`: how
        many it expands, 0 if that is unknown."""
        if not self.replays:
            self.sizes.append(LevelSizes(kernel, rows, bound))
            return self.sizes[-1]
        found = self._next
        if found.kernel != kernel:
            raise NotRecorded
        self._at += 1
        return found

    def bound(self, most: int) -> int:
        """The bound of candidates of the next launch, as it was when it was noted."""
        return self._next.bound if self.replays else most

    @property
    def _next(self) -> LevelSizes:
        if self._at == len(self.sizes):
            raise NotRecorded
        return self.sizes[self._at]

    def noted(self, compute: Callable[[], Found]) -> Found:
        """What is computed from what is read, or was."""
        if not self.replays:
            made = compute()
            self._reads.append(made)
            return made
        self._read += 1
        if self._read > len(self._reads):
            raise NotRecorded
        found: Found = self._reads[self._read - 1]
        return found

    def spoil(self) -> None:
        """Something else is read: the run cannot be recorded."""
        if self.replays:
            raise NotRecorded
        self._broken = True

    def cleared(self, words: int) -> Array | None:
        """So many zeros, in a run that is recorded; None if there are no more."""
        if not self.replays or self._used + words > len(self._zeros):
            return None
        self._used += words
        return self._zeros[self._used - words : self._used]
