"""A relation that continues from known rows."""

from __future__ import annotations

import numpy as np

from gdatalog.executors.ops import Ops
from gdatalog.storage.keys import narrow
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import RowBits
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array

WITHOUT_BITMAP = 16  # rows that are searched for without a bitmap, if there is none


class MaintainedRelation:
    """Known rows, and those that are added.

    The bitmap of its rows belongs to the latest version of a relation; the next version takes it
    over.
    """

    def __init__(self, known: Relation, ops: Ops) -> None:
        self.known = known
        self.ops = ops
        self.came = 0
        self._all = known
        self._new: list[Relation] = []
        self._waiting = 0  # the last parts, which are not merged yet
        self._bits, known.bits = known.bits, None

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
        bits = self._bits if few else self.bits()
        if bits is not None and not bits.space.holds(rows):
            bits = self._bits = RowBits.of(self.full().store, rows)
        if bits is None:
            return np.flatnonzero(~self.full().holds(rows))
        return bits.add(rows)

    def bits(self) -> RowBits | None:
        """The bitmap of all rows, if it is worth its memory."""
        if self._bits is None:
            self._bits = RowBits.of(self.full().store)
        return self._bits

    def finished(self) -> Relation:
        if self.came:
            found = self.full().coming_from(self.known, self._new)
        else:
            found = self.known.unchanged()
        found.bits = self._bits
        return found
