"""Array operations on NumPy: executors take this package as their `ops`."""

import numpy as xp

from gdatalog.cpu_ops.arrays import (
    add_at,
    add_counts,
    best_by,
    counts_by,
    exact_sums,
    expand,
    holds,
    intersect,
    means,
    merged,
    narrowed,
    packing,
    pieces,
    ranks_of,
    shortest,
    sort_across,
    split_sums,
    sums_by,
    survivors,
    times,
    totals,
)
from gdatalog.cpu_ops.byte_marks import seen_rows
from gdatalog.cpu_ops.functions import evaluate, test
from gdatalog.cpu_ops.intersection import (
    bound_in,
    count_met,
    find,
    find_in,
    intersect_lists,
    level_of,
    ranges,
)
from gdatalog.storage.duplicates import group_rows
from gdatalog.storage.keys import float_to_key, key_to_float
from gdatalog.storage.on_device import DeviceOps
from gdatalog.storage.rows import concatenate, first_rows, in_sorted, order_rows, row_firsts
from gdatalog.storage.sorting import merge_rows, sort_rows

on_device: DeviceOps | None = None
