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
    assert targets == [
        "demo",
        "demo-cluster",
        "test",
        "check-rest",
        "check",
        "drawn",
        "replay",
        "coverage",
        "docs",
        "bench",
        "test-gpu",
        "bench-gpu",
        "clean",
    ]


# ------------------------------------------------------------------------------- a GPU


@pytest.fixture
def installed(folder: Path) -> Path:
    """A folder where all is installed but CuPy; its programs note what they are asked to do."""
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for stamp in ("made", "base", "dev"):
        (folder / ".venv" / stamp).touch()
        os.utime(folder / ".venv" / stamp, (2**31, 2**31))
    for name in ("python", "gdatalog"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >>asked\n. ./{name}-does\n')
        (programs / name).chmod(0o755)
        (folder / f"{name}-does").write_text("")
    return folder


def _does(folder: Path, wanted: str) -> None:
    """What the Python of a folder answers when it is asked for the GPU's extra."""
    (folder / "python-does").write_text(
        f'case "$2" in gdatalog.gpu_ops.diagnosis) {wanted} ;; *) exit 0 ;; esac\n'
    )


@pytest.mark.parametrize("target", ["test-gpu", "bench-gpu"])
def test_where_there_is_no_gpu_the_reason_is_told(installed: Path, target: str) -> None:
    """By the real program, in an environment that hides GPUs."""
    python = f'CUDA_VISIBLE_DEVICES= PYTHONPATH={ROOT} exec {sys.executable} "$@"'
    (installed / "python-does").write_text(python)
    done = _make(installed, target)
    assert done.returncode != 0
    assert "this needs an NVIDIA GPU. GPU: " in done.stderr and "\ncure: " in done.stderr
    assert (installed / "asked").read_text() == "python -m gdatalog.gpu_ops.diagnosis\n"
    assert not (installed / ".venv" / "gpu").exists()


def test_where_there_is_a_gpu_its_extra_is_installed(installed: Path) -> None:
    _does(installed, "echo cuda13")
    pip = "python -m pip --disable-pip-version-check --quiet"
    install = f"{pip} install --no-compile --editable .[cuda13]"
    for target, asked in (
        ("bench-gpu", "python -m benchmarks.gpu --minutes 8"),
        ("test-gpu", "python -m pytest -n 2 --dist worksteal -rs -m gpu and not slow"),
    ):
        done = _make(installed, target)
        assert done.returncode == 0, done.stderr
        lines = (installed / "asked").read_text().splitlines()
        assert lines[:2] == ["python -m gdatalog.gpu_ops.diagnosis", f"{install} matplotlib"]
        assert lines[-1] == asked
    assert len(lines) == 4  # it is installed once


def test_a_demo_asks_a_gpu_too_where_one_is(installed: Path) -> None:
    _does(installed, "exit 3")
    assert _make(installed, "demo").returncode == 0
    asked = ["gdatalog queries/triangles.dl", "python -m gdatalog.gpu_ops.diagnosis"]
    assert (installed / "asked").read_text().splitlines() == asked
    _does(installed, "echo cuda12")
    assert _make(installed, "demo").returncode == 0
    lines = (installed / "asked").read_text().splitlines()
    assert ".[cuda12]" in lines[-2] and lines[-1] == "python -m benchmarks.gpu.demo"


def test_which_expressions_ask_for_a_gpu() -> None:
    from tests.on_gpu import chosen

    def asks(expression: str) -> bool:
        return chosen(expression, {"gpu"}) and not chosen(expression, set())

    assert asks("gpu") and asks("gpu and not slow")
    assert not any(map(asks, ("", "not gpu", "not (slow or gpu)", "(slow or drawn) and not gpu")))
