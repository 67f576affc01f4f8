"""Calls that may take so long, and answers that may have so many rows."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog import cancellation
from gdatalog.shell import cli

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

ENDLESS = "n(0). n((x + 1) % 1000000007) <- n(x), n(0). "


class Clock:
    """A clock that goes on by a second whenever somebody looks at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def db() -> Iterator[gd.Database]:
    with gd.connect(device="cpu") as db:
        db["E"] = [(1, 2), (2, 3), (1, 3)]
        db.run("p(x) <- E(x, _).")
        assert len(db["p"]) == 2
        db.workspace.watch.clock = Clock()
        yield db


def whole(db: gd.Database) -> None:
    """Nothing half-evaluated is there, and the next query works."""
    assert list(db.relations) == ["E", "p"]
    assert db["p"].sorted().fetchall() == [(1,), (2,)]
    assert len(db.query("q(x, z) <- E(x, y), E(y, z).")) == 1


LONG = "e(1, 2). " + "\n".join(f"p{i}(x) <- e(x, {i})." for i in range(100))


@pytest.mark.parametrize("seconds", [1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
@pytest.mark.parametrize(
    "call",
    [
        lambda db, t: db.query(ENDLESS + "?- n(x).", timeout=t),
        lambda db, t: db.query(LONG * 2 + ENDLESS + "?- n(x).", timeout=t, max_rows=10**9),
        lambda db, t: db.run(LONG + ENDLESS + ".output n(IO=stdout)", timeout=t),
        lambda db, t: db.query("t(x) <- x = range(0, 1000000000000), x * x = 2.", timeout=t),
    ],
    ids=["query", "long text", "run", "range"],
)
def test_a_call_is_stopped_in_each_phase(
    db: gd.Database, call: Callable[[gd.Database, float], Any], seconds: int
) -> None:
    """The clock goes on by a second with each look, so that each look in turn ends it."""
    with pytest.raises(gd.TimeLimitError) as caught:
        call(db, seconds)
    assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, gd.Error)
    told = rf"time limit: this takes longer than the time limit of {seconds} s: .*after \d+\.\d s;"
    assert re.match(told, str(caught.value))
    whole(db)


def test_a_file_that_is_run(db: gd.Database, tmp_path: Path) -> None:
    (tmp_path / "a.dl").write_text(ENDLESS + '.output n("n.csv")')
    with pytest.raises(gd.TimeLimitError):
        db.run_file(tmp_path / "a.dl", timeout=30)
    assert [path.name for path in tmp_path.iterdir()] == ["a.dl"]
    whole(db)


def test_a_file_that_is_read_and_written(
    db: gd.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of time is an `OSError` too, but no fault of the file."""
    monkeypatch.setattr("gdatalog.storage.as_text._BATCH", 10)
    monkeypatch.setattr(cancellation, "PATIENCE", 0.0001)
    (tmp_path / "e.csv").write_text("a,b\n" + "".join(f"{i},{i}\n" for i in range(500)))
    (tmp_path / "a.dl").write_text('.input F("e.csv") G(x, y) <- F(x, y). .output G("g.csv")')
    for seconds in range(1, 400, 23):
        db.workspace.watch.clock = Clock()
        try:
            db.run_file(tmp_path / "a.dl", timeout=seconds)
        except gd.TimeLimitError:
            assert not (tmp_path / "g.csv").exists()
            whole(db)
        else:
            break
    assert (tmp_path / "g.csv").exists()


def test_all_data_of_one_shot_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "perf_counter", Clock())
    with pytest.raises(gd.TimeLimitError):
        gd.query("n(count()) <- E(_, _).", {"E": np.ones((9, 2)), "F": [(1, 2)]}, timeout=3)
    monkeypatch.undo()
    assert gd.query("n(count()) <- E(_, _).", {"E": [(1, 2)]}, timeout=600).fetchall() == [(1,)]


def test_a_database_has_a_limit_that_calls_may_change() -> None:
    with gd.connect(device="cpu", timeout=5) as db:
        db.workspace.watch.clock = Clock()
        for call in (
            lambda: db.query(ENDLESS + "?- n(x)."),
            lambda: db.query(ENDLESS + "?- n(x).", timeout=7),
            lambda: db.load("E", (db.workspace.watch.poll() for _ in range(20))),
        ):
            with pytest.raises(gd.TimeLimitError):
                call()
        assert len(db.query("?- x = 1.", timeout=float("inf"))) == 1


def test_to_wait_for_another_call_counts(db: gd.Database) -> None:
    there, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with db.call():
            there.set()
            go_on.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    there.wait(60)
    with pytest.raises(gd.TimeLimitError, match="another call was running all that time"):
        db.run("q(x) <- E(x, _).", timeout=3)
    go_on.set()
    other.join()
    whole(db)


def test_a_call_within_a_call_has_no_more_time(db: gd.Database) -> None:
    def ask(_: gd.Progress) -> None:
        db.query(ENDLESS + "?- n(x).", timeout=10**9)

    watching_every = cancellation.EVERY
    cancellation.EVERY = 0.0
    try:
        with pytest.raises(gd.TimeLimitError, match="limit of 50 s"):
            db.query(ENDLESS + "?- n(x).", timeout=50, on_progress=ask)
    finally:
        cancellation.EVERY = watching_every
    whole(db)


@pytest.mark.parametrize("timeout", [0, -1, True, "5", float("nan")])
def test_what_is_no_time(db: gd.Database, timeout: Any) -> None:
    with pytest.raises(gd.UsageError, match="not a time limit"):
        db.query("?- E(x, y).", timeout=timeout)


# ------------------------------------------------------------------------------------- rows


def test_an_answer_may_have_so_many_rows(db: gd.Database) -> None:
    assert len(db.query("?- E(x, y).", max_rows=3)) == 3
    assert len(db.query("?- E(x, y).", max_rows=2, limit=2)) == 2
    with pytest.raises(gd.RowLimitError, match="the answer has more rows than max_rows=2 allows"):
        db.query("?- E(x, y).", max_rows=2)
    with pytest.raises(gd.RowLimitError, match="E has more rows than max_rows=2 allows"):
        db.query("?- E.", max_rows=2, limit=3)
    with pytest.raises(gd.RowLimitError, match="q has more rows than max_rows=0 allows"):
        db.query("q(x) <- E(x, _).", max_rows=0)
    assert len(db.query("?- p.", max_rows=2)) == len(db.query("?- p.", max_rows=9)) == 2
    with pytest.raises(gd.UsageError, match="max_rows cannot be negative"):
        db.query("?- E.", max_rows=-1)
    whole(db)


@pytest.mark.parametrize(
    "text",
    [
        "big(x, y, z) <- n(x), n(y), n(z).",
        "big(x, y, z) <- n(x), n(y), n(z). big(0, 0, 0).",
        "big(0). big(x + 1) <- big(x), x < 100000000000.",
        "big(x) <- x = range(0, 100000000000).",
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_it_stops_as_soon_as_there_are_more(text: str, kept: bool) -> None:
    """None of these would ever be done."""
    with gd.connect(device="cpu", memory_limit="200MiB") as db:
        db["n"] = np.arange(30 if "0, 0" in text else 100_000)
        if kept:
            db.run(text)
        with pytest.raises(gd.RowLimitError, match="big has more rows than max_rows=1,000 allows"):
            db.query("?- big." if kept else text, max_rows=1_000)
        assert len(db.query("?- n(x), x < 5.")) == 5


# ------------------------------------------------------------------------------ command line


def test_a_program_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(["-c", ENDLESS + "?- n(x). ?- n(x), x < 2.", "--timeout", "0.05"])
    err = capsys.readouterr().err
    assert code == cli.RESOURCES
    assert err.count("time limit: this takes longer than the time limit of 0.05 s: ") == 1
    assert "raise the limit: timeout=... or --timeout" in err
    assert cli.run(["-c", "?- 1 < 2.", "--timeout", "60"]) == cli.DONE
    assert cli.run(["-c", "?- 1 < 2.", "--timeout", "soon"]) == cli.USAGE
    assert "not a time limit: 'soon'" in capsys.readouterr().err
