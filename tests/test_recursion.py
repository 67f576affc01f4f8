"""Recursion in every shape, by every way there is to evaluate it, against the oracle.

A way is one line of WAYS: what it forces, and on which executor. Printed loops are run by Python
itself; a few programs are compiled, for Numba must take the same texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings

import gdatalog
from gdatalog.codegen import native
from gdatalog.engine.fixpoint import hash_indexes, runs
from gdatalog.engine.operators import lattice
from gdatalog.executors import lftj
from gdatalog.settings import Strategy
from gdatalog.storage import loop_tables
from tests import test_engine_oracle as oracle
from tests.cases import PROGRAMS, share
from tests.draw import Drawn
from tests.draw_recursion import OPTIMA, PLAIN, drawn_recursion, queries_of, recursions
from tests.interpreted import interpreted
from tests.oracle import TooLong, evaluate
from tests.oracle_values import Failure, Value, canonical

pytestmark = [
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

# How many programs each way gets, of 300 (GDATALOG_PROGRAMS), and at the most.
PERCENT, MOST = 4, 50


@dataclass(frozen=True)
class Way:
    """`knobs`: what the workspace is told to force; `tuning`: thresholds; `forced`: (module, name,
    value) of constants that are set while it runs."""

    strategy: Strategy = "levelwise"
    knobs: Mapping[str, Any] = field(default_factory=dict)
    tuning: Mapping[str, Any] = field(default_factory=dict)
    forced: tuple[tuple[Any, str, Any], ...] = ()
    asked: bool = False  # questions with constants, which are to agree with the whole relation
    followed: bool = False  # every second row comes when all has been evaluated

    def run(self, text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
        with self.database(number) as db:
            if not self.followed:
                return oracle.answers(db, text, data, defined)
            oracle.answers(
                db, text, {name: (t, rows[::2]) for name, (t, rows) in data.items()}, defined
            )
            for name, (types, rows) in data.items():
                db.insert(name, oracle.frame(types, rows[1::2]))
            found = {name: db.relations[name].fetchall() for name in defined}
            return {name: {tuple(map(oracle.plain, row)) for row in found[name]} for name in found}

    @contextmanager
    def database(self, number: int) -> Iterator[gdatalog.Database]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lftj, "FIRST_ROOM", (1, 2, 7, 4096)[number % 4])
            for where, name, value in self.forced:
                patch.setattr(where, name, value)
            threads = 1 + number % 2
            with gdatalog.connect(device="cpu", threads=threads) as db:
                db.workspace.force(strategy=self.strategy)
                db.workspace.tune(**self.tuning)
                for name, value in self.knobs.items():
                    if name == "chunk_rows":
                        db.workspace.chunk_rows = value
                    else:
                        db.workspace.force(**{name: value})
                yield db


WAYS = {
    "breadth-first": Way(),
    "breadth-first, by threes": Way(knobs={"chunk_rows": 3}),
    "depth-first, in place": Way("lftj", {"split": "never"}),
    "in place, groups numbered": Way(
        "lftj",
        {"split": "never"},
        {"direct_groups_most": 0},
        ((lattice, "LEAST_ROOM", 2),),
    ),
    "as chosen": Way("auto"),
    "asked": Way("auto", asked=True),
    "asked, by magic sets": Way("auto", {"magic_sets": "always"}, asked=True),
    "asked, by magic sets in rounds": Way(
        "levelwise", {"magic_sets": "always", "split": "never"}, asked=True
    ),
    "asked, without magic sets": Way("auto", {"magic_sets": "never"}, asked=True),
    "split": Way("auto", {"split": "always"}),
    "split, hashed, by threes": Way(
        "auto", {"split": "always", "chunk_rows": 3}, {"stamps_most": 0}
    ),
    "split where variables die": Way("levelwise", {"split": "never", "dead_variables": "always"}),
    "followed": Way("auto", followed=True),
    "followed in rounds": Way("levelwise", {"split": "never"}, followed=True),
    "in rounds, rules as they are": Way("levelwise", {"split": "never", "dead_variables": "never"}),
}


def loaded_late(name: str, source: str, rows: float) -> Any:
    """Loops that are there when they are asked for again."""
    if name not in LATE:
        LATE.add(name)
        return None
    return native.load(name, source, rows)


LATE: set[str] = set()  # functions that were asked for, and were not there

# Rounds, where nothing else is to take over; with thresholds so small that all ways are gone.
ROUNDS = {"split": "never", "dead_variables": "never"}
SMALL = {"new_rows_sorted": 4, "bitmap_bytes": 16, "loops_given_each": 3}
AT_ONCE = {**SMALL, "loops_from": 0.0}
SHORT = ((runs, "MERGED_BELOW", 2), (runs, "LONG", 3), (runs, "MANY", 2))
SHORT += ((loop_tables, "LEAST", 2), (loop_tables, "DENSE", 4), (loop_tables, "DENSE_EACH", 0))
IN_RUNS = ((hash_indexes, "ROW_BYTES", 1 << 60),)  # no memory for hash tries
WAYS |= {
    "rounds, sorted": Way("lftj", {**ROUNDS, "dedup": "sort"}, {}, ((runs, "MERGED_BELOW", 0),)),
    "rounds, marked": Way("lftj", {**ROUNDS, "dedup": "bitmap"}, SMALL, SHORT),
    "rounds, in runs": Way("lftj", {**ROUNDS, "dedup": "bitmap"}, SMALL, (*SHORT, *IN_RUNS)),
    "rounds, hashed": Way("lftj", {**ROUNDS, "dedup": "hash"}, SMALL, SHORT),
    "rounds, as they grow": Way("lftj", ROUNDS, SMALL, SHORT),
    "rounds, marked breadth-first": Way("levelwise", {**ROUNDS, "dedup": "bitmap"}, SMALL, SHORT),
    "rounds, by loops at once": Way("auto", ROUNDS, AT_ONCE, SHORT),
    "rounds, by loops at last": Way(
        "auto", {**ROUNDS, "chunk_rows": 3}, {"loops_from": 2000.0, "loops_from_round": 0}
    ),
    "rounds, by loops when they are there": Way(
        "auto", ROUNDS, {**SMALL, "loops_soon_from": 0.0},
        (*SHORT, (native, "load_soon", loaded_late)),
    ),
    "rounds, planned anew": Way(
        "auto", ROUNDS, {"replanned_from": -1, "replanned_shift": 1.5, "replanned_times": inf}
    ),
}  # fmt: skip

LOAD = native.load


@pytest.fixture(scope="module", autouse=True)
def not_compiled() -> Iterator[None]:
    with interpreted():
        yield


@pytest.mark.drawn
@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
@settings(share(PERCENT), max_examples=min(MOST, max(4, PROGRAMS * PERCENT // 100)))
@given(recursions())
def test_every_way_agrees_with_the_oracle(way: Way, drawn: Drawn) -> None:
    if way.asked:
        assert_asked(way, drawn)
    else:
        oracle.agrees_in(way.run, drawn)


@pytest.mark.slow
@pytest.mark.drawn
@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_every_named_shape(way: Way) -> None:
    """Of few programs each way takes a third, and each shape goes a third of the ways."""
    few = PROGRAMS <= 300
    for number, name in enumerate((*PLAIN, *OPTIMA)):
        if few and number % 3 != list(WAYS.values()).index(way) % 3:
            continue
        drawn = drawn_recursion(7 * number, name)
        if way.asked:
            assert_asked(way, drawn)
        else:
            oracle.agrees_in(way.run, drawn)


COMPILED_WAYS = ("depth-first, in place", "split", "rounds, marked", "rounds, hashed")
COMPILED = ("both", "same generation", "non-linear", "mutual", "all pairs", "components")


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED_WAYS)
def test_the_compiler_takes_the_same_texts(name: str) -> None:
    way = WAYS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "load", LOAD)
        for number, shape in enumerate(COMPILED):
            oracle.agrees_in(way.run, drawn_recursion(7 * number + 1, shape))


def assert_asked(way: Way, drawn: Drawn) -> None:
    """Questions with constants give the rows of the relation that have them."""
    try:
        whole = evaluate(drawn.program, drawn.rows, drawn.types)
    except (Failure, TooLong):
        return
    for name, asked in queries_of(drawn):
        shown = ", ".join(
            f"v{at}" if value is None else literal(value) for at, value in enumerate(asked)
        )
        with way.database(drawn.seed) as db:
            for relation, (types, rows) in drawn.data.items():
                db.load(relation, oracle.frame(types, rows))
            try:
                found = db.query(f"{drawn.text}\n?- {name}({shown}).").fetchall()
            except oracle.REFUSALS:
                return
        free = [at for at, value in enumerate(asked) if value is None]
        right = {
            tuple(row[at] for at in free)
            for row in whole[name]
            if all(value is None or row[at] == value for at, value in enumerate(asked))
        }
        told = f"?- {name}({shown}), number {drawn.seed}\n{drawn}"
        assert canonical(set(map(tuple, found))) == canonical(right), told


def literal(value: Value) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
