"""What a worker runs where no worker has a relation whole: cells of a join, over tries of the
buckets that they need.

A fragment may have more rows than its cells need: they are rows all the same, and the cells say
which bindings are their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gdatalog.cluster.partitioned.buckets import Box, ReceivedRows, in_boxes, in_range, mask_of
from gdatalog.cluster.partitioned.layout import Source
from gdatalog.cluster.replicated.cells import join_cells
from gdatalog.cluster.replicated.tasks import CellResult, JoinTask
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.cells import Cell, KeyRange
from gdatalog.plan.effects import longest_first
from gdatalog.plan.nodes import TrieRef
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass
from gdatalog.storage.graph import Ranking
from gdatalog.storage.rows import Columns
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie
from gdatalog.storage.trie_builder import trie_of_rows

# What tries of rows take while they are made, in times of the rows' own bytes.
MAKING = 8
SAMPLE = 4096  # keys of a slice that tell where to cut


class BucketSlice(NamedTuple):
    """Some rows of a source: a range of what a worker has (`BucketedRows`, or `ReceivedRows`); and
    the bytes of a row."""

    of: Any
    start: int
    stop: int
    width: int

    def read(self) -> Columns:
        found: Columns = self.of.rows.read(self.start, self.stop)
        return found


@dataclass(frozen=True, slots=True)
class Fragment:
    """The rows of a source that cells need: those of the slices; where there are `boxes`, those
    of them that lie in one.

    `roles`: for each of the source's tries which variable is bound to which column. `twice`: a row
    may be there twice, and counts once.
    """

    source: Source
    slices: tuple[BucketSlice, ...]
    roles: tuple[Mapping[int, str], ...]
    boxes: tuple[Box, ...] | None = None
    twice: bool = False

    @property
    def nbytes(self) -> int:
        return sum((each.stop - each.start) * each.width for each in self.slices)

    def rows(self) -> dict[int, Array]:
        """The rows, by columns."""
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
    """What the tries of a join are made of: the number of each one's source, or, where one only
    counts rows, itself. `memory`: what a worker has for making them."""

    sources: Mapping[TrieRef, int]
    counted: Mapping[TrieRef, Trie]
    memory: int


def run_cells(
    task: JoinTask,
    cells: Sequence[Cell],
    seconds: float | None,
    tries: Tries,
    fragments: Sequence[Fragment],
    ranks: Mapping[int, Ranking],
    symbols: SymbolTable | None,
    came: Sequence[ReceivedRows] = (),
) -> CellResult:
    """What a join gives within cells. `ranks`: of the vertices of graphs, by number of the source.
    `came`: what was received for these cells. See `join_cells` for the others."""
    try:
        made = _tries(tries, fragments, ranks)
        found = join_cells(task, cells, seconds, True, made, symbols)
        del made
    except MemoryLimitError as error:
        found = CellResult(hard=True, error=error)
    if found.hard:
        found.cuts = _cuts(cells[found.cells], fragments)
    found.moved = sum(each.moved for each in came)
    return found


def where_to_cut(cell: Cell, fragments: Sequence[Fragment], error: MemoryLimitError) -> CellResult:
    """The same as `run_cells` gives of a cell that was too large."""
    return CellResult(hard=True, error=error, cuts=_cuts(cell, fragments))


def _tries(
    tries: Tries, fragments: Sequence[Fragment], ranks: Mapping[int, Ranking]
) -> dict[TrieRef, Trie]:
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
                made[ref] = trie = _trie(ref, keys)
                if at in ranks:
                    trie.labels = ranks[at].labels
    return made


def _check(tries: Tries, size: int) -> None:
    if MAKING * size > tries.memory:
        raise MemoryLimitError(
            f"rows that are joined with each other take {format_bytes(size)}, and about "
            f"{format_bytes(MAKING * size)} while they are indexed: more than the "
            f"{format_bytes(tries.memory)} that a worker has for it"
        )


def _trie(ref: TrieRef, keys: Mapping[int, Array]) -> Trie:
    used = [keys[column] for column in ref.columns]
    if ref.tests:
        mask = mask_of(keys, ref.tests)
        if not mask.all():
            used = [column[mask] for column in used]
    return trie_of_rows(used, len(used[0]), ref.weighted)


def _cuts(cell: Cell, fragments: Sequence[Fragment]) -> dict[str, tuple[int, int]]:
    """For each variable a key that cuts its range into two of about as many rows, and how many
    rows there are; only if both have some."""
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
