"""The outputs of an execution: a row set, aggregates, or marks on outer rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.errors import EvaluationError
from gdatalog.executors.frontier import DeeperLoops, FailedRows, Frontier, Roots
from gdatalog.executors.gather import Gathering
from gdatalog.executors.ops import Ops
from gdatalog.limits import Limits
from gdatalog.plan.join_plan import Expr, Participant, Slot, Step
from gdatalog.records import dataclass, field
from gdatalog.settings import Thresholds
from gdatalog.storage.row_ops import SeenRows
from gdatalog.storage.spill import Blocks, held_bytes
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

if TYPE_CHECKING:
    from gdatalog.cpu_ops.expressions import Scope
    from gdatalog.storage.sorting import SortedRuns

Columns = tuple[Array, ...]

PACKED = 8  # bytes of a packed row, which a sort holds beside the rows


class Sink(ABC):
    """Where the executor emits rows. Attributes tell it what a sink needs, and when it is done."""

    done = False  # whether no more rows are wanted
    # whether `emit_counts` may be called instead of `emit`, with the number of rows to emit for
    # each row of a frontier; and the variables that it still needs
    only_counts = False
    needs: frozenset[str] = frozenset()
    # whether `emit_total` may be called, too: the sum of these numbers is enough
    only_total = False
    # whether several sinks may take parts of the rows and be merged: `apart` returns a new sink of
    # this kind, and `take` merges another one, which is not used again
    divisible = False

    @abstractmethod
    def emit(self, frontier: Frontier) -> None:
        """Takes the rows of a frontier."""

    def emit_counts(self, frontier: Frontier, counts: Array) -> None:
        raise AssertionError(f"a {type(self).__name__} does not count")

    def emit_total(self, total: int) -> None:
        raise AssertionError(f"a {type(self).__name__} does not count")

    def apart(self, limits: Limits) -> Sink:
        raise AssertionError(f"a {type(self).__name__} takes all rows")

    def take(self, other: Any) -> None:
        raise AssertionError(f"a {type(self).__name__} takes all rows")

    def expect(self, rows: int) -> None:  # noqa: B027, other sinks need not know
        """Says about how many rows will come."""

    def wanted(self, frontier: Frontier) -> Array | None:
        """Which rows may still change the result; None: all."""
        return None


@dataclass(slots=True)
class StepCounts:
    """The metrics of a step: input rows, candidates tried, and output rows."""

    rows_in: int = 0
    tried: int = 0
    rows_out: int = 0
    seconds: float = 0.0

    def add(self, other: StepCounts) -> None:
        """Adds the metrics of the same step elsewhere."""
        self.rows_in += other.rows_in
        self.tried += other.tried
        self.rows_out += other.rows_out
        self.seconds += other.seconds


@dataclass(slots=True)
class LevelWalk(ABC):
    """The part of `Levelwise` that expansions and aggregates use."""

    tries: Sequence[Trie]
    ops: Ops
    scope: Scope
    limits: Limits
    seen: dict[int, StepCounts] | None = None  # by id of the step, when a profile is asked for
    lasting: dict[int, SeenRows] | None = None  # state shared by all rounds of a fixpoint
    thresholds: Thresholds = Thresholds()
    marks: FailedRows | None = None  # where the current branch records failures
    roots: dict[int, Roots] = field(default_factory=dict)  # by id of the step
    deeper: DeeperLoops | None = None

    @abstractmethod
    def run(self, steps: Sequence[Step], at: int, frontier: Frontier, sink: Sink) -> None:
        """Runs the steps from `at` on over the rows of a frontier, into the sink."""

    @abstractmethod
    def fail(
        self, step: Step, rest: Sequence[Step], frontier: Frontier, error: EvaluationError
    ) -> None:
        """Handles rows for which a step failed: raises the error if the rest of the body holds."""

    def pieces(
        self, lengths: Array, total: int | None = None
    ) -> Iterator[tuple[int, int, int, int, int]]:
        """As `ops.pieces`, and reports each piece's share of the rows as progress."""
        limits, rows = self.limits, len(lengths)
        work = limits.watch.innermost
        for piece in self.ops.pieces(lengths, limits.chunk, total):
            low, high, skip, take, size = piece
            limits.look(size)
            part, parts = (low, high), rows
            if take >= 0 and rows == 1 and total:
                part, parts = (skip, skip + take), total
            if part == (0, parts):
                yield piece
            else:
                with work.within(part[0] / parts, part[1] / parts):
                    yield piece

    def probe(
        self, frontier: Frontier, keys: Array, participants: Sequence[Participant]
    ) -> Frontier:
        """Keeps the rows whose key every participant has below its node."""
        ops = self.ops
        known: dict[int, Array] = {}  # positions of the keys in roots, by id of the level
        for part in participants:
            trie = self.tries[part.trie]
            level = trie.levels[part.depth]
            if id(level) in known:
                found = known[id(level)]
            else:
                if part.depth == 0:
                    found = ops.find(level, keys)
                else:
                    found = ops.find_in(level, frontier.column(part.trie), keys)
                rows = ops.survivors(found >= 0)
                if len(rows) < frontier.size:
                    frontier, found, keys = frontier.take(rows), found[rows], keys[rows]
                    known = {name: places[rows] for name, places in known.items()}
                if part.depth == 0:
                    known[id(level)] = found
            frontier = frontier.adding({part.trie: found})
            if trie.weights is not None and part.depth + 1 == len(trie.levels):
                frontier = frontier.weighing(ops, trie.weights[found])
        return frontier


