"""What a profile tells of rounds, rule by rule; and what is told while a fixpoint runs."""

from __future__ import annotations

from math import comb
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.engine.metrics import Metrics, StratumMetrics, Way
from gdatalog.limits import Limits
from gdatalog.report import Profile
from gdatalog.report.text import sparkline

CHAIN = [(at, at + 1) for at in range(40)]
LINEAR = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z)."
TWICE = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). p(x, z) <- E(x, y), p(y, z)."


def database(edges: list[tuple[int, int]]) -> gd.Database:
    db = gd.connect(device="cpu")
    db["E"] = edges
    return db


def test_rounds_as_a_frame() -> None:
    rounds = database([(1, 2), (2, 3), (3, 4), (1, 3)]).profile(TWICE, strategy="levelwise").rounds
    assert list(rounds.columns) == [
        "stratum", "relation", "rule", "round", "tried", "new", "duplicates", "seconds", "bytes",
        "executor",
    ]  # fmt: skip
    assert set(rounds["relation"]) == {"p"} and set(rounds["executor"]) == {"breadth-first"}
    assert (rounds["tried"] == rounds["new"] + rounds["duplicates"]).all()
    # 1-2 2-3 3-4 1-3; then 1-3 again (known), 1-4, 2-4; then 1-4 again
    first = rounds[rounds["round"] == 0]
    assert first[["tried", "new"]].values.tolist() == [[4, 4]]
    second = rounds[rounds["round"] == 1]
    # Both rules give the same rows: they are new for the first of them.
    assert second[["tried", "new"]].values.tolist() == [[3, 2], [3, 0]]
    assert rounds["new"].sum() == 6 and (rounds["seconds"] >= 0).all()
    assert (rounds["bytes"] > 0).all()


def test_one_rule_of_several_alternatives() -> None:
    text = "p(x, y) <- E(x, y) ; p(y, x)."
    rounds = database([(1, 2), (2, 1), (2, 3)]).profile(text, strategy="levelwise").rounds
    assert rounds.groupby("round")["new"].sum().tolist() == [3, 1, 0]


def test_propositions_and_facts_have_rounds_too() -> None:
    text = "a() <- b(). b() <- a(). a() <- E(1, _). b()."
    rounds = database([(1, 2)]).profile(text + " ?- a().", strategy="levelwise").rounds
    told = rounds[rounds["relation"] == "a"]
    assert told["new"].sum() == 1


def test_the_best_values_of_groups() -> None:
    text = "d(1, 0). d(y, min(c + 1)) <- d(x, c), E(x, y)."
    db = database([(1, 2), (2, 3), (1, 3)])
    profile = db.profile(text, strategy="levelwise")
    assert sorted(profile.result.fetchall()) == [(1, 0), (2, 1), (3, 1)]
    assert profile.rounds["new"].sum() >= 2


def test_the_text_shows_few_of_many_rounds() -> None:
    profile = database(CHAIN).profile(LINEAR, strategy="levelwise")
    text = str(profile)
    rounds = profile.rounds
    last = int(rounds["round"].max())
    assert last == 40 and "820 rows of path in 40 rounds" in text
    lines = [line.split() for line in text.splitlines() if line.endswith("  breadth-first")]
    shown = [int(line[0]) for line in lines if line[0].isdecimal()]
    assert shown[:3] == [0, 1, 2] and shown[-3:] == [38, 39, 40] and len(shown) <= 9
    assert sum(line[0] == "..." for line in lines) >= 1
    assert "rule 2: path(x, z) <- path(x, y), E(y, z)." in text
    assert len(profile.to_dict()["rounds"]) == len(rounds)


