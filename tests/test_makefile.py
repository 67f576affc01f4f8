"""make makes what it needs, and where it cannot, names the cure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what make reads, and nothing made yet."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def _make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env={**kept, "LC_ALL": "C"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def _python(folder: Path, script: str) -> str:
    path = folder / "some-python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return f"PYTHON={path}"


def test_without_python(folder: Path) -> None:
    done = _make(folder, "demo", "PYTHON=no-such-python")
    assert done.returncode != 0
    assert "there is no no-such-python here: gdatalog needs Python 3.11 or later" in done.stderr
    assert "cure: install one (Debian: apt install python3 python3-venv)" in done.stderr


def test_with_an_old_python(folder: Path) -> None:
    old = _python(folder, 'case "$1" in -V) echo Python 3.9.2 ;; *) exit 1 ;; esac')
    done = _make(folder, "test", old)
    assert done.returncode != 0
    assert "gdatalog needs Python 3.11 or later" in done.stderr
    assert "is Python 3.9.2\ncure: install a newer one" in done.stderr


def test_without_ensurepip(folder: Path) -> None:
    partly = f'case "$2" in *ensurepip*) exit 1 ;; *) exec "{sys.executable}" "$@" ;; esac'
    done = _make(folder, "check", _python(folder, partly))
    assert done.returncode != 0
    assert "its venv or ensurepip is missing\ncure: Debian, Ubuntu: apt install" in done.stderr
    assert not (folder / ".venv").exists()


def test_installs_again_when_the_project_changes(folder: Path) -> None:
    stamps = [folder / ".venv" / name for name in ("made", "base", "dev")]
    stamps[0].parent.mkdir()
    for stamp in stamps:
        stamp.touch()
    for target, extra in (("demo", "--editable .\n"), ("test", "--editable '.[dev]'\n")):
        assert "install" not in _make(folder, "-n", target).stdout
        os.utime(folder / "pyproject.toml", (2**31, 2**31))
        assert extra in _make(folder, "-n", target).stdout
        os.utime(folder / "pyproject.toml", (0, 0))


def test_says_what_it_can_make(folder: Path) -> None:
    done = _make(folder)
    targets = [line.split()[1] for line in done.stdout.splitlines()]
    assert targets == ["demo", "test", "check", "bench", "clean"]
