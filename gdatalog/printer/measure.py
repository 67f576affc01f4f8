"""Counts the values of a count's last level without enumerating them, and those of the last two
levels together if neither's lists depend on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gdatalog.plan import Join, Slot, Step
from gdatalog.plan.nest import measurable, unequal
from gdatalog.printer.lists import (
    LevelLists,
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
from gdatalog.printer.nest import NestPrinter
from gdatalog.printer.nest_state import KnownPositions, Range
from gdatalog.printer.turns import leaping
from gdatalog.records import dataclass


def measurable_here(nest: NestPrinter, steps: Sequence[Step], at: int, met: LevelLists) -> bool:
    """Whether the ends of ranges tell the number of the level's values."""
    if not measurable(steps, at) or (met.roots and len(met.roots) + len(met.lists) > 1):
        return False
    if any(map(nest.hashed, met.roots)):
        return False
    weighted = any(node.trie.weighted and node.last for node in (*met.lists, *met.roots))
    goes_on = any(not node.last for node in (*met.lists, *met.roots))
    step = steps[at]
    assert isinstance(step, Join)
    # Each atom multiplies its weight, even if atoms share a list.
    alone = len(step.participants) == 1 and at + 1 == len(steps)
    return not goes_on and (not weighted or alone)


def weighable(
    nest: NestPrinter, steps: Sequence[Step], at: int, met: LevelLists, known: KnownPositions
) -> bool:
    """Whether the level is an intersection of two lists, one with weights, to be summed."""
    step = steps[at]
    assert isinstance(step, Join)
    nodes = [*met.lists]
    plain = not (nest.tile or met.roots or nest.counting is not None or known.clip is not None)
    return (
        plain
        and at + 1 == len(steps)
        and len(nodes) == len(step.participants) == 2
        and all(node.last and not nest.hashed(node) and not nest.tallied(node) for node in nodes)
        and sum(node.trie.weighted for node in nodes) == 1
    )


def weigh(nest: NestPrinter, step: Join, met: LevelLists, known: KnownPositions) -> str:
    """The sum of the weights of an intersection; the second list has the weights."""
    text, total = nest.text, nest.text.name("m")
    first, second = sorted(met.lists, key=lambda node: node.trie.weighted)
    ends = {node: trimmed(nest, node, step.cuts, met.lists[node], known) for node in met.lists}
    weights = nest.arguments.of_trie(nest.number[second.trie], "weights")
    its = nest.values(second), *ends[second]
    args = nest.values(first), *ends[first], *its, weights
    plain = f"{total} = {nest.call('weigh_common', *args)}"
    if first not in known.marks:
        text.line(plain)
        return total
    with text.block(f"if {known.marks[first]}"):
        marks = marks_of(nest, first)
        text.line(f"{total} = {nest.call('weigh_marked', *its, *marks, weights)}")
    with text.block("else"):
        text.line(plain)
    return total


def summable(
    nest: NestPrinter, steps: Sequence[Step], at: int, met: LevelLists, known: KnownPositions
) -> bool:
    """Whether the level intersects lists, and a table of counts has the weights."""
    step = steps[at]
    assert isinstance(step, Join)
    return (
        at + 1 == len(steps)
        and known.clip is None
        and nest.counting is None
        and not nest.tile  # a tile's lanes walk the lists
        and bool(met.lists)
        and len(met.roots) == 1
        and all(map(nest.tallied, met.roots))
        and len(met.lists) + 1 == len(step.participants)
        and not any(nest.hashed(node) or node.trie.weighted or not node.last for node in met.lists)
    )


def summed(nest: NestPrinter, step: Join, met: LevelLists, known: KnownPositions) -> str:
    """The sum of a table's counts over an intersection of lists."""
    text, total = nest.text, nest.text.name("m")
    (root,) = met.roots
    walk = walk_of(nest, step, LevelLists(met.lists, {}), known)
    table = nest.tables[root.trie.relation]
    ends = walk.array, walk.low, walk.high
    text.line(f"{total} = {nest.call('sum_tally', table.counts, table.low, *ends)}")
    with text.block(f"if {total} < 0"):
        text.line("return 4")
    return total


