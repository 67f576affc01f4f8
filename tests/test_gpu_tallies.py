"""Tables of counts on a device that is not there: what tiles keep, and what all of them add to.

A number chooses the tile, how soon tasks are shared, and how the threads take turns.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Iterator
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog import patterns
from gdatalog.engine import depth
from gdatalog.engine.rules import signed_sum
from gdatalog.gpu_ops import kept_lists, launch
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.lanes import TILES
from gdatalog.gpu_ops.loops import loops_of
from gdatalog.gpu_ops.scratch import Need, laid_out
from gdatalog.parser import parse
from gdatalog.printer import tallies
from gdatalog.printer.module import PrintedPlan
from tests import test_algebra, test_keyed_counts
from tests.cases import share
from tests.cuda_host import HostDriver, needs_compiler
from tests.cuda_host.arrays import CURRENT
from tests.cuda_host.driver import HostKernel
from tests.oracle import TooLong, evaluate
from tests.test_engine_oracle import Data, Relations, answers
from tests.test_gpu_cells import forced
from tests.test_gpu_group import database, group
from tests.test_local_counts import PEAKED, SHAPES, body, drawn_edges, prefer_peaks, skewed

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

# Of a block in shared memory: for a table, for a part of one, for none.
ROOMS = (40 << 10, launch.TEAMS * 128, 0)
LIMITS = (0, -1, 300)  # at every chance, never, after a few atomics
SQUARES = "n(count()) <- E(a, b), E(b, c), E(c, d), E(d, a), distinct(a, b, c, d)."


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PrintedPlan]]:
    """The loops that are printed for tiles."""
    made: list[PrintedPlan] = []
    plain = depth._print

    def noted(*given: Any) -> PrintedPlan | str:
        found = plain(*given)
        assert not isinstance(found, str) or "tables" not in found, found
        if not isinstance(found, str) and found.lanes:
            made.append(found)
        return found

    monkeypatch.setattr(depth, "_print", noted)
    yield made


def device_of(number: int) -> Gpu:
    driver = HostDriver(seed=number % 1000, blocks=1 + number % 2, races=number % 4 == 1)
    driver.room = ROOMS[number // 5 % len(ROOMS)]
    return Gpu(driver)


def onto(db: gd.Database, number: int) -> None:
    """Puts a database on a device."""
    db.workspace.device = device_of(number)
    after, grain = LIMITS[number % len(LIMITS)], (0, 1, 7)[number // 2 % 3]
    db.workspace.tune(tile_shares_after=after, tile_grain=grain, team_unit=0)


def run(text: str, data: Data, number: int, algebra: str = "quotients") -> Relations:
    with gd.connect(device="cpu") as db:
        onto(db, number)
        db.workspace.force(algebra=algebra, strategy="lftj", tile=TILES[number // 3 % len(TILES)])
        return answers(db, text, data, {"n"})


def agrees(text: str, data: Data, number: int, algebra: str = "quotients") -> None:
    rows = {name: set(rows) for name, (_, rows) in data.items()}
    types = {name: types for name, (types, _) in data.items()}
    try:
        expected = evaluate(parse(text), rows, types)
    except TooLong:
        return
    assert set(run(text, data, number, algebra)["n"]) == set(expected["n"]), (text, data)


def in_common(leaves: int) -> list[tuple[int, int]]:
    """An edge whose two ends, and a third vertex, have so many neighbours in common."""
    pairs = [(0, 1), *((end, 10 + leaf) for leaf in range(leaves) for end in range(3))]
    return [*pairs, *((b, a) for a, b in pairs)]


def test_long_lists_are_read_one_after_the_other(printed: list[PrintedPlan]) -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = in_common(140)
        expected = 140 * 139 // 2
        onto(db, 1)
        db.workspace.force(tile=32, strategy="lftj", algebra="quotients")
        assert db.count(patterns.from_edges(WEDGES, name="some")) == expected
    assert any("_its_high" in loops_of(plan).source for plan in printed)


@pytest.mark.parametrize("room", ROOMS)
def test_the_tiles_of_a_block_have_one_table(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In shared memory, or a part of it; else each tile has a table. At the end, with small units,
    each tile has one again."""
    sizes: list[int] = []
    monkeypatch.setattr(HostKernel, "enlarge", lambda kernel, size: sizes.append(size))
    found = []
    with gd.connect(device="cpu") as db:
        db["E"] = skewed(150)
        db.workspace.force(algebra="quotients", strategy="lftj")
        found.append(db.query(SQUARES).fetchall())
        driver = HostDriver(seed=5, races=True)
        driver.room = room
        db.workspace.device = Gpu(driver)
        db.workspace.force(tile=32)
        db.workspace.tune(team_unit=0)
        found.append(db.query(SQUARES).fetchall())
    assert found[0] == found[1]
    assert bool(sizes) == (room > 0)


