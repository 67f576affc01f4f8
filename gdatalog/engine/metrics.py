"""The metrics of an evaluation: of rules, of rules by round, and of strata.

Only a profile keeps what rules did in each round, and finds out which of several rules derived a
row first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter

import numpy as np

from gdatalog.cancellation import WorkItem
from gdatalog.engine.derived import Derived, in_order, laid
from gdatalog.executors.ops import Ops
from gdatalog.executors.sinks import StepCounts
from gdatalog.limits import Limits
from gdatalog.overhead import Costs, time_spent
from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import RulePlan, TrieRef
from gdatalog.plan.placement import ExecutorChoice, InCells, InPages, Spread
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.records import dataclass, field
from gdatalog.storage.on_device import brought
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie


@dataclass(slots=True)
class RuleRun:
    """A profile's metrics of a rule: by step, rows out, time, and the executor of each join, with
    the reason for it.

    `seconds` is the total, with the `costs`, such as compiling loops and building indexes. The rest
    is work on rows. Loops of a profile have counters and are compiled separately. Copies from a
    device wait for its kernels. `bytes`: the peak memory of the evaluation meanwhile.

    `seen`: the metrics of steps, by id, if they were counted. Loops do not measure a step's
    `seconds`, and `tried` only where one list is scanned.
    """

    plan: RulePlan
    seen: dict[int, StepCounts] = field(default_factory=dict)
    rows: int = 0
    seconds: float = 0.0
    costs: Costs = Costs()
    bytes: int = 0
    executors: dict[int, ExecutorChoice] = field(default_factory=dict)  # by the number of the join
    device: str | None = None  # where it ran
    left: str | None = None  # why it ran on the CPU although the device is another
    spread: Spread | None = None  # over the workers of a cluster
    scanned: dict[str, int] = field(default_factory=dict)  # rows of scanned relations
    in_cells: InCells | None = None  # if its indexes do not fit the device
    in_pages: InPages | None = None  # the same, if they are read in place
    handed: int = 0  # bindings that loops found of rows which outgrew a chunk
    unfinished: bool = False  # whether it runs, or an error ended it

    def saw(self, seen: Mapping[int, StepCounts]) -> None:
        """Adds metrics of steps, by id."""
        own = {id(step) for join in self.plan.joins for step in all_steps(join.steps)}
        for step in seen.keys() & own:
            self.seen.setdefault(step, StepCounts()).add(seen[step])


@dataclass(slots=True)
class RuleRound:
    """A rule's metrics in one round of a fixpoint; round 0 comes before recursion.

    `tried`: rows that its joins produced, including duplicates and known rows if the executor sees
    them one by one. `new`: rows that no earlier round or rule derived; None: not counted. `bytes`:
    the peak memory of the evaluation meanwhile.
    """

    relation: str
    rule: CheckedRule
    round: int
    tried: int = 0
    new: int | None = None
    seconds: float = 0.0
    bytes: int = 0
    executors: dict[int, str] = field(default_factory=dict)  # by the number of the join

    @property
    def duplicates(self) -> int | None:
        return None if self.new is None else max(0, self.tried - self.new)

    @property
    def executor(self) -> str:
        return ", ".join(dict.fromkeys(self.executors.values()))


class measured:
    """Adds the time of this context to metrics of a rule, and to a profile's the costs, even if an
    error ends it."""

    __slots__ = ("_before", "_began", "_report", "_stats")

    def __init__(self, report: RuleRun | None, stats: RuleRound | None = None) -> None:
        self._report, self._stats = report, stats

    def __enter__(self) -> None:
        if self._report is not None:
            self._report.unfinished, self._before = True, time_spent()
        self._began = perf_counter()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        seconds, report = perf_counter() - self._began, self._report
        if report is not None:
            report.unfinished = kind is not None
            report.seconds += seconds
            spent = time_spent()
            if spent is not self._before:
                report.costs += spent - self._before
        if self._stats is not None:
            self._stats.seconds += seconds


@dataclass(frozen=True, slots=True)
class Way:
    """The metrics of a fixpoint without rounds.

    `name` describes the strategy ("split on x"), `parts` is the number of partitions or groups
    (`of`: "values", "groups"), `tried` the rows looked at, if counted. Threads of a GPU are not
    counted (0). `costs`: time outside of work on rows. `seen`: the metrics of steps, by id.
    """

    name: str
    parts: int
    of: str
    threads: int = 1
    tried: int | None = None
    seconds: float = 0.0
    costs: Costs = Costs()
    seen: Mapping[int, StepCounts] = field(default_factory=dict)

    def __str__(self) -> str:
        tried = "" if self.tried is None else f", {self.tried:,} rows tried"
        threads = "" if not self.threads else f", {self.threads} thread{'s' * (self.threads > 1)}"
        took = f"{self.seconds:.3f} s"
        of = self.of.removesuffix("s") if self.parts == 1 else self.of
        return f"{self.name}: {self.parts:,} {of}{tried}{threads}, {took}"


# The position of a record: its rounds, its rules, and those of the current round.
Mark = tuple[int, int, tuple[RuleRound, ...]]


@dataclass(slots=True)
class Round:
    """A round of a fixpoint, for errors and progress."""

    number: int
    new: Mapping[str, int]
    total: Mapping[str, int]

    def tell(self, work: WorkItem) -> None:
        """Reports the end of the round."""
        work.new_rows = sum(self.new.values())
        work.at(sum(self.total.values()))


@dataclass(slots=True)
class StratumMetrics:
    """The metrics of a stratum.

    `lasting`: keeps all rounds, and finds the first rule that derived each row; otherwise nobody
    reads what rules did in a round. `plans` are the rules' plans; `how` says how the rules were
    rewritten. `doing`: the strategy that runs all rules together. `timed`: the time of each plan,
    by id, if nothing else is measured.
    """

    stratum: Stratum
    limits: Limits
    lasting: bool = False
    plans: list[tuple[CheckedRule, RulePlan]] = field(default_factory=list)
    how: tuple[str, ...] = ()
    rules: list[RuleRound] = field(default_factory=list)
    way: Way | None = None
    rounds: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    peak: int = 0  # peak bytes
    doing: str = ""
    timed: dict[int, RuleRun] = field(default_factory=dict)
    ended: bool = False
    unfinished: bool = False  # whether an error ended it
    _open: list[RuleRound] = field(default_factory=list)  # of the current round
    _late: list[RuleRound] = field(default_factory=list)  # of earlier rounds, not yet counted
    _began: float = field(default_factory=perf_counter)

    def time_of(self, plan: RulePlan) -> RuleRun:
        """The time of a plan, if nothing else is measured."""
        found = self.timed.get(id(plan))
        if found is None:
            found = self.timed[id(plan)] = RuleRun(plan)
        return found

    def running(self, relation: str, rule: CheckedRule) -> RuleRound:
        """Starts a rule in the current round."""
        stats = RuleRound(relation, rule, self.rounds)
        if self.lasting:
            self._most()
            self._open.append(stats)
        return stats

    def ran(self, stats: RuleRound, report: RuleRun | None = None) -> None:
        if not self.lasting:
            return
        stats.bytes = self._most()
        if report is not None:
            report.bytes = max(report.bytes, stats.bytes)

    def derived(self, relation: str, parts: Sequence[Derived], new: Relation, ops: Ops) -> None:
        """Counts the new rows of the parts that a relation's rules derived, in order.

        Parts that no rule derived, data and facts, may come first.
        """
        ran = (*self._late, *self._open)
        todo = [stats for stats in ran if stats.relation == relation and stats.new is None]
        self._late = [stats for stats in self._late if stats.relation != relation]
        if not todo or new.length == 0 or len(parts) == 1:
            for stats in todo:
                stats.new = new.length
        elif new.remote is None or not new.remote.unfetched:
            counts = _firsts(parts, new, ops)[-len(todo) :]
            for stats, count in zip(todo, counts, strict=True):
                stats.new = count

    def end_round(self, rounds: int = 1) -> list[RuleRound]:
        """Ends the round of these rules, or several at once, and starts the next one."""
        done, self._open = self._open, []
        self._late += [stats for stats in done if stats.new is None]
        self.rounds += rounds
        self.rules += done
        self._most()
        return done

    def mark(self) -> Mark:
        return self.rounds, len(self.rules), tuple(self._open)

    def back_to(self, mark: Mark) -> None:
        """Drops what was recorded after this mark, because it is done again."""
        self.rounds, rules, now = mark
        self._open, self._late = list(now), []
        del self.rules[rules:]

    def end(self, rows: dict[str, int]) -> None:
        if self._open:
            self.end_round()
        self.rounds = max(0, self.rounds - 1)  # round 0 comes before recursion
        self.rows = rows
        self.ended = True
        stated = 0.0 if self.way is None else self.way.seconds
        self.seconds = max(perf_counter() - self._began, stated)
        self._most()

    def _most(self) -> int:
        """The peak memory since the last call."""
        most = self.limits.account.highest()
        self.peak = max(self.peak, most)
        return most


@dataclass(slots=True)
class Index:
    """A trie that rules read, of a relation whose columns have these `names`.

    `built`: how often it was built, once for each part of a recursive relation; 0: it was cached.
    `seconds`: the build time, None if cached. `rows` and `bytes` are those of the largest part.
    """

    ref: TrieRef
    names: tuple[str, ...]
    rows: int = 0
    bytes: int = 0
    seconds: float | None = None
    built: int = 0


@dataclass(slots=True)
class Metrics:
    """The metrics of an evaluation: of rules over all rounds, and of strata.

    `lasting`: keeps everything, for a profile. `costs`: all time outside of work on rows, checking
    and planning included.
    """

    lasting: bool = True
    costs: Costs = Costs()
    indexes: list[Index] = field(default_factory=list)
    runs: list[RuleRun] = field(default_factory=list)
    strata: list[StratumMetrics] = field(default_factory=list)
    began: float = field(default_factory=perf_counter)
    spread: int = 0  # rules and fixpoints that a cluster ran
    workers: int = 0  # of that cluster
    devices: list[str] = field(default_factory=list)  # of the strata that ran

    @property
    def done(self) -> tuple[int, int]:
        """How many rules and fixpoints a cluster ran, and how many strata this process did."""
        return self.spread, len(self.devices)

    def done_by(self, workers: int) -> None:
        """Records that a cluster ran a rule or a fixpoint."""
        self.spread, self.workers = self.spread + 1, workers

    @property
    def seconds(self) -> float:
        """Seconds since the start, including checks."""
        return perf_counter() - self.began

    def spending(self) -> AbstractContextManager[None]:
        """Within this context, a profile adds this thread's costs."""
        return self._adding_costs() if self.lasting else nullcontext()

    @contextmanager
    def _adding_costs(self) -> Iterator[None]:
        before = time_spent()
        try:
            yield
        finally:
            self.costs += time_spent() - before

    def index(
        self, ref: TrieRef, names: tuple[str, ...], trie: Trie, seconds: float | None
    ) -> None:
        """Records a trie that is read; `seconds`: its build time, None if cached."""
        if not self.lasting:
            return
        found = next((one for one in self.indexes if one.ref == ref), None)
        if found is None:
            found = Index(ref, names)
            self.indexes.append(found)
        rows = len(trie.levels[-1]) if trie.levels else trie.total
        found.rows, found.bytes = max(found.rows, rows), max(found.bytes, trie.nbytes)
        if seconds is not None:
            found.built += 1
            found.seconds = (found.seconds or 0.0) + seconds

    def run_of(self, plan: RulePlan) -> RuleRun | None:
        if not self.lasting:
            return None
        found = next((run for run in self.runs if run.plan is plan), None)
        if found is None:
            found = RuleRun(plan)
            self.runs.append(found)
        return found

    def begun(self, stratum: Stratum, limits: Limits) -> StratumMetrics:
        """Starts the record of a stratum."""
        stated = StratumMetrics(stratum, limits, self.lasting)
        self.strata.append(stated)
        return stated

    def all_runs(self) -> list[RuleRun]:
        """The metrics of each plan, or only its time."""
        return [*self.runs, *(run for stratum in self.strata for run in stratum.timed.values())]

    def stop(self) -> None:
        """Ends the records that an error left open. Time that no rule has is the first recursive
        rule's, which stands for all if they run together."""
        for stratum in self.strata:
            if stratum.ended:
                continue
            stratum.end({})
            stratum.unfinished = True
            plans = [plan for _, plan in stratum.plans]
            runs = [run for run in self.all_runs() if any(run.plan is plan for plan in plans)]
            if not plans or any(run.unfinished for run in runs):
                continue
            plan = next((plan for plan in plans if plan.recursive_on), plans[0])
            run = self.run_of(plan) or stratum.time_of(plan)
            run.seconds += max(0.0, stratum.seconds - sum(run.seconds for run in runs))
            run.unfinished = True


def _firsts(parts: Sequence[Derived], new: Relation, ops: Ops) -> list[int]:
    """How many of the new rows each of the parts derived first."""
    rows = [in_order(part, ops) for part in parts]
    if not new.keys:
        first = next((at for at, (_, count) in enumerate(rows) if count), 0)
        return [new.length if at == first else 0 for at in range(len(rows))]
    filled = [(at, columns) for at, (columns, count) in enumerate(rows) if count]
    blocks = [laid(new.keys, ops), *(laid(columns, ops) for _, columns in filled)]
    both = ops.concatenate(blocks)
    # Sorted by row; among equal rows the new row comes first, then the first part that derived it.
    order = ops.order_rows(both)
    whose = np.repeat(
        np.array([-1, *(at for at, _ in filled)]), [len(block[0]) for block in blocks]
    )[brought(order)]
    owners = whose[1:][whose[:-1] == -1]
    return list(np.bincount(owners[owners >= 0], minlength=len(rows)).tolist())
