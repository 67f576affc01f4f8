"""Prepared recursive queries give the same rows as fresh ones, in every way of evaluation.

What they read depends on a parameter, so each call evaluates the recursion again, by plans and
buffers that earlier calls have prepared; and data is added in between.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from random import Random
from typing import Any
from weakref import ref

import pytest
from hypothesis import given, settings

import gdatalog as gd
from gdatalog.engine import prepared_rules
from gdatalog.engine.evaluator import evaluator
from gdatalog.engine.operators.worklist import OneWorklist
from gdatalog.engine.stratum_plan import StratumPlan
from gdatalog.engine.stratum_run import StratumRun
from gdatalog.parser import parse
from gdatalog.plan.join_plan import RulePlan, TrieRef
from gdatalog.storage.trie import Trie
from tests import test_engine_oracle as oracle
from tests.cases import PROGRAMS, share
from tests.draw import Drawn
from tests.draw_recursion import recursions
from tests.interpreted import interpreted
from tests.oracle import TooLong, evaluate
from tests.oracle_values import Failure, canonical
from tests.test_recursion import WAYS, Way

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

AT_ONCE = {"worklist_rounds": 1, "worklist_round_rows": 1 << 30}
NAMES = (
    "as chosen", "split, hashed, by threes", "in place, groups numbered", "rounds, marked",
    "rounds, in runs", "rounds, as they grow", "rounds, by loops at once", "rounds, planned anew",
    "split where variables die",
)  # fmt: skip
KEPT = {name: WAYS[name] for name in NAMES} | {
    "a worklist first": Way("auto", {}, AT_ONCE),
    "a hashed worklist": Way("auto", {}, {**AT_ONCE, "stamps_most": 0}),
}
PERCENT = 1  # of the programs
CALLS = 3  # over the same data

REACH = "r(y) <- C($x, y). r(z) <- r(y), C(y, z). ?- r(y)."


@pytest.fixture(scope="module", autouse=True)
def not_compiled() -> Iterator[None]:
    with interpreted():
        yield


@pytest.mark.drawn
@pytest.mark.parametrize("way", KEPT.values(), ids=list(KEPT))
@settings(share(PERCENT), max_examples=max(3, PROGRAMS * PERCENT // 100))
@given(recursions())
def test_calls_with_other_parameters_over_changing_data(way: Way, drawn: Drawn) -> None:
    random, text = Random(drawn.seed), drawn.text.replace("E(", "e(")
    values = sorted({value for row in drawn.rows.get("E", ()) for value in row}, key=str)
    if not values:
        return
    text = f"e(x, y) <- E(x, y), x != $p.\n{text}"
    head = next(head for rule in drawn.program.statements for head in getattr(rule, "heads", ()))
    columns = ", ".join(f"v{at}" for at in range(len(head.args)))
    program, data = parse(text), {name: set(rows) for name, rows in drawn.rows.items()}
    with way.database(drawn.seed) as db:
        for name, (types, rows) in drawn.data.items():
            db.load(name, oracle.frame(types, rows))
        try:
            asked = db.prepare(f"{text}\n?- {head.name}({columns}).")
            for call in range(2 * CALLS):
                if call == CALLS:
                    more = [(random.choice(values), random.choice(values)) for _ in range(2)]
                    db.insert("E", oracle.frame(drawn.types["E"], more))
                    data["E"].update(more)
                value = random.choice(values)
                whole = evaluate(program, data, drawn.types, {"p": value})
                found = set(map(tuple, asked(p=value).fetchall()))
                told = f"call {call} with {value!r}, number {drawn.seed}\n{drawn}"
                assert canonical(found) == canonical(whole[head.name]), told
        except (Failure, TooLong, *oracle.REFUSALS):
            return


@pytest.mark.parametrize(
    "text",
    [REACH, "r(x, y) <- C(x, y). r(x, z) <- r(x, y), C(y, z). ?- r($x, y)."],
    ids=["as it is", "its needed part"],
)
def test_each_asking_evaluates_a_recursion_once(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    ran: list[str] = []
    run = evaluator.run

    def noted(plan: StratumPlan, *rest: Any) -> Any:
        ran.extend(plan.relations if plan.recursive else ())
        return run(plan, *rest)

    monkeypatch.setattr(evaluator, "run", noted)
    with gd.connect(device="cpu") as db:
        db["C"] = chains()
        for number, start in enumerate([0, 20, 45, 1_990], 1):
            expected = [
                (y,) for y in range(start + 1, start // 20 * 20 + 20 if number < 4 else 2_001)
            ]
            assert sorted(db.query(text, {"x": start}).fetchall()) == expected
            assert len(ran) == number


@pytest.fixture
def worklists(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each worklist has found."""
    found: list[int] = []
    run = OneWorklist.run

    def noted(self: OneWorklist) -> Any:
        relations = run(self)
        found.append(sum(len(relation) for relation in (relations or {}).values()))
        return relations

    monkeypatch.setattr(OneWorklist, "run", noted)
    return found


