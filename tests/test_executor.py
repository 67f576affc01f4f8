"""The breadth-first executor where only much data, or a collector of garbage, shows a mistake."""

from __future__ import annotations

import gc
from itertools import product
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.engine.stratum_run import StratumRun
from gdatalog.executors.expansion import FrontierExpansion
from gdatalog.parser import parse
from gdatalog.plan.effects import without
from gdatalog.plan.join_plan import (
    Apply,
    Assign,
    Compact,
    Filter,
    Generate,
    Guard,
    Join,
    Participant,
    Seek,
    Slot,
)
from tests.oracle import evaluate
from tests.tuned import tune

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")


def random_pairs(values: int, count: int, seed: int = 1) -> Any:
    return np.unique(np.random.default_rng(seed).integers(0, values, (count, 2)), axis=0)


def answers(text: str, limit: str = "1GiB", chunk: int | None = None, **data: Any) -> set[Any]:
    db = gd.connect(memory_limit=limit)
    for name, rows in data.items():
        db[name] = rows
    db.workspace.chunk_rows = chunk
    return set(db.query(text).fetchall())


def test_what_rules_have_followed_is_not_mistaken_for_anothers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps are known by their ids, and a plan that is let go of leaves its ids to others."""
    run = StratumRun.run_plan

    def collected(self: StratumRun, *args: Any) -> Any:
        found = run(self, *args)
        gc.collect()
        alive = {id(thing) for thing in gc.get_objects() if type(thing) is Compact}
        assert getattr(self, "lasting", {}).keys() <= alive
        return found

    monkeypatch.setattr(StratumRun, "run_plan", collected)
    edges = random_pairs(40, 120)
    labels = {f"L{at}": random_pairs(40, 2, at)[:, :1] for at in range(12)}
    rules = [f"p(x) <- E(x, y), E(y, z), E(z, w), L{at}(w), x != {at}." for at in range(12)]
    gc.freeze()  # what was there before needs no look at it
    try:
        each = [answers(rule + " ?- p(x).", E=edges, **labels) for rule in rules]
        assert answers(" ".join(rules) + " ?- p(x).", E=edges, **labels) == set().union(*each)
    finally:
        gc.unfreeze()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of rows are marked from a hundred rows on, not from a million."""
    tune(monkeypatch, marked_from=100)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("chunk", [50, 1000, None])
@pytest.mark.parametrize("limit", ["1GiB", "1MiB"])
def test_answers_that_are_marked(limit: str, chunk: int | None) -> None:
    edges = random_pairs(60, 900)
    steps = {(int(a), int(b)) for a, b in edges}
    expected = {(a, c) for (a, b), (d, c) in product(steps, steps) if b == d}
    text = "p(a, c) <- E(a, b), E(b, c)."
    assert answers(text, limit, chunk, E=edges) == expected
    # values so far apart that there is no room for marks, from the start and later on
    wide = edges * 100_003
    assert answers(text, limit, chunk, E=wide) == {(a * 100_003, c * 100_003) for a, c in expected}
    both = "p(a, c) <- E(a, b), E(b, c) ; F(a, b), F(b, c)."
    assert answers(both, limit, chunk, E=edges, F=wide) == answers(
        text, limit, chunk, E=edges
    ) | answers(text, limit, chunk, E=wide)


@pytest.mark.usefixtures("few")
def test_marked_answers_keep_the_width_of_their_values() -> None:
    middle = 1 << 31
    low, high = np.arange(middle - 700, middle), np.arange(middle - 10, middle + 700)
    found = answers("p(x) <- A(x) ; B(x).", chunk=64, A=low[:, None], B=high[:, None])
    assert found == {(value,) for value in range(middle - 700, middle + 700)}


@pytest.mark.parametrize("chunk", [None, 5, 64])
def test_each_row_is_expanded_from_its_shortest_list(chunk: int | None) -> None:
    """For half of the rows that is one list, for the other half another."""
    random = np.random.default_rng(2)
    lists: dict[str, set[tuple[int, int]]] = {"A": set(), "B": set()}
    for x in range(40):
        for name, long in (("A", x % 2), ("B", 1 - x % 2)):
            for y in random.choice(400, 200 if long else 3, replace=False):
                lists[name].add((x, int(y)))
    data = {name: sorted(pairs) for name, pairs in lists.items()}
    common = lists["A"] & lists["B"]
    assert answers("p(x, y) <- A(x, y), B(x, y).", chunk=chunk, **data) == common
    ends = {y for _, y in common}
    assert answers("p(y) <- A(x, y), B(x, y).", chunk=chunk, **data) == {(y,) for y in ends}
    counted = answers("n(x, count()) <- A(x, y), B(x, y).", chunk=chunk, **data)
    assert counted == {(x, sum(a == x for a, _ in common)) for x in {x for x, _ in common}}


