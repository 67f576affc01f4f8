"""A rule's plan as nodes: the steps of its joins, with expected and actual bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdatalog.executors.sinks import StepCounts
from gdatalog.plan.effects import all_steps
from gdatalog.plan.grouped_rows import groups_of
from gdatalog.plan.join_plan import (
    Branch,
    Generate,
    GivenRows,
    Join,
    JoinPlan,
    RulePlan,
    Step,
    Tally,
)
from gdatalog.plan.labels import (
    alternative_label,
    ending_labels,
    given_label,
    orbit_label,
    step_label,
    step_remarks,
    table_label,
    term_label,
)
from gdatalog.plan.nest import Paths
from gdatalog.records import dataclass, field, replace
from gdatalog.report.numbers import about, wrong_by
from gdatalog.report.tree import Fact, Kind, ReportNode


@dataclass(frozen=True, slots=True)
class Happened:
    """The metrics of a plan's steps, by their ids; `whole`: seconds of the whole evaluation.

    `complete`: the numbers of the joins whose steps were all counted: a step without metrics was
    not reached. `followed`: how many rows of a relation were new in all rounds.
    """

    seen: Mapping[int, StepCounts]
    whole: float
    complete: frozenset[int] = frozenset()
    followed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Executor:
    """How a join runs: as text, and as facts for programs."""

    details: tuple[str, ...] = ()
    facts: tuple[tuple[str, Fact], ...] = ()

    def __add__(self, other: Executor) -> Executor:
        return Executor(self.details + other.details, self.facts + other.facts)

    def node(self, kind: Kind, label: str, children: tuple[ReportNode, ...]) -> ReportNode:
        return ReportNode(kind, label, self.details, facts=self.facts, children=children)


def plan_nodes(
    plan: RulePlan, executors: Sequence[Executor] = (), happened: Happened | None = None
) -> tuple[Executor, tuple[ReportNode, ...]]:
    """The nodes of a plan. The plan's node describes its only join; each of several has its own."""
    executors = executors or [Executor()] * len(plan.joins)
    ending = tuple(ReportNode("end", label) for label in ending_labels(plan))
    nodes = [
        _JoinNodes(join, Paths.of(join), happened, number).nodes()
        for number, join in enumerate(plan.joins)
    ]
    tables = tuple(
        ReportNode("term", table_label(inner), children=plan_nodes(inner)[1])
        for inner in plan.within
    )
    if len(nodes) == 1 and not plan.terms:
        return executors[0], (*tables, *nodes[0], *ending)
    labels = [term_label(term) for term in plan.terms] or [
        alternative_label(number, len(nodes)) for number in range(len(nodes))
    ]
    kind: Kind = "term" if plan.terms else "alternative"
    alternatives = (
        executor.node(kind, label, children)
        for executor, label, children in zip(executors, labels, nodes, strict=True)
    )
    return Executor(), (*tables, *alternatives, *ending)


@dataclass(slots=True)
class _JoinNodes:
    """A join that is being converted to nodes, the `number`-th of its plan. `scale`: actual input
    rows over expected ones."""

    join: JoinPlan
    paths: Paths
    happened: Happened | None
    number: int
    scale: float | None = 1.0

    def nodes(self) -> tuple[ReportNode, ...]:
        join = self.join
        orbit = (ReportNode("note", orbit_label(join.orbit)),) if join.orbit > 1 else ()
        steps = self._steps(join.steps) if join.given is None else (self._given(join.given),)
        return (*steps, *orbit)

    @property
    def _complete(self) -> bool:
        return self.happened is not None and self.number in self.happened.complete

    def _given(self, given: GivenRows) -> ReportNode:
        """The new rows of all rounds together; their number scales the estimates of the later
        steps."""
        label, steps = given_label(given), self.join.steps
        if self.happened is None:
            rows = given.rows or None
            return ReportNode("given", label, estimate=rows, children=self._steps(steps))
        came = self.happened.followed.get(given.relation)
        first = self.happened.seen.get(id(steps[0])) if steps else None
        if came is None and self._complete and first is not None:
            came = first.rows_in  # loops do not count their input
        self.scale = came / given.rows if came and given.rows else None
        return ReportNode("given", label, actual=came, children=self._steps(steps))

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
        inner = list(map(self._steps, branch.alternatives))
        if len(inner) == 1 and not branch.terms:
            return inner[0]
        names = ["either", *["or"] * (len(inner) - 1)]
        if branch.terms:
            names = [f"#{number}" for number in range(1, len(inner) + 1)]
        parts = zip(names, inner, strict=True)
        return tuple(ReportNode("or", name, children=children) for name, children in parts)

    def _step(self, step: Step, kind: Kind, children: tuple[ReportNode, ...]) -> ReportNode:
        label, details = step_label(self.paths, step), step_remarks(step)
        estimate = step.estimate if isinstance(step, Join) else None
        estimate = None if estimate is None or self.scale is None else estimate * self.scale
        node = ReportNode(kind, label, details, estimate, children=children)
        saw = None if self.happened is None else self.happened.seen.get(id(step))
        if self.happened is None or saw is None:
            return replace(node, marks=("not reached",)) if self._complete else node
        wrong = None if estimate is None else wrong_by(estimate, saw.rows_out)
        seconds, whole = saw.seconds or None, self.happened.whole
        return replace(
            node,
            actual=saw.rows_out,
            # Loops do not always count them.
            tried=(saw.tried or None) if isinstance(step, Join) else None,
            seconds=seconds,
            share=seconds / whole if seconds and whole else None,
            marks=() if wrong is None else (wrong,),
        )


def with_dedup(executor: Executor, join: JoinPlan) -> Executor:
    """An executor, with how its loops find duplicate rows, if they do."""
    groups = groups_of(join)
    if groups is None:
        return executor
    by, keys = ", ".join(groups.by), ", ".join(groups.keys)
    text = f"equal rows are told apart for each ({by}), by ({keys}): {about(groups.estimate)} rows"
    return executor + Executor((text,), (("dedup for each", by), ("dedup by", keys)))


def order_of(plan: RulePlan) -> list[str]:
    """The variables in binding order."""
    steps = (step for join in plan.joins for step in all_steps(join.steps))
    return [step.variable for step in steps if isinstance(step, (Join, Generate))]