def chains() -> list[tuple[int, int]]:
    """Edges of chains of 20, and of a long one from 1,000 on."""
    short = [(x, x + 1) for x in range(400) if x % 20 != 19]
    return short + [(x, x + 1) for x in range(1_000, 2_000)]


def test_a_worklist_runs_at_once_where_earlier_rounds_were_many_and_small(
    worklists: list[int],
) -> None:
    with gd.connect(device="cpu") as db:
        db.workspace.tune(worklist_rounds=60, worklist_round_rows=10)
        db["C"] = chains()
        asked = db.prepare(REACH)
        for start in range(0, 200, 20):
            assert asked(x=start).fetchall() == [(y,) for y in range(start + 1, start + 20)]
        assert worklists and set(worklists) == {19} and len(worklists) < 8
        # One that finds more rows than so many small rounds lets rounds begin again.
        assert len(asked(x=1_000).fetchall()) == 1_000
        assert worklists[-1] == 1_000
        count = len(worklists)
        assert len(asked(x=0).fetchall()) == 19
        assert len(worklists) == count


def test_a_worklist_that_is_kept_takes_first_rows_outside_its_ranges(worklists: list[int]) -> None:
    """Then its arrays are made again, for wider ranges."""
    with gd.connect(device="cpu") as db:
        db.workspace.force(split="always")
        db["C"] = chains()
        db["S"] = [(1, 5), (2, 10_000), (2, 6), (3, -7), (4, 1 << 40), (5, 6)]
        asked = db.prepare("r(y) <- S($x, y). r(z) <- r(y), C(y, z). ?- r(y).")
        first = {1: [5], 2: [6, 10_000], 3: [-7], 4: [1 << 40], 5: [6], 6: []}
        for x in (1, 5, 2, 1, 3, 6, 4, 5, 2):
            follows = {y for start in first[x] for y in range(start, 20) if 0 <= start < 20}
            assert {y for (y,) in asked(x=x).fetchall()} == follows | {*first[x]}
        assert len(worklists) == 9


def test_parameters_in_heads_decide_the_ranges_of_a_worklist() -> None:
    with gd.connect(device="cpu") as db:
        db.workspace.force(split="always")
        db["C"] = chains()
        asked = db.prepare(
            "r(y, $k) <- C(0, y). r(z, $k) <- r(y, v), C(y, z). ?- r(y, v).", {"k": 1}
        )
        for k in (1, 2, 1 << 20, -5, 3):
            assert asked(k=k).fetchall() == [(y, k) for y in range(1, 20)]


def test_errors_leave_nothing_prepared_behind() -> None:
    """A call that fails is followed by calls that do not."""
    with gd.connect(device="cpu") as db:
        db["C"] = chains()
        asked = db.prepare("r(y) <- C($x, y). r(y + 12 / $by) <- r(y), y < 100. ?- r(y).")
        for _ in range(3):
            assert len(asked(x=0, by=12).fetchall()) == 100
            with pytest.raises(gd.EvaluationError):
                asked(x=0, by=0).fetchall()


@pytest.mark.parametrize("split", ["always", "never"])
def test_what_is_prepared_keeps_no_rows_of_a_call(
    split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[ref[Trie]] = []
    real = StratumRun.trie_of

    def noted(self: StratumRun, which: TrieRef, *rest: Any, **more: Any) -> Trie:
        trie = real(self, which, *rest, **more)
        if which.relation == "e":
            read.append(ref(trie))
        return trie

    monkeypatch.setattr(StratumRun, "trie_of", noted)
    with gd.connect(device="cpu") as db:
        db.workspace.force(split=split)
        db.workspace.tune(loops_from=0.0)
        db["C"] = chains()
        asked = db.prepare(
            "e(x, y) <- C(x, y), x != $p. r(y) <- e(0, y). r(z) <- r(y), e(y, z). ?- r(y)."
        )
        for p in (5, 7, 3, 9):
            assert asked(p=p).fetchall() == [(y,) for y in range(1, p + 1)]
        gc.collect()
        assert read and not any(trie() is not None for trie in read)


def test_how_a_rule_is_evaluated_is_prepared_with_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each operator that a question runs: once by rounds, and once by a worklist."""
    made: list[str] = []
    real = prepared_rules.operator_here

    def noted(plan: RulePlan) -> Any:
        made.append(plan.relation)
        return real(plan)

    monkeypatch.setattr(prepared_rules, "operator_here", noted)
    with gd.connect(device="cpu") as db:
        db.workspace.tune(worklist_rounds=60, worklist_round_rows=10)
        db["C"] = chains()
        asked = db.prepare(REACH)
        for start in range(0, 200, 20):
            assert asked(x=start).fetchall() == [(y,) for y in range(start + 1, start + 20)]
        before = list(made)
        for start in range(200, 400, 20):
            assert asked(x=start).fetchall() == [(y,) for y in range(start + 1, start + 20)]
    assert before and made == before
