"""Small questions that are asked again and again: milliseconds a call, beside DuckDB and SQLite.

All sides hold the same 40,000 edges in memory, in this process, on two threads. Each gives its rows
as a list of tuples; calls are made in turns, and answers compared before anything is timed. SQLite
has an index for each question.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import gdatalog as gd
from benchmarks.peers import installed
from benchmarks.records import Case, Figure
from benchmarks.setting import Setting
from benchmarks.sides import THREADS

EDGES, VERTICES, GROUPS = 40_000, 20_000, 50
CHAIN = 19  # vertices of each chain: its first one reaches 18 others
START = 13 * CHAIN
KEPT = 300  # rules that another question does not read
TURNS, CALLS = 25, 8  # medians are over this many turns, each of so many calls

Rows = list[tuple[Any, ...]]
Call = Callable[[], Rows]

_POINT, _POINT_SQL = "?- E({x}, y).", "select distinct b from E where a = {x}"
_HOPS = "?- E({x}, y), E(y, z)."
_HOPS_SQL = "select distinct e.b, f.b from E e, E f where e.a = {x} and f.a = e.b"
_GROUP, _GROUP_SQL = "g(k, count()) <- G(_, k).", "select k, count(*) from G group by k"
_REACH = "r(y) <- C({x}, y). r(z) <- r(y), C(y, z). ?- r(y)."
_REACH_SQL = (
    "with recursive r(y) as (select b from C where a = {x}"
    " union select C.b from r, C where C.a = r.y) select y from r"
)
_VIEW = "two(x, z) <- E(x, y), E(y, z)."
_VIEW_SQL = "select distinct f.b from E e, E f where e.a = 3 and f.a = e.b"
_CLOSURE = "path(x, y) <- C(x, y). path(x, z) <- path(x, y), C(y, z)."


def run(setting: Setting) -> Iterator[Case]:
    turns = 2 if setting.small else TURNS
    sides: list[Side] = [Ours()]
    sides += [DuckDb()] if "duckdb" in installed() else []
    sides.append(Sqlite())
    for what, calls in questions(sides).items():
        if setting.wants(what, 10):
            yield Case("small queries", what, timed(calls, turns))


def questions(sides: Sequence[Side]) -> dict[str, dict[str, Call]]:
    """What is asked, and how each side asks it."""
    texts = {
        "a point": (_POINT, _POINT_SQL, 5),
        "two hops": (_HOPS, _HOPS_SQL, 5),
        "50 groups": (_GROUP, _GROUP_SQL, 0),
        "a reachability of 18 rows": (_REACH, _REACH_SQL, START),
    }
    found: dict[str, dict[str, Call]] = {}
    for what, (text, sql, x) in texts.items():
        calls = {side.name: side.same(text, sql, x) for side in sides}
        if "{x}" in text:
            calls |= {f"{side.name}, prepared": side.prepared(text, sql, x) for side in sides}
        found[what] = calls
    for what in ("a point", "a reachability of 18 rows"):
        text, sql, x = texts[what]
        each = {side.name: side.changing(text, sql, x) for side in sides}
        found[f"{what}, another constant each time"] = each
    found["a row inserted, and a view of two hops"] = {
        side.name: side.inserting("E", 3, _VIEW, "?- two(3, z).", _VIEW_SQL) for side in sides
    }
    found["an edge inserted, and a recursive view"] = {
        side.name: side.inserting("C", 0, _CLOSURE, "?- path(0, z).", _REACH_SQL.format(x=0))
        for side in sides
    }
    crowded = Ours(kept=KEPT)
    found[f"a point, beside {KEPT} rules"] = {
        "ours": sides[0].same(_POINT, _POINT_SQL, 5),
        f"ours, {KEPT} rules": crowded.same(_POINT, _POINT_SQL, 5),
    }
    found[f"another point each time, beside {KEPT} rules"] = {
        "ours": sides[0].changing(_POINT, _POINT_SQL, 5),
        f"ours, {KEPT} rules": crowded.changing(_POINT, _POINT_SQL, 5),
    }
    return found


def timed(calls: Mapping[str, Call], turns: int) -> list[Figure]:
    """The median of each side, in turns, once their rows are seen to be equal."""
    figures, seconds = [], dict[str, list[float]]()
    rows = {name: sorted(call()) for name, call in calls.items()}
    for name in calls:
        same = rows[name] == next(iter(rows.values()))
        figures.append(Figure(name, answer=len(rows[name]), trouble="" if same else "WRONG"))
    for turn in range(-2, turns):
        for name, call in calls.items():
            for _ in range(CALLS):
                began = perf_counter()
                call()
                if turn >= 0:
                    seconds.setdefault(name, []).append(perf_counter() - began)
    for figure in figures:
        figure.warm, figure.runs = median(seconds[figure.side]), len(seconds[figure.side])
    return figures


def tables() -> dict[str, np.ndarray[Any, Any]]:
    """Edges at random, chains, and vertices with the group of each."""
    random = np.random.default_rng(1)
    chains = np.arange(VERTICES // CHAIN * CHAIN).reshape(-1, CHAIN)
    near = np.stack([chains[:, :-1].ravel(), chains[:, 1:].ravel()], axis=1)
    vertices = np.arange(EDGES)
    return {
        "E": random.integers(0, VERTICES, (EDGES, 2)),
        "C": near,
        "G": np.stack([vertices, vertices % GROUPS], axis=1),
    }


COLUMNS = {"E": ("a", "b"), "C": ("a", "b"), "G": ("v", "k")}


class Side(ABC):
    """An engine with the tables."""

    name: str

    @abstractmethod
    def form(self, text: str, sql: str) -> str:
        """The question in this engine's language."""

    @abstractmethod
    def rows(self, question: str) -> Rows: ...

    @abstractmethod
    def prepared(self, text: str, sql: str, x: int) -> Call:
        """A prepared question with its parameter."""

    @abstractmethod
    def inserting(self, into: str, source: int, view: str, text: str, sql: str) -> Call:
        """Inserts an edge from a vertex to a new one, and asks; in a database of its own."""

    def same(self, text: str, sql: str, x: int) -> Call:
        """The same text each time, with its constant in it."""
        question = self.form(text, sql).format(x=x)
        return lambda: self.rows(question)

    def changing(self, text: str, sql: str, x: int) -> Call:
        """A text with another constant each time; `x` is the first, so that answers compare."""
        question, numbers = self.form(text, sql), count(x, CHAIN)
        return lambda: self.rows(question.format(x=next(numbers) % VERTICES))


