"""Patterns of strangers' texts: matched in linear time, or refused."""

from __future__ import annotations

import re
from random import Random

import pytest

import gdatalog as gd
from gdatalog.cpu_ops.linear_match import LinearPattern, linear
from tests.test_fuzz_programs import FIRST, FUZZ

HOSTILE = ["(a+)+$", "(a|a)*b", "(a|aa)+b", "(.*a){20}b", "(a*)*b", "([a-z]+)*1", "(x+x+)+y"]


@pytest.fixture
def db() -> gd.Database:
    return gd.connect(untrusted=True)


@pytest.mark.parametrize("pattern", HOSTILE)
def test_no_pattern_explodes(db: gd.Database, pattern: str) -> None:
    db["t"] = ["a" * n + "!" for n in (1, 30, 1_000, 100_000)] + ["x" * 50_000, "a"]
    for _ in range(2):
        got = db.query("?- t(x), match($p, x).", {"p": pattern}).fetchall()
        assert got == ([("a",)] if pattern == "(a+)+$" else [])


def test_patterns_come_from_data_too(db: gd.Database) -> None:
    db["p"] = [*HOSTILE, "a.*", "(?=a)a*"]
    db["t"] = ["a" * 40 + "!", "c"]
    with pytest.warns(gd.ProgramWarning, match=r"\(an untrusted pattern may not use lookaround\)"):
        got = db.query("m(p, t) <- p(p), t(t), match(p, t).").fetchall()
    assert got == [("a.*", "a" * 40 + "!")]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a)\1", "a backreference"),
        (r"(a)?(?(1)b)", "a backreference"),
        ("a(?=b)b", "lookaround"),
        ("(?<!a)b", "lookaround"),
        ("(?>a+)b", "an atomic group"),
        ("a++b", "a possessive repetition"),
        ("a{1001}", "a repetition of more than 1,000"),
        (r"\bab\b", r"`\b` without `(?a)`"),
        (r"a\Bb", r"`\B`"),
        ("(a$\n)?b", "`$` but at its end"),
        ("((a{1,99}){1,99}){1,99}", "it is too large"),
        (r"\w{1000}", "it is too large"),
        ("a" * 1_001, "at most 1,000 characters"),
        ("(", "missing )"),
    ],
)
def test_patterns_that_are_refused(db: gd.Database, pattern: str, why: str) -> None:
    db["t"] = ["ab"]
    with pytest.warns(gd.ProgramWarning) as caught:
        assert not db.query("?- t(x), (match($p, x) ; !match($p, x)).", {"p": pattern})
    assert why in str(caught[0].message) and len(caught) == 1


def test_long_texts_need_short_patterns(db: gd.Database) -> None:
    db["t"] = ["ab" * 400_000]
    assert db.query('?- t(x), match("(ab)*", x).')
    with pytest.raises(gd.EvaluationError, match="800,000 characters is too long for `match`"):
        db.query('?- t(x), match(".*a[ab]{900}", x).')


def drawn_pattern(random: Random, depth: int = 0) -> str:
    kind = random.random()
    if depth > 3 or kind < 0.45:
        return random.choice(PIECES)
    if kind < 0.6:
        return drawn_pattern(random, depth + 1) + drawn_pattern(random, depth + 1)
    inner = drawn_pattern(random, depth + 1)
    if kind < 0.7:
        return f"(?:{inner}|{drawn_pattern(random, depth + 1)})"
    if kind < 0.78:
        return f"({inner})"
    if kind < 0.95:
        return f"(?:{inner}){random.choice(REPEATS)}"
    return f"{random.choice(GROUPS)}{inner})"


PIECES = [
    "a", "b", "1", "é", "ß", "İ", "K", "ſ", "s", "k", "中", r"\n", ".", r"\d", r"\w", r"\s", r"\W",
    r"\S", r"\D", "[a-c]", "[^a]", r"[\w-]", r"[^\s\d]", "[A-Z]", "[é-ü]", r"\.", "^", "$", r"\A",
    r"\Z", "_", "-", "[]a]", r"[^\W\d]", r"\x41", r"\u0130", r"\B", "[K-s]", "[^A-Z]", r"\b", "",
    " ", "\n",
]  # fmt: skip
REPEATS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "*?", "+?", "??", "{,2}"]
GROUPS = ["(?i:", "(?s:", "(?m:", "(?a:", "(?-i:", "(?=", "(?!"]
FLAGS = ["", "", "", "", "(?i)", "(?s)", "(?m)", "(?a)", "(?x)", "(?ia)"]


def test_both_engines_agree() -> None:
    compared = 0
    for seed in range(FIRST, FIRST + 2 * FUZZ):
        random = Random(seed)
        pattern = random.choice(FLAGS) + drawn_pattern(random)
        texts = ["".join(random.choices("ab1 éßİKſsk中\n.A_-zıIiÉ", k=k)) for k in (0, 1, 2, 3, 6)]
        found = linear(pattern)
        try:
            pythons = re.compile(pattern)
        except re.error:
            assert isinstance(found, str), pattern
            continue
        if isinstance(found, LinearPattern):
            compared += 1
            matched = [pythons.fullmatch(text) is not None for text in texts]
            assert found.full_matches(texts) == matched, (seed, pattern, texts)
    assert compared > FUZZ
