"""Counting triangles and four-cliques, ours and DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import gdatalog as gd
from benchmarks.graphs import Graph, oriented
from benchmarks.measure import Row, interleaved, once
from benchmarks.peers import duckdb_with

TRIANGLES = "n(count()) <- E(a, b), E(a, c), E(b, c)."
TRIANGLES_SQL = """
    select count(*) from e ab, e ac, e bc
    where ab.a = ac.a and ab.b = bc.a and ac.b = bc.b"""

K4 = "n(count()) <- E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, d)."
K4_SQL = """
    select count(*) from e ab, e ac, e ad, e bc, e bd, e cd
    where ab.a = ac.a and ab.a = ad.a and ab.b = bc.a and ab.b = bd.a
      and ac.b = bc.b and ac.b = cd.a and ad.b = bd.b and ad.b = cd.b"""

_GENERATED = "a generated graph has few cliques, and makes the peer look slow: get the real ones"
_TRAP = "ours runs on one thread, DuckDB on two; the answers are counted, not given"


def run() -> Iterator[Row]:
    enron = oriented("email-Enron")
    yield _row("triangles", enron, TRIANGLES, TRIANGLES_SQL, rounds=7)
    yield _row("triangles", oriented("ego-Twitter"), TRIANGLES, TRIANGLES_SQL, rounds=3)
    yield _row("K4", enron, K4, K4_SQL, rounds=3, wanted=3.0)


def _row(
    pattern: str, graph: Graph, rule: str, sql: str, rounds: int, wanted: float | None = None
) -> Row:
    if not graph.real:
        wanted = None
    edges = np.stack([graph.u, graph.v], axis=1)

    def cold() -> tuple[gd.Database, int]:
        db = gd.connect()
        db["E"] = edges
        return db, ours(db)

    def ours(db: gd.Database) -> int:
        return int(db.query(rule).fetchall()[0][0])

    def peer_cold() -> tuple[Any, int]:
        con = duckdb_with(graph)
        return con, peer(con)

    def peer(con: Any) -> int:
        return int(con.execute(sql).fetchone()[0])

    cold_seconds, (db, count) = once(cold)
    peer_cold_seconds, (con, peer_count) = once(peer_cold)
    assert count == peer_count, f"{pattern} of {graph.name}: {count}, DuckDB says {peer_count}"
    seconds, peer_seconds = interleaved([lambda: ours(db), lambda: peer(con)], rounds)
    return Row(
        "patterns",
        f"{pattern}, {graph.name} ({count:,})",
        seconds,
        "DuckDB",
        peer_seconds,
        cold_seconds,
        peer_cold_seconds,
        "" if wanted is None else f"at least {wanted:g}x as fast",
        None if wanted is None else peer_seconds >= wanted * seconds,
        _TRAP if graph.real else _GENERATED,
    )
