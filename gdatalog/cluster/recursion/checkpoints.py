"""What owners have between two rounds, kept where the death of a worker does not lose it.

Where workers see a folder of the driver's, that is where they write it; elsewhere it lies with the
owner, and a copy with another worker. Either way it is written block by block: an owner never holds
it twice. The newest that is whole is kept, until the fixpoint ends. The driver asks for
checkpoints; workers write and read them (`saved`, `restored`).
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, NamedTuple
from uuid import uuid4

from gdatalog.calls import Limits
from gdatalog.cluster.pool import Call, Lost, Pool, RemoteElement, RemoteValue, TaskStage
from gdatalog.cluster.pool.broadcast import read, write
from gdatalog.cluster.pool.calls import itself, made_as, whole
from gdatalog.cluster.recursion.hash_partition import (
    HashPartition,
    Parcel,
    PartitionTask,
    StaleState,
    StepOutput,
    TableBlocks,
    given,
    rows_by_partition,
)
from gdatalog.cluster.workers.worker import StoredRows
from gdatalog.engine.derived import Rows
from gdatalog.plan.nodes import TrieRef
from gdatalog.records import dataclass
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, concatenate
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie

# Rounds are worth a checkpoint when they took so many times as long as it will, which then costs
# a twentieth at the most; and when they took so many seconds: less is soon done again.
SHARE, LEAST = 20.0, 5.0
# Bytes a second until one was made and has told: what a machine writes that has room to keep it
# for a moment. Where a folder is slower, the first one is dear, and others are rare.
RATE = 1e9


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What owners had: in files of a folder; or on workers, with the owner and with another.
    `kept`: how what they had is made again when this is no more."""

    folder: str | None
    lain: Mapping[int, Sequence[Sequence[SavedRows | RemoteValue | RemoteElement]]]
    kept: Mapping[int, Any]

    def there(self, owner: int) -> Sequence[SavedRows | RemoteValue | RemoteElement]:
        """What an owner had; raises `Lost` where that is not there any more."""
        for some in self.lain[owner]:
            if not any(each.lost for each in _wholes(some)):
                return some
        raise Lost


