"""The rows of parts on workers, and how they are shuffled to owners by a hash of each row.

A worker splits its rows into a block for each owner; owners fetch and merge their blocks, so equal
rows meet. Bytes are counted where they arrive from another worker. No rows pass through the driver.

The value of a part, as an argument of calls, is one of these (`columns_of`):

    columns of keys                       what a call returned and left there
    an object with `columns()`            the same, with more beside
    {"read": FileSplit, "texts": codes}   how a worker reads them, and the codes of their texts
    {"rows": another, "without": places}  the rows of another value that are not in these places
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gdatalog.cluster.pool.calls import Call, RemoteElement, RemoteValue
from gdatalog.cluster.pool.task_stage import Pool
from gdatalog.cluster.workers.own_process import left_of, own_address
from gdatalog.engine.context import ExecutionContext
from gdatalog.limits import Limits
from gdatalog.records import dataclass
from gdatalog.storage.duplicates import row_numbers
from gdatalog.storage.remote import RemotePart
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.table import Array


def columns_of(value: object, columns: Sequence[int] | None = None) -> Columns:
    """The rows of a part's value on a worker: all columns, or some."""
    if isinstance(value, dict) and "read" in value:
        found: Columns = value["read"].read(value["texts"], columns)
        return found
    if isinstance(value, dict):
        rows = columns_of(value["rows"], columns)
        keep = np.ones(len(rows[0]), dtype=np.bool_)
        keep[value["without"]] = False
        return tuple(column[keep] for column in rows)
    beside = getattr(value, "columns", None)
    plain = value if beside is None else beside()
    assert isinstance(plain, Sequence)
    whole: Columns = tuple(plain)
    return whole if columns is None else tuple(whole[at] for at in columns)


def piece_of(value: object, start: int, stop: int) -> Columns:
    """A range of a part's rows."""
    return tuple(column[start:stop] for column in columns_of(value))


AT_ONCE = 1 << 28  # bytes that a call partitions, at most
SHARE = 8  # and at most this fraction of a worker's memory for data
FETCHED = 8  # results up to this fraction of the memory limit are fetched
OWNED = 1 << 26  # bytes for each owner; if there are more, a worker is several owners

# Splits the parts of one worker. Called with the parts, the number of owners, and further
# arguments; returns a value for each owner.
Split = Callable[..., Sequence[object]]


@dataclass(frozen=True, slots=True)
class ShuffleBlock:
    """What one worker has for one owner."""

    value: Any  # what the split gave
    made_on: str
    nbytes: int

    def __sizeof__(self) -> int:
        return self.nbytes  # for Dask's memory accounting

    @property
    def moved(self) -> int:
        """The bytes fetched from another worker; called where the block is used."""
        return 0 if self.made_on == own_address() else self.nbytes


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A shuffle to owners, one for each entry of `workers`; a worker may be several owners.

    `nbytes`: about how much is exchanged, if known. The parts of one worker are split a few at a
    time, because splitting copies them.
    """

    pool: Pool
    name: str
    limits: Limits
    workers: Sequence[str]
    nbytes: int = 0

    @staticmethod
    def over(pool: Pool, name: str, limits: Limits, nbytes: int) -> Shuffle:
        """A shuffle to owners on all workers, each of which gets a limited number of bytes."""
        workers = sorted(pool.workers)
        owned = min(OWNED, 2 * _at_once(pool))
        count = max(len(workers), -(-nbytes // owned))
        owners = [workers[at % len(workers)] for at in range(count)]
        return Shuffle(pool, name, limits, owners, nbytes)

    def partition(
        self, parts: Sequence[object], split: Split, *args: object
    ) -> list[list[RemoteElement]]:
        """Splits parts by owner. Returns each owner's `ShuffleBlock`s, as arguments of calls; they
        stay where they were made."""
        owners = len(self.workers)
        some = max(1, _at_once(self.pool) * len(parts) // max(1, self.nbytes))
        calls = [
            Call(dealt, (split, mine[at : at + some], owners, *args), True, worker)
            for worker, mine in by_place(self.pool, parts)
            for at in range(0, len(mine), some)
        ]
        made = self.pool.all(calls, f"{self.name}: partition", self.limits)
        return [[kept.part(owner) for kept in made] for owner in range(owners)]

    def merge(
        self,
        pieces: Sequence[Sequence[object]],
        function: Callable[..., object],
        *args: object,
        summary: Callable[[Any], object] | None = None,
    ) -> list[RemoteValue]:
        """Calls a function with each owner's blocks and some arguments; the results stay on the
        owners' workers. `summary`: summarises each result for the driver."""
        calls = [
            Call(function, (list(mine), *args), True, worker, summary=summary)
            for worker, mine in zip(self.workers, pieces, strict=True)
        ]
        return self.pool.all(calls, f"{self.name}: merge", self.limits)

    def distinct(self, parts: Sequence[object]) -> list[RemoteValue]:
        """The distinct rows of parts: `OwnedRows` for each owner, summarised by `PartSize`."""
        return self.merge(self.partition(parts, split_rows), distinct_of, summary=size_of)


