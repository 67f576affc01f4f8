"""Local recoding: levels whose candidates all lie in one list, as bits of its positions.

Each value of the list gets a row of bits: the positions of the values under it in a trie. The
candidates of a deeper level are an AND of rows, and the last level of a count is a popcount.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan import Generate, Join, Participant, Slot, Step
from gdatalog.plan.effects import all_steps, participants
from gdatalog.plan.nest import Recoding, TrieNode, counted_within, measurable
from gdatalog.printer.bitsets import ascends, constraints_of, cuts_of, measure_bits, set_of, word_of
from gdatalog.printer.lists import cut_range
from gdatalog.printer.nest import Leaf, NestPrinter
from gdatalog.printer.nest_state import BitsetWords, KnownPositions, Range, RecodedList
from gdatalog.printer.turns import begin_unit, shared_turns

GRAIN = 64  # least number of positions of a task: each task builds the rows again


def print_recoded(
    nest: NestPrinter, steps: Sequence[Step], group: Recoding, known: KnownPositions, leaf: Leaf
) -> None:
    """Builds the rows, then prints the loop of the group's first level."""
    text, within = nest.text, group.within
    low, high = nest.range_of(within, known)
    values = nest.values(within)
    first = steps[group.first]
    assert isinstance(first, Join)
    start, stop = cut_range(nest, values, (low, high), cuts_of(nest, first), known)
    if known.clip is not None:
        assert known.clip.node == within
        nest.grain = GRAIN
        names = text.name("l"), text.name("h")
        text.line(f"{names[0]} = max({start}, {known.clip.low})")
        text.line(f"{names[1]} = min({stop}, {known.clip.high})")
        start, stop = names
    words = text.name("words")
    least = _least(nest, steps, group)
    with text.block(f"if {high} - {low} >= {least} and {start} < {stop}"):
        text.line(f"{words} = ({high} - {low} + 63) >> 6")
        rows = _make_rows(nest, steps, group, (low, high))
        inner = known.inner()
        clip, inner.clip, inner.unit = known.clip, None, None
        if clip is not None:
            inner.first_task = None
        inner.group = RecodedList(group, values, low, high, words, rows, _rowed(nest, steps, group))
        turn, position = text.name("i"), text.name("j")
        lanes = _by_lanes(nest, steps, group.first, inner, leaf)
        with text.block(f"for {turn} in {'lanes' if lanes else 'range'}({start}, {stop})"):
            if clip is not None and not lanes:
                again = f"{turn} == {clip.low}"
                begin_unit(nest, f"{turn} - {clip.base}", None, leaf, inner, again)
            inner.alone = known.alone or lanes
            if not nest.tile:
                nest.may_stop(inner)
            text.line(f"{position} = {turn} - {low}")
            _bind(nest, steps, group.first, position, inner, leaf)
    if known.found:
        with text.block(f"if {known.found}"):
            text.line("break")


def _make_rows(
    nest: NestPrinter, steps: Sequence[Step], group: Recoding, ends: Range
) -> dict[int, str]:
    """Prints the code that builds rows of bits for each trie of the group's levels; returns their
    arrays by the trie's number."""
    text, level, values = nest.text, nest.level(group.within), nest.values(group.within)
    rows: dict[int, str] = {}
    places: tuple[str, ...] = ()
    if not nest.tile:  # tiles use binary search instead
        array = nest.arguments.scratch(text.name("places"), "places", (level,))
        places = array, nest.arguments.scalar("base", level)
        text.line(nest.call("place", values, *ends, *places))
    for node in _adjacencies(nest, steps, group):
        trie = nest.number[node.trie]
        rows[trie] = nest.arguments.scratch(text.name("rows"), "rows", (level,))
        root = nest.level(TrieNode(node.trie, ()))
        args = (values, *ends, *places, nest.arguments.values(root),
                nest.arguments.scalar("low", root), nest.arguments.index(root),
                nest.values(node), nest.arguments.offsets(nest.level(node)))  # fmt: skip
        text.line(nest.call("recode_rows", *args, rows[trie], *(() if nest.tile else ("0",))))
    if places:
        text.line(nest.call("unplace", values, *ends, *places))
    return rows


