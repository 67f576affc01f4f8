"""What gdatalog finds on a machine: to read, and to put into a bug report.

What only this needs is imported inside the functions: `import gdatalog` imports this file.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gdatalog.cpu_ops.code_cache import Size
    from gdatalog.engine.knobs import Strategy

NEEDED = ("numpy", "numba", "pandas", "pyarrow", "lark", "click")
OPTIONAL = ("cupy-cuda12x", "cupy-cuda13x", "polars", "scipy", "networkx")

COMPILED = "p(x, y) <- e(x, y), e(y, x), x < y."


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `cure`: what to do, where it is not well."""

    name: str
    found: str
    cure: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings; prints as a table."""

    findings: tuple[Finding, ...]

    @property
    def well(self) -> bool:
        return all(finding.cure is None for finding in self.findings)

    def __str__(self) -> str:
        wide = max(len(finding.name) for finding in self.findings)
        lines = []
        for finding in self.findings:
            lines.append(f"{finding.name:<{wide}}  {finding.found}")
            if finding.cure:
                lines.append(f"{'':<{wide}}  -> {finding.cure}")
        return "\n".join(lines)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """The findings, as plain data."""
        return {finding.name: finding.found for finding in self.findings}


def doctor(*, clear_cache: bool = False) -> Diagnosis:
    """What gdatalog finds: Python, libraries, memory, caches, GPU; and what to install.

    `clear_cache` deletes the machine code of rules that were compiled. It comes back as they
    are run.

    >>> import gdatalog as gd
    >>> gd.doctor().to_dict()["a query"]
    'answered'
    """
    import platform

    from gdatalog import __version__

    return Diagnosis(
        (
            Finding("gdatalog", __version__),
            Finding("Python", f"{platform.python_version()} ({sys.executable})"),
            Finding("system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
            *map(_needed, NEEDED),
            *filter(None, map(_optional, OPTIONAL)),
            _processors(),
            _memory(),
            _code_cache(clear_cache),
            _gpu(),
            Finding("device", "cpu (this version of gdatalog does not use a GPU)"),
            _query("a query", "p(x, y) <- e(x, y), x < y.", "levelwise"),
            *(() if clear_cache else (_query("a compiled one", COMPILED, "lftj"),)),
        )
    )


def _needed(package: str) -> Finding:
    from importlib import import_module

    found = _version(package)
    if found is None:
        return Finding(package, "not there", f"python -m pip install {package}")
    try:
        import_module(package)
    except Exception as problem:
        what = " ".join(f"{type(problem).__name__}: {problem}".split())
        cure = f"python -m pip install --force-reinstall {package}"
        return Finding(package, f"{found}, but it cannot be imported: {what}", cure)
    return Finding(package, found)


def _optional(package: str) -> Finding | None:
    found = _version(package)
    return None if found is None else Finding(package, found)


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processors() -> Finding:
    there = os.cpu_count() or 1
    try:
        ours = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        ours = there
    return Finding("processors", str(there) if ours == there else f"{ours} of {there}")


def _memory() -> Finding:
    from gdatalog.engine.budget import default_limit
    from gdatalog.executors.limits import format_bytes

    return Finding("memory limit", f"{format_bytes(default_limit())} unless another is given")


def _code_cache(clear: bool) -> Finding:
    """Where the machine code of rules is kept."""
    from gdatalog.cpu_ops import code_cache

    try:
        went = code_cache.clear() if clear else None
        kept, folder = code_cache.size(), code_cache.folder()
    except OSError as problem:
        cure = "set GDATALOG_CACHE to a folder that can be written to"
        return Finding("code cache", f"none: {' '.join(str(problem).split())}", cure)
    trouble = code_cache.trouble()
    if trouble is not None:
        cure = "make the folder yours, or make room, or set GDATALOG_CACHE to another folder"
        return Finding("code cache", f"nothing is kept: {trouble}", cure)
    cleared = f"cleared of {_modules(went)}; " if went is not None else ""
    return Finding("code cache", f"{cleared}{_modules(kept)} in {folder}")


def _modules(size: Size) -> str:
    from gdatalog.executors.limits import format_bytes

    number = "1 module" if size.modules == 1 else f"{size.modules:,} modules"
    return f"{number}, {format_bytes(size.bytes)}"


def _gpu() -> Finding:
    import shutil
    import subprocess

    if shutil.which("nvidia-smi") is None:
        return Finding("GPU", "none found (there is no nvidia-smi)")
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return Finding("GPU", f"nvidia-smi does not answer: {problem}", "look after the driver")
    if done.returncode != 0:
        said = " ".join((done.stdout + done.stderr).split())[:200]
        return Finding("GPU", f"nvidia-smi fails: {said}", "look after the driver")
    cards = [", driver ".join(line.rsplit(", ", 1)) for line in done.stdout.strip().splitlines()]
    return Finding("GPU", "; ".join(cards) or "none")


def _query(name: str, text: str, strategy: Strategy) -> Finding:
    """Whether all of it works together."""
    from gdatalog.database import query

    started = perf_counter()
    try:
        rows = query(text, {"e": [(1, 2), (2, 1)]}, strategy=strategy).fetchall()
    except Exception as problem:
        what = " ".join(f"{type(problem).__name__}: {problem}".split())
        return Finding(name, f"fails: {what}", "reinstall gdatalog, and report this")
    if rows != [(1, 2)]:
        return Finding(name, f"gives {rows}, not [(1, 2)]", "report this, please")
    seconds = perf_counter() - started
    return Finding(name, "answered" if seconds < 5 else f"answered in {seconds:.1f} s")
