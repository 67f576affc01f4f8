"""Drawn sessions of load, insert, drop, undo, run and query, with rules that become invalid.

After each step the database is compared with what should have survived, as it is noted here:
- a fresh database, given that data and the statements of all relations that are not broken as one
  text, accepts it and gives the same rows; so does the oracle;
- each statement that is called invalid is refused, with that error, beside what else is kept;
- the broken relations are those of invalid statements and all that depend on them, no others;
- a text that was refused is refused by the fresh database, too.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import gdatalog as gd
from gdatalog.parser import Program, format_node, parse
from gdatalog.shell.output import Output
from gdatalog.shell.repl import Repl
from tests.oracle import evaluate

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

Row = tuple[Any, ...]
UNARY, BINARY = ("F", "p", "q", "s"), ("E", "r", "t")
ARITY = dict.fromkeys(UNARY, 1) | dict.fromkeys(BINARY, 2)
BODIES = [
    ("u", "(x)", "v(x)"),
    ("u", "(x)", "b(x, _)"),
    ("u", "(y)", "b(_, y)"),
    ("u", "(x)", "v(x), x > 1"),
    ("u", "(x)", 'v(x), x != "a"'),
    ("u", "(x)", "b(x, y), v(y)"),
    ("u", "(x)", "v(x), !w(x)"),
    ("u", "(count())", "b(_, _)"),
    ("u", "(min(y))", "b(_, y)"),
    ("c", "(x, y)", "b(y, x)"),
    ("c", "(x, z)", "b(x, y), d(y, z)"),
    ("c", "(x, y)", "v(x), w(y)"),
    ("c", "(x, c)", "v(x), c = count : { b(x, _) }"),
]


@dataclass(frozen=True)
class Said:
    """A statement: of these relations, with this body (None: a fact or a declaration)."""

    heads: tuple[tuple[str, str], ...]  # names and arguments
    body: str | None = None
    declared: bool = False

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.heads}

    @property
    def reads(self) -> set[str]:
        return {name for name in ARITY if self.body and f"{name}(" in self.body}

    @property
    def part(self) -> str:
        return "declaration" if self.declared else "rules" if self.body else "data"

    def without(self, names: Iterable[str]) -> Said | None:
        heads = tuple(head for head in self.heads if head[0] not in names)
        return replace(self, heads=heads) if heads else None

    def __str__(self) -> str:
        heads = ", ".join(name + args for name, args in self.heads)
        if self.declared:
            return f".decl {heads}"
        return f"{heads} <- {self.body}." if self.body else f"{heads}."


def text_of(statements: Iterable[Said]) -> str:
    return "\n".join(map(str, statements))


BASE = [
    Said((("r", "(x, z)"),), "E(x, y), E(y, z)"),
    Said((("p", "(x)"),), "F(x), x > 1"),
    Said((("q", "(x)"),), "r(x, y), !p(y)"),
    Said((("s", "(x)"), ("p", "(x)")), "q(x), x > 2"),
    Said((("t", "(x, y)"),), "p(x), s(y)"),
]


@dataclass
class State:
    """What should have survived."""

    texts: dict[str, list[Said]] = field(default_factory=dict)
    data: dict[str, tuple[str, set[Row]]] = field(default_factory=dict)  # the type, and rows

    def statements(self) -> list[Said]:
        return [said for text in self.texts.values() for said in text]

    def drop(self, names: Sequence[str], parts: Sequence[str]) -> None:
        for key, text in list(self.texts.items()):
            left = [said.without(names) if said.part in parts else said for said in text]
            self.texts[key] = [said for said in left if said is not None]
            if not self.texts[key]:
                del self.texts[key]
        if "data" in parts:
            for name in names:
                self.data.pop(name, None)

    def keep(self, key: str, text: list[Said]) -> None:
        if self.texts.get(key) != text or any(said.part != "data" for said in text):
            self.texts.pop(key, None)
            if text:
                self.texts[key] = text


# ------------------------------------------------------------------------------------ drawing

kinds = st.sampled_from(["int", "int", "symbol"])
values = {"int": st.integers(0, 4), "symbol": st.sampled_from("abc")}


@st.composite
def rules(draw: st.DrawFn) -> Said:
    head, args, body = draw(st.sampled_from(BODIES))
    named = {letter: draw(st.sampled_from(UNARY)) for letter in "uvw"}
    named |= {letter: draw(st.sampled_from(BINARY)) for letter in "bcd"}
    for letter, name in named.items():
        body = body.replace(f"{letter}(", f"{name}(")
    heads = [(named[head], args)]
    if args == "(x)" and draw(st.integers(0, 5)) == 0:
        heads.append((draw(st.sampled_from(UNARY)), args))
    return Said(tuple(heads), body)


@st.composite
def facts(draw: st.DrawFn) -> Said:
    name, kind = draw(st.sampled_from(list(ARITY))), draw(kinds)
    given = [draw(values[kind]) for _ in range(ARITY[name])]
    written = ", ".join(f'"{value}"' if kind == "symbol" else str(value) for value in given)
    return Said(((name, f"({written})"),))


@st.composite
def declarations(draw: st.DrawFn) -> Said:
    name, kind = draw(st.sampled_from(list(ARITY))), draw(kinds)
    columns = ", ".join(f"{column}: {kind}" for column in "xy"[: ARITY[name]])
    return Said(((name, f"({columns})"),), declared=True)


statements = st.one_of(rules(), rules(), rules(), facts(), facts(), declarations())
texts = st.lists(statements, min_size=1, max_size=3)
names = st.sampled_from([*ARITY, *"EEEFFF"])


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, str, set[Row]]:
    name, kind = draw(names), draw(kinds)
    row = st.tuples(*[values[kind]] * ARITY[name])
    return name, kind, set(draw(st.lists(row, min_size=1, max_size=4)))


# ------------------------------------------------------------------------------------- the test


class Sessions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="gdatalog-sessions-"))
        self.db = gd.connect(device="cpu")
        self.repl = Repl(self.db, Output(StringIO()), interactive=False)
        self.state = State()
        self.before: list[State] = []  # what `.undo` comes back to
        self.steps = 0
        self.load(("E", "int", {(1, 2), (2, 3), (3, 1)}))
        self.load(("F", "int", {(1,), (4,)}))
        self.run_text("a", BASE[:2])
        self.run_text("b", BASE[2:])

    def teardown(self) -> None:
        self.db.close()
        shutil.rmtree(self.folder)

    # ------------------------------------------------------------------------------ in Python

    @rule(table=tables())
    def load(self, table: tuple[str, str, set[Row]]) -> None:
        name, kind, given = table
        if self.fits(lambda: self.db.load(name, self.rows(kind, given, name))):
            self.state.drop([name], ["data"])
            self.state.data[name] = kind, given

    @rule(table=tables())
    def load_more(self, table: tuple[str, str, set[Row]]) -> None:
        self.load(table)

    @rule(table=tables())
    def insert(self, table: tuple[str, str, set[Row]]) -> None:
        name, kind, given = table
        if self.fits(lambda: self.db.insert(name, self.rows(kind, given, name))):
            before = self.state.data.get(name, (kind, set()))
            self.state.data[name] = kind, before[1] | given

    def rows(self, kind: str, given: set[Row], name: str) -> Any:
        dtype: Any = np.int64 if kind == "int" else object
        columns = np.array(sorted(given), dtype=dtype).reshape(len(given), ARITY[name])
        return pd.DataFrame(dict(zip("xy", columns.T, strict=False)))

    @rule(name=names, only=st.sampled_from(["rules", "data", "data", None]))
    def drop(self, name: str, only: Any) -> None:
        there = name in self.db.relations
        if self.fits(lambda: self.db.drop(name, only=only)):
            self.state.drop([name], [only] if only else ["rules", "data", "declaration"])
        else:
            assert not there

    @rule(key=st.sampled_from("abc"), text=texts)
    def run_text(self, key: str, text: list[Said]) -> None:
        self.take(key, text, lambda: self.db.run(text_of(text), name=key))

    @rule(key=st.sampled_from("abc"), text=texts)
    def run_other_text(self, key: str, text: list[Said]) -> None:
        self.run_text(key, text)

    @rule(text=texts)
    def run_file(self, text: list[Said]) -> None:
        path = self.folder / "p.dl"
        path.write_text(text_of(text))
        self.take("p.dl", text, lambda: self.db.run_file(path))

    @rule(name=names)
    def ask(self, name: str) -> None:
        """An answer with a rule of its own, which the database does not keep."""
        args = "x, y"[: 3 * ARITY[name] - 2]
        text = f"answer({args}) <- {name}({args})."
        if name in self.db.relations and name not in self.db.relations.invalid:
            assert set(self.db.query(text).fetchall()) == set(self.db[name].fetchall())
        else:
            with pytest.raises(gd.Error):
                self.db.query(text)

    # --------------------------------------------------------------------------- at the prompt

    @rule(said=statements)
    def type(self, said: Said) -> None:
        self.at_the_prompt(str(said), lambda: self.state.keep(str(said), [said]))

    @rule(name=names, part=st.sampled_from(["--rules ", "--data ", ""]))
    def drop_at_the_prompt(self, name: str, part: str) -> None:
        parts = [part.strip(" -")] if part else ["rules", "data", "declaration"]
        self.at_the_prompt(f".drop {part}{name}", lambda: self.state.drop([name], parts))

    @rule()
    def undo(self) -> None:
        if self.before:
            self.state = self.before.pop()
        self.at_the_prompt(".undo", lambda: None)

    def at_the_prompt(self, line: str, change: Any) -> None:
        before = len(self.repl.history.changes)
        state = deepcopy(self.state)
        self.repl.feed(line)
        if len(self.repl.history.changes) > before:
            self.before.append(state)
            change()

    # ------------------------------------------------------------------------------- comparing

    def fits(self, action: Any) -> bool:
        try:
            action()
        except gd.Error:
            return False
        return True

    def take(self, key: str, text: list[Said], action: Any) -> None:
        broken = set(self.db.relations.invalid)
        if self.fits(action):
            self.state.keep(key, text)
        elif key not in self.state.texts:
            speaks = {name for said in text for name in said.names | said.reads}
            if broken.isdisjoint(speaks):
                with pytest.raises(gd.Error):
                    self.fresh([*self.whole(broken), *text])

    def whole(self, broken: set[str]) -> list[Said]:
        """The statements of relations that are not broken."""
        left = [said if said.declared else said.without(broken) for said in self.state.statements()]
        return [said for said in left if said is not None and not said.names <= broken]

    def fresh(self, text: Iterable[Said]) -> gd.Database:
        db = gd.connect(device="cpu")
        for name, (kind, given) in self.state.data.items():
            db[name] = self.rows(kind, given, name)
        db.run(text_of(dict.fromkeys(text)))
        return db

    @invariant()
    def agrees(self) -> None:
        self.steps += 1
        broken = self.db.relations.invalid
        whole = self.whole(set(broken))
        with self.fresh(whole) as fresh:
            every = set(self.db.relations) - broken.keys()
            assert set(fresh.relations) - {n for n in self.state.data if n in broken} == every
            found = {name: set(self.db[name].fetchall()) for name in every}
            for name, rows in found.items():
                assert rows == set(fresh[name].fetchall()), name
        for name in broken:
            with pytest.raises(gd.Error):
                self.db[name].fetchall()
        if self.steps % 5 == 0:
            types = {name: (kind,) * ARITY[name] for name, (kind, _) in self.state.data.items()}
            data = {name: rows for name, (_, rows) in self.state.data.items()}
            expected = evaluate(parse(text_of(dict.fromkeys(whole))), data, types)
            for name, rows in found.items():
                assert rows == expected[name], name
        self.explains(set(broken))

    def explains(self, broken: set[str]) -> None:
        """What is broken depends on a statement that is refused for a reason of its own."""
        validity = self.db.workspace.execution(Program(())).validity
        invalid: dict[str, gd.Error | None] = {}
        for statement in self.db.workspace.statements():  # of equal ones, one is invalid
            text = format_node(statement)
            invalid[text] = invalid.get(text) or validity.invalid.get(id(statement))
        causes: set[str] = set()
        for said in dict.fromkeys(self.state.statements()):
            error = invalid[format_node(parse(str(said)).statements[0])]
            if error is None:
                continue
            causes |= said.names
            if said.reads & broken:
                continue  # what it is told to be wrong with came from there
            others = [
                other
                for other in self.state.statements()
                if invalid[format_node(parse(str(other)).statements[0])] is None
            ]
            messages = set()
            for text in ([*others, said], [said, *others]):  # of wrong facts the first is told
                with pytest.raises(gd.Error) as caught:
                    self.fresh(text)
                messages |= {each.message for each in caught.value.all}
            assert error.message in messages, str(said)
        below = set(causes)
        while True:
            more = {
                name
                for said in self.state.statements()
                if said.reads & below
                for name in said.names
            }
            if more <= below:
                break
            below |= more
        assert below == broken


def run_sessions(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Sessions,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        ),
    )


def test_drawn_sessions() -> None:
    run_sessions(3, 20)


@pytest.mark.slow
def test_many_drawn_sessions() -> None:
    run_sessions(14, 40)
