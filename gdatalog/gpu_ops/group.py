"""Several GPUs of one machine as one device.

The first GPU builds rows and tries. A join or fixpoint that is large enough runs on all GPUs. The
others copy the tries that it reads, from device to device, and keep them as long as the first GPU
does. The units of the first level (`kernels/work.cuh`) are divided into n pieces. A piece has every
n-th interval of units, so that all pieces cost about the same. One thread launches on all GPUs and
waits for whichever ends first, which gets the next piece from a counter. The first GPU copies the
results. Joins that run breadth-first have a thread for each GPU (`helper.py`).

An error or an interrupt on one GPU stops all of them. A GPU that has failed is not used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from threading import Event
from time import perf_counter
from typing import Any, TypeGuard

import numpy as np

from gdatalog.calls import COUNTS, Block, LoopRun
from gdatalog.errors import DeviceError, MemoryLimitError
from gdatalog.gpu_ops.copied_tries import CopiedTries
from gdatalog.gpu_ops.cupy_driver import CupyDriver, pause
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.helper import Helper, HelperStopped, Pieces
from gdatalog.gpu_ops.launch import Launch, Part, Steps
from gdatalog.gpu_ops.rows import Array
from gdatalog.gpu_ops.share import Found, Share
from gdatalog.gpu_ops.walk import KeptLaunch, PreparedLoops
from gdatalog.limits import Limits
from gdatalog.plan.placement import Shared
from gdatalog.records import replace
from gdatalog.storage.on_device import is_on_host
from gdatalog.storage.trie import Trie
from gdatalog.threads import PoolTask, begun

PATIENCE = 0.005  # seconds between two checks for a stop
BY_VALUE = "counts_"  # begins the names of a fixpoint's counts by value


class DeviceGroup(Gpu):
    """The first GPU, and the `others` that share its larger joins and fixpoints."""

    def __init__(self, drivers: Sequence[CupyDriver], memory: int | None = None) -> None:
        """`memory`: the user's limit, in bytes, for what each GPU caches between queries."""
        super().__init__(drivers[0], memory)
        self.others: list[Gpu] = []
        for driver in drivers[1:]:
            with driver.use():
                self.others.append(Gpu(driver, memory))
        self.copies = {gpu.name: CopiedTries(gpu, self._drop_launches) for gpu in self.others}
        self.kept.dropping = self._drop_launches
        self._under_way: list[PoolTask] = []

    @property
    def name(self) -> str:
        numbers = [driver.partition(":")[2] for driver in self.members]
        return f"cuda:{','.join(numbers)}"

    @property
    def members(self) -> tuple[str, ...]:
        return (self.driver.name, *(gpu.name for gpu in self.others))

    def walk(self, run: LoopRun, wanted: int | None) -> list[Block]:
        """Runs a plan depth-first, on all GPUs if the plan's placement says so."""
        if run.shared is None or not run.printed.parallel:
            return super().walk(run, wanted)

        def piece(gpu: Gpu, run: LoopRun, part: Part) -> Steps[Found]:
            return _only(gpu.walks.steps(run, wanted, part))

        (found,) = self._deal(piece, run, run.shared)
        return found

    def follow(self, run: LoopRun, rooms: Sequence[Any], first: int | None) -> Found:
        """Runs a partitioned fixpoint, on all GPUs if the plan's placement says so."""
        if run.shared is None:
            return super().follow(run, rooms, first)

        def piece(gpu: Gpu, run: LoopRun, part: Part) -> Steps[Found]:
            return gpu.following(run, rooms, part)

        return self._deal(piece, run, run.shared)

    def prepared(self, run: LoopRun, has_run: bool) -> PreparedLoops | None:
        """The launches of a plan over its tries, for runs with other parameters; None also if it
        runs in more pieces than there are GPUs."""
        if run.shared is None or not run.printed.parallel:
            return super().prepared(run, has_run)
        if run.shared.pieces > 1:
            return None
        launches: list[tuple[Gpu, KeptLaunch]] = []
        for gpu, own in self._runs(run):
            with gpu.driver.use():
                kept = gpu.walks.prepared(own, has_run)
            if kept is None:
                return None
            launches.append((gpu, kept))
        return GroupLaunch(self, launches)

    def again(self, loops: Sequence[Any], scope: Any, limits: Limits) -> list[list[Block]] | None:
        if not any(isinstance(each, GroupLaunch) for each in loops):
            return super().again(loops, scope, limits)
        found = []
        for each in loops:
            blocks = each.blocks(scope, limits)
            if blocks is None:
                return None
            found.append(blocks)
        return found

    def together(
        self,
        piece: Callable[[Any, Sequence[Trie], Limits, int], Found],
        shared: Shared,
        tries: Sequence[Trie],
        limits: Limits,
    ) -> Found:
        """Runs all pieces of a breadth-first join, each GPU in a thread of its own."""
        self._wait()
        _add_up(tries)
        self.driver.synchronize()  # the others may only copy finished arrays
        parts = (1 + len(self.others)) * shared.pieces
        claims, stop = self.claims(), Event()
        helpers = [
            Helper(gpu, self.copies[gpu.name], tries, limits, stop)
            for gpu in self.others
            if self.copies[gpu.name].fits(tries)
        ]
        own = Pieces(self.driver.name)

        def stopped() -> None:
            if stop.is_set():
                raise HelperStopped

        try:
            with limits.checking(stopped):
                for helper in helpers:
                    self._under_way.append(begun(helper.runs(piece, claims, parts)))
                own.take(claims, parts, lambda part: piece(self.ops, tries, limits, part))
                while not all(task.wait(PATIENCE) for task in self._under_way):
                    limits.poll()
        except HelperStopped:
            pass  # another GPU has the error
        finally:
            stop.set()
            self._wait()
        for helper in helpers:
            if helper.error is not None:
                with self._explaining(helper.gpu):
                    raise helper.error
        found = own.found
        for pieces in (own, *(helper.pieces for helper in helpers)):
            shared.work_of[pieces.name] = pieces.work
            found |= {} if pieces is own else self._brought(pieces.found)
        self.driver.synchronize()  # before the others' arrays are freed
        return _in_order(found)

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

    def run(self, shares: Sequence[Share], parts: int, limits: Limits) -> Found:
        """Runs all pieces, each GPU those that its share takes; returns their rows by relation, on
        the first GPU or on the host. Adds the other GPUs' counts to the first GPU's."""
        claims, busy, at, since = self.claims(), list(shares), shares[0], perf_counter()
        try:
            while busy:
                ended = [share for share in busy if share.ended]
                for at in ended:
                    if not at.go_on(claims, parts, limits.poll):
                        busy.remove(at)
                if ended:
                    since = perf_counter()
                else:
                    at = shares[0]
                    limits.poll()
                    pause(perf_counter() - since)
        except BaseException:
            for share in shares:
                share.stop()
            with self._explaining(at.gpu):
                raise
        first, *others = shares
        for share in others:
            first.found |= self._brought(share.found)
            self._add_counts(first.beside, share.beside)
        self.driver.synchronize()  # before the others' arrays are freed
        return _in_order(first.found)

    def _deal(
        self, piece: Callable[[Gpu, LoopRun, Part], Steps[Found]], run: LoopRun, shared: Shared
    ) -> Found:
        """Runs all pieces of printed loops."""
        parts = (1 + len(self.others)) * shared.pieces

        def share(gpu: Gpu, run: LoopRun) -> Share:
            return Share(gpu, lambda part: piece(gpu, run, (part, parts)), run.beside)

        runs = list(self._runs(run))
        shares = [share(gpu, own) for gpu, own in runs]
        found = self.run(shares, parts, run.limits)
        for each in shares:
            shared.work_of[each.driver.name] = each.work
        if run.kept is not None and all(own.kept for _, own in runs):
            run.kept.append(KeptRuns({gpu.driver.name: own for gpu, own in runs}))
        return found

    def _runs(self, run: LoopRun) -> Iterator[tuple[Gpu, LoopRun]]:
        """The run on the first GPU, and on each that has room for the tries, over its copies. Each
        has what it has kept of an earlier run."""
        known: Mapping[str, LoopRun] = run.kept.pop().runs if run.kept else {}
        run = replace(run, shared=None)
        for gpu in (self, *self.others):
            before = known.get(gpu.driver.name)
            kept = before.kept if before is not None else None if run.kept is None else []
            if gpu is self:
                yield self, replace(run, kept=kept)
                _add_up(run.tries)
                self.driver.synchronize()  # the others may only copy finished arrays
                continue
            copies = self.copies[gpu.name]
            if not copies.fits(run.tries):
                continue
            gpu.walks.loops_like(self.walks, run.printed)
            with self._explaining(gpu), gpu.driver.use():
                tries = list(map(copies.trie, run.tries))
                beside: Mapping[str, Array] = {} if before is None else before.beside
                for name, array in beside.items():
                    if name.startswith(BY_VALUE):
                        gpu.driver.clear(array)
                beside = beside or {name: _given(gpu, name, a) for name, a in run.beside.items()}
            limits = apart(run.limits)
            yield gpu, replace(run, tries=tries, beside=beside, limits=limits, kept=kept)

    def _brought(self, found: Mapping[int, Found]) -> dict[int, Found]:
        """Another GPU's rows, on this one; those on the host stay there."""

        def brought(column: Array) -> Array:
            return column if is_on_host(column) else self.driver.copied(column)

        return {
            part: [[tuple(map(brought, block)) for block in blocks] for blocks in relations]
            for part, relations in found.items()
        }

    def _add_counts(self, own: Mapping[str, Array], others: Mapping[str, Array]) -> None:
        for name, array in others.items():
            if name == COUNTS:  # a host array
                own[name][:] += array
            elif name.startswith(BY_VALUE):
                self.ops.xp.add(own[name], self.driver.copied(array), out=own[name])

    def _wait(self) -> None:
        """Waits for threads that still run after an interrupt."""
        while self._under_way:
            self._under_way[-1].wait()
            self._under_way.pop()

    def _drop_launches(self) -> None:
        for gpu in (self, *self.others):
            gpu.walks.drop_launches()

    @contextmanager
    def _explaining(self, gpu: Gpu) -> Iterator[None]:
        """Says what an error on another GPU than the first means; one that has failed is not used
        again."""
        try:
            yield
        except (DeviceError, MemoryLimitError) as error:
            if gpu is not self and _lost(error):
                self.others.remove(gpu)
                self.copies.pop(gpu.name)
                self._drop_launches()
                error.hint = f"please report this; queries run on {self.name} from now on"
            elif gpu is not self and isinstance(error.__cause__, MemoryError):
                hint = f'ask for less at once, or leave it out: device="{self.driver.name}"'
                raise DeviceError(error.message, hint=hint) from error
            raise


