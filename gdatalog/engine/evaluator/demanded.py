"""Answers of which only a part is needed: evaluates the program that magic sets rewrote for it.

The rewritten program reads results that are cached or that the text computes in full anyway.
Relations that hold only a part of others live for one call and are not cached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from gdatalog.engine.catalog.fact_list import FactList
from gdatalog.engine.compiler.compiled import Demanded, PlannedProgram
from gdatalog.engine.compiler.demand import Demand, demanded
from gdatalog.engine.context import ExecutionContext
from gdatalog.engine.device import CPU
from gdatalog.engine.evaluator.asked_parts import asked_parts
from gdatalog.engine.evaluator.evaluator import Evaluator
from gdatalog.engine.evaluator.kept_plans import KeptPlans
from gdatalog.engine.evaluator.results import Keeps, Results
from gdatalog.errors import Error, Note
from gdatalog.planner.rewrite.adornments import plain
from gdatalog.records import dataclass, replace
from gdatalog.storage.relation import Relation


@dataclass(frozen=True, slots=True)
class Overlay(Mapping[str, Relation]):
    """Stored relations, some of them under a second name."""

    stored: Mapping[str, Relation]
    given: Mapping[str, str]

    def __getitem__(self, name: str) -> Relation:
        return self.stored[self.given.get(name, name)]

    def __contains__(self, name: object) -> bool:
        return self.given.get(str(name), name) in self.stored

    def __iter__(self) -> Iterator[str]:
        yield from self.stored
        yield from (name for name, own in self.given.items() if own in self.stored)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@contextmanager
def answering(
    evaluator: Evaluator, name: str, limited: bool, whole: Collection[str] = ()
) -> Iterator[Evaluator]:
    """What evaluates a relation within this context: the evaluator, or that of its needed part.
    `limited`: only some rows are asked for. Relations of `whole` are evaluated anyway."""
    found = demanded_for(evaluator, name, whole)
    asked = asked_parts(evaluator, found)
    if asked is not None and asked.evaluated(evaluator):
        found = demanded_for(evaluator, name, whole)  # perhaps of other views
        asked = asked_parts(evaluator, found)
    part = part_of(evaluator, found)
    if part is None:
        yield evaluator
        return
    with speaking_plainly():
        yield part
    if asked is not None:
        asked.count(part.known)
    for known, full in part.known.items():
        if plain(known) == known and not (limited and known == name):
            evaluator.known.setdefault(known, full)


@dataclass(slots=True, eq=False)
class PartOf:
    """How the needed part of a relation is evaluated: the rewritten program, and what the evaluator
    of the whole relation reads."""

    demanded: Demanded
    stored: Mapping[str, Relation]
    facts: Callable[[str], FactList]
    results: Results
    keep: Keeps
    asked: Collection[str]
    number: int

    @staticmethod
    def of(demanded: Demanded, whole: Evaluator) -> PartOf:
        return PartOf(
            demanded, whole.stored, whole.facts, whole.results, whole.keep, whole.asked,
            whole.number,
        )  # fmt: skip

    def whole(self, context: ExecutionContext, program: PlannedProgram) -> Evaluator:
        """An evaluator of the whole relations, by the program as it was."""
        return Evaluator(
            context, program, self.stored, self.facts, self.results, self.keep, self.asked,
            number=self.number,
        )  # fmt: skip

    def evaluator(
        self,
        context: ExecutionContext,
        known: Mapping[str, Relation],
        kept_plans: KeptPlans | None = None,
    ) -> Evaluator | None:
        """An evaluator of the part; None if it would be most of a relation. `known`: relations that
        are evaluated."""
        program, planned = self.demanded.program, self.demanded.planned
        assert planned is not None
        stored = Overlay(self.stored, program.given)
        keep = replace(self.keep, users=True)
        own = context, planned, stored, self._facts, self.results, keep, self.asked
        part = Evaluator(*own, known=dict(known), kept_plans=kept_plans, number=self.number)
        self.demanded.covered = ""
        for magic in program.measured:
            with speaking_plainly():
                count = part.relation(magic.magic).length
            if count > context.thresholds.magic_sets_share_found * magic.values:
                self.demanded.covered = (
                    f"{magic.relation} is evaluated in full: {count:,} of {magic.values:,.0f} "
                    "values would be asked for"
                )
                return None
        return part

    def _facts(self, name: str) -> FactList:
        """The facts of a relation: the user's, or the requested values of a magic set."""
        planned, users = self.demanded.planned, self.demanded.program.given.get(name, name)
        assert planned is not None
        return (
            self.facts(users) if _is_users(users) else FactList(planned.checked.facts.get(name, ()))
        )

    def lasting(self, part: Evaluator, name: str) -> dict[str, Relation]:
        """Of what an evaluator of the part has evaluated: the relations that do not depend on which
        part is asked for, by relation `name`."""
        planned = self.demanded.planned
        assert planned is not None
        return {
            own: relation
            for own, relation in part.known.items()
            if (own not in planned.homes and own not in planned.checked.facts)
            or (_is_users(own) and own != name)
        }


