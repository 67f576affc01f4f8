"""Plans a stratum, and runs the plan; counts the rows of a fixpoint if only the counts are needed.

`plan_stratum` decides by the rules, sizes, forced settings and the device. `run` runs the plan's
strategy, and the next one when a condition of its fallback is met. Modules of recursive strategies
are imported only for recursive strata.

The closure of a road network has more rows than fit into memory, yet counting them is fast: a
partitioned fixpoint sums up the lengths of its worklists. `planner/rewrite/columns_read.py` decides
which rules need counts only. This module finds the strata that read a fixpoint, and rewrites their
rules so that they read its counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

import numpy as np

from gdatalog.engine.context import StratumInputs
from gdatalog.engine.facts.encoding import encode
from gdatalog.engine.fixpoint import StratumRun
from gdatalog.engine.fixpoint.ready import Ready, Relations, Runners, Since, rule_plans, run_here
from gdatalog.engine.session.remembered import settled
from gdatalog.errors import EvaluationError
from gdatalog.parser.syntax import Atom, Const, Param, Var
from gdatalog.plan import stratum as st
from gdatalog.plan.tuning import Grown, Unsuited
from gdatalog.planner.check import Schema, Stratum
from gdatalog.planner.rewrite import asked_for
from gdatalog.planner.rewrite.columns_read import asks_for_counts, counted_rule, counts_of
from gdatalog.records import replace
from gdatalog.storage.keys import encode_value
from gdatalog.storage.on_device import KnownRows
from gdatalog.storage.relation import Relation

# --------------------------------------------------------------------------------- planning


def plan_stratum(
    stratum: Stratum, inputs: StratumInputs, limit: int | None = None, counted: bool = False
) -> Ready:
    """Plans a stratum.

    `limit`: at most this many rows of its one relation are needed. `counted`: if it is partitioned,
    only the number of rows of each value is needed.
    """
    context = inputs.context
    copy = None if limit is not None or any(inputs.seeds.values()) else copy_of(stratum)
    if copy is not None:
        plan = st.StratumPlan(stratum.relations, False, copy, device=context.device.name)
        return Ready(plan, stratum, inputs, (), RUNNERS)
    encoded = None if limit is not None else encode(stratum, inputs)
    if encoded is not None:
        coded = _planned(encoded.stratum, encoded.inputs, None, counted)
        rewrites = (st.DictionaryCodes(encoded.names()), *coded.plan.rewrites)
        no_codes = replace(context, knobs=replace(context.knobs, encode="never"))
        anew = partial(plan_stratum, stratum, replace(inputs, context=no_codes), None, counted)
        plan = replace(coded.plan, rewrites=rewrites)
        return replace(coded, plan=plan, encoded=encoded, anew=anew)
    return _planned(stratum, inputs, limit, counted)


def _planned(stratum: Stratum, inputs: StratumInputs, limit: int | None, counted: bool) -> Ready:
    if stratum.recursive:
        from gdatalog.engine.fixpoint.strategies import plan_recursive

        return plan_recursive(stratum, inputs, counted)
    run = StratumRun(stratum, inputs)
    planned = rule_plans(run)
    plans, device = tuple(plan for _, plan in planned), inputs.context.device.name
    plan = st.StratumPlan(stratum.relations, False, st.Once(), plans, device=device)
    return Ready(plan, stratum, inputs, tuple(rule for rule, _ in planned), RUNNERS, limit, run=run)


def plan_incremental(
    stratum: Stratum, inputs: StratumInputs, since: Since, anew: Callable[[], Ready]
) -> Ready:
    """Plans the incremental maintenance of a stratum. `anew` plans it with all rows."""
    grown = Grown(inputs.context.tuning.news_derived_most)
    strategy = st.Incremental(tuple(sorted(since.rows)), st.Fallback((grown,), st.Again()))
    device = inputs.context.device.name
    plan = st.StratumPlan(stratum.relations, stratum.recursive, strategy, device=device)
    return Ready(plan, stratum, inputs, (), RUNNERS, since=since, anew=anew)


# ---------------------------------------------------------------------------------- running


def run_stratum(stratum: Stratum, inputs: StratumInputs, limit: int | None = None) -> Relations:
    """The stratum's relations; at most `limit` rows of the only one, if given."""
    return run(plan_stratum(stratum, inputs, limit))


def run(ready: Ready) -> Relations:
    """Runs a planned stratum; returns its relations, or their sizes if it only counts."""
    workers = ready.plan.workers
    try:
        if workers is None or workers.refusal is not None:
            found = run_here(ready)
        else:
            from gdatalog.engine.fixpoint.strategies import run_on_workers

            found = run_on_workers(ready, workers)
    except EvaluationError:
        if ready.encoded is None:
            raise
        assert ready.anew is not None  # the message would show codes instead of values
        return run(ready.anew())
    if ready.encoded is None:
        return found
    return {name: ready.encoded.decoded(name, relation) for name, relation in found.items()}


