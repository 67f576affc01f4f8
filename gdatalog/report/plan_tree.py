"""The plan of a program as a tree, with the indexes that it reads and must build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from gdatalog.engine.choose import planned_choice, unprintable
from gdatalog.engine.device import Device
from gdatalog.engine.fixpoint import UNKNOWN
from gdatalog.engine.host_tries import AskedIndex, memory_asked
from gdatalog.engine.session import Knobs
from gdatalog.plan import RulePlan, TrieRef
from gdatalog.plan.effects import relations_read
from gdatalog.plan.placement import ExecutorChoice, InCells, InPages, OnWorkers, Spread
from gdatalog.plan.stratum import InPlaceLattice, Partitioned, StratumPlan
from gdatalog.plan.tuning import Tuning
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, replace
from gdatalog.report.folded import WORK
from gdatalog.report.rules import Executor, order_of, plan_nodes, rule_text, with_dedup
from gdatalog.report.tree import ReportNode, many
from gdatalog.storage.relation import Relation
from gdatalog.values import shown_name

# How fixpoints without rounds process new rows, by strategy.
BY_PARTS = {Partitioned: "value by value", InPlaceLattice: "group by group"}
# Share of the memory limit above which the limit is shown.
WORTH_A_WORD = 0.01


@dataclass(frozen=True, slots=True)
class PlannedRule:
    """A rule with one of its plans: for the first round, or for later ones.

    `left`: why the CPU runs it although the device is another. `spread`: the workers that run it.
    `in_cells` and `in_pages`: how it reads indexes that do not fit the device.
    """

    rule: CheckedRule
    plan: RulePlan
    left: str | None = None
    spread: Spread | None = None
    in_cells: InCells | None = None
    in_pages: InPages | None = None


@dataclass(frozen=True, slots=True)
class PlannedStratum:
    """A stratum with its plan."""

    stratum: Stratum
    plan: StratumPlan
    rules: tuple[PlannedRule, ...]


@dataclass(frozen=True, slots=True)
class PlanReport:
    """The whole plan and its device; `why` says why that device was chosen.

    `asked`: the values that parts of relations are evaluated for. `notes`: why magic sets were not
    used. `limit`: the memory limit in bytes, if one was set. `members`: the devices that work
    together as `device`.
    """

    strata: tuple[PlannedStratum, ...]
    device: str = "cpu"
    why: str = ""
    knobs: Knobs = Knobs()
    tuning: Tuning = Tuning()
    asked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    indexes: tuple[NamedIndex, ...] = ()
    limit: int | None = None
    members: tuple[str, ...] = ("cpu",)

    def tree(self) -> ReportNode:
        """The whole plan as a tree."""
        if not self.strata:
            label = "nothing to evaluate: only stored relations are read"
            return ReportNode("plan", label, facts=(("device", self.device),))
        index = indexes_node(self.indexes, self.limit)
        return ReportNode(
            "plan",
            f"{where(self.device, self.why)}, {knobs_text(self.knobs)}",
            (f"asked for: {', '.join(self.asked)}",) if self.asked else (),
            facts=(
                ("device", self.device),
                ("why", self.why),
                ("strategy", self.knobs.strategy),
                ("threads", self.knobs.threads or None),
            ),
            children=(
                *(self._stratum(n, planned) for n, planned in enumerate(self.strata, 1)),
                *(() if index is None else (index,)),
                *(ReportNode("note", note) for note in self.notes),
            ),
        )

    def _stratum(self, number: int, planned: PlannedStratum) -> ReportNode:
        rules: dict[int, list[PlannedRule]] = {}
        for each in planned.rules:
            rules.setdefault(id(each.rule), []).append(each)
        by_parts, placed = BY_PARTS.get(type(planned.plan.main)), planned.plan.placement
        several = len(self.members) > 1 and planned.stratum.recursive
        says_where = several or isinstance(placed, OnWorkers)
        return ReportNode(
            "stratum",
            stratum_label(number, planned.stratum),
            (*planned.plan.lines(), *((str(placed),) if says_where else ())),
            facts=(
                *stratum_facts(planned.stratum),
                ("strategy", str(planned.plan.main)),
                *(placed.facts() if isinstance(placed, OnWorkers) else ()),
            ),
            children=tuple(self._rule(plans, by_parts) for plans in rules.values())
            or tuple(ReportNode("rule", rule_text(rule)) for rule in planned.stratum.rules),
        )

    def _rule(self, plans: Sequence[PlannedRule], by_parts: str | None) -> ReportNode:
        rule = plans[0].rule
        found = [self._plan(planned, by_parts) for planned in plans]
        if len(found) == 1:
            (executor, children) = found[0]
            return ReportNode("rule", rule_text(rule), executor.details, facts=(
                ("relation", rule.head.name), *executor.facts), children=children)  # fmt: skip
        parts = tuple(
            ReportNode(
                "plan of a rule",
                plan_label(planned.plan),
                executor.details,
                facts=executor.facts,
                children=children,
            )
            for planned, (executor, children) in zip(plans, found, strict=True)
        )
        return ReportNode(
            "rule", rule_text(rule), facts=(("relation", rule.head.name),), children=parts
        )

    def _plan(
        self, planned: PlannedRule, by_parts: str | None
    ) -> tuple[Executor, tuple[ReportNode, ...]]:
        plan = planned.plan
        executors = [self._executor(plan, number, by_parts) for number in range(len(plan.joins))]
        executor, children = plan_nodes(plan, executors)
        placed = placement(planned, self.device)
        facts = (("order", ", ".join(order_of(plan))), (WORK, expected_work(plan)))
        return (
            Executor(
                (*placed.details, *executor.details), (*placed.facts, *facts, *executor.facts)
            ),
            children,
        )

    def _executor(self, plan: RulePlan, number: int, by_parts: str | None) -> Executor:
        join = plan.joins[number]
        if join.given is not None and not join.given.columns:
            executor = _recursive(self.knobs, by_parts)
        else:
            choice = planned_choice(plan, number, self.knobs, self.tuning, self.members)
            executor = chosen(choice, planned=True)
            if self.device == "cpu" and not choice.breadth_first and not plan.gathers:
                executor = with_dedup(executor, join)
        reason = unprintable(join)
        if reason is None or ("reason", reason) in executor.facts:
            return executor
        return replace(executor, details=(*executor.details, f"never depth-first: {reason}"))


class PlacedRun(Protocol):
    """Where a rule runs, or ran."""

    @property
    def left(self) -> str | None: ...
    @property
    def spread(self) -> Spread | None: ...
    @property
    def in_cells(self) -> InCells | None: ...
    @property
    def in_pages(self) -> InPages | None: ...


def placement(placed: PlacedRun, device: str) -> Executor:
    """Where a rule runs, as text, and as facts for programs."""
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


def _recursive(knobs: Knobs, by_parts: str | None) -> Executor:
    """How a recursive rule processes new rows."""
    if knobs.strategy == "levelwise":
        return chosen(ExecutorChoice(True, "asked for"))
    if by_parts is not None:
        return Executor(
            (f"depth-first, {by_parts}; small work breadth-first, by rounds",),
            (("executor", "depth-first"), ("reason", by_parts)),
        )
    if knobs.strategy == "lftj":
        return chosen(ExecutorChoice(False, "asked for"))
    return Executor(
        ("breadth-first, by rounds; depth-first once compiling pays",),
        (("executor", "breadth-first"), ("reason", "rounds are small at first")),
    )


def chosen(choice: ExecutorChoice, planned: bool = False) -> Executor:
    """An executor and why it was chosen. If it is only `planned`, also until when."""
    facts: list[tuple[str, str | int]] = [("executor", choice.kind), ("reason", choice.reason)]
    if choice.shared is not None:
        facts.append(("devices", ", ".join(choice.shared.devices)))
    if planned and choice.allowed is not None:
        facts.append(("depth-first after rows", choice.allowed))
    return Executor((str(choice),), tuple(facts))


def where(device: str, why: str) -> str:
    return "on cpu" if device == "cpu" else f"on {device}" + (f" ({why})" if why else "")


def knobs_text(knobs: Knobs) -> str:
    """The settings that a user may force. Only the depth-first executor uses threads."""
    parts = [f"strategy {knobs.strategy}"]
    if knobs.strategy != "levelwise":
        count = knobs.threads
        parts.append(f"{count} thread{'s' * (count > 1)}" if count else "a thread for each core")
    names = "intersect", "split", "dead_variables", "dedup", "magic_sets", "scans"
    forced = {name.replace("_", " "): getattr(knobs, name) for name in names}
    parts += [f"{name} {value}" for name, value in forced.items() if value != "auto"]
    return ", ".join(parts)


def stratum_label(number: int, stratum: Stratum) -> str:
    names = ", ".join(stratum.relations)
    return f"stratum {number}: {names}" + (" (recursive)" if stratum.recursive else "")


def stratum_facts(stratum: Stratum) -> tuple[tuple[str, str | bool], ...]:
    return ("relations", ", ".join(stratum.relations)), ("recursive", stratum.recursive)


def plan_label(plan: RulePlan) -> str:
    """Names one of the plans of a recursive rule."""
    return "in each round" if plan.recursive_on else "before the rounds"


# The indexes that plans read, and the estimated memory of those that must be built.

RelationOf = Callable[[str], Relation | None]


@dataclass(frozen=True, slots=True)
class NamedIndex:
    """An index, its display name, and what is known of it."""

    label: str
    asked: AskedIndex

    @property
    def node(self) -> ReportNode:
        asked = self.asked
        if asked.rows is None or asked.bytes is None:
            return ReportNode("index", self.label, ("rows not known yet",))
        size = format_bytes(asked.bytes)
        text = f"{size}, cached" if asked.there else size if asked.exact else f"about {size}"
        return ReportNode(
            "index",
            self.label,
            (f"{many(asked.rows, 'entry')}, {text}",),
            facts=(
                ("relation", asked.relation),
                ("rows", asked.rows),
                ("bytes", asked.bytes),
                ("there", asked.there),
            ),
        )


def indexes_of(
    plans: Iterable[RulePlan], relation_of: RelationOf, device: Device
) -> list[NamedIndex]:
    """Returns the indexes that joins read, once each, without prefixes of other indexes."""
    found = []
    for plan in plans:
        asked = memory_asked(plan, relation_of, device)
        for ref, index in zip(relations_read(plan), asked, strict=True):
            if ref.columns and (index.bytes != 0 or index.there or not index.rows):
                relation = relation_of(ref.relation)
                columns = None if relation is None else relation.columns
                found.append(NamedIndex(index_label(ref, columns), index))
    return found


def index_label(ref: TrieRef, names: Sequence[str] | None = None) -> str:
    """Names an index by its columns in order, by column name where known.

    >>> index_label(TrieRef("E", "full", (1, 0)), ["src", "dst"])
    'E by dst, src'
    >>> index_label(TrieRef("path", "old", (0,)))
    'old path by column 0'
    """
    which = "" if ref.version == "full" else f"{ref.version} "
    which = f"ranked {which}" if ref.ranked else which
    column = partial(_column, names=names)
    text = f"{which}{shown_name(ref.relation)} by {', '.join(map(column, ref.columns))}"
    if ref.tests:
        tests = (f"{column(t.left)} {t.op} {column(t.right)}" for t in ref.tests)
        text += f" where {', '.join(tests)}"
    return f"{text} with counts" if ref.weighted else text


def _column(column: int, names: Sequence[str] | None) -> str:
    return f"column {column}" if names is None else names[column]


def indexes_node(indexes: Sequence[NamedIndex], limit: int | None) -> ReportNode | None:
    """A node with all indexes and their total size; `limit`: the memory limit, if shown."""
    if not indexes:
        return None
    missing = [index.asked for index in indexes if not index.asked.there]
    bytes_asked = sum(index.bytes or 0 for index in missing)
    text = f"{len(missing)} to build" if missing else "all cached"
    unknown = any(index.bytes is None for index in missing)
    if bytes_asked:
        about = "" if all(index.exact for index in missing) else "about "
        text += f", {about if not unknown else 'at least '}{format_bytes(bytes_asked)}"
    within = "" if limit is None else f"; memory limit {format_bytes(limit)}"
    return ReportNode(
        "indexes",
        f"indexes: {text}{within}",
        facts=(("bytes", bytes_asked), ("limit", limit)),
        children=tuple(index.node for index in indexes),
    )
