"""Extends a frontier by values that no relation holds: a given set, or a range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gdatalog.errors import EvaluationError
from gdatalog.executors.frontier import Frontier
from gdatalog.plan.nodes import Expr, Generate, Step
from gdatalog.storage.table import Array

if TYPE_CHECKING:
    from gdatalog.executors.levelwise import Levelwise

_LONGEST = 1 << 50  # no range is run to such an end


class Generation:
    """The children of one frontier under one generating step."""

    def __init__(self, walk: Levelwise, frontier: Frontier) -> None:
        self.walk = walk
        self.ops = walk.ops
        self.frontier = frontier
        self.tried = 0

    def generate(self, step: Generate, rest: Sequence[Step]) -> Iterator[Frontier]:
        """Yields the frontier times given values, or times a range."""
        if step.span is not None:
            yield from self._range(step, rest)
            return
        xp, frontier = self.ops.xp, self.frontier
        columns = [self._keys(value) for value in step.values]
        news = []
        for at, column in enumerate(columns):
            new = xp.ones(frontier.size, dtype=bool)
            for earlier in columns[:at]:
                new &= column != earlier  # {y, z} has one element where y = z
            news.append(new)
        lengths = xp.full(frontier.size, len(columns))
        values, fresh = xp.stack(columns), xp.stack(news)
        for rows, positions in self._pieces(lengths):
            left = self.ops.survivors(fresh[positions, rows])
            rows, positions = rows[left], positions[left]
            yield self._generated(step, rows, values[positions, rows])

    def _range(self, step: Generate, rest: Sequence[Step]) -> Iterator[Frontier]:
        assert step.span is not None
        xp = self.ops.xp
        start, stop, stride = (self._keys(bound).astype(xp.int64) for bound in step.span)
        still = stride == 0
        if bool(still.any()):
            error = EvaluationError("the step of a range is 0", step.place)
            bad = self.ops.survivors(still)
            self.walk.fail(step, rest, self.frontier.take(bad), error)
            good = self.ops.survivors(~still)
            self.frontier = self.frontier.take(good)
            start, stop, stride = start[good], stop[good], stride[good]
        # Without signs, for the distance of two ints need not fit into one.
        rising = stride > 0
        some = xp.where(rising, start < stop, start > stop)
        distance = xp.where(rising, stop - start, start - stop).astype(xp.uint64)
        step_size = xp.where(rising, stride, -stride).astype(xp.uint64)
        lengths = xp.minimum((distance - 1) // step_size, _LONGEST - 1).astype(xp.int64) + 1
        lengths = xp.where(some, lengths, 0)
        for rows, positions in self._pieces(lengths):
            yield self._generated(step, rows, start[rows] + stride[rows] * positions)

    def _keys(self, expr: Expr) -> Array:
        keys: Array
        keys, _ = self.ops.evaluate(expr, self.frontier.column, self.frontier.size, self.walk.scope)
        return keys

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
