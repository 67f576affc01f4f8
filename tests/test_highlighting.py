"""The colours of what is typed: without a terminal."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from test_completion import KNOWN, texts

from gdatalog.parser.tokens import ENDS_OPERAND, STARTS_OPERAND
from gdatalog.shell.editor.highlighting import KINDS, Highlighter
from gdatalog.shell.editor.known import KnownNames
from gdatalog.shell.editor.toolkit import STYLES
from tests.cases import cases


def highlighter(text: str, known: KnownNames = KNOWN, checks: bool = True) -> Highlighter:
    made = Highlighter()
    made.known, made.checks = known, checks
    made.look(text)
    return made


def kinds(text: str, cursor: int = -1, checks: bool = True) -> dict[str, str]:
    """Each word, and what it is; of those that are there twice the last."""
    found = highlighter(text, checks=checks).stretches(0, len(text), cursor)
    return {text[start:end]: kind for start, end, kind in found if kind != "punctuation"}


def test_each_kind_of_word() -> None:
    text = (
        'p(x, sum(y)) <- E(x, y), not Q(y), y >= 3.5, s = "é", abs(x) in {1, $k}, wet,\n'
        "  t < @2020-01-01, b = true, n = count : {path(x, _)}, x band 1 != 0. // done"
    )
    assert kinds(text) == {
        "p": "relation", "x": "variable", "sum": "aggregate", "y": "variable", "<-": "arrow",
        "E": "relation", "not": "keyword", "Q": "unknown", ">=": "operator", "3.5": "number",
        "s": "variable", "=": "operator", '"é"': "string", "abs": "function", "in": "keyword",
        "1": "number", "$k": "parameter", "wet": "relation", "t": "variable", "<": "operator",
        "@2020-01-01": "number", "b": "variable", "true": "constant", "n": "variable",
        "count": "aggregate", "path": "relation", "_": "wildcard", "band": "operator",
        "!=": "operator", "0": "number", "// done": "comment",
    }  # fmt: skip
    assert set(kinds(text).values()) <= set(STYLES)


def test_directives_and_commands() -> None:
    text = ".decl e(a: int, b: Id) input\n.input e(IO=file)\n.read x.dl\n.nope\n.explain E(x).\n"
    assert kinds(text) == {
        ".decl": "directive", "e": "relation", "a": "column", "int": "type", "b": "column",
        "Id": "type", "input": "keyword", ".input": "directive", "IO": "option", "=": "operator",
        "file": "string", ".read": "command", " x.dl": "argument", ".nope": "wrong",
        ".explain": "command", "E": "relation", "x": "variable", "": "argument",
    }  # fmt: skip


def test_options_before_a_query() -> None:
    found = kinds(".explain --of path --passes E(x).\n")
    assert found["--of path "] == found["--passes "] == "argument" and found["E"] == "relation"


def test_a_relation_is_known_once_the_text_defines_it() -> None:
    assert kinds("?- new(x).")["new"] == "unknown"
    assert kinds("new(1).\n?- new(x).")["new"] == "relation"
    assert kinds("?- max(1, 2) = x.")["max"] == "aggregate"


def test_the_grammar_is_asked_when_a_statement_is_whole_or_left() -> None:
    wrong = "p(x) <- E(x,, y)"
    assert "wrong" not in kinds(wrong, len(wrong)).values()
    assert "wrong" in kinds(wrong + ".", len(wrong) + 1, checks=True).values()
    assert "wrong" not in kinds(wrong + ".", len(wrong) + 1, checks=False).values()
    two = f"e(1).\n{wrong}"
    assert "wrong" not in kinds(two, len(two)).values()
    assert "wrong" in kinds(two, 3).values()  # the cursor is in the first
    assert kinds("p(x) <- E(x, .")["("] == "wrong"


def test_a_word_is_not_wrong_while_it_is_typed() -> None:
    assert kinds('p("abc', 6)['"abc'] == "string"
    assert kinds('p("abc', 1)['"abc'] == "wrong"
    assert "==" not in kinds("x ==", 4)
    assert kinds("x == 2", 6)["=="] == "wrong"


def test_brackets_that_belong_together() -> None:
    text = 'p(x) <- E(x, "("), (q(x) ; {x}).'
    seen = highlighter(text)
    assert seen.pair(9) == (9, 16) == seen.pair(17) == seen.pair(16)
    assert seen.pair(22) == (21, 23) and seen.pair(30) == (19, 30)
    assert seen.pair(4) == (1, 3) and seen.pair(14) == ()
    assert highlighter("p(x").pair(1) == () and highlighter("p(x}").pair(1) == ()
    assert (9, 10, "pair") in list(seen.stretches(0, len(text), 9))


def test_every_token_has_a_style() -> None:
    plain = {"NAME", "LPAR", "AGGREGATE", "VALUES", "COMPARISONS"}
    assert (ENDS_OPERAND | STARTS_OPERAND) - plain - {"RPAR", "RBRACE"} <= set(KINDS)
    assert set(KINDS.values()) <= set(STYLES)


def stretches_of(seen: Highlighter, text: str) -> list[tuple[int, int, str]]:
    return list(seen.stretches(0, len(text)))


@settings(max_examples=cases(40), deadline=None)
@given(st.lists(texts, min_size=1, max_size=4), st.data())
def test_after_any_change_the_colours_are_those_of_the_text(pieces: list[str], data) -> None:
    text = "\n".join([*pieces, "e(1). f(2).\np(x) <- e(x).", *pieces])
    seen = highlighter(text)
    for _ in range(3):
        at = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(at, min(len(text), at + 6)))
        text = text[:at] + data.draw(texts) + text[end:]
        seen.look(text)
        found = stretches_of(seen, text)
        assert found == stretches_of(highlighter(text), text)
        assert all(start <= end for start, end, _ in found)
        assert all(one[1] <= after[0] for one, after in pairwise(found))
        seen.state(at)


def test_only_what_is_seen_is_looked_at() -> None:
    text = "".join(f"p{i}(x) <- E(x, y), y > {i}.\n" for i in range(2000))
    seen = highlighter(text)
    half = len(text) // 2
    around = list(seen.stretches(half, half + 200))
    assert 8 * 3 < len(around) < 200
    changed = text[:half] + " " + text[half:]
    before = seen._parts
    seen.look(changed)
    assert sum(one is other for one, other in zip(before, seen._parts, strict=False)) > 900
