"""Runs a rule's joins in cells if its tries do not fit the device.

The tries are built on the host and stay there. A cell is a join over slices of them; while it runs,
the slices of the next cell are copied to the device. `plan/cells.py` chooses the cells, and
`gpu_ops/transfers.py` copies slices. Rows for which the device has no room go to the host; then the
answer is on the host, too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import closing
from math import inf
from typing import TYPE_CHECKING

from gdatalog import cpu_ops
from gdatalog.calls import NotOnDevice, chunk_rows
from gdatalog.engine import host_tries
from gdatalog.engine.context import ExecutionContext, Sources
from gdatalog.engine.depth import JoinNest, Texts
from gdatalog.engine.derived import Derived, DistinctBlocks, blocks_of, count_of, laid
from gdatalog.engine.metrics import RuleRound, RuleRun
from gdatalog.engine.pages import Paging, paging
from gdatalog.engine.run import PlanRun
from gdatalog.executors.gather import Gathering
from gdatalog.executors.reduction import add_rows
from gdatalog.executors.sinks import RowSet
from gdatalog.plan import Expr, JoinPlan, RulePlan, Slot
from gdatalog.plan.cells import ends, paired, places, sliceable, sliced
from gdatalog.plan.effects import all_steps, one_row_each
from gdatalog.plan.placement import ExecutorChoice, InCells, InPages
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.on_device import brought, is_on_host
from gdatalog.storage.rows import Columns

if TYPE_CHECKING:
    from gdatalog.gpu_ops.transfers import PagedTrie

SPILL = 4  # rows go to the host when they take more than a quarter of the free memory


class SpillingSet(RowSet):
    """A row set that moves its rows to the host as sorted runs when the device has no room for
    more.

    Duplicates between runs are removed at the end.
    """

    runs: list[Columns]
    room: Callable[[], int]

    def add(self, block: Columns) -> None:
        super().add(laid(block, self.ops))

    def _settle(self) -> None:
        super()._settle()
        if self.limit is None and self._settled is not None and self.nbytes > self.room():
            self.runs.append(tuple(map(brought, self._settled)))
            self._settled, self.count = None, 0
            self._charge()

    def take(self, other: RowSet) -> None:
        if isinstance(other, SpillingSet):
            self.runs += other.runs
            other.runs = []
        super().take(other)

    def finish(self) -> tuple[Columns, int]:
        rows, count = super().finish()
        if not self.runs:
            return rows, count
        with host_tries.on_the_host(self.limits):
            runs = [*self.runs, tuple(map(brought, rows))]
            merged: Columns = cpu_ops.merge_rows([run for run in runs if len(run[0])])
        self.give_back()
        return merged, len(merged[0])


@dataclass(slots=True)
class OneCellRun(PlanRun):
    """A rule's run within one cell. `loops`: by join, the executor and the printed loops of earlier
    cells."""

    loops: dict[int, tuple[ExecutorChoice, Texts]] = field(default_factory=dict)

    def _choice(self, number: int, nest: JoinNest) -> ExecutorChoice:
        """Reuses the executor and the printed loops of an earlier cell."""
        known = self.loops.get(number)
        if known is None:
            choice = PlanRun._choice(self, number, nest)
            if choice.breadth_first:
                return choice
            known = self.loops[number] = choice, nest.texts
        nest.take(known[1])
        return known[0]

    def set_of(self, outputs: Sequence[Expr], limit: int | None) -> SpillingSet:
        context = self.context
        args = (outputs, self.ops, context.scope, self.limits, limit, context.tuning)
        found = SpillingSet(*args)
        found.runs, found.room = [], self.room
        return found

    def room(self) -> int:
        """The bytes that rows may take on the device before they go to the host."""
        free, _ = self.context.device.room(0)
        return min(free, self.limits.spare()) // SPILL


@dataclass(slots=True)
class CellByCellRun(OneCellRun):
    """A rule's run, cell after cell."""

    tries: host_tries.HostTries = field(init=False)
    placement: InCells = field(default_factory=InCells)
    pages: InPages | None = None

    def _cells(self, number: int) -> Generator[OneCellRun, None, None]:
        """Yields a run for each cell of a join that may have bindings."""
        join, limits, device = self.plan.joins[number], self.limits, self.context.device
        self.tries.add(join)
        room = host_tries.room_for_slices(self.plan, self.context)
        found = host_tries.scheduled(join, self.tries, self.context, room)
        paged = paging(join, self.tries, self.context, room, found)
        if paged is not None:
            before = device.paged().moved
            made = paged.made()
            if made is not None:
                yield from self._in_place(number, paged, made, before)
                return
        if isinstance(found, str):
            raise NotOnDevice(found)
        cut = sliced(join, host_tries.labels_of(join, found), found.ranges)
        joins = list(self.plan.joins)
        joins[number] = cut
        plan = replace(self.plan, joins=tuple(joins))
        self.placement = self.placement.with_join(found)
        slices = device.slices(room, self.tries.by_index, self.tries.sizes, limits.poll)
        what = f"slices of indexes on {device.name}"
        try:
            work = limits.watch.innermost
            for at, (turn, coming) in enumerate(paired(found.turns)):
                slices.enter(turn.slices, coming)
                limits.charge(what, slices.nbytes)
                there = host_tries.read(cut, turn, self.tries.of, slices.trie)
                params = {**self.scope.params, **ends(turn.cell, found.ranges)}
                scope = replace(self.scope, params=params)
                report = None if self.report is None else RuleRun(plan)
                context = replace(self.context, scope=scope)
                run = OneCellRun(plan, Sources(there.__getitem__), context, report)
                run.loops = self.loops
                with work.within(at / len(found.turns), (at + 1) / len(found.turns)):
                    yield run
                self.placement = replace(self.placement, ran=(self.placement.ran or 0) + 1)
                self._saw(report, join, cut)
                there.clear()  # `run` would keep slices that must make room for the next ones
        finally:
            slices.close()
            limits.charge(what, 0)
            moved = (self.placement.moved or 0) + slices.moved
            self.placement = replace(self.placement, moved=moved)
            if self.report is not None:
                self.report.in_cells = self.placement

    def _in_place(
        self, number: int, paged: Paging, made: Mapping[Hashable, PagedTrie], before: int
    ) -> Generator[OneCellRun, None, None]:
        """Yields one run over whole indexes, whose host pages kernels read in place."""
        device, limits = self.context.device, self.limits
        what, join = f"pages of indexes on {device.name}", self.plan.joins[number]
        placement, counted = self.pages or InPages(), paged.placement
        try:
            limits.charge(what, counted.placed)
            with paged.sources(made) as sources:
                report = None if self.report is None else RuleRun(self.plan)
                yield OneCellRun(self.plan, sources, self.context, report)
        finally:
            limits.charge(what, 0)
        if report is not None:
            self._saw(report, join, join)
            counted = replace(counted, read=paged.read(report))
        copied = device.paged().moved - before
        self.pages = placement.with_join(replace(counted, copied=copied))
        if self.report is not None:
            self.report.in_pages = self.pages

    def _saw(self, report: RuleRun | None, join: JoinPlan, cut: JoinPlan) -> None:
        """Adds the metrics of a cut join to those of the join's own steps."""
        if self.report is None or report is None:
            return
        self.report.executors.update(report.executors)
        own = list(all_steps(join.steps))
        mine = places(own, list(all_steps(cut.steps)))
        seen = {id(own[at]): report.seen[id(step)] for at, step in mine
                if id(step) in report.seen}  # fmt: skip
        self.report.saw(seen)

    # --------------------------------------------------------------------------------- sinks

    def _distinct(self, sink: RowSet) -> Derived:
        (join,) = self.plan.joins
        cut_once = all(sliceable(join).values())
        if not one_row_each(join) or not cut_once:
            self.into_set(0, sink)
            return sink.finish()
        blocks: list[Columns] = []
        count, spilled, what = 0, False, "rows of cells"
        try:
            with closing(self._cells(0)) as cells:
                for run in cells:
                    found = run._distinct(run.set_of(sink.outputs, None))
                    count += count_of(found)
                    blocks += blocks_of(found)
                    there = sum(c.nbytes for block in blocks for c in block if not is_on_host(c))
                    spilled |= any(is_on_host(c) for block in blocks for c in block)
                    if spilled or there > self.room():
                        blocks, spilled, there = [tuple(map(brought, b)) for b in blocks], True, 0
                    self.limits.charge("blocks", 0)
                    self.limits.charge(what, there)
        finally:
            self.limits.charge(what, 0)
        self._count(count)
        return DistinctBlocks([block for block in blocks if len(block[0])], count)

    def into_set(self, number: int, sink: RowSet) -> None:
        with closing(self._cells(number)) as cells:
            for run in cells:
                PlanRun.into_set(run, number, sink)
                if sink.done:
                    return

    def into_bag(self, number: int, gathering: Gathering) -> Gathering:
        with closing(self._cells(number)) as cells:
            for run in cells:
                gathering = PlanRun.into_bag(run, number, gathering)
        return gathering

    def _add_union(self, gathering: Gathering, names: Sequence[Slot], rows: Columns) -> None:
        """Adds rows, which may be on the host, in chunks."""
        size, chunk = len(rows[0]) if rows else 1, max(1, self.limits.chunk)
        for start in range(0, size, chunk):
            part = laid(tuple(column[start : start + chunk] for column in rows), self.ops)
            add_rows(gathering, self.plan.keys, names, part)


