"""Fixpoints that split, against the oracle: what rules may look like, and what values may be.

The printed worklists are run by Python itself (`interpreted.py`); a few are compiled. Blocks of a
few rows make nearly every value begin anew.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from random import Random
from threading import Timer
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog
from gdatalog.engine import device
from gdatalog.engine.operators import partitioned_run
from gdatalog.executors import lftj
from gdatalog.parser import parse
from tests import data
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.draw import Drawn, recursive_programs
from tests.interpreted import interpreted
from tests.oracle_values import Value

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

# Each splits: by the first column, but where it says otherwise.
SHAPES = {
    "left linear": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).",
    "right linear": "p(x, y) <- E(x, y). p(x, z) <- E(x, y), p(y, z).",  # by the second
    "in one rule": "p(x, z) <- E(x, z) ; p(x, y), E(y, z).",
    "several rules": """
        p(x, y) <- E(x, y). p(x, y) <- F(y, x), N(x).
        p(x, z) <- p(x, y), E(y, z). p(x, z) <- p(x, y), F(z, y).""",
    "alternatives": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), (E(y, z) ; F(y, z), !N(z)).",
    "extra atoms": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, w), F(w, z), N(x), E(_, z).",
    "tests": "p(x, y) <- E(x, y), x != y. p(x, z) <- p(x, y), E(y, z), x != z, y < z.",
    "negation": """
        bad(x) <- F(x, x). p(x, y) <- E(x, y).
        p(x, z) <- p(x, y), E(y, z), !bad(z), !F(x, z), !(E(z, w), F(w, _)).""",
    "constants": """
        p(x, y) <- E(x, y), x != $1.
        p(x, $2) <- p(x, $1). p(x, z) <- p(x, y), E(y, z), F(_, $2).""",
    "a variable twice": "p(x, y) <- E(x, y). p(x, z) <- p(x, x), E(x, z). p(x, x) <- p(x, _).",
    "an aggregate in the body": """
        p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z), c = max w : { F(y, w) }, c > 0.""",
    "a fact and data": "p(x, y) <- E(x, y). p($1, $2). p(x, z) <- p(x, y), E(y, z).",
    "mutual": """
        odd(x, y) <- E(x, y). odd(x, z) <- even(x, y), E(y, z).
        even(x, z) <- odd(x, y), E(y, z).""",
    "mutual, by other columns": """
        a(x, y) <- E(x, y). b(y, x) <- a(x, y), N(y). a(x, z) <- b(y, x), F(y, z).""",
    "mutual, of other widths": """
        r(x) <- N(x). s(x, y) <- r(x), E(x, y). s(x, z) <- s(x, y), E(y, z). r(x) <- s(x, x).""",
    "three columns": "q(x, y, z) <- T(x, y, z). q(x, z, w) <- q(x, y, z), T(y, z, w).",
    "three, by the middle": "q(x, c, y) <- T(x, c, y). q(x, c, z) <- q(x, c, y), E(y, z).",
    "one column": "r(x) <- N(x). r(x) <- r(x), E(x, _).",
    "generated": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), z in {$1, $2}, E(y, _).",
    "no rows to begin with": "p(x, y) <- E(x, y), !E(x, y). p(x, z) <- p(x, y), E(y, z).",
    # These do not: they are one worklist.
    "reached from some": "r(x) <- N(x). r(y) <- r(x), E(x, y).",
    "columns change places": "p(x, y) <- E(x, y). p($1, $2). p(y, z) <- p(x, y), E(x, z), y != z.",
    "mutual, of one column": """
        a(x) <- N(x). a($1). b(y) <- a(x), E(x, y), !N(y). a(y) <- b(x), F(x, y).
        a(x) <- b(x), E(x, x).""",
    "both columns anew": "s(x, x) <- N(x). s(x, y) <- s(a, b), E(a, x), F(b, y).",
}
ONE_WORKLIST = tuple(SHAPES)[-4:]
TYPES = {"E": 2, "F": 2, "N": 1, "T": 3}


def values(kind: str, random: Random) -> list[Value]:
    match kind:
        case "small":
            return list(range(7))
        case "negative":
            return list(range(-4, 3))
        case "sparse":
            return [-(1 << 63), (1 << 63) - 1, *(random.randrange(1 << 62) for _ in range(4)), 0]
        case _:
            return ["", "a", "b", "c", "ä", "z z"]


def shown(value: Value) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def draw(shape: str, seed: int) -> Drawn:
    """The program of a number, with data."""
    random = Random(seed)
    kind = random.choice(["small", "small", "negative", "sparse", "symbol"])
    some = values(kind, random)
    text = shape
    for name in ("$1", "$2"):
        text = text.replace(name, shown(random.choice([v for v in some if v != -(1 << 63)])))
    typename = "symbol" if kind == "symbol" else "int"
    rows = random.choice([0, 3, 8, 20])
    data = {
        name: (
            (typename,) * arity,
            sorted({tuple(random.choice(some) for _ in range(arity)) for _ in range(rows)}),
        )
        for name, arity in TYPES.items()
        if f"{name}(" in text
    }
    return Drawn(parse(text), data, seed)


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    """Forced; the number chooses threads, rows of a block, and whether stamps or a hash table."""
    with gdatalog.connect(device="cpu", threads=1 + number % 2) as db:
        db.workspace.force(split="always")
        db.workspace.chunk_rows = (None, 1, 2, 7)[number % 4]
        stamps, of_bytes = (1 << 26, 0, 40)[number % 3], (1 << 20, 3)[number // 2 % 2]
        db.workspace.tune(stamps_most=stamps, byte_stamps_most=of_bytes)
        return oracle.answers(db, text, data, defined)


@pytest.fixture
def not_compiled() -> Iterator[None]:
    with interpreted():
        yield


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The fixpoints that were run split."""
    found: list[str] = []
    real = device.run_partitioned

    def noted(function: Any, loops: Any, *rest: Any) -> Any:
        found.append(loops.printed.shape)
        return real(function, loops, *rest)

    monkeypatch.setattr(device, "run_partitioned", noted)
    return found


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, ran: list[str]) -> None:
    for seed in range(6):
        oracle.agrees_in(run, draw(SHAPES[name], seed))
    assert bool(ran) == (name != "no rows to begin with")


