"""`Partitioned`: a separate, compiled fixpoint for each value of one column of each relation.

A worker processes one value at a time, with one stamp array or hash table and a worklist; no index
grows, and threads share nothing. `planner/rewrite/linear_recursion.py` decides which strata can be
partitioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdatalog.engine.choose import ARRAYS
from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.derived import count_of
from gdatalog.engine.device import CPU, shared_by
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.base import LeafOperator
from gdatalog.engine.operators.fallback import WithFallback
from gdatalog.engine.operators.partitioned_run import (
    OFTEN,
    Key,
    PartitionedStratum,
    PreparedFixpoint,
    is_forced,
)
from gdatalog.engine.operators.semi_naive import SemiNaive
from gdatalog.engine.operators.when_compiled import when_compiled
from gdatalog.engine.planned_rules import PlannedRules
from gdatalog.engine.prepared_rules import PreparedRules
from gdatalog.plan.conditions import Bytes, SmallRounds, TooManyRows, Unsuited, When
from gdatalog.plan.join_plan import Join, RulePlan, Slot
from gdatalog.plan.placement import Shared
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.placement import Work
from gdatalog.planner.rewrite.linear_recursion import partitioning_of, two_atoms_of
from gdatalog.planner.rewrite.program_sizes import Expected
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Partitioned(LeafOperator):
    """`keys`: the column of each relation. `shared`: the devices that share its values, if several
    do."""

    of: PlannedRules
    keys: tuple[Key, ...]
    shared: Shared | None = None
    by_parts = "value by value"

    def __str__(self) -> str:
        return f"a fixpoint for each {', '.join(map(str, self.keys))}"

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return self.of.pairs

    def work(self, expected: Expected, context: ExecutionContext) -> Work:
        turns, launches = len(self.rules), 2 * ARRAYS  # of rows to begin with, and of the answer
        return Work(expected.looked, turns=turns, launches=launches, everywhere=True)

    def begun(
        self, inputs: StratumInputs, prepared: PreparedFixpoint | None = None
    ) -> PartitionedStratum:
        prepared = prepared or self.prepare(inputs.context)
        return PartitionedStratum(prepared, self.keys, inputs, self.shared)

    def prepare(self, context: ExecutionContext) -> PreparedFixpoint:
        return PreparedFixpoint(PreparedRules(self.of))

    def run(
        self, prepared: PreparedFixpoint, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        found = self.begun(inputs, prepared).run()
        return Unsuited() if found is None else found


def applies(draft: StratumDraft) -> Partitioned | None:
    """If every recursive rule passes a column of its recursive atom on unchanged."""
    context, stratum = draft.context, draft.stratum
    if context.settings.split == "never" or context.settings.strategy == "levelwise":
        return None
    if not stratum.recursive or draft.limited or draft.optima:
        return None
    if any(two_atoms_of(rule, stratum.relations) for rule in stratum.rules):
        return None
    schemas = draft.inputs.schemas
    arities = {name: schemas[name].arity for name in stratum.relations}
    later = []
    for rule in draft.recursive_rules:
        later.append(draft.plan(rule, first=False))
    split = partitioning_of(later, arities)
    if split is None:
        return None
    columns = sorted(split.columns.items())
    keys = tuple(Key(name, at, schemas[name].columns[at]) for name, at in columns)
    return Partitioned(draft.planned, keys, _shared(draft, split.columns))


def over(found: Operator, draft: StratumDraft, rounds: Operator) -> Operator:
    """With rounds for what it does not suit; and first, where the stratum reads few rows, because
    rounds need no compilation, unless an earlier call over the same rows had too many."""
    context, thresholds = draft.context, draft.context.thresholds
    suited = WithFallback(found, (Unsuited(),), rounds)
    if is_forced(context) or draft.read_rows >= thresholds.partitioned_from:
        return suited
    often = SmallRounds(thresholds.partitioned_rounds, thresholds.worklist_round_rows)
    enough = TooManyRows(thresholds.rounds_most), often, Bytes(context.memory)
    small = WithFallback(SemiNaive(draft.planned), enough, suited)
    at_once = context.device is not CPU or draft.met(enough)
    return when_compiled(found, small) if at_once else small


def _shared(draft: StratumDraft, columns: Mapping[str, int]) -> Shared | None:
    """The devices that share the values, if there are several and sharing pays."""
    context, thresholds = draft.context, draft.context.thresholds
    members, rows = context.device.members, draft.read_rows
    if len(members) < 2 or rows < thresholds.shared_inputs_from:
        return None
    found = 0.0  # how many values are expected to have rows before recursion
    for name, column in columns.items():
        found += sum(count_of(part) for part in draft.inputs.seeds.get(name, ()))
        rules = [rule for rule in draft.stratum.rules if rule.head.name == name]
        for join in (join for rule in rules for join in draft.plan(rule, first=True).joins):
            output = join.outputs[column]
            bound = output.name if isinstance(output, Slot) else None
            levels = [step for step in join.steps if isinstance(step, Join)]
            expected = [step.estimate for step in levels if step.variable == bound]
            found += expected[0] if expected else join.cost
    return (
        shared_by(members, OFTEN * rows, thresholds)
        if found >= thresholds.shared_values_from
        else None
    )
