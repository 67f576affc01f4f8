"""`SignedSum`: a count as a sum of counts of other joins, which run one by one and add up exactly.

Joins count in 64 bits. If a number may exceed these, the join runs again modulo several primes,
with loops that reduce their counts; the remainders determine the exact number, however large.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, log2
from typing import Any

import numpy as np

from gdatalog.calls import LOCAL, GiveUp, NoRoomForLists, scratch_length
from gdatalog.engine.choose import choose
from gdatalog.engine.context import RuleInputs, Sources
from gdatalog.engine.depth import Form, JoinNest, form_of_bag
from gdatalog.engine.derived import Rows, laid
from gdatalog.engine.device import CPU
from gdatalog.engine.exact_counts import (
    EXACT,
    TABLES,
    CountOverflow,
    SumUnsuited,
    TooWide,
    ascends,
    exact_sum,
    once_each,
    scanned,
    times_each,
)
from gdatalog.engine.group_rows import rows_of_groups
from gdatalog.engine.remainders import combined, most_bits, primes_below
from gdatalog.engine.rules.join import JoinRun
from gdatalog.engine.rules.operator import TURN, Refusal
from gdatalog.errors import EvaluationError
from gdatalog.executors.gather import Gathering
from gdatalog.executors.sinks import Bag
from gdatalog.limits import Limits
from gdatalog.plan.conditions import Unsuited
from gdatalog.plan.join_plan import Gather, JoinPlan, RulePlan, Slot, Tally, Term, TrieRef
from gdatalog.plan.nest import entries
from gdatalog.planner.rewrite.algebra import SURE, WORD_APART, Algebra
from gdatalog.records import dataclass, replace
from gdatalog.settings import Settings
from gdatalog.storage.count_tables import EdgeCounts, Tallied
from gdatalog.storage.on_device import brought
from gdatalog.storage.rows import Columns
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie, TrieLevel
from gdatalog.values import INT_MAX

COUNT = (Gather("count", (), "~count", "int"),)
TABLES_OF_TILES = "tally", "tallied", LOCAL
TABLES_OF_LOOPS = *TABLES_OF_TILES, "kept", "lists"


def algebra_of(settings: Settings, here: bool, limits: Limits) -> Algebra:
    """The settings for signed sums; only compiled loops keep tables of counts. `here`: on the CPU,
    each of whose workers has its own table by edges or vertices."""
    workers = settings.workers if here else 1
    entries = limits.spare() // settings.thresholds.tally_share // (8 * workers)
    sure, word = (1.0, 1.0) if here else (SURE, WORD_APART)
    return Algebra(settings.algebra, settings.strategy != "levelwise", entries, sure, word)


@dataclass(frozen=True, slots=True)
class SignedSum:
    """Adds up the terms of a plan. Unsuited if its loops or their tables are, or if a number
    is too large."""

    plan: RulePlan

    def run(self, inputs: RuleInputs) -> Rows | Refusal | Unsuited:
        inputs.limits.looked += TURN
        try:
            return Sum(self.plan, inputs).rows()
        except (MemoryError, SumUnsuited):
            return Unsuited()
        finally:
            inputs.limits.charge(TABLES, 0)


class Sum:
    """One run of a rule that counts by a signed sum: exact, or modulo a number."""

    def __init__(self, plan: RulePlan, inputs: RuleInputs) -> None:
        self.plan, self.inputs = plan, inputs
        self.modulus: int | None = None
        # The tables built so far; None for a table with a number that exceeds 64 bits.
        self.tables: dict[str, Trie | EdgeCounts | None] = {}
        self._bits: dict[str, float] = {}  # upper bound of the bits of a table's counts

    def rows(self) -> Rows | Refusal:
        """The row of the rule's head."""
        inputs, plan = self.inputs, self.plan
        by_group = plan.keys or len(plan.gathers) > 1 or plan.gathers[0].kind != "count"
        ops = inputs.ops if by_group else CPU.ops
        gathering = Gathering(plan.gathers, ops, inputs.scope, inputs.limits, level=0)
        if by_group:
            self._by_group(gathering)
        else:
            total = self.total()
            if total is None:
                return Refusal("its counts leave 64 bits")
            if not -(1 << 63) <= total < 1 << 63:
                raise CountOverflow(total, plan.gathers[0].span)
            gathering.add_partials((), [np.full(1, total)])
        return rows_of_groups(plan, gathering, ops, inputs.scope)

    def table(self) -> Trie:
        """The counts by key, as a table."""
        gathering = self._gathering(self.plan.gathers)
        self._by_group(gathering)
        groups, (counts,) = gathering.finish()
        keys, counts = brought(groups[0] if groups else counts), brought(counts)
        return self._trie(keys, counts, min(INT_MAX, exact_sum(counts)))

    def _trie(self, keys: Array, counts: Array, total: int) -> Trie:
        """A table with one key column."""
        if not ascends(keys):
            order = np.argsort(keys, kind="stable")
            keys, counts = keys[order], counts[order]
        xp = self.inputs.ops.xp
        offsets = np.array([0, len(keys)], dtype=np.int64)
        level = TrieLevel(xp.asarray(keys), xp.asarray(offsets), xp)
        return Trie((level,), total, xp.asarray(counts))

    def total(self) -> int | None:
        """The exact count; None if a device would have to count beyond 64 bits."""
        total, wide = 0, {}
        for number, term in enumerate(self.plan.terms):
            try:
                if term.table:
                    self._fill(number, term)
                else:
                    total += term.coefficient * self._count(number)
            except TooWide:
                if term.table:
                    self.tables[term.table] = None
                    self._charge()
                else:
                    wide[number] = term.coefficient
        if wide:
            if self.inputs.context.device is not CPU:
                return None
            total += self._wide(wide)
        return total

    def _by_group(self, gathering: Gathering) -> None:
        """Adds the aggregates of each group that has a match."""
        plan = self.plan
        width = len(plan.keys)
        signed: list[Columns] = []
        for number, term in enumerate(plan.terms):
            if term.table:
                self._fill(number, term)
                continue
            blocks, times = self._partials(number, plan.keys, plan.gathers)
            blocks = [laid(block, self.inputs.ops) for block in blocks]
            signed += times_each(blocks, width, times * term.coefficient)
            self._charge(sum(column.nbytes for block in signed for column in block))
        whole = self._gathering(plan.gathers)
        for block in signed:
            whole.add_partials(block[:width], block[width:])
        try:
            merged = whole.merged()
        except EvaluationError:
            raise TooWide from None
        whole.give_back()
        if merged:  # the last column is the number of matches, also for sums
            rows = [column[merged[-1] > 0] for column in merged]
            if len(rows[-1]):
                gathering.add_partials(tuple(rows[:width]), rows[width:])

    def _wide(self, terms: Mapping[int, int]) -> int:
        """The sum of terms whose counts exceed 64 bits, by remainders modulo several primes."""
        plan = self.plan
        bits = {number: most_bits(plan.joins[number], self._bits_of) for number in terms}
        primes = primes_below(ceil((max(bits.values()) + 2) / 30.9))
        remainders: dict[int, list[int]] = {number: [] for number in terms}
        for prime in primes:
            self.modulus, self.tables = prime, {}
            for number, term in enumerate(plan.terms):
                if term.table:
                    self._fill(number, term)
                elif number in terms:
                    remainders[number].append(self._count(number) % prime)
        return sum(times * combined(remainders[at], primes) for at, times in terms.items())

    # ------------------------------------------------------------------------------- one join

    def _count(self, number: int) -> int:
        """The number of bindings of a join."""
        run = self._reading(number)
        join, inputs = run.join, run.inputs
        tables = all(ref.relation in self.tables for ref in join.tries)
        if tables and self.modulus is None and inputs.report is None:
            tries = [inputs.sources.trie_of(ref) for ref in join.tries]
            count = scanned(join, tries, inputs.limits)
            if count is not None:
                return count
        blocks, times = self._partials(number, (), COUNT)
        # One count per worker, whose sum may exceed 64 bits.
        return times * sum([exact_sum(brought(block[-1])) for block in blocks])

    def _fill(self, number: int, term: Term) -> None:
        """Computes a table that later joins read, or adds to it."""
        before, bits = self.tables.get(term.table), self._bits.get(term.table, 0.0)
        if term.table in self.tables and before is None:
            return  # it is too wide already
        found = self._table(number, term)
        if before is not None:
            self._bits[term.table] = max(bits, self._bits[term.table]) + 1
            found = self._added(before, found)
        self.tables[term.table] = found

    def _added(self, table: Trie | EdgeCounts, more: Trie | EdgeCounts) -> Trie | EdgeCounts:
        """The sum of two tables with the same keys."""
        if isinstance(table, EdgeCounts) and isinstance(more, EdgeCounts):
            counts = table.counts + more.counts
            total = self._total(counts, EXACT / 2)  # each edge counts in both directions
            return replace(table, counts=counts, total=total)
        assert isinstance(table, Trie) and isinstance(more, Trie)
        keys, places = np.unique(
            np.concatenate([brought(each.levels[0].values) for each in (table, more)]),
            return_inverse=True,
        )
        counts = np.zeros(len(keys), dtype=np.int64)
        weights = [brought(each.weights) for each in (table, more) if each.weights is not None]
        np.add.at(counts, places, np.concatenate(weights))
        return self._trie(keys, counts, self._total(counts, EXACT) or 0)

    def _total(self, counts: Array, most: float) -> int | None:
        """The sum of counts, which must be less than `most`. If counts are reduced, it reduces them
        in place and returns None."""
        if self.modulus is not None:
            counts %= self.modulus
            return None
        total = exact_sum(counts)
        if total >= most:  # sums of any subset must fit
            raise TooWide
        return total

    def _table(self, number: int, term: Term) -> Trie | EdgeCounts:
        """The table of a join."""
        self._bits[term.table] = most_bits(self.plan.joins[number], self._bits_of)
        if term.images:
            self._bits[term.table] += log2(len(term.images))
            local = self._local_counts(number, term)
            if isinstance(local, EdgeCounts):
                self._charge(local.nbytes)
                return local
            keys, counts = local
        else:
            (keys,), counts = self._gathered(number, term.keys)
        total = self._total(counts, EXACT)
        self._charge(keys.nbytes + counts.nbytes)
        return self._trie(keys, counts, total or 0)

    def _charge(self, more: int = 0) -> None:
        """Charges the tables, instead of the arrays that they were built from."""
        limits = self.inputs.limits
        for what in ("blocks", "aggregates"):
            limits.charge(what, 0)
        held = sum(table.nbytes for table in self.tables.values() if table is not None)
        limits.charge(TABLES, held + more)

    def _gathered(self, number: int, keys: tuple[Slot, ...]) -> tuple[Columns, Array]:
        """The groups of a join, by these keys, and their counts."""
        blocks, times = self._partials(number, keys, COUNT)
        blocks, here = times_each(blocks, len(keys), times), self.inputs.context.device is CPU
        once = once_each(blocks, self.inputs.limits) if here else None
        if once is not None:
            return once
        gathering = self._gathering(COUNT)
        for block in blocks:
            gathering.add_partials(block[: len(keys)], list(block[len(keys) :]))
        try:
            groups, (counts,) = gathering.finish()
        except EvaluationError:
            raise TooWide from None
        empty = np.zeros(0, dtype=np.int64)
        return (tuple(map(brought, groups)), brought(counts)) if groups else ((empty,), empty)

    def _partials(
        self, number: int, keys: tuple[Slot, ...], gathers: tuple[Gather, ...]
    ) -> tuple[list[Columns], int]:
        """Blocks of groups with partial aggregates, and the multiplicity of each block's
        matches."""
        run = self._reading(number, keys)
        nest, tallies = self._nest(run, keys, gathers), _keeps_tables(run.join)

        account = self.inputs.limits.account
        with account.working("tables of counts", self._room(nest) if tallies else 0):
            if self.modulus is not None:
                return self._walked(nest), run.join.orbit
            for attempt in run.attempts(nest):
                with attempt:
                    if not attempt.choice.breadth_first:
                        return self._walked(nest), run.join.orbit
                    if tallies:
                        raise SumUnsuited
                    gathering = self._gathering(gathers)
                    try:
                        run.levelwise(Bag(keys, gathering), attempt.choice.shared)
                        merged = gathering.merged()
                    except EvaluationError:
                        raise TooWide from None
                    return ([merged] if merged else []), 1
        raise AssertionError("no attempt completed")

    def _local_counts(self, number: int, term: Term) -> EdgeCounts | tuple[Array, Array]:
        """The ranks of vertices with a match, and their counts; or the counts of edges."""
        run = self._reading(number, term.keys)
        join, inputs, nest = run.join, run.inputs, self._nest(run, term.keys, COUNT)

        with inputs.limits.account.working("tables of counts", self._room(nest)):
            for attempt in run.attempts(nest):
                with attempt:
                    if attempt.choice.breadth_first:
                        raise SumUnsuited
                    (argument,) = (each for each in nest.plain.arguments if each.kind == LOCAL)
                    length = scratch_length(argument, [nest.tries[at] for at in nest.plain.which])
                    counts: Array = inputs.ops.xp.zeros(length, dtype=np.int64)
                    nest.marks = {**nest.marks, LOCAL: counts}
                    self._walked(nest)
            # Each edge counts in both directions.
            total = self._total(counts, EXACT / 2 / join.orbit)
            if join.orbit > 1:
                counts *= join.orbit
                total = self._total(counts, EXACT / 2)
            if len(term.keys) == 2:
                ref = entries(join)[term.images[0]].trie
                edges = nest.tries[join.tries.index(ref)]
                way = replace(ref, tests=((0, "<", 1),))
                once = None if ref.tests else inputs.sources.trie_of(way)
                return EdgeCounts(edges, counts, inputs.ops, total, once)
            counts = brought(counts)
            keys = np.flatnonzero(counts)
            return keys, counts[keys]

    def _nest(self, run: JoinRun, keys: tuple[Slot, ...], gathers: tuple[Gather, ...]) -> JoinNest:
        """The loops of a join, which aggregate by key or count by `images`."""
        join, inputs = run.join, run.inputs
        modular, images = self.modulus is not None, self.plan.terms[run.number].images
        form = Form(images=images) if images else form_of_bag(keys, gathers)
        form = replace(form, modular=modular, keeps=not images and _keeps_tables(join))
        moduli = {"moduli": np.array([self.modulus], dtype=np.int64)} if modular else {}
        counted = inputs.report is not None
        return JoinNest(join, form, inputs.sources, inputs.context, moduli, counted)

    def compile_ahead(self) -> None:
        """Compiles the loops that read no table of this sum on another thread."""
        plan = self.plan
        tables = {term.table for term in plan.terms}
        for number, (join, term) in enumerate(zip(plan.joins, plan.terms, strict=True)):
            if tables.isdisjoint(ref.relation for ref in join.tries):
                keys, gathers = (term.keys, COUNT) if term.table else (plan.keys, plan.gathers)
                nest = self._nest(self._reading(number, keys), keys, gathers)
                if nest.reason is None and not choose(nest).breadth_first:
                    nest.compile_soon(plan.relation)

    def _walked(self, nest: JoinNest) -> list[Columns]:
        """Runs the loops; without the cache of intersections if that does not fit."""
        try:
            return nest.run(self.plan.relation)
        except NoRoomForLists:
            nest.keep_nothing()
            return self._walked(nest)
        except GiveUp as reason:
            if str(reason):
                raise
            raise TooWide from None

    def _room(self, nest: JoinNest) -> int:
        """The bytes of the tables that loops keep, including cached lists if these fit."""
        spare = nest.context.limits.spare()
        here = nest.context.device is CPU
        most = min(spare, nest.context.device.room(spare)[0])
        most //= nest.context.thresholds.tally_share
        size = _kept_bytes(nest)
        if size > most and nest.form.keeps:
            nest.keep_nothing()
            size = _kept_bytes(nest)
        if size > most:
            raise SumUnsuited("tables of counts would not fit into the memory limit")
        return size if here or nest.form.images else 0  # on a GPU the launch charges them

    def _gathering(self, gathers: tuple[Gather, ...]) -> Gathering:
        return Gathering(gathers, self.inputs.ops, self.inputs.scope, self.inputs.limits)

    def _reading(self, number: int, keys: tuple[Slot, ...] = ()) -> JoinRun:
        """The run of one join, which reads tables and relations."""
        kept = {step.table for step in self.plan.joins[number].steps if isinstance(step, Tally)}
        sources = self.inputs.sources

        def trie_of(ref: TrieRef) -> Any:
            if ref.relation in kept:
                return Tallied(len(ref.columns))
            if ref.relation not in self.tables:
                return sources.trie_of(ref)
            table = self.tables[ref.relation]
            if table is None:
                raise TooWide
            if isinstance(table, EdgeCounts):
                index = ref.columns, ref.tests, ref.weighted
                table = table.trie(*index, self.inputs.limits.account)
                self._charge()
            return table

        plan = replace(self.plan, keys=keys)
        return JoinRun(plan, number, replace(self.inputs, sources=Sources(trie_of)))

    def _bits_of(self, ref: TrieRef) -> float:
        if ref.relation in self._bits:
            return self._bits[ref.relation]
        return log2(max(1, self.inputs.sources.trie_of(ref).total))


def _keeps_tables(join: JoinPlan) -> bool:
    return any(isinstance(step, Tally) for step in join.steps)


def _kept_bytes(nest: JoinNest) -> int:
    if nest.reason is not None:
        raise SumUnsuited(nest.reason)
    tries = [nest.tries[at] for at in nest.plain.which]
    here = nest.context.device is CPU
    kinds = TABLES_OF_LOOPS if here else TABLES_OF_TILES
    each_worker = nest.settings.workers if here else nest.context.thresholds.tally_tiles
    of_local = each_worker + 2 if here else 2  # with the sums and a copy
    return 8 * sum(
        (of_local if each.kind == LOCAL else each_worker) * scratch_length(each, tries)
        for each in nest.plain.arguments
        if each.kind in kinds
    )