def test_many_small_rounds_become_one_worklist(ran: list[str]) -> None:
    rules = "n(0). n(i + 1) <- n(i), i < {}. ?- n(x)."
    with gdatalog.connect(device="cpu") as db:
        assert len(db.query(rules.format(50))) == 51 and not ran
        assert len(db.query(rules.format(63))) == 64 and not ran  # nothing is left to do
        assert len(db.query(rules.format(200))) == 201 and ran
        del ran[:]
        # strings are not made by loops: by rounds after all
        made = 's("a"). s(x + "b") <- s(x), strlen(x) < 100. ?- s(x).'
        assert len(db.query(made)) == 100 and not ran
        # whoever asks for a few rows of what has no end gets an error, and soon
        with pytest.raises(gdatalog.RowLimitError):
            db.query("n(0). n(i + 1) <- n(i). ?- n.", max_rows=300)


@pytest.mark.drawn
@share(20)
@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 2**32))
def test_drawn_shapes(name: str, seed: int) -> None:
    with interpreted():
        oracle.agrees_in(run, draw(SHAPES[name], seed))


@pytest.mark.drawn
@share(10)
@given(recursive_programs())
def test_drawn_programs(drawn: Drawn) -> None:
    with interpreted():
        oracle.agrees_in(run, drawn)


# ---------------------------------------------------------------------------------- counting

COUNTED = {
    "all": "n(count()) <- p(_, _).",
    "of each": "deg(x, count()) <- p(x, _).",
    "of each, and more": "deg(x, 2 * count() + 1) <- p(x, _), N(x).",
    "with other atoms": "n(count()) <- p(x, _), E(x, _), x != y, N(y).",
    "whether": "found() <- p(_, _).",
    "for which": "has(x) <- p(x, _), N(x).",
    "for which not": "none(x) <- N(x), !p(x, _).",
    "two readers": "n(count()) <- p(_, _). has(x) <- p(x, _). more(x) <- has(x), N(x).",
    "extremes": "top(max(x), count_distinct(x)) <- p(x, _).",
}
STORED = {
    "the other column": "deg(y, count()) <- p(_, y).",
    "both columns": "n(count()) <- p(x, y), E(x, y).",
    "twice": "n(count()) <- p(x, _), p(_, x).",
    "a sum": "n(sum(x)) <- p(x, _).",
    "an alternative": "has(x) <- p(x, _) ; N(x), p(_, x).",
    "in a body": "n(c) <- c = count : p(_, _).",
}
CLOSURES = ("left linear", "alternatives", "negation", "mutual, of other widths")


def closure(text: str, last: str) -> str:
    """A program whose closure is `p`, with a rule that reads it."""
    return text.replace("s(x", "p(x").replace("r(x", "q(x") + last


