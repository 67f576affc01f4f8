"""Where the time of each executor goes, over one graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter

from benchmarks.gpu.made import Edges
from benchmarks.gpu.race import Rule, Side
from benchmarks.gpu.setting import Setting
from benchmarks.gpu.sort_merge import SortMerge
from benchmarks.records import Case, Figure

SUITE = "where the time goes"
REST = "the rest: array functions, the host"


def dissected(setting: Setting, what: str, edges: Edges, sides: Sequence[Side]) -> Iterator[Case]:
    """One case for each side: a figure for each part. Kernels are told apart by `names.py`."""
    for side in sides:
        runner = side.start(setting, edges)
        if isinstance(runner, Rule) and runner.db.walks is not None:
            runner.db.walks.levels.clear()  # kernels of a graph are not told apart
        setting.driver.take()
        setting.driver.by_part.clear()
        began = perf_counter()
        runner.count()
        setting.driver.synchronize()
        whole = perf_counter() - began
        if isinstance(runner, SortMerge):
            parts = dict(runner.phases.seconds)
        else:
            setting.driver.take()
            parts = dict(setting.driver.by_part)
        parts[REST] = max(0.0, whole - sum(parts.values()))
        figures = [Figure(part, seconds) for part, seconds in parts.items()]
        yield Case(SUITE, f"{side.name}: {what}", figures)
