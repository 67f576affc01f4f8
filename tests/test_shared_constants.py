"""Constants of queries are parameters: texts that differ only in these are compiled once."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.engine.compiler.compiler import Compiler
from gdatalog.planner.check import validity

EDGES = [(1, 2), (2, 3), (1, 3), (3, 4), (4, 1), (4, 0)]
PATH = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z). "


def test_texts_share_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = validity
    examine, checked = module.examine, []

    def watched(*args: Any, **options: Any) -> Any:
        checked.append(args)
        return examine(*args, **options)

    monkeypatch.setattr(validity, "examine", watched)
    with gd.connect(device="cpu") as db:
        db["E"] = EDGES
        found = [db.query(f"?- E({x}, y), y < {x + 9}.").fetchall() for x in (1, 2, 3, 4, 5, 2)]
        assert [sorted(rows) for rows in found] == [
            [(2,), (3,)], [(3,)], [(4,)], [(0,), (1,)], [], [(3,)]
        ]  # fmt: skip
        assert len(checked) <= 3  # the first text, and what all others share
        assert db.query("?- E(1, y), y < 9.", limit=1).limit == 1


def test_errors_are_about_the_text_that_was_given() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = EDGES
        for x in (1, 2, 3):
            assert len(db.query(f"?- E({x}, y), z = 6 / y."))
        with pytest.raises(gd.EvaluationError) as caught:
            db.query("?-   E(4, y), z = 6 / y.")
        assert caught.value.span is not None
        assert caught.value.span.source.text == "?-   E(4, y), z = 6 / y."
        with pytest.raises(gd.TypeMismatchError) as wrong:
            db.query('?-  E("a", y), z = 6 / y.')
        assert wrong.value.span is not None and wrong.value.span.text == '"a"'


def test_warnings_are_about_the_text_that_was_given() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = EDGES
        for x in range(5):
            with pytest.warns(gd.ProgramWarning, match=rf"q\(x\) <- E\({x}, x\), E\(x, once\)"):
                db.query(f"q(x) <- E({x}, x), E(x, once).")


TEXTS = (
    "?- E({a}, y).",
    "?- E(x, {a}), x > {b}.",
    "?- E({a}, {b}).",
    "?- E(x, y), {a} <= x, y != {b}.",
    "?- E(x, y), x < {a}, x > {b}.",
    "?- E({a}, y), E(y, z), z != {b}.",
    "?- E(x, y), not E(y, {a}), x < {b}.",
    "?- E({a}, y), z = y / {b}.",
    "?- E({a}, y), z = {b} / y.",
    "?- p({a}, y).",
    "?- p(x, {a}), E(x, {b}).",
    PATH + "?- path({a}, y), y < {b}.",
    "n(count()) <- E({a}, _).",
    "n(y, count()) <- p(x, y), x >= {a}.",
    "q(y, {a}) <- E({b}, y).",
    "q(y) <- E({a}, y) ; E(y, {b}).",
    '?- S("{a}", y), y < {b}.',
    '?- S("{a}", "{b}").',
    '?- S(x, y), x > "{a}".',
    "?- W(x, w), w > {a}.",
    "?- W({a}, w), w <= {b}.5.",
    "?- T(t, x), t >= @2026-01-0{a}, x < {b}.",
    "?- B({a}, true).",
    "?- E(x, y), x in {{{a}, {b}}}.",
    "?- E({a}, y), y < $most.",
)


def outcome(db: gd.Database, text: str, **options: Any) -> object:
    params = {"most": 3} if "$most" in text else None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = db.query(text, params, **options)
            found: object = result.columns, result.dtypes, sorted(result.fetchall())
        except gd.Error as error:
            found = type(error), str(error)
    return found, [str(each.message) for each in told]


def database() -> gd.Database:
    db = gd.connect(device="cpu")
    db["E"] = EDGES
    db["S"] = [(str(x), y) for x, y in EDGES]
    db["W"] = [(x, y / 2) for x, y in EDGES]
    db["B"] = [(x, x < 3) for x, _ in EDGES]
    db.query("T(@2026-01-02, 1).")
    db.run("T(@2026-01-02, 1). T(@2026-01-04, 3). " + PATH.replace("path", "p"), name="rules")
    return db


number = st.integers(0, 5)


@given(st.lists(st.tuples(st.sampled_from(TEXTS), number, number, st.booleans()), max_size=30))
def test_answers_do_not_change(steps: list[tuple[str, int, int, bool]]) -> None:
    """As by a compiler that has seen no other text."""
    with database() as db, database() as other:
        for at, (text, a, b, inserts) in enumerate(steps):
            if inserts and at % 5 == 4:
                db.insert("E", [(a, b)])
                other.insert("E", [(a, b)])
            asked = text.format(a=a, b=b)
            other.workspace.compiler = Compiler()
            assert outcome(db, asked) == outcome(other, asked, strategy="levelwise"), asked
