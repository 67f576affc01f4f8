"""The memory limit: wide queries with small answers stay within it, large answers say what they
hold, recursion without end is told of; and chunks of any size give the same answers.

NumPy tells tracemalloc of its arrays, so that the peak is what was held, temporaries included.
The limit is kept by what chunks may hold, not by counting each array: twice it is tolerated.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from benchmarks import limits

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

LIMIT = 1 << 20
BYTES = 12  # of one row of one level at the least: its value, and its parent's place


def random_edges(vertices: int, edges: int) -> Any:
    ends = np.random.default_rng(3).integers(0, vertices, (edges, 2))
    return np.unique(ends, axis=0)


EDGES = random_edges(600, 9_000)
SPOKES = np.arange(1, 1500)
HUB = np.concatenate(
    [np.stack([SPOKES, 0 * SPOKES], 1), np.stack([0 * SPOKES, SPOKES], 1)]
)  # 0 is everyone's neighbour


def paths(edges: Any, length: int) -> int:
    """How many walks of so many edges there are."""
    ends = np.ones(int(edges.max()) + 1, dtype=np.int64)
    for _ in range(length):
        ends = np.bincount(edges[:, 0], ends[edges[:, 1]], len(ends)).astype(np.int64)
    return int(ends.sum())


def small(limit: int | str = LIMIT, **data: Any) -> gd.Database:
    db = gd.connect(memory_limit=limit, temp_directory="")
    for name, rows in data.items():
        db[name] = rows
    return db


def peak_of(db: gd.Database, text: str) -> tuple[gd.Result, int]:
    db.workspace.force(strategy="levelwise")  # the other one brings a compiler with it
    db.query("p(x) <- x in {1}.")  # what is made once in the life of a process is made now
    tracemalloc.start()
    try:
        result = db.query(text)
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


WALKS = "E(a, b), E(b, c), E(c, d), a != d, b != d"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (f"n(count()) <- {WALKS}.", 1),
        (f"n(a, count(), sum(d), max(c)) <- {WALKS}.", 600),
        (f"n(a, n) <- E(a, _), n = sum d : {{ {WALKS} }}.", 600),
        (f"p(a) <- {WALKS}, a * d + b * c = 400009.", None),
        (f"p(a, x) <- {WALKS}, x = (a + d) % 3.", 1800),
    ],
    ids=["count", "group", "body", "exists", "answers"],
)
def test_a_wide_query_with_a_small_answer(text: str, rows: int | None) -> None:
    assert paths(EDGES, 3) * BYTES > 20 * LIMIT
    result, peak = peak_of(small(E=EDGES), text)
    assert rows is None or len(result) == rows
    assert peak < 2 * LIMIT
    if rows == 1:
        steps = np.zeros((600, 600), dtype=np.int64)
        steps[EDGES[:, 0], EDGES[:, 1]] = 1
        round_trips = (steps @ steps).diagonal()
        returns = int(np.trace(steps @ steps @ steps))  # a = d
        turns = int(round_trips @ steps.sum(axis=0))  # b = d
        both = int(round_trips @ steps.diagonal())
        assert result.fetchall() == [(paths(EDGES, 3) - returns - turns + both,)]


@pytest.mark.slow
def test_a_list_that_is_longer_than_a_chunk() -> None:
    walks = paths(HUB, 2)
    assert walks * BYTES > 20 * LIMIT
    result, peak = peak_of(small(E=HUB), "n(count()) <- E(a, b), E(b, c), a + c != 7.")
    (found,) = result.fetchall()[0]
    spokes = len(SPOKES)
    # through the hub all pairs but (1, 6) ... (6, 1); out and back once for each spoke
    assert found == spokes * spokes - 6 + spokes
    assert peak < 2 * LIMIT


@pytest.mark.slow
def test_a_long_range_is_made_in_chunks() -> None:
    result, peak = peak_of(small(), "n(count()) <- i = range(0, 4000000), i % 5 = 2.")
    assert result.fetchall() == [(800_000,)] and peak < LIMIT


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_chunks_of_any_size_give_the_same_answers(chunk: int) -> None:
    text = """
        tr(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z.
        k4(a, b, c, d) <- E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, d), a < b < c < d.
        deg(x, count(), max(y)) <- E(x, y).
        two(x, n) <- E(x, _), n = count_distinct z : { E(x, y), E(y, z) }.
        path(x, z) <- F(x, z) ; path(x, y), F(y, z).
        lone(x, y) <- E(x, y), !(E(y, z), E(z, x)).
        dist(y, min(w)) <- F(0, y), w = 1.
        dist(y, min(w + 1)) <- dist(x, w), F(x, y).
        out(x) <- E(x, y), E(y, z), E(z, x), x != y, y != z.
    """
    names = ("tr", "k4", "deg", "two", "path", "lone", "dist", "out")
    data = {"E": random_edges(18, 130), "F": random_edges(25, 30)}
    whole, pieces = small("1GiB", **data), small("1GiB", **data)
    pieces.workspace.chunk_rows = chunk
    whole.run(text)
    pieces.run(text)
    for name in names:
        found = whole[name].sorted().fetchall()
        assert found and pieces[name].sorted().fetchall() == found


# ------------------------------------------------------------------- the whole process

WHOLE = (
    "texts joined pair by pair",
    "a text that doubles",
    "a long range",
    "product, breadth-first",
    "product, depth-first",
    "closure, breadth-first",
    "closure, split",
    "a count for each pair",
)


@pytest.mark.slow
@pytest.mark.parametrize("what", WHOLE)
def test_a_process_holds_no_more_than_its_limit(what: str) -> None:
    (kind,) = (kind for kind in limits.KINDS if kind.what == what)
    seen = limits.measured(kind, 50 << 20)
    assert seen.outcome == "refused", seen.told
    assert "more than the memory limit of 50.0 MiB (" in seen.told
    assert seen.grown < 160 << 20


# ------------------------------------------------------------------------ what does not fit

TOO_LARGE = {
    "p(a, b, c, d) <- E(a, b), E(c, d).": "answers",
    "n(a, b, c, d, count()) <- E(a, b), E(c, d).": "aggregates",
    "n(count_distinct(a, b, c, d)) <- E(a, b), E(c, d).": "aggregates",
    "n(x) <- E(x, _), 0 < sum b : { E(a, b), E(c, d) ; E(c, b), E(a, d), a < x }.": "answers",
    " ".join(f"p{at}(a, c + {at}) <- E(a, b), E(b, c), a < 60." for at in range(9))
    + " q() <- " + ", ".join(f"p{at}(0, 1)" for at in range(9)) + ".": "p0",
}  # fmt: skip


@pytest.mark.parametrize("text", TOO_LARGE, ids=TOO_LARGE.values())
def test_what_does_not_fit_says_what_holds_it(text: str) -> None:
    db = small(E=random_edges(400, 6000))
    with pytest.raises(gd.MemoryLimitError) as caught:
        db.query(text)
    assert isinstance(caught.value, MemoryError) and isinstance(caught.value, gd.Error)
    says = str(caught.value)
    assert "more than the memory limit of 1.0 MiB" in says and "memory_limit=" in says
    assert f"{TOO_LARGE[text]} " in says
    # and the next query has all of the memory again
    assert len(db.query("p(x) <- E(x, _), E(_, x).")) > 300


ENDLESS = {
    "n(1). n(2*x) <- n(x). n(2*x+1) <- n(x).": "n",
    'n("a"). n(x + "b") <- n(x). n(x + "c") <- n(x).': "texts",
    "n(1, 1). n(x + 1, -x * 1000000007) <- n(x, _). n(-x, y - 1) <- n(x, y).": "n",
    "a(0). b(x + 1) <- a(x). a(x * 3) <- b(x). a(x * 3 + 1) <- b(x).": "a",
}


@pytest.mark.parametrize("text", ENDLESS)
def test_a_program_that_grows_for_ever(text: str) -> None:
    db = small(1 << 20)
    with pytest.raises(gd.MemoryLimitError) as caught:
        db.query(text)
    says = str(caught.value)
    assert "memory limit of 1.0 MiB" in says and f"{ENDLESS[text]} " in says
    rounds = ", in round " in says and "new rows in the last rounds: " in says
    assert rounds or f", in the fixpoint of {ENDLESS[text]}" in says
    assert "does the recursion end?" in says
    places = [caught.value.span, *(note.span for note in caught.value.notes)]
    rules = [place.text for place in places if place is not None]
    assert len(rules) == text.count("<-") and all("<-" in rule for rule in rules)
    assert not list(db.relations)


def test_a_closure_that_fits_runs_within_some_times_the_limit() -> None:
    # A round's rows are held more than once while they are sorted and merged.
    result, peak = peak_of(
        small(E=random_edges(180, 400)), "path(x, z) <- E(x, z) ; path(x, y), E(y, z)."
    )
    assert len(result) > 15_000 and peak < 4 * LIMIT


# ------------------------------------------------------------------- optima that do not end


def test_a_negative_cycle_is_reported_with_rule_and_group() -> None:
    db = small(W=[(0, 1, 1), (1, 2, -3), (2, 1, 1), (2, 3, 5)])
    with pytest.raises(gd.EvaluationError) as caught:
        db.query("dist(0, 0). dist(y, min(d + w)) <- dist(x, d), W(x, y, w).")
    says = str(caught.value)
    assert "dist improves for ever" in says and "negative weight" in says
    assert any(f"(c0 = {vertex})" in says or f"(y = {vertex})" in says for vertex in (1, 2, 3))
    assert caught.value.span is not None and caught.value.span.text.startswith("dist(y, min(")


def test_a_positive_cycle_of_a_maximum_is_reported_too() -> None:
    db = small(W=[("a", "b", 1.5), ("b", "a", -1.0)])
    with pytest.raises(gd.EvaluationError, match="improves for ever"):
        db.query("far(x, max(0.0)) <- W(x, _, _). far(y, max(d + w)) <- far(x, d), W(x, y, w).")


def test_cycles_that_do_not_improve_end() -> None:
    db = small(W=[(0, 1, 2), (1, 2, -2), (2, 0, 0), (2, 1, 2)])
    found = db.query("dist(0, 0). dist(y, min(d + w)) <- dist(x, d), W(x, y, w).")
    assert found.sorted().fetchall() == [(0, 0), (1, 2), (2, 0)]


def test_a_bounded_maximum_ends() -> None:
    db = small(E=[(0, 1), (1, 0)])
    found = db.query("high(0, 0). high(y, max(min(h + 1, 500))) <- high(x, h), E(x, y).")
    assert found.sorted().fetchall() == [(0, 500), (1, 500)]


FREED = """
import numpy as np
from gdatalog.account import free_at_once


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


if {told}:
    free_at_once()
np.ones(31 << 17)  # glibc's own size rises to 31 MiB
arrays = [np.ones(8 << 17) for _ in range(8)]
before = resident()
del arrays[::2]
print((before - resident()) >> 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc's allocator")
def test_memory_of_large_arrays_is_given_back() -> None:
    """Four arrays of 8 MiB, which lie between others."""
    freed = []
    for told in (True, False):
        told_of = [sys.executable, "-c", FREED.format(told=told)]
        ran = subprocess.run(told_of, capture_output=True, text=True, check=True)
        freed.append(int(ran.stdout))
    assert freed[0] >= 30 and freed[1] <= 2
