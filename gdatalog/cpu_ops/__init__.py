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
    text_kernels_for,
    times,
    totals,
)
from gdatalog.cpu_ops.functions import evaluate, test
from gdatalog.cpu_ops.intersection import (
    bound_in,
    count_met,
    find,
    find_in,
    intersect_lists,
    level_of,
    marked_rows,
    ranges,
)
from gdatalog.storage import table
from gdatalog.storage.duplicates import group_rows
from gdatalog.storage.keys import float_to_key, key_to_float
from gdatalog.storage.rows import concatenate, first_rows, in_sorted, order_rows, row_firsts
from gdatalog.storage.sorting import merge_rows, sort_rows

__all__ = [
    "add_at",
    "add_counts",
    "best_by",
    "bound_in",
    "concatenate",
    "count_met",
    "counts_by",
    "evaluate",
    "exact_sums",
    "expand",
    "find",
    "find_in",
    "first_rows",
    "float_to_key",
    "group_rows",
    "holds",
    "in_sorted",
    "intersect",
    "intersect_lists",
    "key_to_float",
    "level_of",
    "marked_rows",
    "means",
    "merge_rows",
    "merged",
    "narrowed",
    "order_rows",
    "packing",
    "pieces",
    "ranges",
    "ranks_of",
    "row_firsts",
    "shortest",
    "sort_across",
    "sort_rows",
    "split_sums",
    "sums_by",
    "survivors",
    "test",
    "times",
    "totals",
    "xp",
]

table.offer(text_kernels_for)
