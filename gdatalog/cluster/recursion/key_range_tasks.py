"""What a worker runs of a partitioned fixpoint: the values of a key range, piece by piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

import numpy as np

from gdatalog.calls import Limits, NotOnDevice
from gdatalog.cluster.workers.devices import on_device, rows_here
from gdatalog.cpu_ops.functions import Scope
from gdatalog.engine.context import ExecutionContext, StratumInputs
from gdatalog.engine.derived import DistinctBlocks
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.fixpoint.partitioned import PartitionedStratum
from gdatalog.engine.fixpoint.spans import RowsByColumn
from gdatalog.engine.fixpoint.stratum import NO_PARTS, Parts
from gdatalog.engine.session.knobs import Knobs
from gdatalog.plan.nodes import RulePlan, TrieRef
from gdatalog.plan.tuning import Tuning
from gdatalog.planner.check.checked import Schema, Stratum
from gdatalog.records import dataclass, replace
from gdatalog.storage.on_device import brought
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import joined_column
from gdatalog.storage.rows import Columns, sorted_set
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie
from gdatalog.values import Value

BUDGET = 1.0  # seconds, after which a call gives what it has
SMALL = 1 << 16  # bytes of rows that come along with what is told of a call
PIECES, GROWING, SHORT = 16, 4, 0.1  # a range is run piece by piece, longer ones if it is short


Seeds = Mapping[str, RowsByColumn]  # the rows to begin with, of each relation that has some


def values_of(seeds: Seeds) -> Array:
    """The values that any relation begins with, in order."""
    found = [part.values for part in seeds.values() if len(part.values)]
    return found[0] if len(found) == 1 else sorted_set(np.concatenate(found))


@dataclass(frozen=True, slots=True)
class KeyRangeTask:
    """What all ranges of a fixpoint have in common. `plans`: those of its recursive rules."""

    stratum: Stratum
    schemas: Mapping[str, Schema]
    plans: tuple[RulePlan, ...]
    params: Mapping[str, Value]
    memory: int
    knobs: Knobs
    counts: bool  # whether only the numbers of rows are asked for
    tuning: Tuning = Tuning()
    device: str = "cpu"  # of workers: "cpu", "auto" or "cuda"


@dataclass(slots=True)
class RangeResult:
    """What came of the first `done` values of a range: rows, or how many of each value. `left`: the
    bytes of rows that stay where they were made, for they are many."""

    done: int
    rows: dict[str, Columns]
    counts: dict[str, Array]
    seconds: float = 0.0
    gpu: bool = False
    left: int = 0

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for rows in self.rows.values() for column in rows)


class _Here(PartitionedStratum):
    """The same fixpoint on a worker, which is given plans and tries."""

    def __init__(
        self,
        task: KeyRangeTask,
        tries: Mapping[TrieRef, Trie],
        symbols: SymbolTable,
        device: Device = CPU,
    ) -> None:
        limits, scope = Limits(memory=task.memory), Scope(symbols, task.params)
        context = ExecutionContext(
            limits, scope, knobs=task.knobs, device=device, tuning=task.tuning
        )
        super().__init__(task.stratum, StratumInputs(context, task.schemas, {}, _no_relation))
        self.later = list(task.plans)
        self.tries = tries

    @property
    def read_rows(self) -> int:
        """How many rows the rules bring."""
        return sum({id(trie): trie.total for trie in self.tries.values()}.values())

    def trie_of(self, ref: TrieRef, device: Device | None = None, parts: Parts = NO_PARTS) -> Trie:
        return self.tries[ref]

    def piece(self, seeds: Seeds, counts: bool) -> RangeResult | None:
        """What comes of all of some values."""
        groups = dict.fromkeys(self.stratum.relations) | {
            name: part.on(self.ops.xp) for name, part in seeds.items() if len(part.values)
        }
        task = self.task(groups, counts=counts)
        found = None if task is None else self._follow(task)
        if task is None or found is None:
            return None
        names = self.stratum.relations
        if counts:
            numbers = {name: brought(task.beside[f"counts_{at}"]) for at, name in enumerate(names)}
            return RangeResult(len(task.values), {}, numbers)
        arities = {name: self.inputs.schemas[name].arity for name in names}
        rows = {name: _joined([_brought(found[name])], arities[name]) for name in names}
        return RangeResult(len(task.values), rows, {})


def followed(
    task: KeyRangeTask,
    seeds: Seeds,
    tries: Mapping[TrieRef, Trie],
    symbols: SymbolTable,
) -> RangeResult | None:
    """What comes of a range's values, as many as there is time for; None if it cannot be told."""
    return _followed(task, seeds, tries, symbols, BUDGET)


