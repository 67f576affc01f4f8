"""Scans: each row of a relation is tested, on several threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from threading import Event
from typing import TYPE_CHECKING

from gdatalog.cancellation import PATIENCE
from gdatalog.errors import MemoryLimitError
from gdatalog.executors.frontier import Frontier
from gdatalog.executors.levelwise import Levelwise
from gdatalog.executors.ops import Ops
from gdatalog.executors.sinks import Sink, StepCounts
from gdatalog.limits import Limits
from gdatalog.plan.effects import all_steps, expressions, generates
from gdatalog.plan.join_plan import Apply, Expr, JoinPlan
from gdatalog.records import dataclass
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie
from gdatalog.threads import Abandoned

if TYPE_CHECKING:
    from concurrent.futures import Future

    from gdatalog.cpu_ops.expressions import Scope


PART = 1 << 20  # rows that one thread scans into one sink
FIRST = 1 << 10  # rows of the first chunk, where a few answers are enough


@dataclass(slots=True)
class Scan:
    """One scan: `count` rows, whose `rows` are the columns that the plan reads."""

    join: JoinPlan
    rows: Sequence[Array]
    count: int
    tries: Sequence[Trie]
    ops: Ops
    scope: Scope
    limits: Limits
    workers: int = 1
    seen: dict[int, StepCounts] | None = None

    def run(self, sink: Sink) -> None:
        """Passes the plan's output to the sink until the sink is full."""
        sink.expect(self.count)
        starts = range(0, self.count, PART)
        parts = [range(start, min(start + PART, self.count)) for start in starts]
        if not sink.divisible or len(parts) < 2:
            self._one_by_one(sink)
            return
        workers, taken = min(self.workers, len(parts)), 0
        if workers > 1 and self._by_threads(workers):
            taken = self._together(parts, workers, sink)
        for done, part in enumerate(parts[taken:], taken):
            into = sink.apart(self.limits)
            walk = self._walk(self.limits, self.seen)
            for rows in self._chunks(part, self.limits):
                walk.run(self.join.steps, 0, self._frontier(rows), into)
            sink.take(into)
            self.limits.watch.part(done + 1, len(parts))

    def _one_by_one(self, sink: Sink) -> None:
        work, whole = self.limits.watch.innermost, max(1, self.count)
        walk = self._walk(self.limits, self.seen)
        for rows in self._chunks(range(self.count), self.limits, not sink.divisible):
            with work.within(rows.start / whole, rows.stop / whole):
                walk.run(self.join.steps, 0, self._frontier(rows), sink)
            if sink.done:
                return

    def _walk(self, limits: Limits, seen: dict[int, StepCounts] | None) -> Levelwise:
        return Levelwise(self.tries, self.ops, self.scope, limits, seen)

    def _chunks(self, rows: range, limits: Limits, few: bool = False) -> Iterator[range]:
        """Yields rows in chunks; the first ones are short if a `few` answers may suffice."""
        start, size = rows.start, min(FIRST, limits.chunk) if few else limits.chunk
        while start < rows.stop:
            limits.poll()
            yield range(start, min(start + size, rows.stop))
            start, size = start + size, min(4 * size, limits.chunk)

    def _frontier(self, rows: range) -> Frontier:
        assert self.join.given is not None
        named = zip(self.join.given.slots, self.rows, strict=True)
        part = slice(rows.start, rows.stop)
        return Frontier(len(rows), columns={slot.name: column[part] for slot, column in named})

    # -------------------------------------------------------------------------------- threads

    def _by_threads(self, workers: int) -> bool:
        """Whether several threads may scan: no strings are created, and memory suffices."""
        made = [expr for step in all_steps(self.join.steps) for expr in expressions(step)]
        room = PART * 8 * (len(self.rows) + len(self.join.outputs)) * (workers + 1)
        texts = any(map(_looks_into_texts, (*made, *self.join.outputs)))
        return not generates(self.join) and not texts and room <= self.limits.spare()

    def _together(self, parts: Sequence[range], workers: int, sink: Sink) -> int:
        """Returns how many parts the sink has taken: fewer if one needs more memory than a thread
        may use."""
        limits, left = self.limits, Event()

        def poll() -> None:
            if left.is_set():
                raise Abandoned

        def scan(rows: range) -> tuple[Sink, dict[int, StepCounts] | None]:
            own = Limits(limits.chunk, max(1, limits.spare() // (workers + 1)), limits.spill)
            own.checks.append(poll)
            into = sink.apart(own)
            seen: dict[int, StepCounts] | None = None if self.seen is None else {}
            walk = self._walk(own, seen)
            for chunk in self._chunks(rows, own):
                walk.run(self.join.steps, 0, self._frontier(chunk), into)
            return into, seen

        todo = deque(parts)
        from concurrent.futures import ThreadPoolExecutor, wait

        running: deque[Future[tuple[Sink, dict[int, StepCounts] | None]]] = deque()
        with ThreadPoolExecutor(workers) as pool:
            try:
                for done in range(len(parts)):
                    while todo and len(running) <= workers:
                        running.append(pool.submit(scan, todo.popleft()))
                    future = running.popleft()
                    while not wait([future], PATIENCE).done:
                        limits.poll()
                    try:
                        into, seen = future.result()
                    except MemoryLimitError:
                        left.set()
                        return done
                    sink.take(into)
                    for name, other in (seen or {}).items():
                        assert self.seen is not None
                        self.seen.setdefault(name, StepCounts()).add(other)
                    limits.watch.part(done + 1, len(parts))
            except BaseException:
                left.set()
                raise
        return len(parts)


def _looks_into_texts(expr: Expr) -> bool:
    """Whether an expression creates or orders strings; the symbol table serves one thread."""
    if not isinstance(expr, Apply):
        return False
    kinds = {expr.type, *(arg.type for arg in expr.args)}
    if "symbol" in kinds and expr.function not in ("=", "!="):
        return True
    return any(map(_looks_into_texts, expr.args))
