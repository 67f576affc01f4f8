"""The example notebooks run as they stand, and show what they are stored with."""

from __future__ import annotations

import copy
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nbclient", reason="needs nbclient, of the extra `dev`")
pytest.importorskip("matplotlib", reason="needs matplotlib, of the extra `dev`")

import nbformat

ROOT = Path(__file__).resolve().parent.parent
SPEC = spec_from_file_location("run_notebooks", ROOT / "examples" / "run_notebooks.py")
assert SPEC is not None and SPEC.loader is not None
RUNNER = module_from_spec(SPEC)
SPEC.loader.exec_module(RUNNER)
NOTEBOOKS: list[Path] = RUNNER.NOTEBOOKS


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> list[str]:
    """What a cell shows: the lines of its texts, for rows are in no order; of pictures, that
    they are there. Of a cell with the tag `varies`, such as one that tells times, how it begins.
    """
    varies = "varies" in cell.metadata.get("tags", ())
    found = []
    for output in cell.outputs:
        if output.output_type == "stream":
            found.append(f"{output.name}: {output.text}")
        elif "image/png" in output.data:
            found.append("a picture")
        elif varies:
            found += [kind for kind in sorted(output.data) if kind in ("text/plain", "text/html")]
        else:
            found += sorted(output.data["text/plain"].splitlines())
    return found


def cases() -> list[Any]:
    """All notebooks; each starts a kernel, so all but the first run with the slow tests."""
    marks = [(), *[(pytest.mark.slow,)] * (len(NOTEBOOKS) - 1)]
    return [
        pytest.param(path, id=path.stem, marks=mark)
        for path, mark in zip(NOTEBOOKS, marks, strict=True)
    ]


@pytest.mark.parametrize("path", cases())
def test_a_notebook_shows_what_is_stored(path: Path) -> None:
    stored = read(path)
    made = RUNNER.run(copy.deepcopy(stored))
    for before, after in zip(code(stored), code(made), strict=True):
        assert shown(after) == shown(before), f"python examples/run_notebooks.py {path.name}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_whole(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert path.stat().st_size < 300_000
    assert [cell.execution_count for cell in code(notebook)] == [
        number + 1 for number in range(len(code(notebook)))
    ]
    told = [line for cell in code(notebook) for line in shown(cell)]
    assert "a picture" in told and not any(line.startswith("stderr") for line in told)
    # no paths of the machine that ran it, no traces of runs
    text = path.read_text(encoding="utf-8")
    assert str(ROOT) not in text and "/tmp/" not in text and '"execution":' not in text
    links = re.findall(r"\]\((\w+\.ipynb)\)", text)
    assert links and all((path.parent / link).exists() for link in links)


def test_there_are_two() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["payment_rings", "social_network"]
