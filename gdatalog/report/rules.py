"""Rules in reports: the steps of their joins as nodes, and their metrics by run and by round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdatalog.engine.metrics import Metrics, RuleRound, RuleRun, StratumMetrics
from gdatalog.executors.sinks import StepCounts
from gdatalog.plan import format as words
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
from gdatalog.plan.nest import Paths
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.rule_text import rule_text
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, field, replace
from gdatalog.report.tree import Cell, Fact, Kind, ReportNode, TextTable, about, wrong_by


@dataclass(frozen=True, slots=True)
class RuleRan:
    """A rule with its plans and their runs. `rounds`: its metrics in each round of a fixpoint."""

    rule: CheckedRule
    plans: tuple[RulePlan, ...]
    runs: tuple[RuleRun, ...]
    rounds: tuple[RuleRound, ...]

    @property
    def seconds(self) -> float:
        return sum(run.seconds for run in self.runs)

    @property
    def looked_at(self) -> int:
        """How many values were tried for variables, as far as they were counted."""
        return sum(
            max(saw.tried, saw.rows_out)
            for run in self.runs
            for join in run.plan.joins
            for step in all_steps(join.steps)
            if isinstance(step, (Join, Generate)) and (saw := run.seen.get(id(step))) is not None
        )

    @property
    def bindings(self) -> int:
        """How many complete bindings were found, as far as they were counted."""
        found = 0
        for run in self.runs:
            for join in run.plan.joins:
                saw = run.seen.get(id(join.steps[-1])) if join.steps else None
                found += 0 if saw is None else saw.rows_out
        return found

    @property
    def candidates(self) -> int:
        """How many rows the joins produced, including duplicates and known rows where these are
        counted. If loops ran again with a larger buffer, only the last run counts."""
        if self.rounds:
            return sum(max(stats.tried, stats.new or 0) for stats in self.rounds)
        return sum(run.rows for run in self.runs)

    @property
    def new(self) -> int | None:
        """How many rows no rule and no earlier round had derived, if known."""
        if not self.rounds:
            return None
        counts = [stats.new for stats in self.rounds if stats.new is not None]
        return sum(counts) if len(counts) == len(self.rounds) else None

    @property
    def rounds_run(self) -> int:
        """In how many rounds the rule had work."""
        return len({stats.round for stats in self.rounds if stats.tried or stats.executors})


def partial_matches(run: RuleRun) -> tuple[int, int]:
    """The words of memory for storing all partial matches of two or more variables: as rows, each a
    word per variable; and as cuTS' prefix tree, a word for its last variable and one for its
    parent."""
    rows = tree = 0
    for join in run.plan.joins:
        bound = 0 if join.given is None else len(join.given.slots)
        for step in join.steps:
            if isinstance(step, Join | Generate):
                bound += 1
                count = saw.rows_out if (saw := run.seen.get(id(step))) is not None else 0
                if bound > 1:
                    rows, tree = rows + bound * count, tree + 2 * count
    return rows, tree


@dataclass(frozen=True, slots=True)
class StratumRan:
    """A stratum, and its rules that ran or had a plan."""

    metrics: StratumMetrics
    rules: tuple[RuleRan, ...]


def ran(metrics: Metrics) -> tuple[list[StratumRan], list[RuleRun]]:
    """Returns the strata of an evaluation, and the runs that belong to none of them."""
    left = metrics.all_runs()
    return [StratumRan(each, tuple(_rules(each, left))) for each in metrics.strata], left


def _rules(metrics: StratumMetrics, left: list[RuleRun]) -> Iterator[RuleRan]:
    rules = metrics.stratum.rules
    plans = [[plan for own, plan in metrics.plans if own is rule] for rule in rules]
    runs: list[list[RuleRun]] = []
    for mine in plans:
        runs.append(_claimed(left, [run for run in left if any(run.plan is p for p in mine)]))
    for rule, again in zip(rules, runs, strict=True):
        # Plans that were made again while the rule ran. Where one rule became several, all of
        # them are at the same place of the text: then the first has them.
        again += _claimed(left, [run for run in left if _is_of(run.plan, rule)])
    by_rule: dict[object, list[RuleRound]] = {}
    for stats in metrics.rules:
        by_rule.setdefault(rule_key(stats.rule), []).append(stats)
    for rule, mine, own in zip(rules, plans, runs, strict=True):
        if rule.body is not None and (mine or own):
            rounds = tuple(by_rule.get(rule_key(rule), ())) if metrics.stratum.recursive else ()
            yield RuleRan(rule, tuple(mine), tuple(own), rounds)


def _is_of(plan: RulePlan, rule: CheckedRule) -> bool:
    return plan.relation == rule.head.name and plan.span is rule.span


def _claimed(left: list[RuleRun], found: list[RuleRun]) -> list[RuleRun]:
    left[:] = [run for run in left if not any(run is other for other in found)]
    return found


# The rounds of a fixpoint: metrics by rule and round, as a data frame and as a table.

COLUMNS = (
    "stratum", "relation", "rule", "round", "tried", "new", "duplicates", "seconds", "bytes",
    "executor",
)  # fmt: skip
ENDS = 3  # rounds shown from the start and end of a long fixpoint; and its largest ones


def round_lines(metrics: StratumMetrics) -> Iterator[tuple[Cell, ...]]:
    """A line of `Profile.rounds` for each rule and round, or for a fixpoint without rounds."""
    names = ", ".join(metrics.stratum.relations)
    for stats in metrics.rules:
        yield (
            names, stats.relation, rule_text(stats.rule), stats.round, stats.tried, stats.new,
            stats.duplicates, stats.seconds, stats.bytes, stats.executor,
        )  # fmt: skip
    if metrics.way is not None:
        before = sum(stats.new or 0 for stats in metrics.rules)
        new = sum(metrics.rows.values()) - before
        tried = metrics.way.tried
        again = None if tried is None else max(0, tried - new)
        yield (
            names, names, str(metrics.way), None, tried, new, again,
            metrics.way.seconds, metrics.peak, metrics.way.name,
        )  # fmt: skip


# Two rules may have the same text, and the parts of a split rule have the same place.
RuleKey = tuple[int, str]


def rule_key(rule: CheckedRule) -> RuleKey:
    return id(rule.span), rule_text(rule)


def rounds_node(metrics: StratumMetrics, numbers: Mapping[RuleKey, int]) -> ReportNode | None:
    """A table of the rounds that matter; `numbers` are the rules' numbers."""
    if not metrics.rounds or not metrics.rules:
        return None
    by_round: dict[int, list[RuleRound]] = {}
    for stats in metrics.rules:
        by_round.setdefault(stats.round, []).append(stats)
    news = [
        sum(stats.new or 0 for stats in by_round.get(at, ())) for at in range(metrics.rounds + 1)
    ]
    rows: list[tuple[Cell, ...]] = []
    shown = _shown(by_round)
    for before, at in zip([-1, *shown], shown, strict=False):
        skipped = [stats for n in range(before + 1, at) for stats in by_round.get(n, ())]
        if skipped:
            rows.append(_row("...", None, skipped))
        rows += [_row(at, numbers.get(rule_key(stats.rule)), [stats]) for stats in by_round[at]]
    return ReportNode(
        "rounds",
        f"new rows, round 0 to {metrics.rounds}",
        series=tuple(news),
        table=TextTable(
            ("round", "rule", "tried", "new", "known", "ms", "held", "by"), tuple(rows)
        ),
        facts=(("rounds", metrics.rounds),),
    )


