"""Calls of several threads: each reads one version, and threads wait only for the same stratum."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import Any

import pytest

import gdatalog as gd
from gdatalog import claims, threads
from gdatalog.account import Account, Accounts
from gdatalog.engine.evaluator import evaluator
from gdatalog.engine.facts.inputs import Inputs

EDGES = [(x, x + 1) for x in range(60)]
VIEW = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z)."
CLOSED = len(EDGES) * (len(EDGES) + 1) // 2


class Asking:
    """A call in a thread of its own, and its outcome."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.found: Any = None
        self.thread = Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.found = self._call()
        except BaseException as error:
            self.found = error

    def outcome(self) -> Any:
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self.found


class Held:
    """A query of `p` that is held in the recursion until it is let go."""

    def __init__(self, db: gd.Database, act: Callable[[], None] = lambda: None) -> None:
        self.inside, self.go, self._act = Event(), Event(), act
        self._db = db
        self.asking = Asking(self._ask)
        assert self.inside.wait(60)

    def _ask(self) -> int:
        return len(self._db.query("?- p(x, y).", on_progress=self._hold, strategy="levelwise"))

    def _hold(self, progress: gd.Progress) -> None:
        if progress.stage in ("joining", "round") and not self.inside.is_set():
            self.inside.set()
            assert self.go.wait(60)
            self._act()

    def end(self) -> Any:
        self.go.set()
        return self.asking.outcome()


