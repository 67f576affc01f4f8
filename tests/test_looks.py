"""How long a call may go on without a look at whether it is to stop, in each of its phases.

Not by a clock: the lines of Python are counted that the calling thread runs between two looks, and
the rows of arrays that it has NumPy sort. What runs aside, in a thread that is left or ended when
the call stops, does not count. Each input is so large that its phase would go beyond the limit many
times over, were it done without looks. A pass over programs or data that is new and does not look
is found here without anyone having to think of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog import cancellation
from gdatalog.cancellation import LATE, Watch

MOST_LINES = 150_000  # between two looks: some hundredths of a second


class Stretches:
    """The longest stretch between two looks of this thread, and where it was."""

    def __init__(self) -> None:
        self.lines = self.longest = self.whole = 0
        self.where = ""
        self._halfway = ""

    def look(self) -> None:
        if self.lines > self.longest:
            self.longest, self.where = self.lines, self._halfway
        self.whole += self.lines
        self.lines = 0

    def line(self, frame: FrameType, event: str, _: Any) -> Any:
        self.lines += 1
        if self.lines == MOST_LINES // 2:
            told = []
            at: FrameType | None = frame
            while at is not None and len(told) < 8:
                told.append(f"{at.f_code.co_filename}:{at.f_lineno} {at.f_code.co_name}")
                at = at.f_back
            self._halfway = "\n".join(told)
        return self.line


@pytest.fixture
def stretches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stretches]:
    """What is counted while the test runs: lines by Python's own tracing."""
    found = Stretches()
    poll, aside = Watch.poll, Watch.aside

    def looking(watch: Watch) -> None:
        if not watch.behind:
            found.look()
        poll(watch)

    def apart(watch: Watch, *given: Any, **named: Any) -> Any:
        found.look()
        made = aside(watch, *given, **named)
        found.lines = 0  # while this thread waited it has looked
        return made

    with gd.connect(device="cpu") as db:  # what is imported, and made once, is there
        db["F"] = [(1, "a")]
        db.query("p(x) <- F(x, _), !q(x). q(2).")
    monkeypatch.setattr(Watch, "poll", looking)
    monkeypatch.setattr(Watch, "aside", apart)
    before = sys.gettrace()
    sys.settrace(found.line)
    try:
        yield found
    finally:
        sys.settrace(before)


def lines(count: int, form: Callable[[int], str]) -> str:
    return "\n".join(map(form, range(count)))


