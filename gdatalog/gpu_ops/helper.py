"""The threads of a group's other GPUs, which run pieces of breadth-first joins: those wait for
their GPU after each operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event
from time import perf_counter

from gdatalog.cancellation import Watch, working_for
from gdatalog.gpu_ops.copied_tries import CopiedTries
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.share import Found
from gdatalog.limits import Limits
from gdatalog.plan.placement import DeviceWork
from gdatalog.storage.trie import Trie


class HelperStopped(BaseException):
    """Another GPU has failed, or the call has ended."""


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
    """One of the other GPUs, which runs pieces in a thread of its own. `piece`: runs one with the
    GPU's operations, its tries and limits, by number."""

    def __init__(
        self, gpu: Gpu, copies: CopiedTries, tries: Sequence[Trie], limits: Limits, stop: Event
    ) -> None:
        self.gpu = gpu
        self.copies = copies
        self.tries = tries
        self.chunk, self.memory = limits.chunk, limits.memory and limits.spare()
        self.stop = stop
        self.error: BaseException | None = None
        self.pieces = Pieces(gpu.name)

    def runs(
        self, piece: Callable[..., Found], claims: Iterator[int], parts: int
    ) -> Callable[[], None]:
        """The function of its thread; it raises nothing."""

        def work() -> None:
            try:
                working_for(Watch())
                with self.gpu.driver.use():
                    limits = Limits(self.chunk, self.memory)
                    limits.checks.append(self._poll)
                    tries, ops = list(map(self.copies.trie, self.tries)), self.gpu.ops
                    self.pieces.take(claims, parts, lambda part: piece(ops, tries, limits, part))
                    self.gpu.driver.synchronize()  # the first GPU may only copy finished arrays
            except HelperStopped:
                pass
            except BaseException as error:
                self.error = error
                self.stop.set()

        return work

    def _poll(self) -> None:
        if self.stop.is_set():
            raise HelperStopped
