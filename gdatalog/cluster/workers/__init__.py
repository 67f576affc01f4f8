"""The worker process that runs a call: its memory, the rows that it keeps in memory or in files,
and its device. `set_free` runs on the scheduler.

A worker's device is a GPU of its machine that no other worker uses, or else the CPU. A process
opens its device once. Calls use a GPU one at a time, and return host arrays.
"""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary, finalize

from gdatalog.calls import Limits, NotOnDevice
from gdatalog.cpu_ops.functions import Scope
from gdatalog.engine.context import ExecutionContext
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.devices import OpenDevice, open_device
from gdatalog.engine.metrics import Metrics
from gdatalog.engine.nvidia import plainly_none
from gdatalog.errors import DeviceError, MemoryLimitError
from gdatalog.executors.gather import Gathering
from gdatalog.own_files import open_own
from gdatalog.plan import RulePlan, TrieRef
from gdatalog.records import dataclass, replace
from gdatalog.settings import Settings
from gdatalog.storage.on_device import brought
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie, TrieLevel
from gdatalog.values import Value

ITSELF = 240 << 20  # bytes that an idle worker takes, compiled loops included
PAUSE = 0.8  # share of its memory at which Dask pauses a worker


def left_of(memory: int) -> float:
    """The bytes that a worker has for data before Dask pauses it."""
    return max(memory / 16, PAUSE * memory - ITSELF)


def own_worker() -> Any:
    """Dask's worker that runs this thread's call; None outside of a worker."""
    from distributed import get_worker

    try:
        return get_worker()
    except ValueError:
        return None


def own_address() -> str:
    """This worker's address; empty outside of a worker."""
    worker = own_worker()
    return "" if worker is None else str(worker.address)


def own_memory() -> int | None:
    """This worker's memory limit in bytes; None if it has none."""
    worker = own_worker()
    return None if worker is None else worker.memory_manager.memory_limit or None


def own_threads() -> int:
    """How many calls this worker runs at once."""
    worker = own_worker()
    return 1 if worker is None else int(worker.state.nthreads)


@dataclass(frozen=True, slots=True)
class CallContext:
    """What calls get of the driver's context. `memory`: what one may hold, in bytes. `counted`:
    count rows, for a profile. `device`: of the workers, "cpu", "auto" or "cuda"."""

    params: Mapping[str, Value]
    memory: int
    settings: Settings
    counted: bool
    device: str

    @staticmethod
    def of(
        context: ExecutionContext, memory: int, threads: int = 1, device: str = "cpu"
    ) -> CallContext:
        settings, counted = replace(context.settings, threads=threads), context.metrics.lasting
        return CallContext(context.scope.params, memory, settings, counted, device)

    def here(self, symbols: SymbolTable, device: Device = CPU) -> ExecutionContext:
        """The context of a call on this worker."""
        limits, scope = Limits(memory=self.memory), Scope(symbols, self.params)
        metrics = Metrics(self.counted)
        return ExecutionContext(limits, scope, metrics, self.settings, device)


UNLIMITED = 4 << 30  # a worker's memory if it has no limit
# Shares of a worker's memory for data: for rows that it reads from files, and for rows in transit.
READING, MOVING, MOST_MOVING = 1 / 4, 1 / 4, 128 << 20


def room_of(memory: int) -> float:
    """The bytes that a worker has for its calls."""
    left = left_of(memory)
    return left - left * READING - min(MOST_MOVING, left * MOVING)


ALIGNED = 64  # bytes: the alignment that vector instructions prefer


