"""Rows on a worker's shelf: kept by the worker that made them, read by those that need them.

A lot is put there once, in memory while there is room, else in a file of the worker's own folder.
Any worker takes stretches of its rows; what it takes from another is noted as moved and stays on
its own shelf, so that it is moved once. Dask's own store would hold a lot as one value, which moves
whole.

A lot has a name in common with all that is laid for one purpose, and is dropped by it: also one
that a call lays which nobody waits for any more.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import gettempdir
from threading import Lock
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np

from gdatalog.cluster.partitioned.offsets import Offsets, widened
from gdatalog.cluster.pool import Lost
from gdatalog.cluster.workers.worker import left_of, own_worker
from gdatalog.records import dataclass
from gdatalog.storage.rows import Columns

# Of a worker's memory, and of what it does not need for itself: what lies on its shelf without
# being in a file; and what is asked of another worker at once, of which there are some copies.
SHELF, SHELF_OF_LEFT = 1 / 8, 1 / 4
MOVING, MOVING_OF_LEFT, COPIES = 1 / 32, 1 / 16, 4
UNLIMITED = 4 << 30  # a worker's memory, where nothing limits it
MOST_MOVING = 32 << 20  # bytes that are asked of another worker at once
HURRY = 5.0  # seconds, after which a worker that cannot be reached is gone
HANDLER = "gdatalog_shelf"
ENDED = 1 << 14  # names that a shelf remembers to have dropped


def room_of(memory: int) -> float:
    """What is left of a worker's memory for the calls that it runs."""
    return left_of(memory) - _shelf_of(memory) - COPIES * _moving_of(memory)


def _shelf_of(memory: int) -> int:
    return int(min(memory * SHELF, left_of(memory) * SHELF_OF_LEFT))


def _moving_of(memory: int) -> int:
    return int(min(MOST_MOVING, memory * MOVING, left_of(memory) * MOVING_OF_LEFT))


@dataclass(frozen=True, slots=True)
class Lot:
    """Rows on a shelf: the address of whose it is, which of all shelves that ever were at this
    address, what the rows are known by there, and what they are."""

    home: str
    shelf: str
    key: str
    rows: int
    dtypes: tuple[str, ...]

    @property
    def width(self) -> int:
        """The bytes of a row."""
        return sum(np.dtype(dtype).itemsize for dtype in self.dtypes)


class Piece(NamedTuple):
    """Some rows of a lot."""

    lot: Lot
    start: int
    stop: int

    @property
    def key(self) -> tuple[str, int, int]:
        return self.lot.key, self.start, self.stop

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def nbytes(self) -> int:
        return self.rows * self.lot.width