def sums_common(
    nest: NestPrinter, steps: Sequence[Step], at: int, met: LevelLists, known: KnownPositions
) -> bool:
    """Whether a tile sums a table's counts over an intersection of two lists. Counts of 32 bits
    cannot overflow a sum of 64."""
    step = steps[at]
    assert isinstance(step, Join)
    return (
        at + 1 == len(steps)
        and nest.together(known)
        and known.clip is None
        and nest.counting is None
        and len(met.lists) == 2
        and len(met.roots) == 1
        and len(step.participants) == 3
        and all(node.last and not node.trie.weighted for node in met.lists)
        and all(map(nest.tallied, met.roots))
        and start_of(nest, step, met, known) is None
        and all(
            nest.arguments.found[nest.tables[node.trie.relation].counts].type == "i32[]"
            for node in met.roots
        )
    )


def sum_common(nest: NestPrinter, step: Join, met: LevelLists, known: KnownPositions) -> str:
    """Each lane's share of that sum."""
    total, (root,) = nest.text.name("m"), met.roots
    table = nest.tables[root.trie.relation]
    args: list[str] = []
    for node in in_order(nest, met.nodes, known):
        args += [nest.values(node), *trimmed(nest, node, step.cuts, met.lists[node], known)]
    nest.text.line(f"{total} = {nest.call('sum_common', *args, table.counts, table.low)}")
    return total


def measure(
    nest: NestPrinter, steps: Sequence[Step], at: int, met: LevelLists, known: KnownPositions
) -> tuple[str, bool]:
    """The name of the level's number of values, without those that `!=` tests exclude; and whether
    it is each lane's own share."""
    step = steps[at]
    assert isinstance(step, Join)
    within = known.inner()  # tasks that share a list measure disjoint parts
    if known.clip is not None:
        within.first_task = None

    def tell(count: str, other: Slot | None, share: bool) -> None:
        nest.bound(first_of(steps[at:], step, other), within, count, share)

    return measured(nest, step, _others(steps, at), met, known, tell)


# A callback for profiles: the number of values, at first and after each exclusion; the excluded
# variable; whether the number is each lane's own share.
Tell = Callable[[str, Slot | None, bool], None]


def unmeasured(count: str, other: Slot | None, share: bool) -> None:
    """The callback for numbers that are no bindings."""


def first_of(steps: Sequence[Step], step: Join, other: Slot | None) -> Step:
    """The step itself, or the first test that excludes the value of `other`."""
    if other is None:
        return step
    return next(later for later in steps if unequal(later, step.variable) == other)


def measured(
    nest: NestPrinter,
    step: Join,
    others: Sequence[Slot],
    met: LevelLists,
    known: KnownPositions,
    tell: Tell = unmeasured,
) -> tuple[str, bool]:
    """The number of a level's values that differ from the values of `others`."""
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
            tell(f"max(np.int64(0), np.int64({walk.high}) - np.int64({walk.low}))", None, False)
            end = f"{sums}[max({walk.low}, {walk.high})]"
            text.line(f"{count} = np.int64({end} - {sums}[{walk.low}])")
            return count, False
        text.line(f"{count} = max(np.int64(0), np.int64({walk.high}) - np.int64({walk.low}))")
        places = [(walk.array, (walk.low, walk.high))]
    else:
        places, share = _common(nest, step, met, known, count)
    tell(count, None, share)
    for at_, other in enumerate(others):
        _leave_out(nest, step, met, known, count, places, other, others[:at_], share)
        tell(count, other, share)
    return count, share


def _leapt(
    nest: NestPrinter, step: Join, met: LevelLists, known: KnownPositions, count: str
) -> list[tuple[str, Range]]:
    """The same for a single lane, which has no buffer to write to."""
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
    """The variables whose values the level's values must differ from."""
    step = steps[at]
    assert isinstance(step, Join)
    found = [unequal(later, step.variable) for later in steps[at + 1 :]]
    return list(dict.fromkeys(slot for slot in found if slot is not None))


