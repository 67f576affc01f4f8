"""Symmetry: where one of many alike solutions is looked for, and in the order of degrees.

`tests/corners.py` lists where that would be wrong. `forced` rewrites wherever it is sound, also
where it would not be worth it, so that small graphs go through it too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.engine import draft
from gdatalog.parser import parse
from gdatalog.plan.join_plan import Apply, Constant, JoinPlan, Restore, RulePlan, Slot
from gdatalog.planner import build, conjunction, rule
from gdatalog.planner import items as body
from gdatalog.planner.items import AtomItem, Equation, Item, NotItem
from gdatalog.planner.order import degree_order, symmetry
from gdatalog.planner.order.automorphisms import Symmetries, literals_of
from gdatalog.planner.order.edges import comparison
from gdatalog.storage.graph import EdgeStatistics
from gdatalog.storage.relation import Relation
from tests.cases import cases, share
from tests.corners import CORNERS
from tests.draw_patterns import Pattern, drawn_pattern
from tests.oracle import TooLong, evaluate
from tests.oracle_values import Failure, canonical
from tests.plan_check import check_rule_plan
from tests.test_engine_oracle import Way, run
from tests.tuned import tune

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

TRIANGLE = "E(x, y), E(y, z), E(x, z)"
K4 = "E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, d)"
# Hubs have the smallest numbers; 0 to 5 are joined to nearly all.
HUBS = sorted(
    {
        edge
        for a in range(6)
        for b in range(a + 1, 60)
        if (a * b) % 7 != 3
        for edge in ((a, b), (b, a))
    }
)
UP = [(a, b) for a, b in HUBS if a < b]


def loaded(**relations: Any) -> gd.Database:
    db = gd.connect()
    for name, rows in relations.items():
        db[name] = rows
    return db


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[RulePlan]:
    """The plans that are made, each checked as it is made."""
    made: list[RulePlan] = []
    make = draft.plan_rule

    def checked(*args: Any, **options: Any) -> RulePlan:
        plan = make(*args, **options)
        check_rule_plan(plan)
        made.append(plan)
        return plan

    monkeypatch.setattr(draft, "plan_rule", checked)
    return made


def force(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewrites wherever it is sound."""
    tune(monkeypatch, degree_skew=0.0)
    monkeypatch.setattr(build, "RESTORED", -1e9)
    monkeypatch.setattr(degree_order, "_promising", lambda *args: True)
    monkeypatch.setattr(degree_order, "_can_wait", lambda *args: True)
    monkeypatch.setattr(symmetry, "_degrees_help", lambda *args: True)


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch)


def traits(join: JoinPlan) -> set[str]:
    found = {"ranked"} if any(trie.ranked for trie in join.tries) else set()
    if any(isinstance(step, Restore) for step in join.steps):
        found.add("restored")
    return found | ({f"orbit {join.orbit}"} if join.orbit > 1 else set())


