"""A GPU as a device of the engine: its operations and its tries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from gdatalog.calls import Limits, LoopRun
from gdatalog.gpu_ops.driver import Driver
from gdatalog.gpu_ops.sums import Sums
from gdatalog.gpu_ops.transfers import Paged, Slices
from gdatalog.gpu_ops.trie_cache import DeviceTries
from gdatalog.gpu_ops.walk import WHOLE, Block, Part, Walks
from gdatalog.plan import RulePlan, TrieRef
from gdatalog.plan.cells import Sizes
from gdatalog.plan.effects import all_steps, expressions
from gdatalog.plan.placement import Shared
from gdatalog.printer.expressions import printable
from gdatalog.storage.on_device import is_on_host
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie

LARGEST_CHUNK = 1 << 26  # rows; larger chunks keep the device no busier

# Compiling a join's kernel takes some 400 ms, which pays off from this many expected rows on.
WORTH = 1_000_000.0


class Gpu:
    """`engine.device.Device` on top of a driver."""

    worth = WORTH

    def __init__(self, driver: Driver, memory: int | None = None) -> None:
        """`memory`: the user's limit, in bytes, for what is cached between queries."""
        self.driver = driver
        self.ops = Sums(driver)
        self.memory = memory
        self.kept = DeviceTries(driver, self.ops, memory)
        self.walks = Walks(driver, self.ops, self.kept)
        self.in_place = Paged(driver)

    @property
    def name(self) -> str:
        return self.driver.name

    @property
    def members(self) -> tuple[str, ...]:
        return (self.driver.name,)

    def trie(self, relation: Relation, ref: TrieRef) -> Trie:
        """The trie of a relation that a plan reads, built on the device and cached there."""
        return self.kept.trie(relation, ref.columns, ref.tests, ref.weighted, ref.ranked)

    def made(self, relation: Relation, ref: TrieRef) -> Trie | None:
        """The same trie if it is cached."""
        return self.kept.made(relation, ref.columns, ref.tests, ref.weighted, ref.ranked)

    def charge(self, limits: Limits, what: str, relation: Relation) -> None:
        """Shrinks the cache to the memory limit, given what else is held, and charges its size."""
        name = f"indexes on {self.name}"
        if limits.memory is not None:
            self.kept.limit = min(limits.memory, self.memory or limits.memory)
            self.kept.shrink(limits.spare() + limits.held.get(name, 0))
        limits.charge(name, self.kept.nbytes)

    def hold(self, relation: Relation) -> None:
        self.kept.hold(relation)

    def together(
        self,
        piece: Callable[[Any, Sequence[Trie], Limits, int], list[list[Block]]],
        shared: Shared,
        tries: Sequence[Trie],
        limits: Limits,
    ) -> list[list[Block]]:
        raise AssertionError("it is alone")

    def refuses(self, plan: RulePlan) -> str | None:
        """Why a rule cannot run here: it makes strings. None if it can."""
        computed = [expr for gather in plan.gathers for expr in gather.targets]
        for join in plan.joins:
            computed += join.outputs
            computed += (expr for step in all_steps(join.steps) for expr in expressions(step))
        return next(filter(None, map(printable, (*computed, *plan.head))), None)

    def room(self, spare: int) -> tuple[int, int]:
        """Free bytes on the device, and the largest chunk in rows."""
        return self.driver.free_memory(), LARGEST_CHUNK

    def lanes(self, tries: Sequence[Trie], knobs: Any) -> int:
        return int(knobs.tile) or lanes_for(tries)

    def tile(self, knobs: Any) -> int:
        return int(knobs.tile) or TILES[-1]

    def walk(self, run: LoopRun, wanted: int | None) -> list[Block]:
        """Runs a plan depth-first."""
        return self.walked(run, wanted, WHOLE)

    def walked(self, run: LoopRun, wanted: int | None, part: Part) -> list[Block]:
        """As `walk`, for a part of the units."""
        return self.walks.run(
            run.printed, run.tries, run.scope, run.limits, run.label, wanted, run.beside, part=part
        )

    def follow(self, run: LoopRun, rooms: Sequence[Any], first: int | None) -> list[list[Block]]:
        """The rows of a partitioned fixpoint: a tile has a worklist and marks for one value at a
        time."""
        return self.followed(run, rooms, WHOLE)

    def followed(self, run: LoopRun, rooms: Sequence[Any], part: Part) -> list[list[Block]]:
        """As `follow`, for a part of the values.

        With several relations, each row starts with the number of its relation, and has as many
        columns as the widest.
        """
        printed = run.printed
        own: dict[str, int] = {}
        for at, room in enumerate(rooms):
            own |= {f"list_{at}": room.stamps, f"seen_{at}": (room.stamps + 31) // 32}
        blocks = self.walks.run(
            printed, run.tries, run.scope, run.limits, run.label, None, run.beside, own, part
        )
        if not printed.outputs:
            return [[] for _ in rooms]
        if len(rooms) == 1:
            return [blocks]
        found: list[list[Block]] = []
        for at, room in enumerate(rooms):
            dtypes = [room.rows[column] for column in sorted(room.rows)]
            found.append([])
            for which, *columns in blocks:
                here = is_on_host(which)
                kept = (which == at).nonzero()[0] if here else self.ops.survivors(which == at)
                parts = zip(columns, dtypes, strict=False)
                found[at].append(tuple(part[kept].astype(dtype) for part, dtype in parts))
        return found

    def index_room(self, limits: Limits) -> int | None:
        """The bytes that cached tries may take beside what a query holds."""
        room = self.kept.budget()
        if limits.memory is None:
            return room
        kept = limits.held.get(f"indexes on {self.name}", 0)
        return min(room, limits.memory, limits.spare() + kept)

    def make_room(self, limits: Limits) -> None:
        self.kept.relieve()
        limits.charge(f"indexes on {self.name}", self.kept.nbytes)

    def slices(
        self,
        room: int,
        tries: Mapping[Hashable, Trie],
        sizes: Mapping[Hashable, Sizes],
        poll: Callable[[], None],
    ) -> Slices:
        return Slices(self.driver, room, tries, sizes, poll)

    def paged(self) -> Paged:
        return self.in_place

    def close(self) -> None:
        """Frees kernels, tries and rows; rows that are nowhere else are copied to the host."""
        self.walks.forget()
        self.in_place.forget()
        self.kept.close()
        self.driver.release()


# The number of lanes that walk a subtree together.


TILES = (1, 2, 4, 8, 16, 32)
WIDER = 8  # lanes per mean length: most time goes into the long lists
# With MANY values and no list longer than SHORT, tiles are as narrow as the mean length.
SHORT, MANY = 32, 4_000_000


def lanes_for(tries: Sequence[Any]) -> int:
    """The tile width for loops over the lists of these tries, from their mean length. Slices use
    the mean of the whole trie, so that all cells run one kernel."""
    mean, longest, values = 1.0, 0, 0
    for trie in tries:
        for level in (trie.whole or trie).levels[1:]:
            lists = max(1, len(level.offsets) - 1)
            mean = max(mean, len(level.values) / lists)
            longest = max(longest, int(level.longest))
            values = max(values, len(level.values))
    wider = 1 if longest <= SHORT and values >= MANY else WIDER
    return next((tile for tile in TILES if tile >= wider * mean), TILES[-1])