def print_bits(
    nest: NestPrinter, steps: Sequence[Step], at: int, known: KnownPositions, leaf: Leaf
) -> None:
    """A level of a group after its first: a loop over a set of bits, or their number."""
    text, step, group = nest.text, steps[at], known.group
    assert isinstance(step, Join) and group is not None
    wanted = constraints_of(nest, step, group)
    roots = [p for p in step.participants if looked_up(nest, group, p)]
    if leaf.counts and measurable(steps, at) and not roots:
        leaf.count(nest, known, *measure_bits(nest, steps, at, wanted, known))
        return
    bits = set_of(nest, step, wanted, known)
    if _by_lanes(nest, steps, at, known, leaf):
        _lanes(nest, steps, at, bits, known, leaf)
        return
    if any(isinstance(later, (Join, Generate)) for later in steps[at + 1 :]):
        group.sets[wanted] = bits
    if known.unit is not None:
        _shared(nest, steps, at, bits, known, leaf)
        return
    turn, word, position = text.name("i"), text.name("b"), text.name("j")
    with text.block(f"for {turn} in range({bits.first_word}, {group.words})"):
        text.line(f"{word} = {word_of(nest, bits, turn)}")
        with text.block(f"while {word} != np.uint64(0)"):
            zeros = nest.call("trailing_zeros", word)
            text.line(f"{position} = {turn} * 64 + np.int64({zeros})")
            text.line(f"{word} &= {word} - np.uint64(1)")
            if nest.tile:
                nest.may_stop(known)
            _bind(nest, steps, at, position, known.inner(), leaf)
        if known.found:
            with text.block(f"if {known.found}"):
                text.line("break")
    if known.found:
        with text.block(f"if {known.found}"):
            text.line("break")


def _by_lanes(
    nest: NestPrinter, steps: Sequence[Step], at: int, known: KnownPositions, leaf: Leaf
) -> bool:
    """Whether each lane may take turns of a level on its own: each turn emits one row at most, or
    has one more loop before it counts."""
    group = known.group
    assert group is not None
    left = [
        place for place in range(at + 1, len(steps)) if isinstance(steps[place], (Join, Generate))
    ]
    if not nest.together(known) or not leaf.by_lanes:
        return False
    if not left:
        return True
    if not leaf.counts or len(left) > 2 or not set(left) <= set(group.recoding.levels):
        return False
    last = steps[left[-1]]
    assert isinstance(last, Join)
    if not measurable(steps, left[-1]) or any(looked_up(nest, group, p) for p in last.participants):
        return False
    joins = [steps[place] for place in left]
    return not any(isinstance(step, Join) and cuts_of(nest, step) for step in joins)


def _lanes(
    nest: NestPrinter,
    steps: Sequence[Step],
    at: int,
    bits: BitsetWords,
    known: KnownPositions,
    leaf: Leaf,
) -> None:
    """A loop over the positions of a set, divided among the lanes."""
    text, group = nest.text, known.group
    assert group is not None
    position = text.name("j")
    low = "0" if bits.after is None else f"{bits.after} + 1"
    with text.block(f"for {position} in lanes({low}, {group.high} - {group.low})"):
        with text.block(f"if not {nest.call('has_bit', bits.array, bits.start, position)}"):
            text.line("continue")
        inner = known.inner()
        inner.alone, inner.unit = True, None
        _bind(nest, steps, at, position, inner, leaf)