def _at_once(pool: Pool) -> int:
    """The bytes of parts that a call may split."""
    left = min(map(left_of, pool.memory), default=AT_ONCE * SHARE)
    return max(1 << 20, min(AT_ONCE, int(left / SHARE)))


class PartSize(NamedTuple):
    """The number of rows of a part, their bytes, and how many bytes came from other workers."""

    rows: int
    nbytes: int
    moved: int = 0


@dataclass(frozen=True, slots=True)
class OwnedRows:
    """The sorted distinct rows of an owner, and how many of their bytes came from other workers."""

    rows: Columns
    moved: int

    def columns(self) -> Columns:
        return self.rows


def stays_remote(nbytes: int, context: ExecutionContext) -> bool:
    """Whether results of so many bytes stay on the workers."""
    return nbytes > min(context.thresholds.fetched_bytes, context.memory // FETCHED)


def by_place(pool: Pool, parts: Sequence[object]) -> list[tuple[str | None, list[object]]]:
    """Groups parts by worker. Parts of unknown location (None) are groups of their own."""
    found: dict[object, list[object]] = {}
    for number, (part, where) in enumerate(zip(parts, place_of(pool, parts), strict=True)):
        found.setdefault(where or number, []).append(part)
    return [(at if isinstance(at, str) else None, some) for at, some in found.items()]


def place_of(pool: Pool, parts: Sequence[object]) -> list[str | None]:
    """The worker that has each part; None if unknown."""
    rows = [part["rows"] if isinstance(part, dict) and "rows" in part else part for part in parts]
    lying = [part for part in rows if isinstance(part, RemoteValue)]
    places = {id(part): where for part, where in zip(lying, pool.where(lying), strict=True)}
    return [places.get(id(part)) for part in rows]


def parts_of(owned: Sequence[RemoteValue]) -> list[RemotePart]:
    """The non-empty parts of a relation, from values whose summary is a `PartSize`."""
    parts = (RemotePart(kept, kept.summary.rows, kept.summary.nbytes) for kept in owned)
    return [part for part in parts if part.rows]


def dealt(split: Split, parts: Sequence[object], owners: int, *args: object) -> list[ShuffleBlock]:
    """Splits parts into a block for each owner."""
    from dask.sizeof import sizeof

    here = own_address()
    return [ShuffleBlock(value, here, sizeof(value)) for value in split(parts, owners, *args)]


def owner_of(rows: Columns, owners: int) -> Array:
    """The number of each row's owner; it does not depend on the worker, nor on the width of
    columns."""
    high = row_numbers(rows).view(np.uint64) >> np.uint64(32)
    numbers: Array = (high * np.uint64(owners)) >> np.uint64(32)
    return numbers.astype(np.min_scalar_type(max(owners - 1, 0)))


def rows_by_owner(keys: Columns, rows: Columns, owners: int) -> list[Columns]:
    """Splits rows by owner, by the columns `keys`; keeps their order."""
    numbers = owner_of(keys, owners)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=owners))
    return [tuple(column[mine] for column in rows) for mine in np.split(order, ends[:-1].tolist())]


def split_rows(parts: Sequence[object], owners: int) -> list[Columns]:
    """The distinct rows of parts, by owner."""
    rows = sort_rows(concatenate(list(map(columns_of, parts))))
    return rows_by_owner(rows, rows, owners)


def distinct_of(pieces: Sequence[ShuffleBlock]) -> OwnedRows:
    """The distinct rows of blocks."""
    rows = sort_rows(concatenate([one.value for one in pieces]))
    return OwnedRows(rows, sum(one.moved for one in pieces))


def size_of(value: object) -> PartSize:
    columns = columns_of(value)
    nbytes = sum(column.nbytes for column in columns)
    return PartSize(len(columns[0]), nbytes, getattr(value, "moved", 0))
