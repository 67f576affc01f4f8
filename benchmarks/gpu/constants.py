"""What `Thresholds` assume of a machine when strata are placed: measured, and printed by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from statistics import median
from subprocess import run as process
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.gpu.forced import Ours, device_of
from benchmarks.gpu.made import Edges, uniform
from benchmarks.gpu.setting import Setting
from benchmarks.records import Ask, Case, Figure
from gdatalog.report.folded import WORK
from gdatalog.settings import Thresholds, cores

SUITE = "constants"
TRIANGLES = "n(count()) <- E(x, y), E(y, z), E(x, z), x < y < z."
LISTED = "t(x, y) <- E(x, y), y < {most}."
CLOSURE = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z). n(count()) <- path(_, _)."
CHAIN = "at(x) <- E(x, _y), x = 0. at(y) <- at(x), E(x, y). n(count()) <- at(_)."
GENERATION = """
    sg(x, y) <- E(p, x), E(p, y), x != y.
    sg(x, y) <- E(a, x), sg(a, b), E(b, y).
    n(count()) <- sg(_, _)."""
AT_ONCE = {
    "device_from": 0,
    "device_from_turn": 0,
    "bitmap_rounds_from": 0,
    "compiled_rounds_from": 1 << 60,
    "worklist_rounds": 1 << 40,
}
OPENING = """
import gdatalog as gd
from time import perf_counter as now
began = now()
{}
print(now() - began)"""
CONNECT = 'gd.connect(device="{}").close()'


def run(setting: Setting) -> Iterator[Case]:
    case = Case(SUITE, "what placing assumes", [])
    for names, unit, measure in (
        (("gpu_bus",), "bytes/s", _bus),
        (("gpu_rule",), "s", _rule),
        (("gpu_rows", "core_rows", "array_rows"), "rows/s", _rows),
        (("gpu_launch", "core_turn"), "s", _round),
        (("gpu_new_rows", "core_new_rows"), "rows/s", _new_rows),
        (("gpu_opening",), "s", _opening),
    ):
        if setting.wants(f"constants: {names[0]}", 12):
            assumed = ", ".join(f"{name} is {getattr(Thresholds(), name):.3g}" for name in names)
            print(assumed, flush=True)
            for words, value in measure(setting):
                told = f"{value:.3g} {unit}"
                case.asks.append(Ask(words, "", assumed, told, None))
                case.figures.append(Figure(words, answer=value))
                print(f"    {words}: {told}", flush=True)
    yield case


def _bus(setting: Setting) -> Iterator[tuple[str, float]]:
    """Bytes copied in a second."""
    xp, driver = setting.xp, setting.driver
    for size in (1 << 10, 1 << 26):
        host = np.zeros(1 << 10 if setting.small else size, dtype=np.int32)
        there = xp.asarray(host)
        up = _seconds(driver, lambda host=host: xp.asarray(host))  # type: ignore[misc]
        yield f"{host.nbytes:,} bytes to the device", host.nbytes / up
        down = _seconds(driver, lambda there=there: driver.fetched(there))  # type: ignore[misc]
        yield f"{host.nbytes:,} bytes from it", host.nbytes / down


def _rule(setting: Setting) -> Iterator[tuple[str, float]]:
    """A query of almost nothing, again."""
    u, v = uniform(setting.xp, 30, 60, seed=1)
    for side, ours in _sides(setting, Edges("tiny", u, v)):
        for how in ("lftj", "levelwise"):
            text = TRIANGLES.replace("n(", f"n{how}(")
            work = _asking(ours, text, how)
            yield f"{side}, {how}, asked again", _seconds(setting.driver, work, 60)
        ours.close()


def _rows(setting: Setting) -> Iterator[tuple[str, float]]:
    """Rows that a rule expects to look at, in a second."""
    vertices, many = (100, 400) if setting.small else (200_000, 4_000_000)
    u, v = uniform(setting.xp, vertices, many, seed=2)
    for side, ours in _sides(setting, Edges("random", u, v)):
        for how in ("lftj", "levelwise"):
            (rule,) = ours.db.explain(TRIANGLES, strategy=how).tree.find("rule")
            rows = float(str(dict(rule.facts)[WORK]))
            taken = _seconds(setting.driver, _asking(ours, TRIANGLES, how), 3)
            yield f"{side}, {how}, triangles", rows / taken
        text = LISTED.format(most=vertices // 2)
        taken = _seconds(setting.driver, _asking(ours, text, "auto"), 3)
        yield f"{side}, a filter of one relation's rows", len(ours.db["E"]) / taken
        ours.close()


def _round(setting: Setting) -> Iterator[tuple[str, float]]:
    """A round of one new row."""
    short, long = (5, 20) if setting.small else (100, 600)
    for side, on_gpu in (("device", True), ("cores", False)):
        for dedup in ("auto", "sort"):
            taken = []
            for many in (short, long):
                ours = _ours(setting, _chain(setting.xp, many), on_gpu)
                ours.db.workspace.tune(**AT_ONCE)
                ours.db.workspace.force(dedup=dedup, split="never")
                taken.append(_seconds(setting.driver, _asking(ours, CHAIN, "auto"), 5))
                ours.close()
            yield (
                f"{side}, dedup {dedup}, a round of one rule",
                (taken[1] - taken[0]) / (long - short),
            )


def _new_rows(setting: Setting) -> Iterator[tuple[str, float]]:
    """Rows that a recursion derives in a second."""
    edges = setting.closure("CA-HepTh")
    for side, ours in _sides(setting, edges):
        ours.db.workspace.tune(**AT_ONCE)
        for what, text, split in (
            ("closure, value by value", CLOSURE, "auto"),
            ("closure, by rounds", CLOSURE, "never"),
            ("same generation", GENERATION, "auto"),
        ):
            ours.db.workspace.force(split=split)
            taken = _seconds(setting.driver, _asking(ours, text, "auto"), 1)
            ((rows,),) = ours.db.query(text).fetchall()
            yield f"{side}, {what}", rows / taken
        ours.close()


def _opening(setting: Setting) -> Iterator[tuple[str, float]]:
    """Connecting in a process of its own."""
    for device in ("cpu",) if setting.small else ("cpu", "cuda", "cuda"):
        code = OPENING.format(CONNECT.format(device))
        done = process([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        yield f'connect(device="{device}")', float(done.stdout.split()[-1])


def _chain(xp: Any, many: int) -> Edges:
    u = xp.arange(many, dtype=xp.int32)
    return Edges("chain", u, u + 1, rises=True)


def _sides(setting: Setting, edges: Edges) -> Iterator[tuple[str, Ours]]:
    yield "device", _ours(setting, edges, True)
    yield f"cores ({cores()})", _ours(setting, edges, False)


def _ours(setting: Setting, edges: Edges, on_gpu: bool) -> Ours:
    return Ours(edges, device_of(setting.fresh()) if on_gpu else None, setting.xp)


def _asking(ours: Ours, text: str, strategy: str) -> Callable[[], object]:
    def work() -> object:
        ours.db.workspace.results.clear()
        ours.db.workspace.catalog.bound.clear()
        found = ours.db.query(text, strategy=strategy)  # type: ignore[arg-type]
        return found.fetchall() if len(found) == 1 else None

    return work


def _seconds(driver: Any, work: Callable[[], object], runs: int = 5) -> float:
    """The median, after two runs that compile what they need."""
    taken = []
    for turn in range(2 + runs):
        driver.synchronize()
        began = perf_counter()
        work()
        driver.synchronize()
        if turn > 1 or runs == 1:
            taken.append(perf_counter() - began)
        if sum(taken) > 3.0:
            break
    return median(taken or [perf_counter() - began])
