"""Data that workers load without the driver: Parquet files, and Dask's frames.

Files stay where they are: a part of such a relation is some row groups of a file, which workers
read whenever they need the rows. Workers convert a frame's partitions to columns of keys, and keep
those. Data are checked once; the driver only receives the distinct texts, and assigns their codes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gdatalog.calls import Limits
from gdatalog.cancellation import current_watch
from gdatalog.cluster.pool import Call, RemoteValue, TaskStage
from gdatalog.cluster.rows.row_keeper import RowKeeper
from gdatalog.cluster.rows.row_statistics import SAMPLE, PartSketch, sketch_of, survey_of
from gdatalog.cluster.workers import own_address
from gdatalog.engine.context import Wanted
from gdatalog.errors import DataError, Error, MemoryLimitError
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, replace
from gdatalog.storage import LoadOptions, TypedColumns
from gdatalog.storage.data_files import (
    PARQUET,
    File,
    Footer,
    RowGroups,
    files_of,
    footer_of,
    groups_of,
    is_set,
    raw_of_groups,
    typed_by,
)
from gdatalog.storage.frames import table_from, table_of
from gdatalog.storage.keys import encode_column
from gdatalog.storage.raw import listed
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemotePart
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array, Table, TextColumn
from gdatalog.values import TypeName


def is_frame(data: Any) -> bool:
    """Whether an object is a Dask frame or series, or a Dask array or bag."""
    return type(data).__module__.split(".")[0] == "dask" and hasattr(data, "to_delayed")


def _delayed(data: Any) -> list[Any]:
    """The partitions of an object. An array is first rechunked to whole rows."""
    if not hasattr(data, "rechunk"):
        return list(data.to_delayed())
    whole = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
    return list(whole.to_delayed().ravel())


@dataclass(frozen=True, slots=True, eq=False)
class FramePartition:
    """The columns of a partition, before its texts have codes."""

    table: Table
    columns: Columns  # for texts, their places in the table's texts

    @property
    def texts(self) -> list[Array]:
        return [column.texts for column in self.table.columns if isinstance(column, TextColumn)]


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """What the driver needs to know of a partition."""

    names: tuple[str, ...]
    types: tuple[TypeName, ...]
    rows: int
    nbytes: int
    texts: list[Array]

    @staticmethod
    def of(partition: FramePartition | Error) -> PartitionSummary | Error:
        if isinstance(partition, Error):
            return partition
        table = partition.table
        nbytes = sum(column.nbytes for column in partition.columns)
        return PartitionSummary(table.names, table.types, table.length, nbytes, partition.texts)


def frame_relation(asked: Loading, data: Any) -> Relation | None:
    """The relation of a frame; None if it has no rows or no columns."""
    wanted = asked.wanted
    futures = asked.keeping.pool.connection.client.compute(_delayed(data))
    declared = wanted.declared
    typed = None if declared is None else TypedColumns(declared.columns, declared.types)
    columns = None if wanted.columns is None else tuple(wanted.columns)
    stage = asked.stage("load")
    for number, future in enumerate(futures):
        what = f"{wanted.name}, partition {number}" if len(futures) > 1 else wanted.name
        raw = RemoteValue(future, origins=frozenset({wanted.name}))
        args = (partition_of, (raw, columns, typed, what))
        stage.add(Call(*args, keep=True, tag=number, summary=PartitionSummary.of))
    del raw, future, futures  # releases the partitions' sources
    partitions: dict[int, RemoteValue] = {}
    for call, made in stage:
        if isinstance(made.summary, Error):
            raise made.summary
        partitions[call.tag] = made
    told: dict[int, PartitionSummary] = {at: partitions[at].summary for at in sorted(partitions)}
    told = {at: one for at, one in told.items() if one.rows}
    if not told:
        return None
    first = min(told)
    for number, one in told.items():
        _agree(wanted.name, first, told[first], number, one)
    names, types = told[first].names, told[first].types
    if not types:
        return None
    known = len(asked.symbols)
    stage = asked.stage("encode")
    for number, one in told.items():
        intern = asked.symbols.intern
        codes = [np.fromiter(map(intern, texts), np.int32, len(texts)) for texts in one.texts]
        asked.check_texts(len(asked.symbols) - known)
        stage.add(Call(keys_of_partition, (partitions[number], codes), keep=True, tag=number))
    keys = {call.tag: made for call, made in stage}
    parts = [RemotePart(keys[at], one.rows, one.nbytes) for at, one in told.items()]
    return Relation.of_parts(names, types, parts, asked.keeping)


def _agree(
    name: str, first: int, known: PartitionSummary, number: int, told: PartitionSummary
) -> None:
    """Raises if a partition's columns or types differ from those of the first non-empty one."""
    if told.names != known.names:
        raise DataError(
            f"{name}: partition {number} has {listed(told.names)}, "
            f"partition {first} {listed(known.names)}"
        )
    for at, column in enumerate(known.names):
        if told.types[at] != known.types[at]:
            raise DataError(
                f"{name}: the column {column!r} is {told.types[at]} in partition {number}, "
                f"and {known.types[at]} in partition {first}",
                hint="convert the data, .astype(...), or declare the relation",
            )


