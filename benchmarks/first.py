"""The first answer of a rule of four variables in a new process: how long a user waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.measure import once
from benchmarks.records import Case, Figure, at_most
from benchmarks.setting import Setting

ROOT = Path(__file__).resolve().parents[1]
RULE = "n(count()) <- E(a, b), E(b, c), E(c, d), E(d, a), E(a, c), a < c, b < d."
_START = """
import gdatalog as gd
db = gd.connect(threads=2)
db["E"] = [(x, y) for x in range(60) for y in range(60) if (x * 7 + y * 11) % 5 == 0]
"""
_ASK = f"""
print(db.query({RULE!r}, strategy={{strategy!r}}).fetchall())
"""


def run(setting: Setting) -> Iterator[Case]:
    what = "a rule of four variables, in a new process"
    if not setting.wants(what, 20):
        return
    times = 1 if setting.small else 3
    start, compiled, kept = [], [], []
    answers = set()
    for _ in range(times):
        with TemporaryDirectory(prefix="gdatalog-code-") as cache:
            start.append(_seconds(_START, cache)[0])
            for strategy, into in (("lftj", compiled), ("lftj", kept)):
                taken, answer = _seconds(_START + _ASK.format(strategy=strategy), cache)
                into.append(taken)
                answers.add(answer)
            answers.add(_seconds(_START + _ASK.format(strategy="levelwise"), cache)[1])
    assert len(answers) == 1, f"{RULE} has several answers: {answers}"
    startup, first, again = median(start), median(compiled), median(kept)
    case = Case(
        "first answers",
        what,
        [
            Figure("start-up, the data loaded", startup, runs=times),
            Figure("the first answer ever, start-up too", first, runs=times),
            Figure("the first answer, compiled earlier, start-up too", again, runs=times),
        ],
    )
    case.asks = [
        at_most("first-ever answer of 4 variables, start-up too", "a clock", first, 1.5),
        at_most("first answer from a warm cache", "start-up", again - startup, 0.6),
    ]
    yield case


def _seconds(program: str, cache: str) -> tuple[float, str]:
    """Of a whole process, and what it printed."""
    environment = {**os.environ, "GDATALOG_CACHE": cache}

    def work() -> str:
        command = [sys.executable, "-c", program]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    return once(work)