class KeptRuns:
    """A fixpoint that is kept: by GPU, the run with its arguments and launch, without tries."""

    def __init__(self, runs: Mapping[str, LoopRun]) -> None:
        self.runs = {name: replace(run, tries=()) for name, run in runs.items()}

    @property
    def nbytes(self) -> int:
        """The bytes of the buffers on the GPU that has most."""
        launches: Iterator[Launch] = (own for run in self.runs.values() for own in run.kept or ())
        found: int = max(launch.nbytes for launch in launches)
        return found


class GroupLaunch:
    """The launches of a join that GPUs share, for a query that is asked again: a piece each."""

    def __init__(self, group: DeviceGroup, launches: Sequence[tuple[Gpu, KeptLaunch]]) -> None:
        self._group, self._launches = group, launches

    def blocks(self, scope: Any, limits: Limits) -> list[Block] | None:
        """As of `PreparedLoops`."""
        shares: list[Share] = []
        taken: list[tuple[KeptLaunch, Launch]] = []
        parts = len(self._launches)
        for gpu, kept in self._launches:
            own = limits if gpu is self._group else apart(limits)
            with gpu.driver.use():
                there = gpu.driver.name in self._group.members
                launch = kept.taken(scope, own) if there else None
            if launch is None:
                for each, before in taken:
                    each.keep(before)
                return None
            taken.append((kept, launch))
            begin = partial(_steps, kept, launch, own, parts)
            shares.append(Share(gpu, begin, {}))
        (found,) = self._group.run(shares, parts, limits)
        return found


