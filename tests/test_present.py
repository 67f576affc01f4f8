"""Boxes: how answers look on a terminal."""

from __future__ import annotations

import random

import pytest

import gdatalog as gd
from gdatalog.present import box_lines
from gdatalog.terminal_text import cut, width


def box(result: gd.Result, most: int, columns: int | None = None, took: str | None = None) -> str:
    return "\n".join(box_lines(result, most, columns, took))


def of(rows, columns):
    db = gd.connect()
    db.load("r", rows, columns=columns)
    return db["r"]


def test_the_first_and_last_rows():
    assert box(of([(n,) for n in range(10)], ["n"]), 3).splitlines() == [
        "┌───┐", "│ n │", "├───┤", "│ 0 │", "│ 1 │", "│ … │", "│ 9 │", "└───┘", "10 rows",
    ]  # fmt: skip


def test_one_row_of_several():
    assert box(of([(1,), (2,)], ["n"]), 1).splitlines()[3:] == ["│ 1 │", "│ … │", "└───┘", "2 rows"]


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


def test_a_number_is_never_cut():
    result = of([(-1234567890, 2.5e-300, "a" * 30)], ["number", "f", "text"])
    assert box(result, 10, 36).splitlines()[3] == "│ -1234567890 │ 2.5e-300 │ aaaaaa… │"
    lines = box(result, 10, 34).splitlines()
    assert lines[1] == "│      number │ … │ text         │"
    assert lines[-1] == "1 row; 1 of 3 columns do not fit"
    lines = box(of([(1, 2)], ["a_very_long_name_of_a_number", "y"]), 10, 20).splitlines()
    assert lines[1] == "│ a_very_long… │ y │"


def test_wide_characters_and_what_is_not_seen():
    lines = box(of([("中文字中文",), ("a\nb",)], ["t"]), 10, 10).splitlines()
    assert sorted(lines[3:5]) == ["│ a\\nb   │", "│ 中文…  │"]
    # A sign of a program that would colour the terminal, or turn its text around.
    assert "│ \\u001b[31m\\u202e │" in box(of([("\x1b[31m\u202e",)], ["t"]), 10)


def test_emoji_and_marks_keep_the_lines_straight():
    texts = ["e\u0301", "👩\u200d🚀 at work", "🇨🇭🇩🇪", "1\ufe0f\u20e3", "กำ ที่", "한국", "\u200cن"]
    rows = box(of([(text, 1) for text in texts], ["text", "n"]), 10).splitlines()[1:-2]
    assert {width(row) for row in rows[:1] + rows[2:]} == {len(rows[1])}


def test_an_empty_answer_says_so():
    lines = box(gd.query("p(x) <- q(x), x > 5.", {"q": [(1,)]}), 10, took="0.250 s").splitlines()
    assert lines == ["┌───┐", "│ x │", "├───┤", "└───┘", "0 rows (0.250 s)"]


SIGNS = [
    *("a", "é", "e\u0301\u0302", "中", "한", "ก", "ที่", "ж", "😀", "👍🏽", "👩\u200d🚀", "🇨🇭", "☃"),
    *("❤\ufe0f", "❤\ufe0f\u200d🔥", "👨\u200d👩\u200d👧", "1\ufe0f\u20e3", "क", " "),
]


def test_widths_are_those_of_another_library():
    wcwidth = pytest.importorskip("wcwidth")
    draw = random.Random(5)
    for _ in range(2000):
        text = "".join(draw.choices(SIGNS, k=draw.randrange(8)))
        assert width(text) == wcwidth.wcswidth(text), text


def test_a_cut_text_fits_and_ends_between_signs():
    draw = random.Random(6)
    for _ in range(2000):
        signs = draw.choices(SIGNS, k=draw.randrange(1, 8))
        most = draw.randrange(1, 12)
        found = cut("".join(signs), most)
        assert width(found) <= most
        beginnings = ["".join(signs[:at]) + "…" for at in range(len(signs))]
        assert found == "".join(signs) or found in beginnings