# ------------------------------------------------------------------------------- on a worker


def partition_of(
    data: Any, columns: tuple[str, ...] | None, declared: TypedColumns | None, what: str
) -> FramePartition | Error:
    """A checked partition of a frame, or its error; raised errors would appear in the worker's
    log."""
    try:
        table = table_from(data, LoadOptions(columns, declared=declared, what=what))
    except Error as error:
        return error
    left = tuple(
        TextColumn(np.empty(0, np.int32), column.texts)
        if isinstance(column, TextColumn)
        else column[:0]
        for column in table.columns
    )
    return FramePartition(
        Table(table.names, table.types, left, table.length), keys_or_places(table)
    )


def keys_of_partition(partition: FramePartition, codes: Sequence[Array]) -> Columns:
    left = iter(codes)
    return tuple(
        next(left)[keys] if kind == "symbol" else keys
        for keys, kind in zip(partition.columns, partition.table.types, strict=True)
    )


TEXT_BYTES = 160  # of a short text in the symbol table


@dataclass(frozen=True, slots=True)
class Loading:
    """A load request, and its helpers."""

    wanted: Wanted
    symbols: SymbolTable
    keeping: RowKeeper

    def check_texts(self, count: int) -> None:
        """Raises if so many texts do not fit into the driver's memory."""
        size, memory = count * TEXT_BYTES, self.wanted.memory
        if size > memory:
            raise MemoryLimitError(
                f"{self.wanted.name} has more than {count:,} different texts, which take "
                f"{format_bytes(size)} in this process: more than the memory limit of "
                f"{format_bytes(memory)}",
                hint="numbers instead of texts stay on the workers; or raise it: "
                "gdatalog.connect(memory_limit=...) or --memory-limit",
            )

    def stage(self, what: str) -> TaskStage:
        limits = Limits(memory=self.wanted.memory)
        return self.keeping.pool.stage(f"{what} {self.wanted.name}", limits)


def own_keys(column: Array, kind: TypeName) -> Array:
    """The keys of a column without texts, in memory that nothing else can change."""
    keys = encode_column(column, kind, SymbolTable())
    return keys.copy() if keys is column else keys


def keys_or_places(table: Table) -> Columns:
    """The keys of columns; for texts, each row's place in the column's texts, in 32 bits."""
    return tuple(
        column.codes.astype(np.int32, copy=False)
        if isinstance(column, TextColumn)
        else own_keys(column, kind)
        for column, kind in zip(table.columns, table.types, strict=True)
    )


# The driver reads smaller data itself, because asking workers would take longer.
FEW = 32 << 20
ROWS, BYTES = 1 << 22, 64 << 20  # that a worker reads at a time, at most
SHARE = 16  # what a worker reads at a time takes at most this fraction of its memory


