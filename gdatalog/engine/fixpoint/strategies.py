"""Recursive strata: the strategies that their plans name, and the code that runs each.

A stratum may be evaluated as another one: split at dead variables, linearised, or as one worklist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gdatalog.account import default_limit
from gdatalog.engine.context import StratumInputs
from gdatalog.engine.derived import Derived, DistinctBlocks, blocks_of, count_of, relation_of
from gdatalog.engine.device import CPU
from gdatalog.engine.fixpoint import StratumRun, atoms
from gdatalog.engine.fixpoint.bitmap_rounds import MarkedRounds
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds
from gdatalog.engine.fixpoint.partitioned import PartitionedStratum
from gdatalog.engine.fixpoint.ready import Ready, Relations, Runners, attempt, rule_plans, run_here
from gdatalog.engine.fixpoint.rounds import Rounds
from gdatalog.engine.host_tries import too_large
from gdatalog.plan import RulePlan
from gdatalog.plan import stratum as st
from gdatalog.plan.placement import OnWorkers
from gdatalog.plan.tuning import (
    CONDITIONS,
    Bytes,
    LargeTurns,
    SmallRounds,
    TooManyRows,
    Unsuited,
    When,
)
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.rewrite.columns_read import counts_of
from gdatalog.planner.rewrite.dead_variables import SplitStratum, split_at_dead_variables
from gdatalog.planner.rewrite.linear_recursion import (
    LinearStratum,
    Partitioning,
    first_of,
    made_linear,
    with_key,
)
from gdatalog.records import replace
from gdatalog.storage.relation import Relation
from gdatalog.storage.table import Array

if TYPE_CHECKING:
    from gdatalog.engine.fixpoint.lattice_worklist import InPlace


# Runs the rounds of a stratum with these inputs, except for the relations that no one asks for.
Run = Callable[[tuple[Stratum, StratumInputs], Collection[str]], Relations | None]

# --------------------------------------------------------------------------------- planning


def plan_recursive(stratum: Stratum, inputs: StratumInputs, counted: bool = False) -> Ready:
    """Plans a recursive stratum. If it is not expected to fit the device, or did not fit before, it
    runs on the CPU; a partitioned one first tries rounds with bitmaps on the device. `counted`: as
    for `plan_stratum`."""
    ready, context = _planned(stratum, inputs, counted), inputs.context
    if context.device is CPU or context.cluster is not None:
        return ready
    own = {*stratum.relations, *ready.stratum.relations, *(r.head.name for r in ready.rules)}

    def on_host() -> Ready:
        here = replace(inputs, context=replace(context, device=CPU))
        with context.limits.account.other_limit(default_limit()):
            found = _planned(stratum, here, counted)
        rewrites = (*found.plan.rewrites, st.OnTheHost(context.device.name))
        return replace(found, plan=replace(found.plan, rewrites=rewrites))

    def finished(name: str) -> Relation | None:
        return None if name in own else ready.inputs.relation(name)

    below = {atom.name for rule in stratum.rules for atom in atoms(rule)}.difference(own)
    rows = tuple(sum(map(count_of, parts)) for parts in inputs.seeds.values())
    room = context.memory, counted, rows, *sorted(context.scope.params.items())

    def smaller(size: int) -> Ready:
        """Records that this plan did not fit, and returns the next one."""
        made_of = {name: inputs.relation(name) for name in below}
        inputs.plans.note((room, size), stratum, made_of)
        return by_size(size + 1)

    def by_size(size: int) -> Ready:
        if size == len(strategies):
            return on_host()
        if inputs.plans.holds((room, size), stratum, inputs.relation):
            return by_size(size + 1)
        plan = replace(ready.plan, strategy=strategies[size])
        return replace(ready, plan=plan, smaller=partial(smaller, size))

    if too_large([plan for _, plan in ready.planned], finished, context):
        return on_host()
    bitmaps = (one for one in ready.plan.strategies[1:] if isinstance(one, st.BitmapRounds))
    strategies = [ready.plan.strategy, *bitmaps]
    return by_size(0)


def _planned(stratum: Stratum, inputs: StratumInputs, counted: bool) -> Ready:
    before: list[tuple[CheckedRule, RulePlan]] = []
    rewrites: tuple[st.Rewrite, ...] = ()
    linear = linear_of(stratum, inputs)
    if linear is not None:
        before = rule_plans(StratumRun(linear.first, inputs))
        stratum, inputs = linear.later, linearised(linear, inputs)
        (name,) = stratum.relations
        rewrites = (st.LinearRule(name, first_of(inputs.schemas[name]).name),)
    splits = PartitionedStratum(stratum, inputs)
    strategy, parts = _strategy(splits, counted)
    planned = rule_plans(StratumRun(*over(parts, stratum, inputs)))
    context = inputs.context
    placed = None if context.cluster is None else context.cluster.placement(stratum, inputs)
    # On this machine: on several devices if it is partitioned, or may become so.
    device, then = context.device, None if strategy.fallback is None else strategy.fallback.to
    shared = splits.shared if st.Partitioned in (type(strategy), type(then)) else None
    later, first = tuple(plan for _, plan in planned), tuple(plan for _, plan in before)
    where = device.members[0], shared, placed
    plan = st.StratumPlan(stratum.relations, True, strategy, later, first, rewrites, *where)
    rules = tuple(rule for rule, _ in (*before, *planned))
    return Ready(plan, stratum, inputs, rules, RUNNERS)


def _strategy(splits: PartitionedStratum, counted: bool) -> tuple[st.Strategy, SplitStratum | None]:
    """The first strategy, and the rules of its rounds if they are split."""
    stratum, inputs, tuning = splits.stratum, splits.inputs, splits.context.tuning
    # Rounds run what compiled loops cannot, and what is too small to compile.
    unsuited: tuple[When, ...] = (Unsuited(),)
    enough: tuple[When, ...] = (TooManyRows(tuning.rounds_most), Bytes(splits.context.memory))
    here = splits.context.device is CPU
    if splits.split is not None:
        columns, schemas = sorted(splits.columns.items()), inputs.schemas
        keys = tuple(st.Key(name, at, schemas[name].columns[at]) for name, at in columns)
        rounds = st.SemiNaive() if here else _on_device(splits, split_stratum(stratum, inputs))
        partitioned = st.Partitioned(keys, counted, st.Fallback(unsuited, rounds))
        first = st.SemiNaive((), st.Fallback(enough, partitioned)) if splits.small else partitioned
        return first, None
    best = _in_place(splits)
    if best is not None:
        in_place = st.InPlaceLattice(st.Fallback(unsuited, st.SemiNaive()))
        return st.SemiNaive((), st.Fallback(enough, in_place)) if best.small else in_place, None
    parts = split_stratum(stratum, inputs)
    projections = () if parts is None else parts.notes
    if not here:
        return _on_device(splits, parts), parts
    one = one_worklist(stratum, inputs)
    if one is None:
        return st.SemiNaive(projections), parts
    worklist = st.Worklist(st.Fallback(unsuited, st.SemiNaive(projections)))
    if one.forced:
        return worklist, parts
    small = SmallRounds(tuning.worklist_rounds, tuning.worklist_round_rows)
    return st.SemiNaive(projections, st.Fallback((small,), worklist)), parts


def _in_place(run: StratumRun) -> InPlace | None:
    """The in-place lattice strategy, if it applies to the stratum."""
    if not any(isinstance(table, LatticeRounds) for table in run.tables.values()):
        return None
    from gdatalog.engine.fixpoint.lattice_worklist import InPlace

    best = InPlace(run.stratum, run.inputs)
    return best if best.refusal is None else None


def _on_device(run: StratumRun, parts: SplitStratum | None) -> st.Strategy:
    """Rounds on the CPU first, and on the device once rules have enough rows for launches; on the
    device with bitmaps, if the rules allow them."""
    projections = () if parts is None else parts.notes
    rounds = st.SemiNaive(projections)
    bitmap = MarkedRounds(*over(parts, run.stratum, run.inputs))
    marked = st.BitmapRounds(projections, st.Fallback((Unsuited(),), rounds))
    large = marked if bitmap.followers else rounds
    knobs, tuning = run.context.knobs, run.context.tuning
    first = (plan for _, plan in rule_plans(StratumRun(*over(parts, run.stratum, run.inputs))))
    cost = sum(join.cost for plan in first for join in plan.joins if join.given is None)
    if knobs.strategy == "auto" and knobs.dedup == "auto" and cost <= tuning.device_from:
        turns = LargeTurns(tuning.device_from, tuning.device_from_turn, run.context.memory)
        return st.SemiNaive(projections, st.Fallback((turns,), large), on_host=True)
    small = large is marked and bitmap.small
    until = st.Fallback((TooManyRows(tuning.rounds_most),), marked)
    return st.SemiNaive(projections, until) if small else large


# ---------------------------------------------------------------------------------- running


def _rounds(strategy: st.SemiNaive, ready: Ready) -> Relations | None:
    until = () if strategy.fallback is None else strategy.fallback.when

    def run(way: tuple[Stratum, StratumInputs], passing: Collection[str]) -> Relations:
        return Rounds(*way).run(passing, until)

    if not strategy.on_host:
        return _projected(strategy, ready, run)
    context = ready.inputs.context
    ready = replace(ready, inputs=replace(ready.inputs, context=replace(context, device=CPU)))
    if context.memory >= default_limit():
        return _projected(strategy, ready, run)
    with context.limits.account.other_limit(default_limit()):  # the other limit is the device's
        return _projected(strategy, ready, run)


def _bitmap_rounds(strategy: st.BitmapRounds, ready: Ready) -> Relations | None:
    return _projected(strategy, ready, lambda way, passing: MarkedRounds(*way).run(passing))


def _projected(
    strategy: st.SemiNaive | st.BitmapRounds, ready: Ready, run: Run
) -> Relations | None:
    """The output of rounds, for rules that dead-variable projection has split."""
    stratum, inputs = ready.stratum, ready.inputs
    parts = split_stratum(stratum, inputs) if strategy.projections else None
    passing = () if parts is None else parts.schemas
    found = run(over(parts, stratum, inputs), passing)
    for name in passing:
        inputs.context.limits.charge(name, 0)
    return found


def _partitioned(strategy: st.Partitioned, ready: Ready) -> Relations | None:
    splits = PartitionedStratum(ready.stratum, ready.inputs)
    splits.split = Partitioning({key.relation: key.column for key in strategy.keys})
    if ready.plan.workers is None:
        splits.shared = ready.plan.shared
    if not strategy.counted:
        return splits.run()
    counts = splits.counts()
    return None if counts is None else counted_relations(splits, counts)


def _improved_in_place(_: st.InPlaceLattice, ready: Ready) -> Relations | None:
    best = _in_place(StratumRun(ready.stratum, ready.inputs))
    return None if best is None else best.run()


def _worklist(_: st.Worklist, ready: Ready) -> Relations | None:
    worklist = one_worklist(ready.stratum, ready.inputs)
    return None if worklist is None or worklist.split is None else worklist.run()


RUNNERS: Runners = {
    st.SemiNaive: _rounds,
    st.BitmapRounds: _bitmap_rounds,
    st.Partitioned: _partitioned,
    st.InPlaceLattice: _improved_in_place,
    st.Worklist: _worklist,
}


def counted_relations(
    splits: PartitionedStratum, counts: Mapping[str, tuple[Array, Array]]
) -> Relations:
    """For each relation, the relation that counts its rows for each value of its key."""
    found = {}
    for name, rows in counts.items():
        schema = counts_of(splits.inputs.schemas[name], splits.columns[name])
        parts = [(rows, len(rows[0]))]
        found[schema.name] = relation_of(schema.columns, schema.types, parts, splits.ops)
    return found


def run_on_workers(ready: Ready, placement: OnWorkers) -> Relations:
    """Evaluates a stratum on a cluster, unless this process finishes it first."""
    cluster = ready.inputs.context.cluster
    assert cluster is not None
    if placement.until:
        found = attempt(partial(run_here, ready), placement.until, ready.inputs.context)
        if not isinstance(found, CONDITIONS):
            return found
    main = ready.plan.main
    counted = isinstance(main, st.Partitioned) and main.counted
    return cluster.fixpoint(ready.stratum, ready.inputs, placement, counted) or run_here(ready)


# Strata evaluated as other strata: split at dead variables, linearised, or as one worklist.


def split_stratum(stratum: Stratum, inputs: StratumInputs) -> SplitStratum | None:
    """The stratum with split rules, cached; None if splitting gains nothing."""
    way = inputs.context.knobs.dead_variables

    def make(relation: Callable[[str], Relation]) -> SplitStratum | None:
        return split_at_dead_variables(
            stratum, inputs.schemas, lambda name: relation(name).statistics, way
        )

    return inputs.plans.parted(stratum, way, inputs.relation, make)


def over(
    parts: SplitStratum | None, stratum: Stratum, inputs: StratumInputs
) -> tuple[Stratum, StratumInputs]:
    """A stratum with split rules, and its inputs."""
    if parts is None:
        return stratum, inputs
    return parts.stratum, replace(inputs, schemas={**inputs.schemas, **parts.schemas})


# A closure by a quadratic rule, evaluated by its linear rule.


def linearised(linear: LinearStratum, inputs: StratumInputs) -> StratumInputs:
    """The inputs of the linear rule. The rows that it starts from are evaluated first."""
    ((name, first),) = StratumRun(linear.first, inputs).once().items()
    schema = first_of(inputs.schemas[name])
    inputs.context.limits.account.rename(name, schema.name)

    def relation(asked: str) -> Relation:
        return first if asked == schema.name else inputs.relation(asked)

    schemas = {**inputs.schemas, schema.name: schema}
    return replace(inputs, schemas=schemas, relation=relation, seeds={})


def linear_of(stratum: Stratum, inputs: StratumInputs) -> LinearStratum | None:
    """The strata that replace a closure, cached together with their plans."""
    never = inputs.context.knobs.split == "never"
    if never or not stratum.recursive or len(stratum.relations) != 1:
        return None
    (name,) = stratum.relations
    schema = inputs.schemas[name]
    return inputs.plans.rewritten("linear", stratum.rules, lambda: made_linear(stratum, schema))


# Linear recursion of many small rounds as one worklist (`planner/rewrite/linear_recursion.py`).


class OneWorklist(PartitionedStratum):
    """A stratum whose rows have an additional key column with a single value."""

    def _relation(self, name: str, blocks: DistinctBlocks) -> Relation:
        schema = self.inputs.schemas[name]
        rows = [block[1:] for block in blocks.blocks]
        columns, types = schema.columns[1:], schema.types[1:]
        relation = Relation.of_blocks(columns, types, rows, blocks.count, True)
        self.context.limits.charge(name, relation.nbytes)
        return relation

    @property
    def description(self) -> str:
        return "one worklist, for the rounds are many and small"


def one_worklist(stratum: Stratum, inputs: StratumInputs) -> OneWorklist | None:
    """The same fixpoint as one worklist; None if that is impossible, or rows are only counted."""
    context = inputs.context
    forbidden = context.knobs.split == "never" or context.knobs.strategy == "levelwise"
    if forbidden or context.device is not CPU or context.cluster is not None:
        return None
    counted = {*context.limit_sizes, *(context.limits.most_rows or ())[:1]}
    if counted & {*stratum.relations}:
        return None
    keyed = with_key(stratum, inputs.schemas)
    if keyed is None:
        return None
    rows = {name: [_zeroed(part) for part in parts] for name, parts in inputs.seeds.items()}
    stratum, schemas = keyed[0], {**inputs.schemas, **keyed[1]}
    return OneWorklist(stratum, replace(inputs, schemas=schemas, seeds=rows))


def _zeroed(part: Derived) -> Derived:
    """Rows with a first column of zeros."""
    blocks = blocks_of(part)
    zeros = [np.zeros(len(block[0]), dtype=np.int32) for block in blocks]
    pairs = zip(zeros, blocks, strict=True)
    return DistinctBlocks([(first, *block) for first, block in pairs], count_of(part))
