"""Recursion that is asked again: what it costs beside its kernels, on the GPU and as chosen.

A new settings object makes each query run: the same query over the same data would only be looked
up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import gdatalog as gd
from benchmarks.gpu.clocks import medians
from benchmarks.gpu.forced import Ours, columns, device_of
from benchmarks.gpu.made import Edges
from benchmarks.gpu.race import tell
from benchmarks.gpu.recursion import CLOSURE, GENERATION, KNOWN
from benchmarks.gpu.setting import Setting
from benchmarks.records import Ask, Case, Figure

SUITE = "rounds"
CHAIN = 70  # edges, whose closure has 2,485 rows
RUNS = 15
SLOW = 0.2  # seconds, from which on a query is not asked so often
# Seconds that the same generation may take.
GENERATIONS = {
    "OL.cedge": 4e-3, "wiki-Vote": 8e-3, "CA-HepTh": 28e-3, "fe_ocean": 36e-3, "fe_body": 115e-3,
}  # fmt: skip
CHOSEN = ("OL.cedge",)  # those that device="auto" is asked, too; the CPU takes seconds for others


def run(setting: Setting) -> Iterator[Case]:
    u = np.arange(CHAIN)
    chain = Edges("a path of 70 edges", u, u + 1, rises=True)
    if setting.wants("rounds: closure", 5.0):
        yield _case(setting, "closure", chain, CLOSURE, CHAIN * (CHAIN + 1) // 2, 0.8e-3, True)
    for name, most in setting.few(list(GENERATIONS.items())):
        if setting.wants(f"rounds: same generation, {name}", 10.0):
            edges = setting.closure(name)
            rows = KNOWN[name][1] if edges.real else None
            yield _case(setting, "same generation", edges, GENERATION, rows, most, name in CHOSEN)


def _case(
    setting: Setting,
    what: str,
    edges: Edges,
    text: str,
    rows: int | None,
    most: float,
    chosen: bool,
) -> Case:
    bare = Ours(edges, device_of(setting.fresh()), setting.xp)  # clocks beside kernels take time
    clocked = Ours(edges, device_of(setting.driver), setting.xp)
    what = f"{what}, {edges.name}"
    again = _asked(clocked.db, text)
    _warmed(clocked.db, again)
    kernels = medians(setting.driver, again, setting.budget, RUNS).kernels or None
    figure = _figure(setting, "on the GPU", bare.db, text, kernels)
    case = Case(SUITE, what, [figure], edges=len(edges))
    clocked.close()
    bare.close()
    if chosen and not setting.small:
        auto = gd.connect(device="auto")
        auto["E"] = columns(edges, setting.xp, on_device=False)
        case.figures.append(_figure(setting, "as chosen", auto, text, None))
        auto.close()
    for each in case.figures:
        if rows is not None and each.answer != rows:
            each.trouble = f"WRONG: {each.answer}"
        tell(case, each)
    case.asks = [_at_most(f"{each.side}: {what}", each.warm or 0.0, most) for each in case.figures]
    return case


def _figure(setting: Setting, side: str, db: Any, text: str, kernels: float | None) -> Figure:
    """Answers while kernels are compiled, and afterwards. `cold`: the slowest of the second to the
    fourth."""
    work = _asked(db, text)
    first = _warmed(db, work)
    runs = 3 if setting.small or first[-1] > SLOW else RUNS
    warm = median(_seconds(work) for _ in range(runs))
    return Figure(side, warm=warm, cold=max(first[1:]), kernels=kernels, runs=runs, answer=work())


def _warmed(db: Any, work: Callable[[], object]) -> list[float]:
    """The seconds of the first four answers; afterwards all kernels are compiled."""
    first = [_seconds(work) for _ in range(4)]
    device = db.workspace.device
    for coming in [*device.walks._coming.values()] if hasattr(device, "walks") else ():
        coming.result()
    for _ in range(8):  # rounds with the same launches are recorded
        work()
    return first


def _asked(db: Any, text: str) -> Callable[[], int]:
    def work() -> int:
        db.workspace.results.clear()
        db.workspace.force(split="auto")
        ((found,),) = db.query(text).fetchall()
        return int(found)

    return work


def _seconds(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def _at_most(what: str, seconds: float, most: float) -> Ask:
    wanted, seen = f"under {most * 1e3:.1f} ms", f"{seconds * 1e3:.2f} ms"
    return Ask(what, "a clock", wanted, seen, seconds <= most)
