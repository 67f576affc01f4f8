"""What a user may force: strategy and threads, from Python, the command line and the prompt."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.engine.evaluator import evaluator
from gdatalog.engine.knobs import STRATEGIES, Knobs, cores
from gdatalog.shell import cli, repl
from gdatalog.shell.output import Output

RULE = "p(x) <- e(x, _)."


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[Knobs]:
    """The knobs of the strata that are evaluated."""
    knobs: list[Knobs] = []
    run = evaluator.run

    def noted(plan: Any, inputs: Any) -> Any:
        knobs.append(inputs.context.knobs)
        return run(plan, inputs)

    monkeypatch.setattr(evaluator, "run", noted)
    return knobs


def connect(**options: Any) -> gd.Database:
    db = gd.connect(**options)
    db["e"] = [(1, 2), (2, 3)]
    return db


# ------------------------------------------------------------------------------------- Python


def test_every_core_unless_told(used: list[Knobs]) -> None:
    connect().query(RULE)
    assert used == [Knobs()]
    assert used[0].workers == cores() >= 1


def test_threads_are_of_the_database(used: list[Knobs]) -> None:
    db = connect(threads=3)
    db.query(RULE)
    gd.query(RULE, {"e": [(1, 2)]}, threads=2)
    assert [knobs.workers for knobs in used] == [3, 2]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_is_of_the_call(used: list[Knobs], strategy: Any, tmp_path: Path) -> None:
    db = connect()
    (tmp_path / "p.dl").write_text(RULE + " .output p(IO=stdout)")
    assert db.query(RULE, strategy=strategy).fetchall() == [(1,), (2,)]
    db.run(RULE + " .output p(IO=stdout)", strategy=strategy)
    db.run_file(tmp_path / "p.dl", strategy=strategy)
    assert len(db.profile(RULE, strategy=strategy).result) == 2
    gd.query(RULE, {"e": [(1, 2)]}, strategy=strategy)
    assert len(used) >= 4 and {knobs.strategy for knobs in used} == {strategy}
    db = connect()
    db.query(RULE, strategy=strategy)
    db.query(RULE)
    assert used[-1].strategy == "auto"


def test_ways_to_intersect_are_forced_by_tests(used: list[Knobs]) -> None:
    db = connect()
    db.workspace.force(intersect="merge")
    db.query(RULE)
    assert used == [Knobs(intersect="merge")]


@pytest.mark.parametrize("strategy", ["", "LFTJ", "fast", None, 1])
def test_a_strategy_that_there_is_not(strategy: Any) -> None:
    with pytest.raises(gd.UsageError, match="there is no strategy") as error:
        connect().query(RULE, strategy=strategy)
    assert str(error.value.hint).endswith('one of "auto", "lftj", "levelwise"')
    assert ('did you mean "lftj"' in str(error.value.hint)) == (strategy == "LFTJ")


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True, 100_000])
def test_what_is_no_number_of_threads(threads: Any) -> None:
    with pytest.raises(gd.UsageError, match="not a number of threads") as error:
        gd.connect(threads=threads)
    assert "from 1 to 1024" in str(error.value.hint)


# --------------------------------------------------------------------------- the command line


def test_options_of_the_command_line(used: list[Knobs], capsys: Any) -> None:
    text = "e(1, 2). " + RULE + " ?- p(x)."
    assert cli.run(["-j", "2", "--strategy", "lftj", "-c", text]) == 0
    assert cli.run(["-j4", "--strategy=levelwise", "-c", text]) == 0
    assert {(knobs.threads, knobs.strategy) for knobs in used} == {(2, "lftj"), (4, "levelwise")}
    assert capsys.readouterr().out == "x\n1\nx\n1\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-j", "0"], "not a number of threads: 0"),
        (["-j", "two"], "not a number of threads: 'two'"),
        (["--strategy", "fast"], "there is no --strategy 'fast'\n  hint: one of auto, lftj"),
    ],
)
def test_options_that_are_wrong(options: list[str], says: str, capsys: Any) -> None:
    assert cli.run([*options, "-c", RULE]) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err


# --------------------------------------------------------------------------------- the prompt


def typed(*lines: str) -> tuple[repl.Repl, list[BaseException]]:
    shell = repl.Repl(gd.connect(), Output(io.StringIO()), interactive=False)
    for line in lines:
        assert shell.feed(line)
    return shell, shell.failed


def test_settings_of_the_prompt(used: list[Knobs], capsys: Any) -> None:
    shell, failed = typed(
        ".set", ".set threads 2", ".set strategy lftj", "e(1, 2).", RULE, ".set threads auto"
    )
    assert not failed and used[-1] == Knobs("lftj", 2)
    err = capsys.readouterr().err.splitlines()
    assert err[:2] == ["threads: 2", "strategy: lftj"] and err[-1] == "threads: auto"
    all_of_them = shell.output.stream.getvalue()  # type: ignore[attr-defined]
    assert {"strategy", "threads", "device", "memory"} <= set(all_of_them.split())


def test_settings_that_are_wrong(capsys: Any) -> None:
    shell, failed = typed(
        ".set speed 9", ".set threads 0", ".set threads many", ".set strategy fast", ".set a b c"
    )
    assert [type(error) for error in failed] == [gd.UsageError] * 5
    assert (shell.db.workspace.knobs.threads, shell.db.workspace.knobs.strategy) == (0, "auto")
    err = capsys.readouterr().err
    assert "there is no setting 'speed'\n  hint: one of mode," in err
    assert "one of auto, lftj, levelwise" in err
    assert "expected .set [NAME [VALUE]]" in err
