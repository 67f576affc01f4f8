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
from gdatalog.codegen import native
from gdatalog.engine import stratum_planner
from gdatalog.engine.evaluator import evaluator
from gdatalog.engine.operators import partitioned_run
from gdatalog.engine.operators.again import Again
from gdatalog.engine.operators.bitmap_rounds import BitmapRounds
from gdatalog.engine.operators.copy import Copy
from gdatalog.engine.operators.counted import Counted
from gdatalog.engine.operators.fallback import WithFallback
from gdatalog.engine.operators.incremental import Incremental
from gdatalog.engine.operators.lattice import InPlaceLattice
from gdatalog.engine.operators.once import Once
from gdatalog.engine.operators.partitioned import Partitioned
from gdatalog.engine.operators.partitioned_run import Key
from gdatalog.engine.operators.semi_naive import SemiNaive
from gdatalog.engine.operators.worklist import Worklist
from gdatalog.engine.stratum_plan import StratumPlan
from gdatalog.gpu_ops.device import Gpu
from gdatalog.plan.conditions import Bytes, LargeTurns, TooManyRows, Unsuited, When
from gdatalog.plan.placement import WorkerPlacement
from tests.cases import share
from tests.cuda_host import HostDriver
from tests.draw import Drawn, programs
from tests.draw_recursion import recursions
from tests.interpreted import interpreted
from tests.plan_check import PlanError, check_stratum
from tests.plan_text import format_rule
from tests.test_engine_oracle import frame
from tests.test_queries import PROGRAMS, QUERIES
from tests.test_queries import _asked as asked

