"""Bitsets over the positions of a recoded list: builds them from rows, cuts and counts them.

All lanes of a tile build a set together, in the tile's scratch. A diverged lane has no room for a
set: it ANDs several rows while it reads them, and counts bits between the bounds of cuts.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.join_plan import Comparison, Join, Slot
from gdatalog.plan.nest import TrieNode, unequal
from gdatalog.printer.nest import NestPrinter, Point
from gdatalog.printer.nest_state import BitsetWords, Constraint, RecodedList
from gdatalog.records import replace


def cuts_of(step: Join) -> list[Comparison]:
    """The cuts that no participant's trie implies."""
    implied = {at for _, at in step.implied}
    return [cut for at, cut in enumerate(step.cuts) if at not in implied]


def constraints_of(nest: NestPrinter, step: Join, group: RecodedList) -> frozenset[Constraint]:
    """The rows and cuts that a level's bits must satisfy."""
    found: set[Constraint] = set()
    for part in step.participants:
        node = nest.paths.node(part)
        if node != group.recoding.within and node.depth == 1 and isinstance(node.terms[0], Slot):
            found.add(Constraint("row", nest.number[node.trie], node.terms[0].name))
    for op, bound in cuts_of(step):
        assert isinstance(bound, Slot)
        found.add(Constraint(op, -1, bound.name))
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


def _row(here: Point, constraint: Constraint) -> BitsetWords:
    nest, group = here.nest, here.recoded
    position = group.positions[constraint.variable]
    rises = ascends(TrieNode(list(nest.number)[constraint.trie], ()))
    array, begin = group.rows[constraint.trie]
    start = f"{begin}{position} * {group.words}"
    return BitsetWords(array, start, after=position if nest.tile and rises else None)


Start = tuple[BitsetWords | None, list[Constraint], list[Constraint]]


def _begin(here: Point, wanted: frozenset[Constraint]) -> Start:
    """The set that a level starts from, and the rows and cuts that are still to apply."""
    group = here.recoded
    done = max((s for s in group.sets if s <= wanted), key=len, default=frozenset[Constraint]())
    left = sorted(wanted - done, key=lambda c: (c.variable, c.trie, c.kind))
    rows = [c for c in left if c.kind == "row"]
    assert all(c.variable in group.positions for c in rows)
    cuts = [c for c in left if c.kind != "row"]
    bits = group.sets.get(done) if done else None
    if bits is None and rows:
        bits = _row(here, rows.pop())
    return bits, rows, cuts


def set_of(here: Point, wanted: frozenset[Constraint]) -> BitsetWords:
    """The set of positions that satisfy all constraints; builds it unless it exists already."""
    nest, text, group = here.nest, here.text, here.recoded
    bits, rows, cuts = _begin(here, wanted)
    if bits is not None and not rows and not cuts:
        return bits
    if here.alone:
        assert bits is not None and not cuts
        return _several(here, bits, rows)
    level = nest.level(group.recoding.within)
    into = nest.arguments.scratch(text.name("bits"), "words", (level,))
    if bits is None:
        text.line(nest.call("fill_ones", into, "0", f"{group.high} - {group.low}"))
        bits = BitsetWords(into, "0")
    elif not rows:
        text.line(nest.call("copy_row", into, "0", bits.array, bits.start, group.words))
        bits = BitsetWords(into, "0")
    for constraint in rows:
        row = _row(here, constraint)
        places = bits.array, bits.start, row.array, row.start
        text.line(nest.call("and_rows", into, "0", *places, group.words))
        bits = BitsetWords(into, "0", after=row.after or bits.after)
    for constraint in cuts:  # clears the bits on the wrong side of a bound
        position, places_after = _bound(here, constraint)
        over = constraint.kind in (">", ">=")
        places_after -= over  # `above` excludes the position itself
        sign = "+" if places_after > 0 else "-"
        edge = f"{position} {sign} 1" if places_after else position
        side = "above" if over else "below"
        text.line(nest.call(side, bits.array, bits.start, edge, group.words))
    return bits


def _several(here: Point, bits: BitsetWords, more: Sequence[Constraint]) -> BitsetWords:
    """The intersection of several rows, computed while the rows are read."""
    rows = [_row(here, constraint) for constraint in more]
    after = [each.after for each in (bits, *rows) if each.after is not None]
    return replace(bits, others=(*bits.others, *rows), after=after[-1] if after else None)


