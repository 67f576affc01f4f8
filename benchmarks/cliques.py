"""Triangles and larger cliques, counted: the heart of the table of speeds."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import patterns
from benchmarks.patterns import clique
from benchmarks.peers import DuckDB, IGraph, Kuzu, NetworKit
from benchmarks.records import Case, Figure, faster
from benchmarks.setting import Setting
from benchmarks.sides import DEPTH, Gdatalog, Loop
from benchmarks.worker import Side

NETWORKIT = ("NetworKit, edges", "NetworKit, vertices")
LIGHT = ("email-Enron", "ego-Twitter")  # where the slow sides are shown too


def run(setting: Setting) -> Iterator[Case]:
    for name in setting.graphs():
        stopped = False
        for size in (3, 4, 5):
            what = f"{clique(size).name}, {setting.graph(name).name}"
            peer = DuckDB(clique(size).sql())
            inferred = stopped and not setting.full
            if not setting.wants(what, 30 if inferred else 30 + setting.wait(what, peer)):
                continue
            case = _case(setting, name, size, inferred)
            figure = case.figure("DuckDB")
            stopped = figure is not None and figure.stopped
            yield case


def _case(setting: Setting, name: str, size: int, inferred: bool) -> Case:
    """`inferred`: DuckDB was stopped at smaller cliques, which is the lesser part of the work."""
    graph, pattern = setting.graph(name), clique(size)
    ours = Gdatalog(pattern.rule())
    sides: list[Side] = [ours]
    if size == 3:
        sides += [NetworKit("edges"), NetworKit("vertices"), DuckDB(pattern.sql()), IGraph()]
        sides += [Loop(kind, size) for kind in ("merge", "mark")]
    else:
        sides += [] if inferred else [DuckDB(pattern.sql())]
        sides += [Loop(kind, size) for kind in ("merge", "bitset")]
    if size == 4 and (name in LIGHT or setting.full):
        sides.append(DuckDB(patterns.K4_STAGED, label="DuckDB, staged by hand"))
    if size < 5 and (name in LIGHT or setting.full):
        sides += [ours.breadth_first(), Kuzu(pattern.cypher())]
    expected = patterns.KNOWN.get((graph.name, pattern.name))
    case = setting.race(
        "cliques", f"{pattern.name}, {graph.name}", setting.graph_data(graph), sides, expected
    )
    if inferred:
        cap = setting.cap
        told = f"not run: stopped at K{size - 1} already"
        case.figures.append(Figure("DuckDB", cap, cap, trouble=told, stopped=True))
    if size == 3:
        case.asks = [faster(case, DEPTH, NETWORKIT, 2), faster(case, DEPTH, ["DuckDB"], 6)]
    else:
        case.asks = [faster(case, DEPTH, ["DuckDB"], 200)]
    loop = "Numba loop, mark" if size == 3 else "Numba loop, bitset"
    case.asks.append(faster(case, DEPTH, [loop], 0.85, only_told=True))
    if not graph.real:
        case.notes = (*case.notes, "a made-up graph: it has few cliques, and flatters nobody")
    return case
