"""`InPlaceLattice`: recursive min and max by compiled loops that improve best values in place.

There are no rounds: an improved group waits in a worklist, and the rows that follow from it are
compared with the best values at once (`printer/lattice.py`). This covers rules with one recursive
atom each. Rounds run what cannot be printed, may fail or overflow, and small work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter

import numpy as np

from gdatalog.calls import COUNTS, UNITS, GiveUp
from gdatalog.cpu_ops.best_values import AT_ONCE, BYTES, BestValues
from gdatalog.cpu_ops.loose_tries import loose_of, loose_tries
from gdatalog.engine.context import ExecutionContext, Operator, StratumInputs
from gdatalog.engine.depth import counted
from gdatalog.engine.derived import Rows, union_rows
from gdatalog.engine.device import CPU, compiled_function
from gdatalog.engine.draft import StratumDraft
from gdatalog.engine.fixpoint import group_numbers, spans
from gdatalog.engine.fixpoint.lattice_rounds import LatticeRounds, improves_for_ever
from gdatalog.engine.metrics import Way
from gdatalog.engine.operators import Relations
from gdatalog.engine.operators.base import LeafOperator
from gdatalog.engine.operators.fallback import WithFallback
from gdatalog.engine.planned_rules import PlannedRules
from gdatalog.engine.prepared_rules import PreparedRules
from gdatalog.engine.stratum_run import StratumRun
from gdatalog.executors.lftj import JoinWorker, LoopCall, run_workers, tallied
from gdatalog.executors.sinks import StepCounts
from gdatalog.overhead import spending, time_spent
from gdatalog.plan import join_plan as p
from gdatalog.plan.conditions import Bytes, TooManyRows, Unsuited, When
from gdatalog.plan.effects import all_steps, expressions, participants
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.motions import PLAIN, Fixed, Motion, Moving, motion
from gdatalog.planner.placement import Work
from gdatalog.planner.rewrite.program_sizes import Expected
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.lattice import GROW, ROUND, BestRelation, Follow, print_lattice
from gdatalog.printer.layouts import layouts_of
from gdatalog.printer.module import PrintedPlan
from gdatalog.records import dataclass
from gdatalog.storage.key_space import span_of
from gdatalog.storage.keys import decode_value, narrow
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import joined_column
from gdatalog.storage.rows import Columns, Span, firsts
from gdatalog.storage.spill import Blocks
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie
from gdatalog.values import TypeName

MOST_GROUPS = 1 << 30
OFTEN = 2_000.0  # visits of a row, for the choice of compiler passes
LEAST_ROOM = 1024  # for groups that are numbered
Part = tuple[Array | None, Array, Array]  # partition values, codes, best values of groups
SAFE_INT, SAFE_FLOAT = 2.0**62, 1e290


class _Left(Exception):
    """Why rounds do the work instead, for a user."""


@dataclass(frozen=True, slots=True)
class InPlaceLattice(LeafOperator):
    """`kept`: the relations and the columns of their best values. `follows`: the joins that start
    from an improved group."""

    of: PlannedRules
    kept: tuple[BestRelation, ...]
    follows: tuple[Follow, ...]
    by_parts = "group by group"

    def __str__(self) -> str:
        return "best values are improved in place"

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, p.RulePlan]]:
        return self.of.pairs

    def work(self, expected: Expected, context: ExecutionContext) -> Work:
        return Work(expected.looked, turns=max(1, len(self.of.stratum.rules)))

    def prepare(self, context: ExecutionContext) -> PreparedRules:
        return PreparedRules(self.of)

    def run(
        self, prepared: PreparedRules, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Relations | When:
        found = InPlace(self, prepared, inputs).run()
        return Unsuited() if found is None else found


def applies(draft: StratumDraft) -> InPlaceLattice | None:
    """If every relation has one min or max, and every rule one recursive atom."""
    context, stratum = draft.context, draft.stratum
    if context.device is not CPU or context.settings.strategy == "levelwise" or draft.limited:
        return None
    if not stratum.recursive or not draft.optima:
        return None
    kept = []
    for name in stratum.relations:
        kinds, types = draft.optima.get(name, {}), draft.inputs.schemas[name].types
        if len(kinds) != 1:
            return None
        [(at, kind)] = kinds.items()
        if types[at] == "symbol":  # texts are compared by their ranks
            return None
        kept.append(BestRelation(name, len(types), at, kind))
    follows: list[Follow] = []
    for plan in draft.later:
        found = _follows(plan, kept)
        if found is None:
            return None
        follows += found
    return InPlaceLattice(draft.planned, tuple(kept), tuple(follows))


def over(found: InPlaceLattice, draft: StratumDraft, rounds: Operator) -> Operator:
    """With rounds for what it does not suit; and first, where rules scan few rows, because rounds
    need no compilation."""
    context, thresholds = draft.context, draft.context.thresholds
    suited = WithFallback(found, (Unsuited(),), rounds)
    size = scanned_rows(found.follows, draft.inputs)
    if context.settings.strategy == "lftj" or size >= thresholds.in_place_from:
        return suited
    enough = TooManyRows(thresholds.rounds_most), Bytes(context.memory)
    return suited if draft.met(enough) else WithFallback(rounds, enough, suited)


def scanned_rows(follows: Sequence[Follow], inputs: StratumInputs) -> int:
    """How many rows the rules scan."""
    names = {ref.relation for follow in follows for ref in follow.join.tries}
    return sum(inputs.relation(name).at_most for name in names)


def _follows(plan: p.RulePlan, kept: Sequence[BestRelation]) -> list[Follow] | None:
    """The joins of a rule, one for each recursive atom; None if they cannot run in place."""
    head = list(plan.head)
    optimum = next(each.optimum for each in kept if each.name == plan.relation)
    if plan.gathers:
        (gather,) = plan.gathers
        if head[optimum] != p.Slot(gather.variable, gather.type):
            return None  # the head computes with the aggregate
        head[optimum] = gather.targets[0]
    names, found = {each.name for each in kept}, []
    for join in plan.joins:
        if join.given is None or any(ref.relation in names for ref in join.tries):
            return None  # several recursive atoms
        onwards = _leads_on(join, head[optimum], kept)
        found.append(Follow(join, plan.relation, tuple(head), onwards))
    return found


def _leads_on(join: p.JoinPlan, value: p.Expr, kept: Sequence[BestRelation]) -> bool:
    """Whether a rule adds to the value that it starts from."""
    assert join.given is not None
    source = next(each for each in kept if each.name == join.given.relation)
    known: dict[str, Motion] = {join.given.slots[source.optimum].name: Moving(True)}
    for step in join.steps:
        if isinstance(step, p.Assign):
            known[step.variable] = motion(step.expr, known, source.kind)
    moves = motion(value, known, source.kind)
    return isinstance(moves, Moving) and not moves.bends


class InPlace(StratumRun):
    """One evaluation in place."""

    def __init__(self, plan: InPlaceLattice, prepared: PreparedRules, inputs: StratumInputs):
        super().__init__(prepared, inputs)
        self.kept, self.follows = [*plan.kept], plan.follows
        self.plans = [later for _, later in plan.of.later]
        self.known: spans.Known = {}  # the ranges of groups
        self.seen: dict[int, StepCounts] = {}  # by id of the step, if counted

    @property
    def size(self) -> int:
        return scanned_rows(self.follows, self.inputs)

    # --------------------------------------------------------------------------------- running

    def run(self) -> dict[str, Relation] | None:
        """Returns the relations; None if rounds have to do the work after all."""
        try:
            with self.context.limits.watch.work("joining", self.name, unit="values"):
                return self._run_in_place()
        except (_Left, group_numbers.Uncoded, Unprintable, GiveUp):
            return None
        finally:
            self.context.limits.charge("best values", 0)

    def _run_in_place(self) -> dict[str, Relation]:
        began = perf_counter()
        self.record.doing = name = "best values in place"
        rows = {name: union_rows(self.first(name), self.ops) for name in self.tables}
        before = time_spent()
        scope = self.context.scope
        self.known = group_numbers.group_spans(
            self.kept, rows, self.follows, self.inputs.relation, scope
        )
        # Up to so many codes are used as the groups' numbers.
        size = self.size + sum(count for _, count in rows.values())
        spare = self.context.limits.spare() // (2 * BYTES * self.context.settings.workers)
        most = min(self.context.thresholds.direct_groups_most, 16 * size + 4096, spare)
        split = group_numbers.passed_on(self.kept, self.follows)
        if split is not None and group_numbers.group_codes(split, self.known).total <= most:
            self.kept = list(split)
        codes = group_numbers.group_codes(self.kept, self.known)
        if not codes.total:
            return self.finished()
        numbered = codes.total > most
        moves = [self._motion(follow) for follow in self.follows]
        self._bounded(rows, moves, 4.0 * (MOST_GROUPS if numbered else codes.total) + 4096)
        ordered = worsen(self.kept, moves)
        threads = 1
        if self.kept[0].split is not None:
            threads = self._by_units(codes, rows, ordered)
        else:
            self._as_whole(codes, rows, ordered, numbered)
        found = self.finished()
        lengths = {name: relation.length for name, relation in found.items()}
        seconds, costs = perf_counter() - began, time_spent() - before
        groups = sum(lengths.values())
        way = Way(name, groups, "groups", threads, None, seconds, costs, self.seen)
        self.tell_way(way, self.plans, lengths, name)
        return found

    def _as_whole(
        self,
        codes: group_numbers.GroupCodes,
        rows: Mapping[str, Rows],
        ordered: bool,
        numbered: bool,
    ) -> None:
        """Evaluates all groups together."""
        limits = self.context.limits
        seeds, costs, _ = codes.seeds(rows)
        if ordered and not bool((costs[1:] >= costs[:-1]).all()):
            order = np.argsort(costs, kind="stable")
            seeds, costs = seeds[order], costs[order]
        room = codes.total if not numbered else max(LEAST_ROOM, len(seeds))
        size = BestValues.bytes_for(room, numbered)
        spill = limits.account.spill_for(size)
        limits.charge("best values", size if spill is None else 0)
        values = BestValues(seeds, costs, room, numbered=numbered, ordered=ordered, spill=spill)
        call = self._loops(codes, numbered, values.arrays)
        worker = call.worker(1)
        while True:
            run_workers([worker], call.control, limits)
            if worker.status != GROW:
                break
            room = 2 * len(values.arrays["best"])
            if room > MOST_GROUPS:
                raise _Left("there are too many groups")
            size = BestValues.bytes_for(room, True)
            spill = limits.account.spill_for(size)
            limits.charge("best values", values.nbytes + (size if spill is None else 0))
            values.grow(spill)
            for name, array in values.arrays.items():
                worker.call.set(name, array)
            limits.charge("best values", values.nbytes)
        if worker.status == ROUND:
            self._raise_for_ever(codes, values.found, None)
        self._saw(call.printed, [worker])
        self._keep_all(
            codes,
            lambda: ((None, found, costs) for found, costs in values.values()),
            values.ascending,
        )

    def _by_units(
        self, codes: group_numbers.GroupCodes, rows: Mapping[str, Rows], ordered: bool
    ) -> int:
        """Evaluates groups by partition value, separately; returns the number of threads."""
        limits = self.context.limits
        seeds, costs, splits = codes.seeds(rows)
        order = np.lexsort((costs, splits))
        seeds, costs, splits = seeds[order], costs[order], splits[order]
        first = np.flatnonzero(firsts(splits))
        units, starts = splits[first], np.append(first, len(splits)).astype(np.int64)
        call = self._loops(codes, False, {"units": units, "starts": starts})
        threads = max(1, min(self.context.settings.workers, len(units)))
        limits.charge("best values", BYTES * codes.total * threads)
        call.control[UNITS] = len(units)
        all_values = [
            BestValues(seeds, costs, codes.total, ordered=ordered) for _ in range(threads)
        ]
        workers = [call.worker(threads, own=values.arrays) for values in all_values]
        run_workers(workers, call.control, limits)
        for worker, values in zip(workers, all_values, strict=True):
            if worker.status == ROUND:
                self._raise_for_ever(codes, values.found, int(units[values.unit]))
        self._saw(call.printed, workers)
        blocks = [block for worker in workers for block in worker.blocks]
        self._keep_all(codes, lambda: _stretches(blocks, units), False)
        limits.charge("blocks", 0)
        return threads

    def _keep_all(
        self, codes: group_numbers.GroupCodes, parts: Callable[[], Iterator[Part]], in_order: bool
    ) -> None:
        """The rows of all relations: of `parts`, each decoded separately."""
        account = self.context.limits.account
        for number, each in enumerate(self.kept):
            base, end, _ = codes.of(number)
            rows, count = Blocks(account), 0
            for unit, code, cost in parts():
                if len(self.kept) > 1:
                    mine = (code >= base) & (code < end)
                    code, cost = code[mine], cost[mine]
                    unit = None if unit is None else unit[mine]
                if len(code):
                    count += len(code)
                    rows.add(tuple(map(narrow, codes.rows(number, code, cost, unit))))
                    self.context.limits.charge(each.name, rows.held)
            table, blocks = self.tables[each.name], rows.take()
            assert isinstance(table, LatticeRounds)
            if in_order and each.optimum == each.arity - 1 and blocks:
                columns = tuple(joined_column(list(parts)) for parts in zip(*blocks, strict=True))
                relation = Relation(table.columns, table.types, columns, count)
            else:
                relation = Relation.of_blocks(table.columns, table.types, blocks, count, True)
            table.settle(relation)

    def _loops(
        self, codes: group_numbers.GroupCodes, numbered: bool, beside: Mapping[str, Array]
    ) -> LoopCall:
        """The loops, to be called with further arguments."""
        context = self.context
        tries = [self._index(f.join, at) for f in self.follows for at in range(len(f.join.tries))]
        counts = context.metrics.lasting
        printed = print_lattice(self.kept, self.follows, layouts_of(tries), numbered, counts)
        function = compiled_function(printed, context.limits, self.name, OFTEN * self.size)
        given = {"places": codes.places, **beside}
        return LoopCall.of(function, printed, tries, context.scope, given)

    def _index(self, join: p.JoinPlan, number: int) -> Trie:
        """A loose trie, if the lists below a known value are only scanned."""
        ref = join.tries[number]
        relation = self.inputs.relation(ref.relation)
        size = 8 * len(ref.columns) * relation.at_most
        there = ref.columns in loose_tries(relation)
        fits = there or self.context.limits.account.spill_for(size) is None
        if fits and _only_walked(join, number) and not relation.indexed(ref.columns, ()):
            before = time_spent()
            with spending("indexing"):
                found = loose_of(relation, ref.columns)
            if found is not None:
                took = None if there else (time_spent() - before).indexing
                self.record_index(ref, found, took)
                CPU.charge(self.context.limits, ref.relation, relation)
                return found
        return self.trie_of(ref)

    # ------------------------------------------------------------------------------------ values

    def _motion(self, follow: Follow) -> Motion:
        """How a rule changes the value that it starts from."""
        join = follow.join
        assert join.given is not None
        source = next(each for each in self.kept if each.name == join.given.relation)
        target = next(each for each in self.kept if each.name == follow.target)
        known: dict[str, Motion] = {}
        for at, slot in enumerate(join.given.slots):
            if at == source.optimum:
                known[slot.name] = Moving(source.kind == target.kind)
            else:
                known[slot.name] = self._fixed(self.known[source.name, at], slot.type)
        for step in join.steps:
            if isinstance(step, p.Join):
                part = step.participants[0]
                ref = join.tries[part.trie]
                relation = self.inputs.relation(ref.relation)
                span = spans.span_of_column(relation, ref.columns[part.depth])
                known[step.variable] = self._fixed(span, step.type)
            elif isinstance(step, p.Assign):
                known[step.variable] = found = motion(step.expr, known, target.kind)
                if step.may_fail and not _sure(step.expr, found):
                    raise _Left("a computation may fail")
            elif isinstance(step, p.Generate) and step.may_fail:
                raise _Left("a computation may fail")
        for step in all_steps(join.steps):
            for expr in expressions(step) if not isinstance(step, p.Assign) else ():
                if not _harmless(expr):
                    raise _Left("a computation may fail")
        for expr in follow.head:
            if not _sure(expr, motion(expr, known, target.kind)):
                raise _Left("a computation may fail")
        return motion(follow.head[target.optimum], known, target.kind)

    def _fixed(self, keys: Span | None, kind: TypeName) -> Fixed:
        if keys is None or kind == "symbol":
            return Fixed()
        low, high = (decode_value(key, kind, self.context.scope.symbols) for key in keys)
        return Fixed(low, high)

    def _bounded(self, rows: Mapping[str, Rows], moves: Sequence[Motion], groups: float) -> None:
        """Leaves the work to rounds if a value may overflow, because order would matter then."""
        sizes = [0.0]
        for each in self.kept:
            columns, count = rows[each.name]
            kind = self.tables[each.name].types[each.optimum]
            if count:
                sizes.append(self._fixed(span_of(columns[each.optimum]), kind).size)
        floats = any(self.tables[each.name].types[each.optimum] == "float" for each in self.kept)
        most = max(m.grows if isinstance(m, Moving) else m.size for m in moves) if moves else 0.0
        grows = max((m.grows for m in moves if isinstance(m, Moving)), default=0.0)
        if grows and not max(most, *sizes) + groups * grows < (SAFE_FLOAT if floats else SAFE_INT):
            raise _Left("values may overflow")

    # ------------------------------------------------------------------------------------ telling

    def _raise_for_ever(
        self, codes: group_numbers.GroupCodes, code: int, split: int | None
    ) -> None:
        for number, each in enumerate(self.kept):
            base, end, _ = codes.of(number)
            if base <= code < end:
                one = np.array([code], dtype=np.int64)
                row = codes.rows(number, one, one, np.array([split or 0], dtype=np.int64))
                table = self.tables[each.name]
                assert isinstance(table, LatticeRounds)
                rule = next(r for r in self.rules[each.name] if self.recursive(r))
                group, symbols = table.group(row, 0), self.context.scope.symbols
                raise improves_for_ever(each.name, group, symbols, rule)

    def _saw(self, printed: PrintedPlan, workers: Sequence[JoinWorker]) -> None:
        """Records the workers' counters."""
        if printed.counters:
            counts = {COUNTS: tallied(printed, [worker.call.arrays for worker in workers])}
            self.seen = counted(printed, [follow.join for follow in self.follows], counts)


