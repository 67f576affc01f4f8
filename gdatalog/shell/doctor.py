"""`gdatalog --doctor`: checks the installation, for users and for bug reports.

Functions import what they check.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gdatalog.account import default_limit
from gdatalog.distribution import FORMER, NAME, VERSION, beside, install
from gdatalog.progress import amount, format_bytes
from gdatalog.records import dataclass
from gdatalog.terminal_text import visible_lines

if TYPE_CHECKING:
    from gdatalog.codegen.cache import CacheSize
    from gdatalog.database import Database
    from gdatalog.settings import Strategy

NEEDED = ("numpy", "lark", "llvmlite", "pandas", "pyarrow", "click")
OPTIONAL = ("polars", "scipy", "networkx", "distributed")

SIMPLE = "p(x, y) <- e(x, y), x < y."
COMPILED = "p(x, y) <- e(x, y), e(y, x), x < y."


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `cure`: how to fix a problem."""

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
        return visible_lines("\n".join(lines))

    __repr__ = __str__

    def to_dict(self) -> dict[str, str]:
        """The findings, as plain data."""
        return {finding.name: finding.found for finding in self.findings}


def doctor(*, clear_cache: bool = False, cluster: Any = None) -> Diagnosis:
    """Checks Python, libraries, memory, caches and the GPU, and says how to fix problems.

    `clear_cache` deletes the machine code of compiled rules; they are compiled again when they
    run. `cluster`, as for `connect`, is a cluster to check too.

    >>> import gdatalog as gd
    >>> gd.doctor().to_dict()["query"]
    'works'
    """
    return Diagnosis(tuple(_findings(clear_cache, cluster)))


def _findings(clear_cache: bool, cluster: Any) -> Iterator[Finding]:
    yield from _installation()
    yield Finding("Python", f"{platform.python_version()} ({sys.executable})")
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    yield Finding("system", system)
    for package in NEEDED:
        yield from _package(package, needed=True)
    for package in OPTIONAL:
        yield from _package(package, needed=False)
    yield _processors()
    yield Finding("memory limit", f"{format_bytes(default_limit())} by default")
    yield _code_cache(clear_cache)
    yield from _gpu(clear_cache)
    yield _device()
    yield _query("query", SIMPLE, "levelwise")
    if not clear_cache:
        yield _query("compiled query", COMPILED, "lftj")
    if cluster is not None:
        yield from _cluster(cluster)


def _installation() -> Iterator[Finding]:
    """The version, and whether another package has overwritten or removed our files."""
    yield Finding("gdatalog", VERSION)
    cure = install(without=[FORMER, NAME])
    other = beside()
    if other is not None:
        found = f"{FORMER} {other} is installed too: it and {NAME} overwrite each other's files"
        yield Finding("other package", found, cure)
    elif not hasattr(sys.modules["gdatalog"], "__version__"):
        yield Finding("files", "another package has overwritten or removed some of them", cure)


def _package(package: str, needed: bool) -> Iterator[Finding]:
    try:
        found = version(package)
    except PackageNotFoundError:
        if needed:
            yield Finding(package, "not installed", f"python -m pip install {package}")
        return
    try:
        if needed:
            importlib.import_module(package)
    except Exception as problem:
        cure = f"python -m pip install --force-reinstall {package}"
        what = f"{found}, but it cannot be imported: {_one_line(problem)}"
        yield Finding(package, what, cure)
    else:
        yield Finding(package, found)


def _one_line(problem: Exception) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())


def _processors() -> Finding:
    there = os.cpu_count() or 1
    try:
        ours = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        ours = there
    return Finding("processors", str(there) if ours == there else f"{ours} of {there}")


def _code_cache(clear: bool) -> Finding:
    """The cache of compiled rules."""
    from gdatalog.codegen import cache as code_cache

    try:
        went = code_cache.clear() if clear else None
        kept, folder = code_cache.size(), code_cache.folder()
    except OSError as problem:
        cure = "set GDATALOG_CACHE to a writable folder"
        return Finding("code cache", f"none: {' '.join(str(problem).split())}", cure)
    trouble = code_cache.trouble()
    if trouble is not None:
        cure = "make the folder writable, free some space, or set GDATALOG_CACHE to another folder"
        return Finding("code cache", f"nothing is cached: {trouble}", cure)
    cleared = f"deleted {_modules(went)}; " if went is not None else ""
    return Finding("code cache", f"{cleared}{_modules(kept)} in {folder}")


