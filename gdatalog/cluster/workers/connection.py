"""The connection to a Dask cluster: its address, its client, and its workers.

Workers are known as of the last `look`.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from importlib.util import find_spec
from typing import Any, ParamSpec, TypeVar
from weakref import finalize

from gdatalog.cluster.workers.own_device import gpus
from gdatalog.cluster.workers.worker_list import CURE, Worker, look
from gdatalog.engine.nvidia import plainly_none
from gdatalog.errors import DeviceError, Error, UsageError, meant
from gdatalog.settings import Thresholds, cores

PORT = 8786  # the default port of Dask schedulers
ANSWER_TIME = 10.0  # seconds to wait for an answer
LONGEST_GREETING = 1 << 20
_SCHEMES = ("tcp", "tls", "ucx", "ws", "wss", "inproc")
_FORMS = 'a Dask client, a scheduler\'s address such as "tcp://host:8786", or "local"'
_ADDRESS = re.compile(r"(?:(\w+)://)?(\[[^]]+\]|[^:/\[\]]+)(?::(\d+))?(/.*)?")


def dask() -> Any:
    """The module `distributed`; raises an error with a hint if it is not installed."""
    check_installed()
    try:
        import distributed
    except ImportError as problem:
        raise DeviceError(
            f"a cluster cannot be used: Dask cannot be imported: {problem}", hint=CURE
        ) from None
    return distributed


def check_installed() -> None:
    """Raises if Dask is not installed; does not import it."""
    if find_spec("dask") is None or find_spec("distributed") is None:
        raise DeviceError("a cluster cannot be used: Dask is not installed", hint=CURE)


def address_of(named: str) -> str:
    """The complete address of a scheduler.

    >>> address_of("10.0.0.7:8786")
    'tcp://10.0.0.7:8786'
    """
    if named.endswith(".json"):
        return _of_file(named)
    found = _ADDRESS.fullmatch(named.strip())
    scheme, host, port, path = found.groups() if found else ("", "", None, None)
    if scheme in ("http", "https"):
        raise UsageError(
            f"{named} is the address of a web page, such as Dask's dashboard, not of a scheduler",
            hint=f"the scheduler itself is at tcp://{host}:{PORT}, unless you chose another port",
        )
    if scheme == "inproc":
        return named
    if not host or path or (scheme is not None and scheme not in _SCHEMES):
        raise UsageError(f"not a scheduler's address: {named!r}", hint=f"a cluster is {_FORMS}")
    if port is None:
        near = meant(host.lower(), ("local",))
        whole = f"{scheme or 'tcp'}://{host}:{PORT}"
        hint = f'did you mean "local", or "{whole}"?' if near else f'write it as "{whole}"'
        raise UsageError(f"{named!r} has no port", hint=hint)
    if not 0 < int(port) < 1 << 16:
        raise UsageError(f"{named!r} has an invalid port: {port}", hint=f"Dask's default is {PORT}")
    return f"{scheme or 'tcp'}://{host}:{port}"


def _of_file(path: str) -> str:
    """The address in a file that `dask scheduler --scheduler-file` wrote."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)["address"]
    except OSError as problem:
        raise UsageError(
            f"cannot read the scheduler's file {path}: {problem.strerror}",
            hint="`dask scheduler --scheduler-file FILE` writes it when it starts",
        ) from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path} is not a scheduler file of Dask") from None
    return str(found)


def client_of(address: str) -> Any:
    """A client of the scheduler at an address; not Dask's default client."""
    distributed = dask()
    _knock(address)
    try:
        return distributed.Client(
            address,
            timeout=ANSWER_TIME,
            set_as_default=False,
            name="gdatalog",
            heartbeat_interval="5s",
        )
    except (OSError, ValueError, TypeError, RuntimeError) as problem:
        why = problem.__cause__ or problem
        told = " ".join(str(why).split()) or type(why).__name__
        hint = "the scheduler's Dask may be of an incompatible version"
        if address.startswith("tls:"):
            hint = "use a client with certificates: Client(address, security=...)"
        raise DeviceError(
            f"cannot connect to a Dask scheduler at {address}: {told}", hint=hint
        ) from None


def _knock(address: str) -> None:
    """Raises at once if nobody listens at an address; Dask itself would retry for long."""
    scheme, _, rest = address.partition("://")
    if scheme not in ("tcp", "tls"):
        return
    host, _, port = rest.rpartition(":")
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER_TIME) as found:
            if scheme == "tcp":
                _greeted(found, address)
    except socket.gaierror:
        raise DeviceError(
            f"there is no machine named {host!r} for a scheduler at {address}",
            hint="check the name, or use an IP address",
        ) from None
    except TimeoutError:
        raise DeviceError(
            f"nobody answers at {address} within {ANSWER_TIME:g} s",
            hint="check that the machine runs, and that its port can be reached from here",
        ) from None
    except OSError as problem:
        why = (problem.strerror or str(problem)).lower()
        raise DeviceError(
            f"no scheduler is at {address}: {why}",
            hint=f'`dask scheduler --port {port}` starts one there; the cluster "local" needs none',
        ) from None


def _greeted(found: socket.socket, address: str) -> None:
    """Checks that a Dask scheduler answers: it sends the length of its first message. Another
    server might make a Dask client wait for ever."""
    told = b""
    with suppress(TimeoutError, ConnectionError):
        while len(told) < 8 and (more := found.recv(8 - len(told))):
            told += more
    if len(told) < 8 or int.from_bytes(told, "little") > LONGEST_GREETING:
        raise DeviceError(
            f"the server at {address} is not a Dask scheduler",
            hint=f"a scheduler prints its address when it starts; its default port is {PORT}",
        )


