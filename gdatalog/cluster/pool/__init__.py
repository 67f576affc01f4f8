"""Calls that a cluster's workers run, and values that stay there.

To spread work, create a `TaskStage`, add calls to it, and iterate over it: it yields results as
calls end. More calls can be added meanwhile. All waiting for the cluster happens in stages.

    stage = pool.stage("triangles", limits)
    for cell in cells:
        stage.add(Call(look_through, (task, [cell], 1.0, False, placed, table)))
    for call, rows in stage:
        ...

Guarantees. A stage yields each call once, even if workers die: their calls run again, and values
that only they had (`RemoteValue`) are recomputed. A call may run twice, so it has no side effects;
it does not change its arguments, because the worker's other calls share them. If a call fails, the
iteration raises its error and the stage cancels the other calls. It also cancels them if you leave
the iteration or stop the query: `current_watch()` in a call then raises, and `Limits()` created
there poll it. If a call needs more memory than a worker has, the stage raises `TooLarge`, unless
its `smaller` function returns calls that together do the same work. Values that a stage lists as
`unrecoverable` are not recomputed: if one is lost, the stage raises `Lost`.
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
    PoolWorkers,
    RemoteElement,
    RemoteValue,
    TooLarge,
    itself,
)
from gdatalog.cluster.pool.task_stage import Smaller, TaskStage
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
    """A connection's workers, and the calls that they run."""

    def broadcast(
        self, key: Hashable, value: Any, version: Hashable = None, once: bool = False
    ) -> Broadcast:
        """Broadcasts a value. A key and version stand for the same value while that value lives.
        With the key None, each broadcast is new, and workers drop it with the returned object.
        `once`: few calls need it, so workers do not keep it."""
        return self.broadcaster.place(key, value, version, once)

    def folder(self) -> str | None:
        """A new folder that the driver and all workers see, which the caller deletes; None if they
        share no file system."""
        return tempfile.mkdtemp(dir=self.broadcaster.seen()) if self.shared else None

    @property
    def shared(self) -> bool:
        """Whether the driver and all workers see a common folder."""
        return self.broadcaster.seen() is not None

    def stage(self, name: str, limits: Limits, smaller: Smaller | None = None) -> TaskStage:
        """`name`: what the calls do, with the rule's name, for the dashboard and progress.
        `smaller`: returns smaller calls for one that was too large; may return none."""
        if self.connection.client.status == "closed":
            raise UsageError(
                "the connection to the cluster was closed; rows on its workers are gone",
                hint="fetch or write rows, to_parquet(folder), before the database is closed",
            )
        self.broadcaster.tidy()
        return TaskStage(self, name, limits, smaller)

    def all(self, calls: Sequence[Call], name: str, limits: Limits) -> list[Any]:
        """The results of calls, in the calls' order."""
        stage = self.stage(name, limits)
        for number, call in enumerate(calls):
            stage.add(replace(call, tag=number))
        found = {call.tag: given for call, given in stage}
        return [found[number] for number in range(len(calls))]

    def bring(
        self, kept: Sequence[RemoteValue | RemoteElement], name: str, limits: Limits
    ) -> list[Any]:
        """Fetches values from workers, in the given order."""
        return self.all([Call(itself, (each,)) for each in kept], name, limits)
