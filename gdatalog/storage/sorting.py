"""Sorting long arrays of integers: on several cores, or by a better sorter that was offered.

What NumPy's sort takes depends on the processor: with vectors of 512 bits it is as fast as any,
without them compiled code is several times as fast. This layer imports no compiler; who has one
offers a sorter, which is asked for when an array is long.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gdatalog.storage.table import Array
from gdatalog.storage.threads import LONG, cores, spread

# The sorted values of an array of int64, none less than the first bound or more than the second.
Sorter = Callable[[Array, int, int], Array]

_offers: list[Callable[[int], Sorter | None]] = []


def offer(sorter_for: Callable[[int], Sorter | None]) -> None:
    """From now on, `sorter_for(length)` is asked for a sorter of so many values.

    It gives None where its sorter is not worth its start. Who offers comes before who did.
    """
    _offers.insert(0, sorter_for)


def withdraw(sorter_for: Callable[[int], Sorter | None]) -> None:
    """Takes back what was offered."""
    _offers.remove(sorter_for)


def ascends(values: Array) -> bool:
    """Whether the values are sorted; equal ones may stand beside each other."""
    few = values[:1000]  # tell most of the time
    return bool((few[1:] >= few[:-1]).all()) and bool((values[1:] >= values[:-1]).all())


def sort_values(values: Array, low: int, high: int) -> Array:
    """The values of an array of ints in ascending order; it may be the array itself.

    None is less than `low` or more than `high`: the closer these are, the less there is to do.
    """
    if ascends(values):
        return values
    count = len(values)
    if count < LONG:
        return np.sort(values)
    if values.dtype == np.int64:
        for sorter_for in _offers:
            sorter = sorter_for(count)
            if sorter is not None:
                return sorter(values, low, high)
    return _by_threads(values)


def _by_threads(values: Array) -> Array:
    """Each thread picks the values of a range of its own, and sorts them."""
    workers = cores()
    if workers < 2:
        return np.sort(values)
    sample = np.sort(values[:: max(1, len(values) // 4096)])
    borders = np.unique(sample[len(sample) * np.arange(1, workers) // workers])

    def part(number: int) -> Array:
        if number == 0:
            mask = values < borders[0]
        else:
            mask = values >= borders[number - 1]
            if number < len(borders):
                mask &= values < borders[number]
        mine: Array = values[mask]
        mine.sort()
        return mine

    return np.concatenate(spread(part, range(len(borders) + 1), True))
