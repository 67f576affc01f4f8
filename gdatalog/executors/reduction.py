"""Aggregates in bodies: a branch reduced to one value, or the rows of an optimum, per row."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.executors.frontier import WEIGHT, Frontier, Key
from gdatalog.executors.gather import Gathering, neutral
from gdatalog.executors.ops import Ops
from gdatalog.executors.sinks import Bag, LevelWalk, RowSet, Sink
from gdatalog.plan.effects import may_fail
from gdatalog.plan.join_plan import Branch, Expr, Reduction, Slot
from gdatalog.records import dataclass
from gdatalog.storage.table import Array

Columns = tuple[Array, ...]
NamedRows = tuple[tuple[Slot, ...], Columns]


@dataclass(slots=True)
class BranchRows:
    """A branch's result for each of its outer rows: a list of rows of `columns`.

    A test has one row or none. An aggregate has one row with its value, none if nothing matches, or
    several if several rows have the min or max.
    """

    ops: Ops
    starts: Array
    lengths: Array
    columns: dict[Key, Array]

    def bring_back(self, frontier: Frontier, groups: Array) -> Frontier:
        """Joins the results to the outer rows; `groups` are their rows in the branch."""
        lengths = self.lengths[groups]
        columns = self.columns
        if bool((lengths <= 1).all()):
            rows = self.ops.survivors(lengths)
            child = frontier if len(rows) == frontier.size else frontier.take(rows)
            positions = self.starts[groups[rows]]
        else:
            rows, positions = self.ops.expand(self.starts[groups], lengths)
            child = frontier.take(rows)
        if WEIGHT in columns:
            return child.weighing(self.ops, columns[WEIGHT][positions])
        if not columns:
            return child
        return child.adding({name: column[positions] for name, column in columns.items()})


class BranchReduction:
    """An aggregate's value for each of the outer rows, from what its alternatives find. `sinks`: of
    each alternative."""

    def __init__(self, walk: LevelWalk, step: Branch, outer: Frontier, base: str) -> None:
        assert step.reduction is not None
        self.walk, self.step, self.size, self.reduction = walk, step, outer.size, step.reduction
        self.group = Slot(base, "int")
        self.gathering = Gathering([step.reduction], walk.ops, walk.scope, walk.limits)
        self.unions: dict[tuple[Slot, ...], RowSet] = {}
        if len(step.alternatives) == 1 and not step.reduction.exports:
            self.sinks: list[Sink] = [Bag((self.group,), self.gathering)]
        else:
            self.sinks = [self._union(names) for names in step.reduction.bindings]

    def _union(self, names: Sequence[str]) -> RowSet:
        """The bindings of alternatives as a set, united if they have the same variables."""
        # The slots' types do not matter here: only functions use them.
        outputs: tuple[Slot, ...] = (self.group, *(Slot(name, "int") for name in sorted(names)))
        union = self.unions.get(outputs)
        if union is None:
            walk, exprs = self.walk, list[Expr](outputs)
            union = RowSet(exprs, walk.ops, walk.scope, walk.limits, None, walk.thresholds)
            self.unions[outputs] = union
        return union

    def rows(self) -> BranchRows:
        """The values, after all alternatives have run."""
        walk, reduction, gathering = self.walk, self.reduction, self.gathering
        ops, xp, size = walk.ops, walk.ops.xp, self.size
        sets = [(names, union.finish()[0]) for names, union in self.unions.items()]
        for names, rows in sets:
            add_rows(gathering, (self.group,), names, rows)
        # A sum without a value is an error only if the rest of the body holds.
        keys, (values,) = gathering.finish(marks=walk.marks if may_fail((self.step,)) else None)
        present = keys[0] if keys else xp.empty(0, dtype=xp.int64)

        if reduction.exports:
            return _attaining(walk, reduction, size, sets, present, values)
        empty = neutral(reduction)
        if empty is None:
            order = xp.argsort(present)
            present, values = present[order], values[order]
            every = xp.arange(size)
            starts = xp.searchsorted(present, every)
            lengths = xp.searchsorted(present, every, side="right") - starts
            return BranchRows(ops, starts, lengths, {reduction.variable: values})
        full = xp.full(size, empty, dtype=xp.int64)
        full[present] = values
        ones = xp.ones(size, dtype=xp.int64)
        return BranchRows(ops, xp.arange(size), ones, {reduction.variable: full})


def add_rows(
    gathering: Gathering, keys: Sequence[Slot], names: Sequence[Slot], rows: Columns
) -> None:
    """Aggregates rows given as columns under these names."""
    size = len(rows[0]) if rows else 0
    if size:
        columns = {slot.name: column for slot, column in zip(names, rows, strict=True)}
        gathering.add(tuple(columns[key.name] for key in keys), size, columns, None)


def _attaining(
    walk: LevelWalk,
    reduction: Reduction,
    size: int,
    sets: list[NamedRows],
    present: Array,
    best: Array,
) -> BranchRows:
    """The distinct exports of the rows that attain their group's optimum."""
    ops, xp = walk.ops, walk.ops.xp
    optimum = xp.zeros(size, dtype=xp.int64)
    optimum[present] = best
    blocks: list[Columns] = []
    for names, rows in sets:
        if not len(rows[0]):
            continue
        columns = {slot.name: column for slot, column in zip(names, rows, strict=True)}
        target, _ = ops.evaluate(reduction.targets[0], columns, len(rows[0]), walk.scope)
        at = ops.survivors(target == optimum[rows[0]])
        exported = (columns[name][at] for name, _ in reduction.exports)
        blocks.append((rows[0][at], target[at], *exported))
    nothing = tuple(xp.empty(0, dtype=xp.int64) for _ in range(2 + len(reduction.exports)))
    attained = ops.merge_rows(blocks) if blocks else nothing
    every = xp.arange(size)
    starts = xp.searchsorted(attained[0], every)
    lengths = xp.searchsorted(attained[0], every, side="right") - starts
    names_ = (reduction.variable, *(name for name, _ in reduction.exports))
    return BranchRows(ops, starts, lengths, dict(zip(names_, attained[1:], strict=True)))
