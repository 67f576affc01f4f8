"""A relation while a fixpoint makes it: what is new of what a round has derived.

It is kept as sorted runs that are merged geometrically, so that a thousand tiny rounds cost no
thousand passes. It holds arrays of the device whose operations it is given, and what comes from
elsewhere is laid there.
"""

from __future__ import annotations

from typing import Any

from gdatalog.engine.derived import away, laid
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array
from gdatalog.values import TypeName


class Growing:
    """A set of rows that only grows."""

    def __init__(self, columns: tuple[str, ...], types: tuple[TypeName, ...], ops: Any) -> None:
        self.columns = columns
        self.types = types
        self.ops = ops
        self.length = 0
        self._packing: Any = None
        self._runs: list[Array] = []  # packed rows, each run sorted
        self._wide: Columns | None = None  # the rows, where they cannot be packed
        self._full: Relation | None = Relation.empty(columns, types)

    @property
    def nbytes(self) -> int:
        if self._wide is not None:
            return sum(int(column.nbytes) for column in self._wide)
        held = sum(int(run.nbytes) for run in self._runs)
        return held + (self._full.nbytes if self._full is not None else 0)

    def add(self, rows: Columns, count: int) -> Relation:
        """Adds sorted distinct rows; gives those that are new."""
        if count == 0:
            return Relation.empty(self.columns, self.types)
        if not self.types:
            new = 1 - self.length
            self.length = 1
            self._full = Relation(self.columns, (), (), 1)
            return Relation(self.columns, (), (), new)
        rows = laid(rows, self.ops)
        if self._wide is None and self._fit(rows):
            new_rows = self._add_packed(rows)
        else:
            new_rows = self._add_wide(rows)
        count = len(new_rows[0])
        if not count:
            return Relation.empty(self.columns, self.types)
        self.length += count
        self._full = None
        return self._relation(new_rows, count)

    def _relation(self, rows: Columns, count: int) -> Relation:
        rows = self.ops.narrowed(rows)
        return Relation(self.columns, self.types, rows, count, away(self.ops))

    def _fit(self, rows: Columns) -> bool:
        """Makes sure that the packing holds these rows; False if no packing does."""
        if self._packing is not None and self.ops.holds(self._packing, rows):
            return True
        everything = self.ops.concatenate([*(self._unpack(run) for run in self._runs), rows])
        packing = self.ops.packing(everything, spare=4)
        if packing is None:
            return False
        self._runs = [packing.pack(self._unpack(run)) for run in self._runs]
        self._packing = packing
        return True

    def _unpack(self, run: Array) -> Columns:
        rows: Columns = self._packing.unpack(run, [self.ops.xp.dtype("int64")] * len(self.types))
        return rows

    def _add_packed(self, rows: Columns) -> Columns:
        ops = self.ops
        packed = self._packing.pack(rows)
        for run in self._runs:
            packed = packed[ops.survivors(~ops.in_sorted(packed, run))]
        if len(packed):
            self._runs.append(packed)
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            small, large = self._runs.pop(), self._runs.pop()
            self._runs.append(ops.merged([large, small]))
        return self._unpack(packed)

    def _add_wide(self, rows: Columns) -> Columns:
        ops, xp = self.ops, self.ops.xp
        if self._wide is None:
            runs = [self._unpack(run) for run in self._runs]
            empty = tuple(xp.empty(0, dtype=xp.int64) for _ in self.types)
            self._wide = ops.sort_rows(ops.concatenate([empty, *runs]))
            self._runs, self._packing = [], None
        both = ops.concatenate([self._wide, rows])
        known = xp.zeros(len(both[0]), dtype=bool)
        known[: len(self._wide[0])] = True
        order = ops.order_rows(both)  # equal rows as they stand: a known one before its equal
        ordered = tuple(column[order] for column in both)
        marks = ops.row_firsts(ordered)
        kept = ops.survivors(marks)
        self._wide = tuple(column[kept] for column in ordered)
        new = ops.survivors(marks & ~known[order])
        return tuple(column[new] for column in ordered)

    def full(self) -> Relation:
        """All rows, as a relation."""
        if self._full is None:
            keys = self._wide
            if keys is None:
                self._runs = [self.ops.merged(self._runs)]
                keys = self._unpack(self._runs[0])
            self._full = self._relation(keys, self.length)
        return self._full
