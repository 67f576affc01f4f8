"""A range of a partitioned fixpoint's values on a worker: piece by piece, for a second."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import perf_counter

import numpy as np

from gdatalog.cluster.pool.calls import RemoteValue
from gdatalog.cluster.workers.own_device import on_device, rows_here
from gdatalog.cluster.workers.own_process import CallContext
from gdatalog.engine.context import StratumInputs
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.fixpoint.start_groups import RowsByColumn
from gdatalog.engine.operators.partitioned import Partitioned
from gdatalog.engine.operators.partitioned_run import PartitionedStratum
from gdatalog.plan.join_plan import TrieRef
from gdatalog.planner.check import Schema
from gdatalog.records import dataclass, replace
from gdatalog.storage.on_device import brought
from gdatalog.storage.relation import Relation
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
