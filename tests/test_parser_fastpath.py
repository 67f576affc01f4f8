"""The fast path for facts and the grammar agree: the same tree, spans included, or the same error.

`read_source` takes `fast=False` for this. Speed is checked too, with room for a busy machine.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog.errors import SourceText, Span
from gdatalog.parser import parse, read_source
from gdatalog.parser.fact_statements import one_by_one
from tests.cases import cases

# Pieces that facts are made of, and some that break them.
names = st.sampled_from(
    [
        "e",
        "edge",
        "E_1",
        "é",
        "a.b",
        "E'",
        "not",
        "inf",
        "true",
        "_",
        "_x",
        "in",
        "as",
        "p?",
        "count",
    ]
)
literals = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.integers(-99, 99).map(str),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(
        [
            '"a"',
            '"a b"',
            '"q\\"x"',
            '"\\q"',
            '"\\u00e9"',
            '"\\ud800"',
            '"open',
            '"//"',
            "true",
            "false",
            "inf",
            "-inf",
            "- 3",
            "1e3",
            "1.5e-3",
            "1.",
            ".5",
            "1_000",
            "0x1f",
            "42u",
            "1.5.2",
            "12ab",
            "x",
            "_",
            "$p",
            "@2026-11-20",
            "@2026-11-20T08:30:00.5",
            "@2026-11-20T08:30Z",
            "@2026-11-20T08:30+01:00",
            "@2026-13-01",
            "@2026",
            "1+2",
            "",
        ]
    ),
)
gaps = st.sampled_from(["", "", "", " ", "\t", "\n", " // c\n", "/* c */", "\r\n", "\n# c\n"])
ends = st.sampled_from([".", ".", ".", ".\n", " .\n", "", "..", ".x", ".5", ".\n.output e\n", "\n"])


@st.composite
def fact_texts(draw: Any) -> str:
    parts = [draw(gaps), draw(names), draw(gaps), "("]
    for at, literal in enumerate(draw(st.lists(literals, max_size=3))):
        parts += ["," if at else "", draw(gaps), literal, draw(gaps)]
    parts += [")", draw(ends)]
    return "".join(parts)


def spans(node: Any) -> list[tuple[str, int, int]]:
    """Every span below a node, in the order of its fields."""
    found = []
    if isinstance(node, tuple):
        for part in node:
            found += spans(part)
    elif hasattr(node, "__slots__") and not isinstance(node, Span):
        for name in node.__slots__:
            part = getattr(node, name)
            if isinstance(part, Span):
                found.append((type(node).__name__, part.start, part.end))
            else:
                found += spans(part)
    return found


def both_ways(text: str, bare: bool = False) -> None:
    source = SourceText("facts.dl", text)
    fast, fast_cautions, fast_errors = read_source(source, bare)
    slow, slow_cautions, slow_errors = read_source(source, bare, fast=False)
    assert [e.format() for e in fast_errors] == [e.format() for e in slow_errors]
    assert fast_cautions == slow_cautions
    statements = tuple(one_by_one(fast.statements))
    assert statements == slow.statements
    assert repr(statements) == repr(slow.statements)  # tells -0.0 from 0.0 and True from 1
    assert spans(statements) == spans(slow.statements)


@settings(max_examples=cases(400), deadline=None)
@given(st.lists(fact_texts(), min_size=1, max_size=3), st.booleans())
def test_the_fast_path_and_the_grammar_agree(texts: list[str], bare: bool) -> None:
    both_ways("".join(texts), bare)


@pytest.mark.parametrize(
    "text",
    [
        "e(1, 2). e(3,4).e(5,6).",
        "e(1, 2).e.x(3).",
        'name(-1, "a\\tb", 2.5, true, @2026-11-20).',
        "e(1)\n.output e\n",
        "e(1) .\n",
        "e(1).5",
        "e(1)..",
        "e(999999999999999999, 9999999999999999999).",
        "in(1). as(1, 2). count(1).",
        "-- no\ne(1).",
        "e(-0.0, -0).",
    ],
)
def test_examples_agree(text: str) -> None:
    both_ways(text)


def test_thousands_of_facts_and_rules() -> None:
    facts = [
        f"edge({at}, {at * 7 % 1000})." if at % 3 else f'name({at}, "n {at}", -{at}.5).'
        for at in range(20_000)
    ]
    assert len(parse("\n".join(facts)).statements) == 20_000
    rules = [
        f'r{at}(x, z+{at}) <- E{at}(x, y), E(y, z), !F(x, _), G(z, "a"), x < y < z.'
        for at in range(500)
    ]
    assert len(parse("\n".join(rules)).statements) == 500
