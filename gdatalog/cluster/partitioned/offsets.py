"""Keys as they are moved: the rows of a bundle lie in a few classes, so each key is told by how far
it is from the least of its column, in as few bytes as that takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array


class Offsets(NamedTuple):
    """A column: `least` is what to add to each."""

    least: int
    offsets: Array

    @staticmethod
    def of(column: Array) -> Offsets:
        if len(column) == 0:
            return Offsets(0, column)
        least, greatest = int(column.min()), int(column.max())
        kind = np.min_scalar_type(greatest - least)
        if kind.itemsize >= column.dtype.itemsize:
            return Offsets(0, column)
        # What wraps around has the same lower bits.
        return Offsets(least, (column - column.dtype.type(least)).astype(kind))

    def keys(self, kind: np.dtype[np.generic] | str) -> Array:
        """The column, of its own type."""
        if self.offsets.dtype == kind:
            return self.offsets
        keys: Array = self.offsets.astype(kind)
        keys += np.dtype(kind).type(self.least)
        return keys


def widened(columns: Columns, least: tuple[int, ...], kinds: tuple[str, ...]) -> Columns:
    """Columns of which only offsets are kept, of their own types."""
    each = zip(least, columns, kinds, strict=True)
    return tuple(Offsets(low, column).keys(kind) for low, column, kind in each)
