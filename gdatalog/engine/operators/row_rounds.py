"""Rounds on a device whose kernels append new rows to those of earlier rounds.

A bitmap or a hash set tells which rows are new. Rules may read the rows of earlier rounds by hash
tries, which grow with the rounds.

All kernels are prepared before the first round (`gpu_ops/rounds.py`), and the host reads a few
words after each. A profile runs the rules of a round one after the other, and waits for each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gdatalog.calls import COUNTS
from gdatalog.cancellation import WorkItem
from gdatalog.engine.context import Sources
from gdatalog.engine.depth import Form, JoinNest, counted, counts_of
from gdatalog.engine.metrics import Round, RuleRun, StratumMetrics, measured
from gdatalog.engine.stratum_run import StratumRun
from gdatalog.plan.join_plan import Compact, JoinPlan, RulePlan, Step, TrieRef
from gdatalog.plan.placement import ExecutorChoice
from gdatalog.planner.check import CheckedRule
from gdatalog.records import dataclass, field
from gdatalog.storage.key_space import KeySpace
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.gpu_ops.growing import GrowingTrie
    from gdatalog.gpu_ops.rounds import DeviceRounds, GrowingRows

BY_MARKS = ExecutorChoice(False, "new rows, told by marks on the device")
BY_NUMBERS = ExecutorChoice(False, "new rows, told by a hash set on the device")


@dataclass(frozen=True, slots=True)
class RuleJoin:
    """One join of a rule, which may start from the new rows of one atom."""

    rule: CheckedRule
    plan: RulePlan
    number: int

    @property
    def join(self) -> JoinPlan:
        return self.plan.joins[self.number]


@dataclass(slots=True)
class RelationInRounds:
    """A relation during the rounds: its bitmap, or its place of a hash set, and its rows: at first
    as blocks, then as `rows`. When memory is short, it has only bitmaps: that of all rows, that at
    the start of the round, and that of the new rows. `length`: the number of all rows."""

    space: KeySpace
    beside: Mapping[str, Array]  # arguments of kernels
    dtypes: Sequence[np.dtype[np.generic]]
    blocks: list[Columns] = field(default_factory=list)
    rows: GrowingRows | None = None
    before: Array | None = None
    delta: Array | None = None
    count: int = 0  # of new rows
    length: int = 0
    counted: int = 0  # marked rows in the metrics, if there is only a bitmap

    @property
    def hashed(self) -> bool:
        return "known" in self.beside

    @property
    def marks(self) -> Array:
        return self.beside["marks"]

    @property
    def nbytes(self) -> int:
        """The bytes of its blocks and bitmaps."""
        bitmaps = (*self.beside.values(), self.before, self.delta)
        blocks = sum(column.nbytes for block in self.blocks for column in block)
        return blocks + sum(each.nbytes for each in bitmaps if each is not None)


@dataclass(slots=True)
class _Follower:
    """A rule that follows new rows. `how`: what tells them. `counts`: its counters, for a profile.
    `tried`: how many rows its joins have produced so far; `rows`: how many of them were new."""

    of: RuleJoin
    how: ExecutorChoice
    nest: JoinNest
    report: RuleRun | None
    counts: dict[str, Array]
    tried: int = 0
    rows: int = 0

    def found(self, rows: int) -> None:
        """Takes the number of new rows of all rounds so far."""
        if self.report is not None:
            self.report.rows += rows - self.rows
        self.rows = rows

    def tell(self) -> None:
        """Completes the metrics of the rule."""
        if self.report is not None:
            self.report.executors[self.of.number] = self.how
            self.report.saw(counted(self.nest.printed, [self.of.join], self.counts))

    def saw(self, counters: Array | None, followed: int) -> int:
        """How many rows its joins have produced now, with those marked before. `followed`: the
        rows that it has read."""
        last = last_step(self.of.join)
        if last is None or counters is None:
            return followed
        self.counts[COUNTS][:] = counters
        before = self.tried
        self.tried = counted(self.nest.printed, [self.of.join], self.counts)[id(last)].rows_out
        return self.tried - before


class RowRounds:
    """The rounds of a stratum's run. `rest`: the joins that run once before them. `began`: whether
    they have."""

    began = False

    def __init__(
        self,
        of: StratumRun,
        joins: Sequence[RuleJoin],
        rest: Sequence[RuleJoin],
        marked: Mapping[str, RelationInRounds],
        passing: Collection[str],
    ) -> None:
        self.of, self.context, self.record = of, of.context, of.record
        self.joins, self.marked, self.passing = (*joins, *rest), marked, passing
        self.indexed = {ref.relation for each in self.joins for ref in each.join.tries}
        self.indexes: dict[TrieRef, GrowingTrie] = {}
        self.count = len(joins)
        self.names = [*marked]

    def run(self, work: WorkItem) -> bool:
        """Runs rounds until no row is new; returns False if the kernels cannot be printed. Raises a
        `MemoryError` if rows do not fit: the rounds so far are valid, and what is marked of the
        current one lies behind the rows that it reads."""
        device = self.context.device.accelerator
        assert device is not None
        self._begin()
        mark = self.record.mark()
        rounds = device.rounds([self._rows(name) for name in self.names], self.context.limits)
        followers: list[_Follower] = []
        try:
            for each in self.joins:
                printed = self._follower(each)
                if printed is None:
                    return False
                followers.append(printed)
            texts = [(one.nest.plain, one.of.plan.relation) for one in followers]
            if self.context.waits_for(texts):
                return False
            lasting = self.context.metrics.lasting
            for text in () if lasting or len(texts) == 1 else texts:
                device.loops_soon(*text)  # several threads compile
            for follower in followers:
                self._add(follower, rounds)
            rounds.prepare()
            if lasting:
                self._run(rounds, followers, range(self.count, len(followers)))
                rounds.end_round()
            else:
                rounds.first()
            self.began = True
            self._take(rounds, followers)
            self.record.end_round()
            steps = self._steps(rounds, followers) if lasting else rounds.run()
            while any(table.count for table in self.marked.values()):
                work.round, mark = (work.round or 0) + 1, self.record.mark()
                self.context.limits.poll()
                next(steps)
                self._take(rounds, followers)
                ended_round(self.record, self.marked, work)
        except MemoryError:
            self.record.back_to(mark)
            raise
        finally:
            for follower in followers:
                follower.tell()
            rounds.close()
        return True

    def _rows(self, name: str) -> GrowingRows:
        rows = self.marked[name].rows
        assert rows is not None
        return rows

    def _begin(self) -> None:
        """Joins the blocks of each relation."""
        from gdatalog.gpu_ops.rounds import GrowingRows

        ops = self.of.ops
        for name, table in self.marked.items():
            nothing = tuple(ops.xp.empty(0, dtype=dtype) for dtype in table.dtypes)
            rows = ops.concatenate(table.blocks) if table.blocks else nothing
            count = len(rows[0])
            passing = name in self.passing and name not in self.indexed
            space = table.space if table.hashed else None
            table.rows = GrowingRows(rows, count, table.space.size, passing, 0, count, space)
            table.blocks = []
            self.context.limits.charge(name, table.nbytes)

    def _follower(self, each: RuleJoin) -> _Follower | None:
        """Prints a rule; returns None if it cannot be printed."""
        join, beside = each.join, self.marked[each.plan.relation].beside
        rows = () if join.given is None else self._rows(join.given.relation).columns
        report = self.context.metrics.run_of(each.plan)
        sources = Sources(self._trie_of, partial(given_rows, rows))
        table = self.marked[each.plan.relation]
        parts = tuple(len(part.spans) for part in table.space.parts) if table.hashed else ()
        form, counts = Form(join.outputs, fresh=True, parts=parts), report is not None
        growing = [at for at, ref in enumerate(join.tries) if ref.relation in self.marked]
        with measured(report):
            nest = JoinNest(join, form, sources, self.context, beside, counts, tuple(growing))
            if nest.reason is not None:
                return None
            how = BY_NUMBERS if table.hashed else BY_MARKS
            return _Follower(each, how, nest, report, counts_of(nest.printed))

    def _trie_of(self, ref: TrieRef) -> Trie:
        """The index that a rule reads; of relations of the stratum, one that grows."""
        if ref.relation not in self.marked:
            return self.of.trie_of(ref)
        if ref not in self.indexes:
            from gdatalog.gpu_ops.growing import GrowingTrie

            table, old = self.marked[ref.relation], ref.version == "old"
            xp, spans = self.of.ops.xp, table.space.spans
            made = GrowingTrie(ref.columns, ref.tests, spans, old, xp)
            self.indexes[ref] = made
            self._rows(ref.relation).tries.append(made)
        found: Any = self.indexes[ref]
        return cast(Trie, found)

    def _add(self, each: _Follower, rounds: DeviceRounds) -> None:
        """Prepares the launches of a rule."""
        from gdatalog.gpu_ops.rounds import RoundLoops

        relation, given = each.of.plan.relation, each.of.join.given
        with measured(each.report):
            run = each.nest.loop_run(relation, each.counts)
            follows = None if given is None else self.names.index(given.relation)
            rounds.add(RoundLoops(run, follows, self.names.index(relation)))

    def _take(self, rounds: DeviceRounds, followers: Sequence[_Follower]) -> None:
        """Takes the numbers of rows after a round."""
        for name, table in self.marked.items():
            rows = self._rows(name)
            table.count = rows.end - rows.begin
            table.length += table.count
        for number, follower in enumerate(followers):
            follower.found(rounds.found[number])

    def _run(
        self, rounds: DeviceRounds, followers: Sequence[_Follower], numbers: Iterable[int]
    ) -> None:
        """Runs some rules, one after the other."""
        for number in numbers:
            each, before = followers[number], rounds.found[number]
            stats = self.record.running(each.of.plan.relation, each.of.rule)
            stats.executors[each.of.number] = str(each.how)
            given = each.of.join.given
            read = 1 if given is None else self.marked[given.relation].count
            with measured(each.report, stats):
                counters = rounds.step(number)
            stats.new = rounds.found[number] - before
            stats.tried = each.saw(counters, read)
            self.record.ran(stats, each.report)

    def _steps(self, rounds: DeviceRounds, followers: Sequence[_Follower]) -> Iterator[None]:
        """Runs rounds rule by rule."""
        while True:
            self._run(rounds, followers, range(self.count))
            rounds.end_round()
            yield


def ended_round(
    record: StratumMetrics, marked: Mapping[str, RelationInRounds], work: WorkItem
) -> None:
    """Records and reports the end of a round."""
    new = {name: table.count for name, table in marked.items()}
    total = {name: table.length for name, table in marked.items()}
    assert work.round is not None
    record.end_round()
    Round(work.round, new, total).tell(work)


def last_step(join: JoinPlan) -> Step | None:
    """The last step that a profile counts."""
    steps = [step for step in join.steps if not isinstance(step, Compact)]
    return steps[-1] if steps else None


def given_rows(rows: Columns, _: JoinPlan) -> tuple[Columns, int]:
    return rows, len(rows[0]) if rows else 0
