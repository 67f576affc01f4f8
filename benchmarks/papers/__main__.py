"""Runs the papers' tables, prints them, and merges them into docs/benchmarks/papers.

A run of one paper keeps the other papers' results, and those of other kinds of devices. `--go-on`
goes on where the last one ran out of time, `--lines` prints each row as it is measured, and
`--merge` adds the rows that a run on another machine printed so.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import gdatalog as gd
from benchmarks.gpu.clocks import Clocked
from benchmarks.gpu.forced import gpu_driver
from benchmarks.gpu.machine import gpu
from benchmarks.machine import Facts, machine
from benchmarks.papers.bench import Bench, driver_of
from benchmarks.papers.report import (
    NO_TIME,
    PAPERS,
    Row,
    Run,
    added,
    in_lines,
    line,
    merged,
    page,
    read,
    stopped_after,
    write,
)
from gdatalog.gpu_ops.device import Gpu

OUT = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "papers"


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
        "--cap", type=float, help="seconds after which a run stops (default: 20; on a GPU 5)"
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="for each paper (default: 5)")
    parser.add_argument("--out", type=Path, help="the folder of the report")
    parser.add_argument("--table", default="", metavar="TEXT", help="only tables named so")
    parser.add_argument("--go-on", action="store_true", help="measure what the last run has not")
    parser.add_argument("--lines", action="store_true", help="print each row as a line of JSON")
    parser.add_argument("--merge", type=Path, metavar="FILE", help="only add such lines of a file")
    options = parser.parse_args(arguments)
    if unknown := set(options.papers) - set(PAPERS):
        parser.error(f"no paper {', '.join(sorted(unknown))}; there are {', '.join(PAPERS)}")
    usual = 20.0 if options.device == "cpu" else 5.0
    options.cap = usual if options.cap is None else options.cap
    out = options.out or (None if options.small else OUT)
    earlier = read(out) if out is not None else []
    if options.merge is not None:
        new = in_lines(options.merge.read_text(encoding="utf-8"))
        write(out or OUT, reduce(added, ([run] for run in new), earlier))
        return 0
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
    for name, default in (("cap", usual), ("minutes", parser.get_default("minutes"))):
        if (told := getattr(options, name)) != default:
            command += f" --{name} {told:g}"
    runs, began = [], perf_counter()
    for name in options.papers or PAPERS:
        bench.begin(options.minutes, options.table)
        bench.done = _done(earlier, name, kind, options.cap) if options.go_on else {}
        rows: list[Row] = []
        run: Callable[[Bench], Iterator[Row]] = import_module(f"benchmarks.papers.{name}").run
        for row in run(bench):
            rows.append(row)
            if bench.done.get(row.key) is row:
                continue
            shown = row.trouble or f"{row.answer or row.more} (cold {row.cold or 0:.3g} s)"
            took = f"{perf_counter() - began:.1f} s"
            print(f"{took}: {row.table}: {row.work}: {shown}", file=sys.stderr)
            if options.lines and row.trouble != NO_TIME:
                told = Run(name, kind, f"{command} {name}", options.cap, facts, [row])
                print(line(told), flush=True)
        runs.append(Run(name, kind, f"{command} {name}", options.cap, facts, rows))
        if out is not None:
            write(out, merged(earlier, runs))
    if not options.lines:
        print(page(runs))
    wrong = any(row.trouble.startswith("WRONG") for run in runs for row in run.rows)
    return int(wrong)


def _done(earlier: Sequence[Run], paper: str, kind: str, cap: float) -> dict[tuple[str, str], Row]:
    """The rows that a paper has already, by what they are of; what was stopped is tried again if it
    may take longer now."""
    rows = [row for run in earlier if (run.paper, run.kind) == (paper, kind) for row in run.rows]
    return {row.key: row for row in rows if not row.trouble or stopped_after(row) >= cap}


if __name__ == "__main__":
    sys.exit(main())
