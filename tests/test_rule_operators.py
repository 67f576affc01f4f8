"""Operators of rules: how they are composed, and what happens when one of them cannot run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from gdatalog.calls import NotOnDevice
from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.context import ExecutionContext, RuleInputs, Sources
from gdatalog.engine.derived import Derived
from gdatalog.engine.device import CPU
from gdatalog.engine.metrics import RuleRun
from gdatalog.engine.rules.evaluate import RuleOnHost, operator_of
from gdatalog.engine.rules.fallback import RuleFallback
from gdatalog.engine.rules.in_cells import RuleInCells
from gdatalog.engine.rules.operator import Outcome, Refusal
from gdatalog.engine.rules.over_tables import OverTables
from gdatalog.engine.rules.rows import RuleRows
from gdatalog.engine.rules.signed_sum import SignedSum
from gdatalog.limits import Limits
from gdatalog.plan.conditions import NoRoom, Unsuited
from gdatalog.plan.join_plan import Gather, RulePlan, Slot, Term
from gdatalog.storage.symbols import SymbolTable

ROWS: Derived = (), 1
PLAN = RulePlan("p", (), ())
COUNT = Gather("count", (), "n", "int")
SUM = replace(PLAN, gathers=(COUNT,), terms=(Term("", 1),), otherwise=PLAN)


@dataclass(frozen=True)
class Toy:
    """Charges memory, and returns or raises what it was given."""

    result: Any
    inputs: list[RuleInputs]

    def run(self, inputs: RuleInputs) -> Outcome:
        self.inputs.append(inputs)
        inputs.limits.charge("toy", 100)
        if isinstance(self.result, Exception):
            raise self.result
        found: Outcome = self.result
        return found


def toy(result: Any = ROWS) -> Toy:
    return Toy(result, [])


def inputs_on(device: Any = CPU, **more: Any) -> RuleInputs:
    context = ExecutionContext(Limits(), Scope(SymbolTable(), {}), device=device)
    return RuleInputs(Sources(lambda ref: None), context, **more)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("when", "met"),
    [
        (NoRoom, MemoryError("full")),
        (Refusal, NotOnDevice("too wide")),
        (Refusal, Refusal("too wide")),
        (Unsuited, Unsuited()),
    ],
)
def test_the_other_operator_runs_if_the_condition_is_met(when: Any, met: Any) -> None:
    marks: Any = {0: "a bitmap of the device"}
    first, then = toy(met), toy()
    inputs = inputs_on(report=RuleRun(PLAN), lasting=marks)
    inputs.limits.charge("before", 7)
    assert RuleFallback(first, when, then).run(inputs) == ROWS
    assert inputs.limits.account.held == {"before": 7, "toy": 100}
    assert len(first.inputs) == 1
    # The device's marks are neither kept for the next round nor mixed with those of the CPU.
    assert not marks and then.inputs[0].lasting == {} and then.inputs[0].lasting is not marks
    assert inputs.report is not None
    assert inputs.report.left == ("too wide" if when is Refusal else None)


@pytest.mark.parametrize(
    ("when", "met"), [(NoRoom, Refusal("no")), (NoRoom, Unsuited()), (Unsuited, NoRoom())]
)
def test_other_conditions_are_returned(when: Any, met: Any) -> None:
    marks: Any = {0: "marks"}
    then = toy()
    assert RuleFallback(toy(met), when, then).run(inputs_on(lasting=marks)) == met
    assert not then.inputs and marks


@pytest.mark.parametrize(
    ("when", "error"),
    [(Unsuited, MemoryError()), (Refusal, MemoryError()), (NoRoom, NotOnDevice("no"))],
)
def test_other_errors_are_raised(when: Any, error: Exception) -> None:
    with pytest.raises(type(error)):
        RuleFallback(toy(error), when, toy()).run(inputs_on())


@pytest.mark.parametrize(("reason", "told"), [("it reads texts", "it reads texts"), ("", "late")])
def test_the_host_reads_its_own_sources(reason: str, told: str) -> None:
    then, report, host = toy(), RuleRun(PLAN, left="late"), inputs_on().sources
    given = inputs_on(SimpleNamespace(ops=None), report=report, on_host=host)
    assert RuleOnHost(then, reason).run(given) == ROWS
    (inputs,) = then.inputs
    assert inputs.context.device is CPU and inputs.sources is host and report.left == told


def test_how_operators_are_composed() -> None:
    """On the CPU, a rule is run over whole indexes; on a device it may run in cells, or leave."""
    rows, sums = RuleRows(PLAN), RuleFallback(SignedSum(SUM), Unsuited, RuleRows(PLAN, False))
    tables = replace(PLAN, head=(Slot("n", "int"),), within=(SUM,), otherwise=PLAN)
    device = SimpleNamespace(refuses=lambda plan: None, ops=None)
    there, resident = inputs_on(device), inputs_on().sources
    fits = replace(there, resident=resident)
    large = replace(fits, in_cells=True)
    cells = RuleInCells(PLAN)
    assert operator_of(PLAN, inputs_on()) == rows
    assert operator_of(SUM, inputs_on()) == sums
    assert operator_of(tables, inputs_on()) == RuleFallback(
        OverTables(tables), Unsuited, RuleRows(PLAN, False)
    )
    assert operator_of(PLAN, there) == RuleFallback(rows, Refusal, RuleOnHost(rows))
    assert operator_of(SUM, fits) == RuleFallback(
        RuleFallback(sums, NoRoom, cells), Refusal, RuleOnHost(sums)
    )
    assert operator_of(SUM, large) == RuleFallback(cells, Refusal, RuleOnHost(rows))
    refusing = inputs_on(SimpleNamespace(refuses=lambda plan: "it reads texts", ops=None))
    assert operator_of(SUM, refusing) == RuleOnHost(sums, "it reads texts")
