"""The replay of programs: it is the same in each process, and shows what a change has altered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gdatalog.engine import rule_plans
from gdatalog.planner import rule
from gdatalog.printer import module
from tests.replay import __main__ as command
from tests.replay import running
from tests.replay.programs import ROOT, Program, programs
from tests.replay.running import collect
from tests.replay.stored import compare, load, store

EDGES = {"E": [(1, 2), (2, 3), (1, 3), (3, 4)]}
TRIANGLES = Program("triangles", "t(x, y, z) <- E(x, y), E(y, z), E(x, z).", EDGES)
CLOSURE = Program("closure", "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). ?- p(1, x).", EDGES)
NEAREST = Program("nearest", "d(1, 0). d(y, min(n + 1)) <- d(x, n), E(x, y).", EDGES)


def report(before: dict[str, str], after: dict[str, str]) -> str:
    return "\n".join(compare(before, after).report(most=3))


def test_all_that_may_be_printed_is() -> None:
    texts = collect([TRIANGLES, CLOSURE, NEAREST], kernels=False)
    kinds = {key.split(" / ")[2] for key in texts}
    assert {
        "plans",
        "estimates",
        "loops: rows",
        "loops: rows, counted",
        "loops: new rows by marks",
        "loops: new rows by a hash set",
        "loops: worklists",
        "loops: worklists, hashed, counted",
        "loops: worklists, numbers of rows",
        "loops: best values",
        "loops: best values, groups numbered",
        "CUDA: rows, 1 lanes",
        "CUDA: rows, counted, 32 lanes",
        "CUDA: new rows by marks, 32 lanes",
        "CUDA: worklists, 32 lanes",
    } <= kinds
    assert "x in E([x], y) and E([x], z)" in texts["triangles / t / plans / 1"]
    assert "x in E([x], y) and E([x], z)   -- ~" in texts["triangles / t / estimates / 1"]
    assert "def run(" in texts["triangles / t / loops: rows / 1"]
    assert "KERNEL(walk_plan)" in texts["triangles / t / CUDA: rows, 32 lanes / 1"]


def test_the_engine_is_as_it_was_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    before = module.print_plan, rule.plan_rule, rule_plans.looked_up

    def breaks(program: Program) -> None:
        assert module.print_plan is not before[0]
        assert rule_plans.planner.plan_rule is rule.plan_rule is not before[1]
        raise TypeError

    monkeypatch.setattr(running, "_run", breaks)
    with pytest.raises(TypeError) as caught:
        collect([TRIANGLES])
    assert caught.value.__notes__ == [f"in the program triangles:\n{TRIANGLES.text}"]
    assert (module.print_plan, rule.plan_rule, rule_plans.looked_up) == before


def test_programs_that_are_refused_or_fail() -> None:
    refused = Program("refused", "p(x) <- E(x, _), y < x.", EDGES)
    fails = Program("fails", "p(1 / (x - 1)) <- E(x, _). q(x) <- E(_, x).", EDGES)
    texts = collect([refused, fails], kernels=False)
    assert {"fails / p / plans / 1", "fails / q / plans / 1"} <= texts.keys()
    assert not any(key.startswith("refused") for key in texts)


@pytest.mark.slow
def test_it_is_the_same_in_each_process(tmp_path: Path) -> None:
    drawn = "drawn: recursion 7", "drawn: aggregate 9", "drawn: optional 26"
    words = ["queries: dependencies", *drawn]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.replay", "--store", tmp_path / seed, "--only", *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
        )
        for seed in ("1", "4")
    ]
    assert all(b" texts of " in process.communicate()[0] for process in processes)
    first, second = (load(tmp_path / seed) for seed in ("1", "4"))
    assert first == second
    names = [key.split(" / ")[0] for key in first]
    assert [program.name for program in programs(words)] == list(dict.fromkeys(names))


def test_an_altered_printer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = collect([TRIANGLES], kernels=False)
    assert not compare(before, collect([TRIANGLES], kernels=False)).differs
    module_of = module.module_of

    def altered(*args: Any) -> str:
        return module_of(*args).replace("n += 1", "n += 2")

    monkeypatch.setattr(module, "module_of", altered)
    assert report(before, collect([TRIANGLES], kernels=False)).splitlines() == [
        "                same   changed      gone       new",
        "plans              1         0         0         0",
        "estimates          1         0         0         0",
        "loops              0         2         0         0",
        "CUDA               3         0         0         0",
        "",
        "triangles / t / loops: rows / 1, and 1 more by the same lines",
        "  --- before",
        "  +++ after",
        *_hunk(before["triangles / t / loops: rows / 1"]),
    ]


def _hunk(text: str) -> list[str]:
    """The one place where a text has `n += 1`, as a difference shows it with `n += 2`."""
    lines = text.splitlines()
    (at,) = (at for at, line in enumerate(lines) if line.endswith("n += 1"))
    return [
        f"  @@ -{at - 2},7 +{at - 2},7 @@",
        *(f"   {line}" for line in lines[at - 3 : at]),
        f"  -{lines[at]}",
        f"  +{lines[at].replace('1', '2')}",
        *(f"   {line}" for line in lines[at + 1 : at + 4]),
    ]


def test_what_a_report_tells(tmp_path: Path) -> None:
    before = {f"a / p / plans / {at}": f"x\n  {at}" for at in range(5)}
    after = {key: text.replace("x", "y") for key, text in before.items() if key[-1] != "4"}
    after |= {f"b / p / loops: rows / {at}": "z" for at in range(7)}
    store(before, tmp_path)
    assert load(tmp_path) == before
    assert report(before, after) == (
        "                same   changed      gone       new\n"
        "plans              0         4         1         0\n"
        "estimates          0         0         0         0\n"
        "loops              0         0         0         7\n"
        "CUDA               0         0         0         0\n"
        "\n"
        "a / p / plans / 0, and 3 more by the same lines\n"
        "  --- before\n"
        "  +++ after\n"
        "  @@ -1,2 +1,2 @@\n"
        "  -x\n"
        "  +y\n"
        "     0\n"
        "\n"
        "gone:\n"
        "  a / p / plans / 4\n"
        "\n"
        "new:\n"
        "  b / p / loops: rows / 0\n"
        "  b / p / loops: rows / 1\n"
        "  b / p / loops: rows / 2\n"
        "  b / p / loops: rows / 3\n"
        "  b / p / loops: rows / 4\n"
        "  and 2 more"
    )
    many = compare(before, {key: text + str(at) for at, (key, text) in enumerate(before.items())})
    assert "plans: 3 more changed, by other lines (--show says how many to show)" in "\n".join(
        many.report(most=2)
    )


# ------------------------------------------------------------------------------- against commits


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two commits. The second has a `tests.replay`, which only copies texts."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.setattr(command, "ROOT", folder)
    for key in [key for key in os.environ if key.startswith("GIT_")]:
        monkeypatch.delenv(key)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=first")
    store({"a / p / plans / 1": "x"}, folder / "texts")
    copier = folder / "tests" / "replay"
    copier.mkdir(parents=True)
    (copier / "__init__.py").touch()
    (copier / "__main__.py").write_text(
        "import shutil, sys\nshutil.copytree('texts', sys.argv[2], dirs_exist_ok=True)\n"
    )
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=second")
    return folder


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    done = subprocess.run(
        ["git", "-C", folder, *who, *arguments], check=True, capture_output=True, encoding="utf-8"
    )
    return done.stdout.strip()


def test_against_a_commit(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"a / p / plans / 1": "x"}
    monkeypatch.setattr(command, "programs", lambda words: [])
    monkeypatch.setattr(command, "collect", lambda wanted, kernels: texts)
    assert command.main(["--against", "HEAD"]) == 0
    (repository / "changed").touch()
    texts = {"a / p / plans / 1": "y"}
    assert command.main([]) == 1
    told = capsys.readouterr().out
    assert told.count("against HEAD:") == 2 and told.count("  -x\n  +y\n") == 1
    assert git(repository, "worktree", "list").count("\n") == 0
    assert command.main(["--ignore", "^[xy]$"]) == 0
    with pytest.raises(SystemExit, match="nothing is neither a folder with"):
        command.main(["--against", "nothing"])


def test_a_commit_that_cannot_be_replayed(repository: Path) -> None:
    with pytest.raises(SystemExit, match="HEAD~1 has no tests/replay: it is from before"):
        command.main(["--against", "HEAD~1"])


def test_what_work_began_from(repository: Path) -> None:
    main = git(repository, "rev-parse", "HEAD")
    assert command._began_from() == "HEAD~1"
    git(repository, "switch", "--quiet", "--create=branch")
    git(repository, "commit", "--quiet", "--allow-empty", "--message=third")
    assert command._began_from() == main
    (repository / "changed").touch()
    assert command._began_from() == "HEAD"
    (repository / "changed").unlink()
    git(repository, "branch", "--quiet", "--delete", "--force", "main")
    with pytest.raises(SystemExit, match="there is no branch main here"):
        command._began_from()
