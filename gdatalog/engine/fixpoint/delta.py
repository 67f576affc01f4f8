"""A relation during a fixpoint: its rows, and which candidate rows are new.

The dedup index (`row_sets.py`) depends on the number of rows and changes while they grow:

- sorted runs: for few rows, rows of any width, and any device;
- a bitmap with a bit for each possible row, in memory if it fits, or in a file if many of the
  possible rows exist;
- a hash set, in memory or in a file, if few of the possible rows exist.

Threads of compiled loops can test and set the last two while they run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from gdatalog.cancellation import current_watch, working_space
from gdatalog.engine.derived import laid
from gdatalog.engine.fixpoint.hash_indexes import HashIndexes
from gdatalog.engine.fixpoint.row_bitmap import RowBitmap
from gdatalog.engine.fixpoint.row_hash_set import Hashed
from gdatalog.engine.fixpoint.row_sets import SEARCH, SortedRows
from gdatalog.engine.fixpoint.runs import Runs
from gdatalog.executors.ops import Ops
from gdatalog.records import dataclass
from gdatalog.settings import Dedup, Thresholds
from gdatalog.storage.key_space import KeySpace
from gdatalog.storage.loop_tables import HashTrie
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns
from gdatalog.storage.spill import Blocks
from gdatalog.values import TypeName

FILE_EACH = 64  # bitmap bytes per row for a bitmap in a file: each touched page holds many bits
AT_ONCE = 1 << 20  # rows passed to another dedup index at once
SHARE = 16  # a hash set grows fourfold if that takes at most this part of the free memory
# Rows compared with known ones at once, at most and at least.
PIECE, LEAST = 1 << 18, 1 << 10

Known = SortedRows | RowBitmap | Hashed


def not_held(count: int) -> None:
    """Charges nothing."""


@dataclass(eq=False)
class DeltaRelation:
    """A row set that only grows.

    `dedup`: forces one kind of dedup index. `spare`: how many bytes it may take. `hold` is called
    with the relation's bytes while rows are added. `space`: the space of current and expected rows;
    None: there are no rows yet, or they are too scattered.
    """

    columns: tuple[str, ...]
    types: tuple[TypeName, ...]
    ops: Ops
    dedup: Dedup = "auto"
    spare: Callable[[], int] = lambda: 1 << 40
    hold: Callable[[int], None] = not_held
    thresholds: Thresholds = Thresholds()
    length: int = 0
    indexed: bool = False  # whether plans read its indexes
    passing: bool = False  # whether only rules that process new rows read it
    space: KeySpace | None = None
    _scattered: bool = False
    _full: Relation | None = None
    _last: int = 0  # bytes of the last new rows

    def __post_init__(self) -> None:
        self.runs = Runs(self.columns, self.types, self.ops)
        self.hash_indexes = HashIndexes(len(self.types))
        self.known: Known = self._sorted()
        self._found = Blocks(current_watch().account)  # new rows that loops found since `add`

    @property
    def nbytes(self) -> int:
        rows = self.runs.nbytes if self._keeps else self._last
        full = 0 if self._full is None else self._full.nbytes
        return self.known.nbytes + rows + self._found.held + full

    @property
    def _keeps(self) -> bool:
        """Whether the sorted runs hold all rows."""
        apart = not isinstance(self.known, SortedRows) and not self.passing
        return self.indexed or apart

    # ---------------------------------------------------------------------------------- adding

    def add(self, rows: Columns, count: int) -> Relation:
        """Adds distinct rows; returns the new ones, and those that loops found since."""
        if not self.types:
            new = int(count > 0 and not self.length)
            self.length += new
            self.runs.settle()
            if new:
                self.runs.last = Relation(self.columns, (), (), 1)
            return self.runs.last or Relation.empty(self.columns, self.types)
        if count:
            rows = laid(rows, self.ops)
            if self.ops.xp is np and isinstance(self.known, SortedRows):
                self._choose(rows)
            for piece in self._pieces(rows):
                new_rows = self._news(piece)
                if len(new_rows[0]):
                    self._found.add(new_rows)
                    self.hold(self.nbytes)
        blocks = self._found.take()
        if not blocks:
            self._last = 0
            self.runs.settle()
            return Relation.empty(self.columns, self.types)
        self._full = None
        self.length += sum(len(block[0]) for block in blocks)
        size = sum(column.nbytes for block in blocks for column in block)
        account, here = current_watch().account, self.ops.xp is np
        spill = (account.spill_for(2 * size) or account.spill_half(size)) if here else None
        with working_space("new rows", 2 * size if spill is None else 0):
            delta = self.runs.relation(blocks, spill=spill)
        self._last = delta.nbytes
        if self._keeps:
            self.runs.add(delta)
            self.hash_indexes.wait()
        return delta

    def _pieces(self, rows: Columns) -> Iterator[Columns]:
        """Splits rows into pieces whose comparison fits into memory."""
        start, count = 0, len(rows[0])
        while start < count:  # the results of earlier pieces take memory
            most = min(PIECE, self.spare() // (2 * SEARCH)) if self.ops.xp is np else count
            end = start + max(most, LEAST)
            yield tuple(column[start:end] for column in rows)
            start = end

    def _news(self, rows: Columns) -> Columns:
        known = self.known
        if not isinstance(known, SortedRows) and not known.space.holds(rows):
            self._widen(rows)
            known = self.known
        if isinstance(known, SortedRows):
            return known.news(rows)
        if isinstance(known, Hashed) and not self._grow(len(rows[0])):
            return self._news(rows)
        fresh = known.news(rows)
        return rows if fresh.all() else tuple(column[fresh] for column in rows)

    def expect(self, space: KeySpace) -> None:
        """Announces rows of this space."""
        if not self._scattered and self.ops.xp is np and isinstance(self.known, SortedRows):
            joined = space if self.space is None else self.space.joined(space)
            if joined is not None:
                self.space = joined

    # --------------------------------------------------------------------- for compiled loops

    def loops(self) -> RowBitmap | Hashed | None:
        """The dedup index that compiled loops can test and set; None if there is none."""
        if isinstance(self.known, SortedRows):
            self._switch(self._for_loops())
        return None if isinstance(self.known, SortedRows) else self.known

    def loops_hash(self) -> bool | None:
        """Whether `loops` would return a hash set; None if it would return nothing."""
        known = self._for_loops()
        return None if isinstance(known, SortedRows) else isinstance(known, Hashed)

    def _for_loops(self) -> Known:
        if isinstance(self.known, SortedRows) and self.types and self.space is not None:
            return self._best(self.space, self.length, True)
        return self.known

    def take(self, blocks: Sequence[Columns]) -> None:
        """Takes rows that loops found to be new and added to the index from `loops`."""
        for block in blocks:
            if len(block[0]):
                self._found.add(block)
        if isinstance(self.known, Hashed):
            self.known.count += sum(len(block[0]) for block in blocks)

    def widen(self, rows: Columns) -> RowBitmap | Hashed | None:
        """Called when loops meet rows outside the numbered space."""
        self._widen(rows)
        return None if isinstance(self.known, SortedRows) else self.known

    def make_room(self) -> RowBitmap | Hashed | None:
        """Called when loops have filled the hash set."""
        assert isinstance(self.known, Hashed)
        count = max(self.known.count, 1)
        ample = Hashed.bytes_for(4 * count) <= self.spare() // SHARE
        self._grow(3 * count if ample else count)
        return None if isinstance(self.known, SortedRows) else self.known

    def hash_trie(self, columns: tuple[int, ...], behind: bool) -> HashTrie | None:
        """An index that grows in place; None if none is possible."""
        if not self.indexed or not self.types or not columns:
            return None
        indexes, runs, key = self.hash_indexes, self.runs, (columns, behind)
        if key in indexes.tries:
            return indexes.tries[key]
        return indexes.made(key, runs.all(), runs.last, self.spare())

    def take_turn(self, behind: bool) -> None:
        """Adds the new rows to indexes: to those that must have all rows when rules process the new
        ones or, if `behind`, to those that must have only old rows until then."""
        self.hash_indexes.take_turn(self.runs.last, behind, self.spare())

    # ------------------------------------------------------------------------------- choosing

    def _choose(self, rows: Columns) -> None:
        """Extends the space by added rows. Switches to a bitmap or hash set once that beats sorted
        runs, or if a setting forces it."""
        if self.space is None or not self.space.holds(rows):
            found = None if self._scattered else KeySpace.of(rows)
            if found is not None and self.space is not None:
                found = self.space.joined(found)
            self.space, self._scattered = found, found is None
        count = self.length + len(rows[0])
        few = self.dedup == "auto" and count < self.thresholds.new_rows_sorted
        if self.dedup != "sort" and not few and self.space is not None:
            self._switch(self._best(self.space, count, self.dedup == "hash"))

    def _best(self, space: KeySpace, count: int, hashing: bool) -> Known:
        """The best dedup index for this many rows; `hashing`: whether a hash set is allowed."""
        spare, thresholds = self.spare() // 2, self.thresholds
        marks, slots = RowBitmap.bytes_for(space), Hashed.bytes_for(count)
        cheap = marks <= max(thresholds.bitmap_bytes, thresholds.bitmap_bytes_each * count, slots)
        wanted = cheap if self.dedup == "auto" else self.dedup == "bitmap"
        spill = current_watch().account.spill
        always = spill if spill is not None and spill.always else None
        if self.dedup != "sort" and marks <= spare and wanted:
            return RowBitmap(space, always)
        hashing = hashing and self.dedup in ("auto", "hash")
        if hashing and slots <= spare:
            return Hashed(space, count, always)
        if spill is not None and self.dedup in ("auto", "bitmap") and marks <= FILE_EACH * count:
            return RowBitmap(space, spill)
        if spill is not None and hashing and slots >= spill.least:
            return Hashed(space, count, spill)
        return self.known if isinstance(self.known, SortedRows) else self._sorted()

    def _sorted(self) -> SortedRows:
        return SortedRows(len(self.types), self.ops)

    def _blocks(self) -> Iterator[Columns]:
        """All rows, in any order."""
        if self._keeps:
            yield from (block for run in self.runs.all() for block in run.blocks())
        elif isinstance(self.known, SortedRows):
            yield from [self.known.rows()] if self.length else []
        else:
            yield from self.known.blocks()

    def _switch(self, known: Known) -> None:
        """Switches the dedup index."""
        if known is self.known:
            return
        for block in chain(self._blocks(), list(self._found)):
            for piece in self._pieces(block):
                known.news(piece)
        kept, before, self.known = self._keeps, self.known, known
        if not self._keeps:
            self.runs = self.runs.fresh()
        elif not kept and self.length:
            self.runs.add(self.runs.relation([before.rows()]))

    def _widen(self, rows: Columns) -> None:
        assert not isinstance(self.known, SortedRows)
        space = self.space = self.known.space.widened(rows)
        self._scattered = space is None
        count = self.length + sum(len(block[0]) for block in self._found) + len(rows[0])
        self._switch(self._sorted() if space is None else self._best(space, count, True))

    def _grow(self, more: int) -> bool:
        """Enlarges the hash set; returns False if another dedup index replaces it."""
        known = self.known
        assert isinstance(known, Hashed)
        if more <= known.room:
            return True
        count = known.count + more
        marks, slots = RowBitmap.bytes_for(known.space), Hashed.bytes_for(count)
        fits = known.spill is not None or slots <= self.spare() - known.nbytes
        if fits and (self.dedup == "hash" or marks > slots):
            known.grow(more)
            return True
        in_a_file = current_watch().account.spill is not None
        self._switch(self._best(known.space, count, in_a_file))
        return False

    # ------------------------------------------------------------------------------------ rows

    def blocks(self) -> Iterator[Columns]:
        """All rows of at least one column, in storage order: nothing is merged, so that indexes
        stay valid and little is copied at once."""
        if isinstance(self.known, SortedRows) and not self._keeps:
            yield from self.known.blocks(AT_ONCE)
        else:
            yield from self._blocks()

    def full(self) -> Relation:
        """All rows as a relation."""
        if self._full is None:
            if not self.types:
                self._full = Relation(self.columns, (), (), self.length)
            elif not self.length:
                self._full = Relation.empty(self.columns, self.types)
            elif self._keeps:
                self._full = self.runs.whole()
            else:
                in_order = not isinstance(self.known, Hashed)
                self._full = self.runs.relation([self.known.rows()], in_order)
        return self._full
