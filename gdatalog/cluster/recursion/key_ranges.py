"""A partitioned fixpoint on workers: each takes ranges of the values of the partitioning column.

A call evaluates its range piece by piece, for a second, and returns the rows that it found. The
driver divides the rest of the range among idle workers. Workers exchange nothing, and rows are
distinct.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from gdatalog.cluster.pool.calls import Call, RemoteValue, TooLarge
from gdatalog.cluster.pool.task_stage import Pool, TaskStage
from gdatalog.cluster.rows.shuffle import parts_of, size_of, stays_remote
from gdatalog.cluster.rows.texts import asks_for_ranks, reads_texts, texts_for
from gdatalog.cluster.workers.own_device import on_device, rows_here
from gdatalog.cluster.workers.own_process import CallContext
from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.fixpoint.start_groups import RowsByColumn
from gdatalog.engine.metrics import Way
from gdatalog.engine.operators.partitioned import Partitioned
from gdatalog.engine.operators.partitioned_run import OFTEN, PartitionedStratum
from gdatalog.errors import MemoryLimitError
from gdatalog.plan.effects import falls, rises
from gdatalog.plan.join_plan import RulePlan, TrieRef
from gdatalog.planner.check import Schema
from gdatalog.records import cached_property, dataclass, replace
from gdatalog.settings import Thresholds
from gdatalog.storage import remote
from gdatalog.storage.on_device import brought
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import Keeper
from gdatalog.storage.row_store import joined_column
from gdatalog.storage.rows import Columns, sorted_set
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

BUDGET = 1.0  # seconds until a call returns
SMALL = 1 << 16  # bytes of rows that are sent with a call's summary
# Pieces of a range, their growth, and the seconds below which they grow.
PIECES, GROWING, SHORT = 16, 4, 0.1


Seeds = Mapping[str, RowsByColumn]  # the initial rows of each relation that has some


def values_of(seeds: Seeds) -> Array:
    """The initial values of all relations, ascending."""
    found = [part.values for part in seeds.values() if len(part.values)]
    return found[0] if len(found) == 1 else sorted_set(np.concatenate(found))


@dataclass(frozen=True, slots=True)
class KeyRangeTask:
    """What all ranges of a fixpoint have in common."""

    fixpoint: Partitioned
    schemas: Mapping[str, Schema]
    counts: bool  # whether only numbers of rows are wanted
    context: CallContext


@dataclass(frozen=True, slots=True)
class KeyRangeInputs:
    """What a call reads: the initial rows of its values, and tries; in the driver, the values that
    stand for these."""

    task: KeyRangeTask
    seeds: Seeds
    tries: Mapping[TrieRef, Trie]
    symbols: SymbolTable


@dataclass(slots=True)
class RangeResult:
    """The result of a range's first `done` values: rows, or the number of rows of each value.
    `left`: the bytes of rows that stay on the worker because they are many. The driver adds `low`,
    the number of the first value, `kept`, where these rows are, and what the call was `given`."""

    done: int
    rows: dict[str, Columns]
    counts: dict[str, Array]
    gpu: bool = False
    left: int = 0
    low: int = 0
    kept: RemoteValue | None = None
    given: KeyRangeInputs | None = None

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for rows in self.rows.values() for column in rows)


def followed(given: KeyRangeInputs) -> RangeResult | None:
    """The fixpoint of a range's values, until time is over; None if it cannot run partitioned."""
    return _followed(given, BUDGET)


def light(found: RangeResult | None) -> RangeResult | None:
    """The result as the driver gets it, without rows if they are many."""
    if found is None or found.nbytes <= SMALL:
        return found
    return replace(found, rows={}, left=found.nbytes)


def rows_of(found: RangeResult, name: str, done: int, given: KeyRangeInputs) -> Columns:
    """The rows of a relation for the first `done` values. A kept result may have been lost and
    recomputed, and then it may cover other values."""
    if found.done != done:
        values = values_of(given.seeds)
        low, end = int(values[0]), int(values[done - 1]) + 1
        exact = {name: part.between(low, end) for name, part in given.seeds.items()}
        again = _followed(replace(given, seeds=exact), None)
        assert again is not None
        found = again
    return found.rows[name]


