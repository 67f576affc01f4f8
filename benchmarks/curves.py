"""Triangles and 4-cliques in random graphs of growing size, as in Wu et al. (2014), figure 15(a-d).

A side that was stopped, or took long, is not asked for larger graphs.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.graphs import rmat, short, wu
from benchmarks.patterns import clique
from benchmarks.peers import DuckDB
from benchmarks.records import Case
from benchmarks.setting import Setting
from benchmarks.sides import Gdatalog
from benchmarks.worker import Side

TENS = (10_000, 100_000, 1_000_000, 10_000_000)
BETWEEN = (31_623, 316_228, 3_162_278)
HUGE = 100_000_000
LONG = 60.0  # seconds


def run(setting: Setting) -> Iterator[Case]:
    # What is between comes last: it is what can be spared.
    tens = TENS[:2] if setting.small else TENS
    between = BETWEEN[:1] if setting.small else BETWEEN
    too_large: dict[tuple[int, str], int] = {}
    for sizes in (tens, between, (HUGE,) if setting.huge else ()):
        for edges in sizes:
            for size in (3, 4):
                what = f"{clique(size).name} in {short(edges)} random edges"
                if setting.wants(what, 10 + edges / 100_000):
                    yield _case(setting, edges, size, too_large)
    for size in (3, 4):
        graph = rmat(10 if setting.small else 16, 4_000 if setting.small else 1_000_000)
        what = f"{clique(size).name}, {graph.name}"
        if setting.wants(what, 60):
            data = setting.graph_data(graph)
            yield setting.race("R-MAT", what, data, _sides(size), timed_compiling=False)


def _sides(size: int) -> list[Side]:
    pattern = clique(size)
    ours = Gdatalog(pattern.rule())
    return [ours, ours.breadth_first(), DuckDB(pattern.sql())]


def _case(setting: Setting, edges: int, size: int, too_large: dict[tuple[int, str], int]) -> Case:
    graph = wu(edges, size)
    sides = [s for s in _sides(size) if edges < too_large.get((size, s.name), HUGE + 1)]
    what = f"{clique(size).name}, {graph.name}"
    case = setting.race(
        "random graphs", what, setting.graph_data(graph), sides, timed_compiling=False
    )
    case.edges = edges
    for figure in case.figures:
        if figure.trouble or (figure.warm or 0.0) > LONG:
            too_large[size, figure.side] = min(edges, too_large.get((size, figure.side), HUGE))
    return case
