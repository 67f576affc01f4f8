"""Other machines: rules whose work is spread over the workers of a Dask cluster.

Nothing of Dask is imported before a database is connected to a cluster.
"""

from __future__ import annotations

from typing import Any

from gdatalog.engine.context import Cluster


def spread_over(cluster: Any, memory: int, threads: int = 0, device: str = "cpu") -> Cluster:
    """A cluster by what a user names it: a client, a scheduler's address, or "local".

    Of a local one, `threads` says how many workers it has, of a thread each, 0 one for each core;
    `memory` how many bytes they may hold together. `device`: what workers run on: "cpu", "cuda", or
    "auto", a GPU of their own if they have one.
    """
    from gdatalog.cluster.dask_cluster import DaskCluster
    from gdatalog.cluster.workers.connection import Connection

    return DaskCluster(Connection.open(cluster, memory, threads, device))
