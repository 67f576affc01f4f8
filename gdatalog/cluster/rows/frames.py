"""Dask's frames as relations: workers turn partitions into columns of keys, and keep those."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from gdatalog.cluster.pool import Call, RemoteValue
from gdatalog.cluster.pool.calls import Origin, made_as
from gdatalog.cluster.rows.loading import Loading, own_keys, places_of
from gdatalog.errors import DataError, DeviceError, Error
from gdatalog.records import dataclass
from gdatalog.storage.data_files import TypedColumns
from gdatalog.storage.frames import table_from
from gdatalog.storage.load_options import LoadOptions
from gdatalog.storage.raw import listed
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemotePart
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array, Table, TextColumn
from gdatalog.values import TypeName


def is_frame(data: Any) -> bool:
    """Whether it is one of Dask's frames, or a column of one, or an array or bag of rows."""
    return type(data).__module__.split(".")[0] == "dask" and hasattr(data, "to_delayed")


def _delayed(data: Any) -> list[Any]:
    """Its partitions. Those of an array are whole rows."""
    if not hasattr(data, "rechunk"):
        return list(data.to_delayed())
    whole = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
    return list(whole.to_delayed().ravel())


@dataclass(frozen=True, slots=True, eq=False)
class FramePartition:
    """The columns of a partition, as far as that goes before texts have codes."""

    table: Table
    columns: Columns  # of a column of texts the places of its texts

    @property
    def texts(self) -> list[Array]:
        return [column.texts for column in self.table.columns if isinstance(column, TextColumn)]


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """What the driver has to know of a partition."""

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


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of Dask's, whose partitions are computed again where they are lost."""

    client: Any
    name: str
    delayed: Sequence[Any]

    def partitions(self) -> list[RemoteValue]:
        """All of them, computed."""
        futures = self.client.compute(list(self.delayed))
        return [
            made_as(
                RemoteValue(future),
                Origin(partial(self._again, number), partial(self._lost, number)),
            )
            for number, future in enumerate(futures)
        ]

    def _again(self, number: int) -> Any:
        return self.client.compute(self.delayed[number])

    def _lost(self, number: int, future: Any) -> DeviceError:
        """It was made of what lay on a worker alone that has died."""
        told = f": {future.exception()}" if future.status == "error" else ""
        return DeviceError(
            f"{self.name}: partition {number} was lost with its worker, and Dask "
            f"cannot compute it again{told}",
            hint=f"what it was made of is gone, too; load {self.name} again",
        )


def frame_relation(asked: Loading, data: Any) -> Relation | None:
    """The relation of a frame; None if it has no rows, or no columns."""
    wanted = asked.wanted
    source = Frame(asked.keeping.pool.connection.client, wanted.name, _delayed(data))
    declared = wanted.declared
    typed = None if declared is None else TypedColumns(declared.columns, declared.types)
    columns = None if wanted.columns is None else tuple(wanted.columns)
    stage = asked.stage("load")
    for number, raw in enumerate(source.partitions()):
        what = f"{wanted.name}, partition {number}" if len(source.delayed) > 1 else wanted.name
        args = (partition_of, (raw, columns, typed, what))
        stage.add(Call(*args, keep=True, tag=number, summary=PartitionSummary.of))
    del raw  # what a partition was made of need not lie there any more
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
    """Raises if a partition has other columns or types than the first that has rows."""
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
    """A partition of a frame, typed and checked; or what is wrong with it, which is raised where
    the user is: a worker would write of it into its log."""
    try:
        table = table_from(data, LoadOptions(columns), declared=declared, what=what)
    except Error as error:
        return error
    keys = [
        places_of(column) if isinstance(column, TextColumn) else own_keys(column, kind)
        for column, kind in zip(table.columns, table.types, strict=True)
    ]
    left = tuple(
        TextColumn(np.empty(0, np.int32), column.texts)
        if isinstance(column, TextColumn)
        else column[:0]
        for column in table.columns
    )
    return FramePartition(Table(table.names, table.types, left, table.length), tuple(keys))


def keys_of_partition(partition: FramePartition, codes: Sequence[Array]) -> Columns:
    left = iter(codes)
    return tuple(
        next(left)[keys] if kind == "symbol" else keys
        for keys, kind in zip(partition.columns, partition.table.types, strict=True)
    )
