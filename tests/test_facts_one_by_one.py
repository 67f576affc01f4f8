"""Facts that come one by one, at the prompt or from a loop: each costs as much as the last, and
means what it would mean in one text with the others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import StringIO
from types import FrameType
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.shell.output import Output
from gdatalog.shell.repl import Repl


def prompt(db: gd.Database) -> Repl:
    return Repl(db, Output(StringIO()), interactive=False)


def calls_of(action: Callable[[], Any]) -> int:
    """How many functions are called."""
    count = 0

    def called(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("typed", [True, False])
def test_the_next_fact_costs_what_the_last_one_did(typed: bool, capsys: Any) -> None:
    with gd.connect(device="cpu") as db:
        repl = prompt(db)

        def add(first: int, behind: int) -> None:
            for number in range(first, behind):
                fact = f'E({number}, {number + 1}), S("s{number}").'
                repl.feed(fact) if typed else db.run(fact)

        add(0, 20)
        db.run("p(x) <- E(x, _), !E(_, x).")
        early = calls_of(lambda: add(20, 40))
        add(40, 300)
        late = calls_of(lambda: add(300, 320))
        assert len(db["E"]) == len(db["S"]) == 320
        assert db["p"].fetchall() == [(0,)]
    assert late < 1.5 * early


def test_facts_that_were_checked_are_not_checked_again(monkeypatch: Any) -> None:
    from gdatalog.planner.check import validity

    checked: list[int] = []
    examine = validity.examine

    def counting(program: Any, *args: Any, **options: Any) -> Any:
        checked.append(len(program.statements))
        return examine(program, *args, **options)

    monkeypatch.setattr(validity, "examine", counting)
    with gd.connect(device="cpu") as db:
        for number in range(50):
            db.run(f"E({number}, {number}).")
        db.run("E($n, 7).", {"n": 3})
        # The first, what is kept of it, and one of another shape: over that, and then with it.
        assert checked == [1, 1, 1, 2]
        db.query("n(count()) <- E(_, _).")
        assert checked == [1, 1, 1, 2, 2]
        assert len(db["E"]) == 51


FACTS = ["E(1, 2).", "E(2, 3).", "E(7, 8), F(1).", "F(2)."]


@pytest.mark.parametrize(
    "wrong",
    ["E(1).", 'E("a", 2).', "F(1, 2).", "p(x) <- E(x).", 'E(3, 4). E("a", 5).', "E($n, 3)."],
)
def test_errors_are_those_of_one_text(wrong: str) -> None:
    with gd.connect(device="cpu") as db, gd.connect(device="cpu") as other:
        for fact in FACTS:
            db.run(fact)
        other.run("\n".join(FACTS))
        with pytest.raises(gd.Error) as one:
            db.run(wrong)
        with pytest.raises(gd.Error) as all_together:
            other.run(wrong)
        said = [str(error.value).splitlines()[0] for error in (one, all_together)]
        assert said[0] == said[1]
        assert [n.message for n in one.value.notes] == [n.message for n in all_together.value.notes]
        assert [n.span and n.span.text for n in one.value.notes] == [
            n.span and n.span.text for n in all_together.value.notes
        ]
        assert db["E"].sorted().fetchall() == [(1, 2), (2, 3), (7, 8)]  # it was not kept
        db.run("E(3, 4).")
        assert len(db["E"]) == 4


def test_a_float_among_ints_makes_all_of_them_floats() -> None:
    with gd.connect(device="cpu") as db:
        for fact in ("w(1).", "w(2).", "w(2.5).", "w(3)."):
            db.run(fact)
        assert db["w"].dtypes == ("float",)
        assert db["w"].sorted().fetchall() == [(1.0,), (2.0,), (2.5,), (3.0,)]


def test_facts_reach_what_was_asked_before() -> None:
    with gd.connect(device="cpu") as db:
        db.run(".decl E(x: int, y: int) .decl W(x: int, d: int)")
        db.run("path(x, z) <- E(x, z) ; path(x, y), E(y, z).")
        db.run("path(0, 1).")
        db.run("best(x, min(d)) <- W(x, d).")
        for number in range(1, 6):
            db.run(f"E({number}, {number + 1}).")
            db.run(f"path(0, {number}).")
            db.run(f"W(0, {10 - number}).")
            assert len(db.query("?- path(1, y).")) == number
            assert len(db.query("?- path(0, y).")) == number + 1, number
            assert db["best"].fetchall() == [(0, 10 - number)]
        assert len(db.query("E(6, 7). ?- path(1, y).")) == 6
        assert len(db.query("?- path(1, y).")) == 5


def test_a_text_of_facts_goes_when_another_takes_its_name() -> None:
    with gd.connect(device="cpu") as db:
        db.run("E(1, 2). E(2, 3).", name="first")
        db.run("E(2, 3). E(3, 4).", name="second")
        db.run("E(5, 6).", name="first")
        assert db["E"].sorted().fetchall() == [(2, 3), (3, 4), (5, 6)]
        db.run("G(1).", name="second")
        assert db["E"].fetchall() == [(5, 6)]
        with pytest.raises(gd.Error):
            db.run('E("a", "b").', name="second")
        db.run('E("a", "b").', name="first")
        assert db["E"].fetchall() == [("a", "b")]


def test_facts_with_parameters_follow_them() -> None:
    with gd.connect(device="cpu") as db:
        db.run("E(1, $n).", {"n": 2})
        db.run("E(2, $n).", {"n": 3})
        assert db["E"].sorted().fetchall() == [(1, 3), (2, 3)]


@pytest.mark.parametrize("interactive", [True, False])
def test_a_fact_that_is_typed_again_is_nothing_new(interactive: bool, capsys: Any) -> None:
    with gd.connect(device="cpu") as db:
        repl = Repl(db, Output(StringIO()), interactive=interactive)
        for line in ("e(1, 2).", "e(2, 3).", "e(1, 2).", "e(1, 2). e(4, 5).", ".undo", "e(4, 5)."):
            repl.feed(line)
        assert capsys.readouterr().err.splitlines() == [
            "e: 1 fact added, 1 tuple",
            "e: 1 fact added, 2 tuples",
            "e: nothing new, 2 tuples",
            "e: 1 fact added, 1 known already, 3 tuples",
            "reverted: e(1, 2). (and 1 more)",
            "e: 1 fact added, 3 tuples",
        ]


@pytest.mark.parametrize("interactive", [True, False])
@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("w(0.0).", "w(-0.0).", "w(2.5).", "w(2)."), "1 1 2 3"),
        (("w(9007199254740992).", "w(9007199254740993).", "w(0.5)."), "1 2 2"),
        (("w($n).", "w(7).", "w(8)."), "1 1 2"),
        ((".decl w(x: int)", "w(1). w(1). w(2).", "w(2).", ".undo", "w(3)."), "2 2 1"),
        (('w("a"), v(1).', 'w("b").', "v(1).", "w(true)."), "1 1 2 1"),
        (("w().", "w()."), "1 1"),
        (("w(1).", "w(1 + 1).", "w(2)."), "1 2 2"),
    ],
)
def test_what_is_told_of_a_relation_is_how_many_rows_it_has(
    interactive: bool, lines: tuple[str, ...], told: str, capsys: Any
) -> None:
    with gd.connect(device="cpu") as db:
        repl = Repl(db, Output(StringIO()), params={"n": 7}, interactive=interactive)
        for line in lines:
            repl.feed(line)
        text = capsys.readouterr().err
        counts = [line.split(", ")[-1].split()[0] for line in text.splitlines() if "tuple" in line]
        assert " ".join(counts) == told, text
        assert len(db["w"]) == int(counts[-1]) or "v" in text
