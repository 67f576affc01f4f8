"""Prints recoded levels: the candidates of all these levels lie in one list, and become bits of its
positions.

Each value of the list gets a row of bits: the positions of the value's children in a trie. The
candidates of a deeper level are an AND of rows; the last level of a count is a popcount.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.join_plan import Join, Slot, Step
from gdatalog.plan.nest import Recoding, TrieNode, counted_within, measurable
from gdatalog.printer.bitsets import (
    bounds_of,
    constraints_of,
    cuts_of,
    measure_bits,
    set_of,
    word_of,
)
from gdatalog.printer.lists import cut_range
from gdatalog.printer.lookups import seek
from gdatalog.printer.nest import NestPrinter, Point
from gdatalog.printer.nest_state import BitsetWords, Range, RecodedList
from gdatalog.printer.recoded_lists import (
    adjacencies,
    keeps_rows,
    least_length,
    looked_up,
    rowed_nodes,
)
from gdatalog.printer.turns import begin_unit, shared_turns

GRAIN = 64  # least number of positions of a task: each task builds the rows again


def print_recoded(here: Point, group: Recoding) -> None:
    """Builds the rows, then prints the loop of the group's first level."""
    nest, text, steps, within = here.nest, here.text, here.steps, group.within
    low, high = here.range_of(within)
    values = nest.values(within)
    first = steps[group.first]
    assert isinstance(first, Join)
    start, stop = cut_range(here, values, (low, high), cuts_of(first))
    if here.clip is not None:
        assert here.clip == within
        nest.grain = 1 if keeps_rows(nest, within) else GRAIN
        names = text.name("l"), text.name("h")
        text.line(f"{names[0]} = max({start}, c0)")
        text.line(f"{names[1]} = min({stop}, c1)")
        start, stop = names
    words = text.name("words")
    least = least_length(nest, steps, group)
    with text.block(f"if {high} - {low} >= {least} and {start} < {stop}"):
        text.line(f"{words} = ({high} - {low} + 63) >> 6")
        if keeps_rows(nest, within):
            rows = _kept_rows(here, group)
        else:
            rows = _make_rows(nest, steps, group, (low, high))
        inner = here.inner()
        inner.at = group.first
        inner.clip = inner.unit = None
        if here.clip is not None:
            inner.first_task = None
        rowed = rowed_nodes(nest, steps, group)
        inner.group = RecodedList(group, values, low, high, words, rows, rowed)
        turn, position = text.name("i"), text.name("j")
        lanes = _by_lanes(inner)
        with text.block(f"for {turn} in {'lanes' if lanes else 'range'}({start}, {stop})"):
            if here.clip is not None and not lanes:
                begin_unit(inner, f"{turn} - base", f"{turn} == c0")
            inner.alone = here.alone or lanes
            if not nest.tile:
                inner.may_stop()
            text.line(f"{position} = {turn} - {low}")
            _bind(inner, position)
    here.end_if_found()


def _kept_rows(here: Point, group: Recoding) -> dict[int, tuple[str, str]]:
    """Prints where the cached rows of bits begin for each trie of the group's levels; returns their
    arrays and beginnings by the trie's number."""
    nest, text, level = here.nest, here.text, here.nest.level(group.within)
    rows: dict[int, tuple[str, str]] = {}
    for node in adjacencies(nest, here.steps, group):
        trie = nest.number[node.trie]
        name = f"joined{level.trie}_{trie}"
        levels = level, nest.level(TrieNode(node.trie, ())), nest.level(node)
        starts = nest.arguments.scratch(f"{name}_at", "joined_at", levels)
        begin = text.name("r")
        text.line(f"{begin} = {nest.call('at', starts, here.positions[group.within])}")
        rows[trie] = nest.arguments.scratch(name, "joined", levels), f"{begin} + "
    return rows


def _make_rows(
    nest: NestPrinter, steps: Sequence[Step], group: Recoding, ends: Range
) -> dict[int, tuple[str, str]]:
    """Prints the code that builds rows of bits for each trie of the group's levels; returns their
    arrays by the trie's number."""
    text, level, values = nest.text, nest.level(group.within), nest.values(group.within)
    rows: dict[int, tuple[str, str]] = {}
    places: tuple[str, ...] = ()
    if not nest.tile:  # tiles use binary search instead
        array = nest.arguments.scratch(text.name("places"), "places", (level,))
        places = array, nest.arguments.scalar("base", level)
        text.line(nest.call("place", values, *ends, *places))
    for node in adjacencies(nest, steps, group):
        trie = nest.number[node.trie]
        array = nest.arguments.scratch(text.name("rows"), "rows", (level,))
        rows[trie] = array, ""
        root = nest.level(TrieNode(node.trie, ()))
        args = (values, *ends, *places, nest.arguments.values(root),
                nest.arguments.scalar("low", root), nest.arguments.of_trie(trie, "index"),
                nest.values(node), nest.arguments.offsets(nest.level(node)))  # fmt: skip
        text.line(nest.call("recode_rows", *args, array, *(() if nest.tile else ("0",))))
    if places:
        text.line(nest.call("unplace", values, *ends, *places))
    return rows


