"""Statistics of groups whose values lie one after the other: those of group g are from `starts[g]`
to `starts[g + 1]`."""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, put
from gdatalog.codegen.helpers.values import float_of_key, times
from gdatalog.codegen.loop_language import Array, Scalar, inlined, part


@inlined
def _select(values: Array, lo: Scalar, hi: Scalar, wanted: Scalar) -> None:
    """Moves values so that none before `wanted` is greater than that one, and none after it less.

    Quickselect; pivots are from places that look random, so that no order of values is slow."""
    low, high, turn = lo, hi, 1
    while high - low > 1:
        turn = times(turn, 6_364_136_223_846_793_005) + 1_442_695_040_888_963_407
        pivot = at(values, low + ((turn >> 33) & 0x7FFF_FFFF) % (high - low))
        less = low
        for i in range(low, high):
            value = at(values, i)
            put(values, i, at(values, less))
            put(values, less, value)
            less += int(value < pivot)
        if wanted < less:
            high = less
            continue
        most = less
        for i in range(less, high):
            value = at(values, i)
            put(values, i, at(values, most))
            put(values, most, value)
            most += int(value == pivot)
        if wanted < most:
            return
        low = most


@part
def select_in_groups(
    values: Array, starts: Array, places: Array, first: int, last: int, lower: Array, upper: Array
) -> None:
    """The value at each group's place in the order of its values, and the next one if there is
    one. Moves values within their groups."""
    for group in range(first, last):
        low, high = np.int64(at(starts, group)), np.int64(at(starts, group + 1))
        if low == high:
            continue
        wanted = low + at(places, group)
        _select(values, low, high, wanted)
        found = at(values, wanted)
        put(lower, group, found)
        if wanted + 1 < high:
            found = at(values, wanted + 1)
            for i in range(wanted + 2, high):
                found = min(found, at(values, i))
        put(upper, group, found)


@inlined
def _number(key: Scalar, is_float: Scalar) -> Scalar:
    return float_of_key(key) if is_float != 0 else float(key)


@part
def centred_in_groups(
    ones: Array, float_ones: int, others: Array, float_others: int, starts: Array, first: int,
    last: int, both: Array, of_ones: Array, of_others: Array,
) -> None:  # fmt: skip
    """The sums of the products of two columns, and of the squares of each, less their means in the
    group. Of equal values the mean is exact."""
    for group in range(first, last):
        low, high = np.int64(at(starts, group)), np.int64(at(starts, group + 1))
        if low == high:
            continue
        some, other = (
            _number(at(ones, high - 1), float_ones), _number(at(others, high - 1), float_others)
        )  # fmt: skip
        total, total_other = 0.0, 0.0
        for i in range(low, high):
            total += _number(at(ones, i), float_ones) - some
            total_other += _number(at(others, i), float_others) - other
        count = float(high - low)
        some += total / count
        other += total_other / count
        product, square, square_other = 0.0, 0.0, 0.0
        for i in range(low, high):
            x = _number(at(ones, i), float_ones) - some
            y = _number(at(others, i), float_others) - other
            product += x * y
            square += x * x
            square_other += y * y
        put(both, group, product)
        put(of_ones, group, square)
        put(of_others, group, square_other)
