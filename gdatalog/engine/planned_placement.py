"""Predicts how a rule runs whose indexes do not fit the device, before they are built."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial

import numpy as np

from gdatalog.engine.context import ExecutionContext
from gdatalog.engine.device import HOST
from gdatalog.engine.host_tries import (
    HostTries,
    known_of,
    levels_of,
    room_for_slices,
    root_of,
    scheduled,
    too_large,
)
from gdatalog.engine.memory_estimate import memory_asked
from gdatalog.engine.pages import paging
from gdatalog.engine.sources import Sources
from gdatalog.plan.cells import IndexUse, Schedule, Sizes, needed, orders, roots
from gdatalog.plan.nodes import JoinPlan, RulePlan, TrieRef
from gdatalog.plan.placement import InCells, InPages
from gdatalog.plan.schedule import READ_COSTS, SECTOR, in_bits, reads, schedule, takes_pages
from gdatalog.printer.layouts import MOST_TILE_ROWS
from gdatalog.records import dataclass
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie

EVENLY = 1 << 12  # sample values for an index that does not exist


@dataclass(frozen=True, slots=True)
class PlannedPlacement:
    """The cells of a rule's joins, and the indexes that are read in place; or the reason why the
    CPU runs it (`left`)."""

    cells: InCells | None = None
    pages: InPages | None = None
    left: str | None = None


def plan_placement(
    plan: RulePlan,
    relation_of: Callable[[str], Relation | None],
    context: ExecutionContext,
) -> PlannedPlacement:
    """Returns an empty placement if a rule's indexes fit the device."""
    device, limits = context.device, context.limits
    if not too_large([plan], relation_of, device, limits):
        return PlannedPlacement()
    refs = {ref for join in plan.joins for ref in join.tries}
    relations = known_of(refs, relation_of)
    if any(ref.relation not in relations for ref in refs):
        return PlannedPlacement(InCells())  # their number is unknown
    tries = {ref: HOST.made(relations[ref.relation], ref) for ref in refs}
    known = {ref: trie for ref, trie in tries.items() if trie is not None}
    whole = len(known) == len(tries)  # an earlier run has left them all
    cells: InCells | None = None
    pages: InPages | None = None
    by = _by_tries(plan, known, context) if whole else _by_statistics(plan, relations, context)
    for found, paged in by:
        if paged is not None:
            pages = (pages or InPages()).with_join(paged)
        elif isinstance(found, str):
            return PlannedPlacement(left=found)
        else:
            cells = (cells or InCells()).with_join(found)
    return PlannedPlacement(cells, pages)


# For each join its cells, or why there are none; and its pages if they are expected to cost less.
Placements = Iterator[tuple[Schedule | str, InPages | None]]


def _by_tries(
    plan: RulePlan, there: Mapping[TrieRef, Trie], context: ExecutionContext
) -> Placements:
    """Plans by the host's tries."""
    tries = HostTries(Sources(there.__getitem__), context.limits)
    room = room_for_slices(plan, context.device, context.limits)
    for join in plan.joins:
        tries.add(join)
        found = scheduled(join, tries, context, room)
        paged = paging(join, tries, context, room, found)
        yield found, None if paged is None else paged.placement


def _by_statistics(
    plan: RulePlan, relations: Mapping[str, Relation], context: ExecutionContext
) -> Placements:
    """Plans by the expected sizes of indexes."""
    asked = memory_asked(plan, relations.get, context.device)
    bytes_of = {
        (index.relation, index.columns): index.bytes for index in asked if index.bytes
    }  # a prefix of another index takes nothing
    size, most = sum(bytes_of.values()), max(bytes_of.values(), default=1)
    refs = {ref for join in plan.joins for ref in join.tries if ref.columns}
    whole = {ref: bytes_of.get((ref.relation, ref.columns)) or most for ref in refs}
    sizes: dict[Hashable, Sizes] = {
        ref: _evenly(relations[ref.relation], ref, held) for ref, held in whole.items()
    }
    room = room_for_slices(plan, context.device, context.limits)
    for join in plan.joins:
        necessary = needed(join)
        uses = [
            IndexUse(ref, root_of(term, context), number in necessary)
            for number, (ref, term) in enumerate(zip(join.tries, roots(join), strict=True))
            if ref.columns
        ]
        overhead = context.tuning.cell_bytes
        found = schedule(uses, sizes, orders(join), room, overhead, levels_of(join))
        bits = in_bits(join, partial(_longest, relations), MOST_TILE_ROWS)
        paged = _in_pages(join, relations, size, whole, room, bits)
        yield found, paged.placement if _by_pages(bits, found, paged, context) else None


@dataclass(frozen=True, slots=True)
class _Paged:
    placement: InPages
    cost: float  # in bytes over the link


def _longest(relations: Mapping[str, Relation], ref: TrieRef, depth: int) -> int:
    """The longest list of a level of an index, at the most."""
    relation = relations[ref.relation]
    if depth != 1:
        return relation.at_most
    return relation.statistics.degrees(ref.columns[0], ref.tests, ref.ranked).most


def _by_pages(
    bits: set[str], cells: Schedule | str, paged: _Paged, context: ExecutionContext
) -> bool:
    how = context.knobs.host_indexes
    if how != "auto":
        return how == "pages"
    return takes_pages(bits, cells, paged.cost, context.tuning.cell_bytes)


def _in_pages(
    join: JoinPlan,
    relations: Mapping[str, Relation],
    size: int,
    whole: Mapping[TrieRef, int],
    room: int,
    bits: set[str],
) -> _Paged:
    """The expected traffic of reading in place, if all lists are equally likely to be on the
    device."""
    cold, bytes_, cost = max(0.0, 1 - room / max(1, size)), 0.0, float(size)
    for read in reads(join, lambda _: None, bits):
        ref = join.tries[read.trie]
        if not ref.columns or not read.depth:
            continue
        length = SECTOR
        if not read.counted and not read.searched:
            rows = max(1, relations[ref.relation].at_most)
            length = int(whole[ref] / rows * _met(ref, relations[ref.relation], read.depth))
        bytes_ += cold * read.times * max(SECTOR, length)
        cost += cold * read.times * max(READ_COSTS, length)
    return _Paged(InPages(size, min(room, size), int(bytes_)), cost)


def _met(ref: TrieRef, relation: Relation, depth: int) -> float:
    """The expected length of a list that a binding leads to."""
    statistics = relation.statistics
    if depth == 1:
        powers = statistics.degrees(ref.columns[0], ref.tests, ref.ranked).powers
        return powers[2] / max(1.0, powers[1])
    before = statistics.distinct(frozenset(ref.columns[:depth]))
    return statistics.distinct(frozenset(ref.columns[: depth + 1])) / max(1, before)


def _evenly(relation: Relation, ref: TrieRef, size: int) -> Sizes:
    """An index whose values are spread evenly between the least and the greatest, each with equally
    many rows."""
    count = min(EVENLY, max(1, relation.statistics.distinct(frozenset(ref.columns[:1]))))
    low, high = (0, count) if ref.ranked else relation.spans[ref.columns[0]]
    keys = np.linspace(low, high, count, dtype=np.int64)
    before = np.linspace(0, size, count + 1, dtype=np.int64)
    return Sizes(keys, before, before)
