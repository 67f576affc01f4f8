"""Recursive min and max improved in place, against the oracle and against the rounds.

The printed loops are run by Python itself (`interpreted.py`) but for a few that Numba compiles.
Programs are drawn: shapes of groups, directions, steps, several rules, mutual recursion.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog
from gdatalog.cpu_ops import best_values
from gdatalog.engine.operators import lattice
from gdatalog.parser import parse
from gdatalog.plan.join_plan import Apply, Constant, Expr, Slot
from gdatalog.planner.check.motions import Fixed, Motion, Moving, motion
from gdatalog.values import TypeName
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.draw import Drawn, recursive_programs
from tests.interpreted import interpreted
from tests.oracle_values import Ts, Value
from tests.tuned import tune

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

Rows = list[tuple[Value, ...]]


@pytest.fixture
def not_compiled() -> Iterator[None]:
    with interpreted():
        yield


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The strata that were improved in place."""
    done: list[str] = []
    before = lattice.InPlace.tell_way

    def tell(self: Any, *args: Any) -> Any:
        done.extend(self.tables)
        return before(self, *args)

    monkeypatch.setattr(lattice.InPlace, "tell_way", tell)
    return done


def database(strategy: str = "lftj", **data: pd.DataFrame) -> gdatalog.Database:
    db = gdatalog.connect(device="cpu", threads=1)
    db.workspace.force(strategy=strategy)  # type: ignore[assignment]
    for name, frame in data.items():
        db.load(name, frame)
    return db


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    """The answers in place. The number says whether groups are numbered, with room for how many
    at first, and whether values have an order."""
    with pytest.MonkeyPatch.context() as patch:
        if number % 3 == 1:
            tune(patch, direct_groups_most=0)
            patch.setattr(lattice, "LEAST_ROOM", 1 + number % 5)
        if number % 4 == 3:
            patch.setattr(lattice, "worsen", lambda *_: False)
        with gdatalog.connect(device="cpu", threads=1) as db:
            db.workspace.force(strategy="lftj")
            return oracle.answers(db, text, data, defined)


# ------------------------------------------------------------------------------------- drawn

NODES: dict[TypeName, list[Value]] = {
    "int": [0, 1, 2, 3, -7, 1 << 40],
    "symbol": ["a", "b", "c", "d"],
    "timestamp": [Ts(0), Ts(5), Ts(1 << 60)],
}
SMALL: list[Value] = [0, 1, 2, 3, 4]
WEIGHTS: dict[TypeName, list[Value]] = {
    "int": [0, 1, 2, 3, 10, 1 << 20],
    "float": [0.0, 0.25, 1.5, 3.0, 1e9],
}
TEXTS: dict[TypeName, list[str]] = {"int": ["0", "2", "5"], "float": ["0.0", "0.5", "7.5"]}
STEPS = {
    "min": ["d", "d + w", "w + d", "max(d, w)", "min(d, w)", "min(d + w, 9{})", "d - w", "w"],
    "max": ["d", "d - w", "min(d, w)", "max(min(d, w), 1{})", "d + w", "w"],
}


