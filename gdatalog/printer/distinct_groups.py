"""A leaf that emits the distinct rows of each group (`plan/nest.py`).

The variables that vary in a group are packed into one number, the row's key. If keys are short,
they set bits of a bitmap. At the end of the group the bitmap is read in order and cleared, so that
the rows are sorted. If keys are long, a hash set emits each row when it is first seen. Where a
variable is dead, another bitmap drops rows of the group that are equal in the live variables.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.codegen.helpers.group_sets import LEAST_SHIFT, LEAST_SLOTS
from gdatalog.plan.grouped_rows import groups_of, level_of
from gdatalog.plan.join_plan import Compact, Generate, Join, JoinPlan
from gdatalog.printer.arguments import LevelArgument
from gdatalog.printer.leaves import RowLeaf
from gdatalog.printer.nest import NestPrinter, Point

LACKS_SLOTS = 10  # status: the hash set is full


class GroupedRows(RowLeaf):
    """Deduplicates rows group by group, with a hash set (`hashed`) or a bitmap. `compacts`: the
    live variables of each Compact step, by its number; a bitmap drops duplicates there."""

    by_lanes = False

    def __init__(self, join: JoinPlan, hashed: bool, compacts: dict[int, tuple[str, ...]]) -> None:
        super().__init__(join.outputs, False)
        groups = groups_of(join)
        assert groups is not None
        self.groups = groups
        self.hashed = hashed
        self.compacts = compacts
        self.opened = False

    def start(self, nest: NestPrinter) -> None:
        self._shifts(nest, "", self.groups.keys)
        for number, names in self.compacts.items():
            self._shifts(nest, f"{number}_", names)

    def _shifts(self, nest: NestPrinter, which: str, names: Sequence[str]) -> None:
        """Prints the shift of each variable in a key."""
        shift = "0"
        for at in range(len(names) - 1, -1, -1):
            nest.text.line(f"shift_{which}{at} = {shift}")
            bits = nest.arguments.scalar("bits", self._level(nest, names[at]))
            shift = f"shift_{which}{at} + {bits}"

    def _level(self, nest: NestPrinter, variable: str) -> LevelArgument:
        return nest.level(nest.paths.node(level_of(nest.join, variable)))

    def _key(self, here: Point, which: str, names: Sequence[str]) -> str:
        nest = here.nest
        parts = []
        for at, name in enumerate(names):
            base = nest.arguments.scalar("base", self._level(nest, name))
            part = f"({here.names[name]} - {base})"
            parts.append(part if at == len(names) - 1 else f"({part} << shift_{which}{at})")
        return f"({' | '.join(parts)})"

    def _bitmap(self, nest: NestPrinter, which: str, names: Sequence[str]) -> tuple[str, str]:
        levels = tuple(self._level(nest, name) for name in names)
        words = nest.arguments.scratch(f"words{which}", "bitmap", levels)
        return words, nest.arguments.scratch(f"filled{which}", "filled", levels)

    def whole_turns(self, here: Point) -> bool:
        loops = (step for step in here.later if isinstance(step, (Join, Generate)))
        following = next(loops, None)
        return following is None or following.variable not in self.groups.by

    # ------------------------------------------------------------------------------ a group

    def begins(self, here: Point) -> bool:
        nest, text = here.nest, here.text
        if self.opened or here.at != self.groups.first:
            return False
        self.opened = True
        if self.hashed:
            slots = nest.arguments.scratch("slots", "slots", ())
            text.line(nest.call("empty_slots", slots, str(LEAST_SLOTS)))
            text.line(f"shift, taken_ = {LEAST_SHIFT}, 0")
        here.inner().run_once()
        for number, names in self.compacts.items():
            text.line(nest.call("empty_bits", *self._bitmap(nest, f"_{number}", names)))
        if not self.hashed:
            self._read(here)
        return True

    def passes(self, here: Point) -> None:
        nest, step = here.nest, here.steps[here.at]
        if not isinstance(step, Compact):
            return
        number = next((at for at, own in enumerate(nest.join.steps) if own is step), -1)
        names = self.compacts.get(number)
        if names is not None and self.opened:
            bitmap = self._bitmap(nest, f"_{number}", names)
            key = self._key(here, f"{number}_", names)
            with nest.text.block(f"if not {nest.call('add_new_bit', *bitmap, key)}"):
                nest.text.line("continue")

    def emit(self, here: Point) -> None:
        nest, text, names = here.nest, here.text, self.groups.keys
        key = self._key(here, "", names)
        if not self.hashed:
            text.line(nest.call("add_bit", *self._bitmap(nest, "", names), key))
            return
        slots = nest.arguments.scratch("slots", "slots", ())
        taken = nest.arguments.scratch("taken", "slots", ())
        code = text.name("k")
        text.line(f"{code} = {key}")
        with text.block(f"if {nest.call('add_own', slots, 'shift', code)}"):
            super().emit(here)
            text.line(nest.call("put", taken, "taken_", code))
            text.line("taken_ += 1")
            with text.block("if 2 * taken_ > 1 << (64 - shift)"):
                text.line(f"shift = {nest.call('widen_slots', slots, taken, 'taken_', 'shift')}")
                with text.block("if shift == 0"):
                    text.line(f"return {LACKS_SLOTS}")

    def _read(self, here: Point) -> None:
        """Prints the loop that emits a group's rows from its bitmap, in order, and clears it."""
        nest, text, names = here.nest, here.text, self.groups.keys
        words, filled = self._bitmap(nest, "", names)
        block, left, at, word, key = map(text.name, ("f", "left", "w", "word", "k"))
        one = "np.uint64(1)"
        with text.block(f"for {block} in range(len({filled}))"):
            text.line(f"{left} = {nest.call('at', filled, block)}")
            with text.block(f"while {left} != np.uint64(0)"):
                zeros = nest.call("trailing_zeros", left)
                text.line(f"{at} = ({block} << 6) + np.int64({zeros})")
                text.line(f"{left} &= {left} - {one}")
                text.line(f"{word} = {nest.call('at', words, at)}")
                with text.block(f"while {word} != np.uint64(0)"):
                    zeros = nest.call("trailing_zeros", word)
                    text.line(f"{key} = ({at} << 6) + np.int64({zeros})")
                    text.line(f"{word} &= {word} - {one}")
                    inner = here.inner()
                    for place, name in enumerate(names):
                        base = nest.arguments.scalar("base", self._level(nest, name))
                        bits = nest.arguments.scalar("bits", self._level(nest, name))
                        value = f"({key} >> shift_{place})" if place < len(names) - 1 else key
                        if place:
                            value = f"({value} & ((1 << {bits}) - 1))"
                        inner.bind(name, f"{value} + {base}")
                    super().emit(inner)
                text.line(nest.call("put", words, at, "np.uint64(0)"))
            text.line(nest.call("put", filled, block, "np.uint64(0)"))
