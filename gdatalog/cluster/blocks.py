"""A rule over one relation whose rows lie on workers: its blocks are worked on where they lie.

A block is a part of the relation, or some of its rows. What else the rule reads each worker has
whole. No row of the relation is moved, sorted or indexed; of files only the columns are read that
the rule asks for. Where rows that are there twice would count twice they are compared first, and of
a rule with tests only those that pass.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from gdatalog.cluster.exchange import parts_of, place_of, size_of
from gdatalog.cluster.parts import columns_of
from gdatalog.cluster.pool import Call, Stage, TooLarge
from gdatalog.cluster.replicated import SpreadRun, too_small
from gdatalog.cluster.tasks import Found, Mode, Sealed, light
from gdatalog.cluster.work import complete, look_through
from gdatalog.cpu_ops.evaluate import Scope
from gdatalog.engine.device import CPU
from gdatalog.engine.knobs import Knobs
from gdatalog.engine.spread import Spread
from gdatalog.plan.cells import EVERYTHING
from gdatalog.plan.effects import longest_first, one_row_each, widens
from gdatalog.plan.nodes import Expr, Filter, JoinPlan, TrieRef
from gdatalog.storage.afar import AfarRows, Part
from gdatalog.storage.elsewhere import Known
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable

PIECES = 8  # into which a block is cut that takes long, or does not fit
FEW = 1000  # rows that are run to their end, however long that takes
WORTH = 0.5  # of the rows that pass tests, up to which these are found before rows are compared


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a part, on the worker that has them, if one has."""

    part: Part
    start: int
    stop: int
    home: str | None

    @property
    def rows(self) -> int:
        return self.stop - self.start

    def cut(self) -> list[Block]:
        ends = np.linspace(self.start, self.stop, min(PIECES, self.rows) + 1).astype(int).tolist()
        return [replace(self, start=low, stop=high) for low, high in pairwise(ends)]


@dataclass(slots=True)
class BlockRun(SpreadRun):
    """The run of a rule that is given the rows of one relation, block by block."""

    relation: Relation = None  # type: ignore[assignment]
    blocks: int = 0

    def told(self) -> Spread:
        name, workers = self.plan.passes_over, len(self.pool.connection.client.nthreads())
        assert name is not None
        told = in_place(name, self.relation, workers)
        return replace(told, cells=self.blocks, moved=self.merged, calls=self.calls)

    def _apart(self) -> bool:
        if len(self.plan.joins) > 1 or not one_row_each(self.plan.joins[0]):
            return False
        given, rows = self.plan.joins[0].given, self.relation.afar
        assert given is not None and rows is not None
        return len(given.columns) == len(self.relation.types) and rows.known >= Known.DISTINCT

    def _knobs(self, join: JoinPlan) -> Knobs:
        return SpreadRun._knobs(self, join) if widens(join) else replace(self.knobs, threads=1)

    def _spread(
        self, number: int, mode: Mode, limit: int | None = None
    ) -> Generator[Found, None, None]:
        self.limits.watch.innermost.one_of(number, len(self.plan.joins))
        for found in _Passing(self, number, mode, limit).run():
            self._take(number, mode, found)
            yield found


def in_place(name: str, relation: Relation, workers: int) -> Spread:
    """How a rule is spread that is given the rows of a relation where they lie."""
    rows = relation.afar
    return Spread("in place", workers, None if rows is None else len(rows.parts), stays=name)


