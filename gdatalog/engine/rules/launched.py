"""`LaunchedRule`: a rule whose loops are prepared on a device, for a query that is asked again.

It holds no indexes, so that the device can drop them: then the loops are gone, and the rule runs as
it did the first time. If the rows are few, they come with the end of the launch, and the CPU does
the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gdatalog.calls import Block
from gdatalog.engine.choose import choose
from gdatalog.engine.context import ExecutionContext, RuleInputs, Sources
from gdatalog.engine.depth import Form, JoinNest, form_of_bag, give_bag
from gdatalog.engine.derived import Derived, DistinctBlocks, laid
from gdatalog.engine.device import Accelerator
from gdatalog.engine.exact_counts import exact_sum, one_row, scanned
from gdatalog.engine.host_tries import too_large
from gdatalog.engine.rules.counted_levels import prepared_levels
from gdatalog.engine.rules.operator import Refusal, RuleJoins
from gdatalog.engine.rules.rows import RuleRows
from gdatalog.engine.rules.signed_sum import COUNT
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.effects import all_steps, one_row_each
from gdatalog.plan.join_plan import JoinPlan, RulePlan, Slot, Tally, TrieRef
from gdatalog.records import dataclass
from gdatalog.storage.on_device import is_on_host
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.gpu_ops.walk import PreparedLoops


@dataclass(slots=True, eq=False)
class LaunchedJoin:
    """A join of this form, with its `loops`; or, without any, the number of its bindings. `times`:
    how often a binding counts."""

    join: JoinPlan
    form: Form
    loops: PreparedLoops | None
    times: int
    count: int = 0


@dataclass(slots=True, eq=False)
class LaunchedRule:
    """`counts`: the rule only counts the bindings of its joins."""

    plan: RulePlan
    joins: Sequence[LaunchedJoin]
    counts: bool

    def run(self, context: ExecutionContext) -> Derived | Refusal | None:
        """The rows that the rule derives; None if its loops are gone."""
        device = context.device.accelerator
        loops = [each.loops for each in self.joins if each.loops is not None]
        found = None if device is None else device.again(loops, context.scope, context.limits)
        if found is None:
            return None
        if self.counts:
            total, runs = 0, iter(found)
            for each in self.joins:
                own = [] if each.loops is None else next(runs)
                total += each.times * (each.count + sum([exact_sum(block[-1]) for block in own]))
            if not -(1 << 63) <= total < 1 << 63:
                return Refusal("its counts leave 64 bits")
            return one_row(total)
        (blocks,) = found
        if all(is_on_host(column) for block in blocks for column in block):
            metrics, settings = context.metrics, context.settings
            context = ExecutionContext(context.limits, context.scope, metrics, settings)
        else:
            blocks = [laid(block, context.device.ops) for block in blocks]
        inputs = RuleInputs(NO_SOURCES, context)
        return RuleRows(self.plan).run(inputs, _LaunchedJoins(inputs, self.joins[0], blocks))


def launched(
    plan: RulePlan, relation: Callable[[str], Relation], context: ExecutionContext, label: str
) -> LaunchedRule | None:
    """Prepares the loops of a rule that `launches`, and has run on a device; None if they do not
    run depth-first, or are still being compiled, or do not fit."""
    device = context.device.accelerator
    if device is None or too_large([plan.otherwise or plan], relation, context):
        return None

    def trie_of(ref: TrieRef) -> Trie:
        return device.trie(relation(ref.relation), ref)

    joins = []
    for number in range(len(plan.joins)):
        made = _prepared(plan, number, device, Sources(trie_of), context, label)
        if made is None:
            return None
        joins.append(made)
    return LaunchedRule(plan, joins, _counts(plan))


def launches(plan: RulePlan, context: ExecutionContext) -> bool:
    """Whether a rule is one join, or a sum of joins that only count, for a device."""
    device = context.device
    if device.accelerator is None:
        return False
    if plan.left is not None or plan.within or device.refuses(plan) is not None:
        return False
    if any(j.given or any(isinstance(s, Tally) for s in all_steps(j.steps)) for j in plan.joins):
        return False
    if not plan.terms:  # without columns one witness is enough
        return len(plan.joins) == 1 and bool(plan.gathers or plan.head)
    return _counts(plan) and not any(term.table or term.images for term in plan.terms)


def _counts(plan: RulePlan) -> bool:
    """Whether the only row of a rule is the count of all bindings."""
    if plan.keys or [gather.kind for gather in plan.gathers] != ["count"]:
        return False
    return plan.head == (Slot(plan.gathers[0].variable, "int"),)


def _prepared(
    plan: RulePlan,
    number: int,
    device: Accelerator,
    sources: Sources,
    context: ExecutionContext,
    label: str,
) -> LaunchedJoin | None:
    join = plan.joins[number]
    form, times = Form(join.outputs), 1
    if plan.gathers:
        form = form_of_bag((), COUNT) if plan.terms else form_of_bag(plan.keys, plan.gathers)
    if not plan.terms and _counts(plan):
        tries = [sources.trie_of(ref) for ref in join.tries]
        levels = prepared_levels(join, tries, device, context)
        if levels is not None:
            return LaunchedJoin(join, form, levels, times)
    nest = JoinNest(join, form, sources, context)
    limits, settings = context.limits, context.settings
    if plan.terms:
        times = plan.terms[number].coefficient
        count = scanned(join, nest.tries, limits)
        if count is not None:
            return LaunchedJoin(join, form, None, times, count)
    if nest.reason is not None:
        return None
    has_run = not choose(nest, label).breadth_first
    if not has_run and not (settings.strategy == "auto" and device.loops_soon(nest.plain, label)):
        return None
    loops = device.prepared(nest.loop_run(label, {}, nest.shared), has_run)
    return None if loops is None else LaunchedJoin(join, form, loops, times * join.orbit)


def _nothing(ref: TrieRef) -> Trie:
    raise AssertionError("a launch has its indexes")


NO_SOURCES = Sources(_nothing)


@dataclass(slots=True)
class _LaunchedJoins(RuleJoins):
    """The only join of a rule, whose loops have given `blocks`."""

    inputs: RuleInputs
    of: LaunchedJoin
    blocks: list[Block]

    def into_set(self, number: int, sink: RowSet) -> None:
        sink.outputs = self.of.join.outputs
        sink.add_blocks(self.blocks)

    def into_bag(self, number: int, gathering: Gathering) -> Gathering:
        give_bag(self.of.form, self.of.join.orbit, gathering, self.blocks)
        return gathering

    def distinct(self, sink: RowSet) -> Derived:
        if one_row_each(self.of.join):
            return DistinctBlocks(self.blocks, sum(len(block[0]) for block in self.blocks))
        self.into_set(0, sink)
        return sink.finish()
