"""Datalog in colours: every text has them, and they are those of the words that are read."""

from __future__ import annotations

import random
from importlib.metadata import entry_points

import pytest
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Error, Generic, Keyword, Name, Number, Operator, String, Text
from terminal import ROOT

from gdatalog.shell.editor.lexer import CellLexer, DatalogLexer, SessionLexer

INSTALLED = "gdatalog" in {point.name for point in entry_points(group="pygments.lexers")}
PROGRAMS = sorted((ROOT / "queries").glob("*.dl"))


def words(text: str, kind: object) -> list[str]:
    pieces = DatalogLexer().get_tokens_unprocessed(text)
    return [piece for _, found, piece in pieces if found in kind]  # type: ignore[operator]


def test_the_words_of_a_program() -> None:
    text = """.decl e(a: int, b: symbol) output  // pairs
        .input e(IO=file, filename="e.csv")
        p(x, count()) <- e(x, y), !e(y, _), not e(y, x), abs(x - 1) > 2, y in {"a", $b}.
        n = max(x, 3) ; m = sum z : { e(z, "b") }.  /* shut */"""
    keywords = [".decl", "int", "symbol", "output", ".input", "!", "not", "in"]
    assert words(text, Keyword) == keywords
    assert words(text, Name.Function) == ["e", "e", "p", "e", "e", "e", "e"]
    assert words(text, Name.Builtin) == ["count", "abs", "max", "sum"]
    assert words(text, Operator)[:4] == ["=", "=", "<-", "-"]
    assert words(text, String) == ["file", '"e.csv"', '"a"', '"b"']
    assert words(text, Name.Variable.Global) == ["$b"]
    assert words(text, Number) == ["1", "2", "3"]
    assert words(text, Comment) == ["// pairs", "/* shut */"]
    assert words("p(x) <- 'a'.", Error) == ["'a'"]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_nothing_is_lost(path: object) -> None:
    text = path.read_text(encoding="utf-8")  # type: ignore[attr-defined]
    pieces = list(DatalogLexer().get_tokens_unprocessed(text))
    assert "".join(piece for _, _, piece in pieces) == text
    assert not [piece for _, kind, piece in pieces if kind in Error]


def test_half_programs_and_wrong_ones_have_colours() -> None:
    """A text is cut anywhere, and pieces of it put together anyhow."""
    whole = "\n".join(path.read_text(encoding="utf-8") for path in PROGRAMS)
    draw = random.Random(1)
    for _ in range(300):
        cuts = sorted(draw.randrange(len(whole)) for _ in range(4))
        wrong = draw.choice("\"'({.\n#$/*?@")
        text = whole[cuts[0] : cuts[1]][:200] + wrong + whole[cuts[2] :][:99]
        for lexer in (DatalogLexer(), SessionLexer(), CellLexer()):
            at = 0
            for start, _, piece in lexer.get_tokens_unprocessed(text):
                assert start == at and piece
                at += len(piece)
            assert at == len(text)


def test_a_cell() -> None:
    pieces = CellLexer().get_tokens_unprocessed("%%datalog fans --show\np(x) <- e(x).")
    found = [(kind, piece) for _, kind, piece in pieces]
    assert found[:3] == [(Keyword, "%%datalog"), (Text, " fans --show\n"), (Name.Function, "p")]


def test_a_session() -> None:
    text = "$ gdatalog\ngdatalog> e(1).\ne: 1 fact added\n<input 1>:1:2: type error: no\n"
    text += "gdatalog> .load e f.csv\ngdatalog> .explain p(x).\ngdatalog> .decl d(x: int)\n"
    pieces = [(kind, piece) for _, kind, piece in SessionLexer().get_tokens_unprocessed(text)]
    assert [piece for kind, piece in pieces if kind is Generic.Prompt] == ["$ "] + 4 * [
        "gdatalog> "
    ]
    assert [piece for kind, piece in pieces if kind is Keyword] == [".load", ".explain", ".decl"]
    assert {(Text, " e f.csv"), (Name.Function, "p"), (Keyword.Type, "int")} <= set(pieces)
    assert (Name.Function, "e") in pieces
    assert (Generic.Error, "<input 1>:1:2: type error: no\n") in pieces


@pytest.mark.skipif(not INSTALLED, reason="gdatalog is not installed here, only found")
def test_pygments_finds_it() -> None:
    assert type(get_lexer_by_name("datalog")).__name__ == "DatalogLexer"
    assert type(get_lexer_by_name("gdatalog-console")).__name__ == "SessionLexer"
