"""Depth-first joins on a GPU: the kernels of plans, and the launches that are prepared for them.

A plan that runs again over the same tries has its launch at hand: buffers, arguments and layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import MappingProxyType
from typing import Any, Protocol
from weakref import ref

from gdatalog.calls import Block, LoopRun, NoRoomForLists
from gdatalog.cpu_ops.expressions import Scope
from gdatalog.gpu_ops.buffers import Buffers
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.cupy_kernel import CupyKernel
from gdatalog.gpu_ops.kept_lists import KEPT_LISTS
from gdatalog.gpu_ops.launch import WHOLE, Launch, Part, Steps, all_finished, finished
from gdatalog.gpu_ops.loops import LoopKernel, loops_of
from gdatalog.gpu_ops.trie_cache import DeviceTries
from gdatalog.limits import Limits
from gdatalog.overhead import spending
from gdatalog.printer.module import PrintedPlan
from gdatalog.records import cached_property
from gdatalog.settings import cores
from gdatalog.storage.row_ops import DeviceOps
from gdatalog.threads import MOMENT

MOST_KERNELS = 256
COMPILERS = 8  # most threads that compile kernels before they are needed
# Launches that are kept: how many, and the most bytes of their buffers; of one a quarter of them.
MOST_LAUNCHES, KEPT_BYTES = 32, 1 << 30
# The same of fixpoints, and of counts of levels: how many; all take at most one part of so many of
# the free memory.
MOST_RUNS, KEPT_SHARE = 16, 8


class PreparedLoops(Protocol):
    """Loops whose buffers and arguments are at hand on a device."""

    def blocks(self, scope: Scope, limits: Limits) -> list[Block] | None:
        """The rows for the values of parameters in this scope, on the host if they are few. None:
        the loops are at hand no more, or there is no room for them. What the loops take stays
        charged."""


class KeptLaunch:
    """A launch that is kept, for a query that is asked again: it runs until the cache of tries
    drops it, or another one replaces it."""

    def __init__(self, walks: Walks, run: LoopRun, launch: Launch) -> None:
        self._walks, self._printed, self._launch = walks, run.printed, ref(launch)
        self._used = walks.indexes.uses(run.tries)

    def blocks(self, scope: Any, limits: Limits) -> list[Block] | None:
        """As of `PreparedLoops`."""
        found = self._walks.again([self], scope, limits)
        return None if found is None else found[0]

    def taken(self, scope: Any, limits: Limits) -> Launch | None:
        """The launch, for a run in this scope, after which it is kept again."""
        launch = self._launch()
        if launch is None or not self._walks.takes(self._printed, launch, scope, limits):
            return None
        for used, name in self._used:
            used[name] = next(self._walks.indexes.clock)
        return launch

    def steps(self, launch: Launch, limits: Limits, part: Part) -> Steps[list[Block]]:
        """The rows of a part of the units of the launch that was taken."""
        found = yield from launch.steps(limits, None, brief=True, part=part)
        self.keep(launch)
        return found

    def keep(self, launch: Launch) -> None:
        self._walks.keep(self._printed, launch)


class KeptByKey:
    """What is prepared on one device for queries that run again: fixpoints, or counts of levels."""

    def __init__(self, driver: CupyDriver) -> None:
        self._driver = driver
        self._kept: dict[object, Any] = {}
        self._sizes: dict[object, int] = {}  # of what is kept, when it was

    @cached_property
    def _most(self) -> int:
        """The bytes that all may take."""
        return self._driver.free_memory() // KEPT_SHARE

    def keep(self, key: object, found: Any) -> None:
        """Keeps a run; those that were used least recently make room."""
        kept, sizes = self._kept, self._sizes
        kept[key], sizes[key] = found, found.nbytes
        while len(kept) > MOST_RUNS or sum(map(sizes.__getitem__, kept)) > self._most:
            kept.pop(next(iter(kept))).leave()

    def take(self, key: object) -> Any | None:
        return self._kept.pop(key, None)

    def clear(self) -> None:
        while self._kept:
            self._kept.popitem()[1].leave()


class Walks:
    """The kernels of plans on one device."""

    def __init__(self, driver: CupyDriver, ops: DeviceOps, indexes: DeviceTries) -> None:
        """`indexes`: where intersections by edge are cached."""
        self.driver = driver
        self.indexes = indexes
        self.buffers = Buffers(driver, ops, indexes)
        self._kernels: dict[str, CupyKernel] = {}  # by their source
        self._loops: dict[int, LoopKernel] = {}  # by the id of the printed plan
        self._launches: dict[int, Launch] = {}  # by the id of the printed plan
        self._launch_bytes = 0  # of their buffers
        self.fixpoints, self.levels = KeptByKey(driver), KeptByKey(driver)
        indexes.dropping = self.drop_launches
        self._compilers: ThreadPoolExecutor | None = None
        self._coming: dict[str, Future[CupyKernel]] = {}  # kernels by their source

    def _loops_of(self, printed: PrintedPlan) -> LoopKernel:
        """The loops of one plan. Plans with the same source may have different constants."""
        found = self._loops.get(id(printed))
        if found is None or found.printed is not printed:
            if len(self._loops) >= MOST_KERNELS:
                self._loops.clear()
            found = self._loops[id(printed)] = loops_of(printed)
        return found

    def loops_like(self, other: Walks, printed: PrintedPlan) -> None:
        """Takes a plan's loops from another device, so that they are translated once."""
        self._loops[id(printed)] = other._loops_of(printed)

    def kernel(self, run: LoopRun) -> tuple[LoopKernel, CupyKernel]:
        """The kernel of a plan, compiled on first use."""
        loops = self._loops_of(run.printed)
        kernel = self._kernels.get(loops.source)
        if kernel is None:
            coming = self._coming.get(loops.source)
            with spending("compiling"):
                if coming is None or coming.cancel():  # no thread has begun with it
                    kernel = self._compiled(loops, run.label)
                else:
                    while not wait([coming], MOMENT).done:
                        run.limits.poll()
                    kernel = coming.result()
            self._coming.pop(loops.source, None)
            if len(self._kernels) >= MOST_KERNELS:
                self._kernels.clear()
            self._kernels[loops.source] = kernel
        return loops, kernel

    def _compiled(self, loops: LoopKernel, label: str) -> CupyKernel:
        return self.driver.kernels(loops.source, ["walk_plan"], label)["walk_plan"]

    def soon(self, printed: PrintedPlan, label: str) -> bool:
        """Whether a plan's kernel is at hand. Otherwise it is compiled on another thread."""
        loops = self._loops_of(printed)
        if loops.source in self._kernels:
            return True
        coming = self._coming.get(loops.source)
        if coming is None and self.driver.is_stored(loops.source):
            self._kernels[loops.source] = self._compiled(loops, label)
            return True
        if coming is None:
            if self._compilers is None:
                threads = min(COMPILERS, cores())
                self._compilers = ThreadPoolExecutor(threads, "compiling")
            coming = self._compilers.submit(self._compiled_there, loops, label)
            self._coming[loops.source] = coming
        return coming.done() and coming.exception() is None

    def _compiled_there(self, loops: LoopKernel, label: str) -> CupyKernel:
        with self.driver.use():
            return self._compiled(loops, label)

    def run(self, run: LoopRun, wanted: int | None) -> list[Block]:
        """The rows of a plan, as blocks of columns on the device."""
        return finished(self.steps(run, wanted), self.driver, run.limits)

    def steps(
        self,
        run: LoopRun,
        wanted: int | None,
        part: Part = WHOLE,
        rooms: Mapping[str, int] = MappingProxyType({}),
    ) -> Steps[list[Block]]:
        """The same for a part of the units of the plan's first level. `rooms`: the number of
        elements that a tile needs of scratch whose size does not depend on tries. The caller keeps
        the launch, if it wants so (`kept`)."""
        again = not rooms and not run.beside
        launch = self._taken(run.printed) if again else None
        if run.kept:
            launch = run.kept.pop()
        try:
            if launch is None or not launch.serves(run):
                launch = self._made(run, rooms)
            found = yield from launch.steps(run.limits, wanted, part=part)
        finally:
            _give_back(run.limits)
        if again:
            self.keep(run.printed, launch)
        if run.kept is not None and launch.again:
            run.kept.append(launch)
        return found

    def _made(self, run: LoopRun, rooms: Mapping[str, int]) -> Launch:
        with run.limits.watch.work("compiling", run.label):
            loops, kernel = self.kernel(run)
        launch = Launch(self.buffers, loops, kernel, run, rooms)
        self.indexes.changed()  # it may have derived arrays of tries
        return launch

    def keep(self, printed: PrintedPlan, launch: Launch) -> bool:
        """Keeps a launch that serves other runs, unless it is large."""
        if not launch.again or launch.nbytes > KEPT_BYTES // 4:
            return False
        self._taken(printed)
        kept = self._launches
        kept[id(printed)] = launch
        self._launch_bytes += launch.nbytes
        while len(kept) > MOST_LAUNCHES or self._launch_bytes > KEPT_BYTES:
            self._launch_bytes -= kept.pop(next(iter(kept))).nbytes
        return True

    def _taken(self, printed: PrintedPlan) -> Launch | None:
        launch = self._launches.pop(id(printed), None)
        if launch is not None:
            self._launch_bytes -= launch.nbytes
        return launch

    def prepared(self, run: LoopRun, has_run: bool) -> KeptLaunch | None:
        """The launch of a run, for other values of its parameters; None if it is not kept."""
        launch = self._launches.get(id(run.printed))
        if launch is None and has_run:
            return None
        if launch is None or not launch.serves(run):
            try:
                launch = self._made(run, MappingProxyType({}))
            except NoRoomForLists:  # a run prints loops without them
                return None
            finally:
                _give_back(run.limits)
            if not self.keep(run.printed, launch):
                return None
        return KeptLaunch(self, run, launch)

    def takes(self, printed: PrintedPlan, launch: Launch, scope: Any, limits: Limits) -> bool:
        """Whether a launch is kept still; takes it, and the scope's constants, for a run."""
        if self._launches.get(id(printed)) is not launch or not launch.takes(scope, limits):
            return False
        self._taken(printed)
        return True

    def again(self, kept: Sequence[Any], scope: Any, limits: Limits) -> list[list[Block]] | None:
        """The rows of launches (`KeptLaunch`, `KeptLevels`), which are queued together, on the host
        if they are few; None if one is gone, or has no room."""
        taken: list[Any] = []
        for each in kept:
            launch = each.taken(scope, limits)
            if launch is None:
                for before, own in zip(kept, taken, strict=False):
                    before.keep(own)
                return None
            taken.append(launch)
        steps = [launch.steps(limits, None, brief=True) for launch in taken]
        found = all_finished(steps, self.driver, limits)
        for each, launch in zip(kept, taken, strict=True):
            each.keep(launch)
        return found

    def drop_launches(self) -> None:
        """Drops what is kept for later runs, because it holds parts of tries."""
        self._launches.clear()
        self._launch_bytes = 0
        self.fixpoints.clear()
        self.levels.clear()

    def forget(self) -> None:
        """Frees kernels and arrays."""
        if self._compilers is not None:
            self._compilers.shutdown(wait=False, cancel_futures=True)
            self._compilers = None
        self._coming.clear()
        self.drop_launches()
        self._kernels.clear()
        self._loops.clear()
        self.buffers.forget()


def _give_back(limits: Limits) -> None:
    """Returns what a launch has charged."""
    for what in ("blocks", "lists of tiles", KEPT_LISTS):
        limits.charge(what, 0)