@pytest.mark.parametrize("chunk", [None, 3, 100])
def test_counts_read_off_reused_lists(chunk: int | None) -> None:
    edges = random_pairs(25, 200)
    steps = {(int(a), int(b)) for a, b in edges if a < b}
    data = sorted(steps)
    near = {v: {b for a, b in steps if a == v} for v in range(25)}
    wedges = [(a, b, near[a] & near[b]) for a, b in steps]
    pairs = sum(len(common) * (len(common) - 1) // 2 for _, _, common in wedges)
    text = "n(count()) <- E(a, b), E(a, c), E(b, c), E(a, d), E(b, d)"
    assert answers(f"{text}, c < d.", chunk=chunk, E=data) == {(pairs,)}
    assert answers(f"{text}, c <= d.", chunk=chunk, E=data) == {
        (sum(len(common) * (len(common) + 1) // 2 for _, _, common in wedges),)
    }
    assert answers(f"{text}.", chunk=chunk, E=data) == {
        (sum(len(common) ** 2 for _, _, common in wedges),)
    }
    cliques = sum(d in near[c] for _, _, common in wedges for c, d in product(common, common))
    assert answers(f"{text}, E(c, d).", chunk=chunk, E=data) == {(cliques,)}


FAILS = [
    # what fails counts only where the rest of the body holds, whatever that is
    ("p(q) <- E(x, y), q = 10 / x, F(y, q).", False),
    ("p(q) <- E(x, y), q = 10 / x, F(q, y).", False),
    ("p(q) <- E(x, y), q = 10 / x, F(y, z), z > 100.", False),
    ("p(q) <- E(x, y), q = 10 / x, F(y, _).", True),
    ("p(q, r) <- E(x, y), q = 10 / x, r = 10 / (x - 1), F(y, q + r).", False),
    ("p(q, r) <- E(x, y), q = 10 / x, r = 10 / (x - 1), y != 7, y != 8.", False),
    ("p(x) <- E(x, y), i = range(0, 5, x), F(i, y).", False),
    ("p(i) <- E(x, y), i = range(0, 5, x), y = 7.", True),
    ("p(x) <- E(x, y), !(z = 10 / x, F(z, y)).", False),
    ("p(x) <- E(x, y), s = sum 10 / x : { F(_, y) }, s > 3.", False),
    ("p(y, sum(10 / x)) <- E(x, y), F(y, 100).", False),
    ("p(y, sum(10 / x)) <- E(x, y).", True),
    ("p(10 / n) <- n = count : { F(_, 99) }.", True),
]


@pytest.mark.parametrize("chunk", [None, 1, 2])
@pytest.mark.parametrize(("text", "fails"), FAILS)
def test_what_fails(text: str, fails: bool, chunk: int | None) -> None:
    data = {"E": [(0, 7), (1, 8), (2, 9), (5, 9)], "F": [(9, 5), (9, 2), (5, 9), (3, 4)]}
    if text.startswith(("p(q) <- E(x, y), q = 10 / x, F(y, _)", "p(y, sum")):
        data["F"].append((7, 1))
    if not fails:
        answers(text, chunk=chunk, **data)
        return
    with pytest.raises(gd.EvaluationError) as caught:
        answers(text, chunk=chunk, **data)
    assert caught.value.span is not None


def test_what_is_left_of_a_body_without_a_value() -> None:
    def slot(name: str) -> Slot:
        return Slot(name, "int")

    def at(trie: int, depth: int) -> Participant:
        return Participant(trie, depth)

    failed = Assign("q", "int", Apply("/", (slot("x"), slot("y")), "int"), (at(0, 0),), True)
    uses_q = Filter(Apply("<", (slot("q"), slot("x")), "bool"))
    plain = Filter(Apply("<", (slot("x"), slot("y")), "bool"))
    # its atoms bind what could not be computed, and then all of the rest is there
    assert without((failed, uses_q, plain), "q") == (Join("q", "int", (at(0, 0),)), uses_q, plain)
    alone = Assign("q", "int", failed.expr, (), True)
    assert without((alone, uses_q, plain, Compact(("x",)), Guard(2)), "q") == (plain, Guard(2))
    # what was to be sought by it is lost, with all levels of that atom, but not the others'
    steps = (
        alone,
        Seek(slot("q"), (at(1, 0),)),
        Join("z", "int", (at(1, 1), at(2, 0))),
        Join("w", "int", (at(1, 2),)),
        Seek(slot("x"), (at(1, 3), at(3, 0))),
        Filter(Apply("<", (slot("w"), slot("x")), "bool")),
        Assign("v", "int", slot("z"), (at(1, 4), at(2, 1))),
        Generate("u", "int", (slot("q"),), participants=(at(4, 0),)),
    )
    assert without(steps, "q") == (
        Join("z", "int", (at(2, 0),)),
        Seek(slot("x"), (at(3, 0),)),
        Assign("v", "int", slot("z"), (at(2, 1),)),
        Join("u", "int", (at(4, 0),)),
    )


@pytest.mark.parametrize(
    ("tests", "alike"),
    [("", True), (", z < x", True), (", z != x, y != x", True), (", z > y", False)],
)
@pytest.mark.parametrize("chunk", [None, 60])
def test_rows_that_read_the_same_meet_their_lists_once(
    tests: str, alike: bool, chunk: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []
    real = FrontierExpansion._shared

    def noted(self: FrontierExpansion, *args: Any) -> Any:
        lists = real(self, *args)
        found.append(lists is not None)
        return lists

    monkeypatch.setattr(FrontierExpansion, "_shared", noted)
    data = {name: random_pairs(12, 300, seed) for seed, name in enumerate("ABCD")}
    pairs = {name: {(int(a), int(b)) for a, b in rows} for name, rows in data.items()}
    body = f"A(x, y), B(x, y), C(x, z), D(x, z){tests}"
    expected = {
        (x, y, z)
        for x, y in pairs["A"] & pairs["B"]
        for other, z in pairs["C"] & pairs["D"]
        if x == other and eval(tests.lstrip(", ").replace(", ", " and ") or "True")
    }
    assert answers(f"p(x, y, z) <- {body}.", chunk=chunk, **data) == expected
    assert any(found) == alike or chunk is not None
    counted = answers(f"n(count(), max(y)) <- {body}.", chunk=chunk, **data)
    assert counted == {(len(expected), max(y for _, y, _ in expected))}


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("chunk", [None, 7])
@pytest.mark.parametrize(
    "rule",
    [
        "r(x, a, b, c) <- e(x, k), of(k, a, b, c).",
        "r(x, a, c) <- e(x, k), of(k, a, b, c), b != 1, c < x + 3.",
        "r(k, sum(c), count()) <- e(_, k), of(k, _, _, c).",
        "r(x, a, y) <- e(x, k), of(k, a, _, _), e(y, a).",
    ],
)
def test_lists_of_one_value_extend_rows_in_place(
    rule: str, chunk: int | None, twice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each row of a level has one value, no lists are expanded, and answers are the same."""
    of = [(k, 5 * k % 7, k % 3, k * k % 11) for k in range(9)] + [(4, 9, 9, 9)] * twice
    data = {"e": random_pairs(12, 60), "of": of}
    extended: list[bool] = []
    plain = FrontierExpansion._one_each

    def counted(self: FrontierExpansion, step: Join) -> bool:
        extended.append(plain(self, step))
        return extended[-1]

    db = gd.connect()
    db.workspace.chunk_rows = chunk
    for name, rows in data.items():
        db[name] = rows
    monkeypatch.setattr(FrontierExpansion, "_one_each", counted)
    found = db.query(rule, strategy="levelwise").fetchall()
    assert any(extended) or "k, a, b, c" not in rule
    monkeypatch.setattr(FrontierExpansion, "_one_each", lambda self, step: False)
    assert sorted(found) == sorted(answers(rule, chunk=chunk, **data)) and found
    kinds = {"e": ("int",) * 2, "of": ("int",) * 4}
    facts = {"e": [tuple(row) for row in data["e"].tolist()], "of": of}
    assert set(found) == set(evaluate(parse(rule), facts, kinds)["r"])
