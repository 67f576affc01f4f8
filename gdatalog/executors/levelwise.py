"""The breadth-first executor: all bindings of a level at once, chunk by chunk.

For each variable, the executor expands the frontier (every row times the list of one participant),
looks the new values up in the lists of the other participants, and drops the others:

1. the root lists of several tries are intersected once, by sorted search, and cached;
2. values are looked up in a root's list by index if it is dense, else by sorted search;
3. values are looked up in lists below known nodes by one sorted search of packed (parent, value)
   pairs, for all rows.

A level with more rows than a chunk allows runs piece by piece, and each piece runs through all
deeper levels before the next one starts. So memory is bounded by chunks times levels. The executor
calls a device only through `ops`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from time import perf_counter

from gdatalog.errors import EvaluationError
from gdatalog.executors.expansion import FrontierExpansion
from gdatalog.executors.failures import describe_failure
from gdatalog.executors.frontier import WEIGHT, FailedRows, Frontier, Key
from gdatalog.executors.generation import FrontierGeneration
from gdatalog.executors.ops import Ops
from gdatalog.executors.reduction import BranchReduction, BranchRows
from gdatalog.executors.sinks import Failing, Hits, LevelWalk, Sink, StepCounts, Totals
from gdatalog.plan import join_plan as p
from gdatalog.plan.effects import all_steps, binds, may_fail, without
from gdatalog.records import dataclass, field
from gdatalog.storage.row_ops import SeenRows
from gdatalog.storage.table import Array

__all__ = ["Levelwise", "StepCounts"]


@dataclass(slots=True)
class Levelwise(LevelWalk):
    """One execution of one plan."""

    _tests: dict[tuple[int, int], list[p.Comparison]] = field(default_factory=dict)
    _bases: int = 0
    _made: list[tuple[p.Step, ...]] = field(default_factory=list)  # kept alive: ids identify steps
    _idle_compacts: set[int] = field(default_factory=set)
    _seen: dict[int, SeenRows] = field(default_factory=dict)  # by id of the compact step

    def run(self, steps: Sequence[p.Step], at: int, frontier: Frontier, sink: Sink) -> None:
        """Runs the steps from `at` on over the rows of a frontier, into the sink."""
        # A stack in place of recursion, because plans may have hundreds of levels.
        levels: list[Generator[tuple[int, Frontier], None, None]] = []
        try:
            found: tuple[int, Frontier] | None = (at, frontier)
            while True:
                if found is not None:
                    level = self._level(steps, *found, sink)
                    if level is not None:
                        levels.append(level)
                elif levels:
                    levels.pop()
                if not levels:
                    return
                found = next(levels[-1], None)
        finally:
            for level in reversed(levels):
                level.close()

    def _level(
        self, steps: Sequence[p.Step], at: int, frontier: Frontier, sink: Sink
    ) -> Generator[tuple[int, Frontier], None, None] | None:
        """Runs steps up to the next one that extends rows: yields its output in pieces, and the
        next step."""
        while frontier.most and not sink.done:
            if at == len(steps):
                if frontier.ahead is None or frontier.size:
                    sink.emit(frontier)
                return None
            step = steps[at]
            self.limits.look(0 if frontier.ahead is not None else frontier.most)
            started = perf_counter()
            if isinstance(step, (p.Join, p.Generate)):
                return self._widen(steps, at, frontier, sink, started)
            if isinstance(step, p.Seek) and self.seen is None and self.ops.fused is not None:
                sought = self._sought_later(steps, at)
                if sought in frontier.columns:
                    frontier.sought |= {part.trie: sought for part in step.participants}
                    at += 1
                    continue
            narrowed = self._narrow(step, steps[at + 1 :], frontier)
            if self.seen is not None:
                self._note(step, frontier.size, frontier.size, narrowed.size, started)
            frontier = narrowed
            at += 1
        return None

    def _note(self, step: p.Step, came: int, tried: int, went: int, started: float) -> None:
        assert self.seen is not None
        more = StepCounts(came, tried, went, perf_counter() - started)
        self.seen.setdefault(id(step), StepCounts()).add(more)

    def _sought_later(self, steps: Sequence[p.Step], at: int) -> str:
        """The variable that a step seeks in roots, if the kernel of the next level may do so: rows
        without it have no list there. Else empty."""
        step, following = (*steps[at : at + 2], None, None)[:2]
        if not isinstance(step, p.Seek) or not isinstance(following, p.Join):
            return ""
        covered = () if following.reuse is None else following.reuse.covers
        own = [part for place, part in enumerate(following.participants) if place not in covered]
        for part in step.participants:
            below = p.Participant(part.trie, part.depth + 1)
            if part.depth or self.tries[part.trie].weights is not None or below not in own:
                return ""
        return step.value.name if isinstance(step.value, p.Slot) else ""

    # --------------------------------------------------------------------------- narrower

    def _narrow(self, step: p.Step, rest: Sequence[p.Step], frontier: Frontier) -> Frontier:
        ops = self.ops
        match step:
            case p.Guard():
                trie = self.tries[step.trie]
                if trie.total == 0:
                    return Frontier(0)
                if step.weighted:
                    return frontier.weighing(ops, ops.xp.full(frontier.size, trie.total))
                return frontier
            case p.Seek():
                (keys,) = frontier.values([step.value], ops, self.scope)
                return self.probe(frontier, keys, step.participants)
            case p.Assign():
                return self._assign(step, rest, frontier)
            case p.Filter():
                mask = ops.test(step.test, frontier.read_by(step.test), frontier.size, self.scope)
                rows = ops.survivors(mask)
                return frontier if len(rows) == frontier.size else frontier.take(rows)
            case p.Compact():
                return self._compact(step, frontier)
            case p.Restore():
                labels = self.tries[step.trie].labels
                assert labels is not None
                values = ops.sort_across([labels[frontier.column(rank)] for rank in step.ranks])
                return frontier.adding(dict(zip(step.variables, values, strict=True)))
            case p.Branch():
                return self._branch(step, rest, frontier)
            case _:
                raise AssertionError(step)

    def _assign(self, step: p.Assign, rest: Sequence[p.Step], frontier: Frontier) -> Frontier:
        ops, read = self.ops, frontier.read_by(step.expr)
        keys, failed = ops.evaluate(step.expr, read, frontier.size, self.scope)
        if failed is not None:
            bad = ops.survivors(failed)
            if len(bad):
                error = describe_failure(step.expr, frontier.take(bad[:1]), ops, self.scope)
                self.fail(step, rest, frontier.take(bad), error)
                good = ops.survivors(~failed)
                frontier, keys = frontier.take(good), keys[good]
        frontier = frontier.adding({step.variable: keys})
        return self.probe(frontier, keys, step.participants)

    def fail(
        self, step: p.Step, rest: Sequence[p.Step], frontier: Frontier, error: EvaluationError
    ) -> None:
        """Handles rows for which a step failed: raises the error if the rest of the body holds."""
        (variable,) = binds(step)
        remaining = without((step, *rest), variable)
        self._made.append(remaining)
        self.run(remaining, 0, frontier, Failing(error, self.marks))

    def _compact(self, step: p.Compact, frontier: Frontier) -> Frontier:
        """Deduplicates the combinations of kept variables: within a chunk and, if few are possible,
        over all chunks."""
        columns = tuple(frontier.column(name) for name in step.keep)
        if not columns:
            return frontier.take(self.ops.xp.arange(1))
        memory = self._seen if self.lasting is None or not step.lasting else self.lasting
        seen = memory.get(id(step))
        if seen is None and self.lasting is None and frontier.size <= self.thresholds.unmarked_most:
            return frontier.take(self.ops.first_rows(columns))
        if seen is None:
            most = min(self.thresholds.marked_bytes, self.limits.spare() // 8)
            seen = self.ops.seen_rows(most)
            memory[id(step)] = seen
        if seen.fits(columns):
            rows = seen.news(columns)
            every = (*(self.lasting or {}).values(), *self._seen.values())
            self.limits.charge("rows followed", sum(held.nbytes for held in every))
        elif id(step) in self._idle_compacts:
            return frontier
        else:
            rows = self.ops.first_rows(columns)
            if frontier.size > 1000 and len(rows) > 0.9 * frontier.size:
                self._idle_compacts.add(id(step))  # it costs more than it saves
        return frontier.take(rows) if len(rows) < frontier.size else frontier

    # ----------------------------------------------------------------------------- wider

    def _widen(
        self, steps: Sequence[p.Step], at: int, frontier: Frontier, sink: Sink, started: float
    ) -> Generator[tuple[int, Frontier], None, None]:
        """Yields a step's output rows in pieces, and the step that follows."""
        step, deeper = steps[at], None
        if self.deeper is not None:
            take, place = self.deeper.take, at

            def deeper(skipped: int, rows: Frontier) -> bool:
                return take(steps, place + skipped, rows, sink)

        expansion: FrontierGeneration | FrontierExpansion
        if isinstance(step, p.Generate):
            expansion = FrontierGeneration(self, frontier)
            children = expansion.generate(step, steps[at + 1 :])
        else:
            assert isinstance(step, p.Join)
            expansion = FrontierExpansion(self, frontier, sink, deeper)
            # A profile measures each step separately.
            tests = self._tests_of(steps, at) if self.seen is None else ()
            last = at + 1 + len(tests) == len(steps)
            if last and sink.only_counts and step.variable not in sink.needs:
                summed = sink.only_total and frontier.weight is None
                counts = expansion.counts(step, tests, summed)
                if counts is not None:
                    # The last level of a count is never materialised, only counted.
                    if isinstance(counts, int):
                        sink.emit_total(counts)
                    else:
                        sink.emit_counts(frontier, counts)
                    if self.seen is not None:
                        values = counts if expansion.values is None else expansion.values
                        (went,) = [values] if isinstance(values, int) else self.ops.totals(values)
                        self._note(step, frontier.size, expansion.tried, went, started)
                    return
            at += len(tests)
            ahead = False
            if self.seen is None and self.ops.fused is not None:
                after = at + 1 + (self._sought_later(steps, at + 1) == step.variable)
                ahead = after < len(steps) and isinstance(steps[after], p.Join)
            children = expansion.join(step, tests, ahead)
        for child in children:
            if self.seen is not None:
                self._note(step, 0, expansion.tried, child.size, started)
                expansion.tried = 0
            yield at + 1, child
            started = perf_counter()
            if sink.done:
                break
        if self.seen is not None:
            self._note(step, frontier.size, expansion.tried, 0, started)

    def _tests_of(self, steps: Sequence[p.Step], at: int) -> list[p.Comparison]:
        found = self._tests.get((id(steps), at))
        if found is None:
            found = self._tests[id(steps), at] = tests_of_join(steps, at)
        return found

    # -------------------------------------------------------------------------- branches

    def _branch(self, step: p.Branch, rest: Sequence[p.Step], frontier: Frontier) -> Frontier:
        """Runs a branch for the distinct rows of its variables, and joins the results back."""
        ops, xp = self.ops, self.ops.xp
        columns = {name: frontier.column(name) for name in step.reads}
        if frontier.size > 1:
            first, groups = ops.group_rows(tuple(columns.values()), frontier.size)
            columns = {name: column[first] for name, column in columns.items()}
        else:
            first = groups = xp.zeros(frontier.size, dtype=xp.int64)
        size = len(first)
        base = f"@{self._bases}"
        self._bases += 1
        inside: dict[Key, Array] = {base: xp.arange(size)}
        inside.update(columns)
        outer = Frontier(size, columns=inside)
        if not may_fail((step,)):
            return self._outcome(step, outer, base).bring_back(frontier, groups)

        # A row that fails inside is an error only if the rest of this body holds for it.
        before, self.marks = self.marks, FailedRows(base, xp.zeros(size, dtype=bool))
        try:
            outcome = self._outcome(step, outer, base)
            failed, error = self.marks.failed, self.marks.error
        finally:
            self.marks = before
        if error is None:
            return outcome.bring_back(frontier, groups)
        if step.mode in ("exists", "not exists"):
            # a match without failure decides, whatever else failed
            failed = failed & (outcome.lengths == int(step.mode == "not exists"))
        bad = ops.survivors(failed[groups])
        remaining = tuple(rest)
        for variable in binds(step):
            remaining = without(remaining, variable)
        self._made.append(remaining)
        self.run(remaining, 0, frontier.take(bad), Failing(error, self.marks))
        good = ops.survivors(~failed[groups])
        return outcome.bring_back(frontier.take(good), groups[good])

    def _outcome(self, step: p.Branch, outer: Frontier, base: str) -> BranchRows:
        """A branch's result for each of its outer rows."""
        ops = self.ops
        if step.mode == "aggregate":
            with self.limits.account.giving_back("answers", "aggregates"):
                reduction = BranchReduction(self, step, outer, base)
                for inner, sink in zip(step.alternatives, reduction.sinks, strict=True):
                    self.run(inner, 0, outer, sink)
                return reduction.rows()
        if step.mode == "count":
            sums = [Totals(base, outer.size, ops) for _ in step.alternatives if step.terms]
            sums = sums or [Totals(base, outer.size, ops)] * len(step.alternatives)
            for inner, totals in zip(step.alternatives, sums, strict=True):
                self.run(inner, 0, outer, totals)
            counts = [totals.totals for totals in sums]
            count = signed_sum(ops, counts, step.terms) if step.terms else counts[0]
            some = (count > 0).astype(ops.xp.int64)
            return BranchRows(ops, ops.xp.arange(outer.size), some, {WEIGHT: count})
        # A failure inside must be found even if a witness is known already.
        prune = not any(map(may_fail, step.alternatives))
        hits = Hits(base, outer.size, ops, prune)
        for inner in step.alternatives:
            self.run(inner, 0, outer, hits)
        found = hits.hits if step.mode == "exists" else ~hits.hits
        return BranchRows(ops, ops.xp.arange(outer.size), found.astype(ops.xp.int64), {})


