"""First queries of one table: filters, groups and first rows, right after it was loaded.

The table is loaded anew for each answer. The first figure of a side is the query alone, the cold
one loading and query together; DuckDB loads by `create table as`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.columns import Columns
from benchmarks.peers import DuckDB
from benchmarks.records import Case, faster
from benchmarks.setting import Setting
from benchmarks.sides import Gdatalog

GROUPS = 1000
SIZES = (2_000_000, 20_000_000)
FEW = 100


@dataclass(frozen=True, slots=True)
class Work:
    what: str
    rule: str
    sql: str
    few: bool = False  # any FEW rows will do


WORKS = (
    Work("a filter", "?- f(k, j, v), v > 0.999.", "select * from f where v > 0.999"),
    Work(
        "a constant",
        "q(k, v) <- f(k, 7, v).",
        "select k, v from f where j = 7",
    ),
    Work(
        "a group-by",
        "g(j, sum(v), sum(k), count()) <- f(k, j, v).",
        "select j, sum(v), sum(k)::bigint, count(*) from f group by j",
    ),
    Work(
        "a filter and a group-by",
        "g(j, max(k), count()) <- f(k, j, v), v > 0.5.",
        "select j, max(k), count(*) from f where v > 0.5 group by j",
    ),
    Work("distinct values", "p(j) <- f(_, j, _).", "select distinct j from f"),
    Work("first rows", "?- f(k, j, v).", f"select * from f limit {FEW}", few=True),
)


@dataclass(frozen=True, slots=True)
class FirstRows(Gdatalog):
    """The first rows that there are: only how many they are is compared."""

    def answer(self, state: Any) -> Any:
        return state.query(self.text, limit=FEW).to_arrow()

    def value(self, answer: Any) -> Any:
        return answer.num_rows


@dataclass(frozen=True, slots=True)
class FirstRowsOfDuckDB(DuckDB):
    def value(self, answer: Any) -> Any:
        return answer.num_rows


def table(rows: int, seed: int = 7) -> Columns:
    """A key, a group, and a float; sums of these floats are exact in any order."""
    random = np.random.default_rng(seed)
    return {
        "f": {
            "k": np.arange(rows),
            "j": random.integers(0, GROUPS, rows),
            "v": random.integers(0, 1 << 20, rows) / (1 << 20),
        }
    }


def run(setting: Setting) -> Iterator[Case]:
    for rows in (60_000,) if setting.small else SIZES:
        for work in WORKS:
            what = f"{work.what}, {rows // 1000:,}K rows"
            if not setting.wants(what, rows / 500_000):
                continue
            data = setting.stored(f"table {rows}", lambda rows=rows: table(rows))
            us, them = (FirstRows, FirstRowsOfDuckDB) if work.few else (Gdatalog, DuckDB)
            sides = [
                us(work.rule, strategy="auto", arrow=True),
                them(work.sql, arrow=True),
                them(work.sql, arrow=True, scans=True, label="DuckDB, off Arrow columns"),
            ]
            case = setting.race("scans", what, data, sides, timed_compiling=False, afresh=True)
            case.asks = [
                faster(case, "ours", ["DuckDB"], 0.5),
                faster(case, "ours", ["DuckDB"], 1, cold=True),
            ]
            yield case
