"""`optional`, and nulls in facts: against the oracle, and what explain and errors say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

import gdatalog as gd
from gdatalog.parser import format_node
from gdatalog.parser.syntax import Atom, Column, Const, Decl, Null, Rule
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
