"""Counts of symmetric bodies: interchangeable variables are taken once, and planning is bounded."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, permutations
from math import factorial

import pytest

import gdatalog as gd
from gdatalog import patterns
from gdatalog.patterns.grown import turns
from gdatalog.patterns.pattern import Pattern
from gdatalog.patterns.shapes import restrictions
from gdatalog.planner.order.plan_inputs import OutOfSteps, Steps
from gdatalog.planner.rewrite import algebra
from gdatalog.planner.rewrite.isomorphic import _canonical, _CanonicalForm, _numbered
from gdatalog.planner.rewrite.quotients import partitions

Literals = tuple[tuple[int, bool, tuple[int, ...]], ...]


def _graph(vertices: int, edges: int) -> list[tuple[int, int]]:
    return random.Random(7).sample(list(combinations(range(vertices), 2)), edges)


def _database(edges: list[tuple[int, int]], mode: str = "auto") -> gd.Database:
    db = gd.connect()
    db["E"] = edges
    db.workspace.force(algebra=mode)
    return db


# ------------------------------------------------------------------------------ canonical forms


def _star(leaves: int) -> Literals:
    return tuple((0, False, (0, leaf)) for leaf in range(1, leaves + 1))


def _pairs(count: int) -> Literals:
    edges = [(0, False, (2 * at, 2 * at + 1)) for at in range(count)]
    tests = [(1, True, (2 * a, 2 * b + 1)) for a in range(count) for b in range(count) if a != b]
    return (*edges, *tests)


@pytest.mark.parametrize(
    ("variables", "literals"), [(10, _star(9)), (30, _pairs(15))], ids=["star", "pairs"]
)
def test_symmetric_forms_take_a_search_for_each_variable(
    variables: int, literals: Literals
) -> None:
    search = _CanonicalForm(literals)
    search.of(variables)
    assert search._leaves <= variables


@pytest.mark.parametrize("seed", range(40))
def test_forms_are_equal_if_and_only_if_isomorphic(seed: int) -> None:
    draw = random.Random(seed)
    variables = draw.randrange(2, 7)
    kinds = {0: False, 1: True}

    def drawn() -> Literals:
        numbers = [draw.randrange(2) for _ in range(draw.randrange(1, 8))]
        pairs = [draw.sample(range(variables), 2) for _ in numbers]
        edges = [
            (kind, kinds[kind], tuple(pair)) for kind, pair in zip(numbers, pairs, strict=True)
        ]
        return tuple(dict.fromkeys([*edges, *((2, False, (at,)) for at in range(variables))]))

    def least(literals: Literals) -> object:
        return min(_numbered(order, literals) for order in permutations(range(variables)))

    one, other = drawn(), drawn()
    order = draw.sample(range(variables), variables)
    moved = [(kind, flag, tuple(order[at] for at in names)) for kind, flag, names in one]
    draw.shuffle(moved)
    assert _canonical(variables, one)[0] == _canonical(variables, tuple(moved))[0]
    same = _canonical(variables, one)[0] == _canonical(variables, other)[0]
    assert same == (least(one) == least(other))


# ---------------------------------------------------------------------------------- partitions


@pytest.mark.parametrize("seed", range(40))
def test_one_partition_stands_for_those_that_differ_by_interchanging(seed: int) -> None:
    draw = random.Random(seed)
    kind = {f"v{at}": draw.randrange(3) for at in range(draw.randrange(1, 7))}
    tested = {pair: draw.random() < 0.6 for pair in combinations([0, 0, 1, 1, 2, 2], 2)}
    parted = {pair: draw.random() < 0.15 for pair in tested}

    def chosen(rule: dict[tuple[int, int], bool]) -> set[frozenset[str]]:
        pairs = combinations(sorted(kind), 2)
        return {frozenset((a, b)) for a, b in pairs if rule[tuple(sorted((kind[a], kind[b])))]}  # type: ignore[index]  # a pair

    def shape(merged: dict[str, str]) -> tuple[tuple[int, ...], ...]:
        blocks: dict[str, list[int]] = {}
        for name in kind:
            blocks.setdefault(merged.get(name, name), []).append(kind[name])
        return tuple(sorted(tuple(sorted(block)) for block in blocks.values()))

    names, tests, apart = sorted(kind), chosen(tested), chosen(parted)
    each: Counter[object] = Counter()
    for coefficient, merged in partitions(names, tests, apart):
        each[shape(merged)] += coefficient
    classes = [[name for name in names if kind[name] == number] for number in range(3)]
    once = [
        (shape(merged), coefficient)
        for coefficient, merged in partitions(names, tests, apart, list(filter(None, classes)))
    ]
    assert dict(once) == each and len(dict(once)) == len(once)


# ------------------------------------------------------------------------------------- patterns

LARGE = [
    patterns.star(9),
    patterns.biclique(5, 5),
    patterns.biclique(3, 7),
    patterns.biclique(2, 6),
]


@pytest.mark.parametrize("pattern", LARGE, ids=lambda pattern: pattern.name)
def test_automorphisms_are_counted_without_listing_them(pattern: Pattern) -> None:
    degrees = Counter(end for edge in pattern.edges for end in edge)
    number = 1
    for _, count in Counter(degrees.values()).items():
        number *= factorial(count)
    if pattern.name == "biclique5_5":
        number = 2 * factorial(5) ** 2
    assert pattern.automorphisms == number


@pytest.mark.parametrize(
    "pattern",
    [
        patterns.star(4),
        patterns.cycle(5),
        patterns.path(4),
        patterns.clique(4),
        patterns.biclique(2, 3),
        patterns.from_edges([(0, 1), (1, 2)], directed=True, labels={0: 1}),
    ],
    ids=lambda pattern: pattern.name,
)
def test_turns_and_restrictions_agree_with_all_automorphisms(pattern: Pattern) -> None:
    shape = pattern.shape()
    group = set(shape.automorphisms())
    found = [tuple(range(shape.size))]
    for step in turns(shape):
        found = [tuple(before[at] for at in way) for before in found for way in step]
    assert sorted(found) == sorted(group)
    pairs = restrictions(shape)
    orders = list(permutations(range(shape.size)))
    kept = [order for order in orders if all(order[u] < order[v] for u, v in pairs)]
    assert len(kept) * len(group) == len(orders)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps that planning takes."""
    steps: list[int] = []
    take = Steps.take

    def noted(self: Steps, count: int) -> None:
        steps.append(count)
        take(self, count)

    monkeypatch.setattr(Steps, "take", noted)
    return steps


