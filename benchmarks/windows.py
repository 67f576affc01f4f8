"""Pairs of payments of one account within seven days, counted.

Twenty payments for an account on average, over a year; some accounts have many. Only the index
that binds the second time is cut, on both sides: no pair is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.columns import Columns, distinct
from benchmarks.graphs import short
from benchmarks.peers import DuckDB
from benchmarks.records import Case, at_most, faster
from benchmarks.setting import Setting
from benchmarks.sides import Gdatalog
from benchmarks.worker import Side

OURS = "ours"
PAYMENTS = {1_000_000: None, 10_000_000: 1.0}  # and the seconds within which they are counted
YEAR = 365 * 86_400  # seconds
PAIRS = "n(count()) <- pay(a, t), pay(a, u), t <= u <= t + 7d."
SQL = """
    select count(*) from pay x, pay y
    where x.account = y.account and x.at <= y.at and y.at <= x.at + interval 7 day"""


def payments(rows: int, seed: int = 3) -> Columns:
    random = np.random.default_rng(seed)
    account = (random.random(rows) ** 1.5 * rows / 20).astype(np.int64)
    pairs = distinct(account * YEAR + random.integers(0, YEAR, rows))
    account, second = np.divmod(random.permutation(pairs), YEAR)
    times = np.datetime64("2026-01-01", "ns") + second.astype("m8[s]")
    return {"pay": {"account": account, "at": times}}


def run(setting: Setting) -> Iterator[Case]:
    for rows, limit in PAYMENTS.items():
        many = rows // 1000 if setting.small else rows
        what = f"pairs of payments within seven days, {short(many)} payments"
        if not setting.wants(what, 30 * rows / 1e6):
            continue
        data = setting.stored(f"payments {many}", partial(payments, many))
        sides: list[Side] = [Gdatalog(PAIRS, strategy="auto"), DuckDB(SQL)]
        case = setting.race("windows", what, data, sides)
        case.asks.append(faster(case, OURS, ["DuckDB"], 1))
        figure = case.figure(OURS)
        if limit is not None and figure is not None and figure.warm is not None:
            case.asks.append(at_most(what, "a clock", figure.warm, limit))
        yield case