def _followed(given: KeyRangeInputs, budget: float | None) -> RangeResult | None:
    task = given.task

    def run(device: Device, tries: Mapping[TrieRef, Trie]) -> RangeResult | None:
        context = task.context.here(given.symbols, device)
        inputs = StratumInputs(context, task.schemas, {}, _no_relation, tries=tries)
        splits = task.fixpoint.begun(inputs)
        splits.read_rows = sum({id(trie): trie.total for trie in tries.values()}.values())
        return _piece_by_piece(splits, given.seeds, task.counts, budget)

    plans = [plan for _, plan in task.fixpoint.of.later]
    return on_device(task.context.device, plans, given.tries, run)


def _piece_by_piece(
    splits: PartitionedStratum, seeds: Seeds, counts: bool, budget: float | None
) -> RangeResult | None:
    began, gpu = perf_counter(), splits.context.device is not CPU
    values = values_of(seeds)
    parts: list[RangeResult] = []
    # A GPU runs many values at once, so all of them are one piece.
    at, size = 0, len(values) if gpu else -(-len(values) // PIECES)
    while at < len(values) and (budget is None or not parts or perf_counter() - began < budget):
        end = min(len(values), at + size)
        low, last = int(values[at]), int(values[end - 1])
        started = perf_counter()
        part = _piece(
            splits, {name: mine.between(low, last + 1) for name, mine in seeds.items()}, counts
        )
        if part is None:
            return None
        parts.append(part)
        at = end
        if perf_counter() - started < SHORT:
            size *= GROWING
    rows, numbers = {}, {}
    for name in splits.stratum.relations:
        if counts:
            numbers[name] = np.concatenate([part.counts[name] for part in parts])
        else:
            arity = splits.inputs.schemas[name].arity
            rows[name] = _joined((part.rows[name] for part in parts), arity)
    return RangeResult(at, rows, numbers, gpu)


def _piece(splits: PartitionedStratum, seeds: Seeds, counts: bool) -> RangeResult | None:
    """The fixpoint of some values; None if it cannot run partitioned."""
    names = splits.stratum.relations
    groups = dict.fromkeys(names) | {
        name: part.on(splits.ops.xp) for name, part in seeds.items() if len(part.values)
    }
    task = splits.task(groups, counts)
    found = None if task is None else splits.follow(task)
    if task is None or found is None:
        return None
    if counts:
        numbers = {name: brought(task.beside[f"counts_{at}"]) for at, name in enumerate(names)}
        return RangeResult(len(task.values), {}, numbers)
    rows = {
        name: _joined(map(rows_here, found[name].blocks), splits.inputs.schemas[name].arity)
        for name in names
    }
    return RangeResult(len(task.values), rows, {})


def _joined(blocks: Iterable[Columns], arity: int) -> Columns:
    """The rows of all blocks, with 32-bit columns where they fit."""
    blocks = [block for block in blocks if len(block[0])]
    if not blocks:
        return tuple(np.empty(0, dtype=np.int32) for _ in range(arity))
    return tuple(joined_column([block[at] for block in blocks]) for at in range(arity))


def _no_relation(name: str) -> Relation:
    raise AssertionError(f"{name} is read by no index")


PARTS = 8  # ranges for each thread of a worker
GPU_PARTS = 2  # ranges for each GPU, which runs very many values at once
GPU_KNOWN = 1  # the same if it is known which values derive many rows


class KeyRangeFixpoint:
    """A partitioned fixpoint, and the workers that run it. `keeper`: for rows that stay there.
    `counts`: whether only numbers of rows are wanted."""

    def __init__(
        self,
        pool: Pool,
        keeper: Keeper,
        fixpoint: Partitioned,
        inputs: StratumInputs,
        counts: bool,
    ) -> None:
        self.pool = pool
        self.keeper = keeper
        self.fixpoint = fixpoint
        self.splits = fixpoint.begun(inputs)
        self.counts = counts
        self.calls = self.gpu_calls = 0

    def relations(self) -> dict[str, Relation] | None:
        """The fixpoint's relations; None if only rounds can compute them."""
        began = perf_counter()
        found = self._run()
        if found is None:
            return None
        relations = self._collected(found)
        for name, relation in relations.items():
            self.splits.context.limits.charge(name, relation.nbytes)
        rows_of = {name: relation.length for name, relation in relations.items()}
        self._record(rows_of, perf_counter() - began)
        return relations

    def _collected(self, found: Sequence[RangeResult]) -> dict[str, Relation]:
        """The rows of all parts; many rows stay where they are."""
        limits, names = self.splits.context.limits, self.splits.stratum.relations
        left = [part for part in found if part.kept is not None]
        stays = stays_remote(sum(part.left for part in left), self.splits.context)
        stage = self.pool.stage(f"{self.splits.name}: rows", limits)
        for part in left:
            for name in names:
                args = (part.kept, name, part.done, part.given)
                told = size_of if stays else None
                stage.add(Call(rows_of, args, keep=stays, tag=name, summary=told))
        apart: dict[str, list[Any]] = {name: [] for name in names}
        for call, rows in stage:
            apart[call.tag].append(rows)
        relations: dict[str, Relation] = {}
        for name in names:
            schema = self.splits.inputs.schemas[name]
            shape = schema.columns, schema.types
            near = [part.rows[name] for part in found if part.kept is None]
            blocks = [block for block in (*near, *([] if stays else apart[name])) if len(block[0])]
            if stays:
                parts = [*parts_of(apart[name]), *map(remote.RemotePart.of, blocks)]
                relations[name] = Relation.of_parts(*shape, parts, self.keeper, True)
            else:
                count = sum(len(block[0]) for block in blocks)
                relations[name] = Relation.of_blocks(*shape, blocks, count, True)
        return relations

    def numbers(self) -> dict[str, tuple[Array, Array]] | None:
        """For each relation, the number of rows of each value."""
        began = perf_counter()
        found = self._run()
        if found is None:
            return None
        numbers: dict[str, tuple[Array, Array]] = {}
        values = self._values
        for name in self.splits.stratum.relations:
            counts = np.zeros(len(values), dtype=np.int64)
            for part in found:
                counts[part.low : part.low + part.done] = part.counts[name]
            numbers[name] = values[counts > 0], counts[counts > 0]
        rows = {name: int(counts.sum()) for name, (_, counts) in numbers.items()}
        self._record(rows, perf_counter() - began)
        return numbers

    def _run(self) -> list[RangeResult] | None:
        """Runs all values; returns the results of their ranges. None without initial values, or if
        a rule must run in one process, or in rounds."""
        splits, context = self.splits, self.splits.context
        limits = context.limits
        groups = splits.groups.items()
        self._seeds = {name: group.on(np) for name, group in groups if group is not None}
        if not self._seeds or any(map(asks_for_ranks, splits.prepared.later)):
            return None
        self._values = values_of(self._seeds)
        refs = {ref for plan in splits.prepared.later for join in plan.joins for ref in join.tries}
        tries = {ref: splits.trie_of(ref, CPU) for ref in refs}
        placed: Any = {ref: self.pool.broadcast(id(trie), trie) for ref, trie in tries.items()}
        table: Any = texts_for(self.pool, splits.prepared.later, context.scope)
        own = {name: splits.inputs.schemas[name] for name in splits.stratum.relations}
        memory, device = memory_of(self.pool, context), self._device()
        there = CallContext.of(context, memory, device=device)
        task = KeyRangeTask(self.fixpoint, own, self.counts, there)

        def call(low: int, high: int) -> Call:
            given = KeyRangeInputs(task, self._of(low, high), placed, table)
            tag = low, high, given
            return Call(followed, (given,), not self.counts, tag=tag, summary=light)

        def smaller(error: TooLarge) -> list[Call]:
            low, high, _ = error.call.tag
            parts = pairwise(self._cuts(low, high, 2))
            return [call(*part) for part in parts] if high - low > 1 else []

        stage = self.pool.stage(splits.name, limits, smaller)
        stage.reports = False
        found: list[RangeResult] = []
        held = done = 0
        with limits.watch.work("joining", splits.name, len(self._values), "values") as work:
            for low, high in pairwise(self._cuts(0, len(self._values), self._wanted)):
                stage.add(call(low, high))
            for ended, result in self._ended(stage):
                told: RangeResult | None = result if self.counts else result.summary
                if told is None:
                    return None
                low, high, given = ended.tag
                kept = result if told.left else None
                found.append(replace(told, low=low, kept=kept, given=given))
                self.calls += 1
                self.gpu_calls += told.gpu
                held += told.nbytes
                limits.charge("blocks", held)
                for start, end in pairwise(self._cuts(low + told.done, high, 2)):
                    stage.add(call(start, end))
                done += told.done
                work.at(done)
        limits.charge("blocks", 0)
        return found

    def _device(self) -> str:
        splits = self.splits
        plans, thresholds = splits.prepared.later, splits.context.thresholds
        return device_for(self.pool, plans, splits.read_rows, thresholds)

    def _ended(self, stage: TaskStage) -> Iterator[tuple[Call, Any]]:
        """The results of calls. If not even one value's rows fit into memory, the error names the
        rules."""
        try:
            with closing(iter(stage)) as ended:
                yield from ended
        except MemoryLimitError as error:
            raise self.splits.growth(error) from None

    @property
    def _wanted(self) -> int:
        """The number of ranges at first."""
        if not self.pool.connection.gpus:
            return PARTS * self.pool.slots
        return (GPU_PARTS if self._far is None else GPU_KNOWN) * self.pool.slots

    @cached_property
    def _far(self) -> Array | None:
        """An estimate of each value's work, if all steps go to smaller values or all to greater
        ones: the number of such values."""
        joins = [join for plan in self.splits.prepared.later for join in plan.joins]
        ranks = np.arange(1, len(self._values) + 1, dtype=np.int64)
        if all(map(falls, joins)):
            return ranks
        return ranks[::-1] if all(map(rises, joins)) else None

    def _of(self, low: int, high: int) -> Seeds:
        """The initial rows of a range of values, by number."""
        values = self._values
        end = int(values[high]) if high < len(values) else int(values[-1]) + 1
        return {name: rows.between(int(values[low]), end) for name, rows in self._seeds.items()}

    def _cuts(self, low: int, high: int, wanted: int) -> list[int]:
        """Divides a range of values into parts with about equally many rows."""
        if low >= high:
            return []
        costs = np.ones(high - low, dtype=np.int64)
        for seeds in self._seeds.values():
            own = np.searchsorted(self._values, seeds.values) - low
            inside = (own >= 0) & (own < high - low)
            costs[own[inside]] += np.diff(seeds.starts)[inside]
        if self._far is not None:
            costs = self._far[low:high]
        ends = np.cumsum(costs)
        wanted = min(wanted, high - low)
        asked = np.linspace(0, int(ends[-1]), wanted, endpoint=False)[1:]
        inner = np.unique(np.searchsorted(ends, asked, side="left") + 1)
        return [low, *(low + inner[inner < high - low]).tolist(), high]

    def _record(self, rows: Mapping[str, int], seconds: float) -> None:
        """Records the fixpoint in the profile."""
        splits, workers = self.splits, self.pool.slots
        told = f"{splits.description}, on {workers} worker{'s' * (workers > 1)}"
        if self.gpu_calls:
            told += " with GPUs"
            if self.gpu_calls < self.calls:
                told += f" for {self.gpu_calls} of {self.calls} calls"
        way = Way(told, len(self._values), "values", workers, seconds=seconds)
        splits.tell_way(way, splits.prepared.later, rows, told)


def memory_of(pool: Pool, context: ExecutionContext, threads: int = 1) -> int:
    """What a call may hold that uses so many of a worker's threads."""
    return min(pool.connection.budget * threads, context.memory)


def device_for(pool: Pool, plans: Sequence[RulePlan], rows: int, thresholds: Thresholds) -> str:
    """The device for a fixpoint's values, whose rules read this many rows: the CPU if they read
    texts."""
    if any(map(reads_texts, plans)):
        return "cpu"
    return pool.connection.device_for(OFTEN * rows, thresholds)
