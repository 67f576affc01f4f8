"""A recursive stratum on a GPU, round after round, where a bit for each possible row has room.

The kernels of all rules test and set the marks while they run (`printer/fresh.py`): what comes out
of them is new, so that nothing is sorted, no index is made, and a round of few rows takes little
more than its launches. For rules that read nothing that grows but the new rows; all else, and what
turns out not to fit, is for `rounds.py`. Rows that have been followed go to the host when memory is
short.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any

from gdatalog.engine.choose import Choice
from gdatalog.engine.depth import Form, Nest
from gdatalog.engine.derived import Blocks, count_of, in_order, laid, relation_of, union_rows
from gdatalog.engine.growing import Growing
from gdatalog.engine.keyspace import KeySpace
from gdatalog.engine.ledger import Round
from gdatalog.engine.sources import Sources
from gdatalog.engine.spaces import expected_spaces
from gdatalog.engine.stratum import StratumRun, atoms
from gdatalog.executors.lftj import GiveUp, Outside
from gdatalog.plan.nodes import Compact, JoinPlan, RulePlan
from gdatalog.planner.checked import CheckedRule
from gdatalog.records import dataclass
from gdatalog.spent import so_far
from gdatalog.storage.elsewhere import lies_here
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import INT32_MAX, INT32_MIN, Columns
from gdatalog.storage.table import Array
from gdatalog.watching import Work


@dataclass(frozen=True, slots=True)
class Follower:
    """One join of a rule, for the new rows of one atom."""

    rule: CheckedRule
    plan: RulePlan
    number: int

    @property
    def join(self) -> JoinPlan:
        return self.plan.joins[self.number]

    @property
    def follows(self) -> str:
        assert self.join.given is not None
        return self.join.given.relation


@dataclass(slots=True)
class Marked:
    """A relation: its marks, what is new of it, and all that it has."""

    space: KeySpace
    beside: Mapping[str, Array]  # what kernels are given of it
    dtypes: Sequence[Any]
    new: Columns
    count: int  # of what is new
    blocks: list[Columns]
    length: int

    @property
    def nbytes(self) -> int:
        there = [block for block in self.blocks if not lies_here(block[0])]
        held = sum(column.nbytes for block in there for column in block)
        return held + sum(array.nbytes for array in self.beside.values())

    def leave(self, ops: Any) -> None:
        """Its rows go to the host, but for the new ones."""
        for at, block in enumerate(self.blocks):
            if block is not self.new and not lies_here(block[0]):
                self.blocks[at] = tuple(map(ops.driver.fetched, block))


class MarkedRounds(StratumRun):
    """Rounds whose rows are new when they come."""

    def run(self, passing: Collection[str] = ()) -> dict[str, Relation] | None:
        """The relations; None if this is not for them. `passing`: those that nobody asks for, whose
        new rows have but to be followed."""
        followers = self.followers
        try:
            marked = self._begin(followers)
            if marked is None or not self._rounds(followers, marked, passing):
                return None
        except (GiveUp, Outside):  # only the other rounds can tell what is right
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
        """Whether there is little to begin with, and nobody forces these rounds."""
        knobs = self.context.knobs
        if knobs.strategy == "lftj" or knobs.telling == "marks":
            return False
        names = {atom.name for rule in self.stratum.rules for atom in atoms(rule)}
        rows = sum(count_of(part) for parts in self.inputs.seeds.values() for part in parts)
        rows += sum(self.inputs.relation(name).length for name in names - self.tables.keys())
        return rows < self.context.tuning.bitmap_rounds_from

    @cached_property
    def followers(self) -> list[Follower]:
        """The joins of all rules; none if these rounds are not for some rule."""
        knobs = self.context.knobs
        if knobs.strategy == "levelwise" or knobs.telling not in ("auto", "marks"):
            return []
        tables = self.tables.items()
        if any(not isinstance(t, Growing) or not t.types for _, t in tables):
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
        """What each relation has without recursion, marked; None if marks have no room."""
        device, xp = self.context.device, self.ops.xp
        first: dict[str, tuple[Columns, int]] = {}
        for name in self.tables:
            parts = self.first(name)
            rows, count = union_rows([in_order(part, self.ops) for part in parts], self.ops)
            first[name] = laid(rows, self.ops), count
            relation = relation_of(
                self.tables[name].columns, self.tables[name].types, [first[name]], self.ops
            )
            self.record.derived(name, parts, relation, self.ops)
        self.record.end_round()
        spaces = expected_spaces(
            list({id(each.plan): each.plan for each in followers}.values()),
            {name: KeySpace.of(rows) if count else None for name, (rows, count) in first.items()},
            {
                ref.relation: self.inputs.relation(ref.relation)
                for each in followers
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
            if not count:
                rows = tuple(xp.empty(0, dtype=dtype) for dtype in dtypes)
            rows = tuple(map(_as, rows, dtypes))
            words = (space.size >> 6) + 1
            self.context.limits.charge(name, 8 * words + sum(column.nbytes for column in rows))
            marks = xp.zeros(words, dtype=xp.int64)
            if count:
                self._mark(marks, space, rows)
            limits = [
                number for pair in zip(space.least, space.spans, strict=True) for number in pair
            ]
            beside = {"marks": marks, "space": xp.asarray(limits, dtype=xp.int64)}
            blocks = [rows] if count else []
            found[name] = Marked(space, beside, dtypes, rows, count, blocks, count)
        return found

    def _mark(self, marks: Array, space: KeySpace, rows: Columns) -> None:
        """Marks different rows: their bits, added up, are these bits together."""
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
        """Goes on until nothing is new; False if the kernels cannot be printed."""
        with self.context.limits.watch.work("round", self.name, unit="rows") as work:
            return self._rounds_of(followers, marked, passing, work)

    def _rounds_of(
        self,
        followers: Sequence[Follower],
        marked: Mapping[str, Marked],
        passing: Collection[str],
        work: Work,
    ) -> bool:
        xp, limits = self.ops.xp, self.context.limits
        number = 0
        while any(table.count for table in marked.values()):
            number += 1
            work.round = number
            limits.poll()
            found: dict[str, list[Columns]] = {name: [] for name in marked}
            for each in followers:
                if marked[each.follows].count:
                    blocks = self._follow(each, marked)
                    if blocks is None:
                        return False
                    dtypes = marked[each.plan.relation].dtypes
                    found[each.plan.relation] += [
                        tuple(map(_as, block, dtypes)) for block in blocks if len(block[0])
                    ]
            for name, table in marked.items():
                blocks = found[name]
                empty = tuple(xp.empty(0, dtype=dtype) for dtype in table.dtypes)
                table.new = self.ops.concatenate(blocks) if blocks else empty
                table.count = len(table.new[0])
                table.length += table.count
                if table.count and name not in passing:
                    table.blocks.append(table.new)
                if 2 * table.nbytes > limits.spare() + limits.held.get(name, 0):
                    table.leave(self.ops)  # the next round needs some of what is left
                limits.charge(name, table.nbytes)
            Round(
                number,
                {name: table.count for name, table in marked.items()},
                {name: table.length for name, table in marked.items()},
                self.record.end_round(),
            ).tell(work)
        return True

    def _follow(self, each: Follower, marked: Mapping[str, Marked]) -> list[Columns] | None:
        """The new rows that a join leads to; None if it cannot be printed."""
        context = self.context
        relation = each.plan.relation
        did = self.record.running(relation, each.rule)
        source = marked[each.follows]
        sources = Sources(self.trie_of, lambda _: (source.new, source.count))
        form = Form(each.join.outputs, fresh=True)
        beside = marked[relation].beside
        report = context.ledger.run_of(each.plan)
        nest = Nest(each.join, form, sources, context, beside, report is not None)
        if nest.reason is not None:
            return None
        began, before = perf_counter(), so_far()
        blocks = nest.run(relation)
        did.seconds += perf_counter() - began
        did.new = sum(len(block[0]) for block in blocks)
        choice = Choice(False, "new rows, told by marks on the device")
        did.executors[each.number] = str(choice)
        if report is not None:
            report.saw(nest.seen)
            did.tried = _tried(nest)
            report.rows += did.new
            report.executors[each.number] = choice
        self.record.ran(did)
        if report is not None:
            report.seconds += did.seconds
            report.spent(so_far() - before)
            report.bytes = max(report.bytes, did.bytes)
        return blocks

    def _relation(self, name: str, table: Marked) -> Relation:
        schema = self.inputs.schemas[name]
        blocks = self.at_one_place(Blocks(table.blocks, table.length))
        relation = relation_of(schema.columns, schema.types, [blocks], self.ops)
        self.context.device.hold(relation)
        self.context.limits.charge(name, self._held(relation))
        return relation


def _tried(nest: Nest) -> int:
    """How many rows a profile's run came to, those that were marked included."""
    steps = [step for step in nest.join.steps if not isinstance(step, Compact)]
    return nest.seen[id(steps[-1])].rows_out if steps else len(nest.given[0])


def _as(column: Array, dtype: Any) -> Array:
    return column.astype(dtype, copy=False)
