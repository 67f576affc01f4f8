"""Copies slices of the host's tries to a device.

The slices of the next cell are copied while the current cell runs. A thread fills one pinned buffer
after the other, and the device copies them in a stream of its own. `plan.slices.SliceCache` decides
which slices stay on the device. A kernel waits for the copies that it reads, and for no others. All
arrays of a slice lie in one allocation, so that most slices take one copy.

"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from gdatalog.cancellation import PATIENCE
from gdatalog.gpu_ops.copies import CupyCopied
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.overhead import spending
from gdatalog.plan.slices import Sizes, Slice, SliceCache
from gdatalog.storage.table import Array
from gdatalog.storage.threads import by_parts
from gdatalog.storage.trie import Trie
from gdatalog.storage.trie_slices import ArraySlice, pieces_of, slice_of
from gdatalog.threads import PoolTask, begun

BUFFERS, BUFFER = 2, 1 << 25  # the number of pinned buffers, and their bytes
SMALLEST = 1 << 12  # bytes of a pinned buffer if there is little to write or copy
ALIGNED = 8  # bytes: the alignment of arrays


class CopyStopped(Exception):
    """Nobody needs the remaining copies."""


class _There:
    """A slice that is on the device, or is being copied."""

    def __init__(self, trie: Trie, pieces: Sequence[ArraySlice], xp: Any) -> None:
        self.trie = trie
        self.pieces = pieces
        self.begins: list[int] = []  # the offset of each piece
        self.size = 0
        for piece in pieces:
            self.begins.append(self.size)
            self.size += piece.nbytes + -piece.nbytes % ALIGNED
        self.bytes = xp.empty(self.size, dtype=np.uint8)
        self.longest: list[int] = []  # the longest list of each level below the root
        self.copied: CupyCopied | None = None  # set when all copies have started
        self.awaited = False  # whether kernels already wait for them
        self.made: dict[str, Trie] = {}  # by label

    @property
    def arrays(self) -> list[Array]:
        return [
            self.bytes[begin : begin + piece.nbytes].view(piece.dtype)
            for begin, piece in zip(self.begins, self.pieces, strict=True)
        ]


class Slices:
    """The slices of a join's tries on a device."""

    def __init__(
        self,
        driver: CupyDriver,
        room: int,
        tries: Mapping[Hashable, Trie],
        sizes: Mapping[Hashable, Sizes],
        poll: Callable[[], None],
    ) -> None:
        """`tries`, `sizes`: the host's tries, by the index that a `Slice` names."""
        self.driver = driver
        self.tries = tries
        self.shelf = SliceCache(room, sizes)
        self.poll = poll
        self.moved = 0  # bytes
        self._copier = driver.copier()
        size = min(BUFFER, max(SMALLEST, room // BUFFERS // ALIGNED * ALIGNED))
        self._buffers = [self._copier.pinned(size) for _ in range(BUFFERS)]
        self._busy: list[CupyCopied | None] = [None] * BUFFERS
        self._there: dict[Slice, _There] = {}
        self._labels: dict[Hashable, Array] = {}
        self._task: PoolTask | None = None
        self._error: BaseException | None = None
        self._stopped = False
        # A thread that spins until a kernel ends would take the GIL from the thread that copies.
        self._spun, driver.spins = driver.spins, False

    @property
    def nbytes(self) -> int:
        return self.shelf.total

    def enter(self, now: Sequence[Slice], coming: Sequence[Slice]) -> None:
        """Starts a cell. On return its slices are on the device, or kernels will wait for them; and
        a thread copies the slices of the next cell."""
        self._settle()
        self._begin(self.shelf.enter(now, coming))
        self._settle()
        for one in now:
            there = self._there[one]
            if not there.awaited:
                assert there.copied is not None
                there.copied.before_kernels()
                there.awaited = True
        self._begin(self.shelf.ahead(coming, now))

    def trie(self, one: Slice, label: str) -> Trie:
        """A slice as a trie. Each label has a trie of its own, with the same levels."""
        there, xp = self._there[one], self.driver.xp
        found = there.made.get(label)
        if found is None:
            labels = self._labels_of(one.index)
            first = next(iter(there.made.values()), None)
            found = slice_of(there.trie, one.low, one.high, there.arrays, labels, xp)
            if first is not None:
                found.levels = first.levels
            for level, longest in zip(found.levels[1:], there.longest, strict=True):
                level.longest = longest
            there.made[label] = found
        return found

    def close(self) -> None:
        """Waits for copies that have started, and frees everything."""
        self._stopped = True
        try:
            if self._task is not None:
                self._task.wait()
            self._copier.copied().wait()
        finally:
            self.driver.spins = self._spun
            self._there.clear()
            self._labels.clear()
            self._buffers, self._task = [], None

    def _labels_of(self, index: Hashable) -> Array | None:
        labels = self.tries[index].labels
        if labels is not None and index not in self._labels:
            with spending("moving", labels.nbytes):
                self._labels[index] = self.driver.xp.asarray(labels)
        return self._labels.get(index)

    # ------------------------------------------------------------------------------- copying

    def _begin(self, slices: Sequence[Slice]) -> None:
        """Allocates the arrays of slices, after others have been freed, and starts a thread that
        copies them."""
        for one in [one for one in self._there if one not in self.shelf.held]:
            del self._there[one]
        if not slices:
            return
        xp, wanted = self.driver.xp, []
        moved = sum(map(self.shelf.moved, slices))
        self.moved += moved
        with spending("moving", moved):
            for one in slices:
                trie = self.tries[one.index]
                wanted.append(_There(trie, pieces_of(trie, one.low, one.high), xp))
                self._there[one] = wanted[-1]
            self._copier.after_kernels()  # which may still read freed arrays
        self._task = begun(lambda: self._copy(wanted))

    def _settle(self) -> None:
        """Waits until all copies have started."""
        task, self._task = self._task, None
        if task is None:
            return
        try:
            with spending("moving"):
                while not task.wait(PATIENCE):
                    self.poll()
        except BaseException:
            self._task = task
            raise
        if self._error is not None:
            raise self._error

    def _copy(self, wanted: Sequence[_There]) -> None:
        """The function of the thread."""
        try:
            with getattr(self.driver, "use", nullcontext)():
                for there in wanted:
                    self._copy_slice(there)
        except BaseException as error:
            self._error = error

    def _copy_slice(self, there: _There) -> None:
        for start in range(0, there.size, len(self._buffers[0])):
            if self._stopped:
                raise CopyStopped
            buffer = self._buffers.pop(0)
            self._buffers.append(buffer)
            busy = self._busy.pop(0)
            if busy is not None:
                busy.wait()
            end = min(there.size, start + len(buffer))
            for piece, begin in zip(there.pieces, there.begins, strict=True):
                low, high = max(start, begin), min(end, begin + piece.nbytes)
                if low < high:
                    here = buffer[low - start : high - start].view(piece.dtype)
                    # A single thread is slower than the link to the device.
                    fill(by_parts, piece, here, (low - begin) // piece.dtype.itemsize)
            self._copier.copy(there.bytes, start, buffer[: end - start])
            self._busy.append(self._copier.copied())
        there.copied = self._copier.copied()
        for at in range(1, len(there.trie.levels)):
            lengths = np.diff(there.pieces[2 * at - 1].source)
            there.longest.append(int(lengths.max()) if len(lengths) else 0)


def fill(spread: Callable[..., None], piece: ArraySlice, here: Array, start: int) -> None:
    """Fills elements from `start` on with several threads."""

    def part(rows: slice) -> None:
        piece.fill(here[rows], start + rows.start, start + rows.stop)

    spread(part, len(here))
