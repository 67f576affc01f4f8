"""The last level of a count: how many values it has, none of which is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gdatalog.plan.nest import measurable, unequal
from gdatalog.plan.nodes import Join, Slot, Step
from gdatalog.printer.lists import (
    Met,
    Walk,
    fill,
    in_order,
    intersection,
    marks_of,
    meeting,
    ranges_of,
    start_of,
    trimmed,
    walk_of,
)
from gdatalog.printer.scope import Known, Range
from gdatalog.printer.turns import leaping

if TYPE_CHECKING:
    from gdatalog.printer.nest import Nest


def measurable_here(nest: Nest, steps: Sequence[Step], at: int, met: Met) -> bool:
    """Whether the level's values can be counted by the ends of ranges."""
    if not measurable(steps, at) or (met.roots and len(met.roots) + len(met.lists) > 1):
        return False
    weighted = any(node.trie.weighted and node.last for node in (*met.lists, *met.roots))
    goes_on = any(not node.last for node in (*met.lists, *met.roots))
    step = steps[at]
    assert isinstance(step, Join)
    # Each atom weighs, though two of them may stand at the same list.
    alone = len(step.participants) == 1 and at + 1 == len(steps)
    return not goes_on and (not weighted or alone)


def measure(nest: Nest, steps: Sequence[Step], at: int, met: Met, known: Known) -> tuple[str, bool]:
    """The name of how many values the level has, those of `!=` tests left out; and whether each
    lane has its share of it only."""
    step = steps[at]
    assert isinstance(step, Join)
    if nest.counting is None:
        return _measured(nest, step, _others(steps, at), met, known)
    within = known.inner()  # of a list that is shared out, each task measures a part of its own
    if known.clip is not None:
        within.first_task = None

    def tell(count: str, other: Slot | None) -> None:
        nest.bound(_first(steps[at:], step, other), within, count)

    return _measured(nest, step, _others(steps, at), met, known, tell)


@dataclass(frozen=True, slots=True)
class Pair:
    """The last two levels of a count, of which neither's lists depend on the other: only their
    values must differ."""

    first: Join
    last: Join
    others: tuple[tuple[Slot, ...], tuple[Slot, ...]]  # what else each must differ from


def last_pair(nest: Nest, steps: Sequence[Step], at: int) -> Pair | None:
    """The pair that begins at a level."""
    joins = [step for step in steps[at:] if isinstance(step, Join)]
    if len(joins) != 2 or joins[0] is not steps[at]:
        return None
    first, last = joins
    others: tuple[list[Slot], list[Slot]] = ([], [])
    apart = False
    for step in steps[at + 1 :]:
        if step is last:
            continue
        a, b = unequal(step, first.variable), unequal(step, last.variable)
        apart = apart or (a is not None and b is not None)
        if a is None and b is None:
            return None
        if b is None and a is not None:
            others[0].append(a)
        if a is None and b is not None:
            others[1].append(b)
    nodes = [nest.paths.node(part) for join in joins for part in join.participants]
    if not apart or first.cuts or last.cuts:
        return None
    if any(
        not node.terms or not node.last or node.trie.weighted or first.variable in node.variables
        for node in nodes
    ):
        return None
    return Pair(first, last, (tuple(dict.fromkeys(others[0])), tuple(dict.fromkeys(others[1]))))


def both(nest: Nest, pair: Pair) -> Met:
    """The lists of both levels of a pair."""
    lists = (*Met.of(nest, pair.first).lists, *Met.of(nest, pair.last).lists)
    return Met({node: set() for node in lists}, {})


