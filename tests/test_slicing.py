"""Schedules of cells over slices of tries: each binding lies in one cell, whose slices it needs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.engine.context import RuleInputs, Sources
from gdatalog.engine.derived import DistinctBlocks
from gdatalog.engine.host_tries import HostTries, labels_of, read, scheduled
from gdatalog.engine.rules.evaluate import run_rule
from gdatalog.plan.cells import Cell, ends, sliceable, sliced
from gdatalog.plan.effects import one_row_each
from gdatalog.plan.join_plan import Gather, JoinPlan, RulePlan, Slot
from gdatalog.plan.schedule import CellPlanner, serpentine
from gdatalog.plan.slices import IndexUse, Schedule, Sizes, Slice, SliceCache, bytes_moved
from gdatalog.storage.trie import Trie
from gdatalog.storage.trie_slices import pieces_of, slice_of
from tests.cases import PROGRAMS, cases
from tests.plan_check import check_join_plan
from tests.test_shares import QUERIES, databases

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")
JOINS = max(3, PROGRAMS // 60)

MORE = {
    "four paths": "n(count()) <- E(_a, b), E(b, c), E(c, d), E(d, _e).",
    "exists": "x(a) <- E(a, b), E(b, c), E(c, _).",
    "a constant": "c(y, z) <- E(1, y), E(y, z), E(1, z).",
    "either": "u(x, z) <- E(x, y), E(y, z) ; S(x, y), E(y, z), T(z, _, _).",
    "counts of a body": "b(x, n) <- U(x), n = count : { E(x, y), E(y, _) }.",
    "smallest": "m(x, min(z)) <- E(x, y), E(y, z), S(z, x).",
}


# ----------------------------------------------------------------------------------- arithmetic


@st.composite
def indexes(draw: st.DrawFn) -> Sizes:
    keys = np.array(sorted(draw(st.sets(st.integers(-5, 25), max_size=12))), dtype=np.int64)
    each = draw(st.lists(st.integers(1, 50), min_size=len(keys), max_size=len(keys)))
    moved = np.append(0, np.cumsum(each, dtype=np.int64)).astype(np.int64)
    return Sizes(keys, moved, moved + 4 * np.arange(len(keys) + 1))


VARIABLES = ("x", "y", "z")


@st.composite
def uses(draw: st.DrawFn) -> list[IndexUse]:
    roots = st.one_of(st.sampled_from(VARIABLES), st.integers(0, 9), st.none())
    one = st.builds(IndexUse, st.sampled_from("EF"), roots, st.booleans())
    return draw(st.lists(one, min_size=1, max_size=5))


@settings(deadline=None, max_examples=cases(80))
@given(
    given=uses(),
    sizes=st.fixed_dictionaries({"E": indexes(), "F": indexes()}),
    orders=st.sets(st.tuples(*[st.sampled_from(VARIABLES)] * 2, st.booleans())),
    share=st.floats(0.1, 1.2),
    overhead=st.sampled_from([0, 10, 1 << 24]),
)
def test_each_binding_lies_in_one_cell(
    given: list[IndexUse],
    sizes: dict[Any, Sizes],
    orders: set[tuple[str, str, bool]],
    share: float,
    overhead: int,
) -> None:
    orders = {order for order in orders if order[0] != order[1]}
    room = int(share * sum(one.held[-1] for one in sizes.values())) + 1
    found = CellPlanner(given, sizes, orders, room, overhead).schedule()
    assert found == CellPlanner(given, sizes, orders, room, overhead).schedule()
    if isinstance(found, str):
        assert share < 1 or any(use.root is None for use in given) or len(given) > 1
        return
    assert found.moved == bytes_moved(found.turns, room, sizes)
    names = tuple(found.ranges)
    keys = range(-6, 27)
    for binding in product(keys, repeat=len(names)) if len(names) < 3 else ():
        at = dict(zip(names, binding, strict=True))
        mine = [turn for turn in found.turns if holds(turn.cell, at)]
        assert len(mine) <= 1
        ordered = all(
            at[low] < at[high] + (not strict)
            for low, high, strict in orders
            if low in at and high in at
        )
        inside = [
            root in sizes[use.index].keys
            for use in given
            if use.needed and (root := at.get(str(use.root), use.root)) is not None
            and not isinstance(root, str)
        ]  # fmt: skip
        if not mine:
            empty = [use for use in given if use.needed and not len(sizes[use.index].keys)]
            assert not ordered or not all(inside) or empty
            continue
        for use, one in zip(given, mine[0].slices, strict=True):
            slots = sizes[use.index].keys[one.low : one.high].tolist()
            root = at.get(str(use.root), use.root)
            if isinstance(root, int):
                assert (root in slots) == (root in sizes[use.index].keys)
            else:
                assert len(slots) == len(sizes[use.index].keys)


def holds(cell: Cell, at: dict[str, int]) -> bool:
    return all(
        (one.low is None or at[name] >= one.low) and (one.high is None or at[name] < one.high)
        for name, one in cell.stretches.items()
    )


@given(st.lists(st.integers(1, 4), max_size=3))
def test_a_serpentine_comes_to_each_once_step_by_step(lengths: list[int]) -> None:
    found = list(serpentine(lengths))
    assert sorted(found) == sorted(product(*map(range, lengths)))
    for before, after in pairwise(found):
        assert sum(abs(a - b) for a, b in zip(before, after, strict=True)) == 1


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=2), max_size=12))
def test_a_shelf_has_what_a_cell_reads_and_no_more_than_there_is_room_for(
    reads: list[list[int]],
) -> None:
    held = np.array([0, 5, 9, 10, 30, 31, 36, 40, 58, 60, 70], dtype=np.int64)
    sizes = {"E": Sizes(np.arange(10), held, held)}
    turns = [[Slice("E", at, at + 1) for at in one] for one in reads]
    shelf = SliceCache(60, sizes)
    loaded: Counter[Slice] = Counter()
    for now, coming in zip(turns, [*turns[1:], []], strict=False):
        missing = shelf.enter(now, coming)
        loaded.update(missing)
        assert shelf.total == sum(map(shelf.bytes_of, shelf.held)) <= 60
        assert set(now) <= shelf.held.keys()
        ahead = shelf.ahead(coming, now)
        loaded.update(ahead)
        assert set(now) <= shelf.held.keys() and set(ahead) <= set(coming)
        assert shelf.total == sum(map(shelf.bytes_of, shelf.held)) <= 60
    assert all(loaded[one] >= 1 for now in turns for one in now)


def test_the_slices_of_outer_variables_stay() -> None:
    """A triangle's edges are read once for the outer variable, and once for each of its ranges."""
    keys = np.arange(1000)
    before = 10 * np.arange(1001)
    edges = Sizes(keys, before, before)
    uses = [IndexUse("E", "x"), IndexUse("E", "x"), IndexUse("E", "y")]
    found = CellPlanner(uses, {"E": edges}, {("x", "y", True)}, 2000, 0).schedule()
    assert isinstance(found, Schedule)
    polled: list[None] = []
    more = (), lambda: polled.append(None)
    assert CellPlanner(uses, {"E": edges}, {("x", "y", True)}, 2000, 0, *more).schedule() == found
    assert len(polled) > 2 * len(found.turns) + found.skipped  # a query may be stopped meanwhile
    outer, inner = found.ranges
    assert len(found.ranges[outer]) < len(found.ranges[inner])
    assert found.skipped > len(found.turns) / 2
    whole = int(before[-1])
    assert whole < found.moved < whole * len(found.ranges[outer])