# ------------------------------------------------------------------------- where it is done


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"n(count()) <- {TRIANGLE}, x < y < z.", {"ranked"}),
        (f"n(count()) <- {TRIANGLE}, distinct(x, y, z).", {"ranked", "orbit 6"}),
        (f"n(count()) <- {TRIANGLE}.", {"ranked", "orbit 6"}),  # there is no loop
        ("n(count()) <- U(x, y), U(y, z), U(x, z).", {"ranked"}),
        (f"n(count()) <- {K4}, distinct(a, b, c, d).", {"ranked", "orbit 24"}),
        (f"n(count()) <- {K4}, distinct(a, b, c, d), a < b.", {"ranked", "orbit 12"}),
        (f"n(count()) <- {K4}, a < b < c, distinct(a, b, c, d).", {"ranked", "orbit 4"}),
        (f"n(count()) <- {K4}, d < c, c < b, a > b.", {"ranked"}),
        ("n(count()) <- E(a, b), E(b, c), E(c, d), E(d, a), distinct(a, b, c, d).", {"orbit 8"}),
        ("n(count()) <- E(a, b), E(b, c), a != c.", {"orbit 2"}),
        (f"n(count()) <- {TRIANGLE}, distinct(x, y, z), L(x), L(y).", {"orbit 2"}),
        ("n(count()) <- W(x, y), W(y, z), W(x, z).", {"ranked", "orbit 6"}),  # of symbols
        (f"n() <- {TRIANGLE}, x < y < z.", {"ranked"}),
        (f"n(count()) <- {TRIANGLE}, x < y.", {"ranked", "orbit 3"}),
        ("n(count()) <- D(x, y), D(y, z), D(z, x).", {"orbit 3"}),  # turned round, not over
    ],
)
def test_it_is_done(text: str, wanted: set[str], plans: list[RulePlan]) -> None:
    words = [(f"v{a}", f"v{b}") for a, b in HUBS]
    one_way = [edge for edge in HUBS if edge != (7, 5)]
    db = loaded(E=HUBS, U=UP, W=words, D=one_way, L=[(v,) for v in range(0, 60, 2)])
    db.query(text)
    (plan,) = plans
    (join,) = plan.joins
    assert traits(join) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "n(count()) <- D(x, y), D(y, z), D(x, z).",  # one edge has no way back
        f"n(x, count()) <- {TRIANGLE}, distinct(x, y, z).",
        f"n(sum(x)) <- {TRIANGLE}, distinct(x, y, z).",
        f"n(count_distinct(x)) <- {TRIANGLE}, distinct(x, y, z).",
        f"n(count()) <- {TRIANGLE}, distinct(x, y, z), L(x), y < 5, !L(z).",
        "n(count()) <- O(x, y), O(y, z), O(z, x).",  # a loop
        "n(count()) <- E(a, b), E(b, c), E(c, d), E(d, a), a < c, b < d, L(a), !L(b).",
        f"n(count()) <- {TRIANGLE}, x < y < z, L(x).",
        f"t(x) <- {TRIANGLE}, x < y < z.",
    ],
)
def test_it_is_not_done(text: str, plans: list[RulePlan]) -> None:
    one_way = [edge for edge in HUBS if edge != (7, 5)]
    looped = [*HUBS, (3, 3)]
    db = loaded(E=HUBS, D=one_way, O=looped, L=[(v,) for v in range(0, 60, 9)])
    db.query(text)
    (plan,) = plans
    (join,) = plan.joins
    assert traits(join) == set()


def test_explain_tells(forced: None) -> None:
    db = loaded(E=HUBS)
    listed = str(db.explain(f"t(x, y, z) <- {TRIANGLE}, x < y < z."))
    assert "x, y, z := the values of x', y', z', sorted" in listed
    assert "x' in ranked E{" in listed
    counted = str(db.explain(f"n(count()) <- {TRIANGLE}, distinct(x, y, z)."))
    assert "each row stands for 6 bindings" in counted and ":= the value" not in counted
    shared = "E(x, y), E(y, z), E(x, z), x < y < z, E(x, w), E(y, w), E(z, w)"
    assert "w := the value of w'" in str(db.explain(f"t(x, y, z, w) <- {shared}."))


def test_an_insert_is_seen(plans: list[RulePlan]) -> None:
    """What was symmetric, or had no loop, is asked again when the relation is another."""
    db = loaded(E=HUBS)
    text = f"n(count()) <- {TRIANGLE}."
    before = db.query(text).fetchall()[0][0]
    assert before % 6 == 0
    db.run("E(70, 71).")
    assert db.query(text).fetchall() == [(before,)]
    db.run("E(71, 70). E(70, 70).")
    assert db.query(text).fetchall() == [(before + 4,)]  # aaa, aab, aba, baa
    assert [traits(plan.joins[0]) for plan in plans] == [{"ranked", "orbit 6"}, set(), set()]


def test_tests_that_say_nothing_new_go(plans: list[RulePlan]) -> None:
    db = loaded(E=HUBS, O=[*HUBS, (3, 3)])
    for relation, tests in (("E", 0), ("O", 1)):
        db.query(f"p(x, y) <- {relation}(x, y), x != y.")
        assert len(plans[-1].joins[0].tries[0].tests) == tests
    db.query("p(x, y) <- O(x, y), O(y, z), x != y, x < y.")
    assert [op for trie in plans[-1].joins[0].tries for _, op, _ in trie.tests] == ["<"]


# ----------------------------------------------------------------------- where it is unsound


@pytest.mark.parametrize("chunk", [None, 1, 3])
@pytest.mark.parametrize("example", [e for e in CORNERS if e.name[0] in "1234"], ids=str)
def test_corners(example: Any, chunk: int | None, forced: None, plans: list[RulePlan]) -> None:
    found = run(example.program, example.data, set(example.expected), chunk)
    assert {name: canonical(rows) for name, rows in found.items()} == {
        name: canonical(rows) for name, rows in example.expected.items()
    }
    if example.name.startswith("2 order") and "growing" not in example.name:
        assert any(traits(join) >= {"ranked", "restored"} for plan in plans for join in plan.joins)
    if "growing" in example.name:
        assert not any(traits(join) for plan in plans for join in plan.joins)