def _modules(size: CacheSize) -> str:
    return f"{amount(size.modules, 'modules')}, {format_bytes(size.bytes)}"


def _gpu(clear: bool) -> Iterator[Finding]:
    """Checks driver, GPUs, CuPy and its compiler; if all work, runs queries on the GPU."""
    from gdatalog.engine.devices import ALL
    from gdatalog.gpu_ops.diagnosis import checks
    from gdatalog.gpu_ops.probe import look

    seen = look()
    found = checks(seen)
    for check in found:
        yield Finding(check.name, check.found, None if check.absent else check.cure)
    if found[-1].absent and seen.packages:
        yield Finding("CuPy", " and ".join(map(" ".join, seen.packages)))
    if all(check.cure is None for check in found):
        yield _query("GPU query", SIMPLE, "levelwise", "cuda")
        if not clear:
            yield _query("compiled GPU query", COMPILED, "lftj", "cuda")
            if len(seen.cards) > 1:
                name = f"query on {len(seen.cards)} GPUs"
                yield _asked(name, lambda: _together(ALL), timed=True)


def _device() -> Finding:
    from gdatalog.engine.devices import usable

    opened = usable()
    name = opened.device.name
    opened.device.close()
    where = "cpu" if name == "cpu" else f"cpu, and {name} for large work"
    return Finding("device", f"{where} ({opened.why})")


def _cluster(named: Any) -> Iterator[Finding]:
    """Checks a cluster's workers, and runs a query on them."""
    from gdatalog.errors import Error
    from gdatalog.opening import connect

    try:
        db = connect(device="cpu", cluster=named)
    except Error as problem:
        yield Finding("cluster", problem.message, problem.hint or "see docs/cluster.md")
        return
    with db:
        yield Finding("cluster", f"{db.cluster}, scheduler at {db.cluster.address}")
        alike = Counter((worker.threads, worker.memory) for worker in db.cluster.workers)
        for (threads, memory), number in alike.items():
            each = f"{number} of " if number > 1 else ""
            text = f"{amount(threads, 'threads')} and {format_bytes(memory)}"
            yield Finding("workers", f"{each}{text}")
        db.workspace.force(spread="replicate")
        yield _asked("query on workers", lambda: _rows(db), timed=True)


def _together(device: str) -> list[tuple[object, ...]]:
    """Runs a compiled query on several GPUs, regardless of its size."""
    from gdatalog.opening import connect

    with connect(device=device) as db:
        db.workspace.force(strategy="lftj")
        db.workspace.tune(shared_from=0)
        db["e"] = [(1, 2), (2, 1)]
        return db.query(COMPILED).fetchall()


def _rows(db: Database) -> list[tuple[object, ...]]:
    db["e"] = [(1, 2), (2, 1)]
    return db.query(SIMPLE).fetchall()


def _query(name: str, text: str, strategy: Strategy, device: str = "cpu") -> Finding:
    """Runs a query end to end. On a GPU the finding includes the time: the first query initialises
    the device."""
    from gdatalog.opening import query

    given = {"e": [(1, 2), (2, 1)]}
    return _asked(
        name,
        lambda: query(text, given, strategy=strategy, device=device).fetchall(),
        timed=device != "cpu",
    )


def _asked(name: str, ask: Callable[[], list[tuple[object, ...]]], timed: bool) -> Finding:
    started = perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # loops that fail to compile
            rows = ask()
    except Exception as problem:
        cure = f"{install()}; if that does not help, report this"
        return Finding(name, f"fails: {_one_line(problem)}", cure)
    if rows != [(1, 2)]:
        return Finding(name, f"gives {rows} instead of [(1, 2)]", "report this")
    seconds = perf_counter() - started
    return Finding(name, f"works, in {seconds:.1f} s" if seconds >= 5 or timed else "works")
