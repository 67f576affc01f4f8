"""`Explanation`: how a program will be evaluated, and the indexes that it reads and must build."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from gdatalog.account import default_limit
from gdatalog.engine.choose import planned_choice, unprintable
from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.device import CPU
from gdatalog.engine.draft import UNKNOWN
from gdatalog.engine.evaluator.asked_parts import evaluated_since
from gdatalog.engine.evaluator.demanded import demanded_for, part_of
from gdatalog.engine.evaluator.evaluator import Evaluator
from gdatalog.engine.execution import Execution
from gdatalog.engine.index_memory import AskedIndex, memory_asked
from gdatalog.engine.metrics import RuleRun
from gdatalog.engine.operators.placed import there
from gdatalog.engine.pages import PlannedPlacement, plan_placement
from gdatalog.engine.stratum_plan import StratumPlan, by_parts
from gdatalog.parser import format_node
from gdatalog.plan.join_plan import RulePlan
from gdatalog.plan.placement import ExecutorChoice, InCells, InPages, Spread
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.check.checked import rule_text
from gdatalog.planner.passes import PassRecord
from gdatalog.records import cached_property, dataclass, replace
from gdatalog.report.folded import WORK
from gdatalog.report.indexes import RelationOf, indexes_node, indexes_of
from gdatalog.report.passes import pass_nodes, program_passes, stratum_passes
from gdatalog.report.plan_nodes import Executor, order_of, plan_nodes, with_dedup
from gdatalog.report.shown import Shown
from gdatalog.report.tree import Fact, Facts, ReportNode, facts
from gdatalog.settings import Settings
from gdatalog.storage.relation import Relation

# Share of the memory limit above which the limit is shown.
WORTH_A_WORD = 0.01


@dataclass(frozen=True, slots=True)
class PlannedRule:
    """A rule with one of its plans: for the first round, or for later ones.

    `left`: why the CPU runs it although the device is another. `spread`: the workers that run it.
    `in_cells` and `in_pages`: how it reads indexes that do not fit the device. `passes`: what made
    the plan out of the rule, if that was asked for. `copied`: the bytes of its indexes, if several
    devices may run it.
    """

    rule: CheckedRule
    plan: RulePlan
    left: str | None = None
    spread: Spread | None = None
    in_cells: InCells | None = None
    in_pages: InPages | None = None
    passes: Sequence[PassRecord] = ()
    copied: int = 0


@dataclass(frozen=True, slots=True)
class PlannedStratum:
    """A stratum with its plan. `device` runs it; `members`: the devices that work together as
    one."""

    stratum: Stratum
    plan: StratumPlan
    rules: tuple[PlannedRule, ...]
    device: str
    members: tuple[str, ...]
    passes: Sequence[PassRecord] = ()


@dataclass(eq=False)
class Explanation(Shown):
    """How a program will be evaluated: its strata, and a plan for each rule.

    Each variable shows how many bindings are expected once it is bound. `tree` has everything as
    plain data; `to_html()`, `to_mermaid()`, `to_json()` and `save(path)` draw it.

    `strata` are in evaluation order. `device` names the devices that run them, and `why` says why.
    `asked`: the values that parts of relations are evaluated for. `notes`: why magic sets were not
    used. `indexes`: by their display names. `limit`: the memory limit in bytes, if one was set.
    `passes`: what rewrote the program, if that was asked for.

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
    __repr__ = Shown.__repr__

    strata: tuple[PlannedStratum, ...]
    device: str
    why: str
    settings: Settings
    asked: Sequence[str]
    notes: Iterable[str]
    indexes: Mapping[str, AskedIndex]
    limit: int | None
    passes: Sequence[PassRecord] = ()

    @cached_property
    def tree(self) -> ReportNode:
        """The whole plan as a tree."""
        if not self.strata:
            label = "nothing to evaluate: only stored relations are read"
            notes = tuple(ReportNode("note", note) for note in self.notes)
            return ReportNode("plan", label, facts=(("device", self.device),), children=notes)
        return ReportNode(
            "plan",
            f"{where(self.device, self.why)}, {settings_text(self.settings)}",
            (f"asked for: {', '.join(self.asked)}",) if self.asked else (),
            facts=facts(
                device=self.device,
                why=self.why,
                strategy=self.settings.strategy,
                threads=self.settings.threads or None,
            ),
            children=(
                *pass_nodes(self.passes),
                *(self._stratum(n, planned) for n, planned in enumerate(self.strata, 1)),
                *((indexes_node(self.indexes, self.limit),) if self.indexes else ()),
                *(ReportNode("note", note) for note in self.notes),
            ),
        )

    def _stratum(self, number: int, planned: PlannedStratum) -> ReportNode:
        rules: dict[int, list[PlannedRule]] = {}
        for each in planned.rules:
            rules.setdefault(id(each.rule), []).append(each)
        by, workers = by_parts(planned.plan.main), planned.plan.workers
        several = len(planned.members) > 1 and planned.stratum.recursive
        says_where = several or workers is not None
        placed = planned.plan.placed
        return ReportNode(
            "stratum",
            stratum_label(number, planned.stratum),
            (*planned.plan.lines(), *((planned.plan.placement,) if says_where else ())),
            facts=(
                *stratum_facts(planned.stratum),
                *(() if placed is None else facts(device=placed.device, why=placed.why)),
                ("strategy", str(planned.plan.main)),
                *(() if workers is None else workers.facts()),
            ),
            children=(
                *pass_nodes(planned.passes),
                *(
                    tuple(self._rule(planned, plans, by) for plans in rules.values())
                    or (ReportNode("rule", rule_text(rule)) for rule in planned.stratum.rules)
                ),
            ),
        )

    def _rule(self, stratum: PlannedStratum, plans: Sequence[PlannedRule], by: str) -> ReportNode:
        rule = plans[0].rule
        whole = Executor(facts=(("relation", rule.head.name),))
        found = [self._plan(stratum, planned, by) for planned in plans]
        if len(found) == 1:
            ((executor, children),) = found
            return (whole + executor).node("rule", rule_text(rule), children)
        parts = tuple(
            executor.node("plan of a rule", plan_label(planned.plan), children)
            for planned, (executor, children) in zip(plans, found, strict=True)
        )
        return whole.node("rule", rule_text(rule), parts)

    def _plan(
        self, stratum: PlannedStratum, planned: PlannedRule, by: str
    ) -> tuple[Executor, tuple[ReportNode, ...]]:
        plan, numbers = planned.plan, range(len(planned.plan.joins))
        executors = [self._executor(stratum, planned, number, by) for number in numbers]
        executor, children = plan_nodes(plan, executors)
        order = (("order", ", ".join(order_of(plan))), (WORK, expected_work(plan)))
        children = (*pass_nodes(planned.passes), *children)
        return placement(planned, stratum.device) + Executor(facts=order) + executor, children

    def _executor(
        self, stratum: PlannedStratum, planned: PlannedRule, number: int, by: str
    ) -> Executor:
        plan, join = planned.plan, planned.plan.joins[number]
        if join.given is not None and not join.given.columns:
            executor = _recursive(self.settings, by)
        else:
            settings, members, copied = self.settings, stratum.members, planned.copied
            choice = planned_choice(plan, number, settings, members, copied)
            executor = chosen(choice, planned=True)
            if stratum.device == "cpu" and not choice.breadth_first and not plan.gathers:
                executor = with_dedup(executor, join)
        reason = unprintable(join)
        if reason is None or ("reason", reason) in executor.facts:
            return executor
        return executor + Executor((f"never depth-first: {reason}",))


