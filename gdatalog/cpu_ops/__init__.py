"""The verbs of executors on NumPy: `executors` take this package as their `ops`."""

import numpy as xp

from gdatalog.cpu_ops.arrays import (
    add_at,
    best_by,
    expand,
    intersect,
    pieces,
    sort_across,
    sums_by,
    survivors,
)
from gdatalog.cpu_ops.evaluate import evaluate, test
from gdatalog.cpu_ops.runs import holds, merged, narrowed, packing
from gdatalog.cpu_ops.sorter import sorter_for
from gdatalog.storage import sorting
from gdatalog.storage.rows import (
    concatenate,
    first_rows,
    group_rows,
    in_sorted,
    order_rows,
    row_firsts,
    sort_rows,
)

__all__ = [
    "add_at",
    "best_by",
    "concatenate",
    "evaluate",
    "expand",
    "first_rows",
    "group_rows",
    "holds",
    "in_sorted",
    "intersect",
    "merged",
    "narrowed",
    "order_rows",
    "packing",
    "pieces",
    "row_firsts",
    "sort_across",
    "sort_rows",
    "sums_by",
    "survivors",
    "test",
    "xp",
]

sorting.offer(sorter_for)
