"""Bitsets over the positions of a recoded list: built from rows, cut, counted.

All lanes of a tile build a set together, in the tile's scratch. A lane on its own has no room for a
set: it ANDs several rows while reading them, and counts between the bounds of cuts.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan import Join, RangeBound, Slot, Step
from gdatalog.plan.nest import TrieNode, unequal
from gdatalog.printer.nest import NestPrinter
from gdatalog.printer.nest_state import BitsetWords, Constraint, KnownPositions, RecodedList
from gdatalog.records import dataclass, replace


def cuts_of(nest: NestPrinter, step: Join) -> list[RangeBound]:
    """The cuts that no participant's trie implies."""
    implied = {at for _, at in step.implied}
    return [cut for at, cut in enumerate(step.cuts) if at not in implied]


def constraints_of(nest: NestPrinter, step: Join, group: RecodedList) -> frozenset[Constraint]:
    """The rows and cuts that a level's bits must satisfy."""
    found: set[Constraint] = set()
    for part in step.participants:
        node = nest.paths.node(part)
        if node != group.recoding.within and node.depth == 1 and isinstance(node.terms[0], Slot):
            trie = nest.number[node.trie]
            name = node.terms[0].name
            found.add(Constraint("row", trie, name))
    for cut in cuts_of(nest, step):
        assert isinstance(cut.bound, Slot)
        found.add(Constraint(cut.op, -1, cut.bound.name))
    return frozenset(found)


def ascends(node: TrieNode) -> bool:
    """Whether the children of each value are greater than the value."""
    columns = node.trie.columns
    ascending = (columns[0], "<", columns[1]), (columns[1], ">", columns[0])
    return any(test in ascending for test in node.trie.tests)


def word_of(nest: NestPrinter, bits: BitsetWords, turn: str) -> str:
    """The source of one word of a set."""
    words = (nest.call("at", part.array, f"{part.start} + {turn}") for part in bits.all)
    return " & ".join(words)


def _row(nest: NestPrinter, constraint: Constraint, known: KnownPositions) -> BitsetWords:
    group = known.group
    assert group is not None
    position = group.positions[constraint.variable]
    rises = ascends(TrieNode(list(nest.number)[constraint.trie], ()))
    array, start = group.rows[constraint.trie], f"{position} * {group.words}"
    return BitsetWords(array, start, after=position if nest.tile and rises else None)


@dataclass(slots=True)
class _Start:
    """The set that a level starts from, and the constraints that are still to apply."""

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


def set_of(
    nest: NestPrinter, step: Join, wanted: frozenset[Constraint], known: KnownPositions
) -> BitsetWords:
    """The set of positions that satisfy all constraints; built unless it exists already."""
    start = _begin(nest, wanted, known)
    group, text = known.group, nest.text
    assert group is not None
    if start.bits is not None and not start.rows and not start.cuts:
        return start.bits
    if known.alone:
        assert start.bits is not None and not start.cuts
        return _several(nest, start.bits, start.rows, known)
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


def _several(
    nest: NestPrinter, bits: BitsetWords, more: Sequence[Constraint], known: KnownPositions
) -> BitsetWords:
    """The intersection of several rows, computed while the rows are read."""
    rows = [_row(nest, constraint, known) for constraint in more]
    after = [each.after for each in (bits, *rows) if each.after is not None]
    return replace(bits, others=(*bits.others, *rows), after=after[-1] if after else None)


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
    group = known.group
    assert group is not None
    position, places = _bound(nest, constraint, known)
    over = constraint.kind in (">", ">=")
    places -= over  # `above` excludes the position itself
    edge = position if not places else f"{position} {'+' if places > 0 else '-'} 1"
    side = "above" if over else "below"
    nest.text.line(nest.call(side, bits.array, bits.start, edge, group.words))


def _bound(nest: NestPrinter, constraint: Constraint, known: KnownPositions) -> tuple[str, int]:
    """The position at which a cut starts (`>`, `>=`) or ends, and an offset to add to it."""
    group, text = known.group, nest.text
    assert group is not None
    op, position = constraint.kind, group.positions.get(constraint.variable)
    if position is not None:
        return position, int(op in (">", "<="))
    # A variable from outside the group: search for its insertion position in the list.
    search = "upper" if op in (">", "<=") else "lower"
    position = text.name("j")
    bound = known.names[constraint.variable]
    found = nest.call(search, group.values, group.low, group.high, bound)
    text.line(f"{position} = {found} - {group.low}")
    return position, 0


