"""`RuleInCells`: a rule whose tries do not fit the device runs its joins in cells.

The tries are built on the host and stay there. A cell is a join over slices of them; while it runs,
the slices of the next cell are copied to the device. `plan/cells.py` chooses the cells, and
`gpu_ops/transfers.py` copies slices. Rows for which the device has no room go to the host; then the
answer is on the host, too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from gdatalog import cpu_ops
from gdatalog.calls import NotOnDevice
from gdatalog.chunks import chunk_rows, levels_of
from gdatalog.engine import host_tries
from gdatalog.engine.context import RuleInputs, Sources
from gdatalog.engine.derived import Derived, DistinctBlocks, blocks_of, count_of, laid
from gdatalog.engine.device import Accelerator
from gdatalog.engine.metrics import RuleRun
from gdatalog.engine.paged_joins import Paging, paging
from gdatalog.engine.rules.join import Loops
from gdatalog.engine.rules.joins import LocalJoins
from gdatalog.engine.rules.operator import Refusal, RuleJoins
from gdatalog.engine.rules.rows import RuleRows
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.cells import ends, places, sliceable, sliced
from gdatalog.plan.effects import all_steps, one_row_each
from gdatalog.plan.join_plan import Expr, JoinPlan, RulePlan
from gdatalog.plan.placement import InCells, InPages
from gdatalog.plan.slices import paired
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.on_device import brought, is_on_host
from gdatalog.storage.rows import Columns

if TYPE_CHECKING:
    from gdatalog.gpu_ops.paged_tries import PagedTrie

SPILL = 4  # rows go to the host when they take more than a quarter of the free memory


@dataclass(eq=False)
class SpillingSet(RowSet):
    """A row set that moves its rows to the host as sorted runs when the device has no `room` for
    more.

    Duplicates between runs are removed at the end.
    """

    runs: list[Columns] = field(default_factory=list)
    room: Callable[[], int] = lambda: 0

    def fresh(self) -> SpillingSet:
        return SpillingSet(*self.like, room=self.room)

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

    def pieces(self) -> Iterator[Columns]:
        """The rows, which may be on the host, in chunks on the device."""
        rows, _ = self.finish()
        size, chunk = len(rows[0]) if rows else 1, max(1, self.limits.chunk)
        for start in range(0, size, chunk):
            yield laid(tuple(column[start : start + chunk] for column in rows), self.ops)


@dataclass(slots=True)
class CellJoins(RuleJoins):
    """Runs the joins of a rule, cell after cell. `loops`: those of earlier cells."""

    plan: RulePlan
    inputs: RuleInputs
    tries: host_tries.HostTries
    device: Accelerator
    loops: Loops = field(default_factory=dict)
    placement: InCells = field(default_factory=InCells)
    pages: InPages | None = None

    def set_of(self, outputs: Sequence[Expr], limit: int | None) -> SpillingSet:
        inputs, thresholds = self.inputs, self.inputs.context.thresholds
        like = outputs, inputs.ops, inputs.scope, inputs.limits, limit, thresholds
        return SpillingSet(*like, room=self.room)

    def room(self) -> int:
        """The bytes that rows may take on the device before they go to the host."""
        free, _ = self.inputs.context.device.room(0)
        return min(free, self.inputs.limits.spare()) // SPILL

    def _cells(self, number: int) -> Generator[LocalJoins, None, None]:
        """Yields the joins within each cell of a join that may have bindings."""
        context, whole = self.inputs.context, self.inputs.report
        join, limits, device = self.plan.joins[number], context.limits, self.device
        self.tries.add(join)
        room = host_tries.room_for_slices(self.plan, context)
        cells = partial(host_tries.scheduled, join, self.tries, context, room)
        paged = paging(join, self.tries, context, room, cells)
        if paged is not None:
            before = paged.paged.moved
            made = paged.made()
            if made is not None:
                yield from self._in_place(number, paged, made, before)
                return
        found = cells()
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
                params = {**context.scope.params, **ends(turn.cell, found.ranges)}
                scope = replace(context.scope, params=params)
                report = None if whole is None else RuleRun(plan)
                here = replace(context, scope=scope)
                inputs = RuleInputs(Sources(there.__getitem__), here, report=report)
                with work.within(at / len(found.turns), (at + 1) / len(found.turns)):
                    yield LocalJoins(plan, inputs, self.loops)
                self.placement = replace(self.placement, ran=(self.placement.ran or 0) + 1)
                self._saw(report, join, cut)
                there.clear()  # `inputs` would keep slices that must make room for the next ones
        finally:
            slices.close()
            limits.charge(what, 0)
            moved = (self.placement.moved or 0) + slices.moved
            self.placement = replace(self.placement, moved=moved)
            if whole is not None:
                whole.in_cells = self.placement

    def _in_place(
        self, number: int, paged: Paging, made: Mapping[Hashable, PagedTrie], before: int
    ) -> Generator[LocalJoins, None, None]:
        """Yields the joins over whole indexes, whose host pages kernels read in place."""
        context, whole = self.inputs.context, self.inputs.report
        device, limits = context.device, context.limits
        what, join = f"pages of indexes on {device.name}", self.plan.joins[number]
        placement, counted = self.pages or InPages(), paged.placement
        try:
            limits.charge(what, counted.placed)
            with paged.sources(made) as sources:
                report = None if whole is None else RuleRun(self.plan)
                yield LocalJoins(self.plan, RuleInputs(sources, context, report=report))
        finally:
            limits.charge(what, 0)
        if report is not None:
            self._saw(report, join, join)
            counted = replace(counted, read=paged.read(report))
        copied = paged.paged.moved - before
        self.pages = placement.with_join(replace(counted, copied=copied))
        if whole is not None:
            whole.in_pages = self.pages

    def _saw(self, report: RuleRun | None, join: JoinPlan, cut: JoinPlan) -> None:
        """Adds the metrics of a cut join to those of the join's own steps."""
        whole = self.inputs.report
        if whole is None or report is None:
            return
        whole.executors.update(report.executors)
        own = list(all_steps(join.steps))
        mine = places(own, list(all_steps(cut.steps)))
        seen = {id(own[at]): report.seen[id(step)] for at, step in mine
                if id(step) in report.seen}  # fmt: skip
        whole.saw(seen)

    def distinct(self, sink: RowSet) -> Derived:
        (join,) = self.plan.joins
        cut_once = all(sliceable(join).values())
        if not one_row_each(join) or not cut_once:
            self.into_set(0, sink)
            return sink.finish()
        limits = self.inputs.limits
        blocks: list[Columns] = []
        count, spilled, what = 0, False, "rows of cells"
        try:
            with closing(self._cells(0)) as cells:
                for run in cells:
                    found = run.distinct(sink.fresh())
                    count += count_of(found)
                    blocks += blocks_of(found)
                    there = sum(c.nbytes for block in blocks for c in block if not is_on_host(c))
                    spilled |= any(is_on_host(c) for block in blocks for c in block)
                    if spilled or there > self.room():
                        blocks, spilled, there = [tuple(map(brought, b)) for b in blocks], True, 0
                    limits.charge("blocks", 0)
                    limits.charge(what, there)
        finally:
            limits.charge(what, 0)
        self.inputs.tried(count)
        return DistinctBlocks([block for block in blocks if len(block[0])], count)

    def into_set(self, number: int, sink: RowSet) -> None:
        with closing(self._cells(number)) as cells:
            for run in cells:
                run.into_set(number, sink)
                if sink.done:
                    return

    def into_bag(self, number: int, gathering: Gathering) -> Gathering:
        with closing(self._cells(number)) as cells:
            for run in cells:
                gathering = run.into_bag(number, gathering)
        return gathering


