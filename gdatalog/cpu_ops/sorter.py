"""Compiled functions for `storage`: sorting long arrays, and cutting delimited text."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gdatalog.storage.table import Array, TextSetFunctions
from gdatalog.storage.threads import Sorter, cores, spread

# From this many values on, one sort pays for compiling its functions.
WORTH_STARTING = 1 << 21

_TOP = 10  # bits of the bucket's number


def sorter_for(count: int, start: bool) -> Sorter | None:
    """The sorter, if the array is long enough to be worth compiling it."""
    if not start or count < WORTH_STARTING:
        return None
    from gdatalog.codegen.language import LoopError

    try:
        _functions()
    except LoopError as problem:
        warnings.warn(RuntimeWarning(str(problem)), stacklevel=2)
        return None
    return sort_by_digits


def _functions() -> tuple[Any, Any, Any]:
    from gdatalog.codegen import native
    from gdatalog.codegen.helpers import sorting

    given = ("i64[]", "i64[]", "i64[]", "i64", "i64", "u64", "i64", "i64[]")
    return (
        native.of(sorting.tally, "i64[]", "u64", "u64", "i64[]"),
        native.of(sorting.scatter, "i64[]", "u64", "u64", "i64[]", "i64[]"),
        native.of(sorting.sort_buckets, *given),
    )


def sort_by_digits(values: Array, low: int, high: int) -> Array:
    """The values of an array of int64, sorted."""
    from gdatalog.codegen.helpers.sorting import WIDEST

    tally, scatter, sort_buckets = _functions()
    values = np.ascontiguousarray(values)
    count = len(values)
    bits = (high - low).bit_length()
    top = min(_TOP, bits)
    shift, least = np.uint64(bits - top), np.uint64(low % (1 << 64))
    workers = cores()
    cuts = [count * at // workers for at in range(workers + 1)]
    parts = [values[a:b] for a, b in pairwise(cuts)]

    counts = np.zeros((workers, 1 << top), dtype=np.int64)
    spread(lambda at: tally(parts[at], least, shift, counts[at]), range(workers), True)
    # Where the values of each digit and part go: in the order of digits, and of parts within a
    # digit.
    in_order = counts.T.ravel()
    places = (np.cumsum(in_order) - in_order).reshape(-1, workers)
    starts = np.append(places[:, 0], count)
    places = np.ascontiguousarray(places.T)
    out = np.empty(count, dtype=np.int64)
    spread(lambda at: scatter(parts[at], least, shift, places[at], out), range(workers), True)
    if bits > top:
        room = np.empty(count, dtype=np.int64)
        buckets = np.searchsorted(starts, cuts)
        buckets[-1] = 1 << top

        def finish(at: int) -> None:
            first, last = int(buckets[at]), int(buckets[at + 1])
            counts = np.empty(1 << WIDEST, dtype=np.int64)
            sort_buckets(out, room, starts, first, last, least, bits - top, counts)

        spread(finish, range(workers), True)
    return out


# The compiled functions that cut delimited text.

# From this many bytes on, one text pays for starting the compiler.
WORTH_CUTTING = 1 << 20
WORTH = 1 << 14  # and if the functions are compiled already


class _Kernels(NamedTuple):
    scan: Any
    measure: Any
    look_up: Any
    join: Any
    index_texts: Any
    move_slots: Any


_made: list[TextSetFunctions] = []


def text_kernels_for(count: int) -> TextSetFunctions | None:
    """The functions, if a text of `count` bytes is worth them."""
    if count < (WORTH if _made else WORTH_CUTTING):
        return None
    if not _made:
        from gdatalog.codegen.language import LoopError

        try:
            _made.append(_compiled())
        except LoopError as problem:
            warnings.warn(RuntimeWarning(str(problem)), stacklevel=2)
            return None
    return _made[0]


def _compiled() -> TextSetFunctions:
    from gdatalog.codegen import native
    from gdatalog.codegen.helpers import lines

    rows = ("u8[]", "i64", "i64", "bool", "i64[]", "i64")
    cells = ("u8[]", "i64[]", "i64[]", "i64", "i64")
    texts = ("u8[]", "i64[]", "i64[]", "i64", "i64[]")
    return _Kernels(
        native.of(lines.scan, *rows, "i64[]", "i64[]", "i64[]", "i64[]"),
        native.of(lines.measure, "u8[]", "i64[]", "i64[]"),
        native.of(lines.look_up, *cells, *texts, "i32[]"),
        native.of(lines.join, "i64[]", "i64[]", "i64", "u8[]", "i64[]", "u8[]", "i64[]"),
        native.of(lines.index_texts, "u8[]", "i64[]", "bool[]", "i64", "i64[]", "i64"),
        native.of(lines.move_slots, "i64[]", "i64[]", "i64"),
    )
