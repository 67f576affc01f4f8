"""How long the kernels of all that ran take to compile: cold, and from what is kept on disk."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import perf_counter, time_ns

from benchmarks.gpu.clocks import Compiled
from benchmarks.gpu.setting import Setting
from benchmarks.records import Ask, Case, Figure

SUITE = "compiling"
LIMIT = 0.2  # seconds, for a plan of 5 variables
MOST = 12


def run(setting: Setting) -> Iterator[Case]:
    seen: dict[str, Compiled] = {}
    for one in setting.driver.compiled:
        seen.setdefault(one.source, one)
    figures = []
    for one in sorted(seen.values(), key=lambda one: -len(one.source))[
        : 1 if setting.small else MOST
    ]:
        if not setting.wants(f"compiling {one.told}", 0.5):
            break
        # A comment that nobody has compiled before makes it a source of its own.
        source = f"{one.source}\n// {time_ns()}\n"
        cold, warm = (_seconds(setting, source, one) for _ in range(2))
        figure = Figure(_told(one), warm=warm, cold=cold, runs=1)
        figures.append(figure)
    if not figures:
        return
    taken = [figure.cold or 0.0 for figure in figures]
    case = Case(SUITE, "the longest sources of all that ran", figures)
    told = f"{max(taken):.3f} s at most, {median(taken):.3f} in the middle"
    case.asks = [Ask("compiling a plan", "a clock", f"under {LIMIT} s", told, max(taken) < LIMIT)]
    case.notes = ("compiling: *first* is from nothing, *wall* from what is kept on disk",)
    yield case


def _seconds(setting: Setting, source: str, one: Compiled) -> float:
    driver = setting.fresh()
    began = perf_counter()
    driver.kernels(source, one.names, one.told)
    return perf_counter() - began


def _told(one: Compiled) -> str:
    lines = one.source.count("\n")
    taken = "; ".join(
        f"{name}: {r.registers} registers, {r.spilled} bytes spilled, {r.shared} shared"
        for name, r in one.resources.items()
    )
    return f"{one.told} ({lines} lines; {taken})"