@pytest.mark.parametrize(("strategy", "size"), [("lftj", 60), ("levelwise", 20)])
def test_words_of_partial_matches(strategy: Any, size: int) -> None:
    """Of two, three and four vertices of a clique in order: as rows, and as cuTS' tree."""
    db = database([(a, b) for a in range(size) for b in range(a + 1, size)])
    text = "p(a, b, c, d) <- E(a, b), E(a, c), E(a, d), E(b, c), E(b, d), E(c, d)."
    profile = db.profile(text, strategy=strategy)
    counts = [comb(size, k) for k in (2, 3, 4)]
    counts[0] -= (size - 1) * (strategy == "levelwise")  # which looks ahead: what has no neighbour
    rows, tree = sum(k * n for k, n in zip((2, 3, 4), counts, strict=True)), 2 * sum(counts)
    (rule,) = profile.tree.find("rule")
    facts = dict(rule.facts)
    assert (facts["words_as_rows"], facts["words_as_tree"]) == (rows, tree)
    told = f"partial matches: {rows:,} words as rows, {tree:,} as a tree"
    assert (told in str(profile)) == (rows >= 1_000_000)


def test_all_as_plain_data() -> None:
    profile = database([(1, 2), (2, 3)]).profile(f"{LINEAR} n(count()) <- path(_, _).")
    strata = [node for node in profile.to_dict()["children"] if node["kind"] == "stratum"]
    first, second = (node["facts"] for node in strata)
    assert first["recursive"] and not second["recursive"]
    assert first["relations"] == "path" and first["rows of path"] == 3
    assert first["peak_bytes"] > 0 and 0 < strata[0]["seconds"] <= profile.seconds
    assert second["rows of n"] == 1


def test_the_memory_of_a_query_of_few_rows() -> None:
    """It is not that of chunks, which few rows do not fill."""
    profile = database([(1, 2), (2, 3), (3, 1)]).profile("?- E(x, y), E(y, z), E(z, x).")
    assert profile.to_dict()["facts"]["peak_bytes"] < 20_000


def test_a_fixpoint_without_rounds() -> None:
    db = database([(1, 2)])
    session = db.workspace.open(LINEAR, None)
    (stratum,) = session.checked.strata
    limits = Limits()
    told = StratumMetrics(stratum, limits, lasting=True)
    told.way = Way("split on x", 5, "values", 2, 1234, 0.5)
    limits.charge("path", 4096)
    told.end({"path": 1000})
    profile = Profile(Metrics(strata=[told]), 1.0, 8192, None)
    assert "split on x: 5 values, 1,234 rows tried, 2 threads, 0.500 s" in str(profile)
    assert "1,000 rows of path, 4.0 KiB held" in str(profile)
    assert "500.0" in str(profile) and "tried  new" not in str(profile)
    (line,) = profile.rounds.to_dict("records")
    assert line["tried"] == 1234 and line["new"] == 1000 and line["duplicates"] == 234
    assert profile.rounds["round"].isna().all()
    assert dict(profile.tree.children[0].facts)["way"].startswith("split on x: 5 values")


def test_without_a_profile_rounds_are_forgotten() -> None:
    db = database(CHAIN)
    with db.call():
        assert len(db.query(LINEAR, strategy="levelwise")) == 820
        assert db.workspace.context is not None
        metrics = db.workspace.context.metrics
    assert not any(stratum.rules for stratum in metrics.strata) and not metrics.runs


def test_a_row_of_bars() -> None:
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "··"
    assert sparkline([1, 100]) == "▁█"
    bars = sparkline(list(range(1000)))
    assert len(bars) <= 60 and bars[-1] == "█" and list(bars) == sorted(bars, key="·▁▂▃▄▅▆▇█".index)


@pytest.mark.parametrize("threads", [1, 2])
def test_no_round_gives_more_than_it_has_tried(threads: int) -> None:
    """Even where a thread stops because another one has filled the hash set."""
    far = 1 << 24
    with gd.connect(threads=threads) as db:
        db.workspace.force(split="never", dead_variables="never", dedup="hash")
        db["E"] = [(x * far, (x * x + y) % 300 * far) for x in range(300) for y in (1, 3, 9)]
        text = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), p(y, z)."
        rounds = db.profile(text, strategy="lftj").rounds
    later = rounds[rounds["round"] > 0]
    assert len(later) and (later["tried"] >= later["new"]).all()