def explain(execution: Execution, names: Sequence[str], why: str = "asked for") -> Explanation:
    """Plans the evaluation of these relations; `why` says why this device was chosen."""
    whole = execution.whole_asks()
    context = execution.context
    parts: list[tuple[Evaluator, list[str]]] = [(execution.evaluator, [])]
    notes: dict[str, None] = {}
    for name in names:
        rewritten = demanded_for(execution.evaluator, name, whole)
        part = part_of(execution.evaluator, rewritten)
        notes.update(dict.fromkeys(evaluated_since(execution.evaluator, name)))
        if rewritten is not None:
            covered = (rewritten.covered,) if rewritten.covered else ()
            notes.update(dict.fromkeys((*rewritten.program.notes, *covered)))
        if part is None:
            parts[0][1].append(name)
        else:
            parts.append((part, [name]))
    notes.update(dict.fromkeys(_orders(execution)))
    trace = context.passes
    strata: list[PlannedStratum] = []
    indexes: dict[str, AskedIndex] = {}
    for evaluator, wanted in parts:
        at_hand = partial(_at_hand, evaluator)
        for stratum in evaluator.strata_of(wanted):
            found, _ = evaluator.planned(stratum)
            inputs = placed_inputs(found, evaluator.inputs())
            device = inputs.context.device
            rules = tuple(_rule(found, rule, plan, inputs, at_hand) for rule, plan in found.rules)
            passes: Sequence[PassRecord] = ()
            if trace is not None:
                rules = tuple(replace(rule, passes=trace.of(rule.plan)) for rule in rules)
                passes = stratum_passes(stratum, found)
            strata.append(
                PlannedStratum(stratum, found, rules, device.name, device.members, passes)
            )
            for _, plan in found.rules:
                own = device if plan.left is None else CPU
                indexes.update(indexes_of(plan, at_hand, own))
    asked = [
        format_node(fact)
        for part, _ in parts[1:]
        for name, facts in part.checked.facts.items()
        if name.endswith("?")
        for fact in facts
    ]
    why = why if context.later is None else context.later.why  # planning may have opened it
    memory = context.memory
    needed = sum(index.bytes or 0 for index in indexes.values() if not index.there)
    limit = memory if memory != default_limit() or needed > WORTH_A_WORD * memory else None
    return Explanation(
        tuple(strata), _devices(strata, context), why, context.settings, asked, notes,
        indexes, limit,
        () if trace is None else program_passes(
            trace, (part for part, _ in parts[1:]), (each.plan for each in strata)
        ),
    )  # fmt: skip