def drawn(number: int) -> Drawn:
    """A program of one or two relations of best values."""
    random = Random(number)
    node: TypeName = random.choice(["int", "int", "int", "symbol", "timestamp"])
    weight: TypeName = random.choice(["int", "int", "float"])
    nodes = random.choice([NODES[node], SMALL]) if node == "int" else NODES[node]
    kind = random.choice(["min", "max"])
    point = ".0" if weight == "float" else ""

    def edges(rising: bool) -> Rows:
        rows: set[tuple[Value, ...]] = set()
        for _ in range(random.randrange(14)):
            ends = random.choice(nodes), random.choice(nodes)
            if rising:  # no cycle
                ends = min(ends, key=nodes.index), max(ends, key=nodes.index)
                if ends[0] == ends[1]:
                    continue
            rows.add((*ends, random.choice(WEIGHTS[weight])))
        return sorted(rows)

    names = random.choice([["best"], ["best"], ["one", "two"]])
    wide = random.random() < 0.3  # a column that every rule passes on
    place = random.randrange(3 if wide else 2)  # of the value
    data: oracle.Data = {"S": ((node, weight), _seeds(random, nodes, WEIGHTS[weight]))}
    lines = []

    def atom(name: str, group: str, value: str) -> str:
        columns = ["s", group] if wide else [group]
        columns.insert(place, value)
        return f"{name}({', '.join(columns)})"

    lines.append(f"{atom(names[0], 's' if wide else 'x', f'{kind}(v)')} <- S("
                 f"{'s' if wide else 'x'}, v).")  # fmt: skip
    if random.random() < 0.3:
        at = atom(names[-1], "x", f"{kind}(w)")
        lines.append(f"{at} <- S(x, w), S(s, _)." if wide else f"{at} <- S(x, w).")
    for at in range(random.choice([1, 1, 2, 3])):
        step = random.choice(STEPS[kind])
        rising = step in (("d - w",) if kind == "min" else ("d + w",)) or "min(d + w" in step
        data[f"W{at}"] = (node, node, weight), edges(rising)
        if rising:  # the only rule, for others might close a cycle
            names, lines = names[:1], lines[:1]
        source, target = random.choice(names), random.choice(names)
        body = [atom(source, "x", "d"), f"W{at}({random.choice(['x, y', 'y, x'])}, w)"]
        if rising:
            body[1] = f"W{at}(x, y, w)"
        if random.random() < 0.2:
            body.append(f"S(y, {random.choice(['_', 'w', 'u'])})")
        if random.random() < 0.2:
            body.append("x != y")
        if random.random() < 0.2:
            limit = random.choice(TEXTS[weight])
            body.append(f"d {'<=' if kind == 'min' else '>='} {limit}")
        if random.random() < 0.2:
            body.append(f"!W{at}(y, x, _)")
        random.shuffle(body)
        value = f"{kind}({step.format(point)})"
        lines.append(f"{atom(target, 'y', value)} <- {', '.join(body)}.")
        if rising:
            break
    if len(names) == 2:
        lines.append(f"{atom('one', 'x', f'{kind}(d)')} <- {atom('two', 'x', 'd')}.")
        lines.append(f"{atom('two', 'x', f'{kind}(d)')} <- {atom('one', 'x', 'd')}.")
    return Drawn(parse("\n".join(lines)), data, number)


def _seeds(random: Random, nodes: list[Value], weights: list[Value]) -> Rows:
    count = random.choice([0, 1, 2, 3, 4])
    return sorted({(random.choice(nodes), random.choice(weights)) for _ in range(count)})


@pytest.mark.drawn
@share(25)
@given(st.integers(0, 1 << 32).map(drawn))
def test_drawn_improvements(program: Drawn) -> None:
    with interpreted():
        oracle.agrees_in(run, program)


@pytest.mark.drawn
@share(5)
@given(recursive_programs())
def test_drawn_recursion(program: Drawn) -> None:
    with interpreted():
        oracle.agrees_in(run, program)


def test_most_drawn_programs_are_improved_in_place(not_compiled: None, in_place: list[str]) -> None:
    programs = [drawn(number) for number in range(30)]
    for program in programs:
        run(program.text, program.data, program.defined, 0)
    assert len(in_place) > 20


# --------------------------------------------------------------------------------- examples

CYCLES = [
    ("d(1, 0). d(y, min(c + w)) <- d(x, c), W(x, y, w).", [(1, 2, 3), (2, 3, -2), (3, 2, 1)], 2),
    ("d(1, 0). d(y, max(c + w)) <- d(x, c), W(x, y, w).", [(1, 2, 3), (2, 3, 2), (3, 2, -1)], 2),
    ("d(1, 1, 0). d(s, y, min(c + w)) <- d(s, x, c), W(x, y, w).", [(1, 1, -1)], 1),
    (
        "a(1, 0). a(y, min(c)) <- b(x, c), W(x, y, _). b(y, min(c + w)) <- a(x, c), W(y, x, w).",
        [(1, 1, -1)],
        1,
    ),
]


@pytest.mark.parametrize(("text", "rows", "node"), CYCLES)
def test_a_cycle_that_improves_for_ever_is_reported(
    not_compiled: None, text: str, rows: list[tuple[int, ...]], node: int
) -> None:
    ends = {row[at] for row in rows for at in (0, 1)}
    many = [(x, x + 1, 1) for x in range(10, 60)]
    edges = pd.DataFrame([*rows, *many], columns=["x", "y", "w"])
    with database(W=edges) as db:
        with pytest.raises(gdatalog.EvaluationError, match="improves for ever") as caught:
            db.query(text)
        assert caught.value.span is not None
        assert any(f"= {end}" in str(caught.value) for end in ends), node


