"""The workers that calls are sent to: how many there are now, and what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from gdatalog.cluster.pool.broadcast import Broadcaster, workers_of
from gdatalog.cluster.pool.calls import RemoteValue
from gdatalog.cluster.workers.connection import Connection, workers_told

SOON = 1.0  # seconds, after which workers that have come or gone are known


class PoolWorkers:
    """The workers of a connection, and what lies on all of them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.broadcaster = Broadcaster(connection.client)
        self._threads: tuple[float, dict[str, int]] = 0.0, {}
        self._info: tuple[float, Mapping[str, Mapping[str, Any]]] = 0.0, {}

    def where(self, kept: Sequence[RemoteValue]) -> list[str | None]:
        """The worker that has a value, of each; None where that is not known now."""
        client = self.connection.client
        keys = [each.future.key for each in kept]
        held = client.sync(client.scheduler.who_has, keys=keys) if keys else {}
        return [next(iter(held.get(key, ())), None) for key in keys]

    @property
    def workers(self) -> dict[str, int]:
        """How many threads each worker has, by its address; waits a while if there is none."""
        return workers_of(self.connection.client)

    @property
    def threads(self) -> dict[str, int]:
        """The same, at most a second old, for frequent calls; empty if there is no worker."""
        when, threads = self._threads
        if not threads or monotonic() - when > SOON:
            threads = self.connection.client.nthreads()
            self._threads = monotonic(), threads
        return threads

    @property
    def slots(self) -> int:
        """How many calls can be at work at once."""
        return max(1, sum(self.threads.values()))

    @property
    def info(self) -> Mapping[str, Mapping[str, Any]]:
        """What the scheduler reports of each worker, by its address, at most a second ago: a
        request takes some milliseconds. Waits until there is a worker."""
        when, found = self._info
        while not found or monotonic() - when > SOON:
            workers_of(self.connection.client)
            found = workers_told(self.connection.client)
            when, _ = self._info = monotonic(), found
        return found

    @property
    def memory(self) -> list[int]:
        """The bytes that workers may hold: of each that has a limit."""
        limits = [each["memory_limit"] for each in self.info.values()]
        return [limit for limit in limits if limit]

    def close(self) -> None:
        self.broadcaster.close()
        self.connection.close()
