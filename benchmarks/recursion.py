"""Transitive closure and same generation, ours and DuckDB's recursive CTE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import gdatalog as gd
from benchmarks.graphs import Graph, closure
from benchmarks.measure import Row, once
from benchmarks.peers import duckdb_with

TC = """
    path(x, y) <- E(x, y).
    path(x, z) <- path(x, y), E(y, z).
    n(count()) <- path(_, _)."""
TC_SQL = """
    with recursive path(a, b) as (
        select a, b from e
        union select path.a, e.b from path join e on path.b = e.a)
    select count(*) from path"""

SG = """
    sg(x, y) <- E(p, x), E(p, y), x != y.
    sg(x, y) <- E(a, x), sg(a, b), E(b, y).
    n(count()) <- sg(_, _)."""
SG_SQL = """
    with recursive sg(a, b) as (
        select l.b, r.b from e l join e r on l.a = r.a where l.b <> r.b
        union select l.b, r.b from sg join e l on sg.a = l.a join e r on sg.b = r.a)
    select count(*) from sg"""

_TRAP = "one run each, loading left out; the answers are counted, not given"


def run() -> Iterator[Row]:
    facebook, luxembourg = closure("ego-Facebook"), closure("luxembourg_osm")
    yield _row("closure", facebook, TC, TC_SQL)
    if luxembourg.name != facebook.name:
        yield _row("closure", luxembourg, TC, TC_SQL)
        yield _row("same generation", luxembourg, SG, SG_SQL)
        yield _row("same generation", closure("OL.cedge"), SG, SG_SQL)
    yield _row("same generation", facebook, SG, None)


def _row(what: str, graph: Graph, rules: str, sql: str | None) -> Row:
    db = gd.connect()
    db["E"] = np.stack([graph.u, graph.v], axis=1)
    seconds, result = once(lambda: int(db.query(rules).fetchall()[0][0]))
    peer_seconds: float | None = None
    trap = _TRAP
    if sql is None:
        trap = "one run; DuckDB's recursive CTE did not end within a minute, and is left out"
    else:
        con: Any = duckdb_with(graph)
        peer_seconds, row = once(lambda: con.execute(sql).fetchone())
        assert row[0] == result, f"{what} of {graph.name}: {result}, DuckDB says {row[0]}"
    return Row(
        "recursion",
        f"{what}, {graph.name} ({result:,})",
        seconds,
        "DuckDB" if sql else "",
        peer_seconds,
        trap=trap,
    )
