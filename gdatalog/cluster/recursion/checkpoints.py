"""Checkpoints: the owners' rows between two rounds, in files that survive a worker's death.

Checkpoints need a folder that the driver and all workers see. An owner writes and reads its rows
block by block, so it never holds them twice. The driver keeps the newest complete checkpoint until
the fixpoint ends, and one from which an owner was restored as long as rows that were computed from
it: Dask may have to read it again (`RemoteValue.origins`).
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import IO
from uuid import uuid4
from weakref import finalize

from gdatalog.cancellation import current_watch
from gdatalog.cluster.pool.calls import Call, RemoteValue
from gdatalog.cluster.pool.task_stage import Pool
from gdatalog.cluster.recursion.hash_partition import OwnerInputs, TableBlock
from gdatalog.cluster.recursion.owner_steps import PartitionState, StaleState, StepOutput, given
from gdatalog.limits import Limits
from gdatalog.records import dataclass


def saved(found: StepOutput, out: bool, path: str) -> str:
    """Writes an owner's state to a file, and with `out` its rows for others; returns the path."""
    limits = Limits()
    with open(path, "wb") as file:
        sent = {to: each.value for to, each in found.items() if isinstance(to, int) and out}
        pickle.dump(sent, file, protocol=5)
        for block in found["state"].blocks():
            limits.poll()
            pickle.dump(block, file, protocol=5)
    return path


def restored(inputs: OwnerInputs, path: str) -> StepOutput:
    """The state of an owner, from its file."""
    try:
        with open(path, "rb") as file:
            out = pickle.load(file)
            return given(PartitionState(None, _blocks(file)).take(inputs), None, out)
    except OSError as error:
        raise StaleState from error


def _blocks(file: IO[bytes]) -> Iterator[TableBlock]:
    with suppress(EOFError):
        while True:
            current_watch().poll()
            yield pickle.load(file)


# A checkpoint is due when the rounds since the last one took SHARE times as long as it will take,
# so it costs at most a twentieth, and at least LEAST seconds: less is soon repeated.
SHARE, LEAST = 20.0, 5.0
# Assumed bytes per second for the first checkpoint: files fit into the page cache. In a slower
# folder the first checkpoint costs more, and later ones are rare.
RATE = 1e9


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Checkpoint:
    """The file of each owner, in a folder that is deleted when nobody needs the checkpoint."""

    folder: str
    files: Mapping[int, str]


class Checkpoints:
    """The checkpoints of a fixpoint."""

    def __init__(self, pool: Pool, name: str, limits: Limits) -> None:
        self.pool = pool
        self.name = f"{name}: checkpoint"
        self.limits = limits
        self.last: Checkpoint | None = None
        self.made = 0
        self._rate = RATE
        self._failed = False  # there was no room for one
        self.wait()

    def wait(self) -> None:
        """Restarts the interval until the next checkpoint."""
        self._since = perf_counter()

    def due(self, held: int) -> bool:
        """Whether it is time for a checkpoint. `held`: the owners' rows, in bytes."""
        least = max(LEAST, SHARE * held / self._rate)
        late = perf_counter() - self._since >= least
        return late and not self._failed and self.pool.shared

    def make(
        self,
        kept: Mapping[int, RemoteValue],
        out: Collection[int],
        workers: Sequence[str],
        held: int,
    ) -> bool:
        """Writes the `kept` state of all owners; for those in `out`, also the rows that are in
        transit to others. Returns False if there was no room. `held`: see `due`."""
        began, folder = perf_counter(), None
        try:
            folder = self.pool.folder()
            assert folder is not None  # see `due`
            stage = self.pool.stage(self.name, self.limits)
            stage.unrecoverable = kept.values()
            for owner, each in kept.items():
                args = each, owner in out, f"{folder}/{uuid4().hex}"
                stage.add(Call(saved, args, worker=workers[owner], tag=owner))
            found = Checkpoint(folder, {call.tag: path for call, path in stage})
        except (MemoryError, OSError):
            _remove(folder)
            self._failed = True
            return False
        except BaseException:
            _remove(folder)
            raise
        finalize(found, _remove, folder)
        self.last = found
        self.made += 1
        self._rate = max(1, held) / (perf_counter() - began)
        self.wait()
        return True

    def restored(
        self, owners: Iterable[OwnerInputs], workers: Sequence[str]
    ) -> dict[int, RemoteValue]:
        """The states of owners; raises `Lost` if their files are gone."""
        last = self.last
        assert last is not None
        stage = self.pool.stage(f"{self.name} read", self.limits)
        for owner in owners:
            at = owner.number
            if at in last.files:
                stage.add(Call(restored, (owner, last.files[at]), True, workers[at], tag=at))
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
    """Assigns owners to workers: the same as before, as far as these live, else to those that have
    the fewest.

    >>> seated(["a", "b", "c"], ["b", "c", "d"])
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
    return found
