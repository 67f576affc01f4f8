"""The costliest rules at the head of a profile, and what would help them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

import gdatalog as gd
from gdatalog.engine.metrics import Index, RuleRound, RuleRun
from gdatalog.executors.sinks import StepCounts
from gdatalog.overhead import Costs
from gdatalog.plan.join_plan import Join, RulePlan, TrieRef
from gdatalog.planner.check import CheckedRule
from gdatalog.report import Profile
from gdatalog.report.hints import KnownIndexes, hint_of, shared_join
from gdatalog.report.rules import RuleRan
from gdatalog.report.tree import ReportNode

RULES = """
near(x, y) <- E(x, y).
path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z).
far(x) <- path(x, y), !E(x, y).
"""


def database() -> gd.Database:
    db = gd.connect(device="cpu")
    db["E"] = [(x, (x * 7 + y) % 40) for x in range(40) for y in range(3)]
    db["F"] = [(x, x % 5) for x in range(40)]
    return db


def costly(profile: Profile) -> list[ReportNode]:
    return profile.tree.find("costly rule")


def test_a_profile_begins_with_its_costliest_rules() -> None:
    with database() as db:
        profile = db.profile(RULES + "?- far(x), near(x, _).", strategy="levelwise")
    (node,) = profile.tree.find("costliest")
    assert profile.tree.children[0] is node and str(profile).count("the costliest rules\n") == 1
    seconds = [each.seconds or 0.0 for each in node.children]
    assert seconds == sorted(seconds, reverse=True) and len(seconds) == 4
    assert [each.share for each in node.children] == pytest.approx(
        [spent / profile.seconds for spent in seconds]
    )
    (path,) = [each for each in costly(profile) if "path(x, y), E(y, z)" in each.label]
    facts = dict(path.facts)
    told = profile.rounds[profile.rounds["rule"].str.contains("path(x, y), E", regex=False)]
    assert facts["came out"] == told["tried"].sum() and facts["new"] == told["new"].sum()
    assert f"{facts['came out']:,} rows came out, {facts['new']:,} of them new" in path.details[0]
    # By this number a rule is shown in full.
    (number,) = re.findall(r"^rule (\d+\.\d+): ", path.label)
    (full,) = profile.of(number).tree.find("rule")
    assert full.label.endswith("path(x, z) <- path(x, y), E(y, z).")


def test_of_few_rules_none_is_the_costliest() -> None:
    with database() as db:
        assert not costly(db.profile("p(x) <- E(x, _).", strategy="levelwise"))


def test_rules_that_run_in_the_same_loops_stand_together() -> None:
    text = RULES + "?- far(x), near(x, _)."
    with database() as db:
        db.workspace.force(split="always")
        (node,) = [each for each in costly(db.profile(text)) if "together" in each.label]
    assert re.fullmatch(r"rules \d\.1 to \d\.2, together: path", node.label)
    assert "rows came out; a fixpoint for each x of path: 40 values" in node.details[0]


def test_each_rule_of_a_text_has_its_own_runs() -> None:
    """Two rules that come of one text stand at the same place."""
    text = "path(x, z) <- E(x, z) ; path(x, y), E(y, z). ?- path(1, x)."
    with database() as db:
        first, second, *_ = db.profile(text, strategy="levelwise").tree.find("rule")
    assert "<- E(1, z)" in first.label and "path[cf](y), E(y, z)" in second.label
    for rule in (first, second):
        assert (rule.seconds or 0) > 0 and not rule.find("plan of a rule")


# --------------------------------------------------------------------------------------- hints


def rules_of(text: str) -> list[CheckedRule]:
    with database() as db:
        session = db.workspace.open(text, None)
        return [rule for stratum in session.checked.strata for rule in stratum.rules]


def ran(
    text: str,
    rounds: Mapping[int, tuple[int, int]] | None = None,
    bindings: int = 0,
    **costs: float,
) -> RuleRan:
    """What a rule might have done, in seconds and rows: in each round rows that came out, and those
    that were new."""
    with database() as db:
        (stratum, *_) = db.explain(text).strata
    rule, plan = stratum.rules[-1].rule, stratum.rules[-1].plan
    run = RuleRun(plan, seconds=1.0, costs=Costs(**costs))  # type: ignore[arg-type]
    joins = [step for step in plan.joins[0].steps if isinstance(step, Join)]
    run.seen = {id(step): StepCounts(bindings, bindings, bindings) for step in joins}
    told = [
        RuleRound(rule.head.name, rule, number, tried, new, executors={0: "depth-first"})
        for number, (tried, new) in (rounds or {}).items()
    ]
    return RuleRan(rule, (plan,), (run,), tuple(told))


NOTHING = KnownIndexes({}, {}, frozenset())
JOINED = "p(x, w) <- E(x, y), E(y, z), F(z, w)."


def hint(
    ran: RuleRan, known: KnownIndexes = NOTHING, rows: int = 1000, **others: CheckedRule
) -> str:
    return hint_of(ran, known, {ran.rule.head.name: rows}, others) or ""


def test_what_costs_nothing_special_has_no_hint() -> None:
    assert hint(ran(JOINED)) == ""
    assert hint(ran(JOINED, compiling=0.4, indexing=0.2), rows=100_000) == ""
    assert hint(ran(JOINED, bindings=200_000), rows=100_000) == ""


def test_compiling() -> None:
    told = hint(ran(JOINED, compiling=0.7))
    assert told.startswith("compiling took 700 ms of it; the code is cached")


def test_copying_to_a_device() -> None:
    told = hint(ran(JOINED, moving=0.6, moved=1 << 30))
    assert told == "copying 1.0 GiB to and from the device took 600 ms of it"


def test_an_index_that_one_rule_reads() -> None:
    rule = ran(JOINED, indexing=0.6)
    plan: RulePlan = rule.plans[0]
    ref: TrieRef = next(ref for ref in plan.joins[0].tries if ref.relation == "F")
    index = Index(ref, ("a", "b"), 12_000_000, 1 << 20, 0.5, 1)
    told = hint(rule, KnownIndexes({ref: index}, {ref: 1}, frozenset()))
    assert told.startswith("making the index F by ") and "(12,000,000 entries) took 500 ms" in told
    assert "no other rule reads that; it is kept" in told
    derived = hint(rule, KnownIndexes({ref: index}, {ref: 1}, frozenset({"F"})))
    assert derived.endswith("no other rule reads that")
    assert hint(rule, KnownIndexes({ref: index}, {ref: 2}, frozenset())) == ""


def test_rows_that_are_given_again_and_again() -> None:
    told = hint(ran(JOINED, bindings=1_200_000), rows=100_000)
    assert told.startswith("it gives each row 12 times on average, by other values of y or z, ")
    # Where all atoms need the variable there is nothing to take apart.
    assert hint(ran("p(x, z) <- E(x, y), E(y, z).", bindings=1_200_000), rows=100_000) == ""
    assert hint(ran("p(x, y, z, w) <- E(x, y), E(y, z), F(z, w).", bindings=1_200_000)) == ""


def test_a_rule_that_gives_nothing_new() -> None:
    path = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z)."
    told = hint(ran(path, {1: (60_000, 0), 2: (60_000, 0)}), rows=1_000_000)
    assert told.startswith("none of its 120,000 rows was new")
    assert hint(ran(path, {1: (60_000, 0), 2: (60_000, 1)}), rows=1_000_000) == ""


def test_a_join_that_other_rules_have_too() -> None:
    first, second, third = rules_of(
        "p(x) <- E(x, y), E(y, z), F(z, x). q(a, c) <- F(c, a), E(a, b), E(b, c), a < c. "
        "r(x) <- E(x, y), E(y, z), F(x, z). ?- p(x), q(x, _), r(x)."
    )[:3]
    assert shared_join(first, second) == shared_join(second, first) == 3
    assert shared_join(first, third) == 0 and shared_join(third, second) == 0
    costly = ran("p(x) <- E(x, y), E(y, z), F(z, x).", bindings=1_000_000)
    told = hint(costly, rows=1_000_000, **{"2.1": second, "3.1": third})
    assert told.startswith("rule 2.1 joins the same 3 atoms: a rule of its own")
    told = hint(costly, rows=1_000_000, **{"2.1": second, "2.2": second})
    assert told.startswith("rules 2.1 and 2.2 join the same 3 atoms")
    assert hint(costly, rows=1_000_000, **{"3.1": third}) == ""


def test_what_cannot_be_compiled() -> None:
    with database() as db:
        db["S"] = [(f"a{x % 9}", f"b{x % 4}") for x in range(40)]
        text = "p(cat(a, b, c)) <- S(a, x), S(b, x), S(c, x), a < b, b < c."
        profile = db.profile(text, strategy="levelwise")
    (rule,) = profile.runs
    assert "cannot be compiled" not in str(profile)  # it looks at few rows
    run = RuleRan(profile.strata[0].stratum.rules[0], (rule.plan,), (rule,), ())
    for seen in rule.seen.values():
        seen.tried = seen.rows_out = 1_000_000
    told = hint(run, rows=10_000_000)
    assert told.startswith("it cannot be compiled, for cat() makes new strings: the join without")


def test_no_more_rows_are_new_than_came_out() -> None:
    """Loops that are begun again with more room have not seen the rows that came before."""
    path = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z)."
    assert ran(path, {1: (10, 12), 2: (10, 3)}).candidates == 22
