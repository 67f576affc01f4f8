"""Counts a fixpoint's rows without storing them, if only the count is needed.

The closure of a road network has more rows than fit into memory, yet counting them is fast: a
partitioned fixpoint sums up the lengths of its worklists. `planner/rewrite/counting.py` decides
which rules need counts only; this module finds out what an evaluation asks of a stratum, and
rewrites the strata that read it to rules that read the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from gdatalog.engine.context import StratumInputs
from gdatalog.engine.session.prepared import Plans
from gdatalog.engine.strata import plan_stratum, run
from gdatalog.plan.stratum import Partitioned
from gdatalog.planner.check.checked import CheckedRule, Schema, Stratum
from gdatalog.planner.rewrite.counting import asks_for_counts, counted_rule, counts_of
from gdatalog.records import dataclass, replace
from gdatalog.storage.relation import Relation


@dataclass(frozen=True, slots=True)
class Counted:
    """`relations`: the counts, or the stratum's own relations if computing these is as fast.

    `readers`: the strata that read it, rewritten.
    """

    relations: Mapping[str, Relation]
    schemas: Mapping[str, Schema]
    readers: Mapping[tuple[str, ...], Stratum]  # by relations
    whole: bool


def readers_of(
    stratum: Stratum, needed: Sequence[Stratum], reads: Callable[[Stratum], Sequence[str]]
) -> list[Stratum]:
    """The strata that read a recursive one, if all of them need only counts."""
    if not stratum.recursive:
        return []
    names = set(stratum.relations)
    readers = [other for other in needed if other is not stratum and names & set(reads(other))]
    for reader in readers:
        if reader.recursive or not all(asks_for_counts(rule, names) for rule in reader.rules):
            return []
    return readers


def count_stratum(
    stratum: Stratum,
    inputs: StratumInputs,
    readers: Collection[Stratum],
    before: Mapping[str, Relation] | None,
) -> Counted | None:
    """Counts a stratum's rows, or those that it had `before`; None unless it is partitioned and the
    counts suffice."""
    ready = plan_stratum(stratum, inputs, counted=True)
    main = ready.plan.main
    if not isinstance(main, Partitioned):
        return None
    columns = {key.relation: key.column for key in main.keys}
    changed: dict[tuple[str, ...], Stratum] = {}
    for reader in readers:
        rules = [_rewritten(rule, columns, inputs.plans) for rule in reader.rules]
        if None in rules:
            return None
        replaced = tuple(rule for rule in rules if rule is not None)
        changed[reader.relations] = replace(reader, rules=replaced)
    found = before or run(ready)
    if found.keys() == set(stratum.relations):
        return Counted(found, {}, {}, True)
    schemas = (counts_of(ready.inputs.schemas[name], columns[name]) for name in columns)
    return Counted(found, {schema.name: schema for schema in schemas}, changed, False)


def _rewritten(rule: CheckedRule, columns: Mapping[str, int], plans: Plans) -> CheckedRule | None:
    """Returns the same rewritten rule each time, so that its plan is found again."""
    by = tuple(sorted(columns.items()))
    return plans.rewritten(("counted", by), [rule], lambda: counted_rule(rule, columns))