class Ours(Side):
    name = "ours"

    def __init__(self, kept: int = 0) -> None:
        self.db = gd.connect(device="cpu", threads=THREADS)
        for name, rows in tables().items():
            self.db.load(name, rows, columns=COLUMNS[name])
        if kept:
            rules = (f"kept{at}(x, z) <- E(x, y), C(y, z), x > {at}." for at in range(kept))
            self.db.run("\n".join(rules))

    def form(self, text: str, sql: str) -> str:
        return text

    def rows(self, question: str) -> Rows:
        return self.db.query(question).fetchall()

    def prepared(self, text: str, sql: str, x: int) -> Call:
        asked = self.db.prepare(text.format(x="$x"))
        return lambda: asked(x=x).fetchall()

    def inserting(self, into: str, source: int, view: str, text: str, sql: str) -> Call:
        own, new = Ours(), count(VERTICES)
        own.db.run(view)

        def call() -> Rows:
            own.db.insert(into, [(source, next(new))])
            return own.rows(text)

        return call


class DuckDb(Side):
    name = "DuckDB"

    def __init__(self) -> None:
        import duckdb
        import pandas as pd

        self.connection = duckdb.connect(config={"threads": THREADS})
        for name, rows in tables().items():
            self.connection.register("given", pd.DataFrame(rows, columns=COLUMNS[name]))
            self.connection.execute(f"create table {name} as select distinct * from given")
            self.connection.unregister("given")

    def form(self, text: str, sql: str) -> str:
        return sql

    def rows(self, question: str) -> Rows:
        found: Rows = self.connection.execute(question).fetchall()
        return found

    def prepared(self, text: str, sql: str, x: int) -> Call:
        name = f"asked{x}_{len(sql)}"
        self.connection.execute(f"prepare {name} as {sql.format(x='$1')}")
        return lambda: self.rows(f"execute {name}({x})")

    def inserting(self, into: str, source: int, view: str, text: str, sql: str) -> Call:
        own, new = DuckDb(), count(VERTICES)

        def call() -> Rows:
            own.connection.execute(f"insert into {into} values ({source}, {next(new)})")
            return own.rows(sql)

        return call


class Sqlite(Side):
    name = "SQLite"

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:")
        for name, rows in tables().items():
            first, second = COLUMNS[name]
            both = f"{first}, {second}"
            self.connection.execute(f"create table {name} ({both}, unique({both}))")
            self.connection.executemany(
                f"insert or ignore into {name} values (?, ?)", rows.tolist()
            )
            self.connection.execute(f"create index {second}_of_{name} on {name} ({second})")

    def form(self, text: str, sql: str) -> str:
        return sql

    def rows(self, question: str) -> Rows:
        return self.connection.execute(question).fetchall()

    def prepared(self, text: str, sql: str, x: int) -> Call:
        asked = sql.format(x="?")
        return lambda: self.connection.execute(asked, (x,)).fetchall()

    def inserting(self, into: str, source: int, view: str, text: str, sql: str) -> Call:
        own, new = Sqlite(), count(VERTICES)

        def call() -> Rows:
            own.connection.execute(f"insert into {into} values (?, ?)", (source, next(new)))
            return own.rows(sql)

        return call
