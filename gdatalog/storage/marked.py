"""A set of rows as one mark for each row that there could be: no sorting, no search.

For rows whose columns have few possible values together. The room grows with the values that
come, until it would be larger than it may; then `fits` says no, and the set is kept as it is.
"""

from __future__ import annotations

import numpy as np

from gdatalog.storage.rows import Columns, Packing
from gdatalog.storage.table import Array


class MarkedRows:
    def __init__(self, most: int) -> None:
        self.most = most  # bytes
        self._packing: Packing | None = None
        self._marks = np.zeros(0, dtype=np.bool_)
        self._no_more = False  # more room was asked for than there may be

    @property
    def nbytes(self) -> int:
        return self._marks.nbytes

    def fits(self, rows: Columns) -> bool:
        """Makes room for these rows; False, and nothing is changed, if there is not so much."""
        if self._packing is not None and self._packing.holds(rows):
            return True
        if self._no_more:
            return False
        known = self.rows([np.dtype(np.int64)] * len(rows)) if self._packing else None
        everything = rows
        if known is not None and len(known[0]):
            everything = tuple(np.append(a, b) for a, b in zip(known, rows, strict=True))
        for spare in (1, 0):
            packing = Packing.of(everything, spare)
            if packing is not None and 1 << sum(packing.bits) <= self.most:
                break
        else:
            self._no_more = True
            return False
        self._packing = packing
        self._marks = np.zeros(1 << sum(packing.bits), dtype=np.bool_)
        if known is not None:
            self._marks[packing.pack(known)] = True
        return True

    def add(self, rows: Columns) -> None:
        """Marks rows, which fit."""
        assert self._packing is not None
        self._marks[self._packing.pack(rows)] = True

    def news(self, rows: Columns) -> Array:
        """Marks rows, which fit; the indices, ascending, of the first of each that was not."""
        assert self._packing is not None
        packed = self._packing.pack(rows)
        fresh = np.flatnonzero(~self._marks[packed])
        _, first = np.unique(packed[fresh], return_index=True)
        first.sort()
        found: Array = fresh[first]
        self._marks[packed[found]] = True
        return found

    def rows(self, dtypes: list[np.dtype[np.generic]]) -> Columns:
        """The marked rows, sorted."""
        assert self._packing is not None
        return self._packing.unpack(np.flatnonzero(self._marks), dtypes)
