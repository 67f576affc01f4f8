"""Runs one rule's plan: its joins in an executor, then aggregates, then the head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gdatalog.calls import BYTES_PER_ROW, Block, GiveUp, Limits, OverBudget, levels_of
from gdatalog.cpu_ops.functions import Scope
from gdatalog.engine import derived
from gdatalog.engine.choose import choose, remember
from gdatalog.engine.context import ExecutionContext, Sources
from gdatalog.engine.depth import Form, JoinNest, form_of_bag, give_bag
from gdatalog.engine.device import CPU
from gdatalog.engine.metrics import RuleRound, RuleRun
from gdatalog.engine.parallel import Scan, run_together
from gdatalog.executors import WEIGHT, Frontier, Ops
from gdatalog.executors.gather import Gathering
from gdatalog.executors.levelwise import Levelwise, StepCounts
from gdatalog.executors.reduction import add_rows
from gdatalog.executors.sinks import Bag, DistinctSink, RowSet, Sink
from gdatalog.plan import Expr, Generate, Join, JoinPlan, RulePlan, Slot
from gdatalog.plan.effects import all_steps, longest_first, may_fail, one_row_each, widens
from gdatalog.plan.nest import ascends, groups_of
from gdatalog.plan.placement import ExecutorChoice, Shared
from gdatalog.records import dataclass, replace
from gdatalog.storage.on_device import RowMarks
from gdatalog.storage.rows import Columns
from gdatalog.storage.trie import Trie

TURN = 10_000  # fixed cost of a rule's turn, in rows

# Runs a join breadth-first: how many rows it may look at, and the devices that run it together.
BreadthFirst = Callable[[int | None, Shared | None], None]
DepthFirst = Callable[[], None]


@dataclass(slots=True)
class PlanRun:
    """One execution of a rule's plan."""

    plan: RulePlan
    sources: Sources
    context: ExecutionContext
    report: RuleRun | None = None
    lasting: dict[int, RowMarks] | None = None  # what the rounds of a fixpoint remember
    stats: RuleRound | None = None

    @property
    def limits(self) -> Limits:
        return self.context.limits

    @property
    def scope(self) -> Scope:
        return self.context.scope

    @property
    def ops(self) -> Ops:
        return self.context.device.ops

    def set_of(self, outputs: Sequence[Expr], limit: int | None) -> RowSet:
        """An empty row set for these expressions."""
        return RowSet(outputs, self.ops, self.scope, self.limits, limit, self.context.tuning)

    def rows(self, limit: int | None) -> derived.Derived:
        plan = self.plan
        self.limits.looked += TURN
        if plan.gathers:
            return self._aggregated()
        if any(may_fail(join.steps) for join in plan.joins):
            limit = None  # errors after the last wanted row count too
        elif not plan.head and limit is None:
            limit = 1  # a proposition: one witness is enough
        sink = self.set_of(plan.head, limit)
        if len(plan.joins) == 1 and plan.head and limit is None:
            (join,) = plan.joins
            if one_row_each(join) or groups_of(join) is not None:
                return self._distinct(sink)
        for number in range(len(plan.joins)):
            self.into_set(number, sink)
        self._count(sink.given)
        return sink.finish()

    def _distinct(self, sink: RowSet) -> derived.Derived:
        """The rows of a join whose loops output no duplicates: none are compared."""
        (join,) = self.plan.joins
        nest, once = self._nest(0, Form(join.outputs)), one_row_each(join)
        if once and join.scan is not None and not widens(join) and self.sources.once(join):
            kept = DistinctSink(join.outputs, self.ops, self.scope, self.limits)
            self._run(0, nest, lambda *_: self._levelwise(join, kept), _compiled)
            self._count(kept.count)
            return derived.DistinctBlocks(kept.blocks(), kept.count)
        found: derived.Derived | None = None

        def depth_first() -> None:
            nonlocal found
            blocks = nest.run(self.plan.relation)
            if once or nest.grouped is not None:
                found = self._ordered(nest, blocks)
            else:
                sink.add_blocks(blocks)

        self._run(0, nest, self._into(sink, join), depth_first)
        if found is not None:
            self._count(derived.count_of(found))
            return found
        self._count(sink.given)
        return sink.finish()

    def _ordered(self, nest: JoinNest, blocks: list[Block]) -> derived.Derived:
        """The distinct rows of loops, sorted if that is cheap."""
        count = sum(len(block[0]) for block in blocks)
        hashed = nest.grouped is not None and nest.grouped.hashed
        tuning, here = self.context.tuning, self.context.device is CPU
        if here and count >= tuning.sorted_from and not hashed and ascends(nest.join):
            size = sum(column.nbytes for block in blocks for column in block)
            if size <= self.limits.spare() // 2:
                with self.limits.account.working("answers", size):
                    rows = derived.one_after_another(blocks, tuning.sorted_stretch)
                if rows is not None:
                    return rows
        return derived.DistinctBlocks(blocks, count)

    def _count(self, tried: int) -> None:
        if self.stats is not None:
            self.stats.tried += tried

    # ------------------------------------------------------------------------------- choosing

    def _nest(self, number: int, form: Form) -> JoinNest:
        context = self.context
        if self.lasting is not None and context.knobs.strategy == "auto":  # rounds are small
            context = replace(context, knobs=replace(context.knobs, strategy="levelwise"))
        join, counted = self.plan.joins[number], self.report is not None
        return JoinNest(join, form, self.sources, context, counted=counted)

    def _run(
        self, number: int, nest: JoinNest, breadth_first: BreadthFirst, depth_first: DepthFirst
    ) -> None:
        """Runs a join in one executor; in the other one if the first reads too many rows."""
        self.limits.watch.innermost.one_of(number, len(self.plan.joins))
        while True:
            choice = self._choice(number, nest)
            if choice.breadth_first and self.lasting is not None:
                choice = replace(choice, shared=None)  # processed rows are known on this device
            self._chosen(number, choice)
            before, budget = self.limits.looked, None
            try:
                with self.limits.account.restoring(OverBudget):
                    if choice.breadth_first:
                        with self.limits.within(choice.allowed) as budget:
                            breadth_first(choice.allowed, choice.shared)
                        remember(nest, self.limits.looked - before)
                    else:
                        depth_first()
                        if self.report is not None:
                            self.report.saw(nest.seen)
                return
            except OverBudget as error:
                if error.budget is not budget:
                    raise
                remember(nest, max(nest.tuning.overrun_counted, self.limits.looked - before))
            except GiveUp as reason:
                # Only the other executor distinguishes errors from rows that do not matter.
                message = str(reason) or "a computation failed, or a number left 62 bits"
                break
        # After the handler, because the error keeps the first executor's results alive.
        self._chosen(number, ExecutorChoice(True, message))
        breadth_first(None, None)

    def _choice(self, number: int, nest: JoinNest) -> ExecutorChoice:
        return choose(nest)

    def _chosen(self, number: int, choice: ExecutorChoice) -> None:
        if self.report is not None:
            self.report.executors[number] = choice
        if self.stats is not None:
            self.stats.executors[number] = choice.kind

    def _levelwise(self, join: JoinPlan, sink: Sink, shared: Shared | None = None) -> None:
        limits = self.limits
        made = {ref: self.sources.trie_of(ref) for ref in longest_first(join.tries)}
        tries = [made[ref] for ref in join.tries]
        seen: dict[int, StepCounts] | None = None if self.report is None else {}
        tuning = self.context.tuning
        walk = Levelwise(tries, self.ops, self.scope, limits, seen, self.lasting, tuning)
        here = self.context.device is CPU
        most = _rows_at_hand(join, tries, limits.chunk) if here else 0
        held = most * levels_of(self.plan) * BYTES_PER_ROW
        held = min(held, limits.spare() // 2)  # few rows do not fill a chunk
        with limits.account.working("rows at hand", held):
            if shared is not None and run_together(join, tries, sink, shared, self.context, seen):
                pass  # all devices have run it
            elif join.scan is not None:
                rows, count = self.sources.rows_of(join)
                workers = self.context.knobs.workers if here else 1
                scan = Scan(join, rows, count, tries, self.ops, self.scope, limits, workers, seen)
                scan.run(sink)
                if self.report is not None:
                    self.report.scanned[join.scan.relation] = count
            else:
                for first in self._first(join):
                    walk.run(join.steps, 0, first, sink)
        if self.report is not None and seen is not None:  # it has completed
            self.report.saw(seen)

    def _first(self, join: JoinPlan) -> Iterator[Frontier]:
        """The rows that a join starts from, chunk by chunk."""
        if join.given is None:
            first = Frontier(1)
            if join.orbit != 1:
                first.columns[WEIGHT] = self.ops.xp.full(1, join.orbit)
            yield first
            return
        rows, count = self.sources.rows_of(join)
        names = [slot.name for slot in join.given.slots]
        most = self.limits.chunk if rows else count
        work = self.limits.watch.innermost
        for start in range(0, count, max(1, most)):
            end = min(count, start + most)
            piece = (column[start:end] for column in rows)
            with work.within(start / count, end / count):
                yield Frontier(end - start, columns=dict(zip(names, piece, strict=True)))

    # ------------------------------------------------------------------------------ gathering

    def into_set(self, number: int, sink: RowSet) -> None:
        """Adds a join's rows to a set."""
        if sink.done:
            return
        join = self.plan.joins[number]
        sink.outputs = join.outputs
        nest = self._nest(number, Form(join.outputs))

        def depth_first() -> None:
            blocks = nest.run(self.plan.relation, sink.limit)
            sink.add_blocks(blocks)
            if sink.limit is not None and blocks and not sink.settle():
                # The first rows had duplicates: take all of them.
                sink.add_blocks(nest.run(self.plan.relation))

        self._run(number, nest, self._into(sink, join), depth_first)

    def _into(self, sink: RowSet, join: JoinPlan) -> BreadthFirst:
        """Runs a join breadth-first; the set gets its rows only if the join completes."""

        def breadth_first(allowed: int | None, shared: Shared | None) -> None:
            if allowed is None:
                self._levelwise(join, sink, shared)
                return
            fresh = self.set_of(join.outputs, sink.limit)
            self._levelwise(join, fresh)
            sink.take(fresh)

        return breadth_first

    def into_bag(self, number: int, gathering: Gathering) -> Gathering:
        """Aggregates a join's bindings into `gathering` or a copy of it; returns that."""
        plan = self.plan
        join = plan.joins[number]
        nest = self._nest(number, form_of_bag(plan.keys, plan.gathers))
        result = gathering

        def breadth_first(allowed: int | None, shared: Shared | None) -> None:
            nonlocal result
            into = gathering if allowed is None else gathering.copy()
            self._levelwise(join, Bag(plan.keys, into), shared)
            result = into

        def depth_first() -> None:
            give_bag(nest, gathering, nest.run(plan.relation))

        self._run(number, nest, breadth_first, depth_first)
        return result

    def _aggregated(self) -> derived.Rows:
        plan = self.plan
        gathering = Gathering(plan.gathers, self.ops, self.scope, self.limits, level=0)
        for group, names in zip(plan.groups, plan.bindings, strict=True):
            if len(group) == 1:
                given = gathering.given
                gathering = self.into_bag(group[0], gathering)
                self._count(gathering.given - given)
                continue
            union = self.set_of(names, None)
            for number in group:
                self.into_set(number, union)
            self._count(union.given)
            rows, _ = union.finish()
            self._add_union(gathering, names, rows)
        if gathering.spilled is None:
            return derived.rows_of_groups(plan, gathering, self.ops, self.scope)
        sink = self.set_of(plan.head, None)
        for part in gathering.partitions():
            rows, count = derived.rows_of_groups(plan, part, self.ops, self.scope)
            if count:
                sink.add(rows)
        return sink.finish()

    def _add_union(self, gathering: Gathering, names: Sequence[Slot], rows: Columns) -> None:
        add_rows(gathering, self.plan.keys, names, rows)


def _rows_at_hand(join: JoinPlan, tries: Sequence[Trie], chunk: int) -> int:
    """The most bindings at a time: a chunk, or fewer if the relations are tiny."""
    steps = [*all_steps(join.steps)]
    if join.given or join.scan or any(isinstance(step, Generate) for step in steps):
        return chunk
    longest = max((len(level) for trie in tries for level in trie.levels), default=0)
    levels = sum(isinstance(step, Join) for step in steps)
    return min(chunk, int((1 + longest) ** levels))


def _compiled() -> None:
    raise AssertionError("a scan that tests rows and computes is not compiled")
