"""Atomic operations on an element of an int64 array, and the counter that threads share.

A plain load of a flag is moved out of the loop that polls it, for the compiler may assume that
nobody else writes; an atomic one stays where it is, and costs the same.

What the threads of one run share is an int64 array, `control`: [0] counts the units of work that
are taken, [1] is set to end the run early, [2] is how many units there are.
"""

from __future__ import annotations

from typing import Any

from numba.core import types

from gdatalog.cpu_ops.compiled.elements import is_vector, pointer
from gdatalog.cpu_ops.compiled.jit import inlined, intrinsic, part
from gdatalog.storage.table import Array

_RELAXED = "monotonic"  # LLVM's word: each operation is whole, nothing else is ordered by it
_WIDTH = 8


def _fits(array: Any, *integers: Any) -> bool:
    return is_vector(array, types.int64) and all(isinstance(i, types.Integer) for i in integers)


def _value(context: Any, builder: Any, signature: Any, args: Any, which: int) -> Any:
    return context.cast(builder, args[which], signature.args[which], types.int64)


@intrinsic
def load(_: Any, array: Any, i: Any) -> Any:
    """array[i]."""
    if not _fits(array, i):
        return None

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(pointer(context, builder, signature, args), _RELAXED, _WIDTH)

    return types.int64(array, i), write


@intrinsic
def store(_: Any, array: Any, i: Any, value: Any) -> Any:
    """array[i] = value."""
    if not _fits(array, i, value):
        return None

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        new = _value(context, builder, signature, args, 2)
        builder.store_atomic(new, pointer(context, builder, signature, args), _RELAXED, _WIDTH)
        return context.get_dummy_value()

    return types.void(array, i, value), write


@intrinsic
def add(_: Any, array: Any, i: Any, value: Any) -> Any:
    """array[i] += value; gives what was there before."""
    if not _fits(array, i, value):
        return None

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        more = _value(context, builder, signature, args, 2)
        where = pointer(context, builder, signature, args)
        return builder.atomic_rmw("add", where, more, _RELAXED)

    return types.int64(array, i, value), write


@intrinsic
def compare_swap(_: Any, array: Any, i: Any, expected: Any, new: Any) -> Any:
    """array[i] = new if expected is there; gives what was there before."""
    if not _fits(array, i, expected, new):
        return None

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        old = _value(context, builder, signature, args, 2)
        value = _value(context, builder, signature, args, 3)
        where = pointer(context, builder, signature, args)
        return builder.extract_value(builder.cmpxchg(where, old, value, _RELAXED, _RELAXED), 0)

    return types.int64(array, i, expected, new), write


@intrinsic
def set_bits(_: Any, array: Any, i: Any, bits: Any) -> Any:
    """array[i] |= bits; gives what was there before."""
    if not _fits(array, i, bits):
        return None

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        more = _value(context, builder, signature, args, 2)
        where = pointer(context, builder, signature, args)
        return builder.atomic_rmw("or", where, more, _RELAXED)

    return types.int64(array, i, bits), write


@inlined
def mark_first(marks: Array, place: int) -> bool:
    """Sets the bit at a place; whether no thread had set it before.

    Most that are set already are seen to be without an atomic write.
    """
    word, bit = place >> 6, 1 << (place & 63)
    if load(marks, word) & bit:
        return False
    return set_bits(marks, word, bit) & bit == 0  # type: ignore[no-any-return]


@part
def take(control: Array, threads: int, total: int, grain: int) -> tuple[int, int]:
    """The next interval of `total` units of work: [start, stop), empty when none is left.

    Intervals shrink to `grain`, so that the threads end at about the same time. None is more than
    a 64th of what would be a thread's even share: where the first units are the work of many, as
    in graphs whose hubs have the least ids, an even share of units is far more than that of work.
    One thread waits for no other, and what it prepares of a list it has to again in each interval:
    it takes an eighth at a time, so that it can be told how far it is.
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
    """Whether somebody asked for an end."""
    return load(control, 1) != 0  # type: ignore[no-any-return]
