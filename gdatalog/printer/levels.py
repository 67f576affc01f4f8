"""Levels: loops over the intersection of a level's lists.

One list is walked in place. Several lists are intersected into a buffer (`lists.py`), which deeper
levels with the same lists reuse. The last level of a count is measured without a loop
(`measure.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan import Filter, Generate, Join, Seek, Slot, Step, Tally
from gdatalog.plan.nest import TrieNode, recoding
from gdatalog.printer.lists import LevelLists, Walk, walk_of
from gdatalog.printer.measure import (
    last_pair,
    measurable_here,
    measure,
    measure_pair,
    sum_common,
    summable,
    summed,
    sums_common,
    weigh,
    weighable,
)
from gdatalog.printer.nest import Leaf, NestPrinter
from gdatalog.printer.nest_state import Clip, KnownPositions, LoopPosition
from gdatalog.printer.recode import print_bits, print_recoded
from gdatalog.printer.reuse import close_marks, fetch, fetch_ahead, look_ahead, recall
from gdatalog.printer.turns import begin_unit, keys_counted, turns


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
        known.unit = None  # not shareable: each tile lists the table's keys in its own order
    flags = look_ahead(nest, steps, at, known, walk, leaf.counts)
    if not nest.split:
        nest.split = True
        _tasks(nest, steps, at, walk, below, known, leaf)
    else:
        clip = known.clip
        task = clip.base if clip is not None and clip.node == walk.node else None
        with leaf.around(nest, steps, at, known):
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
    """Splits the first level into tasks. Units of work are its bindings or, if the next level
    descends in the same trie, the bindings of both; workers take tasks until none is left."""
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
            # Each task builds the rows of bits of its list: so a list should be one task.
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
            if nest.tile:  # the loop checks its own end
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
    """The loop of a level, and everything inside.

    `task`: the position from which units are counted, if the work can resume at each turn; with a
    `child`, units are positions in that list. `last_first`: a tile that fills a table for each turn
    starts with the last ranks, which have the highest degrees.
    """
    step = steps[at]
    assert isinstance(step, Join)
    text = nest.text
    cursors = {}
    for node in met.lists:
        placed = node.child(Slot(step.variable, step.type)) in nest.placed
        wanted = not node.last or node.trie.weighted or placed
        if node != walk.node and wanted and not walk.others:
            low, _ = nest.range_of(node, known)
            cursors[node] = text.name("p")
            text.line(f"{cursors[node]} = {low}")
    fetch(nest, steps[at:], walk, cursors, known)
    lanes = nest.together(known) and not walk.others and child is None
    lanes = lanes and (known.spread or last_loop(nest, steps, at, leaf))
    sought: dict[TrieNode, str] = {}
    shares = task is not None or known.unit is not None
    keys = None
    if (lanes or known.spread) and child is None and task is None:
        keys = keys_counted(nest, step, walk, met)
    with turns(nest, walk, known, lanes, sought, keys) as turn:
        inner = known.inner()
        inner.clip = inner.unit = None
        if known.clip is not None or known.unit is not None:
            inner.first_task = None
        inner.spread = known.spread and not walk.others
        inner.alone = known.alone or lanes
        place = turn
        if child is not None:
            offsets = nest.arguments.offsets(nest.level(child))
            if nest.tile:  # other tiles may have taken units since the task began
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
        if task is not None and not lanes:  # turns of single lanes are too short to share
            last = None if child is None else f"c1 - 1 - {task}"
            again = None if known.clip is None else f"{turn} == {known.clip.low}"
            begin_unit(nest, f"{place} - {task}", last, leaf, inner, again)
        loops = sum(isinstance(later, (Join, Generate)) for later in steps[at + 1 :])
        # A tile checks for stop and sharing requests at its units, and at turns that it may share.
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
            # Lanes look up as many turns at once, from where the list begins.
            search = "lower" if nest.tile and not lanes else "seek"
            low = nest.range_of(node, known)[0] if search == "lower" else cursor
            text.line(f"{cursor} = {nest.call(search, nest.values(node), low, high, name)}")
            among[node] = cursor
        for part in step.participants:
            node = nest.paths.node(part)
            if node in met.lists and node not in among:
                continue  # membership was all that mattered
            nest.seek(Slot(step.variable, step.type), name, (part,), inner, among)
        nest.bound(step, inner)
        nest.run(steps, at + 1, inner, leaf)


def last_loop(nest: NestPrinter, steps: Sequence[Step], at: int, leaf: Leaf) -> bool:
    """Whether each lane may take turns of a level's loop on its own, because little work is below.

    Each turn emits one row at most, or counts by the ends of one list.
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
    """Whether each lane should start a row of its own, and share the lists that these lead to: no
    level has lists to intersect, which would take all lanes, unless the intersection is cached."""
    if nest.tile < 2 or not leaf.by_lanes or leaf.counts:
        return False
    return _meets_none(nest, steps)


def _meets_none(nest: NestPrinter, steps: Sequence[Step]) -> bool:
    for step in steps:
        if isinstance(step, Generate):
            return False
        if isinstance(step, Join):
            lists = LevelLists.of(nest, step).nodes
            kept = nest.kept.get(id(step))
            if len(lists) > 1 and (kept is None or kept.nodes != lists):
                return False
    return True


def spreads_behind(
    nest: NestPrinter, steps: Sequence[Step], known: KnownPositions, leaf: Leaf
) -> bool:
    """The same after a table of counts, where lanes sum their counts."""
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
    """A variable takes each of the given values, without duplicates, or those of a range."""
    nest.split = True  # loops outside all lists are not split into tasks
    known.spread = False
    known.unit = None  # inner loops repeat for each value
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
