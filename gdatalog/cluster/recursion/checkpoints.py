"""What owners have between two rounds, in files that the death of a worker does not lose.

There are checkpoints if workers see a folder of the driver's. They are written and read block by
block: an owner never holds its rows twice. The newest that is whole is kept, until the fixpoint
ends. The driver asks for checkpoints; workers write and read them (`saved`, `restored`).
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
from gdatalog.cancellation import current_watch
from gdatalog.cluster.pool import Call, Pool, RemoteValue
from gdatalog.cluster.pool.broadcast import read, write
from gdatalog.cluster.pool.calls import made_as
from gdatalog.cluster.recursion.hash_partition import (
    HashPartition,
    Parcel,
    PartitionState,
    PartitionTask,
    StaleState,
    StepOutput,
    TableBlocks,
    given,
    rows_by_partition,
)
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
    """What owners had, in files of a folder. `recipes`: how what they had is made again when this
    is no more."""

    folder: str
    rows: Mapping[int, Sequence[SavedRows]]
    recipes: Mapping[int, Any]


class Checkpoints:
    """The checkpoints of a fixpoint."""

    def __init__(self, pool: Pool, name: str, limits: Limits) -> None:
        self.pool = pool
        self.name = f"{name}: checkpoint"
        self.limits = limits
        self.last: Checkpoint | None = None
        self.made = 0
        self._rate = RATE
        self._doubt = 1  # times that is waited longer, since making one failed
        self.wait()

    def wait(self) -> None:
        """From now on rounds count that are to be worth another."""
        self._since = perf_counter()

    def due(self, held: int) -> bool:
        """Whether it is time for one; about so many bytes all owners hold."""
        least = max(LEAST, SHARE * held / self._rate) * self._doubt
        return perf_counter() - self._since >= least and self.pool.shared

    def make(
        self,
        kept: Mapping[int, RemoteValue],
        out: Collection[int],
        workers: Sequence[str],
        held: int,
    ) -> bool:
        """Has all owners, by their `workers`, write what they have `kept`; those that `out` names
        also what is on its way to others. Where there is no room for it, there is just none.
        `held`: see `due`."""
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
                recipes = {owner: each.recipe for owner, each in kept.items()}
                found = Checkpoint(folder, rows, recipes)
        except (MemoryError, OSError):
            pass
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
        self._rate = max(1, held) / (perf_counter() - began)
        return True

    def restored(
        self, owners: Iterable[int], args: Callable[[int], tuple[Any, ...]], workers: Sequence[str]
    ) -> dict[int, RemoteValue]:
        """What some owners had, as a step leaves it; raises `Lost` where that is not there any
        more. `args`: what is said of each of them to `restored`."""
        last = self.last
        assert last is not None
        stage = self.pool.stage(f"{self.name} read", self.limits)
        for owner in owners:
            if owner in last.rows:
                given = *args(owner), last.rows[owner]
                stage.add(Call(restored, given, True, workers[owner], tag=owner))
        return {call.tag: made_as(kept, last.recipes[call.tag]) for call, kept in stage}

    def drop(self) -> None:
        if self.last is not None:
            _remove(self.last.folder)
            self.last = None


def _remove(folder: str | None) -> None:
    if folder is not None:
        gone = f"{folder}-gone"
        with suppress(OSError):  # who still writes there finds no place any more
            os.rename(folder, gone)
        shutil.rmtree(gone, ignore_errors=True)


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
    their way. `path`: their file; None if they have no columns."""

    of: str
    name: str
    length: int
    path: str | None


def saved(found: StepOutput, out: bool, folder: str) -> list[SavedRows]:
    """Writes what an owner has into a folder that all workers see; and what it has for others, if
    that is on its way."""
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


def restored(
    task: PartitionTask,
    number: int,
    tries: Mapping[TrieRef, Trie],
    fragments: Mapping[str, Relation],
    symbols: SymbolTable,
    saved: Sequence[SavedRows],
) -> StepOutput:
    """An owner as it was."""
    moved = [(*each[:3], map(_read_back, [each.path]) if each.path else ()) for each in saved]
    state = PartitionState(None, [each for each in moved if each[0] != OUT])
    owner = state.take(lambda: HashPartition(task, number, tries, fragments, symbols))
    derived: dict[str, list[Rows]] = {}
    for of, name, count, blocks in moved:
        if of == OUT:
            derived.setdefault(name, []).append((concatenate(list(blocks) or [()]), count))
    out: dict[int, Parcel] = {}
    for name, parts in derived.items():
        columns = concatenate([columns for columns, _ in parts])
        together = columns, sum(count for _, count in parts)
        for to, part in rows_by_partition(together, task.routes.homes[name], task.owners).items():
            out.setdefault(to, {})[name] = part
    return given(owner, None, out)


def _read_back(path: str) -> Columns:
    current_watch().poll()
    try:
        # Copied: the file goes with the next checkpoint, and what is mapped may be gone then.
        return tuple(column.copy() for column in read(path))
    except OSError as error:
        raise StaleState from error
