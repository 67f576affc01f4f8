"""The tables of the parser are those of the grammar, and are walked as Lark walks its own."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from gdatalog.errors import ParseError, SourceText
from gdatalog.parser import RULES, UnexpectedError, build, builder
from gdatalog.parser.scanner import scan
from gdatalog.parser.tokens import Token
from tests.parser_tables import TABLES, lark_of, made

pytest.importorskip("lark", reason="the extra `dev` has it")

STATEMENTS = """
edge(1, 2).
p(x, y) <- edge(x, z), !edge(z, y), x < z <= y, z in {1, 2, x}, -x + 2 * y ^ 3 = z.
q(x, count : { p(x, _) }) <- p(x, _) ; edge(x, $other), (p(x, x), edge(_, x)).
?- s = sum x : { edge(x, y), x in $list }, f(a = 1, b = "text", c = @2020-01-01).
m(x) <- x = max y : p(_, y).
.decl a, b(x: int, y: symbol) brie inline
.decl none()
.type T <: int
.type U = int | float
.input a, b(IO=file, filename="x.csv", headers=true)
.output a
.include "x.dl"
.pragma "a" "b"
"""


def statements() -> list[list[Token]]:
    found, at = [], 0
    while at < len(STATEMENTS):
        scanned = scan(SourceText("<test>", STATEMENTS), at)
        at = scanned.end
        if scanned.tokens:
            found.append(scanned.tokens)
    return found


def test_the_tables_are_those_of_the_grammar() -> None:
    assert TABLES.read_text(encoding="utf-8") == made(), "python tests/parser_tables.py --write"


def test_every_rule_has_its_function() -> None:
    assert {rule[2] for rule in RULES} - {""} <= set(dir(builder))


def _lark_s(lark: Any, tokens: list[Token]) -> Any:
    """What Lark builds; where it stops, its index; or an error of the builder."""
    from lark.exceptions import UnexpectedToken

    given = [SimpleNamespace(**_parts(token), token=token) for token in tokens]
    try:
        return lark.parse(given)
    except UnexpectedToken as unexpected:
        return next((at for at, each in enumerate(given) if each is unexpected.token), len(tokens))
    except (ParseError, AttributeError) as error:
        return str(error)


def _parts(token: Token) -> dict[str, Any]:
    """A token with what Lark asks the last one for."""
    asked = ("start_pos", "end_pos", "line", "column", "end_line", "end_column")
    own = {name: getattr(token, name) for name in (*Token.__slots__, "span", "text")}
    return own | dict.fromkeys(asked)


def _ours(tokens: list[Token]) -> Any:
    given: Any = [SimpleNamespace(**_parts(token), token=token) for token in tokens]
    try:
        return build(given)
    except UnexpectedError as unexpected:
        return unexpected.at
    except (ParseError, AttributeError) as error:
        return str(error)


def test_lark_builds_the_same() -> None:
    """Of statements, and of statements with words taken out, doubled and exchanged."""
    lark = lark_of(builder)
    drawn = random.Random(7)
    whole = statements()
    assert len(whole) == STATEMENTS.count("\n") - 1
    cases = [*whole]
    for tokens in whole * 40:
        changed = [*tokens]
        for _ in range(drawn.choice((1, 1, 2))):
            at = drawn.randrange(len(changed))
            other = drawn.choice(drawn.choice(whole))
            changed[at : at + 1] = drawn.choice(([], [changed[at]] * 2, [other]))
            changed = changed or [other]
        cases.append(changed)
    stopped = 0
    for tokens in cases:
        ours = _ours(tokens)
        stopped += isinstance(ours, int)
        assert repr(ours) == repr(_lark_s(lark, tokens)), tokens
    assert 100 < stopped < len(cases) - 50
    assert not any(isinstance(_ours(tokens), (int, str)) for tokens in whole)