def run_last(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    """Only what reads the closure is asked for."""
    with gdatalog.connect(device="cpu", threads=1 + number % 2) as db:
        db.workspace.force(split="always")
        db.workspace.chunk_rows = (None, 1, 2, 7)[number % 4]
        for name, (types, rows) in data.items():
            db.load(name, oracle.frame(types, rows))
        db.run(text)
        found = {}
        for name in sorted(defined, key=lambda name: (name in "pq", name)):
            rows = db.relations[name].fetchall()
            assert len(rows) == len(set(rows))
            found[name] = {tuple(map(oracle.plain, row)) for row in rows}
        return found


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("name", [*COUNTED, *STORED])
def test_counting(name: str, ran: list[str]) -> None:
    last = {**COUNTED, **STORED}[name]
    for seed in range(5):
        shape = closure(SHAPES[CLOSURES[seed % len(CLOSURES)]], last)
        if name == "a sum":
            shape = shape.replace("$1", "1")
        drawn = draw(shape, seed)
        if name == "a sum" and drawn.data["E"][0] != ("int", "int"):
            continue
        oracle.agrees_in(run_last, drawn)
    assert any("counts" in shape for shape in ran) == (name in COUNTED)


@pytest.mark.usefixtures("not_compiled")
def test_an_answer_is_that_of_its_call(ran: list[str]) -> None:
    """Binding a query evaluates it; if the call fails then, others do not get its answer."""
    text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). n(count()) <- p(x, _), x < $most."
    with gdatalog.connect(device="cpu") as db:
        db.workspace.force(split="always")
        db["E"] = [(1, 2), (2, 3)]
        query = db.prepare(text + " ?- n order by count limit $l.")
        assert query(most=2, l=1).fetchall() == [(2,)]
        with pytest.raises(gdatalog.UsageError):
            query(most=9, l=-1)
        assert query(most=2, l=1).fetchall() == [(2,)]
        assert {shape.split()[0] for shape in ran} == {"counts"}


@pytest.mark.usefixtures("not_compiled")
def test_what_is_stored_is_not_counted_again(ran: list[str]) -> None:
    text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). n(count()) <- p(_, _)."
    with gdatalog.connect(device="cpu") as db:
        db.workspace.force(split="always")
        db["E"] = [(1, 2), (2, 3)]
        db.run(text)
        assert db.relations["n"].fetchall() == [(3,)]
        assert db.relations["n"].fetchall() == [(3,)]
        assert [shape.split()[0] for shape in ran] == ["counts"]
        assert len(db.relations["p"]) == 3
        assert db.query("m(count()) <- p(_, _).").fetchall() == [(3,)]
        assert [shape.split()[0] for shape in ran] == ["counts", "rows"]
        db.insert("E", [(3, 4)])
        assert db.query("m(x, count()) <- p(x, _).").sorted().fetchall() == [(1, 3), (2, 2), (3, 1)]
        assert db.relations["n"].fetchall() == [(6,)]


# ------------------------------------------------------------------------------------ linear

LINEAR = {
    "closure": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), p(y, z).",
    "turned": "p(x, y) <- E(x, y), !F(x, y). p(x, y) <- F(y, x). p(x, z) <- p(y, z), p(x, y).",
    "with facts": "p(x, y) <- E(x, y). p($1, $2). p(x, z) <- p(x, y), p(y, z).",
    "one carried": "q(c, x, y) <- T(c, x, y). q(c, x, z) <- q(c, x, y), q(c, y, z).",
    "pairs": "q(x, y, u, v) <- E(x, y), F(u, v). q(x, y, u, v) <- q(x, y, s, t), q(s, t, u, v).",
    "pairs, crossed": """
        q(x, y, u, v) <- E(x, y), F(u, v). q(x, y, u, v) <- q(x, y, s, t), q(t, s, u, v).""",
    "in one rule": "p(x, y) <- E(x, y), N(x) ; p(x, z), p(z, y) ; F(x, y).",
}
NOT_LINEAR = {
    "a test": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), p(y, z), x != z.",
    "another rule": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), p(y, z). p(y, x) <- p(x, y).",
    "turned round": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), p(z, y).",
    "the same": "p(x, y) <- E(x, y). p(x, y) <- p(x, y), p(y, y).",
    "meeting": "q(x, y, z) <- T(x, y, z). q(x, y, w) <- q(x, y, z), q(y, z, w).",
}


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("name", [*LINEAR, *NOT_LINEAR])
def test_linear(name: str) -> None:
    text = {**LINEAR, **NOT_LINEAR}[name]
    for seed in range(4):
        oracle.agrees_in(run, draw(text, seed))
    with gdatalog.connect(device="cpu") as db:
        for relation, arity in TYPES.items():
            db[relation] = [tuple(range(arity))]
        shown = str(db.explain(text.replace("$1", "1").replace("$2", "2")))
        assert ("~first" in shown) == (name in LINEAR)


