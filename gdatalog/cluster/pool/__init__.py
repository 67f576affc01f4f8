"""Calls that a cluster's workers run, and values that lie there.

Whoever spreads work makes a `TaskStage`, adds calls to it, and takes what they give as they end;
more can be added meanwhile. All that waits for the cluster waits here.

    stage = pool.stage("triangles", limits)
    for cell in cells:
        stage.add(Call(look_through, (task, [cell], 1.0, False, placed, table)))
    for call, rows in stage:
        ...

What callers may rely on. A call is given once, whatever becomes of workers: those that die cost
what they ran, and what only they had (`RemoteValue`) is made again from its call. A call may run
twice, so it changes nothing but what it makes; what it is given it only reads, for other calls of
the worker are given the same. An error of a call is raised from the iteration, and the other calls
are cancelled; so are all if the iteration is left, or the query stopped: `current_watch()` in a
call knows of it, and `Limits()` made there poll it. A call for which a worker has not enough memory
ends in `TooLarge`, unless the stage's `smaller` gives calls that together do its work. The loss of
something that the stage's `unrecoverable` names is raised, as `Lost`: it is not made again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Sequence
from typing import Any

from gdatalog.calls import Limits
from gdatalog.cluster.pool.broadcast import Broadcast
from gdatalog.cluster.pool.calls import (
    Call,
    Lost,
    RemoteElement,
    RemoteValue,
    TooLarge,
    itself,
)
from gdatalog.cluster.pool.task_stage import Smaller, TaskStage
from gdatalog.cluster.pool.workers import PoolWorkers
from gdatalog.errors import UsageError
from gdatalog.records import replace

__all__ = [
    "Broadcast",
    "Call",
    "Lost",
    "Pool",
    "RemoteElement",
    "RemoteValue",
    "TaskStage",
    "TooLarge",
]


class Pool(PoolWorkers):
    """The workers of a connection, and calls that they run."""

    def broadcast(
        self,
        key: Hashable,
        value: Any,
        nbytes: int = 0,
        version: Hashable = None,
        once: bool = False,
    ) -> Broadcast:
        """Has a value on all workers, once: the same key and version is the same value for as long
        as that lives. With the key None it is another each time, and goes with what is returned.
        `once`: few calls need it, and no worker keeps it."""
        return self.broadcaster.place(key, value, nbytes, version, once)

    def folder(self) -> str | None:
        """A new folder that the driver and all workers see, removed by who asked for it; None
        where there is no such place."""
        return tempfile.mkdtemp(dir=self.broadcaster.seen()) if self.shared else None

    @property
    def shared(self) -> bool:
        """Whether there is such a place."""
        return self.broadcaster.seen() is not None

    def stage(self, name: str, limits: Limits, smaller: Smaller | None = None) -> TaskStage:
        """`name`: what is done, by the rule's name: for the dashboard and for who looks on.
        `smaller`: calls that do the work of one that was too large; none where there are none."""
        if self.connection.client.status == "closed":
            raise UsageError(
                "the connection to the cluster was closed, and what lies on its workers is out of "
                "reach",
                hint="fetch or write rows, to_parquet(folder), before the database is closed",
            )
        self.broadcaster.tidy()
        return TaskStage(self, name, limits, smaller)

    def all(self, calls: Sequence[Call], name: str, limits: Limits) -> list[Any]:
        """What some calls give, in their order."""
        stage = self.stage(name, limits)
        for number, call in enumerate(calls):
            stage.add(replace(call, tag=number))
        found = {call.tag: given for call, given in stage}
        return [found[number] for number in range(len(calls))]

    def bring(
        self, kept: Sequence[RemoteValue | RemoteElement], name: str, limits: Limits
    ) -> list[Any]:
        """Values that lie on workers, in the order in which they are asked for."""
        return self.all([Call(itself, (each,)) for each in kept], name, limits)