class Gone(Lost):
    """Lots are not where they were put: the workers of these shelves have ended, perhaps."""

    def __init__(self, shelves: Iterable[str]) -> None:
        self.shelves = frozenset(shelves)
        super().__init__(", ".join(sorted(self.shelves)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Gone, (self.shelves,)


@dataclass(slots=True)
class _Kept:
    """Columns in memory, or where in which file they stand, one after the other. `least`: of
    columns that have been moved, which are offsets."""

    columns: Columns | None
    path: Path | None
    dtypes: tuple[str, ...]
    rows: int
    least: tuple[int, ...] = ()

    def read(self, start: int, stop: int, only: Sequence[int] | None = None) -> Columns:
        """Rows; of some columns, if said."""
        wanted = range(len(self.dtypes)) if only is None else only
        if self.columns is not None:
            return tuple(self.columns[at][start:stop] for at in wanted)
        assert self.path is not None
        widths = [np.dtype(dtype).itemsize for dtype in self.dtypes]
        found = []
        with self.path.open("rb") as file:
            for at in wanted:
                file.seek(self.rows * sum(widths[:at]) + start * widths[at])
                found.append(np.fromfile(file, self.dtypes[at], stop - start))
        return tuple(found)


class Shelf:
    """The shelf of one worker."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.address: str = worker.address
        self.name = name_of(worker.local_directory)
        self.memory: int = worker.memory_manager.memory_limit or UNLIMITED
        self.moved = 0  # bytes from other workers, since this was asked last
        self._folder = Path(worker.local_directory or gettempdir()) / f"gdatalog-{uuid4().hex[:8]}"
        self._kept: dict[Any, _Kept] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._room = _shelf_of(self.memory)
        self._asking = _moving_of(self.memory)
        self._lock = Lock()
        self._fetching = Lock()
        worker.handlers[HANDLER] = self._asked

    def put(self, name: str, columns: Columns) -> Lot:
        """Keeps rows of at least one column until all of a name is dropped."""
        key = f"{name}/{uuid4().hex}"
        kept = self._keep(key, columns)
        return Lot(self.address, self.name, key, kept.rows, kept.dtypes)

    def _keep(self, key: Any, columns: Columns, least: tuple[int, ...] = ()) -> _Kept:
        kept = self._held(columns, least)
        self._kept[key] = kept
        if _named(key) in self._ended:  # asked for by nobody any more
            self._drop(key)
        return kept

    def _held(self, columns: Columns, least: tuple[int, ...]) -> _Kept:
        rows, dtypes = len(columns[0]), tuple(column.dtype.str for column in columns)
        size = sum(column.nbytes for column in columns)
        with self._lock:
            here = size <= self._room
            if here:
                self._room -= size
        if here:
            # A part of a longer array would keep all of it.
            columns = tuple(c if c.base is None else c.copy() for c in columns)
            return _Kept(columns, None, dtypes, rows, least)
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / uuid4().hex
        with path.open("wb") as file:
            for column in columns:
                np.ascontiguousarray(column).tofile(file)
        return _Kept(None, path, dtypes, rows, least)

    def drop(self, names: Iterable[str]) -> None:
        """Lets go of all lots of some names, those that are still to come included, and of what
        has been moved here of them."""
        self._ended.update(dict.fromkeys(names))
        for key in list(self._kept):
            if _named(key) in self._ended:
                self._drop(key)
        while len(self._ended) > ENDED:
            self._ended.popitem(last=False)

    def _drop(self, key: Any) -> None:
        kept = self._kept.pop(key, None)
        if kept is None:  # another thread was here first
            return
        if kept.path is not None:
            kept.path.unlink(missing_ok=True)
        elif kept.columns is not None:
            with self._lock:
                self._room += sum(column.nbytes for column in kept.columns)

    def fetch(self, pieces: Sequence[Piece]) -> None:
        """Has pieces here, on this shelf."""
        away = [piece for piece in pieces if piece.lot.shelf != self.name]
        if away:
            with self._fetching:
                self._fetch([piece for piece in away if piece.key not in self._kept])

    def take(self, piece: Piece) -> Columns:
        """The rows of a piece; `Gone` where they cannot be had."""
        self.fetch([piece])
        own = self._kept.get(piece.lot.key)
        if own is not None:
            return own.read(piece.start, piece.stop)
        moved = self._kept.get(piece.key)
        if moved is None:
            raise Gone([piece.lot.shelf])
        return widened(moved.read(0, moved.rows), moved.least, piece.lot.dtypes)

    def whole(self, lot: Lot, columns: Sequence[int]) -> Columns:
        """Some columns of a lot of this shelf; of another's, all of it is moved."""
        own = self._kept.get(lot.key)
        if own is not None:
            return own.read(0, lot.rows, columns)
        found = self.take(Piece(lot, 0, lot.rows))
        return tuple(found[at] for at in columns)

    def copy(self, lot: Lot, name: str) -> Lot:
        """A lot of another shelf as one of this shelf, by another name or the same."""
        piece = Piece(lot, 0, lot.rows)
        columns = self.take(piece)
        self._drop(piece.key)
        return self.put(name, columns)

    def counted(self) -> int:
        """The bytes that were moved here since this was asked last."""
        moved, self.moved = self.moved, 0
        return moved

    # ------------------------------------------------------------------------- between workers

    def _fetch(self, pieces: Sequence[Piece]) -> None:
        from distributed.utils import sync

        by_home: dict[str, list[Piece]] = defaultdict(list)
        for piece in pieces:
            by_home[piece.lot.home].append(piece)

        async def all_of_them() -> None:
            await asyncio.gather(*(self._fetch_of(home, lots) for home, lots in by_home.items()))

        if by_home:
            sync(self.worker.loop, all_of_them)

    async def _fetch_of(self, home: str, pieces: Sequence[Piece]) -> None:
        """Moves pieces here from one other worker, not too many at once."""
        from distributed.core import send_recv

        at = 0
        while at < len(pieces):
            asked, size = [pieces[at]], pieces[at].nbytes
            at += 1
            while at < len(pieces) and size + pieces[at].nbytes <= self._asking:
                asked.append(pieces[at])
                size += pieces[at].nbytes
                at += 1
            try:
                await not_refused(home)
                comm = await self.worker.rpc.connect(home, timeout=HURRY)
                try:
                    told = [piece.key for piece in asked]
                    given = await send_recv(comm, op=HANDLER, pieces=told)
                finally:
                    self.worker.rpc.reuse(home, comm)
            except (OSError, TimeoutError) as error:
                raise Gone(piece.lot.shelf for piece in pieces) from error
            if not isinstance(given, list | tuple):
                raise Gone(piece.lot.shelf for piece in asked)
            for piece, columns in zip(asked, given, strict=True):
                least, offsets = zip(*columns, strict=True)
                self._keep(piece.key, offsets, least)
                self.moved += sum(column.nbytes for column in offsets)

    async def _asked(self, pieces: Sequence[Any]) -> Any:
        """What another worker is given; None where it is not here."""
        from distributed.protocol.serialize import to_serialize

        def read() -> list[list[Offsets]] | None:
            found = []
            for key, start, stop in pieces:
                kept = self._kept.get(key)
                if kept is None:
                    return None
                found.append([Offsets.of(column) for column in kept.read(start, stop)])
            return found

        given = await asyncio.to_thread(read)
        return None if given is None else to_serialize(given)


async def not_refused(home: str) -> None:
    """Raises `OSError` where nobody listens any more: Dask would try again and again."""
    if home.startswith(("tcp://", "tls://")):
        host, port = home.partition("://")[2].rsplit(":", 1)
        _, writer = await asyncio.wait_for(
            asyncio.open_connection(host.strip("[]"), int(port)), HURRY
        )
        writer.close()


_shelves: WeakKeyDictionary[Any, Shelf] = WeakKeyDictionary()
_making = Lock()


def own_shelf() -> Shelf:
    """The shelf of the worker whose call runs in this thread."""
    return shelf_of(own_worker())


def shelf_of(worker: Any) -> Shelf:
    with _making:
        shelf = _shelves.get(worker)
        if shelf is None:
            shelf = _shelves[worker] = Shelf(worker)
        return shelf


def drop_lots(names: Sequence[str], dask_worker: Any = None) -> None:
    """Run on every worker by `Client.run`, which tells which it is."""
    shelf_of(dask_worker).drop(names)


def name_of(folder: str | None) -> str:
    """What the shelf of a worker is called by: its folder is no other worker's, also not of one
    that has the address later."""
    return Path(folder or "").name


def _named(key: Any) -> str:
    """The name that a lot was put under, or the one that a piece is of."""
    found: str = (key[0] if isinstance(key, tuple) else key).partition("/")[0]
    return found
