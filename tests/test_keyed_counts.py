"""Counts by a key: weights and tests of what is counted, lists that are kept, against the oracle.

The bodies are dense enough that lists are recoded as bits and branches counted in them.
"""

from __future__ import annotations

from itertools import combinations, product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog import calls
from gdatalog.parser import parse
from gdatalog.plan import nest
from gdatalog.plan.join_plan import Branch, Join, RulePlan, Tally
from tests.cases import share
from tests.interpreted import interpreted
from tests.oracle import TooLong, evaluate
from tests.oracle_values import canonical
from tests.orders import skewed
from tests.test_algebra import agrees as agree
from tests.test_algebra import drawn_count as drawn_sum
from tests.test_algebra import plans, run
from tests.test_engine_oracle import Data, answers
from tests.tuned import tune

__all__ = ["plans"]  # fixtures

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

TRIANGLE = "E(d, b); E(b, a); E(d, a); F(b, a); E(d, f); F(b, f)"  # `a` is counted by bits


def data_of(random: Random) -> Data:
    vertices, density = random.randint(3, 5), random.choice([0.4, 0.6, 0.9])

    def rows() -> list[tuple[int, int]]:
        return [p for p in product(range(vertices), repeat=2) if random.random() < density]

    edges = rows()
    if random.random() < 0.5:
        edges = sorted({*edges, *((b, a) for a, b in edges)})
    labels = [(v, k) for v, k in product(range(vertices), range(3)) if random.random() < 0.5]
    some = [(v,) for v in range(vertices) if random.random() < 0.6]
    binary = "int", "int"
    return {
        "E": (binary, edges),
        "F": (binary, rows()),
        "L": (binary, labels),
        "P": (("int",), some),
    }


def at_a_root(random: Random, name: str) -> str:
    """A weight or a test of one variable."""
    return random.choice(
        ["E({}, _)", "E(_, {})", "F({}, _)", "L({}, _)", "E({}, {})", "L({}, 1)", "P({})"]
    ).replace("{}", name)


def drawn_count(number: int) -> tuple[str, Data]:
    """Triangles whose third corners are counted, and may have weights and tests as others may."""
    random = Random(number)
    body = TRIANGLE.split("; ")
    if random.random() < 0.7:
        body.append(at_a_root(random, "a"))
    if random.random() < 0.8:
        body.append("L(d, 1)")  # then `d` comes first
    body += [at_a_root(random, random.choice("abd")) for _ in range(random.randint(0, 2))]
    if random.random() < 0.3:
        body.append(random.choice(["a != f", "E(f, b)", "F(d, a)", "b != a", "E(a, d)"]))
    random.shuffle(body)
    return f"n(f, count()) <- {', '.join(dict.fromkeys(body))}.", data_of(random)


def agrees(text: str, data: Data) -> None:
    rows = {name: set(rows) for name, (_, rows) in data.items()}
    types = {name: types for name, (types, _) in data.items()}
    try:
        expected = evaluate(parse(text), rows, types)
    except TooLong:
        return
    for strategy, algebra in (("auto", "auto"), ("lftj", "auto"), ("lftj", "never")):
        found = run(text, data, {"n"}, strategy, algebra)
        assert set(found["n"]) == set(expected["n"]), (strategy, algebra, text, data)


@pytest.mark.drawn
@share(12)
@given(st.integers(0, 2**32))
def test_drawn_counts(number: int) -> None:
    agrees(*drawn_count(number))


@pytest.mark.parametrize("more", ["E(a, _)", "L(a, _)", "E(a, a)", "P(a)"])
def test_what_is_counted_has_weights_and_tests(more: str) -> None:
    for number in range(4):
        body = ", ".join([*TRIANGLE.split("; "), more, "E(b, b)", "L(d, 1)"])
        agrees(f"n(f, count()) <- {body}.", data_of(Random(number)))


def test_a_test_of_what_is_counted() -> None:
    edges = [(1, 5), (3, 5), (5, 1), (5, 3), (5, 5)]
    data: Data = {
        "E": (("int", "int"), edges),
        "F": (("int", "int"), [(1, 1), (1, 5), (5, 3), (5, 5)]),
        "L": (("int", "int"), [(1, 0), (3, 1), (5, 1)]),
    }
    body = "E(b, a), E(b, b), E(b, d), E(d, a), E(a, a), F(b, a), E(b, f), F(d, f), L(d, 1)"
    agrees(f"n(f, count()) <- {body}.", data)


