"""Recursive min and max by compiled loops that improve the best values in place.

There are no rounds: a group whose value has improved waits until it is followed, and what follows
from it is compared with the best values at once (`printer/improving.py`). This is for rules with
one recursive atom each. What cannot be printed, has no numbers for its groups, or may fail or
overflow is left to the rounds; so is small work, which ends before a compilation would.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Thread
from time import perf_counter
from typing import Any

import numpy as np

from gdatalog.cpu_ops import code_cache
from gdatalog.cpu_ops.best_values import BYTES, BestValues
from gdatalog.cpu_ops.loose import loose_of
from gdatalog.engine.best import Best, improves_for_ever
from gdatalog.engine.choose import ENOUGH, FIRST, SECOND, Choice, spent_on
from gdatalog.engine.derived import Rows, in_order, union_rows
from gdatalog.engine.device import CPU
from gdatalog.engine.ledger import Way
from gdatalog.engine.stratum import StratumRun
from gdatalog.engine.surroundings import Round, Surroundings
from gdatalog.executors.lftj import DONE, FULL, STOP_FLAG, STOPPED, given_arrays, worker_of
from gdatalog.plan.effects import all_steps, expressions, participants
from gdatalog.plan.nodes import (
    Apply,
    Assign,
    Constant,
    Expr,
    Generate,
    Join,
    JoinPlan,
    RulePlan,
    Seek,
    Slot,
    TrieRef,
)
from gdatalog.planner.checked import Stratum
from gdatalog.planner.worsening import PLAIN, Fixed, Motion, Moving, motion
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.improving import ROUND, Follow, Kept, print_improving
from gdatalog.printer.module import Printed
from gdatalog.storage.keys import decode_value, encode_value
from gdatalog.storage.relation import Relation
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

# Rows that the rules walk: if there are fewer rounds are tried first, which are done before Numba
# is there; so many are worth a compilation.
FEW, MANY, AT_ONCE = 2_000, 50_000, 1_000_000
MOST_DIRECT = 1 << 27  # codes of groups that are their numbers
MOST_CODES = 1 << 62
MOST_GROUPS = 1 << 30
LEAST_ROOM = 1024  # for groups that are numbered
SAFE_INT, SAFE_FLOAT = 2.0**62, 1e290

Span = tuple[int, int]  # the least and the greatest key of a column
Spans = dict[tuple[str, int], Span | None]  # of groups' columns; None while nothing is in them


class _Left(Exception):
    """Why the work is left to the rounds, in words for a user."""


class InPlace(StratumRun):
    """The fixpoint of a stratum of nothing but recursive min and max."""

    def __init__(self, stratum: Stratum, seeds: Mapping[str, Sequence[Rows]], around: Surroundings):
        super().__init__(stratum, seeds, around)
        self.kept: list[Kept] = []
        self.plans: list[RulePlan] = []
        self.follows: list[Follow] = []
        self.column_spans: dict[tuple[str, int], Span | None] = {}

    @cached_property
    def refusal(self) -> str | None:
        """Why the rules are left to the rounds; None if they need not be."""
        if self.around.knobs.strategy == "levelwise":
            return "asked for"
        try:
            self._look()
        except _Left as reason:
            return str(reason)
        return None

    def _look(self) -> None:
        around = self.around
        if around.device is not CPU:
            raise _Left("the device has rounds only")
        for name, table in self.tables.items():
            if not isinstance(table, Best) or len(table.kinds) != 1:
                raise _Left(f"{name} has no min or max")
            if name in around.limit_sizes:
                raise _Left(f"{name} has a .limitsize")
            [(at, kind)] = table.kinds.items()
            if table.types[at] == "symbol":
                raise _Left("texts are compared by their ranks")
            self.kept.append(Kept(name, len(table.types), at, kind))
        for rule in self.stratum.rules:
            if not self.recursive(rule):
                continue
            plan = self.plan(rule, first=False)
            self.plans.append(plan)
            self.follows += self._follows(plan)

    def _follows(self, plan: RulePlan) -> list[Follow]:
        head = list(plan.head)
        optimum = next(each.optimum for each in self.kept if each.name == plan.relation)
        if plan.gathers:
            (gather,) = plan.gathers
            if head[optimum] != Slot(gather.variable, gather.type):
                raise _Left("the head computes with the aggregate")
            head[optimum] = gather.targets[0]
        found = []
        for join in plan.joins:
            if join.given is None or any(ref.relation in self.tables for ref in join.tries):
                raise _Left("a rule has several recursive atoms")
            found.append(Follow(join, plan.relation, tuple(head), True))
        return found

    # -------------------------------------------------------------------------------- choosing

    @property
    def size(self) -> int:
        """How many rows the rules walk."""
        names = {ref.relation for follow in self.follows for ref in follow.join.tries}
        return sum(self.around.relation(name).at_most for name in names)

    @property
    def rules_key(self) -> object:
        return tuple(self.plans)

    def patience(self, counts: bool = False) -> Iterator[float]:
        """For how many seconds rounds are to be tried first, one time after the other."""
        size = self.size
        if self.around.knobs.strategy == "lftj" or spent_on(self.rules_key) >= ENOUGH:
            return
        if size < (FEW if "numba" in sys.modules else MANY):
            yield FIRST
        if size < AT_ONCE and not self._ready():
            yield SECOND

    def _ready(self) -> bool:
        """Whether the loops have been compiled; if groups are numbered, they may not be."""
        try:
            return CPU.ready(self._print(False)[0])
        except Unprintable:
            return True  # there will be none

    # --------------------------------------------------------------------------------- running

    def run(self) -> dict[str, Relation] | None:
        """The relations; None if they are left to the rounds after all."""
        try:
            return self._run_in_place()
        except (_Left, Unprintable):
            return None

    def _run_in_place(self) -> dict[str, Relation]:
        began = perf_counter()
        rows = {
            name: union_rows([in_order(part, self.ops) for part in self.first(name)], self.ops)
            for name in self.tables
        }
        spans = self._spans(rows)
        places, total = self._places(spans)
        if not total:
            return self.finished()
        numbered = total > self._direct(rows)
        codes, costs = self._seeds(rows, places)
        moves = self._motions(spans)
        bound = 4.0 * (MOST_GROUPS if numbered else total) + 4096
        self._bounded(rows, moves, bound)
        ordered = worsen(self.kept, moves)
        self.follows = [
            replace(follow, onwards=isinstance(m, Moving) and not m.bends)
            for follow, m in zip(self.follows, moves, strict=True)
        ]
        if ordered:
            order = np.argsort(costs, kind="stable") if not _ascends(costs) else slice(None)
            codes, costs = codes[order], costs[order]
        room = total if not numbered else max(LEAST_ROOM, len(codes))
        self.around.limits.charge("best values", BYTES * room)
        values = BestValues(
            np.ascontiguousarray(codes), np.ascontiguousarray(costs), room,
            numbered=numbered, ordered=ordered, watched=not ordered,
        )  # fmt: skip
        printed, tries = self._print(numbered)
        if self._walk(printed, tries, places, values) == ROUND:
            self._raise_for_ever(values.found, places)
        found = self._relations(values, places)
        self.around.limits.charge("best values", 0)
        self._tell(found, perf_counter() - began)
        return found

    def _walk(
        self, printed: Printed, tries: Sequence[Trie], places: Array, values: BestValues
    ) -> int:
        """Compiles the function and calls it until nothing waits any more."""
        limits = self.around.limits
        name = code_cache.versioned(printed.shape, printed.source)
        if not CPU.ready(printed):
            limits.announce(f"compiling {' and '.join(self.stratum.relations)}")
        try:
            function = code_cache.load(name, printed.source, limits.poll).run
        finally:
            limits.announce("")
        distinct = [tries[at] for at in printed.which]
        given = given_arrays(printed, distinct, self.around.scope)
        given |= {"places": places, **values.arrays}
        control = np.zeros(16, dtype=np.int64)
        worker = worker_of(function, printed, distinct, given, control, 1, None)
        while True:
            status = _called(worker, limits)
            if status != FULL:
                break
            room = 2 * len(values.arrays["best"])
            if room > MOST_GROUPS:
                raise _Left("there are too many groups")
            limits.charge("best values", values.nbytes + 2 * BYTES * room)
            values.grow()
            worker.arguments.update(values.arrays)
        if status not in (DONE, ROUND):
            raise _Left("a computation failed")
        return status

    def _print(self, numbered: bool) -> tuple[Printed, list[Trie]]:
        tries = [[self._index(f.join, at) for at in range(len(f.join.tries))] for f in self.follows]
        printed = print_improving(self.kept, self.follows, tries, numbered)
        return printed, [trie for some in tries for trie in some]

    def _index(self, join: JoinPlan, number: int) -> Trie:
        """A loose trie where the lists below a known value are only walked."""
        ref = join.tries[number]
        relation = self.around.relation(ref.relation)
        if _only_walked(join, number) and not relation.indexed(ref.columns, ()):
            found = loose_of(relation, ref.columns)
            if found is not None:
                CPU.charge(self.around.limits, ref.relation, relation)
                return found
        return self.trie_of(ref)

    # ------------------------------------------------------------------------------------ groups

    def _spans(self, rows: Mapping[str, Rows]) -> Spans:
        """Which keys each column of a group can have: of its seeds, and of what rules derive."""
        spans: Spans = {
            (each.name, at): _span(rows[each.name][0][at]) if rows[each.name][1] else None
            for each in self.kept
            for at in each.columns
        }
        kept = {each.name: each for each in self.kept}
        changed = True
        while changed:
            changed = False
            for follow in self.follows:
                for at in kept[follow.target].columns:
                    more = self._span_of(follow.head[at], follow.join, spans)
                    known = spans[follow.target, at]
                    both = _both(known, more)
                    changed = changed or both != known
                    spans[follow.target, at] = both
        return spans

    def _span_of(self, expr: Expr, join: JoinPlan, spans: Spans) -> Span | None:
        if isinstance(expr, Constant):
            key = encode_value(expr.value, expr.type, self.around.scope.symbols)
            return key, key
        if isinstance(expr, Slot):
            assert join.given is not None
            for at, slot in enumerate(join.given.slots):
                if slot == expr and (join.given.relation, at) in spans:
                    return spans[join.given.relation, at]
            columns = list(_columns_of(expr.name, join))
            if columns:
                found = [self._column_span(*column) for column in columns]
                if None in found:
                    return None
                low, high = max(s[0] for s in found if s), min(s[1] for s in found if s)
                return (low, high) if low <= high else None
        raise _Left("the groups that a rule derives are not known beforehand")

    def _column_span(self, name: str, at: int) -> Span | None:
        if (name, at) not in self.column_spans:
            self.column_spans[name, at] = _span(self.around.relation(name).column(at))
        return self.column_spans[name, at]

    def _places(self, spans: Spans) -> tuple[Array, int]:
        """Where each relation's codes begin, with the least key and the stride of each column;
        and how many codes there are."""
        places, total = [], 0
        for each in self.kept:
            places.append(total)
            count, own = 1, []
            for at in reversed(each.columns):
                span = spans[each.name, at]
                low, high = (0, -1) if span is None else span
                own.append((low, count))
                count *= max(0, high - low + 1)
            for low, stride in reversed(own):
                places += [low, stride]
            total += count
            if total >= MOST_CODES:
                raise _Left("groups have too many possible values")
        return np.array([*places, total], dtype=np.int64), total

    def _direct(self, rows: Mapping[str, Rows]) -> int:
        """Up to how many codes they are the groups' numbers."""
        size = self.size + sum(count for _, count in rows.values())
        spare = self.around.limits.spare() // (2 * BYTES)
        return min(MOST_DIRECT, 16 * size + 4096, spare)

    def _of(self, number: int, places: Array) -> tuple[int, int, Array]:
        """A relation's codes, from the first to behind the last; its columns' lows and strides."""
        at = sum(1 + 2 * len(each.columns) for each in self.kept[:number])
        width = 2 * len(self.kept[number].columns)
        pairs = places[at + 1 : at + 1 + width].reshape(-1, 2)
        return int(places[at]), int(places[at + 1 + width]), pairs

    def _seeds(self, rows: Mapping[str, Rows], places: Array) -> tuple[Array, Array]:
        codes, costs = [], []
        for number, each in enumerate(self.kept):
            columns, count = rows[each.name]
            if not count:
                continue
            base, _, pairs = self._of(number, places)
            code = np.full(count, base, dtype=np.int64)
            for at, (low, stride) in zip(each.columns, pairs, strict=True):
                code += (columns[at].astype(np.int64) - low) * stride
            cost = columns[each.optimum].astype(np.int64)
            codes.append(code)
            costs.append(cost if each.kind == "min" else ~cost)
        if not codes:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        return np.concatenate(codes), np.concatenate(costs)

    def _relations(self, values: BestValues, places: Array) -> dict[str, Relation]:
        codes, costs = values.values()
        found = {}
        for number, each in enumerate(self.kept):
            base, end, pairs = self._of(number, places)
            first, last = np.searchsorted(codes, [base, end])
            rest, cost = codes[first:last] - base, costs[first:last]
            keys: dict[int, Array] = {each.optimum: cost if each.kind == "min" else ~cost}
            for at, (low, stride) in zip(each.columns, pairs, strict=True):
                part = rest // stride if stride != 1 else rest
                rest = rest - part * stride if stride != 1 else rest
                keys[at] = part + low
            table = self.tables[each.name]
            assert isinstance(table, Best)
            table.replace(tuple(keys[at] for at in range(each.arity)), last - first)
            found[each.name] = table.full()
        return self.finished()

    # ------------------------------------------------------------------------------------ values

    def _motions(self, spans: Spans) -> list[Motion]:
        """How each rule moves the value that it starts from."""
        return [self._motion(follow, spans) for follow in self.follows]

    def _motion(self, follow: Follow, spans: Spans) -> Motion:
        join = follow.join
        assert join.given is not None
        source = next(each for each in self.kept if each.name == join.given.relation)
        target = next(each for each in self.kept if each.name == follow.target)
        known: dict[str, Motion] = {}
        for at, slot in enumerate(join.given.slots):
            if at == source.optimum:
                known[slot.name] = Moving(source.kind == target.kind)
            else:
                known[slot.name] = self._fixed(spans[source.name, at], slot.type)
        for step in join.steps:
            if isinstance(step, Join):
                spans_of = [self._column_span(*c) for c in _columns_of(step.variable, join)]
                known[step.variable] = self._fixed(spans_of[0], step.type)
            elif isinstance(step, Assign):
                known[step.variable] = found = motion(step.expr, known, target.kind)
                if step.may_fail and not _sure(step.expr, found):
                    raise _Left("a computation may fail")
            elif isinstance(step, Generate) and step.may_fail:
                raise _Left("a computation may fail")
        for step in all_steps(join.steps):
            for expr in expressions(step) if not isinstance(step, Assign) else ():
                if not _harmless(expr):
                    raise _Left("a computation may fail")
        for expr in follow.head:
            if not _sure(expr, motion(expr, known, target.kind)):
                raise _Left("a computation may fail")
        return motion(follow.head[target.optimum], known, target.kind)

    def _fixed(self, span: Span | None, kind: Any) -> Fixed:
        if span is None or kind == "symbol":
            return Fixed()
        low, high = (decode_value(key, kind, self.around.scope.symbols) for key in span)
        return Fixed(low, high)

    def _bounded(self, rows: Mapping[str, Rows], moves: Sequence[Motion], groups: float) -> None:
        """Leaves it to the rounds where a value may leave its type: order matters then."""
        sizes = [0.0]
        for each in self.kept:
            columns, count = rows[each.name]
            kind = self.tables[each.name].types[each.optimum]
            if count:
                sizes.append(self._fixed(_span(columns[each.optimum]), kind).size)
        floats = any(self.tables[each.name].types[each.optimum] == "float" for each in self.kept)
        most = max(m.grows if isinstance(m, Moving) else m.size for m in moves) if moves else 0.0
        grows = max((m.grows for m in moves if isinstance(m, Moving)), default=0.0)
        if grows and not max(most, *sizes) + groups * grows < (SAFE_FLOAT if floats else SAFE_INT):
            raise _Left("values may overflow")

    # ------------------------------------------------------------------------------------ telling

    def _raise_for_ever(self, code: int, places: Array) -> None:
        for number, each in enumerate(self.kept):
            base, end, pairs = self._of(number, places)
            if base <= code < end:
                rest, group = code - base, []
                for at, (low, stride) in zip(each.columns, pairs.tolist(), strict=True):
                    group.append((at, rest // stride + low))
                    rest %= stride
                rule = next(r for r in self.rules[each.name] if self.recursive(r))
                table = self.tables[each.name]
                told = [(table.columns[at], key, table.types[at]) for at, key in group]
                raise improves_for_ever(each.name, told, self.around.scope.symbols, rule)

    def _tell(self, found: Mapping[str, Relation], seconds: float) -> None:
        """Says what was done: to the progress line, and to a profile."""
        around = self.around
        rows = {name: relation.length for name, relation in found.items()}
        around.on_round(self.stratum, Round(1, rows, rows))
        name = "best values in place"
        self.record.way = Way(name, sum(rows.values()), "groups", seconds=seconds)
        for number, plan in enumerate(self.plans):
            report = around.ledger.run_of(plan)
            if report is None:
                return
            if number == 0:
                report.rows, report.seconds = sum(rows.values()), seconds
            report.executors = dict.fromkeys(range(len(plan.joins)), Choice(False, name))


def worsen(kept: Sequence[Kept], moves: Sequence[Motion]) -> bool:
    """Whether no rule derives a value that is better than the one that it starts from."""
    same = len({each.kind for each in kept}) == 1
    return same and all(isinstance(m, Moving) and m.worsens for m in moves)


def _called(worker: Any, limits: Any) -> int:
    """One call of the function, by a thread: somebody may want to stop."""
    status: list[int] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            status.append(int(worker.function(*worker.arguments.values())))
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=call, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.02)
            limits.poll()
    except BaseException:
        worker.control[STOP_FLAG] = 1
        thread.join()
        raise
    if errors:
        raise errors[0]
    assert status[0] != STOPPED
    return status[0]


def _columns_of(variable: str, join: JoinPlan) -> list[tuple[str, int]]:
    """The columns, of relations that are there, in which a variable's values stand."""
    return [
        (join.tries[part.trie].relation, join.tries[part.trie].columns[part.depth])
        for step in join.steps
        if isinstance(step, Join) and step.variable == variable
        for part in step.participants
    ]


def _only_walked(join: JoinPlan, number: int) -> bool:
    """Whether a trie's root is sought, and all below is walked as it lies."""
    ref: TrieRef = join.tries[number]
    if ref.tests or ref.weighted or ref.ranked or len(ref.columns) < 2:
        return False
    for step in all_steps(join.steps):
        mine = [p for p in participants(step) if p.trie == number]
        if not mine:
            continue
        if mine[0].depth == 0:
            walked = isinstance(step, Seek)
        else:
            walked = (
                isinstance(step, Join)
                and len(step.participants) == 1
                and step.reuse is None
                and {at for _, at in step.implied} == set(range(len(step.cuts)))
            )
        if not walked:
            return False
    return True


def _harmless(expr: Expr) -> bool:
    """Whether an expression cannot fail, whatever the values are."""
    if not isinstance(expr, Apply):
        return True
    plain = expr.function in PLAIN | {"=", "!=", "<", "<=", ">", ">="}
    return plain and expr.type != "float" and all(map(_harmless, expr.args))


def _sure(expr: Expr, moves: Motion) -> bool:
    """Whether an expression cannot fail: of ints, or of floats that stay far from infinity."""
    if not isinstance(expr, Apply):
        return True
    if expr.function not in PLAIN or not all(_sure(arg, moves) for arg in expr.args):
        return False
    if expr.type != "float":
        return True
    size = moves.grows if isinstance(moves, Moving) else moves.size
    return size < SAFE_FLOAT


def _span(column: Array) -> Span | None:
    return (int(column.min()), int(column.max())) if len(column) else None


def _both(one: Span | None, other: Span | None) -> Span | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one[0], other[0]), max(one[1], other[1])


def _ascends(values: Array) -> bool:
    return bool((values[1:] >= values[:-1]).all())
