"""A rule's plan as nodes: the steps of its joins, with expected and actual bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gdatalog.plan.effects import all_steps
from gdatalog.plan.format import (
    Labels,
    alternative_label,
    ending_labels,
    given_label,
    orbit_label,
    table_label,
    term_label,
)
from gdatalog.plan.nest import groups_of
from gdatalog.plan.nodes import Branch, Generate, GivenRows, Join, JoinPlan, RulePlan, Step, Tally
from gdatalog.records import dataclass, field
from gdatalog.report.tree import Fact, Kind, ReportNode, about, wrong_by


class Saw(Protocol):
    """The metrics of a step."""

    rows_in: int
    tried: int
    rows_out: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Happened:
    """The metrics of a plan's steps, by their ids; `whole`: seconds of the whole evaluation.

    `complete`: the numbers of the joins whose steps were all counted: a step without metrics was
    not reached. `followed`: how many rows of a relation were new in all rounds.
    """

    seen: Mapping[int, Saw]
    whole: float
    complete: frozenset[int] = frozenset()
    followed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Executor:
    """How a join runs: as text, and as facts for programs."""

    details: tuple[str, ...] = ()
    facts: tuple[tuple[str, Fact], ...] = ()


_NONE = (Executor(),)


def plan_nodes(
    plan: RulePlan, executors: Sequence[Executor], happened: Happened | None = None
) -> tuple[Executor, tuple[ReportNode, ...]]:
    """The nodes of a plan. The plan's node describes its only join; each of several has its own."""
    ending = tuple(ReportNode("end", label) for label in ending_labels(plan))
    nodes = [
        _Join(join, happened, happened is not None and number in happened.complete).nodes()
        for number, join in enumerate(plan.joins)
    ]
    tables = tuple(
        ReportNode(
            "term", table_label(inner), children=plan_nodes(inner, _NONE * len(inner.joins))[1]
        )
        for inner in plan.within
    )
    if len(nodes) == 1 and not plan.terms:
        return executors[0], (*tables, *nodes[0], *ending)
    alternatives = (
        ReportNode(
            "term" if plan.terms else "alternative",
            term_label(plan.terms[number]) if plan.terms else alternative_label(number, len(nodes)),
            executor.details,
            facts=executor.facts,
            children=children,
        )
        for number, (executor, children) in enumerate(zip(executors, nodes, strict=True))
    )
    return Executor(), (*tables, *alternatives, *ending)


@dataclass(slots=True)
class _Join:
    """A join that is being converted to nodes. `scale`: actual input rows over expected ones."""

    join: JoinPlan
    happened: Happened | None
    complete: bool
    scale: float | None = 1.0
    labels: Labels = field(init=False)

    def __post_init__(self) -> None:
        self.labels = Labels.of(self.join)

    def nodes(self) -> tuple[ReportNode, ...]:
        orbit = (ReportNode("note", orbit_label(self.join.orbit)),) if self.join.orbit > 1 else ()
        if self.join.given is None:
            return (*self._steps(self.join.steps), *orbit)
        return (self._given(self.join.given), *orbit)

    def _given(self, given: GivenRows) -> ReportNode:
        """The new rows of all rounds together; their number scales the estimates of the later
        steps."""
        expected: float | None = given.rows or None
        came: int | None = None
        if self.happened is not None:
            came = self.happened.followed.get(given.relation)
            first = self.happened.seen.get(id(self.join.steps[0])) if self.join.steps else None
            if came is None and self.complete and first is not None:
                came = first.rows_in  # loops do not count their input
            self.scale = came / given.rows if came and given.rows else None
            expected = None
        return ReportNode(
            "given",
            given_label(given),
            estimate=expected,
            actual=came,
            children=self._steps(self.join.steps),
        )

    def _steps(self, steps: Sequence[Step]) -> tuple[ReportNode, ...]:
        """Steps after a step that binds a variable to several values become its children."""
        found: list[ReportNode] = []
        for at, step in enumerate(steps):
            if isinstance(step, (Join, Generate)):
                return (*found, self._step(step, "level", self._steps(steps[at + 1 :])))
            if isinstance(step, Branch):
                found.append(self._step(step, "branch", self._alternatives(step)))
            elif isinstance(step, Tally):
                found.append(self._step(step, "branch", self._steps(step.steps)))
            else:
                found.append(self._step(step, "step", ()))
        return tuple(found)

    def _alternatives(self, branch: Branch) -> tuple[ReportNode, ...]:
        if len(branch.alternatives) == 1 and not branch.terms:
            return self._steps(branch.alternatives[0])
        return tuple(
            ReportNode("or", _which(branch, number), children=self._steps(inner))
            for number, inner in enumerate(branch.alternatives)
        )

    def _step(self, step: Step, kind: Kind, children: tuple[ReportNode, ...]) -> ReportNode:
        label, details = self.labels.head(step), self.labels.remarks(step)
        estimate = step.estimate if isinstance(step, Join) else None
        if self.happened is None:
            return ReportNode(kind, label, details, estimate, children=children)
        estimate = None if estimate is None or self.scale is None else estimate * self.scale
        saw = self.happened.seen.get(id(step))
        if saw is None:
            marks = ("not reached",) if self.complete else ()
            return ReportNode(kind, label, details, estimate, marks=marks, children=children)
        wrong = None if estimate is None else wrong_by(estimate, saw.rows_out)
        seconds = saw.seconds or None
        return ReportNode(
            kind,
            label,
            details,
            estimate,
            saw.rows_out,
            (saw.tried or None)
            if isinstance(step, Join)
            else None,  # loops do not always count them
            seconds,
            seconds / self.happened.whole if seconds and self.happened.whole else None,
            () if wrong is None else (wrong,),
            children=children,
        )


def _which(branch: Branch, number: int) -> str:
    """The name of an alternative."""
    if branch.terms:
        return f"#{number + 1}"
    return "or" if number else "either"


def with_dedup(executor: Executor, join: JoinPlan) -> Executor:
    """An executor, with how its loops find duplicate rows, if they do."""
    groups = groups_of(join)
    if groups is None:
        return executor
    by, keys = ", ".join(groups.by), ", ".join(groups.keys)
    text = f"equal rows are told apart for each ({by}), by ({keys}): {about(groups.estimate)} rows"
    facts = (("dedup for each", by), ("dedup by", keys))
    return Executor((*executor.details, text), (*executor.facts, *facts))


def order_of(plan: RulePlan) -> list[str]:
    """The variables in binding order."""
    steps = (step for join in plan.joins for step in all_steps(join.steps))
    return [step.variable for step in steps if isinstance(step, (Join, Generate))]
