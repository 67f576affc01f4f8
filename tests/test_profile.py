"""What a profile tells of rounds, rule by rule; and what is told while a fixpoint runs."""

from __future__ import annotations

import io
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.engine.ledger import Ledger, StratumTold, Way
from gdatalog.executors import lftj
from gdatalog.executors.limits import Limits
from gdatalog.report import Profile
from gdatalog.report.text import sparkline
from gdatalog.shell.progress import ProgressLine
from tests.interpreted import interpreted

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
    assert len(profile.to_dict()["strata"][0]["rules"]) == len(rounds)


def test_all_as_plain_data() -> None:
    profile = database([(1, 2), (2, 3)]).profile(f"{LINEAR} n(count()) <- path(_, _).")
    first, second = profile.to_dict()["strata"]
    assert first["recursive"] and not second["recursive"]
    assert first["relations"] == ["path"] and first["rows"] == {"path": 3}
    assert first["peak_bytes"] > 0 and 0 < first["seconds"] <= profile.seconds
    assert second["rows"] == {"n": 1}


def test_a_fixpoint_without_rounds() -> None:
    db = database([(1, 2)])
    session = db._workspace.open(LINEAR, None)
    (stratum,) = session.checked.strata
    limits = Limits()
    told = StratumTold(stratum, limits, lasting=True)
    told.way = Way("split on x", 5, "values", 2, 1234, 0.5)
    limits.charge("path", 4096)
    told.end({"path": 1000})
    profile = Profile(Ledger(strata=[told]), 1.0, 8192, None)
    assert "split on x: 5 values, 1,234 rows tried, 2 threads, 0.500 s" in str(profile)
    assert "fixpoint: 1,000 rows of path, " in str(profile)
    assert "0.500 s, 4.0 KiB at the most" in str(profile) and "tried  new" not in str(profile)
    (line,) = profile.rounds.to_dict("records")
    assert line["tried"] == 1234 and line["new"] == 1000 and line["duplicates"] == 234
    assert profile.rounds["round"].isna().all()
    assert profile.to_dict()["strata"][0]["way"].startswith("split on x: 5 values")


def test_without_a_profile_rounds_are_forgotten() -> None:
    db = database(CHAIN)
    assert len(db.query(LINEAR, strategy="levelwise")) == 820
    ledger = db._workspace.ledger
    assert not ledger.strata and not ledger.runs
    assert ledger.now is not None and not ledger.now.rules


def test_a_row_of_bars() -> None:
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "··"
    assert sparkline([1, 100]) == "▁█"
    bars = sparkline(list(range(1000)))
    assert len(bars) <= 60 and bars[-1] == "█" and list(bars) == sorted(bars, key="·▁▂▃▄▅▆▇█".index)


# ------------------------------------------------------------------------ while it is running


def test_what_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule that runs, and how much of its join is done."""
    db = database([(1, 2), (2, 3), (3, 1)])
    seen: list[str] = []
    ran = StratumTold.ran

    def watched(self: StratumTold, did: Any) -> None:
        for share in (0.25, None):
            self.limits.share = share
            seen.append(db._workspace.at_work())
        ran(self, did)

    monkeypatch.setattr(StratumTold, "ran", watched)
    assert len(db.query(LINEAR, strategy="levelwise")) == 9
    assert {"rule 1 of 2", "rule 1 of 2 at 25%", "rule 2 of 2", "rule 2 of 2 at 25%"} == set(seen)
    assert db._workspace.at_work() == ""


def test_compiled_loops_tell_how_far_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[float | None] = []
    share = lftj._share

    def noted(control: Any) -> float | None:
        shares.append(share(control))
        return shares[-1]

    monkeypatch.setattr(lftj, "_share", noted)
    db = database([(x, y) for x in range(35) for y in range(35)])
    with interpreted():  # slow enough to be asked on the way
        assert len(db.query("n(count()) <- E(a, b), E(b, c), E(a, c).", strategy="lftj")) == 1
    assert shares and all(seen is None or 0.0 <= seen <= 1.0 for seen in shares)
    assert any(seen is not None for seen in shares)


def test_the_line_tells_it() -> None:
    line = ProgressLine(io.StringIO(), at_work=lambda: "rule 2 of 3 at 64%")
    line("path")
    assert line.text().startswith("path: ") and "now rule 2 of 3 at 64%" in line.text()
