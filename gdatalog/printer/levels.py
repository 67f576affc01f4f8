"""Levels: the loops over what the lists of a level have in common.

One list is walked where it lies. Several are intersected into a buffer (`lists.py`), which deeper
levels that meet the same lists start from. The last level of a count is measured (`measure.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gdatalog.plan.nest import TrieNode, recoding
from gdatalog.plan.nodes import Filter, Generate, Join, Seek, Slot, Step, Tally
from gdatalog.printer.hoisting import close_marks, fetch_ahead, look_ahead
from gdatalog.printer.lists import LevelLists, Walk, walk_of
from gdatalog.printer.measure import (
    measurable_here,
    measure,
    sum_common,
    summable,
    summed,
    sums_common,
    weigh,
    weighable,
)
from gdatalog.printer.pairs import last_pair, measure_pair
from gdatalog.printer.recode import print_bits, print_recoded
from gdatalog.printer.remember import fetch, recall
from gdatalog.printer.scope import Clip, KnownPositions, LoopPosition
from gdatalog.printer.turns import begin_unit, turns

if TYPE_CHECKING:
    from gdatalog.printer.leaves import Leaf
    from gdatalog.printer.nest import NestPrinter


def print_join(
    nest: NestPrinter, steps: Sequence[Step], at: int, known: KnownPositions, leaf: Leaf
) -> None:
    step = steps[at]
    assert isinstance(step, Join)
    text = nest.text
    if known.group is not None and at in known.group.recoding.levels:
        print_bits(nest, steps, at, known, leaf)
        return
    if nest.recodes(known) and nest.split:
        group = recoding(steps, nest.paths, at)
        if group is not None and nest.recodable(group):
            print_recoded(nest, steps, group, known, leaf)
            return
    met = LevelLists.of(nest, step)
    recall(nest, step, known)
    if nest.split and leaf.counts and measurable_here(nest, steps, at, met):
        amount, share = measure(nest, steps, at, met, known)
        leaf.count(nest, known, amount, share)
        return
    if nest.split and leaf.counts and weighable(nest, steps, at, met, known):
        leaf.count(nest, known, weigh(nest, step, met, known))
        return
    if nest.split and leaf.counts and summable(nest, steps, at, met, known):
        leaf.count(nest, known, summed(nest, step, met, known))
        return
    if nest.split and leaf.counts and sums_common(nest, steps, at, met, known):
        leaf.count(nest, known, sum_common(nest, step, met, known), True)
        return
    if nest.split and leaf.takes_common(nest, steps, at, met, known):
        return
    pair = last_pair(nest, steps, at) if nest.split and known.clip is None else None
    if leaf.counts and pair is not None:
        leaf.count(nest, known, measure_pair(nest, pair, steps[at:], known))
        return
    following = next((s for s in steps[at + 1 :] if isinstance(s, (Join, Generate))), None)
    below = [nest.paths.node(p) for p in following.participants] if following else []
    walk = walk_of(nest, step, met, known, below)
    if walk.node is not None and nest.tallied(walk.node):
        known.unit = None  # whose keys another tile, that fills it too, lists in another order
    flags = look_ahead(nest, steps, at, known, walk, leaf.counts)
    if not nest.split:
        nest.split = True
        _tasks(nest, steps, at, walk, below, known, leaf)
    else:
        clip = known.clip
        task = clip.base if clip is not None and clip.node == walk.node else None
        _loop(nest, steps, at, walk, met, known, leaf, task)
    close_marks(nest, flags, known)
    if known.found:
        with text.block(f"if {known.found}"):
            text.line("break")


def _tasks(
    nest: NestPrinter,
    steps: Sequence[Step],
    at: int,
    walk: Walk,
    below: Sequence[TrieNode],
    known: KnownPositions,
    leaf: Leaf,
) -> None:
    """The first level: its bindings, or those of the next where that goes on in the same trie,
    are the work, of which tasks are taken until none is left."""
    text, step = nest.text, steps[at]
    assert isinstance(step, Join)
    nest.tasks = True
    met = LevelLists.of(nest, step)
    child = None
    leads = walk.node is not None and not walk.node.last and not nest.hashed(walk.node)
    tallies = any(isinstance(later, Tally) for later in steps)
    whole = leaf.whole_turns(steps, at) or tallies
    if walk.node is not None and leads and not whole:
        node = walk.node.child(Slot(step.variable, step.type))
        child = node if node in below else None
    if child is None:
        text.line(f"base = {walk.low}")
        text.line(f"total = {walk.high} - base")
    else:
        offsets = nest.arguments.offsets(nest.level(child))
        text.line(f"base = np.int64({offsets}[{walk.low}])")
        text.line(f"total = np.int64({offsets}[max({walk.low}, {walk.high})]) - base")
    recoded = recoding(steps, nest.paths, at + 1) if child is not None else None
    aligned = (
        nest.tile > 0
        and recoded is not None
        and recoded.within == child
        and nest.recodes(known)
        and nest.recodable(recoded)
    )
    with text.block("while next_task(total)" if nest.tile else "while True"):
        if nest.tile:
            nest.commit()
        if aligned:
            # Rows of bits are made anew by each task of a list: better that it has one.
            assert child is not None
            offsets = nest.arguments.offsets(nest.level(child))
            with text.block(f"if not whole_lists({offsets}, base)"):
                text.line("continue")
        if not nest.tile:
            with text.block("if start >= stop"):
                take = nest.call("take", "control", "threads", "total", "grain")
                text.line(f"start, stop = {take}")
                with text.block("if start >= stop"):
                    text.line("break")
        text.line("s, e = base + start, base + stop")
        if child is None:
            task = Walk(walk.array, "s", "e", walk.node, walk.others)
            _loop(nest, steps, at, task, met, known, leaf, "base", last_first=tallies)
        else:
            first = nest.call("parent_of", offsets, "s")
            if nest.tile:  # the loop sees for itself where it ends
                text.line(f"first, last = {first}, {walk.high}")
            else:
                last = nest.call("parent_of", offsets, "e - 1")
                text.line(f"first, last = {first}, {last} + 1")
            task = Walk(walk.array, "first", "last", walk.node, walk.others)
            _loop(nest, steps, at, task, met, known, leaf, "base", child)
        if not nest.tile:
            leaf.settle(nest)
            text.line("start = stop")


def _loop(
    nest: NestPrinter,
    steps: Sequence[Step],
    at: int,
    walk: Walk,
    met: LevelLists,
    known: KnownPositions,
    leaf: Leaf,
    task: str | None,
    child: TrieNode | None = None,
    last_first: bool = False,
) -> None:
    """The loop of a level and all that is inside of it.

    `task` is where its turns are counted from, if each is a place that the work can go on from;
    with a `child`, they are counted by the positions of that list. `last_first`: a tile, which
    fills a table for each, begins with the last ranks, of the highest degrees.
    """
    step = steps[at]
    assert isinstance(step, Join)
    text = nest.text
    cursors = {}
    for node in met.lists:
        wanted = not node.last or node.trie.weighted or node in nest.placed
        if node != walk.node and wanted and not walk.others:
            low, _ = nest.range_of(node, known)
            cursors[node] = text.name("p")
            text.line(f"{cursors[node]} = {low}")
    fetch(nest, steps[at:], walk, cursors, known)
    lanes = nest.together(known) and not walk.others and child is None
    lanes = lanes and (known.spread or last_loop(nest, steps, at, leaf))
    sought: dict[TrieNode, str] = {}
    shares = task is not None or known.unit is not None
    with turns(nest, walk, known, lanes, sought) as turn:
        inner = known.inner()
        inner.clip = inner.unit = None
        if known.clip is not None or known.unit is not None:
            inner.first_task = None
        inner.spread = known.spread and not walk.others
        inner.alone = known.alone or lanes
        place = turn
        if child is not None:
            offsets = nest.arguments.offsets(nest.level(child))
            if nest.tile:  # units have been given to others since the task began, perhaps
                text.line("e = base + stop")
            text.line(f"c0, c1 = max(np.int64({offsets}[{turn}]), s), "
                      f"min(np.int64({offsets}[{turn} + 1]), e)")  # fmt: skip
            place = "c0"
            inner.clip = Clip(child, "c0", "c1", "base")
            if nest.counting is not None:
                inner.first_task = text.name("first_task")
                text.line(f"{inner.first_task} = np.int64(c0 == {offsets}[{turn}])")
        if child is not None and nest.tile:
            with text.block("if c0 >= e"):
                text.line("break")
        if task is not None and not lanes:  # lanes' turns are too short to be shared
            last = None if child is None else f"c1 - 1 - {task}"
            again = None if known.clip is None else f"{turn} == {known.clip.low}"
            begin_unit(nest, f"{place} - {task}", last, leaf, inner, again)
        loops = sum(isinstance(later, (Join, Generate)) for later in steps[at + 1 :])
        # A tile's task is late, and hears of it, at its units and at the turns that it may share.
        if loops > (1 if nest.tile > 1 else 0) and (nest.tile < 2 or not shares):
            nest.may_stop(inner)
        if walk.node is not None and not walk.others and len(met.lists) + len(met.roots) > 1:
            nest.tried(step, inner)
        if walk.node is not None and walk.node.terms and not walk.others:
            fetch_ahead(nest, steps, at, walk, turn)
        if last_first and nest.tile and walk.node is not None and walk.node.trie.ranked:
            place, turn = turn, text.name("i")
            text.line(f"{turn} = base + total - 1 - ({place} - base)")
        name = nest.bind(step.variable, nest.call("at", walk.array, turn), inner)
        for cut in walk.cuts:
            with text.block(f"if not {name} {cut.op} {nest.key(cut.bound, inner)}"):
                text.line("continue")
        nodes = [walk.node] if walk.node is not None else list(met.lists)
        nest.widths[step.variable] = nest.arguments.width(tuple(map(nest.level, nodes)))
        inner.members[step.variable] = met.nodes
        inner.turns[step.variable] = LoopPosition(walk.array, walk.node, turn)
        own = walk.node is not None and not nest.tallied(walk.node)
        among = {walk.node: turn, **sought} if own and walk.node is not None else sought
        if walk.node is not None and nest.hashed(walk.node) and not walk.node.last:
            below = nest.arguments.of_hash(nest.level(walk.node), "below")
            among[walk.node] = text.name("p")
            text.line(f"{among[walk.node]} = np.int64({nest.call('at', below, turn)})")
        for node, cursor in cursors.items():
            _, high = nest.range_of(node, known)
            text.line(f"{cursor} = {nest.call('seek', nest.values(node), cursor, high, name)}")
            among[node] = cursor
        for part in step.participants:
            node = nest.paths.node(part)
            if node in met.lists and node not in among:
                continue  # it only had to have the value
            nest.seek(Slot(step.variable, step.type), name, (part,), inner, among)
        nest.bound(step, inner)
        nest.run(steps, at + 1, inner, leaf)


def last_loop(nest: NestPrinter, steps: Sequence[Step], at: int, leaf: Leaf) -> bool:
    """Whether lanes may take the turns of a level's loop: nothing below is worth a tile's while.

    Each turn gives one row at most, or counts what can be read off the ends of a list.
    """
    left = [
        place for place in range(at + 1, len(steps)) if isinstance(steps[place], (Join, Generate))
    ]
    if not left or not leaf.by_lanes:
        return leaf.by_lanes
    step = steps[left[0]]
    if not leaf.counts or not isinstance(step, Join) or len(left) > 1:
        return False
    met = LevelLists.of(nest, step)
    return len(met.lists) < 2 and measurable_here(nest, steps, left[0], met)


def spreads(nest: NestPrinter, steps: Sequence[Step], leaf: Leaf) -> bool:
    """Whether lanes do best to begin a row each, and to share what these lead into: no level has
    lists to intersect, which all of them would do together."""
    if nest.tile < 2 or not leaf.by_lanes or leaf.counts:
        return False
    return _meets_none(nest, steps)


def _meets_none(nest: NestPrinter, steps: Sequence[Step]) -> bool:
    levels = [step for step in steps if isinstance(step, (Join, Generate))]
    return all(
        isinstance(step, Join) and len(LevelLists.of(nest, step).lists) < 2 for step in levels
    )


def spreads_behind(
    nest: NestPrinter, steps: Sequence[Step], known: KnownPositions, leaf: Leaf
) -> bool:
    """The same behind a table of counts, where lanes add up what they count."""
    plain = all(isinstance(step, Join | Seek | Filter) for step in steps)
    return (
        plain
        and nest.together(known)
        and leaf.by_lanes
        and leaf.counts
        and _meets_none(nest, steps)
    )


def print_generate(
    nest: NestPrinter,
    step: Generate,
    steps: Sequence[Step],
    at: int,
    known: KnownPositions,
    leaf: Leaf,
) -> None:
    """A variable takes given values, each once, or those of a range."""
    nest.split = True  # what comes before any list is not worth sharing
    known.spread = False
    known.unit = None  # the turns of a loop below come again for each value
    text = nest.text
    turn = text.name("i")
    if step.span is not None:
        start, stop, stride = (nest.key(bound, known) for bound in step.span)
        with text.block(f"if {stride} == 0"):
            text.line("return 3")
        count = text.name("k")
        text.line(f"{count} = {nest.call('length_of', start, stop, stride)}")
        with text.block(f"for {turn} in range({count})"):
            inner = known.inner()
            nest.may_stop(inner)
            value = nest.call("plus", start, nest.call("times", stride, turn))
            name = nest.bind(step.variable, value, inner)
            nest.seek(Slot(step.variable, step.type), name, step.participants, inner)
            nest.bound(step, inner)
            nest.run(steps, at + 1, inner, leaf)
    else:
        values = text.name("given")
        keys = [nest.key(value, known) for value in step.values]
        text.line(f"{values} = ({', '.join(f'np.int64({key})' for key in keys)},)")
        with text.block(f"for {turn} in range({len(keys)})"):
            inner = known.inner()
            name = nest.bind(step.variable, f"{values}[{turn}]", inner)
            again = text.name("again")
            text.line(f"{again} = False")
            with text.block(f"for {again}i in range({turn})"):
                text.line(f"{again} = {again} or {values}[{again}i] == {name}")
            with text.block(f"if {again}"):
                text.line("continue")
            nest.seek(Slot(step.variable, step.type), name, step.participants, inner)
            nest.bound(step, inner)
            nest.run(steps, at + 1, inner, leaf)
    if known.found:
        with text.block(f"if {known.found}"):
            text.line("break")
