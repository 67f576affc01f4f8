"""`LocalJoins`: the joins of a rule run here, into sets and aggregates."""

from __future__ import annotations

from gdatalog.calls import Block
from gdatalog.engine import derived
from gdatalog.engine.choose import planned_choice
from gdatalog.engine.context import RuleInputs
from gdatalog.engine.depth import Form, JoinNest, form_of_bag, give_bag
from gdatalog.engine.device import CPU
from gdatalog.engine.rules.join import JoinRun, Loops
from gdatalog.engine.rules.operator import RuleJoins
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import Bag, DistinctSink, RowSet
from gdatalog.plan.effects import generates, one_row_each
from gdatalog.plan.grouped_rows import ascends
from gdatalog.plan.join_plan import RulePlan
from gdatalog.records import dataclass, replace
from gdatalog.storage.on_device import is_on_host


@dataclass(slots=True)
class LocalJoins(RuleJoins):
    """Runs the joins of a rule here, each in one executor. `loops`: as for `JoinRun`."""

    plan: RulePlan
    inputs: RuleInputs
    loops: Loops | None = None

    def _run(self, number: int) -> JoinRun:
        return JoinRun(self.plan, number, self.inputs, self.loops)

    def compile_ahead(self) -> None:
        """Compiles the loops on other threads."""
        plan, context = self.plan, self.inputs.context
        for number, join in enumerate(plan.joins):
            choice = planned_choice(plan, number, context.settings, context.device.members)
            if join.given is None and not choice.breadth_first:
                form = form_of_bag(plan.keys, plan.gathers) if plan.gathers else Form(join.outputs)
                nest = self._run(number).nest(form)
                if nest.reason is None:
                    nest.compile_soon(plan.relation)

    def all_apart(self) -> derived.Derived:
        """The rows of joins of which no two have a row in common."""
        parts = []
        for number, join in enumerate(self.plan.joins):
            sink = self.set_of(join.outputs, None)
            if one_row_each(join):
                parts.append(self.distinct(sink, number))
            else:
                self.into_set(number, sink)
                self.inputs.tried(sink.given)
                parts.append(sink.finish())
        return derived.together(parts)

    def distinct(self, sink: RowSet, number: int = 0) -> derived.Derived:
        """The rows of a join whose loops output no duplicates: none are compared."""
        join, inputs = self.plan.joins[number], self.inputs
        run, once = self._run(number), one_row_each(join)
        nest = run.nest(Form(join.outputs))
        if once and join.scan is not None and not generates(join) and inputs.sources.once(join):
            kept = DistinctSink(join.outputs, inputs.ops, inputs.scope, inputs.limits)
            for attempt in run.attempts(nest):
                with attempt:
                    assert attempt.choice.breadth_first, "it tests rows and computes"
                    run.levelwise(kept)
            inputs.tried(kept.count)
            return derived.DistinctBlocks(kept.blocks(), kept.count)
        found = None
        for attempt in run.attempts(nest):
            with attempt:
                if attempt.choice.breadth_first:
                    run.into_rows(sink, attempt)
                    continue
                blocks = nest.run(self.plan.relation)
                if once or nest.grouped is not None:
                    found = self._ordered(nest, blocks)
                else:
                    sink.add_blocks(blocks)
        inputs.tried(sink.given if found is None else derived.count_of(found))
        return sink.finish() if found is None else found

    def _ordered(self, nest: JoinNest, blocks: list[Block]) -> derived.Derived:
        """The distinct rows of loops, sorted if that is cheap."""
        count = sum(len(block[0]) for block in blocks)
        hashed = nest.grouped is not None and nest.grouped.hashed
        thresholds, here = self.inputs.context.thresholds, self.inputs.context.device is CPU
        if here and count >= thresholds.sorted_from and not hashed and ascends(nest.join):
            size = sum(column.nbytes for block in blocks for column in block)
            if size <= self.inputs.limits.spare() // 2:
                with self.inputs.limits.account.working("answers", size):
                    rows = derived.one_after_another(blocks, thresholds.sorted_stretch)
                if rows is not None:
                    return rows
        return derived.DistinctBlocks(blocks, count)

    def into_set(self, number: int, sink: RowSet) -> None:
        if sink.done:
            return
        run = self._run(number)
        sink.outputs = run.join.outputs
        nest = run.nest(Form(sink.outputs))

        for attempt in run.attempts(nest):
            with attempt:
                if attempt.choice.breadth_first:
                    run.into_rows(sink, attempt)
                    continue
                blocks = nest.run(self.plan.relation, sink.limit)
                sink.add_blocks(blocks)
                if sink.limit is not None and blocks and not sink.settle():
                    # The first rows had duplicates: take all of them.
                    sink.add_blocks(nest.run(self.plan.relation))

    def into_bag(self, number: int, gathering: Gathering) -> Gathering:
        plan, run = self.plan, self._run(number)
        nest = run.nest(form_of_bag(plan.keys, plan.gathers))

        into = gathering
        alone = self.loops is None and len(plan.groups) == 1
        for attempt in run.attempts(nest):
            with attempt:
                if attempt.choice.breadth_first:
                    into = gathering if attempt.choice.allowed is None else gathering.copy()
                    bag = Bag(plan.keys, into)
                    bag.total = 0 if bag.only_total and attempt.choice.shared is None else None
                    run.levelwise(bag, attempt.choice.shared)
                    if alone and bag.total and not into.blocks:  # no kernels for one number
                        into = replace(into, ops=CPU.ops)
                    for start in range(0, bag.total or 0, 1 << 62):
                        into.add_total(min(bag.total or 0, start + (1 << 62)) - start)
                    continue
                blocks = nest.run(plan.relation)
                into = gathering
                if alone and blocks and is_on_host(blocks[0][-1]):  # a device's few rows
                    into = replace(gathering, ops=CPU.ops)
                blocks = [derived.laid(block, into.ops) for block in blocks]
                give_bag(nest.form, nest.join.orbit, into, blocks)
        return into