def _bound(here: Point, constraint: Constraint) -> tuple[str, int]:
    """The position at which a cut starts (`>`, `>=`) or ends (`<`, `<=`), and an offset to add."""
    nest, text, group = here.nest, here.text, here.recoded
    op, position = constraint.kind, group.positions.get(constraint.variable)
    if position is not None:
        return position, int(op in (">", "<="))
    # A variable from outside the group: search for its insertion position in the list.
    search = "upper" if op in (">", "<=") else "lower"
    position = text.name("j")
    bound = here.names[constraint.variable]
    found = nest.call(search, group.values, group.low, group.high, bound)
    text.line(f"{position} = {found} - {group.low}")
    return position, 0


def measure_bits(here: Point, wanted: frozenset[Constraint]) -> tuple[str, bool]:
    """The number of positions of the last level, and whether it is each lane's own share."""
    nest, text, group, step = here.nest, here.text, here.recoded, here.join
    first, rows, cuts = start = _begin(here, wanted)
    count = text.name("m")
    parts: list[BitsetWords] = []
    tests: list[str] = []
    share = here.together() and bool(wanted)
    shared = "_shared" if share else ""
    if here.alone and cuts:
        parts, tests = _count_between(here, start, count)
    elif here.alone and first is not None:
        bits = set_of(here, wanted)
        text.line(f"{count} = {_count_alone(nest, bits, group.words)}")
        parts = [*bits.all]
    elif first is not None and len(rows) == 1 and not cuts:
        parts = [first, _row(here, rows[0])]
        places = [word for bits in parts for word in (bits.array, bits.start)]
        text.line(f"{count} = {nest.call(f'count_and{shared}', *places, group.words)}")
    elif not wanted:
        text.line(f"{count} = {group.high} - {group.low}")
    else:
        bits = set_of(here, wanted)
        counted = nest.call(f"count_row{shared}", bits.array, bits.start, group.words)
        text.line(f"{count} = {counted}")
        parts = [bits]
    here.bound(step, count, share)
    before: list[str] = []
    for later in here.later:
        other = unequal(later, step.variable)
        assert other is not None
        if other.name not in before:
            before.append(other.name)
            _leave_out(here, before, count, parts, tests, share)
        here.bound(later, count, share)
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


def _count_between(here: Point, start: Start, count: str) -> tuple[list[BitsetWords], list[str]]:
    """Counts, on one lane, the positions of a set within cuts; returns the set's rows, and the
    comparisons that a position must satisfy."""
    nest, text, (first, rows, cuts) = here.nest, here.text, start
    low, high = bounds_of(here, cuts)
    tests = [f">= {low}", f"< {high}"]
    if first is None:
        text.line(f"{count} = max(0, {high} - {low})")
        return [], tests
    bits, turn = _several(here, first, rows), text.name("i")
    text.line(f"{count} = np.int64(0)")
    with text.block(f"for {turn} in range({low} >> 6, ({high} + 63) >> 6)"):
        word = f"{word_of(nest, bits, turn)} & {nest.call('between', turn, low, high)}"
        text.line(f"{count} += {nest.call('popcount', word)}")
    return [*bits.all], tests


def bounds_of(here: Point, cuts: Sequence[Constraint]) -> tuple[str, str]:
    """The positions from which on, and up to which, cuts leave those of the list."""
    text, group = here.text, here.recoded
    ends = {">": ["0"], "<": [f"{group.high} - {group.low}"]}
    for constraint in cuts:
        position, places = _bound(here, constraint)
        ends[constraint.kind[0]].append(f"{position} + {places}")
    low, high = text.name("l"), text.name("h")
    for name, function, op in ((low, "max", ">"), (high, "min", "<")):
        several = f"{function}({', '.join(ends[op])})" if len(ends[op]) > 1 else ends[op][0]
        text.line(f"{name} = {several}")
    return low, high


def _leave_out(
    here: Point,
    others: Sequence[str],
    count: str,
    parts: Sequence[BitsetWords],
    ends: Sequence[str],
    share: bool,
) -> None:
    """Subtracts one if the value of the last of `others` was counted, unless an earlier one of them
    has the same value. `ends`: comparisons for its position, each without its left operand."""
    nest, text, group = here.nest, here.text, here.recoded
    *before, other = others
    value = here.names[other]
    tests = [f"{value} != {here.names[earlier]}" for earlier in before]
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
