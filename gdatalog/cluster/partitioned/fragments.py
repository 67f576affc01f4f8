"""What a worker runs where no worker has a relation whole: rows are laid on its shelf and bundled,
and cells of a join are run over tries of the bundles that they need.

A fragment may have more rows than its cells need: they are rows all the same, and the cells say
which bindings are their own.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gdatalog.cluster.partitioned.bundles import (
    Box,
    Grid,
    bundled,
    in_boxes,
    in_stretch,
    mask_of,
    passing,
)
from gdatalog.cluster.partitioned.census import count
from gdatalog.cluster.partitioned.layout import Source
from gdatalog.cluster.partitioned.shelves import Gone, Lot, Piece, Shelf, own_shelf
from gdatalog.cluster.replicated.tasks import Found, Sealed
from gdatalog.cluster.replicated.work import complete, look_through
from gdatalog.cluster.rows.parts import columns_of
from gdatalog.cluster.rows.ranks import Way, edges_of
from gdatalog.errors import MemoryLimitError
from gdatalog.executors.gather import Gathering
from gdatalog.plan.cells import Cell, KeyRange
from gdatalog.plan.effects import longest_first
from gdatalog.plan.nodes import TrieRef
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass
from gdatalog.storage.graph import Ranking
from gdatalog.storage.rows import Columns, concatenate, sort_rows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie
from gdatalog.storage.trie_builder import trie_of_rows

# What tries of rows take while they are made, in times of the rows' own bytes.
MAKING = 8
SAMPLE = 4096  # keys of a piece that tell where to cut

# How the rows of a graph tell each edge once, and the ranks of its vertices.
Edges = tuple[Way, Ranking]
# For each variable that can be cut: where, and how many rows that tells apart.
Cuts = Mapping[str, tuple[int, int]]


class Bundled(NamedTuple):
    """Rows of a source on a shelf, bundle by bundle; how many each bundle has."""

    lot: Lot
    counts: Array


@dataclass(frozen=True, slots=True)
class Fragment:
    """The rows of a source that cells need: those of the pieces; where there are `boxes`, those
    of them that lie in one.

    `roles`: for each of the source's tries which variable is bound to which column. `twice`: a row
    may be there twice, and counts once.
    """

    source: Source
    pieces: tuple[Piece, ...]
    roles: tuple[Mapping[int, str], ...]
    boxes: tuple[Box, ...] | None = None
    twice: bool = False

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Tries:
    """What the tries of a join are made of: the number of each one's source, or, where one only
    counts rows, itself. `memory`: what a worker has for making them."""

    sources: Mapping[TrieRef, int]
    counted: Mapping[TrieRef, Trie]
    memory: int


class Moved(NamedTuple):
    """What a call has come to, or who is `Gone`; and the bytes that were moved for it."""

    value: Any
    nbytes: int

    def columns(self) -> Columns:
        """The rows that cells gave."""
        found: Columns = self.value.found.columns()
        return found

    @property
    def gathering(self) -> Gathering | None:
        found: Gathering | None = self.value.found.gathering
        return found


class Ran(NamedTuple):
    """What cells gave; and of the one that was too hard, where it can be cut."""

    found: Found
    cuts: Cuts


def lay(name: str, rows: Columns) -> Lot:
    """Rows of the user's process, on a worker's shelf."""
    return own_shelf().put(name, rows)


def counted(name: str, blocks: Sequence[Any], grid: Grid, edges: Edges | None) -> Moved:
    """How many rows of blocks lie in each combination of classes; a lot of them, if reading them
    again would be more work; and the bytes of a row."""
    shelf = own_shelf()
    try:
        keys = _read(blocks, grid.source, edges, shelf)
    except Gone as gone:
        return Moved(gone, shelf.counted())
    counts = count(keys, grid.dims, grid.domains)
    lot = None if isinstance(blocks[0], Lot) else shelf.put(name, tuple(keys.values()))
    width = sum(column.itemsize for column in keys.values())
    return Moved((counts, lot, width), shelf.counted())


def bundle(name: str, blocks: Sequence[Any], grid: Grid, edges: Edges | None) -> Moved:
    """The rows of blocks, bundled, on the shelf of whoever runs this."""
    shelf = own_shelf()
    try:
        keys = _read(blocks, grid.source, edges, shelf)
    except Gone as gone:
        return Moved(gone, shelf.counted())
    rows, counts = bundled(keys, grid)
    return Moved(Bundled(shelf.put(name, rows), counts), shelf.counted())


def _read(
    blocks: Sequence[Any], source: Source, edges: Edges | None, shelf: Shelf
) -> dict[int, Array]:
    """The rows of a source that blocks have. `blocks`: lots, those of the source alone or whole
    rows; or the values of parts; `edges`: how these tell each edge once, and the ranks that are
    wanted in place of vertices."""
    found: list[Columns] = []
    for block in blocks:
        if isinstance(block, Lot):
            alone = len(block.dtypes) == len(source.columns)
            found.append(shelf.whole(block, range(len(block.dtypes)) if alone else source.columns))
        elif edges is not None:
            way, ranking = edges
            found.append(both_ways(*map(ranking.ranks, edges_of(block, way))))
        else:
            found.append(columns_of(block, source.columns))
    return passing(concatenate(found), source)


def both_ways(left: Array, right: Array) -> Columns:
    """Edges, each once, both ways."""
    apart = left != right
    return np.concatenate([left, right[apart]]), np.concatenate([right, left[apart]])


def light(moved: Moved) -> Moved:
    """What is told of what is kept."""
    if not isinstance(moved.value, Ran):
        return moved
    return Moved(Ran(moved.value.found.light(), moved.value.cuts), moved.nbytes)


def run_cells(
    sealed: Sealed,
    cells: Sequence[Cell],
    seconds: float | None,
    tries: Tries,
    fragments: Sequence[Fragment],
    ranks: Mapping[int, Ranking],
    symbols: SymbolTable | None,
) -> Moved:
    """What a join gives within cells, as `Ran`. `ranks`: of the vertices of graphs, by number of
    the source. See `work.look_through` for the others."""
    shelf = own_shelf()
    try:
        shelf.fetch([piece for fragment in fragments for piece in fragment.pieces])
        try:
            made = _tries(tries, fragments, ranks, shelf)
            found = look_through(sealed, pickle.dumps(list(cells)), seconds, True, made, symbols)
            del made
        except MemoryLimitError as error:
            found = Found(hard=True, error=error)
        cuts = _cuts(cells[found.cells], fragments, shelf) if found.hard else {}
    except Gone as gone:
        return Moved(gone, shelf.counted())
    return Moved(Ran(found, cuts), shelf.counted())


def as_told(
    moved: Moved | None,
    sealed: Sealed,
    cells: Sequence[Cell],
    tries: Tries,
    fragments: Sequence[Fragment],
    ranks: Mapping[int, Ranking],
    symbols: SymbolTable | None,
) -> Moved:
    """What a call found in all of some cells, as it was told: see `work.as_told`. Raises `Gone`
    where it is lost, and so is what it came of."""
    found = moved.value.found if moved is not None and isinstance(moved.value, Ran) else None
    if moved is not None and found is not None and found.cells == len(cells):
        return moved
    again = run_cells(sealed, cells, None, tries, fragments, ranks, symbols)
    if isinstance(again.value, Gone):
        raise again.value
    complete(again.value.found, len(cells))
    return again


def where_to_cut(cell: Cell, fragments: Sequence[Fragment], error: MemoryLimitError) -> Moved:
    """The same as `run_cells` gives of a cell that was too large."""
    shelf = own_shelf()
    try:
        cuts = _cuts(cell, fragments, shelf)
    except Gone as gone:
        return Moved(gone, shelf.counted())
    return Moved(Ran(Found(hard=True, error=error), cuts), shelf.counted())


def _tries(
    tries: Tries, fragments: Sequence[Fragment], ranks: Mapping[int, Ranking], shelf: Shelf
) -> dict[TrieRef, Trie]:
    made = dict(tries.counted)
    _check(tries, sum(fragment.nbytes for fragment in fragments if fragment.boxes is None))
    size = 0
    for at, fragment in enumerate(fragments):
        keys = _rows(fragment, shelf)
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


def _cuts(cell: Cell, fragments: Sequence[Fragment], shelf: Shelf) -> Cuts:
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
                    mine = mine[in_stretch(mine, cell.stretches.get(name, KeyRange()))]
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
