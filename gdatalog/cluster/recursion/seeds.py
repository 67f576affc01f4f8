"""The rows that a fixpoint that splits begins with, by value, as they go to workers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import numpy as np

from gdatalog.engine.fixpoint.seeds import RowsByColumn
from gdatalog.records import dataclass
from gdatalog.storage.on_device import brought
from gdatalog.storage.rows import sorted_set
from gdatalog.storage.table import Array


@dataclass(frozen=True, slots=True)
class Seeds:
    """Rows of a relation to begin with, by value: as `RowsByColumn` has them."""

    values: Array
    starts: Array
    columns: Mapping[int, Array]

    def of(self, low: int, high: int) -> Seeds:
        """Those of the values from one on, below another."""
        first, last = bisect_left(self.values, low), bisect_left(self.values, high)
        start, end = self.starts[first], self.starts[last]
        columns = {at: column[start:end] for at, column in self.columns.items()}
        return Seeds(self.values[first:last], self.starts[first : last + 1] - start, columns)

    def grouped(self, xp: Any) -> RowsByColumn | None:
        """The same on a device."""
        if not len(self.values):
            return None
        columns = {at: xp.asarray(column) for at, column in self.columns.items()}
        return RowsByColumn(xp.asarray(self.values), xp.asarray(self.starts), columns)


def seeds_of(group: RowsByColumn | None) -> Seeds:
    if group is None:
        return Seeds(np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64), {})
    columns = {at: brought(column) for at, column in group.columns.items()}
    return Seeds(brought(group.values), brought(group.starts), columns)


def values_of(seeds: Mapping[str, Seeds]) -> Array:
    """The values that any relation begins with, in order."""
    found = [part.values for part in seeds.values() if len(part.values)]
    return found[0] if len(found) == 1 else sorted_set(np.concatenate(found))
