"""Counts the values of the last level without enumerating them. The last two levels are counted
together if the lists of neither depend on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gdatalog.plan.join_plan import Join, Slot, Step
from gdatalog.plan.nest import measurable, unequal
from gdatalog.printer.lists import (
    LevelLists,
    fill,
    in_order,
    intersection,
    meeting,
    ranges_of,
    set_by_marks,
    start_of,
    trimmed,
    walk_of,
)
from gdatalog.printer.nest import NestPrinter, Point
from gdatalog.printer.nest_state import OVERFLOW, Range
from gdatalog.printer.turns import leaping
from gdatalog.records import dataclass, replace


def counted(here: Point, met: LevelLists) -> tuple[str, bool] | None:
    """The number of the last level's bindings, and whether it is each lane's own share; None if
    bindings have to be enumerated."""
    if measurable_here(here, here.at, met):
        return _measure(here, met)
    found = _weighed(here, met) or _summed(here, met)
    if found is not None:
        return found, False
    share = _summed_by_lanes(here, met)
    return None if share is None else (share, True)


def measurable_here(here: Point, at: int, met: LevelLists) -> bool:
    """Whether a level's values can be counted by the ends of ranges, or by an intersection."""
    nest, steps = here.nest, here.steps
    if not measurable(steps, at) or (met.roots and len(met.roots) + len(met.lists) > 1):
        return False
    if any(map(nest.hashed, met.roots)):
        return False
    weighted = any(node.trie.weighted and node.last for node in (*met.lists, *met.roots))
    goes_on = any(not node.last for node in (*met.lists, *met.roots))
    # Each atom multiplies its weight, even if atoms share a list.
    alone = len(met.step.participants) == 1 and at + 1 == len(steps)
    return not goes_on and (not weighted or alone)


def _plain(here: Point) -> bool:
    """Whether the level is the last step, is not cut to a task, and there is no profile."""
    uncounted = here.nest.counting is None and here.clip is None
    return uncounted and here.at + 1 == len(here.steps)


def _weighed(here: Point, met: LevelLists) -> str | None:
    """The sum of the weights of an intersection of two lists, one of which has weights."""
    nest, nodes = here.nest, [*met.lists]
    if not (
        not (nest.tile or met.roots)
        and _plain(here)
        and len(nodes) == len(met.step.participants) == 2
        and all(node.last and not nest.hashed(node) and not nest.tallied(node) for node in nodes)
        and sum(node.trie.weighted for node in nodes) == 1
    ):
        return None
    total = here.text.name("m")
    first, second = sorted(met.lists, key=lambda node: node.trie.weighted)
    ends = {node: trimmed(here, met, node) for node in met.lists}
    weights = nest.arguments.of_trie(nest.number[second.trie], "weights")
    its = nest.values(second), *ends[second]
    plain = nest.call("weigh_common", nest.values(first), *ends[first], *its, weights)
    marked = first if first in here.marks else None
    set_by_marks(here, total, plain, marked, "weigh_marked", its, weights)
    return total


def _summed(here: Point, met: LevelLists) -> str | None:
    """The sum of a table's counts over an intersection of lists."""
    nest, text = here.nest, here.text
    if not (
        not nest.tile  # a tile's lanes walk the lists
        and _plain(here)
        and bool(met.lists)
        and len(met.roots) == 1
        and all(map(nest.tallied, met.roots))
        and len(met.lists) + 1 == len(met.step.participants)
        and not any(nest.hashed(node) or node.trie.weighted or not node.last for node in met.lists)
    ):
        return None
    total, (root,) = text.name("m"), met.roots
    walk = walk_of(here, replace(met, roots={}))
    table = nest.table(root)
    ends = walk.array, walk.low, walk.high
    text.line(f"{total} = {nest.call('sum_tally', table.counts, table.low, *ends)}")
    with text.block(f"if {total} < 0"):
        text.line(f"return {OVERFLOW}")
    return total