@pytest.mark.parametrize(("vertices", "together"), [(130, False), (150, True)])
def test_tiles_take_small_units_alone(
    vertices: int, together: bool, printed: list[PrintedPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit is usually of about 840 rows, or of 970."""
    sizes: list[int] = []
    monkeypatch.setattr(HostKernel, "enlarge", lambda kernel, size: sizes.append(size))
    found = []
    with gd.connect(device="cpu") as db:
        db["E"] = skewed(vertices)
        db.workspace.force(algebra="quotients", strategy="lftj")
        found.append(db.query(SQUARES).fetchall())
        db.workspace.device = Gpu(HostDriver(seed=5))
        db.workspace.force(tile=32)
        db.workspace.tune(team_unit=900)
        found.append(db.query(SQUARES).fetchall())
    assert found[0] == found[1]
    assert bool(sizes) is together
    assert any(loops_of(plan).table for plan in printed)


@pytest.mark.slow
@pytest.mark.drawn
@share(2)
@given(st.integers(0, 2**32))
def test_drawn_counts(number: int) -> None:
    drawn = test_keyed_counts if number % 3 == 0 else test_algebra
    agrees(*drawn.drawn_count(number), number, ("quotients", "always", "auto")[number % 3])


def test_lanes_do_not_take_a_part_of_a_list_each() -> None:
    """The first level's lists are what the work is cut into: a task goes through some."""
    agrees(*test_algebra.drawn_count(24520513), 24520513, "always")


# A number for each tile, and for each way to share.
NUMBERS = (1, 3, 8, 10, 13, 16)


@pytest.mark.parametrize(
    ("shape", "number"),
    [
        pytest.param(shape, number, marks=() if at % 8 == 0 else pytest.mark.slow)
        for at, (shape, number) in enumerate((s, n) for s in SHAPES for n in NUMBERS)
    ],
)
def test_shapes(shape: str, number: int) -> None:
    names = sorted(set(SHAPES[shape]) - {" "})
    rest = f", distinct({', '.join(names)})" if number % 2 else ""
    data = drawn_edges(number, symmetric=number % 3 > 0)
    agrees(f"n(count()) <- {body(SHAPES[shape])}{rest}.", data, number)


CASES = {
    "squares": ("ab bc cd da", 150),
    "diamonds": ("ab ac ad bc bd", 60),
    "bowtie": ("ab ac bc cd ce de", 40),
    "house": ("ab ac ae bc bd de", 40),
    "two wedges of a triangle": ("ab ac ad bc bd ce de", 40),
    "a triangle of triangles": ("ab bc ca ad bd be ce", 30),
    "K4 at an edge": ("ab ac ad bc bd cd ae be", 30),
}


@pytest.mark.parametrize(
    ("case", "number"),
    [
        pytest.param(case, number, marks=() if number == 16 else pytest.mark.slow)
        for case in CASES
        for number in NUMBERS
    ],
)
def test_as_enumerated(case: str, number: int, printed: list[PrintedPlan]) -> None:
    """Where degrees differ much: tables by vertex, by edge, and below an outer loop."""
    shape, size = CASES[case]
    found = []
    for at, algebra in ((None, "never"), (number, "quotients")):
        with gd.connect(device="cpu") as db:
            db["E"] = skewed(size)
            if at is not None:
                onto(db, at)
                db.workspace.force(tile=TILES[number // 3 % len(TILES)], strategy="lftj")
            db.workspace.force(algebra=algebra)
            body = ", ".join(f"E({a}, {b})" for a, b in shape.split())
            count = db.query(f"n(count()) <- {body}.").fetchall()
            found.append((count, db.count(patterns.from_edges(shape, name="some"))))
    assert found[0] == found[1]
    kinds = {argument.kind for plan in printed for argument in plan.arguments}
    assert kinds & {"tally", "local"}, "it has no table"


@pytest.mark.parametrize(
    ("shape", "number"),
    [
        pytest.param(shape, number, marks=() if number == 16 else pytest.mark.slow)
        for shape in ("house", "two squares")
        for number in NUMBERS
    ],
)
def test_the_greatest_of_an_orbit(
    shape: str, number: int, monkeypatch: pytest.MonkeyPatch, printed: list[PrintedPlan]
) -> None:
    """Lanes share the rows behind a table, and add to counts of edges or vertices."""
    body = ", ".join(f"E({a}, {b})" for a, b in PEAKED[shape].split())
    found = []
    for at, algebra in ((None, "never"), (number, "quotients")):
        with gd.connect(device="cpu") as db:
            db["E"] = skewed(30)
            if at is not None:
                prefer_peaks(monkeypatch)
                onto(db, at)
                db.workspace.tune(algebra_peaks=0)
                db.workspace.force(tile=TILES[number // 3 % len(TILES)], strategy="lftj")
            db.workspace.force(algebra=algebra)
            found.append(db.query(f"n(count()) <- {body}.").fetchall())
    assert found[0] == found[1]
    kinds = [{argument.kind for argument in plan.arguments} for plan in printed]
    assert any(each >= {"tally", "local"} for each in kinds)


@pytest.mark.parametrize(
    ("shape", "number", "told"),
    [
        pytest.param(shape, number, told, marks=() if number == 16 else pytest.mark.slow)
        for shape, told in (
            ("ab ac ad ae bc bd be cd", "between("),  # within cuts
            ("ab ac ad ae bc be cd de", "count_and("),
            ("ab ac ad ae bc bd be cd de", "count_and("),
            ("ab ac bc ad ae bf cg", ""),
        )
        for number in (15, 16, 17, 12)
    ],
)
def test_branches_of_bits(shape: str, number: int, told: str, printed: list[PrintedPlan]) -> None:
    """Lanes count, each for a row of its own, what branches have among the bits of a list."""
    found = []
    for at, algebra in ((None, "never"), (number, "suffixes")):
        with gd.connect(device="cpu") as db:
            db["E"] = skewed(40)
            if at is not None:
                onto(db, at)
                db.workspace.force(tile=TILES[number // 3 % len(TILES)], strategy="lftj")
            db.workspace.force(algebra=algebra)
            found.append(db.count(patterns.from_edges(shape, name="some")))
    assert found[0] == found[1] and any(told in plan.source for plan in printed)


@pytest.mark.slow
@pytest.mark.drawn
@share(2)
@given(st.integers(0, 2**32))
def test_drawn_branches_of_bits(number: int) -> None:
    """Last vertices with comparisons: lanes count within cuts, and leave values out."""
    random = Random(number)
    names = "abcde"[: random.choice([4, 5, 5])]
    pairs = list(combinations(names, 2))
    near = [("a", name) for name in names[1:]]
    near += random.sample([pair for pair in pairs if pair[0] != "a"], random.randint(1, 3))
    body = [f"E({x}, {y})" for x, y in near]
    for x, y in random.sample(pairs, random.choice([0, 1, 1, 2])):
        body.append(f"{x} {random.choice(['<', '<=', '>', '>='])} {y}")
    some = ", ".join(f"{x} != {y}" for x, y in random.sample(pairs, 3))
    body.append(f"distinct({', '.join(names)})" if random.random() < 0.8 else some)
    found = []
    for at, algebra in ((None, "never"), (15 + number % 3, "suffixes")):
        with gd.connect(device="cpu") as db:
            db["E"] = skewed(26)
            if at is not None:
                onto(db, at)
                db.workspace.force(strategy="lftj", tile=32)
            db.workspace.force(algebra=algebra)
            found.append(db.query(f"n(count()) <- {', '.join(body)}.").fetchall())
    assert found[0] == found[1]


# The table of this one adds up weights: the triangles of each edge.
HOUSES = (
    "n(count()) <- E(a, b), E(a, c), E(a, e), E(b, c), E(b, d), E(d, e), distinct(a, b, c, d, e)."
)


@pytest.mark.parametrize("asked", [SQUARES, HOUSES])
@pytest.mark.parametrize(("most", "wide"), [(1, "u16[]"), (1 << 14, "i32[]"), (1 << 40, "i64[]")])
def test_counts_are_as_wide_as_they_have_to_be(
    most: int, wide: str, asked: str, printed: list[PrintedPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 16 or 32 bits if no list is so long, and no weights are so large, that they could not hold
    its count."""
    monkeypatch.setattr(tallies, "SHORTEST", (1 << 16) // most)
    monkeypatch.setattr(tallies, "SHORT", (1 << 31) // most)
    monkeypatch.setattr(depth, "_printed", OrderedDict())
    with gd.connect(device="cpu") as db:
        db["E"] = skewed(150)
        expected = db.query(asked).fetchall()
        onto(db, 16)
        db.workspace.force(algebra="quotients", strategy="lftj")
        assert db.query(asked).fetchall() == expected
    (kind,) = {a.type for plan in printed for a in plan.arguments if a.kind == "tally"}
    assert kind == wide


@pytest.mark.parametrize("parts", [6, 7])
def test_beyond_64_bits_the_cpu_counts(parts: int) -> None:
    pages = 1_000
    rows = [(0, 1), *((end, page) for end in (0, 1) for page in range(2, pages + 2))]
    body = ", ".join(f"E(a, p{at}), E(b, p{at})" for at in range(parts))
    with gd.connect(device="cpu") as db:
        db["E"] = rows + [(b, a) for a, b in rows]
        onto(db, 16)
        db.workspace.force(algebra="quotients", strategy="lftj")
        try:
            found = db.query(f"n(count()) <- E(a, b), {body}.").fetchall()[0][0]
        except signed_sum.CountOverflow as error:
            found = error.exact
    assert found == 2 * pages**parts + 4 * pages


def test_what_does_not_fit_is_enumerated() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = skewed(150)
        expected = db.query(SQUARES).fetchall()
        onto(db, 16)
        db.workspace.force(algebra="quotients")
        db.workspace.tune(tally_tiles=1 << 60)
        assert "table '" in str(db.explain(SQUARES))
        told = db.profile(SQUARES)
        assert told.result.fetchall() == expected
        assert all("table '" not in str(run.plan) for run in told.runs)


@pytest.mark.parametrize("case", ["squares", "house"])
def test_a_profile_counts_what_is_added(case: str) -> None:
    """Once, though tiles that are given a part of a row's turns fill its table again."""
    shape, size = CASES[case]
    text = f"n(count()) <- {', '.join(f'E({a}, {b})' for a, b in shape.split())}."
    found = []
    for at in (None, 15):
        with gd.connect(device="cpu") as db:
            db["E"] = skewed(size)
            if at is not None:
                onto(db, at)
            db.workspace.force(algebra="quotients", strategy="lftj", intersect="plain")
            (told,) = db.profile(text).runs
            found.append(sorted((count.rows_out, count.tried) for count in told.seen.values()))
    assert found[0] == found[1] and len(found[0]) > 4


def test_several_devices_share_the_rows_that_have_tables() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = skewed(150)
        expected = db.query(SQUARES).fetchall()
    with database(group()) as db:
        db["E"] = skewed(150)
        db.workspace.force(algebra="quotients")
        told = db.profile(SQUARES)
        assert told.result.fetchall() == expected
        assert any(choice.shared for run in told.runs for choice in run.executors.values())


def test_large_tables_leave_room_for_buffers() -> None:
    """Fewer tiles have tables that take most of the room, and long buffers all the same."""
    needs = [Need("tally", 1 << 20, 4, False), Need("buffer", 1 << 12, 4, True)]
    found = laid_out(needs, 8192, 1 << 32)
    assert 256 < found.tiles <= 1024
    assert found.own["buffer"] == 1 << 12


def test_pairs_of_labels() -> None:
    """By keys that come first, and by tests between what is counted."""
    random = Random(4)
    pairs = [pair for pair in combinations(range(9), 2) if random.random() < 0.6]
    data: Data = {
        "E": (("int", "int"), sorted({*pairs, *((b, a) for a, b in pairs)})),
        "L": (("int", "int"), [(v, v % 3) for v in range(9)]),
    }
    for number, head in enumerate(("x, count()", "a, c, count()", "sum(b)")):
        text = f"n({head}) <- E(a, b), E(b, c), E(c, d), E(d, a), L(a, x), b != d."
        agrees(text, data, NUMBERS[number])


WITHIN = "f(x, c) <- P(x), c = count : { E(x, y), E(y, z), E(z, x) }."


def test_a_table_in_a_body() -> None:
    found = []
    for at in (None, 16):
        with gd.connect(device="cpu") as db:
            db["E"], db["P"] = skewed(40), [(vertex,) for vertex in range(0, 40, 3)]
            if at is not None:
                onto(db, at)
                db.workspace.force(algebra="always")
                assert "table 'by" in str(db.explain(WITHIN))
            found.append(sorted(db.query(WITHIN).fetchall()))
    assert found[0] == found[1]


@pytest.mark.parametrize("rule", [SQUARES, WITHIN])
@pytest.mark.parametrize("places", ["cells", "pages"])
def test_where_indexes_do_not_fit_it_is_enumerated(rule: str, places: str) -> None:
    found = []
    for device in (None, Gpu(HostDriver(seed=4))):
        with gd.connect(device="cpu") as db, forced(4_000 if device else None):
            db["E"], db["P"] = skewed(60), [(vertex,) for vertex in range(0, 40, 3)]
            if device is not None:
                db.workspace.device = device
                db.workspace.force(algebra="always", strategy="lftj", host_indexes=places)
            told = db.profile(rule)
            found.append(sorted(told.result.fetchall()))
    assert found[0] == found[1]
    assert any(run.in_cells or run.in_pages for run in told.runs)


def test_a_small_memory_limit() -> None:
    """Tables of as many tiles as are worth it do not fit; or fewer tiles have some."""
    for limit in (300_000, 3_000_000):
        with gd.connect(device="cpu", memory_limit=limit) as db:
            db["E"] = skewed(150)
            expected = db.query(SQUARES).fetchall()
            db.workspace.device = Gpu(HostDriver(seed=4), limit)
            db.workspace.force(algebra="quotients", strategy="lftj")
            told = db.profile(SQUARES)
            assert told.result.fetchall() == expected
            (run,) = told.runs
            tallies = [e.reason for e in run.executors.values() if "tables" in e.reason]
            assert bool(tallies) is (limit > 1_000_000)


def hub(leaves: int) -> list[tuple[int, int]]:
    """A vertex with many neighbours, most of which have no others."""
    near = [(0, 1_000 + leaf) for leaf in range(leaves)]
    return sorted({*skewed(40), *near, *((b, a) for a, b in near)})


@pytest.mark.parametrize("number", [15, 16, 17])
@pytest.mark.parametrize("shape", ["ab ac ae bc bd de", "ab bc cd de ea"])
def test_the_keys_of_a_small_table_are_looked_up(
    shape: str, number: int, printed: list[PrintedPlan]
) -> None:
    found = []
    for at, algebra in ((None, "never"), (number, "quotients")):
        with gd.connect(device="cpu") as db:
            db["E"] = hub(150)
            if at is not None:
                onto(db, at)
                db.workspace.force(tile=32, strategy="lftj")
            db.workspace.force(algebra=algebra)
            found.append(db.count(patterns.from_edges(shape, name="some")))
    assert found[0] == found[1]
    assert any("_few = few_keys(" in loops_of(plan).source for plan in printed)


WEDGES = "ab ac ad bc bd ce de"  # below an outer vertex, what an edge's ends have in common


@pytest.mark.parametrize(
    ("number", "share"),
    [
        pytest.param(number, share, marks=() if number == 16 else pytest.mark.slow)
        for number in (3, 8, 10, 15, 16, 17)
        for share in (2, 1 << 60)
    ],
)
def test_lists_are_kept_by_edges(
    number: int, share: int, printed: list[PrintedPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they fit; else they are met each time."""
    made: list[int] = []
    plain = kept_lists._made

    def noted(*given: Any) -> tuple[Any, Any]:
        found = plain(*given)
        made.append(len(found[1]))
        return found

    monkeypatch.setattr(kept_lists, "KEPT_SHARE", share)
    monkeypatch.setattr(kept_lists, "_made", noted)
    found = []
    for at, algebra in ((None, "never"), (number, "quotients")):
        with gd.connect(device="cpu") as db:
            db["E"] = skewed(20)
            if at is not None:
                onto(db, at)
                db.workspace.force(tile=TILES[number // 3 % len(TILES)], strategy="lftj")
            db.workspace.force(algebra=algebra)
            for shape in (WEDGES, "ab ac ad ae bc be cd de"):
                found.append(db.count(patterns.from_edges(shape, name="some")))
    assert found[:2] == found[2:]
    assert bool(made) == (share == 2)
    if share == 2 and db.workspace.settings.tile == 32:  # lanes share what each one's edge has
        assert any("in spread(" in plan.source.partition("at(kept0")[2] for plan in printed)


def test_each_of_several_devices_keeps_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as its copies of the indexes that they are made of."""
    made: list[int] = []
    plain = kept_lists._made

    def noted(*given: Any) -> tuple[Any, Any]:
        made.append(CURRENT.number)
        return plain(*given)

    monkeypatch.setattr(kept_lists, "_made", noted)
    wedges = patterns.from_edges(WEDGES, name="wedges")
    device = group()
    with database(device) as db:
        db.workspace.force(algebra="quotients", tile=32)
        db["E"] = skewed(40)
        found = {db.count(wedges)}
        first = [*made]
        assert set(first) == {0, 1}
        found.add(db.count(wedges))
        assert made == first
        device.others[0].driver.relief()
        found.add(db.count(wedges))
        assert set(made[len(first) :]) == {1}
        db["E"] = skewed(40)[1:]
        gc.collect()
        (copies,) = device.copies.values()
        assert not copies._derived
    with gd.connect(device="cpu") as here:
        here["E"] = skewed(40)
        assert found == {here.count(wedges)}


def test_kept_lists_are_an_index_of_the_relation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later queries read them; they go when memory is short, and with the relation's rows."""
    made: list[int] = []
    plain = kept_lists._made

    def noted(*given: Any) -> tuple[Any, Any]:
        found = plain(*given)
        made.append(sum(array.nbytes for array in found))
        return found

    monkeypatch.setattr(kept_lists, "_made", noted)
    wedges = patterns.from_edges(WEDGES, name="wedges")
    with gd.connect(device="cpu") as db:
        device = db.workspace.device = Gpu(HostDriver(seed=5))
        db.workspace.force(algebra="quotients", strategy="lftj", tile=32)
        for edges in (skewed(40), skewed(30)):
            db["E"] = edges
            before, size = len(made), device.kept.nbytes
            found = [db.count(wedges) for _ in range(2)]
            lists = made[before:]
            assert lists and device.kept.nbytes >= size + sum(lists)
            device.kept.relieve()
            assert device.kept.nbytes < sum(lists)
            assert [db.count(wedges), *found] == [found[0]] * 3
            assert made[before:] == [*lists, *lists]
            with gd.connect(device="cpu") as other:
                other["E"] = edges
                assert other.count(wedges) == found[0]