def _row(at: Cell, rule: int | None, done: Sequence[RuleRound]) -> tuple[Cell, ...]:
    new, known = _sum([stats.new for stats in done]), _sum([stats.duplicates for stats in done])
    by = ", ".join(dict.fromkeys(stats.executor for stats in done if stats.executor))
    return (
        at,
        rule,
        sum(stats.tried for stats in done),
        new,
        known,
        round(sum(stats.seconds for stats in done) * 1000, 1),
        format_bytes(max((stats.bytes for stats in done), default=0)),
        by,
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    """The sum; None if any value is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _shown(by_round: dict[int, list[RuleRound]]) -> list[int]:
    """All rounds of a short fixpoint; the first, largest and last rounds of a long one."""
    rounds = sorted(by_round)
    if len(rounds) <= 3 * ENDS + 1:
        return rounds
    largest = sorted(rounds, key=lambda at: -sum(stats.tried for stats in by_round[at]))
    return sorted({*rounds[:ENDS], *largest[:ENDS], *rounds[-ENDS:]})


# A rule's plan as nodes: the steps of its joins, with expected and actual bindings.


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
    ending = tuple(ReportNode("end", label) for label in words.ending_labels(plan))
    nodes = [
        _JoinNodes(join, Paths.of(join), happened, number).nodes()
        for number, join in enumerate(plan.joins)
    ]
    tables = tuple(
        ReportNode("term", words.table_label(inner), children=plan_nodes(inner)[1])
        for inner in plan.within
    )
    if len(nodes) == 1 and not plan.terms:
        return executors[0], (*tables, *nodes[0], *ending)
    labels = [words.term_label(term) for term in plan.terms] or [
        words.alternative_label(number, len(nodes)) for number in range(len(nodes))
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
        orbit = (ReportNode("note", words.orbit_label(join.orbit)),) if join.orbit > 1 else ()
        steps = self._steps(join.steps) if join.given is None else (self._given(join.given),)
        return (*steps, *orbit)

    @property
    def _complete(self) -> bool:
        return self.happened is not None and self.number in self.happened.complete

    def _given(self, given: GivenRows) -> ReportNode:
        """The new rows of all rounds together; their number scales the estimates of the later
        steps."""
        label, steps = words.given_label(given), self.join.steps
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
        label, details = words.step_label(self.paths, step), words.step_remarks(step)
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