@pytest.mark.parametrize("pattern", LARGE, ids=lambda pattern: pattern.name)
def test_large_symmetric_patterns_are_counted(pattern: Pattern, taken: list[int]) -> None:
    edges = [*_graph(40, 90), *((0, leaf) for leaf in range(40, 52))]
    found = _database(edges).count(pattern)
    assert sum(taken) <= 2 * algebra.MOST_STEPS
    assert found == _database(edges, "never").count(pattern)


def _pairs_rule(count: int) -> str:
    atoms = [f"E(x{at}, y{at})" for at in range(count)]
    tests = [f"x{a} != y{b}" for a in range(count) for b in range(count)]
    return f"n(count()) <- {', '.join(atoms + tests)}. ?- n(c)."


def test_pairs_that_all_differ_are_planned_within_the_bound(taken: list[int]) -> None:
    edges = [(1, 2), (2, 3), (3, 4), (4, 5)]
    text = _pairs_rule(15)
    assert list(_database(edges).query(text)) == list(_database(edges, "never").query(text))
    assert sum(taken) <= 2 * algebra.MOST_STEPS


def test_many_interchangeable_variables_that_may_be_equal(taken: list[int]) -> None:
    """The coefficient of a block without a test between each two takes exponentially long."""
    atoms = [f"A(x{at})" for at in range(12)] + [f"B(y{at})" for at in range(12)]
    tests = [f"x{a} != y{b}" for a in range(12) for b in range(12)]
    text = f"n(count()) <- {', '.join(atoms + tests)}. ?- n(c)."
    with gd.connect() as db:
        db["A"], db["B"] = [(1,), (2,)], [(2,), (3,)]
        # the x are all 1, or the y all 3, as soon as some x or y is 2
        assert list(db.query(text)) == [(2**12 + 2**12 - 1,)]
    assert sum(taken) <= 2 * algebra.MOST_STEPS


@pytest.fixture(params=[0, 2_000, 30_000])
def bounded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(algebra, "MOST_STEPS", request.param)
    yield request.param


@pytest.mark.parametrize("mode", ["auto", "always", "quotients", "suffixes", "split"])
def test_any_bound_gives_the_same_counts(bounded: int, mode: str) -> None:
    edges = _graph(14, 40)
    with _database(edges, "never") as plain, _database(edges, mode) as bound:
        for pattern in (patterns.star(5), patterns.cycle(6), patterns.biclique(2, 3)):
            assert bound.count(pattern) == plain.count(pattern), pattern.name


def test_steps_end() -> None:
    steps = Steps(5)
    steps.take(5)
    with pytest.raises(OutOfSteps):
        steps.take(1)
