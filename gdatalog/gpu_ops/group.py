"""Several GPUs of one machine as one device.

The first GPU builds rows and tries. A join or fixpoint that is large enough runs on all GPUs. The
others copy the tries that it reads, from device to device, and keep them as long as the first GPU
does. The units of the first level (`kernels/work.cuh`) are divided into n pieces. A piece has every
n-th interval of units, so that all pieces cost about the same. Each GPU has a host thread, which
claims one piece after the other from a counter. The first GPU copies the results.

An error or an interrupt on one GPU stops all of them. A GPU that has failed is not used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from threading import Event
from typing import Any, TypeGuard

from gdatalog.calls import COUNTS, Block, LoopRun
from gdatalog.errors import DeviceError, MemoryLimitError
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.helper import Copies, Found, Helper, HelperStopped, Pieces
from gdatalog.gpu_ops.launch import WHOLE, Part
from gdatalog.gpu_ops.rows import Array
from gdatalog.limits import Limits
from gdatalog.plan.placement import Shared
from gdatalog.printer.module import PrintedPlan
from gdatalog.records import replace
from gdatalog.storage.trie import Trie
from gdatalog.threads import PoolTask, begun

PATIENCE = 0.005  # seconds between two checks for a stop


class DeviceGroup(Gpu):
    """The first GPU, and the `others` that share its larger joins and fixpoints."""

    def __init__(self, drivers: Sequence[CupyDriver], memory: int | None = None) -> None:
        """`memory`: the user's limit, in bytes, for what each GPU caches between queries."""
        super().__init__(drivers[0], memory)
        self.others: list[Gpu] = []
        for driver in drivers[1:]:
            with driver.use():
                self.others.append(Gpu(driver, memory))
        self.copies = {gpu.name: Copies(gpu.driver) for gpu in self.others}
        self._under_way: list[PoolTask] = []

    @property
    def name(self) -> str:
        numbers = [driver.partition(":")[2] for driver in self.members]
        return f"cuda:{','.join(numbers)}"

    @property
    def members(self) -> tuple[str, ...]:
        return (self.driver.name, *(gpu.name for gpu in self.others))

    def walk(self, run: LoopRun, wanted: int | None, part: Part = WHOLE) -> list[Block]:
        """Runs a plan depth-first, on all GPUs if the plan's placement says so."""
        if run.shared is None or not run.printed.parallel:
            return super().walk(run, wanted, part)

        def piece(gpu: Gpu, run: LoopRun, part: Part) -> Found:
            return [gpu.walk(run, wanted, part)]

        (found,) = self._share_loops(piece, run, run.shared)
        return found

    def follow(
        self, run: LoopRun, rooms: Sequence[Any], first: int | None, part: Part = WHOLE
    ) -> Found:
        """Runs a partitioned fixpoint, on all GPUs if the plan's placement says so."""
        if run.shared is None:
            return super().follow(run, rooms, first, part)

        def piece(gpu: Gpu, run: LoopRun, part: Part) -> Found:
            return gpu.follow(run, rooms, first, part)

        return self._share_loops(piece, run, run.shared)

    def together(
        self,
        piece: Callable[[Any, Sequence[Trie], Limits, int], Found],
        shared: Shared,
        tries: Sequence[Trie],
        limits: Limits,
    ) -> Found:
        """Runs all pieces of a join or fixpoint."""

        def run(gpu: Gpu, tries: Sequence[Trie], _: object, limits: Limits, part: Part) -> Found:
            return piece(gpu.ops, tries, limits, part[0])

        return self._share(run, shared, None, tries, {}, limits)

    def close(self) -> None:
        """Frees everything on all GPUs."""
        self._wait()
        for gpu in self.others:
            with gpu.driver.use():
                self.copies[gpu.name].let_go()
                gpu.close()
        super().close()

    # ------------------------------------------------------------------------------ together

    def claims(self) -> Iterator[int]:
        """The numbers of pieces in order. `next` is atomic, so threads can share the iterator."""
        return count()

    def _wait(self) -> None:
        """Waits for threads that still run after an interrupt."""
        while self._under_way:
            self._under_way[-1].wait()
            self._under_way.pop()

    def _share_loops(
        self, piece: Callable[[Gpu, LoopRun, Part], Found], run: LoopRun, shared: Shared
    ) -> Found:
        """Runs all pieces of printed loops."""
        run = replace(run, scope=run.printed.expressions.arguments(run.scope), shared=None)

        def one(
            gpu: Gpu, tries: Sequence[Trie], beside: Mapping[str, Array], limits: Limits, part: Part
        ) -> Found:
            return piece(gpu, replace(run, tries=tries, beside=beside, limits=limits), part)

        return self._share(one, shared, run.printed, run.tries, run.beside, run.limits)

    def _share(
        self,
        run: Callable[..., Found],
        shared: Shared,
        printed: PrintedPlan | None,
        tries: Sequence[Trie],
        beside: Mapping[str, Array],
        limits: Limits,
    ) -> Found:
        """Runs all pieces; returns their rows by relation, on the first GPU."""
        self._wait()
        if printed is not None:  # before the threads start: Python 3.11 parses in one at a time
            for gpu in self.others:
                gpu.walks.loops_like(self.walks, printed)
        for trie in tries:
            _ = isinstance(trie, Trie) and trie.total  # computes it here, before threads read it
        self.driver.synchronize()  # the others may only copy finished arrays
        parts = (1 + len(self.others)) * shared.pieces
        claims, stop = self.claims(), Event()
        helpers = [
            Helper(gpu, self.copies[gpu.name], tries, beside, limits, stop)
            for gpu in self.others
            if self.copies[gpu.name].fits(tries)
        ]
        own = Pieces(self.driver.name)

        def stopped() -> None:
            if stop.is_set():
                raise HelperStopped

        def here(part: int) -> Found:
            return run(self, tries, beside, limits, (part, parts))

        self._spin(False)
        try:
            with limits.checking(stopped):
                for helper in helpers:
                    self._under_way.append(begun(helper.runs(run, claims, parts)))
                own.take(claims, parts, here)
                while not all(task.wait(PATIENCE) for task in self._under_way):
                    limits.poll()
        except HelperStopped:
            pass  # another GPU has the error
        finally:
            stop.set()
            self._spin(True)
            self._wait()
        self._raise(helpers)
        for pieces in (own, *(helper.pieces for helper in helpers)):
            shared.work_of[pieces.name] = pieces.work
        return self._together(own, helpers, beside)

    def _spin(self, spins: bool) -> None:
        for gpu in (self, *self.others):
            gpu.driver.spins = spins

    def _raise(self, helpers: Sequence[Helper]) -> None:
        """Raises the first error of the other GPUs, if any. GPUs that failed are not used again."""
        errors = [(helper.gpu, helper.error) for helper in helpers if helper.error is not None]
        for gpu, error in errors:
            if _lost(error):
                self.others.remove(gpu)
                self.copies.pop(gpu.name)
        for _, error in errors:
            if _lost(error):
                error.hint = f"please report this; queries run on {self.name} from now on"
            if isinstance(error, MemoryLimitError) and isinstance(error.__cause__, MemoryError):
                raise DeviceError(
                    error.message,
                    hint=f'ask for less at once, or leave it out: device="{self.driver.name}"',
                ) from error
            raise error

    def _together(
        self, own: Pieces, helpers: Sequence[Helper], beside: Mapping[str, Array]
    ) -> Found:
        """The rows of all pieces, in order. Adds the other GPUs' counts to the first GPU's."""
        found: dict[int, Found] = dict(own.found)
        for helper in helpers:
            for name, array in helper.results():
                if name == COUNTS:  # a host array
                    beside[name][:] += array
                else:
                    self.ops.xp.add(beside[name], self.driver.copied(array), out=beside[name])
            for part, relations in helper.pieces.found.items():
                found[part] = [
                    [tuple(map(self.driver.copied, block)) for block in blocks]
                    for blocks in relations
                ]
        self.driver.synchronize()  # before the others' arrays are freed
        columns = zip(*(found[part] for part in sorted(found)), strict=True)
        return [[block for blocks in relation for block in blocks] for relation in columns]


def _lost(error: BaseException) -> TypeGuard[DeviceError]:
    """Whether CUDA raised the error, so that the GPU is unusable. A kernel that does not compile
    has no cause."""
    return isinstance(error, DeviceError) and error.__cause__ is not None