def write(value: object, path: str) -> int:
    """Writes a value such that its arrays can be mapped; returns the file's size in bytes."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    head = pickle.dumps([len(body), *(view.nbytes for view in views)], protocol=5)
    with open(path, "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head + body)
        for view in views:
            file.write(bytes(-file.tell() % ALIGNED))
            file.write(view)
        return file.tell()


def read(path: str) -> Any:
    """Reads a value whose arrays are mapped: only pages that are read take memory, once for all
    workers of a machine. Changes stay private to this process."""
    with open(path, "rb") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    at = 8 + int.from_bytes(mapped[:8], "little")
    length, *sizes = pickle.loads(mapped[8:at])
    body = mapped[at : at + length]
    at += length
    buffers = []
    for size in sizes:
        at += -at % ALIGNED
        buffers.append(mapped[at : at + size])
        at += size
    return pickle.loads(body, buffers=buffers)


class StoredRows:
    """Rows that a worker keeps in a file, with at least one column. Workers read ranges of them;
    Dask would read a spilled value as a whole."""

    def __init__(self, columns: Columns) -> None:
        worker = own_worker()
        folder = tempfile.gettempdir() if worker is None else worker.local_directory
        self._path = str(Path(folder, f"gdatalog-{uuid4().hex}"))
        finalize(self, _remove, self._path)
        write(columns, self._path)

    def read(self, start: int = 0, stop: int | None = None) -> Columns:
        """A range of the rows."""
        return tuple(column[start:stop] for column in read(self._path))

    def __reduce__(self) -> tuple[object, ...]:
        return StoredRows, (self.read(),)


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


# ----------------------------------------------------------------------------- on the scheduler


def set_free(dask_scheduler: Any, wanted: Sequence[str] = (), failed: Sequence[str] = ()) -> None:
    """Resumes tasks that Dask (2026.8) has forgotten.

    First, tasks that may run anywhere but preferred a worker that died when there was no other:
    Dask reconsiders them only when that worker comes back. Second, `wanted` tasks, or their
    dependencies, that were lost after one of their own dependencies had failed: they would wait for
    ever. Retrying that dependency passes its result or error on to them. Third, `failed` tasks.
    """
    stuck = {ts.key: "processing" for ts in dask_scheduler.unrunnable if ts.loose_restrictions}
    if stuck and dask_scheduler.running:
        dask_scheduler.transitions(stuck, stimulus_id="gdatalog-set-free")
    tasks = dask_scheduler.tasks
    forgotten: set[Any] = set()
    retried = {key for key in failed if key in tasks and tasks[key].state == "erred"}
    todo = [tasks[key] for key in wanted if key in tasks and tasks[key].state != "erred"]
    while todo:
        task = todo.pop()
        if task.state in ("waiting", "released") and task not in forgotten:
            forgotten.add(task)
            todo += task.dependencies
        elif task.state == "erred":
            retried.add(task.key)
    if retried:
        again = {task.key: "waiting" for task in forgotten if task.state == "released"}
        dask_scheduler.stimulus_retry(keys=list(retried))
        dask_scheduler.transitions(again, stimulus_id="gdatalog-set-free")


# --------------------------------------------------------------------------------------- devices

SHORT = 1 << 31  # entries, below which a GPU's offsets have 32 bits

Made = TypeVar("Made")

_opened: dict[str, OpenDevice] = {}
_locked: list[object] = []  # lock files of GPUs, held by this process
_opening, _using = Lock(), Lock()
_copies: WeakKeyDictionary[Trie, Trie] = WeakKeyDictionary()


def on_device(
    asked: str,
    plans: Sequence[RulePlan],
    tries: Mapping[TrieRef, Trie],
    run: Callable[[Device, Mapping[TrieRef, Trie]], Made | None],
) -> Made | None:
    """Calls `run` with this worker's device, and tries in its memory.

    `asked`: "cpu", "auto", or "cuda". The CPU runs what a GPU cannot run or has too little memory
    for, and for which `run` returns None.
    """
    opened = own_device(asked)
    device = opened.device
    if device is not CPU and not any(map(device.refuses, plans)):
        found = None
        # The CPU may have more memory.
        with suppress(NotOnDevice, MemoryLimitError), _using, opened.use():
            found = run(device, {ref: _copy(trie, device) for ref, trie in tries.items()})
        if found is not None:
            return found
    return run(CPU, tries)


def own_device(asked: str) -> OpenDevice:
    """The device of this process."""
    with _opening:
        found = _opened.get(asked)
        if found is None:
            found = _opened[asked] = _open(asked)
        return found


def _open(asked: str) -> OpenDevice:
    if asked == "cpu" or (asked == "auto" and plainly_none()):
        return open_device("cpu")
    for number in range(gpus()):
        if _is_ours(number):
            try:
                return open_device(f"cuda:{number}")
            except DeviceError:
                if asked != "auto":
                    raise
    if asked == "auto":
        return open_device("cpu")
    raise DeviceError(
        "a worker has no GPU of its own: there are more workers than GPUs on its machine, or none",
        hint='start as many workers as GPUs, as dask-cuda does; or use device="auto"',
    )


def gpus() -> int:
    """How many GPUs this process sees."""
    from gdatalog.gpu_ops.probe import look_at_driver

    return len(look_at_driver().cards)


def _is_ours(number: int) -> bool:
    """Whether no other worker of this machine uses a GPU; if so, locks it for this process."""
    try:
        import fcntl

        import cupy
    except ImportError:
        return number == 0
    bus = cupy.cuda.runtime.deviceGetPCIBusId(number)
    name = (bus.decode() if isinstance(bus, bytes) else str(bus)).replace(":", "-")
    path = Path(tempfile.gettempdir(), f"gdatalog-gpu-{name}.lock")
    file = os.fdopen(open_own(path, os.O_RDWR | os.O_CREAT), "r+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return False
    _locked.append(file)  # the lock lasts as long as the file is open
    return True


# ------------------------------------------------------------------------------- there and back


def _copy(trie: Trie, device: Device) -> Trie:
    """A copy of a host trie on a GPU, cached as long as the host trie lives."""
    found = _copies.get(trie)
    if found is None:
        xp = device.ops.xp
        levels = []
        for level in trie.levels:
            offsets = level.offsets
            if len(level.values) < SHORT:
                offsets = offsets.astype("int32")
            levels.append(TrieLevel(xp.asarray(level.values), xp.asarray(offsets), xp))
        parts = [None if part is None else xp.asarray(part) for part in (trie.weights, trie.labels)]
        found = _copies[trie] = Trie(levels, trie.total, *parts)
    return found


def rows_here(rows: Columns) -> Columns:
    """Copies rows of any device to the host."""
    return tuple(map(brought, rows))


def gathering_here(gathering: Gathering) -> None:
    """Moves the groups of a gathering to the host, which merges them from now on."""
    gathering.ops = CPU.ops
    gathering.blocks = [rows_here(block) for block in gathering.blocks]
    for rows in gathering.sets:
        rows.ops = CPU.ops
        rows.blocks = [rows_here(block) for block in rows.blocks]
