"""Data that workers load without the driver: Parquet files, and Dask's frames.

Files stay where they are: a part of such a relation is some row groups of a file, which workers
read whenever they need the rows. Workers convert a frame's partitions to columns of keys, and keep
those. Data are checked once; the driver only receives the distinct texts, and assigns their codes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any

import numpy as np

from gdatalog.calls import Limits
from gdatalog.cancellation import current_watch
from gdatalog.cluster.pool.calls import Call, RemoteValue
from gdatalog.cluster.pool.task_stage import TaskStage
from gdatalog.cluster.rows.row_keeper import RowKeeper
from gdatalog.cluster.rows.row_statistics import SAMPLE, PartSketch, sketch_of, survey_of
from gdatalog.cluster.workers.own_process import own_address
from gdatalog.engine.context import Wanted
from gdatalog.errors import DataError, Error, MemoryLimitError
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, replace
from gdatalog.storage import file_sets, parquet_groups
from gdatalog.storage.file_sets import File
from gdatalog.storage.frames import table_from, table_of
from gdatalog.storage.keys import encode_column
from gdatalog.storage.load_options import LoadOptions, TypedColumns
from gdatalog.storage.parquet_groups import Footer, RowGroups
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
    """A partition before its texts have codes, or what the driver needs to know of it, without
    columns. `columns`: for texts, the places in the column's `texts`."""

    names: tuple[str, ...]
    types: tuple[TypeName, ...]
    rows: int
    nbytes: int
    texts: Mapping[int, Array]
    columns: Columns = ()


def told_of(partition: FramePartition | Error) -> FramePartition | Error:
    return partition if isinstance(partition, Error) else replace(partition, columns=())


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
        args = (raw, columns, typed, what)
        stage.add(Call(partition_of, args, True, tag=number, summary=told_of))
    del raw, future, futures  # releases the partitions' sources
    partitions: dict[int, RemoteValue] = {}
    for call, made in stage:
        if isinstance(made.summary, Error):
            raise made.summary
        if made.summary.rows:
            partitions[call.tag] = made
    numbers = sorted(partitions)
    told: list[FramePartition] = [partitions[number].summary for number in numbers]
    for number, one in zip(numbers, told, strict=True):
        _agree(wanted.name, numbers[0], told[0], number, one)
    if not told or not told[0].types:
        return None
    known, calls = len(asked.symbols), []
    for number, one in zip(numbers, told, strict=True):
        codes = {at: asked.codes_of(texts) for at, texts in one.texts.items()}
        asked.check_texts(len(asked.symbols) - known)
        calls.append(Call(keys_of_partition, (partitions[number], codes), True))
    keys = asked.keeping.pool.all(calls, f"encode {wanted.name}", asked.limits)
    parts = [RemotePart(value, one.rows, one.nbytes) for value, one in zip(keys, told, strict=True)]
    return Relation.of_parts(told[0].names, told[0].types, parts, asked.keeping)


def _agree(name: str, first: int, known: FramePartition, number: int, told: FramePartition) -> None:
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
    keys = keys_or_places(table)
    nbytes = sum(column.nbytes for column in keys)
    return FramePartition(table.names, table.types, table.length, nbytes, texts_of(table), keys)


def texts_of(table: Table) -> dict[int, Array]:
    """The texts of a table's text columns, by number."""
    columns = enumerate(table.columns)
    return {at: column.texts for at, column in columns if isinstance(column, TextColumn)}


