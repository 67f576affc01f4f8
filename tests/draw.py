"""Hypothesis strategies that draw programs with data to match.

A drawn program is safe, stratified and well-typed by construction, and ends: a rule of a cycle
makes no value that was not in the data (only recursive min and max compute, over weights that
are not negative). Values are few and small, so that joins hit; extremes are rare but there.

Hypothesis draws a number and the number's program follows from it: drawn choice by choice, more
than half of the programs were repetitions. `reduce` makes a program that fails smaller.

    draw_rules    a program in the making: its relations, data and rules
    draw_bodies   a body in the making
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.parser import format_node
from gdatalog.parser.syntax import Program, Rule
from tests.draw_rules import ALL, DECIMAL, GROUPS, TESTS, Drawing, Profile
from tests.oracle_values import Value


@dataclass(frozen=True)
class Drawn:
    """`data` holds for each relation its columns' types and its rows."""

    program: Program
    data: dict[str, tuple[tuple[str, ...], list[tuple[Value, ...]]]]
    seed: int

    @property
    def text(self) -> str:
        return format_node(self.program)

    @property
    def rows(self) -> dict[str, set[tuple[Value, ...]]]:
        return {name: set(rows) for name, (_, rows) in self.data.items()}

    @property
    def types(self) -> dict[str, tuple[str, ...]]:
        return {name: types for name, (types, _) in self.data.items()}

    @property
    def defined(self) -> set[str]:
        rules = [s for s in self.program.statements if isinstance(s, Rule)]
        return {head.name for rule in rules for head in rule.heads}

    def __repr__(self) -> str:
        data = "\n".join(f"// {name}{types}: {rows}" for name, (types, rows) in self.data.items())
        return f"\n{self.text}\n{data}\n"


def drawn(seed: int, profile: Profile) -> Drawn:
    """The program of a number."""
    drawing = Drawing(Random(seed), profile)
    drawing.relations()
    drawing.rules()
    return Drawn(Program(tuple(drawing.statements)), drawing.data, seed)


def programs(profile: Profile = Profile()) -> st.SearchStrategy[Drawn]:  # noqa: B008
    return st.integers(0, 2**64 - 1).map(lambda seed: drawn(seed, profile))


PROFILES = {
    "programs": Profile(),
    # Conjunctive queries over binary relations, with chains: joins and nothing else.
    "graph": Profile(
        types=("int",),
        arities=(2,),
        rows=30,
        atoms=5,
        features=frozenset({"chain", "distinct", "negate", "head"}),
        reuse=75,
    ),
    "recursive": Profile(
        types=("int", "int", "symbol"),
        arities=(1, 2, 2, 3),
        atoms=3,
        features=frozenset({"recursion", "optimum", "negate", "compare", "chain", "or"}),
        fewest=2,
    ),
    "aggregate": Profile(
        types=("int", "int", "float", "symbol", DECIMAL),
        atoms=3,
        features=frozenset({"head", "body", "optimum", "or", "compare", "negate", "group"}),
    ),
    "string": Profile(
        types=("symbol", "symbol", "int", "bool", "timestamp", "date", "duration", DECIMAL),
        features=frozenset(
            {"compute", "if", "function", "compare", "negate", "or", "in", "head", "fail"}
        ),
    ),
    # What SQL can say too: no recursion, nothing that fails.
    "relational": Profile(
        types=("int", "int", "symbol", "float", "bool"),
        features=TESTS - {"range", "function"} | GROUPS | {"head", "compute"},
        extremes=False,
    ),
    # Nulls in the data, and what tests and replaces them. The greatest int is the key of a null.
    "null": Profile(
        types=("int", "int", "float", "symbol", "bool", "timestamp"),
        features=ALL | {"null"},
        extremes=False,
    ),
    # Optional bodies, which make more of them.
    "optional": Profile(
        types=("int", "int", "symbol"),
        arities=(1, 2, 2, 3),
        rows=12,
        atoms=2,
        features=TESTS - {"range"} | GROUPS | {"compute", "head", "null", "optional"},
        extremes=False,
    ),
}


def null_programs() -> st.SearchStrategy[Drawn]:
    return programs(PROFILES["null"])


def optional_programs() -> st.SearchStrategy[Drawn]:
    return programs(PROFILES["optional"])


def graph_programs() -> st.SearchStrategy[Drawn]:
    return programs(PROFILES["graph"])


def recursive_programs() -> st.SearchStrategy[Drawn]:
    return programs(PROFILES["recursive"])


def aggregate_programs() -> st.SearchStrategy[Drawn]:
    return programs(PROFILES["aggregate"])


def string_programs() -> st.SearchStrategy[Drawn]:
    return programs(PROFILES["string"])


def relational_programs() -> st.SearchStrategy[Drawn]:
    return programs(PROFILES["relational"])


# Profiles whose programs every executor is given.
MANY = ("programs", "graph", "relational", "recursive", "aggregate", "string")


def check_drawn(profile: str, drawing: settings, check: Callable[[Drawn], None]) -> None:
    """Checks drawn programs of a profile, as many as the settings say."""
    drawing(given(programs(PROFILES[profile]))(check))()
