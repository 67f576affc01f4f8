"""`CountedLevels`: a breadth-first join that only counts, prepared on a device for later runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gdatalog.engine.context import ExecutionContext
from gdatalog.engine.device import Accelerator
from gdatalog.engine.exact_counts import exact_sum
from gdatalog.engine.kept_runs import key_of, run_for
from gdatalog.executors.frontier import Frontier
from gdatalog.executors.levelwise import Levelwise
from gdatalog.executors.ops import Ops
from gdatalog.executors.sinks import Sink
from gdatalog.gpu_ops.level_notes import NotRecorded
from gdatalog.plan.effects import expressions
from gdatalog.plan.join_plan import Apply, Filter, Join, JoinPlan, Seek, Slot
from gdatalog.records import dataclass
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.gpu_ops.level_graph import PreparedLevels
    from gdatalog.gpu_ops.walk import PreparedLoops


class _Total(Sink):
    """The number of bindings, which are only counted."""

    only_counts = only_total = True

    def emit(self, frontier: Frontier) -> None:
        raise NotRecorded

    def emit_counts(self, frontier: Frontier, counts: object) -> None:
        raise NotRecorded

    def emit_total(self, total: int) -> None:
        """The graph counts."""


@dataclass(slots=True, eq=False)
class CountedLevels:
    """One run of a join that `counts`. `levels`: prepared by an earlier run over the same tries, or
    that this one prepares."""

    join: JoinPlan
    context: ExecutionContext
    device: Accelerator
    levels: PreparedLevels

    @property
    def ops(self) -> Ops:
        """For a run that is not prepared."""
        return self.context.device.ops if self.levels.notes.replays else self.levels.ops

    def total(self, walk: Callable[[Ops], Levelwise]) -> int | None:
        """The number of bindings, by a graph; None if the join is to run as usual."""
        levels, limits, key = self.levels, self.context.limits, _key(self.join)
        if not levels.notes.replays and levels.suits:
            levels.record(lambda: self._run(walk(levels.ops)))
        if levels.notes.replays:
            self.device.kept_levels.keep(key, levels)
        if not levels.ready:
            return None
        limits.look(levels.notes.tried)
        found = self.device.again([self.device.counts_again(key)], self.context.scope, limits)
        return None if found is None else sum(exact_sum(block[-1]) for block in found[0])

    def _run(self, walk: Levelwise) -> None:
        """Levels have the pieces that were noted, however much memory is free by now."""
        limits, chunk = walk.limits, walk.limits.chunk
        walk.roots, limits.chunk = self.levels.roots, self.levels.chunk
        try:
            walk.run(self.join.steps, 0, Frontier(1), _Total())
        finally:
            limits.chunk = chunk

    def keep(self, walk: Levelwise) -> None:
        """Keeps what a run has noted, if the next one can be recorded."""
        levels = self.levels
        if levels.suits and not levels.notes.replays:
            levels.roots, levels.chunk = walk.roots, walk.limits.chunk
            self.device.kept_levels.keep(_key(self.join), levels)


def _key(join: JoinPlan) -> object:
    return key_of([join], ["levels"])


def counts(join: JoinPlan) -> bool:
    """Whether a join starts with one row, computes nothing, and has all that its launches read in
    indexes."""
    if join.given is not None or join.scan is not None or join.orbit != 1:
        return False
    return all(isinstance(step, (Join, Seek, Filter)) and _of_slots(step) for step in join.steps)


def _of_slots(step: Join | Seek | Filter) -> bool:
    found = expressions(step)
    if isinstance(step, Filter):
        if not isinstance(step.test, Apply):
            return False
        found = tuple(step.test.args)
    return all(isinstance(expr, Slot) for expr in found)


def counted_levels(
    join: JoinPlan, tries: Sequence[Trie], context: ExecutionContext
) -> CountedLevels | None:
    """A run of a join that `counts` on a device; None if it serves no other run."""
    device = context.device.accelerator
    if device is None:
        return None
    levels = device.kept_levels.take(_key(join))
    if levels is None or not levels.made_for.serves(context, tries):
        made_for = run_for(context, [join], tries) if counts(join) else None
        if made_for is None:
            return None
        levels = device.levels(tries)
        levels.made_for = made_for
    return CountedLevels(join, context, device, levels)


def prepared_levels(
    join: JoinPlan, tries: Sequence[Trie], device: Accelerator, context: ExecutionContext
) -> PreparedLoops | None:
    """The counts of a join's levels, if they are prepared on a device."""
    key = _key(join)
    levels = device.kept_levels.take(key)
    if levels is None:
        return None
    device.kept_levels.keep(key, levels)
    served = levels.ready and levels.made_for.serves(context, tries)
    return device.counts_again(key) if served else None