# ------------------------------------------------------------------------------------- memory


@pytest.mark.slow
def test_compiled(ran: list[str]) -> None:
    """Numba takes the same texts: with stamps, with a hash table, rows and counts."""
    for name in ("mutual, of other widths", "three columns", "negation"):
        oracle.agrees_in(run, draw(SHAPES[name], 5))
    oracle.agrees_in(run_last, draw(closure(SHAPES["left linear"], COUNTED["of each"]), 2))
    assert len(ran) >= 4


def test_interrupted() -> None:
    """A long fixpoint ends when it is to, and leaves the database as it was."""
    count = 6000
    with gdatalog.connect(device="cpu") as db:
        db.workspace.force(split="always")
        db["E"] = [(i, (i + step) % count) for i in range(count) for step in (1, 7)]
        db.run("p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).")
        db.query("n(count()) <- q(_, _). q(x, y) <- E(x, y), x < 2. q(x, z) <- q(x, y), E(y, z).")
        stop = Timer(0.05, db.interrupt)
        stop.start()
        with pytest.raises(gdatalog.Interrupted):
            db.query("n(count()) <- p(_, _).")
        stop.join()
        assert len(db.relations["E"]) == 2 * count


def test_memory_limit() -> None:
    count = 3000
    with gdatalog.connect(device="cpu", memory_limit="20MB", temp_directory="") as db:
        db.workspace.force(split="always")
        db["E"] = [(i, (i + 1) % count) for i in range(count)]
        text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). "
        for way in ("always", "auto"):  # by rounds first, which hold more
            db.workspace.force(split=way)
            with pytest.raises(gdatalog.MemoryLimitError, match="in the fixpoint of p") as caught:
                db.query(text)
            assert caught.value.span is not None
        assert db.query(text + "n(count()) <- p(_, _).").fetchall() == [(count * count,)]


@pytest.mark.usefixtures("not_compiled")
def test_what_can_fail_is_left_to_rounds() -> None:
    text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), z = 6 / y, y > 0, z > 0."
    with gdatalog.connect(device="cpu") as db:
        db.workspace.force(split="always")
        db["E"] = [(1, 2), (1, 0)]
        assert db.query(text).sorted().fetchall() == [(1, 0), (1, 2), (1, 3)]
        with pytest.raises(gdatalog.EvaluationError):
            db.query(text.replace(", y > 0", ""))


def test_small_recursion_compiles_nothing(ran: list[str]) -> None:
    with gdatalog.connect(device="cpu") as db:
        db["E"] = [(1, 2), (2, 3)]
        assert len(db.query("p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).")) == 3
    assert not ran


REAL = {"OL.cedge": 146120, "cal.cedge": 501755, "ego-Facebook": 2508102}


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_closures(name: str) -> None:
    path = data.closure_path(name)
    if data.FOLDER is None or not (data.FOLDER / path).exists():
        pytest.skip("no data folder: GDATALOG_DATA names one")
    text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). "
    with gdatalog.connect(device="cpu") as db:
        with lzma.open(data.FOLDER / path) as file:
            db["E"] = np.loadtxt(file, dtype=np.int64, comments="#")
        assert len(db.query(text)) == REAL[name]
        assert db.query(text + "n(count()) <- p(_, _).").fetchall() == [(REAL[name],)]


@pytest.mark.parametrize(("visits", "threads"), [(1 << 20, 0), (59 * 60, 2)])
def test_little_work_wakes_no_thread(
    visits: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []
    begin = lftj.begun
    monkeypatch.setattr(lftj, "begun", lambda work: begun.append(work) or begin(work))
    monkeypatch.setattr(partitioned_run, "HERE", visits)
    with gdatalog.connect(device="cpu", threads=2) as db, interpreted():
        db.workspace.force(split="always")
        db["E"] = [(x, x + 1) for x in range(60)]
        assert len(db.query(SHAPES["left linear"])) == 60 * 61 // 2
    assert len(begun) == threads
