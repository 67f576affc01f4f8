"""Counts a fixpoint's rows without storing them, where the strata that read it need only counts.

`planner/rewrite/counts_read.py` decides which rules need counts only. This module finds the strata
that read a fixpoint, and rewrites their rules so that they read its counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from gdatalog.engine.context import StratumInputs
from gdatalog.engine.device import CPU
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.host import NUMBERS, OnHost
from gdatalog.engine.stratum_planner import plan_stratum, run
from gdatalog.planner.check import Schema, Stratum
from gdatalog.planner.rewrite.counts_read import asks_for_counts, counted_rule, counts_of
from gdatalog.records import replace

Readers = dict[tuple[str, ...], Stratum]  # strata that read counts, by their relations
# The counts, or the stratum's own relations if computing these is as fast; the schemas of counts;
# and the strata that read them, rewritten.
CountedStratum = tuple[Relations, Mapping[str, Schema], Readers]


def only_count(readers: Iterable[Stratum], names: Collection[str]) -> bool:
    """Whether strata that read some relations need only counts of them."""
    return not any(
        reader.recursive or not all(asks_for_counts(rule, set(names)) for rule in reader.rules)
        for reader in readers
    )


def count_stratum(
    stratum: Stratum, inputs: StratumInputs, readers: Collection[Stratum], before: Relations | None
) -> CountedStratum | None:
    """Counts a stratum's rows, unless `before` has the counts. None unless the stratum is
    partitioned and its readers need only counts."""
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
    found = before or run(plan, inputs)
    if found.keys() == set(stratum.relations):
        return found, {}, {}
    schemas = (counts_of(inputs.schemas[name], columns[name]) for name in columns)
    return found, {schema.name: schema for schema in schemas}, changed


def run_on_few(stratum: Stratum, inputs: StratumInputs) -> Relations:
    """Evaluates a stratum that reads few counts: on the CPU, whatever the device."""
    here = replace(inputs, context=replace(inputs.context, device=CPU))
    plan = plan_stratum(stratum, here)
    return run(replace(plan, root=OnHost(plan.root, NUMBERS)), inputs)
