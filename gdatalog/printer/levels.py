"""Prints a level: the loop over the intersection of its lists.

The loop runs over a single list in place. Several lists are intersected into a buffer (`lists.py`),
which deeper levels with the same lists reuse. The last level of a count needs no loop
(`measure.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan import Filter, Generate, Join, Seek, Slot, Tally
from gdatalog.plan.effects import participants
from gdatalog.plan.nest import TrieNode, recoding
from gdatalog.printer.lists import LevelLists, seek, walk_of
from gdatalog.printer.measure import counted, last_pair, measurable_here, measure_pair
from gdatalog.printer.nest import Point
from gdatalog.printer.nest_state import FAILED, Walk
from gdatalog.printer.recode import print_bits, print_recoded
from gdatalog.printer.reuse import close_marks, fetch, fetch_ahead, look_ahead, recall
from gdatalog.printer.turns import begin_unit, keys_counted, tasks, turns
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
        task = "base" if here.clip is not None and here.clip == walk.node else None
        with here.leaf.around(here):
            _loop(here, walk, met, task)
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
    whole = here.leaf.whole_turns(here) or tallies
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
    recoded = recoding(here.steps, nest.paths, here.at + 1) if child is not None else None
    aligned = (
        nest.tile > 0
        and recoded is not None
        and recoded.within == child
        and here.recodes()
        and nest.recodable(recoded)
    )
    with tasks(nest, here.leaf):
        if aligned:
            # Each task builds the rows of bits of its list, so that a list should be one task.
            with text.block(f"if not whole_lists({offsets}, base)"):
                text.line("continue")
        text.line("s, e = base + start, base + stop")
        if child is None:
            task = replace(walk, low="s", high="e")
            _loop(here, task, met, "base", last_first=tallies)
        else:
            first = nest.call("parent_of", offsets, "s")
            if nest.tile:  # the loop checks its own end
                text.line(f"first, last = {first}, {walk.high}")
            else:
                last = nest.call("parent_of", offsets, "e - 1")
                text.line(f"first, last = {first}, {last} + 1")
            task = replace(walk, low="first", high="last")
            _loop(here, task, met, "base", child)


def _loop(
    here: Point,
    walk: Walk,
    met: LevelLists,
    task: str | None,
    child: TrieNode | None = None,
    last_first: bool = False,
) -> None:
    """The loop of a level, and everything inside.

    `task`: the position from which units are counted, if the work can resume at each turn.
    `child`: units are positions in this list of the next level. `last_first`: each turn fills a
    table; a tile starts with the last ranks, which have the highest degrees.
    """
    nest, text, step = here.nest, here.text, here.join
    term = Slot(step.variable, step.type)
    cursors = {}
    for node in met.lists:
        placed = node.child(term) in nest.placed
        wanted = not node.last or node.trie.weighted or placed
        if node != walk.node and wanted and not walk.others:
            low, _ = here.range_of(node)
            cursors[node] = text.name("p")
            text.line(f"{cursors[node]} = {low}")
    fetch(here, walk, cursors)
    lanes = here.together() and not walk.others and child is None
    lanes = lanes and (here.spread or last_loop(here, here.at))
    sought: dict[TrieNode, str] = {}
    shares = task is not None or here.unit is not None
    keys = None
    if (lanes or here.spread) and child is None and task is None:
        keys = keys_counted(nest, walk, met)
    with turns(here, walk, lanes, sought, keys) as turn:
        inner = here.inner()
        inner.clip = inner.unit = None
        if here.clip is not None or here.unit is not None:
            inner.first_task = None
        inner.spread = here.spread and not walk.others
        inner.alone = here.alone or lanes
        place = turn
        if child is not None:
            offsets = nest.arguments.offsets(nest.level(child))
            if nest.tile:  # other tiles may have taken units since the task began
                text.line("e = base + stop")
            text.line(f"c0, c1 = max(np.int64({offsets}[{turn}]), s), "
                      f"min(np.int64({offsets}[{turn} + 1]), e)")  # fmt: skip
            place = "c0"
            inner.clip = child
            if nest.counting is not None:
                inner.first_task = text.name("first_task")
                text.line(f"{inner.first_task} = np.int64(c0 == {offsets}[{turn}])")
        if child is not None and nest.tile:
            with text.block("if c0 >= e"):
                text.line("break")
        if task is not None and not lanes:  # turns of single lanes are too short to share
            last = None if child is None else f"c1 - 1 - {task}"
            again = None if here.clip is None else f"{turn} == c0"
            begin_unit(inner, f"{place} - {task}", again, last)
        # A tile checks for stop and sharing requests at its units, and at turns that it may share.
        loops = len(here.loops_after(here.at))
        if loops > (1 if nest.tile > 1 else 0) and (nest.tile < 2 or not shares):
            inner.may_stop()
        if walk.node is not None and not walk.others and len(met.lists) + len(met.roots) > 1:
            inner.bound(step, tried=True)
        if walk.node is not None and walk.node.terms and not walk.others:
            fetch_ahead(here, walk, turn)
        if last_first and nest.tile and walk.node is not None and walk.node.trie.ranked:
            place, turn = turn, text.name("i")
            text.line(f"{turn} = base + total - 1 - ({place} - base)")
        name = inner.bind(step.variable, nest.call("at", walk.array, turn))
        for op, bound in walk.tests:
            with text.block(f"if not {name} {op} {inner.key(bound)}"):
                text.line("continue")
        nodes = [walk.node] if walk.node is not None else list(met.lists)
        nest.widths[step.variable] = nest.arguments.width(tuple(map(nest.level, nodes)))
        inner.members[step.variable] = met.nodes
        inner.turns[step.variable] = replace(walk, at=turn)
        among = sought
        if walk.node is not None and not nest.tallied(walk.node):
            among = {walk.node: turn, **sought}
        if walk.node is not None and nest.hashed(walk.node) and not walk.node.last:
            below = nest.arguments.of_hash(nest.level(walk.node), "below")
            among[walk.node] = text.name("p")
            text.line(f"{among[walk.node]} = np.int64({nest.call('at', below, turn)})")
        for node, cursor in cursors.items():
            _, high = here.range_of(node)
            # Each lane has a turn of its own, and searches from the start of the list.
            search = "lower" if nest.tile and not lanes else "seek"
            low = here.range_of(node)[0] if search == "lower" else cursor
            text.line(f"{cursor} = {nest.call(search, nest.values(node), low, high, name)}")
            among[node] = cursor
        for part in step.participants:
            node = nest.paths.node(part)
            if node in met.lists and node not in among:
                continue  # membership was all that mattered
            seek(inner, term, name, (part,), among)
        inner.bound(step)
        inner.go_on()


def last_loop(here: Point, at: int) -> bool:
    """Whether each lane may take turns of a level's loop on its own, because there is little work
    in a turn: it emits one row at most, or counts by the ends of one list."""
    leaf, left = here.leaf, here.loops_after(at)
    if not left or not leaf.by_lanes:
        return leaf.by_lanes
    step = here.steps[left[0]]
    if not leaf.counts or not isinstance(step, Join) or len(left) > 1:
        return False
    met = LevelLists.of(here.nest, step)
    return len(met.lists) < 2 and measurable_here(here, left[0], met)


def spreads(here: Point) -> bool:
    """Whether each lane should start a row of its own; the lanes then share the lists that these
    rows lead to. All levels must have one list, or a cached intersection: to intersect lists takes
    all lanes."""
    by_lanes = here.nest.tile > 1 and here.leaf.by_lanes and not here.leaf.counts
    return by_lanes and _meets_none(here, here.at)


def spreads_behind(here: Point) -> bool:
    """The same after a table of counts, where lanes sum their counts."""
    plain = all(isinstance(step, Join | Seek | Filter) for step in here.later)
    lanes = here.together() and here.leaf.by_lanes and (here.leaf.counts or here.leaf.adds)
    return plain and lanes and _meets_none(here, here.at + 1)


def _meets_none(here: Point, at: int) -> bool:
    for step in here.steps[at:]:
        if isinstance(step, Generate):
            return False
        if isinstance(step, Join):
            lists = LevelLists.of(here.nest, step).nodes
            kept = here.nest.kept.get(id(step))
            if len(lists) > 1 and (kept is None or kept.nodes != lists):
                return False
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
