"""One join of a recursive rule, which processes a relation's new rows round after round.

It runs breadth-first until it has looked at so many rows that compiled loops would have paid. Then
it runs in compiled loops, which test and set the dedup index and output only new rows. Another
thread compiles the loops meanwhile. Loops read growing relations from hash tries, which
grow in place. A plan that reads other indexes of them runs for each combination of their runs
(`runs.py`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from itertools import product
from math import inf, prod
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.calls import DONE, OUTSIDE, GiveUp
from gdatalog.engine.context import Sources
from gdatalog.engine.depth import Form, JoinNest, counted
from gdatalog.engine.derived import Derived
from gdatalog.engine.device import CPU, compiled_function, function_soon
from gdatalog.engine.draft import DELTA
from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.fixpoint.row_hash_set import Hashed
from gdatalog.engine.metrics import RuleRound, RuleRun, measured
from gdatalog.engine.planned_rules import called
from gdatalog.engine.stratum_run import StratumRun
from gdatalog.engine.stratum_tables import NO_PARTS, Parts
from gdatalog.executors.fresh import CROWDED, ENDLESS, PlanFunction
from gdatalog.limits import OverBudget
from gdatalog.plan.join_plan import RulePlan, TrieRef
from gdatalog.plan.placement import ExecutorChoice
from gdatalog.planner.check import CheckedRule
from gdatalog.records import replace
from gdatalog.storage.loop_tables import HashTrie
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_ops import SeenRows
from gdatalog.storage.rows import Columns
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.printer.module import PrintedPlan


# Fixed costs, in rows: of a run of loops, and what the turn of a rule costs beyond that.
LOOPS_TURN, TURN = 10_000, 5_000
COMBINATION, MERGING = 30_000, 16  # the same for a combination of runs; and to merge a row
BY_LOOPS = ExecutorChoice(False, "the rounds are worth it")
MOST_LOOPS = 8  # that a variant keeps, each with its own scratch memory
AT_ONCE = 1 << 18  # rows per run of loops, if there are that many


class Variant:
    """A join of a rule for the new rows of one of its atoms. `plan`: the plan of the rule with this
    join only, which has a `number` in the `whole` plan. `expected`: the input rows that the plan
    assumes."""

    def __init__(self, run: StratumRun, rule: CheckedRule, whole: RulePlan, number: int) -> None:
        self.rule, self.whole, self.number = rule, whole, number
        self.plan, self.expected = alone(whole, number), float(DELTA)
        self.called = called(run.stratum, rule)  # for progress reports
        self.enter(run)
        self._begin()

    def enter(self, run: StratumRun) -> None:
        """Begins another evaluation, with the loops that earlier ones have compiled."""
        self.run = run
        self.thresholds = run.context.thresholds
        self.must = True  # whether to wait for loops that are not compiled yet
        self.waiting = 0.0  # rows not reported to the compiler yet
        self.report: RuleRun | None = None  # a profile's metrics of the whole plan
        self.found = 0  # new rows that loops found in this round
        self.looked = 0  # rows looked at breadth-first
        self.followed = 0  # rows processed breadth-first

    def leave(self) -> None:
        """Ends an evaluation: nothing refers to its rows any more."""
        for loops in self.loops.values():
            loops.let_go(range(len(self.join.tries)))
        self.lasting.clear()
        self.tries.clear()
        self.reads.clear()
        self.report = None
        del self.run

    def _begin(self) -> None:
        """Sets the attributes that depend on the plan's join."""
        (self.join,) = self.plan.joins
        assert self.join.given is not None
        self.follows = self.join.given.relation  # whose new rows it processes
        self.looked = self.followed = 0
        self.each = self._expected_each()
        self.rate = inf  # rows that loops recently looked at per input row
        self.unprintable = False  # whether there are no loops
        # Loops by the layouts of their indexes and by the kind of dedup index; and those that are
        # not compiled yet.
        self.loops: OrderedDict[object, PlanFunction] = OrderedDict()
        self.printed: dict[object, PrintedPlan] = {}
        self.lasting: dict[int, SeenRows] = {}  # its state over all rounds
        refs, tables = self.join.tries, self.run.tables
        # The numbers of the indexes of relations that the fixpoint changes, and these.
        self.numbers = tuple(at for at, ref in enumerate(refs) if ref.relation in tables)
        self.growing = tuple(refs[at] for at in self.numbers)
        self.tries: list[Trie | None] = []  # those that stay
        self.reads: list[tuple[DeltaRelation | None, bool]] = []  # where hash tries of these are
        # Whether it reads only old rows of the relation whose new rows it processes.
        own = [ref.version for ref in self.growing if ref.relation == self.follows]
        self.before = bool(own) and "full" not in own

    @property
    def new_rows(self) -> int:
        """The number of rows to process."""
        return self.run.deltas[self.follows].length

    def follow(self) -> tuple[list[Derived], RuleRound]:
        """Processes the new rows; returns candidate rows and the metrics. Loops add their rows to
        the relation themselves."""
        stats = self.run.record.running(self.plan.relation, self.rule)
        self.found, self.report = 0, self.run.context.metrics.run_of(self.whole)
        derived: list[Derived] = []
        timed, table = self.report or self.run.record.time_of(self.whole), self._table()
        with self.run.context.limits.watch.work("joining", self.called), measured(timed):
            if table is None or not (self._worth(table) and self._by_loops(table, stats)):
                derived = self._breadth_first(table, stats)
        if not derived:
            stats.new = self.found
        self.run.record.ran(stats, self.report)
        return derived, stats

    def change(self, whole: RulePlan, expected: float) -> None:
        """Switches to another plan of the same rule and atom."""
        self.plan, self.whole, self.expected = alone(whole, self.number), whole, expected
        self.each = self._expected_each()
        if self.plan.joins[0] is not self.join:
            self._begin()

    # ------------------------------------------------------------------------ what it is run on

    def _combinations(self, growing: Sequence[TrieRef]) -> Iterator[Parts]:
        """Each combination of the growing relations' runs."""
        if not growing:
            yield NO_PARTS
            return
        refs = list(dict.fromkeys(growing))
        if len(refs) == len(growing) == 1:
            for run in self._runs(refs[0], False):
                yield {refs[0]: run}
            return
        often = Counter(growing)
        lists = [self._runs(ref, often[ref] > 1) for ref in refs]
        count = prod(map(len, lists))
        for at, (ref, runs) in enumerate(zip(refs, lists, strict=True)):
            table = self.run.tables[ref.relation]
            saved = count - count // max(1, len(runs))
            if MERGING * sum(run.length for run in runs) < COMBINATION * saved:
                assert isinstance(table, DeltaRelation)  # other relations have a single part
                lists[at] = [table.runs.one(runs)]
                count //= len(runs)
        for chosen in product(*lists):
            yield dict(zip(refs, chosen, strict=True))

    def _runs(self, ref: TrieRef, together: bool) -> list[Relation]:
        """`together`: as one relation, because several atoms read it."""
        table = self.run.tables[ref.relation]
        if not isinstance(table, DeltaRelation) or not table.indexed:
            found = table.full() if ref.version == "full" else self.run.olds.get(ref.relation)
            return [] if found is None or not found.length else [found]
        runs = table.runs.before()
        if ref.version == "full" and table.runs.last is not None:
            runs = [*runs, table.runs.last]
        return [table.runs.merged(runs)] if together and runs else list(runs)

    def _blocks(self) -> list[Columns]:
        """The new rows in storage order."""
        delta = self.run.deltas[self.follows]
        return delta.blocks(distinct=False) if delta.types else [()]

    # ---------------------------------------------------------------------------- breadth-first

    def _breadth_first(self, table: DeltaRelation | None, stats: RuleRound) -> list[Derived]:
        derived: list[Derived] = []
        for parts in self._combinations(self.growing):
            found = self._in_levels(parts, stats, in_time=table is not None)
            if found is None:
                if table is not None and self._by_loops(table, stats):  # for all combinations
                    return []
                found = self._in_levels(parts, stats, in_time=False)
            assert found is not None
            derived.append(found)
        return derived

    def _in_levels(self, parts: Parts, stats: RuleRound, in_time: bool) -> Derived | None:
        """Runs breadth-first. `in_time`: while that pays; returns None if it has not completed."""
        strategy, limits = self.run.context.settings.strategy, self.run.context.limits
        report = None if self.report is None else RuleRun(self.plan, self.report.seen)
        before, budget, most = limits.looked, None, None
        if in_time:
            at_once, loops = self.thresholds.loops_from_round, self.thresholds.loops_from
            most = max(at_once, int(loops) - self.looked)
        try:
            with limits.within(most) as budget:
                found = self.run.run_plan(
                    self.plan, None, self.lasting, parts, report, stats,
                    "levelwise" if strategy == "auto" else strategy,
                )  # fmt: skip
        except OverBudget as error:
            if error.budget is not budget:
                raise
            self.lasting.clear()  # rows that were noted as followed have led nowhere yet
            for what in ("answers", "rows followed"):
                limits.charge(what, 0)
            self.must = True
            return None
        finally:
            self.looked += limits.looked - before + TURN
        self.followed += self.new_rows
        if report is not None and self.report is not None:
            for choice in report.executors.values():
                self.report.executors[self.number] = choice
            self.report.left = report.left
            self.report.rows += report.rows
        return found

    # -------------------------------------------------------------------------------- by loops

    def _table(self) -> DeltaRelation | None:
        """The relation to which loops may add their rows; None if there are no loops."""
        context, table = self.run.context, self.run.tables[self.plan.relation]
        if (
            self.unprintable
            or context.device is not CPU
            or context.settings.strategy == "levelwise"
        ):
            return None
        if isinstance(table, DeltaRelation) and table.types and table.dedup != "sort":
            return table
        return None

    def _worth(self, table: DeltaRelation) -> bool:
        """Whether the remaining work is worth loops, or they may be compiled by now."""
        if self.loops or self.run.context.settings.strategy == "lftj":
            return True
        looked = self._expected_looked()
        if looked < min(self.thresholds.loops_soon_from, self.thresholds.loops_from):
            return False
        self.must = looked >= self.thresholds.loops_from
        asked = self.printed.values()
        if asked and not (self.must or any(function_soon(each, looked) for each in asked)):
            return False
        return table.loops_hash() is not None

    def _expected_looked(self) -> float:
        """How many rows breadth-first will have looked at after these."""
        each = self.looked / self.followed if self.followed else self.each
        return self.looked + self.new_rows * each

    def _expected_each(self) -> float:
        return max(1.0, self.join.cost / max(1.0, self.expected))

    def _hash_tries(self) -> list[HashTrie | None]:
        """The indexes of growing relations that grow in place; None if there is none."""
        if not self.reads:
            for ref in self.growing:
                table = self.run.tables[ref.relation]
                special = ref.tests or ref.weighted or ref.ranked
                known = table if isinstance(table, DeltaRelation) and not special else None
                behind = ref.version == "old" and self.run.behind(ref, self.follows, self.before)
                self.reads.append((known, behind))
        return [
            None if read is None else read.hash_trie(ref.columns, behind)
            for ref, (read, behind) in zip(self.growing, self.reads, strict=True)
        ]

    def _tries(self, parts: Parts, grown: Sequence[HashTrie | None]) -> list[Trie | HashTrie]:
        """The indexes that loops read."""
        if not self.tries:
            self.tries = [
                None if at in self.numbers else self.run.trie_of(ref, CPU)
                for at, ref in enumerate(self.join.tries)
            ]
        tries: list[Any] = list(self.tries)
        for at, ref, trie in zip(self.numbers, self.growing, grown, strict=True):
            tries[at] = trie or self.run.trie_of(ref, CPU, parts)
        return tries

    def _loops(
        self, tries: Sequence[Trie | HashTrie], whole: bool, hashed: bool, given: Columns
    ) -> PlanFunction | None:
        """Loops for these indexes; None if they cannot be printed or compiled, or are not compiled
        yet. `whole`: all that grow are hash tries."""
        key: tuple[object, ...] = (hashed, *[column.dtype.char for column in given])
        grown: list[Any] = [tries[at] for at in self.numbers]
        if whole:  # hash tries vary only in the look-up at their roots
            key += tuple([trie.levels[0].dense for trie in grown])
        else:
            from gdatalog.printer.layouts import layouts_of

            key += tuple(map(id, layouts_of(grown, growing=True)))
        loops = self.loops.get(key) or self._made(key, tries, hashed)
        if loops is not None:
            self.loops.move_to_end(key)
        return loops

    def _made(
        self, key: object, tries: Sequence[Trie | HashTrie], hashed: bool
    ) -> PlanFunction | None:
        context, printed = self.run.context, self.printed.get(key)
        if printed is None:
            given: dict[TrieRef, Any] = dict(zip(self.join.tries, tries, strict=True))
            sources = Sources(given.__getitem__, lambda name: (self._blocks()[0], 0))
            form, counts = Form(self.join.outputs, fresh=True, hashed=hashed), bool(self.report)
            nest = JoinNest(self.join, form, sources, context, {}, counts, self.numbers)
            if nest.reason is not None:
                self.unprintable = True
                return None
            printed = self.printed[key] = nest.printed
        try:
            if self.must:
                function = self._function(printed, 0.0)
            else:
                function = function_soon(printed, self._expected_looked())
        except GiveUp:  # they do not compile
            self.unprintable = True
            return None
        if function is None:
            return None
        loops = PlanFunction(function, printed, context.scope, context.settings.workers)
        del self.printed[key]
        self.loops[key] = loops
        if len(self.loops) > MOST_LOOPS:
            self.loops.popitem(last=False)
        return loops

    def _function(self, printed: PrintedPlan, rows: float) -> Any:
        return compiled_function(printed, self.run.context.limits, self.plan.relation, rows)

    def _by_loops(self, table: DeltaRelation, stats: RuleRound) -> bool:
        """Runs loops, which add their rows to the relation; returns whether they completed."""
        grown = self._hash_tries()
        others = [ref for ref, trie in zip(self.growing, grown, strict=True) if trie is None]
        done = all(
            self._follow_block(block, table, self._tries(parts, grown), not others, stats)
            for parts in self._combinations(others)
            for block in pieces(self._blocks())
        )
        for loops in self.loops.values() if others else ():
            loops.let_go(self.numbers)
        return done

    def _follow_block(
        self,
        given: Columns,
        table: DeltaRelation,
        tries: Sequence[Trie | HashTrie],
        whole: bool,
        stats: RuleRound,
    ) -> bool:
        limits, thresholds = self.run.context.limits, self.thresholds
        known, loops, before = table.loops(), None, 0
        began = perf_counter()
        count = len(given[0]) if given else 1
        while known is not None:
            if loops is None:
                loops = self._loops(tries, whole, isinstance(known, Hashed), given)
                if loops is None:
                    return False
                if self.rate < inf:
                    self.waiting += count * self.rate
                if self.waiting >= thresholds.loops_from:
                    loops.use(self._function(loops.printed, self.waiting))
                    self.waiting = 0.0
                most = self.run.context.settings.workers - 1.0
                given_by = count / thresholds.loops_given_each
                looked_by = count * self.rate / thresholds.loops_looked_each
                hands = 1 + int(min(most, max(given_by, looked_by)))
                before = 0
                loops.begin(tries, given, hands)
            room = known.room if isinstance(known, Hashed) else ENDLESS
            status = loops.go_on(known, room, limits)
            tried, rows = loops.counts()
            self.rate = max(tried / count, self.each)
            self.looked += tried - before
            limits.look(LOOPS_TURN + tried - before)
            before = tried
            table.take(loops.taken())
            if rows:
                limits.charge(self.plan.relation, table.nbytes)
            if status == DONE:
                self._tell(loops, stats, tried, rows, perf_counter() - began)
                return True
            if status not in (OUTSIDE, CROWDED):
                return False  # breadth-first distinguishes errors from rows that do not matter
            changed = table.widen(loops.met()) if status == OUTSIDE else table.make_room()
            limits.charge(self.plan.relation, table.nbytes)
            if type(changed) is not type(known):
                loops = None  # other loops start over; rows found so far are known
            known = changed
        return False

    def _tell(
        self, loops: PlanFunction, stats: RuleRound, tried: int, rows: int, seconds: float
    ) -> None:
        self.must = True  # once loops have run, loops continue
        self.found += rows
        stats.tried += tried
        stats.seconds += seconds
        stats.executors[self.number] = BY_LOOPS.kind
        if self.report is not None:
            self.report.rows += rows
            self.report.executors[self.number] = BY_LOOPS
            self.report.saw(counted(loops.printed, [self.join], loops.tallied()))


def pieces(blocks: Sequence[Columns]) -> Iterator[Columns]:
    """Joins short blocks of rows, because each run of loops has fixed costs."""
    if len(blocks) == 1:
        yield tuple([np.ascontiguousarray(column) for column in blocks[0]])
        return
    waiting: list[Columns] = []
    for at, block in enumerate(blocks, 1):
        waiting.append(block)
        ends = not block or at == len(blocks)
        if ends or sum(len(each[0]) for each in waiting) >= AT_ONCE:
            several = len(waiting) > 1
            joined = tuple(map(np.concatenate, zip(*waiting, strict=True))) if several else block
            yield tuple(map(np.ascontiguousarray, joined))
            waiting = []


def alone(plan: RulePlan, number: int) -> RulePlan:
    """A rule's plan with one of its joins."""
    if len(plan.joins) == 1:
        return plan
    pairs = zip(plan.groups, plan.bindings, strict=True)
    bindings = tuple(names for group, names in pairs if number in group)
    groups = ((0,),) if plan.groups else ()
    return replace(plan, joins=(plan.joins[number],), groups=groups, bindings=bindings)
