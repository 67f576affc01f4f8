"""Groups that are numbered as they come: a hash table of their codes."""

from __future__ import annotations

import numpy as np

from gdatalog.codegen.helpers import at, put
from gdatalog.codegen.helpers.lattice import KNOWN, NONE, REHASH, UNNUMBERED
from gdatalog.codegen.helpers.values import times
from gdatalog.codegen.loop_language import Array, Scalar, inlined, part


@inlined
def _place_of(table: Array, code: Scalar) -> Scalar:
    """The first slot that a code may have."""
    mixed = times(code, 0x1E37_79B9_7F4A_7C15)
    return (mixed ^ (mixed >> 29)) & (len(table) - 1)


@inlined
def numbered(table: Array, codes: Array, queue: Array, code: Scalar) -> Scalar:
    """The number of the group with a code, a new one if necessary; -1 if there is no room."""
    place = _place_of(table, code)
    while True:
        number = np.int64(at(table, place))
        if number == NONE:
            break
        if at(codes, number) == code:
            return number
        place = (place + 1) & (len(table) - 1)
    number = at(queue, KNOWN)
    if number == len(codes):
        return UNNUMBERED
    put(codes, number, code)
    put(table, place, number)
    put(queue, KNOWN, number + 1)
    return number


@part
def enter_codes(table: Array, codes: Array, queue: Array) -> None:
    """Enters all codes into a new, empty table."""
    if at(queue, REHASH) == 0:
        return
    put(queue, REHASH, 0)
    _place(table, codes, at(queue, KNOWN))


@inlined
def _place(table: Array, codes: Array, count: Scalar) -> None:
    """Enters the first codes into an empty table."""
    for number in range(count):
        place = _place_of(table, at(codes, number))
        while at(table, place) != NONE:
            place = (place + 1) & (len(table) - 1)
        put(table, place, number)


@part
def place_codes(table: Array, codes: Array) -> None:
    """Enters codes, whose numbers are their places in the array, into an empty table."""
    _place(table, codes, len(codes))


@part
def find_codes(table: Array, codes: Array, wanted: Array, numbers: Array) -> None:
    """The numbers of codes, -1 if they have none."""
    for i in range(len(wanted)):
        code = at(wanted, i)
        place = _place_of(table, code)
        number = np.int64(at(table, place))
        while number != NONE and at(codes, number) != code:
            place = (place + 1) & (len(table) - 1)
            number = np.int64(at(table, place))
        put(numbers, i, number)


@part
def number_all(table: Array, codes: Array, queue: Array, wanted: Array, numbers: Array) -> None:
    """The numbers of many codes, for which there must be room."""
    for i in range(len(wanted)):
        put(numbers, i, numbered(table, codes, queue, at(wanted, i)))


@part
def count_keys(keys: Array, low: int, counts: Array) -> None:
    """Counts how often each key occurs; counts start at key `low`."""
    for i in range(len(keys)):
        key = at(keys, i) - low
        put(counts, key, at(counts, key) + 1)
