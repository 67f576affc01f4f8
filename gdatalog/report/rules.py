"""The rules of an evaluation with their runs: metrics by rule."""

from __future__ import annotations

from collections.abc import Iterator

from gdatalog.engine.metrics import Metrics, RuleRound, RuleRun, StratumMetrics
from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import Generate, Join, RulePlan
from gdatalog.planner.check import CheckedRule
from gdatalog.records import dataclass
from gdatalog.report.round_table import rule_key


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
        return sum(map(bindings_of, self.runs))

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


def bindings_of(run: RuleRun) -> int:
    """How many complete bindings a run found, as far as they were counted."""
    last = [join.steps[-1] for join in run.plan.joins if join.steps]
    return sum(run.seen[id(step)].rows_out for step in last if id(step) in run.seen)


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
