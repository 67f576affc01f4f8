"""Ctrl-C at a terminal, and `db.interrupt()`: what is told, and that the database goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gdatalog as gd
from gdatalog import cancellation
from gdatalog.cancellation import Watch
from gdatalog.shell.editor.terminal import heeding
from tests.terminal import CTRL_C, CTRL_D, Terminal

AS_IT_WAS = "; the database is as it was"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_ctrl_c_at_a_terminal(tmp_path: Path) -> None:
    """A load that waits for its file, and a long join: both by the line that shows them."""
    os.mkfifo(tmp_path / "e.csv")
    with Terminal(folder=tmp_path) as at:
        at.wait_for("gdatalog>")
        at.type('.load F "e.csv"\r')
        at.wait_for("loading F from e.csv: 2.")
        at.type(CTRL_C)
        told = rf"interrupted: loading F from e.csv, after \d\.\d s{AS_IT_WAS}"
        at.wait_for(lambda screen: re.search(told, screen) is not None)
        at.type(".set strategy levelwise\r")  # which tells how far it is
        at.wait_for("strategy: levelwise")
        at.type("big(count()) <- x = range(0, 9000000), y = range(0, 9000000), x * y = 7.\r")
        at.wait_for("big ░")
        assert re.search(r"^big ░+ 0 %, .*MiB$", at.cursor_line)
        at.type(CTRL_C)
        told = rf"interrupted: big at 0 %, after \d+\.\d s{AS_IT_WAS}"
        at.wait_for(lambda screen: re.search(told, screen) is not None)
        at.type("E(1, 2). ?- E(x, y).\r")
        at.wait_for("1 row")
        at.type(CTRL_D)
        assert at.wait_for_end() == 0


@pytest.fixture
def db(monkeypatch: pytest.MonkeyPatch) -> gd.Database:
    """A few rows are many: what looks at them all works aside."""
    monkeypatch.setattr(cancellation, "LATE", 8)
    db = gd.connect(device="cpu")
    db["E"] = np.arange(40).reshape(20, 2)
    db.run("p(x) <- E(x, _).")
    assert len(db["p"]) == 20
    return db


def stopped_in(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch, place: str, call: Callable[[], object]
) -> str:
    """Runs a call that comes to a function and stays there until somebody interrupts it; gives
    what is told. Whoever works aside is let go then."""
    there, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def waiting(*given: object, **named: object) -> None:
        there.set()
        go_on.wait(30)
        ended.set()

    def stop() -> None:
        there.wait(30)
        db.interrupt()

    with monkeypatch.context() as patch:
        patch.setattr(place, waiting)
        thread = threading.Thread(target=stop)
        thread.start()
        with pytest.raises(gd.Interrupted) as caught:
            call()
        thread.join()
        go_on.set()
        assert ended.wait(30)
    assert len(db["E"]) == 20 and len(db["p"]) == 20
    assert len(db.query("?- E(x, y), x < 4.")) == 2
    told = str(caught.value)
    assert re.search(r", after \d+\.\d s; the database is as it was$", told)
    return told.partition(", after ")[0]


def test_a_load_of_a_file(db: gd.Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("a,b\n" + "1,2\n" * 20_000)
    monkeypatch.chdir(tmp_path)
    told = stopped_in(db, monkeypatch, "pyarrow.csv.read_csv", lambda: db.load("E", "e.csv"))
    assert told == "interrupted: loading E from e.csv at 4 %"
    program = tmp_path / "p.dl"
    program.write_text('.input F("e.csv") big(x) <- F(x, _). .output big("big.csv")')
    told = stopped_in(
        db, monkeypatch, "gdatalog.storage.frames.cells_column", lambda: db.run_file("p.dl")
    )
    assert told == "interrupted: loading F from e.csv (20,000 rows) at 39 %"
    assert not (tmp_path / "big.csv").exists() and "big" not in db.relations


def test_a_load_of_an_array(db: gd.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    more = np.arange(100).reshape(50, 2)
    place = "gdatalog.storage.frames.column_from"
    assert stopped_in(db, monkeypatch, place, lambda: db.load("E", more)) == (
        "interrupted: loading E at 0 %"
    )
    assert stopped_in(db, monkeypatch, place, lambda: db.insert("E", more)) == (
        "interrupted: loading E at 0 %"
    )


def test_a_sort(db: gd.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    db["F"] = rng.integers(0, 1 << 40, (70_000, 2))
    told = stopped_in(
        db,
        monkeypatch,
        "gdatalog.storage.trie_builder.RowPacking.of",
        lambda: db.query("?- F(x, y), F(y, x).", strategy="levelwise"),
    )
    assert told == "interrupted: sorting F (70,000 rows)"


def test_rows_that_are_new_in_a_round(db: gd.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "path(x, z) <- E(x, z). path(x, z) <- path(x, y), E(y, z)."
    told = stopped_in(
        db,
        monkeypatch,
        "gdatalog.engine.fixpoint.delta.DeltaRelation.add",
        lambda: db.query(text, strategy="levelwise"),
    )
    assert told == "interrupted: path, round 1, 0 rows so far"


def test_an_answer_that_is_written(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "p.dl"
    program.write_text('big(x, y) <- E(x, _), E(y, _). .output big("big.csv")')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gdatalog.storage.as_text._BATCH", 100)
    monkeypatch.setattr("gdatalog.cancellation.EVERY", 0.0)

    def stop(progress: gd.Progress) -> None:
        if progress.stage == "writing" and progress.done == 200:
            db.interrupt()

    with pytest.raises(gd.Interrupted, match=r"interrupted: writing big.csv at 75 %, after"):
        db.run_file("p.dl", on_progress=stop)
    assert not (tmp_path / "big.csv").exists() and "big" not in db.relations
    assert [path.name for path in tmp_path.iterdir()] == ["p.dl"]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
@pytest.mark.parametrize("looks", [True, False])
def test_ctrl_c_waits_for_who_looks(looks: bool) -> None:
    """What Python would raise at once may be lost in a callback of its collector."""
    watch = Watch()
    before = signal.getsignal(signal.SIGINT)
    came_back = False
    with (
        heeding(watch),
        pytest.raises(KeyboardInterrupt) as caught,
        watch.call(),
        watch.work("joining", "p"),
    ):
        signal.raise_signal(signal.SIGINT)
        came_back = True
        if looks:
            watch.poll()
        while True:
            pass
    assert came_back and signal.getsignal(signal.SIGINT) is before
    assert re.fullmatch(
        rf"interrupted: p, after \d\.\d s{AS_IT_WAS}", cancellation.interrupt_message(caught.value)
    )


def test_ctrl_c_outside_of_calls() -> None:
    with heeding(Watch()), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_is_not_lost_where_a_call_ends_before_it_looks(db: gd.Database) -> None:
    """Of two calls the second does not run, and the next one is not stopped by it either."""

    def twice() -> None:
        with db.call():
            os.kill(os.getpid(), signal.SIGINT)
        db["E"] = [(1, 2)]

    with heeding(db.workspace.watch), pytest.raises(KeyboardInterrupt) as caught:
        twice()
    assert cancellation.interrupt_message(caught.value) == cancellation.TOO_LATE
    assert len(db["E"]) == 20
    with heeding(db.workspace.watch):
        assert len(db.query("?- E(x, y), x < 4.")) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("text", [None, '.include "late.dl"'])
def test_a_program_that_does_not_come_meets_the_time_limit(
    tmp_path: Path, text: str | None
) -> None:
    os.mkfifo(tmp_path / "late.dl")
    name = "late.dl"
    if text is not None:
        name = "now.dl"
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "gdatalog", "--timeout", "0.1", name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "time limit of 0.1 s" in done.stderr
