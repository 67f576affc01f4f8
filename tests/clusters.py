"""A Dask cluster of processes on this machine, for tests: one for all that a pytest process runs.

Starting a worker is what costs, so workers are forked from a process that has imported what they
need, and stay until a test asks for fewer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

MOST = 4
NEEDED = ("distributed", "distributed.nanny", "numpy", "gdatalog.engine.rules.evaluate", "llvmlite")


class Workers:
    """`clients(2)`: a client of a cluster that has two workers of one thread each."""

    def __init__(self) -> None:
        self._cluster: Any = None
        self._client: Any = None

    def __call__(self, number: int) -> Any:
        assert 1 <= number <= MOST
        if self._cluster is None:
            self._cluster, self._client = _started(number)
        if len(self._cluster.workers) != number:
            self._cluster.scale(number)
        _wait_for(self._cluster, self._client, number)
        return self._client

    def close(self) -> None:
        if self._cluster is not None:
            self._client.close()
            self._cluster.close()
            self._cluster = self._client = None


def _started(number: int) -> tuple[Any, Any]:
    pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    fork_workers()
    cluster = distributed.LocalCluster(
        n_workers=number,
        threads_per_worker=1,
        memory_limit=0,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )
    return cluster, distributed.Client(cluster, set_as_default=False)


def fork_workers() -> None:
    """From now on workers of this process's clusters are forked, which takes a tenth as long."""
    import dask
    from distributed.utils import get_mp_context

    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    # Where workers are killed again and again, Dask would take one for lost that is starting.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    get_mp_context().set_forkserver_preload(list(NEEDED))


def _wait_for(cluster: Any, client: Any, number: int) -> None:
    """Until there are so many workers, no more and no fewer."""
    from time import monotonic, sleep

    until = monotonic() + 60
    while len(client.scheduler_info(n_workers=-1)["workers"]) != number:
        assert monotonic() < until, f"no {number} workers within a minute"
        sleep(0.02)


@contextmanager
def workers() -> Iterator[Workers]:
    """What asks for workers, by number; the cluster starts when it is first asked."""
    asked = Workers()
    try:
        yield asked
    finally:
        asked.close()
