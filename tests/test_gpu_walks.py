"""Depth-first on a device that is not there: kernels of plans, run by g++, against the oracle.

A number chooses the tile, how soon tasks are shared, how many rows the pool has room for, and how
the threads take turns: so nearly every walk is cut off, goes on elsewhere, and is put together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import settings

import gdatalog
from gdatalog.gpu_ops import kept_lists, launch, loops, scratch
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.lanes import TILES
from gdatalog.parser import parse
from gdatalog.printer.nest_state import LoopText
from tests import test_engine_oracle as oracle
from tests.cases import cases, share
from tests.corners import CORNERS, Example
from tests.cuda_host import HostDriver, needs_compiler
from tests.draw import Drawn, check_drawn
from tests.examples import EXAMPLES
from tests.oracle_values import canonical
from tests.test_depth_first import HEADS, PATTERNS, TESTS, graph

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

# Every drawn program is several kernels, each compiled for it alone.
FEW = settings(share(1), max_examples=cases(6, 4))
LIMITS = (0, -1, 300)  # at every chance, never, after a few atomics
INTERSECT = ("auto", "auto", "plain")


def borrowed(monkeypatch: pytest.MonkeyPatch) -> list[scratch.Scratch]:
    """All tiles run, and have a buffer of one value: they borrow longer ones, of which there is
    one of each length. Gives what launches have."""
    found: list[scratch.Scratch] = []

    def short(needs: Sequence[scratch.Need], tiles: int, _: int) -> scratch.Scratch:
        lengths = {need.name: need.length for need in needs}
        longest = max((need.length for need in needs if need.buffer), default=0)
        classes = []
        for size in (*(4**at for at in range(1, 12) if 4**at < longest), longest):
            parts = {need.name: min(need.length, size) for need in needs if need.buffer}
            classes.append(scratch.BufferClass(parts, 1))
        own = {need.name: 1 for need in needs if need.buffer}
        found.append(scratch.Scratch(tiles, lengths | own, tuple(classes) if longest > 1 else ()))
        return found[-1]

    monkeypatch.setattr(launch, "laid_out", short)
    return found


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    """The answers, depth-first."""
    driver = HostDriver(seed=number % 1000, blocks=1 + number % 2, races=number % 4 == 1)
    device = Gpu(driver)
    with gdatalog.connect(device="cpu") as db, pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "BLOCK_ROWS", (32, 256)[number % 2])
        if number % 5 == 2:
            borrowed(patch)
        if number % 2:
            patch.setattr(kept_lists, "LEAST_TURNED", 0)
        db.workspace.device = device
        db.workspace.tune(
            tile_shares_after=LIMITS[number % len(LIMITS)],
            tile_grain=(0, 1, 7, 64)[number // 2 % 4],
            pool_rows=(1, 1 << 14)[number // 3 % 2],
        )
        db.workspace.force(
            strategy="lftj",
            tile=TILES[number % len(TILES)],
            intersect=INTERSECT[number % len(INTERSECT)],
        )
        return oracle.answers(db, text, data, defined)


def agrees(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


@pytest.mark.slow
@pytest.mark.drawn
@pytest.mark.parametrize("profile", ["programs", "graph", "aggregate", "string"])
def test_programs(profile: str) -> None:
    check_drawn(profile, FEW, agrees)


@pytest.mark.parametrize(
    ("number", "example"),
    [
        pytest.param(at, example, id=str(example), marks=() if at % 9 == 0 else pytest.mark.slow)
        for at, example in enumerate(CORNERS + EXAMPLES)
    ],
)
def test_example(example: Example, number: int) -> None:
    if example.fails:
        with pytest.raises(gdatalog.EvaluationError):
            run(example.program, example.data, oracle._heads(example), number)
        return
    found = run(example.program, example.data, set(example.expected), number)
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


@pytest.mark.parametrize("mirror", [False, True], ids=["directed", "symmetric"])
@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(name, marks=() if name in ("K4", "K5") else pytest.mark.slow)
        for name in PATTERNS
    ],
)
def test_patterns(pattern: str, mirror: bool) -> None:
    """Two heads of each pattern, with other tests for each."""
    body = PATTERNS[pattern]
    start = 3 * len(pattern) + mirror
    for number in (start, start + 13):
        head, tests = HEADS[number % len(HEADS)], TESTS[number // 2 % len(TESTS)]
        edges = graph(number, mirror)
        text = f"{head} <- {body}{tests}."
        data: oracle.Data = {name: (("int", "int"), list(rows)) for name, rows in edges.items()}
        types = dict.fromkeys(data, ("int", "int"))
        expected = oracle.evaluate(parse(text), {n: set(rows) for n, rows in edges.items()}, types)
        found = run(text, data, {"n"}, number)
        assert canonical(found["n"]) == canonical(expected["n"]), (text, edges, number)


@pytest.mark.parametrize("tile", [4, 32])
def test_tiles_borrow_longer_buffers(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two levels, while others wait for them: for a count, and for rows where there is no room
    for all of them."""
    found = borrowed(monkeypatch)
    monkeypatch.setattr(launch, "BLOCK_ROWS", 32)
    edges = [(x, y) for x in range(14) for y in range(x + 1, 14) if (x * y) % 7]
    clique = "E(a, b), E(a, c), E(b, c), E(a, d), E(b, d), E(c, d), E(a, e), E(b, e), E(c, e)"
    with gdatalog.connect(device="cpu") as db:
        db["E"] = edges
        texts = [f"n({head}) <- {clique}, E(d, e)." for head in ("count()", "a, b, c, d, e")]
        expected = [sorted(db.query(text).fetchall()) for text in texts]
        for seed in range(3):
            device = Gpu(HostDriver(seed=seed, blocks=2, races=True))
            db.workspace.tune(tile_shares_after=0, pool_rows=64)
            db.workspace.device = device
            db.workspace.force(strategy="lftj", tile=tile, intersect="plain")
            assert [sorted(db.query(text).fetchall()) for text in texts] == expected
    assert all(scratch.classes and scratch.tiles > 1 for scratch in found)


