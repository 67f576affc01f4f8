"""`OverTables`: a rule whose joins read tables of counts by one key, each a signed sum."""

from __future__ import annotations

from typing import Any

from gdatalog.engine.context import RuleInputs
from gdatalog.engine.derived import Derived
from gdatalog.engine.exact_counts import TABLES, SumUnsuited
from gdatalog.engine.rules.operator import TURN
from gdatalog.engine.rules.rows import RuleRows
from gdatalog.engine.rules.signed_sum import Sum
from gdatalog.plan.conditions import Unsuited
from gdatalog.plan.join_plan import RulePlan, TrieRef
from gdatalog.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class OverTables:
    """Builds the tables `within` a plan, and runs its joins over them. Unsuited if a sum is."""

    plan: RulePlan

    def run(self, inputs: RuleInputs) -> Derived | Unsuited:
        plan, sources, limits = self.plan, inputs.sources, inputs.limits
        limits.looked += TURN
        own = replace(inputs, report=None, stats=None)
        try:
            tables = {inner.relation: Sum(inner, own).table() for inner in plan.within}
        except (MemoryError, SumUnsuited):
            return Unsuited()

        def trie_of(ref: TrieRef) -> Any:
            return tables[ref.relation] if ref.relation in tables else sources.trie_of(ref)

        limits.charge(TABLES, sum(2 * table.levels[0].values.nbytes for table in tables.values()))
        rest = replace(inputs, sources=replace(sources, trie_of=trie_of))
        try:
            return RuleRows(replace(plan, within=())).run(rest)
        finally:
            limits.charge(TABLES, 0)
