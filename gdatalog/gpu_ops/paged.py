"""Tries of the host that a device's kernels read in place, page by page.

A trie's arrays are written to a range of pages once, and stay there as long as the trie does. Pages
that are read much are placed on the device during a join (`plan/schedule.py` chooses them).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from weakref import WeakKeyDictionary

from gdatalog.account import spending
from gdatalog.gpu_ops.driver import Copied, Driver, Pages
from gdatalog.storage.threads import in_ranges
from gdatalog.storage.trie import Trie
from gdatalog.storage.trie_builder import ArraySlice, TrieArrays, layout_of, trie_in_place

BUFFERS, BUFFER = 2, 1 << 25  # the number of pinned buffers, and their bytes
SMALLEST = 1 << 12  # bytes of one if there is little to write


class PagedTrie:
    """A host trie in pages: the offsets of its arrays, and the arrays."""

    def __init__(self, layout: TrieArrays, pages: Pages) -> None:
        self.starts, self.size = layout.starts, layout.size
        self.pages = pages
        self.arrays = {
            name: pages.array(layout.starts[name], len(piece.source), piece.dtype)
            for name, piece in layout.pieces.items()
        }

    def trie(self, whole: Trie, xp: Any) -> Trie:
        return trie_in_place(whole, self.arrays, xp)


class Paged:
    """The tries that one device reads in place."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.moved = 0  # bytes written to pages or copied to the device
        self._kept: WeakKeyDictionary[Trie, PagedTrie] = WeakKeyDictionary()

    @property
    def page(self) -> int:
        return self.driver.page

    def made(self, trie: Trie) -> PagedTrie | None:
        """A trie in pages, if it has been written already."""
        return self._kept.get(trie)

    def of(self, trie: Trie, poll: Callable[[], None]) -> PagedTrie:
        """A trie in pages, written on first use. Raises `MemoryError` if the host has no room for
        it."""
        found = self._kept.get(trie)
        if found is None:
            layout = layout_of(trie)
            pages = self._pages(max(1, layout.size))
            with spending("moving", layout.size):
                self._write(layout, pages, poll)
            self.moved += layout.size
            found = self._kept[trie] = PagedTrie(layout, pages)
        return found

    def place(self, paged: PagedTrie, wanted: Collection[int]) -> None:
        """Places these pages of a trie on the device, and no others."""
        size = paged.pages.page * len(set(wanted) - paged.pages.placed)
        with spending("moving", size):
            self._place(paged.pages, wanted)
        self.moved += size

    def _place(self, pages: Pages, wanted: Collection[int]) -> None:
        try:
            return pages.place(wanted)
        except MemoryError:
            self.driver.relief()
            self.driver.release()  # pages do not come from the arrays' pool
        pages.place(wanted)

    def forget(self) -> None:
        """Drops all tries; those in use are freed later."""
        self._kept.clear()

    def _pages(self, size: int) -> Pages:
        try:
            return self.driver.pages(size)
        except MemoryError:
            self.forget()  # what other queries have left
        return self.driver.pages(size)  # not in `except`: the error keeps memory

    # ------------------------------------------------------------------------------- writing

    def _write(self, layout: TrieArrays, pages: Pages, poll: Callable[[], None]) -> None:
        copier = self.driver.copier()
        size = min(BUFFER, max(SMALLEST, layout.size))
        buffers = [copier.pinned(size) for _ in range(BUFFERS)]
        busy: list[Copied] = []
        try:
            for name, piece in layout.pieces.items():
                width = piece.dtype.itemsize
                most = size // width
                for start in range(0, len(piece.source), most):
                    poll()
                    if len(busy) == BUFFERS:
                        busy.pop(0).wait()
                    buffer = buffers.pop(0)
                    buffers.append(buffer)
                    end = min(len(piece.source), start + most)
                    here = buffer[: (end - start) * width]
                    _fill(piece, here.view(piece.dtype), start)
                    busy.append(pages.write(layout.starts[name] + start * width, here))
        finally:
            for copied in busy:  # before the buffers are freed
                copied.wait()


def _fill(piece: ArraySlice, here: Any, start: int) -> None:
    """Fills elements from `start` on with several threads."""

    def part(rows: slice) -> None:
        piece.fill(here[rows], start + rows.start, start + rows.stop)

    in_ranges(part, len(here))
