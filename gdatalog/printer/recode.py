"""Levels whose candidates all lie in one list: its positions become bits.

The list's values get rows of bits, a row for each: which others of the list stand under it in a
trie. What a deeper level may be is then an AND of rows; the last level of a count a popcount.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gdatalog.plan.effects import all_steps, participants
from gdatalog.plan.nest import Recoding, TrieNode, counted_within, measurable, unequal
from gdatalog.plan.nodes import Generate, Join, Participant, RangeBound, Slot, Step
from gdatalog.printer.lists import cut_range
from gdatalog.printer.scope import BitsetWords, Constraint, KnownPositions, Range, RecodedList
from gdatalog.printer.turns import begin_unit, shared_turns
from gdatalog.records import dataclass, replace

if TYPE_CHECKING:
    from gdatalog.printer.leaves import Leaf
    from gdatalog.printer.nest import NestPrinter

GRAIN = 64  # positions of the list that a task has at the least: each task makes the rows anew


def print_recoded(
    nest: NestPrinter, steps: Sequence[Step], group: Recoding, known: KnownPositions, leaf: Leaf
) -> None:
    """Makes the rows, then the loop of the group's first level."""
    text, within = nest.text, group.within
    low, high = nest.range_of(within, known)
    values = nest.values(within)
    first = steps[group.first]
    assert isinstance(first, Join)
    start, stop = cut_range(nest, values, (low, high), _cuts(nest, first), known)
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
    """Rows of bits for each trie that the group's levels meet: their arrays, by its number."""
    text, level, values = nest.text, nest.level(group.within), nest.values(group.within)
    rows: dict[int, str] = {}
    places: tuple[str, ...] = ()
    if not nest.tile:  # a tile searches
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
    """A level of a group but the first: the bits of a set, or how many there are."""
    text, step, group = nest.text, steps[at], known.group
    assert isinstance(step, Join) and group is not None
    wanted = _constraints(nest, step, group)
    roots = [p for p in step.participants if looked_up(nest, group, p)]
    if leaf.counts and measurable(steps, at) and not roots:
        leaf.count(nest, known, *_measure(nest, steps, at, wanted, known))
        return
    bits = _set_of(nest, step, wanted, known)
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
        text.line(f"{word} = {_word(nest, bits, turn)}")
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
    """Whether lanes may take the turns of a level: each gives one row at most, or has one more
    loop to do on its own before it counts."""
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
    return not any(isinstance(step, Join) and _cuts(nest, step) for step in joins)


def _word(nest: NestPrinter, bits: BitsetWords, turn: str) -> str:
    """A word of a set."""
    words = (nest.call("at", part.array, f"{part.start} + {turn}") for part in bits.all)
    return " & ".join(words)


def _lanes(
    nest: NestPrinter,
    steps: Sequence[Step],
    at: int,
    bits: BitsetWords,
    known: KnownPositions,
    leaf: Leaf,
) -> None:
    """The positions of a set, each lane's its own."""
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
    """The positions of a set, one after the other, which other tiles may be given."""
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
    """A level's variable takes the value at a position of the list; then what is inside."""
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
    """Counts a branch whose only level is bits of the group at hand; False if it is not."""
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
    leaf.count(nest, known, *_measure(nest, steps, at, _constraints(nest, step, group), known))
    return True


# ---------------------------------------------------------------------------------- the group


def _adjacencies(nest: NestPrinter, steps: Sequence[Step], group: Recoding) -> list[TrieNode]:
    """A node for each trie that rows are made of."""
    found: dict[object, TrieNode] = {}
    for step in group.joins(steps, nest.paths):
        for part in step.participants:
            node = nest.paths.node(part)
            if node != group.within and node.terms:
                found.setdefault(node.trie, node)
    return list(found.values())


def looked_up(nest: NestPrinter, group: RecodedList, part: Participant) -> bool:
    """Whether a participant must be sought at the root: no row of the group sees to it."""
    node = nest.paths.node(part)
    if node.terms:
        return False
    return not nest.paths.goes_on(part) or nest.paths.child(part) not in group.rowed


def _rowed(nest: NestPrinter, steps: Sequence[Step], group: Recoding) -> frozenset[TrieNode]:
    """The nodes whose lists only levels of the group meet, as rows."""
    inside: set[TrieNode] = set()
    outside: set[TrieNode] = set()
    levels = {id(step) for step in group.joins(steps, nest.paths)}
    for step in all_steps(tuple(steps)):
        nodes = {nest.paths.node(part) for part in participants(step)}
        (inside if id(step) in levels else outside).update(nodes)
    return frozenset(inside - outside)


