"""Prints a level: the loop over the intersection of its lists.

The loop runs over a single list in place. Several lists are intersected into a buffer (`lists.py`),
which deeper levels with the same lists reuse. The last level of a count needs no loop
(`measure.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.effects import participants
from gdatalog.plan.join_plan import Branch, Filter, Generate, Join, Seek, Slot, Tally
from gdatalog.plan.nest import TrieNode, recoding
from gdatalog.printer.cached_intersections import recall
from gdatalog.printer.level_loop import LevelLoop
from gdatalog.printer.lists import LevelLists, meet_ahead, two_alike, walk_of
from gdatalog.printer.lookups import seek
from gdatalog.printer.measure import counted, last_pair, measure_pair
from gdatalog.printer.nest import Point
from gdatalog.printer.nest_state import FAILED, Walk
from gdatalog.printer.recode import print_bits, print_recoded
from gdatalog.printer.recoded_lists import keeps_rows
from gdatalog.printer.reuse import close_marks, look_ahead
from gdatalog.printer.turns import tasks
from gdatalog.records import replace


def print_join(here: Point) -> None:
    nest = here.nest
    if here.group is not None and here.at in here.group.recoding.levels:
        print_bits(here)
        return
    if here.recodes() and nest.split:
        group = recoding(here.steps, nest.paths, here.at)
        if group is not None and nest.recodable(group):
            print_recoded(here, group)
            return
    met = LevelLists.of(nest, here.join)
    recall(here)
    counts = nest.split and here.leaf.counts
    found = counted(here, met) if counts else None
    if found is not None:
        here.leaf.count(here, *found)
        return
    if nest.split and here.leaf.takes_common(here):
        return
    pair = last_pair(here, here.at) if counts and here.clip is None else None
    if pair is not None:
        here.leaf.count(here, measure_pair(here, pair))
        return
    following = [here.steps[at] for at in here.loops_after(here.at)[:1]]
    below = [nest.paths.node(part) for step in following for part in participants(step)]
    walk = walk_of(here, met, below)
    if walk.node is not None and nest.tallied(walk.node):
        here.unit = None  # not shareable: each tile lists the table's keys in its own order
    flags = look_ahead(here, walk)
    if not nest.split:
        nest.split = True
        _tasks(here, walk, met, below)
    else:
        clipped = here.clip is not None and here.clip == walk.node and not here.entry
        task = "base" if clipped else None
        if nest.tile > 1:
            meet_ahead(here)
        with here.leaf.around(here):
            LevelLoop(here, walk, met, task).print()
    close_marks(here, flags)
    here.end_if_found()


def _tasks(here: Point, walk: Walk, met: LevelLists, below: Sequence[TrieNode]) -> None:
    """Splits the loop of the first level into tasks, which workers take until none is left. A unit
    of work is a binding of the level; or, if the next level descends in the same trie, a binding of
    both levels."""
    nest, text, step = here.nest, here.text, here.join
    nest.tasks = True
    child = None
    leads = walk.node is not None and not walk.node.last and not nest.hashed(walk.node)
    tallies = any(isinstance(later, Tally) for later in here.steps)
    if walk.node is not None and leads and not here.leaf.whole_turns(here):
        node = walk.node.child(Slot(step.variable, step.type))
        child = node if node in below else None
    if tallies and child is not None and not _fills_for_each(here, child):
        child = None
    if child is None:
        text.line(f"base = {walk.low}")
        text.line(f"total = {walk.high} - base")
    else:
        offsets = nest.arguments.offsets(nest.level(child))
        text.line(f"base = np.int64({offsets}[{walk.low}])")
        text.line(f"total = np.int64({offsets}[max({walk.low}, {walk.high})]) - base")
    recoded = recoding(here.steps, nest.paths, here.at + 1) if child is not None else None
    aligned = (
        nest.tile > 0
        and recoded is not None
        and recoded.within == child
        and here.recodes()
        and nest.recodable(recoded)
        and not keeps_rows(nest, child)
    )
    with tasks(nest, here.leaf):
        if aligned:
            # Each task builds the rows of bits of its list, so that a list should be one task.
            with text.block(f"if not whole_lists({offsets}, base)"):
                text.line("continue")
        text.line("s, e = base + start, base + stop")
        if child is None:
            task = replace(walk, low="s", high="e")
            LevelLoop(here, task, met, "base", last_first=tallies).print()
        elif tallies:
            task = replace(walk, low="s", high="e")
            LevelLoop(here, task, met, "base", child, last_first=True).print()
        else:
            first = nest.call("parent_of", offsets, "s")
            if nest.tile:  # the loop checks its own end
                text.line(f"first, last = {first}, {walk.high}")
            else:
                last = nest.call("parent_of", offsets, "e - 1")
                text.line(f"first, last = {first}, {last} + 1")
            task = replace(walk, low="first", high="last")
            LevelLoop(here, task, met, "base", child).print()


def _fills_for_each(here: Point, child: TrieNode) -> bool:
    """Whether a tile fills a table for each entry of the next level's list: then an entry is a unit
    of work, because a table may take long to fill."""
    later = [step for step in here.later if isinstance(step, Join | Tally | Generate | Branch)]
    if not here.nest.tile or not isinstance(later[0], Join) or not isinstance(later[1], Tally):
        return False
    return set(LevelLists.of(here.nest, later[0]).lists) == {child}


def spreads(here: Point, looked_up: bool = False) -> bool:
    """Whether each lane should start a row of its own; the lanes then share the lists that these
    rows lead to. All levels must have one list, or a cached intersection: to intersect lists takes
    all lanes. `looked_up`: but the values of a first level's list may be looked up in another."""
    by_lanes = here.nest.tile > 1 and here.leaf.by_lanes and not here.leaf.counts
    return by_lanes and _meets_none(here, here.at, first=looked_up)


