"""A call that a limit or Ctrl-C ends leaves its profile; the rule that ran has the time."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import gdatalog as gd
from gdatalog.report import Profile
from gdatalog.settings import Strategy
from gdatalog.shell import cli, program
from tests.interpreted import interpreted

ENDLESS = "n(1). n(2*x) <- n(x). n(2*x+1) <- n(x)."
CLOSURE = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z)."
DISTANCE = "d(0, 0). d(y, min(a + 1)) <- d(x, a), E(x, y)."
PATHS = "q(a, e) <- E(a, b), E(b, c), E(c, d), E(d, e), a < e."


@pytest.fixture
def db() -> Iterator[gd.Database]:
    with gd.connect(device="cpu", threads=1) as db:
        db["E"] = [(i, (7 * i + j) % 400) for i in range(400) for j in range(5)]
        yield db


@contextmanager
def while_it_runs(db: gd.Database, name: str, do: Callable[[], float]) -> Iterator[None]:
    """Within this context, a look at the clock while a rule of this relation runs calls `do`."""

    def clock() -> float:
        runs = any(work.stage == "joining" and name in work.what for work in watch.works)
        return do() if runs else 0.0

    watch, before = db._watch, db._watch.clock
    watch.clock = clock
    try:
        yield
    finally:
        watch.clock = before


def out_of_time(db: gd.Database, name: str, call: Callable[[], object]) -> gd.TimeLimitError:
    with while_it_runs(db, name, lambda: 1e9), pytest.raises(gd.TimeLimitError) as told:
        call()
    return told.value


def charged(profile: Profile | None) -> dict[str, float]:
    """The seconds of each rule that did not finish."""
    assert profile is not None
    return {run.plan.relation: run.seconds for run in profile.runs if run.unfinished}


WAYS: list[tuple[str, Strategy, str]] = [
    (PATHS, "levelwise", "q"),
    (PATHS, "lftj", "q"),
    (CLOSURE, "levelwise", "path"),
    (CLOSURE, "lftj", "path"),
    (DISTANCE, "lftj", "d"),
    (ENDLESS, "auto", "n"),
]


@pytest.mark.parametrize("profiled", [True, False])
@pytest.mark.parametrize(("text", "strategy", "name"), WAYS)
def test_the_time_is_that_of_the_rule_that_ran(
    db: gd.Database, text: str, strategy: Strategy, name: str, profiled: bool
) -> None:
    call = db.profile if profiled else db.query
    with interpreted():
        error = out_of_time(db, name, lambda: call(text, strategy=strategy, timeout=1.0))
    profile = error.profile
    assert profile is not None and profile.ended == "time limit" and profile.result is None
    (seconds,) = charged(profile).values()
    assert 0 < seconds <= profile.seconds
    assert charged(profile).keys() == {name}
    says = str(profile)
    assert "not finished: time limit" in says and f"stratum 1: {name}" in says
    assert "│ not finished" in says and "not reached" not in says
    assert profile.to_html() and profile.to_dict()
    assert len(db.query("?- E(0, x).")) == 5  # and the next call is as ever


def test_finished_strata_have_their_own_time(db: gd.Database) -> None:
    text = f"{CLOSURE} far(x, z) <- path(x, y), path(y, z), path(z, x). ?- far(x, y)."
    error = out_of_time(db, "far", lambda: db.query(text, timeout=1.0, strategy="levelwise"))
    assert error.profile is not None
    first, second = error.profile.strata
    assert charged(error.profile).keys() <= {*second.stratum.relations}
    assert first.ended and not first.unfinished and second.unfinished
    assert sum(run.seconds for run in first.timed.values()) > 0


def test_a_memory_limit_leaves_a_profile() -> None:
    with gd.connect(device="cpu", memory_limit="1MiB") as db:
        with pytest.raises(gd.MemoryLimitError) as told:
            db.profile(ENDLESS, strategy="levelwise")
        profile = told.value.profile
        assert profile is not None and profile.ended == "memory limit"
        assert len(profile.rounds) > 10
        copy = pickle.loads(pickle.dumps(told.value))
        assert copy.profile is None and str(copy) == str(told.value)


def test_row_limits_and_interrupts_leave_one_too(db: gd.Database) -> None:
    with pytest.raises(gd.RowLimitError) as many:
        db.query("?- E(x, y).", max_rows=3)
    assert many.value.profile is not None and many.value.profile.ended == "row limit"

    def interrupt() -> float:
        db.interrupt()
        return 0.0

    with while_it_runs(db, "path", interrupt), pytest.raises(gd.Interrupted) as stopped:
        db.profile(CLOSURE, strategy="levelwise", timeout=1.0)
    assert charged(stopped.value.profile).keys() == {"path"}

    def key() -> float:
        db._watch.by_key = True
        return interrupt()

    with while_it_runs(db, "path", key), pytest.raises(KeyboardInterrupt) as pressed:
        db.profile(CLOSURE, strategy="levelwise", timeout=1.0)
    profile = vars(pressed.value)["profile"]
    assert profile.ended == "interrupted" and charged(profile).keys() == {"path"}


def test_an_error_that_is_kept_holds_no_rows() -> None:
    with gd.connect(device="cpu", memory_limit="1MiB") as small:
        spill = small.workspace.spill
        assert spill is not None

        def press() -> float:
            if spill.used > 1 << 18:
                small._watch.by_key = True
                small.interrupt()
            return 0.0

        with while_it_runs(small, "n", press), pytest.raises(KeyboardInterrupt) as pressed:
            small.query(ENDLESS, strategy="levelwise", timeout=1.0)
        assert spill.written > 1 << 18 and spill.used == 0
        assert vars(pressed.value)["profile"].ended == "interrupted"


def test_what_evaluates_nothing_leaves_none(db: gd.Database) -> None:
    db.query("?- E(0, x).")

    def rows() -> Iterator[tuple[int]]:
        db.interrupt()
        yield (1,)

    with pytest.raises(gd.Interrupted) as told:
        db.load("F", rows())
    assert told.value.profile is None


def test_within_a_call_and_outside(db: gd.Database) -> None:
    with db.call(timeout=1.0):
        error = out_of_time(
            db, "path", lambda: db.profile(CLOSURE, timeout=0.5, strategy="levelwise")
        )
        assert error.profile is not None and error.profile.ended == "time limit"


# ---------------------------------------------------------------------------------- the shell


def test_the_command_line_prints_it_after_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "answer", pressed)
    assert cli.run(["--device", "cpu", "--profile", "-c", "?- x = 1."]) == 130
    said = capsys.readouterr()
    assert not said.out and "not finished: interrupted" in said.err
    assert cli.run(["--device", "cpu", "--profile", "--format", "html", "-c", "?- x = 1."]) == 130
    assert "not finished: interrupted" in capsys.readouterr().out
    assert cli.run(["--device", "cpu", "-c", "?- x = 1."]) == 130
    assert "not finished" not in capsys.readouterr().err


def test_the_prompt_shows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = f".profile {ENDLESS}\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    options = ["--device", "cpu", "--memory-limit", "1MiB", "--strategy", "levelwise"]
    assert cli.run(options) == 3
    said = capsys.readouterr()
    assert "not finished: memory limit" in said.out and "rule 1: n(2 * x) <- n(x)" in said.out
    assert "memory limit: " in said.err
