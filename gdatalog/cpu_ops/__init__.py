"""Array operations on NumPy: executors take this package as their `ops`."""

import numpy as xp

from gdatalog.cpu_ops.arrays import (
    expand,
    intersect,
    pieces,
    shortest,
    sort_across,
    survivors,
    totals,
)
from gdatalog.cpu_ops.byte_marks import seen_rows
from gdatalog.cpu_ops.exact_totals import (
    add_counts,
    counts_by,
    exact_sums,
    means,
    ranks_of,
    split_sums,
    times,
)
from gdatalog.cpu_ops.expressions import evaluate, test
from gdatalog.cpu_ops.groups import add_at, best_by, sums_by
from gdatalog.cpu_ops.intersection import (
    bound_in,
    count_met,
    find,
    find_in,
    intersect_lists,
    level_of,
    ranges,
)
from gdatalog.cpu_ops.packed_runs import holds, merged, narrowed, packing
from gdatalog.storage.grouped_rows import group_rows
from gdatalog.storage.keys import float_to_key, key_to_float
from gdatalog.storage.row_ops import DeviceOps as _DeviceOps
from gdatalog.storage.rows import concatenate, first_rows, in_sorted, order_rows, row_firsts
from gdatalog.storage.sorting import merge_rows, sort_rows

on_device: _DeviceOps | None = None
fused = None
