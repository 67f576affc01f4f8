"""The rows of parts on workers, and how they move: to owners, by a hash of each row.

A worker splits what it has into a block for each owner; owners fetch theirs and merge them, so
equal rows meet. Bytes are counted where they arrive from another worker. Nothing passes the driver.

The value of a part is an argument of calls, one of these (`columns_of`):

    columns of keys                       what a call returned and left there
    an object with `columns()`            the same, with more beside
    {"read": PartReader, "texts": codes}  how a worker reads them, and the codes of their texts
    {"rows": another, "without": places}  the rows of another value that are not in these places
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from gdatalog.calls import Limits
from gdatalog.cluster.pool import Call, Pool, RemoteValue
from gdatalog.cluster.workers.worker import left_of, own_address
from gdatalog.records import dataclass
from gdatalog.storage.duplicates import row_numbers
from gdatalog.storage.remote import RemotePart
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.sorting import sort_rows
from gdatalog.storage.table import Array


class PartReader(Protocol):
    """How rows are read."""

    def read(self, texts: Any, columns: Sequence[int] | None = None) -> Columns:
        """As keys, all columns or some; `texts`: what tells the codes of texts, where there are
        any."""
        ...


def columns_of(value: Any, columns: Sequence[int] | None = None) -> Columns:
    """The rows of a part, as a worker is given its value: all columns, or some of them."""
    if isinstance(value, dict) and "read" in value:
        found: Columns = value["read"].read(value["texts"], columns)
        return found
    if isinstance(value, dict):
        rows = columns_of(value["rows"], columns)
        keep = np.ones(len(rows[0]), dtype=np.bool_)
        keep[value["without"]] = False
        return tuple(column[keep] for column in rows)
    beside = getattr(value, "columns", None)
    whole: Columns = tuple(value) if beside is None else tuple(beside())
    return whole if columns is None else tuple(whole[at] for at in columns)


def piece_of(value: Any, start: int, stop: int) -> Columns:
    """Some of the rows."""
    return tuple(column[start:stop] for column in columns_of(value))


AT_ONCE = 1 << 28  # bytes of what lies on a worker that are dealt out together, at the most
SHARE = 8  # and no more than this part of what the worker has left
OWNED = 1 << 26  # bytes for each owner: where there is more, a worker is several of them

# Of parts that lie on one worker, and so many owners, what is for each of these; it may be given
# more to know it by.
Split = Callable[..., Sequence[Any]]


@dataclass(frozen=True, slots=True)
class ShuffleBlock:
    """What one worker has for one owner."""

    value: Any
    made_on: str
    nbytes: int

    def __sizeof__(self) -> int:
        return self.nbytes  # by which Dask knows what it holds

    @property
    def moved(self) -> int:
        """The bytes that were fetched from another worker, said where it is used."""
        return 0 if self.made_on == own_address() else self.nbytes


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Owners: as many as `workers` names, some of which may be the same.

    `nbytes`: about what is exchanged, if that is known. What lies on one worker is dealt out some
    at a time, for what is made of it is as much again.
    """

    pool: Pool
    name: str
    limits: Limits
    workers: Sequence[str]
    nbytes: int = 0

    @staticmethod
    def over(pool: Pool, name: str, limits: Limits, nbytes: int) -> Shuffle:
        """To owners on all workers, of which each is to have not too much of so many bytes."""
        workers = sorted(pool.workers)
        owned = min(OWNED, 2 * _at_once(pool))
        count = max(len(workers), -(-nbytes // owned))
        owners = [workers[at % len(workers)] for at in range(count)]
        return Shuffle(pool, name, limits, owners, nbytes)

    def partition(self, parts: Sequence[Any], split: Split, *args: Any) -> list[list[Any]]:
        """For each owner the blocks that are for it: `ShuffleBlock`s that lie where they were made,
        as arguments of calls.

        `parts`: what lies on workers, or what stands for it.
        """
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
        pieces: Sequence[Sequence[Any]],
        function: Callable[..., Any],
        *args: Any,
        summary: Callable[[Any], Any] | None = None,
    ) -> list[RemoteValue]:
        """What a function, of an owner's pieces and some arguments, gives for each owner; it
        lies there. `summary`: says what is to be known of it here."""
        calls = [
            Call(function, (list(mine), *args), True, worker, summary=summary)
            for worker, mine in zip(self.workers, pieces, strict=True)
        ]
        return self.pool.all(calls, f"{self.name}: merge", self.limits)

    def distinct(self, parts: Sequence[Any]) -> list[RemoteValue]:
        """Of parts that have columns each row once: `OwnedRows`, one for each owner, which tell
        their `PartSize`."""
        return self.merge(self.partition(parts, split_rows), distinct_of, summary=size_of)


def _at_once(pool: Pool) -> int:
    """The bytes that a call may begin with."""
    left = min(map(left_of, pool.memory), default=AT_ONCE * SHARE)
    return max(1 << 20, min(AT_ONCE, int(left / SHARE)))


class PartSize(NamedTuple):
    """How many rows a part has, what they take, and how much came from another worker."""

    rows: int
    nbytes: int
    moved: int = 0


@dataclass(frozen=True, slots=True)
class OwnedRows:
    """The sorted distinct rows of an owner, and the bytes of them that came from elsewhere."""

    rows: Columns
    moved: int

    def columns(self) -> Columns:
        return self.rows


def by_place(pool: Pool, parts: Sequence[Any]) -> list[tuple[str | None, list[Any]]]:
    """Parts by the worker on which they lie; None: none, or it is not known, each by itself."""
    found: dict[str, list[Any]] = {}
    single: list[tuple[str | None, list[Any]]] = []
    for part, where in zip(parts, place_of(pool, parts), strict=True):
        if where is None:
            single.append((None, [part]))
        else:
            found.setdefault(where, []).append(part)
    return [*found.items(), *single]


def place_of(pool: Pool, parts: Sequence[Any]) -> list[str | None]:
    """The worker on which each part lies; None: on none, or it is not known."""
    rows = [part["rows"] if isinstance(part, dict) and "rows" in part else part for part in parts]
    lying = [part for part in rows if isinstance(part, RemoteValue)]
    places = {id(part): where for part, where in zip(lying, pool.where(lying), strict=True)}
    return [places.get(id(part)) for part in rows]


def parts_of(owned: Sequence[RemoteValue]) -> list[RemotePart]:
    """What told its `PartSize`, as the parts of a relation; those without rows are left out."""
    parts = (RemotePart(kept, kept.summary.rows, kept.summary.nbytes) for kept in owned)
    return [part for part in parts if part.rows]


# ------------------------------------------------------------------------------- on a worker


def dealt(split: Split, parts: Sequence[Any], owners: int, *args: Any) -> list[ShuffleBlock]:
    """What is for each owner, of parts that lie here."""
    from dask.sizeof import sizeof

    here = own_address()
    return [ShuffleBlock(value, here, sizeof(value)) for value in split(parts, owners, *args)]


def owner_of(rows: Columns, owners: int) -> Array:
    """The number of each row's owner: the same wherever the row is found, however wide its
    columns are."""
    high = row_numbers(rows).view(np.uint64) >> np.uint64(32)
    numbers: Array = (high * np.uint64(owners)) >> np.uint64(32)
    return numbers.astype(np.min_scalar_type(max(owners - 1, 0)))


def rows_by_owner(keys: Columns, rows: Columns, owners: int) -> list[Columns]:
    """Rows dealt out by some of their columns, `keys`, each owner's in the order that they had."""
    numbers = owner_of(keys, owners)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=owners))
    return [tuple(column[mine] for column in rows) for mine in np.split(order, ends[:-1].tolist())]


def split_rows(parts: Sequence[Any], owners: int) -> list[Columns]:
    """The distinct rows of some parts, dealt out."""
    rows = sort_rows(concatenate(list(map(columns_of, parts))))
    return rows_by_owner(rows, rows, owners)


def distinct_of(pieces: Sequence[ShuffleBlock]) -> OwnedRows:
    """The rows of some pieces, each once."""
    rows = sort_rows(concatenate([one.value for one in pieces]))
    return OwnedRows(rows, sum(one.moved for one in pieces))


def size_of(value: Any) -> PartSize:
    columns = columns_of(value)
    nbytes = sum(column.nbytes for column in columns)
    return PartSize(len(columns[0]), nbytes, getattr(value, "moved", 0))
