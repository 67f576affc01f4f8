"""What workers move to count cliques, as explain foresees it and profile tells it."""

from __future__ import annotations

import pytest

import gdatalog as gd
from benchmarks.graphs import rmat
from benchmarks.patterns import clique
from benchmarks.traffic import BOUNDS, both_ways, counted
from tests.clusters import Workers


def test_counted_and_planned(cluster: Workers) -> None:
    graph = rmat(11, 20_000)
    db = gd.connect(device="cpu", cluster=cluster(2))
    db["E"] = both_ways(graph)
    db.workspace.force(spread="partition")
    rule = clique(3).rule()
    ((planned,),) = ((rule.spread for rule in each.rules) for each in db.explain(rule).strata)
    assert planned is not None and planned.planned is not None
    assert planned.way == "partitioned" and planned.workers == 2
    moved = counted(db, 3)
    assert 0 < moved < 2 * planned.planned
    assert moved < BOUNDS[3] * 8 * len(graph.u)
    shown = " ".join(str(db.profile(rule)).replace("│", " ").split())
    assert "over 2 workers, each of which has a part of the rows" in shown
    assert "moved from worker to worker" in shown
    db.close()


def test_replicated(cluster: Workers) -> None:
    db = gd.connect(device="cpu", cluster=cluster(2))
    db["E"] = both_ways(rmat(8, 1_000))
    db.workspace.force(spread="replicate")
    rule = clique(3).rule()
    assert "over 2 workers, each of which has all rows" in str(db.explain(rule))
    assert "over 2 workers, each of which has all rows" in str(db.profile(rule))
    db.workspace.force(spread="never")
    assert "workers" not in str(db.explain(rule))
    db.close()


STRETCHES = "each of which takes ranges of the values of x of path"
OWNERS = "which own the rows by hash, and shuffle new rows in rounds"
PATH = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z). "
SIDES = "sg(x, y) <- E(p, x), E(p, y). sg(x, y) <- E(p, x), sg(p, q), E(q, y). "
BEST = "best(x, min(d)) <- x = 0, d = 0 ; best(y, d0), E(y, x), d = d0 + 1. "
TEXTS = (
    'word(x, s) <- E(x, _), s = "". word(y, cat(s, "a")) <- word(x, s), E(x, y), strlen(s) < 4. '
)


@pytest.mark.parametrize(
    ("text", "spread", "told"),
    [
        (PATH, "auto", "here, and after 20,000,000 rows or at the memory limit "
         f"over 2 workers, {STRETCHES}"),
        (PATH, "replicate", f"over 2 workers, {STRETCHES}"),
        (PATH, "partition", f"over 2 workers, {OWNERS}; none has all that is read"),
        (PATH, "never", None),
        (SIDES, "auto", "here, and at the memory limit over 2 workers, "
         f"{OWNERS} (the workers have too few threads)"),
        (SIDES, "replicate", f"over 2 workers, {OWNERS}"),
        (BEST, "auto", "here, and at the memory limit over 2 workers, "
         f"{OWNERS} (best values are improved in place)"),
        (TEXTS, "replicate", "here, and not over 2 workers: it makes new texts"),
    ],
)  # fmt: skip
def test_explain_says_how_a_fixpoint_is_spread(
    cluster: Workers, text: str, spread: str, told: str | None
) -> None:
    with gd.connect(device="cpu", cluster=cluster(2), threads=1) as db:
        db["E"] = [(x, x + 1) for x in range(30)]
        db.workspace.force(spread=spread)
        plan = db.explain(text)
        stratum = next(node for node in plan.tree.find("stratum") if "recursive" in node.label)
        if told is None:
            assert "workers" not in str(plan)
            return
        assert stratum.details[-1] == told
        assert ("workers", 2) in stratum.facts
        shown = " ".join(str(plan).replace("│", " ").split())
        assert told in shown
        assert told in plan.to_json() and told.split(",")[0] in plan.to_mermaid()
        assert told in plan.to_html()


@pytest.mark.slow
@pytest.mark.parametrize("size", BOUNDS)
def test_bounds(cluster: Workers, size: int) -> None:
    graph = rmat(13, 100_000)
    db = gd.connect(device="cpu", cluster=cluster(4))
    db["E"] = both_ways(graph)
    assert 0 < counted(db, size) < BOUNDS[size] * 8 * len(graph.u)
    db.close()
