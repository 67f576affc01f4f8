"""`BitmapRounds`: rounds on a GPU that keeps one bit for each possible row, or a hash set of rows.

The kernels of all rules test and set bits, or add to the set, while they run
(`printer/distinct.py`). They output only new rows, so that nothing is sorted, and a round of few
rows costs little more than its launches (`row_rounds.py`). Rules that read growing relations
besides the delta look rows up in hash tries, which grow with the rounds. Semi-naive rounds run what
turns out not to fit.

When memory is short, kernels of rules that read only the delta just set bits. A copy of the bitmap
from the begin of the round then says which rows are new, and the next round reads these piece by
piece. The host makes the rows of the last bitmap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from gdatalog.calls import GiveUp, Outside
from gdatalog.engine.context import ExecutionContext, Sources, StratumInputs
from gdatalog.engine.depth import Form, JoinNest
from gdatalog.engine.derived import Derived, DistinctBlocks, laid, union_rows
from gdatalog.engine.device import CPU
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.fixpoint.expected_spaces import expected_spaces
from gdatalog.engine.fixpoint.row_bitmap import rows_of_bits
from gdatalog.engine.kept_runs import key_of
from gdatalog.engine.metrics import measured
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.base import LeafOperator
from gdatalog.engine.operators.row_rounds import (
    BY_MARKS,
    KeptRounds,
    RelationInRounds,
    RowRounds,
    RuleJoin,
    given_rows,
    last_step,
    told_round,
)
from gdatalog.engine.operators.semi_naive import SemiNaive
from gdatalog.engine.prepared_rules import PreparedRules
from gdatalog.engine.stratum_run import StratumRun
from gdatalog.plan.conditions import Unsuited, When
from gdatalog.plan.effects import all_steps
from gdatalog.plan.join_plan import Guard, JoinPlan, RulePlan, TrieRef
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.placement import Work
from gdatalog.planner.rewrite.program_sizes import Expected
from gdatalog.records import cached_property, dataclass, replace
from gdatalog.storage.key_space import KeySpace
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_ops import DeviceOps
from gdatalog.storage.row_store import RowStore
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Columns
from gdatalog.storage.table import Array

# Rows of a bitmap processed at once: their share of the free memory; the least.
PIECE, LEAST = 0.75, 1 << 10
MARKED_BYTES = 64  # for each row that is marked at once
PARTS = 2  # of a row's columns, with a number each, in a hash set


@dataclass(frozen=True, slots=True)
class BitmapRounds(LeafOperator):
    """The same rules as those of `rounds`, which run what bitmaps and hash sets do not suit.
    `indexed`: the growing relations that rules read besides the delta."""

    rounds: SemiNaive
    indexed: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.indexed:
            return f"semi-naive rounds on the device, which index {', '.join(self.indexed)} there"
        return "semi-naive rounds on the device, with one bit for each possible row"

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        return self.rounds.rules

    @property
    def projections(self) -> tuple[str, ...]:
        return self.rounds.projections

    def work(self, expected: Expected, context: ExecutionContext) -> Work:
        """Rounds in kernels. Bits are tested on the way; hash sets and hash tries cost more."""
        found = LeafOperator.work(self, expected, context)
        return found if self.indexed else replace(found, new=0.0)

    def prepare(self, context: ExecutionContext) -> PreparedRules:
        return PreparedRules(self.rounds.of)

    def run(
        self, prepared: PreparedRules, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        rounds, passing = MarkedRounds(prepared, inputs), self.rounds.passing
        found = rounds.run(passing)
        for name in passing:
            inputs.context.limits.charge(name, 0)
        rounds.record.how = (*rounds.record.how, *self.projections)
        return Unsuited() if found is None else found


def applies(rounds: SemiNaive, inputs: StratumInputs) -> BitmapRounds | None:
    """If the device runs all rules, and hash tries suit those that read a growing relation besides
    its new rows."""
    context, stratum = inputs.context, rounds.of.stratum
    settings, device = context.settings, context.device
    if (
        device is CPU
        or settings.strategy == "levelwise"
        or settings.dedup not in ("auto", "bitmap", "hash")
    ):
        return None
    schemas = {**inputs.schemas, **{schema.name: schema for schema in rounds.of.schemas}}
    own = {*stratum.relations, *(schema.name for schema in rounds.of.schemas)}
    if not all(schemas[name].types for name in own):
        return None
    if any(rule.aggregated for rule in stratum.rules):
        return None
    if context.limit_sizes.keys() & {*stratum.relations}:
        return None
    plans = [plan for _, plan in rounds.of.later]
    if not plans or any(plan.gathers or device.refuses(plan) is not None for plan in plans):
        return None
    joins = [join for plan in plans for join in plan.joins]
    growing = [(join, ref) for join in joins for ref in join.tries if ref.relation in own]
    if not all(_grows_in_place(join, ref) for join, ref in growing):
        return None
    return BitmapRounds(rounds, tuple(sorted({ref.relation for _, ref in growing})))


def _grows_in_place(join: JoinPlan, ref: TrieRef) -> bool:
    """Whether an index that a join reads may be a hash trie that grows."""
    guards = (step for step in all_steps(join.steps) if isinstance(step, Guard))
    asked = any(join.tries[step.trie] == ref for step in guards)  # how many rows there are
    return bool(ref.columns) and not (ref.weighted or ref.ranked or asked)


def starts_small(draft: StratumDraft) -> bool:
    """Whether the fixpoint starts with few rows, and no setting forces bitmaps."""
    settings = draft.context.settings
    if settings.strategy == "lftj" or settings.dedup == "bitmap":
        return False
    return draft.read_rows < draft.context.thresholds.bitmap_rounds_from


class MarkedRounds(StratumRun):
    """One evaluation by rounds whose kernels output new rows only. `again`: what an earlier run has
    left; `kept`: what serves later ones. `passing`: relations that no one asks for.
    `only_rest_waits`: whether only the rules that run once wait for their kernels, so that they run
    breadth-first."""

    kept: KeptRounds | None = None
    again: KeptRounds | None = None
    only_rest_waits = False
    passing: Collection[str] = ()

    def run(self, passing: Collection[str] = ()) -> dict[str, Relation] | None:
        """Returns the relations, or None if this strategy does not apply. `passing`: relations that
        no one asks for; their new rows only feed other rules."""
        followers, self.passing = self.followers, passing
        marked: Mapping[str, RelationInRounds] | None
        try:
            marked, rest = None, self._rest
            if rest:
                marked = self._again(self._seeds, [*followers, *rest])
            if marked is None:
                rest = self._kernels_once()
                marked = self._marked(self._seeds(), [*followers, *rest]) if rest else None
            if marked is None:
                marked, rest = self._begin(followers)
            if marked is None:
                return None
            if not self._rounds(followers, rest, marked, passing, self.again):
                if not self.only_rest_waits:
                    return None
                self.again = None
                marked, _ = self._begin(followers)
                if marked is None or not self._rounds(followers, [], marked, passing, self.again):
                    return None
        except (GiveUp, Outside):  # only the other rounds report errors correctly
            return None
        finally:
            for name in self.tables:
                self.context.limits.charge(name, 0)
        found = {n: self._relation(n, table) for n, table in marked.items() if n not in passing}
        self.record.end({name: relation.length for name, relation in found.items()})
        if self.kept is not None:
            device = self.context.device.accelerator
            assert device is not None
            device.keep(key_of(self.kept.made_for.joins, passing), self.kept)
        return found

    def _again(
        self, first: Callable[[], Mapping[str, tuple[Columns, int]]], joins: Sequence[RuleJoin]
    ) -> Mapping[str, RelationInRounds] | None:
        """The relations, with these first rows, of the same rounds over the same tries, if the
        device has kept them."""
        device = self.context.device.accelerator
        if device is None or self.context.metrics.lasting:
            return None
        key = key_of([each.join for each in joins], self.passing)
        found: KeptRounds | None = device.kept_of(key)
        if found is None:
            return None
        given = {name: rows for name, (rows, count) in first().items() if count}
        if not found.begins(self, given):
            found.leave()
            return None
        self.again = found
        for name, rows in given.items():
            table = found.marked[name]
            if not table.hashed:
                self._mark(table.marks, table.space, rows)
        return found.marked

    @cached_property
    def followers(self) -> list[RuleJoin]:
        """The joins of all recursive rules."""
        return [
            RuleJoin(rule, plan, number)
            for rule, plan in self.of.later
            for number in range(len(plan.joins))
        ]

    @property
    def _bitmaps(self) -> DeviceOps:
        assert self.ops.on_device is not None
        return self.ops.on_device

    # ---------------------------------------------------------------------------------- before

    def _begin(
        self, followers: Sequence[RuleJoin]
    ) -> tuple[Mapping[str, RelationInRounds] | None, list[RuleJoin]]:
        """The rows of each relation without recursion, marked, if the bitmaps fit; or only those
        that no rule derives, and the joins of the nonrecursive rules, if their rows do not fit."""
        mark = self.record.mark()
        try:
            with self.context.limits.account.restoring(MemoryError):
                first = {name: self._union(name, self.first(name), True) for name in self.tables}
                again = self._again(lambda: first, followers)
                return again or self._marked(first, followers), []
        except MemoryError:
            rest = self._rest
            if not rest:
                raise
        # After the handler, because the error references device memory.
        self.record.back_to(mark)
        return self._marked(self._seeds(), [*followers, *rest]), rest

    def _seeds(self) -> dict[str, tuple[Columns, int]]:
        seeds = self.inputs.seeds
        return {name: self._union(name, [*seeds.get(name, ())], False) for name in self.tables}

    def _kernels_once(self) -> list[RuleJoin]:
        """The joins of the nonrecursive rules, if kernels that mark their rows pay."""
        found, context = self._rest, self.context
        cost = sum(each.join.cost for each in found)
        if not context.compiled and cost < context.thresholds.kernels_worth:
            return []
        sources = Sources(self.trie_of, partial(given_rows, ()))
        nests = [
            JoinNest(each.join, Form(each.join.outputs, fresh=True), sources, context)
            for each in found
        ]
        return [] if any(nest.reason is not None for nest in nests) else found

    @cached_property
    def _rest(self) -> list[RuleJoin]:
        """The joins of the nonrecursive rules; none if some of them cannot use bitmaps."""
        found = []
        for rule in self.stratum.rules:
            plan = self.of.plan(rule, first=True)
            refused = self.context.device.refuses(plan) is not None
            if plan.joins and (refused or plan.gathers or plan.terms or plan.within):
                return []
            found += [RuleJoin(rule, plan, number) for number in range(len(plan.joins))]
        return found

    def _union(self, name: str, parts: Sequence[Derived], reported: bool) -> tuple[Columns, int]:
        rows, count = union_rows(parts, self.ops)
        rows = laid(rows, self.ops)
        if reported:
            relation = self.relation(name, [(rows, count)])
            self.record.derived(name, parts, relation, self.ops)
        return rows, count

    def _marked(
        self, first: Mapping[str, tuple[Columns, int]], joins: Sequence[RuleJoin]
    ) -> dict[str, RelationInRounds] | None:
        """Marks these rows; None if a bitmap of all rows that the joins may derive does not fit."""
        device, limits, xp = self.context.device, self.context.limits, self.ops.xp
        plans = {id(each.plan): each.plan for each in joins}.values()
        known = {n: self._space(rows) if count else None for n, (rows, count) in first.items()}
        spaces = expected_spaces(plans, known, self.inputs.relation, self.context.scope, PARTS)
        for name, (rows, count) in first.items():
            if name not in spaces and count:
                spaces[name] = self._space(rows) or KeySpace((), ())
            elif name not in spaces and self._never(name, joins):
                columns = len(self.inputs.schemas[name].columns)
                spaces[name] = KeySpace((0,) * columns, (1,) * columns)
            if name not in spaces or not spaces[name].spans:
                return None
        room, _ = device.room(self.context.memory)
        dedup, thresholds = self.context.settings.dedup, self.context.thresholds
        bits = sum(space.size for space in spaces.values()) // 8
        fits = bits <= room // thresholds.bitmap_room_share
        if dedup == "bitmap" and not fits:
            return None
        refs = {ref for each in joins for ref in each.join.tries if ref.relation in first}
        large = bool(refs) and bits > thresholds.bitmap_bytes
        hashed = dedup == "hash" or not fits or (large and dedup == "auto")
        found = {}
        for name, (rows, count) in first.items():
            space = spaces[name]
            dtypes = [
                xp.dtype("int32" if low >= INT32_MIN and low + span - 1 <= INT32_MAX else "int64")
                for low, span in zip(space.least, space.spans, strict=True)
            ]
            if any(
                dtypes[at] != "int32" for ref in refs if ref.relation == name for at in ref.columns
            ):
                return None  # hash tries have 32 bits
            words = 0 if hashed else (space.size >> 6) + 1
            limits.charge(name, 8 * words + sum(column.nbytes for column in rows))
            bounds = xp.asarray(space.bounds, dtype=xp.int64)
            marks = xp.zeros(max(1, words), dtype=xp.int64)
            beside = {"known" if hashed else "marks": marks, "space": bounds}
            table = found[name] = RelationInRounds(space, beside, dtypes)
            if count:
                table.blocks = [tuple(map(_as, rows, dtypes))]
                if not hashed:
                    self._mark(marks, space, table.blocks[0])
        return found

    def _never(self, name: str, joins: Sequence[RuleJoin]) -> bool:
        """Whether all joins that derive a relation read an empty one."""
        own = [each.join.tries for each in joins if each.plan.relation == name]
        read = [[ref.relation for ref in tries if not self.grows(ref.relation)] for tries in own]
        return all(any(not self.inputs.relation(each).length for each in names) for names in read)

    def _space(self, rows: Columns) -> KeySpace | None:
        return KeySpace.within(self._bitmaps.spans(rows), PARTS)

    def _mark(self, marks: Array, space: KeySpace, rows: Columns, sign: int = 1) -> None:
        """Sets the bits of distinct rows, none of which is set, or clears those that are. The sum
        of distinct bits equals their union."""
        xp, most = self.ops.xp, max(LEAST, self.context.limits.spare() // MARKED_BYTES)
        for start in range(0, len(rows[0]), most):
            numbers = space.numbers([column[start : start + most] for column in rows], xp)
            bits = xp.left_shift(xp.full(len(numbers), sign, dtype=xp.int64), numbers & 63)
            self.ops.add_at(marks, numbers >> 6, bits)

    # ---------------------------------------------------------------------------------- rounds

    def _rounds(
        self,
        followers: Sequence[RuleJoin],
        rest: Sequence[RuleJoin],
        marked: Mapping[str, RelationInRounds],
        passing: Collection[str],
        again: KeptRounds | None,
    ) -> bool:
        """Runs the `rest`, and rounds until no row is new; returns False if the kernels cannot be
        printed."""
        with self.context.limits.watch.work("round", self.name, unit="rows") as work:
            rounds = RowRounds(self, followers, rest, marked, passing, again)
            try:
                done = rounds.run(work)
                self.kept, self.only_rest_waits = rounds.kept, rounds.only_rest_waits
                return done
            except MemoryError:
                """The error references device memory until the end of this handler."""
                if rounds.indexed or any(table.hashed for table in marked.values()):
                    raise
            self._only_bits(marked)
            if not rounds.began:
                if not all(self._find(each, marked) for each in rest):
                    return False
                self.record.end_round()
                self._advance(marked)
            while any(table.count for table in marked.values()):
                work.round = (work.round or 0) + 1
                self.context.limits.poll()
                for table in marked.values():
                    assert table.before is not None
                    table.before[:] = table.marks
                if not all(self._find(each, marked) for each in followers):
                    return False
                self._advance(marked)
                self.record.end_round()
                told_round(marked, work)
        return True

    def _only_bits(self, marked: Mapping[str, RelationInRounds]) -> None:
        """Frees all rows; bitmaps mark the new ones, and all rows at the start of the round. What
        the round has found is not marked any more."""
        xp, limits = self.ops.xp, self.context.limits
        for name, table in marked.items():
            rows, blocks = table.rows, table.blocks
            table.delta = xp.zeros_like(table.marks)
            if rows is not None:
                blocks = [tuple(column[rows.begin : rows.end] for column in rows.columns)]
                found = tuple(column[rows.end : rows.count] for column in rows.columns)
                self._mark(table.marks, table.space, found, -1)
                del found
            for block in blocks:
                self._mark(table.delta, table.space, block)
            table.counted = table.count = sum(len(block[0]) for block in blocks)
            if rows is not None:
                table.counted = self._bits_of(table.marks)
            table.blocks, table.rows = [], None
            del rows, blocks
            table.before = xp.zeros_like(table.marks)
            limits.charge(name, table.nbytes)

    def _advance(self, marked: Mapping[str, RelationInRounds]) -> None:
        """Makes the rows that a round has marked the new rows of the next one."""
        for table in marked.values():
            table.delta = None
            table.delta = table.marks ^ table.before
            table.count = self._bits_of(table.delta)
            table.length += table.count
        self._charge(marked)

    def _charge(self, marked: Mapping[str, RelationInRounds]) -> None:
        for name, table in marked.items():
            self.context.limits.charge(name, table.nbytes)

    def _pieces(self, table: RelationInRounds) -> Iterator[Columns]:
        """Yields the new rows of a bitmap in pieces that fit."""
        limits, ops, delta = self.context.limits, self._bitmaps, table.delta
        assert delta is not None
        counts, box = ops.counts_of_marks(delta), table.space.box
        width = sum(self.ops.xp.dtype(dtype).itemsize for dtype in table.dtypes)
        most = max(LEAST, int(PIECE * limits.spare()) // width)
        for first, end, skip, take, size in ops.pieces(counts, most, table.count):
            with limits.account.taking("rows to follow", width * size):
                rows = ops.rows_of_marks(delta, counts, first, end, box, table.dtypes)
                if take >= 0:
                    rows = tuple(column[skip : skip + take] for column in rows)
                yield rows
                del rows

    def _find(self, each: RuleJoin, marked: Mapping[str, RelationInRounds]) -> bool:
        """Marks the rows that a join derives, from the new rows if it follows any; returns False if
        it cannot be printed."""
        context, relation = self.context, each.plan.relation
        stats, table = self.record.running(relation, each.rule), marked[relation]
        report = context.metrics.run_of(each.plan)
        form = Form(each.join.outputs, fresh=True, unwritten=True)
        stats.executors[each.number] = str(BY_MARKS)
        with measured(report, stats):
            given = each.join.given
            for rows in [()] if given is None else self._pieces(marked[given.relation]):
                sources = Sources(self.trie_of, partial(given_rows, rows))
                nest = JoinNest(each.join, form, sources, context, table.beside, report is not None)
                if nest.reason is not None:
                    return False
                nest.run(relation)
                if report is not None:
                    report.saw(nest.seen)
                    # Rows that were marked before count, too.
                    last = last_step(each.join)
                    stats.tried += (
                        len(nest.given[0]) if last is None else nest.seen[id(last)].rows_out
                    )
                del nest, sources, rows
        stats.new = self._bits_of(table.marks) - table.counted
        table.counted += stats.new
        self.record.ran(stats, report)
        if report is not None:
            report.rows += stats.new
            report.executors[each.number] = BY_MARKS
        return True

    def _bits_of(self, marks: Array) -> int:
        """How many rows a bitmap marks."""
        (found,) = self.ops.totals(self._bitmaps.counts_of_marks(marks))
        return found

    def _relation(self, name: str, table: RelationInRounds) -> Relation:
        schema = self.inputs.schemas[name]
        if table.rows is None:
            (words,) = self._bitmaps.to_host((table.marks,))
            rows = rows_of_bits(table.space, words, table.dtypes)
            relation = self.relation(name, [DistinctBlocks([rows], table.length)])
        elif self.kept is not None and table.length:
            lent = self.kept.rounds.lend([*self.kept.marked].index(name))
            relation = Relation.over(schema.columns, schema.types, RowStore.lying(lent))
        else:
            rows = table.rows.taken(copies=False)
            relation = self.relation(name, [DistinctBlocks([rows], table.length)])
        self.context.device.hold(relation)
        self.context.limits.charge(name, self._held(relation))
        return relation


def _as(column: Array, dtype: np.dtype[np.generic]) -> Array:
    return column.astype(dtype, copy=False)