def test_a_count_of_fewer_than_all(forced: None) -> None:
    """What is not counted but listed has every one of an orbit in it."""
    db = loaded(E=[(1, 2), (2, 1), (2, 3), (3, 2), (1, 3), (3, 1)])
    rows = db.query(f"t(x, y, z) <- {TRIANGLE}, distinct(x, y, z).").fetchall()
    assert set(rows) == set(permutations((1, 2, 3)))


def test_a_tail_at_one_corner(forced: None, plans: list[RulePlan]) -> None:
    """`w` hangs on the greatest vertex: no other order of the triangle's will do."""
    edges = {(1, 2), (2, 3), (1, 3), (1, 4), (1, 5), (3, 6)}
    db = loaded(E=sorted(edges | {(b, a) for a, b in edges}))
    text = f"t(x, y, z, w) <- {TRIANGLE}, x < y < z, E(z, w), w != x, w != y."
    assert db.query(text).fetchall() == [(1, 2, 3, 6)]
    assert traits(plans[-1].joins[0]) == set()


def test_witnesses_do_not_stop_too_early(forced: None, plans: list[RulePlan]) -> None:
    """In the order of degrees 9 comes last, and 1 and 3 are the least of two triangles with it."""
    edges = [(1, 2), (2, 9), (1, 9), (3, 4), (4, 9), (3, 9), (9, 10)]
    db = loaded(E=[*edges, *((b, a) for a, b in edges)])
    assert set(db.query(f"t(x) <- {TRIANGLE}, x < y < z.").fetchall()) == {(1,), (3,)}
    assert traits(plans[-1].joins[0]) == {"ranked", "restored"}
    assert set(db.query(f"t(z) <- {TRIANGLE}, x < y < z.").fetchall()) == {(9,)}


@pytest.mark.parametrize("limit", [1, 5, 1000])
def test_limits(limit: int, forced: None, plans: list[RulePlan]) -> None:
    db = loaded(E=HUBS)
    text = f"t(x, y, z) <- {TRIANGLE}, x < y < z."
    every = set(db.query(text).fetchall())
    some = db.query(text, limit=limit).fetchall()
    assert traits(plans[-1].joins[0]) == {"ranked", "restored"}
    assert len(some) == min(limit, len(every)) and set(some) <= every


# ----------------------------------------------------------------------------- drawn patterns


def agrees(pattern: Pattern, run: Way = run) -> None:
    """The engine's answers are the oracle's."""
    rows = {name: set(rows) for name, (_, rows) in pattern.data.items()}
    types = {name: types for name, (types, _) in pattern.data.items()}
    try:
        expected = evaluate(parse(pattern.text), rows, types)
    except (TooLong, Failure):
        return
    names = {"p", "q"} & expected.keys()
    try:
        found = run(pattern.text, pattern.data, names, (None, None, 1, 3)[pattern.number % 4])
    except gd.SafetyError:
        return  # two negations share a variable of their own
    for name in names:
        assert canonical(found[name]) == canonical(expected[name]), pattern


@pytest.fixture(scope="module")
def forced_here() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        force(patch)
        yield


@pytest.mark.drawn
@share(20)
@given(st.integers(0, 2**32).map(drawn_pattern))
def test_drawn_patterns(pattern: Pattern) -> None:
    agrees(pattern)


@pytest.mark.drawn
@share(40)
@given(st.integers(0, 2**32).map(drawn_pattern))
def test_drawn_patterns_rewritten(forced_here: None, pattern: Pattern) -> None:
    agrees(pattern)


def test_patterns_are_rewritten(forced: None, plans: list[RulePlan]) -> None:
    """Of what is drawn enough goes through every rewriting."""
    seen: dict[str, int] = {}
    for number in range(1000, 1100):
        pattern = drawn_pattern(number)
        run(pattern.text, pattern.data, {"p"}, None)
    for plan in plans:
        for join in plan.joins:
            for trait in traits(join):
                seen[trait.split()[0]] = seen.get(trait.split()[0], 0) + 1
    assert min(seen[trait] for trait in ("ranked", "restored", "orbit")) >= 3, seen


