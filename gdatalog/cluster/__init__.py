"""Evaluates rules and recursive strata on the workers of a Dask cluster.

Dask is not imported before a database connects to a cluster.
"""

from __future__ import annotations

from typing import Any

from gdatalog.engine.context import Cluster


def spread_over(cluster: Any, memory: int, threads: int = 0, device: str = "cpu") -> Cluster:
    """Connects to a cluster: a client, a scheduler's address, or "local".

    For a local one, `threads` is the number of its single-threaded workers (0: one for each core),
    and `memory` limits all of them together, in bytes. `device`: where workers run: "cpu", "cuda",
    or "auto", a GPU of their own if they have one.
    """
    from gdatalog.cluster.dask_cluster import DaskCluster
    from gdatalog.cluster.workers.connection import Connection

    return DaskCluster(Connection.open(cluster, memory, threads, device))
