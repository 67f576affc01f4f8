"""Whole programs, forced to the GPU, as "auto" places them, and on all cores of the machine.

Real programs of the data folder, each in a process of its own; and two whose facts are made up, in
this process, with the facts on the host. Counts are compared first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from warnings import catch_warnings, simplefilter

import gdatalog as gd
from benchmarks import points_to
from benchmarks.columns import Columns
from benchmarks.gpu.clocks import cuda_of
from benchmarks.gpu.setting import Setting
from benchmarks.graphs import short
from benchmarks.made_programs import CFL, cfl_facts
from benchmarks.programs import REAL
from benchmarks.records import Ask, Case, Figure, faster
from benchmarks.whole_processes import Ended, ours
from tests.data import FOLDER

SUITE = "programs"
RUNS = 2  # of a process at most, after one that compiles
EACH = 18  # rows of facts for a function
SMALL = 700  # rows, to see that it runs
LONG = 10.0  # seconds, after which a side is asked no more
COLUMNS = {2: ("x", "y"), 3: ("x", "site", "y")}
WANTED = 1.05  # times the better of the two, at most, of "auto"


def run(setting: Setting) -> Iterator[Case]:
    devices = ["cpu"] if cuda_of(setting.driver) is None else ["cpu", "auto", "cuda"]
    rows = SMALL if setting.small else setting.rows
    for what, make, rules in (
        ("CFL reachability", lambda: cfl(rows // EACH), _rules(CFL, "reaches(_, _)")),
        ("points-to", lambda: points_to.constraints(rows), points_to.MADE),
    ):
        if setting.wants(f"programs: {what}", 60):
            yield _large(what, make, rules, devices)
    with TemporaryDirectory(prefix="gdatalog-programs-") as given:
        for real in () if setting.small or FOLDER is None else REAL:
            if real.name != "cspa10k" and setting.wants(f"programs: {real.name}", real.seconds):
                yield _real(real, Path(given), devices)


def cfl(functions: int) -> Columns:
    """Facts of values that flow in and between functions, 18 rows for each."""
    return {
        name: dict(zip(COLUMNS[len(columns)], columns, strict=True))
        for name, columns in cfl_facts(functions).items()
    }


def _rules(program: str, counted: str) -> str:
    """The rules of a program, and a count of one of its relations."""
    rules = [line for line in program.splitlines() if ":-" in line]
    return "\n".join([*rules, f"n(count()) :- {counted}."])


def _large(what: str, make: Callable[[], Columns], rules: str, devices: Sequence[str]) -> Case:
    """A query that is asked twice: without compiled code, and with it; once if that takes long. The
    cores come last, because they may take longer than there is time."""
    data = make()
    rows = sum(len(next(iter(columns.values()))) for columns in data.values())
    case = Case(SUITE, f"{what}, {short(rows)} facts", [])
    for device in reversed(devices):
        figure = Figure(_side(device), runs=1)
        case.figures.append(figure)
        with gd.connect(device=device) as db, catch_warnings():
            simplefilter("ignore", gd.ProgramWarning)  # facts that are drawn twice
            for name, columns in data.items():
                db[name] = columns
            for _ in repeat(None, 2):
                db.workspace.results.clear()
                db.workspace.catalog.bound.clear()
                began = perf_counter()
                try:
                    ((figure.answer,),) = db.query(f"{rules} ?- n(c).", timeout=60).fetchall()
                except gd.Error as error:
                    figure.trouble = error.message
                    break
                taken = perf_counter() - began
                figure.cold, figure.warm = figure.cold or taken, taken
                if taken > LONG:
                    break
            told = figure.trouble or f"{figure.cold:.2f} s, then {figure.warm:.3f} s"
            print(f"{case.what}, {figure.side}: {figure.answer}, {told}", flush=True)
            if not figure.trouble and device == "auto":
                print(_placed(db, f"{rules} ?- n(c)."), flush=True)
    return _compared(case, 3.0)


def _placed(db: gd.Database, text: str) -> str:
    """Where strata run, by an explanation."""
    lines = str(db.explain(text)).splitlines()
    return "\n".join(line for line in lines if line.lstrip("│ ").startswith("on "))


def _real(real: Any, folder: Path, devices: Sequence[str]) -> Case:
    """Whole processes, and evaluation alone: one that compiles, and others while there is time."""
    work = real.work(folder)
    case = Case(SUITE, f"{work.name}, evaluation alone", [])
    whole = Case(SUITE, work.name, [])
    for device in reversed(devices):
        ended: list[Ended] = []
        while len(ended) < 2 or (len(ended) <= RUNS and sum(e.seconds for e in ended) < LONG):
            one = ours(work.program, work.facts, str(folder / "code"), device, None)
            wrong = {n: c for n, c in work.counts.items() if one.counts.get(n) != c}
            one.trouble = one.trouble or (f"WRONG: not {wrong}" if wrong else "")
            ended.append(one)
            if one.trouble:
                break
        first, *others = ended
        best = min(others or ended, key=lambda one: one.seconds)
        alone = min((one.evaluation for one in others if one.evaluation is not None), default=None)
        answer = sum(work.counts.values())
        for to, warm, cold in ((whole, best.seconds, first.seconds), (case, alone, None)):
            to.figures.append(
                Figure(_side(device), warm, cold, runs=RUNS, answer=answer, trouble=best.trouble)
            )
        print(
            f"{work.name}, {_side(device)}: {best.seconds:.2f} s, at first {first.seconds:.2f},"
            f" evaluation alone {alone or 0:.2f} {best.trouble}",
            flush=True,
        )
    case = _compared(case, 1.0)
    # Where "auto" runs them depends on what opening a GPU takes: whole processes are compared.
    case.asks = case.asks[:1] + _compared(whole, 0.0).asks
    return case


def _compared(case: Case, at_least: float) -> Case:
    """What is asked of the GPU beside the cores, and of "auto" beside the better of both."""
    right = next((each.answer for each in case.figures if not each.trouble), None)
    for figure in case.figures:
        if not figure.trouble and figure.answer != right:
            figure.trouble = f"WRONG: not {right}"
    cpu, auto, cuda = map(_side, ("cpu", "auto", "cuda"))
    if case.figure(cuda) is not None:
        case.asks = [faster(case, cuda, [cpu], at_least)] if at_least else []
        found = faster(case, auto, [cpu, cuda], 1 / WANTED)
        case.asks.append(Ask(found.work, found.against, f"{WANTED}x", found.seen, found.met))
    return case


def _side(device: str) -> str:
    return {"cpu": "CPU, all cores", "auto": "auto", "cuda": "all on the GPU"}[device]
