"""The indexes of a growing relation: its rows as a few sorted runs, and hash tries for loops.

Each round adds a run. A plan that reads an index of the relation runs once for each run, so that
additions do not rebuild indexes. Runs merge geometrically: they stay few, and a row is indexed a
logarithmic number of times. An index is built when a plan requests it. Compiled loops read hash
tries (`storage/loop_tables.py`), to which new rows are added in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import is_
from typing import Any

from gdatalog.executors.ops import Ops
from gdatalog.records import dataclass, field
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns
from gdatalog.storage.spill import Spill
from gdatalog.values import TypeName

SMALLER = 4  # a run is at least this many times smaller than the one before
LONG = 1 << 20  # rows from which blocks stay separate for processing
MANY = 256  # runs from which they merge although no plan reads indexes
MERGED_BELOW = 4096  # rows up to which a run is merged at once


@dataclass(eq=False)
class Runs:
    """`last`: the run that was added last, separate from all earlier rows."""

    columns: tuple[str, ...]
    types: tuple[TypeName, ...]
    ops: Ops
    length: int = 0
    last: Relation | None = None
    _spilled: int = 0  # how many rows are in files
    _before: list[Relation] = field(default_factory=list)
    _ones: list[tuple[Sequence[Relation], Relation]] = field(default_factory=list)
    _few: int = 0  # the minimal number of runs after merging
    _many: int = MANY
    _read: bool = False  # whether they were read since their indexes were counted
    _trie_nbytes: int = 0

    def __post_init__(self) -> None:
        self._dtypes: list[Any] = [self.ops.xp.dtype("int32")] * len(self.types)
        self._width = 4 * len(self.types)  # bytes of a row

    @property
    def nbytes(self) -> int:
        return (self.length - self._spilled) * self._width

    @property
    def trie_nbytes(self) -> int:
        if self._read:
            ones = (one for some, one in self._ones if len(some) > 1)
            self._trie_nbytes = sum(run.trie_nbytes for run in (*self.all(), *ones))
            self._read = False
        return self._trie_nbytes

    def fresh(self) -> Runs:
        """An empty copy."""
        runs = Runs(self.columns, self.types, self.ops)
        runs._dtypes, runs._width = self._dtypes, self._width
        return runs

    def relation(
        self, blocks: Sequence[Columns], in_order: bool = False, spill: Spill | None = None
    ) -> Relation:
        """A relation of distinct rows, sorted if `in_order`; in files if `spill` says where."""
        count = sum(len(block[0]) for block in blocks)
        if len(blocks) > 1 and spill is None and (count < LONG or self.ops.on_device is not None):
            blocks = [self.ops.concatenate(blocks)]
        laid = blocks
        if any(column.dtype.itemsize > 4 for block in blocks for column in block) or (
            self._width > 4 * len(self.types)
        ):
            fitting = [self.ops.narrowed(block) for block in blocks]
            # A wide column stays wide: loops are compiled for certain widths.
            self._dtypes = [
                reduce(self.ops.xp.promote_types, (column.dtype for column in columns), known)
                for known, columns in zip(self._dtypes, zip(*fitting, strict=True), strict=True)
            ]
            self._width = sum(int(dtype.itemsize) for dtype in self._dtypes)
            laid = [
                tuple(c.astype(d, copy=False) for c, d in zip(block, self._dtypes, strict=True))
                for block in fitting
            ]
        if spill is not None:
            laid = [spill.rows(laid)]
        if in_order:
            return Relation(self.columns, self.types, laid[0], count, self.ops.on_device)
        return self._relation(list(laid), count, True)

    def add(self, rows: Relation) -> None:
        """Adds rows, all of them new; they become the last run."""
        self.settle()
        self.last = rows
        self._ones.clear()
        self.length += rows.length
        self._spilled += rows.length if rows.store.spilled else 0

    def settle(self) -> None:
        """Makes the last run one of the earlier ones."""
        if self.last is not None:
            self._before.append(self.last)
            self.last = None
            if len(self._before) > self._many:
                self._many = MANY + 2 * len(self.before())

    def all(self) -> list[Relation]:
        """All rows in order of arrival."""
        return self._before if self.last is None else [*self._before, self.last]

    def before(self) -> list[Relation]:
        """All rows but those of the last run, in a few relations."""
        self._read = True
        if self._few == len(self._before):
            return self._before
        groups: list[list[Relation]] = []
        sizes: list[int] = []
        for run in self._before:
            groups.append([run])
            sizes.append(run.length)
            while len(groups) > 1 and (sizes[-2] < MERGED_BELOW or SMALLER * sizes[-1] > sizes[-2]):
                small, size = groups.pop(), sizes.pop()
                groups[-1] += small
                sizes[-1] += size
        self._before = [self.merged(group) for group in groups]
        self._few = len(self._before)
        return self._before

    def whole(self) -> Relation:
        """All rows in one relation."""
        self.settle()
        whole = self.merged(self._before)
        self._before, self._few = [whole], 1
        if whole.length < MERGED_BELOW and self.ops.on_device is None:
            _ = whole.keys  # few rows are sorted, so that users see them in order
        return whole

    def one(self, runs: Sequence[Relation]) -> Relation:
        """Some of the runs as one relation, cached until rows are added."""
        for some, one in self._ones:
            if len(some) == len(runs) and all(map(is_, some, runs)):
                return one
        one = self.merged(runs)
        self._ones.append((runs, one))
        return one

    def merged(self, runs: Sequence[Relation]) -> Relation:
        """Some of the runs merged into one relation."""
        if len(runs) == 1:
            return runs[0]
        blocks = [block for run in runs for block in run.blocks()]
        relation = self._relation(blocks, sum(run.length for run in runs), False)
        if len(blocks) > MANY and self.ops.on_device is None:
            _ = relation.rows  # joins many small arrays
        return relation

    def _relation(self, blocks: list[Columns], count: int, as_it_is: bool) -> Relation:
        there = self.ops.on_device
        return Relation.of_blocks(self.columns, self.types, blocks, count, True, there, as_it_is)
