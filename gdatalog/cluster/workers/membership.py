"""The workers of a cluster, as they were when somebody looked: which there are, what each has."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache
from time import monotonic, sleep
from typing import Any

from gdatalog.cancellation import PATIENCE
from gdatalog.errors import DeviceError
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass

VERSION: str = sys.modules["gdatalog"].__version__  # of the package, which imports this
IN_TIME = 30.0  # seconds for the first worker to come: a queue's may begin all at once
USED = 0.6  # of a worker's memory: from there on Dask moves what it holds to disk
# A number that tells the package's files from others; line ends may be those of the machine.
_SOURCES = (
    "__import__('zlib').crc32(b''.join(file.read_bytes().replace(b'\\r', b'') for file in "
    "sorted(__import__('pathlib').Path(__import__('gdatalog').__path__[0]).rglob('*.py'))))"
)
# Evaluated where gdatalog may be missing, by a Python that may be another: a text.
_LOOK = (
    "(__import__('platform').python_version(), __import__('gdatalog').__version__, "
    f"__import__('distributed.system').system.MEMORY_LIMIT, {_SOURCES}, "
    "not __import__('gdatalog.engine.no_gpu').engine.no_gpu.plainly_none())"
)
_PYTHON = "{}.{}".format(*sys.version_info)


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that runs so many calls at once. `memory`: the bytes that it may hold, as Dask was
    told, or else its share of its machine's. `gpu`: whether its machine may have a GPU."""

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
    """The workers of a cluster, which has some and can run our work: else an error."""
    until = monotonic() + IN_TIME
    while True:
        told = _there(client)
        found = client.run(eval, _LOOK, on_error="return")
        answers = {at: it for at, it in found.items() if not isinstance(it, OSError)}
        if answers:
            found = answers  # the others have just died
        elif monotonic() < until:  # so have all; others come in their place, perhaps
            sleep(PATIENCE)
            continue
        told = {address: of for address, of in told.items() if address in found}
        if told:
            break
    places: dict[str, Any] = {f"the worker at {address}": found[address] for address in told}
    try:
        places["the scheduler"] = client.run_on_scheduler(eval, _LOOK)
    except ImportError as problem:  # it reads what we send it, too
        places["the scheduler"] = problem
    except Exception:  # some are told to run nothing, and nothing is known of them
        pass
    _check(places)
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
    """Worker 2 comes before worker 10."""
    text = str(name)
    return len(text) if text.isdecimal() else sys.maxsize, text


def _there(client: Any) -> Mapping[str, Any]:
    """What the scheduler tells of its workers, after a while if there are none yet."""
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
    """What the scheduler tells of each worker, by its address."""
    while True:
        told: Mapping[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
        # A client asks every two seconds for itself, without workers, and may give that instead.
        if told.keys() >= client.nthreads().keys():
            return told


def _check(places: Mapping[str, Any]) -> None:
    problems = [(who, *why) for who, found in places.items() if (why := problem_of(found))]
    if problems:
        who, told, cure = problems[0]
        more = f"; so it is at {len(problems) - 1} more of {len(places)}" if problems[1:] else ""
        raise DeviceError(f"{who} cannot be used: {told}{more}", hint=cure)


def problem_of(found: Any) -> tuple[str, str] | None:
    """What is wrong with a place, and the cure, by what it said of itself."""
    if isinstance(found, OSError):
        return f"it does not answer: {found}", "see whether it still runs; its log says more"
    if isinstance(found, BaseException):
        missing = isinstance(found, ModuleNotFoundError) and found.name == "gdatalog"
        told = "gdatalog is not installed there"
        if not missing:
            told = f"gdatalog cannot be imported there: {type(found).__name__}: {found}"
        return told, f"install gdatalog {VERSION} there too, in the Python that it runs in"
    python, version, _, files, *_ = found
    if ".".join(python.split(".")[:2]) != _PYTHON:
        told = f"its Python is {python}, and here it is {sys.version.split()[0]}"
        return told, f"start it with a Python {_PYTHON}"
    if version != VERSION:
        told = f"its gdatalog is {version}, and here it is {VERSION}"
        return told, f"install gdatalog {VERSION} there too, in the Python that it runs in"
    if files != sources():
        told = f"its gdatalog is {version} as here, but made of other files"
        return told, "install the same there as here, and start it anew"
    return None


@cache
def sources() -> int:
    """The number that tells this package's files from others of the same version."""
    return int(eval(_SOURCES))
