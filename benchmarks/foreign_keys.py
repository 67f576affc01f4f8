"""Joins along foreign keys: what databases are built for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.columns import Columns
from benchmarks.peers import DuckDB
from benchmarks.records import Case, faster
from benchmarks.retail import FACTS, retail
from benchmarks.setting import Setting
from benchmarks.sides import Gdatalog


@dataclass(frozen=True, slots=True)
class Work:
    what: str
    relations: str
    rule: str
    sql: str
    asked: bool = True


JOIN = Work(
    "a foreign-key join",
    "item ord",
    "n(count()) <- item(o, _), ord(o, _).",
    "select count(*) from item, ord where item.ord = ord.ord",
)
CHAIN = Work(
    "a chain of 4, two constants",
    "item ord cust nation",
    "n(count()) <- item(o, _), ord(o, c), cust(c, n, 3), nation(n, 2).",
    """select count(*) from item, ord, cust, nation
       where item.ord = ord.ord and ord.cust = cust.cust and cust.nation = nation.nation
         and segment = 3 and region = 2""",
)
STAR = Work(
    "a star of 5, a constant each",
    "sale part supp day store",
    "n(count()) <- sale(p, s, d, t), part(p, 3), supp(s, 7), day(d, 5), store(t, 4).",
    """select count(*) from sale, part, supp, day, store
       where sale.part = part.part and sale.supp = supp.supp and sale.day = day.day
         and sale.store = store.store
         and brand = 3 and nation = 7 and month = 5 and city = 4""",
)
WHOLE_STAR = Work(
    "a star of 5, no constants",
    "sale part supp day store",
    "n(count()) <- sale(p, s, d, t), part(p, _), supp(s, _), day(d, _), store(t, _).",
    """select count(*) from sale, part, supp, day, store
       where sale.part = part.part and sale.supp = supp.supp and sale.day = day.day
         and sale.store = store.store""",
    asked=False,
)
OURS = "ours"
SCANNING = "DuckDB, off Arrow columns"


def run(setting: Setting) -> Iterator[Case]:
    facts = 60_000 if setting.small else FACTS
    columns: Columns = {}
    for work in (JOIN, CHAIN, STAR, WHOLE_STAR):
        if not setting.has_time_for(work.what, 45):
            continue
        columns = columns or retail(facts)
        named = {name: columns[name] for name in work.relations.split()}
        data = setting.stored(f"retail {work.relations}", lambda named=named: named)
        ours = Gdatalog(work.rule, strategy="auto")
        sides = [
            ours,
            Gdatalog(work.rule),
            ours.breadth_first(),
            DuckDB(work.sql),
            DuckDB(work.sql, scans=True, label=SCANNING),
        ]
        case = setting.race("foreign keys", f"{work.what}, {facts // 1000:,}K rows", data, sides)
        if work.asked:
            peers = ["DuckDB", SCANNING]
            case.asks = [
                faster(case, OURS, peers, 3),
                faster(case, OURS, peers, 0.7, cold=True),
            ]
        yield case
