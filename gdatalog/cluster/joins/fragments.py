"""The cells of a partitioned join on a worker, over tries of the buckets that they need.

Buckets may have more rows than a cell; its key ranges exclude their bindings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gdatalog.cluster.joins.buckets import ReceivedRows, passing
from gdatalog.cluster.joins.cells import CellResult, JoinTask, join_cells
from gdatalog.cluster.joins.layout import Source
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.cells import Cell, KeyRange
from gdatalog.plan.effects import longest_first
from gdatalog.plan.join_plan import TrieRef
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass
from gdatalog.storage.graph import Ranking
from gdatalog.storage.rows import Columns
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie
from gdatalog.storage.trie_builder import trie_of_rows

# Key ranges of some columns.
Box = Mapping[int, KeyRange]


def in_boxes(keys: Mapping[int, Array], boxes: Sequence[Box]) -> Array:
    """Which rows are in at least one box."""
    found = np.zeros(len(next(iter(keys.values()))), dtype=np.bool_)
    for box in boxes:
        inside = np.ones(len(found), dtype=np.bool_)
        for column, keys_in in box.items():
            inside &= in_range(keys[column], keys_in)
        found |= inside
    return found


def in_range(keys: Array, wanted: KeyRange) -> Array:
    """Which keys are in a range."""
    inside = np.ones(len(keys), dtype=np.bool_)
    if wanted.low is not None:
        inside &= keys >= wanted.low
    if wanted.high is not None:
        inside &= keys < wanted.high
    return inside


# Memory for building tries, as a multiple of the rows' bytes.
MAKING = 8
SAMPLE = 4096  # sampled keys of a slice, to find where to cut


class BucketSlice(NamedTuple):
    """A range of the rows that a worker has (`BucketedRows` or `ReceivedRows`), and the bytes of a
    row."""

    of: Any
    start: int
    stop: int
    width: int

    def read(self) -> Columns:
        found: Columns = self.of.rows.read(self.start, self.stop)
        return found


@dataclass(frozen=True, slots=True)
class Fragment:
    """The rows of a source that cells need: those of the slices and, if there are `boxes`, in at
    least one box.

    `roles`: for each of the source's tries, the variable of each column. `twice`: there may be
    duplicate rows, which count once.
    """

    source: Source
    slices: Sequence[BucketSlice]
    roles: Sequence[Mapping[int, str]]
    boxes: Sequence[Box] | None = None
    twice: bool = False

    @property
    def nbytes(self) -> int:
        return sum((each.stop - each.start) * each.width for each in self.slices)

    def rows(self) -> dict[int, Array]:
        """The rows, by column."""
        columns = self.source.columns
        parts = []
        for each in self.slices:
            rows = each.read()
            if self.boxes is not None:
                inside = np.flatnonzero(in_boxes(dict(zip(columns, rows, strict=True)), self.boxes))
                rows = tuple(column[inside] for column in rows)
            parts.append(rows)
        if not parts:
            return {at: np.empty(0, dtype=np.int32) for at in columns}
        joined = [np.concatenate(some) for some in zip(*parts, strict=True)]
        return dict(zip(columns, joined, strict=True))


@dataclass(frozen=True, slots=True)
class Tries:
    """What a join's tries are built from: the number of each trie's source, or the trie itself if
    it only counts rows. `ranks`: of graphs' vertices, by source. `memory`: what a worker has for
    building them."""

    sources: Mapping[TrieRef, int]
    counted: Mapping[TrieRef, Trie]
    ranks: Mapping[int, Ranking]
    memory: int


def run_cells(
    task: JoinTask,
    cells: Sequence[Cell],
    seconds: float | None,
    tries: Tries,
    fragments: Sequence[Fragment],
    symbols: SymbolTable,
    came: Sequence[ReceivedRows] = (),
) -> CellResult:
    """Runs a join within cells. `came`: the rows received for these cells. For the other arguments,
    see `join_cells`."""
    try:
        made = _tries(tries, fragments)
        found = join_cells(task, cells, seconds, True, made, symbols)
        del made
    except MemoryLimitError as error:
        found = CellResult(hard=True, error=error)
    if found.hard:
        found.cuts = _cuts(cells[found.cells], fragments)
    found.moved = sum(each.moved for each in came)
    return found


def where_to_cut(cell: Cell, fragments: Sequence[Fragment], error: MemoryLimitError) -> CellResult:
    """The result of `run_cells` for a cell that was too large."""
    return CellResult(hard=True, error=error, cuts=_cuts(cell, fragments))


def _tries(tries: Tries, fragments: Sequence[Fragment]) -> dict[TrieRef, Trie]:
    made = dict(tries.counted)
    _check(tries, sum(fragment.nbytes for fragment in fragments if fragment.boxes is None))
    size = 0
    for at, fragment in enumerate(fragments):
        keys = fragment.rows()
        size += sum(column.nbytes for column in keys.values())
        _check(tries, size)
        if fragment.twice:
            keys = dict(zip(keys, sort_rows(tuple(keys.values())), strict=True))
        for ref in longest_first(tuple(tries.sources)):
            if tries.sources[ref] == at:
                rows = passing(keys, ref.tests)
                used = [rows[column] for column in ref.columns]
                made[ref] = trie = trie_of_rows(used, len(used[0]), ref.weighted)
                if at in tries.ranks:
                    trie.labels = tries.ranks[at].labels
    return made


def _check(tries: Tries, size: int) -> None:
    if MAKING * size > tries.memory:
        raise MemoryLimitError(
            f"rows that are joined with each other take {format_bytes(size)}, and about "
            f"{format_bytes(MAKING * size)} while they are indexed: more than the "
            f"{format_bytes(tries.memory)} that a worker has for it"
        )


def _cuts(cell: Cell, fragments: Sequence[Fragment]) -> dict[str, tuple[int, int]]:
    """For each variable, a key that halves its rows, and the number of rows; only if both halves
    have some."""
    keys: dict[str, list[Array]] = {}
    rows: dict[str, int] = {}
    for fragment in fragments:
        for each in fragment.slices:
            columns = dict(zip(fragment.source.columns, each.read(), strict=True))
            for role in fragment.roles:
                for column, name in role.items():
                    mine = columns[column]
                    mine = mine[in_range(mine, cell.stretches.get(name, KeyRange()))]
                    keys.setdefault(name, []).append(mine[:: max(1, len(mine) // SAMPLE)])
                    rows[name] = rows.get(name, 0) + len(mine)
    found = {}
    for name, parts in keys.items():
        ordered = np.sort(np.concatenate(parts))
        if len(ordered) and ordered[0] < ordered[-1]:
            middle = int(ordered[len(ordered) // 2])
            at = middle if middle > ordered[0] else int(ordered[ordered > middle][0])
            found[name] = at, rows[name]
    return found
