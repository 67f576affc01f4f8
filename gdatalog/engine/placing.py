"""Decides, under `device="auto"`, what runs on the GPU: what pays there.

A rule pays whose compiled loops are expected to look at many rows, or which reads many bytes that
lie on the GPU only. A recursive stratum pays if it is partitioned and reads many rows, or for such
bytes. The CPU runs all else, because it takes longer to open a GPU, to compile and launch kernels,
and to copy rows. The choice is part of the plan. Nothing is opened before the first work pays.
"""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.engine.choose import looked_at, planned_choice
from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.device import CPU
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.operators.host import OnHost
from gdatalog.engine.operators.once import Once
from gdatalog.engine.operators.placed import Placed, bytes_there, there
from gdatalog.engine.stratum_plan import StratumPlan, by_parts
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.progress import format_bytes
from gdatalog.records import replace


def placed(
    stratum: Stratum, inputs: StratumInputs, plan: Callable[[StratumInputs], Operator]
) -> Operator:
    """The plan of a stratum for the GPU if it pays there, otherwise for the CPU. `plan` plans it
    for the device of some inputs."""
    context, later = inputs.context, inputs.context.later
    assert later is not None
    lying = {} if later.device is None else _lying(stratum, inputs)
    if lying and later.open() is not None:
        why = f"{format_bytes(max(lying.values()))} of what it reads lie there"
    else:
        here = there(inputs, "cpu")
        on_cpu = StratumPlan(stratum, plan(here))
        expected = _visits(on_cpu, stratum, here) if stratum.recursive else _most(on_cpu, context)
        if expected < context.thresholds.gpu_from or inputs.limit is not None:
            return Placed(on_cpu.root, "cpu", _why_small(on_cpu, expected, context))
        if later.open() is None:
            return Placed(on_cpu.root, "cpu", later.why_not)
        why = looked_at(expected)
    gpu = later.device
    assert gpu is not None
    found = plan(there(inputs, gpu.name))
    if isinstance(found, OnHost):
        return Placed(found.then, "cpu", found.reason)
    if isinstance(found, Once) and len(stratum.rules) > 1:
        draft = StratumDraft(stratum, there(inputs, "cpu"))
        pairs = zip(stratum.rules, found.of.plans, strict=True)
        plans = tuple((_left(rule, own, draft, lying), later) for rule, (own, later) in pairs)
        found = Once(replace(found.of, plans=plans))
    return Placed(found, gpu.name, why)


def _left(
    rule: CheckedRule, plan: RulePlan, draft: StratumDraft, lying: dict[int, int]
) -> RulePlan:
    """The plan of one of several rules: the one for the CPU if it does not pay."""
    context, here = draft.context, draft.plan(rule, first=True)
    if id(rule) in lying or _loops(here, context) >= context.thresholds.gpu_from:
        return plan
    return replace(here, left=looked_at(_cost(here)))


def _most(plan: StratumPlan, context: ExecutionContext) -> float:
    """The rows that the largest rule's compiled loops expect to look at."""
    return max((_loops(rule_plan, context) for _, rule_plan in plan.rules), default=0.0)


def _loops(plan: RulePlan, context: ExecutionContext) -> float:
    """The rows that a rule's compiled loops expect to look at on the CPU."""
    settings, found = context.settings, 0.0
    for number, join in enumerate(plan.joins):
        if not planned_choice(plan, number, settings, CPU.members).breadth_first:
            found += join.cost
    return found + sum(_loops(counts, context) for counts in plan.within)


def _cost(plan: RulePlan) -> float:
    return sum(join.cost for join in plan.joins) + sum(map(_cost, plan.within))


def _visits(plan: StratumPlan, stratum: Stratum, inputs: StratumInputs) -> float:
    """The rows that a partitioned fixpoint expects to look at; 0 for other recursion."""
    from gdatalog.engine.operators.partitioned import Partitioned
    from gdatalog.engine.operators.partitioned_run import OFTEN

    if by_parts(plan.main) != Partitioned.by_parts:
        return 0.0
    return OFTEN * StratumDraft(stratum, inputs).read_rows


def _why_small(plan: StratumPlan, expected: float, context: ExecutionContext) -> str:
    """Why the CPU runs a stratum."""
    if plan.recursive and not expected:
        return "its recursion is not partitioned by a value"
    if expected >= context.thresholds.gpu_from:
        return "not all rows are wanted"
    if plan.recursive:
        return looked_at(expected)
    cost = sum(_cost(rule_plan) for _, rule_plan in plan.rules)
    breadth_first = cost >= context.thresholds.gpu_from and not expected
    return "its joins run breadth-first" if breadth_first else looked_at(cost)


def _lying(stratum: Stratum, inputs: StratumInputs) -> dict[int, int]:
    """By the ids of rules, the bytes to copy from the GPU that make them pay there: many, and more
    than would be copied to it. A recursive stratum's rules pay together."""
    own = {*stratum.relations}
    seeds = sum(bytes_there(part) for parts in inputs.seeds.values() for part in parts)
    together = stratum.recursive or seeds >= inputs.context.thresholds.gpu_bytes
    groups = [stratum.rules] if together else [(rule,) for rule in stratum.rules]
    found = {}
    for rules in groups:
        names = {atom.name for rule in rules for atom in rule.atoms} - own
        read = [held for held in map(inputs.relation, sorted(names)) if held.types]
        there = seeds + sum(held.nbytes for held in read if not held.store.on_host)
        if there >= inputs.context.thresholds.gpu_bytes:
            here = sum(held.nbytes for held in read if held.store.on_device is None)
            if there > here:
                found.update(dict.fromkeys(map(id, rules), there))
    return found
