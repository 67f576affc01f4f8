"""Reads indexes that do not fit the device in place, page by page, and plans where such rules run.

This is the alternative to cells (`engine/rules/in_cells.py`): the indexes stay on the host, and a
join runs in one piece. The expected traffic over the link decides which index pages are copied to
the device, and whether cells would move less.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache, partial

import numpy as np

from gdatalog.engine import host_tries, index_memory
from gdatalog.engine.context import ExecutionContext, Sources
from gdatalog.engine.device import HOST
from gdatalog.engine.paged_joins import paging
from gdatalog.plan import page_schedule, schedule
from gdatalog.plan.cells import orders
from gdatalog.plan.join_plan import JoinPlan, RulePlan, TrieRef
from gdatalog.plan.placement import InCells, InPages
from gdatalog.plan.slices import Schedule, Sizes
from gdatalog.printer.layouts import MOST_TILE_ROWS
from gdatalog.records import dataclass
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie

EVENLY = 1 << 12  # sample values for an index that does not exist


@dataclass(frozen=True, slots=True)
class PlannedPlacement:
    """The cells of a rule's joins, and the indexes that they read in place; or the reason why the
    CPU runs the rule (`left`)."""

    cells: InCells | None = None
    pages: InPages | None = None
    left: str | None = None


def plan_placement(
    plan: RulePlan, relation_of: Callable[[str], Relation | None], context: ExecutionContext
) -> PlannedPlacement:
    """Returns an empty placement if a rule's indexes fit the device."""
    if not host_tries.too_large([plan], relation_of, context):
        return PlannedPlacement()
    refs = {ref for join in plan.joins for ref in join.tries}
    relations = host_tries.known_of(refs, relation_of)
    if any(ref.relation not in relations for ref in refs):
        return PlannedPlacement(InCells())  # their number is unknown
    tries = {ref: HOST.made(relations[ref.relation], ref) for ref in refs}
    known = {ref: trie for ref, trie in tries.items() if trie is not None}
    whole = len(known) == len(tries)  # an earlier run has built them all
    cells: InCells | None = None
    pages: InPages | None = None
    by = _by_tries(plan, known, context) if whole else _by_statistics(plan, relations, context)
    for search, paged in by:
        if paged is not None:
            pages = (pages or InPages()).with_join(paged)
        elif isinstance(found := search(), str):
            return PlannedPlacement(left=found)
        else:
            cells = (cells or InCells()).with_join(found)
    return PlannedPlacement(cells, pages)


# For each join, what searches for its cells, or gives the reason against them; and its pages if
# these cost less.
Placements = Iterator[tuple[Callable[[], Schedule | str], InPages | None]]


def _by_tries(
    plan: RulePlan, there: Mapping[TrieRef, Trie], context: ExecutionContext
) -> Placements:
    """Plans by the host's tries."""
    tries = host_tries.HostTries(Sources(there.__getitem__), context.limits)
    room = host_tries.room_for_slices(plan, context)
    for join in plan.joins:
        tries.add(join)
        cells = partial(host_tries.scheduled, join, tries, context, room)
        paged = paging(join, tries, context, room, cells)
        yield cells, None if paged is None else paged.placement


def _by_statistics(
    plan: RulePlan, relations: Mapping[str, Relation], context: ExecutionContext
) -> Placements:
    """Plans by the expected sizes of indexes."""
    asked = index_memory.memory_asked(plan, relations.get, context.device)
    bytes_of = {
        (index.relation, index.columns): index.bytes for index in asked if index.bytes
    }  # a prefix of another index takes nothing
    size, most = sum(bytes_of.values()), max(bytes_of.values(), default=1)
    refs = {ref for join in plan.joins for ref in join.tries if ref.columns}
    whole = {ref: bytes_of.get((ref.relation, ref.columns)) or most for ref in refs}
    sizes: dict[Hashable, Sizes] = {
        ref: _evenly(relations[ref.relation], ref, held) for ref, held in whole.items()
    }
    room = host_tries.room_for_slices(plan, context)

    def longest(ref: TrieRef, depth: int) -> int:
        """An upper bound of the longest list of an index level."""
        relation = relations[ref.relation]
        if depth != 1:
            return relation.at_most
        return relation.statistics.degrees(ref.columns[0], ref.tests, ref.ranked).most

    def in_pages(join: JoinPlan, bits: set[str]) -> tuple[InPages, float]:
        """The expected traffic of reading in place, assuming that each list is equally likely to be
        on the device; and its cost, in bytes over the link."""
        cold, bytes_, cost = max(0.0, 1 - room / max(1, size)), 0.0, float(size)
        for read in page_schedule.reads(join, lambda _: None, bits):
            ref = join.tries[read.trie]
            if not ref.columns or not read.depth:
                continue
            length = page_schedule.SECTOR
            if not read.counted and not read.searched:
                rows = max(1, relations[ref.relation].at_most)
                length = int(whole[ref] / rows * _met(ref, relations[ref.relation], read.depth))
            bytes_ += cold * read.times * max(page_schedule.SECTOR, length)
            cost += cold * read.times * max(page_schedule.READ_COSTS, length)
        return InPages(size, min(room, size), int(bytes_)), cost

    how = context.settings.host_indexes
    for join in plan.joins:
        uses = host_tries.uses_of(join, context, lambda ref: ref)
        overhead = context.thresholds.cell_bytes
        levels = host_tries.levels_of(join)
        how_cut = orders(join), room, overhead, levels, context.limits.poll
        search = cache(schedule.CellPlanner(uses, sizes, *how_cut).schedule)
        bits = page_schedule.in_bits(join, longest, MOST_TILE_ROWS)
        paged, cost = in_pages(join, bits)
        pays = how == "pages" or (
            how == "auto" and page_schedule.takes_pages(bits, search, cost, overhead)
        )
        yield search, paged if pays else None


def _met(ref: TrieRef, relation: Relation, depth: int) -> float:
    """The expected length of the list that a binding reads."""
    statistics = relation.statistics
    if depth == 1:
        powers = statistics.degrees(ref.columns[0], ref.tests, ref.ranked).powers
        return powers[2] / max(1.0, powers[1])
    before = statistics.distinct(frozenset(ref.columns[:depth]))
    return statistics.distinct(frozenset(ref.columns[: depth + 1])) / max(1, before)


def _evenly(relation: Relation, ref: TrieRef, size: int) -> Sizes:
    """The sizes of an index whose values are evenly spread between the least and the greatest, with
    equally many rows each."""
    count = min(EVENLY, max(1, relation.statistics.distinct(frozenset(ref.columns[:1]))))
    low, high = (0, count) if ref.ranked else relation.spans[ref.columns[0]]
    keys = np.linspace(low, high, count, dtype=np.int64)
    before = np.linspace(0, size, count + 1, dtype=np.int64)
    return Sizes(keys, before, before)