def _common(
    nest: NestPrinter, step: Join, met: LevelLists, known: KnownPositions, count: str
) -> tuple[list[tuple[str, Range]], bool]:
    """Counts an intersection; returns the ranges that contain its members."""
    text = nest.text
    found = start_of(nest, step, met, known)
    if found is None:
        nodes = in_order(nest, met.nodes, known)
        if len(nodes) > 2:
            first = LevelLists({node: met.lists[node] for node in nodes[:-1]}, {})
            buffer = fill(nest, first, step.cuts, known, "")
            array, ends = buffer.array, (buffer.low, buffer.end)
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
            some = LevelLists({node: met.lists[node] for node in (*covered, *rest[:-1])}, {})
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
            meet = nest.call("count_intersect_marked", *args, *marks_of(nest, marked))
            text.line(f"{count} = {meet}")
        with text.block("else"):
            text.line(plain)
    return [(array, ends), (nest.values(last), its)], bool(nest.tile)


def _leave_out(
    nest: NestPrinter,
    step: Join,
    met: LevelLists,
    known: KnownPositions,
    count: str,
    places: Sequence[tuple[str, Range]],
    other: Slot,
    before: Sequence[Slot],
    share: bool,
) -> None:
    """Subtracts one if the value of another variable was counted."""
    text, name = nest.text, known.names[other.name]
    # Variables may be equal: subtract each value once.
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


def _counting(nest: NestPrinter, few: bool) -> str:
    found = meeting(nest, few)
    return "count_common" if found == "intersect" else f"count_{found}"


# Measures the last two levels of a count together if neither's lists depend on the other.


@dataclass(frozen=True, slots=True)
class Pair:
    """The last two levels of a count, whose lists do not depend on each other: only their values
    must differ."""

    first: Join
    last: Join
    others: tuple[tuple[Slot, ...], tuple[Slot, ...]]  # other variables that each must differ from


def last_pair(nest: NestPrinter, steps: Sequence[Step], at: int) -> Pair | None:
    """The pair that starts at a level, if there is one."""
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
        not node.terms
        or not node.last
        or node.trie.weighted
        or first.variable in node.variables
        or nest.hashed(node)
        for node in nodes
    ):
        return None
    return Pair(first, last, (tuple(dict.fromkeys(others[0])), tuple(dict.fromkeys(others[1]))))


def both(nest: NestPrinter, pair: Pair) -> LevelLists:
    """The lists of both levels of a pair."""
    lists = (*LevelLists.of(nest, pair.first).lists, *LevelLists.of(nest, pair.last).lists)
    return LevelLists({node: set() for node in lists}, {})


def measure_pair(
    nest: NestPrinter, pair: Pair, steps: Sequence[Step], known: KnownPositions
) -> str:
    """The number of pairs of different values: all pairs minus those with a common value.

    `steps`: the steps from the first level on.
    """
    either = tuple(dict.fromkeys((*pair.others[0], *pair.others[1])))
    both_levels = _Pairs(nest, pair, steps, known)
    one, other, common = (
        nest.whole(*measured(nest, step, others, met, known, tell))
        for step, others, met, tell in (
            (pair.first, pair.others[0], LevelLists.of(nest, pair.first), both_levels.first),
            (pair.last, pair.others[1], LevelLists.of(nest, pair.last), both_levels.last),
            (pair.first, either, both(nest, pair), unmeasured),
        )
    )
    count = nest.text.name("m")
    nest.text.line(f"{count} = {one} * {other} - {common}")
    nest.bound(steps[-1], known, count)
    return count


@dataclass(slots=True)
class _Pairs:
    """Profile counts of a pair as if its bindings were enumerated, where these can be computed."""

    nest: NestPrinter
    pair: Pair
    steps: Sequence[Step]
    known: KnownPositions
    one: str = ""  # the number of values of the first level

    def first(self, count: str, other: Slot | None, share: bool) -> None:
        self.one = count
        step = first_of(self.steps, self.pair.first, other)
        if self._place(step) < self._place(self.pair.last):
            self.nest.bound(step, self.known, count, share)

    def last(self, count: str, other: Slot | None, share: bool) -> None:
        step = first_of(self.steps, self.pair.last, other)
        firsts = [first_of(self.steps, self.pair.first, slot) for slot in self.pair.others[0]]
        apart = next(
            place
            for place, each in enumerate(self.steps)
            if unequal(each, self.pair.first.variable) is not None
            and unequal(each, self.pair.last.variable) is not None
        )
        before = all(self._place(each) < self._place(self.pair.last) for each in firsts)
        if before and self._place(step) < apart:
            self.nest.bound(step, self.known, f"{self.one} * {count}", share)

    def _place(self, step: Step) -> int:
        return next(place for place, each in enumerate(self.steps) if each is step)
