"""Our name on PyPI, how we are installed, and the other package with files in the same folder."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal import ROOT

import gdatalog
from gdatalog import distribution
from gdatalog.shell import cli, doctor

CURE = (
    "in a clone of gdatalog: python -m pip uninstall -y gdatalog gdatalog-engine"
    " && python -m pip install ."
)
TEXTS = {".py", ".md", ".dl", ".ipynb", ".toml", ".yml", ".cff", ".cuh", ".txt", ""}
INSTALLERS = re.compile(r"\b(?:pip|pip3|pipx|uv|conda|mamba|poetry|pdm)(?: \w+)? (?:install|add)\b")
OURS = re.compile(r"gdatalog([-_]engine)?", re.I)


def installed(folder: Path, version: str, *files: str) -> None:
    """What pip leaves of a package `gdatalog`."""
    told = folder / f"gdatalog-{version}.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: gdatalog\nVersion: {version}\n")
    (told / "RECORD").write_text("".join(f"{name},,\n" for name in files))
    for name in files:  # newer Pythons list only what is there
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def pages() -> Iterator[Path]:
    for top in (
        "gdatalog", "docs", "examples", "tests", "benchmarks", "queries", ".github",
    ):  # fmt: skip
        yield from (path for path in (ROOT / top).rglob("*") if path.suffix in TEXTS)
    yield from (path for path in ROOT.iterdir() if path.suffix in TEXTS)


def test_the_project_has_the_name_that_is_told() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["name"] == distribution.NAME != distribution.FORMER
    assert project["project"]["scripts"].keys() == {"gdatalog"}
    assert "GPU" in project["project"]["description"] and "gpu" in project["project"]["keywords"]
    assert any("GPU" in told for told in project["project"]["classifiers"])
    assert gdatalog.__version__ == distribution.VERSION
    assert project["tool"]["hatch"]["version"]["path"] == "gdatalog/distribution.py"


def test_nothing_says_to_install_the_other_package() -> None:
    """A clone is installed, by its path; in the package only one function says so."""
    found = 0
    for path in pages():
        if not path.is_file() or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"gdatalog([-_]engine)?\[", text), path
        for match in INSTALLERS.finditer(text):
            said = re.split(r"[`\n#]|\\n", text[match.end() :], maxsplit=1)[0]
            words = [word.strip("\"'.,;:()") for word in re.split(r"[\s\[=<>~!@]", said)]
            assert not any(OURS.fullmatch(word) for word in words), (path, said)
            if re.match(r"""(?: -\S+)* ["'$]?\.""", said):
                found += 1
                inside = path.is_relative_to(ROOT / "gdatalog")
                assert not inside or path.name == "distribution.py", (path, said)
    assert found > 10


def test_the_other_package_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path / "lib", "0.3.6", "gdatalog/__init__.py", "gdatalog/cli.py")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    told = doctor.doctor()
    assert told.findings[1] == doctor.Finding(
        "other package",
        "gdatalog 0.3.6 is installed too: it and gdatalog-engine overwrite each other's files",
        CURE,
    )
    assert not told.well and cli.run(["--doctor"]) == 1


def test_a_clone_that_was_installed_under_the_former_name_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path / "lib", "0.2.0", "_gdatalog.pth", "../bin/gdatalog")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    assert distribution.beside() is None


@pytest.mark.parametrize("replaced", [True, False])
def test_the_doctor_works_where_our_files_were_replaced_or_removed(
    tmp_path: Path, replaced: bool
) -> None:
    """Both packages have an `__init__.py`: theirs is empty, and is deleted when it goes."""
    package = tmp_path / "gdatalog"
    package.mkdir()
    for path in (ROOT / "gdatalog").iterdir():
        if path.name not in ("__init__.py", "__pycache__"):
            (package / path.name).symlink_to(path)
    if replaced:
        (package / "__init__.py").touch()
    program = f"""
import os, sys
others = [path for path in sys.path if not os.path.exists(path + "/gdatalog/__init__.py")]
sys.path[:] = [{str(tmp_path)!r}, *others]
sys.argv[1:] = ["--doctor"]
from gdatalog.shell.start import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        env={"PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (1, "")
    assert lines[0].split() == ["gdatalog", distribution.VERSION]
    assert lines[1].startswith("files           another package has overwritten or removed some")
    assert lines[2].strip() == f"-> {CURE}"
    assert [line for line in lines if line.startswith("compiled query  works")]
