"""Statistics of rows on a device, computed there: only numbers are copied to the host.

A device sorts so fast that nothing is estimated from samples.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.storage.degrees import Degrees
from gdatalog.storage.on_device import DeviceStore, KnownRows, brought
from gdatalog.storage.row_ops import DeviceOps
from gdatalog.storage.row_tests import mask
from gdatalog.storage.table import Array
from gdatalog.storage.trie import RowTest


def distinct(rows: DeviceStore, columns: Sequence[int]) -> int:
    """The number of distinct combinations of values in some columns."""
    whole = rows.as_they_are()
    with rows.use():
        picked = [whole[column] for column in columns]
        if rows.known != KnownRows.SORTED or list(columns) != list(range(len(columns))):
            return len(rows.ops.sort_rows(picked)[0])
        return len(rows.ops.survivors(rows.ops.row_firsts(picked)))


def sample(rows: DeviceStore, column: int, wanted: int) -> Array:
    """At most `wanted` keys of a column, from evenly spaced rows, copied to the host."""
    whole = rows.as_they_are()
    with rows.use():
        return brought(whole[column][:: max(1, -(-rows.count // wanted))])


def degrees(rows: DeviceStore, column: int, tests: Sequence[RowTest]) -> Degrees:
    """The degrees of a column, among the rows that pass some tests."""
    ops = rows.ops
    whole = rows.as_they_are()
    with rows.use():
        key = whole[column]
        if tests:
            key = key[ops.survivors(mask(whole, tests))]
        if not (column == 0 and rows.known == KnownRows.SORTED):
            key = ops.xp.sort(key)
        starts = ops.survivors(ops.firsts(key))
        counts = ops.xp.empty(len(starts), dtype=ops.xp.int64)
        counts[:-1] = starts[1:] - starts[:-1]
        counts[-1:] = len(key) - starts[-1:]
        return degrees_of(ops, counts)


def degrees_of(ops: DeviceOps, counts: Array) -> Degrees:
    """From the degree of each value; zeros are ignored."""
    degrees, often = ops.xp.unique(counts[ops.survivors(counts)], return_counts=True)
    return Degrees.of_often(brought(degrees), brought(often))


def ascends(rows: DeviceStore, left: int, right: int) -> bool:
    """Whether one column is less than another in every row."""
    whole = rows.as_they_are()
    with rows.use():
        return bool((whole[left] < whole[right]).all())
