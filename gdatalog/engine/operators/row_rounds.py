"""Rounds on a device whose kernels append new rows to those of earlier rounds.

A bitmap or a hash set tells which rows are new. Rules may read the rows of earlier rounds by hash
tries, which grow with the rounds.

All kernels are prepared before the first round (`gpu_ops/rounds.py`), and the host reads a few
words after each, or after several. A profile runs the rules of a round one after the other, and
waits for each. The device keeps rounds, with their bitmaps and buffers, for queries that run the
same plans over the same tries, also with other first rows in the same space.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from gdatalog.calls import COUNTS
from gdatalog.cancellation import WorkItem
from gdatalog.engine.context import Sources
from gdatalog.engine.depth import Form, JoinNest, counted, counts_of
from gdatalog.engine.kept_runs import RunFor, run_for
from gdatalog.engine.metrics import Round, RuleRun, measured
from gdatalog.engine.stratum_run import StratumRun
from gdatalog.plan.join_plan import Compact, JoinPlan, RulePlan, Step, TrieRef
from gdatalog.plan.placement import ExecutorChoice
from gdatalog.planner.check import CheckedRule
from gdatalog.records import dataclass, field
from gdatalog.storage.key_space import KeySpace
from gdatalog.storage.row_ops import Driver
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.gpu_ops.growing import GrowingTrie
    from gdatalog.gpu_ops.growing_rows import GrowingRows
    from gdatalog.gpu_ops.rounds import DeviceRounds

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
    def nothing(self) -> Columns:
        """Columns without rows."""
        return tuple([np.empty(0, dtype=dtype) for dtype in self.dtypes])

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


@dataclass(slots=True, eq=False)
class KeptRounds:
    """Rounds that may run again, and their relations."""

    rounds: DeviceRounds
    marked: Mapping[str, RelationInRounds]
    made_for: RunFor

    @property
    def nbytes(self) -> int:
        return self.rounds.nbytes

    def leave(self) -> None:
        """Gives its rows to those that may still read them."""
        self.rounds.settle(copies=False)

    def begins(self, of: StratumRun, first: Mapping[str, Columns]) -> bool:
        """Begins this run with the first rows of relations, which the caller marks; False if it
        does not serve the run."""
        context = of.context
        tries = map(of.trie_of, _read(self.made_for.joins, self.marked))
        if not self.made_for.serves(context, tries):
            return False
        ops = of.ops.on_device
        assert ops is not None
        spaces = {name: self.marked[name].space for name in first}
        if not all(spaces[name].contains(ops.spans(rows)) for name, rows in first.items()):
            return False
        rows = [first.get(name, table.nothing) for name, table in self.marked.items()]
        if not self.rounds.again(context.scope, context.limits, rows):
            return False
        for name, table in self.marked.items():
            table.count = table.length = 0
            context.limits.charge(name, table.nbytes)
        return True


def _read(joins: Sequence[JoinPlan], growing: Collection[str]) -> list[TrieRef]:
    """The indexes that joins read, but for those that grow."""
    refs = (ref for join in joins for ref in join.tries if ref.relation not in growing)
    return [*dict.fromkeys(refs)]


class RowRounds:
    """The rounds of a stratum's run. `rest`: the joins that run once before them. `kept`: what the
    device has of earlier runs. `began`: whether what runs once has run. `only_rest_waits`: whether
    they cannot run because kernels of the `rest` are not compiled yet, and no others."""

    began = only_rest_waits = False

    def __init__(
        self,
        of: StratumRun,
        joins: Sequence[RuleJoin],
        rest: Sequence[RuleJoin],
        marked: Mapping[str, RelationInRounds],
        passing: Collection[str],
        kept: KeptRounds | None = None,
    ) -> None:
        self.of, self.context, self.record = of, of.context, of.record
        self.joins, self.marked, self.passing = (*joins, *rest), marked, passing
        read = {ref.relation for each in self.joins for ref in each.join.tries}
        self.indexed = read & marked.keys()
        self.indexes: dict[TrieRef, GrowingTrie] = {}
        self.count, self.kept = len(joins), kept
        self.names = [*marked]
        self.followers: list[_Follower] = []
        device = self.context.device.accelerator
        assert device is not None
        self.device = device

    @property
    def _driver(self) -> Driver:
        """That of the device."""
        assert self.of.ops.on_device is not None
        return self.of.ops.on_device.driver

    def run(self, work: WorkItem) -> bool:
        """Runs rounds until no row is new; returns False if the kernels cannot be printed. Raises a
        `MemoryError` if rows do not fit: the rounds so far are valid, and what is marked of the
        current one lies behind the rows that it reads."""
        kept, self.kept = self.kept, None
        rounds, lasting = None if kept is None else kept.rounds, self.context.metrics.lasting
        if rounds is None:
            self._begin()
            relations = [self._rows(name) for name in self.names]
            rounds = self.device.rounds(relations, self.context.limits)
        mark = self.record.mark()
        try:
            if kept is None and not self._prepared(rounds):
                return False
            for ended in self._steps(rounds) if lasting else rounds.run():
                self._take(rounds, ended)
                self.record.end_round(len(ended))
                if self.began or len(ended) > 1:
                    work.round = (work.round or 0) + len(ended) - (not self.began)
                    told_round(self.marked, work)
                self.began, mark = True, self.record.mark()
                self.context.limits.poll()
        except MemoryError:
            self.record.back_to(mark)
            raise
        finally:
            for follower in self.followers:
                follower.tell()
            self.followers = []  # they reference this object
            rounds.close()
        self.kept = kept or self._kept(rounds)
        return True

    def _prepared(self, rounds: DeviceRounds) -> bool:
        """Prepares the launches of all rules; False if one cannot be printed, or is not compiled
        yet and need not be waited for."""
        for each in self.joins:
            printed = self._follower(each)
            if printed is None:
                return False
            self.followers.append(printed)
        texts = [(one.nest.plain, one.of.plan.relation) for one in self.followers]
        for text in () if self.context.metrics.lasting or len(texts) == 1 else texts:
            self.device.loops_soon(*text)  # several threads compile
        coming = [self.context.waits_for([text]) for text in texts]
        runs = [one.nest.loop_run(one.of.plan.relation, one.counts) for one in self.followers]
        if not rounds.soon(runs) and self.context.compiled:
            return False
        if any(coming):
            self.only_rest_waits = not any(coming[: self.count])
            return False
        for text in () if self.context.metrics.lasting or len(texts) == 1 else texts:
            self.device.loops_soon(*text)  # several threads compile
        for follower in self.followers:
            self._add(follower, rounds)
        rounds.prepare()
        return True

    def _kept(self, rounds: DeviceRounds) -> KeptRounds | None:
        """What serves later runs."""
        joins = [each.join for each in self.joins]
        tries = [self.of.trie_of(ref) for ref in _read(joins, self.marked)]
        made_for = run_for(self.context, joins, tries)
        return None if made_for is None else KeptRounds(rounds, self.marked, made_for)

    def _rows(self, name: str) -> GrowingRows:
        rows = self.marked[name].rows
        assert rows is not None
        return rows

    def _begin(self) -> None:
        """Joins the blocks of each relation."""
        from gdatalog.gpu_ops.growing_rows import GrowingRows

        ops = self.of.ops
        for name, table in self.marked.items():
            nothing = tuple(map(ops.xp.asarray, table.nothing))
            rows = ops.concatenate(table.blocks) if table.blocks else nothing
            passing = name in self.passing and name not in self.indexed
            most, marks = table.space.size, None if table.hashed else table.marks
            table.rows = GrowingRows(self._driver, rows, most, table.space, marks, passing)
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
            made = GrowingTrie(ref.columns, ref.tests, table.space.spans, old, self._driver)
            self.indexes[ref] = made
            self._rows(ref.relation).tries.append(made)
        return cast(Trie, self.indexes[ref])

    def _add(self, each: _Follower, rounds: DeviceRounds) -> None:
        """Prepares the launches of a rule."""
        from gdatalog.gpu_ops.round_launches import RoundLoops

        relation, given = each.of.plan.relation, each.of.join.given
        with measured(each.report):
            run = each.nest.loop_run(relation, each.counts)
            follows = None if given is None else self.names.index(given.relation)
            rounds.add(RoundLoops(run, follows, self.names.index(relation)))

    def _take(self, rounds: DeviceRounds, ended: Sequence[Sequence[int]]) -> None:
        """Takes the numbers of new rows of rounds."""
        for table, counts in zip(self.marked.values(), zip(*ended, strict=True), strict=True):
            table.count = counts[-1]
            table.length += sum(counts)
        for follower, found in zip(self.followers, rounds.found, strict=False):
            follower.found(found)

    def _run(self, rounds: DeviceRounds, numbers: Iterable[int]) -> None:
        """Runs some rules, one after the other."""
        for number in numbers:
            each, before = self.followers[number], rounds.found[number]
            stats = self.record.running(each.of.plan.relation, each.of.rule)
            stats.executors[each.of.number] = str(each.how)
            given = each.of.join.given
            read = 1 if given is None else self.marked[given.relation].count
            with measured(each.report, stats):
                counters = rounds.step(number)
            stats.new = rounds.found[number] - before
            stats.tried = each.saw(counters, read)
            self.record.ran(stats, each.report)

    def _steps(self, rounds: DeviceRounds) -> Iterator[Sequence[Sequence[int]]]:
        """Runs what runs once, and rounds, rule by rule."""
        self._run(rounds, range(self.count, len(self.followers)))
        yield rounds.end_round()
        while rounds.left:
            self._run(rounds, range(self.count))
            yield rounds.end_round()


def told_round(marked: Mapping[str, RelationInRounds], work: WorkItem) -> None:
    """Reports the end of a round."""
    new = {name: table.count for name, table in marked.items()}
    total = {name: table.length for name, table in marked.items()}
    assert work.round is not None
    Round(work.round, new, total).tell(work)


def last_step(join: JoinPlan) -> Step | None:
    """The last step that a profile counts."""
    steps = [step for step in join.steps if not isinstance(step, Compact)]
    return steps[-1] if steps else None


def given_rows(rows: Columns, _: JoinPlan) -> tuple[Columns, int]:
    return rows, len(rows[0]) if rows else 0
