"""Plans strata, by rules, statistics, settings and the device; runs no rule of theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from gdatalog.engine.context import Operator, StratumInputs
from gdatalog.engine.device import CPU
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.operators import Relations, codes, copy, ordered
from gdatalog.engine.operators.again import Again
from gdatalog.engine.operators.codes import OnCodes
from gdatalog.engine.operators.fallback import WithFallback
from gdatalog.engine.operators.host import NUMBERS, OnHost
from gdatalog.engine.operators.once import Once
from gdatalog.engine.operators.placed import Placed
from gdatalog.engine.stratum_plan import StratumPlan
from gdatalog.engine.stratum_run import placed
from gdatalog.parser.syntax import HeadAggregate
from gdatalog.plan.conditions import CONDITIONS, Unsuited
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.new_values import makers_of_values
from gdatalog.records import dataclass
from gdatalog.storage.spill import Spill


def plan_stratum(
    stratum: Stratum,
    inputs: StratumInputs,
    counted: bool = False,
    excluded: str = "",
    chosen: bool = False,
) -> StratumPlan:
    """Plans a stratum.

    `counted`: if it is partitioned, only the number of rows of each value is needed. `excluded`:
    the kind of operator that did not suit. `chosen`: it shall run on the device of the inputs.
    """
    device, name = inputs.context.device, inputs.context.device.name
    root = None if chosen else _copied(stratum, inputs, excluded)
    if root is None and not chosen and inputs.context.later is not None:
        from gdatalog.engine import placing

        def plan(inputs: StratumInputs) -> Operator:
            return plan_stratum(stratum, inputs, counted, excluded, chosen=True).root

        root = placing.placed(stratum, inputs, plan)
    if root is None:
        encoded, of = None, stratum
        aggregated = HeadAggregate in map(type, stratum.rules[0].head.args)
        own = ordered.applies(stratum) if aggregated else None
        if inputs.limit is None and excluded != "codes" and own is None:
            encoded = codes.encoding(stratum, inputs)
            if encoded is not None:
                of, inputs = encoded.stratum, encoded.inputs
        if own is not None:
            root = own if inputs.context.device is CPU else OnHost(own, ordered.REASON)
        elif not of.recursive:
            root = once = Once(StratumDraft(of, inputs).planned)
            if inputs.context.device is not CPU and _reads_numbers(once):
                root = OnHost(once, NUMBERS)
        else:
            from gdatalog.engine.recursion_planner import plan_recursion

            root = plan_recursion(of, inputs, counted, on_host=excluded == "device")
        if encoded is not None:
            root = OnCodes(stratum, encoded.names(), root)
    if isinstance(root, Placed):
        name = root.device
    elif stratum.recursive:
        name = device.members[0]
    return StratumPlan(stratum, root, name)


def _copied(stratum: Stratum, inputs: StratumInputs, excluded: str) -> Operator | None:
    """The operator of a stratum that renames another relation."""
    if inputs.limit is not None or excluded == "copy" or any(inputs.seeds.values()):
        return None
    copied = copy.applies(stratum)
    if copied is None or copied.whole:
        return copied
    return WithFallback(copied, (Unsuited(),), Again(stratum, "copy"))


def _reads_numbers(once: Once) -> bool:
    """Whether rules read no rows, but only how many rows relations have."""
    plans = [plan for _, plan in once.rules]
    joins = [join for plan in plans for join in plan.joins]
    simple = not any(plan.terms or plan.within for plan in plans)
    return bool(joins) and simple and not any(ref.columns for j in joins for ref in j.tries)


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """What runs of a plan share. `makers`: the rules that make new values."""

    root: Any
    makers: Sequence[CheckedRule]


def run(
    plan: StratumPlan, inputs: StratumInputs, ready: list[PreparedPlan] | None = None
) -> Relations:
    """Runs a plan with the inputs that it was made for; returns its relations, or their sizes if it
    only counts. `ready`: of a plan that is kept, what was prepared and is not in use."""
    try:
        prepared = (ready or []).pop()
    except IndexError:  # none is left, or another thread took the last one
        prepared = _prepared(plan, inputs)
    try:
        with _temporary_files(prepared.makers, inputs.context.limits.spill):
            found = plan.root.run(prepared.root, inputs)
    finally:
        for condition in inputs.met:
            stratum = plan.stratum
            read = {atom.name for rule in stratum.rules for atom in rule.atoms}
            below = {name: inputs.relation(name) for name in read.difference(stratum.relations)}
            params = tuple(sorted(inputs.context.scope.params.items()))
            inputs.plans.note((condition, params), stratum, below)
    if not isinstance(plan.root, Placed):
        inputs.context.metrics.devices.append(inputs.context.device.name)
    assert not isinstance(found, CONDITIONS), "no condition was asked for"
    if ready is not None:
        ready.append(prepared)
    return found


def _prepared(plan: StratumPlan, inputs: StratumInputs) -> PreparedPlan:
    return PreparedPlan(plan.root.prepare(inputs.context), makers_of_values(plan.stratum))


def _temporary_files(
    makers: Sequence[CheckedRule], spill: Spill | None
) -> AbstractContextManager[object]:
    """Within this context, temporary files are limited further if rules make new values."""
    return nullcontext() if spill is None or not makers else _growing(makers[0], spill)


@contextmanager
def _growing(maker: CheckedRule, spill: Spill) -> Iterator[None]:
    with spill.growing(), placed(maker):
        yield
