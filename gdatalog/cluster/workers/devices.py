"""The device of a worker: a GPU, if its machine has one that no other worker uses, else the CPU.

It is opened once for a process. Calls use a GPU one after the other, and give arrays of the host.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from gdatalog.calls import NotOnDevice
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.devices import OpenDevice, open_device
from gdatalog.engine.no_gpu import plainly_none
from gdatalog.errors import DeviceError, MemoryLimitError
from gdatalog.executors.gather import Gathering
from gdatalog.plan.nodes import RulePlan, TrieRef
from gdatalog.storage.on_device import brought
from gdatalog.storage.rows import Columns
from gdatalog.storage.trie import Trie, TrieLevel

SHORT = 1 << 31  # entries, below which a GPU's offsets take 32 bits

Made = TypeVar("Made")

_opened: dict[str, OpenDevice] = {}
_locked: list[Any] = []  # files that say which GPU is ours, as long as this process runs
_opening, _using = Lock(), Lock()
_copies: WeakKeyDictionary[Trie, Trie] = WeakKeyDictionary()


def on_device(
    asked: str,
    plans: Sequence[RulePlan],
    tries: Mapping[TrieRef, Trie],
    run: Callable[[Device, Mapping[TrieRef, Trie]], Made],
) -> Made:
    """What `run` gives on this worker's device, and with tries that lie there.

    `asked`: "cpu", "auto", or "cuda". What a GPU refuses, and what it has not enough memory for, is
    run on the CPU.
    """
    opened = own_device(asked)
    device = opened.device
    if device is not CPU and not any(map(device.refuses, plans)):
        try:
            with _using, opened.use():
                return run(device, {ref: _copy(trie, device) for ref, trie in tries.items()})
        except (NotOnDevice, MemoryLimitError):
            pass  # it has less memory than its machine
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
        hint='as many workers as GPUs, as dask-cuda starts them; or device="auto"',
    )


def gpus() -> int:
    """How many GPUs this process sees."""
    from gdatalog.gpu_ops.probe import look_at_driver

    return len(look_at_driver().cards)


def _is_ours(number: int) -> bool:
    """Whether no other worker of this machine uses a GPU; then none does from now on."""
    try:
        import fcntl

        import cupy
    except ImportError:
        return number == 0
    bus = cupy.cuda.runtime.deviceGetPCIBusId(number)
    name = (bus.decode() if isinstance(bus, bytes) else str(bus)).replace(":", "-")
    file = Path(tempfile.gettempdir(), f"gdatalog-gpu-{name}.lock").open("a")  # noqa: SIM115, the lock lasts as long as the file is open
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return False
    _locked.append(file)
    return True


# ------------------------------------------------------------------------------- there and back


def _copy(trie: Trie, device: Device) -> Trie:
    """A trie of the host on a GPU, which is kept there as long as it is here."""
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
    """Rows of whichever device as arrays of the host."""
    return tuple(map(brought, rows))


def gathering_here(gathering: Gathering) -> None:
    """Has the groups of a gathering on the host, and merged there from now on."""
    gathering.ops = CPU.ops
    gathering.blocks = [rows_here(block) for block in gathering.blocks]
    for rows in gathering.sets:
        rows.ops = CPU.ops
        rows.blocks = [rows_here(block) for block in rows.blocks]
