"""Runs the papers' tables, prints them, and merges them into docs/benchmarks/papers.

A run of one paper keeps the other papers' results, and those of other kinds of devices. `--go-on`
goes on where the last one ran out of time, `--lines` prints each row as it is measured, and
`--merge` adds the rows that a run on another machine printed so.

Most of the time on a GPU would be compilation. Therefore processes first ask all of a paper once,
each some of the rows (`--ahead`): these times are the cold ones, and then the code is at hand.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import reduce
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from time import perf_counter
from typing import Any

import gdatalog as gd
from benchmarks.gpu.clocks import Clocked
from benchmarks.gpu.forced import gpu_driver
from benchmarks.gpu.machine import gpu
from benchmarks.machine import Facts, cores, machine
from benchmarks.papers.bench import Bench, driver_of
from benchmarks.papers.report import (
    AHEAD,
    FAILED,
    NO_TIME,
    PAPERS,
    Row,
    Run,
    added,
    in_lines,
    kept,
    line,
    merged,
    page,
    read,
    stopped_after,
    write,
)
from gdatalog.gpu_ops.device import Gpu

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "docs" / "benchmarks" / "papers"
AT_MOST = 12  # processes that compile ahead: they share a GPU's memory


class Opener:
    """Opens databases. Those of one GPU share a driver that has clocks."""

    def __init__(self) -> None:
        self._drivers: dict[bool, Clocked] = {}

    def __call__(self, device: str, *, pages: bool = True, **options: Any) -> gd.Database:
        """`pages`: whether a GPU may have pages of an index in its own memory; else it reads all of
        an index that does not fit through the link, from pinned memory."""
        if device not in ("cuda", "cuda:0") or "cluster" in options:
            return gd.connect(device=device, **options)
        if pages not in self._drivers:
            gd.connect(device=device).close()  # tells what is missing
            driver = gpu_driver()
            if not pages:
                without_pages(driver)
            self._drivers[pages] = Clocked(driver)
        db = gd.connect(device="cpu", **options)
        db.workspace.device = Gpu(self._drivers[pages], options.get("memory_limit"))
        return db


def without_pages(driver: Any) -> None:
    """A driver for which the GPU has no pages of virtual memory."""
    driver._virtual[True] = None


def main(
    arguments: Sequence[str] | None = None, connect: Callable[..., gd.Database] | None = None
) -> int:
    parser = ArgumentParser(prog="python -m benchmarks.papers", description=__doc__)
    parser.add_argument("papers", nargs="*", metavar="paper", help=f"{', '.join(PAPERS)}; or all")
    parser.add_argument("--small", action="store_true", help="tiny graphs: to see that all runs")
    parser.add_argument("--full", action="store_true", help="larger graphs too")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:N")
    parser.add_argument(
        "--cap", type=float, help="seconds after which a run stops (default: 20; on a GPU 10)"
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="for each paper (default: 5)")
    parser.add_argument("--out", type=Path, help="the folder of the report")
    parser.add_argument("--table", default="", metavar="TEXT", help="only tables named so")
    parser.add_argument("--go-on", action="store_true", help="measure what the last run has not")
    parser.add_argument("--lines", action="store_true", help="print each row as a line of JSON")
    parser.add_argument("--merge", type=Path, metavar="FILE", help="only add such lines of a file")
    parser.add_argument(
        "--ahead",
        type=int,
        metavar="N",
        help="processes that first ask all once, to compile (default: 0; on a GPU half the cores)",
    )
    parser.add_argument("--claims", type=Path, help="of such a process: where it claims rows")
    options = parser.parse_args(arguments)
    if unknown := set(options.papers) - set(PAPERS):
        parser.error(f"no paper {', '.join(sorted(unknown))}; there are {', '.join(PAPERS)}")
    usual = 20.0 if options.device == "cpu" else 10.0
    options.cap = usual if options.cap is None else options.cap
    out = options.out or (None if options.small else OUT)
    earlier = read(out) if out is not None else []
    if options.merge is not None:
        new = in_lines(options.merge.read_text(encoding="utf-8"))
        write(out or OUT, reduce(added, ([run] for run in new), earlier))
        return 0
    usual_ahead = 0 if options.device == "cpu" or connect else min(AT_MOST, cores() // 2)
    ahead = usual_ahead if options.ahead is None else options.ahead
    connect = connect or Opener()
    facts: Facts = machine()
    try:
        with connect(device=options.device) as db:
            if driver := driver_of(db):
                facts = {**gpu(driver), **facts}
    except gd.DeviceError as reason:
        print(f"no benchmark on {options.device}: {reason}", file=sys.stderr)
        return 0
    kind = options.device.partition(":")[0]
    bench = Bench(options.small, options.full, options.device, options.cap, connect)
    bench.claims = options.claims
    bench.known = {
        (row.table, row.work): row.answer
        for run in earlier
        for row in run.rows
        if run.kind == "cpu" != kind and row.answer is not None and not row.trouble
    }
    bench.supports = {
        row.work: row.more["supports"]
        for run in earlier
        for row in run.rows
        if "supports" in row.more and not row.trouble
    }
    command = "python -m benchmarks.papers"
    command += " --go-on" if options.go_on else ""
    command += " --full" if options.full else ""
    command += f" --table '{options.table}'" if options.table else ""
    command += f" --device {options.device}" if options.device != "cpu" else ""
    usuals = ("cap", usual), ("minutes", parser.get_default("minutes")), ("ahead", usual_ahead)
    for name, default in usuals:
        if (told := getattr(options, name)) not in (None, default):
            command += f" --{name} {told:g}"
    runs, began = [], perf_counter()
    for name in options.papers or PAPERS:
        bench.begin(options.minutes, options.table)
        if ahead and bench.claims is None:
            bench.colds = _ahead(options, name, ahead)
        bench.done = _done(earlier, name, kind, options.cap, facts) if options.go_on else {}
        rows: list[Row] = []
        run: Callable[[Bench], Iterator[Row]] = import_module(f"benchmarks.papers.{name}").run
        for row in run(bench):
            rows.append(row)
            if bench.done.get(row.key) is row:
                continue
            shown = row.trouble or f"{row.answer or row.more} (cold {row.cold or 0:.3g} s)"
            took = f"{perf_counter() - began:.1f} s"
            print(f"{took}: {row.table}: {row.work}: {shown}", file=sys.stderr)
            if options.lines and row.trouble != NO_TIME and (row.cold or row.trouble != AHEAD):
                told = Run(name, kind, f"{command} {name}", options.cap, facts, [row])
                print(line(told), flush=True)
        runs.append(Run(name, kind, f"{command} {name}", options.cap, facts, rows))
        if out is not None and bench.claims is None:
            write(out, merged(earlier, runs))
    if not options.lines:
        print(page(runs))
    bad = "WRONG", FAILED
    wrong = any(row.trouble.startswith(bad) for run in runs for row in run.rows)
    return int(wrong)


def _ahead(options: Namespace, paper: str, processes: int) -> dict[tuple[str, str], float]:
    """Has all of a paper asked once by so many processes, for at most half of its time. Returns the
    seconds of each row."""
    command = [sys.executable, "-m", "benchmarks.papers", paper, "--lines"]
    for flag in ("small", "full", "go_on"):
        command += [f"--{flag.replace('_', '-')}"] if getattr(options, flag) else []
    out = options.out and options.out.resolve()
    told = {"device": options.device, "table": options.table, "out": out}
    told |= {"cap": 2 * options.cap, "minutes": options.minutes / 2}
    command += [f"--{name}={value}" for name, value in told.items() if value]
    until = perf_counter() + 30 * options.minutes
    colds: dict[tuple[str, str], float] = {}
    with ExitStack() as stack:
        command += ["--claims", stack.enter_context(TemporaryDirectory())]
        begun = []
        for _ in range(processes):
            lines = stack.enter_context(TemporaryFile("w+", encoding="utf-8"))
            here = {"cwd": ROOT, "stdout": lines, "stderr": subprocess.DEVNULL}
            begun.append((lines, subprocess.Popen(command, **here)))
        for lines, process in begun:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - perf_counter()))
            process.kill()
            process.wait()
            lines.seek(0)
            colds |= _colds(lines.read())
    return colds


def _colds(text: str) -> dict[tuple[str, str], float]:
    rows = (row for run in in_lines(text) for row in run.rows)
    return {row.key: row.cold for row in rows if row.cold is not None}


def _done(
    earlier: Sequence[Run], paper: str, kind: str, cap: float, here: Facts
) -> dict[tuple[str, str], Row]:
    """The rows that a paper has already, by what they are of; what was stopped is tried again if it
    may take longer now."""
    mine = (run for run in earlier if (run.paper, run.kind) == (paper, kind))
    rows = [row for run in mine for row in kept(run, here)]
    return {row.key: row for row in rows if not row.trouble or stopped_after(row) >= cap}


if __name__ == "__main__":
    sys.exit(main())
