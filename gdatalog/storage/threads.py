"""Work on long arrays, spread over the cores, such as sorting: NumPy releases the GIL."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from typing import Any, TypeVar

import numpy as np

from gdatalog import settings
from gdatalog.cancellation import Watch, current_watch, working_for, working_space
from gdatalog.storage.table import Array
from gdatalog.threads import PoolTask, begun

Item = TypeVar("Item")
Made = TypeVar("Made")

LONG = 1 << 18  # entries: fewer are not worth a second thread
_MOST_THREADS = 8  # threads: more do not speed up copying and packing, which wait for memory
BATCH = 1 << 15  # rows in a batch: temporary arrays stay in the cache


def cores() -> int:
    """How many threads this process should use for work on arrays: its cores, but at most
    `_MOST_THREADS`."""
    return min(settings.cores(), _MOST_THREADS)


def spread(work: Callable[[Item], Made], items: Iterable[Item], long: bool) -> list[Made]:
    """Calls `work` with each item; results are in the items' order. Uses several threads if the
    work is `long`."""
    todo = list(items)
    workers = min(cores(), len(todo)) if long else 1
    if workers < 2:
        return [work(item) for item in todo]
    watch, errors = current_watch(), list[BaseException]()
    made: list[Any] = [None] * len(todo)
    numbers = iter(range(len(todo)))  # shared by the threads: `next` is atomic

    def share() -> None:
        try:
            for at in numbers:
                if errors:
                    return
                if watch.behind:
                    watch.poll()
                made[at] = work(todo[at])
        except BaseException as error:
            errors.append(error)

    def aside() -> None:
        if not watch.behind:
            return share()
        working_for(watch)
        try:
            share()
        finally:
            working_for(Watch())

    tasks: list[PoolTask] = []
    try:
        for _ in range(workers - 1):
            tasks.append(begun(aside))
        share()
        for task in tasks:
            task.wait()
    except BaseException as error:
        errors.append(error)  # stops the other threads
        for task in tasks:
            task.wait()
    if errors:
        raise errors[0]
    return made


def ahead(
    work: Callable[[Item], Made], items: Iterable[Item], long: bool, most: int | None = None
) -> Iterator[Made]:
    """Calls `work` with each item; results are in the items' order. If the work is `long`, threads
    work on the next few items while the caller uses the last result: on `most` at a time, by
    default one for each core."""
    if not long or cores() < 2:
        yield from map(work, items)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    most = most or cores() + 1
    todo, begun = iter(items), deque[Future[Made]]()
    with ThreadPoolExecutor(min(most, cores())) as pool:
        try:
            begun.extend(pool.submit(work, item) for item in islice(todo, most))
            while begun:
                made = begun.popleft().result()
                begun.extend(pool.submit(work, item) for item in islice(todo, 1))
                yield made
        finally:
            for future in begun:
                future.cancel()


def in_ranges(work: Callable[[slice], None], length: int) -> None:
    """Calls `work` with all rows, batch by batch. Each thread has a range of its own. Of so few
    rows as `BATCH` there is one batch."""

    def part(rows: slice) -> None:
        for start in range(rows.start, rows.stop, BATCH):
            work(slice(start, min(rows.stop, start + BATCH)))

    by_parts(part, length)


def by_parts(work: Callable[[slice], None], length: int) -> None:
    """Calls `work` with all rows: one range for each thread."""
    if length < LONG:
        work(slice(0, length))
    else:
        workers = cores()
        bounds = [length * at // workers for at in range(workers + 1)]
        spread(work, [slice(*pair) for pair in pairwise(bounds)], True)


def ascends(values: Array) -> bool:
    """Whether the values are sorted; they may repeat."""
    few = values[:1000]  # usually decide
    return bool((few[1:] >= few[:-1]).all()) and bool((values[1:] >= values[:-1]).all())


def sort_values(values: Array, own: bool = False) -> Array:
    """The sorted values of an array of ints; may return the array itself. `own`: the array may be
    sorted in place."""
    if ascends(values):
        return values
    own = own and values.flags.writeable
    with working_space("sorting", 0 if own else values.nbytes):
        mine = values if own else values.copy()
        if len(values) < LONG:
            mine.sort()
        else:
            _by_threads(mine)
        return mine


def _by_threads(values: Array) -> None:
    """Partitions the array at its medians until each thread has a part, and sorts the parts. NumPy
    partitions eight times as fast as it sorts."""
    parts = [values]
    while 2 * len(parts) <= cores() and len(parts[0]) > 1:
        spread(lambda part: part.partition(len(part) // 2), parts, True)
        parts = [half for part in parts for half in np.split(part, [len(part) // 2])]
    spread(lambda part: part.sort(), parts, True)
