"""A GPU as a device of the engine: its operations and its tries; counts, sums and optima by group.

If a result may not fit into 64 bits, operations raise `NotOnDevice`, and the rule runs on the CPU,
with Python's ints. Floats are added in a fixed order, so that the same rows always give the same
sum.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from gdatalog.calls import Block, LoopRun
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.growing_rows import GrowingRows
from gdatalog.gpu_ops.lanes import TILES, lanes_for
from gdatalog.gpu_ops.launch import WHOLE, Part, Steps, finished
from gdatalog.gpu_ops.level_graph import KeptLevels, PreparedLevels
from gdatalog.gpu_ops.paged_tries import Paged
from gdatalog.gpu_ops.rounds import DeviceRounds
from gdatalog.gpu_ops.sums import Sums
from gdatalog.gpu_ops.transfers import Slices
from gdatalog.gpu_ops.trie_cache import DeviceTries
from gdatalog.gpu_ops.walk import KeptByKey, PreparedLoops, Walks
from gdatalog.limits import Limits
from gdatalog.plan.effects import all_steps, expressions
from gdatalog.plan.join_plan import RulePlan, TrieRef
from gdatalog.plan.slices import Sizes
from gdatalog.printer.expressions import printable
from gdatalog.printer.module import PrintedPlan
from gdatalog.settings import Settings
from gdatalog.storage.on_device import is_on_host
from gdatalog.storage.relation import Relation
from gdatalog.storage.trie import Trie

LARGEST_CHUNK = 1 << 26  # rows; larger chunks would not use the device better


class Gpu:
    """An `engine.device.Accelerator` on top of a driver."""

    def __init__(self, driver: CupyDriver, memory: int | None = None) -> None:
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

    @property
    def accelerator(self) -> Gpu:
        return self

    def trie(self, relation: Relation, ref: TrieRef) -> Trie:
        """The trie of a relation that a plan reads, built on the device and cached there."""
        return self.kept.trie(relation, ref.columns, ref.tests, ref.weighted, ref.ranked)

    def made(self, relation: Relation, ref: TrieRef) -> Trie | None:
        """The same trie if it is cached."""
        return self.kept.made(relation, ref.columns, ref.tests, ref.weighted, ref.ranked)

    def charge(self, limits: Limits, what: str, relation: Relation) -> None:
        """Shrinks the cache so that it fits the memory limit beside the other data, and charges its
        size."""
        name = f"indexes on {self.name}"
        if limits.memory is not None:
            self.kept.limit = min(limits.memory, self.memory or limits.memory)
            self.kept.shrink(limits.spare() + limits.account.held.get(name, 0))
        limits.charge(name, self.kept.nbytes)

    def hold(self, relation: Relation) -> None:
        self.kept.hold(relation)

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

    def lanes(self, tries: Sequence[Trie], settings: Settings) -> int:
        return settings.tile or lanes_for(tries)

    def tile(self, settings: Settings) -> int:
        return settings.tile or TILES[-1]

    def loops_soon(self, printed: PrintedPlan, label: str) -> bool:
        return self.driver.compiles_ahead and self.walks.soon(printed, label)

    def waits_for(self, printed: PrintedPlan, label: str) -> bool:
        return self.driver.compiles_ahead and not self.walks.soon(printed, label)

    def walk(self, run: LoopRun, wanted: int | None) -> list[Block]:
        """Runs a plan depth-first."""
        return self.walks.run(run, wanted)

    def rounds(self, relations: Sequence[GrowingRows], limits: Limits) -> DeviceRounds:
        """The rounds of a fixpoint with these relations, without rules yet."""
        return DeviceRounds(self.walks, self.ops.kernels, relations, limits)

    def keep(self, key: object, kept: Any) -> None:
        """Keeps a fixpoint for later runs."""
        self.walks.fixpoints.keep(key, kept)

    def kept_of(self, key: object) -> Any | None:
        """Takes a fixpoint that was kept."""
        return self.walks.fixpoints.take(key)

    def prepared(self, run: LoopRun, has_run: bool) -> PreparedLoops | None:
        """The launch of a plan over its tries, for runs with other parameters."""
        return self.walks.prepared(run, has_run)

    def again(self, loops: Sequence[Any], scope: Any, limits: Limits) -> list[list[Block]] | None:
        """The rows of prepared loops."""
        return self.walks.again(loops, scope, limits)

    def levels(self, tries: Sequence[Trie]) -> PreparedLevels:
        """A breadth-first join that counts, whose first run over these tries is to be noted."""
        return PreparedLevels(self.walks, self.ops, tries)

    @property
    def kept_levels(self) -> KeptByKey:
        """Such joins, by a key."""
        return self.walks.levels

    def counts_again(self, key: object) -> PreparedLoops:
        """The counts of levels that are prepared, and kept under this key."""
        return KeptLevels(self.walks, key)

    def follow(self, run: LoopRun, rooms: Sequence[Any], first: int | None) -> list[list[Block]]:
        """Runs a partitioned fixpoint."""
        return finished(self.following(run, rooms), self.driver, run.limits)

    def following(
        self, run: LoopRun, rooms: Sequence[Any], part: Part = WHOLE
    ) -> Steps[list[list[Block]]]:
        """The rows of a partitioned fixpoint, or of a part of its values. A tile has a worklist and
        marks for one value at a time.

        If there are several relations, the kernel's rows start with the number of the relation, and
        have as many columns as the widest relation.
        """
        own: dict[str, int] = {}
        for at, room in enumerate(rooms):
            own |= {f"list_{at}": room.stamps, f"seen_{at}": (room.stamps + 31) // 32}
        blocks = yield from self.walks.steps(run, None, part, own)
        if not run.printed.outputs:
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
        """The bytes that cached tries may take beside the query's own data."""
        room = self.kept.budget()
        if limits.memory is None:
            return room
        kept = limits.account.held.get(f"indexes on {self.name}", 0)
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
        """Frees kernels, tries and rows. Copies rows that are nowhere else to the host."""
        self.walks.forget()
        self.in_place.forget()
        self.kept.close()
        self.driver.release()