pytestmark = [
    pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

SNAPSHOTS = Path(__file__).parent / "plans" / "strata.txt"
# The operators that evaluate rules.
LEAVES = (
    BitmapRounds, Copy, Counted, Incremental, InPlaceLattice, Once, Partitioned, SemiNaive,
    Worklist, Again,
)  # fmt: skip


def format_stratum(plan: StratumPlan) -> str:
    """The whole plan as text: a line for each operator, then the plans of rules."""
    recursive = " recursive" * plan.recursive
    lines = [f"{', '.join(plan.relations)}:{recursive} {plan.placement}"]
    lines += [f"  {line}" for line in plan.lines(whole=True)]
    first = {id(rule_plan) for _, rule_plan in before(plan)}
    for _, rule_plan in plan.rules:
        when = "before: " if id(rule_plan) in first else ""
        lines.append(f"  {when}a rule of {rule_plan.relation}")
        lines += [f"    {line}" for line in format_rule(rule_plan).splitlines()]
    return "\n".join(lines)


def before(plan: StratumPlan) -> list[Any]:
    """The rules that run before the main operator."""
    main = {id(each) for _, each in plan.main.rules}
    return [pair for pair in plan.rules if id(pair[1]) not in main]


@dataclass
class Ran:
    """What ran of one stratum: its plan, and the classes of operators that began, in order."""

    plan: StratumPlan
    operators: list[Any]


@contextmanager
def noting() -> Iterator[list[Ran]]:
    """Within, the strata that run are noted, each with its plan."""
    ran: list[Ran] = []
    with pytest.MonkeyPatch.context() as patch:
        run = stratum_planner.run

        def noted(plan: StratumPlan, *rest: Any) -> Any:
            check_stratum(plan)
            assert pickle.loads(pickle.dumps(plan)) == plan
            ran.append(Ran(plan, []))
            return run(plan, *rest)

        def planned_anew() -> bool:
            return ran[-1].operators[-1:] == [Again]

        def spy(cls: Any) -> None:
            real = cls.run

            def spied(self: Any, *rest: Any) -> Any:
                # Other ones run while a plan is made: what a closure starts from.
                if ran and (any(self is leaf for leaf in ran[-1].plan.leaves) or planned_anew()):
                    ran[-1].operators.append(cls)
                return real(self, *rest)

            patch.setattr(cls, "run", spied)

        for module in (stratum_planner, evaluator):
            patch.setattr(module, "run", noted)
        for cls in LEAVES:
            spy(cls)
        yield ran


def check_ran(ran: list[Ran], explained: list[StratumPlan]) -> None:
    """Each stratum ran by the operators of its plan, from the first one on, which are those that
    `explain` has named."""
    foretold = {plan.relations: plan for plan in explained}
    for each in ran:
        plan = each.plan
        named = [type(leaf) for leaf in plan.leaves]
        ran_of = (
            each.operators[: each.operators.index(Again)]
            if Again in each.operators
            else each.operators
        )
        assert ran_of == named[: len(ran_of)], format_stratum(plan)
        said = foretold.get(plan.relations)
        if said is not None and type(said.root) is type(plan.root):
            if isinstance(plan.main, Counted) and isinstance(said.main, Partitioned):
                continue
            assert [type(leaf) for leaf in said.leaves] == named, format_stratum(plan)


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
    assert [tuple(each.operators) for each in ran] == [expected]


CLOSURE = "p(x, z) <- E(x, z). p(x, z) <- p(x, y), p(y, z)."  # linear, from its start on


@pytest.mark.parametrize(
    ("text", "knobs", "first", "again"),
    [
        (PATH, {"rounds_most": 0}, (SemiNaive, Partitioned), (Partitioned,)),
        (CLOSURE, {"rounds_most": 0}, (SemiNaive, Partitioned), (Partitioned,)),
        (BEST, {"rounds_most": 0}, (SemiNaive, InPlaceLattice), (InPlaceLattice,)),
        (REACH, {"worklist_rounds": 2}, (SemiNaive, Worklist), (Worklist,)),
        # 30 rounds: each of a few calls
        (PATH, {"partitioned_rounds": 100}, (SemiNaive,), (Partitioned,)),
        (PATH, {"partitioned_rounds": 16}, (SemiNaive, Partitioned), (Partitioned,)),
        (PATH, {"partitioned_rounds": 200}, (SemiNaive,), (SemiNaive,)),
        (PATH, {"partitioned_rounds": 16, "worklist_round_rows": 1}, (SemiNaive,), (SemiNaive,)),
    ],
)
def test_what_takes_over_begins_the_next_call_over_the_same_rows(
    text: str, knobs: dict[str, int], first: tuple[type, ...], again: tuple[type, ...]
) -> None:
    with running({}, False) as (db, ran):
        db.workspace.tune(**knobs)
        answers = []
        for _ in range(2):
            load(db)
            answers.append(sorted(db.query(text).fetchall()))
        db["E"], db["W"] = [(0, 1), (1, 2), (3, 4)], [(0, 5, 1), (5, 7, 2), (7, 8, 2)]
        db.query(text)
    assert answers[0] == answers[1] != []
    told = [tuple(each.operators) for each in ran]
    assert told[:2] == [first, again] and told[2][0] is first[0]


def test_what_takes_over_begins_the_next_call_of_a_prepared_query() -> None:
    with running({}, True) as (db, ran):
        load(db)
        asked = db.prepare(PATH.replace("E(x, y).", "E(x, y), x >= $k.") + " ?- p(x, y).")
        found = [len(asked(k=k).fetchall()) for k in (0, 1, 20, 10)]  # the second keeps its plan
    assert found == [30 * 31 // 2, 29 * 30 // 2, 10 * 11 // 2, 20 * 21 // 2]
    told = [tuple(each.operators) for each in ran if each.plan.recursive]
    assert told[1:] == [(SemiNaive, Partitioned), (Partitioned,), (Partitioned,)]


def test_small_rounds_go_on_until_what_takes_over_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready: list[bool] = []
    with running({}, False) as (db, ran):
        soon = native.load_soon
        monkeypatch.setattr(native, "load_soon", lambda *to: soon(*to) if ready else None)
        db.workspace.tune(partitioned_rounds=100)
        for _ in range(3):
            load(db)
            assert len(db.query(PATH)) == 30 * 31 // 2
            ready += [True] * (len(ran) == 2)
    assert [tuple(each.operators) for each in ran] == [
        (SemiNaive,), (Partitioned, SemiNaive), (Partitioned,)
    ]  # fmt: skip


@pytest.mark.slow
def test_strategies_of_a_device() -> None:
    for text, hasty, expected in (
        (PATH, False, (Partitioned, SemiNaive)),  # its kernels are not compiled
        # The first rounds on the device find kernels that are not compiled; later ones wait.
        (REACH, True, 2 * (SemiNaive, BitmapRounds)),
        (TWICE, True, (SemiNaive, BitmapRounds)),
    ):
        with running({}, hasty) as (db, ran):
            if hasty:  # what little there is to look at is enough
                db.workspace.tune(device_from=1, device_from_turn=0)
            db.workspace.device = Gpu(HostDriver())
            load(db)
            db.query(text)
        check_ran(ran, [])
        assert [tuple(each.operators) for each in ran] == [expected]


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

    def placement(self, *asked: Any) -> WorkerPlacement:
        return WorkerPlacement(2, "x of p", until=self.until)

    def fixpoint(self, *asked: Any) -> None:
        self.taken += 1

    def rule(self, *asked: Any) -> None:
        return None

    close = stays = foreseen = rule


@pytest.mark.parametrize("text", [PATH, PATH + "n(count()) <- p(_, _)."])
def test_workers_take_over_at_a_count_of_rows(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned_run, "HERE", 0)  # little work is not looked at
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
        for new, count, operators in (
            ([(20, 21)], 231, [[Incremental]]),
            ([(21, 0)], 484, [[Incremental, Again, SemiNaive]]),
        ):
            del ran[:]
            db.insert("E", new)
            assert len(db["p"]) == count
            assert [each.operators for each in ran] == operators
            assert ran[0].plan.main.changed == ("E",)  # type: ignore[attr-defined]


def test_a_broken_plan_is_refused() -> None:
    right = plan_of(PATH)
    check_stratum(right)
    first, partitioned, last = right.leaves
    assert isinstance(first, SemiNaive) and isinstance(partitioned, Partitioned)
    once, copied, unsuited = Once(first.of), Copy(right.rules[0][0], "E"), (Unsuited(),)
    twice = replace(right.stratum, relations=("p", "p"))
    plain = replace(right.stratum, recursive=False)
    keyed = replace(partitioned, keys=(Key("p", 1, "y"),))
    for broken, says in (
        (
            replace(right, stratum=twice),
            "a relation stands twice",
        ),
        (
            replace(right, stratum=plain),
            "what is not recursive runs once",
        ),
        (replace(right, root=copied), "only rounds evaluate every recursion"),
        (replace(right, root=once), "only rounds evaluate every recursion"),
        (replace(right, root=partitioned), "only rounds evaluate every recursion"),
        (replace(right, root=WithFallback(first, (), last)), "has no condition"),
        (
            replace(right, root=WithFallback(partitioned, (LargeTurns(1, 1, 1),), last)),
            "nobody counts for a fixpoint",
        ),
        (
            replace(right, root=WithFallback(first, unsuited, last)),
            "rounds suit every recursion",
        ),
        (
            replace(right, root=WithFallback(keyed, unsuited, last)),
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
