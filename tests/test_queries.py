"""The programs under queries/ give what plain Python and networkx say they must."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import gdatalog as gd
from gdatalog.parser import parse
from gdatalog.parser.syntax import Query
from gdatalog.storage.as_text import cell_texts

ROOT = Path(__file__).parent.parent
QUERIES = ROOT / "queries"
PROGRAMS = sorted(path.stem for path in QUERIES.glob("*.dl"))

Answers = list[tuple[str, list[list[str]]]]  # of each query: the names of its columns, its rows


def _cell(text: str) -> str:
    """A cell without the last digits of a float, which depend on the order of a sum."""
    try:
        return f"{float(text):.12g}" if "." in text else text
    except ValueError:
        return text


def _answers(text: str) -> Answers:
    """What a pipe got: a block for each answer, whose rows come in any order."""
    answers: Answers = []
    for block in text.split("\n\n"):
        header, *rows = block.rstrip("\n").split("\n")
        answers.append((header, sorted([_cell(cell) for cell in row.split("\t")] for row in rows)))
    return answers


def _expected(name: str) -> Answers:
    return _answers((QUERIES / "expected" / f"{name}.txt").read_text(encoding="utf-8"))


def _asked(path: Path) -> list[str]:
    program = parse(path.read_text(encoding="utf-8"), str(path))
    queries = [item.span for item in program.statements if isinstance(item, Query)]
    return [span.source.text[span.start : span.end] for span in queries]


def _text(result: gd.Result) -> str:
    table = result.table()
    columns = [cell_texts(kind, col) for kind, col in zip(table.types, table.columns, strict=True)]
    lines = [result.columns, *zip(*columns, strict=True)]
    return "".join("\t".join(line) + "\n" for line in lines)


def _script(name: str) -> ModuleType:
    spec = spec_from_file_location(name, QUERIES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("error::gdatalog.ProgramWarning")
def test_from_python(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # its data lies beside the program, wherever one stands
    path = QUERIES / f"{name}.dl"
    with gd.connect() as db:
        db.run_file(path)
        texts = [_text(db.query(query)) for query in _asked(path)]
    assert _answers("\n".join(texts)) == _expected(name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["triangles", "money_flow"])
def test_from_the_command_line(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gdatalog", os.path.relpath(QUERIES / f"{name}.dl", tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert _answers(done.stdout) == _expected(name)


def test_every_program_says_what_it_answers() -> None:
    assert len(PROGRAMS) >= 12
    for name in PROGRAMS:
        first = (QUERIES / f"{name}.dl").read_text(encoding="utf-8").split("\n\n")[0]
        assert first.startswith("// ") and first.splitlines()[0].endswith("?"), name


def test_the_data_is_what_its_generator_makes(tmp_path: Path) -> None:
    script = _script("make_data")
    script.make(tmp_path)
    for name in script.FILES:
        assert (tmp_path / name).read_bytes() == (QUERIES / "data" / name).read_bytes(), name


def test_the_answers_are_what_plain_python_computes(tmp_path: Path) -> None:
    _script("make_expected").make(tmp_path)
    assert sorted(path.stem for path in tmp_path.iterdir()) == PROGRAMS
    for name in PROGRAMS:
        text = (tmp_path / f"{name}.txt").read_text(encoding="utf-8")
        assert _answers(text) == _expected(name), name