class Checkpoints:
    """The checkpoints of a fixpoint."""

    def __init__(self, pool: Pool, name: str, limits: Limits) -> None:
        self.pool = pool
        self.name = f"{name}: checkpoint"
        self.limits = limits
        self.last: Checkpoint | None = None
        self.made = 0
        self._shared = pool.shared
        self._rate = RATE
        self._doubt = 1  # times that is waited longer, since making one failed
        self.wait()

    def wait(self) -> None:
        """From now on rounds count that are to be worth another."""
        self._since = perf_counter()

    def due(self, held: Collection[int]) -> bool:
        """Whether it is time for one; about so many bytes each owner holds."""
        least = max(LEAST, SHARE * self._bytes(held) / self._rate)
        return perf_counter() - self._since >= least * self._doubt

    def _bytes(self, held: Collection[int]) -> int:
        """Those that are written one after the other: into one folder, or once here and there."""
        return sum(held) if self._shared else 2 * max(held)

    def make(
        self,
        kept: Mapping[int, RemoteValue],
        out: Collection[int],
        workers: Sequence[str],
        there: Collection[str],
        held: Collection[int],
    ) -> bool:
        """Has all owners, by their `workers`, write what they have `kept`; those that `out` names
        also what is on its way to others. Where there is no room for it, there is just none.
        `there`: all workers that there are; `held`: see `due`."""
        nbytes, began = self._bytes(held), perf_counter()
        folder, found = None, None
        try:
            folder = self.pool.folder() if self._shared else None
            if folder is not None or len(there) > 1:
                found = self._made(folder, kept, out, workers, there)
        except (MemoryError, OSError) as error:
            self._shared &= not isinstance(error, OSError)
        finally:
            if found is None:
                _remove(folder)
                self._doubt *= 2
            self.wait()
        if found is None:
            return False
        self.drop()
        self.last = found
        self.made += 1
        self._doubt = 1
        self._rate = max(1, nbytes) / (perf_counter() - began)
        return True

    def _made(
        self,
        folder: str | None,
        kept: Mapping[int, RemoteValue],
        out: Collection[int],
        workers: Sequence[str],
        there: Collection[str],
    ) -> Checkpoint:
        stays = folder is None
        told = len if stays else None
        calls = [
            Call(saved, (each, owner in out, folder), stays, workers[owner], owner, told)
            for owner, each in kept.items()
        ]
        lain: dict[int, list[Any]] = {call.tag: [found] for call, found in self._all(calls, kept)}
        if stays:
            others = _others(there)
            calls = [
                Call(itself, (some.part(at),), True, others.get(workers[owner]), owner)
                for owner, (some,) in lain.items()
                for at in range(some.summary)
            ]
            copies: dict[int, list[RemoteValue]] = {owner: [] for owner in lain}
            for call, copy in self._all(calls, kept):
                copies[call.tag].append(copy)
            for owner, (some,) in lain.items():
                parts = [some.part(at) for at in range(some.summary)]
                lain[owner] = [parts, copies[owner]]
        return Checkpoint(folder, lain, {owner: each.recipe for owner, each in kept.items()})

    def _all(self, calls: Sequence[Call], firm: Mapping[int, RemoteValue]) -> TaskStage:
        """What calls give; raises `Lost` where what owners have is."""
        stage = self.pool.stage(self.name, self.limits)
        stage.unrecoverable = firm.values()
        for call in calls:
            stage.add(call)
        return stage

    def restored(
        self, owners: Iterable[int], args: Callable[[int], tuple[Any, ...]], workers: Sequence[str]
    ) -> dict[int, RemoteValue]:
        """What some owners had, as a step leaves it; raises `Lost` where that is not there any
        more. `args`: what is said of each of them to `restored`."""
        assert self.last is not None
        stage = self.pool.stage(f"{self.name} read", self.limits)
        there = {at: self.last.there(at) for at in owners if at in self.last.lain}
        stage.unrecoverable = [kept for some in there.values() for kept in _wholes(some)]
        for owner, some in there.items():
            stage.add(Call(restored, (*args(owner), some), True, workers[owner], tag=owner))
        return {call.tag: made_as(kept, self.last.kept[call.tag]) for call, kept in stage}

    def drop(self) -> None:
        if self.last is not None:
            _remove(self.last.folder)
            self.last = None


def _wholes(some: Sequence[SavedRows | RemoteValue | RemoteElement]) -> list[RemoteValue]:
    """What lies on workers, of what an owner had."""
    return [whole(each) for each in some if not isinstance(each, SavedRows)]


def _remove(folder: str | None) -> None:
    if folder is not None:
        gone = f"{folder}-gone"
        with suppress(OSError):  # who still writes there finds no place any more
            os.rename(folder, gone)
        shutil.rmtree(gone, ignore_errors=True)


def _others(workers: Iterable[str]) -> dict[str, str]:
    """For each worker another, on another machine if there are some."""
    all_of_them = sorted(workers)  # those of a machine stand together
    half = len(all_of_them) // 2
    return dict(zip(all_of_them, all_of_them[half:] + all_of_them[:half], strict=True))


def seated(workers: Sequence[str], there: Iterable[str]) -> list[str]:
    """The workers of owners: the same as before, as far as they are there and no other has nothing
    to do meanwhile.

    >>> seated(["a", "b", "c"], ["b", "c"])
    ['b', 'b', 'c']
    >>> seated(["b", "b", "c"], ["b", "c", "d"])
    ['d', 'b', 'c']
    """
    owned = Counter(dict.fromkeys(sorted(there), 0))
    owned.update(worker for worker in workers if worker in owned)
    found = []
    for worker in workers:
        if worker not in owned:
            worker = min(owned, key=owned.__getitem__)
            owned[worker] += 1
        found.append(worker)
    while owned:
        most, least = max(owned, key=owned.__getitem__), min(owned, key=owned.__getitem__)
        if owned[most] - owned[least] < 2:
            break
        found[found.index(most)] = least
        owned[most] -= 1
        owned[least] += 1
    return found


