"""Mutated programs end in an answer or in a `gd.Error`, never in anything else, and they end.

Programs from `queries/`, the examples and the generator, with tokens or characters left out,
doubled, swapped or taken from another program. How many is GDATALOG_FUZZ (300); with
GDATALOG_SEED=random they are others in every run. A number that fails is run again by
`attempt(number)`.
"""

from __future__ import annotations

import os
import re
import time
from functools import cache
from pathlib import Path
from random import Random, SystemRandom
from threading import Timer
from typing import Any

import pytest

import gdatalog as gd
from tests.cases import FUZZ
from tests.corners import CORNERS
from tests.draw import PROFILES, drawn
from tests.examples import EXAMPLES
from tests.test_engine_oracle import frame

pytestmark = pytest.mark.filterwarnings("ignore")

FIRST = SystemRandom().randrange(1 << 60) if os.environ.get("GDATALOG_SEED") == "random" else 0
ROUNDS = 50  # of a recursion that may never end
SECONDS = 5.0  # then a query is interrupted
STUCK = 60.0  # nobody listened

TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|[\w?$@]+|<-|:-|\?-|<=|>=|!=|\s+|.', re.S)
CHARACTERS = " \t\n\0aZ_09.,;:()[]{}<>=!?-+*/%^\"'\\$@#&|~é\u2028\ud7ff🙂"
WORDS = ["not", "true", "inf", "_", "0", "-1", "9223372036854775807", "1e308", '""', "count",
         "min", "sum", "range", "distinct", "in", "x", "to_number", "match", "/", "%", "^", "<-",
         "?-", ".", "!", ";", ".decl", ".input", ".limitsize", "$p", "@2026-01-01",
         "null", "optional", "retract", "where"]  # fmt: skip
VALUES = {
    "number": ["0", "1", "2", "7", "9223372036854775807", "0.5", '"a"'],
    "text": ['""', '"a"', '"("', '"%"', '"1"', "1"],
    "comparison": ["=", "!=", "<", "<=", ">", ">="],
    "operator": ["+", "-", "*", "/", "%", "^"],
}

Data = dict[str, tuple[tuple[str, ...], list[Any]]]
QUERIES = Path(__file__).parent.parent / "queries"
EDGES: Data = {
    name: (("int", "int"), [(1, 2), (2, 3), (1, 3), (3, 1), (4, 4)]) for name in ("E", "F", "edge")
}


@cache
def shipped() -> list[tuple[str, Data]]:
    """Whole programs: those of `queries/`, of the corners and of the examples."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(QUERIES.glob("*.dl"))]
    files = [(re.sub(r"(?m)^\.(in|out)put.*$", "", text), EDGES) for text in texts]
    return files + [(example.program, example.data) for example in CORNERS + EXAMPLES]


def program(random: Random) -> tuple[str, Data]:
    if random.random() < 0.6:
        return random.choice(shipped())
    found = drawn(random.randrange(1 << 32), PROFILES[random.choice(list(PROFILES))])
    return found.text, found.data


KINDS = {
    "name": re.compile(r"[^\W\d]\w*"),
    "number": re.compile(r"\d+"),
    "text": re.compile(r'".*'),
    "comparison": re.compile(r"[<>=!]=?"),
    "operator": re.compile(r"[-+*/%^]"),
}


def kind_of(token: str) -> str:
    return next((kind for kind, form in KINDS.items() if form.fullmatch(token)), token)


def mutated(text: str, random: Random) -> str:
    """The text with one to four things changed; mostly such that it can still be parsed."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if random.random() < 0.1:
            at = random.randrange(len(text) + 1)
            kept = at if random.random() < 0.5 else at + 1
            text = text[:at] + random.choice((*CHARACTERS, "")) + text[kept:]
            continue
        tokens = TOKEN.findall(text)
        solid = [at for at, token in enumerate(tokens) if not token.isspace()]
        if len(solid) < 2:
            continue
        at, other = random.choice(solid), random.choice(solid)
        if random.random() < 0.75:
            # a variable or a relation gets another's name, a number another's value...
            named = [at for at in solid if kind_of(tokens[at]) in KINDS] or solid
            at = random.choice(named)
            alike = [of for of in solid if kind_of(tokens[of]) == kind_of(tokens[at])]
            other = random.choice(alike)
            if random.random() < 0.5:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            else:
                tokens[at] = random.choice(VALUES.get(kind_of(tokens[at]), [tokens[other]]))
        else:
            change = random.randrange(5)
            if change == 0:
                tokens[at] = ""
            elif change == 1:
                tokens[at] += " " + tokens[at]
            elif change == 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            elif change == 3:
                tokens[at] = random.choice(WORDS)
            else:
                tokens[at] += f" {random.choice(WORDS)} "
        text = "".join(tokens)
    return text


class _TooLong(gd.Interrupted):
    """There have been enough rounds."""


def _enough(progress: gd.Progress) -> None:
    if (progress.round or 0) > ROUNDS:
        raise _TooLong("enough")


def run(text: str, data: Data) -> str:
    """What becomes of a program; whatever is not an answer or a `gd.Error` comes out."""
    db = gd.connect(memory_limit="4MiB", files="none")
    for name, (types, rows) in data.items():
        db[name] = frame(types, rows)
    timer = Timer(SECONDS, db.interrupt)
    timer.start()
    became = "answers"
    try:
        for ask in (lambda: db.query(text, {"p": 1}, on_progress=_enough), lambda: kept(db, text)):
            try:
                ask()
            except gd.Error as error:
                assert str(error) and all(part.message for part in error.all)
                became = type(error).__name__
    finally:
        timer.cancel()
    return became


def kept(db: gd.Database, text: str) -> None:
    db.run(text, {"p": 1}, on_progress=_enough)
    for name in db.relations:
        db.query(f"?- {name}.", limit=3, on_progress=_enough).fetchall()


def attempt(number: int) -> tuple[str, str]:
    random = Random(number)
    text, data = program(random)
    text = mutated(text, random)
    started = time.perf_counter()
    try:
        became = run(text, data)
    except Exception as error:
        raise AssertionError(f"number {number}: {type(error).__name__}\n{text}\n{data}") from error
    assert time.perf_counter() - started < STUCK, f"number {number} took long\n{text}\n{data}"
    return became, text


def test_mutated_programs() -> None:
    became: dict[str, int] = {}
    for number in range(FIRST, FIRST + FUZZ):
        what, _ = attempt(number)
        became[what] = became.get(what, 0) + 1
    # Most are wrong, each in its way, and some are right.
    assert became.get("answers", 0) > FUZZ // 20 and len(became) > min(4, FUZZ // 20), became


@pytest.mark.parametrize("depth", [100, 3000])
@pytest.mark.parametrize(
    ("opening", "middle", "closing"),
    [("(", "1", ")"), ("!", "E(1, 2)", ""), ("-", "1", ""), ("1 + ", "1", ""), ("(", "", "")],
)
def test_deep_programs(opening: str, middle: str, closing: str, depth: int) -> None:
    text = opening * depth + middle + closing * depth
    whole = f"p(x) <- {text}, E(x, _)." if "E" in middle else f"p(x) <- x = {text}."
    run(whole, EDGES)
