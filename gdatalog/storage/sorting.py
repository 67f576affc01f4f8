"""Sorting long arrays of integers: on several cores, or by a better sorter that was offered.

What NumPy's sort takes depends on the processor: with vectors of 512 bits it is as fast as any,
without them compiled code is several times as fast. This layer imports no compiler; who has one
offers a sorter, which is asked for when an array is long.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gdatalog.cancellation import current_watch, working_space
from gdatalog.storage.table import Array
from gdatalog.storage.threads import LONG, cores, spread

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


def withdraw(sorter_for: Offer) -> None:
    """Takes back what was offered."""
    _offers.remove(sorter_for)


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
