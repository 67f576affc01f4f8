"""Prints the loop of a level over the list that it walks, and everything inside."""

from __future__ import annotations

from collections.abc import Mapping

from gdatalog.plan.join_plan import Join, Slot
from gdatalog.plan.nest import TrieNode
from gdatalog.printer.cached_intersections import fetch
from gdatalog.printer.lists import LevelLists
from gdatalog.printer.lookups import seek
from gdatalog.printer.measure import measurable_here
from gdatalog.printer.nest import Point
from gdatalog.printer.nest_state import Walk
from gdatalog.printer.reuse import fetch_ahead
from gdatalog.printer.turns import begin_unit, keys_counted, turns
from gdatalog.records import dataclass, replace


@dataclass(slots=True, eq=False)
class LevelLoop:
    """The loop of the level `here` over `walk`.

    `task`: the position from which units are counted, if the work can resume at each turn.
    `child`: units are positions in this list of the next level. `last_first`: each unit fills a
    table, and is a turn; a tile starts with the last ranks, which have the highest degrees.
    """

    here: Point
    walk: Walk
    met: LevelLists
    task: str | None
    child: TrieNode | None = None
    last_first: bool = False

    def print(self) -> None:
        here, walk, step = self.here, self.walk, self.here.join
        cursors = self._cursors()
        fetch(here, walk, cursors)
        lanes = self._by_lanes()
        alone = self.child is None and self.task is None
        keys = keys_counted(here.nest, walk, self.met) if (lanes or here.spread) and alone else None
        sought: dict[TrieNode, str] = {}
        with turns(here, walk, lanes, sought, keys) as turn:
            inner = self._inside(lanes)
            entry = self.child if self.last_first else None
            if entry is not None:
                self._begin_units(inner, turn, turn, lanes)
                turn = self._entry(inner, entry, turn)
            else:
                place = turn if self.child is None else self._clip(inner, self.child, turn)
                self._begin_units(inner, turn, place, lanes)
            if self._walks_one and len(self.met.lists) + len(self.met.roots) > 1:
                inner.bound(step, tried=True)
            if self._walks_one and walk.node is not None and walk.node.terms:
                fetch_ahead(here, walk, turn)
            turn = self._from_the_end(turn) if entry is None else turn
            name = self._bind(inner, turn)
            self._seek_others(inner, name, self._positions(turn, name, lanes, sought, cursors))
            self._skip_short(inner)
            inner.bound(step)
            inner.go_on()

    @property
    def _walks_one(self) -> bool:
        """Whether the loop walks a list of a trie, and no other with it."""
        return self.walk.node is not None and not self.walk.others

    def _cursors(self) -> dict[TrieNode, str]:
        """Variables for positions in the other lists, whose tries continue below."""
        here, walk, cursors = self.here, self.walk, {}
        term = Slot(here.join.variable, here.join.type)
        for node in self.met.lists:
            placed = node.child(term) in here.nest.placed
            wanted = not node.last or node.trie.weighted or placed
            if node != walk.node and wanted and not walk.others:
                low, _ = here.range_of(node)
                cursors[node] = here.text.name("p")
                here.text.line(f"{cursors[node]} = {low}")
        return cursors

    def _by_lanes(self) -> bool:
        """Whether the lanes of a tile divide the turns."""
        here = self.here
        if not here.together() or self.walk.others or self.child is not None:
            return False
        return here.spread or last_loop(here, here.at)

    def _inside(self, lanes: bool) -> Point:
        """The point inside the loop."""
        here, inner = self.here, self.here.inner()
        inner.clip = inner.unit = None
        inner.entry = False
        if here.clip is not None or here.unit is not None:
            inner.first_task = None
        inner.spread = here.spread and not self.walk.others
        inner.alone = here.alone or lanes
        return inner

    # ------------------------------------------------------------------------------- units

    def _clip(self, inner: Point, child: TrieNode, turn: str) -> str:
        """Clips the list of the next level to the task; returns its first position."""
        nest, text = self.here.nest, self.here.text
        offsets = nest.arguments.offsets(nest.level(child))
        if nest.tile:  # other tiles may have taken units since the task began
            text.line("e = base + stop")
        text.line(
            f"c0, c1 = max(np.int64({offsets}[{turn}]), s), min(np.int64({offsets}[{turn} + 1]), e)"
        )
        inner.clip = child
        if nest.counting is not None:
            inner.first_task = text.name("first_task")
            text.line(f"{inner.first_task} = np.int64(c0 == {offsets}[{turn}])")
        if nest.tile:
            with text.block("if c0 >= e"):
                text.line("break")
        return "c0"

    def _entry(self, inner: Point, child: TrieNode, turn: str) -> str:
        """Clips the list of the next level to the entry of a turn's unit, counted from the end;
        returns the position of the value above it."""
        nest, text = self.here.nest, self.here.text
        offsets, place = nest.arguments.offsets(nest.level(child)), text.name("i")
        text.line(f"c0 = base + total - 1 - ({turn} - base)")
        text.line("c1 = c0 + 1")
        text.line(f"{place} = {nest.call('parent_of', offsets, 'c0')}")
        inner.clip, inner.entry, inner.unit = child, True, None
        if nest.counting is not None:
            inner.first_task = text.name("first_task")
            text.line(f"{inner.first_task} = np.int64(c0 == {offsets}[{place}])")
        return place

    def _begin_units(self, inner: Point, turn: str, place: str, lanes: bool) -> None:
        """Where the work can resume, be shared, and stop."""
        here, task = self.here, self.task
        shares = task is not None or here.unit is not None or here.entry
        if task is not None and not lanes:  # turns of single lanes are too short to share
            last = None if self.child is None or self.last_first else f"c1 - 1 - {task}"
            again = None if here.clip is None else f"{turn} == c0"
            begin_unit(inner, f"{place} - {task}", again, last)
        # A tile checks for stop and sharing requests at its units, and at turns that it may share.
        loops, tile = len(here.loops_after(here.at)), here.nest.tile
        if loops > (1 if tile > 1 else 0) and (tile < 2 or not shares):
            inner.may_stop()

    # ------------------------------------------------------------------------------ values

    def _from_the_end(self, turn: str) -> str:
        """The position of a turn: a tile that fills tables counts down from the end."""
        here, node = self.here, self.walk.node
        if not (self.last_first and here.nest.tile and node is not None and node.trie.ranked):
            return turn
        found = here.text.name("i")
        here.text.line(f"{found} = base + total - 1 - ({turn} - base)")
        return found

    def _bind(self, inner: Point, turn: str) -> str:
        """Binds the level's variable to the value of a turn; returns its name."""
        nest, walk, step = self.here.nest, self.walk, self.here.join
        name = inner.bind(step.variable, nest.call("at", walk.array, turn))
        for op, bound in walk.tests:
            with self.here.text.block(f"if not {name} {op} {inner.key(bound)}"):
                self.here.text.line("continue")
        if walk.within is not None:
            other = walk.within
            found = nest.call("has", other.array, other.low, other.high, name)
            with self.here.text.block(f"if not {found}"):
                self.here.text.line("continue")
        nodes = [walk.node] if walk.node is not None else list(self.met.lists)
        nest.widths[step.variable] = nest.arguments.width(tuple(map(nest.level, nodes)))
        inner.members[step.variable] = self.met.nodes
        inner.turns[step.variable] = replace(walk, at=turn)
        return name

    def _positions(
        self,
        turn: str,
        name: str,
        lanes: bool,
        sought: Mapping[TrieNode, str],
        cursors: Mapping[TrieNode, str],
    ) -> dict[TrieNode, str]:
        """The position of the value in each list that is known, or continues below."""
        here, nest, text, node = self.here, self.here.nest, self.here.text, self.walk.node
        found: dict[TrieNode, str] = {}
        if node is not None and not nest.tallied(node):
            found[node] = turn
        found |= sought
        if node is not None and nest.hashed(node) and not node.last:
            below = nest.arguments.of_hash(nest.level(node), "below")
            found[node] = text.name("p")
            text.line(f"{found[node]} = np.int64({nest.call('at', below, turn)})")
        # Each lane has a turn of its own, and searches from the start of the list.
        search = "lower" if nest.tile and not lanes else "seek"
        for other, cursor in cursors.items():
            start, high = here.range_of(other)
            low = start if search == "lower" else cursor
            text.line(f"{cursor} = {nest.call(search, nest.values(other), low, high, name)}")
            found[other] = cursor
        return found

    def _skip_short(self, inner: Point) -> None:
        """Skips a value whose list below is too short for the variables that come from it."""
        nest, step = self.here.nest, self.here.join
        for place, least in step.least:
            node = nest.paths.node(step.participants[place])
            if not nest.hashed(node):
                low, high = inner.range_of(node.child(Slot(step.variable, step.type)))
                with self.here.text.block(f"if {high} - {low} < {least}"):
                    self.here.text.line("continue")

    def _seek_others(self, inner: Point, name: str, among: dict[TrieNode, str]) -> None:
        """Looks the value up in the tries that have it; of lists that end here, membership was all
        that mattered."""
        step = self.here.join
        for part in step.participants:
            node = self.here.nest.paths.node(part)
            if node in among or node not in self.met.lists:
                seek(inner, Slot(step.variable, step.type), name, (part,), among)


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
