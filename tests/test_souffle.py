"""A program as people write it for Soufflé runs as it is: courses.dl, facts, -F and -D."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import gdatalog as gd

HERE = Path(__file__).parent / "souffle"


def _rows(folder: Path) -> dict[str, set[str]]:
    """The rows of each file: no row may come twice."""
    rows = {path.name: path.read_text(encoding="utf-8").splitlines() for path in folder.iterdir()}
    assert all(len(found) == len(set(found)) for found in rows.values())
    return {name: set(found) for name, found in rows.items()}


def _souffle(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gdatalog", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(HERE.parent.parent)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_from_python(tmp_path: Path) -> None:
    with gd.connect() as db, pytest.warns(gd.ProgramWarning, match="Soufflé, which asks only"):
        outputs = db.run_file(HERE / "courses.dl", facts=HERE / "facts", out=tmp_path)
        assert len(db["prerequisite"]) == len(db["blocked"]) == 13
    assert _rows(tmp_path) == _rows(HERE / "expected")
    assert set(outputs["best_grade"]) >= {("CS101", 95, "s1"), ("CS101", 95, "s3")}
    assert outputs["sound"] and not outputs["cyclic"]


def test_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    program = os.path.relpath(HERE / "courses.dl", tmp_path)
    done = _souffle("-F", str(HERE / "facts"), "-D", "out", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "prerequisite\t13\nblocked\t13\n"
    assert _rows(out) == _rows(HERE / "expected")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_all_outputs_on_stdout(tmp_path: Path) -> None:
    done = _souffle("-F", str(HERE / "facts"), "-D", "-", str(HERE / "courses.dl"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name, rows in _rows(HERE / "expected").items():
        if name != "departments.csv":
            assert rows <= set(done.stdout.splitlines()), name
    assert not list(tmp_path.iterdir())


def test_the_expected_outputs_are_what_plain_python_computes(tmp_path: Path) -> None:
    runpy.run_path(str(HERE / "make_expected.py"))["make"](tmp_path)
    assert _rows(tmp_path) == _rows(HERE / "expected")