def measure_pair(nest: Nest, pair: Pair, steps: Sequence[Step], known: Known) -> str:
    """How many pairs of different values there are: all pairs less those of a common value.

    `steps`: those from the first of the two on.
    """
    either = tuple(dict.fromkeys((*pair.others[0], *pair.others[1])))
    told = _Pairs(nest, pair, steps, known)
    one, other, common = (
        nest.whole(*_measured(nest, step, others, met, known, tell))
        for step, others, met, tell in (
            (pair.first, pair.others[0], Met.of(nest, pair.first), told.first),
            (pair.last, pair.others[1], Met.of(nest, pair.last), told.last),
            (pair.first, either, both(nest, pair), _untold),
        )
    )
    count = nest.text.name("m")
    nest.text.line(f"{count} = {one} * {other} - {common}")
    nest.bound(steps[-1], known, count)
    return count


# Told of how many values there are, at first and after each that is left out.
Tell = Callable[[str, Slot | None], None]


def _untold(count: str, other: Slot | None) -> None:
    """What is no number of bindings."""


@dataclass(slots=True)
class _Pairs:
    """Counts the bindings of a pair, as if they were made one by one: where that can be told."""

    nest: Nest
    pair: Pair
    steps: Sequence[Step]
    known: Known
    one: str = ""  # how many the first level has

    def first(self, count: str, other: Slot | None) -> None:
        self.one = count
        step = _first(self.steps, self.pair.first, other)
        if self._place(step) < self._place(self.pair.last):
            self.nest.bound(step, self.known, count)

    def last(self, count: str, other: Slot | None) -> None:
        step = _first(self.steps, self.pair.last, other)
        firsts = [_first(self.steps, self.pair.first, slot) for slot in self.pair.others[0]]
        apart = next(
            place
            for place, each in enumerate(self.steps)
            if unequal(each, self.pair.first.variable) is not None
            and unequal(each, self.pair.last.variable) is not None
        )
        before = all(self._place(each) < self._place(self.pair.last) for each in firsts)
        if before and self._place(step) < apart:
            self.nest.bound(step, self.known, f"{self.one} * {count}")

    def _place(self, step: Step) -> int:
        return next(place for place, each in enumerate(self.steps) if each is step)


def _first(steps: Sequence[Step], step: Join, other: Slot | None) -> Step:
    """The step itself, or the first that leaves out the value of another variable."""
    if other is None:
        return step
    return next(later for later in steps if unequal(later, step.variable) == other)


def _measured(
    nest: Nest,
    step: Join,
    others: Sequence[Slot],
    met: Met,
    known: Known,
    tell: Tell = _untold,
) -> tuple[str, bool]:
    text = nest.text
    share = False
    count = text.name("m")
    places: list[tuple[str, Range]]
    if len(met.lists) > 1 and nest.tile and not nest.together(known):
        places = _leapt(nest, step, met, known, count)
    elif len(met.lists) < 2 or known.clip is not None:
        walk = walk_of(nest, step, met, known)
        node = walk.node
        if node is not None and node.trie.weighted:
            sums = nest.arguments.of_trie(nest.number[node.trie], "sums")
            tell(f"max(np.int64(0), np.int64({walk.high}) - np.int64({walk.low}))", None)
            end = f"{sums}[max({walk.low}, {walk.high})]"
            text.line(f"{count} = np.int64({end} - {sums}[{walk.low}])")
            return count, False
        text.line(f"{count} = max(np.int64(0), np.int64({walk.high}) - np.int64({walk.low}))")
        places = [(walk.array, (walk.low, walk.high))]
    else:
        places, share = _common(nest, step, met, known, count)
    tell(count, None)
    for at_, other in enumerate(others):
        _leave_out(nest, step, met, known, count, places, other, others[:at_], share)
        tell(count, other)
    return count, share


def _leapt(nest: Nest, step: Join, met: Met, known: Known, count: str) -> list[tuple[str, Range]]:
    """The same by one lane alone, which has no buffer to write to."""
    text = nest.text
    ranges = ranges_of(nest, step, met, known)
    first, *others = ranges
    if not others:
        text.line(f"{count} = max(np.int64(0), np.int64({first.high}) - np.int64({first.low}))")
    elif len(others) == 1:
        ends = (first.array, first.low, first.high)
        (other,) = others
        counted = nest.call("count_leapfrog", *ends, other.array, other.low, other.high)
        text.line(f"{count} = {counted}")
    else:
        text.line(f"{count} = np.int64(0)")
        walk = Walk(first.array, first.low, first.high, first.node, others)
        with leaping(nest, walk, {}):
            text.line(f"{count} += 1")
    return [(found.array, (found.low, found.high)) for found in ranges]


