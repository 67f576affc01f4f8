"""The other GPUs of a group, which copy the first GPU's tries and run pieces of its work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Event
from time import perf_counter
from weakref import WeakKeyDictionary

import numpy as np

from gdatalog.calls import COUNTS, Block
from gdatalog.cancellation import Watch, working_for
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.rows import Array
from gdatalog.gpu_ops.trie_cache import SHARE
from gdatalog.limits import Limits
from gdatalog.plan.placement import DeviceWork
from gdatalog.storage.count_tables import Tallied
from gdatalog.storage.trie import Trie, TrieLevel

Found = list[list[Block]]  # blocks of rows, by relation


class HelperStopped(BaseException):
    """Another GPU has failed, or the call has ended."""


class Copies:
    """Copies of the first GPU's tries on another GPU, kept as long as the originals."""

    def __init__(self, driver: CupyDriver) -> None:
        self.driver = driver
        self._made: WeakKeyDictionary[Trie, Trie] = WeakKeyDictionary()
        driver.relief = self.let_go

    def let_go(self) -> None:
        """Drops all copies; those in use are freed later."""
        self._made.clear()

    def trie(self, trie: Trie | Tallied) -> Trie | Tallied:
        """The copy of a trie, made on first use. A `Tallied` needs none."""
        if isinstance(trie, Tallied):
            return trie
        found = self._made.get(trie)
        if found is None:
            parts = (trie.weights, trie.labels)
            copies = [None if part is None else self.driver.copied(part) for part in parts]
            levels = [self._level(level) for level in trie.levels]
            found = self._made[trie] = Trie(levels, trie.total, *copies)
        return found

    def fits(self, tries: Sequence[Trie | Tallied]) -> bool:
        """Whether there is room for the tries that are not copied yet."""
        copied = [trie for trie in tries if not isinstance(trie, Tallied)]
        missing = {id(trie): trie.nbytes for trie in copied if trie not in self._made}
        if not missing:
            return True
        with self.driver.use():
            return sum(missing.values()) <= SHARE * self.driver.free_memory()

    def _level(self, level: TrieLevel) -> TrieLevel:
        """The copy of a level, which several tries may share."""
        for trie, copy in self._made.items():
            for mine, its in zip(trie.levels, copy.levels, strict=True):
                if mine is level:
                    return its
        values, offsets = self.driver.copied(level.values), self.driver.copied(level.offsets)
        return TrieLevel(values, offsets, self.driver.xp)


class Pieces:
    """The pieces of a join or fixpoint that one GPU has run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.found: dict[int, Found] = {}
        self.work = DeviceWork()

    def take(self, claims: Iterator[int], parts: int, run: Callable[[int], Found]) -> None:
        """Claims pieces from a counter that all GPUs share, and runs them, until none is left."""
        began = perf_counter()
        while (part := next(claims)) < parts:
            found = self.found[part] = run(part)
            self.work.pieces += 1
            self.work.rows += sum(len(block[0]) for blocks in found for block in blocks)
        self.work.seconds = perf_counter() - began


class Helper:
    """One of the other GPUs, which runs pieces in a thread of its own."""

    def __init__(
        self,
        gpu: Gpu,
        copies: Copies,
        tries: Sequence[Trie],
        beside: Mapping[str, Array],
        limits: Limits,
        stop: Event,
    ) -> None:
        self.gpu = gpu
        self.copies = copies
        self.tries = tries
        self.beside = beside
        self.given: dict[str, Array] = {}
        self.chunk, self.memory = limits.chunk, limits.memory and limits.spare()
        self.stop = stop
        self.error: BaseException | None = None
        self.pieces = Pieces(gpu.name)

    def runs(
        self, run: Callable[..., Found], claims: Iterator[int], parts: int
    ) -> Callable[[], None]:
        """The function of its thread; it raises nothing."""

        def work() -> None:
            try:
                working_for(Watch())
                with self.gpu.driver.use():
                    self._work(run, claims, parts)
            except HelperStopped:
                pass
            except BaseException as error:
                self.error = error
                self.stop.set()

        return work

    def _work(self, run: Callable[..., Found], claims: Iterator[int], parts: int) -> None:
        limits = Limits(self.chunk, self.memory)
        limits.checks.append(self._poll)
        tries = list(map(self.copies.trie, self.tries))
        self.given = {name: self._copied(name, array) for name, array in self.beside.items()}
        self.pieces.take(
            claims, parts, lambda part: run(self.gpu, tries, self.given, limits, (part, parts))
        )
        self.gpu.driver.synchronize()  # the first GPU may only copy finished arrays

    def _copied(self, name: str, array: Array) -> Array:
        """An argument on this GPU. Counts start at zero on each GPU."""
        if name == COUNTS:
            return np.zeros_like(array)
        if name.startswith("counts_"):
            return self.gpu.driver.xp.zeros(array.shape, dtype=array.dtype)
        return self.gpu.driver.copied(array)

    def results(self) -> Iterator[tuple[str, Array]]:
        """Its counts, by name."""
        for name, array in self.given.items():
            if name == COUNTS or name.startswith("counts_"):
                yield name, array

    def _poll(self) -> None:
        if self.stop.is_set():
            raise HelperStopped
