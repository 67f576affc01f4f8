"""Prints the head of a level's loop for a thread, for a tile, or for the lanes of a tile.

A thread takes one turn after the other. The lanes of a tile divide the turns if there is little
work in each, and otherwise take each turn together. Other tiles can take over remaining turns. If
there is no buffer of an intersection, the loop leapfrogs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from gdatalog.plan.nest import TrieNode
from gdatalog.printer.lists import LevelLists
from gdatalog.printer.nest import Leaf, NestPrinter, Point
from gdatalog.printer.nest_state import CountTable, Walk


@contextmanager
def tasks(nest: NestPrinter, leaf: Leaf | None = None) -> Iterator[None]:
    """The loop in which a worker takes one task after the other, until none is left."""
    text = nest.text
    with text.block("while next_task(total)" if nest.tile else "while True"):
        if nest.tile:
            nest.commit()
        else:
            with text.block("if start >= stop"):
                take = nest.call("take", "control", "threads", "total", "grain")
                text.line(f"start, stop = {take}")
                with text.block("if start >= stop"):
                    text.line("break")
        yield
        if not nest.tile:
            if leaf is not None:
                leaf.settle(nest)
            text.line("start = stop")


@contextmanager
def turns(
    here: Point, walk: Walk, lanes: bool, sought: dict[TrieNode, str], keys: CountTable | None
) -> Iterator[str]:
    """The loop of a walk; yields the position. `lanes`: the lanes divide the turns. `sought` gets
    the positions in other lists. `keys`: only keys of this table matter."""
    nest, text = here.nest, here.text
    if walk.others:
        with leaping(nest, walk, sought, here.unit) as turn:
            yield turn
    elif here.unit is not None:
        with shared_turns(nest, walk.low, walk.high, here.unit, lanes) as turn:
            yield turn
    else:
        turn = text.name("i")
        kind = "lanes" if lanes else "spread" if here.spread else "range"
        given = f"{walk.low}, {walk.high}"
        if keys is not None and kind == "lanes":
            with _lanes_of_keys(nest, walk, keys) as turn:
                yield turn
            return
        if keys is not None and kind == "spread":
            given += f", {walk.array}, {keys.values}, {keys.length}"
        with text.block(f"for {turn} in {kind}({given})"):
            yield turn


def keys_counted(nest: NestPrinter, walk: Walk, met: LevelLists) -> CountTable | None:
    """The table of counts, if a tile's lanes walk a list of which only the table's keys matter."""
    tables = [node for node in met.roots if nest.tallied(node)]
    node = walk.node
    plain = nest.tile and nest.counting is None and not walk.others and len(met.lists) == 1
    if not plain or not tables or node is None or node not in met.lists or nest.hashed(node):
        return None
    return nest.table(tables[0])


@contextmanager
def _lanes_of_keys(nest: NestPrinter, walk: Walk, keys: CountTable) -> Iterator[str]:
    """Lanes walk a list, or look up the keys of a table in it if these are far fewer."""
    text, few, at, turn = nest.text, nest.text.name("few"), nest.text.name("i"), nest.text.name("i")
    text.line(f"{few} = few_keys({walk.low}, {walk.high}, {keys.length})")
    ends = f"0 if {few} else {walk.low}, {keys.length} if {few} else {walk.high}"
    with text.block(f"for {at} in lanes({ends})"):
        key = nest.call("at", keys.values, at)
        found = nest.call("find", walk.array, walk.low, walk.high, key)
        text.line(f"{turn} = {found} if {few} else {at}")
        with text.block(f"if {turn} < 0"):
            text.line("continue")
        yield turn


def _ends(nest: NestPrinter, low: str, high: str, unit: str | None) -> tuple[str, str]:
    """The start and the end of a loop; a task may have only a part of a unit's turns."""
    text = nest.text
    place = text.name("i")
    if unit is None:
        text.line(f"{place} = {low}")
        return place, high
    end = text.name("e")
    text.line(f"{place} = {low} + first_turn({unit})")
    text.line(f"{end} = min({high}, {low} + last_turn({unit}))")
    return place, end


