"""Dask's frames: workers convert partitions to columns of keys, and keep those."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdatalog.cluster.pool.calls import Call, RemoteValue
from gdatalog.cluster.rows.loading import Loading, keys_or_places, texts_of
from gdatalog.errors import DataError, Error
from gdatalog.records import dataclass, replace
from gdatalog.storage.frames import table_from
from gdatalog.storage.load_options import LoadOptions, TypedColumns
from gdatalog.storage.raw import listed
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemotePart
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array
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


def partition_of(
    data: Any, columns: tuple[str, ...] | None, declared: TypedColumns | None, what: str
) -> FramePartition | Error:
    """A checked partition of a frame, or its error; raised errors would appear in the worker's
    log."""
    try:
        options = LoadOptions(columns, nulls="error", declared=declared, what=what)
        table = table_from(data, options)
    except Error as error:
        return error
    keys = keys_or_places(table)
    nbytes = sum(column.nbytes for column in keys)
    return FramePartition(table.names, table.types, table.length, nbytes, texts_of(table), keys)


def keys_of_partition(partition: FramePartition, codes: Mapping[int, Array]) -> Columns:
    return tuple(
        codes[at][keys] if at in codes else keys for at, keys in enumerate(partition.columns)
    )
