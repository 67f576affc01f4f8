"""An operator is one file and a line of the planner's list; this file is one."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.cluster.pool.calls import Call
from gdatalog.engine import recursion_planner
from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.metrics import Way
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.fallback import WithFallback
from gdatalog.engine.planned_rules import PlannedRules
from gdatalog.engine.stratum_plan import StratumPlan
from gdatalog.engine.stratum_planner import plan_stratum
from gdatalog.plan.conditions import TooManyRows, Unsuited, When
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule, Schema
from gdatalog.records import dataclass
from gdatalog.storage.relation import Relation
from tests.recursion_here import Here, Recursion, copied

PATH = "path(x, z) <- E(x, z). path(x, z) <- path(x, y), E(y, z). ?- path(x, y)."
EDGES = [(1, 2), (2, 3), (3, 1), (3, 4)]
FROM_FIVE = [(number, number + 1) for number in range(5, 9)]
ROUNDS = "semi-naive rounds"
TOLD = "a search from each vertex of E"


# ------------------------------------------------------------------------ the operator's file


@dataclass(frozen=True, slots=True)
class Search:
    """The closure of `edges`, by a search from each vertex. Vertices are few: at most `most`."""

    of: PlannedRules
    schema: Schema
    edges: str
    most: int = 6

    def __str__(self) -> str:
        return f"a search from each vertex of {self.edges}"

    @property
    def parts(self) -> tuple[Operator, ...]:
        return ()

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return self.of.pairs

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        return (str(self),)

    def prepare(self, context: ExecutionContext) -> Adjacency:
        return Adjacency()

    def run(
        self, prepared: Adjacency, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        after = prepared.lists_of(inputs.relation(self.edges))
        if len(after) > self.most:
            return Unsuited()
        record = inputs.context.metrics.begun(self.of.stratum, inputs.context.limits)
        record.plans = self.of.every
        record.way = Way(str(self), len(after), "values")
        rows = sorted((x, y) for x in after for y in reached(x, after))
        columns = tuple(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
        record.end({self.schema.name: len(rows)})
        name, names, types = self.schema.name, self.schema.columns, self.schema.types
        return {name: Relation.of_blocks(names, types, [columns], len(rows), True)}


class Adjacency:
    """What runs share: the lists of a relation of edges, while it stays the same."""

    def __init__(self) -> None:
        self.of: Relation | None = None
        self.after: dict[int, list[int]] = {}

    def lists_of(self, edges: Relation) -> dict[int, list[int]]:
        if self.of is not edges:
            self.of, self.after = edges, {}
            for x, y in zip(*(column.tolist() for column in edges.keys), strict=True):
                self.after.setdefault(x, []).append(y)
        return self.after


def reached(start: int, after: dict[int, list[int]]) -> set[int]:
    found: set[int] = set()
    left = [start]
    while left:
        new = set(after.get(left.pop(), ())) - found
        found |= new
        left += new
    return found


def applies(draft: StratumDraft) -> Search | None:
    """If the stratum is the closure of a relation of ints, and has no rows of its own."""
    if len(draft.stratum.relations) != 1 or any(draft.inputs.seeds.values()):
        return None
    (name,) = draft.stratum.relations
    schema = draft.inputs.schemas[name]
    bodies = [[atom.name for atom in rule.atoms] for rule in draft.stratum.rules]
    if len(bodies) != 2 or schema.types != ("int", "int"):
        return None
    (edges, *_) = bodies[0]
    return Search(draft.planned, schema, edges) if bodies == [[edges], [name, edges]] else None


def over(found: Operator, draft: StratumDraft, rounds: Operator) -> Operator:
    """Rounds run instead if it does not suit."""
    return WithFallback(found, (Unsuited(),), rounds)


# ------------------------------------------------------------------------------- the planner


@pytest.fixture
def db(monkeypatch: pytest.MonkeyPatch) -> Iterator[gd.Database]:
    """A database whose planner has one more line."""
    listed = recursion_planner.compiled

    def compiled(draft: StratumDraft) -> Iterator[Any]:
        yield sys.modules[__name__]
        yield from listed(draft)

    monkeypatch.setattr(recursion_planner, "compiled", compiled)
    with gd.connect(device="cpu") as found:
        found["E"] = EDGES
        yield found


def answer(db: gd.Database) -> set[tuple[Any, ...]]:
    return {*db.query(PATH)}


def expected(edges: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    found = {*edges}
    while more := {(a, d) for a, b in found for c, d in edges if b == c} - found:
        found |= more
    return found


def planned(db: gd.Database) -> tuple[StratumPlan, StratumInputs]:
    session = db.workspace.open(PATH, None)
    inputs = session.evaluator.inputs()
    first, *_ = session.checked.strata
    return plan_stratum(first, inputs), inputs


def test_it_runs_and_shows_in_explain_and_profile(db: gd.Database) -> None:
    plan, _ = planned(db)
    assert [str(leaf) for leaf in plan.leaves] == [TOLD, ROUNDS]
    assert TOLD in str(db.explain(PATH))
    assert answer(db) == expected(EDGES)
    found = str(db.profile(PATH))
    assert TOLD in found and ROUNDS not in found


def test_its_runs_share_what_is_prepared(db: gd.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Adjacency] = []

    def prepare(self: Search, context: ExecutionContext) -> Adjacency:
        made.append(Adjacency())
        return made[-1]

    monkeypatch.setattr(Search, "prepare", prepare)
    db["W"] = [(k, k * x, k * y) for k in (1, 2) for x, y in EDGES]
    asked = db.prepare(
        "e(x, y) <- W($k, x, y). path(x, z) <- e(x, z). path(x, z) <- path(x, y), e(y, z)."
        "?- path(x, y)."
    )
    for _ in range(3):
        assert {*asked(k=1)} == expected(EDGES)
    before = len(made)
    assert {*asked(k=2)} == expected([(2 * x, 2 * y) for x, y in EDGES])
    assert len(made) == before and 8 in made[-1].after[6]
    db.insert("W", [(1, 4, 1)])  # over another relation the query is bound again
    for _ in range(3):
        assert {*asked(k=1)} == expected([*EDGES, (4, 1)])
    assert len(made) > before and made[-1].after[4] == [1]


def test_rounds_run_where_it_does_not_suit(db: gd.Database) -> None:
    db["E"] = EDGES + FROM_FIVE  # of more vertices
    assert answer(db) == expected(EDGES + FROM_FIVE)
    (stratum, *_) = db.profile(PATH).tree.find("stratum")
    assert stratum.details[0].startswith("given up") and TOLD in stratum.details[0]


def test_it_runs_where_rounds_are_given_up(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_rounds(found: Operator, draft: StratumDraft, rounds: Operator) -> Operator:
        return WithFallback(rounds, (TooManyRows(0),), found)

    monkeypatch.setattr(sys.modules[__name__], "over", first_rounds)
    assert f"after 0 rows: {TOLD}" in str(db.explain(PATH))
    assert answer(db) == expected(EDGES)
    (stratum, *_) = db.profile(PATH).tree.find("stratum")
    assert stratum.details[0] == f"given up after 0 rows: {ROUNDS}"


def rows_there(operator: Operator, edges: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    """What a worker returns, which has data of its own."""
    with gd.connect(device="cpu") as db:
        db["E"] = edges
        inputs = planned(db)[1]
        found = operator.run(operator.prepare(inputs.context), inputs)
        assert isinstance(found, dict)
        return [*zip(*(column.tolist() for column in found["path"].keys), strict=True)]


def test_a_worker_runs_it(db: gd.Database) -> None:
    plan, _ = planned(db)
    assert copied(plan.root) == plan.root
    stage = Here(1).stage("a search", None)
    stage.add(Call(rows_there, (plan.root, EDGES)))
    ((_, there),) = stage
    assert {*there} == expected(EDGES)
    db.workspace.cluster = Recursion(Here(2))
    assert answer(db) == expected(EDGES)