def _share(nest: NestPrinter, unit: str, low: str, turn: str, end: str) -> None:
    """Prints an offer of the turns after this one to waiting tiles."""
    with nest.text.block(f"if {end} - {turn} > 1 and late()"):
        rest = f"share_turns({unit}, {turn} + 1 - {low}, {end} - {low})"
        nest.text.line(f"{end} = {low} + {rest}")


@contextmanager
def shared_turns(
    nest: NestPrinter, low: str, high: str, unit: str, lanes: bool = False
) -> Iterator[str]:
    """A loop whose turns waiting tiles can take over. `lanes`: the lanes divide the turns."""
    text = nest.text
    place, end = _ends(nest, low, high, unit)
    turn = text.name("i")
    if lanes:
        with text.block(f"for {turn} in lanes({place}, {end}, {unit}, {low})"):
            yield turn
        return
    with text.block(f"for {turn} in turns({place}, {end})"):
        _share(nest, unit, low, turn, end)
        yield turn


@contextmanager
def leaping(
    nest: NestPrinter, walk: Walk, cursors: dict[TrieNode, str], unit: str | None = None
) -> Iterator[str]:
    """A loop that leapfrogs; yields the position. Adds the positions in the other lists to
    `cursors`."""
    text = nest.text
    found = [(other, text.name("p")) for other in walk.others]
    for other, cursor in found:
        text.line(f"{cursor} = {other.low}")
        if other.node is not None:
            cursors[other.node] = cursor
    place, end = _ends(nest, walk.low, walk.high, unit)
    turn, value = text.name("i"), text.name("x")
    with text.block(f"while {place} < {end}"):
        text.line(f"{turn} = {place}")
        text.line(f"{value} = np.int64({nest.call('at', walk.array, turn)})")
        for other, cursor in found:
            sought = nest.call("seek", other.array, cursor, other.high, value)
            text.line(f"{cursor} = {sought}")
            with text.block(f"if {cursor} >= {other.high}"):
                text.line("break")
            with text.block(f"if {nest.call('at', other.array, cursor)} != {value}"):
                ahead = f"np.int64({nest.call('at', other.array, cursor)})"
                leap = nest.call("seek", walk.array, f"{turn} + 1", end, ahead)
                text.line(f"{place} = {leap}")
                text.line("continue")
        text.line(f"{place} = {turn} + 1")
        if unit is not None:
            _share(nest, unit, walk.low, turn, end)
        yield turn


def begin_unit(here: Point, unit: str, first: str | None = None, last: str | None = None) -> None:
    """Prints the start of a turn at which the work can resume.

    `last`: the last unit of a turn with several units. A tile can share the work in a single unit.
    `first`: a test for the first unit of a value, which is bound again if the work resumes there.
    """
    nest, text = here.nest, here.text
    if not nest.tile:
        if here.leaf.marks_tasks():
            nest.commit(first)
            with text.block("if waiting == 0") if here.leaf.waits(nest) else nullcontext():
                text.line(f"state[0] = {unit}")
            text.line("state[1] = stop")
            text.line("state[4] = n")
        return
    # Other tiles may have taken the unit in the meantime
    with text.block(f"if not begin_unit({unit}, {unit if last is None else last})"):
        text.line("break")
    if here.leaf.marks_tasks():
        text.line("mark_task()")
        nest.commit(first)
    if last is None:
        here.unit = text.name("unit")
        text.line(f"{here.unit} = {unit}")
    if nest.counting is not None:
        # If another task took some of the turns, the outer steps count only for the task with the
        # first turn.
        whole = f"first_turn({unit}) == 0"
        if here.first_task is not None:
            whole += f" and {here.first_task} == 1"
        here.first_task = text.name("first_task")
        text.line(f"{here.first_task} = np.int64({whole})")
