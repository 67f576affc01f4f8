"""What a program will do: its strata and the plans of its rules, to print or to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from gdatalog.engine.demand import part_of, rewritten_for
from gdatalog.engine.evaluation import Evaluation
from gdatalog.engine.fixpoint import plan_stratum
from gdatalog.engine.session import Session
from gdatalog.parser import format_node
from gdatalog.plan.effects import all_steps, expressions
from gdatalog.plan.format import format_rule
from gdatalog.plan.nodes import Join, RulePlan, Step
from gdatalog.planner.checked import CheckedRule, Stratum
from gdatalog.printer.expressions import printable


@dataclass(frozen=True, slots=True)
class PlannedRule:
    """A rule of the program with its plan; several plans of a recursive rule: first and delta.

    `left`: why the CPU runs it, where the device is another.
    """

    rule: CheckedRule
    plan: RulePlan
    left: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedStratum:
    """`told`: how its rules became those that are planned."""

    stratum: Stratum
    rules: tuple[PlannedRule, ...]
    told: tuple[str, ...] = ()


class Explanation:
    """How a program will be evaluated: its strata, and a plan for each rule.

    Beside each variable stands how many bindings are expected once it is bound.

    >>> import gdatalog as gd
    >>> db = gd.connect()
    >>> db["E"] = [(1, 2), (2, 3), (3, 1)]
    >>> print(db.explain("p(x, z) <- E(x, y), E(y, z)."))
    stratum 1: p
      p(x, z) <- E(x, y), E(y, z).
        y in E[1,0]([y], x) and E([y], z)   -- ~3 bindings
          x in E[1,0](y, [x])   -- ~3 bindings
            z in E(y, [z])   -- ~3 bindings
        give p(x, z)
    """

    def __init__(
        self,
        strata: list[PlannedStratum],
        device: str = "cpu",
        why: str = "",
        asked: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> None:
        self.strata = strata
        self.device = device
        self.why = why
        self.asked = asked  # values of which parts of relations are evaluated
        self.notes = notes  # why demand was not used where it might have been

    def __str__(self) -> str:
        lines = [] if self.device == "cpu" else [f"on {self.device} ({self.why})"]
        if self.asked:
            lines.append(f"asked for: {', '.join(self.asked)}")
        for number, planned in enumerate(self.strata, 1):
            names = ", ".join(planned.stratum.relations)
            kind = " (recursive)" if planned.stratum.recursive else ""
            lines.append(f"stratum {number}: {names}{kind}")
            lines += ["  " + line for line in planned.told]
            for rule in planned.rules:
                lines.append("  " + rule_text(rule.rule))
                lines += ["    " + line for line in _plan_lines(rule.plan)]
                if rule.left is not None:
                    lines.append(f"    run on the CPU: {rule.left}")
                reasons = [reason for reason in _unprintable(rule.plan) if reason != rule.left]
                lines += [f"    run breadth-first: {reason}" for reason in reasons]
        if not self.strata:
            return "nothing to evaluate: only stored relations are read"
        lines += self.notes
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """The same, as plain data."""
        return {
            "device": self.device,
            "asked": list(self.asked),
            "notes": list(self.notes),
            "strata": [
                {
                    "relations": list(planned.stratum.relations),
                    "recursive": planned.stratum.recursive,
                    "split": list(planned.told),
                    "rules": [
                        {
                            "rule": rule_text(rule.rule),
                            "device": self.device if rule.left is None else "cpu",
                            "plan": _plan_lines(rule.plan),
                        }
                        for rule in planned.rules
                    ],
                }
                for planned in self.strata
            ],
        }


def _plan_lines(plan: RulePlan) -> list[str]:
    return format_rule(plan, expected).splitlines()


def expected(step: Step) -> str:
    """How many bindings are expected after a step, in words; the first two digits matter."""
    if not isinstance(step, Join):
        return ""
    many = float(f"{step.estimate:.2g}")
    shown = f"{many:.2g}" if many < 10 or many >= 1e12 else f"{many:,.0f}"
    return f"~{shown} binding" + ("" if many == 1 else "s")


def explain(session: Session, names: Sequence[str], why: str = "asked for") -> Explanation:
    """How the relations of these names would be evaluated; `why` on this device."""
    whole = session.whole_asks()
    device = session.settings.device
    parts: list[tuple[Evaluation, list[str]]] = [(session.evaluation, [])]
    notes: dict[str, None] = {}
    for name in names:
        part = part_of(session.evaluation, name, whole)
        rewritten = rewritten_for(session.evaluation, name, whole)
        notes.update(dict.fromkeys(rewritten.demand.notes))
        if rewritten.covered:
            notes[rewritten.covered] = None
        if part is None:
            parts[0][1].append(name)
        else:
            parts.append((part, [name]))
    strata = []
    for evaluation, wanted in parts:
        around = evaluation.surroundings()
        for stratum in evaluation.strata_of(wanted):
            plans, told = plan_stratum(stratum, around)
            rules = tuple(PlannedRule(rule, plan, device.refuses(plan)) for rule, plan in plans)
            strata.append(PlannedStratum(stratum, rules, told))
    asked = [
        format_node(fact)
        for part, _ in parts[1:]
        for name, facts in part.checked.facts.items()
        if name.endswith("?")
        for fact in facts
    ]
    return Explanation(strata, device.name, why, tuple(asked), tuple(notes))


def _unprintable(plan: RulePlan) -> list[str]:
    """Why joins of a rule cannot run depth-first."""
    found: dict[str, None] = {}
    for join in plan.joins:
        computed = [expr for step in all_steps(join.steps) for expr in expressions(step)]
        reasons = map(printable, (*computed, *join.outputs))
        found.update((reason, None) for reason in reasons if reason is not None)
    return list(found)


def rule_text(rule: CheckedRule) -> str:
    """A checked rule as a person would write it."""
    head = format_node(rule.head)
    return f"{head}." if rule.body is None else f"{head} <- {format_node(rule.body)}."
