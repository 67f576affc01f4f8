"""The connection to a Dask cluster: its client, its workers and what they have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Connection:
    """`own`: what was started here and ends with the connection, the client's cluster first."""

    client: Any
    own: list[Any] = field(default_factory=list)

    @staticmethod
    def open(cluster: Any) -> Connection:
        """`cluster`: a client, a scheduler's address, or "local"."""
        from dask.distributed import Client, LocalCluster

        if isinstance(cluster, Client):
            return Connection(cluster)
        if cluster == "local":
            workers = LocalCluster(threads_per_worker=1, dashboard_address=None)
            client = Client(workers)
            return Connection(client, [client, workers])
        client = Client(cluster)
        return Connection(client, [client])

    @property
    def slots(self) -> int:
        """How many parts can be at work at once."""
        return sum(self.client.nthreads().values())

    def close(self) -> None:
        for each in self.own:
            each.close()
        self.own.clear()
