"""Small queries of threads beside a long query of another: their median and their longest time.

All threads share one database. One of them asks a long question, for some seconds; the others ask
small ones, each of its own kind, with a pause between two, as a server does. The times without the
long query come first. As in a server, Python's garbage collector does not look again at what was
there after the first calls.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from threading import Event, Thread
from time import perf_counter, sleep

import gdatalog as gd
from benchmarks.records import Case, Figure, at_most
from benchmarks.setting import Setting
from benchmarks.sides import THREADS
from benchmarks.small_queries import GROUPS, VERTICES, tables

PAUSE = 0.01  # seconds between two questions of a thread
CALLS = 300  # of each thread without the long query
WITHIN = 0.02  # seconds for a question that takes 1 ms alone

# Long questions: rounds of array operations, and compiled loops.
LONG = {
    "a recursion": """
        r(x, y) <- E(x, y), x < 400. r(x, z) <- r(x, y), E(y, z).
        n(count()) <- r(_, _).
    """,
    "compiled loops": """
        n(count()) <- D(a, b), D(b, c), D(c, d), D(d, e), D(a, e), a < c, b < d, c < e, a < d.
    """,
}
_STRATEGY = {"a recursion": "levelwise", "compiled loops": "lftj"}

Ask = Callable[[int], object]


def run(setting: Setting) -> Iterator[Case]:
    for name, text in LONG.items():
        if setting.wants(name, 60):
            yield from beside(name, text, 10 if setting.small else CALLS)


def beside(name: str, text: str, calls: int) -> Iterator[Case]:
    """The small questions alone, and beside a long one."""
    with database() as db:
        asks = questions(db)
        for ask in asks.values():
            for x in range(5):
                ask(x)
        gc.collect()
        gc.freeze()
        ends = Event()
        alone = asked(asks, calls, ends)

        def long() -> None:
            began = perf_counter()
            while perf_counter() - began < (0.1 if calls < CALLS else 4.0):
                db.query(text, strategy=_STRATEGY[name])
            ends.set()

        thread = Thread(target=long)
        thread.start()
        crowded = asked(asks, 0, ends)
        thread.join()
        gc.unfreeze()
        for what in asks:
            figures = []
            for side, seconds in (("alone", alone[what]), (f"beside {name}", crowded[what])):
                figures.append(Figure(f"{side}, median", median(seconds), runs=len(seconds)))
                figures.append(Figure(f"{side}, longest", max(seconds), runs=len(seconds)))
            case = Case("threads", f"{what} beside {name}", figures)
            case.asks.append(at_most(case.what, "the longest", max(crowded[what]), WITHIN))
            yield case


def asked(asks: Mapping[str, Ask], calls: int, ends: Event) -> dict[str, list[float]]:
    """The seconds of each question, asked so often, or until an event, by a thread of its own."""
    seconds: dict[str, list[float]] = {what: [] for what in asks}

    def work(what: str, ask: Ask) -> None:
        mine = seconds[what]
        while len(mine) < calls or not (calls or ends.is_set()):
            sleep(PAUSE)
            began = perf_counter()
            ask(len(mine))
            mine.append(perf_counter() - began)

    threads = [Thread(target=work, args=each) for each in asks.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seconds


def database() -> gd.Database:
    db = gd.connect(device="cpu", threads=THREADS)
    for name, rows in tables().items():
        db[name] = rows
    db["D"] = tables()["E"] % 500
    db["F"] = [(x, x % 7) for x in range(100)]
    db.run("two(x, z) <- F(x, y), F(y, z).")
    return db


def questions(db: gd.Database) -> dict[str, Ask]:
    """One for each of seven threads."""
    point = db.prepare("?- E($x, y).")
    return {
        "a prepared point": lambda x: point(x=x).fetchall(),
        "a point": lambda x: db.query(f"?- E({x % VERTICES}, y).").fetchall(),
        "a new text": lambda x: db.query(f"q{x}(y) <- F(x, y), x < {x % 50}.").fetchall(),
        "two hops": lambda x: db.query(f"?- E({x % VERTICES}, y), E(y, z).").fetchall(),
        f"{GROUPS} groups": lambda x: db.query("g(k, count()) <- G(_, k).").fetchall(),
        "a relation": lambda x: db["F"].fetchall(),
        "an insert, and a view": lambda x: (db.insert("F", [(x, 1000 + x)]), len(db["two"])),
    }
