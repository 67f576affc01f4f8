"""Places a program's strata between the CPU and a GPU, under `device="auto"`.

A stratum is planned when all that it reads is evaluated. If it might pay on the GPU, the strata
above it are estimated (`planner/rewrite/program_sizes.py`), and all are placed together
(`planner/placement.py`); again if there turn out to be other numbers of rows. The choice is part of
the plan, and depends on sizes only. The GPU is opened when the first stratum goes there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar
from weakref import WeakMethod

from gdatalog.engine.choose import ARRAYS, looked_at, work_of_rule
from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.derived import count_of
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.operators.base import KERNELS, work_of
from gdatalog.engine.operators.host import OnHost
from gdatalog.engine.operators.once import Once
from gdatalog.engine.operators.placed import Placed, bytes_there, there
from gdatalog.engine.stratum_plan import StratumPlan
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.placement import (
    PlaceableStratum,
    PlacementDraft,
    Work,
    might_pay,
    place_strata,
)
from gdatalog.planner.rewrite.counts_read import asks_for_counts
from gdatalog.planner.rewrite.program_sizes import Expected, ProgramSizes, SizedBody, bodies_of
from gdatalog.planner.rewrite.rounds_cost import PARTNERS
from gdatalog.planner.statistics import RelationStatistics
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.relation import Relation

Returned = TypeVar("Returned")
BYTES = 4  # of a value that is expected
LIKE, SMALL = 8.0, 1_000  # numbers of rows hold that are off by this factor, or so small
NOTHING = Expected(0.0, 0.0)
SHARE = 0.5  # seconds hold that are off by at most this share of them
PARTS = 16  # of the seconds to be gained: for less, the program is not looked at
MOST_TIMES = 4  # that the strata of a program are placed together; then each is placed alone


@dataclass(frozen=True, slots=True)
class ReadByRules:
    """What placing needs of a stratum's rules. `rows_of`: the relations of which more than the
    number of rows is needed."""

    bodies: Sequence[SizedBody]
    arities: Mapping[str, int]
    names: Sequence[str]
    rows_of: frozenset[str]

    @staticmethod
    def of(stratum: Stratum, inputs: StratumInputs) -> ReadByRules:
        atoms = [(rule, atom.name) for rule in stratum.rules for atom in rule.atoms]
        lower = sorted({name for _, name in atoms} - {*stratum.relations})
        rows_of = frozenset(name for rule, name in atoms if not asks_for_counts(rule, (name,)))
        arities = {name: inputs.schemas[name].arity for name in stratum.relations}
        return ReadByRules(bodies_of(stratum), arities, lower, rows_of)


@dataclass(slots=True, eq=False)
class ProgramPlacement:
    """The strata that an evaluation needs, in order, and which were placed on the device last.

    `relation` returns one that is evaluated or stored; `given` the number of rows that a derived
    one has as data and facts. `asked`: the relations that the CPU reads in the end. `alone`: the
    process ends after this program.
    """

    strata: Sequence[Stratum]
    relation: Callable[[str], Relation | None]
    given: Callable[[str], float]
    asked: Collection[str] = ()
    alone: bool = False
    on_device: Collection[tuple[str, ...]] = ()
    used: bool = False
    times: int = 0
    # What the last placement counted with: seconds of strata on both sides, and rows.
    seconds: dict[tuple[str, ...], tuple[float, float]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    _read: dict[tuple[str, ...], ReadByRules] = field(default_factory=dict)

    def read(self, stratum: Stratum, inputs: StratumInputs) -> ReadByRules:
        found = self._read.get(stratum.relations)
        if found is None:
            found = self._read[stratum.relations] = ReadByRules.of(stratum, inputs)
        return found

    def statistics(self, name: str) -> RelationStatistics | None:
        held = self.relation(name)
        return None if held is None or not held.types else held.statistics

    def pays(self, own: PlaceableStratum, sizes: ProgramSizes, inputs: StratumInputs) -> bool:
        """Whether a stratum, whose inputs and expected `sizes` are known, runs on the device."""
        copies = sum([self._copy(name, sizes, inputs) for name in (*own.reads, *own.relations)])
        least = inputs.context.thresholds.gpu_rule  # to be gained, for this look to pay
        if not might_pay(own, copies - max(least, self._least(inputs.context) / PARTS)):
            return False
        if own.relations not in self.seconds or self._others(own, sizes, least):
            self.times += 1
            self._place(own, sizes, inputs)
        return own.relations in self.on_device

    def is_small(
        self, work: Work, needs: ReadByRules, sizes: ProgramSizes, inputs: StratumInputs
    ) -> bool:
        """Whether a stratum cannot pay: it takes less than a GPU does before the first row, even if
        each row that it looks at were one that it derives, and all rows had to be copied."""
        context = inputs.context
        thresholds = context.thresholds
        seconds = work.on_cores(thresholds, context.settings.workers)
        seconds += sum([self._copy(name, sizes, inputs) for name in needs.names])
        rows = work.looked + work.arrays
        seconds += rows * BYTES * sum(needs.arities.values()) / thresholds.gpu_bus
        return seconds < thresholds.gpu_rule

    def _others(self, own: PlaceableStratum, sizes: ProgramSizes, least: float) -> bool:
        """Whether there are other costs or rows than the last placement counted with, or rows that
        now lie on the device."""
        if any(held and not held.store.on_host for held in map(self.relation, own.reads)):
            return True
        for before, now in zip(self.seconds[own.relations], own.seconds, strict=True):
            if not abs(before - now) <= max(least, SHARE * before):
                return True
        for name in (*own.reads, *own.relations):
            expected, rows = self.rows[name], sizes.statistics(name).rows
            if not rows / LIKE <= expected + SMALL <= LIKE * (rows + SMALL):
                return True
        return False

    def _place(self, own: PlaceableStratum, sizes: ProgramSizes, inputs: StratumInputs) -> None:
        """Places a stratum and those above it."""
        context, left = inputs.context, [*self.strata]
        while left[0].relations != own.relations:
            del left[0]
        if self.times > MOST_TIMES:
            del left[1:]
        read = [self.read(each, inputs) for each in left]
        lower = {name for each in read for name in each.names} - sizes.assumed.keys()
        below = sum([sizes.statistics(name).rows for name in sorted(lower)])
        sizes.most = PARTNERS * sum([each.rows for each in sizes.assumed.values()], below)
        placeable = [own]
        for each, needs in zip(left[1:], read[1:], strict=True):
            context.limits.poll()
            expected = sizes.add(each, needs.bodies, needs.arities)
            joined = {a.name for body in needs.bodies if len(body.atoms) > 1 for a in body.atoms}
            values = [
                float(sizes.statistics(name).rows * inputs.schemas[name].arity)
                for name in sorted(joined.intersection(needs.names))
            ]
            work = replace(usual_work(each, expected), indexed=sum(values))
            placeable.append(_placeable(each, needs, work, work, context))
        names = dict.fromkeys(n for each in placeable for n in (*each.relations, *each.reads))
        rows_of = {*self.asked}.union(*(each.rows_of for each in read))
        known = [(name, held.store) for name in names if (held := self.relation(name)) is not None]
        rows_of |= {name for name, _ in known}  # there are rows, which are counted where they lie
        copies = {n: self._copy(n, sizes, inputs) if n in rows_of else 0.0 for n in names}
        here = {name for name, store in known if store.on_host}
        lying = {name for name, store in known if store.on_device is not None}
        least = 0.0 if lying - here else self._least(context)
        draft = PlacementDraft(placeable, copies, here, lying, sorted(self.asked), least)
        place_strata(draft)
        self.on_device = draft.on_device
        self.seconds = {each.relations: each.seconds for each in placeable}
        self.rows = {name: sizes.statistics(name).rows for name in names}

    def _least(self, context: ExecutionContext) -> float:
        """The seconds that a program must gain, until it uses the device."""
        thresholds = context.thresholds
        if self.used:
            return 0.0
        least = Work(thresholds.gpu_from, turns=0.0).on_cores(thresholds, context.settings.workers)
        return least + thresholds.gpu_opening * self.alone

    def _copy(self, name: str, sizes: ProgramSizes, inputs: StratumInputs) -> float:
        """The seconds that a copy of a relation takes."""
        held = None if name in sizes.assumed else self.relation(name)
        if held is None:
            size = sizes.statistics(name).rows * BYTES * inputs.schemas[name].arity
        else:
            size = held.nbytes if held.types else 0
        thresholds = inputs.context.thresholds
        return thresholds.gpu_copy + size / thresholds.gpu_bus


def placed(
    stratum: Stratum, inputs: StratumInputs, plan: Callable[[StratumInputs], Operator]
) -> Operator:
    """The plan of a stratum for the GPU if it pays there, otherwise for the CPU. `plan` plans it
    for the device of some inputs."""
    context, later = inputs.context, inputs.context.later
    assert later is not None
    here = there(inputs, "cpu")
    on_cpu = plan(here)
    if inputs.limit is not None:
        return Placed(on_cpu, "cpu", "not all rows are wanted")
    program = inputs.placement or _alone(stratum, inputs)
    needs, sizes = program.read(stratum, inputs), ProgramSizes(program.statistics, program.given)
    indexed = unbuilt(StratumPlan(stratum, on_cpu).rules, needs.names, program.relation)
    if not stratum.recursive:
        work = replace(work_of(on_cpu, NOTHING, context), indexed=indexed)
        if program.is_small(work, needs, sizes, inputs):
            return Placed(on_cpu, "cpu", _why(work, NOTHING, needs, program, False))
    for name in needs.names if stratum.recursive else ():
        len(inputs.relation(name))  # without duplicates, which would count as rows
    expected = sizes.add(stratum, needs.bodies, needs.arities)
    work = replace(work_of(on_cpu, expected, context), indexed=indexed)
    usual = work if work.everywhere else replace(usual_work(stratum, expected), indexed=indexed)
    own = _placeable(stratum, needs, work, usual, context)
    seeds = sum(bytes_there(part) for parts in inputs.seeds.values() for part in parts)
    own = replace(own, cpu=own.cpu + seeds / context.thresholds.gpu_bus)
    if not program.pays(own, sizes, inputs):
        return Placed(on_cpu, "cpu", _why(work, expected, needs, program, False))
    if later.open() is None:
        return Placed(on_cpu, "cpu", later.why_not)
    gpu = later.device
    assert gpu is not None
    found = plan(there(inputs, gpu.name))
    if isinstance(found, OnHost):
        return Placed(found.then, "cpu", found.reason)
    if not work.everywhere:  # only now it is known how the device works
        there_ = replace(work_of(found, expected, context), indexed=indexed)
        device = there_.on_device(context.thresholds)
        if not program.pays(replace(own, device=device), sizes, inputs):
            return Placed(on_cpu, "cpu", _why(work, expected, needs, program, False))
    if isinstance(found, Once) and len(stratum.rules) > 1:
        draft = StratumDraft(stratum, here)
        pairs = zip(stratum.rules, found.of.plans, strict=True)
        plans = tuple((_left(rule, first, draft), later) for rule, (first, later) in pairs)
        found = Once(replace(found.of, plans=plans))
    program.used = True
    return Placed(found, gpu.name, _why(work, expected, needs, program, True))


def unbuilt(
    rules: Sequence[tuple[CheckedRule, RulePlan]],
    lower: Collection[str],
    relation: Callable[[str], Relation | None],
) -> float:
    """The values of the indexes of lower relations that rules read and the CPU has not built."""
    refs = {ref for _, plan in rules for join in plan.joins for ref in join.tries}
    values = 0
    for ref in refs:
        held = relation(ref.relation) if ref.columns and ref.relation in lower else None
        name = ref.columns, ref.tests, ref.weighted, ref.ranked
        if held is not None and held.types and held.made(*name) is None:
            values += held.at_most * len(ref.columns)
    return float(values)


def usual_work(stratum: Stratum, expected: Expected) -> Work:
    """What is expected to evaluate a stratum, before it is planned for a device."""
    rules = max(1, len(stratum.rules))
    if not stratum.recursive:
        return Work(expected.looked, turns=rules, launches=ARRAYS)
    turns = expected.rounds * rules
    return Work(expected.looked, new=expected.rows, turns=turns, launches=KERNELS)


def _alone(stratum: Stratum, inputs: StratumInputs) -> ProgramPlacement:
    """The placement of a stratum of which no reader is known."""

    def relation(name: str) -> Relation | None:
        return None if name in stratum.relations else inputs.relation(name)

    def given(name: str) -> float:
        return float(sum(map(count_of, inputs.seeds.get(name, ()))))

    return ProgramPlacement([stratum], relation, given)


def _placeable(
    stratum: Stratum, needs: ReadByRules, here: Work, there: Work, context: ExecutionContext
) -> PlaceableStratum:
    cpu = here.on_cores(context.thresholds, context.settings.workers)
    device = there.on_device(context.thresholds)
    return PlaceableStratum(stratum.relations, needs.names, cpu, device)


def _why(
    work: Work, expected: Expected, needs: ReadByRules, program: ProgramPlacement, there: bool
) -> str:
    """What decides where a stratum runs: its work, and where the bytes lie that it reads."""
    rows = map(program.relation, sorted(needs.rows_of.intersection(needs.names)))
    read = [held for held in rows if held is not None and held.types]
    here = sum(held.nbytes for held in read if held.store.on_device is None)
    lying = sum(held.nbytes for held in read if not held.store.on_host)
    words = looked_at(work.looked + work.arrays)
    if expected.rounds > 1:
        words += f" in {expected.rounds:,.0f} rounds"
    if lying:
        lies = "lie there" if there else "are copied from the GPU"
        words += f", {format_bytes(lying)} of them {lies}"
    return f"{words}, {format_bytes(here)} are copied to it" if here and there else words


def _left(rule: CheckedRule, plan: RulePlan, draft: StratumDraft) -> RulePlan:
    """The plan of one of several rules: the one for the CPU if it does not pay."""
    context, here = draft.context, draft.plan(rule, first=True)
    thresholds, work = context.thresholds, work_of_rule(here, context)
    read = [draft.inputs.relation(name) for name in {atom.name for atom in rule.atoms}]
    far = sum(held.nbytes for held in read if held.types and not held.store.on_host)
    cpu = work.on_cores(thresholds, context.settings.workers) + far / thresholds.gpu_bus
    if work.on_device(thresholds) < cpu:
        return plan
    return replace(here, left=looked_at(work.looked + work.arrays))


def weakly(method: Callable[[str], Returned]) -> Callable[[str], Returned]:
    """A method of an object that this does not hold; callers do."""
    known = WeakMethod(method)

    def call(name: str) -> Returned:
        found = known()
        assert found is not None
        return found(name)

    return call