def test_a_value_that_is_bounded_is_no_cycle(not_compiled: None, in_place: list[str]) -> None:
    """Each time around it improves, until it is what the other value is."""
    with database(W=pd.DataFrame({"x": [1, 2], "y": [2, 1]})) as db:
        found = db.query("d(1, 50). d(y, min(max(c - 1, 7))) <- d(x, c), W(x, y).")
        assert sorted(found.fetchall()) == [(1, 7), (2, 7)]
    assert in_place == ["d"]


def test_values_that_do_not_depend_on_others_are_no_cycle(
    not_compiled: None, in_place: list[str]
) -> None:
    rows = pd.DataFrame({"x": [1, 2], "y": [2, 1], "w": [5, 3]})
    with database(W=rows) as db:
        found = db.query("d(1, 10). d(y, min(w)) <- d(x, _), W(x, y, w).")
        assert sorted(found.fetchall()) == [(1, 3), (2, 5)]
    assert in_place == ["d"]


@pytest.mark.parametrize(
    "text",
    [
        "d(1, 0). d(y, min(c + w)) <- d(x, c), W(x, y, w).",
        "d(1, 0). d(y, min(c * 3 + w)) <- d(x, c), W(x, y, w).",
    ],
)
def test_what_may_overflow_is_left_to_the_rounds(
    not_compiled: None, in_place: list[str], text: str
) -> None:
    rows = pd.DataFrame({"x": [1, 2, 3], "y": [2, 3, 4], "w": [1 << 62, 1 << 62, 5]})
    with database(W=rows) as db, database("levelwise", W=rows) as other:
        assert db.query(text).fetchall() == other.query(text).fetchall()
    assert not in_place


@pytest.mark.parametrize(
    "text",
    [
        "t(x, min(s)) <- S(x, s). t(y, min(s)) <- t(x, s), W(x, y, _).",  # texts
        "d(1, 0). d(y + 1, min(c + w)) <- d(x, c), W(x, y, w).",  # groups that are computed
        "d(1, 1, 0). d(x, z, min(a + b)) <- d(x, y, a), d(y, z, b).",  # two recursive atoms
        "d(1, 0). d(y, min(c + w / x)) <- d(x, c), W(x, y, w).",  # what may fail
    ],
)
def test_other_rules_are_left_to_the_rounds(
    not_compiled: None, in_place: list[str], text: str
) -> None:
    rows = pd.DataFrame({"x": [1, 2], "y": [2, 3], "w": [1, 2]})
    names = pd.DataFrame({"x": [1, 2], "s": ["b", "a"]})
    with database(W=rows, S=names) as db, database("levelwise", W=rows, S=names) as other:
        assert sorted(db.query(text).fetchall()) == sorted(other.query(text).fetchall())
    assert not in_place


