"""A database that is edited in whatever ways: its answers are those of a fresh run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gdatalog.engine.evaluator.results import Results
from gdatalog.engine.execution import Execution, Usage
from gdatalog.parser import Program, parse
from gdatalog.result import Result
from tests.oracle import evaluate
from tests.test_maintenance import Row, as_if_many, connected

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

TYPES = {"E": ("int",) * 2, "F": ("int",) * 2, "V": ("int",), "W": ("int",) * 3}
TYPES["path"] = TYPES["E"]
BASE = """
path(x,y) <- F(x,y).
path(x,z) <- path(x,y), E(y,z).
deg(x, count()) <- E(x,_).
dist(x, 0) <- V(x), x < 2.
some(x,y) <- V(x), V(y), !path(x,y).
"""
POOL = [
    "path(x,z) <- E(x,z).",
    "path(x,z) <- path(x,y), path(y,z).",
    "path(x,y) <- E(y,x), V(y).",
    "path(3, 4). path(1, 1).",
    "sg(x,y) <- E(p,x), E(p,y), x != y. sg(x,y) <- E(a,x), sg(a,b), E(b,y).",
    "odd(x,y) <- E(x,y). odd(x,z) <- even(x,y), F(y,z). even(x,z) <- odd(x,y), E(y,z).",
    "tri(x,y,z) <- E(x,y), E(y,z), E(x,z), x < y.",
    "c(x) <- E(x, 3), F(y, x), E(y, y).",
    "some(x,y) <- E(x,y), V(y).",
    "apart(x,z) <- some(x,y), some(y,z), !E(x,z).",
    "alone(x) <- V(x), !E(x,_), !path(_,x).",
    "big(x) <- deg(x, n), n > 1, path(x,_).",
    "dist(y, min(d + w)) <- dist(x,d), W(x,y,w).",
    "near(x,y) <- dist(x,d), d < 4, E(x,y).",
    "dist(4, 1).",
    "top(x, max(y), min(y)) <- path(x,y).",
    "best(min(d)) <- dist(_,d).",
    "p() <- E(x,x). q(x) <- V(x), p().",
    "n(x, k) <- V(x), k = count : { path(x,_) }.",
    "F(2, 3).",
    "F(0, 0). E(5, 1).",
    "V(6).",
]  # fmt: skip
QUERIES = ["?- path(1, y).", "?- path(x, y), E(y, z), x < z.", "?- dist(x, d), V(x)."]

number = st.integers(0, 6)
EDIT = {
    name: st.lists(st.tuples(*(number for _ in kinds)), max_size=4) for name, kinds in TYPES.items()
}
names = st.sampled_from("EEFFVW")
FACT = r"\b{}\([\d, ]*\)\."


def array(name: str, given: set[Row]) -> np.ndarray[Any, Any]:
    return np.array(sorted(given), dtype=np.int64).reshape(len(given), len(TYPES[name]))


class Edits(RuleBasedStateMachine):
    """A database that is edited, beside one that starts again each time, and the oracle."""

    often = 1

    def __init__(self) -> None:
        super().__init__()
        self.db = connected()
        self.fresh = connected()
        self.data: dict[str, set[Row]] = {name: set() for name in "EFVW"}
        self.texts = {"base": BASE}
        self.ran: dict[str, str] = {}  # by the one that starts again
        self.changed = set(self.data)  # since it started again
        self.edits = 0
        for name in self.data:
            self.db[name] = array(name, set())
        self.db.run(BASE, name="base")

    @rule(name=names, data=st.data())
    def insert(self, name: str, data: st.DataObject) -> None:
        given = data.draw(EDIT[name])
        self.db.insert(name, array(name, set(given)))
        self.data[name] |= set(given)
        self.changed.add(name)

    @rule(name=names, data=st.data())
    def insert_more(self, name: str, data: st.DataObject) -> None:
        self.insert(name, data)

    @rule(name=names, data=st.data())
    def insert_again(self, name: str, data: st.DataObject) -> None:
        self.insert(name, data)

    @rule(name=names, data=st.data())
    def load(self, name: str, data: st.DataObject) -> None:
        given = set(data.draw(EDIT[name]))
        self.db[name] = array(name, given)
        self.data[name] = given
        self.state_no_more(name)

    @rule(name=names, data=st.data())
    def delete(self, name: str, data: st.DataObject) -> None:
        given = set(data.draw(EDIT[name]))
        self.db.delete(name, array(name, given))
        self.no_more(name, given)

    @rule(name=names, first=number)
    def delete_where(self, name: str, first: int) -> None:
        others = ", _" * (len(TYPES[name]) - 1)
        gone = set(self.db.query(f"?- {name}(x{', y, z'[: len(others)]}), x = {first}.").fetchall())
        self.db.delete(f"{name}(x{others}), x = $first", params={"first": first})
        self.no_more(name, gone)

    def no_more(self, name: str, gone: set[Row]) -> None:
        """Rows have gone, and facts of texts with them."""
        self.data[name] -= gone
        self.changed.add(name)
        for key, text in self.texts.items():
            for row in gone:
                text = text.replace(f" {name}({', '.join(map(str, row))}).", "")
                text = text.removeprefix(f"{name}({', '.join(map(str, row))}).")
            self.texts[key] = text

    def state_no_more(self, name: str) -> None:
        """The facts of a relation have gone with its data."""
        self.changed.add(name)
        for key, text in self.texts.items():
            self.texts[key] = re.sub(FACT.format(name), "", text)

    @rule(given=st.lists(st.tuples(number, number), max_size=2))
    def beside(self, given: list[Row]) -> None:
        self.data["path"] = self.data.get("path", set()) | set(given)
        self.changed.add("path")
        self.db.insert("path", array("path", set(given)))

    @rule()
    def without(self) -> None:
        if self.data.pop("path", None) is not None:
            self.db.drop("path", only="data")
            self.state_no_more("path")

    @rule(name=st.sampled_from("abcd"), at=st.integers(0, len(POOL) - 1))
    def keep(self, name: str, at: int) -> None:
        """Adds rules, or puts them in place of others."""
        self.texts[name] = POOL[at]
        self.db.run(POOL[at], name=name)

    @rule(name=st.sampled_from("abcd"))
    def drop(self, name: str) -> None:
        self.texts[name] = ""
        self.db.run("", name=name)

    @rule(query=st.sampled_from(QUERIES))
    def ask(self, query: str) -> None:
        self.start_again()
        assert sorted(self.db.query(query).fetchall()) == sorted(self.fresh.query(query).fetchall())

    def start_again(self) -> None:
        workspace = self.fresh.workspace
        workspace.results = Results()
        for name in self.changed:
            if name in self.data:
                self.fresh[name] = array(name, self.data[name])
            elif name in workspace.stored:
                self.fresh.drop(name, only="data")
            for key, text in self.texts.items():
                if re.search(FACT.format(name), text):
                    self.ran.pop(key, None)  # these facts are stated again
        self.changed.clear()
        for name, text in self.texts.items():
            if self.ran.get(name) != text:
                self.fresh.run(text, name=name)
        self.ran = dict(self.texts)

    @invariant()
    def agrees(self) -> None:
        self.edits += 1
        if self.edits % self.often:
            return
        self.start_again()
        here, there = (
            db.workspace.execution(Program(()), Usage(lasting=True)) for db in (self.db, self.fresh)
        )
        every = sorted(name for name in here.checked.schemas if not name.startswith("?"))
        for name in every:
            found = rows_of(here, name)
            assert len(found) == len(set(found)) and set(found) == set(rows_of(there, name)), name
        if self.edits % 20 == 0:
            expected = evaluate(parse(" ".join(self.texts.values())), self.data, TYPES)
            for name in every:
                assert set(rows_of(here, name)) == expected[name], name


def rows_of(session: Execution, name: str) -> list[Row]:
    return Result(session.relation(name), session.context.scope.symbols).fetchall()


def edited(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    as_if_many(monkeypatch, 8)
    yield


def run_edits(examples: int, steps: int, often: int = 1) -> None:
    """`often`: after how many edits the answers are looked at."""
    from hypothesis.stateful import run_state_machine_as_test

    machine = type("Edits", (Edits,), {"often": often})
    run_state_machine_as_test(machine, settings=edited(examples, steps))


def test_edits() -> None:
    run_edits(4, 30)


def test_edits_of_rows_in_parts(in_parts: None) -> None:
    run_edits(4, 30)


@pytest.mark.slow
def test_many_edits(in_parts: None) -> None:
    run_edits(16, 50, often=4)
