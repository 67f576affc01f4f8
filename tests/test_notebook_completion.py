"""What Tab offers in cells and lines of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gdatalog as gd

pytest.importorskip("IPython", reason="needs IPython, of the extra `dev`")

from IPython.core.completer import provisionalcompleter

from tests.cells import Cells


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    cells = Cells(tmp_path_factory.mktemp("ipython"))
    cells.run("%load_ext gdatalog")
    with gd.connect() as db:
        db.load("follows", [("ann", "bob"), ("bob", "cid")], columns=["who", "whom"])
        cells.variables.update(db=db, follows=db["follows"], given={"who": "ann"})
        cells.run("%datalog_db db")
        yield cells
    cells.close()


def complete(notebook: Cells, text: str) -> list[Any]:
    """What IPython offers at the end of a cell."""
    with provisionalcompleter():
        return list(notebook.shell.Completer.completions(text, len(text)))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # texts: relations, columns, functions, by the words of the language
        ("%%datalog\np(x) <- fol", ["follows("]),
        ("%%datalog\np(x) <- follows(", ["who, whom)", "who"]),
        ("%%datalog\nq(x) <- p(x).\np(n) <- follows(n, _), 3 = strl", ["strlen("]),
        ("%datalog ?- fol", ["follows("]),
        ("x = 1\nfew = %datalog --limit 3 ?- fol", ["follows("]),
        ("%datalog_explain fol", ["follows("]),
        ("%%datalog_profile\nfol", ["follows("]),
        # lines: options, what they may be set to, variables of the kind that is wanted
        ("%%datalog fans --str", ["--strategy"]),
        ("%%datalog --strategy l", ["lftj", "levelwise"]),
        ("%%datalog --params gi", ["given"]),
        ("%datalog --qu", ["--quiet"]),
        ("%datalog_load E fol", ["follows"]),
        ("%datalog_load E edg", ["edges.csv"]),
        ("%datalog_db d", ["db"]),
        ("%datalog_rules fol", ["follows"]),
        ("%datalog_set mag", ["magic_sets"]),
        ("%datalog_set magic_sets ", ["auto", "always", "never"]),
    ],
)
def test_completion(
    notebook: Cells,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    wanted: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text("1,2\n")
    found = complete(notebook, text)
    assert [one.text for one in found][: len(wanted)] == wanted
    assert all(one.text.startswith(text[one.start :]) for one in found)


@pytest.mark.parametrize(
    "text", ["%%datalog\np(x) <- imp", "%%datalog pri", "%datalog ?- follows(x, y), x = pri"]
)
def test_python_is_not_offered_in_datalog(notebook: Cells, text: str) -> None:
    assert [one.text for one in complete(notebook, text)] in (["imp"], ["pri"])


def test_completion_elsewhere_is_ipythons(notebook: Cells) -> None:
    for text in ("follows.colum", "%%time\nfollows.colum", "1 % follows.colum"):
        found = complete(notebook, text)
        assert "columns" in [one.text.removeprefix(".") for one in found], text


def test_a_closed_database_offers_nothing(notebook: Cells) -> None:
    with gd.connect() as other:
        notebook.variables["other"] = other
        notebook.run("%datalog_db other")
    assert [one.text for one in complete(notebook, "%datalog ?- fol")] == ["fol"]
    notebook.run("%datalog_db db")
    assert [one.text for one in complete(notebook, "%datalog ?- fol")] == ["follows("]