def part_of(evaluator: Evaluator, found: Demanded | None) -> Evaluator | None:
    """An evaluator of only the needed part of a relation; None if magic sets are not used."""
    if found is None or found.planned is None:
        return None
    return PartOf.of(found, evaluator).evaluator(evaluator.context, evaluator.known)


def demanded_for(evaluator: Evaluator, name: str, whole: Collection[str] = ()) -> Demanded | None:
    """The program for a relation, rewritten or not, and why; None where there is no choice."""
    context, settings = evaluator.context, evaluator.context.settings
    # cached relations are evaluated in full, once
    if settings.magic_sets == "never" or name in evaluator.known or evaluator.keep([name]):
        return None
    below = derived_below(evaluator.program, name)
    if not below:
        return None
    there = frozenset((*found_there(evaluator, below), *(own for own in below if own in whole)))
    data = frozenset(own for own in below if own in evaluator.stored)
    homes, schemas = evaluator.program.homes, evaluator.checked.schemas

    def measurable(own: str) -> bool:
        return own not in whole and own in schemas and (own not in homes or own in there)

    allowed = settings.split != "never" and settings.strategy != "levelwise"
    return demanded(
        evaluator.program, Demand(name, settings, there, data), evaluator.relation, measurable,
        context.limit_sizes, allowed and context.device is CPU, context.thresholds,
    )  # fmt: skip


def derived_below(program: PlannedProgram, name: str) -> list[str]:
    """The derived relations that a nonrecursive relation reads."""
    homes = program.homes
    if name not in homes or homes[name].recursive:
        return []
    found: dict[str, None] = {}
    waiting = [*program.reads(homes[name])]
    while waiting:
        at_hand = waiting.pop()
        if at_hand in homes and at_hand not in found:
            found.update(dict.fromkeys(homes[at_hand].relations))
            waiting += program.reads(homes[at_hand])
    return list(found)


def found_there(evaluator: Evaluator, names: Collection[str]) -> set[str]:
    """Those of some derived relations, which include all below them, that are evaluated, and can be
    maintained if their inputs changed."""
    program = evaluator.program
    found: set[str] = set()
    names = set(names)
    for stratum in program.checked.strata:
        own = names.intersection(stratum.relations)
        if not own:
            continue
        below = [name for name in program.reads(stratum) if name in program.homes]
        if not (found.issuperset(below) and evaluator.is_current(stratum)):
            own &= evaluator.known.keys()
        found |= own
    return found


@contextmanager
def speaking_plainly() -> Iterator[None]:
    """Within this context, errors name the relations that the user knows."""
    try:
        yield
    except Error as error:
        for each in error.all:
            each.message = plain(each.message)
            each.args = (each.message,)
            each.hint = None if each.hint is None else plain(each.hint)
            each.notes = tuple(Note(plain(note.message), note.span) for note in each.notes)
        raise


def _is_users(name: str) -> bool:
    return plain(name) == name