@dataclass(frozen=True, slots=True)
class RuleInCells:
    """Runs each join in cells, over the host's tries (`RuleInputs.resident`)."""

    plan: RulePlan

    def run(self, inputs: RuleInputs) -> Derived | Refusal:
        plan, context, limits = self.plan, inputs.context, inputs.limits
        device = context.device.accelerator
        assert inputs.resident is not None and device is not None
        # Slices are on one device, so other devices cannot share its cells.
        context = replace(context, settings=context.settings.tuned(shared_from=inf))
        own = replace(inputs, context=context, lasting=None)
        joins = CellJoins(plan, own, host_tries.HostTries(inputs.resident, limits), device)
        device.make_room(limits)
        chunk, to_host = limits.chunk, limits.to_host
        left = limits.spare() - host_tries.room_for_slices(plan, context)
        free, largest = device.room(left)
        spare = min(left, int((1 - host_tries.share_of_slices(plan)) * free))
        try:
            limits.chunk = min(chunk, chunk_rows(levels_of(plan), spare, largest))
            limits.to_host = not plan.gathers
            return RuleRows(plan).run(own, joins)
        except MemoryError as problem:
            # Includes CUDA's out-of-memory errors, when a cell does not fit the device.
            return Refusal(f"in cells it did not fit the device either: {problem}")
        finally:
            limits.chunk, limits.to_host = chunk, to_host
