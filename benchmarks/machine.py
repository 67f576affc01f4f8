"""What kind of machine this is, and which versions ran; nothing that tells which one."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.peers import PACKAGES
from benchmarks.sides import THREADS

OURS = ("numpy", "numba", "pandas", "pyarrow")

LOAD, BUSY = "load before", 1.0  # from then on figures are not to be trusted


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
        LOAD: round(os.getloadavg()[0], 1),
        "threads of each side": THREADS,
        "python": platform.python_version(),
        **_versions(),
    }


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
