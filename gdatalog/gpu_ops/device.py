"""A GPU as a device of the engine: its operations and its tries; counts, sums and optima by group.

If a result may not fit into 64 bits, operations raise `NotOnDevice`, and the rule runs on the CPU,
with Python's ints. Floats are added in a fixed order, so that the same rows always give the same
sum.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from gdatalog.calls import Block, Limits, LoopRun, NotOnDevice
from gdatalog.gpu_ops.cupy_driver import CupyDriver
from gdatalog.gpu_ops.intersection import Intersections
from gdatalog.gpu_ops.kernels import type_of
from gdatalog.gpu_ops.launch import WHOLE, Part
from gdatalog.gpu_ops.rows import Array
from gdatalog.gpu_ops.transfers import Paged, Slices
from gdatalog.gpu_ops.trie_cache import DeviceTries
from gdatalog.gpu_ops.walk import Walks
from gdatalog.plan.cells import Sizes
from gdatalog.plan.effects import all_steps, expressions
from gdatalog.plan.join_plan import RulePlan, TrieRef
from gdatalog.printer.expressions import printable
from gdatalog.printer.module import PrintedPlan
from gdatalog.settings import Settings
from gdatalog.storage.on_device import is_on_host
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_ops import DeviceOps
from gdatalog.storage.trie import Trie
from gdatalog.values import INT_MAX

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

    def walk(self, run: LoopRun, wanted: int | None, part: Part = WHOLE) -> list[Block]:
        """Runs a plan, or a part of its units, depth-first."""
        return self.walks.run(run, wanted, part)

    def follow(
        self, run: LoopRun, rooms: Sequence[Any], first: int | None, part: Part = WHOLE
    ) -> list[list[Block]]:
        """The rows of a partitioned fixpoint, or of a part of its values. A tile has a worklist and
        marks for one value at a time.

        If there are several relations, the kernel's rows start with the number of the relation, and
        have as many columns as the widest relation.
        """
        own: dict[str, int] = {}
        for at, room in enumerate(rooms):
            own |= {f"list_{at}": room.stamps, f"seen_{at}": (room.stamps + 31) // 32}
        blocks = self.walks.run(run, None, part, own)
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


# The number of lanes that walk a subtree together.


TILES = (1, 2, 4, 8, 16, 32)
WIDER = 8  # lanes per mean length: most time goes into the long lists
# With MANY values and no list longer than SHORT, tiles are as narrow as the mean length.
SHORT, MANY = 32, 4_000_000


def lanes_for(tries: Sequence[Trie]) -> int:
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


# Counts, sums and optima by group, on a device.


_TOO_LARGE = "counts or sums may leave 62 bits"
_EACH = 16  # rows that a thread adds up before it adds to a group's total


class Sums(Intersections):
    """Operations on groups."""

    @property
    def on_device(self) -> DeviceOps:
        return self

    def sums_by(self, groups: Array, count: int, amounts: Array | None) -> Array:
        """The sum of each group's amounts (1 each if None)."""
        xp = self.xp
        if amounts is not None and amounts.dtype == xp.float64:
            return self._sums_of_floats(groups, count, amounts)
        if count == 1:  # the most frequent case: no group
            if amounts is None:
                return xp.full(1, len(groups))
            return amounts.sum(dtype=xp.int64).reshape(1)
        totals = xp.zeros(count, dtype=xp.int64)
        self.add_at(totals, groups, amounts)
        return totals

    def add_at(self, totals: Array, rows: Array, amounts: Array | None) -> None:
        """Adds each amount (1 if None) to `totals[row]`."""
        size = len(rows)
        if not size:
            return
        given = amounts if amounts is not None else self.xp.empty(0, dtype=self.xp.int64)
        rows, given = map(self.xp.ascontiguousarray, (rows, given))
        args = [rows, given.astype(self.xp.int64, copy=False), totals]
        types = {"GROUP": type_of(rows)}
        args += [int(amounts is not None), _EACH, size]
        self.kernels.launch('#include "sums.cuh"\n', "sum_ints", types, size, args)

    def _sums_of_floats(self, groups: Array, count: int, amounts: Array) -> Array:
        xp = self.xp
        totals = xp.zeros(count, dtype=xp.float64)
        if count == 1:
            totals[0] = amounts.sum()
        elif count:
            order = xp.argsort(groups, kind="stable")
            starts = xp.searchsorted(groups[order], xp.arange(count + 1))
            args = [starts, amounts[order], totals, count]
            types = {"GROUP": "i64"}
            self.kernels.launch('#include "sums.cuh"\n', "sum_doubles", types, 128 * count, args)
        return totals

    def best_by(self, groups: Array, count: int, values: Array, least: bool) -> Array:
        """The row with the least (or greatest) int of each group. No group is empty."""
        xp, size = self.xp, len(groups)
        values = (values if least else ~values).astype(xp.int64, copy=False)
        best, rows = xp.full(count, INT_MAX), xp.full(count, size)
        groups, values = map(xp.ascontiguousarray, (groups, values))
        types = {"GROUP": type_of(groups)}
        args = [groups, values, best, _EACH, size]
        self.kernels.launch('#include "sums.cuh"\n', "best_values", types, size, args)
        args = [groups, values, best, rows, size]
        self.kernels.launch('#include "sums.cuh"\n', "best_rows", types, size, args)
        return rows

    # ------------------------------------------------------------------ exact counts and sums

    def times(self, counts: Array, weight: Array) -> Array:
        """Multiplies counts, if the products certainly fit. Waits for the greatest counts."""
        if len(counts) and len(weight):
            xp = self.xp
            most = counts.max().astype(xp.float64) * weight.max().astype(xp.float64)
            if float(most) >= 2.0**63:
                raise NotOnDevice(_TOO_LARGE)
        return counts * weight

    def add_counts(self, totals: Array, rows: Array, amounts: Array | None) -> Array:
        """The totals, with the amounts (1 each if None) added to those of `rows`."""
        if amounts is not None and len(totals):
            self._check(totals.max() + amounts.sum(dtype=self.xp.float64))
        self.add_at(totals, rows, amounts)
        return totals

    def exact_sums(self, groups: Array, count: int, amounts: Array | None) -> Array:
        """Sums of ints by group."""
        if amounts is not None:
            self._check(abs(amounts.astype(self.xp.float64)).sum())
        return self.sums_by(groups, count, amounts)

    counts_by = exact_sums

    def _check(self, bound: Array) -> None:
        if float(bound) >= 2.0**62:
            raise NotOnDevice(_TOO_LARGE)

    def halves(self, values: Array, weight: Array | None) -> tuple[Array, Array]:
        """value * weight as high * 2^32 + low, with both halves far from an overflow."""
        high, low = values >> 32, values & 0xFFFF_FFFF
        if weight is None or not len(weight):
            return high, low
        if int(weight.max()) >= 1 << 31:
            raise NotOnDevice(_TOO_LARGE)
        product = low * weight
        return high * weight + (product >> 32), product & 0xFFFF_FFFF

    def split_sums(
        self, groups: Array, count: int, values: Array, weight: Array | None
    ) -> tuple[Array, Array]:
        """The sum of value * weight of each group, as high * 2^32 + low."""
        high, low = self.halves(values.astype(self.xp.int64), weight)
        return self.exact_sums(groups, count, high), self.sums_by(groups, count, low)

    def means(self, high: Array, low: Array, counts: Array) -> Array:
        """(high * 2^32 + low) / count, rounded once. Python computes it, group by group."""
        rows = zip(*self.xp.stack([high, low, counts]).tolist(), strict=True)
        return self.xp.asarray([((h << 32) + lo) / n for h, lo, n in rows], dtype=self.xp.float64)
