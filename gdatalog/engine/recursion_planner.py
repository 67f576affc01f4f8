"""Plans recursive strata: which operator runs, what is tried first, and what takes over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gdatalog.account import default_limit
from gdatalog.engine.context import Operator, StratumInputs
from gdatalog.engine.derived import count_of
from gdatalog.engine.device import CPU
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.host_tries import too_large
from gdatalog.engine.operators import bitmap_rounds, linear, partitioned, worklist
from gdatalog.engine.operators.again import Again
from gdatalog.engine.operators.counted import Counted
from gdatalog.engine.operators.fallback import WithFallback
from gdatalog.engine.operators.host import OnHost
from gdatalog.engine.operators.linear import Linear, linearised
from gdatalog.engine.operators.once import Once
from gdatalog.engine.operators.partitioned import Partitioned
from gdatalog.engine.operators.semi_naive import SemiNaive
from gdatalog.engine.operators.when_compiled import when_compiled
from gdatalog.engine.operators.workers import OnWorkers
from gdatalog.engine.stratum_plan import StratumPlan
from gdatalog.plan.conditions import LargeTurns, NoRoom, TooManyRows, Unsuited
from gdatalog.planner.check import Schema, Stratum
from gdatalog.planner.rewrite.dead_variables import SplitStratum, split_at_dead_variables
from gdatalog.planner.rewrite.linear_closures import first_of
from gdatalog.records import replace
from gdatalog.storage.relation import Relation


def compiled(draft: StratumDraft) -> Iterator[Any]:
    """Compiled fixpoints without rounds, each the module of an operator. The first one that applies
    is composed with rounds."""
    yield partitioned
    if draft.optima:
        from gdatalog.engine.operators import lattice  # imports the printer

        yield lattice
    yield worklist


def plan_recursion(
    stratum: Stratum, inputs: StratumInputs, counted: bool, on_host: bool
) -> Operator:
    """The operator that evaluates a recursive stratum. What does not fit the device, or did not fit
    before, runs in another way there, or on the CPU (`on_host`)."""
    context = inputs.context
    if on_host:
        here = replace(inputs, context=replace(context, device=CPU))
        with context.limits.account.other_limit(default_limit()):
            draft, start = _started(stratum, here)
            first = _after(start, _choices(draft, counted))[0]
        return OnHost(first, f"its relations do not fit {context.device.name}")
    draft, start = _started(stratum, inputs)
    ways = _after(start, _choices(draft, counted))
    if context.device is CPU or context.cluster is not None:
        return ways[0]
    if _exceeds(StratumPlan(stratum, ways[0]), draft.inputs):
        return plan_recursion(stratum, inputs, counted, True)
    rows = tuple(sum(map(count_of, parts)) for parts in inputs.seeds.values())
    found: Operator = Again(stratum, "device")
    for number, way in reversed([*enumerate(ways)]):
        no_room = NoRoom((number, context.memory, counted, rows))
        if not draft.met((no_room,)):
            found = WithFallback(way, (no_room,), found)
    return plan_recursion(stratum, inputs, counted, True) if isinstance(found, Again) else found


def _exceeds(plan: StratumPlan, inputs: StratumInputs) -> bool:
    """Whether the indexes that rules read are expected to exceed the device's room."""
    own = {*plan.relations, *(rule.head.name for rule, _ in plan.rules)}

    def finished(name: str) -> Relation | None:
        return None if name in own else inputs.relation(name)

    return too_large([rule_plan for _, rule_plan in plan.rules], finished, inputs.context)


# What evaluates the rows that a linear rule starts from, and their schema.
Start = tuple[Once, Schema]


def _started(stratum: Stratum, inputs: StratumInputs) -> tuple[StratumDraft, Start | None]:
    """The recursion to plan: of the stratum's rules, or of a linear rule after its start."""
    linear_rules = linear.applies(stratum, inputs)
    if linear_rules is None:
        return StratumDraft(stratum, inputs), None
    first, made = linear_rules
    (name,) = stratum.relations
    schema = first_of(inputs.schemas[name])
    later = linearised(first, schema, inputs)
    return StratumDraft(made.later, later, of=stratum), (first, schema)