def spreads_behind(here: Point) -> bool:
    """The same after a table of counts, where lanes sum their counts."""
    plain = all(isinstance(step, Join | Seek | Filter) for step in here.later)
    lanes = here.together() and here.leaf.by_lanes and (here.leaf.counts or here.leaf.adds)
    return plain and lanes and _meets_none(here, here.at + 1)


def _meets_none(here: Point, at: int, first: bool = False) -> bool:
    for step in here.steps[at:]:
        if isinstance(step, Generate):
            return False
        if isinstance(step, Join):
            met = LevelLists.of(here.nest, step)
            kept = here.nest.kept.get(id(step))
            alone = len(met.lists) < 2 or (kept is not None and kept.nodes == met.nodes)
            if not alone and not (first and two_alike(here.nest, met)):
                return False
            first = False
    return True


def print_generate(here: Point, step: Generate) -> None:
    """Prints the loop of a variable over the given values, without duplicates, or over a range."""
    nest, text = here.nest, here.text
    nest.split = True  # loops outside all lists are not split into tasks
    here.spread = False
    here.unit = None  # inner loops repeat for each value
    turn = text.name("i")
    if step.span is not None:
        start, stop, stride = map(here.key, step.span)
        with text.block(f"if {stride} == 0"):
            text.line(f"return {FAILED}")
        many = text.name("k")
        text.line(f"{many} = {nest.call('length_of', start, stop, stride)}")
    else:
        values = text.name("given")
        keys = [f"np.int64({here.key(value)})" for value in step.values]
        text.line(f"{values} = ({', '.join(keys)},)")
        many = str(len(keys))
    with text.block(f"for {turn} in range({many})"):
        inner = here.inner()
        if step.span is not None:
            inner.may_stop()
            value = nest.call("plus", start, nest.call("times", stride, turn))
            name = inner.bind(step.variable, value)
        else:
            name, again = inner.bind(step.variable, f"{values}[{turn}]"), text.name("again")
            text.line(f"{again} = False")
            with text.block(f"for {again}i in range({turn})"):
                text.line(f"{again} = {again} or {values}[{again}i] == {name}")
            with text.block(f"if {again}"):
                text.line("continue")
        seek(inner, Slot(step.variable, step.type), name, step.participants)
        inner.bound(step)
        inner.go_on()
    here.end_if_found()
