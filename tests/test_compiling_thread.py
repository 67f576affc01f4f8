"""The compiling thread: what is wanted soon, what comes again, and the end of the process."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import Any

import pytest
from test_code_cache import ANSWER, GIVEN, NAME, SOURCE, folder, made, start

import gdatalog as gd
from gdatalog.codegen import native, native_calls
from gdatalog.codegen.loop_language import LoopError
from gdatalog.engine.evaluator import evaluator

__all__ = ["folder", "made"]  # fixtures


def found_soon(name: str, source: str, rows: float = 0.0) -> native_calls.Native:
    for _ in range(3000):
        found = native.load_soon(name, source, rows)
        if found is not None:
            return found
        sleep(0.01)
    raise AssertionError(f"{name} never came")


def test_what_is_wanted_soon_is_compiled_aside(folder: Path, made: list[str]) -> None:
    assert native.load_soon(NAME, SOURCE, 10.0) is None
    found = found_soon(NAME, SOURCE)
    assert found(*GIVEN) == ANSWER and len(made) == 2
    assert native.load(NAME, SOURCE) is found and len(made) == 2


def test_what_is_called_often_is_compiled_once_more(folder: Path, made: list[str]) -> None:
    for calls in range(1, 5):
        assert native.load(NAME, SOURCE, native.OFTEN / 10).tier == "light"
        assert native._waiting.empty() or calls == 4
    native._waiting.join()
    assert native.load(NAME, SOURCE, native.OFTEN / 10).tier == "full"


def test_what_is_wanted_now_does_not_wait_for_its_turn(folder: Path, made: list[str]) -> None:
    with native._lock:  # the compiling thread cannot begin
        assert native.load_soon(NAME, SOURCE, 10.0) is None
        found = native.load(NAME, SOURCE)
    assert found(*GIVEN) == ANSWER
    assert found_soon(NAME, SOURCE) is found and len(made) == 2


def test_those_with_most_to_do_come_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    compiled = native._compiled

    def noted(name: str, *rest: Any) -> native_calls.Native:
        order.append(name)
        return compiled(name, *rest)

    monkeypatch.setattr(native, "_compiled", noted)
    rows = [5.0, 1.0, 9.0, 7.0]
    texts = [SOURCE.replace("total = 0", f"total = {at}") for at in range(len(rows))]
    with native._lock:
        native.load_soon("p", SOURCE, 100.0)  # the thread waits with this one
        while not native._waiting.empty():
            sleep(0.001)
        for at, text in enumerate(texts):
            native.load_soon(f"p{at}", text, rows[at])
    for at, text in enumerate(texts):
        found_soon(f"p{at}", text)
    assert order == ["p", "p2", "p3", "p0", "p1"]


def test_what_does_not_compile_is_told_to_who_must_have_it(folder: Path) -> None:
    wrong = SOURCE.replace("total += power(i, k)", "total += nobody(i, k)")
    assert native.load_soon("wrong", wrong, 1.0) is None
    found_soon(NAME, SOURCE)  # behind it
    assert native.load_soon("wrong", wrong, 1.0) is None
    with pytest.raises(LoopError, match="nobody"):
        native.load("wrong", wrong)


def test_rules_over_the_same_data_are_planned_before_one_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def noted(name: str, what: str) -> None:
        function = getattr(evaluator, name)

        def noting(given: Any, *rest: Any) -> Any:
            stratum = getattr(given, "stratum", given)
            done.append(f"{what} {', '.join(stratum.relations)}")
            return function(given, *rest)

        monkeypatch.setattr(evaluator, name, noting)

    noted("plan_stratum", "plan")
    noted("run", "run")
    with gd.connect(device="cpu") as db:
        db.workspace.force(algebra="quotients", strategy="lftj")
        db["E"] = [(at % 7, at % 5) for at in range(35)]
        found = db.query("""
            a(count()) <- E(x, y), E(y, z), x != z.
            b(count()) <- E(x, y), E(z, y), x != z.
            c(x + y) <- a(x), b(y).
        """)
        assert found.fetchall() == [(150 + 210,)]
    assert done == ["plan a", "plan b", "run a", "run b", "plan c", "run c"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("delay", [0.0, 0.005, 0.03, 0.1])
def test_a_child_has_a_compiling_thread_of_its_own(tmp_path: Path, delay: float) -> None:
    text = f"""
import os, time
from gdatalog.codegen import native
assert native.load_soon({NAME!r}, {SOURCE!r}, 1.0) is None
time.sleep(DELAY)  # it is at work, or has not begun, or is done
child = os.fork()
if child == 0:
    found = native.load({NAME!r}, {SOURCE!r})
    other = {SOURCE!r}.replace("total = 0", "total = 0 * k")
    while native.load_soon("other", other, 1.0) is None:
        time.sleep(0.01)
    os._exit(found{GIVEN} != {ANSWER})
print(os.waitpid(child, 0)[1])
"""
    process = start(tmp_path / "cache", text.replace("DELAY", str(delay)))
    assert process.communicate(timeout=120) == ("0\n", "")


def test_nobody_waits_for_the_compiling_thread(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But who must have a function that is not there."""
    light = native.load(NAME, SOURCE)
    may, begun = Event(), Event()
    compiled = native._compiled

    def slow(name: str, *rest: Any) -> native_calls.Native:
        begun.set()
        assert may.wait(60)
        return compiled(name, *rest)

    monkeypatch.setattr(native, "_compiled", slow)
    try:
        assert native.load_soon("slow", SOURCE.replace("total = 0", "total = 0 * n"), 1.0) is None
        assert begun.wait(60)
        done: list[Any] = []

        def ask() -> None:
            done.append(native.load(NAME, SOURCE, 1.0))
            done.append(native.load_soon("other", SOURCE.replace("= 0", "= 0 * k"), 1.0))

        thread = Thread(target=ask, daemon=True)
        thread.start()
        thread.join(30)
        assert done == [light, None]
    finally:
        may.set()
        native._waiting.join()


REACHED = "r(x, y) <- E(x, y). r(x, z) <- r(x, y), E(y, z), x != z."


def test_rounds_go_over_to_loops_when_these_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = []
    for load_soon in (lambda *what: None, native.load):
        monkeypatch.setattr(native, "load_soon", load_soon)
        with gd.connect(device="cpu") as db:
            db["E"] = [(x, (x * 7 + y) % 90) for x in range(90) for y in (1, 5)]
            db.workspace.force(split="never", dead_variables="never")
            db.workspace.tune(loops_soon_from=0.0)
            profile = db.profile(REACHED)
        kinds = {choice.kind for run in profile.runs for choice in run.executors.values()}
        ways.append(("depth-first" in kinds, sorted(profile.result.fetchall())))
    assert [by_loops for by_loops, _ in ways] == [False, True]
    assert ways[0][1] == ways[1][1]


# ---------------------------------------------------------------------------- the process's end

# Functions wait to be compiled in the tier full when the process ends.
LEAVE = f"""
import sys
from gdatalog.codegen import native
for number in range(20):
    text = {SOURCE!r}.replace("total = 0", f"total = {{number}}")
    for _ in range(2):
        native.load(f"p{{number}}", text, native.MUCH * 0.6)
print("left", flush=True)
"""


@pytest.mark.parametrize(("last", "status"), [("sys.exit(3)", 3), ("1 / 0", 1)])
def test_the_process_ends_while_something_is_compiled(
    tmp_path: Path, last: str, status: int
) -> None:
    process = start(tmp_path / "cache", LEAVE + last)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (status, "left\n"), err
    assert err.splitlines()[-1:] == (["ZeroDivisionError: division by zero"] if "/" in last else [])