class _Passing:
    """One join, on its way over all blocks."""

    def __init__(self, run: BlockRun, number: int, mode: Mode, limit: int | None) -> None:
        join = run.plan.joins[number]
        assert join.given is not None and run.relation.afar is not None
        self.run_of = run
        self.columns = join.given.columns
        self.names = [slot.name for slot in join.given.slots]
        self.firm = not widens(join)
        made = {ref: run.sources.trie_of(ref) for ref in longest_first(join.tries)}
        self.tries = {ref: run.pool.place(id(made[ref]), made[ref]) for ref in join.tries}
        memory = run.limits.memory or 1 << 40
        self.sealed, self.table = run.task(number, mode, limit, memory)
        rows = run.relation.afar
        self.parts = self._distinct(rows, join) if join.bag else rows.parts
        run.blocks += len(self.parts)
        self.whole = max(1, sum(part.rows for part in self.parts))
        self.done = 0

    # ---------------------------------------------------------------------- rows, each once

    def _distinct(self, rows: AfarRows, join: JoinPlan) -> Sequence[Part]:
        """Parts that have each of the rows once, but for rows that come to nothing."""
        tests: list[Expr] = []
        for step in join.steps:
            if not isinstance(step, Filter):
                break
            tests.append(step.test)
        if rows.known >= Known.DISTINCT or not tests or self._share(rows, tests) > WORTH:
            return rows.make_distinct()
        run = self.run_of
        stage = run.pool.stage(f"{run.plan.relation}: tests", run.limits)
        for block in self._blocks(rows.parts):
            args = (self.sealed, block.part.value, self.columns, self.names, tests, self.table)
            stage.add(Call(passing, args, True, block.home, told=size_of))
        parts = parts_of([kept for _, kept in stage])
        return AfarRows(parts, rows.keeper, Known.NOTHING).make_distinct() if parts else ()

    def _share(self, rows: AfarRows, tests: Sequence[Expr]) -> float:
        """About which part of the rows passes tests."""
        sample = rows.survey.sample
        known = dict(zip(self.names, (sample[at] for at in self.columns), strict=True))
        mask = _mask(known, len(sample[0]), tests, self.run_of.scope)
        return float(np.count_nonzero(mask)) / max(1, len(sample[0]))

    # --------------------------------------------------------------------------- blocks

    def _blocks(self, parts: Sequence[Part]) -> Iterator[Block]:
        homes = place_of(self.run_of.pool, [part.value for part in parts])
        for part, home in zip(parts, homes, strict=True):
            yield Block(part, 0, part.rows, home)

    def run(self) -> Iterator[Found]:
        """What the blocks give, as they are done."""
        run = self.run_of
        stage = run.pool.stage(run.plan.relation, run.limits, self._smaller)
        for block in self._blocks(self.parts):
            stage.add(self._call(block))
        try:
            for call, given in stage:
                if isinstance(call.tag, Found):
                    call.tag.kept = given
                    yield call.tag
                    continue
                found = given.told if call.keep else given
                self._back(stage, call.tag, found)
                if found.left is not None:
                    stage.add(Call(as_told, (given, *call.args), True, call.worker, found))
                elif found.cells:
                    yield found
        finally:
            stage.cancel()

    def _call(self, block: Block) -> Call:
        firm = self.firm or block.rows <= FEW
        where = (block.start, block.stop) if block.rows < block.part.rows else None
        args = (
            self.sealed, block.part.value, self.columns, where, firm, self.tries, self.table,
        )  # fmt: skip
        return Call(run_block, args, self.run_of.keep, block.home, block, light)

    def _back(self, stage: Stage, block: Block, found: Found) -> None:
        """A block that was too much is cut."""
        if found.cells:
            self.done += block.rows
            self.run_of.limits.watch.part(int(1000 * self.done / self.whole), 1000)
            return
        if block.rows < 2:
            assert found.error is not None
            raise too_small(found.error)
        for piece in block.cut():
            stage.add(self._call(piece))

    def _smaller(self, large: TooLarge) -> list[Call]:
        """Calls in the place of one for which a worker had not enough memory."""
        block = large.call.tag
        if isinstance(block, Found) or block.rows < 2:
            return []
        return [self._call(piece) for piece in block.cut()]


# ------------------------------------------------------------------------------- on a worker


def run_block(
    sealed: Sealed,
    value: Any,
    columns: Sequence[int],
    where: tuple[int, int] | None,
    firm: bool,
    tries: Mapping[TrieRef, Any],
    symbols: SymbolTable | None,
) -> Found:
    """What a join gives for the rows of a part, or for those from one place to another."""
    rows = columns_of(value, columns)
    if where is not None:
        rows = tuple(column[slice(*where)].copy() for column in rows)
    return look_through(sealed, [EVERYTHING], None, firm, tries, symbols, rows)


def as_told(
    found: Found,
    sealed: Sealed,
    value: Any,
    columns: Sequence[int],
    where: tuple[int, int] | None,
    firm: bool,
    tries: Mapping[TrieRef, Any],
    symbols: SymbolTable | None,
) -> Found:
    """What a call found, as it was told: see `work.as_told`."""
    if found.cells:
        return found
    return complete(run_block(sealed, value, columns, where, True, tries, symbols), 1)


def passing(
    sealed: Sealed,
    value: Any,
    columns: Sequence[int],
    names: Sequence[str],
    tests: Sequence[Expr],
    symbols: SymbolTable | None,
) -> Columns:
    """The rows of a part, whole, that pass tests of some of their columns, which have names."""
    rows = columns_of(value)
    known = {name: rows[at] for name, at in zip(names, columns, strict=True)}
    task = sealed.opened().task
    mask = _mask(
        known, len(rows[0]), tests, Scope(symbols or task.few or SymbolTable(), task.params)
    )
    kept = np.flatnonzero(mask)
    return tuple(column[kept] for column in rows)


def _mask(known: Mapping[str, Any], count: int, tests: Sequence[Expr], scope: Scope) -> Any:
    mask = np.ones(count, dtype=np.bool_)
    for test in tests:
        mask &= CPU.ops.test(test, known.__getitem__, count, scope)
    return mask
