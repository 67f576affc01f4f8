"""Answers and inputs that are larger than the memory limit, as Parquet files and as CSV, beside
DuckDB with the same limit: seconds, and the most memory that each process held.

    python -m benchmarks.large_files --gigabytes 20 --limit 1GiB
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import isqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
ROW = 24  # bytes of a row of three ints
QUERY = "p(x, y, h) <- A(x), B(y), h = (x * 1000003) bxor (y * 998244353)."
PEER = """COPY (SELECT A.x, B.y, xor(A.x * 1000003, B.y * 998244353) AS h
FROM range({side}) A(x), range({side}) B(y)) TO '{path}' (FORMAT parquet, COMPRESSION zstd)"""
SCAN = "n(count(), max(h)) <- f(x, _, h), x >= $least."
SCAN_PEER = "SELECT count(*), max(h) FROM f WHERE x >= {least}"


@dataclass(frozen=True, slots=True)
class Seen:
    """What one process did: `anonymous` and `resident` are the most bytes beyond what it held
    before, without and with mapped files; `spilled`, the bytes in temporary files."""

    side: str
    work: str
    seconds: float
    anonymous: int
    resident: int
    spilled: int
    size: int
    answer: list[int]

    def told(self) -> str:
        mib = 1 << 20
        return (
            f"{self.side:8} {self.work:6} {self.seconds:8.2f} s  {self.anonymous / mib:8.0f} MiB "
            f"of its own, {self.resident / mib:8.0f} MiB with files; "
            f"{self.spilled / mib:8.0f} MiB spilled; file {self.size / mib:8.0f} MiB"
        )


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20.0, help="of values in the file")
    parser.add_argument("--limit", default="1GiB")
    parser.add_argument("--folder", type=Path, help="for the files; default: a temporary one")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="gdatalog-large-", dir=options.folder) as folder:
        found = compared(Path(folder), int(options.gigabytes * 1e9), options.limit)
    for seen in found:
        print(seen.told())
    same = all(len({str(s.answer) for s in found if s.work == work}) == 1 for work in WORKS)
    print("the answers are the same" if same else "WRONG: the answers differ")
    return 0 if same else 1


def compared(folder: Path, size: int, limit: str) -> list[Seen]:
    """Each side writes a file of so many bytes of values, and reads the one that we wrote."""
    side = max(2, isqrt(size // ROW))
    found = []
    for work in WORKS:
        for who in ("ours", "DuckDB"):
            found.append(_apart(who, work, side, limit, folder))
            print(found[-1].told(), file=sys.stderr)
    return found


def _apart(who: str, work: str, side: int, limit: str, folder: Path) -> Seen:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.large_files", "--one", who, work, str(side), limit]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, str(folder)], cwd=ROOT, env=path, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{who}, {work}: {done.stderr[-2000:]}")
    return Seen(**json.loads(done.stdout))


# ------------------------------------------------------------------------------------ one process


def _ours_write(side: int, limit: str, path: Path) -> tuple[Callable[[], object], object]:
    import numpy as np

    import gdatalog as gd

    db = gd.connect(device="cpu", memory_limit=limit)
    db["A"], db["B"] = {"x": np.arange(side)}, {"y": np.arange(side)}
    tiny = gd.connect(device="cpu")  # imports and compiles what it takes
    tiny["A"], tiny["B"] = {"x": np.arange(600)}, {"y": np.arange(600)}
    tiny.query(QUERY).to_parquet(f"{path}.tiny.parquet")
    return lambda: db.query(QUERY).to_parquet(path), db


def _ours_read(side: int, limit: str, path: Path) -> tuple[Callable[[], object], object]:
    import gdatalog as gd

    tiny = gd.connect(device="cpu")  # imports what it takes
    tiny["f"] = path.with_name("ours.parquet.tiny.parquet")
    tiny.query(SCAN, {"least": 2})
    db = gd.connect(device="cpu", memory_limit=limit)

    def scanned() -> object:
        db["f"] = path
        return [int(each) for each in db.query(SCAN, {"least": side // 2}).fetchall()[0]]

    return scanned, db


def _duck_write(side: int, limit: str, path: Path) -> tuple[Callable[[], object], object]:
    db = _duck(limit, path)
    return lambda: db.execute(PEER.format(side=side, path=path)).fetchall(), None


def _duck_read(side: int, limit: str, path: Path) -> tuple[Callable[[], object], object]:
    db = _duck(limit, path)

    def scanned() -> object:
        # As we do: the rows are loaded, and equal ones are one.
        db.execute(f"CREATE TABLE f AS SELECT DISTINCT * FROM '{path}'")
        found = db.execute(SCAN_PEER.format(least=side // 2)).fetchone()
        return [int(each) for each in found or ()]

    return scanned, None


def _duck(limit: str, path: Path):  # type: ignore[no-untyped-def]
    import duckdb

    db = duckdb.connect(f"{path}.duckdb")
    db.execute(f"SET memory_limit = '{limit}'")
    db.execute("SET preserve_insertion_order = false")
    db.execute(f"SET temp_directory = '{path}.tmp'")
    return db


WORKS = ("write", "read", "CSV")
_HOW = {
    ("ours", "write"): _ours_write,
    ("ours", "read"): _ours_read,
    ("ours", "CSV"): _ours_read,
    ("DuckDB", "write"): _duck_write,
    ("DuckDB", "read"): _duck_read,
    ("DuckDB", "CSV"): _duck_read,
}


def _one(who: str, work: str, side: int, limit: str, folder: Path) -> Seen:
    from benchmarks import memory

    path = folder / (f"{who}.parquet" if work == "write" else "ours.parquet")
    if work == "CSV":
        path = _as_csv(path)
    run, db = _HOW[who, work](side, limit, path)
    memory.forget()
    resident = memory.resident()
    with Watched() as watched:
        began = perf_counter()
        answer = run()
        seconds = perf_counter() - began
    peak = memory.peak()
    told = answer if isinstance(answer, list) and work != "write" else _sums(path)
    spill = None if db is None else db.workspace.spill  # type: ignore[attr-defined]
    spilled = 0 if spill is None else int(spill.written)
    size = path.stat().st_size
    return Seen(
        who, work, seconds, watched.most, peak - resident, spilled, size, told
    )  # fmt: skip


class Watched:
    """Within, `most` becomes the most bytes that the process holds beyond what it held before;
    mapped files do not count."""

    def __enter__(self) -> Watched:
        self.most, self._before, self._ended = 0, _anonymous(), Event()
        self._watcher = Thread(target=self._look)
        self._watcher.start()
        return self

    def _look(self) -> None:
        while not self._ended.wait(0.01):
            self.most = max(self.most, _anonymous() - self._before)

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._watcher.join()


def _as_csv(path: Path) -> Path:
    """The rows of a Parquet file as CSV."""
    import duckdb

    into = path.with_suffix(".csv")
    if not into.exists():
        duckdb.execute(f"COPY (FROM '{path}') TO '{into}'")
    return into


def _sums(path: Path) -> list[int]:
    """How many rows a file has, and the sum of each column."""
    import duckdb

    query = f"SELECT count(*), sum(x), sum(y), sum(h) FROM '{path}'"
    return [int(each) for each in duckdb.execute(query).fetchone() or ()]


def _anonymous() -> int:
    """The bytes of this process that lie in no file."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        who, work, side, limit, folder = sys.argv[2:]
        print(json.dumps(asdict(_one(who, work, int(side), limit, Path(folder)))))
    else:
        sys.exit(main())
