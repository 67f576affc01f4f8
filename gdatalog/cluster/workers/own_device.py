"""The device of a worker process: opened once, and its tries."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TypeVar
from weakref import WeakKeyDictionary

from gdatalog.calls import NotOnDevice
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.devices import OpenDevice, open_device
from gdatalog.engine.nvidia import plainly_none
from gdatalog.errors import DeviceError, MemoryLimitError
from gdatalog.executors.gather import Gathering
from gdatalog.own_files import open_own
from gdatalog.plan.join_plan import RulePlan, TrieRef
from gdatalog.storage.on_device import brought
from gdatalog.storage.rows import Columns
from gdatalog.storage.trie import Trie, TrieLevel

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
