"""Threads that share a database, and queries that are stopped: the database stays whole."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import traceback
import warnings
from collections.abc import Generator
from types import TracebackType
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.cancellation import Watch
from tests.terminal import ROOT

INTERRUPTS = int(os.environ.get("GDATALOG_INTERRUPTS", "30"))

# Rounds without end, each as quick as the last.
ENDLESS = "n(0). n((x + 1) % 1000000007) <- n(x), n(0)."


@pytest.fixture
def db() -> gd.Database:
    db = gd.connect()
    db["E"] = [(1, 2), (2, 3), (1, 3)]
    return db


def rows(result: gd.Result) -> list[Any]:
    return result.sorted().fetchall()


def test_two_threads_may_use_one_database(db: gd.Database) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(30):
                db[name] = [(i, f"{name}{i}") for i in range(number + 1)]
                db.run(f"v{name}(count()) <- {name}(_, _).", name=name)
                assert rows(db[f"v{name}"]) == [(number + 1,)]
                assert len(db.query(f"p(s) <- {name}(_, s).")) == number + 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("A", "B", "C")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and len(db["A"]) == len(db["C"]) == 30


@pytest.mark.parametrize(
    "text",
    [
        ENDLESS.replace("n(", "m("),
        "t(count()) <- n(x), n(y), n(z), x != y, y != z, x != z, x * y != z.",
        "t(x) <- x = range(0, 1000000000000), x * x = 2.",
    ],
    ids=["rounds", "chunks", "range"],
)
def test_interrupting_from_another_thread(db: gd.Database, text: str) -> None:
    db["n"] = [(i,) for i in range(3000)]
    db.run("p(x) <- E(x, _).")
    timer = threading.Timer(0.2, db.interrupt)
    timer.start()
    with (
        warnings.catch_warnings(),
        pytest.raises(gd.Interrupted, match=r".*, after \d\.\d s; the database is as it was"),
    ):
        warnings.simplefilter("ignore", gd.ProgramWarning)
        db.query(text)
    assert rows(db["p"]) == [(1,), (2,)]


def test_an_interrupted_run_is_not_kept(db: gd.Database) -> None:
    def stop(progress: gd.Progress) -> None:
        if (progress.round or 0) >= 5:
            db.interrupt()

    with pytest.raises(gd.Interrupted):
        db.run(ENDLESS + " .output n(IO=stdout)", on_progress=stop)
    assert list(db.relations) == ["E"]


def test_an_interruption_without_a_query_is_forgotten(db: gd.Database) -> None:
    db.interrupt()
    assert len(db.query("?- E(x, y).")) == 3


def test_an_error_of_the_callback_comes_through(db: gd.Database) -> None:
    def fail(progress: gd.Progress) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        db.query(ENDLESS, on_progress=fail)
    assert len(db["E"]) == 3


def test_ctrl_c_leaves_the_database_whole() -> None:
    """In a process of its own, since pytest listens to the signal too."""
    script = """
        import os, signal, threading
        import gdatalog as gd
        db = gd.connect()
        db["E"] = [(1, 2), (2, 3)]
        db.run("p(x) <- E(x, _).")
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            db.run("n(0). n((x + 1) % 1000000007) <- n(x), n(0). .output n(IO=stdout)")
        except KeyboardInterrupt:
            print("stopped", list(db.relations), db["p"].sorted().fetchall())
            print(db._turns._lock.acquire(blocking=False))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "stopped ['E', 'p'] [(1,), (2,)]\nTrue\n", done.stderr


def test_closing_stops_what_runs(db: gd.Database) -> None:
    running = threading.Event()
    closing = threading.Thread(target=lambda: running.wait(30) and db.close())
    closing.start()
    with pytest.raises(gd.Interrupted):
        text = "t(x) <- x = range(0, 1000000000000), x * x = 2."
        db.query(text, on_progress=lambda _: running.set())
    closing.join(30)
    assert repr(db) == "<gdatalog.Database, closed>"


@pytest.mark.slow
def test_interrupts_at_random_moments() -> None:
    """As many as GDATALOG_INTERRUPTS says: a run of 10,000 takes an hour."""
    command = [sys.executable, "-m", "tests.interrupted", "1", str(INTERRUPTS)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.startswith("ok"), done.stdout + done.stderr
    assert int(done.stdout.split()[1]) > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forking_while_another_thread_is_at_work() -> None:
    """The child says at once that it cannot use the database; one of its own works."""
    script = """
        import os, threading
        import gdatalog as gd
        busy, idle = gd.connect(device="cpu"), gd.connect(device="cpu")
        busy["E"] = idle["E"] = [(1, 2), (2, 3)]
        there, go_on = threading.Event(), threading.Event()
        def hold():
            with busy.call():
                there.set()
                go_on.wait(60)
        thread = threading.Thread(target=hold)
        thread.start()
        there.wait(60)
        child = os.fork()
        if child == 0:
            print(len(idle.query("?- E(x, y).")), flush=True)
            for call in (lambda: busy.query("?- E(x, y)."), lambda: busy.run("p(1).", timeout=9)):
                try:
                    call()
                except gd.UsageError as error:
                    print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        go_on.set()
        thread.join()
        print(len(busy.query("?- E(x, y).")))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    told = "usage error: another thread was using this database when the process forked\n"
    assert done.stdout.startswith("2\n" + told) and done.stdout.endswith("\n2\n"), done.stderr
    assert done.stdout.count(told) == 2 and '"spawn"' in done.stdout


def test_frames_without_a_line_are_dropped() -> None:
    """A signal may come before a function's first line: IPython cannot show such a frame."""

    def outer() -> Any:
        kept = 1

        def inner() -> Generator[int, None, None]:
            yield kept

        stopped = KeyboardInterrupt()
        stopped.__traceback__ = TracebackType(None, inner().gi_frame, 0, -1)
        assert stopped.__traceback__.tb_lineno is None
        raise stopped

    with pytest.raises(KeyboardInterrupt) as caught, Watch().call():
        outer()
    assert all(line.lineno for line in traceback.extract_tb(caught.value.__traceback__))
