"""Texts over statements that are checked already: the same result as checking all together."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given

import gdatalog as gd
from gdatalog.parser import format_node, parse
from gdatalog.parser import syntax as s
from gdatalog.planner.check import Checked, Schema
from gdatalog.planner.check.extending import KeptProgram, extended
from gdatalog.planner.check.program import examine
from gdatalog.planner.check.statements import names_of, reads_of
from tests.draw import Drawn, programs
from tests.draw_recursion import recursions

KNOWN = {"E": Schema("E", ("x", "y"), ("int", "int")), "w": Schema("w", ("x",), ("float",))}
KEPT = """
path(x, y) <- E(x, y).
path(x, z) <- path(x, y), E(y, z).
near(x, 0) <- E(x, _).
far(x, min(d)) <- near(x, d).
few(x) <- E(x, y), x in {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}.
name(1, "one").
empty(x) <- empty(x).
.decl inner(x: int) inline
inner(x) <- E(x, x).
.type id <: number
.decl stays(x: id)
reads(x) <- stays(x), E(x, _).
"""


def both(kept: str, said: str, params: Any = {}) -> tuple[Checked | None, Checked | None]:  # noqa: B006
    """A text that is checked over kept statements, and one that is checked with them."""
    before, text = parse(kept, "kept").statements, parse(said, "text").statements
    return compared(before, text, KNOWN, params)


def compared(
    kept: Any,
    said: Any,
    known: Any,
    params: Any = {},  # noqa: B006
) -> tuple[Checked | None, Checked | None]:
    alone, errors = examine(s.Program(tuple(kept)), known, params, whole=False)
    assert alone is not None, errors
    found = extended(KeptProgram.of(alone, kept), said, known, params, True)
    whole, _ = examine(s.Program((*kept, *said)), known, params)
    if found is not None:
        assert whole is not None
        own = {id(statement.span.source) for statement in said}
        alike(found, whole, own)
    return found, whole


def alike(found: Checked, whole: Checked, own: set[int]) -> None:
    """What was found is a part of the whole: what the text reaches, and all that it says."""
    strata = {each.relations: each for each in whole.strata}
    assert all(strata[each.relations] == each for each in found.strata)
    derived = {name for each in found.strata for name in each.relations}
    read = {
        part.name
        for each in found.strata
        for rule in each.rules
        for part in rule.parts
        if isinstance(part, s.Atom)
    }
    everywhere = {name for each in whole.strata for name in each.relations}
    assert read & everywhere <= derived
    assert found.schemas == whole.schemas and found.facts == whole.facts
    assert found.param_types == whole.param_types and found.last == whole.last
    assert found.queries == whole.queries and found.inline == whole.inline
    assert found.lists.items() <= whole.lists.items()
    assert read & whole.lists.keys() <= found.lists.keys()
    said = [each for each in whole.cautions if each.span and id(each.span.source) in own]
    assert list(found.cautions) == said


@pytest.mark.parametrize(
    "said",
    [
        "?- E(1, x).",
        "?- path(1, x), path(x, 1).",
        "?- path.",
        "top(x, y) <- path(x, y), not E(x, y). ?- top(1, y).",
        "up(x) <- path(x, x). up(y) <- up(x), E(x, y). n(count()) <- up(_).",
        "?- few(x), x in {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}.",
        '?- name(x, n), contains("o", n).',
        "?- near(x, d), d < 3.",
        "?- far(x, d), w(y), to_float(d) < y.",
        "p(x, 1.5) <- w(x).",
        "?- empty(x).",
        "p(x, y) <- E(x, _), E(y, _).",
        "p(x) <- E(x, y).",
    ],
)
def test_texts_that_are_checked_alone(said: str) -> None:
    found, _ = both(KEPT, said)
    assert found is not None


@pytest.mark.parametrize(
    ("said", "fine"),
    [
        ("path(x, x) <- E(x, _).", True),  # changes a kept relation
        ("E(x, x) <- path(x, _).", True),
        ("stays(1).", True),
        ("?- inner(x).", True),  # is expanded
        ("?- near(x, d), w(d).", True),  # the kept 0 becomes 0.0
        ("?- stays(x).", True),  # a warning
        ("?- E(x, y), x = as(y, id).", True),
        ("n(x, s) <- E(x, _), s = sum y : { path(x, y), E(_, y) }.", True),
        (".decl q(x: int)\n?- E(x, x).", True),
        ("?- nothing(x).", False),
        ("?- path(x).", False),
        ('?- path("one", x).', False),
        ("?- E(x, y), z < 1.", False),
    ],
)
def test_texts_that_are_checked_with_all(said: str, fine: bool) -> None:
    found, whole = both(KEPT, said)
    assert found is None and (whole is not None) == fine


def test_parameters_that_both_have() -> None:
    kept = "big(x) <- E(x, y), y > $least."
    types: Any = {"least": "int", "most": "int"}
    assert both(kept, "?- big(x), x < $least.", types)[0] is None
    assert both(kept, "?- big(x), x < $most.", types)[0] is not None


@pytest.mark.drawn
@given(programs() | recursions())
def test_drawn_programs(drawn: Drawn) -> None:
    """Some relations of a program are said over the others, with a question about each of them."""
    random = Random(drawn.seed)
    statements = drawn.program.statements
    names = sorted(drawn.defined)
    top = {name for name in names if random.random() < 0.5}
    for statement in reversed([*statements, *statements]):  # and all that read them
        if not top.isdisjoint(reads_of(statement)):
            top.update(names_of(statement))
    kept = [each for each in statements if top.isdisjoint(names_of(each))]
    rest = [each for each in statements if not top.isdisjoint(names_of(each))]
    known = {
        name: Schema(name, tuple(f"c{at}" for at in range(len(types))), types)
        for name, (types, _) in drawn.data.items()
    }
    before = parse(format_node(s.Program(tuple(kept))), "kept").statements
    alone, _ = examine(s.Program(before), known, {}, whole=False)
    assume(alone is not None)
    for name in names[:3]:
        text = format_node(s.Program(tuple(rest))) + f"\n?- {name}."
        compared(before, parse(text, "text").statements, known)


def test_rules_that_a_question_does_not_reach_are_not_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    by: Callable[..., Any] = examine

    def watched(program: s.Program, *args: Any, **options: Any) -> Any:
        sizes.append(len(program.statements))
        return by(program, *args, **options)

    for module in ("validity", "extending"):
        monkeypatch.setattr(f"gdatalog.planner.check.{module}.examine", watched)
    with gd.connect(device="cpu") as db:
        db["E"] = [(1, 2), (2, 3)]
        db.run("".join(f"p{at}(x, z) <- E(x, y), E(y, z), x > {at}.\n" for at in range(30)))
        assert db.query("?- E(1, x).").fetchall() == [(2,)]
        sizes.clear()
        assert db.query("?- E(x, 2).").fetchall() == [(1,)]
        assert db.query("?- p0(x, y).").fetchall() == [(1, 3)]
        assert db.query("q(x) <- p0(x, _), not p1(x, _).").fetchall() == [(1,)]
        assert sizes == [1, 1, 1]
        with pytest.raises(gd.Error, match="did you mean `p9`"):
            db.query("?- p92(x, y).")
