"""Transitive closure and same generation, ours and DuckDB's recursive CTE."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.graphs import closure
from benchmarks.peers import DuckDB
from benchmarks.records import Case
from benchmarks.setting import Setting
from benchmarks.sides import Gdatalog
from benchmarks.worker import Side

CLOSURE = """
    path(x, y) <- edge(x, y).
    path(x, z) <- path(x, y), edge(y, z).
    n(count()) <- path(_, _)."""
CLOSURE_SQL = """
    with recursive path(a, b) as (
        select a, b from edge
        union select path.a, edge.b from path join edge on path.b = edge.a)
    select count(*) from path"""

GENERATION = """
    sg(x, y) <- edge(p, x), edge(p, y), x != y.
    sg(x, y) <- edge(a, x), sg(a, b), edge(b, y).
    n(count()) <- sg(_, _)."""
GENERATION_SQL = """
    with recursive sg(a, b) as (
        select l.b, r.b from edge l join edge r on l.a = r.a where l.b <> r.b
        union select l.b, r.b from sg join edge l on sg.a = l.a join edge r on sg.b = r.a)
    select count(*) from sg"""


def run(setting: Setting) -> Iterator[Case]:
    cases = [
        ("closure", "ego-Facebook", CLOSURE, CLOSURE_SQL),
        ("closure", "luxembourg_osm", CLOSURE, CLOSURE_SQL),
        ("same generation", "luxembourg_osm", GENERATION, GENERATION_SQL),
        ("same generation", "OL.cedge", GENERATION, GENERATION_SQL),
        ("same generation", "ego-Facebook", GENERATION, GENERATION_SQL),
    ]
    seen = set()
    for what, name, rules, sql in cases[3:4] if setting.small else cases:
        graph = closure(name)
        if (what, graph.name) in seen or not setting.wants(f"{what} of {name}", 60):
            continue
        seen.add((what, graph.name))
        columns = {"edge": {"a": graph.u, "b": graph.v}}
        data = setting.stored(f"{graph.name} directed", lambda columns=columns: columns)
        sides: list[Side] = [Gdatalog(rules, strategy="auto"), DuckDB(sql)]
        yield setting.race("recursion", f"{what}, {graph.name}", data, sides)