def _after(start: Start | None, choices: Sequence[Operator]) -> Sequence[Operator]:
    return choices if start is None else [Linear(*start, then) for then in choices]


def _choices(draft: StratumDraft, counted: bool) -> Sequence[Operator]:
    """The first choice, and what needs less memory of the device."""
    cluster, here = draft.context.cluster, draft.context.device is CPU
    way: Any = None
    found: Any = None
    for each in compiled(draft):
        found = each.applies(draft)
        if found is not None:
            way = each
            break
    whole = here and way not in (None, worklist)  # such strata gain little from split rules
    first, bitmaps = (SemiNaive(draft.planned), ()) if whole else _rounds(draft)
    if way is not None:
        if counted and isinstance(found, Partitioned):
            first = way.over(Counted(found), draft, first)
        else:
            first = way.over(found, draft, first)
    if cluster is not None:
        fixpoint = found if isinstance(found, Partitioned) else None
        placement = cluster.placement(draft, fixpoint)
        if placement is not None:
            first = OnWorkers(first, placement, fixpoint, split_rounds(draft), counted)
    return [first, *(way for way in bitmaps if way is not first)]


def split_rounds(draft: StratumDraft) -> SemiNaive:
    """Rounds, of rules that are split to project variables away early if that pays."""
    parts = split_stratum(draft)
    if parts is None:
        return SemiNaive(draft.planned)
    return SemiNaive(StratumDraft(parts.stratum, draft.inputs, parts.schemas).planned, parts.notes)


def split_stratum(draft: StratumDraft) -> SplitStratum | None:
    """The stratum with split rules, cached; None if splitting gains nothing."""
    stratum, inputs, settings = draft.stratum, draft.inputs, draft.context.settings

    def make(relation: Callable[[str], Relation]) -> SplitStratum | None:
        return split_at_dead_variables(
            stratum, inputs.schemas, lambda name: relation(name).statistics,
            settings.dead_variables, settings.thresholds,
        )  # fmt: skip

    return inputs.plans.parted(stratum, settings.dead_variables, inputs.relation, make)


def _rounds(draft: StratumDraft) -> tuple[Operator, Sequence[Operator]]:
    """Rounds. With a device they begin on the CPU, and run on the device once rules have enough
    rows for launches, with bitmaps if the rules allow them; these need less memory."""
    context, rounds = draft.context, split_rounds(draft)
    if context.device is CPU:
        return rounds, ()
    marked = bitmap_rounds.applies(rounds, draft.inputs)
    bitmaps = [] if marked is None else [WithFallback(marked, (Unsuited(),), rounds)]
    large = bitmaps[0] if bitmaps else rounds
    settings, thresholds = context.settings, context.thresholds
    joins = (join for _, plan in rounds.rules for join in plan.joins)
    cost = sum(join.cost for join in joins if join.given is None)
    if settings.strategy == "auto" and settings.dedup == "auto" and cost <= thresholds.device_from:
        turns = LargeTurns(thresholds.device_from, thresholds.device_from_turn, context.memory)
        small = WithFallback(OnHost(rounds), (turns,), large)
        if marked is not None:
            compiled = when_compiled(marked, small)
            if cost >= thresholds.compiled_rounds_from:
                return compiled, bitmaps
            soon = LargeTurns(turns.least, 0, context.memory)  # a round of kernels costs little
            small = WithFallback(OnHost(rounds), (soon,), compiled)
        return small, bitmaps
    if bitmaps and bitmap_rounds.starts_small(draft):
        until = (TooManyRows(thresholds.rounds_most),)
        return WithFallback(rounds, until, large), bitmaps
    return large, bitmaps
