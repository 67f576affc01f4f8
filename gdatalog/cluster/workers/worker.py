"""The worker that runs this: what calls ask of it."""

from __future__ import annotations

from typing import Any

ITSELF = 240 << 20  # bytes that a worker takes which does nothing, compiled loops included
PAUSE = 0.8  # of its memory, from which on Dask gives a worker no more to do


def left_of(memory: int) -> float:
    """What a worker of so much memory does not need for itself, until Dask lets it pause."""
    return max(memory / 16, PAUSE * memory - ITSELF)


def own_worker() -> Any:
    """Dask's worker, whose call runs in this thread; None outside of one."""
    from distributed import get_worker

    try:
        return get_worker()
    except ValueError:
        return None


def own_address() -> str:
    """Its address; nothing outside of a worker."""
    worker = own_worker()
    return "" if worker is None else str(worker.address)


def own_memory() -> int | None:
    """The bytes that it may hold; None where nothing limits it."""
    worker = own_worker()
    return None if worker is None else worker.memory_manager.memory_limit or None


def own_threads() -> int:
    """How many calls it runs at once."""
    worker = own_worker()
    return 1 if worker is None else int(worker.state.nthreads)
