"""What a tile's loops compute once, and which of their turns its lanes divide."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from gdatalog.gpu_ops.flat import flat_of
from gdatalog.gpu_ops.steady import Steady

COUNT = "m = count_common(v0, l0, h0, v1, l1, h1)"


def moved(text: str, spreads: bool = True) -> str:
    tree = ast.parse(dedent(text))
    tree.body = Steady(spreads).move(tree.body)
    return ast.unparse(tree)


def same(found: str, expected: str) -> None:
    assert found == ast.unparse(ast.parse(dedent(expected)))


def test_a_count_is_moved_out_of_a_loop() -> None:
    """What one lane subtracts from a share of it is subtracted in each lane's turn."""
    text = f"""
        for i in range(low, high):
            x = np.int64(at(buffer0, i))
            {COUNT}
            if leads():
                m -= 1
            if leads() and x != y and has(v0, l0, h0, y):
                m -= 1
            came += m
        """
    same(
        moved(text),
        """
        if low < high:
            steady0 = sum_of_lanes(count_common(v0, l0, h0, v1, l1, h1))
            steady1 = np.int64(has(v0, l0, h0, y))
        for i in lanes(low, high):
            x = np.int64(at(buffer0, i))
            m = steady0
            m -= 1
            if steady1 != 0 and x != y:
                m -= 1
            came += m
        """,
    )
    same(
        moved(text, spreads=False),
        """
        if low < high:
            steady0 = count_common(v0, l0, h0, v1, l1, h1)
            steady1 = np.int64(leads() and has(v0, l0, h0, y))
        for i in range(low, high):
            x = np.int64(at(buffer0, i))
            m = steady0
            if leads():
                m -= 1
            if steady1 != 0 and x != y:
                m -= 1
            came += m
        """,
    )


def test_a_number_that_one_lane_adds() -> None:
    same(
        moved("""
        for i in range(0, k1):
            x = np.int64(at(buffer1, i))
            m = np.int64(k0) - np.int64(0)
            if x != y:
                m -= 1
            if leads():
                came += m
        """),
        """
        for i in lanes(0, k1):
            x = np.int64(at(buffer1, i))
            m = np.int64(k0) - np.int64(0)
            if x != y:
                m -= 1
            came += m
        """,
    )


def test_turns_that_only_add_are_not_shared_with_other_tiles() -> None:
    same(
        moved("""
        for i in turns(0, e0):
            if e0 - i > 1 and late():
                e0 = share_turns(unit, i + 1, e0)
            low = max(0, i + 1)
            m = np.int64(k0) - np.int64(low)
            if leads():
                came += m
        """),
        """
        for i in lanes(0, e0):
            low = max(0, i + 1)
            m = np.int64(k0) - np.int64(low)
            came += m
        """,
    )


@pytest.mark.parametrize(
    "turn",
    [
        f"l1 = at(o, i)\n    {COUNT}\n    came += m",
        f"{COUNT}\n    k = intersect(v0, l0, h0, v1, i, h1, v0)\n    came += m",
        f"for j in lanes(0, 3):\n        h1 = j\n    {COUNT}\n    came += m",
        f"{COUNT}\n    if i > 3:\n        l0 = i\n    came += m",
    ],
)
def test_a_count_that_changes_stays(turn: str) -> None:
    text = f"for i in range(low, high):\n    {turn}"
    same(moved(text), text)


@pytest.mark.parametrize(
    "turn",
    [
        "m = at(v0, i)\n    came += m",  # of a tile, each lane would add it
        f"{COUNT}\n    m -= 1\n    came += m",  # each lane would subtract
        f"{COUNT}\n    emit(m)",
    ],
)
def test_turns_that_are_not_divided(turn: str) -> None:
    text = f"for i in range(low, high):\n    {turn}"
    assert "lanes(" not in moved(text)


LISTS = """
for i0 in range(first, last):
    e = base + stop
    c0, c1 = max(np.int64(o0[i0]), s), min(np.int64(o0[i0 + 1]), e)
    if c0 >= e:
        break
    if not begin_unit(c0 - base, c1 - 1 - base):
        break
    x0 = np.int64(at(v0, i0))
    p0 = find_indexed(low1, index1, x0)
    if p0 < 0:
        continue
    l0 = max(np.int64(at(o0, i0)), c0)
    h0 = min(np.int64(at(o0, i0 + 1)), c1)
    {between}
    for i1 in {kind}(l0, h0):
        {turn}
"""
FOUND = """if not begin_unit(i1 - base, i1 - base):
            break
        p1 = find_indexed(low1, index1, at(v1, i1))
        if p1 < 0:
            continue
        l1 = at(o1, p1)
        m = count_common(v1, p0, h0, v1, l1, h0)
        came += m"""


@pytest.mark.parametrize(
    ("between", "kind", "turn", "flat"),
    [
        ("pass_by = x0 + 1", "lanes", "came += i1", True),
        ("pass_by = x0 + 1", "range", FOUND, True),
        ("pass_by = x0 + 1", "range", FOUND.replace("came += m", "emit(m)"), False),
        ("k = intersect(v0, l0, h0, v1, p0, h0, v2)", "lanes", "came += i1", False),
    ],
)
def test_two_loops_become_one(between: str, kind: str, turn: str, flat: bool) -> None:
    """If lanes have turns of their own, and only look-ups stand between."""
    (loop,) = ast.parse(LISTS.format(between=between, kind=kind, turn=turn)).body
    assert isinstance(loop, ast.For)
    found = flat_of(loop)
    assert (found is not None) == flat
    if found is not None:
        assert (found.outer, found.inner, found.offsets) == ("i0", "i1", "o0")
        assert (found.counted is not None) == (kind == "range")
        assert not found.holds


@pytest.mark.parametrize(
    ("second", "last", "holds"),
    [
        ("l1, at(o1, p1 + 1)", "came += m", True),
        ("l1, h0", "came += m", False),  # the entry's value does not say where it ends
        ("l1, at(o1, p1 + 1)", "came += m * m", False),
    ],
)
def test_second_lists_of_entries_are_held(second: str, last: str, holds: bool) -> None:
    """If they are those of the entries' values, and a lane may add any part of the count."""
    turn = FOUND.replace("l1, h0)", f"{second})").replace("came += m", last)
    (loop,) = ast.parse(LISTS.format(between="pass_by = x0 + 1", kind="range", turn=turn)).body
    assert isinstance(loop, ast.For)
    found = flat_of(loop)
    assert (found is not None and found.holds) == holds
