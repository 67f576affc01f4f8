"""Every syntax error, shown whole: tests/fixtures/syntax_errors.txt holds texts and what is said.

Where a message is changed on purpose, GDATALOG_WRITE_FIXTURES=1 writes the file anew.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from gdatalog.errors import ParseError
from gdatalog.parser import (
    format_node,
    is_complete,
    parse,
    parse_with_cautions,
)
from gdatalog.parser.syntax import Program
from tests.cases import FUZZ
from tests.doc_fences import split_statements

FIXTURE = Path(__file__).with_name("fixtures") / "syntax_errors.txt"
RULER = "=" * 60 + "\n"


def said(text: str) -> str:
    try:
        parse(text, "test.dl")
    except ParseError as error:
        return str(error)
    return "no error"


CASES = [case.split("\n-->\n", 1) for case in FIXTURE.read_text("utf-8").split(RULER)]

if os.environ.get("GDATALOG_WRITE_FIXTURES"):
    FIXTURE.write_text(RULER.join(f"{text}\n-->\n{said(text)}\n" for text, _ in CASES), "utf-8")


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text[:40] for text, _ in CASES])
def test_what_is_said(text: str, expected: str) -> None:
    assert said(text) == expected.rstrip("\n")


def test_every_case_is_an_error() -> None:
    assert len(CASES) > 100
    assert not [text for text, expected in CASES if expected.startswith("no error")]


def test_all_errors_are_reported_together_and_the_rest_is_read() -> None:
    text = "p(1,).\nq(1).\nr(x) <- s(x) == 2.\n.dcl t\nu(2)\nv(3).\nw("
    with pytest.raises(ParseError) as caught:
        parse(text, "test.dl")
    assert [(error.span.line, error.span.column) for error in caught.value.all if error.span] == [
        (1, 4),
        (3, 14),
        (4, 1),
        (5, 5),
        (7, 2),
    ]


def test_a_comment_inside_a_statement_warns() -> None:
    text = "p(x) <- q(x),\n# really\n  r(x).\n# fine\n% fine\n.decl q(x: int)\n# fine\nq(3\n% 2)."
    with pytest.raises(ParseError):
        parse(text)
    _, cautions = parse_with_cautions(text.replace("q(3\n% 2)", "q(3)"), "test.dl")
    assert [caution.format() for caution in cautions] == [
        "test.dl:2:1: warning: this line is a comment, for it starts with `#`, "
        "but it is inside a statement\n"
        " 2 | # really\n   | ^^^^^^^^\n"
        "  hint: write `//` for a comment, or end the statement before it with a dot"
    ]
    _, (caution,) = parse_with_cautions("p(y) <- q(x), y = x\n%2\n.")
    assert caution.hint is not None
    assert "modulo" in caution.hint


def test_characters_that_cannot_be_seen_are_named() -> None:
    assert said("p(1).\u00a0") == (
        "test.dl:1:6: syntax error: the character U+00A0 means nothing here\n"
        " 1 | p(1).\u00a0\n   |      ^\n"
        "  hint: type a plain space"
    )
    assert said('p("\ud800").') == (
        "test.dl:1:4: syntax error: this is half of a character\n"
        ' 1 | p("\ufffd").\n   |    ^\n'
        "  hint: is the text read in the encoding that it is written in?"
    )


# ---------------------------------------------------------------------------------- nesting


@pytest.mark.parametrize(
    "text",
    [
        "p() <- x = " + "(" * 10_000 + "1" + ")" * 10_000 + ".",
        "p() <- x = " + "(" * 10_000,
        "p() <- " + "(" * 10_000 + "q()" + ")" * 10_000 + ".",
        "p() <- x = " + "1 + (2 * " * 10_000 + "1" + ")" * 10_000 + ".",
        "p() <- x = " + "^".join(["1"] * 10_000) + ".",
        "p() <- x = " + "-" * 10_000 + "y.",
        "p() <- " + "!" * 10_000 + "q().",
        "p() <- x = " + "f(" * 10_000 + "1" + ")" * 10_000 + ".",
        "p() <- x = " + "sum x : {" * 10_000 + "q(x)" + "}" * 10_000 + ".",
        "p() <- x = " + "sum 1 + " * 10_000 + "1" + ": q()" * 10_000 + ".",
        "p() <- x = " + "{(" * 10_000,
    ],
    ids=range(11),
)
def test_nesting_has_a_limit(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert "nested more than 200 deep" in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "p() <- x = " + "(" * 200 + "1" + ")" * 200 + ".",
        "p() <- x = " + "+".join(["1"] * 190) + ".",
        "p() <- " + "!" * 190 + "q().",
        "p() <- " + "q(), " * 20_000 + "r().",
        "p(" + "1, " * 5_000 + "1).",
        "p() <- x " + "< y" * 3_000 + ".",
    ],
    ids=range(6),
)
def test_what_the_limit_allows(text: str) -> None:
    program = parse(text)
    assert parse(format_node(program)) == program


@pytest.mark.slow
def test_many_missing_dots_end() -> None:
    with pytest.raises(ParseError) as caught:
        parse("p(x) <- q(x)\n" * 2_000)
    assert 10 < len(caught.value.all) <= 30


# ------------------------------------------------------------------------------------- fuzz

SEEDS = [
    "tr(x,y,z) <- E(x,y), E(y,z), E(x,z), x < y < z.\n?- tr(1, y, z), y != 3.",
    '.decl E(src: int, dst: symbol) input btree\n.type A = B | C\n.input E("a.csv", x="1")\n'
    'E(1, "a\\tb"). E(-2, "c").\n.output tr\n.include "lib.dl"\n.pragma "a" "b"\n.plan 0:(1,2)',
    "n(c, x) :- X(x), c = count : { X(m), m < x }, !Y(x, _) ; x in {1, 2.5, 0xff}, x<-3.",
    "f(x, 2*sum(y)+1) <- a.b'(x, y), (c(x) ; !(d(y), e(_))), 2*max s : R(s) + 1 = -2^2.\n"
    "# comment\n/* more */ p() <- t = @2026-11-20T08:30:00.5, y = $start land bnot x.",
]
PIECES = [*"(){}[],.;:|!=<>+-*/%^'\"\\@$#&_ \n", "<-", ":-", "?-", ".decl ", "count : ", "not "]
PIECES += ["in", "1.5", "/*", "//", "\n#", "\n.input ", "é", "\0", "x", "(" * 300, "\ud800"]


def mutated(rng: random.Random) -> str:
    text = rng.choice(SEEDS)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(text) + 1)
        to = min(len(text), at + rng.randint(1, 4))
        match rng.randrange(4):
            case 0:
                text = text[:at] + text[to:]
            case 1:
                text = text[:at] + rng.choice(PIECES) + text[at:]
            case 2:
                text = text[:at] + text[at:to][::-1] + text[to:]
            case _:
                text = text[:at] + rng.choice(SEEDS)[at:to] + text[at:]
    return text


@pytest.mark.drawn
def test_mutated_programs_end_in_a_program_or_a_syntax_error() -> None:
    rng = random.Random(20261120)
    for _ in range(FUZZ):
        text, bare = mutated(rng), rng.random() < 0.5
        assert is_complete(text) in (True, False)
        assert all(piece in text for piece in split_statements(text))
        try:
            program = parse(text, bare=bare)
        except ParseError as error:
            assert str(error)
            assert all(e.span is not None and e.message for e in error.all), text
        else:
            assert isinstance(program, Program)
            assert parse(format_node(program), bare=bare) == program, text
