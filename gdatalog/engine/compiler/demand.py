"""Rewrites a program for the needed part of a relation (magic sets), before it is planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from weakref import ref

from gdatalog.cancellation import current_watch
from gdatalog.engine.compiler.compiled import Demanded, PlannedProgram
from gdatalog.engine.compiler.plans import RelationOf
from gdatalog.overhead import spending
from gdatalog.planner.rewrite.magic_sets import magic_program
from gdatalog.planner.rewrite.recursion_cost import World
from gdatalog.planner.statistics import RelationStatistics
from gdatalog.records import dataclass
from gdatalog.settings import Settings, Thresholds
from gdatalog.storage.relation import Relation


@dataclass(frozen=True, slots=True)
class Demand:
    """What decides how a program is rewritten for relation `name`, besides statistics. `there`: the
    derived relations below it that are evaluated, or will be; `data`: those that have data."""

    name: str
    settings: Settings
    there: frozenset[str]
    data: frozenset[str]


def demanded(
    program: PlannedProgram,
    demand: Demand,
    relation: RelationOf,
    measurable: Callable[[str], bool],
    limit_sizes: Mapping[str, int],
    worklists: bool,
    thresholds: Thresholds,
) -> Demanded:
    """A program rewritten for a demand, once while the relations stay the same whose statistics
    decide. `measurable`: whether a relation has statistics without an evaluation."""
    found = program.demanded.get(demand)
    if found is not None and all(
        held() is relation(name) for name, held in found.looked_at.items()
    ):
        return found
    watch = current_watch()
    looked_at: dict[str, Relation] = {}

    def size(name: str) -> RelationStatistics | None:
        watch.poll()
        if not measurable(name):
            return None
        looked_at[name] = relation(name)
        return looked_at[name].statistics

    world = World(demand.there, demand.data, size, limit_sizes, worklists, thresholds)
    with spending("planning"):
        always = demand.settings.magic_sets == "always"
        made = magic_program(program.checked, demand.name, world, always)
    planned = None if made.checked is None else PlannedProgram(made.checked)
    held = {name: ref(relation) for name, relation in looked_at.items()}
    program.demanded[demand] = new = Demanded(made, planned, held)
    return new
