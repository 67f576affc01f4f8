"""Other machines: rules whose work is spread over the workers of a Dask cluster.

Nothing of Dask is imported before a database is connected to a cluster.
"""

from __future__ import annotations

from typing import Any

from gdatalog.engine.cluster import Cluster


def spread_over(cluster: Any) -> Cluster:
    """A cluster by what a user names it: a client, a scheduler's address, or "local"."""
    from gdatalog.cluster.connection import Connection
    from gdatalog.cluster.spreading import Spreading

    return Spreading(Connection.open(cluster))