def measure_bits(
    nest: NestPrinter,
    steps: Sequence[Step],
    at: int,
    wanted: frozenset[Constraint],
    known: KnownPositions,
) -> tuple[str, bool]:
    """The number of positions of the last level, and whether it is each lane's own share."""
    step, text, group = steps[at], nest.text, known.group
    assert isinstance(step, Join) and group is not None
    start = _begin(nest, wanted, known)
    count = text.name("m")
    parts: list[BitsetWords] = []
    tests: list[str] = []
    share = nest.together(known) and bool(wanted)
    shared = "_shared" if share else ""
    if known.alone and start.cuts:
        parts, tests = _count_between(nest, start, count, known)
    elif known.alone and start.bits is not None:
        bits = set_of(nest, step, wanted, known)
        text.line(f"{count} = {_count_alone(nest, bits, group.words)}")
        parts = [*bits.all]
    elif start.bits is not None and len(start.rows) == 1 and not start.cuts:
        row = _row(nest, start.rows[0], known)
        parts = [start.bits, row]
        places = [word for bits in parts for word in (bits.array, bits.start)]
        text.line(f"{count} = {nest.call(f'count_and{shared}', *places, group.words)}")
    elif not wanted:
        text.line(f"{count} = {group.high} - {group.low}")
    else:
        bits = set_of(nest, step, wanted, known)
        counted = nest.call(f"count_row{shared}", bits.array, bits.start, group.words)
        text.line(f"{count} = {counted}")
        parts = [bits]
    nest.bound(step, known, count, share)
    before: list[str] = []
    for later in steps[at + 1 :]:
        other = unequal(later, step.variable)
        assert other is not None
        if other.name not in before:
            _leave_out(nest, other.name, before, count, parts, tests, known, share)
            before.append(other.name)
        nest.bound(later, known, count, share)
    return count, share


def _count_alone(nest: NestPrinter, bits: BitsetWords, words: str) -> str:
    """The number of positions of a set, counted by one lane."""
    text, first = nest.text, bits.first_word
    if len(bits.all) < 3:
        function = "count_row" if len(bits.all) == 1 else "count_and"
        places = [word for part in bits.all for word in (part.array, f"{part.start} + {first}")]
        return nest.call(function, *places, f"{words} - {first}")
    found, turn = text.name("m"), text.name("i")
    text.line(f"{found} = np.int64(0)")
    with text.block(f"for {turn} in range({first}, {words})"):
        text.line(f"{found} += {nest.call('popcount', word_of(nest, bits, turn))}")
    return found


def _count_between(
    nest: NestPrinter, start: _Start, count: str, known: KnownPositions
) -> tuple[list[BitsetWords], list[str]]:
    """The same within cuts; also returns the rows, and the comparisons that the cuts impose on a
    position."""
    group, text = known.group, nest.text
    assert group is not None
    ends = {">": ["0"], "<": [f"{group.high} - {group.low}"]}
    for constraint in start.cuts:
        position, places = _bound(nest, constraint, known)
        ends[constraint.kind[0]].append(f"{position} + {places}")
    low, high = text.name("l"), text.name("h")
    text.line(f"{low}, {high} = max({', '.join(ends['>'])}), min({', '.join(ends['<'])})")
    tests = [f">= {low}", f"< {high}"]
    if start.bits is None:
        text.line(f"{count} = max(0, {high} - {low})")
        return [], tests
    bits, turn = _several(nest, start.bits, start.rows, known), text.name("i")
    text.line(f"{count} = np.int64(0)")
    with text.block(f"for {turn} in range({low} >> 6, ({high} + 63) >> 6)"):
        word = f"{word_of(nest, bits, turn)} & {nest.call('between', turn, low, high)}"
        text.line(f"{count} += {nest.call('popcount', word)}")
    return [*bits.all], tests


def _leave_out(
    nest: NestPrinter,
    other: str,
    before: Sequence[str],
    count: str,
    parts: Sequence[BitsetWords],
    ends: Sequence[str],
    known: KnownPositions,
    share: bool,
) -> None:
    """Subtracts one if the value of another variable was counted. `ends`: comparisons for its
    position, each without its left operand."""
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
    tests += [f"{position} {end}" for end in ends]
    for bits in parts:
        tests.append(nest.call("has_bit", bits.array, bits.start, position))
    with text.block(f"if {' and '.join(tests) or 'True'}"):
        text.line(f"{count} -= 1")
