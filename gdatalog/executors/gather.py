"""Aggregates chunk by chunk: a partial result per group, merged from time to time.

Sums of ints are kept in two halves that cannot overflow, so that an overflow of the total is found
exactly, at the end. The least and greatest symbol are found by rank. Ranks may change while new
strings are created, so each merge reads them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gdatalog.decimals import DIGITS, LIMIT, decimal_to_text, scale_of
from gdatalog.errors import EvaluationError
from gdatalog.executors.distinct_rows import DistinctRows
from gdatalog.executors.failures import values_of
from gdatalog.executors.ops import Ops
from gdatalog.limits import Limits
from gdatalog.plan.join_plan import Expr, Gather, Reduction, Slot
from gdatalog.records import cached_property, dataclass, field, replace
from gdatalog.storage.spill import Spill, held_bytes
from gdatalog.storage.spilled_groups import SpilledGroups, lengths_of_groups
from gdatalog.storage.table import Array
from gdatalog.storage.threads import LONG, spread
from gdatalog.values import TypeName

if TYPE_CHECKING:
    from gdatalog.cpu_ops.expressions import Scope
    from gdatalog.executors.frontier import FailedRows
    from gdatalog.executors.group_table import GroupTable, Total

Columns = tuple[Array, ...]
Spec = Gather | Reduction
# Arguments: a mask of groups with an error, and a function that makes the error of one of them from
# its row and its description. Raises or records the error.
Check = Callable[[Array, Callable[[int, str], EvaluationError]], None]

FINDING = 48  # bytes per row while its group is looked up
MANY = 1 << 14  # rows of a chunk: fewer do not say whether most are groups of their own
DEEPEST = 3  # maximum level of partitions: deeper ones would not become smaller
ORDER = 24  # bytes for each group while groups are merged, beside what finding them takes
FOLDED = 1 << 19  # rows, from which compiled code aggregates them if their keys are dense


@dataclass(eq=False)
class Gathering:
    """Groups of rows by `keys`, and the aggregates of each."""

    specs: Sequence[Spec]
    ops: Ops
    scope: Scope
    limits: Limits
    # Groups may spill to files in partitions, divided this many times; None: they may not.
    level: int | None = None
    spilled: SpilledGroups | None = None
    width: int = 0
    _blocks: list[Columns] = field(default_factory=list)  # keys, then each spec's partial columns
    table: GroupTable | None = None  # more groups
    expected: int = 0  # about how many rows will be added, if that is known
    pending: int = 0
    settled: int = 0
    given: int = 0  # rows or partial groups added
    repeated: bool = False  # whether a block may hold a group twice
    # Whether most rows seem to be groups of their own: then only merging groups them.
    loose: bool = False
    _charged: int = 0  # bytes

    def __post_init__(self) -> None:
        # The distinct targets of each group, for count_distinct.
        self.sets = [DistinctRows(self.ops) for _ in self.specs]

    @property
    def blocks(self) -> list[Columns]:
        """All groups: their keys, then each spec's partial columns."""
        if self.table is not None:
            keys, parts = self.table.partials()
            self.table = None
            self._blocks.append((*keys, *parts))
            self.pending += len(parts[0])
            self._charge()
        return self._blocks

    @blocks.setter
    def blocks(self, blocks: list[Columns]) -> None:
        self._blocks = blocks

    def add(
        self, keys: Columns, size: int, columns: Mapping[str, Array], weight: Array | None
    ) -> None:
        """Aggregates the rows of a chunk."""
        ops, xp = self.ops, self.ops.xp
        self.width = len(keys)
        self.given += size
        if weight is None and self._folded(keys, size, columns):
            return
        alone, given = self.loose, keys
        if alone:
            groups, count, self.repeated = xp.arange(size), size, True
        else:
            first, groups = ops.group_rows(keys, size)
            count = len(first)
            self.loose = ops.on_device is None and count > size // 2 >= MANY
            keys = tuple(key[first] for key in keys)
        partial: list[Array] = []
        rows_of: list[Array] = []  # how many rows each group has

        def counted(sums: Callable[[Array, int, Array | None], Array]) -> Array:
            if weight is not None:
                return sums(groups, count, weight)
            if not rows_of:
                rows_of.append(sums(groups, count, None))
            return rows_of[0]

        for at, spec in enumerate(self.specs):
            read = () if spec.kind == "count" else spec.targets
            targets = [ops.evaluate(target, columns, size, self.scope)[0] for target in read]
            if spec.kind == "count_distinct":
                rows = self.sets[at]
                distinct = ops.sort_rows((*given, *targets))
                rows.add(distinct)
                self._hold(sum(int(column.nbytes) for column in distinct))
                if rows.pending > max(self.limits.chunk, rows.settled):
                    rows.settle()
                    self._charge()
                partial.append(xp.zeros(count, dtype=xp.int8))
            elif spec.kind in ("min", "max", "any_value"):
                best = slice(None) if alone else self._best(spec, groups, count, targets[0])
                partial.append(targets[0][best])
            elif spec.kind == "count":
                partial.append(counted(ops.counts_by))
            elif spec.targets[0].type == "float":
                values = ops.key_to_float(targets[0])
                with_weight = values if weight is None else values * weight
                partial.append(ops.sums_by(groups, count, with_weight))
                partial.append(counted(ops.sums_by))
            else:
                partial += ops.split_sums(groups, count, targets[0], weight)
                partial.append(counted(ops.exact_sums))
        self._blocks.append((*keys, *partial))
        self._came(count)

    def _folded(self, keys: Columns, size: int, columns: Mapping[str, Array]) -> bool:
        """Aggregates the rows of a chunk in a table, with a place for each possible key, if many
        rows come. Returns False, and changes nothing, if there are too many places."""
        rows = max(self.expected, self.given)
        if rows < FOLDED or not size or self.ops.on_device is not None or self.totals is None:
            return False
        from gdatalog.executors.group_table import with_rows

        totals, targets = self.totals
        read = tuple(self.ops.evaluate(of, columns, size, self.scope)[0] for of in targets)
        table = with_rows(self.table, totals, keys, read, rows, self.limits.spare())
        if table is None:
            return False
        if table is not self.table:
            self._blocks, self.table = self.blocks, table
            self._charge()
        return True

    @cached_property
    def totals(self) -> tuple[Sequence[Total], Sequence[Expr]] | None:
        """The aggregates as those of a table, and the targets that it reads; None if a table does
        not have them."""
        from gdatalog.executors.group_table import totals_of

        return totals_of(self.specs)

    def add_total(self, total: int) -> None:
        """Adds so many rows to the only group. All aggregates count."""
        if total:
            self.given += 1
            self._blocks.append(tuple(self.ops.xp.full(1, total) for _ in self.specs))
            self._came(1)

    def _came(self, count: int) -> None:
        """Counts and charges the last block's groups; merges blocks if they are many or memory
        becomes short."""
        self.pending += count
        self._hold(sum(int(part.nbytes) for part in self._blocks[-1]))
        if self.level is not None and self.ops.on_device is None and self._spill():
            return
        crowded = 2 * self._merging() > self.limits.spare()
        few = max(self.limits.chunk, self.settled // 8 if crowded else self.settled)
        if self.pending > (max(8 * few, self.expected) if self.loose and not crowded else few):
            self._merge()

    def _spill(self) -> bool:
        """Writes all groups to files if memory has no room to merge them, or half of the limit is
        in use after merging."""
        account = self.limits.account
        spill = account.spill_for(2 * self._merging() + FINDING * (self.pending + self.settled))
        if spill is None and account.spill_half(self._charged) is not None:
            self._merge()
            spill = account.spill_half(self._charged)
        if spill is None:
            return False
        if self.width:
            self._write(spill)
        else:
            for rows in self.sets:
                rows.write(spill)
        self._charge()
        return bool(self.width)

    def _write(self, spill: Spill) -> SpilledGroups:
        """Writes all groups to files."""
        spilled = self.spilled = self.spilled or SpilledGroups(self.width, self.level or 0)
        if self.blocks:
            spilled.write(None, self.blocks, spill)
        for at, rows in enumerate(self.sets):
            if rows.blocks:
                spilled.write(at, rows.blocks, spill)
            rows.forget()
        self.blocks, self.pending, self.settled, self.repeated = [], 0, 0, False
        return spilled

    def partitions(self) -> Iterator[Gathering]:
        """Yields gatherings that have some groups completely, once. Finish each before the next."""
        if self.spilled is None:
            yield self
            return
        spilled = self._write(self.limits.account.spill or Spill())
        self.spilled = None
        self._charge()
        level = spilled.level + 1 if spilled.level < DEEPEST else None
        for rows in spilled.partitions():
            part = Gathering(self.specs, self.ops, self.scope, self.limits, level)
            for what, columns in rows:
                if what is None:
                    part.add_partials(columns[: self.width], columns[self.width :])
                else:
                    part.sets[what].add(columns)
            yield from part.partitions()
            part.give_back()

    def copy(self) -> Gathering:
        """A copy with the same groups, which is independent."""
        for rows in self.sets:
            if rows.runs is not None:
                rows.rows()
        other = replace(self, _blocks=list(self.blocks), spilled=None, _charged=0)
        if self.spilled is not None:
            other.spilled = SpilledGroups(self.width, self.spilled.level)
            other.spilled.files = list(self.spilled.files)
        other.sets = [replace(rows, blocks=list(rows.blocks)) for rows in self.sets]
        return other

    def __getstate__(self) -> tuple[object, ...]:
        """The aggregates, without the device and its operations."""
        sets = [rows.blocks for rows in self.sets]
        return self.specs, self.width, self.blocks, self.given, sets

    def __setstate__(
        self, state: tuple[Sequence[Spec], int, list[Columns], int, list[list[Columns]]]
    ) -> None:
        self.specs, self.width, self.blocks, self.given, blocks = state
        self.table, self.sets = None, [DistinctRows(None) for _ in self.specs]
        for own, given in zip(self.sets, blocks, strict=True):
            own.blocks = given

    def join(self, other: Gathering) -> None:
        """Merges the groups of another gathering, of other rows."""
        for mine, its in zip(self.sets, other.sets, strict=True):
            for rows in its.blocks:
                mine.add(rows)
                self._hold(sum(map(held_bytes, rows)))
        given, self.loose = self.given + other.given, self.loose or other.loose
        for block in other._blocks:
            self.add_partials(block[: other.width], block[other.width :])
        if other.table is not None and self.table is None:
            self.width, self.table = other.width, other.table.copy()
            self._charge()
        elif other.table is not None and not (self.table and self.table.join(other.table)):
            self.add_partials(*other.table.partials())
        self.given = given

    def recode(self, keys: Sequence[TypeName], recoded: Callable[[Array], Array]) -> None:
        """Changes the codes of symbols; `keys`: the types of the groups' keys."""
        types: list[TypeName] = [*keys]
        for spec in self.specs:
            kept = spec.kind in ("min", "max", "any_value")
            types += [spec.targets[0].type] if kept else ["int"] * self._parts(spec)
        self.blocks = [_recoded(block, types, recoded) for block in self.blocks]
        for spec, rows in zip(self.specs, self.sets, strict=True):
            types = [*keys, *(target.type for target in spec.targets)]
            rows.blocks = [_recoded(block, types, recoded) for block in rows.blocks]

    def dealt(self, owners: int, owner_of: Callable[[Columns, int], Array]) -> list[Gathering]:
        """Splits the groups by the owners of their keys."""
        self._merge()
        found = [Gathering(self.specs, self.ops, self.scope, self.limits) for _ in range(owners)]

        def deal(rows: Columns) -> list[Columns]:
            owner = owner_of(rows[: self.width], owners)
            places = (self.ops.survivors(owner == number) for number in range(owners))
            return [tuple(column[mine] for column in rows) for mine in places]

        for block in self.blocks:
            for part, rows in zip(found, deal(block), strict=True):
                part.width, part.blocks, part.given = self.width, [rows], len(rows[-1])
        for at, rows_of in enumerate(self.sets):
            for block in rows_of.blocks:
                for part, rows in zip(found, deal(block), strict=True):
                    part.sets[at].add(rows)
        return found

    def add_partials(self, keys: Columns, parts: Sequence[Array]) -> None:
        """Adds groups that were aggregated elsewhere: their keys and partial columns."""
        self.width = len(keys)
        self._blocks.append((*keys, *parts))
        self.repeated = True
        self.given += len(parts[0])
        self._came(len(parts[0]))

    def _best(self, spec: Spec, groups: Array, count: int, keys: Array) -> Array:
        """The row of the best key of each group."""
        ranked = keys
        if spec.targets[0].type == "symbol":
            ranked = self.ops.ranks_of(self.scope.symbols, keys)
        best: Array = self.ops.best_by(
            groups, count, ranked.astype(self.ops.xp.int64), spec.kind != "max"
        )
        return best

    def _merging(self) -> int:
        """An upper bound of the bytes that merging all blocks takes besides them."""
        return self._charged + ORDER * (self.pending + self.settled)

    def _merge(self) -> None:
        with self.limits.account.working("merging groups", self._merging()):
            self._merge_blocks()
        self.repeated = False
        self.pending = 0
        self.settled = len(self._blocks[0][-1]) if self._blocks else 0
        self._charge()

    def _merge_blocks(self) -> None:
        ops = self.ops
        if len(self.blocks) > 1 or (self._blocks and self.repeated):
            merged = ops.concatenate(self._blocks)
            self._blocks = []
            keys, parts = merged[: self.width], merged[self.width :]
            first, groups = ops.group_rows(keys, len(parts[0]))
            count = len(first)
            self.loose = self.loose and 2 * count > len(parts[0])
            if count == len(parts[0]):
                long = ops.on_device is None and count >= LONG
                self._blocks = [tuple(spread(lambda column: column[first], merged, long))]
                return
            out: list[Array] = []
            at = 0
            for spec in self.specs:
                if spec.kind in ("min", "max", "any_value"):
                    out.append(parts[at][self._best(spec, groups, count, parts[at])])
                    at += 1
                    continue
                for part in parts[at : at + self._parts(spec)]:
                    sums = ops.counts_by if spec.kind == "count" else ops.exact_sums
                    out.append(sums(groups, count, part))
                if self._parts(spec) == 3:  # carry, so that no number of merges overflows
                    out[-3] = out[-3] + (out[-2] >> 32)
                    out[-2] = out[-2] & 0xFFFF_FFFF
                at += self._parts(spec)
            self._blocks = [(*(key[first] for key in keys), *out)]

    def merged(self) -> Columns:
        """The keys of all groups and their partial columns."""
        self._merge()
        return self._blocks[0] if self._blocks else ()

    @property
    def groups(self) -> int:
        """How many groups, or partial groups, there are."""
        return sum(len(block[-1]) for block in self.blocks)

    @property
    def nbytes(self) -> int:
        held = sum(held_bytes(part) for block in self._blocks for part in block)
        return held + sum(rows.nbytes for rows in (*self.sets, self.table) if rows is not None)

    def __sizeof__(self) -> int:
        return self.nbytes  # Dask uses it to measure a worker's memory

    def _charge(self) -> None:
        self._hold(self.nbytes - self._charged)

    def give_back(self) -> None:
        """Returns the memory charge, because the caller holds the groups now."""
        self._hold(-self._charged)

    def _hold(self, more: int) -> None:
        """Charges this many bytes more."""
        self._charged += more
        self.limits.account.add("aggregates", more)

    @staticmethod
    def _parts(spec: Spec) -> int:
        if spec.kind in ("sum", "mean"):
            return 2 if spec.targets[0].type == "float" else 3
        return 1

    def finish(
        self, groups: Sequence[Slot] = (), marks: FailedRows | None = None
    ) -> tuple[Columns, list[Array]]:
        """The groups' keys, and for each spec its key column; empty if there were no rows.

        `groups`: the variables of the keys, to name a group in an error. `marks`: where a sum
        without a value is recorded, by the key of its group, instead of raising an error.
        """
        xp = self.ops.xp
        self._merge()
        if not self._blocks:
            return (), [xp.empty(0, dtype=xp.int64) for _ in self.specs]
        keys, parts = self._blocks[0][: self.width], list(self._blocks[0][self.width :])

        def check(wrong: Array, error_of: Callable[[int, str], EvaluationError]) -> None:
            rows = self.ops.survivors(wrong)
            if not len(rows):
                return
            row = int(rows[0])
            of = f", where {values_of(groups, keys, row, self.scope.symbols)}" if groups else ""
            error = error_of(row, of)
            if marks is None:
                raise error
            marks.note(keys[0][rows], error)

        results: list[Array] = []
        for at, spec in enumerate(self.specs):
            mine = [parts.pop(0) for _ in range(self._parts(spec))]
            if spec.kind == "count_distinct":
                results.append(self._count_sets(self.sets[at].rows(), keys, len(mine[0])))
            elif len(mine) == 1:
                results.append(mine[0])
            elif len(mine) == 2:
                results.append(self._finish_float(spec, mine, check))
            else:
                results.append(self._finish_int(spec, mine, check))
        return keys, results

    def _count_sets(self, rows: Columns, keys: Columns, count: int) -> Array:
        # Sorted by group first, so that the groups come in the order of `keys`.
        ops = self.ops
        if not keys:
            whole: Array = ops.xp.full(count, len(rows[0]))
            return whole
        if ops.on_device is None:
            counted = lengths_of_groups(rows[: len(keys)])
        else:
            _, groups = ops.group_rows(rows[: len(keys)], len(rows[0]))
            counted = ops.sums_by(groups, count, None)
        # `keys` may be in another order: bring the counts into it.
        _, place = ops.group_rows(keys, count)
        in_order: Array = counted[place]
        return in_order

    def _finish_float(self, spec: Spec, parts: list[Array], check: Check) -> Array:
        totals, counts = parts

        def error_of(_: int, of: str) -> EvaluationError:
            return EvaluationError(f"the sum of inf and -inf is not a number{of}", spec.span)

        check(self.ops.xp.isnan(totals), error_of)
        found: Array = self.ops.float_to_key(totals / counts if spec.kind == "mean" else totals)
        return found

    def _finish_int(self, spec: Spec, parts: list[Array], check: Check) -> Array:
        high, low, counts = parts
        high, low = high + (low >> 32), low & 0xFFFF_FFFF
        if spec.kind == "mean":
            mean: Array = self.ops.float_to_key(self.ops.means(high, low, counts))
            return mean

        def error_of(row: int, of: str) -> EvaluationError:
            exact = (int(high[row]) << 32) + int(low[row])
            total, room = str(exact), "does not fit into 64 bits"
            if scale_of(spec.type):
                total = decimal_to_text(exact, scale_of(spec.type))
                room = f"has more than {DIGITS} digits"
            message = f"the sum {total} {room}{of}"
            return EvaluationError(
                message, spec.span, hint="sum floats instead: `sum(to_float(x))`"
            )

        check((high < -(1 << 31)) | (high >= 1 << 31), error_of)
        total: Array = ((high << 32) + low).astype(self.ops.xp.int64)
        if scale_of(spec.type):
            check((total <= -LIMIT) | (total >= LIMIT), error_of)
        return total


def _recoded(
    block: Columns, types: Sequence[TypeName], recoded: Callable[[Array], Array]
) -> Columns:
    pairs = zip(block, types, strict=True)
    return tuple(recoded(part) if kind == "symbol" else part for part, kind in pairs)


def neutral(spec: Spec) -> int | None:
    """The key of an empty aggregate; None if there is no such value."""
    return 0 if spec.kind in ("count", "count_distinct", "sum") else None  # also the key of 0.0
