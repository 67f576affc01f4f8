"""Texts that differ in constants share a program."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.engine.compiler.compiler import Compiler
from gdatalog.engine.compiler.constants import SharedText, TextForm, TextShape
from gdatalog.errors import SourceText, Span
from gdatalog.parser import format_node, parse
from tests.cases import cases
from tests.draw import PROFILES, Drawn, drawn
from tests.test_engine_oracle import frame


def shape_of(text: str) -> TextShape:
    form = TextForm.of(text)
    assert form is not None
    return TextShape(form, text, parse(text, bare=True))


def shared(text: str, other: str) -> SharedText | None:
    """What the other text shares with the first one."""
    shape, form = shape_of(text), TextForm.of(other)
    assert form is not None
    if form.rest != shape.form.rest:
        return None
    return SharedText.of(shape, form, SourceText("<query>", other))


def lifted(text: str, other: str) -> tuple[str, dict[str, object]] | None:
    """The shared program, and the values for the other text."""
    found = shared(text, other)
    if found is None:
        return None
    return " ".join(map(format_node, found.program.statements)), dict(found.params)


def test_arguments_and_sides_become_parameters() -> None:
    found = lifted(
        '?- E(5, x), x < 7, N(x, "a"), x != -2.', '?- E(6, x), x < 8, N(x, "b"), x != -3.'
    )
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


@pytest.mark.parametrize(
    "word", ["x1", "1_000", "0x1F", "1e5", "@2020-01-01", "$p1", '"a\\n"', "5u"]
)
def test_words_that_are_no_plain_constants(word: str) -> None:
    assert TextForm.of(f"?- E({word}, x).") is None


def test_ints_beyond_64_bits_are_left_to_the_parser() -> None:
    assert TextForm.of("?- E(9223372036854775808, x).") is None


def test_places_are_those_of_the_given_text() -> None:
    first, other = "?- E(5, x), x < 17, y = x / 0.", "?- E(12345, x), x < 1, y = x / 0."
    found = shared(first, other)
    assert found is not None
    program_source = found.shape.program.statements[0].span.source
    for part in ("E(5, x)", "x < 17", "x / 0", "17", "5", "?- E(5, x), x < 17"):
        start = first.index(part)
        moved = found.moved(Span(program_source, start, start + len(part)))
        wanted = part.replace("17", "1").replace("5", "12345")
        assert moved is not None and moved.text == wanted


def database() -> gd.Database:
    db = gd.connect(device="cpu", threads=1)
    db["E"] = [(x, (x * 7 + 3) % 20) for x in range(20)]
    db["N"] = [(x, "abc"[x % 3]) for x in range(20)]
    return db


def test_a_text_with_another_constant_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    db, compiled = database(), []
    compile_ = Compiler._compile
    monkeypatch.setattr(
        Compiler, "_compile", lambda self, *given: (compiled.append(1), compile_(self, *given))[1]
    )
    found = [db.query(f'?- E({x}, y), N(y, "{"abc"[x % 3]}").').fetchall() for x in range(20)]
    assert len(compiled) < 8
    alone = [database().query(f'?- E({x}, y), N(y, "{"abc"[x % 3]}").') for x in range(20)]
    assert found == [each.fetchall() for each in alone]


def test_errors_and_warnings_point_into_the_given_text() -> None:
    db = database()
    db.query("r(y / (x - 3)) <- E(x, y), x < 3. ?- r(z), z != 7.")
    text = "r(y / (x - 3)) <- E(x, y), x < 11111. ?- r(z), z != 8."
    with pytest.raises(gd.EvaluationError) as shared:
        db.query(text)
    with pytest.raises(gd.EvaluationError) as alone:
        database().query(text)
    assert str(shared.value) == str(alone.value)
    db.query('?- N(x, p), x < 3, match("(" + p, p).')
    with pytest.warns(gd.ProgramWarning) as warned:
        db.query('?- N(x, p), x < 19999, match("(" + p, p).')
    assert "x < 19999" in str(warned[0].message)


def test_a_text_that_no_longer_fits_is_read_alone() -> None:
    db = database()
    for x in (1, 2, 3):
        db.query(f"?- E({x}, y).")
    db["E"] = [("a", "b")]
    with pytest.raises(gd.TypeMismatchError) as error:
        db.query("?- E(4, y).")
    assert "#" not in str(error.value)
    db["E"] = [(4.0, 1)]
    assert (
        db.query("?- E(4, y).").fetchall()
        == database_of([(4.0, 1)]).query("?- E(4, y).").fetchall()
    )


def database_of(rows: Any) -> gd.Database:
    db = gd.connect(device="cpu")
    db["E"] = rows
    return db


def said(db: gd.Database, text: str) -> Any:
    """The columns and rows of an answer, or its error."""
    try:
        result = db.query(text)
        return result.columns, result.dtypes, sorted(map(repr, result.fetchall()))
    except gd.Error as error:
        return type(error), str(error)


def other_constants(text: str, random: Random) -> str:
    """The text with some constants replaced."""
    form = TextForm.of(text)
    if form is None:
        return text
    kinds = {word.first: word for word in form.words}
    new = {
        first: random.choice(
            [word.text, *(own.text for own in form.words if own.kind == word.kind)]
            + ({"int": ["0", "2", "5"], "float": ["0.5"], "symbol": ['"a"', '"zz"']}[word.kind])
        )
        for first, word in kinds.items()
    }
    parts = iter(form.rest)
    found = [next(parts)]
    for word in form.words:
        next(parts)
        found += new[word.first], next(parts)
    return "".join(found)


@pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")
@pytest.mark.parametrize("profile", PROFILES)
@settings(max_examples=cases(10, 4))
@given(seed=st.integers(0, 2**64 - 1))
def test_drawn_programs_say_the_same_with_shared_constants(profile: str, seed: int) -> None:
    program, random = drawn(seed, PROFILES[profile]), Random(seed)
    shared = gd.connect(device="cpu", threads=1)
    load(shared, program)
    said(shared, program.text)
    for _ in range(3):
        text = other_constants(program.text, random)
        alone = gd.connect(device="cpu", threads=1)
        load(alone, program)
        wanted = said(alone, text)
        assert said(shared, text) == wanted
        assert said(shared, text) == wanted


def load(db: gd.Database, program: Drawn) -> None:
    for name, (types, rows) in program.data.items():
        db[name] = frame(types, rows)
