"""What a worker runs where no worker has a relation whole: rows are laid on its shelf and bundled,
and a cell of a join runs over tries of the bundles that it needs.

A fragment may have more rows than the cell needs: they are rows all the same, and the cell says
which bindings are its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gdatalog.cluster.bundles import Box, Grid, bundled, in_boxes, in_stretch, mask_of
from gdatalog.cluster.layout import Source
from gdatalog.cluster.parts import columns_of
from gdatalog.cluster.ranks import Way, edges_of
from gdatalog.cluster.shelves import Gone, Lot, Piece, Shelf, own_shelf
from gdatalog.cluster.work import Task, gathered_within, rows_within
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.cells import Cell, Stretch
from gdatalog.plan.effects import longest_first
from gdatalog.plan.nodes import TrieRef
from gdatalog.progress import format_bytes
from gdatalog.storage.graph import Ranking
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie
from gdatalog.storage.trie_builder import trie_of_rows

# What tries of rows take while they are made, in times of the rows' own bytes.
MAKING = 6
SAMPLE = 4096  # keys of a piece that tell where to cut


class Bundled(NamedTuple):
    """Rows of a source on a shelf, bundle by bundle; how many each bundle has."""

    lot: Lot
    counts: Array


@dataclass(frozen=True, slots=True)
class Fragment:
    """The rows of a source that a cell needs: those of the pieces; where there are `boxes`, those
    of them that lie in one.

    `roles`: for each of the source's tries which variable is bound to which column.
    """

    source: Source
    pieces: tuple[Piece, ...]
    roles: tuple[Mapping[int, str], ...]
    boxes: tuple[Box, ...] | None = None

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Job:
    """What all cells of a join have in common: `sources` has the number of each trie's source, and
    `counted` the tries that have none. `aggregates`: what is gathered is asked for, not rows."""

    task: Task
    sources: Mapping[TrieRef, int]
    counted: Mapping[TrieRef, Trie]
    aggregates: bool


class NoRoom(NamedTuple):
    """A cell for which there was not the memory; where the keys of variables can be cut, each
    with how many rows that tells apart."""

    error: MemoryLimitError
    cuts: Mapping[str, tuple[int, int]]


class Found(NamedTuple):
    """What a call has come to, and the bytes that were moved for it."""

    value: Any
    moved: int


def lay(rows: Columns) -> Lot:
    """Rows of the user's process, on a worker's shelf."""
    return own_shelf().put(rows)


def bundle(block: Any, grid: Grid, way: Way | None, ranking: Ranking | None) -> Found:
    """The rows of a block, bundled, on the shelf of whoever runs this. `block`: a lot, or the
    value of a part; of which edges are told by `way`, if their ranks are wanted."""
    shelf = own_shelf()
    try:
        if isinstance(block, Lot):
            rows = shelf.whole(block, grid.source.columns)
        elif way is not None and ranking is not None:
            rows = both_ways(*map(ranking.ranks, edges_of(block, way)))
        else:
            whole = columns_of(block)
            rows = tuple(whole[at] for at in grid.source.columns)
    except Gone as gone:
        return Found(gone, shelf.counted())
    rows, counts = bundled(rows, grid)
    return Found(Bundled(shelf.put(rows), counts), shelf.counted())


def both_ways(left: Array, right: Array) -> Columns:
    """Edges, each once, both ways."""
    apart = left != right
    return np.concatenate([left, right[apart]]), np.concatenate([right, left[apart]])


def run_cell(
    job: Job,
    cell: Cell,
    fragments: Sequence[Fragment],
    ranks: Mapping[int, Ranking],
    symbols: SymbolTable,
) -> Found:
    """What a join gives within a cell: rows, or a gathering; or why there is nothing, as `Gone` or
    `NoRoom`. `ranks`: of the vertices of graphs, by number of the source."""
    shelf = own_shelf()
    try:
        shelf.fetch([piece for fragment in fragments for piece in fragment.pieces])
        try:
            _check(job, fragments)
            tries = _tries(job, fragments, ranks, shelf)
            run = gathered_within if job.aggregates else rows_within
            found: Any = run(job.task, [cell], tries, symbols)
        except MemoryLimitError as error:
            found = NoRoom(error, _cuts(cell, fragments, shelf))
    except Gone as gone:
        found = gone
    return Found(found, shelf.counted())


def _check(job: Job, fragments: Sequence[Fragment]) -> None:
    """Whether the tries will find room, as far as the pieces tell."""
    needed = sum(fragment.nbytes for fragment in fragments if fragment.boxes is None)
    _charge(job, needed)


def _charge(job: Job, size: int) -> None:
    if MAKING * size > job.task.memory:
        raise MemoryLimitError(
            f"a cell's rows take {format_bytes(size)}, and {format_bytes(MAKING * size)} while "
            f"they are indexed; a worker has {format_bytes(job.task.memory)} for it"
        )


def _tries(
    job: Job, fragments: Sequence[Fragment], ranks: Mapping[int, Ranking], shelf: Shelf
) -> dict[TrieRef, Trie]:
    made = dict(job.counted)
    size = 0
    for at, fragment in enumerate(fragments):
        keys = _rows(fragment, shelf)
        size += sum(column.nbytes for column in keys.values())
        _charge(job, size)
        for ref in longest_first(tuple(job.sources)):
            if job.sources[ref] == at:
                made[ref] = trie = _trie(ref, keys)
                if at in ranks:
                    trie.labels = ranks[at].labels
    return made


def _rows(fragment: Fragment, shelf: Shelf) -> dict[int, Array]:
    """The rows of a fragment, by columns."""
    columns = fragment.source.columns
    if fragment.boxes is not None:
        kept = []
        for piece in fragment.pieces:
            keys = dict(zip(columns, shelf.take(piece), strict=True))
            rows = np.flatnonzero(in_boxes(keys, fragment.boxes))
            kept.append([column[rows] for column in keys.values()])
        if not kept:
            return {at: np.empty(0, dtype=np.int32) for at in columns}
        joined = [np.concatenate(parts) for parts in zip(*kept, strict=True)]
        return dict(zip(columns, joined, strict=True))
    dtypes = [piece.lot.dtypes for piece in fragment.pieces]
    kinds = [np.result_type(*each) for each in zip(*dtypes, strict=True)] if dtypes else []
    kinds = kinds or [np.dtype(np.int32)] * len(columns)
    count = sum(piece.rows for piece in fragment.pieces)
    whole = [np.empty(count, dtype=kind) for kind in kinds]
    filled = 0
    for piece in fragment.pieces:
        for into, column in zip(whole, shelf.take(piece), strict=True):
            into[filled : filled + piece.rows] = column
        filled += piece.rows
    return dict(zip(columns, whole, strict=True))


def _trie(ref: TrieRef, keys: Mapping[int, Array]) -> Trie:
    used = [keys[column] for column in ref.columns]
    if ref.tests:
        mask = mask_of(keys, ref.tests)
        if not mask.all():
            used = [column[mask] for column in used]
    return trie_of_rows(used, len(used[0]), ref.weighted)


def _cuts(cell: Cell, fragments: Sequence[Fragment], shelf: Shelf) -> dict[str, tuple[int, int]]:
    """For each variable a key that cuts its stretch into two of about as many rows, and how many
    rows there are; only if both have some."""
    keys: dict[str, list[Array]] = {}
    rows: dict[str, int] = {}
    for fragment in fragments:
        for piece in fragment.pieces:
            columns = dict(zip(fragment.source.columns, shelf.take(piece), strict=True))
            for role in fragment.roles:
                for column, name in role.items():
                    mine = columns[column]
                    mine = mine[in_stretch(mine, cell.stretches.get(name, Stretch()))]
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
