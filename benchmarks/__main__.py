"""Runs the benchmarks; prints a Markdown report and writes it to docs/benchmarks, unless others
were at work on the machine."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

from benchmarks import resident
from benchmarks.machine import BUSY, LOAD, Facts, machine, wait_until_quiet
from benchmarks.pictures import draw
from benchmarks.records import Case, missed
from benchmarks.remembered import Remembered
from benchmarks.report import markdown
from benchmarks.setting import Setting

# In the order in which they run: when the time is over the rest is left out.
SUITES = (
    "cliques",
    "recursion",
    "paths",
    "listing",
    "distinct",
    "branches",
    "foreign_keys",
    "social_network",
    "scans",
    "windows",
    "sparse_keys",
    "cores",
    "first",
    "curves",
    "breakdown",
    "small_queries",
    "threads",
    "startup",
    "planning",
    "long_texts",
    "loading",
    "limits",
    "less_memory",
    "programs",
)
_UNTRUSTED = "the figures of this run are not to be trusted"
OUT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


def main() -> int:
    options = _options()
    out: Path | None = options.out or (
        None if options.suites or options.small or options.only else OUT
    )
    if options.redraw:
        folder: Path = out or OUT
        seen = json.loads((folder / "results.json").read_text())
        cases = [Case.from_dict(case) for case in seen["cases"]]
        _write(cases, seen["machine"], seen["left out"], folder, seen["command"])
        return 0
    facts = machine()
    if not options.small:
        facts[LOAD] = wait_until_quiet(options.wait)
    idle = float(facts[LOAD]) <= BUSY
    if not (idle or options.small):
        print(f"the machine is busy (load {facts[LOAD]}): {_UNTRUSTED}", file=sys.stderr)
        if options.out is None and out is not None:
            print(f"{out} keeps the report that it has; --out writes this one", file=sys.stderr)
            out = None
    cases, left_out = _run(options, idle)
    command = _command(options)
    if out is None:
        report = markdown(cases, facts, left_out, [], command)
    else:
        report = _write(cases, facts, left_out, out, command)
    print(report)
    for line in (told := list(missed(cases))):
        print(line, file=sys.stderr)
    wrong = [figure for case in cases for figure in case.figures if "WRONG" in figure.trouble]
    return 1 if wrong or told else 0


def _run(options: Namespace, idle: bool) -> tuple[list[Case], list[str]]:
    known = Remembered(OUT / "slow_peers.json", again=options.again, keeps=idle)
    cases: list[Case] = []
    with TemporaryDirectory(prefix="gdatalog-benchmarks-") as folder:
        setting = Setting(
            Path(folder),
            known,
            full=options.full,
            small=options.small,
            minutes=options.minutes,
            only=options.only,
            huge=options.huge,
        )
        for name in options.suites or SUITES:
            cases += _suite(name)(setting)
    return [*cases, *resident.run(cases)], setting.left_out


def _command(options: Namespace) -> str:
    """What repeats a run, in a clone."""
    if options.suites or options.only:
        told = ["python -m benchmarks", *options.suites]
        told += [f"--only {quote(options.only)}"] if options.only else []
        told += ["--full"] if options.full else []
        return " ".join(told)
    return "make bench-full" if options.full else "make bench"


def _write(
    cases: list[Case], facts: Facts, left_out: Sequence[str], out: Path, command: str
) -> str:
    """The report, the pictures and the figures themselves, into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    report = markdown(cases, facts, left_out, draw(cases, out), command)
    (out / "README.md").write_text(report)
    data = {
        "command": command,
        "machine": facts,
        "left out": list(left_out),
        "cases": [case.to_dict() for case in cases],
    }
    (out / "results.json").write_text(json.dumps(data, indent=1) + "\n")
    return report


def _suite(name: str) -> Callable[[Setting], Iterator[Case]]:
    run: Callable[[Setting], Iterator[Case]] = import_module(f"benchmarks.{name}").run
    return run


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"{', '.join(SUITES)}; or all")
    parser.add_argument("--out", type=Path, help=f"default: {OUT.name}, if all suites run")
    parser.add_argument("--only", default="", help="works whose names have this in them")
    parser.add_argument("--minutes", type=float, help="begin nothing that would take longer")
    parser.add_argument(
        "--wait",
        type=float,
        default=5,
        metavar="MINUTES",
        help="for others to leave the machine; default: 5",
    )
    parser.add_argument("--full", action="store_true", help="slow sides and sizes too")
    parser.add_argument("--huge", action="store_true", help="random graphs of 100M edges too")
    parser.add_argument("--again", action="store_true", help="slow peers are not taken from memory")
    parser.add_argument("--small", action="store_true", help="tiny data: to see that all runs")
    parser.add_argument("--redraw", action="store_true", help="from the figures in the folder")
    options = parser.parse_args()
    unknown = set(options.suites) - set(SUITES)
    if unknown:
        parser.error(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