# ------------------------------------------------------------------------------ automorphisms

# Patterns of PEERS and the order of their groups.
GROUPS = {
    "01 02 12": 6,
    "01 12 23 30": 8,
    "01 02 03 12 13": 4,
    "01 02 03 12 13 23": 24,
    "01 02 03 04 12 13 14 23": 4,
    "01 02 03 12 13 24 34": 4,
    "01 02 03 04 12 14 23 34": 8,
    "01 02 03 04 12 13 14 23 34": 12,
    "01 02 03 04 12 13 14 23 24 34": 120,
    "01 02 04 12 13 34": 2,
    "01 02 12 23 24 34": 8,
    "01 02 03 12 13 25 34": 4,
}


def symmetries(edges: str, extra: list[Item] | None = None) -> Symmetries:
    items: list[Item] = [
        AtomItem("E", (Slot(edge[0], "int"), Slot(edge[1], "int"))) for edge in edges.split()
    ]
    literals = literals_of([*items, *(extra or [])], None)
    assert literals is not None
    return Symmetries(literals, sorted(set(edges) - {" "}))


@pytest.mark.parametrize("edges", GROUPS)
def test_groups_of_patterns(edges: str) -> None:
    found = symmetries(edges).restrictions(lambda a, b: True, lambda a, b: True)
    assert found.orbit == GROUPS[edges]
    # Of the orders of the values just one of each orbit passes the restrictions.
    names = sorted(set(edges) - {" "})
    passing = 0
    for order in permutations(range(len(names))):
        place = dict(zip(names, order, strict=True))
        passing += all(place[a] < place[b] for a, b in found.pairs)
    assert passing * found.orbit == len(list(permutations(names)))


def test_what_an_automorphism_keeps() -> None:
    """Everything that is said of a variable, in negations too, and of which type it is said."""

    def x(name: str) -> Slot:
        return Slot(name, "int")

    def lacks(name: str, own: str) -> NotItem:
        inner = (AtomItem("L", (x(name), x(own))), AtomItem("M", (x(own),)))
        return NotItem((inner,), frozenset(name))

    def less(name: str, bound: Any) -> Item:
        return body.TestItem(Apply("<", (x(name), Constant(bound, "int")), "bool"))

    def orbit(*extra: Item) -> set[str]:
        return set(symmetries("01 12", list(extra)).orbit("0", ()))

    assert orbit() == {"0", "2"}
    assert orbit(lacks("0", "u"), lacks("2", "v")) == {"0", "2"}
    assert orbit(lacks("0", "u"), lacks("1", "v")) == {"0"}
    assert orbit(less("0", 1), less("2", 1)) == {"0", "2"}
    assert orbit(less("0", 1), less("2", True)) == {"0"}
    assert orbit(comparison("<", "0", "1"), comparison("<", "2", "1")) == {"0", "2"}
    assert orbit(comparison("<", "0", "1"), comparison("<", "1", "2")) == {"0"}
    assert orbit(Equation(x("0"), x("1")), Equation(x("2"), x("1"))) == {"0", "2"}
    assert orbit(AtomItem("F", (x("0"), x("1")), "delta"), AtomItem("F", (x("2"), x("1")))) == {"0"}


def test_many_variables_are_left_alone() -> None:
    star = " ".join(f"0{leaf}" for leaf in "123456789ab")
    found = symmetries(star).restrictions(lambda a, b: True, lambda a, b: True)
    assert (found.pairs, found.orbit) == ((), 1)


# ------------------------------------------------------------------------------------ indexes


def relation(rows: Any, kind: Any = "int") -> Relation:
    keys = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return Relation.from_rows(("a", "b"), (kind, kind), [keys[:, 0], keys[:, 1]], len(keys))


def paths(trie: Any) -> list[tuple[int, int]]:
    first, second = trie.levels
    return [
        (int(value), int(child))
        for at, value in enumerate(first.values)
        for child in second.values[second.offsets[at] : second.offsets[at + 1]]
    ]