def test_fewer_cells_where_these_cost_more_than_copies_that_run_beside() -> None:
    """Slices of the next cell need room, and so more cells."""
    held = np.arange(0, 24_001, 10, dtype=np.int64)
    sizes, uses = {"E": Sizes(np.arange(2400), held, held)}, [IndexUse("E", name) for name in "abc"]
    orders = {("a", "b", True), ("b", "c", True)}
    cells = []
    for overhead in (100, 100_000):
        found = CellPlanner(uses, sizes, orders, 6000, overhead).schedule()
        assert isinstance(found, Schedule)
        cells.append(len(found.turns))
    assert cells[1] < 0.7 * cells[0]


def test_why_there_are_no_cells() -> None:
    hub = np.array([0, 10, 1000, 1010], dtype=np.int64)
    sizes = {"E": Sizes(np.arange(3), hub, hub)}
    assert CellPlanner([IndexUse("E", "x")], sizes, (), 100, 0).schedule() == (
        "the index rows of one value of x take 990 B, and there is room for 100 B of indexes"
    )
    assert CellPlanner([IndexUse("E", None)], sizes, (), 100, 0).schedule() == (
        "an index is needed whole, and there is room for 100 B of indexes"
    )


# --------------------------------------------------------------------------------------- joins


def here(trie: Trie, one: Slice) -> Trie:
    """A slice on the host."""
    arrays = []
    for piece in pieces_of(trie, one.low, one.high):
        arrays.append(np.empty(len(piece.source), dtype=piece.dtype))
        for start in range(0, len(piece.source), 3):
            end = min(start + 3, len(piece.source))
            piece.fill(arrays[-1][start:end], start, end)
    return slice_of(trie, one.low, one.high, arrays, trie.labels, np)


