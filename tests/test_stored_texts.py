"""Texts that an earlier process has parsed: Lark is not loaded, and the program is the same."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.errors import SourceText, Span
from gdatalog.parser import read_source, stored
from gdatalog.parser.stored import packed, unpacked

QUERIES = sorted((Path(__file__).parents[1] / "queries").glob("*.dl"))
TEXT = """
e(1, 2). e("a b", 2.5, @2020-01-01, true, -7).
.decl p(x: int, y: symbol) inline
.input a, b(IO=file, filename="x.csv", headers=true)
p(x, y) <- e(x, z), !e(z, y), (x < z <= y ; z in {1, 2, "ö"}), -x + 2 * y ^ 3 = as(z, T), inf > x.
q(x, n = count()) <- x in $list, x = max y : { e(y, _) }, y != $other.
x(y) <- y in {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}.
?- p(1, y)
"""
GRAMMAR = "gdatalog.parser.grammar"


def shape(node: Any, source: SourceText) -> Any:
    """A node with its places, which are all in its source."""
    if isinstance(node, Span):
        assert node.source is source
        return node.start, node.end
    if isinstance(node, tuple):
        return tuple(shape(part, source) for part in node)
    slots = getattr(node, "__match_args__", ())
    return type(node), *(shape(getattr(node, name), source) for name in slots), repr(node)


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forgets that Lark is loaded, as a new process would not know. The cache folder is empty."""
    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, GRAMMAR, import_module(GRAMMAR))  # put back in the end
    return lambda: void(sys.modules.pop(GRAMMAR, None))


def void(_: object) -> None:
    pass


def loaded() -> bool:
    return GRAMMAR in sys.modules


def read(text: str, bare: bool = False) -> Any:
    source = SourceText("<test>", text)
    program, cautions, errors = read_source(source, bare, stored=True)
    return shape(program.statements, source), [*map(str, cautions)], [*map(str, errors)]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.json") if path.is_file()]


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_statements_are_as_they_were(path: Path) -> None:
    source = SourceText(path.name, path.read_text(encoding="utf-8"))
    program, _, errors = read_source(source, False)
    assert not errors
    through = json.loads(json.dumps(packed(program.statements)))
    assert shape(unpacked(through, source), source) == shape(program.statements, source)


@pytest.mark.parametrize("text", [TEXT, "p(x) <- e(x),\n# a caution\ne(x).", "?- x in {1, 2}"])
def test_a_text_that_came_before_does_not_load_lark(
    begin: Callable[[], None], tmp_path: Path, text: str
) -> None:
    begin()
    first = read(text)
    assert loaded() and len(files(tmp_path)) == 1
    begin()
    assert read(text) == first and not loaded()
    read(text + " ")
    assert loaded()
    begin()
    assert read(text, bare=True)[0] and loaded()


def test_what_is_not_stored(begin: Callable[[], None], tmp_path: Path) -> None:
    long = "p(x) <- e(x)." + " " * stored.LONGEST
    for text in ("p(x) <- e(x. q(x) <- e(x).", long, "e(1). e(2)."):
        begin()
        read(text)
        assert loaded() == ("<-" in text)
    begin()
    read_source(SourceText("<test>", TEXT), False)
    read("p(x) <- e(x).")  # Lark is loaded: parsing is quicker
    assert not files(tmp_path)


def test_databases(begin: Callable[[], None], tmp_path: Path) -> None:
    text = "e(1, 2). p(x) <- e(x, _). ?- p(x)."
    with gd.connect(untrusted=True) as db:
        begin()
        assert db.query(text).fetchall() == [(1,)] and loaded()
    assert not files(tmp_path)
    for lark in (True, False):
        begin()
        with gd.connect() as db:
            assert db.query(text).fetchall() == [(1,)] and loaded() == lark
    program = tmp_path / "program.dl"
    program.write_text('.include "rules.dl"\n?- p(x).')
    (tmp_path / "rules.dl").write_text("p(x) <- x = 1.")
    for lark in (True, True, False):  # each process stores one text
        begin()
        with gd.connect() as db:
            db.run_file(str(program))
            assert loaded() == lark


@pytest.mark.parametrize("change", [b"", b"12 []", b"x", None])
def test_damaged_files_are_not_used(
    begin: Callable[[], None], tmp_path: Path, change: bytes | None
) -> None:
    begin()
    first = read(TEXT)
    (file,) = files(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b'"p"', b'"q"') if change is None else change)
    begin()
    assert read(TEXT) == first and loaded()
    assert file.read_bytes() == whole


def test_files_of_another_version_are_not_used(
    begin: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin()
    first = read(TEXT)
    monkeypatch.setattr(stored, "_version", lambda: ["other"])
    begin()
    assert read(TEXT) == first and loaded()


@pytest.mark.skipif(os.name != "posix", reason="needs permissions")
def test_files_that_others_could_write_are_not_used(
    begin: Callable[[], None], tmp_path: Path
) -> None:
    begin()
    read(TEXT)
    (tmp_path / "cache").chmod(0o777)
    begin()
    read(TEXT)
    assert loaded()


def test_few_files_are_kept(
    begin: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MOST_FILES", 4)
    for number in range(7):
        begin()
        read(f"p(x) <- e(x, {number}).")
    assert len(files(tmp_path)) <= 4
    begin()
    read("p(x) <- e(x, 6).")
    assert not loaded()
