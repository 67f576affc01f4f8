"""Work on long arrays, spread over the cores: NumPy lets go of the interpreter's lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from typing import Any, TypeVar

from gdatalog.cancellation import Watch, current_watch, working_for
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