def test_branches_are_counted_in_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is drawn enough would be, and is not where a root has a say."""
    places: list[int | None] = []
    counted_within = nest.counted_within

    def noted(*args: object) -> int | None:
        places.append(counted_within(*args))  # type: ignore[arg-type]
        return places[-1]

    monkeypatch.setattr(nest, "counted_within", noted)
    for number in range(40):
        run(*drawn_count(number), {"n"}, "lftj", "auto")
    assert sum(at is not None for at in places) >= 5 and places.count(None) >= 5


# ---------------------------------------------------------------------------- lists that are kept


@pytest.mark.parametrize("kept", [0, 1, 16])
@pytest.mark.parametrize("threads", [1, 2])
def test_kept_lists_are_those_of_their_edge(
    kept: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sparse keys: where lists are is read behind the look for a list that is kept."""
    monkeypatch.setattr(calls, "KEPT", kept)
    text = "n(count()) <- E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, e), E(e, d)."
    for number in (4, 5, 10):
        random = Random(number)
        edges = {p for p in product(range(number), repeat=2) if random.random() < 0.5}
        edges |= {(b, a) for a, b in edges}
        near = {a: {b for b in range(number) if (a, b) in edges} for a in range(number)}
        ends = [near[a] & near[b] for a, b in edges]
        expected = sum(len(near[c] & near[d]) for both in ends for c, d in product(both, repeat=2))
        with gd.connect(device="cpu", threads=threads) as db, interpreted():
            db["E"] = [(7001 * a, 7001 * b) for a, b in sorted(edges)]
            db.workspace.force(algebra="quotients")
            assert db.query(text).fetchall() == [(expected,)]


# --------------------------------------------------------------------- keys inside and before lists

FAN = "E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, e), E(d, e), distinct(a, b, c, d, e)"
RIM = "E(b, c), E(b, e), E(c, d), E(d, e), distinct(a, b, c, d, e)"
WHEEL = f"E(a, b), E(a, c), E(a, d), E(a, e), {RIM}"
HEADS = [
    "n(a, count()) <- {}", "n(sum(w)) <- {}, W(a, w)", "n(w, count()) <- {}, W(a, w)",
    "n(a, sum(a), count()) <- {}",
]  # fmt: skip


def answered(text: str, data: Data, algebra: str) -> set[Any]:
    return set(run(text, data, {"n"}, "lftj", algebra)["n"])


def two_ways(random: Random, vertices: int, density: float) -> Data:
    some = [pair for pair in combinations(range(vertices), 2) if random.random() < density]
    weights = [(v, random.randrange(9)) for v in range(vertices) for _ in range(2)]
    binary = "int", "int"
    return {
        "E": (binary, sorted({*some, *((b, a) for a, b in some)})),
        "W": (binary, sorted(set(weights))),
    }


@pytest.mark.parametrize("head", HEADS)
def test_tables_below_a_variable_that_is_no_key(
    head: str, plans: list[RulePlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is inside cycles, and tables are filled below a vertex beside it."""
    tune(monkeypatch, algebra_loops=0)
    text, data = head.format(FAN) + ".", two_ways(Random(5), 30, 0.4)
    assert answered(text, data, "quotients") == answered(text, data, "never")
    loops = [
        join.steps[0]
        for plan in plans
        for join in plan.joins
        if any(isinstance(step, Tally) for step in join.steps)
    ]
    assert any(isinstance(step, Join) and step.variable in ("c", "d") for step in loops)


@pytest.mark.parametrize("head", HEADS[:3])
def test_keys_before_last_lists(head: str, plans: list[RulePlan]) -> None:
    """What is not a key may be counted by the lengths of lists, of one of each orbit."""
    text, data = head.format(WHEEL) + ".", two_ways(Random(6), 20, 0.5)
    assert answered(text, data, "suffixes") == answered(text, data, "never")
    ends = [join.steps[-1] for plan in plans for join in plan.joins if join.orbit == 4]
    assert any(isinstance(step, Branch) and len(step.terms) > 1 for step in ends)


@pytest.mark.drawn
@share(12)
@given(st.integers(0, 2**32))
def test_drawn_loops_beside_keys(number: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, algebra_loops=0)
        agree(*drawn_sum(number), {"n"})


# ------------------------------------------------------- other relations within cycles

MIXED = [
    "E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, d), F(a, b)",
    "F(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, d)",
    "E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, e), E(d, e), F(b, a)",
]


@pytest.mark.parametrize("head", ["n(count())", "n(a, count())"])
@pytest.mark.parametrize("body", MIXED)
def test_walks_see_that_relations_correlate(
    head: str, body: str, plans: list[RulePlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`F` lies within `E`. Formulas would expect few rows, and no algebra."""
    names = sorted(set(body) & set("abcde"))
    text = f"{head} <- {body}, distinct({', '.join(names)})."
    edges = skewed(40, 200, seed=3, power=0.5)
    data: Data = {
        "E": (("int", "int"), edges),
        "F": (("int", "int"), [(a, b) for a, b in edges if (a * 7 + b) % 5 < 3]),
    }
    tune(monkeypatch, algebra_rows=0, algebra_from=1e3)
    assert answered(text, data, "auto") == answered(text, data, "never")
    assert any(plan.terms for plan in plans)


@pytest.mark.drawn
@share(12)
@given(st.integers(0, 2**32))
def test_drawn_counts_with_walks(number: int) -> None:
    """Everything is walked, and may become a sum."""
    text, data = drawn_sum(number)
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, algebra_rows=0, algebra_walks=0, algebra_from=0)
        with gd.connect(device="cpu", threads=2) as db, interpreted():
            found = canonical(answers(db, text, data, {"n"})["n"])
    assert found == canonical(run(text, data, {"n"}, "levelwise", "never")["n"])