def light(found: RangeResult | None) -> RangeResult | None:
    """The same to be sent, without rows if they are many."""
    if found is None or found.nbytes <= SMALL:
        return found
    return replace(found, rows={}, left=found.nbytes)


def rows_of(
    found: RangeResult,
    name: str,
    done: int,
    task: KeyRangeTask,
    seeds: Seeds,
    tries: Mapping[TrieRef, Trie],
    symbols: SymbolTable,
) -> Columns:
    """The rows of a relation that came of the first `done` values. What was found may have been
    lost and made again, and then it was others that there was time for."""
    if found.done != done:
        values = values_of(seeds)
        low, end = int(values[0]), int(values[done - 1]) + 1
        exact = {name: part.between(low, end) for name, part in seeds.items()}
        again = _followed(task, exact, tries, symbols, None)
        assert again is not None
        found = again
    return found.rows[name]


def _followed(
    task: KeyRangeTask,
    seeds: Seeds,
    tries: Mapping[TrieRef, Trie],
    symbols: SymbolTable,
    budget: float | None,
) -> RangeResult | None:
    def run(device: Device, tries: Mapping[TrieRef, Trie]) -> RangeResult | None:
        here = _Here(task, tries, symbols, device)
        found = _piece_by_piece(here, task, seeds, budget)
        if found is None and device is not CPU:
            raise NotOnDevice("a few values that lead far, or loops that cannot be printed")
        return found

    return on_device(task.device, task.plans, tries, run)


def _piece_by_piece(
    here: _Here, task: KeyRangeTask, seeds: Seeds, budget: float | None
) -> RangeResult | None:
    began, gpu = perf_counter(), here.context.device is not CPU
    values = values_of(seeds)
    parts: list[RangeResult] = []
    # A GPU is busy with many values at once: it has all of them as one piece.
    at, size = 0, len(values) if gpu else -(-len(values) // PIECES)
    while at < len(values) and (budget is None or not parts or perf_counter() - began < budget):
        end = min(len(values), at + size)
        low, last = int(values[at]), int(values[end - 1])
        started = perf_counter()
        some = {name: mine.between(low, last + 1) for name, mine in seeds.items()}
        part = here.piece(some, task.counts)
        if part is None:
            return None
        parts.append(part)
        at = end
        if perf_counter() - started < SHORT:
            size *= GROWING
    rows, counts = {}, {}
    for name in task.stratum.relations:
        if task.counts:
            counts[name] = np.concatenate([part.counts[name] for part in parts])
        else:
            blocks = [part.rows[name] for part in parts]
            found = DistinctBlocks(blocks, sum(len(block[0]) for block in blocks))
            rows[name] = _joined([found], task.schemas[name].arity)
    return RangeResult(at, rows, counts, perf_counter() - began, gpu)


def _brought(found: DistinctBlocks) -> DistinctBlocks:
    """Rows of whichever device on the host."""
    return DistinctBlocks(list(map(rows_here, found.blocks)), found.count)


def _joined(parts: Sequence[DistinctBlocks], arity: int) -> Columns:
    """The rows of all blocks as columns, in 32 bits where they fit."""
    blocks = [block for part in parts for block in part.blocks if len(block[0])]
    if not blocks:
        return tuple(np.empty(0, dtype=np.int32) for _ in range(arity))
    return tuple(joined_column([block[at] for block in blocks]) for at in range(arity))


def _no_relation(name: str) -> Relation:
    raise AssertionError(f"{name} is read by no index")