def _cuts(nest: NestPrinter, step: Join) -> list[RangeBound]:
    """The cuts that no participant is within anyway."""
    implied = {at for _, at in step.implied}
    return [cut for at, cut in enumerate(step.cuts) if at not in implied]


def _constraints(nest: NestPrinter, step: Join, group: RecodedList) -> frozenset[Constraint]:
    """Which rows and cuts a level's bits must pass."""
    found: set[Constraint] = set()
    for part in step.participants:
        node = nest.paths.node(part)
        if node != group.recoding.within and node.depth == 1 and isinstance(node.terms[0], Slot):
            trie = nest.number[node.trie]
            name = node.terms[0].name
            found.add(Constraint("row", trie, name))
    for cut in _cuts(nest, step):
        assert isinstance(cut.bound, Slot)
        found.add(Constraint(cut.op, -1, cut.bound.name))
    return frozenset(found)


def _least(nest: NestPrinter, steps: Sequence[Step], group: Recoding) -> int:
    """How many values the list must have for there to be a match: levels that must ascend."""
    longest: dict[str, int] = {}
    for step in group.joins(steps, nest.paths):
        below = [1]
        for part in step.participants:
            node = nest.paths.node(part)
            if node.depth == 1 and isinstance(node.terms[0], Slot) and _ascends(node):
                below.append(longest.get(node.terms[0].name, 0) + 1)
        longest[step.variable] = max(below)
    return max(longest.values())


def _ascends(node: TrieNode) -> bool:
    """Whether the children of each value are greater than it."""
    columns = node.trie.columns
    return any(
        (test.left, test.op, test.right)
        in ((columns[0], "<", columns[1]), (columns[1], ">", columns[0]))
        for test in node.trie.tests
    )


# --------------------------------------------------------------------------------------- sets


def _row(nest: NestPrinter, constraint: Constraint, known: KnownPositions) -> BitsetWords:
    group = known.group
    assert group is not None
    position = group.positions[constraint.variable]
    ascends = _ascends(TrieNode(list(nest.number)[constraint.trie], ()))
    array, start = group.rows[constraint.trie], f"{position} * {group.words}"
    return BitsetWords(array, start, after=position if nest.tile and ascends else None)


@dataclass(slots=True)
class _Start:
    """What a set begins as, and what it must pass yet."""

    bits: BitsetWords | None
    rows: list[Constraint]
    cuts: list[Constraint]


def _begin(nest: NestPrinter, wanted: frozenset[Constraint], known: KnownPositions) -> _Start:
    group = known.group
    assert group is not None
    done = max((s for s in group.sets if s <= wanted), key=len, default=frozenset[Constraint]())
    left = sorted(wanted - done, key=lambda c: (c.variable, c.trie, c.kind))
    rows = [c for c in left if c.kind == "row" and c.variable in group.positions]
    outside = [c for c in left if c.kind == "row" and c.variable not in group.positions]
    assert not outside
    cuts = [c for c in left if c.kind != "row"]
    bits = group.sets.get(done) if done else None
    if bits is None and rows:
        bits = _row(nest, rows.pop(), known)
    return _Start(bits, rows, cuts)


def _set_of(
    nest: NestPrinter, step: Join, wanted: frozenset[Constraint], known: KnownPositions
) -> BitsetWords:
    """The set of positions that pass all constraints, made where it is not there yet."""
    start = _begin(nest, wanted, known)
    group, text = known.group, nest.text
    assert group is not None
    if start.bits is not None and not start.rows and not start.cuts:
        return start.bits
    if known.alone:
        assert start.bits is not None and not start.cuts
        rows = [_row(nest, constraint, known) for constraint in start.rows]
        after = [bits.after for bits in (start.bits, *rows) if bits.after is not None]
        others = (*start.bits.others, *rows)
        return replace(start.bits, others=others, after=after[-1] if after else None)
    level = nest.level(group.recoding.within)
    into = nest.arguments.scratch(text.name("bits"), "words", (level,))
    bits = start.bits
    if bits is None:
        text.line(nest.call("fill_ones", into, "0", f"{group.high} - {group.low}"))
        bits = BitsetWords(into, "0")
    elif not start.rows:
        text.line(nest.call("copy_row", into, "0", bits.array, bits.start, group.words))
        bits = BitsetWords(into, "0")
    for constraint in start.rows:
        bits = _and(nest, bits, _row(nest, constraint, known), into, known)
    for constraint in start.cuts:
        _cut(nest, step, constraint, bits, known)
    return bits


