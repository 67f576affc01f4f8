"""The memory of a rule's tries: an estimate, and slices of host-resident tries that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from weakref import ReferenceType, WeakKeyDictionary

from gdatalog.account import Account, default_limit
from gdatalog.calls import Limits
from gdatalog.engine.context import ExecutionContext, Sources
from gdatalog.engine.device import CPU, Device
from gdatalog.plan import cells
from gdatalog.plan.effects import all_steps, relations_read
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


# Returns a relation by name; None if it is not evaluated yet.
AtHand = Callable[[str], Relation | None]
Living = tuple[ReferenceType[Trie], ...]
# Cached schedules, by their first trie. They identify tries by id, so they are valid only while all
# of these exist.
_SCHEDULES: WeakKeyDictionary[Trie, dict[Hashable, tuple[Living, cells.Schedule | str]]]
_SCHEDULES = WeakKeyDictionary()
# Cached sizes of slices.
_SIZES: WeakKeyDictionary[Trie, tuple[cells.Numbers, cells.Numbers]] = WeakKeyDictionary()


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
    sizes: dict[Hashable, cells.Sizes] = field(default_factory=dict)

    def add(self, join: JoinPlan) -> None:
        with on_the_host(self.limits):
            for ref in join.tries:
                if ref in self.of:
                    continue
                trie = self.of[ref] = self.sources.trie_of(ref)
                if trie.levels:
                    if trie not in _SIZES:
                        _SIZES[trie] = sizes_of(trie)
                    self.sizes[id(trie)] = cells.Sizes(trie.levels[0].values, *_SIZES[trie])

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
) -> cells.Schedule | str:
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
    result = CellPlanner(uses, dict(tries.sizes), *how).schedule()
    known[uses, how] = tuple(map(ReferenceType, used)), result
    return result


def uses_of(
    join: JoinPlan, context: ExecutionContext, index_of: Callable[[TrieRef], Hashable]
) -> tuple[cells.IndexUse, ...]:
    """How a join uses its indexes, which `index_of` identifies."""
    whole, pairs = cells.needed(join), enumerate(zip(join.tries, cells.roots(join), strict=True))
    return tuple(
        cells.IndexUse(index_of(ref), root_of(term, context), number in whole)
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


def labels_of(join: JoinPlan, found: cells.Schedule) -> list[str]:
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
    turn: cells.CellSlices,
    whole: Mapping[TrieRef, Trie],
    slice_of: Callable[[cells.Slice, str], Trie],
) -> dict[TrieRef, Trie]:
    """The slices of a cell; a trie without columns is a count and has no slice."""
    mine = iter(turn.slices)
    return {
        ref: slice_of(next(mine), ref.sliced) if ref.columns else whole[ref] for ref in cut.tries
    }


# The memory of the indexes that a rule's plan will read, estimated before it runs.


OFFSET, WEIGHT = 8, 8  # bytes of a list's start, and of the row count of an entry


@dataclass(frozen=True, slots=True)
class AskedIndex:
    """An index that a plan reads: a trie of a relation with the levels `columns`.

    `there`: it exists, or is a prefix of one that does; otherwise `bytes` is the cost of building
    it. `exact`: the bytes are known, not estimated. `rows` and `bytes` of a relation that is not
    evaluated yet are None.
    """

    relation: str
    columns: tuple[int, ...]
    rows: int | None
    bytes: int | None
    there: bool = False
    exact: bool = False


def memory_asked(plan: RulePlan, at_hand: AtHand, device: Device) -> tuple[AskedIndex, ...]:
    """Estimates the indexes that a plan reads, without building or evaluating anything."""
    refs = relations_read(plan)  # those before an index may be longer ones that it begins
    return tuple(_index(ref, refs[:at], at_hand, device) for at, ref in enumerate(refs))


def _index(ref: TrieRef, made: Sequence[TrieRef], at_hand: AtHand, device: Device) -> AskedIndex:
    relation = at_hand(ref.relation) if ref.version == "full" else None
    if relation is None:
        return AskedIndex(ref.relation, ref.columns, None, None)
    trie = device.made(relation, ref)
    if trie is not None:
        rows = len(trie.levels[-1]) if trie.levels else trie.total
        return AskedIndex(ref.relation, ref.columns, rows, trie.nbytes, True, True)
    lengths = _lengths(ref, relation)
    if not ref.columns or any(_begins(before, ref, relation) for before in made):
        return AskedIndex(ref.relation, ref.columns, lengths[-1], 0, False, True)
    widths = [4 if ref.ranked else relation.width(column) for column in ref.columns]
    values = sum(length * width for length, width in zip(lengths, widths, strict=True))
    offsets = sum(OFFSET * (parents + 1) for parents in (1, *lengths[:-1]))
    weights = WEIGHT * lengths[-1] if ref.weighted else 0
    counted = map(relation.statistics.counted, _prefixes(ref))
    exact = not ref.tests and not ref.ranked and all(counted)
    size = values + offsets + weights
    return AskedIndex(ref.relation, ref.columns, lengths[-1], size, False, exact)


def _begins(whole: TrieRef, ref: TrieRef, relation: Relation) -> bool:
    """Whether an index is a prefix of another, or of a symmetric one with swapped columns."""
    same = (whole.relation, whole.ranked, whole.version) == (ref.relation, ref.ranked, ref.version)
    if not same or ref.weighted or not ref.columns:
        return False
    if whole.tests == ref.tests and whole.columns[: len(ref.columns)] == ref.columns:
        return True
    two = len(relation.types) == len(whole.columns) == 2 and not (whole.tests or ref.tests)
    turned = tuple(1 - column for column in whole.columns) if two else ()
    return two and relation.statistics.balanced and turned[: len(ref.columns)] == ref.columns


def _lengths(ref: TrieRef, relation: Relation) -> list[int]:
    """The number of entries of each level."""
    statistics = relation.statistics
    rows = statistics.size(ref.tests, ref.ranked)
    every = _prefixes(ref)
    if ref.ranked and len(every) > 0:
        first = round(statistics.degrees(ref.columns[0], ref.tests, True).powers[0])
        return [first, rows][: len(every)]
    return [min(rows, statistics.distinct(columns)) for columns in every] or [rows]


def _prefixes(ref: TrieRef) -> list[frozenset[int]]:
    """The columns down to each level."""
    return [frozenset(ref.columns[: depth + 1]) for depth in range(len(ref.columns))]
