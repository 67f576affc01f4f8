"""Our side's databases, on a device of choice, and the knobs that the benchmark forces on them.

All that is asked of what is not public is here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import gdatalog as gd
from benchmarks.gpu.made import Edges
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.settings import Strategy, Thresholds

MILLISECOND = 1_000_000
NEVER = -1  # a task is never split
MOST_BLOCKS = 1 << 16
TILES = (1, 2, 4, 8, 16, 32)


class NoGpu(Exception):
    """There is none that can be used; says why."""


@dataclass(frozen=True, slots=True)
class Forced:
    """How a rule is to be run; None: as we would choose.

    `tile`: lanes to a subtree; `time_limit`: nanoseconds between two looks at whether tiles wait;
    `chunk`: how many rows a level may have; `threads`: of the CPU; `split`: whether a fixpoint that
    splits may.
    """

    strategy: Strategy = "lftj"
    tile: int | None = None
    time_limit: int | None = None
    chunk: int | None = None
    threads: int = 0
    split: str = "auto"


class Ours:
    """A database whose joins run on a device."""

    def __init__(self, edges: Edges, device: Any, xp: Any) -> None:
        """`device`: None for the CPU."""
        self.db = gd.connect(device="cpu")
        self.xp = xp
        if device is not None:
            self.db.workspace.device = device
        self.walks: Any = getattr(device, "walks", None)  # depth-first kernels
        self.db["E"] = columns(edges, xp, on_device=device is not None)

    def count(self, text: str, forced: Forced) -> int:
        workspace = self.db.workspace
        workspace.chunk_rows = forced.chunk
        workspace.force(threads=forced.threads or None, split=forced.split, tile=forced.tile or 0)
        limit = forced.time_limit
        limit = Thresholds().tile_shares_after if limit is None else limit
        workspace.tune(tile_shares_after=limit)
        ((found,),) = self.db.query(text, strategy=forced.strategy).fetchall()
        return int(found)

    def stop(self) -> None:
        self.db.interrupt()

    def watch(self, on: bool) -> None:
        """Whether depth-first kernels are to note when each block of theirs ends."""
        if self.walks is not None:
            ends = self.xp.zeros(MOST_BLOCKS, dtype=self.xp.int64) if on else None
            self.walks.buffers.ends = ends

    def ends(self) -> Any:
        """Nanoseconds at which the blocks of the last depth-first kernel ended; 0: no block."""
        return None if self.walks is None else self.walks.buffers.ends

    def close(self) -> None:
        self.db.close()


def columns(edges: Edges, xp: Any, on_device: bool) -> dict[str, Any]:
    """The relation of a graph: for a device its own arrays, if that is where it was made."""
    u, v = edges.u, edges.v
    if not on_device:
        u, v = on_host(u, xp), on_host(v, xp)
    library = xp if isinstance(u, xp.ndarray) else np
    if not edges.rises:
        u, v = library.concatenate([u, v]), library.concatenate([v, u])
    return {"a": u.astype(np.int32, copy=False), "b": v.astype(np.int32, copy=False)}


def on_host(array: Any, xp: Any) -> Any:
    return xp.asnumpy(array) if hasattr(xp, "asnumpy") and isinstance(array, xp.ndarray) else array


def device_of(driver: CupyDriver) -> Any:
    """The device whose kernels a driver runs."""
    try:
        from gdatalog.gpu_ops.device import Gpu
    except ImportError:
        raise NoGpu("this version has no executors for a GPU") from None
    return Gpu(driver)


def gpu_driver() -> CupyDriver:
    """CuPy's driver of the first GPU."""
    try:
        from gdatalog.gpu_ops.cupy_driver import CupyDriver
    except ImportError:
        raise NoGpu("this version has no driver for a GPU") from None
    return CupyDriver()
