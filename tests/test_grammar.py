"""Lark reads statements, with tables that it keeps in the user's cache folder."""

from __future__ import annotations

from pathlib import Path

import lark
import lark.lark
import pytest

from gdatalog.errors import SourceText
from gdatalog.parser import builder, grammar
from gdatalog.parser.failure import Failure
from gdatalog.parser.scanner import scan
from gdatalog.parser.tokens import Token

TEXT = "p(x, y) <- e(x, z), !e(z, y), x < z <= y ; z in {1, 2}, -x + 2 * y ^ 3 = z"


def tokens(text: str) -> list[Token]:
    return scan(SourceText("<test>", text), 0).tokens


def started() -> object:
    """What a process that starts now reads."""
    grammar.parser.cache_clear()
    return grammar.build(tokens(TEXT))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the tables; it is not there yet."""
    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "grammar"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An element for each time that tables are made."""
    times: list[int] = []
    load = lark.lark.load_grammar

    def count(*given: object) -> object:
        times.append(1)
        return load(*given)

    monkeypatch.setattr(lark.lark, "load_grammar", count)
    return times


def test_every_rule_has_its_function() -> None:
    for rule in grammar.parser().rules:
        name = rule.alias or rule.origin.name
        alone = rule.options.expand1 and len(rule.expansion) == 1
        assert alone or name.startswith("_") or callable(getattr(builder, name)), rule


def test_the_tables_are_made_once(folder: Path, made: list[int]) -> None:
    first = started()
    (tables,) = folder.iterdir()
    assert lark.__version__ in tables.name and len(made) == 1
    assert started() == first and len(made) == 1
    assert [*folder.iterdir()] == [tables]


def test_tables_of_another_lark_or_grammar_are_made_again(
    folder: Path, made: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = started()
    other = tmp_path / "grammar.lark"
    other.write_text(grammar.GRAMMAR.read_text("utf-8").replace("?literal", "// more\n?literal"))
    with monkeypatch.context() as changed:
        changed.setattr(grammar, "GRAMMAR", other)
        assert started() == first and len(made) == 2
    with monkeypatch.context() as changed:
        changed.setattr(lark, "__version__", "0.9")  # the file has the name of this version
        assert started() == first and len(made) == 3
    assert started() == first and len(made) == 4
    assert started() == first and len(made) == 4


@pytest.mark.parametrize("length", [0, 70, 5000])
def test_damaged_tables_are_made_again(
    folder: Path, made: list[int], capfd: pytest.CaptureFixture[str], length: int
) -> None:
    first = started()
    (tables,) = folder.iterdir()
    tables.write_bytes(tables.read_bytes()[:length])
    assert started() == first and len(made) == 2
    assert started() == first and len(made) == 2
    assert capfd.readouterr() == ("", "")


def test_without_a_folder_each_process_makes_them(
    tmp_path: Path,
    made: list[int],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("GDATALOG_CACHE", str(file / "cache"))
    assert started() == started() and len(made) == 2
    assert [*tmp_path.iterdir()] == [file]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "at"),
    [("p(x) <- q(x", 8), ("p(x) <- ", 5), ("p(x) q(x)", 4), ("<- p(x)", 0), ("p(x) <- q(x),", 10)],
)
def test_where_a_statement_fails(text: str, at: int) -> None:
    failure = grammar.build(tokens(text))
    assert isinstance(failure, Failure) and failure.at == at
