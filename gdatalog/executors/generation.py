"""Extends a frontier by a variable with given values, or a range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdatalog.errors import EvaluationError
from gdatalog.executors.frontier import Frontier
from gdatalog.executors.sinks import LevelWalk
from gdatalog.plan.join_plan import Generate, Step
from gdatalog.storage.table import Array

_LONGEST = 1 << 50  # longer ranges could never complete


class FrontierGeneration:
    """The children of one frontier under a step that generates values. `tried`: how many."""

    def __init__(self, walk: LevelWalk, frontier: Frontier) -> None:
        self.walk, self.ops, self.frontier = walk, walk.ops, frontier
        self.tried = 0

    def generate(self, step: Generate, rest: Sequence[Step]) -> Iterator[Frontier]:
        """Yields the frontier times given values, or times a range."""
        if step.span is not None:
            yield from self._range(step, rest)
            return
        xp, frontier = self.ops.xp, self.frontier
        columns = frontier.values(step.values, self.ops, self.walk.scope)
        news = []
        for at, column in enumerate(columns):
            new = xp.ones(frontier.size, dtype=bool)
            for earlier in columns[:at]:
                new &= column != earlier  # {y, z} has one element where y = z
            news.append(new)
        lengths = xp.full(frontier.size, len(columns))
        values, fresh = xp.concatenate(columns), xp.concatenate(news)
        for rows, positions in self._pieces(lengths):
            places = positions * frontier.size + rows
            left = self.ops.survivors(fresh[places])
            yield self._generated(step, rows[left], values[places[left]])

    def _range(self, step: Generate, rest: Sequence[Step]) -> Iterator[Frontier]:
        assert step.span is not None
        xp = self.ops.xp
        bounds = self.frontier.values(step.span, self.ops, self.walk.scope)
        start, stop, stride = (bound.astype(xp.int64) for bound in bounds)
        still = stride == 0
        if bool(still.any()):
            error = EvaluationError("the step of a range is 0", step.place)
            bad = self.ops.survivors(still)
            self.walk.fail(step, rest, self.frontier.take(bad), error)
            good = self.ops.survivors(~still)
            self.frontier = self.frontier.take(good)
            start, stop, stride = start[good], stop[good], stride[good]
        # Unsigned, because the distance of two ints may exceed an int.
        rising = stride > 0
        some = xp.where(rising, start < stop, start > stop)
        distance = xp.where(rising, stop - start, start - stop).astype(xp.uint64)
        step_size = xp.where(rising, stride, -stride).astype(xp.uint64)
        lengths = xp.minimum((distance - 1) // step_size, _LONGEST - 1).astype(xp.int64) + 1
        lengths = xp.where(some, lengths, 0)
        for rows, positions in self._pieces(lengths):
            yield self._generated(step, rows, start[rows] + stride[rows] * positions)

    def _pieces(self, lengths: Array) -> Iterator[tuple[Array, Array]]:
        ops = self.ops
        for low, high, skip, take, size in self.walk.pieces(lengths):
            mine = lengths[low:high] if take < 0 else ops.xp.full(1, take)
            rows, positions = ops.expand(ops.xp.full(len(mine), skip), mine, size)
            self.tried += len(rows)
            yield rows + low, positions

    def _generated(self, step: Generate, rows: Array, values: Array) -> Frontier:
        child = Frontier(len(values), self.frontier, rows, {step.variable: values})
        return self.walk.probe(child, values, step.participants)
