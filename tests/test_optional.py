"""`optional`, and nulls in facts: against the oracle, and what explain and errors say."""

from __future__ import annotations

from typing import Any

import pytest
from checked import check
from hypothesis import given

import gdatalog as gd
from gdatalog.parser import format_node, parse
from gdatalog.parser.syntax import Atom, Column, Const, Decl, Null, Rule
from gdatalog.planner.check.optionals import are_apart
from tests.cases import share
from tests.draw import Drawn, null_programs, optional_programs
from tests.oracle_values import Ts, Value
from tests.test_engine_oracle import CHUNKS, Data, Relations, agrees_in, plain
from tests.test_oracle_nulls import ANSWERS, FACTS

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")


def stated(data: Data) -> str:
    """Declarations and facts."""
    lines = []
    for name, (types, rows) in data.items():
        nullable = [None in column for column in zip(*rows, strict=True)] or [False] * len(types)
        columns = [
            Column(f"c{at}", kind, nullable=null)
            for at, (kind, null) in enumerate(zip(types, nullable, strict=True))
        ]
        lines.append(format_node(Decl((name,), tuple(columns))))
        for row in rows:
            args = tuple(map(_constant, types, row))
            lines.append(format_node(Rule((Atom(name, args),), None)))
    return "\n".join(lines) + "\n"


def _constant(kind: Any, value: Value) -> Const | Null:
    if value is None:
        return Null()
    return Const("timestamp", value.ns) if isinstance(value, Ts) else Const(kind, value)


def run(text: str, data: Data, defined: set[str], number: int) -> Relations:
    with gd.connect(device="cpu") as db:
        if number % 2:
            db.workspace.chunk_rows = CHUNKS[number % len(CHUNKS)]
        db.run(stated(data) + text)
        return {name: {tuple(map(plain, row)) for row in db.relations[name]} for name in defined}


@pytest.mark.drawn
@share(10)
@given(null_programs())
def test_nulls_agree_with_the_oracle(drawn: Drawn) -> None:
    agrees_in(run, drawn)


@pytest.mark.drawn
@share(20)
@given(optional_programs())
def test_optional_bodies_agree_with_the_oracle(drawn: Drawn) -> None:
    agrees_in(run, drawn)


DECLARED = """.decl person(a: int, n: symbol?)
.decl likes(a: int, b: int?)
"""


def test_named_heads_leave_nullable_columns_out() -> None:
    text = ".decl p(a: int, b: int?, c: symbol?)\n"
    with gd.connect(device="cpu") as db:
        found = db.query(DECLARED + FACTS + text + "p(c = n, a = a) <- person(a, n).")
        assert set(found) == {(1, None, "ann"), (2, None, "bob"), (3, None, None)}
        with pytest.raises(gd.Error, match="leaves out `a` of `p`"):
            db.query(DECLARED + FACTS + text + "p(c = n) <- person(_, n).")


@pytest.mark.parametrize("rule", ANSWERS)
def test_answers(rule: str) -> None:
    with gd.connect(device="cpu") as db:
        found = db.query(DECLARED + FACTS + rule).fetchall()
    assert set(found) == ANSWERS[rule] and len(found) == len(ANSWERS[rule])


def explained(rule: str) -> str:
    with gd.connect(device="cpu") as db:
        db.run("person(1, 2). person(2, 3). likes(1, 2). kind(2, 3).")
        return str(db.explain(rule))


def test_explain_shows_matches_and_rows_without_one() -> None:
    text = explained("p(a, b) <- person(a, _), optional likes(a, b).")
    assert "p(a, b) <- person(a, _), optional likes(a, b)." in text
    assert "alternative 2 of 2" in text and "b := null" in text and "not exists" in text


def test_a_count_without_a_group_is_one_pass() -> None:
    text = explained("p(count()) <- person(a, _), optional { likes(a, b), kind(b, _) }.")
    assert text.count(" in person(") == 1 and "either" in text and "stratum 2" not in text


def test_explain_shows_the_parts_of_a_group() -> None:
    text = explained("p(g, count(), sum(c)) <- person(a, g), optional kind(a, c).")
    assert "p~part0(g, count(), sum(c)) <- person(a, g), kind(a, c)." in text
    assert (
        "p~part1(g, count(), sum(coalesce(c, 0))) <- person(a, g), !kind(a, c~2), c = null." in text
    )
    assert "p(g, sum(count~0), sum(sum~1)) <- p~parts(part~, g, count~0, sum~1)." in text


@pytest.mark.parametrize(
    ("rule", "apart"),
    [
        ("p(a, b) <- person(a, _), optional likes(a, b).", True),
        ("p(a, k) <- person(a, _), optional { likes(a, b), kind(b, k) }.", True),
        ("p(b) <- person(a, _), optional likes(a, b).", False),  # of several persons
        ("p(a, b, k) <- person(a, _), optional { likes(a, b), optional kind(b, k) }.", True),
        ("p(a, k) <- person(a, _), optional { likes(a, b), optional kind(b, k) }.", False),
        ("p(a, b) <- person(a, _), optional { likes(a, b) ; kind(a, b) }.", False),
        ("p(a, b) <- (person(a, _) ; likes(_, a)), optional likes(a, b).", False),
        ("p(a, b) <- person(a, _), likes(a, b) ; likes(b, a).", False),
    ],
)
def test_alternatives_are_apart(rule: str, apart: bool) -> None:
    facts = "person(1, 2). likes(1, 2). kind(2, 3).\n"
    program = check(parse(facts + rule), {})
    (own,) = [each for stratum in program.strata for each in stratum.rules]
    assert are_apart(own) == apart


def test_a_negated_comparison_holds_where_an_aggregate_has_no_value() -> None:
    facts = "F(2, 2). F(4, 3). F(5, 9). E(2, 1). E(4, 7).\n"
    with gd.connect(device="cpu") as db:
        found = db.query(facts + "p(x) <- F(x, y), !(min z : { E(x, z) } > y).").fetchall()
    assert set(found) == {(2,), (5,)}
