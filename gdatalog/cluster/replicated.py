"""A rule over relations that each worker has whole: its joins cut into pieces, many more than
workers, that these take as they become free."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from gdatalog.cluster.cutting import DEEP, Cutting, Piece
from gdatalog.cluster.harvest import Harvest, merges_afar
from gdatalog.cluster.pool import Call, Kept, Placed, Pool, Stage, TooLarge
from gdatalog.cluster.tasks import Found, Mode, Sealed, Task, light
from gdatalog.cluster.texts import FewTexts, placed_texts, reads_texts
from gdatalog.cluster.work import as_told, look_through
from gdatalog.engine.choose import ASKED_FOR, AT_HAND, Choice, looked_at
from gdatalog.engine.derived import Blocks, Derived
from gdatalog.engine.knobs import Knobs
from gdatalog.engine.run import Run
from gdatalog.engine.spread import Spread
from gdatalog.errors import MemoryLimitError
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.effects import all_steps, longest_first, one_row_each
from gdatalog.plan.nodes import JoinPlan, TrieRef
from gdatalog.storage.afar import Keeper

BUDGET = 1.0  # seconds that a call may take, and then gives back what it has not come to
LEAST = 0.05  # the same at the least
SHORT = 0.03  # seconds of a call that is worth calling
SHARES, FIRST = 1.5, 4  # of what is left, and of all as long as nobody knows how fast they work
RATE = 2e7  # rows a second, until it is known
AHEAD = 2  # calls for each thread of the workers: one runs, one waits there


@dataclass(slots=True)
class SpreadRun(Run):
    """The run of a rule whose joins are run by workers, piece by piece; what they give is put
    together here."""

    pool: Pool = None  # type: ignore[assignment]
    keeper: Keeper | None = None
    keep: bool = False  # whether rows and groups stay where they are made, if they are many
    merged: int = 0  # bytes that went from worker to worker for what they have together
    calls: int = 0

    def told(self) -> Spread:
        """How the work was spread, for a profile."""
        workers = len(self.pool.connection.client.nthreads())
        return Spread("replicated", workers, moved=self.merged or None, calls=self.calls)

    def rows(self, limit: int | None) -> Derived:
        plan = self.plan
        harvested = limit is None and self.keeper is not None and plan.head and plan.joins
        if not harvested or (plan.gathers and not merges_afar(plan)):
            return Run.rows(self, limit)
        assert self.keeper is not None
        harvest = Harvest(self.pool, self.keeper, plan, self.scope, self.limits)
        self.keep = True
        if plan.gathers:
            for (number,) in plan.groups:
                for found in self._spread(number, "bag"):
                    self._count(found.given)
                    harvest.add_groups(found)
            derived = harvest.groups()
            self.merged = harvest.moved
            return derived
        distinct = self._apart()
        for number in range(len(plan.joins)):
            for found in self._spread(number, "distinct" if distinct else "set"):
                self._count(found.given)
                harvest.add_rows(found)
        derived = harvest.rows(distinct)
        self.merged = harvest.moved
        return derived

    def _apart(self) -> bool:
        """Whether no two calls give the same row."""
        return len(self.plan.joins) == 1 and one_row_each(self.plan.joins[0])

    def _distinct(self, sink: RowSet) -> Derived:
        blocks: list[Any] = []
        held = 0
        for found in self._spread(0, "distinct"):
            blocks += found.blocks
            held += sum(column.nbytes for block in found.blocks for column in block)
            self.limits.charge("answers", held)
        count = sum(len(block[0]) for block in blocks)
        self._count(count)
        return Blocks(blocks, count) if blocks else sink.finish()

    def into_set(self, number: int, sink: RowSet) -> None:
        if sink.done:
            return
        sink.outputs = self.plan.joins[number].outputs
        with closing(self._spread(number, "set", sink.limit)) as parts:
            for found in parts:
                given = sink.given + found.given
                sink.add_blocks(found.blocks)
                sink.given = given
                if sink.limit is not None and sink.settle():
                    return

    def into_bag(self, number: int, gathering: Gathering) -> Gathering:
        for found in self._spread(number, "bag"):
            if found.gathering is not None:  # some come to no cell: theirs were too much
                gathering.join(found.gathering)
        return gathering

    # ------------------------------------------------------------------------------ spreading

    def _spread(
        self, number: int, mode: Mode, limit: int | None = None
    ) -> Generator[Found, None, None]:
        """What workers give for the pieces of a join."""
        join = self.plan.joins[number]
        made = {ref: self.sources.trie_of(ref) for ref in longest_first(join.tries)}
        tries = {ref: made[ref] for ref in join.tries}
        self.limits.watch.innermost.one_of(number, len(self.plan.joins))
        handing = Handing(self, number, mode, limit, tries)
        for found in handing.run():
            self._take(number, mode, found)
            yield found

    def _take(self, number: int, mode: Mode, found: Found) -> None:
        """Translates what a worker has given, and notes what it did."""
        self.calls += 1
        join = self.plan.joins[number]
        if len(found.anew.codes):
            recoded = found.anew.coder(self.scope.symbols)
            if found.gathering is not None:
                found.gathering.recode([key.type for key in self.plan.keys], recoded)
            types = [output.type for output in join.outputs]
            found.blocks = [
                tuple(
                    recoded(column) if kind == "symbol" else column
                    for column, kind in zip(block, types, strict=True)
                )
                for block in found.blocks
            ]
        for message, caution in found.cautions.items():
            self.scope.cautions.setdefault(message, caution)
        if found.executor is not None:
            chosen: Choice = found.executor
            if chosen.reason == ASKED_FOR and self.knobs.strategy == "auto":
                chosen = replace(chosen, reason=looked_at(join.cost))  # which is why we asked
            self._chosen(number, chosen)
        if self.report is not None:
            steps = list(all_steps(join.steps))
            self.report.saw({id(steps[at]): seen for at, seen in found.seen.items()})

    def task(
        self, number: int, mode: Mode, limit: int | None, memory: int
    ) -> tuple[Sealed, Placed | None]:
        """What all calls of a join have in common, and the symbol table if its texts are read."""
        plan, symbols = self.plan, self.scope.symbols
        table: Placed | None = None
        few: FewTexts | None = None
        if reads_texts(plan):
            table = placed_texts(self.pool, symbols)
        else:
            few = FewTexts.of(plan, self.scope.params, symbols)
        task = Task(
            plan, number, self.scope.params, memory, self._knobs(plan.joins[number]), mode,
            len(symbols), few, limit, self.report is not None, self.limits.chunk,
            self.pool.connection.device if table is None else "cpu",
        )  # fmt: skip
        return Sealed.of(task), table

    def _knobs(self, join: JoinPlan) -> Knobs:
        """What workers are told: each call has one thread, and none tries first what is too slow
        for so much work."""
        knobs = replace(self.knobs, threads=1)
        if knobs.strategy == "auto" and join.cost >= AT_HAND:
            knobs = replace(knobs, strategy="lftj")
        return knobs


class Handing:
    """The pieces of a join, handed to workers until all are done."""

    def __init__(
        self,
        run: SpreadRun,
        number: int,
        mode: Mode,
        limit: int | None,
        tries: Mapping[TrieRef, Any],
    ) -> None:
        plan, pool = run.plan, run.pool
        self.run_of = run
        self.slots = max(1, pool.slots)
        self.placed = {ref: pool.place(id(trie), trie) for ref, trie in tries.items()}
        self.sealed, self.table = run.task(number, mode, limit, run.limits.memory or 1 << 40)
        self.cutting = Cutting(plan.joins[number], tries, run.scope, self.slots)
        self.flying = 0
        self.rate: float | None = None  # cost a second, of one thread
        self.done = 0.0

    def run(self) -> Iterator[Found]:
        """What the calls give, as they end."""
        run = self.run_of
        stage = run.pool.stage(run.plan.relation, run.limits, self._smaller)
        self._send(stage)
        try:
            for call, given in stage:
                if isinstance(call.tag, Found):
                    call.tag.kept = given
                    yield call.tag
                    continue
                found = given.told if call.keep else given
                if found.left is not None:
                    stage.add(self._as_told(call, given, found))
                self.flying -= 1
                self._back(stage, call.tag, found)
                self._send(stage)
                if found.left is None:
                    yield found
        finally:
            stage.cancel()

    def _send(self, stage: Stage) -> None:
        """Has as many calls under way as keep all workers at work."""
        while self.cutting and self.flying < AHEAD * self.slots:
            self._call(stage, self.cutting.take(self._next()), False)

    def _next(self) -> float:
        """What the next call is to cost: a part of what is left, so that all end together; but it
        is to be worth calling."""
        whole = self.cutting.total / self.slots
        least = SHORT * (self.rate or RATE)
        if self.rate is None:
            least = max(least, whole / FIRST)
        least = min(least, whole / 2)
        return max(least, self.cutting.left / (SHARES * self.slots))

    def _as_told(self, call: Call, kept: Kept, found: Found) -> Call:
        """What stays of a call: however often it is made again, of the same cells."""
        sealed, cells, _, _, tries, table = call.args
        return Call(as_told, (kept, found.cells, sealed, cells, tries, table), True, tag=found)

    def _smaller(self, large: TooLarge) -> list[Call]:
        """Calls in the place of one for which a worker had not enough memory."""
        if isinstance(large.call.tag, Found):
            return []
        pieces: Sequence[Piece] = large.call.tag
        if len(pieces) == 1:
            deep = pieces[0].again >= DEEP
            pieces = () if deep else self.cutting.smaller(pieces[0]) or ()
        self.flying += len(pieces) - 1
        return [self._made([piece], False) for piece in pieces]

    def _call(self, stage: Stage, pieces: Sequence[Piece], firm: bool) -> None:
        stage.add(self._made(pieces, firm))
        self.flying += 1

    def _made(self, pieces: Sequence[Piece], firm: bool) -> Call:
        cost = sum(piece.cost for piece in pieces)
        seconds = BUDGET
        if self.rate is not None:
            seconds = min(BUDGET, max(LEAST, 2 * cost / self.rate))
        cells = pickle.dumps([piece.cell for piece in pieces])
        args = (self.sealed, cells, seconds, firm, self.placed, self.table)
        return Call(look_through, args, self.run_of.keep, tag=tuple(pieces), told=light)

    def _back(self, stage: Stage, pieces: Sequence[Piece], found: Found) -> None:
        """What a call has done and what it has left."""
        cost = sum(piece.cost for piece in pieces[: found.cells])
        self.done += cost
        if cost and found.seconds:
            rate = cost / found.seconds
            self.rate = rate if self.rate is None else (self.rate + rate) / 2
        left = list(pieces[found.cells :])
        if found.error is not None and len(pieces) > 1:
            for piece in left:  # each by itself, before it is said that one is too much
                self._call(stage, [piece], False)
            left = []
        elif found.hard:
            hard = left.pop(0)
            smaller = self.cutting.smaller(hard)
            if found.error is not None and (smaller is None or hard.again >= DEEP):
                raise too_small(found.error)
            if smaller is not None:
                left += smaller
            else:
                self._call(stage, [hard], True)
        self.cutting.add(left)
        self.run_of.limits.watch.part(int(1000 * self.done / self.cutting.total), 1000)


def too_small(error: MemoryLimitError) -> MemoryLimitError:
    """What to say where even one value of each variable does not fit into a worker."""
    error.hint = "workers with more memory; or fewer threads on each, which share it"
    return error
