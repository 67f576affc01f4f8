"""Programs under demand: drawn ones against the oracle, shapes of recursion, and when it pays."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog
from gdatalog.errors import EvaluationError
from gdatalog.parser import format_program, parse
from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Compare,
    Const,
    Expr,
    Literal,
    Not,
    Param,
    Program,
    Rule,
    Var,
    Wildcard,
)
from tests.draw import PROFILES, Drawn
from tests.draw_rules import LITTLE, Drawing, Profile
from tests.oracle import TooLong, evaluate
from tests.oracle_values import Failure, Ts, Value, canonical
from tests.reduce import reduced
from tests.test_engine_oracle import REFUSALS, frame, plain, share

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

ASK = "ask"


def asking(seed: int, profile: Profile) -> Drawn:
    """The program of a number, and a last rule that asks for a part of one of its relations."""
    random = Random(seed)
    drawing = Drawing(random, profile)
    drawing.relations()
    drawing.rules()
    defined = [r for r in drawing.known if r.name not in drawing.data and r.types]
    statements = list(drawing.statements)
    if defined:
        wanted = random.choice(defined[-3:])
        for name in [ASK, *(["view", ASK] if random.randrange(3) == 0 else [])]:
            statements = [s for s in statements if not _defines(s, name)]
        if random.randrange(3) == 0:  # a view between the query and what it asks for
            args = tuple(Var(f"v{at}") for at in range(len(wanted.types)))
            view = Rule((Atom("view", args),), Atom(wanted.name, args))
            statements.append(view)
            wanted = type(wanted)("view", wanted.types, wanted.size)
        statements.append(_ask(random, drawing, wanted))
    return Drawn(Program(tuple(statements)), drawing.data, seed)


def _defines(statement: Any, name: str) -> bool:
    return isinstance(statement, Rule) and statement.heads[0].name == name


def _ask(random: Random, drawing: Drawing, wanted: Any) -> Rule:
    items: list[Literal] = []
    args: list[Expr] = []
    for at, kind in enumerate(wanted.types):
        places = [
            (name, column)
            for name, (types, _) in drawing.data.items()
            for column, own in enumerate(types)
            if own == kind
        ]
        choice = random.randrange(4)
        if choice == 0 or (choice == 1 and not places):
            value = random.choice(LITTLE[kind])
            constant: Any = value.ns if isinstance(value, Ts) else value
            args.append(Const(kind, constant))
        elif choice == 1:  # from another atom
            name, column = random.choice(places)
            types = drawing.data[name][0]
            items.append(
                Atom(name, tuple(Var(f"x{at}") if i == column else Wildcard()
                                 for i in range(len(types))))
            )  # fmt: skip
            args.append(Var(f"x{at}"))
        else:
            args.append(Var(f"x{at}"))
    atom = Atom(wanted.name, tuple(args))
    bound = {v.name for item in items for v in item.args if isinstance(v, Var)}  # type: ignore[union-attr]
    free = [arg for arg in args if isinstance(arg, Var) and arg.name not in bound]
    way = random.randrange(6)
    if way == 0 and not free:
        items.append(Not(atom))
    elif way == 1:
        whole = tuple(Wildcard() if arg in free else arg for arg in args)
        count = Aggregate("count", (), Atom(wanted.name, whole))
        items.append(Compare(Var("n"), (("=", count),)))
        free = [Var("n")]
    else:
        items.append(atom)
        if way == 2:  # the same relation, by other columns
            items.append(Atom(wanted.name, tuple(Wildcard() for _ in args)))
    shown = [Var(name) for name in sorted(bound)] + free
    random.shuffle(items)
    body = items[0] if len(items) == 1 else And(tuple(items))
    return Rule((Atom(ASK, tuple(shown)),), body)


def found_by(mode: str, drawn: Drawn, given: bool) -> set[tuple[Value, ...]]:
    """What the last rule's relation holds; `given`: with its constants as parameters."""
    program, params = drawn.program, {}
    if given:
        program, params = with_parameters(program)
    with gdatalog.connect(device="cpu") as db:
        db._workspace.demand = mode
        for name, (types, rows) in drawn.data.items():
            db.load(name, frame(types, rows))
        rows = db.query(format_program(program), params).fetchall()
    return {tuple(map(plain, row)) for row in rows}


def with_parameters(program: Program) -> tuple[Program, dict[str, Any]]:
    """The constants of the last rule's atoms as parameters."""
    params: dict[str, Any] = {}

    def change(arg: Expr) -> Expr:
        if not isinstance(arg, Const) or arg.type == "timestamp":
            return arg
        name = f"p{len(params)}"
        params[name] = arg.value
        return Param(name)

    last = program.statements[-1]
    assert isinstance(last, Rule)
    items = last.body.items if isinstance(last.body, And) else (last.body,)
    new = tuple(
        Atom(item.name, tuple(map(change, item.args))) if isinstance(item, Atom) else item
        for item in items
    )
    body: Any = new[0] if len(new) == 1 else And(new)
    return Program((*program.statements[:-1], Rule(last.heads, body))), params


def difference(drawn: Drawn) -> str | None:
    """What is wrong with an answer under demand; a failure that demand avoids is none."""
    last = drawn.program.statements[-1] if drawn.program.statements else None
    if not isinstance(last, Rule) or last.heads[0].name != ASK or last.body is None:
        return None
    found: dict[str, Any] = {}
    for mode in ("off", "on", "auto"):
        try:
            found[mode] = found_by(mode, drawn, drawn.seed % 2 == 1)
        except REFUSALS:
            return None
        except EvaluationError as error:
            found[mode] = str(error)
        except Exception as error:
            return f"{mode}: {type(error).__name__}: {error}"
    try:
        expected = evaluate(parse(drawn.text), drawn.rows, drawn.types)[ASK]
    except Failure:
        expected = found["off"]
    except TooLong:
        return None
    for mode, rows in found.items():
        if isinstance(expected, str):
            continue
        if isinstance(rows, str):
            return f"{mode}: should not fail:\n{rows}"
        if canonical(rows) != canonical(expected):
            return f"{mode}: {sorted(rows)[:10]} and not {sorted(expected)[:10]}"
    return None


def agrees(drawn: Drawn) -> None:
    if difference(drawn):
        small = reduced(drawn, difference)
        pytest.fail(f"{difference(small)}\nnumber {drawn.seed}\n{small}")


def numbers(name: str) -> st.SearchStrategy[Drawn]:
    return st.integers(0, 2**64 - 1).map(lambda seed: asking(seed, PROFILES[name]))


@pytest.mark.drawn
@share(30)
@given(numbers("recursive"))
def test_recursive_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@share(20)
@given(numbers("programs"))
def test_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@share(10)
@given(numbers("aggregate"))
def test_aggregate_programs(drawn: Drawn) -> None:
    agrees(drawn)
