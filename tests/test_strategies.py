"""Plans of strata: what ran is what the plan said, and what the plan says is printed and checked.

`plans/strata.txt` holds programs and the plans of their strata. After a change,
`python -m tests.test_strategies` writes them anew, to be read before they are kept.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import gdatalog as gd
from gdatalog.engine import strata
from gdatalog.engine.fixpoint import strategies as fixpoint
from gdatalog.engine.fixpoint.bitmap_rounds import MarkedRounds
from gdatalog.engine.fixpoint.lattice_worklist import InPlace
from gdatalog.engine.fixpoint.maintenance import Maintenance
from gdatalog.engine.fixpoint.partitioned import PartitionedStratum
from gdatalog.engine.fixpoint.ready import Ready
from gdatalog.engine.fixpoint.rounds import Rounds
from gdatalog.engine.fixpoint.strategies import OneWorklist
from gdatalog.gpu_ops.device import Gpu
from gdatalog.plan.placement import OnWorkers
from gdatalog.plan.stratum import (
    Again,
    BitmapRounds,
    Copy,
    Fallback,
    Incremental,
    InPlaceLattice,
    Key,
    Once,
    Partitioned,
    SemiNaive,
    StratumPlan,
    Worklist,
)
from gdatalog.plan.tuning import Bytes, TooManyRows, Unsuited, When
from tests.cuda_host import HostDriver
from tests.draw import Drawn, programs
from tests.draw_recursion import recursions
from tests.interpreted import interpreted
from tests.plan_check import PlanError, check_stratum
from tests.plan_text import format_rule
from tests.test_engine_oracle import frame, share
from tests.test_queries import PROGRAMS, QUERIES
from tests.test_queries import _asked as asked

pytestmark = [
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

SNAPSHOTS = Path(__file__).parent / "plans" / "strata.txt"
# What runs a strategy: the one method that it calls.
RUNS = {
    Rounds: SemiNaive,
    MarkedRounds: BitmapRounds,
    PartitionedStratum: Partitioned,
    OneWorklist: Worklist,
    InPlace: InPlaceLattice,
    Maintenance: Incremental,
}


def format_stratum(plan: StratumPlan) -> str:
    """The whole plan as text: a line for each rewrite and strategy, then the plans of rules."""
    recursive = " recursive" * plan.recursive
    lines = [f"{', '.join(plan.relations)}:{recursive} {plan.placement}"]
    lines += [f"  {line}" for line in plan.lines(whole=True)]
    for rules, when in ((plan.before, "before: "), (plan.rules, "")):
        for rule in rules:
            lines.append(f"  {when}a rule of {rule.relation}")
            lines += [f"    {line}" for line in format_rule(rule).splitlines()]
    return "\n".join(lines)


@dataclass
class Ran:
    """What ran of one stratum: its plan, and the classes of strategies that began, in order."""

    ready: Ready
    strategies: list[Any]


@contextmanager
def noting() -> Iterator[list[Ran]]:
    """Within, the strata that run are noted, each with its plan."""
    ran: list[Ran] = []
    with pytest.MonkeyPatch.context() as patch:
        run_here = strata.run_here

        def noted(ready: Ready) -> Any:
            check_stratum(ready.plan)
            assert pickle.loads(pickle.dumps(ready.plan)) == ready.plan
            ran.append(Ran(ready, []))
            return run_here(ready)

        def spy(cls: Any, name: str) -> None:
            real = getattr(cls, name)

            def spied(self: Any, *rest: Any) -> Any:
                ran[-1].strategies.append(RUNS[type(self)])
                return real(self, *rest)

            patch.setattr(cls, name, spied)

        once, copied = strata.StratumRun.once, strata._copy

        def noted_once(self: Any, limit: int | None = None) -> Any:
            if ran and self.stratum is ran[-1].ready.stratum:  # what begins a closure runs before
                ran[-1].strategies.append(Once)
            return once(self, limit)

        def noted_copy(*rest: Any) -> Any:
            ran[-1].strategies.append(Copy)
            return copied(*rest)

        patch.setattr(strata, "run_here", noted)
        patch.setattr(fixpoint, "run_here", noted)
        for cls in (Rounds, MarkedRounds, PartitionedStratum, InPlace):
            spy(cls, "run")
        spy(PartitionedStratum, "counts")
        spy(Maintenance, "follow")
        again = strata._again

        def noted_again(strategy: Any, ready: Ready) -> Any:
            ran[-1].strategies.append(Again)
            return again(strategy, ready)

        patch.setitem(strata.RUNNERS, Again, noted_again)
        patch.setattr(strata.StratumRun, "once", noted_once)
        patch.setitem(strata.RUNNERS, Copy, noted_copy)
        yield ran


def check_ran(ran: list[Ran], explained: list[StratumPlan]) -> None:
    """Each stratum ran by the strategies of its plan, from the first one on, which are those that
    `explain` has named."""
    foretold = {plan.relations: plan for plan in explained}
    for each in ran:
        plan = each.ready.plan
        named = [type(way) for way in plan.strategies]
        assert each.strategies == named[: len(each.strategies)], format_stratum(plan)
        before = foretold.get(plan.relations)
        if before is not None and before.rewrites == plan.rewrites:
            main = before.main
            if isinstance(main, Partitioned) and plan.main == replace(main, counted=True):
                continue
            assert [type(way) for way in before.strategies] == named, format_stratum(plan)


# ------------------------------------------------------------------- what ran is what was said

# What is forced, and whether rounds give up at once.
FORCED: tuple[tuple[dict[str, str], bool], ...] = (
    ({}, False),
    ({}, True),
    ({"strategy": "lftj"}, False),
    ({"split": "never"}, True),
    ({"split": "always", "encode": "always"}, False),
    ({"strategy": "levelwise", "dead_variables": "always"}, False),
)


@contextmanager
def running(knobs: dict[str, str], hasty: bool) -> Iterator[tuple[gd.Database, list[Ran]]]:
    """A database, and what runs in it. `hasty`: rounds are given up as soon as they can be."""
    with ExitStack() as stack:
        db = stack.enter_context(gd.connect(device="cpu", threads=1))
        if hasty:
            db.workspace.tune(rounds_most=0, worklist_rounds=2)
        db.workspace.force(**knobs)
        stack.enter_context(interpreted())
        yield db, stack.enter_context(noting())


def load(db: gd.Database) -> None:
    db["E"] = [(x, x + 1) for x in range(30)]
    db["W"] = [(x, y, x + y) for x in range(8) for y in range(x)] + [(0, 5, 1), (5, 7, 2)]


def run(drawn: Drawn) -> None:
    """Explains and evaluates a program, in the way of its number."""
    with running(*FORCED[drawn.seed % len(FORCED)]) as (db, ran):
        for name, (types, rows) in drawn.data.items():
            db[name] = frame(types, rows)
        try:
            explained = [planned.plan for planned in db.explain(drawn.text).strata]
            db.run(drawn.text)
            for name in sorted(drawn.defined):
                len(db.relations[name].fetchall())
        except gd.Error:  # refused by the checks, or a value cannot be computed
            return
        check_ran(ran, explained)


PATH = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z)."
TWICE = "p(x, y) <- E(x, y). p(x, z) <- p(x, y), p(z, y)."
REACH = "p(0). p(y) <- p(x), E(x, y)."
TEXTS = 'p(x, s) <- E(x, _), s = "". p(x, cat(s, "a")) <- p(x, s), strlen(s) < 9.'
BEST = "d(y, min(w)) <- W(0, y, w). d(y, min(v + w)) <- d(x, v), W(x, y, w)."
FAR = f"d(y, min(w)) <- W(0, y, w). d(y, min(v + {1 << 62})) <- d(x, v), v < 9, W(x, y, _)."
CASES: tuple[tuple[str, dict[str, str], bool, tuple[type, ...]], ...] = (
    ("p(x, z) <- E(x, y), E(y, z).", {}, False, (Once,)),
    ("p(x, y) <- E(x, y).", {}, False, (Copy,)),
    (TWICE, {}, True, (SemiNaive,)),
    (PATH, {}, False, (SemiNaive,)),
    (PATH, {}, True, (SemiNaive, Partitioned)),
    (PATH, {"split": "always"}, False, (Partitioned,)),
    (PATH, {"split": "never"}, True, (SemiNaive,)),
    (PATH, {"strategy": "levelwise"}, True, (SemiNaive,)),
    (TEXTS, {}, True, (SemiNaive, Partitioned, SemiNaive)),
    (REACH, {}, False, (SemiNaive,)),
    (REACH, {}, True, (SemiNaive, Worklist)),
    (REACH, {"strategy": "lftj"}, False, (Worklist,)),
    (BEST, {}, False, (SemiNaive,)),
    (BEST, {}, True, (SemiNaive, InPlaceLattice)),
    (BEST, {"strategy": "lftj"}, False, (InPlaceLattice,)),
    (FAR, {"strategy": "lftj"}, False, (InPlaceLattice, SemiNaive)),
)


@pytest.mark.parametrize(("text", "knobs", "hasty", "expected"), CASES)
def test_strategies(
    text: str, knobs: dict[str, str], hasty: bool, expected: tuple[type, ...]
) -> None:
    with running(knobs, hasty) as (db, ran):
        load(db)
        explained = [planned.plan for planned in db.explain(text).strata]
        db.query(text)
    check_ran(ran, explained)
    assert [tuple(each.strategies) for each in ran] == [expected]


@pytest.mark.slow
def test_strategies_of_a_device() -> None:
    for text, hasty, expected in (
        (PATH, False, (SemiNaive,)),
        (REACH, True, (SemiNaive, BitmapRounds)),
        (TWICE, True, (SemiNaive,)),
    ):
        with running({}, hasty) as (db, ran):
            if hasty:  # what little there is to look at is enough
                db.workspace.tune(device_from=1, device_from_turn=0)
            db.workspace.device = Gpu(HostDriver())
            load(db)
            db.query(text)
        check_ran(ran, [])
        assert [tuple(each.strategies) for each in ran] == [expected]


def test_a_profile_says_what_was_given_up() -> None:
    with running({}, True) as (db, _):
        load(db)
        (stratum,) = db.profile(PATH).tree.find("stratum")
    assert stratum.details[0] == "given up after 0 rows: semi-naive rounds"
    assert any("a fixpoint for each x of p" in line for line in stratum.details)


@dataclass
class Elsewhere:
    """A cluster that takes recursive strata, and leaves them to whoever asks in the end."""

    until: tuple[When, ...]
    taken: int = 0

    def placement(self, *asked: Any) -> OnWorkers:
        return OnWorkers(2, "x of p", until=self.until)

    def fixpoint(self, *asked: Any) -> None:
        self.taken += 1

    def rule(self, *asked: Any) -> None:
        return None

    close = stays = foreseen = rule


@pytest.mark.parametrize("text", [PATH, PATH + "n(count()) <- p(_, _)."])
def test_workers_take_over_at_a_count_of_rows(text: str) -> None:
    for until, taken in (((TooManyRows(1_000),), 1), ((TooManyRows(1 << 40), Bytes(1 << 40)), 0)):
        with running({"split": "always"}, False) as (db, _):
            db["E"] = [(x, x + 1) for x in range(150)]
            cluster = Elsewhere(until)
            db.workspace.cluster = cluster  # type: ignore[assignment]
            rows = len(db.query(text))
        assert (rows, cluster.taken) == (1 if "count" in text else 11_325, taken)


@pytest.mark.drawn
@share(2)
@given(recursions())
def test_drawn_recursions(drawn: Drawn) -> None:
    run(drawn)


@pytest.mark.drawn
@share(2)
@given(programs())
def test_drawn_programs(drawn: Drawn) -> None:
    run(drawn)


@pytest.mark.parametrize("name", PROGRAMS)
def test_queries(name: str) -> None:
    path = QUERIES / f"{name}.dl"
    with running({}, False) as (db, ran):
        db.run_file(path)
        for text in asked(path):
            explained = [planned.plan for planned in db.explain(text).strata]
            len(db.query(text))
            assert ran
            check_ran(ran, explained)
            ran.clear()


# ------------------------------------------------------------------------------- snapshots


def snapshots() -> list[tuple[str, str]]:
    cases = SNAPSHOTS.read_text(encoding="utf-8").split("====\n")
    return [tuple(case.split("----\n")) for case in cases]  # type: ignore[misc]


def formatted(text: str) -> str:
    with gd.connect(device="cpu", threads=1) as db:
        load(db)
        return "".join(f"{format_stratum(each.plan)}\n" for each in db.explain(text).strata)


@pytest.mark.parametrize(
    ("text", "plans"), snapshots(), ids=lambda part: part.split("\n")[0].strip("/ ")[:40]
)
def test_snapshots(text: str, plans: str) -> None:
    assert formatted(text) == plans


# ----------------------------------------------------------------------------- the checker


def plan_of(text: str) -> StratumPlan:
    with gd.connect(device="cpu", threads=1) as db:
        load(db)
        (planned,) = db.explain(text).strata
        return planned.plan


def test_a_view_goes_on_from_what_it_was_and_from_all_rows_where_much_follows() -> None:
    with gd.connect(device="cpu") as db, noting() as ran:
        db["E"] = [(x, x + 1) for x in range(20)]
        db.run(PATH)
        assert len(db["p"]) == 210
        db.workspace.tune(news_derived_most=0)
        for new, count, strategies in (
            ([(20, 21)], 231, [[Incremental]]),
            ([(21, 0)], 484, [[Incremental, Again], [SemiNaive]]),
        ):
            del ran[:]
            db.insert("E", new)
            assert len(db["p"]) == count
            assert [each.strategies for each in ran] == strategies
            assert ran[0].ready.plan.strategy.changed == ("E",)  # type: ignore[union-attr]


def test_a_broken_plan_is_refused() -> None:
    right = plan_of(PATH)
    check_stratum(right)
    first, partitioned, last = right.strategies
    assert isinstance(first, SemiNaive) and isinstance(partitioned, Partitioned)
    loops = Fallback((Unsuited(),), last)
    for broken, says in (
        (replace(right, relations=("p", "p")), "a relation stands twice"),
        (replace(right, recursive=False), "what is not recursive runs once"),
        (replace(right, strategy=Copy("q")), "only rounds evaluate every recursion"),
        (replace(right, relations=("q",), rules=right.rules[1:]), "a key"),
        (replace(right, before=right.rules), "what runs before is recursive"),
        (replace(right, strategy=Once()), "only rounds evaluate every recursion"),
        (replace(right, strategy=Worklist()), "only rounds evaluate every recursion"),
        (replace(right, strategy=SemiNaive((), Fallback((), last))), "has no condition"),
        (
            replace(right, strategy=InPlaceLattice(Fallback((TooManyRows(1),), last))),
            "nobody counts for best values",
        ),
        (
            replace(right, strategy=SemiNaive((), Fallback((Unsuited(),), partitioned))),
            "rounds suit every recursion",
        ),
        (
            replace(right, strategy=Partitioned((Key("p", 1, "y"),), False, loops)),
            "a rule of p does not pass on",
        ),
    ):
        with pytest.raises(PlanError) as caught:
            check_stratum(broken)
        assert says in str(caught.value)


def write_snapshots() -> None:
    warnings.simplefilter("ignore", gd.ProgramWarning)
    cases = [f"{text}----\n{formatted(text)}" for text, _ in snapshots()]
    SNAPSHOTS.write_text("====\n".join(cases), encoding="utf-8")


if __name__ == "__main__":
    write_snapshots()
