"""The host's tries in pages that kernels read in place.

A trie is written to a range of pages once, and stays there as long as the trie lives. During a
join, the pages that it reads most are placed on the device (`plan/page_schedule.py` chooses them).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from weakref import WeakKeyDictionary

from gdatalog.gpu_ops.copies import CupyCopied
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.transfers import BUFFER, BUFFERS, SMALLEST, fill
from gdatalog.gpu_ops.virtual_pages import Pages
from gdatalog.overhead import spending
from gdatalog.storage.laid_tries import TrieArrays, layout_of, trie_in_place
from gdatalog.storage.threads import in_ranges
from gdatalog.storage.trie import Trie


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

    def __init__(self, driver: CupyDriver) -> None:
        self.driver = driver
        self.moved = 0  # bytes written to pages or copied to the device
        self._kept: WeakKeyDictionary[Trie, PagedTrie] = WeakKeyDictionary()

    @property
    def page(self) -> int:
        return self.driver.page

    def made(self, trie: Trie) -> PagedTrie | None:
        """A trie in pages, if it has been written to pages."""
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
            self.forget()  # frees the tries of other queries
        return self.driver.pages(size)  # not in `except`: the error keeps memory

    # ------------------------------------------------------------------------------- writing

    def _write(self, layout: TrieArrays, pages: Pages, poll: Callable[[], None]) -> None:
        copier = self.driver.copier()
        size = min(BUFFER, max(SMALLEST, layout.size))
        buffers = [copier.pinned(size) for _ in range(BUFFERS)]
        busy: list[CupyCopied] = []
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
                    fill(in_ranges, piece, here.view(piece.dtype), start)
                    busy.append(pages.write(layout.starts[name] + start * width, here))
        finally:
            for copied in busy:  # the buffers must not be freed before
                copied.wait()
