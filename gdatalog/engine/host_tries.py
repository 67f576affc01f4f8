"""The memory of a rule's tries: an estimate, and slices of host-resident tries that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from weakref import ReferenceType, WeakKeyDictionary

from gdatalog.account import Account, default_limit
from gdatalog.engine.context import ExecutionContext, Sources
from gdatalog.engine.device import CPU
from gdatalog.engine.index_memory import AtHand, memory_asked
from gdatalog.limits import Limits
from gdatalog.plan import cells, slices
from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import (
    Constant,
    Expr,
    Join,
    JoinPlan,
    Parameter,
    RulePlan,
    Slot,
    TrieRef,
)
from gdatalog.plan.nest import Paths, recoded
from gdatalog.plan.schedule import CellPlanner, Level
from gdatalog.records import dataclass, field
from gdatalog.storage.keys import encode_value
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie
from gdatalog.storage.trie_slices import sizes_of

FINE = 6  # leading bits of the room in the cache key of schedules
MOST_KNOWN = 16  # cached schedules of one trie
KEY = 8  # bytes of a value or an offset, at most
SURELY = 1 << 24  # bytes that fit any device
# Share of a device's memory for slices; the rest is for scratch, rows and groups. Twice the room
# takes a quarter of the cells. Where levels keep lists, or rows of bits, for deeper ones, more room
# for these lets more tiles run.
SLICES, SLICES_ALONE, SLICES_BESIDE_LISTS = 0.6, 0.8, 0.5


Living = tuple[ReferenceType[Trie], ...]
# Cached schedules, by their first trie. They identify tries by id, so they are valid only while all
# of these exist.
_SCHEDULES: WeakKeyDictionary[Trie, dict[Hashable, tuple[Living, slices.Schedule | str]]]
_SCHEDULES = WeakKeyDictionary()
# Cached sizes of slices.
_SIZES: WeakKeyDictionary[Trie, tuple[slices.Numbers, slices.Numbers]] = WeakKeyDictionary()


def too_large(plans: Sequence[RulePlan], relation_of: AtHand, context: ExecutionContext) -> bool:
    """Whether the indexes that plans read together, with the rows that they are built from, are
    expected to exceed the device's room. Relations that are not evaluated yet count as empty."""
    device, limits = context.device, context.limits
    if device is CPU:
        return False
    refs = {ref for plan in plans for join in plan.joins for ref in join.tries}
    relations = known_of(refs, relation_of)
    most = sum(KEY * found.at_most * len(found.types) for found in relations.values())
    for ref in refs:
        if ref.relation in relations:  # at most a value and an offset at each level
            entries = 2 * relations[ref.relation].at_most * (1 + ref.ranked)
            most += KEY * entries * (len(ref.columns) + ref.weighted)
    if most <= min(SURELY, limits.spare()):
        return False  # without querying the device
    room = device.index_room(limits)
    if room is None or most <= room:
        return False
    every = [index for plan in plans for index in memory_asked(plan, relations.get, device)]
    asked = {(index.relation, index.columns, index.bytes): index for index in every}.values()
    made_of = {index.relation for index in asked if not index.there and index.rows is not None}
    rows = sum(relations[name].store.nbytes for name in made_of if relations[name].types)
    return sum(index.bytes or 0 for index in asked) + rows > room


def known_of(refs: Iterable[TrieRef], relation_of: AtHand) -> dict[str, Relation]:
    """The referenced relations that are evaluated already."""
    found = {name: relation_of(name) for name in {ref.relation for ref in refs}}
    return {name: relation for name, relation in found.items() if relation is not None}


@contextmanager
def on_the_host(limits: Limits) -> Iterator[None]:
    """Within this context, memory is charged to the machine's limit and not to the device's; rows
    beyond that limit go to temporary files."""
    watch, before = limits.watch, limits.watch.account
    watch.account = Account(default_limit(), limits.spill)
    try:
        yield
    finally:
        watch.account = before


@dataclass(slots=True)
class HostTries:
    """A rule's tries on the host, by the references of its plan."""

    sources: Sources
    limits: Limits
    of: dict[TrieRef, Trie] = field(default_factory=dict)
    sizes: dict[Hashable, slices.Sizes] = field(default_factory=dict)

    def add(self, join: JoinPlan) -> None:
        with on_the_host(self.limits):
            for ref in join.tries:
                if ref in self.of:
                    continue
                trie = self.of[ref] = self.sources.trie_of(ref)
                if trie.levels:
                    if trie not in _SIZES:
                        _SIZES[trie] = sizes_of(trie)
                    self.sizes[id(trie)] = slices.Sizes(trie.levels[0].values, *_SIZES[trie])

    @property
    def by_index(self) -> dict[Hashable, Trie]:
        return {id(trie): trie for trie in self.of.values()}


