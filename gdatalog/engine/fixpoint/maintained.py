"""A relation that continues from known rows, and the bitmap that tells which rows are new.

The bitmap is kept with the rows of the latest version. Whoever changes or reads it takes it
meanwhile, so that a reader of this version never sees the rows of the next.
"""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from gdatalog.engine.fixpoint.row_bitmap import RowBitmap
from gdatalog.executors.ops import Ops
from gdatalog.storage.kept import Kept
from gdatalog.storage.key_space import KeySpace, union
from gdatalog.storage.keys import narrow
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.rows import Columns, spans_of
from gdatalog.storage.table import Array

WITHOUT_BITMAP = 16  # rows that are searched for without a bitmap, if there is none
MANY = 1 << 15  # rows: smaller sets are not worth a bitmap
_BITMAP = Kept[RowBitmap](attrgetter("nbytes"))


class MaintainedRelation:
    """Known rows, and those that are added."""

    def __init__(self, known: Relation, ops: Ops) -> None:
        self.known = known
        self.ops = ops
        self.came = 0
        self._all = known
        self._new: list[Relation] = []
        self._waiting = 0  # the last parts, which are not merged yet
        self._bitmap = _BITMAP.take(known.store)

    @property
    def length(self) -> int:
        return self.known.at_most + self.came

    @property
    def nbytes(self) -> int:
        return self._all.nbytes

    def full(self) -> Relation:
        if self._waiting:
            first, *others = self._new[-self._waiting :]
            self._all = self._all.beside(first.joined(*others))
            self._waiting = 0
        return self._all

    def add(self, rows: Columns, count: int) -> Relation:
        """Adds sorted distinct rows; returns those that are new."""
        known = self.known
        if known.types and count:
            news = self._news(rows)
            rows, count = tuple(narrow(column[news]) for column in rows), len(news)
        elif not known.types:
            count = min(count, 1 - self.length)
        if not count:
            return Relation.empty(known.columns, known.types)
        new = Relation(known.columns, known.types, rows, count)
        self.came += count
        self._new.append(new)
        self._waiting += 1
        return new

    def _news(self, rows: Columns) -> Array:
        """The positions of the rows that are new."""
        few = len(rows[0]) <= WITHOUT_BITMAP
        bitmap = self._bitmap if few else self._all_rows()
        if bitmap is not None and not bitmap.space.holds(rows):
            bitmap = self._bitmap = bitmap_of(self.full().store, rows)
        new = ~self.full().holds(rows) if bitmap is None else bitmap.news(rows)
        return np.flatnonzero(new)

    def _all_rows(self) -> RowBitmap | None:
        """The bitmap of all rows, if it is worth its memory."""
        if self._bitmap is None:
            self._bitmap = bitmap_of(self.full().store)
        return self._bitmap

    def rows_with(self, column: int, values: Array) -> Columns | None:
        """The rows with one of some distinct values in a column; None if a bitmap does not have
        them soon."""
        bitmap = self._all_rows()
        return None if bitmap is None else bitmap.rows_with(column, values)

    def finished(self) -> Relation:
        if self.came:
            after = self.full().coming_from(self.known, self._new)
        else:
            after = self.known.unchanged()
        if self._bitmap is not None:
            _BITMAP.put(after.store, self._bitmap)
        return after


def rows_with(relation: Relation, column: int, values: Array) -> Columns | None:
    """The rows with one of some distinct values in a column; None if there is no bitmap, or it does
    not have them soon."""
    bitmap = _BITMAP.take(relation.store)
    if bitmap is None:
        return None
    try:
        return bitmap.rows_with(column, values)
    finally:
        _BITMAP.put(relation.store, bitmap)


def bitmap_of(store: RowStore, more: Columns = ()) -> RowBitmap | None:
    """The bitmap of a set of rows, with room for `more` and some others; None if it takes too much
    memory, compared with the rows."""
    if store.at_most <= MANY:
        return None
    spans = [store.spans, spans_of([more] if more else [])]
    ends = [union(*column) for column in zip(*filter(None, spans), strict=True)]
    bounds = [span for span in ends if span is not None]
    spare = [((high - low) >> 5) + 16 for low, high in bounds]
    for room in (spare, [0] * len(spare)):
        wide = [(a - s, b + s) for (a, b), s in zip(bounds, room, strict=True)]
        space = KeySpace.within(wide)
        if space is not None and space.size <= store.nbytes:
            return RowBitmap.filled(space, store.blocks)
    return None
