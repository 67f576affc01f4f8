"""Answers by magic sets: evaluates the rewritten program where that pays.

The rewritten program reads results that are cached or that the text computes in full anyway.
Relations that hold only a part of others live for one call and are not cached.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from weakref import ref

from gdatalog.account import spending
from gdatalog.engine.device import CPU
from gdatalog.engine.programs.fact_list import FactList
from gdatalog.engine.programs.prepared import CheckedText
from gdatalog.engine.session.evaluation import Evaluation
from gdatalog.errors import Error, Note
from gdatalog.planner.check import Stratum
from gdatalog.planner.rewrite.adornments import plain
from gdatalog.planner.rewrite.magic_sets import MagicProgram, magic_program
from gdatalog.planner.rewrite.recursion_cost import World
from gdatalog.planner.statistics import RelationStatistics
from gdatalog.records import dataclass, field
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


@dataclass(slots=True)
class Rewritten:
    """A rewritten program, and the relations whose statistics it depends on."""

    program: MagicProgram
    text: CheckedText | None
    looked_at: Mapping[str, ref[Relation]] = field(default_factory=dict)
    covered: str = ""  # why it was not used the last time


def answer(
    evaluation: Evaluation, name: str, limit: int | None = None, whole: Collection[str] = ()
) -> Relation:
    """Returns a relation, or at most `limit` rows; relations of `whole` are evaluated anyway."""
    found = part_of(evaluation, name, whole)
    if found is None:
        return evaluation.relation(name) if limit is None else evaluation.first(name, limit)
    with speaking_plainly():
        relation = found.relation(name) if limit is None else found.first(name, limit)
    for known, full in found._known.items():
        if plain(known) == known and (known != name or limit is None):
            evaluation._known.setdefault(known, full)
    return relation


def part_of(evaluation: Evaluation, name: str, whole: Collection[str] = ()) -> Evaluation | None:
    """An evaluation of only the needed part of a relation; None if magic sets are not used."""
    rewritten = rewritten_for(evaluation, name, whole)
    if rewritten is None or rewritten.text is None:
        return None
    given, asked = rewritten.program.given, rewritten.text.checked.facts

    def facts(name: str) -> FactList:
        """The facts of a relation: the user's, or the requested values of a magic set."""
        users = given.get(name, name)
        return evaluation.facts(users) if _is_users(users) else FactList(asked.get(name, ()))

    def keep(names: Collection[str]) -> bool:
        return all(map(_is_users, names)) and evaluation.keep(names)

    context, stored = evaluation.context, Overlay(evaluation.stored, given)
    known, asks = evaluation.remembered, evaluation.asked
    part = Evaluation(context, rewritten.text, stored, facts, known, keep, asks)
    part._known.update(evaluation._known)
    rewritten.covered = ""
    for magic in rewritten.program.measured:
        with speaking_plainly():
            count = part.relation(magic.magic).length
        if count > evaluation.context.tuning.magic_sets_share_found * magic.values:
            rewritten.covered = (
                f"{magic.relation} is evaluated in full: {count:,} of {magic.values:,.0f} values "
                "would be asked for"
            )
            return None
    return part


def rewritten_for(
    evaluation: Evaluation, name: str, whole: Collection[str] = ()
) -> Rewritten | None:
    """The program for a relation, rewritten or not, and why; None where there is no choice."""
    context, knobs = evaluation.context, evaluation.context.knobs
    # cached relations are evaluated in full, once
    if knobs.magic_sets == "never" or name in evaluation._known or evaluation.keep([name]):
        return None
    below = derived_below(evaluation, name)
    if not below:
        return None
    there = {*found_there(evaluation, below), *(own for own in below if own in whole)}
    data = {own for own in below if own in evaluation.stored}
    key = (name, knobs, frozenset(there), frozenset(data))
    found: Rewritten | None = evaluation.text.rewritten.get(key)
    if found is not None and all(
        held() is evaluation.relation(own) for own, held in found.looked_at.items()
    ):
        return found
    looked_at: dict[str, Relation] = {}

    def is_here(own: str) -> bool:
        context.limits.poll()
        return own in there

    def size(own: str) -> RelationStatistics | None:
        context.limits.poll()
        if own in whole or own not in evaluation.checked.schemas:
            return None
        if own in evaluation._home and own not in there:
            return None
        looked_at[own] = evaluation.relation(own)
        return looked_at[own].statistics

    allowed = knobs.split != "never" and knobs.strategy != "levelwise"
    worklists = allowed and context.device is CPU
    world = World(is_here, data.__contains__, size, context.limit_sizes, worklists, context.tuning)
    with spending("planning"):
        program = magic_program(evaluation.checked, name, world, knobs.magic_sets == "always")
    text = None if program.checked is None else CheckedText(program.checked)
    held = {own: ref(relation) for own, relation in looked_at.items()}
    made = Rewritten(program, text, held)
    evaluation.text.rewritten[key] = made
    return made


def derived_below(evaluation: Evaluation, name: str) -> list[str]:
    """The derived relations that a nonrecursive relation reads."""
    home = evaluation._home
    if name not in home or home[name].recursive:
        return []
    found: dict[str, None] = {}
    waiting = [*evaluation._reads(home[name])]
    while waiting:
        at_hand = waiting.pop()
        if at_hand in home and at_hand not in found:
            found.update(dict.fromkeys(home[at_hand].relations))
            waiting += evaluation._reads(home[at_hand])
    return list(found)


def found_there(evaluation: Evaluation, names: Collection[str]) -> set[str]:
    """Those of some derived relations, which include all below them, that are evaluated, and can be
    maintained if their inputs changed."""
    found: set[str] = set()
    names = set(names)
    for stratum in evaluation.checked.strata:
        own = names.intersection(stratum.relations)
        if own and not _is_there(evaluation, stratum, found):
            own &= evaluation._known.keys()
        found |= own
    return found


def _is_there(evaluation: Evaluation, stratum: Stratum, there: Collection[str]) -> bool:
    before = evaluation.remembered.get(stratum.relations)
    reads = [name for name in evaluation._reads(stratum) if name in evaluation._home]
    if before is None or not all(name in there for name in reads):
        return False
    made_of, below = evaluation._made_of(stratum), evaluation._below(stratum)
    return before.fresh(made_of, below) or evaluation.news(stratum) is not None


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