# On a worker.


AT_ONCE = 1 << 20  # rows that are written together
OUT = "out"


class SavedRows(NamedTuple):
    """Rows in a checkpoint. `of`: which table of an owner's they are of; or `OUT`: they are on
    their way. `rows`: a file, or the rows; None if they have no columns."""

    of: str
    name: str
    length: int
    rows: str | StoredRows | None


def saved(found: StepOutput, out: bool, folder: str | None) -> list[SavedRows]:
    """Writes what an owner has; and what it has for others, if that is on its way. `folder`: one
    that all workers see; else this worker keeps it."""
    limits = Limits()
    lain = []
    for table, name, count, blocks in (*found["state"].blocks(), *(_out(found) if out else ())):
        if count and not blocks:
            lain.append(SavedRows(table, name, count, None))
        for columns in _packed(blocks):
            limits.poll()
            lain.append(SavedRows(table, name, len(columns[0]), _stored(columns, folder)))
    return lain


def _out(found: StepOutput) -> Iterator[TableBlocks]:
    """What is on its way to all owners together, who are known by the rows."""
    parcels = [each.value for to, each in found.items() if isinstance(to, int)]
    for name in dict.fromkeys(name for parcel in parcels for name in parcel):
        rows = [parcel[name] for parcel in parcels if name in parcel]
        blocks = [columns for columns, _ in rows if columns]
        yield OUT, name, sum(count for _, count in rows), blocks


def _packed(blocks: Iterable[Columns]) -> Iterator[Columns]:
    """The rows of some blocks: many of these together if they are small, one bit by bit if it is
    large."""
    small: list[Columns] = []
    for block in blocks:
        for start in range(0, len(block[0]), AT_ONCE):
            small.append(tuple(column[start : start + AT_ONCE] for column in block))
            if sum(len(columns[0]) for columns in small) >= AT_ONCE:
                yield concatenate(small)
                small = []
    if small:
        yield concatenate(small)


def _stored(columns: Columns, folder: str | None) -> str | StoredRows:
    if folder is None:
        return StoredRows(columns)
    path = f"{folder}/{uuid4().hex}"
    write(columns, path)
    return path


def restored(
    task: PartitionTask,
    number: int,
    tries: Mapping[TrieRef, Trie],
    fragments: Mapping[str, Relation],
    symbols: SymbolTable,
    lain: Sequence[SavedRows],
) -> StepOutput:
    """An owner as it was."""
    owner, limits = HashPartition(task, number, tries, fragments, symbols), Limits()
    owner.called_by(limits)
    derived: dict[str, list[Rows]] = {}
    for of, name, count, rows in lain:
        limits.poll()
        read_back = _taken(rows), count
        if of == OUT:
            derived.setdefault(name, []).append(read_back)
        else:
            owner.load(of, name, read_back)
    out: dict[int, Parcel] = {}
    for name, parts in derived.items():
        columns = concatenate([columns for columns, _ in parts])
        together = columns, sum(count for _, count in parts)
        for to, part in rows_by_partition(together, task.routes.homes[name], task.owners).items():
            out.setdefault(to, {})[name] = part
    return given(owner, None, out)


def _taken(rows: str | StoredRows | None) -> Columns:
    if rows is None:
        return ()
    if isinstance(rows, StoredRows):
        return rows.read()
    try:
        # Copied: the file goes with the next checkpoint, and what is mapped may be gone then.
        return tuple(column.copy() for column in read(rows))
    except OSError as error:
        raise StaleState from error
