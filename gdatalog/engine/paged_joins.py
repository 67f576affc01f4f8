"""Runs a rule's joins over indexes that stay on the host and are read in place, page by page."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from gdatalog.account import default_limit
from gdatalog.engine import host_tries
from gdatalog.engine.context import ExecutionContext, Sources
from gdatalog.engine.metrics import RuleRun
from gdatalog.plan import page_schedule
from gdatalog.plan.cells import roles, roots
from gdatalog.plan.join_plan import JoinPlan, Step, TrieRef
from gdatalog.plan.placement import InPages
from gdatalog.plan.slices import Numbers, Schedule
from gdatalog.printer.layouts import MOST_TILE_ROWS
from gdatalog.records import dataclass, field
from gdatalog.storage.laid_tries import TrieArrays, layout_of
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.gpu_ops.paged_tries import Paged, PagedTrie


SAMPLE = 1 << 13  # sample of the lists that a step reads
WHOLE = 1 << 21  # bytes of a page if none can be placed


@dataclass(slots=True)
class Paging:
    """How a join reads indexes in place: their arrays, and the pages on the device."""

    join: JoinPlan
    tries: host_tries.HostTries
    context: ExecutionContext
    paged: Paged
    layouts: Mapping[Hashable, TrieArrays]
    bits: set[str]
    placed: page_schedule.PagePlacement = field(init=False)

    @property
    def placement(self) -> InPages:
        there = sum(map(len, self.placed.pages.values())) * self.paged.page
        held = sum(layout.size for layout in self.layouts.values())
        return InPages(held, min(there, held), int(self.placed.read))

    def made(self) -> dict[Hashable, PagedTrie] | None:
        """The paged indexes; None if there is no memory for them."""
        paged, by_index = self.paged, self.tries.by_index
        try:
            return {i: paged.of(by_index[i], self.context.limits.poll) for i in self.layouts}
        except MemoryError:
            return None

    @contextmanager
    def sources(self, made: Mapping[Hashable, PagedTrie]) -> Iterator[Sources]:
        """Within this context, the pages are in place, and the join reads these sources."""
        paged, by_index = self.paged, self.tries.by_index
        xp = self.context.device.ops.xp
        there = {index: found.trie(by_index[index], xp) for index, found in made.items()}

        def trie_of(ref: TrieRef) -> Trie:
            whole = self.tries.of[ref]
            return there.get(id(whole), whole)  # a trie without columns is only a count

        try:
            for index, found in made.items():
                paged.place(found, self.placed.pages.get(index, ()))
            yield Sources(trie_of)
        finally:
            for found in made.values():
                paged.place(found, ())

    def heats(self, rows_out: Callable[[Step], float | None]) -> dict[Hashable, page_schedule.Heat]:
        """The bytes that reads of each index page move over the link."""
        page = self.paged.page or WHOLE
        sizes = {index: layout.size for index, layout in self.layouts.items()}
        heats = {
            index: page_schedule.Heat(page, max(1, -(-size // page)))
            for index, size in sizes.items()
        }
        sampled: dict[int, Numbers] = {}
        for read in page_schedule.reads(self.join, rows_out, self.bits):
            whole = self.tries.of[self.join.tries[read.trie]]
            if id(whole) in heats:
                if read.trie not in sampled:
                    sampled[read.trie] = self._roots_read(read.trie)
                layout = self.layouts[id(whole)]
                _add(heats[id(whole)], read, whole, layout, sampled[read.trie])
        return heats

    def _roots_read(self, number: int) -> Numbers:
        """Positions in a trie's root list, as often as joins reach them: a value is bound as often
        as it occurs in the other indexes that bind the same variable."""
        join, tries = self.join, self.tries
        root = tries.of[join.tries[number]].levels[0]
        known = host_tries.root_of(roots(join)[number], self.context)
        if isinstance(known, int):
            at = int(np.searchsorted(root.values, known))
            return np.arange(at, min(at + 1, len(root)), dtype=np.int64)
        names = roles(join)
        name = names[number][0]
        lists = [
            tries.of[ref].levels[depth].values
            for ref, own in zip(join.tries, names, strict=True)
            for depth in range(1, len(own))
            if name is not None and own[depth] == name
        ]
        found = [root.find(values[:: max(1, len(values) // SAMPLE)]) for values in lists]
        places = np.concatenate(found).astype(np.int64) if found else np.empty(0, dtype=np.int64)
        places = places[places >= 0]
        if not len(places):
            places = np.arange(0, len(root), max(1, len(root) // SAMPLE), dtype=np.int64)
        return places

    def read(self, report: RuleRun) -> int:
        """Estimates the bytes read over the link from the number of lists reached."""

        def counted(step: Step) -> float | None:
            seen = report.seen.get(id(step))
            return None if seen is None else float(seen.rows_out)

        total = 0.0
        for index, heat in self.heats(counted).items():
            cold = np.ones(heat.count, dtype=bool)
            cold[list(self.placed.pages.get(index, ()))] = False
            total += float(heat.bytes[cold].sum())
        return int(total)


def paging(
    join: JoinPlan,
    tries: host_tries.HostTries,
    context: ExecutionContext,
    room: int,
    cells: Callable[[], Schedule | str],
) -> Paging | None:
    """How a join reads its indexes in place, if that is expected to cost less than `cells`."""
    how, device = context.settings.host_indexes, context.device.accelerator
    if device is None or how == "cells" or join.given is not None:
        return None
    made = device.paged()
    own = {id(trie): trie for ref in join.tries if (trie := tries.of[ref]).levels}
    layouts: dict[Hashable, TrieArrays] = {index: layout_of(trie) for index, trie in own.items()}
    there = sum(trie.nbytes for trie in own.values())
    if there + sum(layout.size for layout in layouts.values()) > default_limit():
        return None  # the machine must have memory for both: pages cannot be spilled to files
    bits = page_schedule.in_bits(
        join, lambda ref, at: tries.of[ref].levels[at].longest, MOST_TILE_ROWS
    )
    paged = Paging(join, tries, context, made, layouts, bits)
    paged.placed = page_schedule.placed(paged.heats(lambda _: None), room if made.page else 0)
    if how == "pages":
        return paged
    written = sum(layouts[index].size for index, trie in own.items() if made.made(trie) is None)
    cost = paged.placed.cost + written + paged.placement.placed
    return (
        paged
        if page_schedule.takes_pages(bits, cells, cost, context.thresholds.cell_bytes)
        else None
    )


def _add(
    heat: page_schedule.Heat,
    read: page_schedule.ListRead,
    trie: Trie,
    layout: TrieArrays,
    places: Numbers,
) -> None:
    """Adds the bytes of reads of the lists below these root positions."""
    low, high = places, places + 1

    def add(name: tuple[str, int], first: Numbers, behind: Numbers, shares: Numbers) -> None:
        if name in layout.pieces:
            start, width = layout.starts[name], layout.pieces[name].dtype.itemsize
            heat.add(start + width * first, start + width * behind, read.times, shares)

    one = np.ones_like(low)
    if not read.depth:
        if ("index", 0) in layout.pieces:
            keys = trie.levels[0].values[low].astype(np.int64) - trie.levels[0].span[0]
            add(("index", 0), keys, keys + 1, one)
        else:
            add(("values", 0), low, high, one)
        return
    for depth in range(1, read.depth + 1):
        offsets, nodes = trie.levels[depth].offsets, high - low
        if depth == read.depth:
            add(("offsets", depth), low, high + 1, nodes)
        low, high = offsets[low].astype(np.int64), offsets[high].astype(np.int64)
        if depth == read.depth and not read.counted:
            add(("values", depth), low, high, np.maximum(high - low, 1) if read.searched else nodes)
    if read.depth == len(trie.levels) - 1:
        add(("sums", 0), low, high + 1, nodes)
