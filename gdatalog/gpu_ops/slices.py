"""Slices of host-resident tries on a device: copied there for one cell while another one runs.

Threads fill pinned buffers in turn, from which the device copies in a stream of its own; which
slices lie there, and which go, `plan.slicing.Shelf` decides. Kernels wait on the device for the
copies of what they read, and nobody waits for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from gdatalog.gpu_ops.driver import Copied, Driver
from gdatalog.hands import Task, begun
from gdatalog.plan.slicing import Shelf, Sizes, Slice
from gdatalog.spent import spending
from gdatalog.storage.slices import Piece, pieces_of, slice_of
from gdatalog.storage.threads import by_parts
from gdatalog.storage.trie import Trie
from gdatalog.watching import PATIENCE

BUFFERS, BUFFER = 2, 1 << 25  # how many pinned buffers there are, and their bytes
SMALLEST = 1 << 12  # bytes of one, where there is little to be copied


class Stopped(Exception):
    """Nobody wants the rest of the copies."""


class _There:
    """A slice that lies on the device, or is on its way."""

    def __init__(self, trie: Trie, pieces: Sequence[Piece], arrays: Sequence[Any]) -> None:
        self.trie = trie
        self.pieces = pieces
        self.arrays = arrays
        self.copied: Copied | None = None  # once all copies have been begun
        self.made: dict[str, Trie] = {}  # by what they are used for


class Slices:
    """The slices of a join's tries that lie on a device."""

    def __init__(
        self,
        driver: Driver,
        room: int,
        tries: Mapping[Hashable, Trie],
        sizes: Mapping[Hashable, Sizes],
        poll: Callable[[], None],
    ) -> None:
        """`tries`: those of the host, by the indexes that slices name."""
        self.driver = driver
        self.tries = tries
        self.shelf = Shelf(room, sizes)
        self.poll = poll
        self.moved = 0  # bytes
        self._copier = driver.copier()
        size = min(BUFFER, max(SMALLEST, room // BUFFERS))
        self._buffers = [self._copier.pinned(size) for _ in range(BUFFERS)]
        self._busy: list[Copied | None] = [None] * BUFFERS
        self._there: dict[Slice, _There] = {}
        self._labels: dict[Hashable, Any] = {}
        self._task: Task | None = None
        self._error: BaseException | None = None
        self._stopped = False

    @property
    def nbytes(self) -> int:
        return self.shelf.total

    def enter(self, now: Sequence[Slice], coming: Sequence[Slice]) -> None:
        """A cell begins that reads slices: they are there, or kernels wait for them, when this
        returns; those of the next cell are on their way."""
        self._settle()
        self._begin(self.shelf.enter(now, coming))
        self._settle()
        for one in dict.fromkeys(now):
            copied = self._there[one].copied
            assert copied is not None
            copied.before_kernels()
        self._begin(self.shelf.ahead(coming, now))

    def trie(self, one: Slice, label: str) -> Trie:
        """A slice as a trie: one for each of its uses, of which no two are the same trie."""
        there, xp = self._there[one], self.driver.xp
        found = there.made.get(label)
        if found is None:
            labels = self._labels_of(one.index)
            first = next(iter(there.made.values()), None)
            found = slice_of(there.trie, one.low, one.high, there.arrays, labels, xp)
            if first is not None:
                found.levels = first.levels
            there.made[label] = found
        return found

    def close(self) -> None:
        """Lets go of all of it, once no copy is under way."""
        self._stopped = True
        try:
            if self._task is not None:
                self._task.wait()
            self._copier.copied().wait()
        finally:
            self._there.clear()
            self._labels.clear()
            self._buffers, self._task = [], None

    def _labels_of(self, index: Hashable) -> Any:
        labels = self.tries[index].labels
        if labels is not None and index not in self._labels:
            with spending("moving", labels.nbytes):
                self._labels[index] = self.driver.xp.asarray(labels)
        return self._labels.get(index)

    # ------------------------------------------------------------------------------- copying

    def _begin(self, slices: Sequence[Slice]) -> None:
        """Has slices copied, by a thread; makes their arrays, where others have gone."""
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
                pieces = pieces_of(trie, one.low, one.high)
                arrays = [xp.empty(len(piece.source), dtype=piece.dtype) for piece in pieces]
                wanted.append(_There(trie, pieces, arrays))
                self._there[one] = wanted[-1]
            self._copier.after_kernels()  # which may still read what lay where the arrays are
        self._task = begun(lambda: self._copy(wanted))

    def _settle(self) -> None:
        """Waits until all copies have been begun."""
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
        """What the thread does."""
        try:
            with getattr(self.driver, "use", nullcontext)():
                for there in wanted:
                    for piece, array in zip(there.pieces, there.arrays, strict=True):
                        self._copy_piece(piece, array)
                    there.copied = self._copier.copied()
        except BaseException as error:
            self._error = error

    def _copy_piece(self, piece: Piece, array: Any) -> None:
        width = piece.dtype.itemsize
        most = len(self._buffers[0]) // width
        for start in range(0, len(piece.source), most):
            if self._stopped:
                raise Stopped
            end = min(len(piece.source), start + most)
            buffer = self._buffers.pop(0)
            self._buffers.append(buffer)
            busy = self._busy.pop(0)
            if busy is not None:
                busy.wait()
            here = buffer[: (end - start) * width]
            self._fill(piece, here.view(piece.dtype), start)
            self._copier.copy(array, start * width, here)
            self._busy.append(self._copier.copied())

    def _fill(self, piece: Piece, here: Any, start: int) -> None:
        """Elements from `start` on, by several threads: one is slower than the link."""

        def part(rows: slice) -> None:
            piece.fill(here[rows], start + rows.start, start + rows.stop)

        by_parts(part, len(here))
