"""How much room the relations of a fixpoint have on a device, and when they get more.

A round finds at most as many rows as fit into the pools of its rules. Before each round there is
room for these.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.errors import MemoryLimitError
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.growing_rows import GrowingRows
from gdatalog.gpu_ops.round_launches import RoundLaunch
from gdatalog.limits import Limits

# The share of the memory beside the bitmaps that rows may take if they grow in place; if they are
# copied.
IN_PLACE_SHARE, COPIED_SHARE = 0.5, 0.25
HELD, TILES = "rows of rounds", "lists of tiles"  # owners of the account


class RoundMemory:
    """The memory of some relations. `running`: the launches of a round."""

    def __init__(
        self, driver: CupyDriver, relations: Sequence[GrowingRows], launches: Sequence[RoundLaunch]
    ) -> None:
        self.driver, self.relations, self.launches = driver, relations, launches
        self.running = launches

    @property
    def held(self) -> int:
        return sum(rows.nbytes for rows in self.relations)

    def each(self, number: int) -> int:
        """The most rows that a round adds to a relation."""
        return sum(launch.most for launch in self.running if launch.into == number)

    def needed(self, number: int, rounds: int) -> int:
        """The capacity that a relation needs for so many more rounds, whatever they find."""
        rows = self.relations[number]
        return min(rows.most, rows.count + rounds * self.each(number))

    def limit(self, number: int) -> int:
        """The most rows of a relation before another round."""
        rows = self.relations[number]
        return rows.most if rows.capacity >= rows.most else rows.capacity - self.each(number)

    def roomy(self, rounds: int) -> bool:
        return not self.lacking(rounds)

    def lacking(self, rounds: int) -> list[int]:
        """The relations without room for so many rounds."""
        return [
            number
            for number, rows in enumerate(self.relations)
            if rows.capacity < self.needed(number, rounds)
        ]

    def grown(self, number: int, rounds: int, limits: Limits) -> bool:
        """Makes room in a relation for so many rounds, if possible for more. Returns whether
        kernels need other arguments than before."""
        rows, needed = self.relations[number], self.needed(number, rounds)
        first = rows.begin if rows.passing else 0
        needed, ample = needed - first, self.needed(number, 2 * rounds)
        if rows.marks is None:
            ample = max(2 * rows.count, self.needed(number, 4 * rounds))
        else:  # what is copied doubles
            ample += ample if self.driver.arena is None else rows.count // 2
        ample = min(rows.most, ample)
        room = self._room(limits)
        if rows.bytes_for(needed) > room:
            raise MemoryLimitError(f"new rows do not fit {self.driver.name}")
        while ample > needed and rows.bytes_for(ample) > room:
            ample = (needed + ample) // 2
        return rows.make_room(first, max(needed, ample))

    def _room(self, limits: Limits) -> int:
        """The bytes that a relation's rows may take now."""
        share = COPIED_SHARE if self.driver.arena is None else IN_PLACE_SHARE
        held = self.held
        charged = limits.account.held.get(HELD, 0)
        most = share * (limits.spare() + charged)
        return int(min(most, self.driver.free_memory() * share + held))

    def charge(self, limits: Limits) -> None:
        limits.charge(HELD, self.held)
        self.charge_tiles(limits)

    def charge_tiles(self, limits: Limits) -> None:
        limits.charge(TILES, sum(launch.held for launch in self.launches))

    def let_go(self, limits: Limits) -> None:
        """Ends the charges."""
        for what in (TILES, HELD):
            limits.charge(what, 0)