@pytest.mark.parametrize("far", [1, 10**12])
@pytest.mark.parametrize("rows", [HUBS, UP, [(b, a) for a, b in UP], [*HUBS[:90], (4, 4)]])
def test_ranks_are_by_degree(rows: Any, far: int) -> None:
    rows = [(a * far, b * far) for a, b in rows]
    found = relation(rows)
    labels = found.graph.ranking().labels.tolist()
    neighbours: dict[int, set[int]] = {}
    for a, b in rows:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    powers = [(len(neighbours[label]).bit_length(), label) for label in labels]
    assert powers == sorted(powers) and set(labels) == neighbours.keys()
    both = {(labels.index(a), labels.index(b)) for a, b in rows}
    both |= {(b, a) for a, b in both}
    whole = found.trie((0, 1), ranked=True)
    assert paths(whole) == sorted(both) and whole.labels.tolist() == labels
    assert found.trie((1, 0), ranked=True) is whole
    up = found.trie((0, 1), ((0, "<", 1),), ranked=True)
    assert paths(up) == sorted((a, b) for a, b in both if a < b)
    assert found.trie((1, 0), ((1, "<", 0),), ranked=True) is up
    assert found.trie((0, 1), ((1, ">", 0),), ranked=True) is up
    down = found.trie((0, 1), ((0, ">=", 1),), ranked=True)
    assert paths(down) == sorted((a, b) for a, b in both if a >= b)
    loops = found.trie((0, 1), ((0, "=", 1),), ranked=True)
    assert paths(loops) == sorted((a, b) for a, b in both if a == b)
    assert paths(found.trie((0, 1), ((0, "<", 1), (0, ">", 1)), ranked=True)) == []
    counted = found.trie((0,), (), True, ranked=True)
    assert dict(zip(counted.levels[0].values.tolist(), counted.weights.tolist(), strict=True)) == {
        labels.index(label): len(some) for label, some in neighbours.items()
    }


def test_what_is_known_of_a_graph() -> None:
    for far in (1, 10**12):
        assert relation([(a * far, b * far) for a, b in HUBS]).symmetric
        assert not relation([(a * far, b * far) for a, b in HUBS if (a, b) != (9, 2)]).symmetric
    swapped = [*(edge for edge in HUBS if edge not in ((9, 2), (11, 2))), (9, 7), (11, 3)]
    assert not relation(swapped).symmetric
    assert relation([]).symmetric and not relation([]).graph.loops
    assert relation([(1, 1)]).graph.loops and not relation(HUBS).graph.loops
    assert relation(HUBS).graph.skew > 2
    assert relation([(60 - a, 60 - b) for a, b in HUBS]).graph.skew <= 1.01


def test_rewriting_is_switched_in_one_place() -> None:
    """These tests reach what they force by its name."""
    assert rule.one_of_each is symmetry.one_of_each
    assert conjunction.in_degree_order is degree_order.in_degree_order


@settings(max_examples=cases(40), deadline=None)
@given(
    ends=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=120),
    both_ways=st.booleans(),
    scale=st.sampled_from([1, 10**12]),
)
def test_degrees_of_a_graph(ends: list[tuple[int, int]], both_ways: bool, scale: int) -> None:
    """They are those of the ranked rows, under any test; and the skew is that of the edges."""
    rows = {(a * scale, b * scale) for a, b in ends}
    rows |= {(b, a) for a, b in rows} if both_ways else set()
    keys = np.array(sorted(rows), dtype=np.int64).reshape(-1, 2)
    with gd.connect(device="cpu") as db:
        db["E"] = {"a": keys[:, 0], "b": keys[:, 1]}
        graph = db["E"]._relation.statistics.graph
        assert isinstance(graph, EdgeStatistics)
        labels = graph.ranking().labels.tolist()
        for op in (None, "<", "<=", ">", ">=", "!="):
            tests = () if op is None else ((0, op, 1),)
            ranked = graph.ranked(tests)
            for column in (0, 1):
                wanted = np.bincount(ranked[column], minlength=len(labels))
                assert graph.degrees(column, tests).tolist() == wanted.tolist()
        up, every = (1, ((0, "<", 1),)), (0, ())
        counts = [graph.degrees(*way).tolist() for way in (up, every)]
        assert graph.paths((up, every, up)) == sum(u * d * u for u, d in zip(*counts, strict=True))
        edges = {(min(row), max(row)) for row in rows if row[0] != row[1]}
        rank = {key: at for at, key in enumerate(labels)}
        by_key = Counter(a for a, _ in edges)
        by_degree = Counter(min(rank[a], rank[b]) for a, b in edges)
        pairs = [sum(n * n for n in counts.values()) for counts in (by_key, by_degree)]
        assert graph.skew == (pairs[0] / pairs[1] if edges else 1.0)
