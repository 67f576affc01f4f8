"""Where the time of each executor goes, over one graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter

from benchmarks.gpu.made import Edges
from benchmarks.gpu.race import Side
from benchmarks.gpu.setting import Setting
from benchmarks.gpu.sort_merge import SortMerge
from benchmarks.records import Case, Figure

SUITE = "where the time goes"
REST = "the rest: array functions, the host"
# What kernels are for. Case 1, roots with roots, has nothing to do where the tries are the same.
NAMES = {
    "walk_plan": "the depth-first kernel",
    "meet": "expand, cases 2 and 3, compact: fused",
    "find_sorted": "case 2: values in a root",
    "find_dense": "case 2: values in a root",
    "find_in": "case 3: (parent, value) pairs",
    "bound_in": "ranges of cuts",
    "survivors": "compact",
    "sum_ints": "sums",
    "sum_doubles": "sums",
}


def dissected(setting: Setting, what: str, edges: Edges, sides: Sequence[Side]) -> Iterator[Case]:
    """One case for each side: a figure for each part. Kernels are told apart by their names."""
    for side in sides:
        runner = side.start(setting, edges)
        runner.count()
        setting.driver.take()
        setting.driver.by_name.clear()
        began = perf_counter()
        runner.count()
        setting.driver.synchronize()
        whole = perf_counter() - began
        if isinstance(runner, SortMerge):
            parts = dict(runner.phases.seconds)
        else:
            setting.driver.take()
            parts = {}
            for name, seconds in setting.driver.by_name.items():
                told = NAMES.get(name, name)
                parts[told] = parts.get(told, 0.0) + seconds
        parts[REST] = max(0.0, whole - sum(parts.values()))
        figures = [Figure(part, seconds) for part, seconds in parts.items()]
        yield Case(SUITE, f"{side.name}: {what}", figures)