def _summed_by_lanes(here: Point, met: LevelLists) -> str | None:
    """Each lane's share of the sum of a table's counts over an intersection of two lists. A sum of
    counts of 32 bits stays within 64 bits."""
    nest = here.nest
    if not (
        here.together()
        and _plain(here)
        and (len(met.lists), len(met.roots), len(met.step.participants)) == (2, 1, 3)
        and all(node.last and not node.trie.weighted for node in met.lists)
        and all(map(nest.tallied, met.roots))
        and start_of(here, met) is None
        and all(nest.arguments.found[nest.table(n).counts].type == "i32[]" for n in met.roots)
    ):
        return None
    total, (root,) = here.text.name("m"), met.roots
    table = nest.table(root)
    args: list[str] = []
    for node in in_order(here, met.nodes):
        args += [nest.values(node), *trimmed(here, met, node)]
    here.text.line(f"{total} = {nest.call('sum_common', *args, table.counts, table.low)}")
    return total


def _measure(here: Point, met: LevelLists) -> tuple[str, bool]:
    """The number of the level's values, without those that `!=` tests exclude; and whether it is
    each lane's own share."""
    step, steps = met.step, here.steps[here.at :]
    within = here.inner()  # tasks that share a list measure disjoint parts
    if here.clip is not None:
        within.first_task = None

    def tell(count: str, other: Slot | None, share: bool) -> None:
        within.bound(first_of(steps, step, other), count, share)

    unlike = [unequal(later, step.variable) for later in here.later]
    others = list(dict.fromkeys(slot for slot in unlike if slot is not None))
    return measured(here, others, met, tell)


# A callback for profiles, called at first and after each exclusion, with the number of values, the
# excluded variable, and whether the number is each lane's own share.
Tell = Callable[[str, Slot | None, bool], None]


def first_of(steps: Sequence[Step], step: Join, other: Slot | None) -> Step:
    """The step itself, or the first test that excludes the value of `other`."""
    if other is None:
        return step
    return next(later for later in steps if unequal(later, step.variable) == other)


def measured(here: Point, others: Sequence[Slot], met: LevelLists, tell: Tell) -> tuple[str, bool]:
    """The number of a level's values that differ from the values of `others`."""
    nest, text = here.nest, here.text
    share = False
    count = text.name("m")
    places: list[tuple[str, Range]]
    if len(met.lists) > 1 and nest.tile and not here.together():
        places = _leapt(here, met, count)
    elif len(met.lists) < 2 or here.clip is not None:
        walk = walk_of(here, met)
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
        places, share = _common(here, met, count)
    tell(count, None, share)
    for at, other in enumerate(others):
        _leave_out(here, met, count, places, others[: at + 1], share)
        tell(count, other, share)
    return count, share


def _leapt(here: Point, met: LevelLists, count: str) -> list[tuple[str, Range]]:
    """Counts an intersection on a single lane, which has no buffer; returns its lists' ranges."""
    nest, text = here.nest, here.text
    ranges = ranges_of(here, met)
    first, *others = ranges
    if not others:
        text.line(f"{count} = max(np.int64(0), np.int64({first.high}) - np.int64({first.low}))")
    elif len(others) == 1:
        ends = [end for each in ranges for end in (each.array, each.low, each.high)]
        text.line(f"{count} = {nest.call('count_leapfrog', *ends)}")
    else:
        text.line(f"{count} = np.int64(0)")
        with leaping(nest, replace(first, others=others), {}):
            text.line(f"{count} += 1")
    return [(found.array, (found.low, found.high)) for found in ranges]


def _common(here: Point, met: LevelLists, count: str) -> tuple[list[tuple[str, Range]], bool]:
    """Counts an intersection; returns the ranges that contain its members."""
    nest, text = here.nest, here.text
    found, marked = start_of(here, met), None
    if found is None:
        *some, last = in_order(here, met.nodes)
        if len(some) > 1:
            first = replace(met, lists={node: met.lists[node] for node in some}, roots={})
            buffer = fill(here, first)
            array, ends = buffer.array, (buffer.low, buffer.high)
        else:
            array, ends = nest.values(some[0]), trimmed(here, met, some[0])
            marked = some[0] if some[0] in here.marks else None
    else:
        covered, start = found
        array, ends = start.array, (start.low, start.high)
        if covered == met.nodes:
            text.line(f"{count} = np.int64({ends[1]}) - np.int64({ends[0]})")
            return [(array, ends)], False
        *some, last = in_order(here, met.nodes - covered)
        if some:
            first = replace(met, lists={n: met.lists[n] for n in (*covered, *some)}, roots={})
            walk = intersection(here, first)
            array, ends = walk.array, (walk.low, walk.high)
    its = trimmed(here, met, last)
    args = (array, *ends, nest.values(last), *its)
    kind = meeting(nest, marked is not None)
    plain = nest.call("count_common" if kind == "intersect" else f"count_{kind}", *args)
    set_by_marks(here, count, plain, marked, "count_intersect_marked", args)
    return [(array, ends), (nest.values(last), its)], bool(nest.tile)


