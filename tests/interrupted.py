"""Calls that are interrupted at random moments; after each the database answers correctly.

    python -m tests.interrupted SEED COUNT

A process of its own: Ctrl-C is for whoever listens, and here that is nobody but Python. Says "ok"
and how many calls were stopped, or what was wrong.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import gdatalog as gd
from gdatalog.threads import MOMENT

PATHS = "n(count()) <- E(x, y), E(y, z)."
LONGEST = 0.4  # seconds until the interrupt comes, at the most


class Trial:
    """A database, and what it has to hold."""

    def __init__(self, random: Random, folder: Path) -> None:
        self.random = random
        self.folder = folder
        self.db = gd.connect(device="cpu")
        self.rows: list[tuple[int, int]] = []
        self.stopped = 0
        self.replace(self.drawn(100))
        self.db.run("v" + PATHS[1:])

    def drawn(self, most: int) -> list[tuple[int, int]]:
        size = self.random.randrange(1, most)
        draw = self.random.randrange
        return list({(draw(1 + size // 4), draw(1 + size // 4)) for _ in range(size)})

    def replace(self, rows: list[tuple[int, int]]) -> None:
        self.db["E"] = rows
        self.rows = rows

    # ----------------------------------------------------------------------------- the calls

    def call(self) -> tuple[Callable[[], Any], list[tuple[int, int]]]:
        """A call, and the rows that are there when it has been done."""
        db, rows = self.db, self.drawn(20_000)
        path = str(self.folder / "e.csv")
        both = list(dict.fromkeys([*self.rows, *rows]))
        strategy = self.random.choice(["auto", "lftj", "levelwise"])
        text = "\n".join(f"p{i}(x) <- E(x, {i})." for i in range(self.random.randrange(300)))
        closure = "t(x, y) <- E(x, y). t(x, z) <- t(x, y), E(y, z), x < 9."
        number = self.random.randrange(8)
        if number == 0:
            return lambda: db.load("E", rows), rows
        if number == 1:
            return lambda: db.insert("E", rows), both
        if number == 2:
            lines = "a,b\n" + "".join(f"{x},{y}\n" for x, y in rows)
            Path(path).write_text(lines)
            return lambda: db.load("E", path), rows
        calls: list[Callable[[], Any]] = [
            lambda: db.query(text + closure + "?- t(1, y).", strategy=strategy),
            lambda: db.query(PATHS, strategy=strategy),
            lambda: db.query("?- E(x, y), E(y, z), E(x, z).", strategy=strategy).df(),
            lambda: db.run(text + closure, name="t", strategy=strategy),
            lambda: db["E"].to_parquet(self.folder / "e.parquet"),
        ]
        return calls[number - 3], self.rows

    def once(self) -> None:
        """One call, into which an interrupt falls, or behind which."""
        call, after = self.call()
        by_key = self.random.random() < 0.7
        here = os.getpid()

        def interrupt() -> None:
            if by_key:
                os.kill(here, signal.SIGINT)
            else:
                self.db.interrupt()

        timer = threading.Timer(self.random.random() ** 2 * LONGEST, interrupt)
        try:
            timer.start()
            call()
            timer.join()
            time.sleep(20 * MOMENT)  # one that came into an import is raised behind it
        except (KeyboardInterrupt, gd.Interrupted):
            self.stopped += 1
            timer.join()
        self.check(after)

    def check(self, after: list[tuple[int, int]]) -> None:
        """The rows are those of before the call or behind it, and answers are right."""
        there = set(self.db["E"].fetchall())
        assert there in (set(self.rows), set(after)), f"{len(there)} rows are there"
        self.rows = list(there)
        ins: dict[int, int] = {}
        for _, y in self.rows:
            ins[y] = ins.get(y, 0) + 1
        paths = sum(ins.get(x, 0) for x, _ in self.rows)
        for found in (self.db.query(PATHS), self.db["v"]):
            assert found.fetchall() == [(paths,)], (found.fetchall(), paths)


def main() -> None:
    warnings.simplefilter("ignore")
    seed, count = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Random(seed), Path(folder))
        for number in range(count):
            try:
                trial.once()
            except BaseException:
                print(f"wrong at {number} of seed {seed}")
                raise
        print("ok", trial.stopped)


if __name__ == "__main__":
    main()
