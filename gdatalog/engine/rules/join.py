"""`JoinRun`: a join in one executor, or in the other one if the first gives up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdatalog.calls import GiveUp
from gdatalog.chunks import BYTES_PER_ROW, levels_of
from gdatalog.engine.choose import choose, remember
from gdatalog.engine.context import RuleInputs
from gdatalog.engine.depth import Form, JoinNest, Texts
from gdatalog.engine.device import CPU
from gdatalog.engine.parallel import run_together
from gdatalog.engine.scans import Scan
from gdatalog.executors.frontier import WEIGHT, Frontier
from gdatalog.executors.levelwise import Levelwise
from gdatalog.executors.sinks import RowSet, Sink, StepCounts
from gdatalog.limits import OverBudget
from gdatalog.plan.effects import all_steps, longest_first
from gdatalog.plan.join_plan import Generate, Join, JoinPlan, RulePlan
from gdatalog.plan.placement import ExecutorChoice, Shared
from gdatalog.records import dataclass, replace
from gdatalog.storage.trie import Trie

# The choice and the printed loops of earlier cells, by the number of the join.
Loops = dict[int, tuple[ExecutorChoice, Texts]]


class JoinAttempt:
    """A join in one executor. This context ends without an error if the executor reads more rows
    than it may or, unless this is the `last` attempt, gives up (`gave_up` says why)."""

    __slots__ = ("_before", "_budget", "_held", "_inputs", "_last", "_nest", "choice", "completed",
                 "gave_up")  # fmt: skip

    def __init__(
        self, inputs: RuleInputs, nest: JoinNest, choice: ExecutorChoice, last: bool = False
    ) -> None:
        self.choice, self.completed, self.gave_up = choice, False, ""
        self._inputs, self._nest, self._last = inputs, nest, last

    def __enter__(self) -> None:
        limits = self._inputs.limits
        self._before, self._held = limits.looked, dict(limits.account.held)
        self._budget = limits.within(self.choice.allowed)
        self._budget.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._budget.__exit__(None, None, None)
        inputs, looked = self._inputs, self._inputs.limits.looked - self._before
        if error is None:
            self.completed = True
            if self.choice.breadth_first:
                remember(self._nest, looked)
            elif inputs.report is not None:
                inputs.report.saw(self._nest.seen)
        elif isinstance(error, OverBudget):
            inputs.limits.account.restore(self._held)
            if error.budget is not self._budget:
                return False
            remember(self._nest, max(inputs.context.thresholds.overrun_counted, looked))
            return True
        elif isinstance(error, GiveUp) and not self._last:
            self.gave_up = str(error) or "a computation failed, or a number left 62 bits"
            return True
        return False


@dataclass(slots=True)
class JoinRun:
    """Join `number` of a rule. `loops`: if the rule runs in cells, those of earlier cells."""

    plan: RulePlan
    number: int
    inputs: RuleInputs
    loops: Loops | None = None

    @property
    def join(self) -> JoinPlan:
        return self.plan.joins[self.number]

    def nest(self, form: Form) -> JoinNest:
        """The join's loops, which are printed if they are to run."""
        inputs, context = self.inputs, self.inputs.context
        if inputs.lasting is not None and context.settings.strategy == "auto":  # rounds are small
            context = context.forced("levelwise")
        counted = inputs.report is not None
        return JoinNest(self.join, form, inputs.sources, context, counted=counted)

    def attempts(self, nest: JoinNest) -> Iterator[JoinAttempt]:
        """The join in one executor; then in the other one if the first reads too many rows or gives
        up."""
        inputs, number = self.inputs, self.number
        inputs.limits.watch.innermost.one_of(number, len(self.plan.joins))
        while True:
            choice = self.choice(nest)
            if choice.breadth_first and inputs.lasting is not None:
                choice = replace(choice, shared=None)  # processed rows are known on this device
            inputs.chose(number, choice)
            attempt = JoinAttempt(inputs, nest, choice)
            yield attempt
            if attempt.gave_up:
                break
            if attempt.completed:
                return
        # Only the other executor distinguishes errors from rows that do not matter.
        choice = ExecutorChoice(True, attempt.gave_up)
        inputs.chose(number, choice)
        yield JoinAttempt(inputs, nest, choice, last=True)

    def choice(self, nest: JoinNest) -> ExecutorChoice:
        """The executor of the join, which then reuses the printed loops of an earlier cell."""
        known = None if self.loops is None else self.loops.get(self.number)
        if known is None:
            found = choose(nest, self.plan.relation)
            if self.loops is None or found.breadth_first:
                return found
            known = self.loops[self.number] = found, nest.texts
        nest.take(known[1])
        return known[0]

    def into_rows(self, sink: RowSet, attempt: JoinAttempt) -> None:
        """Runs the join breadth-first; the set gets its rows only if the join completes."""
        fresh = sink if attempt.choice.allowed is None else sink.fresh()
        self.levelwise(fresh, attempt.choice.shared)
        if fresh is not sink:
            sink.take(fresh)

    def levelwise(self, sink: Sink, shared: Shared | None = None) -> None:
        """Runs the join breadth-first into a sink."""
        inputs, join = self.inputs, self.join
        context, limits, ops = inputs.context, inputs.limits, inputs.ops
        made = {ref: inputs.sources.trie_of(ref) for ref in longest_first(join.tries)}
        tries = [made[ref] for ref in join.tries]
        seen: dict[int, StepCounts] | None = None if inputs.report is None else {}
        beside = inputs.scope, limits, seen, inputs.lasting, context.thresholds
        here, handed, counted = context.device is CPU, None, None
        if not here and self._may_be_prepared(sink, shared):
            from gdatalog.engine.rules.counted_levels import counted_levels

            counted = counted_levels(join, tries, context)
        if counted is not None:
            total = counted.total(lambda ops: Levelwise(tries, ops, *beside))
            if total is not None:
                sink.emit_total(total)
                return
            ops = counted.ops
        walk = Levelwise(tries, ops, *beside)
        if inputs.lasting is None and (not here or context.settings.hand_over == "always"):
            from gdatalog.engine.rules.hand_over import hand_over

            handed = walk.deeper = hand_over(join, tries, inputs, self.plan.relation, seen)
        most = _rows_at_hand(join, tries, limits.chunk) if here else 0
        held = most * levels_of(self.plan) * BYTES_PER_ROW
        held = min(held, limits.spare() // 2)  # few rows do not fill a chunk
        with limits.account.working("rows at hand", held):
            if shared is not None and run_together(join, tries, sink, shared, context, seen):
                pass  # all devices have run it
            elif join.scan is not None:
                rows, count = inputs.sources.rows_of(join)
                workers = context.settings.workers if here else 1
                scan = Scan(join, rows, count, tries, ops, inputs.scope, limits, workers, seen)
                scan.run(sink)
                if inputs.report is not None:
                    inputs.report.scanned[join.scan.relation] = count
            else:
                for first in self._first():
                    walk.run(join.steps, 0, first, sink)
        if counted is not None and not (handed and handed.taken):
            counted.keep(walk)
        if inputs.report is not None and seen is not None:  # it has completed
            inputs.report.saw(seen)
            inputs.report.handed += 0 if handed is None else handed.found

    def _may_be_prepared(self, sink: Sink, shared: Shared | None) -> bool:
        alone = shared is None and self.inputs.report is None and self.inputs.lasting is None
        return sink.only_total and alone

    def _first(self) -> Iterator[Frontier]:
        """The rows that the join starts from, chunk by chunk."""
        inputs, join = self.inputs, self.join
        if join.given is None:
            first = Frontier(1)
            if join.orbit != 1:
                first.columns[WEIGHT] = inputs.ops.xp.full(1, join.orbit)
            yield first
            return
        rows, count = inputs.sources.rows_of(join)
        names = [slot.name for slot in join.given.slots]
        most = inputs.limits.chunk if rows else count
        work = inputs.limits.watch.innermost
        for start in range(0, count, max(1, most)):
            end = min(count, start + most)
            piece = (column[start:end] for column in rows)
            with work.within(start / count, end / count):
                yield Frontier(end - start, columns=dict(zip(names, piece, strict=True)))


def _rows_at_hand(join: JoinPlan, tries: Sequence[Trie], chunk: int) -> int:
    """The most bindings at a time: a chunk, or fewer if the relations are tiny."""
    if join.given or join.scan:
        return chunk
    levels = longest = 0
    for step in all_steps(join.steps):
        if isinstance(step, Generate):
            return chunk
        levels += isinstance(step, Join)
    for trie in tries:
        for level in trie.levels:
            longest = max(longest, len(level))
    return min(chunk, int((1 + longest) ** levels))
