"""What kind of machine this is, and which versions ran; nothing that tells which one."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import sleep

from benchmarks.peers import PACKAGES
from benchmarks.sides import THREADS

OURS = ("numpy", "llvmlite", "numba", "pandas", "pyarrow")

Facts = Mapping[str, str | int | float]
LOAD, BUSY = "load before", 1.0  # above that, figures are not to be trusted
PAUSE = 5.0  # seconds between two looks at the load


def load() -> float:
    """How many processes wanted to run, on average over the last minute."""
    return round(os.getloadavg()[0], 1)


def wait_until_quiet(minutes: float, pause: Callable[[float], object] = sleep) -> float:
    """The load, once it is low enough for figures to be trusted, or after so many minutes."""
    found, left = load(), 60 * minutes
    if found > BUSY and left > 0:
        print(
            f"the machine is busy (load {found}): waiting for at most {minutes:g} minutes",
            file=sys.stderr,
        )
    while found > BUSY and left > 0:
        pause(PAUSE)
        found, left = load(), left - PAUSE
    return found


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30))


def machine() -> dict[str, str | int | float]:
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": cores(),
        "memory GiB": memory_gib(),
        LOAD: load(),
        "threads of each side": THREADS,
        "python": platform.python_version(),
        **_versions(),
    }


def named(facts: Facts) -> str:
    """
    >>> named({"processor": "Some CPU", "cores": 2, "memory GiB": 24})
    'Some CPU, 2 cores, 24 GiB of memory'
    """
    told = [str(facts.get("processor", "this machine"))]
    told += [f"{facts['cores']} cores"] if "cores" in facts else []
    told += [f"{facts['memory GiB']} GiB of memory"] if "memory GiB" in facts else []
    return ", ".join(told)


def rough(facts: Facts) -> str:
    """What to say of figures from a machine that was busy; nothing of others."""
    load = float(facts.get(LOAD, 0))
    text = f"Others used the machine too (load {load:g} before the run), so times are rough.\n"
    return text if load > BUSY else ""


def same_machine() -> str:
    """Machines for which this is the same are taken to be equally fast."""
    return f"{_processor()}, {platform.machine()}, {cores()} cores, {memory_gib()} GiB"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _versions() -> dict[str, str]:
    found = {}
    for name in (*OURS, *PACKAGES):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