def _others(steps: Sequence[Step], at: int) -> list[Slot]:
    """What the level's values must differ from."""
    step = steps[at]
    assert isinstance(step, Join)
    found = [unequal(later, step.variable) for later in steps[at + 1 :]]
    return list(dict.fromkeys(slot for slot in found if slot is not None))


def _common(
    nest: Nest, step: Join, met: Met, known: Known, count: str
) -> tuple[list[tuple[str, Range]], bool]:
    """Counts what lists have in common; gives the ranges that a member must be found in."""
    text = nest.text
    found = start_of(nest, step, met, known)
    if found is None:
        nodes = in_order(nest, met.nodes, known)
        if len(nodes) > 2:
            first = Met({node: met.lists[node] for node in nodes[:-1]}, {})
            buffer = fill(nest, first, step.cuts, known, "")
            array, ends = buffer.array, ("0", buffer.length)
            marked = None
        else:
            array = nest.values(nodes[0])
            ends = trimmed(nest, nodes[0], step.cuts, met.lists[nodes[0]], known)
            marked = nodes[0] if nodes[0] in known.marks else None
        rest = nodes[-1:]
    else:
        covered, buffer, ends = found
        array, marked = buffer.array, None
        rest = in_order(nest, met.nodes - covered, known)
        if not rest:
            text.line(f"{count} = np.int64({ends[1]}) - np.int64({ends[0]})")
            return [(array, ends)], False
        if len(rest) > 1:
            some = Met({node: met.lists[node] for node in (*covered, *rest[:-1])}, {})
            walk = intersection(nest, step, some, known)
            array, ends, rest = walk.array, (walk.low, walk.high), rest[-1:]
    (last,) = rest
    its = trimmed(nest, last, step.cuts, met.lists[last], known)
    args = (array, *ends, nest.values(last), *its)
    plain = f"{count} = {nest.call(_counting(nest, marked is not None), *args)}"
    if marked is None:
        text.line(plain)
    else:
        with text.block(f"if {known.marks[marked]}"):
            meet = nest.call("count_meet_marked", *args, *marks_of(nest, marked))
            text.line(f"{count} = {meet}")
        with text.block("else"):
            text.line(plain)
    return [(array, ends), (nest.values(last), its)], bool(nest.tile)


def _leave_out(
    nest: Nest,
    step: Join,
    met: Met,
    known: Known,
    count: str,
    places: Sequence[tuple[str, Range]],
    other: Slot,
    before: Sequence[Slot],
    share: bool,
) -> None:
    """One less, if the value of another variable is among those counted."""
    text, name = nest.text, known.names[other.name]
    # Each value is left out once, however many variables have it.
    tests = [f"{name} != {known.names[earlier.name]}" for earlier in before]
    in_lists = bool(met.lists) and met.nodes <= known.members.get(other.name, frozenset())
    if step.cuts or known.clip is not None or not in_lists:
        buffer = known.buffers.get(met.nodes)
        if buffer is not None and buffer.marks is not None and not step.cuts:
            tests.append(nest.call("is_marked", *buffer.marks, name))
        else:
            tests += [nest.call("has", array, *ends, name) for array, ends in places]
    if share:
        tests.insert(0, "leads()")
    if not tests:
        text.line(f"{count} -= 1")
        return
    with text.block(f"if {' and '.join(tests)}"):
        text.line(f"{count} -= 1")


def _counting(nest: Nest, few: bool) -> str:
    found = meeting(nest, few)
    return "count_common" if found == "intersect" else f"count_{found}"
