"""A variable that nobody asks for: as a branch of the plan's tree, and in a chain.

L holds half of the vertices. In the tree one witness y is enough for each x, and then x's list
is read once; in the chain that is forced, each z is met again for each y.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.columns import Columns
from benchmarks.peers import DuckDB
from benchmarks.records import Case, faster
from benchmarks.setting import Setting
from benchmarks.sides import DEPTH, Gdatalog

PAIRS = "h(x, z) <- E(x, y), L(y), E(x, z). n(count()) <- h(_, _)."
COUNT = "n(count()) <- E(x, y), L(y), E(x, _)."
CHAINED = "ours, forced to a chain"

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
    ours = Gdatalog(PAIRS)
    chain = Gdatalog(PAIRS, label=CHAINED, chained=True)
    sides = [ours, chain, ours.breadth_first(), DuckDB(PAIRS_SQL)]
    what = f"h(x, z) <- E(x, y), L(y), E(x, z), counted, {graph.name}"
    case = setting.race("branches", what, data, sides)
    case.asks = [faster(case, DEPTH, [CHAINED], 20)]
    yield case
    sides = [Gdatalog(COUNT), Gdatalog(COUNT).breadth_first(), DuckDB(COUNT_SQL)]
    yield setting.race("branches", f"E(x, y), L(y), E(x, z), counted, {graph.name}", data, sides)
