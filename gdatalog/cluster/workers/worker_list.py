"""The workers of a cluster: their machines and memory, and whether they can run our code."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache
from time import monotonic, sleep
from typing import Any

from gdatalog.cancellation import PATIENCE
from gdatalog.distribution import VERSION, install
from gdatalog.errors import DeviceError
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass

CURE = install("cluster")


IN_TIME = 30.0  # seconds for the first worker to start: those of a queue may all start late
USED = 0.6  # share of a worker's memory at which Dask starts to spill
# A checksum of the package's files; line ends may differ.
_SOURCES = (
    "__import__('zlib').crc32(b''.join(file.read_bytes().replace(b'\\r', b'') for file in "
    "sorted(__import__('pathlib').Path(__import__('gdatalog').__path__[0]).rglob('*.py'))))"
)
# Source text, because another Python evaluates it, perhaps without gdatalog.
_LOOK = (
    "(__import__('platform').python_version(), __import__('gdatalog').__version__, "
    f"__import__('distributed.system').system.MEMORY_LIMIT, {_SOURCES}, "
    "not __import__('gdatalog.engine.nvidia').engine.nvidia.plainly_none())"
)
_PYTHON = "{}.{}".format(*sys.version_info)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process. `memory`: its limit in bytes, or else its share of the machine's memory.
    `gpu`: whether its machine may have a GPU."""

    address: str
    name: str
    host: str
    threads: int
    memory: int
    gpu: bool = False

    @property
    def budget(self) -> int:
        """The bytes that one call may hold."""
        return int(self.memory * USED) // max(1, self.threads)

    def __str__(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{self.address}: {threads}, {format_bytes(self.memory)}"


def look(client: Any) -> tuple[Worker, ...]:
    """The cluster's workers; raises if there are none, or if they cannot run our calls."""
    until = monotonic() + IN_TIME
    while True:
        told = _there(client)
        found = client.run(eval, _LOOK, on_error="return")
        answers = {at: it for at, it in found.items() if not isinstance(it, OSError)}
        if answers:
            found = answers  # the others have just died
        elif monotonic() < until:  # all have just died; others may replace them
            sleep(PATIENCE)
            continue
        told = {address: of for address, of in told.items() if address in found}
        if told:
            break
    places: dict[str, Any] = {f"the worker at {address}": found[address] for address in told}
    try:
        places["the scheduler"] = client.run_on_scheduler(eval, _LOOK)
    except ImportError as problem:  # the scheduler unpickles our calls, too
        places["the scheduler"] = problem
    except Exception:  # some schedulers run no functions; then we know nothing of them
        pass
    problems = [(who, *why) for who, found in places.items() if (why := problem_of(found))]
    if problems:
        who, wrong, cure = problems[0]
        more = f"; the same at {len(problems) - 1} more of {len(places)}" if problems[1:] else ""
        raise DeviceError(f"{who} cannot be used: {wrong}{more}", hint=cure)
    mates = Counter(of["host"] for of in told.values())
    return tuple(
        Worker(
            address,
            str(of["name"]),
            of["host"],
            of["nthreads"],
            of["memory_limit"] or found[address][2] // mates[of["host"]],
            found[address][4],
        )
        for address, of in sorted(told.items(), key=lambda item: _natural(item[1]["name"]))
    )


def _natural(name: object) -> tuple[int, str]:
    """A sort key: worker 2 comes before worker 10."""
    text = str(name)
    return len(text) if text.isdecimal() else sys.maxsize, text


def _there(client: Any) -> Mapping[str, Any]:
    """The scheduler's report of its workers; waits if there are none."""
    until = monotonic() + IN_TIME
    while True:
        found = workers_told(client)
        if found:
            return found
        if monotonic() > until:
            address = client.scheduler.address
            raise DeviceError(
                f"the cluster at {address} has no workers: none came within {IN_TIME:.0f} s",
                hint=f"`dask worker {address}` starts one; client.wait_for_workers(1) waits for "
                "those of a queue",
            )
        sleep(PATIENCE)


def workers_told(client: Any) -> Mapping[str, Any]:
    """The scheduler's report of each worker, by address."""
    while True:
        told: Mapping[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
        # The client's own poll, every two seconds, omits workers; it may be returned instead.
        if told.keys() >= client.nthreads().keys():
            return told


def problem_of(found: Any) -> tuple[str, str] | None:
    """What is wrong with a worker or the scheduler, and a hint, from its report."""
    if isinstance(found, OSError):
        return f"it does not answer: {found}", "check that it still runs; see its log"
    if isinstance(found, BaseException):
        missing = isinstance(found, ModuleNotFoundError) and found.name == "gdatalog"
        told = "gdatalog is not installed there"
        if not missing:
            told = f"gdatalog cannot be imported there: {type(found).__name__}: {found}"
        return told, f"install gdatalog {VERSION} in the Python that it runs in; {CURE}"
    python, version, _, files, *_ = found
    if ".".join(python.split(".")[:2]) != _PYTHON:
        told = f"its Python is {python}, and here it is {sys.version.split()[0]}"
        return told, f"start it with a Python {_PYTHON}"
    if version != VERSION:
        told = f"its gdatalog is {version}, and here it is {VERSION}"
        return told, f"install gdatalog {VERSION} in the Python that it runs in; {CURE}"
    if files != sources():
        told = f"its gdatalog is {version} as here, but its files differ"
        return told, "install the same files there, and restart it"
    return None


@cache
def sources() -> int:
    """The checksum of this package's files."""
    return int(eval(_SOURCES))
