"""Plans: every one that planning makes passes the checker, which refuses broken ones.

`plans/snapshots.txt` holds programs and their plans: what typical rules become. After a change
of the planner, `python -m tests.test_plans` writes them anew, to be read before they are kept.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.engine import draft, stratum_planner
from gdatalog.plan.join_plan import (
    Assign,
    Branch,
    Compact,
    Constant,
    Filter,
    Gather,
    Generate,
    Guard,
    Join,
    JoinPlan,
    Participant,
    Reduction,
    Restore,
    Reuse,
    RulePlan,
    Seek,
    Slot,
    Step,
    TrieRef,
)
from gdatalog.planner.check.checked import rule_text
from gdatalog.report.numbers import about
from gdatalog.report.plan_tree import stratum_label
from tests.cases import cases
from tests.corners import CORNERS
from tests.draw import PROFILES, drawn
from tests.examples import EXAMPLES
from tests.plan_check import PlanError, check_join_plan, check_rule_plan
from tests.plan_text import format_rule
from tests.test_engine_oracle import frame

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

SNAPSHOTS = Path(__file__).parent / "plans" / "snapshots.txt"
RANGE = range(6)
DATA: dict[str, Any] = {
    "A": [(x, y) for x in RANGE for y in RANGE if x < y],  # ascending edges
    "S": [(x, y) for x in RANGE for y in RANGE if x != y],  # symmetric ones
    "L": [(x, label) for x in RANGE for label in "abc"],
    "W": [(x, y, (7 * x + y) % 5) for x in RANGE for y in RANGE],
    "G": [(3, 5), (3, 9), (4, 6)],
}


def loaded(data: dict[str, Any]) -> gd.Database:
    db = gd.connect()
    for name, rows in data.items():
        db[name] = rows
    return db


# --------------------------------------------------------------- every plan is a right one


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RulePlan]]:
    """The plans that planning makes, each checked as it is made."""
    plans: list[RulePlan] = []
    make = draft.plan_rule

    def checked(*args: Any, **options: Any) -> RulePlan:
        plan = make(*args, **options)
        check_rule_plan(plan)
        assert format_rule(plan)
        plans.append(plan)
        return plan

    monkeypatch.setattr(draft, "plan_rule", checked)
    yield plans
    assert plans


def plan_all(text: str, data: dict[str, Any]) -> None:
    """Plans all rules of a program over data, and evaluates none."""
    db = loaded({name: frame(types, rows) for name, (types, rows) in data.items()})
    session = db.workspace.open(text, None)
    inputs = session.evaluator.inputs()
    for part in session.checked.strata:
        stratum_planner.plan_stratum(part, inputs)


@pytest.mark.parametrize("example", [e for e in CORNERS + EXAMPLES if not e.fails], ids=str)
def test_examples_have_right_plans(example: Any, planned: list[RulePlan]) -> None:
    db = loaded({name: frame(types, rows) for name, (types, rows) in example.data.items()})
    db.run(example.program)
    for name in example.expected:
        assert db[name] is not None
    planned.append(RulePlan("", (), ()))  # there are examples of facts alone


@pytest.mark.parametrize("profile", PROFILES)
def test_drawn_programs_have_right_plans(profile: str, planned: list[RulePlan]) -> None:
    for seed in range(cases(50)):
        program = drawn(seed, PROFILES[profile])
        try:
            plan_all(program.text, program.data)
        except gd.Error:
            continue  # refused by the checks, or a relation below has no value
        except PlanError as error:
            pytest.fail(f"{error}\n{program}")
    for plan in planned:
        assert pickle.loads(pickle.dumps(plan)) == plan


# ---------------------------------------------------------------------------- the checker

E = TrieRef("E", "full", (0, 1))
NOTHING = TrieRef("go", "full", ())
X, Y = Slot("x", "int"), Slot("y", "int")


def at(trie: int, depth: int) -> Participant:
    return Participant(trie, depth)


RANKED = TrieRef("E", "full", (0, 1), ranked=True)
BACK = Restore(0, ("x", "y"), ("a", "b"), "int")
JOIN_X = Join("x", "int", (at(0, 0),))
JOIN_Y = Join("y", "int", (at(0, 1),))
LARGER = (">", X)
TWO_LISTS = JoinPlan(
    (E, E, E),
    (
        Join("a", "int", (at(0, 0),)),
        Join("b", "int", (at(0, 1), at(1, 0))),
        Join("c", "int", (at(1, 1), at(2, 0))),
        Join("d", "int", (at(2, 1),), reuse=Reuse("c", (0,))),
    ),
    (X,),
)


def plan(*steps: Step, tries: tuple[TrieRef, ...] = (E,), outputs: Any = (X,), **more: Any) -> Any:
    return JoinPlan(tries, steps, outputs, **more)


def test_a_right_plan_passes() -> None:
    check_join_plan(plan(JOIN_X, replace(JOIN_Y, cuts=(LARGER,)), outputs=(X, Y)))
    check_join_plan(plan(Guard(1), JOIN_X, JOIN_Y, tries=(E, NOTHING)))
    check_join_plan(replace(TWO_LISTS, outputs=(Slot("d", "int"),)))
    check_join_plan(
        plan(JOIN_X, JOIN_Y, BACK, tries=(RANKED,), outputs=(Slot("a", "int"), Slot("b", "int")))
    )
    check_join_plan(plan(JOIN_X, JOIN_Y, tries=(RANKED,), outputs=(), bag=True, orbit=2))


BROKEN = {
    "['y'] asked for, not bound": plan(JOIN_X, Seek(X, (at(0, 1),)), outputs=(Y,)),
    "trie 0 (E) is walked 1 of 2 levels": plan(JOIN_X),
    "a column stands twice in a trie": plan(JOIN_X, JOIN_Y, tries=(TrieRef("E", "full", (0, 0)),)),
    "reads ['y'], not bound": plan(replace(JOIN_X, cuts=(("<", Y),)), JOIN_Y),
    "Filter(test=Slot(name='x', type='int')) reads ['x'], not bound": plan(
        Filter(X), JOIN_X, JOIN_Y
    ),
    "skips a level of trie 0": plan(JOIN_Y, JOIN_X),
    "x is bound twice": plan(JOIN_X, Join("x", "int", (at(0, 1),))),
    "has no participants": plan(JOIN_X, JOIN_Y, Join("z", "int", ())),
    "not a cut": plan(JOIN_X, replace(JOIN_Y, cuts=(("!=", X),))),
    "a bag's rows are not made one": plan(JOIN_X, Compact(("x",)), JOIN_Y, bag=True),
    "keeps what is not bound": plan(JOIN_X, Compact(("y",)), JOIN_Y),
    "a guard's trie has no columns": plan(Guard(0), JOIN_X, JOIN_Y),
    "a list is reused that no level above has made": plan(
        JOIN_X, replace(JOIN_Y, reuse=Reuse("z", (0,)))
    ),
    "more participants are covered": plan(
        JOIN_X,
        Join("y", "int", (at(0, 1), at(1, 0)), reuse=Reuse("x", (0, 1))),
        Join("z", "int", (at(1, 1),)),
        tries=(E, E),
    ),
    "covers whom?": plan(JOIN_X, replace(JOIN_Y, reuse=Reuse("x", (1,)))),
    "count?": plan(
        JOIN_X, JOIN_Y, Branch("count", (), ((),), Reduction("count", (), "n", "int", ((),)))
    ),
    "aggregate?": plan(JOIN_X, JOIN_Y, Branch("aggregate", (), ((),))),
    "a set of rows has no orbits": plan(JOIN_X, JOIN_Y, orbit=2),
    "what grows is not ranked": plan(JOIN_X, JOIN_Y, tries=(replace(RANKED, version="delta"),)),
    "values are restored from a trie without ranks": plan(JOIN_X, JOIN_Y, BACK),
    "as many values as ranks": plan(
        JOIN_X, JOIN_Y, replace(BACK, variables=("a",)), tries=(RANKED,)
    ),
    "variables=('a', 'b'), type='int') reads ['y'], not bound": plan(
        JOIN_X, BACK, JOIN_Y, tries=(RANKED,)
    ),
    # a branch sees what it reads, and nothing else
    "Filter(test=Slot(name='y', type='int')) reads ['y']": plan(
        JOIN_X, JOIN_Y, Branch("exists", ("x",), ((Filter(Y),),))
    ),
}


@pytest.mark.parametrize("says", BROKEN)
def test_a_broken_join_is_refused(says: str) -> None:
    with pytest.raises(PlanError) as caught:
        check_join_plan(BROKEN[says])
    assert says in str(caught.value)


def test_a_broken_rule_is_refused() -> None:
    join = plan(JOIN_X, JOIN_Y, outputs=())
    gather = Gather("count", (), "n", "int")
    right = RulePlan("r", (join,), (X, Slot("n", "int")), (X,), (gather,), ((0,),), ((),))
    check_rule_plan(right)
    for broken, says in (
        (replace(right, head=(Y,)), "the head reads more than ['n', 'x']"),
        (replace(right, groups=((0,), (0,))), "a join is in no group, or in two"),
        (replace(right, groups=()), "a join is in no group, or in two"),
        (replace(right, joins=(plan(JOIN_X),)), "walked 1 of 2 levels"),
    ):
        with pytest.raises(PlanError) as caught:
            check_rule_plan(broken)
        assert says in str(caught.value)


# -------------------------------------------------------------------------------- snapshots


def snapshots() -> list[tuple[str, str]]:
    cases = SNAPSHOTS.read_text(encoding="utf-8").split("====\n")
    return [tuple(case.split("----\n")) for case in cases]  # type: ignore[misc]


def expected(step: Step) -> str:
    return about(step.estimate) if isinstance(step, Join) else ""


def explained(text: str) -> str:
    """The plans alone, without what is said of executors and indexes."""
    db = loaded(DATA)
    lines = []
    found = db.explain(text, {"k": 3} if "$k" in text else None)
    for number, planned in enumerate(found.strata, 1):
        lines.append(stratum_label(number, planned.stratum))
        lines += [f"  {told}" for told in planned.plan.lines()]
        for rule in planned.rules:
            lines.append(f"  {rule_text(rule.rule)}")
            lines += [f"    {line}" for line in format_rule(rule.plan, expected).splitlines()]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "plans"), snapshots(), ids=lambda part: part.split("\n")[0].strip("/ ")[:40]
)
def test_snapshots(text: str, plans: str) -> None:
    assert explained(text) == plans


# ------------------------------------------------------------------------------ plans as text


def test_every_step_has_its_words() -> None:
    rule = RulePlan(
        "r",
        (
            plan(
                Guard(2, weighted=True),
                Seek(Constant('say "\\', "symbol"), (at(1, 0),)),
                JOIN_X,
                Compact(("x",), lasting=True),
                Generate("g", "int", (Constant(1, "int"), X)),
                Generate("h", "int", span=(Constant(0, "int"), X, Constant(1, "int")),
                         participants=(at(0, 1),)),
                Assign("t", "timestamp", Constant(86_400_000_000_000, "timestamp")),
                Assign("b", "bool", Constant(True, "bool"), (at(1, 1),), may_fail=True),
                Branch("not exists", ("x",), ((Filter(X),), (Filter(X),))),
                tries=(E, TrieRef("F", "old", (1, 0)), NOTHING),
            ),
            plan(JOIN_X, JOIN_Y),
        ),
        (X, Slot("n", "int")),
        (X,),
        (Gather("max", (Y,), "n", "int"),),
        ((0,), (1,)),
        ((), ()),
    )  # fmt: skip
    assert format_rule(rule).splitlines() == [
        "alternative 1 of 2",
        "only if go has rows, as often as it has",
        'seek "say \\"\\\\" in old F[1,0](["say \\"\\\\"], b)',
        "x in E([x], h)",
        "  one row for each (x) of all rounds",
        "  g in {1, x}",
        "    h in range(0, x, 1) and in E(x, [h])",
        "      t := @1970-01-02",
        '      b := true in old F[1,0]("say \\"\\\\", [b]), which may fail',
        "      not exists for each (x)",
        "        only if x",
        "      or",
        "        only if x",
        "alternative 2 of 2",
        "x in E([x], y)",
        "  y in E(x, [y])",
        "gather n = max(y) by x",
        "give r(x, n)",
    ]


def write_snapshots() -> None:
    warnings.simplefilter("ignore", gd.ProgramWarning)
    cases = [f"{text}----\n{explained(text)}" for text, _ in snapshots()]
    SNAPSHOTS.write_text("====\n".join(cases), encoding="utf-8")


if __name__ == "__main__":
    write_snapshots()
