"""Duplicate rows, found by the cheapest test that decides.

- Rows that lie in order: neighbours are compared.
- A column without equal values: no two rows are equal. A sample finds the column to look at.
- Rows that pack into 63 bits are sorted packed. Others are sorted by a hash of 64 bits, and only
  rows whose hashes are equal are compared.

Every load asks this, so no compiler is started for it.
"""

from __future__ import annotations

import numpy as np

from gdatalog.storage.elsewhere import Known
from gdatalog.storage.rows import Columns, Packing, firsts, in_sorted, sort_rows
from gdatalog.storage.sorting import sort_values
from gdatalog.storage.table import Array
from gdatalog.storage.threads import by_stretches

_PIECE = 1 << 16  # rows that are compared with their neighbours before the next ones are
_SAMPLE = 1 << 17  # values of a column: enough to meet an equal pair among 2**31 different ones


def distinct_rows(rows: Columns) -> tuple[Columns, Known]:
    """The rows without duplicates, and whether they are sorted now; the same arrays if all are
    different and sorting them was not needed to find that out."""
    count = len(rows[0])
    if count < 2:
        return rows, Known.SORTED
    marks = _in_order(rows)
    if marks is not None:
        return (rows if marks.all() else tuple(key[marks] for key in rows)), Known.SORTED
    if any(map(_ascends, rows)):
        return rows, Known.DISTINCT
    if len(rows) == 1:
        return sort_rows(rows), Known.SORTED
    likely = next((key for key in rows if _differs_in_sample(key)), None)
    if likely is not None:
        found = _by_numbers(rows, likely)
        if found is not None:
            return found
    packing = Packing.of(rows)
    if packing is None:
        found = _by_numbers(rows, row_numbers(rows))
        return found or (sort_rows(rows), Known.SORTED)
    packed = packing.pack(rows)
    if sum(packing.bits) < 32:  # half as wide is sorted in half the time
        packed = packed.astype(np.int32)
    packed = sort_values(packed, 0, (1 << sum(packing.bits)) - 1, start=False)
    marks = firsts(packed)
    if marks.all() and len(rows) > 2:  # an index of pairs would sort them again
        return rows, Known.DISTINCT
    packed = packed if marks.all() else packed[marks]
    packed = packed.astype(np.int64, copy=False)
    return packing.unpack(packed, [key.dtype for key in rows]), Known.SORTED


def _in_order(rows: Columns) -> Array | None:
    """Which rows differ from the one before, if the rows are sorted; else None."""
    count = len(rows[0])
    marks = np.ones(count, dtype=np.bool_)
    for start in range(1, count, _PIECE):
        end = min(count, start + _PIECE)
        equal: Array = np.ones(end - start, dtype=np.bool_)
        for key in rows:
            before, here = key[start - 1 : end - 1], key[start:end]
            if (equal & (here < before)).any():
                return None
            equal &= here == before
            if not equal.any():
                break
        marks[start:end] = ~equal
    return marks


def _ascends(key: Array) -> bool:
    """Whether each value is greater than the one before."""
    for start in range(1, len(key), _PIECE):
        end = start + _PIECE
        if not (key[start:end] > key[start - 1 : end - 1][: len(key) - start]).all():
            return False
    return True


def _differs_in_sample(key: Array) -> bool:
    """Whether a sample of a column's values holds none twice."""
    return bool(firsts(np.sort(key[:: max(1, len(key) // _SAMPLE)])).all())


def _by_numbers(rows: Columns, numbers: Array) -> tuple[Columns, Known] | None:
    """The rows without duplicates, where equal rows have equal `numbers`; None where so many
    numbers are equal that they tell little."""
    count = len(numbers)
    ordered = sort_values(numbers, int(numbers.min()), int(numbers.max()), start=False)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(again) == 0:
        return rows, Known.DISTINCT
    if len(again) > count // 16:
        return None
    doubtful = in_sorted(numbers, again)
    few = sort_rows([key[doubtful] for key in rows])
    if len(few[0]) == int(np.count_nonzero(doubtful)):
        return rows, Known.DISTINCT
    sure = ~doubtful
    kept = tuple(np.append(key[sure], more) for key, more in zip(rows, few, strict=True))
    return kept, Known.DISTINCT


def row_numbers(rows: Columns) -> Array:
    """A 64-bit hash of each row."""
    numbers = np.empty(len(rows[0]), dtype=np.uint64)

    def fill(part: slice) -> None:
        mine: Array = np.zeros(part.stop - part.start, dtype=np.uint64)
        for column in rows:
            mine ^= column[part].astype(np.int64).view(np.uint64)
            mix(mine)
        numbers[part] = mine

    by_stretches(fill, len(numbers))
    return numbers.view(np.int64)


def mix(numbers: Array) -> None:
    """Spreads what is in 64-bit numbers over all of their bits, in place."""
    numbers *= np.uint64(0x9E37_79B9_7F4A_7C15)
    numbers ^= numbers >> np.uint64(32)