@pytest.mark.parametrize("tile", [4, 32])
def test_what_is_read_by_all_tasks_is_not_borrowed(
    tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of constants meet once for all of a tile's tasks."""
    borrowed(monkeypatch)
    edges = [(x, y) for x in (1, 2) for y in range(40)] + [(3, y) for y in range(0, 40, 3)]
    others = [(x, y) for x in range(40) for y in range(40) if (x + y) % 4]
    with gdatalog.connect(device="cpu") as db:
        db["E"], db["F"] = edges, others
        texts = [
            "n(x, y) <- E(1, x), E(2, x), E(3, x), F(x, y).",
            "n(count()) <- E(1, x), E(2, x), E(3, x), F(x, y), F(y, z), F(x, z).",
            "n(count()) <- F(x, z), F(z, x), E(1, y), E(2, y), E(3, y), y != z.",
        ]
        expected = [sorted(db.query(text).fetchall()) for text in texts]
        device = Gpu(HostDriver(seed=tile, blocks=2, races=True))
        db.workspace.tune(tile_shares_after=0, pool_rows=64)
        db.workspace.device = device
        db.workspace.force(strategy="lftj", tile=tile, intersect="plain")
        assert [sorted(db.query(text).fetchall()) for text in texts] == expected


def test_what_lanes_have_left_of_a_unit_is_shared() -> None:
    """A list of more turns than there are lanes, with a count of its own below each."""
    edges = [(x, y) for x in range(4) for y in range(x + 1, 60)]
    edges += [(x, y) for x in range(4, 59) for y in range(x + 1, min(60, x + 9))]
    text = "n(count()) <- E(a, c), E(a, d), c < d, E(c, e), E(d, e), E(b, c), E(b, d)."
    with gdatalog.connect(device="cpu") as db:
        db["E"] = [*edges, *((y, x) for x, y in edges)]
        expected = db.query(text).fetchall()
        for tile, limit in ((8, 0), (32, 0), (8, 50)):
            device = Gpu(HostDriver(seed=tile, blocks=2))
            db.workspace.tune(tile_shares_after=limit, tile_grain=7)
            db.workspace.device = device
            db.workspace.force(strategy="lftj", tile=tile, algebra="never")
            assert db.query(text).fetchall() == expected
            (source,) = device.walks._kernels
            assert "_first + LANES - l" in source  # where a lane's strip gives away the rest


def test_common_values_that_are_only_counted_are_not_written() -> None:
    """Lanes look the values of their lists up in one that is held, those of a short one in theirs
    if these are far longer, and share what they have left with other tiles."""
    edges = [(x, y) for x in range(60) for y in range(x + 1, 60) if (x * x + 7 * y) % 5 < 1 + x % 2]
    text = (
        "n(count()) <- E(a, b), E(a, c), E(a, d), E(a, e), E(b, c), E(b, d), E(b, e), E(c, d), "
        "distinct(a, b, c, d, e)."
    )
    with gdatalog.connect(device="cpu") as db:
        db["E"] = [*edges, *((y, x) for x, y in edges)]
        expected = db.query(text).fetchall()
        device = db.workspace.device = Gpu(HostDriver(seed=2, blocks=2, races=True))
        db.workspace.force(strategy="lftj", tile=32, algebra="never")
        db.workspace.tune(tile_shares_after=0)
        assert db.query(text).fetchall() == expected
        (source,) = device.walks._kernels
        assert "= hold_list(t, " in source
        # What is read from arrays of 32 bits takes one register, and one shuffle.
        assert re.search(r"^    i32 .*\bl4, h4\b", source, re.MULTILINE)
        assert "i32 i4_low = 0, i4_high = 0;" in source
        # Groups of eight lanes take a list each, and load the next values ahead.
        assert source.count("holds_key(held, held_now,") == 2
        assert "i4_step += 4" in source and "x3_ahead = v2_1[(i4 + 8)];" in source


@pytest.mark.parametrize("number", [0, 5], ids=["a thread", "32 lanes"])
def test_a_root_without_an_index(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its search begins in shared memory."""
    sources: list[str] = []
    whole = loops.whole

    def noted(text: str) -> str:
        sources.append(text)
        return whole(text)

    monkeypatch.setattr(loops, "whole", noted)
    far = 1_000_003
    rows = [(x * far, y * far) for x, y in graph(3, True)["E"]]
    text = "n(a, count()) <- E(a, b), E(b, c), E(a, c), a != c."
    data: oracle.Data = {"E": (("int", "int"), list(rows))}
    expected = oracle.evaluate(parse(text), {"E": set(rows)}, {"E": ("int", "int")})
    found = run(text, data, {"n"}, number)
    assert canonical(found["n"]) == canonical(expected["n"])
    assert any("load_top(" in source for source in sources)


def test_turns_below_generated_values_are_not_shared() -> None:
    """They come again for each of the values."""
    edges = [(x, (x * x + y) % 8) for x in range(8) for y in (1, 3, 6)]
    text = """n(x, y, k, count()) <-
        E(x, y), k in {1, 2, y}, z = (k * y) % 9, E(z, w), E(w, v), E(v, u), u < 3."""
    data: oracle.Data = {"E": (("int", "int"), list(edges))}
    expected = oracle.evaluate(parse(text), {"E": set(edges)}, {"E": ("int", "int")})
    assert canonical(run(text, data, {"n"}, 3)["n"]) == canonical(expected["n"])


def test_seven_loops_inside_each_other() -> None:
    """The seventh is called i6, which `i64` begins with."""
    edges = [(x, (x + 1) % 4) for x in range(4)]
    names = "abcdefghi"
    body = ", ".join(f"E({x}, {y})" for x, y in pairwise(names))
    data: oracle.Data = {"E": (("int", "int"), list(edges))}
    found = run(f"p({', '.join(names)}) <- {body}.", data, {"p"}, 5)
    assert sorted(found["p"]) == [tuple((x + at) % 4 for at in range(9)) for x in range(4)]


def test_no_variable_has_the_name_of_a_type() -> None:
    text = LoopText()
    names = [text.name("i") for _ in range(70)]
    assert len(set(names)) == 70 and not {"i32", "i64"} & set(names)


@pytest.mark.parametrize("seed", [7, 11])
def test_lanes_look_at_the_clock_together(seed: int) -> None:
    """They take a task at slightly different times, about as long after the last look as decides
    whether the next one comes sooner."""
    driver = HostDriver(seed=seed, blocks=1)
    driver.step, driver.yields = 400, 0.5
    edges = [(a, 7 * a * b % 200) for a in range(200) for b in range(1, 14)]
    with gdatalog.connect(device="cpu") as db:
        db["E"] = edges
        text = "p(x, y) <- E(x, y), E(y, x)."
        expected = sorted(db.query(text).fetchall())
        device = Gpu(driver)
        db.workspace.force(strategy="lftj", tile=8)
        db.workspace.device = device
        for limit in (5_500_000, 6_500_000, 7_500_000, 8_500_000):
            db.workspace.tune(tile_shares_after=limit, tile_grain=64)
            assert sorted(db.query(text).fetchall()) == expected


@pytest.mark.parametrize("tile", [1, 16])
def test_a_proposition_holds_if_there_is_a_match(tile: int) -> None:
    with gdatalog.connect(device="cpu") as db:
        db["E"] = [(1, 2), (2, 3), (1, 3), (4, 1)]
        db.workspace.device = Gpu(HostDriver(seed=tile))
        db.workspace.force(strategy="lftj", tile=tile)
        for least, holds in ((0, True), (2, False)):
            found = db.query("p() <- E(x, y), E(y, z), E(x, z), x > $least.", {"least": least})
            assert bool(found) == holds and found.fetchall() == [()] * holds