def _shared(
    nest: NestPrinter,
    steps: Sequence[Step],
    at: int,
    bits: BitsetWords,
    known: KnownPositions,
    leaf: Leaf,
) -> None:
    """A loop over the positions of a set, whose turns other tiles may take."""
    group = known.group
    assert group is not None and known.unit is not None
    with shared_turns(nest, "0", f"{group.high} - {group.low}", known.unit) as position:
        with nest.text.block(f"if not {nest.call('has_bit', bits.array, bits.start, position)}"):
            nest.text.line("continue")
        inner = known.inner()
        inner.unit = inner.first_task = None
        _bind(nest, steps, at, position, inner, leaf)


def _bind(
    nest: NestPrinter,
    steps: Sequence[Step],
    at: int,
    position: str,
    known: KnownPositions,
    leaf: Leaf,
) -> None:
    """Binds a level's variable to the value at a position of the list; then prints what is
    inside."""
    step, group = steps[at], known.group
    assert isinstance(step, Join) and group is not None
    value = nest.call("at", group.values, f"{group.low} + {position}")
    name = nest.bind(step.variable, value, known)
    level = nest.level(group.recoding.within)
    nest.widths[step.variable] = nest.arguments.width((level,))
    group.positions[step.variable] = position
    for part in step.participants:
        if looked_up(nest, group, part):
            nest.seek(Slot(step.variable, step.type), name, (part,), known)
    if at == group.recoding.levels[-1]:
        known.group = None
    nest.bound(step, known)
    nest.run(steps, at + 1, known, leaf)


def count_bits(nest: NestPrinter, steps: Sequence[Step], leaf: Leaf, known: KnownPositions) -> bool:
    """Counts a branch whose only level is in the current group; False if it is not."""
    group = known.group
    assert group is not None
    within = group.recoding.within
    at = counted_within(steps, group.positions.keys(), nest.paths, within)
    if at is None:
        return False
    step = steps[at]
    assert isinstance(step, Join)
    for passed in steps[:at]:
        nest.bound(passed, known)
    leaf.count(
        nest, known, *measure_bits(nest, steps, at, constraints_of(nest, step, group), known)
    )
    return True


# ---------------------------------------------------------------------------------- the group


def _adjacencies(nest: NestPrinter, steps: Sequence[Step], group: Recoding) -> list[TrieNode]:
    """One node for each trie that rows are built from."""
    found: dict[object, TrieNode] = {}
    for step in group.joins(steps, nest.paths):
        for part in step.participants:
            node = nest.paths.node(part)
            if node != group.within and node.terms:
                found.setdefault(node.trie, node)
    return list(found.values())


def looked_up(nest: NestPrinter, group: RecodedList, part: Participant) -> bool:
    """Whether a participant needs a lookup at the root, because no row of the group covers it."""
    node = nest.paths.node(part)
    if node.terms:
        return False
    return not nest.paths.goes_on(part) or nest.paths.child(part) not in group.rowed


def _rowed(nest: NestPrinter, steps: Sequence[Step], group: Recoding) -> frozenset[TrieNode]:
    """The nodes whose lists are read as rows only, by levels of the group."""
    inside: set[TrieNode] = set()
    outside: set[TrieNode] = set()
    levels = {id(step) for step in group.joins(steps, nest.paths)}
    for step in all_steps(tuple(steps)):
        nodes = {nest.paths.node(part) for part in participants(step)}
        (inside if id(step) in levels else outside).update(nodes)
    return frozenset(inside - outside)


def _least(nest: NestPrinter, steps: Sequence[Step], group: Recoding) -> int:
    """The least length of a list that can contain a match: the longest chain of ascending
    levels."""
    longest: dict[str, int] = {}
    for step in group.joins(steps, nest.paths):
        below = [1]
        for part in step.participants:
            node = nest.paths.node(part)
            if node.depth == 1 and isinstance(node.terms[0], Slot) and ascends(node):
                below.append(longest.get(node.terms[0].name, 0) + 1)
        longest[step.variable] = max(below)
    return max(longest.values())
