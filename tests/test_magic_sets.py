"""Programs under demand: drawn ones against the oracle, shapes of recursion, and when it pays."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog
from gdatalog.engine.compiler.compiled import PlannedProgram
from gdatalog.errors import EvaluationError
from gdatalog.parser import format_node, parse
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
from gdatalog.planner.rewrite.adornments import plain as plainly
from gdatalog.progress import Progress
from tests.cases import share
from tests.draw import PROFILES, Drawn
from tests.draw_rules import LITTLE, Drawing, Profile
from tests.oracle import TooLong, evaluate
from tests.oracle_values import Dur, Failure, Ts, Value, canonical
from tests.reduce import reduced
from tests.test_engine_oracle import REFUSALS, frame, plain

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
        if random.randrange(3) == 0:  # a view between the query and what it asks for
            args = tuple(Var(f"v{at}") for at in range(len(wanted.types)))
            view = Rule((Atom("view", args),), Atom(wanted.name, args))
            statements.append(view)
            wanted = type(wanted)("view", wanted.types, wanted.size)
        statements.append(_ask(random, drawing, wanted))
    return Drawn(Program(tuple(statements)), drawing.data, seed)


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
            constant: Any = value.ns if isinstance(value, Ts | Dur) else value
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
        db.workspace.force(magic_sets=mode, split="never" if drawn.seed % 3 else "auto")
        for name, (types, rows) in drawn.data.items():
            db.load(name, frame(types, rows))
        rows = db.query(format_node(program), params).fetchall()
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
    given = drawn.seed % 2 == 1
    modes = ("always", "auto") if drawn.seed % 4 == 0 else ("always",)
    found: dict[str, Any] = {}
    for mode in modes:
        try:
            found[mode] = found_by(mode, drawn, given)
        except REFUSALS:
            return None
        except EvaluationError as error:
            found[mode] = error
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    expected: Any = None
    try:
        expected = evaluate(parse(drawn.text), drawn.rows, drawn.types)[ASK]
    except TooLong:
        return None
    except Failure:  # of something, but perhaps of nothing that is needed
        try:
            expected = found_by("never", drawn, given)
        except EvaluationError:
            return None
    for mode, rows in found.items():
        if isinstance(rows, EvaluationError):
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
@share(13)
@given(numbers("recursive"))
def test_recursive_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@share(8)
@given(numbers("programs"))
def test_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@share(4)
@given(numbers("aggregate"))
def test_aggregate_programs(drawn: Drawn) -> None:
    agrees(drawn)


@pytest.mark.drawn
@share(4)
@given(numbers("optional"))
def test_optional_programs(drawn: Drawn) -> None:
    agrees(drawn)


# --------------------------------------------------------------------------------- shapes

PATH = "path(x, z) <- E(x, z) ; path(x, y), E(y, z).\n"
RIGHT = "path(x, z) <- E(x, z) ; F(x, y), path(y, z).\n"
SG = "sg(x, y) <- E(p, x), E(p, y). sg(x, y) <- E(a, x), sg(a, b), E(b, y).\n"
DIST = "dist(x, y, min(w)) <- W(x, y, w). dist(x, z, min(d + w)) <- dist(x, y, d), W(y, z, w).\n"
SHAPES = {
    "left": PATH + "?- path(1, y).",
    "left by its end": PATH + "?- path(x, 1).",
    "both ends": PATH + "?- path(1, 4).",
    "right": "path(x, z) <- E(x, z) ; E(x, y), path(y, z). ?- path(1, y).",
    "right over another relation": RIGHT + "?- path(1, y).",
    "right, several": RIGHT + "?- path(x, y), x in {1, 2, 7}.",
    "right, by its end": RIGHT + "?- path(x, 4).",
    "left and right": "path(x, z) <- E(x, z) ; F(x, y), path(y, z) ; path(x, y), E(y, z). "
    "?- path(1, y).",
    "left and right, several": "path(x, z) <- E(x, z) ; F(x, y), path(y, z) ; path(x, y), E(y, z)."
    " ?- small(x), path(x, y).",
    "a filter on what is kept": "path(x, z) <- E(x, z) ; F(x, y), path(y, z), E(x, z). "
    "?- path(1, y).",
    "non-linear": "path(x, z) <- E(x, z) ; path(x, y), path(y, z). ?- path(1, y).",
    "non-linear, no closure": "path(x, z) <- E(x, z) ; path(x, y), path(y, z), F(x, z). "
    "?- path(1, y).",
    "turned round": "path(x, z) <- E(x, z) ; path(z, x). ?- path(1, y).",
    "mutual": "odd(x, z) <- E(x, z). odd(x, z) <- even(x, y), E(y, z). "
    "even(x, z) <- odd(x, y), E(y, z). ?- even(1, y).",
    "mutual, handed on": "odd(x, z) <- E(x, z). odd(x, z) <- E(x, y), even(y, z). "
    "even(x, z) <- F(x, y), odd(y, z). ?- even(1, y).",
    "same generation": SG + "?- sg(4, y).",
    "several values": PATH + "?- small(x), path(x, y).",
    "by another query's answer": PATH + "?- path(1, x), F(x, y), path(y, z).",
    "by two columns": PATH + "?- path(1, x), path(y, 1), E(x, y).",
    "two constants": PATH + "?- path(1, x), path(2, x).",
    "all of it too": PATH + "?- path(1, x), path(_, _).",
    "negated": PATH + "un(x, y) <- N(x), N(y), !path(x, y). ?- un(1, y).",
    "a negation in recursion": "far(x, y) <- N(x), N(y), !E(x, y). "
    "hop(x, z) <- far(x, z) ; hop(x, y), F(y, z), !E(x, z). ?- hop(1, y).",
    "counted": PATH + "n(x, count()) <- path(x, _). ?- n(1, c).",
    "counted, none": PATH + "n(x, count()) <- path(x, _). ?- n(99, c).",
    "a count asked for": PATH + "n(x, count()) <- path(x, _). ?- n(x, 3), small(x).",
    "an aggregate in a body": PATH + "n(x, c) <- N(x), c = count : { path(x, _) }. ?- n(1, c).",
    "exports": PATH + "m(x, y) <- d = min w : { W(x, y, w) }, path(x, _). ?- m(1, y).",
    "exports, by what is given out": "m(y, d) <- d = min w : { W(_, y, w) }. ?- m(4, d).",
    "shortest": DIST + "?- dist(1, y, d).",
    "shortest, several": DIST + "?- small(x), dist(x, y, d).",
    "shortest, its value": DIST + "?- dist(1, y, 2).",
    "shortest, right": "dist(x, y, min(w)) <- W(x, y, w). "
    "dist(x, z, min(w + d)) <- W(x, y, w), dist(y, z, d). ?- dist(1, y, d).",
    "of three columns": "t(x, y, w) <- W(x, y, w). t(x, z, w) <- t(x, y, w), E(y, z). "
    "?- t(1, y, 2).",
    "of no column": PATH + "found() <- path(1, 4). ?- found().",
    "data and facts too": "E(7, 1). E(x, z) <- E(x, y), F(y, z). ?- E(7, y).",
    "a parameter": PATH + "?- path($start, y).",
    "a constant in a head": PATH + "path(1, 9) <- small(_). path(2, x) <- small(x). ?- path(1, y).",
    "a head that computes": "up(x, x + 1) <- N(x). up(x, y + 1) <- up(x, y), y < 6. ?- up(2, y).",
    "what it computes is asked for": "up(x, x + 1) <- N(x). up(x, y + 1) <- up(x, y), y < 6. "
    "?- up(x, 5).",
    "a rule that adds nothing": "path(x, z) <- F(x, z). path(x, z) <- path(x, z), F(z, _). "
    "?- path(2, z).",
    "twice the same variable": PATH + "?- path(x, x), small(x).",
    "views over views": PATH + "a(x, y) <- path(x, y), x != y. b(y) <- a(1, y). ?- b(y), F(y, _).",
    "choices": PATH + "?- (x = 1 ; x = 2), path(x, y).",
    "symbols": 'knows(x, y) <- S(x, y) ; knows(x, z), S(z, y). ?- knows("b", y).',
    "rules as one wants them": PATH + "reach(y) <- path(1, y) ; path(2, y), !path(y, 1).",
}
EDGES = [(1, 2), (2, 3), (3, 4), (4, 1), (5, 6), (6, 7), (7, 5), (3, 8), (8, 9)]


def database(mode: str = "auto") -> gdatalog.Database:
    db = gdatalog.connect(device="cpu")
    db.workspace.force(magic_sets=mode, split="never" if mode == "never" else "auto")
    db["E"] = EDGES
    db["F"] = [(y, x) for x, y in EDGES[::2]] + [(1, 5)]
    db["W"] = [(x, y, (x * y) % 3) for x, y in EDGES]
    db["N"] = [(x,) for x in range(1, 10)]
    db["small"] = [(1,), (5,)]
    db["S"] = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]
    return db


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    params = {"start": 1} if "$" in SHAPES[shape] else {}
    found = {}
    for mode in ("never", "always", "auto"):
        with database(mode) as db:
            found[mode] = db.query(SHAPES[shape], params).sorted().fetchall()
            if mode == "always":
                told = str(db.explain(SHAPES[shape], params))
                first = told.partition("stratum 1: ")[2].partition("\n")[0]
                assert ("[" in first) == (shape not in IN_FULL), told
    assert found["always"] == found["never"] == found["auto"]
    assert found["always"] or shape in EMPTY


EMPTY = {"counted, none"}
IN_FULL = {"exports, by what is given out", "what it computes is asked for", "all of it too"}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            PATH + "?- path(1, y).",
            ["path[bf](1, z) <- E(1, z).", "path[bf](x, z) <- path[bf](x, y), E(y, z)."],
        ),
        (
            RIGHT + "?- path(1, y).",
            [
                "asked for: path[cf]?(1)",
                "path[cf]?(y) <- path[cf]?(x), F(x, y).",
                "path[cf](z) <- path[cf]?(x), E(x, z).",
            ],
        ),
        (
            RIGHT + "?- small(x), path(x, y).",
            [
                "path[bf]?(x) <- small(x).",
                "path[bf]+(x~0, x~0) <- path[bf]?(x~0).",
                "path[bf]+(x~0, y) <- path[bf]+(x~0, x), F(x, y).",
                "path[bf](x~0, z) <- path[bf]+(x~0, x), E(x, z).",
            ],
        ),
        (
            SG + "?- sg(4, y).",
            [
                "asked for: sg[bf]?(4)",
                "sg[bf]?(a) <- sg[bf]?(x), E(a, x).",
                "sg[bf](x, y) <- sg[bf]?(x), E(a, x), sg[bf](a, b), E(b, y).",
                "?1(y) <- sg[bf](4, y).",
            ],
        ),
        (DIST + "?- dist(1, y, d).", ["dist[cff](z, min(d + w)) <- dist[cff](y, d), W(y, z, w)."]),
    ],
)
def test_the_rules_are_explained(text: str, lines: list[str]) -> None:
    with database("always") as db:
        nodes = db.explain(text).tree.walk()
        told = [line for node in nodes for line in (node.label, *node.details)]
        assert [line for line in lines if line not in told] == [], told


def chain(length: int) -> list[tuple[int, int]]:
    return [(x, x + 1) for x in range(length)]


TREE = [(x, child) for x in range(1, 64) for child in (2 * x, 2 * x + 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "edges", "start"),
    [
        (PATH, chain(60), 57),
        (RIGHT.replace("F(", "E("), chain(60), 57),
        (RIGHT.replace("F(", "E(").replace("E(x, z)", "E(x, z), x != z"), chain(60), 57),
        (SG, TREE, 9),
    ],
    ids=["left", "right", "handed on", "same generation"],
)
def test_fewer_rows_are_made(rules: str, edges: list[tuple[int, int]], start: int) -> None:
    """A profile counts them."""
    text = f"{rules}?- {rules.partition('(')[0]}({start}, y)."
    made, found = {}, {}
    for mode in ("never", "auto"):
        with gdatalog.connect(device="cpu") as db:
            db.workspace.force(magic_sets=mode)
            db.workspace.force(split="never")  # rounds count rows
            db["E"] = edges
            made[mode] = sum(run.rows for run in db.profile(text).runs)
            found[mode] = db.query(text).sorted().fetchall()
    assert found["auto"] == found["never"] != []
    assert made["auto"] * 5 < made["never"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (PATH + "?- path(x, y).", None),
        (PATH + "?- path(x, y), x < 30.", "none of its columns is known where it is read"),
        (PATH + "?- E(x, _), path(x, y).", "`x` may have most of the values that there are"),
        (
            PATH + "v(x) <- E(x, y + 1), small(y). ?- v(x), path(x, y).",
            "`x` may have most of the values that there are",
        ),
        (PATH + "?- path(1, y), path(_, _).", "none of its columns is known where it is read"),
        (".limitsize path(n=5)\n" + PATH + "?- path(1, y).", "of its rows only so many are made"),
        (
            "hop(x, z) <- E(x, z). hop(x, z) <- hop(x, y), E(y, u), hop(z, u). ?- hop(1, y).",
            None,
        ),
        ("two(x, z) <- E(x, y), E(y, z). ?- two(1, z).", None),  # so few rows
        (SG + "?- sg(59, y).", "60 of 60 values would be asked for"),
    ],
)
def test_where_it_does_not_pay(text: str, why: str | None) -> None:
    with gdatalog.connect(device="cpu") as db:
        db["E"] = chain(60)
        db["small"] = [(x,) for x in range(0, 60, 2)]
        told = str(db.explain(text))
        assert plainly(told) == told
        assert why is None or f"is evaluated in full: {why}" in told


def test_large_views_are_asked_for_what_is_needed() -> None:
    with gdatalog.connect(device="cpu") as db:
        db["E"] = chain(60_000)
        text = "two(x, z) <- E(x, y), E(y, z). ?- two(17, z)."
        assert "two[cf](z) <- E(17, y), E(y, z)." in str(db.explain(text))
        assert db.query(text).fetchall() == [(19,)]


def test_what_has_been_evaluated_is_used() -> None:
    with database() as db:
        db.run(PATH)
        assert "path[bf]" in str(db.explain("?- path(1, y)."))
        some = db.query("?- path(1, y).").sorted().fetchall()
        assert "path[bf]" in str(db.explain("?- path(1, y).")), "an answer is not remembered"
        assert len(db["path"]) > len(some)
        assert "path[bf]" not in str(db.explain("?- path(1, y)."))
        assert db.query("?- path(1, y).").sorted().fetchall() == some
        db.insert("E", [(9, 10)])  # the view goes on from what it was
        assert "path[bf]" not in str(db.explain("?- path(1, y)."))
        assert db.query("?- path(1, y).").sorted().fetchall() == [*some, (10,)]


def test_outputs_are_evaluated_in_full_anyway(tmp_path: Path) -> None:
    with database() as db:
        program = tmp_path / "paths.dl"
        program.write_text(PATH + ".output path\n?- path(1, y).")
        session = db.workspace.execution(db.workspace.parse(program.read_text(), "paths.dl"))
        assert session.whole_asks() == {"path", "E"}
        assert len(session.relation("?1")) == len(db.query(PATH + "?- path(1, y)."))
        assert "path" in session.evaluator.known


def test_errors_speak_of_the_relations_that_there_are() -> None:
    cycle = [(1, 2, -1), (2, 1, 0)]
    with gdatalog.connect(device="cpu") as db:
        db["W"] = cycle
        with pytest.raises(EvaluationError) as caught:
            db.query(DIST + "?- dist(1, y, d).")
        assert "dist improves for ever" in str(caught.value)
        assert "[" not in caught.value.message and caught.value.span is not None


def test_progress_speaks_of_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdatalog.cancellation.EVERY", 0.0)
    told: list[Progress] = []
    with database("always") as db:
        db.workspace.force(split="never")
        db.query(PATH + "?- path(1, y).", on_progress=told.append)
    assert {now.what for now in told if now.stage == "round"} == {"path"}


def test_a_failure_may_be_avoided_and_is_never_added() -> None:
    text = "part(x, 6 / x) <- N(x). all(x, y) <- part(x, y) ; all(x, z), part(z, y). ?- all($x, y)."
    with database("always") as db:
        db["N"] = [(0,), (2,), (3,)]
        assert db.query(text, {"x": 2}).sorted().fetchall() == [(2,), (3,)]
        with pytest.raises(EvaluationError):
            db.query(text, {"x": 0})


def test_views_that_share_views_are_looked_at_once() -> None:
    """Each of 60 reads the one before it twice: there are 2^60 ways down to the first."""
    views = [f"v{at + 1}(x, y) <- v{at}(x, y), v{at}(y, x)." for at in range(60)]
    with database() as db:
        db["v0"] = [(at, at) for at in range(200_000)]
        db["s"] = [(at,) for at in range(0, 200_000, 2)]
        text = "\n".join([*views, "?- s(x), v60(x, y)."])
        assert len(db.query(text, timeout=60)) == 100_000


def test_texts_are_rewritten_once() -> None:
    with database() as db:
        text = PATH + "?- path($start, y)."
        for start in (1, 5, 1):
            db.query(text, {"start": start})
        kept = db.workspace.compiler._made._found.values()
        found = [each.demanded for each, _ in kept if isinstance(each, PlannedProgram)]
        assert sum(map(len, found)) == 1


def test_a_recursion_of_which_one_relation_is_asked_for() -> None:
    text = """
    a(x) <- E(x). none(x) <- none(x).
    r(x, 1) <- a(x), !none(_). r(x, y) <- s(x, y). s(x, y) <- r(x, 3), E(y).
    ask() <- !s(0, 1).
    """
    with gdatalog.connect(device="cpu") as db:
        db["E"] = [(7,)]
        assert db.query(text).fetchall() == [()]
