"""A program that runs again: its code comes from the cache, and what a session has worked out of a
text is not worked out once more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gdatalog as gd
from benchmarks.programs import REAL, Real
from gdatalog.codegen import cache, native, object_files
from gdatalog.engine import choose, draft, replanning
from gdatalog.engine.compiler import compiler
from gdatalog.engine.operators import incremental
from gdatalog.parser import parse
from gdatalog.parser.syntax import Query
from gdatalog.planner.check import extending, validity
from gdatalog.settings import Strategy
from tests.data import needs

if TYPE_CHECKING:
    from gdatalog.codegen.machine import Tier

ROOT = Path(__file__).parent.parent
PROGRAMS = sorted((ROOT / "queries").glob("*.dl"))

# Runs the command, and tells at the very end, when no thread compiles any more, what LLVM compiled.
RUN = """
import atexit, json, sys
from gdatalog.codegen import ir_modules, machine, object_files
from gdatalog.shell.cli import run
out, *args = sys.argv[1:]
made = []
object_file = object_files.object_file
def counted(name, ir, tier):
    made.append((name, tier))
    return object_file(name, ir, tier)
object_files.object_file = counted
atexit.register(lambda: open(out, "w").write(json.dumps(made)))
sys.exit(run(args))
"""


def another_process(patch: pytest.MonkeyPatch) -> None:
    """Waits for what compiles, and forgets what a process remembers of code and of work."""
    native._waiting.join()
    patch.setattr(native, "_native", {})
    patch.setattr(native, "_rows", {})
    patch.setattr(native, "_asked", set())
    patch.setattr(object_files, "_parts", {})
    patch.setattr(choose, "_looked", {})


def asked(path: Path) -> list[str]:
    """The queries of a program, as texts."""
    program = parse(path.read_text(encoding="utf-8"), str(path))
    spans = [item.span for item in program.statements if isinstance(item, Query)]
    return [span.source.text[span.start : span.end] for span in spans]


def answers(path: Path, strategy: Strategy) -> list[int]:
    """How many rows each query of a program has."""
    with gd.connect(device="cpu") as db:
        db.workspace.force(strategy=strategy)
        db.run_file(path)
        return [len(db.query(query)) for query in asked(path)]


@pytest.mark.parametrize("strategy", ["auto", "lftj"])
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_what_was_compiled_is_not_compiled_again(
    path: Path, strategy: Strategy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_place", cache._CacheFolder())
    made: list[tuple[str, str]] = []
    object_file = object_files.object_file

    def counted(name: str, ir: str, tier: Tier) -> bytes:
        made.append((name, tier))
        return object_file(name, ir, tier)

    monkeypatch.setattr(object_files, "object_file", counted)
    another_process(monkeypatch)
    first = answers(path, strategy)
    another_process(monkeypatch)
    compiled = list(made)
    assert compiled or strategy == "auto"
    assert answers(path, strategy) == first
    another_process(monkeypatch)
    assert nothing_anew(compiled, made[len(compiled) :])


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_what_was_planned_is_not_planned_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for module, name in (
        (compiler, "parse_with_cautions"),
        (validity, "examine"),
        (extending, "examine"),
        (draft, "plan_rule"),
        (replanning, "plan_rule"),
        (incremental, "plan_rule"),
    ):
        function = getattr(module, name)

        def watched(*args, function=function, name=name, **options):  # type: ignore[no-untyped-def]
            done.append(name)
            return function(*args, **options)

        monkeypatch.setattr(module, name, watched)
    with gd.connect(device="cpu") as db:
        db.run_file(path)
        for query in asked(path):
            rows = len(db.query(query))
            assert {"parse_with_cautions", "examine"} <= set(done)
            done.clear()
            assert len(db.query(query)) == rows and not done


def nothing_anew(first: list[tuple[str, str]], second: list[tuple[str, str]]) -> bool:
    """Functions with much to do are compiled in the tier full on a thread. The process does not
    wait for those that have not begun when it ends; the next one may begin them."""
    return not set(first) & set(second) and {tier for _, tier in second} <= {"full"}


def compiled(args: list[str], folder: Path) -> list[tuple[str, str]]:
    """What LLVM compiles while the command runs in a process of its own: names and tiers."""
    told = folder / "made.json"
    command = [sys.executable, "-c", RUN, str(told), *args]
    subprocess.run(command, check=True, capture_output=True, timeout=600, cwd=folder)
    return [tuple(each) for each in json.loads(told.read_text())]


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_another_process_compiles_nothing(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    args = ["--device", "cpu", "--strategy", "lftj", "--no-warnings", str(path)]
    assert compiled(args, tmp_path)
    assert not compiled(args, tmp_path)


@pytest.mark.slow
@needs(*(f"programs/{real.folder}/facts.tar.xz" for real in REAL))
@pytest.mark.parametrize("real", REAL, ids=lambda real: real.name)
def test_whole_programs_compile_nothing_anew(
    real: Real, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    work = real.work(tmp_path / "facts")
    args = ["--device", "cpu", "--no-warnings", "-F", str(work.facts), "-D", str(tmp_path)]
    first = compiled([*args, str(work.program)], tmp_path)
    second = compiled([*args, str(work.program)], tmp_path)
    assert first and nothing_anew(first, second)
