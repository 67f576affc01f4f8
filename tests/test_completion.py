"""What Tab offers, and how a text that is typed is cut: pure functions, without a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.parser.directive_words import DIRECTIVES
from gdatalog.plan.functions import FUNCTIONS
from gdatalog.shell.commands.settings import prompt_settings
from gdatalog.shell.editor.completion import complete, files_at
from gdatalog.shell.editor.known import KnownNames, look
from gdatalog.shell.editor.signatures import argument_at, signature
from gdatalog.shell.editor.statement_completion import Completion
from gdatalog.shell.typed import divide, parts_of, without_prompts
from tests.cases import cases

KNOWN = KnownNames(
    relations={
        "E": (("src", "int"), ("dst", "int")),
        "path": (("a", "int"), ("b", "int")),
        "reached": (("first name", "symbol"), ("minutes", "int")),
        "wet": (),
    },
    types=("Id",),
    params=("limit",),
    commands={
        "relations": ("", "all relations"),
        "read": ("FILE.dl", "run a program"),
        "load": ("[RELATION] FILE", "put a file into a relation"),
        "export": ("RELATION FILE", "write a relation"),
        "drop": ("RELATION ...", "drop them"),
        "explain": ("QUERY OR RULE", "how it would run"),
        "mode": ("[FORMAT]", "format of answers"),
        "set": ("[NAME [VALUE]]", "settings"),
        "help": ("[COMMAND]", "help"),
        "timer": ("[on|off]", "times"),
    },
    settings={"mode": ("box", "csv"), "strategy": ("auto", "lftj")},
)


def files(typed: str, ending: str) -> list[str]:
    names = ["data/", "edges.csv", "more edges.csv", "rules.dl"]
    return [n for n in names if n.startswith(typed) and n.endswith((ending, "/"))]


def offered(text: str, after: str = "") -> list[str]:
    return [found.text for found in complete(text + after, len(text), KNOWN, files)]


def first(text: str) -> Completion:
    return complete(text, len(text), KNOWN, files)[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # a statement begins
        ("", ["E(", "path(", "reached(", "wet", "?- "]),
        ("e(1). pa", ["path("]),
        ("PA", ["path("]),
        ("// E", []),
        ("/* E", []),
        # a body
        ("p(x) <- E(x, y), pat", ["path("]),
        ("p(x) <- ", ["E(", "path(", "reached(", "wet", "not ", "x"]),
        ("p(x) <- not pat", ["path("]),
        ("p(x) <- E(x, y), opt", ["optional "]),
        ("retr", ["retract "]),
        ("retract pat", ["path("]),
        ("retract path(x, _) ", ["where "]),
        ("retract path(x, _) where ab", ["abs("]),
        ("retract path(x, _) where E(x, y), pat", ["path("]),
        ("p(x) <- E(x, y), optional pat", ["path("]),
        ("p(x) <- E(x, y), optional { E(y, z), pat", ["path("]),
        ("p(x) <- E(x, y), y = nu", ["null"]),
        ("p(x) <- E(x, y), !(pat", ["path("]),
        ("p(long_name) <- E(x, lo", ["long_name", "log(", "lower("]),
        ("p(x) <- E(x, y), x < y, y = ab", ["abs("]),
        ("p(n) <- n = su", ["substr(", "sum"]),
        ("p(n) <- n = count : {pat", ["path("]),
        ("p(su", ["substr(", "sum("]),
        ("p(x, row", ["row_number("]),
        ("p(x) <- E(x, y) ", []),
        ("p(x) <- E(x, y)", []),
        ("?- E(x, y), x in ", []),
        ("p(x) E(x, y) ", []),
        ("p(x) <- x == ", []),
        ("p(x) <- E(x, y) z, ", ["E(", "path(", "reached(", "wet", "not ", "x", "y", "z"]),
        # arguments: the columns at their places
        ("?- E(", ["src, dst)", "src"]),
        ("?- E(s", ["src", "src = ", "second(", "seconds_between(", "split_part(", "sqrt(",
                    "starts_with(", "strlen(", "substr("]),
        ("?- E(x, ", ["dst", "x"]),
        ("?- E(x, y, ", ["x", "y"]),
        ("?- reached(", []),
        ("?- reached(n, ", ["minutes", "n"]),
        ("?- path(a, b), E(", ["src, dst)", "src", "a", "b"]),
        ("?- E(ds", ["dst = "]),
        ("?- E(dst = y, ", ["src = ", "y"]),
        ("?- E(x, dst = x), path(a = E, ", ["b = ", "x", "E"]),
        ("?- E(x, y) ", ["order by ", "limit ", "offset "]),
        ("?- E(x, y) order by x, ", ["x", "y"]),
        ("?- E(x, y) order by x de", ["desc "]),
        ("?- E(x, y) order by x desc limit 3 ", ["offset "]),
        # parameters
        ("?- E(x, y), x > $", ["limit"]),
        ("?- E(x, y), x > $li", ["limit"]),
        # directives
        (".in", ["input ", "include "]),
        (".input ", ["E", "path", "reached", "wet"]),
        (".input E(", ["IO=", "filename=", "delimiter=", "headers=", "columns=", "rfc4180="]),
        (".output E(IO=", ["file", "stdout"]),
        (".input E(headers=t", ["true"]),
        ('.input E("', ["data/", 'edges.csv")', 'more edges.csv")', 'rules.dl")']),
        ('.input E("ed', ['edges.csv")']),
        ('.input E(filename="ed', ['edges.csv"']),
        ('.input E(delimiter="', []),
        ('.include "', ["data/", 'rules.dl"']),
        ('?- p("ed', []),
        (".decl E(", ["src: int, dst: int)"]),
        (".decl pa", ["path("]),
        (".decl q(x: i", ["int"]),
        (".decl q(x: I", ["Id"]),
        (".decl q(x: int) inl", ["inline"]),
        (".type New <: s", ["symbol"]),
        # commands
        (".re", ["relations", "read "]),
        ("e(1).\n  .re", ["relations", "read "]),
        (".exp", ["export ", "explain "]),
        (".load ", ["E", "path", "reached", "wet", "data/", "edges.csv", '"more edges.csv"',
                    "rules.dl"]),
        (".load E e", ["edges.csv"]),
        (".load E mo", ['"more edges.csv"']),
        ('.load E "more e', ['more edges.csv"']),
        (".read ", ["data/", "rules.dl"]),
        (".export pa", ["path"]),
        (".drop E pa", ["path"]),
        (".mode ", ["box", "csv"]),
        (".mode box ", []),
        (".set ", ["mode", "strategy"]),
        (".set strategy l", ["lftj"]),
        (".timer o", ["on", "off"]),
        (".help re", ["relations", "read"]),
        (".explain p(x) <- E(x, y), pat", ["path("]),
        (".explain ?- path(", ["a, b)", "a"]),
        (".unknown E", []),
    ],
)  # fmt: skip
def test_what_is_offered(text: str, wanted: list[str]) -> None:
    assert offered(text) == wanted


def test_what_is_there_already_is_not_put_there_twice() -> None:
    assert offered("?- pat", "(1, x).") == ["path"]
    assert offered("?- E(x, ", ")") == ["dst", "x"]
    assert offered("?- E(", ")") == ["src, dst", "src"]
    assert offered(".input E(fil", '="x")') == ["filename"]


def test_the_rule_at_hand_goes_on_behind_the_cursor() -> None:
    assert offered("p(", ") <- E(from, to).") == ["from", "to"]


def test_where_it_goes_and_what_stands_beside_it() -> None:
    assert first("?- pa") == Completion("path(", 3, "path(a: int, b: int)", "path")
    assert first("?- E(1, d").about == "column 2 of E(src: int, dst: int)"
    assert first("?- x = subst").about.startswith("substr(symbol, int, int) -> symbol: a part")
    assert first(".rel") == Completion("relations", 1, "all relations", ".relations ")
    assert first('.load E "mo').start == len('.load E "')


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("?- E(", ("E(", "src: int", ", dst: int)")),
        ("?- E(x", ("E(", "src: int", ", dst: int)")),
        ("?- E(x, abs(y)", ("E(src: int, ", "dst: int", ")")),
        ("?- E(x, y, ", ("E(src: int, dst: int)", "", "")),
        ("?- substr(t, ", ("substr(symbol, ", "int", ", int) -> symbol")),
        ("?- x = cat(a, b, c, d, ", ("cat(symbol, symbol, ", "...", ") -> symbol")),
        ("?- E(x, y), ", None),
        ("?- (E(x, y), ", None),
        (".output E(", None),
        ("?- unknown(", None),
        ("", None),
    ],
)
def test_the_argument_at_hand(typed: str, wanted: tuple[str, str, str] | None) -> None:
    assert argument_at(typed, KNOWN) == wanted


def test_every_function_has_a_signature() -> None:
    for name in FUNCTIONS:
        assert "->" in signature(name)


def test_files(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.dl", ".hidden", "sub/c.dl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert files_at("") == ["a.csv", "b.dl", "sub/"]
    assert files_at("", ".dl") == ["b.dl", "sub/"]
    assert files_at(".") == [".hidden"]
    assert files_at("sub/") == ["sub/c.dl"]
    assert files_at(f"{tmp_path}/a") == [f"{tmp_path}/a.csv"]
    assert files_at("nowhere/") == []


def test_a_snapshot() -> None:
    with gd.connect() as db:
        db.load("E", [(1, 2), (2, 3)], columns=["src", "dst"])
        db.run(".type Id = int\npath(x, y) <- E(x, y), x < $most.", {"most": 5})
        known, status = look(db)
    assert known.relations["E"] == KNOWN.relations["E"]
    assert known.types == ("Id",) and known.params == ("most",)
    assert known.commands["load"][0] == "[NAME] FILE ..."
    assert known.settings["timer"] == ("on", "off") and "device" not in known.settings
    assert set(known.settings) < set(prompt_settings())
    assert (status.device, status.relations, status.rows) == ("cpu", 2, 2)


# ---------------------------------------------------------------------------------- cutting


def test_commands_and_what_stands_between_them() -> None:
    text = "e(1).\n\np(x) <-\n  e(x).\n.relations\n.explain p(x),\n  x > 1.\nq(1).\nquit\n"
    divided = divide(text)
    assert divided.pieces == (
        ("e(1).\n\np(x) <-\n  e(x).\n", False),
        (".relations", True),
        (".explain p(x),\n  x > 1.", True),
        ("\n\n\n\n\n\n\n\nq(1).\n"[1:], False),
        ("quit", True),
    )
    assert divided.end == len(text)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("e(1). p(x) <- e(x),", " p(x) <- e(x),"),
        ("e(1).\n.decl q(x: int", "\n.decl q(x: int"),
        ("e(1). /* not closed", " /* not closed"),
        ("e(1). // a comment", ""),
        (".relations", ""),
        (".explain p(x),", ".explain p(x),"),
        ("select * from e;", ""),
        ("select * from e", "select * from e"),
        ('e("not closed\n', ""),
    ],
)
def test_what_is_begun_is_not_sent(text: str, rest: str) -> None:
    assert text[divide(text).end :] == rest


def test_a_command_inside_a_statement() -> None:
    text = "p(x) <- e(x),\n.relations"
    assert divide(text, KNOWN.commands).begun
    assert divide("e(1).\n" + text, KNOWN.commands).pieces == (("e(1).", False),)
    assert not divide("p(x) <- e(x)\n.q(1).", KNOWN.commands).begun


def test_a_session_is_pasted() -> None:
    shown = "gdatalog> e(1,\n     ...>   2).\ne: 1 fact added, 1 tuple\ngdatalog> .relations\n"
    assert without_prompts(shown) == "e(1,\n  2).\n.relations"
    assert without_prompts("e(1).\n") == "e(1).\n"


WORDS = [
    "p(x)", " <- ", "E(", "x, y", ")", ".", ", ", "\n", ".relations", ".load E ", '"', "'", "/*",
    "*/", "//", "{", "}", "$", "$k", ": ", "count", "not ", "!", "?- ", ".input E(", "IO=", "é",
    "\ud800", "@2020-01-01", "0x", "..", "#", "<", "\t", ".explain ", "\\", "select ", ";",
    *(f".{name} " for name in DIRECTIVES),
]  # fmt: skip
texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=14).map("".join)


@settings(max_examples=cases(100), deadline=None)
@given(texts, st.integers(0, 60))
def test_nothing_that_is_typed_is_a_surprise(text: str, cursor: int) -> None:
    cursor = min(cursor, len(text))
    for found in complete(text, cursor, KNOWN, files):
        assert 0 <= found.start <= cursor and found.text
    argument_at(text[:cursor], KNOWN)
    parts = list(parts_of(text, KNOWN.commands))
    assert [part.start for part in parts] == [0, *(part.end for part in parts)][: len(parts)]
    assert all(part.start < part.end and part.begins <= part.end for part in parts)
    assert not parts or parts[-1].end == len(text)
    assert 0 <= divide(text, KNOWN.commands).end <= len(text)
