"""Benchmark rows as a Markdown table, with the machine and the versions they were seen on."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.measure import Row
from benchmarks.peers import THREADS

_PACKAGES = ("numpy", "pandas", "pyarrow", "duckdb")


def machine() -> dict[str, str | int | float]:
    """What kind of machine this is; nothing that tells which one."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory GiB": round(memory / (1 << 30)),
        "load before": round(os.getloadavg()[0], 1),
        "threads of peers": THREADS,
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def markdown(rows: Sequence[Row], facts: Mapping[str, str | int | float]) -> str:
    """The whole report."""
    return "\n".join(_lines(rows, facts)) + "\n"


def _lines(rows: Sequence[Row], facts: Mapping[str, str | int | float]) -> Iterator[str]:
    yield "# Benchmarks"
    yield ""
    yield "Made by `make bench`. Both sides of a row ran in turns and gave equal answers; seconds"
    yield "are medians, unless a note says otherwise. *warm* is a query on data that is loaded and"
    yield "indexed, *cold* includes loading and indexing. *faster* says how many times our time the"
    yield "peer needs: below 1 the peer is faster. Nothing here ran on a GPU."
    yield ""
    yield ", ".join(f"{key}: {value}" for key, value in facts.items()) + "."
    yield ""
    yield "| what | ours, warm | ours, cold | peer | warm | cold | faster | asked for |"
    yield "| --- | ---: | ---: | --- | ---: | ---: | ---: | --- |"
    traps: list[str] = []
    for row in rows:
        if row.trap not in traps:
            traps.append(row.trap)
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
        met = {None: "", True: "met: ", False: "**not met**: "}[row.met] + row.wanted
        yield (
            f"| {row.what} [{traps.index(row.trap) + 1}] | {_seconds(row.seconds)} "
            f"| {_seconds(row.cold)} | {row.peer} | {_seconds(row.peer_seconds)} "
            f"| {_seconds(row.peer_cold)} | {ratio} | {met} |"
        )
    yield ""
    yield "What the figures do not say:"
    yield ""
    for number, trap in enumerate(traps, 1):
        yield f"{number}. {trap}."


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3f}"