def _copy(strategy: st.Copy, ready: Ready) -> Relations | None:
    """The copy of a relation; None if that has rows with other constants."""
    inputs, (rule,) = ready.inputs, ready.stratum.rules
    schema, scope = inputs.schemas[rule.head.name], inputs.context.scope
    relation = inputs.relation(strategy.relation)
    if strategy.fallback is None:
        same = relation.columns == schema.columns
        return {schema.name: relation if same else relation.renamed(schema.columns)}
    if not relation.store.on_host:
        return None
    assert isinstance(rule.body, Atom)
    columns = relation.store.as_they_are()
    kept = []
    for arg, column, kind in zip(rule.body.args, columns, relation.types, strict=True):
        if isinstance(arg, Const | Param):
            value = arg.value if isinstance(arg, Const) else scope.params[arg.name]
            if not np.all(column == encode_value(value, kind, scope.symbols)):
                return None
        else:
            kept.append(column)
    count, distinct = relation.at_most, relation.store.known >= KnownRows.DISTINCT
    blocks = [tuple(kept)]
    return {schema.name: Relation.of_blocks(schema.columns, schema.types, blocks, count, distinct)}


def _incremental(strategy: st.Incremental, ready: Ready) -> Relations:
    from gdatalog.engine.fixpoint.maintenance import Maintenance

    assert ready.since is not None and strategy.fallback is not None
    going_on = Maintenance(ready.stratum, ready.inputs, ready.since)
    return going_on.follow(strategy.fallback.when)


def _again(_: st.Again, ready: Ready) -> Relations:
    """Replaces recomputed relations by the old ones if the rows are the same."""
    assert ready.since is not None and ready.anew is not None
    known = ready.since.known
    return {name: settled(known[name], now) for name, now in run(ready.anew()).items()}


def _once(_: st.Once, ready: Ready) -> Relations:
    run = ready.run or StratumRun(ready.stratum, ready.inputs)
    run.planned = ready.planned
    run.given = {id(rule): plan for rule, plan in ready.planned}
    return run.once(ready.limit)


RUNNERS: Runners = {st.Once: _once, st.Copy: _copy, st.Incremental: _incremental, st.Again: _again}


# Counts a fixpoint's rows without storing them, if only the count is needed.


Readers = dict[tuple[str, ...], Stratum]  # strata that read counts, by their relations
# The counts, or the stratum's own relations if computing these is as fast; the schemas of counts;
# and the strata that read them, rewritten.
Counted = tuple[Relations, Mapping[str, Schema], Readers]


def only_count(readers: Iterable[Stratum], names: Collection[str]) -> bool:
    """Whether strata that read some relations need only counts of them."""
    return not any(
        reader.recursive or not all(asks_for_counts(rule, set(names)) for rule in reader.rules)
        for reader in readers
    )


def count_stratum(
    stratum: Stratum, inputs: StratumInputs, readers: Collection[Stratum], before: Relations | None
) -> Counted | None:
    """Counts a stratum's rows, unless `before` has the counts. None unless the stratum is
    partitioned and its readers need only counts."""
    ready = plan_stratum(stratum, inputs, counted=True)
    main = ready.plan.main
    if not isinstance(main, st.Partitioned):
        return None
    columns = {key.relation: key.column for key in main.keys}
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
    found = before or run(ready)
    if found.keys() == set(stratum.relations):
        return found, {}, {}
    schemas = (counts_of(ready.inputs.schemas[name], columns[name]) for name in columns)
    return found, {schema.name: schema for schema in schemas}, changed


# ----------------------------------------------- copies: `?1(x, y) <- path(x, y).` is not evaluated


def copy_of(stratum: Stratum) -> st.Copy | None:
    """Detects that a stratum's only relation is a copy of another one: without data of its own, in
    the same order, and without columns except those that hold a requested constant."""
    if stratum.recursive or len(stratum.rules) != 1:
        return None
    (rule,) = stratum.rules
    args, body = rule.head.args, rule.body
    if not isinstance(body, Atom) or not args:
        return None
    left = [(at, arg) for at, arg in enumerate(body.args) if not isinstance(arg, Const | Param)]
    if tuple(arg for _, arg in left) != args:
        return None
    if len({arg.name for arg in args if isinstance(arg, Var)}) < len(args):
        return None
    if len(left) == len(body.args):
        return st.Copy(body.name)
    # Other constants may have been requested too.
    return (
        st.Copy(body.name, st.Fallback((Unsuited(),), st.Once())) if asked_for(body.name) else None
    )