@dataclass(eq=False)
class RowSet(Sink):
    """The distinct rows of some expressions; at most `limit` of them if given."""

    outputs: Sequence[Expr]
    ops: Ops
    scope: Scope
    limits: Limits
    limit: int | None
    thresholds: Thresholds = Thresholds()
    done: bool = False
    count: int = 0  # settled rows; for arity 0, all rows
    given: int = 0  # rows added, including duplicates
    _settled: Columns | None = None
    _blocks: list[Columns] = field(default_factory=list)
    _pending: int = 0
    _pending_bytes: int = 0
    _charged: int = 0  # bytes
    _runs: SortedRuns | None = None  # settled rows that lie in files
    _marked: SeenRows | None = None  # marks instead, if few rows are possible
    _types: list[np.dtype[np.generic]] = field(default_factory=list)  # types of the marked columns

    @property
    def divisible(self) -> bool:  # type: ignore[override]  # it does not change
        return self.limit is None

    @property
    def nbytes(self) -> int:
        settled = () if self._settled is None else self._settled
        marks = 0 if self._marked is None else int(self._marked.nbytes)
        return marks + self._pending_bytes + sum(map(held_bytes, settled))

    def emit(self, frontier: Frontier) -> None:
        if not self.outputs:
            self.given += frontier.size
            self.count = 1
            self.done = self.limit is not None
            return
        self.add(frontier.values(self.outputs, self.ops, self.scope))

    def add(self, block: Columns) -> None:
        self.given += len(block[0])
        if self._marked is not None:
            if self._marked.fits(block):
                self._marked.add(block)
                self._charge()
                pairs = zip(self._types, block, strict=True)
                self._types = [self.ops.xp.promote_types(t, c.dtype) for t, c in pairs]
                return
            self._hold(self._unmark())
        self._blocks.append(block)
        self._pending += len(block[0])
        self._pending_bytes += sum(map(held_bytes, block))
        if self.limit is None and self._spill():
            return
        self._charge()
        # Settle earlier if memory to sort the rows becomes short.
        crowded = 2 * PACKED * (self._pending + self.count) > self.limits.spare()
        most = max(self.limits.chunk, self.count // 8 if crowded else self.count)
        if self._pending > most or self.limit is not None:
            self._settle()

    def give_back(self) -> None:
        """Returns the memory charge, because the caller holds the rows now."""
        self.limits.account.add("answers", -self._charged)
        self._charged = 0

    def _hold(self, rows: Columns) -> None:
        """Makes these the settled rows."""
        self._settled, self.count = rows, len(rows[0])
        self._charge()

    def _charge(self) -> None:
        held = self.nbytes
        change, self._charged = held - self._charged, held
        self.limits.account.add("answers", change)

    def _settle(self) -> None:
        if not self._blocks:
            return
        blocks = self._blocks if self._settled is None else [self._settled, *self._blocks]
        self._settled, self._blocks = None, []
        self._pending = self._pending_bytes = 0
        total = sum(len(block[0]) for block in blocks)
        if self.limit is None and total >= self.thresholds.marked_from and self._mark(blocks):
            return
        self._hold(self.ops.merge_rows(blocks))
        if self.limit is not None and self.count >= self.limit:
            self.done = True

    def _spill(self) -> bool:
        """Writes all rows to files if half of the memory limit is in use or memory has no room to
        sort them; the end of the run merges the files with later rows."""
        if self.ops.xp is not np:
            return False
        account, held = self.limits.account, self.nbytes
        spill = account.spill_half(held) or account.spill_for(2 * held - self._charged)
        if spill is None:
            return False
        from gdatalog.storage.sorting import SortedRuns

        blocks, self._blocks = self._blocks, []
        self._pending = self._pending_bytes = 0
        dtypes = [column.dtype for column in blocks[0]]
        runs = self._runs = self._runs or SortedRuns(spill, dtypes)
        if self._settled is not None:
            runs.add(self._settled)
        runs.add(self.ops.merge_rows(blocks))
        self._settled, self.count = None, 0
        self._charge()
        return True

    def _mark(self, blocks: list[Columns]) -> bool:
        """Marks the rows of blocks if few rows are possible: most later rows will be duplicates,
        and a mark is cheaper than a sort."""
        marked = self.ops.seen_rows(min(self.thresholds.marked_bytes, self.limits.spare() // 4))
        if not all(marked.fits(block) for block in blocks):
            return False
        self._types = [
            self.ops.xp.result_type(*(column.dtype for column in parts))
            for parts in zip(*blocks, strict=True)
        ]
        while blocks:
            marked.add(blocks.pop(0))
        self._marked = marked
        self._charge()
        return True

    def apart(self, limits: Limits, ops: Ops | None = None) -> RowSet:
        return RowSet(self.outputs, ops or self.ops, self.scope, limits, None, self.thresholds)

    def fresh(self) -> RowSet:
        """An empty set of the same kind, for rows that may have to be dropped."""
        return RowSet(*self.like)

    @property
    def like(self) -> tuple[Sequence[Expr], Ops, Scope, Limits, int | None, Thresholds]:
        """The arguments that make an empty set of the same kind."""
        return self.outputs, self.ops, self.scope, self.limits, self.limit, self.thresholds

    def take(self, other: RowSet) -> None:
        """Takes the rows of another set, which is not used again."""
        given = self.given + other.given
        rows, count = other.finish()
        other.give_back()
        if not self.outputs:
            self.count = max(self.count, count)
            self.done = self.limit is not None and self.count > 0
        elif count:
            self.add(rows)
        self.given = given

    def add_blocks(self, blocks: list[Columns]) -> None:
        """Adds rows that were made elsewhere; it takes over their arrays."""
        while blocks:
            block = blocks.pop()
            if self.outputs:
                self.limits.account.add("blocks", -sum(map(held_bytes, block)))
                self.add(block)
            else:
                self.given += 1
                self.count = 1
                self.done = self.limit is not None

    def pieces(self) -> Iterator[Columns]:
        """The rows, a part at a time."""
        yield self.finish()[0]

    def settle(self) -> bool:
        """Deduplicates; returns whether all wanted rows are there."""
        if self.outputs:
            self._settle()
        return self.done

    def _unmark(self) -> Columns:
        """Returns the rows of the bitmap, sorted, and clears it."""
        assert self._marked is not None
        width = sum(self.ops.xp.dtype(kind).itemsize for kind in self._types)
        with self.limits.account.working("answers", width * self._marked.count()):
            rows: Columns = self._marked.rows(self._types)
        self._marked = None
        return rows

    def finish(self) -> tuple[Columns, int]:
        """The rows, sorted, and their number."""
        if not self.outputs:
            return (), self.count
        self._settle()
        if self._marked is not None:
            self._hold(self._unmark())
        if self._runs is not None:
            runs, self._runs = self._runs, None
            if self._settled is not None:
                runs.add(self._settled)
            self._hold(runs.merged(self.limits.account))
        if self._settled is None:
            return tuple(self.ops.xp.empty(0, dtype="int32") for _ in self.outputs), 0
        return self._settled, self.count


@dataclass(eq=False)
class DistinctSink(Sink):
    """The distinct rows of some expressions, in order of arrival."""

    outputs: Sequence[Expr]
    ops: Ops
    scope: Scope
    limits: Limits
    count: int = 0
    _bytes: int = 0  # bytes charged

    def __post_init__(self) -> None:
        self.divisible = True
        self._rows = Blocks(self.limits.account)

    def emit(self, frontier: Frontier) -> None:
        self._keep(frontier.values(self.outputs, self.ops, self.scope))

    def _keep(self, block: Columns) -> None:
        self._rows.add(block)
        self.count += len(block[0])
        change, self._bytes = self._rows.held - self._bytes, self._rows.held
        self.limits.account.add("answers", change)

    def blocks(self) -> list[Columns]:
        """The rows; call it once."""
        return self._rows.take()

    def apart(self, limits: Limits) -> DistinctSink:
        return DistinctSink(self.outputs, self.ops, self.scope, limits)

    def take(self, other: DistinctSink) -> None:
        other.limits.account.add("answers", -other._bytes)
        for block in other.blocks():
            self._keep(block)


class Bag(Sink):
    """Aggregates over all bindings with their weights."""

    def __init__(self, keys: Sequence[Slot], gathering: Gathering) -> None:
        self.keys = keys
        self.gathering = gathering
        self.only_counts = all(spec.kind == "count" for spec in gathering.specs)
        self.needs = frozenset(key.name for key in keys)
        self.only_total = self.only_counts and not keys
        self.total: int | None = None  # if it is to be collected here, apart from the gathering

    divisible = True

    def _targets(self, frontier: Frontier) -> dict[str, Array]:
        """The columns that the aggregates read."""
        columns: dict[str, Array] = {}
        for spec in () if self.only_counts else self.gathering.specs:
            for target in spec.targets:
                columns |= frontier.read_by(target)
        return columns

    def apart(self, limits: Limits, ops: Ops | None = None) -> Bag:
        gathering = self.gathering
        own = Gathering(gathering.specs, ops or gathering.ops, gathering.scope, limits)
        own.expected = gathering.expected
        return Bag(self.keys, own)

    def expect(self, rows: int) -> None:
        self.gathering.expected = rows

    def take(self, other: Bag) -> None:
        other.gathering.give_back()
        self.gathering.join(other.gathering)

    def emit(self, frontier: Frontier) -> None:
        columns = tuple(frontier.column(key.name) for key in self.keys)
        self.gathering.add(columns, frontier.size, self._targets(frontier), frontier.weight)

    def emit_counts(self, frontier: Frontier, counts: Array) -> None:
        ops = self.gathering.ops
        product = frontier.weighed(ops, counts)
        some = ops.survivors(product)
        columns = tuple(frontier.column(key.name)[some] for key in self.keys)
        self.gathering.add(columns, len(some), {}, product[some])  # counts read no targets

    def emit_total(self, total: int) -> None:
        if self.total is None:
            self.gathering.add_total(total)
        else:
            self.total += total


class Hits(Sink):
    """Which outer rows have a match: `exists` and `not exists`."""

    def __init__(self, base: str, size: int, ops: Ops, prune: bool) -> None:
        self.base = base
        self.ops = ops
        self.hits = ops.xp.zeros(size, dtype=bool)
        self.prune = prune
        self.done = False

    def emit(self, frontier: Frontier) -> None:
        self.hits[frontier.column(self.base)] = True
        self.done = self.prune and len(self.hits) == 1

    def wanted(self, frontier: Frontier) -> Array | None:
        # The first witness is enough.
        if not self.prune:
            return None
        still: Array = ~self.hits[frontier.column(self.base)]
        return still


class Totals(Sink):
    """The number of matches of each outer row, by weight."""

    only_counts = True

    def __init__(self, base: str, size: int, ops: Ops) -> None:
        self.base = base
        self.ops = ops
        self.totals = ops.xp.zeros(size, dtype="int64")

    def emit(self, frontier: Frontier) -> None:
        self._add(frontier, frontier.weight)

    def emit_counts(self, frontier: Frontier, counts: Array) -> None:
        self._add(frontier, frontier.weighed(self.ops, counts))

    def _add(self, frontier: Frontier, amounts: Array | None) -> None:
        self.totals = self.ops.add_counts(self.totals, frontier.column(self.base), amounts)


@dataclass(eq=False)
class Failing(Sink):
    """Rows with a failed computation, which run through the rest of the body.

    Rows that pass raise an error; inside a branch they mark the outer row, whose remaining body may
    still exclude it.
    """

    error: EvaluationError
    marks: FailedRows | None

    def emit(self, frontier: Frontier) -> None:
        if self.marks is None:
            raise self.error
        self.marks.note(frontier.column(self.marks.base), self.error)
