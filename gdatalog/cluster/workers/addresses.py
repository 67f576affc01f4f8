"""A scheduler by what a user names it: who answers there, and what to say where nobody does."""

from __future__ import annotations

import json
import re
import socket
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from gdatalog.errors import DeviceError, UsageError, meant

PORT = 8786  # a Dask scheduler's, where no other is said
IN_TIME = 10.0  # seconds for whoever should answer
LONGEST_GREETING = 1 << 20
CURE = 'pip install "gdatalog[cluster]"'
_SCHEMES = ("tcp", "tls", "ucx", "ws", "wss", "inproc")
_FORMS = 'a client of Dask\'s, a scheduler\'s address as "tcp://host:8786", or "local"'
_ADDRESS = re.compile(r"(?:(\w+)://)?(\[[^]]+\]|[^:/\[\]]+)(?::(\d+))?(/.*)?")


def dask() -> Any:
    """The module `distributed`; an error that names the cure where it is not installed."""
    check_installed()
    try:
        import distributed
    except ImportError as problem:
        raise DeviceError(
            f"a cluster cannot be used: Dask cannot be imported: {problem}", hint=CURE
        ) from None
    return distributed


def check_installed() -> None:
    """An error, if Dask is not; it is not imported for that."""
    if find_spec("dask") is None or find_spec("distributed") is None:
        raise DeviceError("a cluster cannot be used: Dask is not installed", hint=CURE)


def address_of(named: str) -> str:
    """The address that is meant, whole.

    >>> address_of("10.0.0.7:8786")
    'tcp://10.0.0.7:8786'
    """
    if named.endswith(".json"):
        return _of_file(named)
    found = _ADDRESS.fullmatch(named.strip())
    scheme, host, port, path = found.groups() if found else ("", "", None, None)
    if scheme in ("http", "https"):
        raise UsageError(
            f"{named} is the address of a web page, as of Dask's dashboard, not of a scheduler",
            hint=f"the scheduler itself is at tcp://{host}:{PORT}, unless it was told otherwise",
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
        raise UsageError(f"{named!r} has no port that can be: {port}", hint=f"Dask's is {PORT}")
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
        raise UsageError(f"{path} is no file of a Dask scheduler's") from None
    return str(found)


def client_of(address: str) -> Any:
    """A client of the scheduler at an address, which is not the default for what else uses Dask."""
    distributed = dask()
    _knock(address)
    try:
        return distributed.Client(
            address, timeout=IN_TIME, set_as_default=False, name="gdatalog", heartbeat_interval="5s"
        )
    except (OSError, ValueError, TypeError, RuntimeError) as problem:
        why = problem.__cause__ or problem
        told = " ".join(str(why).split()) or type(why).__name__
        hint = "gdatalog speaks to Dask schedulers; its Dask and the scheduler's may be of versions"
        hint += " that do not understand each other"
        if address.startswith("tls:"):
            hint = "give it a client that has the certificates: Client(address, security=...)"
        raise DeviceError(
            f"what answers at {address} is no Dask scheduler that can be used: {told}", hint=hint
        ) from None


def _knock(address: str) -> None:
    """Whether anybody listens, told at once: Dask itself asks again and again."""
    scheme, _, rest = address.partition("://")
    if scheme not in ("tcp", "tls"):
        return
    host, _, port = rest.rpartition(":")
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), timeout=IN_TIME) as found:
            if scheme == "tcp":
                _greeted(found, address)
    except socket.gaierror:
        raise DeviceError(
            f"there is no machine named {host!r} for a scheduler at {address}",
            hint="is the name right, and known here? An address of digits works without names",
        ) from None
    except TimeoutError:
        raise DeviceError(
            f"nobody answers at {address} within {IN_TIME:g} s",
            hint="is the machine up, and may this one reach that port?",
        ) from None
    except OSError as problem:
        why = (problem.strerror or str(problem)).lower()
        raise DeviceError(
            f"no scheduler is at {address}: {why}",
            hint=f'`dask scheduler --port {port}` starts one there; the cluster "local" needs none',
        ) from None


def _greeted(found: socket.socket, address: str) -> None:
    """Dask speaks first, the length of what it says before all. Who else answers may leave a client
    of Dask's waiting for ever."""
    told = b""
    with suppress(TimeoutError, ConnectionError):
        while len(told) < 8 and (more := found.recv(8 - len(told))):
            told += more
    if len(told) < 8 or int.from_bytes(told, "little") > LONGEST_GREETING:
        raise DeviceError(
            f"what answers at {address} is no Dask scheduler",
            hint=f"a scheduler says its address when it starts; its port is {PORT} as a rule",
        )


def refused(cluster: Any) -> UsageError:
    """What is said of something that is no cluster at all."""
    return UsageError(f"not a cluster: {cluster!r}", hint=f"it is {_FORMS}")