def signed_sum(
    ops: Ops, counts: Sequence[Array], terms: Sequence[tuple[int, tuple[int, ...]]]
) -> Array:
    """A signed sum of products of counts; raises an error if one does not fit into 64 bits."""
    total: Array = ops.xp.zeros_like(counts[0])
    for coefficient, (first, *others) in terms:
        product = counts[first]
        for number in others:
            product = ops.times(product, counts[number])
        total = total + coefficient * product
    return total


# A join itself tests comparisons of its variable with bound variables: values that fail are neither
# looked up in other lists nor materialised.

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def tests_of_join(steps: Sequence[p.Step], at: int) -> list[p.Comparison]:
    """The filters directly after the join at this position that it may test itself."""
    join, found = steps[at], list[p.Comparison]()
    assert isinstance(join, p.Join)
    for step in steps[at + 1 :]:
        comparison = _comparison(step.test, join) if isinstance(step, p.Filter) else None
        if comparison is None:
            break
        found.append(comparison)
    for later in all_steps(tuple(steps[at + 1 :])) if found else ():
        if isinstance(later, p.Join) and later.reuse and later.reuse.variable == join.variable:
            return []  # a later level reuses this level's lists, and needs them unfiltered
    return found


def _comparison(test: p.Expr, join: p.Join) -> p.Comparison | None:
    if not isinstance(test, p.Apply) or test.function not in _TURNED:
        return None
    if join.type == "symbol" and test.function not in ("=", "!="):
        return None  # the order of codes means nothing
    left, right = test.args
    own = p.Slot(join.variable, join.type)
    for mine, other, op in ((left, right, test.function), (right, left, _TURNED[test.function])):
        if mine == own and other.type == own.type and join.variable not in p.slots(other):
            return op, other
    return None