def share_of_slices(plan: RulePlan) -> float:
    for join in plan.joins:
        reused = any(isinstance(step, Join) and step.reuse for step in all_steps(join.steps))
        if reused or recoded(join.steps, Paths.of(join)):
            return SLICES_BESIDE_LISTS
    return SLICES_ALONE if plan.gathers and not plan.keys else SLICES


def room_for_slices(plan: RulePlan, context: ExecutionContext) -> int:
    free, _ = context.device.room(0)
    room = int(share_of_slices(plan) * min(free, context.limits.spare()))
    return room - room % (1 << max(0, room.bit_length() - FINE))


def scheduled(
    join: JoinPlan, tries: HostTries, context: ExecutionContext, room: int
) -> slices.Schedule | str:
    """The cells of a join over host tries, or the reason why there are none.

    A schedule is cached for the same tries and similar room, because the search for one takes
    longer than some joins.
    """
    if join.given is not None:
        return "it follows given rows, and its indexes do not fit"
    labels = sum(trie.labels.nbytes for trie in tries.by_index.values() if trie.labels is not None)
    uses = uses_of(join, context, lambda ref: id(tries.of[ref]))
    how = cells.orders(join), room - labels, context.thresholds.cell_bytes, levels_of(join)
    used = [trie for trie in tries.by_index.values() if trie.levels]
    known = _SCHEDULES.setdefault(used[0], {}) if used else {}
    found = known.get((uses, how))
    if found is not None and all(trie() is not None for trie in found[0]):
        return found[1]
    if len(known) >= MOST_KNOWN:
        known.clear()
    result = CellPlanner(uses, dict(tries.sizes), *how, context.limits.poll).schedule()
    known[uses, how] = tuple(map(ReferenceType, used)), result
    return result


def uses_of(
    join: JoinPlan, context: ExecutionContext, index_of: Callable[[TrieRef], Hashable]
) -> tuple[slices.IndexUse, ...]:
    """How a join uses its indexes, which `index_of` identifies."""
    whole, pairs = cells.needed(join), enumerate(zip(join.tries, cells.roots(join), strict=True))
    return tuple(
        slices.IndexUse(index_of(ref), root_of(term, context), number in whole)
        for number, (ref, term) in pairs
        if ref.columns
    )


def levels_of(join: JoinPlan) -> tuple[Level, ...]:
    """The expected results of each level, and the variables that are bound below it."""
    found: list[Level] = []
    deeper: frozenset[str] = frozenset()
    for step in reversed(join.steps):
        if isinstance(step, Join):
            if deeper:
                found.append((step.estimate, deeper))
            deeper |= {step.variable}
    return tuple(found)


def root_of(term: Expr | None, context: ExecutionContext) -> str | int | None:
    scope = context.scope
    if isinstance(term, Slot):
        return term.name
    if isinstance(term, Constant):
        return encode_value(term.value, term.type, scope.symbols)
    if isinstance(term, Parameter):
        return encode_value(scope.params[term.name], term.type, scope.symbols)
    return None


def labels_of(join: JoinPlan, found: slices.Schedule) -> list[str]:
    """What selects the rows of each trie that a cell reads: a cut variable, a constant, or
    nothing."""
    labels = []
    for ref, term in zip(join.tries, cells.roots(join), strict=True):
        if isinstance(term, Slot):
            labels.append(term.name if term.name in found.ranges and ref.columns else "")
        elif isinstance(term, Constant):
            labels.append(f"= {term.value!r}")
        else:
            labels.append(f"= ${term.name}" if isinstance(term, Parameter) else "")
    return labels


def read(
    cut: JoinPlan,
    turn: slices.CellSlices,
    whole: Mapping[TrieRef, Trie],
    slice_of: Callable[[slices.Slice, str], Trie],
) -> dict[TrieRef, Trie]:
    """The slices of a cell; a trie without columns is a count and has no slice."""
    mine = iter(turn.slices)
    return {
        ref: slice_of(next(mine), ref.sliced) if ref.columns else whole[ref] for ref in cut.tries
    }
