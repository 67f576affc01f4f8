"""Counts a fixpoint's rows without storing them, where the strata that read it need only counts.

`planner/rewrite/counts_read.py` decides which rules need counts only. This module finds the strata
that read a fixpoint, and rewrites their rules so that they read its counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from gdatalog.engine.context import StratumInputs
from gdatalog.engine.device import CPU
from gdatalog.engine.exact_counts import exact_sum, one_row
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.host import NUMBERS, OnHost
from gdatalog.engine.stratum_plan import StratumPlan
from gdatalog.engine.stratum_planner import plan_stratum
from gdatalog.parser.syntax import Atom, HeadAggregate, Var
from gdatalog.planner.check import CheckedRule, Schema, Stratum
from gdatalog.planner.rewrite.counts_read import COUNTS, asks_for_counts, counted_rule, counts_of
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.relation import Relation

Readers = dict[tuple[str, ...], Stratum]  # strata that read counts, by their relations


@dataclass(frozen=True, slots=True)
class CountingPlan(StratumPlan):
    """A plan that counts a stratum's rows for each value of one column of each relation. `schemas`:
    of the counts; `readers`: the strata that read them, rewritten."""

    schemas: Mapping[str, Schema] = field(default_factory=dict)
    readers: Readers = field(default_factory=dict)


def only_count(readers: Iterable[Stratum], names: Collection[str]) -> bool:
    """Whether strata that read some relations need only counts of them."""
    return not any(
        reader.recursive or not all(asks_for_counts(rule, set(names)) for rule in reader.rules)
        for reader in readers
    )


def plan_counts(
    stratum: Stratum, inputs: StratumInputs, readers: Collection[Stratum]
) -> CountingPlan | None:
    """None unless the stratum is partitioned and its readers need only counts."""
    from gdatalog.engine.operators.counted import Counted

    plan = plan_stratum(stratum, inputs, counted=True)
    main = plan.main
    if not isinstance(main, Counted):
        return None
    columns = {key.relation: key.column for key in main.fixpoint.keys}
    by = "counted", tuple(sorted(columns.items()))
    changed: Readers = {}
    for reader in readers:
        rules = [  # the same objects each time, so that their plans are cached
            inputs.plans.rewritten(by, [rule], partial(counted_rule, rule, columns))
            for rule in reader.rules
        ]
        replaced = tuple(rule for rule in rules if rule is not None)
        if len(replaced) < len(rules):
            return None
        changed[reader.relations] = replace(reader, rules=replaced)
    schemas = [counts_of(inputs.schemas[name], columns[name]) for name in columns]
    counts = {schema.name: schema for schema in schemas}
    return CountingPlan(plan.stratum, plan.root, plan.device, counts, changed)


def plan_reader(stratum: Stratum, inputs: StratumInputs) -> StratumPlan:
    """Plans a stratum that reads counts: for the CPU, whatever the device, if they are few."""
    context, read = inputs.context, {atom.name for rule in stratum.rules for atom in rule.atoms}
    few = all(name.endswith(COUNTS) and _are_few(inputs, name) for name in read)
    if context.device is CPU or not few:
        return plan_stratum(stratum, inputs)
    plan = plan_stratum(stratum, replace(inputs, context=replace(context, device=CPU)))
    return replace(plan, root=OnHost(plan.root, NUMBERS))


def total_of(stratum: Stratum, inputs: StratumInputs) -> Relations | None:
    """The relation of a stratum that reads counts and asks only for their sum, if they are few."""
    match stratum.rules:
        case [CheckedRule(head=Atom(args=(HeadAggregate(kind="sum"),)), body=Atom() as body)]:
            pass
        case _:
            return None
    if not all(isinstance(arg, Var) for arg in body.args) or not _are_few(inputs, body.name):
        return None
    counts, (name,), context = inputs.relation(body.name), stratum.relations, inputs.context
    if not counts.length or not counts.store.on_host or context.metrics.lasting:
        return None
    total, schema = exact_sum(counts.column(-1)), inputs.schemas[name]
    return (
        None
        if total >= 1 << 63
        else {name: Relation(schema.columns, schema.types, *one_row(total))}
    )


def _are_few(inputs: StratumInputs, name: str) -> bool:
    return inputs.relation(name).length <= inputs.context.thresholds.device_from