def _orders(execution: Execution) -> Iterator[str]:
    """How answers are put in order."""
    for query in execution.compiled.queries:
        if query.cut is not None and query.cut.order:
            columns = execution.checked.schemas[query.relation].columns
            keys = [f"{columns[at]}{' desc' * down}" for at, down in query.cut.order]
            how = (
                "all rows are sorted" if query.cut.limit is None else "a scan finds the first rows"
            )
            yield f"the answer is ordered by {', '.join(keys)}: {how}"


def placed_inputs(plan: StratumPlan, inputs: StratumInputs) -> StratumInputs:
    """The inputs for the device that the plan names."""
    return inputs if plan.placed is None else there(inputs, plan.placed.device)


def _devices(strata: Sequence[PlannedStratum], context: ExecutionContext) -> str:
    """The devices that run the strata: the database's, or those that "auto" chose."""
    if context.later is None:
        return context.device.name
    used = {each.device for each in strata}
    used |= {"cpu" for each in strata for rule in each.rules if rule.left is not None}
    return " and ".join(sorted(used)) or context.device.name


def _at_hand(evaluator: Evaluator, name: str) -> Relation | None:
    """A relation that is stored already. Split rules' parts are in no schema."""
    return evaluator.at_hand(name) if name in evaluator.checked.schemas else None