def _steps(kept: KeptLaunch, launch: Launch, limits: Limits, parts: int, part: int) -> Steps[Found]:
    return _only(kept.steps(launch, limits, (part, parts)))


def _only(steps: Steps[list[Block]]) -> Steps[Found]:
    """The blocks of the only relation."""
    return [(yield from steps)]


def apart(limits: Limits) -> Limits:
    """The limits of another GPU, whose memory is its own."""
    return Limits(limits.chunk, limits.memory and limits.spare())


def _given(gpu: Gpu, name: str, array: Array) -> Array:
    """An argument on another GPU. Counts start at zero on each GPU."""
    if name == COUNTS:
        return np.zeros_like(array)
    if name.startswith(BY_VALUE):
        return gpu.driver.xp.zeros(array.shape, dtype=array.dtype)
    return gpu.driver.copied(array)


def _add_up(tries: Sequence[Trie]) -> None:
    """Computes here what others could not read."""
    for trie in tries:
        _ = isinstance(trie, Trie) and trie.total


def _in_order(found: Mapping[int, Found]) -> Found:
    """The rows of all pieces by relation, in the order of the pieces."""
    columns = zip(*(found[part] for part in sorted(found)), strict=True)
    return [[block for blocks in relation for block in blocks] for relation in columns]


def _lost(error: BaseException) -> TypeGuard[DeviceError]:
    """Whether CUDA raised the error, so that the GPU is unusable. A kernel that does not compile
    has no cause."""
    return isinstance(error, DeviceError) and error.__cause__ is not None