def print_bits(here: Point) -> None:
    """Prints a level of a group, other than the first: loops over a set of bits, or counts it."""
    nest, text, step, group = here.nest, here.text, here.join, here.recoded
    wanted = constraints_of(nest, step, group)
    roots = [p for p in step.participants if looked_up(nest, group, p)]
    if here.leaf.counts and measurable(here.steps, here.at) and not roots:
        here.leaf.count(here, *measure_bits(here, wanted))
        return
    lanes = _by_lanes(here)
    if lanes and all(each.kind != "row" for each in wanted):
        _lanes(here, *bounds_of(here, sorted(wanted, key=repr)))
        return
    bits = set_of(here, wanted)
    if lanes:
        low = "0" if bits.after is None else f"{bits.after} + 1"
        _lanes(here, low, f"{here.recoded.high} - {here.recoded.low}", bits)
        return
    if here.loops_after(here.at):
        group.sets[wanted] = bits
    if here.unit is not None:
        _shared(here, bits)
        return
    turn, word, position = text.name("i"), text.name("b"), text.name("j")
    with text.block(f"for {turn} in range({bits.first_word}, {group.words})"):
        text.line(f"{word} = {word_of(nest, bits, turn)}")
        with text.block(f"while {word} != np.uint64(0)"):
            zeros = nest.call("trailing_zeros", word)
            text.line(f"{position} = {turn} * 64 + np.int64({zeros})")
            text.line(f"{word} &= {word} - np.uint64(1)")
            if nest.tile:
                here.may_stop()
            _bind(here.inner(), position)
        here.end_if_found()
    here.end_if_found()


def _by_lanes(here: Point) -> bool:
    """Whether each lane may take turns of a level on its own: a turn emits one row at most, or has
    one more loop at most before it counts."""
    nest, group, steps, left = here.nest, here.recoded, here.steps, here.loops_after(here.at)
    if not here.together() or not here.leaf.by_lanes:
        return False
    if not left:
        return True
    if not here.leaf.counts or len(left) > 2:
        return False
    last = steps[left[-1]]
    if not isinstance(last, Join) or not measurable(steps, left[-1]):
        return False
    if any(looked_up(nest, group, p) for p in last.participants):
        return False
    joins = [steps[place] for place in left]
    return not any(isinstance(step, Join) and cuts_of(step) for step in joins)


def _lanes(here: Point, low: str, high: str, bits: BitsetWords | None = None) -> None:
    """A loop over positions, or those of a set, divided among the lanes."""
    nest, text = here.nest, here.text
    position = text.name("j")
    with text.block(f"for {position} in lanes({low}, {high})"):
        if bits is not None:
            with text.block(f"if not {nest.call('has_bit', bits.array, bits.start, position)}"):
                text.line("continue")
        inner = here.inner()
        inner.alone, inner.unit = True, None
        _bind(inner, position)


def _shared(here: Point, bits: BitsetWords) -> None:
    """A loop over the positions of a set, whose turns other tiles may take."""
    nest, text, group = here.nest, here.text, here.recoded
    assert here.unit is not None
    with shared_turns(nest, "0", f"{group.high} - {group.low}", here.unit) as position:
        with text.block(f"if not {nest.call('has_bit', bits.array, bits.start, position)}"):
            text.line("continue")
        inner = here.inner()
        inner.unit = inner.first_task = None
        _bind(inner, position)


def _bind(here: Point, position: str) -> None:
    """Binds a level's variable to the value at a position of the list; then prints the rest."""
    nest, step, group = here.nest, here.join, here.recoded
    value = nest.call("at", group.values, f"{group.low} + {position}")
    name = here.bind(step.variable, value)
    nest.widths[step.variable] = nest.arguments.width((nest.level(group.recoding.within),))
    group.positions[step.variable] = position
    for part in step.participants:
        if looked_up(nest, group, part):
            seek(here, Slot(step.variable, step.type), name, (part,))
    if here.at == group.recoding.levels[-1]:
        here.group = None
    here.bound(step)
    here.go_on()


def count_bits(here: Point) -> bool:
    """Counts a branch whose only level is in the current group; False if it is not in it."""
    nest, group = here.nest, here.recoded
    within = group.recoding.within
    at = counted_within(here.steps, group.positions.keys(), nest.paths, within)
    if at is None:
        return False
    for passed in here.steps[:at]:
        here.bound(passed)
    here.at = at
    here.leaf.count(here, *measure_bits(here, constraints_of(nest, here.join, group)))
    return True
