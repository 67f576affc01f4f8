"""Places a program's strata between the CPU and a GPU, under `device="auto"`.

A stratum is planned when all that it reads is evaluated. If it might pay on the GPU, the strata
above it are estimated (`planner/rewrite/program_sizes.py`), and all are placed together
(`planner/placement.py`); again if there turn out to be other numbers of rows. The choice is part of
the plan, and depends on sizes only. The GPU is opened when the first stratum goes there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from gdatalog.engine.choose import looked_at, work_of_rule
from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.derived import count_of
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.operators.base import KERNELS, work_of
from gdatalog.engine.operators.host import OnHost
from gdatalog.engine.operators.once import Once
from gdatalog.engine.operators.placed import Placed, there
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
from gdatalog.planner.rewrite.program_sizes import Expected, ProgramSizes
from gdatalog.planner.statistics import RelationStatistics
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.relation import Relation

BYTES = 4  # of a value that is expected
LIKE = 8.0  # an estimate holds if it is off by at most this factor
MOST_TIMES = 16  # that the strata of a program are placed


@dataclass(slots=True, eq=False)
class ProgramPlacement:
    """The strata that an evaluation needs, in order, and which were placed on the device last.

    `relation` returns one that is evaluated or stored; `given` the number of rows that a derived
    one has as data and facts. `asked`: the relations that the CPU reads in the end. `alone`: the
    process ends after this program.
    """

    strata: Sequence[Stratum]
    relation: Callable[[str], Relation | None]
    given: Callable[[str], float] = lambda name: 0.0
    asked: Collection[str] = ()
    alone: bool = False
    on_device: Collection[tuple[str, ...]] | None = None
    rows: dict[str, float] = field(default_factory=dict)  # that the last placement counted with
    times: int = 0

    def pays(self, own: PlaceableStratum, sizes: ProgramSizes, inputs: StratumInputs) -> bool:
        """Whether a stratum, whose inputs and expected `sizes` are known, runs on the device."""
        copies = 0.0
        for name in (*own.reads, *own.relations):
            copies += self._seconds(name, sizes, inputs)
        if not might_pay(own, copies):
            return False
        if self.on_device is None or (self.times < MOST_TIMES and self._others(own, sizes)):
            self.times += 1
            self._place(own, sizes, inputs)
        assert self.on_device is not None
        return own.relations in self.on_device

    def _others(self, own: PlaceableStratum, sizes: ProgramSizes) -> bool:
        """Whether there are other numbers of rows than the last placement counted with."""
        for name in (*own.reads, *own.relations):
            before, now = self.rows.get(name, 0.0), float(sizes.statistics(name).rows)
            if not now / LIKE <= before + 1 <= LIKE * (now + 1):
                return True
        return False

    def _place(self, own: PlaceableStratum, sizes: ProgramSizes, inputs: StratumInputs) -> None:
        """Places a stratum and those above it."""
        context, left = inputs.context, [*self.strata]
        thresholds, threads = context.thresholds, context.settings.workers
        while left and left[0].relations != own.relations:
            del left[0]
        placeable = [own]
        for each in left[1:]:
            context.limits.poll()
            work = _usual(each, sizes.add(each, _arities(each, inputs)))
            placeable.append(_placeable(each, work, work, context))
        names = dict.fromkeys(n for each in placeable for n in (*each.relations, *each.reads))
        seconds = {name: self._seconds(name, sizes, inputs) for name in names}
        self.rows = {name: float(sizes.statistics(name).rows) for name in names}
        counted = names.keys() - {*self.asked}  # only the number of their rows is read
        for rule in (rule for each in left for rule in each.rules):
            counted -= {a.name for a in rule.atoms if not asks_for_counts(rule, (a.name,))}
        seconds.update(dict.fromkeys(sorted(counted), 0.0))
        known = {name: held for name in names if (held := self.relation(name)) is not None}
        here = {name for name, held in known.items() if held.store.on_host}
        lying = {name for name, held in known.items() if held.store.on_device is not None}
        least = Work(thresholds.gpu_from, turns=0.0).on_cores(thresholds, threads)
        least += thresholds.gpu_opening if self.alone else 0.0
        least = 0.0 if lying - here else least
        draft = PlacementDraft(placeable, seconds, here, lying, sorted(self.asked), least)
        place_strata(draft)
        self.on_device = draft.on_device

    def statistics(self, name: str) -> RelationStatistics | None:
        held = self.relation(name)
        return None if held is None or not held.types else held.statistics

    def _seconds(self, name: str, sizes: ProgramSizes, inputs: StratumInputs) -> float:
        """What it takes to copy a relation."""
        held = None if name in sizes.assumed else self.relation(name)
        if held is not None:
            return (held.nbytes if held.types else 0) / inputs.context.thresholds.gpu_bus
        rows = sizes.statistics(name).rows
        return rows * BYTES * inputs.schemas[name].arity / inputs.context.thresholds.gpu_bus


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
    program = inputs.placement or ProgramPlacement([stratum], _lower(stratum, inputs), _own(inputs))
    sizes = ProgramSizes(program.statistics, program.given)
    expected = sizes.add(stratum, _arities(stratum, inputs))
    work = work_of(on_cpu, expected, context)
    own = _placeable(stratum, work, work if work.everywhere else _usual(stratum, expected), context)
    if not program.pays(own, sizes, inputs):
        return Placed(on_cpu, "cpu", _why(work, expected, own, program, False))
    if later.open() is None:
        return Placed(on_cpu, "cpu", later.why_not)
    gpu = later.device
    assert gpu is not None
    found = plan(there(inputs, gpu.name))
    if isinstance(found, OnHost):
        return Placed(found.then, "cpu", found.reason)
    if not work.everywhere:
        own = _placeable(stratum, work, work_of(found, expected, context), context)
        if not program.pays(own, sizes, inputs):
            return Placed(on_cpu, "cpu", _why(work, expected, own, program, False))
    if isinstance(found, Once) and len(stratum.rules) > 1:
        draft = StratumDraft(stratum, here)
        pairs = zip(stratum.rules, found.of.plans, strict=True)
        plans = tuple((_left(rule, own, draft), later) for rule, (own, later) in pairs)
        found = Once(replace(found.of, plans=plans))
    return Placed(found, gpu.name, _why(work, expected, own, program, True))


def _placeable(
    stratum: Stratum, here: Work, there: Work, context: ExecutionContext
) -> PlaceableStratum:
    thresholds, threads = context.thresholds, context.settings.workers
    reads = sorted({a.name for rule in stratum.rules for a in rule.atoms} - {*stratum.relations})
    cpu, device = here.on_cores(thresholds, threads), there.on_device(thresholds)
    return PlaceableStratum(stratum.relations, reads, cpu, device)


def _usual(stratum: Stratum, expected: Expected) -> Work:
    """What evaluates a stratum as far as is known before it is planned for a device."""
    rules = max(1, len(stratum.rules))
    if not stratum.recursive:
        return Work(expected.looked, turns=rules)
    turns = expected.rounds * rules
    return Work(expected.looked, new=expected.rows, turns=turns, launches=KERNELS)


def _why(
    work: Work, expected: Expected, own: PlaceableStratum, program: ProgramPlacement, there: bool
) -> str:
    """What decides where a stratum runs: its work, and where the bytes lie that it reads."""
    read = [held for held in map(program.relation, own.reads) if held is not None and held.types]
    here = sum(held.nbytes for held in read if not held.store.on_device)
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
    read = [draft.inputs.relation(atom.name) for atom in rule.atoms]
    far = sum(held.nbytes for held in read if held.types and not held.store.on_host)
    cpu = work.on_cores(thresholds, context.settings.workers) + far / thresholds.gpu_bus
    if work.on_device(thresholds) < cpu:
        return plan
    return replace(here, left=looked_at(work.looked + work.arrays))


def _arities(stratum: Stratum, inputs: StratumInputs) -> dict[str, int]:
    return {name: inputs.schemas[name].arity for name in stratum.relations}


def _lower(stratum: Stratum, inputs: StratumInputs) -> Callable[[str], Relation | None]:
    """The relations that a stratum reads."""
    return lambda name: None if name in stratum.relations else inputs.relation(name)


def _own(inputs: StratumInputs) -> Callable[[str], float]:
    """The rows that relations of a stratum have without its rules."""
    return lambda name: float(sum(map(count_of, inputs.seeds.get(name, ()))))
