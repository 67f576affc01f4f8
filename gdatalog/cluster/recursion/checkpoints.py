"""What owners have between two rounds, kept where the death of a worker does not lose it.

Where workers see a folder of the driver's, that is where they write it; elsewhere it lies on the
owner's shelf, and on that of another worker. Either way it is written block by block: an owner
never holds it twice. The newest that is whole is kept, until the fixpoint ends.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any
from uuid import uuid4

from gdatalog.cluster.partitioned.shelves import Gone, drop_lots
from gdatalog.cluster.pool import Call, Kept, Pool
from gdatalog.cluster.pool.calls import made_as
from gdatalog.cluster.recursion.snapshot import Lain, Place, copied, restored, saved
from gdatalog.limits import Limits
from gdatalog.records import dataclass

# Rounds are worth a checkpoint when they took so many times as long as it will, which then costs
# a twentieth at the most; and when they took so many seconds: less is soon done again.
SHARE, LEAST = 20.0, 5.0
# Bytes a second until one was made and has told: what a machine writes that has room to keep it
# for a moment. Where a folder is slower, the first one is dear, and others are rare.
RATE = 1e9


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What owners had, one way or the other, and what they told of it. `kept`: how what they had
    is made again when this is no more."""

    place: Place
    lain: Mapping[int, Sequence[Sequence[Lain]]]
    kept: Mapping[int, Any]


class Checkpoints:
    """The checkpoints of a fixpoint."""

    def __init__(self, pool: Pool, told: str, limits: Limits) -> None:
        self.pool = pool
        self.told = f"{told}: checkpoint"
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
        kept: Mapping[int, Kept],
        out: Collection[int],
        workers: Sequence[str],
        there: Collection[str],
        held: Collection[int],
    ) -> bool:
        """Has all owners, by their `workers`, write what they have `kept`; those that `out` names
        also what is on its way to others. Where there is no room for it, there is just none.
        `there`: all workers that there are; `held`: see `due`."""
        nbytes, began = self._bytes(held), perf_counter()
        place = self._place(there)
        found = None
        try:
            if place is not None:
                found = self._made(place, kept, out, workers, there)
        except (MemoryError, OSError, Gone) as error:
            self._shared &= not isinstance(error, OSError)
        finally:
            if found is None and place is not None:
                self._drop(place)
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

    def _place(self, there: Collection[str]) -> Place | None:
        with suppress(OSError):
            folder = self.pool.folder() if self._shared else None
            if folder is not None:
                return Place(folder, True)
        return Place(uuid4().hex, False) if len(there) > 1 else None

    def _made(
        self,
        place: Place,
        kept: Mapping[int, Kept],
        out: Collection[int],
        workers: Sequence[str],
        there: Collection[str],
    ) -> Checkpoint:
        calls = [
            Call(saved, (each, owner in out, place), worker=workers[owner], tag=owner)
            for owner, each in kept.items()
        ]
        own: dict[int, list[Lain]] = self._all(calls, kept)
        if place.shared:
            lain = {owner: [some] for owner, some in own.items()}
        else:
            others = _others(there)
            calls = [
                Call(copied, (some, place.name), worker=others.get(workers[owner]), tag=owner)
                for owner, some in own.items()
            ]
            copies = self._all(calls, kept)
            lain = {owner: [some, copies[owner]] for owner, some in own.items()}
        return Checkpoint(place, lain, {owner: each.recipe for owner, each in kept.items()})

    def _all(self, calls: Sequence[Call], firm: Mapping[int, Kept]) -> dict[int, Any]:
        stage = self.pool.stage(self.told, self.limits)
        stage.firm = firm.values()
        for call in calls:
            stage.add(call)
        return {call.tag: found for call, found in stage}

    def restored(
        self, owners: Iterable[int], args: Callable[[int], tuple[Any, ...]], workers: Sequence[str]
    ) -> dict[int, Kept]:
        """What some owners had, as a step leaves it; raises `Lost` where that is not there any
        more. `args`: what is said of each of them to `restored`."""
        assert self.last is not None
        stage = self.pool.stage(f"{self.told} read", self.limits)
        for owner in owners:
            if owner in self.last.lain:
                call_args = *args(owner), self.last.lain[owner]
                stage.add(Call(restored, call_args, True, workers[owner], tag=owner))
        return {call.tag: made_as(kept, self.last.kept[call.tag]) for call, kept in stage}

    def drop(self) -> None:
        if self.last is not None:
            self._drop(self.last.place)
            self.last = None

    def _drop(self, place: Place) -> None:
        if place.shared:
            gone = f"{place.name}-gone"
            with suppress(OSError):  # who still writes there finds no place any more
                os.rename(place.name, gone)
            shutil.rmtree(gone, ignore_errors=True)
        else:
            self.pool.tell(drop_lots, [place.name])


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
