"""Elements of arrays that several threads write: read and written atomically.

The compiler may assume that nobody else writes, so it moves a plain load of a flag out of the loop
that polls it. An atomic load stays where it is, and costs the same. Atomic operations are relaxed:
they order nothing else. Python's definitions take a lock.

The threads of a run share an int64 array, `control`: [0] counts the units of work that are taken,
[1] is set to end the run early, [2] is the number of units.
"""

from __future__ import annotations

from threading import Lock

import numpy as np

from gdatalog.codegen.loop_language import Array, inlined, intrinsic, seldom

_lock = Lock()


@intrinsic
def load(array: Array, i: int) -> int:
    """array[i]."""
    return int(array[i])


@intrinsic
def store(array: Array, i: int, value: int) -> None:
    """array[i] = value."""
    array[i] = value


@intrinsic
def add(array: Array, i: int, value: int) -> int:
    """array[i] += value, which wraps; returns the old value."""
    with _lock:
        old = int(array[i])
        array[i] = np.add(np.int64(old), np.int64(value))
    return old


@intrinsic
def compare_swap(array: Array, i: int, expected: int, new: int) -> int:
    """array[i] = new if it is `expected`; returns the old value."""
    with _lock:
        old = int(array[i])
        if old == expected:
            array[i] = new
    return old


@intrinsic
def set_bits(array: Array, i: int, bits: int) -> int:
    """array[i] |= bits; returns the old value."""
    with _lock:
        old = int(array[i])
        new = old | bits  # the highest bit is the sign
        array[i] = new - (1 << 64) if new >= 1 << 63 else new
    return old


@inlined
def mark_first(marks: Array, place: int) -> bool:
    """Sets the bit at a place; whether this thread was the first to set it.

    A plain read finds most bits that are set already, without an atomic write.
    """
    word, bit = place >> 6, 1 << (place & 63)
    if load(marks, word) & bit:
        return False
    return set_bits(marks, word, bit) & bit == 0


@seldom
def take(control: Array, threads: int, total: int, grain: int) -> tuple[int, int]:
    """Takes the next interval of `total` units of work: [start, stop), empty if none is left.

    Intervals shrink to `grain`, so that the threads end at about the same time. None is larger than
    a 64th of a thread's even share: if the first units are the most work, as in graphs whose hubs
    have the least ids, an even share of units is far more than an even share of work. A single
    thread takes an eighth at a time, for progress reports; smaller intervals would make it prepare
    lists more often.
    """
    store(control, 2, total)
    start = load(control, 0)
    largest = total // (64 * threads)
    while start < total:
        size = (total - start) // (8 * threads)
        if threads == 1:
            size = total // 8
        elif size > largest:
            size = largest
        if size < grain:
            size = grain
        stop = start + size
        if stop > total:
            stop = total
        seen = compare_swap(control, 0, start, stop)
        if seen == start:
            return start, stop
        start = seen
    return total, total


@inlined
def stopped(control: Array) -> bool:
    """Whether the run is to end early."""
    return load(control, 1) != 0