@pytest.fixture
def db(monkeypatch: pytest.MonkeyPatch) -> Iterator[gd.Database]:
    monkeypatch.setattr("gdatalog.cancellation.EVERY", 0.0)
    with gd.connect(device="cpu") as db:
        db["E"], db["F"] = EDGES, [(1, 2), (1, 3), (2, 3)]
        db.run(VIEW + "few(x) <- F(x, _).")
        yield db


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Set when a thread waits for another one's evaluation."""
    seen, wait = Event(), claims.Claim.wait

    def waits(claim: claims.Claim[Any], seconds: float) -> bool:
        seen.set()
        return wait(claim, seconds)

    monkeypatch.setattr(claims.Claim, "wait", waits)
    return seen


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The strata that were run."""
    found: list[tuple[str, ...]] = []
    run = evaluator.run

    def noted(plan: Any, *rest: Any) -> Any:
        found.append(plan.stratum.relations)
        return run(plan, *rest)

    monkeypatch.setattr(evaluator, "run", noted)
    return found


def test_small_calls_end_while_a_long_one_runs(db: gd.Database) -> None:
    q = db.prepare("?- F($x, y).")
    assert len(q(x=2)) == 1 and len(db["few"]) == 2
    held = Held(db)
    assert len(q(x=1)) == 2
    assert db.query("?- F(1, y), y > 2.").fetchall() == [(3,)]  # a new text
    assert db.query("?- E(x, $y).", {"y": 7}).fetchall() == [(6,)]  # no index yet
    assert len(db["E"].df()) == 60 and len(db["few"]) == 2 and "p" in db.relations
    assert db.query("n(count()) <- F(_, _).").fetchall() == [(3,)]
    assert db.relations.schema("p").columns == ("x", "y")
    assert "F" in str(db.explain("?- F(x, y), E(y, z)."))
    assert db.prepare("?- E($x, y).")(x=3).fetchall() == [(4,)]
    assert held.end() == CLOSED


def test_changes_do_not_wait_for_a_query_and_it_reads_what_was_there(db: gd.Database) -> None:
    held = Held(db)
    assert db.insert("E", [(60, 61)]).rows == 1
    assert db.query("?- E(x, 61).").fetchall() == [(60,)]
    assert len(db["p"]) == CLOSED + 61  # a version that the other one does not evaluate
    db["F"] = [(5, 6)]
    db.run("few(x) <- F(_, x).", name="more")
    assert sorted(db["few"].fetchall()) == [(5,), (6,)]
    assert held.end() == CLOSED
    assert len(db["p"]) == CLOSED + 61
    del db["p"]
    with pytest.raises(gd.NameResolutionError):
        db.query("?- p(x, y).")


def test_threads_that_need_the_same_relation_evaluate_it_once(
    db: gd.Database, waiting: Event, runs: list[tuple[str, ...]]
) -> None:
    held = Held(db)
    others = [Asking(lambda: len(db["p"])), Asking(lambda: len(db.query("q(x) <- p(0, x).")))]
    assert waiting.wait(60)
    assert held.end() == CLOSED
    assert [other.outcome() for other in others] == [CLOSED, 60]
    assert runs.count(("p",)) == 1


def test_a_file_is_read_once(
    db: gd.Database, waiting: Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "G.csv").write_text("1\n2\n")
    inside, go, read = Event(), Event(), list[str]()
    made = Inputs._made

    def held(self: Inputs, source: Any, name: str, *rest: Any) -> Any:
        read.append(name)
        inside.set()
        assert go.wait(60)
        return made(self, source, name, *rest)

    monkeypatch.setattr(Inputs, "_made", held)
    text = f'.decl G(x: int)\n.input G("{tmp_path / "G.csv"}")\n?- G(x).'
    first = Asking(lambda: len(db.query(text)))
    assert inside.wait(60)
    second = Asking(lambda: len(db.query(text)))
    assert waiting.wait(60)
    go.set()
    assert (first.outcome(), second.outcome(), read) == (2, 2, ["G"])


def test_a_thread_that_waits_takes_over(
    db: gd.Database, waiting: Event, runs: list[tuple[str, ...]]
) -> None:
    def fail() -> None:
        raise KeyError("mine")

    held = Held(db, fail)
    other = Asking(lambda: len(db["p"]))
    assert waiting.wait(60)
    assert isinstance(held.end(), KeyError)
    assert other.outcome() == CLOSED and runs.count(("p",)) == 2


def test_limits_and_interrupts_end_a_wait(db: gd.Database, waiting: Event) -> None:
    held = Held(db)
    with pytest.raises(gd.TimeLimitError):
        db.query("?- p(x, y).", timeout=0.05)
    waiting.clear()
    other = Asking(lambda: db["p"])
    assert waiting.wait(60)
    db.interrupt()
    assert isinstance(other.outcome(), gd.Interrupted)
    assert isinstance(held.end(), gd.Interrupted)
    assert len(db["p"]) == CLOSED


def test_a_listener_that_writes_gives_up_what_others_wait_for(
    db: gd.Database, waiting: Event
) -> None:
    """The other thread has the turn to write, and waits for the evaluation that would wait."""
    held = Held(db, lambda: db.load("F", [(7, 8)]) or None)

    def write() -> int:
        with db.call():
            db.insert("F", [(9, 9)])
            return len(db["p"])

    other = Asking(write)
    assert waiting.wait(60)
    assert held.end() == CLOSED and other.outcome() == CLOSED
    assert db["F"].fetchall() == [(7, 8)]


def test_evaluations_share_the_memory_limit() -> None:
    accounts, one, two = Accounts(), Account(100), Account(100)
    one.beside = two.beside = accounts
    assert accounts.begin(one) and accounts.begin(two) and not accounts.begin(one)
    one.charge("p", 40)
    one.charge("index of E", 20)
    two.charge("index of E", 20)  # the same index
    assert two.spare() == 40
    with pytest.raises(gd.MemoryLimitError, match=r"\(q 50 B, other calls 40 B, index of E"):
        two.charge("q", 50)
    two.charge("q", 40)
    accounts.end(one)
    assert two.spare() == 40  # of 100, its own 60


# What sessions do, drawn: the rows of E and F, and which rules q has.
State = tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]], bool]
RULES = {False: "q(x, y) <- E(x, y).", True: "q(x, y) <- E(x, y) ; F(x, y)."}


@cache
def closure(rows: frozenset[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    found = set(rows)
    while True:
        more = {(x, z) for x, y in found for u, z in rows if u == y} - found
        if not more:
            return frozenset(found)
        found |= more


# A question, and its answer in a state.
QUESTIONS: list[tuple[Callable[[gd.Database, int], Any], Callable[[State, int], Any]]] = [
    (lambda db, x: set(db["E"].fetchall()), lambda s, x: set(s[0])),
    (lambda db, x: set(db["p"].fetchall()), lambda s, x: set(closure(s[0]))),
    (lambda db, x: set(db["q"].fetchall()), lambda s, x: set(s[0] | s[1] if s[2] else s[0])),
    (
        lambda db, x: {y for (y,) in db.query(f"?- E({x}, y).").fetchall()},
        lambda s, x: {y for u, y in s[0] if u == x},
    ),
    (
        lambda db, x: {y for (y,) in db.query("?- p($x, y).", {"x": x}).fetchall()},
        lambda s, x: {y for u, y in closure(s[0]) if u == x},
    ),
    (  # rows move from E to F
        lambda db, x: set(
            db.query("both(0, x, y) <- E(x, y). both(1, x, y) <- F(x, y).").fetchall()
        ),
        lambda s, x: {(0, *row) for row in s[0]} | {(1, *row) for row in s[1]},
    ),
    (
        lambda db, x: set(db.query("n(count()) <- q(_, _).").fetchall()),
        lambda s, x: {(len(s[0] | s[1] if s[2] else s[0]),)},
    ),
]


def changed(db: gd.Database, state: State, draw: random.Random) -> State:
    """Makes a drawn change in a block of calls; returns the new state."""
    e, f, both = state
    row = draw.randrange(8), draw.randrange(8)
    match draw.randrange(6):
        case 0:
            db["E"] = sorted(e - {row}) or [row]
            return (e - {row}) or frozenset({row}), f, both
        case 1:
            db.run(RULES[not both], name="rules of q")
            return e, f, not both
        case 2 | 3 if len(e) > 1:
            row = draw.choice(sorted(e))
            db["E"] = sorted(e - {row})
            sleep(0.003)  # others read meanwhile
            db.insert("F", [row])
            return e - {row}, f | {row}, both
        case _:
            db.insert("E", [row])
            return e | {row}, f, both


@pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")
@pytest.mark.parametrize("seed", range(3))
def test_each_read_is_of_one_version_between_its_start_and_its_end(seed: int) -> None:
    start: State = frozenset({(1, 2), (2, 3)}), frozenset({(5, 5)}), False
    with gd.connect(device="cpu") as db:
        db["E"], db["F"] = sorted(start[0]), sorted(start[1])
        db.run("p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z).")
        db.run(RULES[False], name="rules of q")
        states, ended = [start], [0]  # the states after each write, and how many have returned
        wrong: list[str] = []
        done = Event()

        def write(number: int) -> None:
            draw = random.Random(f"{seed} writer {number}")
            for _ in range(20):
                with db.call():
                    states.append(changed(db, states[-1], draw))
                    mine = len(states) - 1
                ended.append(mine)

        def read(number: int) -> None:
            draw = random.Random(f"{seed} reader {number}")
            asked = 0
            while not done.is_set() or asked < 20:
                (ask, answer), x = draw.choice(QUESTIONS), draw.randrange(8)
                first = max(ended)
                found = ask(db, x)
                asked += 1
                if not any(found == answer(state, x) for state in states[first:]):
                    wrong.append(f"{found} of {x} from version {first}")

        writers = [Asking(lambda n=n: write(n)) for n in range(2)]  # type: ignore[misc]
        readers = [Asking(lambda n=n: read(n)) for n in range(4)]  # type: ignore[misc]
        outcomes = [writer.outcome() for writer in writers]
        done.set()
        outcomes += [reader.outcome() for reader in readers]
        assert outcomes == [None] * 6 and not wrong
        for ask, answer in QUESTIONS:
            assert ask(db, 1) == answer(states[-1], 1)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """A new pool; how much lower the priority of a thread that runs its tasks is."""
    for name, value in (("_idle", []), ("_pool", []), ("_gives_way", False)):
        monkeypatch.setattr(threads, name, value)

    def lower() -> int:
        seen: list[int] = []
        threads.begun(lambda: seen.append(os.getpriority(os.PRIO_PROCESS, 0))).wait()
        return seen[0] - os.getpriority(os.PRIO_PROCESS, 0)

    return lower


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priorities of their own")
@pytest.mark.parametrize("allowed", [True, False])
def test_compiled_loops_give_way_where_several_threads_call(
    db: gd.Database, pool: Callable[[], int], monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    if not allowed:
        monkeypatch.setattr(os, "setpriority", forbidden)
    least = threads.GIVES_WAY if allowed else 0
    with db.call():
        assert len(db["F"]) == 3 and pool() == 0
        assert Asking(lambda: len(db["F"])).outcome() == 3
        assert pool() == least  # of a thread that was there
        monkeypatch.setattr(threads, "_idle", [])
        assert pool() == least  # of another one
