"""Patterns with `distinct`, counted: as many as there are injective maps into the graph."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.patterns import HOUSE, KNOWN, P1, P1_STAGED, P3, Q10
from benchmarks.peers import DuckDB
from benchmarks.records import Case, faster
from benchmarks.setting import Setting
from benchmarks.sides import DEPTH, Gdatalog
from benchmarks.worker import Side

_NOTE = "DuckDB's symmetry is broken by hand: it looks for one of each orbit, and multiplies"


def run(setting: Setting) -> Iterator[Case]:
    graph = setting.graph("email-Enron")
    for pattern in (P1, P3, HOUSE, Q10):
        orbit, what = pattern.automorphisms, f"{pattern.name}, {graph.name}"
        peer = DuckDB(pattern.sql(f"{orbit} * count(*)"))
        if not setting.wants(what, 20 + setting.wait(what, peer)):
            continue
        sides: list[Side] = [Gdatalog(pattern.distinct_rule()), peer]
        if pattern is P1:
            staged = P1_STAGED.replace("cast(sum(", f"cast({orbit} * sum(")
            sides.append(DuckDB(staged, label="DuckDB, staged by hand"))
            sides.append(Gdatalog(pattern.distinct_rule()).breadth_first())
        once = KNOWN.get((graph.name, pattern.name))
        case = setting.race(
            "distinct",
            what,
            setting.graph_data(graph),
            sides,
            None if once is None else orbit * once,
            notes=(_NOTE,),
        )
        case.asks = [faster(case, DEPTH, ["DuckDB"], 100)]
        yield case
