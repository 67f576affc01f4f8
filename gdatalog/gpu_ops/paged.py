"""The host's tries where kernels of a device read them in place, page by page.

A trie's arrays are written into a range of pages once, and stay there as long as the trie does.
Pages that are read much are placed on the device while a join runs (`plan/paging.py` says which).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from weakref import WeakKeyDictionary

from gdatalog.gpu_ops.driver import Copied, Driver, Pages
from gdatalog.storage.threads import in_ranges
from gdatalog.storage.trie import Trie
from gdatalog.storage.trie_builder import ArraySlice, TrieArrays, layout_of, trie_in_place
from gdatalog.timers import spending

BUFFERS, BUFFER = 2, 1 << 25  # how many pinned buffers there are, and their bytes
SMALLEST = 1 << 12  # bytes of one, where there is little to be written


class PagedTrie:
    """A trie of the host in pages: where its arrays begin there, and these."""

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
    """The tries of one device that are read in place."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.moved = 0  # bytes that were written to pages, or copied to the device
        self._kept: WeakKeyDictionary[Trie, PagedTrie] = WeakKeyDictionary()

    @property
    def page(self) -> int:
        return self.driver.page

    def made(self, trie: Trie) -> PagedTrie | None:
        """A trie in pages, if it is there by now."""
        return self._kept.get(trie)

    def of(self, trie: Trie, poll: Callable[[], None]) -> PagedTrie:
        """A trie in pages. A `MemoryError` says that the host has no room for it."""
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
        """Has these pages of a trie on the device, and no others."""
        size = paged.pages.page * len(set(wanted) - paged.pages.placed)
        with spending("moving", size):
            self._place(paged.pages, wanted)
        self.moved += size

    def _place(self, pages: Pages, wanted: Collection[int]) -> None:
        try:
            return pages.place(wanted)
        except MemoryError:
            self.driver.relief()
            self.driver.release()  # pages are not of the memory that arrays are made of
        pages.place(wanted)

    def forget(self) -> None:
        """Lets go of all that nobody uses."""
        self._kept.clear()

    def _pages(self, size: int) -> Pages:
        try:
            return self.driver.pages(size)
        except MemoryError:
            self.forget()  # what other queries have left
        return self.driver.pages(size)  # here: the error would keep what it holds

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
            for copied in busy:  # the buffers go
                copied.wait()


def _fill(piece: ArraySlice, here: Any, start: int) -> None:
    """Elements from `start` on, by several threads."""

    def part(rows: slice) -> None:
        piece.fill(here[rows], start + rows.start, start + rows.stop)

    in_ranges(part, len(here))
