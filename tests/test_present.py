"""Boxes: how answers look on a terminal."""

from __future__ import annotations

import gdatalog as gd
from gdatalog.present import box


def of(rows, columns):
    db = gd.connect()
    db.load("r", rows, columns=columns)
    return db["r"]


def test_the_first_and_last_rows():
    assert box(of([(n,) for n in range(10)], ["n"]), 3).splitlines() == [
        "┌───┐", "│ n │", "├───┤", "│ 0 │", "│ 1 │", "│ … │", "│ 9 │", "└───┘", "10 rows",
    ]  # fmt: skip


def test_a_wide_column_gives_way_to_narrow_ones():
    result = of([(1, "a" * 100, 2)], ["x", "text", "y"])
    lines = box(result, 10, 30).splitlines()
    assert lines[3] == "│ 1 │ " + "a" * 17 + "… │ 2 │"
    assert {len(line) for line in lines[:-1]} == {30}


def test_columns_in_the_middle_are_left_out_at_last():
    result = of([tuple(range(1000, 1020))], [f"c{n}" for n in range(20)])
    lines = box(result, 10, 40).splitlines()
    assert lines[1] == "│   c0 │   c1 │   c2 │ … │  c18 │  c19 │"
    assert lines[-1] == "1 row; 15 of 20 columns do not fit"


def test_a_terminal_too_narrow_for_anything():
    assert box(of([("a" * 50, "b" * 50)], ["x", "y"]), 10, 5).splitlines()[3] == "│ aaaaa… │ … │"


def test_wide_characters_and_line_breaks():
    lines = box(of([("中文字中文",), ("a\nb",)], ["t"]), 10, 10).splitlines()
    assert sorted(lines[3:5]) == ["│ a␤b    │", "│ 中文…  │"]
