"""`Explanation`: how a program will be evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gdatalog.account import default_limit
from gdatalog.engine.context import StratumInputs
from gdatalog.engine.planned_placement import PlannedPlacement, plan_placement
from gdatalog.engine.session.evaluation import Evaluation
from gdatalog.engine.session.magic_sets import part_of, rewritten_for
from gdatalog.engine.session.text_session import Session
from gdatalog.engine.strata import Ready
from gdatalog.parser import format_node
from gdatalog.plan.nodes import RulePlan
from gdatalog.plan.placement import Spread
from gdatalog.plan.stratum import OnTheHost
from gdatalog.planner.check.checked import CheckedRule, Stratum
from gdatalog.report.plan_tree import (
    WORTH_A_WORD,
    NamedIndex,
    PlannedRule,
    PlannedStratum,
    PlanReport,
    indexes_of,
)
from gdatalog.report.shown import Shown
from gdatalog.report.tree import ReportNode
from gdatalog.storage.relation import Relation


class Explanation(Shown):
    """How a program will be evaluated: its strata, and a plan for each rule.

    Each variable shows how many bindings are expected once it is bound. `tree` has everything as
    plain data; `to_html()`, `to_mermaid()`, `to_json()` and `save(path)` draw it.

    >>> import gdatalog as gd
    >>> db = gd.connect(device="cpu")
    >>> db["E"] = [(1, 2), (2, 3), (3, 1)]
    >>> print(db.explain("p(x, z) <- E(x, y), E(y, z)."))
    on cpu, strategy auto, a thread for each core  expected
    stratum 1: p
    └ p(x, z) <- E(x, y), E(y, z).
      │ breadth-first: about 9 rows to look at
      ├ y in E[1,0]([y], x) and E([y], z)                ~3
      │ └ x in E[1,0](y, [x])                            ~3
      │   └ z in E(y, [z])                               ~3
      └ give p(x, z)
    indexes: 1 to build, 72 B
    └ E by column1, column0: 3 entries, 72 B
    """

    title = "gdatalog: a plan"

    def __init__(self, planned: PlanReport) -> None:
        self.planned = planned

    @property
    def strata(self) -> tuple[PlannedStratum, ...]:
        """The strata in evaluation order, with the plans of their rules."""
        return self.planned.strata

    def _tree(self) -> ReportNode:
        return self.planned.tree()


def _at_hand(evaluation: Evaluation, name: str) -> Relation | None:
    """A relation that is stored already. Split rules' parts are in no schema."""
    return evaluation.known(name) if name in evaluation.checked.schemas else None


def _spread(
    stratum: Stratum, plan: RulePlan, inputs: StratumInputs, known: Callable[[str], Relation | None]
) -> Spread | None:
    """The workers of a cluster that run a rule. A fixpoint is spread as a whole."""
    context = inputs.context
    if context.cluster is None or stratum.recursive or not plan.joins:
        return None
    return context.cluster.plan_placement(plan, inputs, known)


def _rule(
    ready: Ready,
    rule: CheckedRule,
    plan: RulePlan,
    inputs: StratumInputs,
    known: Callable[[str], Relation | None],
) -> PlannedRule:
    """A rule with its plan and the device that runs it."""
    stratum = ready.stratum
    left, beyond = inputs.context.device.refuses(plan), PlannedPlacement()
    on_host = next((one for one in ready.plan.rewrites if isinstance(one, OnTheHost)), None)
    if on_host is not None:
        left = on_host.reason
    elif left is None and not stratum.recursive and plan.joins:
        whole = plan.otherwise or plan
        beyond = PlannedPlacement() if whole.terms else plan_placement(whole, known, inputs.context)
        left = beyond.left
    spread = _spread(stratum, plan, inputs, known)
    return PlannedRule(rule, plan, left, spread, beyond.cells, beyond.pages)


def explain(session: Session, names: Sequence[str], why: str = "asked for") -> Explanation:
    """Plans the evaluation of these relations; `why` says why this device was chosen."""
    whole = session.whole_asks()
    context = session.context
    device = context.device
    parts: list[tuple[Evaluation, list[str]]] = [(session.evaluation, [])]
    notes: dict[str, None] = {}
    for name in names:
        part = part_of(session.evaluation, name, whole)
        rewritten = rewritten_for(session.evaluation, name, whole)
        notes.update(dict.fromkeys(rewritten.program.notes))
        if rewritten.covered:
            notes[rewritten.covered] = None
        if part is None:
            parts[0][1].append(name)
        else:
            parts.append((part, [name]))
    strata = []
    indexes: dict[str, NamedIndex] = {}
    for evaluation, wanted in parts:
        inputs = evaluation.inputs()
        for stratum in evaluation.strata_of(wanted):
            ready = evaluation.planned(stratum)
            known = partial(_at_hand, evaluation)
            rules = tuple(_rule(ready, rule, plan, inputs, known) for rule, plan in ready.planned)
            strata.append(PlannedStratum(stratum, ready.plan, rules))
            own = [plan for _, plan in ready.planned]
            read = indexes_of(own, known, device, context.memory)
            indexes.update({index.label: index for index in read})
    asked = [
        format_node(fact)
        for part, _ in parts[1:]
        for name, facts in part.checked.facts.items()
        if name.endswith("?")
        for fact in facts
    ]
    memory = context.memory
    needed = sum(index.asked.bytes or 0 for index in indexes.values() if not index.asked.there)
    said = memory != default_limit() or needed > WORTH_A_WORD * memory
    return Explanation(
        PlanReport(
            tuple(strata),
            device.name,
            why,
            context.knobs,
            context.tuning,
            tuple(asked),
            tuple(notes),
            tuple(indexes.values()),
            memory if said else None,
            device.members,
        )
    )