EDGE = "e(1, 2). "
PROGRAMS = {
    "facts": lines(12_000, lambda i: f"e({i}, {i + 1}).") + "?- e(1, x).",
    "facts over lines": lines(700, lambda i: f"e({i},\n{i + 1}).") + "?- e(1, x).",
    "floats": ".decl e(x: float, y: int) " + lines(6_000, lambda i: f"e({i}, 1).") + "?- e(1, x).",
    "rules": EDGE + lines(300, lambda i: f"p{i}(x) <- e(x, y), e(y, {i}).") + "?- p7(x).",
    "rules that lean on others": EDGE
    + "p0(x) <- e(x, _)."
    + lines(100, lambda i: f"p{i + 1}(x) <- e(x, _), !p{i}(x).")
    + "?- p100(x).",
    "rules of one relation": EDGE + lines(100, lambda i: f"p(x) <- e(x, {i}).") + "?- p(x).",
    "a cycle": EDGE
    + "p0(x) <- e(x, _)."
    + lines(60, lambda i: f"p{(i + 1) % 60}(x) <- p{i}(x).")
    + "?- p7(x).",
    "a cycle through negation": lines(300, lambda i: f"p{(i + 1) % 300}(x) <- e(x), !p{i}(x)."),
    "declarations": lines(600, lambda i: f".decl r{i}(x: int)") + "?- x = 1.",
    "mistakes": "p(x <- e(x).\n" * 600,
    "unknown names": lines(100, lambda i: f"pre{i}(x) <- pre{i}post(x)."),
    "a long rule": EDGE
    + "p(a0) <- "
    + ", ".join(f"e(a{i}, a{i + 1})" for i in range(10))
    + ", e(a10, 1).",
    "many comparisons": EDGE
    + "p(x) <- e(x, _), "
    + ", ".join(f"x != {i}" for i in range(200))
    + ".",
    "alternatives": EDGE + "p(x) <- " + "; ".join(f"e(x, {i})" for i in range(150)) + ".",
    "a clique": EDGE
    + "p(count()) <- "
    + ", ".join(f"e(x{i}, x{j})" for i in range(5) for j in range(i))
    + ".",
    "a wide fact": "e(" + ", ".join(map(str, range(3_000))) + ").",
    "brackets": "?- x = " + "(" * 10_000 + "1" + ")" * 10_000 + ".",
    "an open bracket": EDGE + "?- x = " + "(1, " * 5_000,
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(stretches: Stretches, name: str) -> None:
    with gd.connect(device="cpu", memory_limit="1GiB") as db, suppress(gd.Error):
        db.query(PROGRAMS[name], strategy="levelwise")
    stretches.look()
    assert stretches.longest < MOST_LINES, stretches.where


def test_a_text_is_read_aside(stretches: Stretches) -> None:
    """The calling thread does next to nothing while a long text is parsed and checked."""
    with gd.connect(device="cpu") as db:
        db.query(PROGRAMS["rules"])
    assert stretches.whole < 2_000_000


def graph() -> Any:
    import networkx as nx

    return nx.path_graph(5_000)


def frame() -> Any:
    import pandas as pd

    return pd.DataFrame({"a": [f"t{i}" for i in range(20_000)], "b": [1.5] * 20_000}, dtype=object)


def table() -> Any:
    import pyarrow as pa

    return pa.table({"a": [f"t{i}" for i in range(20_000)], "b": list(range(20_000))})


DATA: dict[str, Callable[[], Any]] = {
    "tuples": lambda: [(i, f"t{i}") for i in range(40_000)],
    "records": lambda: [{"a": i, "b": f"t{i}"} for i in range(20_000)],
    "a generator": lambda: ((i, f"t{i}") for i in range(40_000)),
    "columns": lambda: {"a": list(range(40_000)), "b": [f"t{i}" for i in range(40_000)]},
    "a graph": graph,
    "a frame of objects": frame,
    "an Arrow table": table,
    "an Arrow stream": lambda: table().to_reader(1_000),
    "an array": lambda: np.arange(200_000).reshape(100_000, 2),
}


@pytest.mark.parametrize("name", DATA)
def test_data(stretches: Stretches, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "LATE", 1 << 14)
    monkeypatch.setattr("gdatalog.storage.raw.AT_ONCE", 1 << 10)
    sys.settrace(None)
    data = DATA[name]()
    sys.settrace(stretches.line)
    stretches.lines = 0
    with gd.connect(device="cpu") as db:
        db["E"] = data
        db.insert("E", db["E"])
        assert len(db["E"]) > 1_000
    stretches.look()
    assert stretches.longest < MOST_LINES, stretches.where


def test_arrays_are_sorted_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long array that the calling thread hands to NumPy holds it up until that is done."""
    held: list[str] = []

    def counted(name: str, function: Any) -> Any:
        def call(array: Any, *given: Any, **named: Any) -> Any:
            size = len(array[0]) if isinstance(array, tuple | list) else np.size(array)
            if size >= LATE and not cancellation.current_watch().behind:
                held.append(f"{name} of {size:,}")
            return function(array, *given, **named)

        return call

    for name in ("sort", "argsort", "lexsort", "unique"):
        monkeypatch.setattr(np, name, counted(name, getattr(np, name)))
    rng = np.random.default_rng(1)
    with gd.connect(device="cpu") as db:
        db["E"] = rng.integers(0, 1 << 20, (LATE + 1, 2))
        db.query("p(count()) <- E(x, y), E(y, x).", strategy="levelwise")
        db.query("?- E(x, y), x < 50.", strategy="levelwise")
    assert not held