@given(
    data=databases(),
    query=st.sampled_from(sorted(QUERIES | MORE)),
    share=st.floats(0.1, 0.9),
    overhead=st.sampled_from([0, 200]),
)
@settings(max_examples=JOINS, deadline=None)
@pytest.mark.slow
def test_cells_of_a_join_give_its_rows(
    data: dict[str, Any], query: str, share: float, overhead: int
) -> None:
    checked = []

    def by_cells(plan: RulePlan, inputs: RuleInputs, _: Any = None) -> Any:
        for number in range(len(plan.joins)):
            checked.append(check(plan, number, inputs.sources, inputs.context, share, overhead))
        return run_rule(plan, inputs)

    with gd.connect(device="cpu") as db, pytest.MonkeyPatch.context() as patched:
        db.workspace.force(scans="never")
        for name, rows in data.items():
            db[name] = rows
        patched.setattr("gdatalog.engine.stratum_run.run_rule", by_cells)
        db.query((QUERIES | MORE)[query]).fetchall()
    assert checked


def check(
    plan: RulePlan, number: int, sources: Sources, context: Any, share: float, overhead: int
) -> int:
    """A join alone gives the same whole and in cells; how many cells there were."""
    join = plan.joins[number]
    tries = HostTries(sources, context.limits)
    tries.add(join)
    total = sum(int(sizes.held[-1]) for sizes in tries.sizes.values())
    context = replace(context, settings=context.settings.tuned(cell_bytes=overhead))
    found = scheduled(join, tries, context, int(share * total))
    if isinstance(found, str):
        return 0
    cut = sliced(join, labels_of(join, found), found.ranges)
    check_join_plan(cut)
    rows: Counter[tuple[int, ...]] = Counter()
    by_index = tries.by_index
    for turn in found.turns:
        there = read(cut, turn, tries.of, lambda one, _: here(by_index[one.index], one))
        params = {**context.scope.params, **ends(turn.cell, found.ranges)}
        within = replace(context, scope=replace(context.scope, params=params))
        rows.update(alone(plan, cut, Sources(there.__getitem__), within))
    whole = alone(plan, join, sources, context)
    if join.bag:  # the rows are one number
        assert sum(count * row[0] for row, count in rows.items()) == sum(row[0] for row in whole)
    else:
        assert set(rows) == set(whole)
    if not join.bag and one_row_each(join) and all(sliceable(join).values()):
        assert all(count == 1 for count in rows.values())
    return len(found.turns)


def alone(plan: RulePlan, join: JoinPlan, sources: Sources, context: Any) -> list[tuple[int, ...]]:
    """The rows of a join; how many bindings there are, if they count."""
    rule = RulePlan(plan.relation, (join,), join.outputs)
    if join.bag:
        count = Gather("count", (), "n", "int")
        rule = RulePlan(plan.relation, (join,), (Slot("n", "int"),), (), (count,), ((0,),), ((),))
    found = run_rule(rule, RuleInputs(sources, context))
    blocks = found.blocks if isinstance(found, DistinctBlocks) else [found[0]]
    if not rule.head:
        return [()] * found[1] if isinstance(found, tuple) else [()]
    return [row for block in blocks for row in zip(*(c.tolist() for c in block), strict=True)]