def _leave_out(
    here: Point,
    met: LevelLists,
    count: str,
    places: Sequence[tuple[str, Range]],
    others: Sequence[Slot],
    share: bool,
) -> None:
    """Subtracts one if the value of the last of `others` was counted, unless an earlier one of them
    has the same value."""
    *before, other = others
    nest, text, name = here.nest, here.text, here.names[other.name]
    # Variables may be equal: subtract each value once.
    tests = [f"{name} != {here.names[earlier.name]}" for earlier in before]
    in_lists = bool(met.lists) and met.nodes <= here.members.get(other.name, frozenset())
    if met.step.cuts or here.clip is not None or not in_lists:
        buffer = here.buffers.get(met.nodes)
        if buffer is not None and buffer.marks is not None and not met.step.cuts:
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


@dataclass(frozen=True, slots=True)
class Pair:
    """The last two levels of a count. Their lists do not depend on each other, and their values
    must differ."""

    first: Join
    last: Join
    others: tuple[tuple[Slot, ...], tuple[Slot, ...]]  # other variables that each must differ from


def last_pair(here: Point, at: int) -> Pair | None:
    """The pair that starts at a level, if there is one."""
    nest, steps = here.nest, here.steps
    joins = [step for step in steps[at:] if isinstance(step, Join)]
    if len(joins) != 2 or joins[0] is not steps[at]:
        return None
    first, last = joins
    others: tuple[list[Slot], list[Slot]] = ([], [])
    for step in steps[at + 1 :]:
        if step is last:
            continue
        a, b = unequal(step, first.variable), unequal(step, last.variable)
        if a is None and b is None:
            return None
        if b is None and a is not None:
            others[0].append(a)
        if a is None and b is not None:
            others[1].append(b)
    nodes = [nest.paths.node(part) for join in joins for part in join.participants]
    apart = any(_unlike(step, first, last) for step in steps[at + 1 :] if step is not last)
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
    return LevelLists({node: set() for node in lists}, {}, pair.first)


def measure_pair(here: Point, pair: Pair) -> str:
    """The number of pairs of different values: all pairs, minus the values that both levels have.

    A profile counts as if the bindings were enumerated, where that can be computed.
    """
    nest, text, steps = here.nest, here.text, here.steps[here.at :]
    first, last = pair.first, pair.last
    places = {id(step): place for place, step in enumerate(steps)}
    apart = next(place for place, step in enumerate(steps) if _unlike(step, first, last))
    one = ""  # the number of values of the first level

    def tell_first(count: str, other: Slot | None, share: bool) -> None:
        nonlocal one
        one = count
        step = first_of(steps, first, other)
        if places[id(step)] < places[id(last)]:
            here.bound(step, count, share)

    def tell_last(count: str, other: Slot | None, share: bool) -> None:
        step = first_of(steps, last, other)
        firsts = [first_of(steps, first, slot) for slot in pair.others[0]]
        before = all(places[id(each)] < places[id(last)] for each in firsts)
        if before and places[id(step)] < apart:
            here.bound(step, f"{one} * {count}", share)

    either = tuple(dict.fromkeys((*pair.others[0], *pair.others[1])))
    firsts, lasts = LevelLists.of(nest, first), LevelLists.of(nest, last)
    of_first = nest.whole(*measured(here, pair.others[0], firsts, tell_first))
    of_last = nest.whole(*measured(here, pair.others[1], lasts, tell_last))
    common = nest.whole(*measured(here, either, both(nest, pair), lambda *_: None))
    count = text.name("m")
    text.line(f"{count} = {of_first} * {of_last} - {common}")
    here.bound(steps[-1], count)
    return count


def _unlike(step: Step, first: Join, last: Join) -> bool:
    """Whether a step tests that the values of two levels differ."""
    return None not in (unequal(step, first.variable), unequal(step, last.variable))
