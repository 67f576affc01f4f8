"""Decides, under `device="auto"`, what runs on the GPU: what pays there.

A rule pays whose compiled loops are expected to look at many rows, or which reads many bytes that
lie on the GPU only. A recursive stratum pays if it is partitioned and reads many rows, or for such
bytes. The CPU runs all else, because it takes longer to open a GPU, to compile and launch kernels,
and to copy rows. The choice is part of the plan. Nothing is opened before the first work pays.
"""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.engine.choose import looked_at, planned_choice
from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.derived import Derived, DistinctBlocks, blocks_of, far_rows
from gdatalog.engine.device import CPU
from gdatalog.engine.fixpoint import StratumRun, atoms
from gdatalog.engine.fixpoint.ready import Ready
from gdatalog.plan import RulePlan
from gdatalog.plan.stratum import OnTheHost, Partitioned
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.progress import format_bytes
from gdatalog.records import replace
from gdatalog.storage.on_device import brought, is_on_host


def placed(
    stratum: Stratum, inputs: StratumInputs, plan: Callable[[StratumInputs], Ready], whole: bool
) -> Ready:
    """The plan of a stratum for the GPU if it pays there, otherwise for the CPU.

    `plan` plans it for the device of some inputs. `whole`: all of its rows are wanted.
    """
    context, later = inputs.context, inputs.context.later
    assert later is not None
    lying = {} if later.device is None else _lying(stratum, inputs)
    if lying:
        why = f"{format_bytes(max(lying.values()))} of what it reads lie there"
    else:
        on_cpu = plan(_for_cpu(inputs))
        expected = _visits(on_cpu) if stratum.recursive else _most(on_cpu)
        if expected < context.tuning.gpu_from or not whole:
            return _chosen(on_cpu, _why_small(on_cpu, expected))
        if later.open() is None:
            return _chosen(on_cpu, later.why)
        why = looked_at(expected)
    gpu = later.device
    assert gpu is not None
    there = plan(replace(inputs, context=replace(context, device=gpu)))
    if not stratum.recursive and len(there.rules) > 1:
        on_cpu = plan(_for_cpu(inputs, codes=False))
        own = {id(rule): plan for rule, plan in on_cpu.planned}
        plans = [_left(rule, plan, own, lying, context) for rule, plan in there.planned]
        there = replace(there, plan=replace(there.plan, rules=tuple(plans)))
    return _chosen(there, why)


def _chosen(ready: Ready, why: str) -> Ready:
    """The plan with the reason for its device, unless it has a reason already."""
    if any(isinstance(rewrite, OnTheHost) for rewrite in ready.plan.rewrites):
        return ready
    return replace(ready, plan=replace(ready.plan, why=why))


def _left(
    rule: CheckedRule,
    plan: RulePlan,
    own: dict[int, RulePlan],
    lying: dict[int, int],
    context: ExecutionContext,
) -> RulePlan:
    """The plan of one of several rules: the one for the CPU (`own`) if it does not pay."""
    here = own.get(id(rule), plan)
    if id(rule) in lying or _loops(here, context) >= context.tuning.gpu_from:
        return plan
    return replace(here, left=looked_at(_cost(here)))


# ------------------------------------------------------------------------------ expected work


def _most(ready: Ready) -> float:
    """The rows that the largest rule's compiled loops expect to look at."""
    return max((_loops(plan, ready.inputs.context) for plan in ready.plan.rules), default=0.0)


def _loops(plan: RulePlan, context: ExecutionContext) -> float:
    """The rows that a rule's compiled loops expect to look at on the CPU."""
    knobs, tuning, found = context.knobs, context.tuning, 0.0
    for number, join in enumerate(plan.joins):
        if not planned_choice(plan, number, knobs, tuning, CPU.members).breadth_first:
            found += join.cost
    return found + sum(_loops(counts, context) for counts in plan.within)


def _cost(plan: RulePlan) -> float:
    return sum(join.cost for join in plan.joins) + sum(map(_cost, plan.within))


def _visits(ready: Ready) -> float:
    """The rows that a partitioned fixpoint expects to look at; 0 for other recursion."""
    from gdatalog.engine.fixpoint.partitioned import OFTEN

    if not isinstance(ready.plan.main, Partitioned):
        return 0.0
    return OFTEN * StratumRun(ready.stratum, ready.inputs).read_rows


def _why_small(ready: Ready, expected: float) -> str:
    """Why the CPU runs a stratum."""
    if ready.stratum.recursive and not expected:
        return "its recursion is not partitioned by a value"
    if expected >= ready.inputs.context.tuning.gpu_from:
        return "not all rows are wanted"
    if ready.stratum.recursive:
        return looked_at(expected)
    cost = sum(map(_cost, ready.plan.rules))
    breadth_first = cost >= ready.inputs.context.tuning.gpu_from and not expected
    return "its joins run breadth-first" if breadth_first else looked_at(cost)


# ------------------------------------------------------------------------- where the rows lie


def _lying(stratum: Stratum, inputs: StratumInputs) -> dict[int, int]:
    """By the ids of rules, the bytes to copy from the GPU that make them pay there: many, and more
    than would be copied to it. A recursive stratum's rules pay together."""
    own = {*stratum.relations}
    seeds = sum(_bytes_there(part) for parts in inputs.seeds.values() for part in parts)
    together = stratum.recursive or seeds >= inputs.context.tuning.gpu_bytes
    groups = [stratum.rules] if together else [(rule,) for rule in stratum.rules]
    found = {}
    for rules in groups:
        names = {atom.name for rule in rules for atom in atoms(rule)} - own
        read = [held for held in map(inputs.relation, sorted(names)) if held.types]
        there = seeds + sum(held.nbytes for held in read if not held.store.on_host)
        if there >= inputs.context.tuning.gpu_bytes:
            here = sum(held.nbytes for held in read if held.store.on_device is None)
            if there > here:
                found.update(dict.fromkeys(map(id, rules), there))
    return found


def _bytes_there(part: Derived) -> int:
    if far_rows(part) is not None:
        return 0
    return sum(int(c.nbytes) for block in blocks_of(part) for c in block if not is_on_host(c))


def _for_cpu(inputs: StratumInputs, codes: bool = True) -> StratumInputs:
    """The inputs, with the rows that a stratum begins with on the host. Without `codes`, rules are
    planned as they are."""
    seeds = {name: tuple(map(_on_host, parts)) for name, parts in inputs.seeds.items()}
    context = inputs.context
    if not codes:
        context = replace(context, knobs=replace(context.knobs, encode="never"))
    return replace(inputs, context=context, seeds=seeds)


def _on_host(part: Derived) -> Derived:
    if not _bytes_there(part):
        return part
    blocks = [tuple(map(brought, block)) for block in blocks_of(part)]
    if isinstance(part, DistinctBlocks):
        return DistinctBlocks(blocks, part.count)
    return blocks[0], part[1]
