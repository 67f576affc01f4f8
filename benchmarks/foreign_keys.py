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
    cold: float = 1  # how many times as fast as DuckDB, with its tables loaded anew


JOIN = Work(
    "a foreign-key join",
    "item orders",
    "n(count()) <- item(o, _), orders(o, _).",
    "select count(*) from item, orders where item.ord = orders.ord",
)
CHAIN = Work(
    "a chain of 4, two constants",
    "item orders customer nation",
    "n(count()) <- item(o, _), orders(o, c), customer(c, n, 3), nation(n, 2).",
    """select count(*) from item, orders, customer, nation
       where item.ord = orders.ord and orders.cust = customer.cust
         and customer.nation = nation.nation and segment = 3 and region = 2""",
    cold=0.7,
)
_STAR_SQL = """
    select count(*) from sale, part, supplier, calendar, store
    where sale.part = part.part and sale.supp = supplier.supp and sale.day = calendar.day
      and sale.store = store.store"""
STAR = Work(
    "a star of 5, a constant each",
    "sale part supplier calendar store",
    "n(count()) <- sale(p, s, d, t), part(p, 3), supplier(s, 7), calendar(d, 5), store(t, 4).",
    f"{_STAR_SQL} and brand = 3 and nation = 7 and month = 5 and city = 4",
)
WHOLE_STAR = Work(
    "a star of 5, no constants",
    "sale part supplier calendar store",
    "n(count()) <- sale(p, s, d, t), part(p, _), supplier(s, _), calendar(d, _), store(t, _).",
    _STAR_SQL,
    asked=False,
)
OURS = "ours"
SCANNING = "DuckDB, off Arrow columns"


def run(setting: Setting) -> Iterator[Case]:
    facts = 60_000 if setting.small else FACTS
    columns: Columns = {}
    for work in (JOIN, CHAIN, STAR, WHOLE_STAR):
        if not setting.wants(work.what, 45):
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
            case.asks = [
                faster(case, OURS, ["DuckDB", SCANNING], 3),
                faster(case, OURS, ["DuckDB"], work.cold, cold=True),
                faster(case, OURS, [SCANNING], 1, cold=True, only_told=True),
            ]
        yield case