def _and(
    nest: NestPrinter, bits: BitsetWords, row: BitsetWords, into: str, known: KnownPositions
) -> BitsetWords:
    assert known.group is not None
    args = (into, "0", bits.array, bits.start, row.array, row.start, known.group.words)
    nest.text.line(nest.call("and_rows", *args))
    return BitsetWords(into, "0", after=row.after or bits.after)


def _cut(
    nest: NestPrinter, step: Join, constraint: Constraint, bits: BitsetWords, known: KnownPositions
) -> None:
    """Clears the bits on the wrong side of a bound."""
    group, text = known.group, nest.text
    assert group is not None
    op, position = constraint.kind, group.positions.get(constraint.variable)
    if position is None:
        # A bound from outside of the group: where it would stand in the list.
        search = "upper" if op in (">", "<=") else "lower"
        bound = known.names[constraint.variable]
        position = text.name("j")
        found = nest.call(search, group.values, group.low, group.high, bound)
        text.line(f"{position} = {found} - {group.low}")
        edge = f"{position} - 1" if op in (">", ">=") else position
    else:
        edge = position + {">": "", ">=": " - 1", "<": "", "<=": " + 1"}[op]
    side = "above" if op in (">", ">=") else "below"
    text.line(nest.call(side, bits.array, bits.start, edge, group.words))


def _measure(
    nest: NestPrinter,
    steps: Sequence[Step],
    at: int,
    wanted: frozenset[Constraint],
    known: KnownPositions,
) -> tuple[str, bool]:
    """How many positions the last level has, and whether each lane has its share of them."""
    step, text, group = steps[at], nest.text, known.group
    assert isinstance(step, Join) and group is not None
    start = _begin(nest, wanted, known)
    count = text.name("m")
    parts: list[BitsetWords]
    share = nest.together(known) and bool(wanted)
    shared = "_shared" if share else ""
    if known.alone and start.bits is not None:
        bits = _set_of(nest, step, wanted, known)
        text.line(f"{count} = {_count_alone(nest, bits, group.words)}")
        parts = [*bits.all]
    elif start.bits is not None and len(start.rows) == 1 and not start.cuts:
        row = _row(nest, start.rows[0], known)
        parts = [start.bits, row]
        places = [word for bits in parts for word in (bits.array, bits.start)]
        text.line(f"{count} = {nest.call(f'count_and{shared}', *places, group.words)}")
    elif not wanted:
        text.line(f"{count} = {group.high} - {group.low}")
        parts = []
    else:
        bits = _set_of(nest, step, wanted, known)
        counted = nest.call(f"count_row{shared}", bits.array, bits.start, group.words)
        text.line(f"{count} = {counted}")
        parts = [bits]
    nest.bound(step, known, count, share)
    before: list[str] = []
    for later in steps[at + 1 :]:
        other = unequal(later, step.variable)
        assert other is not None
        if other.name not in before:
            _leave_out(nest, other.name, before, count, parts, known, share)
            before.append(other.name)
        nest.bound(later, known, count, share)
    return count, share


def _count_alone(nest: NestPrinter, bits: BitsetWords, words: str) -> str:
    """How many positions a set has, counted by one lane."""
    text, first = nest.text, bits.first_word
    if len(bits.all) < 3:
        function = "count_row" if len(bits.all) == 1 else "count_and"
        places = [word for part in bits.all for word in (part.array, f"{part.start} + {first}")]
        return nest.call(function, *places, f"{words} - {first}")
    found, turn = text.name("m"), text.name("i")
    text.line(f"{found} = np.int64(0)")
    with text.block(f"for {turn} in range({first}, {words})"):
        text.line(f"{found} += {nest.call('popcount', _word(nest, bits, turn))}")
    return found


def _leave_out(
    nest: NestPrinter,
    other: str,
    before: Sequence[str],
    count: str,
    parts: Sequence[BitsetWords],
    known: KnownPositions,
    share: bool,
) -> None:
    """One less, if the value of another variable is among those counted."""
    group, text = known.group, nest.text
    assert group is not None
    value = known.names[other]
    tests = [f"{value} != {known.names[earlier]}" for earlier in before]
    position = group.positions.get(other)
    if position is None:
        position = text.name("j")
        found = nest.call("find", group.values, group.low, group.high, value)
        text.line(f"{position} = {found} - {group.low}")
        tests.append(f"{position} >= 0")
    if share:
        tests.append("leads()")
    for bits in parts:
        tests.append(nest.call("has_bit", bits.array, bits.start, position))
    with text.block(f"if {' and '.join(tests) or 'True'}"):
        text.line(f"{count} -= 1")