def keys_of_partition(partition: FramePartition, codes: Mapping[int, Array]) -> Columns:
    return tuple(
        codes[at][keys] if at in codes else keys for at, keys in enumerate(partition.columns)
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

    def codes_of(self, texts: Sequence[str] | Array) -> Array:
        return np.fromiter(map(self.symbols.intern, texts), np.int32, len(texts))

    @property
    def limits(self) -> Limits:
        return Limits(memory=self.wanted.memory)

    def stage(self, what: str) -> TaskStage:
        return self.keeping.pool.stage(f"{what} {self.wanted.name}", self.limits)


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
LOADED_HERE_BELOW = 32 << 20
ROWS, BYTES = 1 << 22, 64 << 20  # that a worker reads at a time, at most
SHARE = 16  # what a worker reads at a time takes at most this fraction of its memory


def files_relation(asked: Loading, path: str) -> Relation | None:
    """The relation of the Parquet files at a path; None if the driver should read them."""
    files = file_sets.files_of(path) if file_sets.is_set(path) else [File(path)]
    if not all(file.path.lower().endswith(file_sets.PARQUET) for file in files):
        return None
    wanted = asked.wanted
    whole = [replace(file, path=os.path.abspath(file.path)) for file in files]
    with ThreadPoolExecutor(8) as threads:
        footers = list(threads.map(parquet_groups.footer_of, whole))
    names = wanted.declared.columns if wanted.declared is not None else None
    columns = names if wanted.columns is None else wanted.columns
    found = parquet_groups.typed_by(footers, columns)
    rows = sum(rows for footer in footers for rows, _ in footer.groups)
    if wanted.declared is not None:
        typed = TypedColumns(wanted.declared.columns, wanted.declared.types)
    elif found is not None:
        typed = found
    else:
        return None  # reading them in the driver reports what is wrong
    if (
        not rows
        or not typed.types
        or (8 * rows * len(typed.types) < LOADED_HERE_BELOW and not wanted.forced)
    ):
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
        for groups in parquet_groups.groups_of(footer, ROWS, most)
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
    import pyarrow as pa

    rows = [block.groups.rows for block in blocks]
    step = max(1, sum(rows) // SAMPLE)
    stage = asked.stage("load")
    current_watch().innermost.new_rows = sum(rows)
    for number, before in enumerate(accumulate(rows[:-1], initial=0)):
        stage.add(Call(seen, (blocks[number], -before % step, step), tag=number))
    found: dict[int, tuple[PartSketch, dict[int, Any]]] = {}
    texts: dict[str, None] = {}
    for call, one in stage:
        found[call.tag] = one
        for some in one[1].values():
            texts.update(dict.fromkeys(some.to_pylist()))
        asked.check_texts(len(texts))
    placed = None
    if "symbol" in typed.types:
        codes = TextCodes(pa.array(texts, pa.large_string()), asked.codes_of(list(texts)))
        placed = asked.keeping.pool.broadcast(None, codes)
    all_seen = [found[at] for at in range(len(blocks))]
    parts = [
        RemotePart({"read": block, "texts": placed}, look.rows, look.nbytes)
        for block, (look, _) in zip(blocks, all_seen, strict=True)
    ]
    relation = Relation.of_parts(typed.columns, typed.types, parts, asked.keeping)
    # Without codes, a sketch cannot tell whether edges between texts are symmetric.
    if relation.remote is not None and typed.types != ("symbol", "symbol"):
        looks = []
        for look, own in all_seen:
            for at, some in own.items():
                look = look.with_keys(at, asked.codes_of(some.to_pylist()))
            looks.append(look)
        relation.remote.know(survey_of(looks, step))
    return relation


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
        return table_of(parquet_groups.raw_of_groups(self.groups, wanted), options)

    def read(self, texts: TextCodes | None, columns: Sequence[int] | None = None) -> Columns:
        """The rows as keys: all columns, or some."""
        table = self.table(columns)
        found = keys_or_places(table) if texts is None else keys_of(table, texts)
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


def seen(block: FileSplit, start: int, step: int) -> tuple[PartSketch, dict[int, Any]]:
    """Reads and checks a split. Returns its sketch, and the distinct texts of its text columns, as
    Arrow arrays; in these columns, the sketch has places in the texts."""
    import pyarrow as pa

    table = block.table()
    texts = {at: pa.array(some, pa.large_string()) for at, some in texts_of(table).items()}
    return sketch_of(keys_or_places(table), start, step), texts


def keys_of(table: Table, texts: TextCodes) -> Columns:
    return tuple(
        texts.of(column) if isinstance(column, TextColumn) else own_keys(column, kind)
        for column, kind in zip(table.columns, table.types, strict=True)
    )
