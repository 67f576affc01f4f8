"""Evaluates a recursive stratum on a GPU in rounds, if a bitmap of all possible rows fits.

The kernels of all rules test and set bits while they run (`printer/fresh.py`). They output only new
rows, so that nothing is sorted or indexed, and a round of few rows costs little more than its
launches. This covers rules that read no growing relation except the delta; `rounds.py` runs the
others, and whatever turns out not to fit. When memory is short, processed rows move to the host.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from time import perf_counter
from typing import Any

from gdatalog.calls import GiveUp, Outside
from gdatalog.cancellation import WorkItem
from gdatalog.engine.choose import ExecutorChoice
from gdatalog.engine.depth import Form, JoinNest
from gdatalog.engine.derived import (
    Derived,
    DistinctBlocks,
    count_of,
    in_order,
    laid,
    relation_of,
    union_rows,
)
from gdatalog.engine.fixpoint.delta import DeltaRelation
from gdatalog.engine.fixpoint.keyspace import KeySpace
from gdatalog.engine.fixpoint.spaces import expected_spaces
from gdatalog.engine.fixpoint.stratum import StratumRun, atoms
from gdatalog.engine.metrics import Round
from gdatalog.engine.sources import Sources
from gdatalog.plan.nodes import Compact, JoinPlan, RulePlan
from gdatalog.planner.check.checked import CheckedRule
from gdatalog.records import dataclass, field
from gdatalog.storage.on_device import is_on_host
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Columns
from gdatalog.storage.table import Array
from gdatalog.timers import spending, time_spent

# Rows of the host processed at once: one part in this many of the free memory; the least.
PIECE, LEAST = 4, 1 << 10
# The share of the memory beside the bitmaps that rows may take before they go to the host. A launch
# finds as many rows as have room, so the fewer rows stay, the fewer launches it takes.
MOST_ROWS = 0.25


@dataclass(frozen=True, slots=True)
class RuleJoin:
    """One join of a rule."""

    rule: CheckedRule
    plan: RulePlan
    number: int

    @property
    def join(self) -> JoinPlan:
        return self.plan.joins[self.number]


@dataclass(frozen=True, slots=True)
class Follower(RuleJoin):
    """A join of a rule that starts from the new rows of one atom."""

    @property
    def follows(self) -> str:
        assert self.join.given is not None
        return self.join.given.relation


@dataclass(slots=True)
class Marked:
    """A relation: its bitmap, its new rows, and all of its rows."""

    space: KeySpace
    beside: Mapping[str, Array]  # arguments of kernels
    dtypes: Sequence[Any]
    followed: list[Columns] = field(default_factory=list)
    gone: list[Columns] = field(default_factory=list)  # processed rows on the host
    new: list[Columns] = field(default_factory=list)
    came: list[Columns] = field(default_factory=list)  # in the current round
    length: int = 0  # of processed and new rows

    @property
    def rows_nbytes(self) -> int:
        """The bytes that its rows take on the device."""
        blocks = chain(self.followed, self.new, self.came)
        return sum(c.nbytes for block in blocks if not is_on_host(block[0]) for c in block)

    @property
    def bitmap_nbytes(self) -> int:
        return sum(array.nbytes for array in self.beside.values())

    @property
    def count(self) -> int:
        """The number of new rows."""
        return sum(len(block[0]) for block in self.new)


class MarkedRounds(StratumRun):
    """Semi-naive rounds whose kernels output new rows only."""

    def run(self, passing: Collection[str] = ()) -> dict[str, Relation] | None:
        """Returns the relations, or None if this strategy does not apply. `passing`: relations that
        no one asks for; their new rows only feed other rules."""
        followers = self.followers
        try:
            marked = self._begin(followers)
            if marked is None or not self._rounds(followers, marked, passing):
                return None
        except (GiveUp, Outside):  # only the other rounds report errors correctly
            return None
        finally:
            for name in self.tables:
                self.context.limits.charge(name, 0)
        found = {
            name: self._relation(name, table)
            for name, table in marked.items()
            if name not in passing
        }
        self.record.end({name: relation.length for name, relation in found.items()})
        return found

    @property
    def small(self) -> bool:
        """Whether the fixpoint starts with few rows, and no one forces this strategy."""
        knobs = self.context.knobs
        if knobs.strategy == "lftj" or knobs.dedup == "bitmap":
            return False
        names = {atom.name for rule in self.stratum.rules for atom in atoms(rule)}
        rows = sum(count_of(part) for parts in self.inputs.seeds.values() for part in parts)
        rows += sum(self.inputs.relation(name).length for name in names - self.tables.keys())
        return rows < self.context.tuning.bitmap_rounds_from

    @cached_property
    def followers(self) -> list[Follower]:
        """The joins of all rules; none if this strategy does not apply to some rule."""
        knobs = self.context.knobs
        if knobs.strategy == "levelwise" or knobs.dedup not in ("auto", "bitmap"):
            return []
        tables = self.tables.items()
        if any(not isinstance(t, DeltaRelation) or not t.types for _, t in tables):
            return []
        if self.context.limit_sizes.keys() & self.tables.keys():
            return []
        found = []
        for rule in self.stratum.rules:
            if self.recursive(rule):
                plan = self.plan(rule, first=False)
                if plan.gathers or self.context.device.refuses(plan) is not None:
                    return []
                found += [Follower(rule, plan, number) for number in range(len(plan.joins))]
        reads = [ref.relation for each in found for ref in each.join.tries]
        return [] if self.tables.keys() & set(reads) else found

    # ---------------------------------------------------------------------------------- before

    def _begin(self, followers: Sequence[Follower]) -> dict[str, Marked] | None:
        """The rows of each relation without recursion, marked; None if the bitmaps do not fit."""
        account, mark = self.context.limits.account, self.record.mark()
        rest: list[RuleJoin] = []
        marked: dict[str, Marked] | None = None
        try:
            with account.restoring(MemoryError):
                first = {name: self._union(name, self.first(name), True) for name in self.tables}
                marked = self._marked(first, followers)
        except MemoryError:
            rest = self._rest()
            if not rest:
                raise
        if rest:  # after the handler, because the error references device memory
            self.record.back_to(mark)
            seeds = self.inputs.seeds
            first = {name: self._union(name, [*seeds.get(name, ())], False) for name in self.tables}
            marked = self._marked(first, [*followers, *rest])
        else:
            self.record.end_round()
        if marked is None:
            return None
        del first  # its rows may go to the host
        for each in rest:
            if not self._find(each, marked, ()):
                return None
        if rest:
            self.record.end_round()
        for table in marked.values():
            table.new += table.came
            table.came, table.length = [], table.count
        self._make_room(marked)
        return marked

    def _rest(self) -> list[RuleJoin]:
        """The joins of the nonrecursive rules; none if some of them cannot use bitmaps."""
        found = []
        for rule in self.stratum.rules:
            plan = self.plan(rule, first=True)
            if plan.joins and (plan.gathers or plan.terms or plan.within):
                return []
            if plan.joins and self.context.device.refuses(plan) is not None:
                return []
            found += [RuleJoin(rule, plan, number) for number in range(len(plan.joins))]
        return found

    def _union(self, name: str, parts: Sequence[Derived], reported: bool) -> tuple[Columns, int]:
        rows, count = union_rows([in_order(part, self.ops) for part in parts], self.ops)
        rows = laid(rows, self.ops)
        if reported:
            table = self.tables[name]
            relation = relation_of(table.columns, table.types, [(rows, count)], self.ops)
            self.record.derived(name, parts, relation, self.ops)
        return rows, count

    def _marked(
        self, first: Mapping[str, tuple[Columns, int]], joins: Sequence[RuleJoin]
    ) -> dict[str, Marked] | None:
        """Marks these rows; None if a bitmap of all rows that the joins may derive does not fit."""
        device, limits, xp = self.context.device, self.context.limits, self.ops.xp
        spaces = expected_spaces(
            list({id(each.plan): each.plan for each in joins}.values()),
            {name: KeySpace.of(rows) if count else None for name, (rows, count) in first.items()},
            {
                ref.relation: self.inputs.relation(ref.relation)
                for each in joins
                for ref in each.join.tries
            },
        )
        for name, (rows, count) in first.items():
            if name not in spaces and count:
                spaces[name] = KeySpace.of(rows) or KeySpace((), ())
            if name not in spaces or not spaces[name].spans:
                return None
        room, _ = device.room(self.context.memory)
        share = self.context.tuning.bitmap_room_share
        if sum(space.size for space in spaces.values()) // 8 > room // share:
            return None
        found = {}
        for name, (rows, count) in first.items():
            space = spaces[name]
            dtypes = [
                xp.int32 if low >= INT32_MIN and low + span - 1 <= INT32_MAX else xp.int64
                for low, span in zip(space.least, space.spans, strict=True)
            ]
            words = (space.size >> 6) + 1
            limits.charge(name, 8 * words + sum(column.nbytes for column in rows))
            marks = xp.zeros(words, dtype=xp.int64)
            bounds = xp.asarray(space.bounds, dtype=xp.int64)
            table = found[name] = Marked(space, {"marks": marks, "space": bounds}, dtypes)
            if count:
                table.new = [tuple(map(_as, rows, dtypes))]
                self._mark(marks, space, table.new[0])
        return found

    def _mark(self, marks: Array, space: KeySpace, rows: Columns) -> None:
        """Sets the bits of distinct rows. The sum of distinct bits equals their union."""
        xp = self.ops.xp
        numbers = xp.zeros(len(rows[0]), dtype=xp.int64)
        for column, low, span in zip(rows, space.least, space.spans, strict=True):
            numbers *= span
            numbers += column
            numbers -= low
        bits = xp.left_shift(xp.ones(len(numbers), dtype=xp.int64), numbers & 63)
        self.ops.add_at(marks, numbers >> 6, bits)

    # ---------------------------------------------------------------------------------- rounds

    def _rounds(
        self,
        followers: Sequence[Follower],
        marked: Mapping[str, Marked],
        passing: Collection[str],
    ) -> bool:
        """Runs rounds until no row is new; returns False if the kernels cannot be printed."""
        with self.context.limits.watch.work("round", self.name, unit="rows") as work:
            return self._rounds_of(followers, marked, passing, work)

    def _rounds_of(
        self,
        followers: Sequence[Follower],
        marked: Mapping[str, Marked],
        passing: Collection[str],
        work: WorkItem,
    ) -> bool:
        limits, number = self.context.limits, 0
        while any(table.new for table in marked.values()):
            number += 1
            work.round = number
            limits.poll()
            for each in followers:
                new = marked[each.follows].new
                if new and not self._find(each, marked, new):
                    return False
            for name, table in marked.items():
                if name not in passing:
                    table.followed += table.new
                table.new, table.came = self._together(table.came), []
                table.length += table.count
            self._make_room(marked)
            Round(
                number,
                {name: table.count for name, table in marked.items()},
                {name: table.length for name, table in marked.items()},
                self.record.end_round(),
            ).tell(work)
        return True

    def _together(self, blocks: list[Columns]) -> list[Columns]:
        """Joins the blocks into one, which needs one launch, if that fits."""
        size = sum(column.nbytes for block in blocks for column in block)
        here = any(is_on_host(block[0]) for block in blocks)
        if len(blocks) < 2 or here or size > self.context.limits.spare():
            return blocks
        return [self.ops.concatenate(blocks)]

    def _make_room(self, marked: Mapping[str, Marked]) -> None:
        """Charges the device memory. First moves rows to the host if the next launch needs their
        memory; moves new rows only if it would otherwise have little."""
        limits, tables = self.context.limits, list(marked.values())
        room = limits.spare() + sum(limits.held.get(name, 0) for name in marked)
        most = MOST_ROWS * (room - sum(table.bitmap_nbytes for table in tables))
        for table in tables:
            if sum(each.rows_nbytes for each in tables) > most:
                table.gone += [tuple(map(self._fetched, block)) for block in table.followed]
                table.followed = []
        for blocks in [*(table.came for table in tables), *(table.new for table in tables)]:
            if sum(table.rows_nbytes for table in tables) > most:
                blocks[:] = [tuple(map(self._fetched, block)) for block in blocks]
        for name, table in marked.items():
            limits.charge(name, table.bitmap_nbytes + table.rows_nbytes)

    def _fetched(self, column: Array) -> Array:
        if is_on_host(column):
            return column
        ops: Any = self.ops
        with spending("moving", int(column.nbytes)):
            found: Array = ops.driver.fetched(column)
        return found

    def _pieces(self, blocks: Sequence[Columns]) -> Iterator[Columns]:
        """Yields blocks on the device; blocks of the host come in pieces that fit."""
        limits = self.context.limits
        for block in blocks:
            if not is_on_host(block[0]):
                yield block
                continue
            start, width = 0, sum(column.itemsize for column in block)
            while start < len(block[0]):
                end = start + max(LEAST, limits.spare() // (PIECE * width))
                rows = tuple(column[start:end] for column in block)
                with limits.account.taking("rows to follow", width * len(rows[0])):
                    with spending("moving", width * len(rows[0])):
                        rows = laid(rows, self.ops)
                    yield rows
                start = end

    def _find(self, each: RuleJoin, marked: Mapping[str, Marked], new: Sequence[Columns]) -> bool:
        """Adds the new rows that a join derives, from these rows if it follows any; returns False
        if it cannot be printed."""
        context, relation = self.context, each.plan.relation
        stats, table = self.record.running(relation, each.rule), marked[relation]
        report = context.metrics.run_of(each.plan)
        form = Form(each.join.outputs, fresh=True)
        choice = ExecutorChoice(False, "new rows, told by marks on the device")
        stats.executors[each.number] = str(choice)
        stats.new = 0
        began, before = perf_counter(), time_spent()
        for rows in self._pieces(new) if each.join.given is not None else [()]:
            sources = Sources(self.trie_of, partial(_given, rows))
            nest = JoinNest(each.join, form, sources, context, table.beside, report is not None)
            if nest.reason is not None:
                return False
            blocks = [block for block in nest.run(relation) if len(block[0])]
            stats.new += sum(len(block[0]) for block in blocks)
            table.came += [tuple(map(_as, block, table.dtypes)) for block in blocks]
            if report is not None:
                report.saw(nest.seen)
                stats.tried += _tried(nest)
            del blocks, nest, sources, rows  # rows that go to the host must leave the device
            self._make_room(marked)
        stats.seconds += perf_counter() - began
        self.record.ran(stats)
        if report is not None:
            report.rows += stats.new
            report.executors[each.number] = choice
            report.seconds += stats.seconds
            report.add_costs(time_spent() - before)
            report.bytes = max(report.bytes, stats.bytes)
        return True

    def _relation(self, name: str, table: Marked) -> Relation:
        schema = self.inputs.schemas[name]
        rows = [*table.gone, *table.followed, *table.new]
        blocks = self.at_one_place(DistinctBlocks(rows, table.length))
        relation = relation_of(schema.columns, schema.types, [blocks], self.ops)
        self.context.device.hold(relation)
        self.context.limits.charge(name, self._held(relation))
        return relation


def _given(rows: Columns, _: JoinPlan) -> tuple[Columns, int]:
    return rows, len(rows[0]) if rows else 0


def _tried(nest: JoinNest) -> int:
    """How many rows a profiled run produced, including rows that were marked before."""
    steps = [step for step in nest.join.steps if not isinstance(step, Compact)]
    return nest.seen[id(steps[-1])].rows_out if steps else len(nest.given[0])


def _as(column: Array, dtype: Any) -> Array:
    return column.astype(dtype, copy=False)