Given = ParamSpec("Given")
Made = TypeVar("Made")
_UNREAD = "Error during deserialization of the task graph"  # the start of Dask's message


class Connection:
    """A Dask client and its cluster.

    Closing it ends what was started for it; a user's client or cluster stays open.
    """

    def __init__(self, client: Any, own: list[Any] | None = None, device: str = "cpu") -> None:
        self.client = client
        self.device = device  # of workers: "cpu", "auto" or "cuda"
        self.address = str(client.scheduler.address)
        self.dashboard = str(client.dashboard_link)  # the dashboard's URL
        self._workers: tuple[Worker, ...] | None = None
        # Also runs when the database is garbage-collected, or when Python ends.
        self.close = finalize(self, _close, own or [])  # closed in this order

    @staticmethod
    def open(cluster: Any, memory: int, threads: int = 0, device: str = "cpu") -> Connection:
        """Connects. `cluster`: a client, a Dask cluster object, a scheduler's address, or "local",
        which starts `threads` workers that share `memory` bytes; by default one for each GPU that
        they may use, or else for each core."""
        check_installed()
        quiet = "distributed" not in sys.modules  # nothing else in this process uses Dask
        own: list[Any] = []
        try:
            if cluster == "local" and not threads:
                threads = (gpus() if device != "cpu" and not plainly_none() else 0) or cores()
            connection = Connection(_client_for(cluster, memory, threads, own), own, device)
            if quiet:
                _silence()
            connection.again()
        except BaseException:
            _close(own)
            raise
        return connection

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers as of the last look."""
        if self._workers is None:
            self.again()
        assert self._workers is not None
        return self._workers

    @property
    def budget(self) -> int:
        """The bytes that a call may hold, on any worker."""
        return min(worker.budget for worker in self.workers)

    @property
    def gpus(self) -> bool:
        """Whether each worker should have a GPU; only opening one tells for sure."""
        return self.device != "cpu" and all(worker.gpu for worker in self.workers)

    def device_for(self, rows: float, thresholds: Thresholds) -> str:
        """The workers' device for work that looks at so many rows; with "auto", the CPU for few."""
        return "cpu" if self.device == "auto" and rows < thresholds.gpu_from else self.device

    def again(self) -> None:
        """Looks at the workers again."""
        if self.client.status != "running":
            raise self.lost()
        self._workers = look(self.client)

    def lost(self) -> DeviceError:
        return DeviceError(
            f"the connection to the scheduler at {self.address} is lost",
            hint="it has ended, or cannot be reached any more; connect again",
        )

    def __str__(self) -> str:
        number = len(self.workers)
        hosts = len({worker.host for worker in self.workers})
        workers = "1 worker" if number == 1 else f"{number} workers"
        return f"{workers} on {hosts} machines" if hosts > 1 else workers

    def __repr__(self) -> str:
        return f"<{self}, scheduler at {self.address}>"


def raises_if_lost(method: Callable[Given, Made]) -> Callable[Given, Made]:
    """Decorates a method of an object with a `connection`: errors caused by a lost connection say
    so."""

    @wraps(method)
    def told(*given: Given.args, **named: Given.kwargs) -> Made:
        try:
            return method(*given, **named)
        except Exception as problem:
            connection: Connection = given[0].connection  # type: ignore[attr-defined]  # a method's `self`
            closed = type(problem).__name__ == "CommClosedError"
            if str(problem).startswith(_UNREAD):
                raise DeviceError(
                    f"the scheduler at {connection.address} cannot read what this gdatalog sends "
                    f"it: {problem.__cause__ or 'it fails'}",
                    hint="it runs another version, or an older one than is installed: restart it "
                    "and its workers",
                ) from None
            if closed or (connection.client.status != "running" and not isinstance(problem, Error)):
                raise connection.lost() from None
            raise

    return told


def _client_for(cluster: Any, memory: int, threads: int, own: list[Any]) -> Any:
    """A client of a cluster. `own`: gets what is closed with the connection, in this order."""
    if cluster == "local":
        from gdatalog.cluster.workers.local import LocalWorkers

        workers = LocalWorkers.start(threads, memory)
        own.append(workers)
        client = client_of(workers.address)
    elif isinstance(cluster, str):
        client = client_of(address_of(cluster))
    elif isinstance(cluster, dask().Client):
        if cluster.asynchronous:
            raise UsageError(
                "this client is asynchronous",
                hint="use a client made by Client(..., asynchronous=False)",
            )
        if cluster.status != "running":
            raise UsageError(f"this Dask client is {cluster.status}")
        return cluster
    elif not isinstance(cluster, type) and hasattr(cluster, "scheduler_address"):
        client = dask().Client(cluster, set_as_default=False)
    else:
        raise UsageError(f"not a cluster: {cluster!r}", hint=f"it is {_FORMS}")
    own.insert(0, client)
    return client


def _silence() -> None:
    """Silences Dask's logs: errors report what happens to the connection."""
    for name in [*logging.root.manager.loggerDict, "distributed"]:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _close(own: list[Any]) -> None:
    """Closes own objects, and ignores errors."""
    while own:
        with suppress(Exception):
            own.pop(0).close()
