"""Settings, from Python, the command line and the prompt; and the page that lists them."""

from __future__ import annotations

import io
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.engine.evaluator import evaluator
from gdatalog.options import STRATEGIES
from gdatalog.records import replace
from gdatalog.settings import Settings, Thresholds, cores
from gdatalog.shell import cli, repl
from gdatalog.shell.editor.completion import complete
from gdatalog.shell.editor.known import look
from gdatalog.shell.output import Output
from gdatalog.user_settings import AT_START, all_settings
from tests import settings_page

RULE = "p(x) <- e(x, _)."
OPEN = {name: each for name, each in all_settings().items() if name not in AT_START}


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of the strata that are evaluated."""
    settings: list[Settings] = []
    run = evaluator.run

    def noted(plan: Any, inputs: Any, *rest: Any) -> Any:
        settings.append(inputs.context.settings)
        return run(plan, inputs, *rest)

    monkeypatch.setattr(evaluator, "run", noted)
    return settings


def shown(used: list[Settings]) -> list[Settings]:
    """Without the memory limit, which depends on the machine."""
    return [replace(each, memory_limit=None) for each in used]


def connect(**options: Any) -> gd.Database:
    db = gd.connect(**options)
    db["e"] = [(1, 2), (2, 3)]
    return db


# ------------------------------------------------------------------------------------- Python


def test_every_core_unless_told(used: list[Settings]) -> None:
    connect().query(RULE)
    assert shown(used) == [Settings()]
    assert used[0].workers == cores() >= 1


def test_threads_are_of_the_database(used: list[Settings]) -> None:
    db = connect(threads=3)
    db.query(RULE)
    gd.query(RULE, {"e": [(1, 2)]}, threads=2)
    assert [settings.workers for settings in used] == [3, 2]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_is_of_the_call(used: list[Settings], strategy: Any, tmp_path: Path) -> None:
    db = connect()
    (tmp_path / "p.dl").write_text(RULE + " .output p(IO=stdout)")
    assert db.query(RULE, strategy=strategy).fetchall() == [(1,), (2,)]
    db.run(RULE + " .output p(IO=stdout)", strategy=strategy)
    db.run_file(tmp_path / "p.dl", strategy=strategy)
    assert len(db.profile(RULE, strategy=strategy).result) == 2
    gd.query(RULE, {"e": [(1, 2)]}, strategy=strategy)
    assert len(used) >= 4 and {settings.strategy for settings in used} == {strategy}
    db = connect()
    db.query(RULE, strategy=strategy)
    db.query(RULE)
    assert used[-1].strategy == "auto"


def test_settings_of_a_database(used: list[Settings]) -> None:
    db = connect(settings={"magic_sets": "never", "threads": 3, "tile": 8, "memory_limit": "1GiB"})
    db.query(RULE)
    db.set(magic_sets="always", timeout=60, threads=None)
    db.query(RULE)
    assert [each.magic_sets for each in used] == ["never", "always"]
    assert [each.threads for each in used] == [3, 0]
    assert db.memory_limit == db.settings.memory_limit == 1 << 30
    assert repr(replace(db.settings, memory_limit=None)) == (
        "Settings(timeout=60.0, magic_sets='always', tile=8)"
    )


def test_settings_of_untrusted_programs() -> None:
    for settings in (None, {}, {"strategy": "auto"}, {"algebra": "never"}):
        assert gd.connect(untrusted=True, settings=settings).settings.strategy == "levelwise"
    assert gd.connect(untrusted=True, settings={"strategy": "lftj"}).settings.strategy == "lftj"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"magic_set": "never"},
            "there is no setting 'magic_set'\n  hint: did you mean magic_sets?",
        ),
        ({"colour": 9}, "there is no setting 'colour'\n  hint: one of strategy, threads, timeout,"),
        ({"thresholds": 9}, "there is no setting 'thresholds'"),
        (
            {"dedup": "hsah"},
            "dedup cannot be 'hsah'\n  hint: did you mean hash? It is one of auto, sort",
        ),
        ({"scans": True}, "scans cannot be True\n  hint: one of auto, always, never"),
        ({"tile": True}, "tile cannot be True"),
        ({"tile": 3}, "tile cannot be 3\n  hint: one of auto, 1, 2, 4, 8, 16, 32"),
        ({"threads": "2"}, "threads cannot be '2'\n  hint: from 1 to 1024"),
        ({"timeout": 0}, "timeout cannot be 0\n  hint: a positive number of seconds"),
        (
            {"memory_limit": -1},
            "memory_limit cannot be -1\n  hint: a memory limit must be positive",
        ),
        ("fast", "settings is a mapping, not of type str"),
    ],
)
def test_settings_that_there_are_not(settings: Any, says: str) -> None:
    with pytest.raises(gd.UsageError) as error:
        gd.connect(settings=settings)
    assert str(error.value).startswith(f"usage error: {says}")


def test_settings_that_an_open_database_refuses() -> None:
    db = connect()
    for given in ({"memory_limit": "1GiB"}, {"temp_limit": 1 << 30}, {"dedup": 1}, {"fast": 1}):
        with pytest.raises(gd.UsageError):
            db.set(strategy="lftj", **given)
    assert db.settings.strategy == "auto"
    with pytest.raises(gd.UsageError, match="threads is given twice"):
        gd.connect(threads=2, settings={"threads": 2})


def test_ways_to_intersect_are_forced_by_tests(used: list[Settings]) -> None:
    db = connect()
    db.workspace.force(intersect="merge")
    db.query(RULE)
    assert shown(used) == [Settings(intersect="merge")]


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


def test_options_of_the_command_line(used: list[Settings], capsys: Any) -> None:
    text = "e(1, 2). " + RULE + " ?- p(x)."
    assert cli.run(["-j", "2", "--strategy", "lftj", "-c", text]) == 0
    assert cli.run(["-j4", "--strategy=levelwise", "-c", text]) == 0
    assert {(settings.threads, settings.strategy) for settings in used} == {
        (2, "lftj"),
        (4, "levelwise"),
    }
    given = ["--set", "threads=3", "--set", "strategy=lftj", "--set", "dedup=sort"]
    assert cli.run([*given, "--set", "dedup=hash", "-c", text]) == 0
    assert (used[-1].threads, used[-1].strategy, used[-1].dedup) == (3, "lftj", "hash")
    assert capsys.readouterr().out == "x\n1\nx\n1\nx\n1\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-j", "0"], "not a number of threads: 0"),
        (["-j", "two"], "not a number of threads: 'two'"),
        (["--strategy", "fast"], "there is no --strategy 'fast'\n  hint: one of auto, lftj"),
        (["--set", "algebr=auto"], "there is no setting 'algebr'\n  hint: did you mean algebra?"),
        (["--set", "algebra=split", "--set", "tile=5"], "tile cannot be '5'\n  hint: one of auto"),
        (["--set", "algebra"], "--set algebra: the value is missing\n  hint: as in --set "),
        (["--set", "timeout=soon"], "timeout cannot be 'soon'\n  hint: seconds, as in 30"),
        (["--set", "threads=2", "-j", "2"], "threads is given twice"),
        (["--set", "strategy=lftj", "--strategy", "lftj"], "strategy is given twice"),
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


def test_settings_of_the_prompt(used: list[Settings], capsys: Any) -> None:
    shell, failed = typed(
        ".set", ".set threads 2", ".set strategy lftj", "e(1, 2).", RULE, ".set threads auto"
    )
    assert not failed and shown(used)[-1] == Settings("lftj", 2)
    err = capsys.readouterr().err.splitlines()
    assert err[:2] == ["threads: 2", "strategy: lftj"] and err[-1] == "threads: auto"
    all_of_them = shell.output.stream.getvalue()  # type: ignore[attr-defined]
    assert {"strategy", "threads", "device", "memory_limit"} <= set(all_of_them.split())


def test_settings_that_are_wrong(capsys: Any) -> None:
    shell, failed = typed(
        ".set colour 9", ".set threads 0", ".set threads many", ".set strategy fast", ".set a b c"
    )
    assert [type(error) for error in failed] == [gd.UsageError] * 5
    assert (shell.db.workspace.settings.threads, shell.db.workspace.settings.strategy) == (
        0,
        "auto",
    )
    typed(".set stategy lftj")
    err = capsys.readouterr().err
    assert "there is no setting 'colour'\n  hint: one of mode," in err
    assert "strategy cannot be 'fast'\n  hint: one of auto, lftj, levelwise" in err
    assert "expected .set [NAME [VALUE]]" in err
    assert "did you mean strategy?" in err


def test_every_setting_is_set_at_the_prompt(used: list[Settings], capsys: Any) -> None:
    shell, failed = typed(
        *(f".set {n} {each.words[-1]}" for n, each in OPEN.items()), "e(1,2).", RULE
    )
    assert not failed and shell.db.settings == used[-1]
    for name, each in all_settings().items():
        if name in OPEN:
            assert each.show(getattr(used[-1], name)) == each.words[-1]
    typed(".set algebra", ".set memory_limit", ".set memory_limit 1GiB")
    err = capsys.readouterr().err
    assert "algebra: auto\n  Rewrite counts" in err
    assert "values: auto|always|never|quotients|suffixes|split\nmemory_limit: " in err
    assert "memory_limit cannot be changed here\n  hint: gdatalog --memory-limit sets it" in err


def test_settings_are_completed() -> None:
    known, _ = look(gd.connect())

    def offered(text: str) -> list[str]:
        return [found.text for found in complete(text, len(text), known, lambda *of: [])]

    assert offered(".set magic") == ["magic_sets"]
    assert offered(".set magic_sets ") == ["auto", "always", "never"]
    assert offered(".set threads ") == ["auto"] and offered(".set memory") == []


# ----------------------------------------------------------------------------------- the page


def test_every_setting_has_a_meaning() -> None:
    named = {field.name for field in fields(Settings)} - {"thresholds"}  # type: ignore[arg-type]
    assert all_settings().keys() == named
    for each in all_settings().values():
        assert each.meaning.endswith(".") and each.show(each.default) == each.words[0]
        assert all(each.show(each.check(each.parse(word))) == word for word in each.words)


def test_the_page_of_settings_is_up_to_date() -> None:
    listed = [name for name, *_ in settings_page.thresholds() if name]
    assert listed == [field.name for field in fields(Thresholds)]  # type: ignore[arg-type]
    written = settings_page.PAGE.read_text(encoding="utf-8")
    assert written == settings_page.page(), "python -m tests.settings_page --write"
