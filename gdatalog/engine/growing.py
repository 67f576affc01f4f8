"""Relations while a fixpoint makes them: what is new of what a round has derived.

`Growing` is a plain set, kept as sorted runs that are merged geometrically, so that a thousand
tiny rounds cost no thousand passes. `Best` keeps the least or greatest value per group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gdatalog.parser.syntax import HeadAggregate
from gdatalog.planner.checked import CheckedRule
from gdatalog.planner.walk import walk
from gdatalog.storage.keys import narrow
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import (
    Columns,
    Packing,
    concatenate,
    group_rows,
    in_sorted,
    row_firsts,
    sort_rows,
)
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.values import TypeName


class Growing:
    """A set of rows that only grows."""

    def __init__(self, columns: tuple[str, ...], types: tuple[TypeName, ...]) -> None:
        self.columns = columns
        self.types = types
        self.length = 0
        self._packing: Packing | None = None
        self._runs: list[Array] = []  # packed rows, each run sorted
        self._wide: Columns | None = None  # the rows, where they cannot be packed
        self._full: Relation | None = Relation.empty(columns, types)

    @property
    def nbytes(self) -> int:
        if self._wide is not None:
            return sum(column.nbytes for column in self._wide)
        held = sum(run.nbytes for run in self._runs)
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
        if self._wide is None and self._fit(rows):
            new_rows = self._add_packed(rows)
        else:
            new_rows = self._add_wide(rows)
        if len(new_rows[0]):
            self.length += len(new_rows[0])
            self._full = None
        new_rows = tuple(map(narrow, new_rows))
        return Relation(self.columns, self.types, new_rows, len(new_rows[0]))

    def _fit(self, rows: Columns) -> bool:
        """Makes sure that the packing holds these rows; False if no packing does."""
        if self._packing is not None and self._packing.holds(rows):
            return True
        everything = concatenate([*(self._unpack(run) for run in self._runs), rows])
        packing = Packing.of(everything, spare=4)
        if packing is None:
            return False
        self._runs = [packing.pack(self._unpack(run)) for run in self._runs]
        self._packing = packing
        return True

    def _unpack(self, run: Array) -> Columns:
        assert self._packing is not None
        return self._packing.unpack(run, [np.dtype(np.int64)] * len(self.types))

    def _add_packed(self, rows: Columns) -> Columns:
        assert self._packing is not None
        packed = self._packing.pack(rows)
        for run in self._runs:
            packed = packed[~in_sorted(packed, run)]
        if len(packed):
            self._runs.append(packed)
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            small, large = self._runs.pop(), self._runs.pop()
            # A stable sort finds the two runs sorted and merges them.
            self._runs.append(np.sort(np.concatenate([large, small]), kind="stable"))
        return self._unpack(packed)

    def _add_wide(self, rows: Columns) -> Columns:
        if self._wide is None:
            runs = [self._unpack(run) for run in self._runs]
            width = range(len(self.types))
            empty = tuple(np.empty(0, dtype=np.int64) for _ in width)
            self._wide = sort_rows(concatenate([empty, *runs]))
            self._runs, self._packing = [], None
        both = concatenate([self._wide, rows])
        known = np.zeros(len(both[0]), dtype=np.bool_)
        known[: len(self._wide[0])] = True
        order = np.lexsort(both[::-1])  # stable: a known row stands before its equal
        ordered = tuple(column[order] for column in both)
        marks = row_firsts(ordered)
        self._wide = tuple(column[marks] for column in ordered)
        new = marks & ~known[order]
        return tuple(column[new] for column in ordered)

    def full(self) -> Relation:
        """All rows, as a relation."""
        if self._full is None:
            if self._wide is not None:
                keys = self._wide
            else:
                if len(self._runs) > 1:
                    self._runs = [np.sort(np.concatenate(self._runs), kind="stable")]
                keys = self._unpack(self._runs[0])
            self._full = Relation(self.columns, self.types, tuple(map(narrow, keys)), self.length)
        return self._full


def optimum_columns(rules: Sequence[CheckedRule]) -> dict[int, str]:
    """The columns of a relation of which only the best value per group is kept."""
    kinds: dict[int, str] = {}
    for rule in rules:
        for at, arg in enumerate(rule.head.args):
            inside = [part for part in walk(arg) if isinstance(part, HeadAggregate)]
            if not inside:
                continue
            if not isinstance(arg, HeadAggregate) or arg.kind not in ("min", "max"):
                return {}
            kinds[at] = arg.kind
    return kinds


class Best:
    """Rows of which only the best value per group is kept: recursive min and max."""

    def __init__(
        self,
        columns: tuple[str, ...],
        types: tuple[TypeName, ...],
        kinds: Mapping[int, str],
        symbols: SymbolTable,
    ) -> None:
        self.columns = columns
        self.types = types
        self.kinds = dict(kinds)  # column -> "min" or "max"
        self.symbols = symbols
        self._full = Relation.empty(columns, types)

    @property
    def length(self) -> int:
        return self._full.length

    @property
    def nbytes(self) -> int:
        return self._full.nbytes

    def full(self) -> Relation:
        return self._full

    def add(self, rows: Columns, count: int) -> Relation:
        """Adds rows; gives those of the groups that are new or better now."""
        if count == 0:
            return Relation.empty(self.columns, self.types)
        before = self._full
        both = concatenate([before.keys, rows])
        total = len(both[0])
        groups_by = [both[at] for at in range(len(both)) if at not in self.kinds]
        first, groups = group_rows(groups_by, total)
        best: list[Array] = []
        changed = first >= before.length  # groups are stable-sorted: known rows come first
        for at, column in enumerate(both):
            kind = self.kinds.get(at)
            if kind is None:
                best.append(column[first])
                continue
            ranked = self._rank(column, at)
            order = np.lexsort((ranked if kind == "min" else ~ranked, groups))
            starts = np.flatnonzero(np.append(True, groups[order][1:] != groups[order][:-1]))
            value = column[order[starts]]
            changed = changed | (value != column[first])
            best.append(value)
        keys = tuple(map(narrow, best))
        ordered = np.lexsort(keys[::-1]) if keys else np.arange(len(first))
        sorted_keys = tuple(key[ordered] for key in keys)
        self._full = Relation(self.columns, self.types, sorted_keys, len(first))
        news = np.flatnonzero(changed[ordered])
        return Relation(
            self.columns, self.types, tuple(key[news] for key in sorted_keys), len(news)
        )

    def _rank(self, column: Array, at: int) -> Array:
        if self.types[at] == "symbol":
            return self.symbols.ranks()[column]
        return column.astype(np.int64)

    def group(self, relation: Relation, row: int) -> Sequence[tuple[str, int, Any]]:
        """A row's group, as (column, key, type), for messages."""
        return [
            (self.columns[at], int(relation.keys[at][row]), self.types[at])
            for at in range(len(self.types))
            if at not in self.kinds
        ]