def _stretches(blocks: Sequence[Columns], units: Array) -> Iterator[Part]:
    """The output rows of loops over `units`, block by block."""
    for unit, code, cost in blocks:
        for start in range(0, len(code), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            yield units[unit[part]], code[part], cost[part]


def worsen(kept: Sequence[BestRelation], moves: Sequence[Motion]) -> bool:
    """Whether no rule derives a better value than the one that it starts from."""
    same = len({each.kind for each in kept}) == 1
    return same and all(isinstance(m, Moving) and m.worsens for m in moves)


def _only_walked(join: p.JoinPlan, number: int) -> bool:
    """Whether loops search a trie's root and scan all levels below it."""
    ref: p.TrieRef = join.tries[number]
    if ref.tests or ref.weighted or ref.ranked or len(ref.columns) < 2:
        return False
    for step in all_steps(join.steps):
        mine = [each for each in participants(step) if each.trie == number]
        if not mine:
            continue
        walked = isinstance(step, p.Seek)
        if mine[0].depth > 0:
            walked = isinstance(step, p.Join) and len(step.participants) == 1 and not step.reuse
        if isinstance(step, p.Join) and {at for _, at in step.implied} != {*range(len(step.cuts))}:
            walked = False
        if not walked:
            return False
    return True


def _harmless(expr: p.Expr) -> bool:
    """Whether an expression cannot fail for any values."""
    if not isinstance(expr, p.Apply):
        return True
    plain = expr.function in PLAIN | {"=", "!=", "<", "<=", ">", ">="}
    return plain and expr.type != "float" and all(map(_harmless, expr.args))


def _sure(expr: p.Expr, moves: Motion) -> bool:
    """Whether an expression cannot fail: of ints, or of floats that stay far from infinity."""
    if not isinstance(expr, p.Apply):
        return True
    if expr.function not in PLAIN or not all(_sure(arg, moves) for arg in expr.args):
        return False
    if expr.type != "float":
        return True
    size = moves.grows if isinstance(moves, Moving) else moves.size
    return size < SAFE_FLOAT
