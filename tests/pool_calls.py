"""Calls that tests have a cluster's workers run."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np

from gdatalog.cancellation import current_watch
from gdatalog.cluster.joins import buckets
from gdatalog.cluster.joins.cells import CellResult
from gdatalog.cluster.pool import broadcast_files
from gdatalog.errors import EvaluationError, Interrupted, MemoryLimitError


def number(value: int) -> int:
    return value


def once(path: str) -> int:
    """Fails when it is called again."""
    with open(path, "x"):
        return 1


def add(task: Any, cells: list[int], values: Any) -> int:
    """`task` has the same values: they come to what runs here as one."""
    assert task[1]["values"] is values
    return int(values.sum()) + cells[0]


def slowly(seconds: float, value: int, values: Any = None) -> int:
    """A call that takes its time."""
    sleep(seconds)
    return value + (0 if values is None else int(values[value % len(values)]))


def process() -> int:
    return os.getpid()


def three(first: int) -> dict[str, int]:
    return {"a": first, "b": first + 1, "c": first + 2}


def plus(kept: dict[str, int], values: Any) -> dict[str, int]:
    return {name: number + int(values[0]) for name, number in kept.items()}


def total(kept: dict[str, int], part: int) -> int:
    return sum(kept.values()) + part


def over(wanted: int, most: int) -> int:
    """Something that cannot be done for more than so much at once."""
    if wanted > most:
        raise MemoryLimitError(f"{wanted} are more than {most}", hint="take fewer")
    return wanted


def filling(count: int) -> int:
    """Takes as many MiB as are asked for, and holds them until a nanny has looked a few times."""
    values = np.ones(count << 17)
    sleep(count / 400)
    return int(values.sum()) >> 17


def wrong(value: int) -> int:
    if value == 3:
        raise EvaluationError("three is wrong")
    return value


def endless(folder: str, name: str) -> None:
    """Runs until nobody waits for it; files tell that it runs, and that it was stopped."""
    Path(folder, f"{name}.runs").touch()
    try:
        while True:
            current_watch().poll()
            sleep(0.005)
    except Interrupted:
        Path(folder, f"{name}.stopped").touch()
        raise


def length(trie: Any) -> int:
    return len(trie.levels[0])


def held() -> list[str]:
    """What values this worker has, by their files."""
    return list(broadcast_files._held)


def looked_at(values: dict[str, Any]) -> tuple[dict[str, str], int]:
    """What arrays are like that were placed; and that they can be written to, here."""
    kinds = {name: f"{a.dtype} {len(a)} {a.flags.writeable}" for name, a in values.items()}
    values["a"][0] = 7
    return kinds, int(values["a"][0])


def prefixes(dask_scheduler: Any) -> list[str]:
    """What tasks are called by, on the dashboard."""
    return list(dask_scheduler.task_prefixes)


def forget_all() -> None:
    broadcast_files.forget(tuple(held()))


def where(seconds: float, values: Any) -> int:
    """In which process it was done."""
    sleep(seconds)
    return os.getpid() if values.sum() else 0


def mixed(seconds: float, values: Any, *inputs: Any) -> dict[str, int]:
    """Something that depends on all that it is given."""
    sleep(seconds)
    numbers = [int(values.sum())]
    for each in inputs:
        numbers += [each] if isinstance(each, int) else each.values()
    first = sum(number * (at + 1) for at, number in enumerate(numbers)) % 1_000_003
    return {"a": first, "b": first * 7 % 1_000_003, "c": len(inputs)}


def stored(dask_worker: Any) -> int:
    """How many files of rows in buckets this worker has."""
    gc.collect()  # an error's frames hold rows until then
    return len(list(Path(dask_worker.local_directory).glob("gdatalog-*")))


def sum_of(kept: dict[str, int]) -> int:
    return sum(kept.values())


def hard(*_: object) -> CellResult:
    """A cell that was too much."""
    return CellResult(hard=True)


def counted_slowly(*args: Any) -> Any:
    sleep(0.3)
    return buckets.counted(*args)