def rows_in_cells(
    plan: RulePlan,
    resident: Sources,
    context: ExecutionContext,
    limit: int | None,
    report: RuleRun | None,
    stats: RuleRound | None,
) -> Derived:
    """The distinct rows that a rule derives, with its joins run in cells. `resident`: the host's
    tries."""
    limits = context.limits
    # Slices are on one device, so other devices cannot share its cells.
    context = replace(context, tuning=replace(context.tuning, shared_from=inf))
    run = CellByCellRun(plan, resident, context, report, None, stats)
    run.tries = host_tries.HostTries(resident, limits)
    context.device.make_room(limits)
    chunk, to_host = limits.chunk, limits.to_host
    left = limits.spare() - host_tries.room_for_slices(plan, context)
    free, largest = context.device.room(left)
    spare = min(left, int((1 - host_tries.share_of_slices(plan)) * free))
    try:
        with limits.account.restoring(MemoryError, NotOnDevice):
            limits.chunk = min(chunk, chunk_rows(plan, spare, largest))
            limits.to_host = not plan.gathers
            return run.rows(limit)
    except MemoryError as problem:
        # Includes CUDA's out-of-memory errors, when a cell does not fit the device.
        raise NotOnDevice(f"in cells it did not fit the device either: {problem}") from None
    finally:
        limits.chunk, limits.to_host = chunk, to_host
