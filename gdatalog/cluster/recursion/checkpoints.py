"""Checkpoints: the owners' rows between two rounds, in files that survive a worker's death.

Checkpoints need a folder that the driver and all workers see. They are written and read block by
block, so an owner never holds its rows twice. The newest complete checkpoint is kept until the
fixpoint ends, and any from which an owner was restored as long as rows that were computed from it:
Dask may have to read it again (`RemoteValue.origins`). The driver requests checkpoints; workers
write and read them (`saved`, `restored`).
"""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import NamedTuple
from uuid import uuid4
from weakref import finalize

from gdatalog.calls import Limits
from gdatalog.cancellation import current_watch
from gdatalog.cluster.pool import Call, Pool, RemoteValue
from gdatalog.cluster.recursion.hash_partition import (
    OwnerInputs,
    Parcel,
    PartitionState,
    StaleState,
    StepOutput,
    TableBlocks,
    given,
    rows_by_partition,
)
from gdatalog.cluster.workers import read, write
from gdatalog.engine.derived import Rows
from gdatalog.records import dataclass
from gdatalog.storage.rows import Columns, concatenate

# A checkpoint is due when the rounds since the last one took SHARE times as long as it will take,
# so it costs at most a twentieth, and at least LEAST seconds: less is soon repeated.
SHARE, LEAST = 20.0, 5.0
# Assumed bytes per second for the first checkpoint: files fit into the page cache. In a slower
# folder the first checkpoint costs more, and later ones are rare.
RATE = 1e9


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Checkpoint:
    """The owners' rows, in files of a folder, which is deleted when this is no longer needed."""

    folder: str
    rows: Mapping[int, Sequence[SavedRows]]


class Checkpoints:
    """The checkpoints of a fixpoint."""

    def __init__(self, pool: Pool, name: str, limits: Limits) -> None:
        self.pool = pool
        self.name = f"{name}: checkpoint"
        self.limits = limits
        self.last: Checkpoint | None = None
        self.made = 0
        self._rate = RATE
        self._doubt = 1  # factor for the interval, doubled when a checkpoint failed
        self.wait()

    def wait(self) -> None:
        """Restarts the interval until the next checkpoint."""
        self._since = perf_counter()

    def due(self, held: int) -> bool:
        """Whether it is time for a checkpoint. `held`: the owners' rows, in bytes."""
        least = max(LEAST, SHARE * held / self._rate) * self._doubt
        return perf_counter() - self._since >= least and self.pool.shared

    def make(
        self,
        kept: Mapping[int, RemoteValue],
        out: Collection[int],
        workers: Sequence[str],
        held: int,
    ) -> bool:
        """Writes the `kept` state of all owners; for those in `out`, also the rows that are in
        transit to others. Returns False if there was no room. `held`: see `due`."""
        began = perf_counter()
        folder, found = self.pool.folder(), None
        try:
            if folder is not None:
                stage = self.pool.stage(self.name, self.limits)
                stage.unrecoverable = kept.values()
                for owner, each in kept.items():
                    stage.add(
                        Call(saved, (each, owner in out, folder), False, workers[owner], owner)
                    )
                rows = {call.tag: given for call, given in stage}
                found = Checkpoint(folder, rows)
                finalize(found, _remove, folder)
        except (MemoryError, OSError):
            pass
        finally:
            if found is None:
                _remove(folder)
                self._doubt *= 2
            self.wait()
        if found is None:
            return False
        self.last = found
        self.made += 1
        self._doubt = 1
        self._rate = max(1, held) / (perf_counter() - began)
        return True

    def restored(
        self, owners: Iterable[OwnerInputs], workers: Sequence[str]
    ) -> dict[int, RemoteValue]:
        """The states of some owners; raises `Lost` if their files are gone."""
        last = self.last
        assert last is not None
        stage = self.pool.stage(f"{self.name} read", self.limits)
        for owner in owners:
            at = owner.number
            if at in last.rows:
                stage.add(Call(restored, (owner, last.rows[at]), True, workers[at], tag=at))
        found = {call.tag: kept for call, kept in stage}
        for kept in found.values():
            kept.origins |= {last}
        return found

    def drop(self) -> None:
        if self.last is not None:
            _remove(self.last.folder)
            self.last = None


def _remove(folder: str | None) -> None:
    if folder is not None:
        gone = f"{folder}-gone"
        with suppress(OSError):  # late writers then fail
            os.rename(folder, gone)
        shutil.rmtree(gone, ignore_errors=True)


def seated(workers: Sequence[str], there: Iterable[str]) -> list[str]:
    """Assigns owners to workers: the same as before, as far as these live and no other worker is
    idle.

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


AT_ONCE = 1 << 20  # rows written together
OUT = "out"


class SavedRows(NamedTuple):
    """Rows in a checkpoint. `of`: the owner's table, or `OUT` for rows in transit. `path`: their
    file; None if they have no columns."""

    of: str
    name: str
    length: int
    path: str | None


def saved(found: StepOutput, out: bool, folder: str) -> list[SavedRows]:
    """Writes an owner's state into a folder that all workers see; with `out`, also its rows for
    others."""
    limits, rows = Limits(), []
    for table, name, count, blocks in (*found["state"].blocks(), *(_out(found) if out else ())):
        if count and not blocks:
            rows.append(SavedRows(table, name, count, None))
        for columns in _packed(blocks):
            limits.poll()
            path = f"{folder}/{uuid4().hex}"
            write(columns, path)
            rows.append(SavedRows(table, name, len(columns[0]), path))
    return rows


def _out(found: StepOutput) -> Iterator[TableBlocks]:
    """An owner's rows for all others together; reading them back splits them again."""
    parcels = [each.value for to, each in found.items() if isinstance(to, int)]
    for name in dict.fromkeys(name for parcel in parcels for name in parcel):
        rows = [parcel[name] for parcel in parcels if name in parcel]
        blocks = [columns for columns, _ in rows if columns]
        yield OUT, name, sum(count for _, count in rows), blocks


def _packed(blocks: Iterable[Columns]) -> Iterator[Columns]:
    """Rows in blocks of about `AT_ONCE` rows: small blocks are joined, large ones are cut."""
    small: list[Columns] = []
    for block in blocks:
        for start in range(0, len(block[0]), AT_ONCE):
            small.append(tuple(column[start : start + AT_ONCE] for column in block))
            if sum(len(columns[0]) for columns in small) >= AT_ONCE:
                yield concatenate(small)
                small = []
    if small:
        yield concatenate(small)


def restored(inputs: OwnerInputs, saved: Sequence[SavedRows]) -> StepOutput:
    """The state of an owner, from its checkpoint."""
    moved = [(*each[:3], map(_read_back, [each.path]) if each.path else ()) for each in saved]
    state = PartitionState(None, [each for each in moved if each[0] != OUT])
    owner, task = state.take(inputs), inputs.task
    derived: defaultdict[str, list[Rows]] = defaultdict(list)
    for of, name, count, blocks in moved:
        if of == OUT:
            derived[name].append((concatenate(list(blocks) or [()]), count))
    out: defaultdict[int, Parcel] = defaultdict(dict)
    for name, parts in derived.items():
        columns = concatenate([columns for columns, _ in parts])
        together = columns, sum(count for _, count in parts)
        for to, part in rows_by_partition(together, task.routes.homes[name], task.owners).items():
            out[to][name] = part
    return given(owner, None, out)


def _read_back(path: str) -> Columns:
    current_watch().poll()
    try:
        # Copied, because the next checkpoint deletes the file.
        return tuple(column.copy() for column in read(path))
    except OSError as error:
        raise StaleState from error
