"""Calls that a cluster's workers run, and values that lie there.

Whoever spreads work makes a `Stage`, adds calls to it, and takes what they give as they end; more
can be added meanwhile. All that waits for the cluster waits here.

    stage = pool.stage("triangles", limits)
    for cell in cells:
        stage.add(Call(look_through, (task, [cell], 1.0, False, placed, table)))
    for call, rows in stage:
        ...

What callers may rely on. A call is given once, whatever becomes of workers: those that die cost
what they ran, and what only they had (`Kept`) is made again from its call. A call may run twice,
so it changes nothing but what it makes; what it is given it only reads, for other calls of the
worker are given the same. An error of a call is raised from the iteration, and the other calls
are cancelled; so are all if the iteration is left, or the query stopped: `watching()` in a call
knows of it, and `Limits()` made there poll it. A call for which a worker has not enough memory
ends in `TooLarge`, unless the stage's `smaller` gives calls that together do its work. One that
raises `Lost` itself is raised too, unless the stage's `instead` is set, and gives another call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from time import monotonic
from typing import Any

from gdatalog.cluster.calling import itself
from gdatalog.cluster.connection import Connection
from gdatalog.cluster.kept import Call, Kept, Lost, Part, TooLarge
from gdatalog.cluster.placing import Placed, Placing
from gdatalog.cluster.stage import Smaller, Stage
from gdatalog.errors import UsageError
from gdatalog.executors.limits import Limits

__all__ = ["Call", "Kept", "Lost", "Part", "Placed", "Pool", "Stage", "TooLarge"]


class Pool:
    """The workers of a connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.placing = Placing(connection.client)
        self._slots = 0.0, 0

    def place(
        self,
        key: Hashable,
        value: Any,
        nbytes: int = 0,
        owner: Any = None,
        version: Hashable = None,
    ) -> Placed:
        """Has a value on all workers, once: the same key and version is the same value for as long
        as the owner lives, which is the value if no other is named. With the key None it is another
        each time, and goes with what is returned."""
        return self.placing.place(key, value, nbytes, owner, version)

    def stage(self, told: str, limits: Limits, smaller: Smaller | None = None) -> Stage:
        """`told`: what is done, by the rule's name: for the dashboard and for who looks on.
        `smaller`: calls that do the work of one that was too large; none where there are none."""
        if self.connection.client.status == "closed":
            raise UsageError(
                "the connection to the cluster was closed, and what lies on its workers is out of "
                "reach",
                hint="fetch or write rows, to_parquet(folder), before the database is closed",
            )
        self.placing.tidy()
        return Stage(self, told, limits, smaller)

    def bring(self, kept: Sequence[Kept | Part], told: str, limits: Limits) -> list[Any]:
        """Values that lie on workers, in the order in which they are asked for."""
        stage = self.stage(told, limits)
        for number, each in enumerate(kept):
            stage.add(Call(itself, (each,), tag=number))
        found = {call.tag: value for call, value in stage}
        return [found[number] for number in range(len(kept))]

    def tell(self, function: Callable[..., Any], *args: Any) -> None:
        """Has every worker call a function soon, in its event loop, beside what it runs: to let
        go of something. Nobody waits for it, and a worker that is about to go may not do it."""
        self.placing.tell(function, *args)

    def where(self, kept: Sequence[Kept]) -> list[str | None]:
        """The worker that has a value, of each; None where that is not known now."""
        client = self.connection.client
        keys = [each.future.key for each in kept]
        held = client.sync(client.scheduler.who_has, keys=keys) if keys else {}
        return [next(iter(held.get(key, ())), None) for key in keys]

    @property
    def slots(self) -> int:
        """How many calls can be at work at once."""
        when, slots = self._slots
        if not slots or monotonic() - when > 1.0:
            slots = self.connection.slots
            self._slots = monotonic(), slots
        return slots

    def close(self) -> None:
        self.placing.close()
        self.connection.close()
