"""The package as others get it: what ships, and that it works among files of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
QUERY = "t(x, z) <- E(x, y), E(y, z). E(1, 2). E(2, 3). ?- t(x, z)."
ANSWER = "x\tz\n1\t3\n"


def _run(*command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(
        command,
        cwd=cwd,
        env={**environment, **variables},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """A folder with modules of the user's own, named as parts of the package are."""
    folder = tmp_path / "crowded"
    folder.mkdir()
    for name in ("parser", "planner", "plan", "engine", "storage", "errors", "values"):
        (folder / f"{name}.py").write_text(f'raise ImportError("the {name}.py of the user")\n')
    return folder


def _works_in(folder: Path, python: str, **variables: str) -> None:
    text = f"import gdatalog; print(gdatalog.query({QUERY!r}).fetchall())"
    done = _run(python, "-c", text, cwd=folder, **variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[(1, 3)]\n", "")
    done = _run(python, "-m", "gdatalog", "-c", QUERY, cwd=folder, **variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, ANSWER, "")


def test_beside_modules_of_the_user(crowded: Path) -> None:
    _works_in(crowded, sys.executable, PYTHONPATH=str(ROOT))


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.lstrip().startswith("Apache License\n")
    for section in range(1, 10):
        assert f"\n   {section}. " in text
    assert "END OF TERMS AND CONDITIONS" in text and text.endswith(
        "limitations under the License.\n"
    )


def _needs_an_index(python: str, folder: Path) -> None:
    done = _run(python, "-m", "pip", "download", "--no-deps", "-d", str(folder), "lark", cwd=folder)
    if done.returncode != 0:
        pytest.skip("needs an index of packages, and pip reaches none")


@pytest.mark.slow
def test_what_ships(tmp_path: Path) -> None:
    pytest.importorskip("build", reason="needs the package `build`, of the extra `dev`")
    _needs_an_index(sys.executable, tmp_path)
    out = tmp_path / "dist"
    done = _run(sys.executable, "-m", "build", "--outdir", str(out), str(ROOT), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (source,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")

    with tarfile.open(source) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    needed = {"queries/triangles.dl", "queries/data/les_miserables.csv", "tests/oracle.py"}
    assert names >= {*needed, "LICENSE", "Makefile", "gdatalog/parser/grammar.lark"}

    assert [name for name in names if "__pycache__" in name] == []

    shipped = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in shipped if ".dist-info/" not in name} == {"gdatalog"}
    inside = {path.relative_to(ROOT).as_posix() for path in (ROOT / "gdatalog").rglob("*.*")}
    assert inside - shipped == {name for name in inside if "__pycache__" in name}
    assert {"gdatalog/parser/grammar.lark", "gdatalog/py.typed"} <= shipped
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in shipped)


@pytest.mark.slow
def test_installed_in_an_empty_environment(tmp_path: Path, crowded: Path) -> None:
    if find_spec("ensurepip") is None:
        pytest.skip("needs ensurepip (Debian: apt install python3-venv)")
    venv.create(tmp_path / "fresh", with_pip=True)
    bin_folder = tmp_path / "fresh" / ("Scripts" if os.name == "nt" else "bin")
    python = str(bin_folder / "python")
    _needs_an_index(python, tmp_path)
    done = _run(python, "-m", "pip", "install", "--quiet", str(ROOT), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    _works_in(crowded, python)
    done = _run(str(bin_folder / "gdatalog"), "-c", QUERY, cwd=crowded)
    assert (done.returncode, done.stdout, done.stderr) == (0, ANSWER, "")
