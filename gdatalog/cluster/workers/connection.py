"""The connection to a Dask cluster: its client, its workers, and what ends with the database."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from weakref import finalize

from gdatalog.cluster.workers.addresses import address_of, check_installed, client_of, dask, refused
from gdatalog.cluster.workers.devices import gpus
from gdatalog.cluster.workers.membership import Worker, look
from gdatalog.engine.no_gpu import plainly_none
from gdatalog.engine.session.knobs import cores
from gdatalog.errors import DeviceError, Error, UsageError

Given = ParamSpec("Given")
Made = TypeVar("Made")
_UNREAD = "Error during deserialization of the task graph"  # how Dask's scheduler begins


class Connection:
    """A client of Dask's, and what it leads to.

    What was started for it ends with it; a client or a cluster that a user handed over stays.
    """

    def __init__(self, client: Any, own: list[Any] | None = None, device: str = "cpu") -> None:
        self.client = client
        self.device = device  # of workers: "cpu", "auto" or "cuda"
        self.address = str(client.scheduler.address)
        self.dashboard = str(client.dashboard_link)  # where a browser sees what the cluster does
        self._workers: tuple[Worker, ...] | None = None
        # Also when nobody closes the database: when it is gone, at the latest when Python ends.
        self.close = finalize(self, _close, own or [])  # what is to be closed, in this order

    @staticmethod
    def open(cluster: Any, memory: int, threads: int = 0, device: str = "cpu") -> Connection:
        """`cluster`: a client, what Dask calls a cluster, a scheduler's address, or "local", which
        starts `threads` workers that may hold `memory` bytes together; without a number, one for
        each GPU that they may use, or else for each core."""
        check_installed()
        quiet = "distributed" not in sys.modules  # nobody else uses Dask here
        own: list[Any] = []
        try:
            if cluster == "local" and not threads:
                threads = (gpus() if device != "cpu" and not plainly_none() else 0) or cores()
            connection = _opened(cluster, memory, threads, own)
            connection.device = device
            if quiet:
                _silence()
            connection.again()
        except BaseException:
            _close(own)
            raise
        return connection

    @property
    def workers(self) -> tuple[Worker, ...]:
        """Those that there were when they were last looked at."""
        if self._workers is None:
            self.again()
        assert self._workers is not None
        return self._workers

    @property
    def slots(self) -> int:
        """How many calls can run at once."""
        threads: dict[str, int] = self.client.nthreads()
        return max(1, sum(threads.values()))

    @property
    def budget(self) -> int:
        """The bytes that a call may hold, on whichever worker."""
        return min(worker.budget for worker in self.workers)

    @property
    def gpus(self) -> bool:
        """Whether each worker uses a GPU, as far as is known before it is asked to."""
        return self.device != "cpu" and all(worker.gpu for worker in self.workers)

    def again(self) -> None:
        """Looks at the workers once more."""
        if self.client.status != "running":
            raise self.lost()
        self._workers = look(self.client)

    def lost(self) -> DeviceError:
        return DeviceError(
            f"the connection to the scheduler at {self.address} is lost",
            hint="it has ended, or cannot be reached any more; connect again when it can",
        )

    def unread(self, problem: Exception) -> DeviceError:
        why = problem.__cause__ or "it fails"
        return DeviceError(
            f"the scheduler at {self.address} cannot read what this gdatalog sends it: {why}",
            hint="it runs another, or the one that was here when it started: start it, and its "
            "workers, anew",
        )

    def __str__(self) -> str:
        number = len(self.workers)
        hosts = len({worker.host for worker in self.workers})
        workers = "1 worker" if number == 1 else f"{number} workers"
        return f"{workers} on {hosts} machines" if hosts > 1 else workers

    def __repr__(self) -> str:
        return f"<{self}, scheduler at {self.address}>"


def raises_if_lost(method: Callable[Given, Made]) -> Callable[Given, Made]:
    """A method of what has a `connection`: whatever fails because that is lost says so."""

    @wraps(method)
    def told(*given: Given.args, **named: Given.kwargs) -> Made:
        try:
            return method(*given, **named)
        except Exception as problem:
            connection: Connection = given[0].connection  # type: ignore[attr-defined]  # a method's `self`
            closed = type(problem).__name__ == "CommClosedError"
            if str(problem).startswith(_UNREAD):
                raise connection.unread(problem) from None
            if closed or (connection.client.status != "running" and not isinstance(problem, Error)):
                raise connection.lost() from None
            raise

    return told


def _opened(cluster: Any, memory: int, threads: int, own: list[Any]) -> Connection:
    if cluster == "local":
        from gdatalog.cluster.workers.local import LocalWorkers

        workers = LocalWorkers.start(threads, memory)
        own.append(workers)
        client = client_of(workers.address)
        own.insert(0, client)
        return Connection(client, own)
    if isinstance(cluster, str):
        client = client_of(address_of(cluster))
        own.append(client)
        return Connection(client, own)
    distributed = dask()
    if isinstance(cluster, distributed.Client):
        if cluster.asynchronous:
            raise UsageError(
                "this client is asynchronous, and a database waits for its answers",
                hint="Client(..., asynchronous=False) makes one that can be waited for",
            )
        if cluster.status != "running":
            raise UsageError(f"this client of Dask's is {cluster.status}")
        return Connection(cluster, own)
    if not isinstance(cluster, type) and hasattr(cluster, "scheduler_address"):
        client = distributed.Client(cluster, set_as_default=False)
        own.append(client)
        return Connection(client, own)
    raise refused(cluster)


def _silence() -> None:
    """What becomes of the connection is told by errors, not by Dask's logs beside answers."""
    for name in [*logging.root.manager.loggerDict, "distributed"]:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _close(own: list[Any]) -> None:
    """Closes what is ours, whatever has become of it by now."""
    while own:
        with suppress(Exception):
            own.pop(0).close()
