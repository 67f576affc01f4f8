"""Counts that are split by the degree of a variable: light vertices and heavy ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations, cycle
from random import Random
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.cancellation import current_watch
from gdatalog.parser import parse
from gdatalog.plan.join_plan import RulePlan, Term
from gdatalog.planner.observed import Observed, observing
from gdatalog.planner.rewrite import orbits
from gdatalog.storage.graph import RankedEdges
from tests.draw_patterns import drawn_pattern
from tests.interpreted import interpreted
from tests.oracle import TooLong, evaluate
from tests.oracle_values import canonical
from tests.test_algebra import drawn_count, plans, run
from tests.test_local_counts import VERTICES, counted, skewed, terms
from tests.tuned import tune

__all__ = ["plans", "terms"]  # fixtures

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

SHAPES = {
    "two wedges of an edge": "ab ac ad bc bd ce de", "square": "ab bc cd da",
    "diamond": "ab ac ad bc bd", "house": "ab ac ae bc bd de", "bowtie": "ab ac bc cd ce de",
    "path": "ab bc cd", "K4": "ab ac ad bc bd cd", "K4 and an edge": "ab ac ad bc bd cd de",
    "pentagon": "ab bc cd de ea",
}  # fmt: skip


def core(vertices: int, inside: int) -> list[tuple[int, int]]:
    """A clique, and a sparse graph around it, both ways."""
    random = Random(vertices)
    found = set(combinations(range(inside), 2))
    found |= {(random.randrange(at), at) for at in range(inside, vertices) for _ in range(3)}
    return sorted(found | {(b, a) for a, b in found})


def halves(terms: list[Term]) -> tuple[bool, bool]:
    """Whether there are terms with few, and with many neighbours of a variable."""
    labels = [part for term in terms for part in term.label.split(", ") if part[-1].isdigit()]
    return any(" < " in part for part in labels), any(" >= " in part for part in labels)


@pytest.mark.parametrize(("shape", "values"), [*zip(SHAPES, cycle(VERTICES))])
def test_halves_add_up(shape: str, values: Any, terms: list[Term]) -> None:
    expected = counted(SHAPES[shape], skewed(14), "never")
    terms.clear()
    assert counted(SHAPES[shape], skewed(14, values), "split") == expected
    assert halves(terms) == (True, True)


@pytest.mark.parametrize("divisor", [0.3, 0.7, 2.0, 100.0])
def test_any_degree_splits(divisor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orbits, "HEAVY", (divisor,))
    edges, rows = SHAPES["house" if divisor > 1 else "two wedges of an edge"], core(30, 9)
    assert counted(edges, rows, "split") == counted(edges, rows, "never")


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["two wedges of an edge", "house", "square"])
def test_light_halves_split_again(
    shape: str, terms: list[Term], monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, algebra_split=0, algebra_split_again=1e-9)
    rows = core(30, 9)
    expected = counted(SHAPES[shape], rows, "never")
    terms.clear()
    assert counted(SHAPES[shape], rows, "split") == expected
    bounds = [sum(part[-1].isdigit() for part in term.label.split(", ")) for term in terms]
    assert max(bounds) >= 3


@pytest.mark.parametrize("number", range(24))
def test_drawn_counts_agree_with_the_oracle(number: int) -> None:
    """Labels, directions, loops, tests, negations and keys; those of one graph are split."""
    text, data = drawn_count(number)
    name = "n"
    if number % 2:
        pattern = drawn_pattern(number)
        text, data, name = pattern.text, pattern.data, "p"
    rows = {relation: set(found) for relation, (_, found) in data.items()}
    types = {relation: found for relation, (found, _) in data.items()}
    try:
        expected = evaluate(parse(text), rows, types)
    except TooLong:
        return
    found = run(text, data, {name}, "lftj", "split")
    assert canonical(found[name]) == canonical(expected[name]), (text, data)


WEDGES = (
    "n(count()) <- E(a,b), E(a,c), E(a,d), E(b,c), E(b,d), E(c,e), E(d,e), distinct(a,b,c,d,e)."
)


@pytest.mark.slow
def test_split_where_that_pays(plans: list[RulePlan], monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges between hubs have many common neighbours, which have few neighbours themselves."""
    tune(monkeypatch, algebra_split=1e6)
    for hubs in (12, 0):
        rows = {(hub, other) for hub in range(hubs) for other in range(hub + 1, 1500)}
        plans.clear()
        with gd.connect(device="cpu") as db:
            db["E"] = sorted({*core(4000, 4), *rows, *((b, a) for a, b in rows)})
            told = str(db.explain(WEDGES))
        split = bool(hubs)
        assert halves([term for plan in plans for term in plan.terms]) == (split, split), told
        assert ("a' >= " in told) == split


def test_ranks_of_degrees() -> None:
    with gd.connect(device="cpu") as db:
        db["E"] = core(300, 20)
        statistics: Any = db["E"]._relation.statistics  # type: ignore[union-attr]  # it is there
        graph = statistics.graph
        degrees = graph.degrees(0, ())
        steps = graph.degree_steps
        assert all(
            degrees[rank:].min() >= degree > degrees[:rank].max() for degree, rank in steps.items()
        )
        rank = max(steps.values())
        shares = statistics.within(0, [(">=", rank)], True)
        assert shares == pytest.approx(
            (1 - rank / len(degrees), degrees[rank:].sum() / degrees.sum())
        )
        few = statistics.within(0, [("<", rank)], True)
        assert sum((*shares, *few)) == pytest.approx(2)
        mean = (degrees[rank:] ** 2).sum() / degrees[rank:].sum()
        noted: Any = observing(lambda *_: statistics, Observed())("E", "full")
        for each in (graph, noted.graph):
            assert each.list_length(0, (), ((">=", rank),)) == pytest.approx(mean)
        assert statistics.lists(0, (), True) is None
        with graph.rank_walks():
            lists = statistics.lists(0, ((0, "<", 1),), True)
        assert (lists.ends - lists.starts).tolist() == graph.degrees(0, ((0, "<", 1),)).tolist()


@pytest.mark.parametrize("mode", ["auto", "split"])
def test_lists_of_ranks_are_freed_after_planning(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not the count is split; and their memory is charged while they are used."""
    charged: list[int] = []
    made = RankedEdges.rank_walks

    @contextmanager
    def seen(edges: RankedEdges) -> Iterator[None]:
        held = current_watch().account.held
        with made(edges):
            charged.append(held["lists of ranks"])
            yield
        charged.append(held["lists of ranks"])
        assert edges.rank_lists is None

    monkeypatch.setattr(RankedEdges, "rank_walks", seen)
    with gd.connect(device="cpu", memory_limit="200 MB") as db, interpreted():
        db["E"] = core(100, 8)
        db.workspace.force(algebra=mode)
        db.workspace.tune(algebra_from=0, algebra_rows=0, algebra_halves=0, algebra_split=0)
        db.query("n(count()) <- E(a,b), E(a,c), E(b,c), E(b,d), E(c,d), distinct(a,b,c,d).")
    assert charged[0] > 0
    assert charged[1] == 0
