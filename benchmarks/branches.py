"""A variable that nobody asks for, as a branch of the plan's tree, and in a chain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.columns import Columns
from benchmarks.peers import DuckDB
from benchmarks.records import Case, faster
from benchmarks.setting import Setting
from benchmarks.sides import DEPTH, Gdatalog

_BODY = "E(x, y), L(y), E(x, z)"
COUNT = "n(count()) <- E(x, y), L(y), E(x, _)."
PAIRS = f"h(x, z) <- {_BODY}. n(count()) <- h(_, _)."
# A test that holds always and reads both y and z: neither can be left to a branch of its own.
CHAIN = f"n(count()) <- {_BODY}, (y bxor z) >= 0."
CHAINED = "ours, a chain"

_FROM = "from s xy, L, s xz where xy.b = L.y and xy.a = xz.a"
COUNT_SQL = f"select count(*) {_FROM}"
PAIRS_SQL = """
    select count(*) from s
    where a in (select xy.a from s xy, L where xy.b = L.y)"""


def run(setting: Setting) -> Iterator[Case]:
    if not setting.wants("branches", 40):
        return
    graph = setting.graph("email-Enron")

    def columns() -> Columns:
        both_ways = graph.columns()
        vertices = 1 + int(graph.v.max())
        half = np.random.default_rng(9).permutation(vertices)[: vertices // 2]
        return {**both_ways, "L": {"y": half.astype(np.int32)}}

    data = setting.stored(f"{graph.name} and half of its vertices", columns)
    sides = [Gdatalog(COUNT), Gdatalog(CHAIN, label=CHAINED), DuckDB(COUNT_SQL)]
    case = setting.race("branches", f"E(x, y), L(y), E(x, z), {graph.name}", data, sides)
    own, chain = case.figure(DEPTH), case.figure(CHAINED)
    if own is not None and chain is not None:
        case.asks = [faster(case, DEPTH, [CHAINED], 20)]
    yield case
    sides = [Gdatalog(PAIRS), Gdatalog(PAIRS).breadth_first(), DuckDB(PAIRS_SQL)]
    yield setting.race("branches", f"its pairs (x, z), {graph.name}", data, sides)
