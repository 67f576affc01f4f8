"""The workers that run calls: how many there are, and what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from gdatalog.cluster.pool.broadcast import Broadcaster, workers_of
from gdatalog.cluster.pool.calls import RemoteValue
from gdatalog.cluster.workers.connection import Connection, workers_told

SOON = 1.0  # seconds until new and lost workers are noticed


class PoolWorkers:
    """The workers of a connection, and the values broadcast to them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.broadcaster = Broadcaster(connection.client)
        self._threads: tuple[float, dict[str, int]] = 0.0, {}
        self._info: tuple[float, Mapping[str, Mapping[str, Any]]] = 0.0, {}

    def where(self, kept: Sequence[RemoteValue]) -> list[str | None]:
        """A worker that holds each value; None if unknown."""
        client = self.connection.client
        keys = [each.future.key for each in kept]
        held = client.sync(client.scheduler.who_has, keys=keys) if keys else {}
        return [next(iter(held.get(key, ())), None) for key in keys]

    @property
    def workers(self) -> dict[str, int]:
        """The number of threads of each worker, by address; waits if there are no workers."""
        return workers_of(self.connection.client)

    @property
    def threads(self) -> dict[str, int]:
        """The same, cached for a second, for frequent calls; empty if there are no workers."""
        when, threads = self._threads
        if not threads or monotonic() - when > SOON:
            threads = self.connection.client.nthreads()
            self._threads = monotonic(), threads
        return threads

    @property
    def slots(self) -> int:
        """How many calls can run at once."""
        return max(1, sum(self.threads.values()))

    @property
    def info(self) -> Mapping[str, Mapping[str, Any]]:
        """The scheduler's report of each worker, by address; waits until there is a worker. Cached
        for a second, because a request takes milliseconds."""
        when, found = self._info
        while not found or monotonic() - when > SOON:
            workers_of(self.connection.client)
            found = workers_told(self.connection.client)
            when, _ = self._info = monotonic(), found
        return found

    @property
    def memory(self) -> list[int]:
        """The memory limits of those workers that have one, in bytes."""
        limits = [each["memory_limit"] for each in self.info.values()]
        return [limit for limit in limits if limit]

    def close(self) -> None:
        self.broadcaster.close()
        self.connection.close()
