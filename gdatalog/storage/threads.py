"""Work on long arrays, spread over the cores, sorting among it: NumPy releases the lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from typing import Any, TypeVar

import numpy as np

from gdatalog.cancellation import Watch, current_watch, working_for, working_space
from gdatalog.storage.table import Array
from gdatalog.threads import PoolTask, begun

Item = TypeVar("Item")
Made = TypeVar("Made")

LONG = 1 << 18  # entries, from which on a second thread is worth its start
_MOST = 8  # copying and packing wait for memory, which more threads make no faster
_STRETCH = 1 << 15  # rows at a time: what is made of them on the way stays in the cache


def cores() -> int:
    """How many cores this process may use, as far as more of them help here."""
    try:
        available = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        available = os.cpu_count() or 1
    return min(available, _MOST)


def spread(work: Callable[[Item], Made], items: Iterable[Item], long: bool) -> list[Made]:
    """`work` of each item, in the items' order; on several threads if it is `long`."""
    todo = list(items)
    workers = min(cores(), len(todo)) if long else 1
    if workers < 2:
        return [work(item) for item in todo]
    watch, errors = current_watch(), list[BaseException]()
    made: list[Any] = [None] * len(todo)
    numbers = iter(range(len(todo)))  # each is taken once: `next` is atomic

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
        errors.append(error)  # so that the others stop
        for task in tasks:
            task.wait()
    if errors:
        raise errors[0]
    return made


def ahead(
    work: Callable[[Item], Made], items: Iterable[Item], long: bool, most: int | None = None
) -> Iterator[Made]:
    """`work` of each item, in the items' order. If it is `long`, threads work on the next few
    items while the caller uses the last one: on so many at the `most`, or one for each core."""
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
    """`work` of all rows, stretch by stretch; each thread has a part of its own."""

    def part(rows: slice) -> None:
        for start in range(rows.start, rows.stop, _STRETCH):
            work(slice(start, min(rows.stop, start + _STRETCH)))

    by_parts(part, length)


def by_parts(work: Callable[[slice], None], length: int) -> None:
    """`work` of all rows: of one part for each thread."""
    if length < LONG:
        work(slice(0, length))
    else:
        workers = cores()
        bounds = [length * at // workers for at in range(workers + 1)]
        spread(work, [slice(*pair) for pair in pairwise(bounds)], True)


# Sorting long arrays of integers: on several cores, or by a better sorter that was offered.
#
# What NumPy's sort takes depends on the processor: with vectors of 512 bits it is as fast as any,
# without them compiled code is several times as fast. This layer imports no compiler; who has one
# offers a sorter, which is asked for when an array is long.

# The sorted values of an array of int64, none less than the first bound or more than the second.
Sorter = Callable[[Array, int, int], Array]

# What gives a sorter of so many values; whether it may be started for that, or is to run already.
Offer = Callable[[int, bool], Sorter | None]

_offers: list[Offer] = []


def offer(sorter_for: Offer) -> None:
    """From now on, `sorter_for(length, start)` is asked for a sorter of so many values.

    It gives None where its sorter is not worth its start. Who offers comes before who did.
    """
    _offers.insert(0, sorter_for)


def ascends(values: Array) -> bool:
    """Whether the values are sorted; equal ones may stand beside each other."""
    few = values[:1000]  # tell most of the time
    return bool((few[1:] >= few[:-1]).all()) and bool((values[1:] >= values[:-1]).all())


def sort_values(values: Array, low: int, high: int, start: bool = True, own: bool = False) -> Array:
    """The values of an array of ints in ascending order; it may be the array itself.

    None is less than `low` or more than `high`: the closer these are, the less there is to do.
    `start`: whether a compiled sorter may be started for it. `own`: nobody else needs the array,
    which may be sorted in place. The compiled sorter needs two more arrays of its size; where the
    memory limit leaves no room for these, NumPy sorts.
    """
    if ascends(values):
        return values
    count, room = len(values), 2 * values.nbytes
    if count >= LONG and values.dtype == np.int64 and room <= current_watch().account.spare():
        for sorter_for in _offers:
            sorter = sorter_for(count, start)
            if sorter is not None:
                with working_space("sorting", room):
                    return sorter(values, low, high)
    own = own and values.flags.writeable
    with working_space("sorting", 0 if own else values.nbytes):
        mine = values if own else values.copy()
        if count < LONG:
            mine.sort()
        else:
            _by_threads(mine)
        return mine


def _by_threads(values: Array) -> None:
    """Halves the array by its middle value until each thread has a part, and sorts the parts."""
    parts = [values]
    while 2 * len(parts) <= cores() and len(parts[0]) > 1:
        spread(lambda part: part.partition(len(part) // 2), parts, True)
        parts = [half for part in parts for half in np.split(part, [len(part) // 2])]
    spread(lambda part: part.sort(), parts, True)
