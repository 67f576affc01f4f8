"""Recursive min and max improved in place, against the oracle and against the rounds.

The printed loops are run by Python itself (`interpreted.py`) but for a few that Numba compiles.
Programs are drawn: shapes of groups, directions, steps, several rules, mutual recursion.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog
from gdatalog.engine import improving
from gdatalog.parser import parse
from gdatalog.values import TypeName
from tests import test_engine_oracle as oracle
from tests.draw import Drawn, recursive_programs
from tests.interpreted import interpreted
from tests.oracle_values import Ts, Value

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
    before = improving.InPlace._tell

    def tell(self: Any, *args: Any) -> Any:
        done.extend(self.tables)
        return before(self, *args)

    monkeypatch.setattr(improving.InPlace, "_tell", tell)
    return done


def database(strategy: str = "lftj", **data: pd.DataFrame) -> gdatalog.Database:
    db = gdatalog.connect(device="cpu", threads=1)
    db._workspace.strategy = strategy  # type: ignore[assignment]
    for name, frame in data.items():
        db.load(name, frame)
    return db


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    """The answers in place. The number says whether groups are numbered, with room for how many
    at first, and whether values have an order."""
    with pytest.MonkeyPatch.context() as patch:
        if number % 3 == 1:
            patch.setattr(improving, "MOST_DIRECT", 0)
            patch.setattr(improving, "LEAST_ROOM", 1 + number % 5)
        if number % 4 == 3:
            patch.setattr(improving, "worsen", lambda *_: False)
        with gdatalog.connect(device="cpu", threads=1) as db:
            db._workspace.strategy = "lftj"
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
@oracle.share(40)
@given(st.integers(0, 1 << 32).map(drawn))
def test_drawn_improvements(program: Drawn) -> None:
    with interpreted():
        oracle.agrees_in(run, program)


@pytest.mark.drawn
@oracle.share(5)
@given(recursive_programs())
def test_drawn_recursion(program: Drawn) -> None:
    with interpreted():
        oracle.agrees_in(run, program)


def test_most_drawn_programs_are_improved_in_place(not_compiled: None, in_place: list[str]) -> None:
    programs = [drawn(number) for number in range(60)]
    for program in programs:
        run(program.text, program.data, program.defined, 0)
    assert len(in_place) > 40
