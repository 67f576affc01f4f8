"""Joins on several devices, breadth-first, in parts with sinks of their own.

Each device takes ranges of the first variable's values. Each range leads to about as many rows of
the next level, and the join of a range is an ordinary join (`plan/cells.py`). The first device
combines the sinks.

"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gdatalog.calls import Block
from gdatalog.engine.device import group_of
from gdatalog.executors.frontier import WEIGHT, Frontier
from gdatalog.executors.gather import Gathering
from gdatalog.executors.levelwise import Levelwise
from gdatalog.executors.ops import Ops
from gdatalog.executors.sinks import Bag, RowSet, Sink, StepCounts
from gdatalog.limits import Limits
from gdatalog.plan.cells import Cell, KeyRange, within
from gdatalog.plan.join_plan import Join, JoinPlan
from gdatalog.plan.placement import Shared
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.engine.context import ExecutionContext


Found = list[list[Block]]


def cut_at_first(join: JoinPlan) -> bool:
    """Whether a join begins with the values of a variable, read from its tries' roots."""
    first = join.steps[0] if join.steps else None
    roots = isinstance(first, Join) and all(part.depth == 0 for part in first.participants)
    return roots and join.given is None


def run_together(
    join: JoinPlan,
    tries: Sequence[Trie],
    sink: Sink,
    shared: Shared,
    context: ExecutionContext,
    seen: dict[int, StepCounts] | None,
) -> bool:
    """Runs a join into a sink on all members of the device; returns False if the sink or the join
    cannot be cut. `seen`: the metrics of each step, by id."""
    group = group_of(context.device)
    if group is None or not cut_at_first(join):
        return False
    if not sink.divisible or not isinstance(sink, (RowSet, Bag)):
        return False
    if isinstance(sink, RowSet) and not sink.outputs:
        return False
    begin = join.steps[0]
    assert isinstance(begin, Join)
    ends = _ends(begin, tries, len(shared.devices) * shared.pieces)
    done: list[tuple[int, dict[int, StepCounts]]] = []  # of each piece: input rows, steps

    def piece(ops: Ops, tries: Sequence[Trie], limits: Limits, part: int) -> Found:
        into = sink.apart(limits, ops)
        steps: dict[int, StepCounts] = {}
        if part + 1 < len(ends):
            cut = within(join, Cell({begin.variable: KeyRange(ends[part], ends[part + 1])}))
            happened = None if seen is None else steps
            walk = Levelwise(tries, ops, context.scope, limits, happened, None, context.thresholds)
            first = Frontier(1)
            if join.orbit != 1:
                first.columns[WEIGHT] = ops.xp.full(1, join.orbit)
            walk.run(cut.steps, 0, first, into)
            _as_whole(steps, cut, join)
        done.append((_given(into), steps))
        return _blocks(into)

    found = group.together(piece, shared, tries, context.limits)
    _take(sink, found, sum(given for given, _ in done))
    for _, steps in done:
        for at, entry in steps.items():
            assert seen is not None
            seen.setdefault(at, StepCounts()).add(entry)
    return True


def _ends(first: Join, tries: Sequence[Trie], pieces: int) -> list[int | None]:
    """The bounds of the ranges of the first variable; None: unbounded."""
    own = [tries[part.trie].levels for part in first.participants]
    levels = max(own, key=lambda levels: len(levels[1]) if len(levels) > 1 else 0)
    values, xp = levels[0].values, levels[0].xp
    shares = xp.arange(1, pieces, dtype=xp.int64)
    if len(levels) > 1:
        wanted = shares * len(levels[1]) // pieces
        places = xp.searchsorted(levels[1].offsets, wanted.astype(levels[1].offsets.dtype))
    else:
        places = shares * len(values) // pieces
    if not len(values):
        return [None, None]
    inner = values[xp.minimum(places, len(values) - 1)].tolist()
    return [None, *sorted(set(map(int, inner))), None]


def _as_whole(steps: dict[int, StepCounts], cut: JoinPlan, join: JoinPlan) -> None:
    """Adds the metrics of a cut join's first step to the whole join's; tests of the range, which
    follow it, are no steps of the whole join."""
    entry = steps.pop(id(cut.steps[0]), None)
    if entry is not None:
        tests = cut.steps[1 : 1 + len(cut.steps) - len(join.steps)]
        for test in tests:
            passed = steps.pop(id(test), None)
            entry.rows_out = passed.rows_out if passed is not None else entry.rows_out
        steps[id(join.steps[0])] = entry


def _given(sink: RowSet | Bag) -> int:
    return sink.given if isinstance(sink, RowSet) else sink.gathering.given


def _blocks(sink: RowSet | Bag) -> Found:
    """The content of a sink: rows; or groups, and the distinct values of each aggregate."""
    if isinstance(sink, RowSet):
        rows, count = sink.finish()
        sink.give_back()
        return [[rows] if count else []]
    gathering = sink.gathering
    gathering.give_back()
    return [gathering.blocks, *(rows.blocks for rows in gathering.sets)]


def _take(sink: RowSet | Bag, found: Found, given: int) -> None:
    """Combines the results of all pieces on the first device."""
    if isinstance(sink, RowSet):
        given += sink.given
        for block in found[0]:
            sink.add(block)
        sink.given = given
        return
    gathering = sink.gathering
    other: Any = Gathering(gathering.specs, gathering.ops, gathering.scope, gathering.limits)
    other.blocks, other.width, other.given = found[0], len(sink.keys), given
    for rows, blocks in zip(other.sets, found[1:], strict=True):
        rows.blocks = blocks
    gathering.join(other)