def random_graph(seed: int, nodes: int, edges: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    ends = random.integers(-nodes // 2, nodes // 2, (2, edges))
    return pd.DataFrame({"x": ends[0], "y": ends[1], "w": random.random(edges) * 9})


PATHS = "d(0, 0.0). d(y, min(c + w)) <- d(x, c), W(x, y, w)."
COMPONENTS = """
    c(x, min(x)) <- W(x, _, _) ; W(_, x, _).
    c(y, min(a)) <- c(x, a), W(x, y, _). c(y, min(a)) <- c(x, a), W(y, x, _)."""
BETWEEN = "p(s, s, min(0.0)) <- W(s, _, _). p(s, y, min(c + w)) <- p(s, x, c), W(x, y, w)."


@pytest.mark.slow
@pytest.mark.parametrize("text", [PATHS, COMPONENTS, BETWEEN], ids=["paths", "parts", "between"])
def test_compiled_loops_say_what_rounds_say(text: str, in_place: list[str]) -> None:
    """By Numba, in the order of values; of one source, and of each by one of two threads."""
    edges = random_graph(1, 60, 150)
    with database(W=edges) as db, database("levelwise", W=edges) as other:
        db.workspace.force(threads=2)
        found = db.query(text).sorted().df()
        pd.testing.assert_frame_equal(found, other.query(text).sorted().df())
    assert len(in_place) == 1


def test_sparse_groups_are_numbered(in_place: list[str]) -> None:
    edges = random_graph(2, 2000, 9000)
    edges[["x", "y"]] *= 1_000_003
    with database(W=edges) as db, database("levelwise", W=edges) as other:
        found = db.query(PATHS).sorted().df()
        assert len(found) > 100
        pd.testing.assert_frame_equal(found, other.query(PATHS).sorted().df())
    assert in_place == ["d"]


def test_best_values_beyond_the_memory_limit(in_place: list[str]) -> None:
    text = "d(x, y, min(1)) <- e(x, y). d(x, z, min(n + 1)) <- d(x, y, n), e(y, z)."
    count = 1000
    with gdatalog.connect(device="cpu", memory_limit="4MiB") as db:
        db["e"] = np.stack([np.arange(count), np.arange(1, count + 1)], axis=1)
        db.workspace.force(strategy="lftj")
        found = db.query(text).df()
        assert db.workspace.spill is not None and db.workspace.spill.written > 0
    assert len(found) == count * (count + 1) // 2 > (4 << 20) // 12
    assert in_place
    assert (found["y"] - found["x"] == found.iloc[:, 2]).all()


def test_more_entries_than_there_is_room_for(not_compiled: None) -> None:
    """Groups that improve again and again leave entries behind, which are cleared away."""
    count = 40
    rows = [(0, at, 1000 - at) for at in range(1, count)]
    rows += [(at, other, 1) for at in range(1, count) for other in range(at + 1, count)]
    edges = pd.DataFrame(rows, columns=["x", "y", "w"])
    text = "d(0, 0). d(y, min(c + w)) <- d(x, c), W(x, y, w)."
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best_values, "SPARE", 1)
        with database(W=edges) as db, database("levelwise", W=edges) as other:
            expected = sorted(other.query(text).fetchall())
            assert sorted(db.query(text).fetchall()) == expected


def test_a_profile_tells_of_it(not_compiled: None) -> None:
    with database(W=random_graph(3, 20, 40)) as db:
        assert "best values in place" in str(db.profile(PATHS))


def test_rounds_that_take_too_long_are_given_up(not_compiled: None, in_place: list[str]) -> None:
    edges = random_graph(4, 20, 40)
    with database("auto", W=edges) as db, database("levelwise", W=edges) as other:
        db.workspace.tune(rounds_most=0)
        found = sorted(db.query(PATHS).fetchall())
        assert in_place == ["d"]
        assert found == sorted(other.query(PATHS).fetchall())


def test_small_work_is_done_by_rounds(in_place: list[str]) -> None:
    with database("auto", W=random_graph(4, 20, 40)) as db:
        assert len(db.query(PATHS)) > 1
    assert not in_place


D, W = Slot("d", "int"), Slot("w", "int")
FIVE = Constant(5, "int")


@pytest.mark.parametrize(
    ("expr", "kind", "moves"),
    [
        (D, "min", Moving(True)),
        (Apply("+", (D, W), "int"), "min", Moving(True, 9)),
        (Apply("+", (D, W), "int"), "max", Moving(False, 9)),
        (Apply("-", (D, W), "int"), "min", Moving(False, 9)),
        (Apply("-", (D, W), "int"), "max", Moving(True, 9)),
        (Apply("max", (D, W), "int"), "min", Moving(True, 9, True)),
        (Apply("min", (D, W), "int"), "min", Moving(False, 9, True)),
        (Apply("min", (D, FIVE), "int"), "max", Moving(True, 5, True)),
        (Apply("*", (W, FIVE), "int"), "min", Fixed(0, 45)),
        (Apply("-", (W,), "int"), "min", Fixed(-9, 0)),
        (Apply("*", (D, FIVE), "int"), "min", Moving(False, float("inf"), True)),
        (Apply("+", (D, Slot("z", "int")), "int"), "min", Moving(False, float("inf"))),
    ],
    ids=str,
)
def test_how_a_value_moves(expr: Expr, kind: str, moves: Motion) -> None:
    assert motion(expr, {"d": Moving(True), "w": Fixed(0, 9)}, kind) == moves