def _rule(
    of: StratumPlan, rule: CheckedRule, plan: RulePlan, inputs: StratumInputs, at_hand: RelationOf
) -> PlannedRule:
    """A rule with its plan, and where it runs. A cluster runs a fixpoint as a whole."""
    context = inputs.context
    left, beyond, spread = plan.left or context.device.refuses(plan), PlannedPlacement(), None
    on_host = of.on_host
    by_itself = plan.joins and not of.recursive
    if on_host:
        left = on_host
    elif left is None and by_itself:
        whole = plan.otherwise or plan
        beyond = PlannedPlacement() if whole.terms else plan_placement(whole, at_hand, context)
        left = beyond.left
    if context.cluster is not None and by_itself:
        spread = context.cluster.plan_placement(plan, inputs, at_hand)
    copied = 0
    if len(context.device.members) > 1:
        asked = memory_asked(plan, at_hand, context.device)
        copied = sum(index.bytes or 0 for index in asked)
    return PlannedRule(rule, plan, left, spread, beyond.cells, beyond.pages, copied=copied)


def placement(placed: PlannedRule | RuleRun, device: str) -> Executor:
    """Where a rule runs, or ran, as text, and as facts for programs."""
    parts = [p for p in (placed.spread, placed.in_cells, placed.in_pages) if p is not None]
    left = () if placed.left is None else (f"run on the CPU: {placed.left}",)
    where = ("device", device if placed.left is None else "cpu")
    return Executor(
        (*left, *map(str, parts)), (where, *(fact for part in parts for fact in part.facts()))
    )


def expected_work(plan: RulePlan) -> float:
    """The rows that a plan expects to read. A plan for new rows reads all rows that its relation
    will get; their number is unknown."""
    work = 0.0
    for join in plan.joins:
        given = None if join.scan is not None else join.given
        work += join.cost if given is None or not given.rows else join.cost * UNKNOWN / given.rows
    return work


def _recursive(settings: Settings, by: str) -> Executor:
    """How a recursive rule processes new rows."""
    if settings.strategy == "levelwise":
        return chosen(ExecutorChoice(True, "asked for"))
    if by:
        text = f"depth-first, {by}; small work breadth-first, by rounds"
        return Executor((text,), facts(executor="depth-first", reason=by))
    if settings.strategy == "lftj":
        return chosen(ExecutorChoice(False, "asked for"))
    text = "breadth-first, by rounds; depth-first once compiling pays"
    reason = "rounds are small at first"
    return Executor((text,), facts(executor="breadth-first", reason=reason))


def chosen(choice: ExecutorChoice, planned: bool = False) -> Executor:
    """An executor and why it was chosen. If it is only `planned`, also until when."""
    known: dict[str, Fact] = {"executor": choice.kind, "reason": choice.reason}
    if choice.shared is not None:
        known["devices"] = ", ".join(choice.shared.devices)
    if planned and choice.allowed is not None:
        known["depth-first after rows"] = choice.allowed
    return Executor((str(choice),), tuple(known.items()))


def where(device: str, why: str) -> str:
    return "on cpu" if device == "cpu" else f"on {device}" + (f" ({why})" if why else "")


def settings_text(settings: Settings) -> str:
    """The settings that a user may force. Only the depth-first executor uses threads."""
    parts = [f"strategy {settings.strategy}"]
    if settings.strategy != "levelwise":
        count = settings.threads
        parts.append(f"{count} thread{'s' * (count > 1)}" if count else "a thread for each core")
    names = "intersect", "split", "dead_variables", "dedup", "magic_sets", "scans", "hand_over"
    forced = {name.replace("_", " "): getattr(settings, name) for name in names}
    parts += [f"{name} {value}" for name, value in forced.items() if value != "auto"]
    return ", ".join(parts)


def stratum_label(number: int, stratum: Stratum) -> str:
    names = ", ".join(stratum.relations)
    return f"stratum {number}: {names}" + (" (recursive)" if stratum.recursive else "")


def stratum_facts(stratum: Stratum) -> Facts:
    return facts(relations=", ".join(stratum.relations), recursive=stratum.recursive)


def plan_label(plan: RulePlan) -> str:
    """Names one of the plans of a recursive rule."""
    return "in each round" if plan.recursive_on else "before the rounds"