def files_relation(asked: Loading, path: str) -> Relation | None:
    """The relation of the Parquet files at a path; None if the driver should read them."""
    files = files_of(path) if is_set(path) else [File(path)]
    if not all(file.path.lower().endswith(PARQUET) for file in files):
        return None
    wanted = asked.wanted
    whole = [replace(file, path=os.path.abspath(file.path)) for file in files]
    with ThreadPoolExecutor(8) as threads:
        footers = list(threads.map(footer_of, whole))
    names = wanted.declared.columns if wanted.declared is not None else None
    found = typed_by(footers, wanted.columns if wanted.columns is not None else names)
    rows = sum(rows for footer in footers for rows, _ in footer.groups)
    if wanted.declared is not None:
        typed = TypedColumns(wanted.declared.columns, wanted.declared.types)
    elif found is not None:
        typed = found
    else:
        return None  # reading them in the driver reports what is wrong
    if not rows or not typed.types or (8 * rows * len(typed.types) < FEW and not wanted.forced):
        return None
    # A declaration may rename the columns; then they match by position.
    columns = None if wanted.columns is None else tuple(wanted.columns)
    if found is not None and columns is None:
        columns = found.columns
    if columns is not None:
        _check_names(footers, columns)
    most = min([BYTES, *(limit // SHARE for limit in asked.keeping.pool.memory)])
    blocks = [
        FileSplit(groups, columns, typed)
        for footer in footers
        for groups in groups_of(footer, ROWS, most)
    ]
    return _files_relation(asked, blocks, typed)


def _check_names(footers: Sequence[Footer], columns: Sequence[str]) -> None:
    """Raises if a file lacks a column, because columns match by name."""
    for footer in footers:
        names = [name for name, _ in footer.types]
        lost = [name for name in columns if name not in names]
        if lost and footer.groups:
            raise DataError(
                f"{footer.file.path}: there is no column {lost[0]!r}, only {listed(names)}",
                hint="all files of a relation have its columns; columns=[...] selects some",
            )


def _files_relation(asked: Loading, blocks: Sequence[FileSplit], typed: TypedColumns) -> Relation:
    step = max(1, sum(block.groups.rows for block in blocks) // SAMPLE)
    stage = asked.stage("load")
    before = 0
    current_watch().innermost.new_rows = sum(block.groups.rows for block in blocks)
    for number, block in enumerate(blocks):
        stage.add(Call(seen, (block, -before % step, step), tag=number))
        before += block.groups.rows
    found: dict[int, SplitSummary] = {}
    texts: dict[str, None] = {}
    for call, one in stage:
        found[call.tag] = one
        for some in one.texts.values():
            texts.update(dict.fromkeys(some.to_pylist()))
        asked.check_texts(len(texts))
    placed = _placed_codes(asked, list(texts)) if "symbol" in typed.types else None
    all_seen = [found[at] for at in range(len(blocks))]
    parts = [
        RemotePart({"read": block, "texts": placed}, one.look.rows, one.look.nbytes)
        for block, one in zip(blocks, all_seen, strict=True)
    ]
    relation = Relation.of_parts(typed.columns, typed.types, parts, asked.keeping)
    # Without codes, a sketch cannot tell whether edges between texts are symmetric.
    if relation.remote is not None and typed.types != ("symbol", "symbol"):
        looks = [one.coded(asked.symbols) for one in all_seen]
        relation.remote.know(survey_of(looks, step))
    return relation


def _placed_codes(asked: Loading, texts: Sequence[str]) -> Any:
    """The codes of texts, broadcast."""
    import pyarrow as pa

    codes = np.fromiter(map(asked.symbols.intern, texts), np.int32, len(texts))
    known = TextCodes(pa.array(texts, pa.large_string()), codes)
    return asked.keeping.pool.broadcast(None, known)


# ------------------------------------------------------------------------------- on a worker


@dataclass(frozen=True, slots=True)
class FileSplit:
    """Some row groups of a Parquet file, and their columns that the relation has."""

    groups: RowGroups
    columns: tuple[str, ...] | None
    declared: TypedColumns

    def table(self, only: Sequence[int] | None = None) -> Table:
        """The rows: all columns, or some. Columns that match by position are read together."""
        path = self.groups.file.path
        if not os.path.exists(path):
            raise DataError(
                f"{path}: the worker {own_address()} does not see this file",
                hint="workers read files themselves: put it where all of them see it, or load "
                "pyarrow.parquet.read_table(...)",
            )
        names, typed = self.columns, self.declared
        if only is not None and names is not None:
            names = tuple(names[at] for at in only)
            types = tuple(typed.types[at] for at in only)
            typed = TypedColumns(tuple(typed.columns[at] for at in only), types)
        wanted = typed.columns if names is None else names
        options = LoadOptions(names, declared=typed, what=path)
        return table_of(raw_of_groups(self.groups, wanted), options)

    def read(self, texts: TextCodes | None, columns: Sequence[int] | None = None) -> Columns:
        """The rows as keys: all columns, or some."""
        found = keys_of(self.table(columns), texts)
        pick = columns is not None and self.columns is None
        return tuple(found[at] for at in columns or ()) if pick else found


@dataclass(frozen=True, slots=True, eq=False)
class TextCodes:
    """The codes of texts, which are in an Arrow array."""

    texts: Any
    codes: Array

    def of(self, column: TextColumn) -> Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        places = pc.index_in(pa.array(column.texts, pa.large_string()), value_set=self.texts)
        found: Array = self.codes[np.asarray(places)][column.codes]
        return found

    @property
    def nbytes(self) -> int:
        return int(self.texts.nbytes) + self.codes.nbytes


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """The sketch of a split, and the distinct texts of its text columns, as Arrow arrays. In these
    columns, the sketch has places in the texts."""

    look: PartSketch
    texts: Mapping[int, Any]

    def coded(self, symbols: SymbolTable) -> PartSketch:
        """The sketch, after all texts got codes."""
        look = self.look
        for at, texts in self.texts.items():
            codes = np.fromiter(map(symbols.intern, texts.to_pylist()), np.int32, len(texts))
            look = look.with_keys(at, codes)
        return look


def seen(block: FileSplit, start: int, step: int) -> SplitSummary:
    """Reads and checks a split."""
    import pyarrow as pa

    table = block.table()
    texts = {
        at: pa.array(column.texts, pa.large_string())
        for at, column in enumerate(table.columns)
        if isinstance(column, TextColumn)
    }
    return SplitSummary(sketch_of(keys_or_places(table), start, step), texts)


def keys_of(table: Table, texts: TextCodes | None) -> Columns:
    columns = []
    for column, kind in zip(table.columns, table.types, strict=True):
        if isinstance(column, TextColumn):
            columns.append(texts.of(column) if texts is not None else column.codes[:0])
        else:
            columns.append(own_keys(column, kind))
    return tuple(columns)
