"""The depth-first executor against the oracle: every way to intersect, every kind of plan.

The printed loops are run by Python itself (`interpreted.py`), so that no plan waits for a
compiler; a few are compiled, to see that Numba takes the same texts. Blocks of a few rows make
nearly every task go on where the one before was cut off.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import gdatalog
from gdatalog.codegen.helpers import lists
from gdatalog.executors import lftj
from gdatalog.parser import parse
from gdatalog.printer import reuse
from gdatalog.settings import Strategy
from tests import test_engine_oracle as oracle
from tests.cases import share
from tests.corners import CORNERS, Example
from tests.draw import Drawn, check_drawn
from tests.examples import EXAMPLES
from tests.interpreted import interpreted
from tests.oracle_values import canonical

pytestmark = [
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

WAYS = ("auto", "recode", "mark", "merge", "leapfrog", "plain")


def run(text: str, data: oracle.Data, defined: set[str], number: int) -> oracle.Relations:
    """The answers; the number chooses threads, the way to intersect, rows of a block, and how rows
    of a group are told apart."""
    strategy: Strategy = "lftj"
    with gdatalog.connect(device="cpu", threads=1 + number % 2) as db:
        db.workspace.force(strategy=strategy, intersect=WAYS[number % len(WAYS)])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lftj, "FIRST_ROOM", (1, 2, 7, 4096)[number % 4])
            if number % 2:  # what roots hold is fetched, however small they are
                patch.setattr(reuse, "FAR", 1)
                patch.setattr(lists, "AHEAD", 1)
            # However few groups there are, their rows are told apart one by one; and plans begin
            # with variables of the head for that.
            bits = 0 if number % 3 else 23
            db.workspace.tune(groups_from=number % 5, group_bitmap_bits=bits)
            rows = 0 if number % 5 < 3 else 100_000
            db.workspace.tune(grouped_from=rows, grouped_least=0)
            return oracle.answers(db, text, data, defined)


@pytest.fixture(scope="module", autouse=True)
def not_compiled() -> Iterator[None]:
    with interpreted():
        yield


def agrees(drawn: Drawn) -> None:
    oracle.agrees_in(run, drawn)


@pytest.mark.drawn
@pytest.mark.parametrize(
    ("profile", "percent"),
    [
        ("programs", 12),
        ("graph", 8),
        ("relational", 6),
        ("recursive", 2),
        ("aggregate", 8),
        ("string", 4),
        ("null", 4),
        ("optional", 8),
    ],
)
def test_programs(profile: str, percent: int) -> None:
    check_drawn(profile, share(percent), agrees)


@pytest.mark.parametrize(
    ("example", "number"),
    [
        # As the engine chooses, and one way that is forced; another one is a slow test.
        pytest.param(example, number, id=f"{example}-{way}", marks=marks)
        for at, example in enumerate(CORNERS + EXAMPLES)
        for number, way in enumerate(WAYS)
        for marks in [() if number in (0, 1 + at % 5) else pytest.mark.slow]
        if number in (0, 1 + at % 5, 1 + (at + 2) % 5)
    ],
)  # fmt: skip
def test_example(example: Example, number: int) -> None:
    if example.fails:
        with pytest.raises(gdatalog.EvaluationError):
            run(example.program, example.data, oracle._heads(example), number)
        return
    found = run(example.program, example.data, set(example.expected), number)
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }


# ---------------------------------------------------------------------------- dense patterns

# Every pair of six vertices may be adjacent: all kinds of lists meet in a small graph.
PATTERNS = {
    "triangle": "E(a,b), E(a,c), E(b,c)",
    "K4": "E(a,b), E(a,c), E(a,d), E(b,c), E(b,d), E(c,d)",
    "K5": "E(a,b), E(a,c), E(a,d), E(a,e), E(b,c), E(b,d), E(b,e), E(c,d), E(c,e), E(d,e)",
    "diamond": "E(a,b), E(a,c), E(a,d), E(b,c), E(b,d)",
    "P3": "E(a,b), E(a,c), E(a,d), E(a,e), E(b,c), E(b,d), E(b,e), E(c,d)",
    "house": "E(a,b), E(a,c), E(a,e), E(b,c), E(b,d), E(d,e)",
    "square": "E(a,b), E(b,c), E(c,d), E(d,a)",
    "two relations": "E(a,b), F(a,c), E(a,c), F(b,c), E(b,d), E(a,d), F(c,d)",
    "tails": "E(a,b), E(a,c), E(b,d), E(c,e), distinct(a, b, c, d, e)",
    "tails of lists": "E(a,b), E(b,c), E(a,d), E(c,d), E(b,e), E(c,e), d != e, a != e",
    "marks of two": "E(a,b), F(a,c), E(b,c), F(b,d), E(a,d), F(c,d)",
}
HEADS = (
    "n(count())",
    "n(a, count())",
    "n(a, b, count())",
    "n(c, count(), max(b))",
    "n(a, b)",
    "n(c)",
)
TESTS = ("", ", a < b < c", ", a != c", ", distinct(a, b, c)", ", b > c", ", c <= a", ", !F(a, c)")


def graph(seed: int, mirror: bool) -> dict[str, list[tuple[int, int]]]:
    edges = {}
    for at, name in enumerate(("E", "F")):
        found = {
            (x, y) for x in range(6) for y in range(6) if (x * 31 + y * 17 + seed * 7 + at) % 11 < 5
        }
        edges[name] = sorted(found | {(y, x) for x, y in found} if mirror else found)
    return edges


@pytest.mark.slow
@pytest.mark.parametrize("mirror", [False, True], ids=["directed", "symmetric"])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("part", range(8))
def test_patterns(pattern: str, mirror: bool, part: int) -> None:
    body = PATTERNS[pattern]
    every = list(enumerate((head, tests) for head in HEADS for tests in TESTS))
    for number, (head, tests) in every[(part + len(pattern)) % 8 :: 8]:
        edges = graph(number, mirror)
        text = f"{head} <- {body}{tests}."
        data: oracle.Data = {name: (("int", "int"), list(rows)) for name, rows in edges.items()}
        types = dict.fromkeys(data, ("int", "int"))
        expected = oracle.evaluate(parse(text), {n: set(rows) for n, rows in edges.items()}, types)
        for way in (number, number + 3):
            found = run(text, data, {"n"}, way)
            assert canonical(found["n"]) == canonical(expected["n"]), (text, edges, WAYS[way % 6])


FOREIGN = (  # what keys lead to in other relations, most of it only counted
    "n(count()) <- K(p, q), C(_, p, m), P(m, q, _).",
    "n(count()) <- T(m, t), C(r, _, m), T(r, u), t != u.",
    "n(count()) <- T(m, t), C(r, _, m), T(r, u), t != u, !T(r, t).",
    "n(count()) <- T(m, _), C(_, _, m), K(_, m), T(q, m).",
    "n(m, count()) <- T(m, t), C(r, p, m), K(p, t).",
    "n(b) <- T(b, _), !(K(b, a), K(a, c), K(a, d), K(b, e), distinct(a, b, c, d, e)).",
    "n(b, a) <- K(b, a), !(K(a, c), T(a, d), K(b, e), distinct(b, c, d, e), c < b).",
)


@pytest.mark.parametrize("number", range(len(WAYS)), ids=WAYS)
@pytest.mark.parametrize("text", FOREIGN)
def test_foreign_keys(text: str, number: int) -> None:
    random = np.random.default_rng(number)
    wide = {"K": 2, "T": 2, "C": 3, "P": 3}
    sets = {
        name: {tuple(map(int, row)) for row in (9 * random.random((60, width)) ** 2).astype(int)}
        for name, width in wide.items()
    }
    types = {name: ("int",) * width for name, width in wide.items()}
    data: oracle.Data = {name: (types[name], sorted(rows)) for name, rows in sets.items()}
    expected = oracle.evaluate(parse(text), sets, types)
    assert run(text, data, {"n"}, number)["n"] == expected["n"]


@pytest.mark.parametrize("number", range(len(WAYS)), ids=WAYS)
def test_what_some_lists_have_in_common_has_room(number: int) -> None:
    """Two long lists may have more in common than a third, short one holds."""
    both = [(0, x) for x in range(30)]
    pair = ("int", "int")
    data: oracle.Data = {"A": (pair, both), "B": (pair, both), "Z": (pair, [(0, 7)])}
    found = run("p(a, x) <- A(a, x), B(a, x), Z(a, x), x != a.", data, {"p"}, number)
    assert found == {"p": {(0, 7)}}
