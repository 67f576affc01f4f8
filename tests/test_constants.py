"""Texts that differ in constants share a program."""

from __future__ import annotations

import pytest

from gdatalog.engine.compiler.constants import Form, Shape
from gdatalog.errors import SourceText, Span
from gdatalog.parser import format_node, parse


def shape_of(text: str) -> Shape:
    form = Form.of(text)
    assert form is not None
    return Shape(form, text, parse(text, bare=True))


def lifted(text: str, other: str) -> tuple[str, dict[str, object]] | None:
    """The shared program for the other text, and its values."""
    shape, form = shape_of(text), Form.of(other)
    assert form is not None
    if form.rest != shape.form.rest:
        return None
    program = shape.program_for(form)
    if program is None:
        return None
    return " ".join(map(format_node, program.statements)), dict(shape.params(form))


def test_arguments_and_sides_become_parameters() -> None:
    found = lifted('?- E(5, x), x < 7, N(x, "a"), x != -2.', '?- E(6, x), x < 8, N(x, "b"), x != -3.')
    assert found is not None
    assert "E($#0, x)" in found[0]
    assert found[1] == {"#0": 6, "#1": 8, "#2": "b", "#-3": -3}


def test_equal_constants_are_one_parameter() -> None:
    assert lifted("?- E(5, x), E(x, 5).", "?- E(6, x), E(x, 7).") is None
    found = lifted("?- E(5, x), E(x, 5).", "?- E(6, x), E(x, 6).")
    assert found is not None and found[1] == {"#0": 6}


@pytest.mark.parametrize(
    "first, other",
    [
        ("?- E(5, x), y = x / 2.", "?- E(5, x), y = x / 3."),
        ('?- N(5, x), match("a.*", x).', '?- N(5, x), match("b.*", x).'),
        ("?- E(5, x), x in {1, 2}.", "?- E(5, x), x in {1, 3}."),
        ("F(1, 2). ?- F(7, x).", "F(1, 3). ?- F(7, x)."),
        ("?- E(5, x), 1 < 2.", "?- E(5, x), 3 < 2."),
    ],
)
def test_other_constants_stay(first: str, other: str) -> None:
    same = lifted(first, first)
    assert same is not None  # the 5 or 7 is a parameter
    assert lifted(first, other) is None


@pytest.mark.parametrize(
    "first, other",
    [
        ("?- E(5, x).", '?- E("5", x).'),
        ("?- E(5, x).", "?- E(5.0, x)."),
        ("?- E(5, x).", "?- E(-5, x)."),
        ("?- E(5, x).", "?- E(5,  x)."),
        ("?- E(5, x). // 1", "?- E(6, x). // 2"),
    ],
)
def test_texts_of_another_shape(first: str, other: str) -> None:
    assert lifted(first, other) is None


def test_best_values_of_a_recursion_keep_their_constants() -> None:
    text = "d(y, min(0)) <- E({}, y). d(y, min(c + 1)) <- d(x, c), E(x, y). ?- d(9, c)."
    assert lifted(text.format(1), text.format(2)) is None


@pytest.mark.parametrize("word", ["x1", "1_000", "0x1F", "1e5", "@2020-01-01", "$p1", '"a\\n"', "5u"])
def test_words_that_are_no_plain_constants(word: str) -> None:
    assert Form.of(f"?- E({word}, x).") is None


def test_ints_beyond_64_bits_are_left_to_the_parser() -> None:
    assert Form.of("?- E(9223372036854775808, x).") is None


def test_places_are_those_of_the_given_text() -> None:
    first, other = "?- E(5, x), x < 17, y = x / 0.", "?- E(12345, x), x < 1, y = x / 0."
    shape, form = shape_of(first), Form.of(other)
    assert form is not None and shape.program_for(form) is not None
    source = SourceText("<query>", other)
    program_source = shape.program.statements[0].span.source
    for part in ("E(5, x)", "x < 17", "x / 0", "17", "5", "?- E(5, x), x < 17"):
        start = first.index(part)
        moved = shape._moved(Span(program_source, start, start + len(part)), form, source)
        wanted = part.replace("17", "1").replace("5", "12345")
        assert moved is not None and moved.text == wanted
