"""T-DFS (Yuan et al. 2024): P1 to P11, P12 to P22 with labels, how work is shared, and stacks.

P12 to P22 are P1 to P11 with labels: vertex i has label i modulo their number, the vertices of a
graph have one at random. Depth-first kernels (`--device cuda`) share a task when other tiles are
idle: each looks for that at an interval. The paper's time limit splits a task whether or not
anybody waits: kernels also run with that rule in place of ours, with one that halves what is left
(as STMatch's thieves do, though here the owner cuts it), and with one that leaves the pieces to a
new launch (as EGSM). Stacks are the lists of a tile:
whole, or short ones and longer ones that tiles borrow from a pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

from benchmarks.graphs import Graph
from benchmarks.papers.bench import Bench, brute, known_count
from benchmarks.papers.report import Row
from gdatalog.calls import Block
from gdatalog.gpu_ops import launch, loops, scratch, sources
from gdatalog.gpu_ops.control_words import CONTROL_WORDS, Reason, Word
from gdatalog.patterns import Pattern, suite
from gdatalog.records import replace

LABELS = (4, 8, 12, 16)
MILLISECOND = 1_000_000
LIMITS = {"0.1 ms": MILLISECOND // 10, "1 ms": MILLISECOND, "10 ms": 10 * MILLISECOND,
          "100 ms": 100 * MILLISECOND}  # fmt: skip
LOOKS = {**{f"each {told}": limit for told, limit in LIMITS.items()},
         "at every chance": 0, "never": -1}  # fmt: skip
WAITING = "const i64 waiting = load_relaxed(control, IDLE) - queue_size(control);"
NEW_KERNELS = ("1 ms", "10 ms")
SHARED = ("P2", "P3", "P5", "P6", "P7")  # enumerated
SHARES = (1, 4, 16)  # of the memory of whole stacks


def run(bench: Bench) -> Iterator[Row]:
    graphs = bench.graphs("wiki-Vote", "email-Enron")
    for graph in graphs:
        yield from _counted(bench, graph, 0)
    for number in LABELS[:1] if bench.small else LABELS:
        for graph in graphs:
            yield from _counted(bench, graph, number)
    for graph in graphs if bench.on_gpu else ():
        yield from _sharing(bench, graph)
        yield from _stacks(bench, graph)


def _counted(bench: Bench, graph: Graph, number: int) -> Iterator[Row]:
    """The patterns with so many labels."""
    labels = bench.labels(graph, number) if number else None
    with bench.database(graph, labels) as db:
        for pattern in asked(number)[:: 4 if bench.small else 1]:
            table = f"T-DFS: {number or 'no'} labels"
            yield bench.counted(table, pattern, graph, db, labels)


def asked(number: int) -> list[Pattern]:
    """The patterns by the paper's names, with so many labels or none."""
    plain = suite("t-dfs")
    if not number:
        return list(plain)
    found = []
    for pattern, known in zip(plain, suite("t-dfs-labelled"), strict=True):
        told = {name: at % number for at, name in enumerate(sorted(pattern.vertices))}
        found.append(replace(pattern.labelled(told), name=known.name))
    return found


def _sharing(bench: Bench, graph: Graph) -> Iterator[Row]:
    """Looking for idle tiles at intervals, and never; and other rules in place of looks."""
    ways: list[tuple[str, int, Callable[[], AbstractContextManager[None]]]]
    ways = [(f"looks {told}", at, nullcontext) for told, at in LOOKS.items()]
    ways += [("half of the rest", 1, halves)]
    ways += [(f"a time limit of {told}", at, time_limit) for told, at in LIMITS.items()]
    ways += [(f"a new kernel after {told}", LIMITS[told], new_kernels) for told in NEW_KERNELS]
    if bench.small:
        ways = [next(way for way in ways if way[2] is rule) for rule in RULES]
    for pattern in [one for one in suite("t-dfs") if one.name in bench.few(SHARED)]:
        expected = None
        for told, interval, rule in ways:
            with bench.database(graph) as db, rule():
                db.workspace.force(algebra="never", strategy="lftj")
                db.workspace.tune(tile_shares_after=interval)
                row = Row("T-DFS: sharing", f"{pattern.name}, {graph.name}, {told}")
                row = bench.timed(row, db, lambda db, one=pattern: db.count(one))
            yield _alike(bench, row, pattern, graph, expected)
            expected = row.answer if expected is None else expected


@contextmanager
def halves() -> Iterator[None]:
    """A tile cuts what it has in two, as if an idle one had taken the half of it."""
    with patch.object(launch, "PIECES", 2):
        yield


@contextmanager
def in_place_of_waiting(rule: str) -> Iterator[None]:
    """Kernels with another rule for when a task is cut."""

    def changed(text: str) -> str:
        found = sources.whole(text)
        assert WAITING in found
        return found.replace(WAITING, rule)

    with patch.object(loops, "whole", changed):
        yield


def time_limit() -> AbstractContextManager[None]:
    """Kernels split each task whose limit has passed, as if all tiles waited."""
    return in_place_of_waiting("const i64 waiting = pieces;")


@contextmanager
def new_kernels() -> Iterator[None]:
    """A task whose limit has passed is split and ends the launch: all that is left is divided anew
    by the next one."""
    ends = in_place_of_waiting("const i64 waiting = pieces; stop(control, FULL);")
    with ends, patch.object(launch.Launch, "_one_row_each", _launches):
        yield


def _launches(self: launch.Launch) -> launch.Steps[list[Block]]:
    """The sums of tiles, of one launch after the other."""
    driver, args, found = self.shared.driver, self._arguments(self.pool), []
    driver.clear(self._memory)
    while True:
        self._clear()
        self.kernel.launch(self.grid, self.threads, args, shared=self.team)
        (words,) = yield self.control, driver.reading((self._head,))
        full, used, at = self._status(words) == Reason.FULL, int(words[Word.POOL]), CONTROL_WORDS
        rows = []
        for output in self.pool.outputs:
            rows.append(words[at:].view(output.dtype)[:used].copy())
            at += -(-output.nbytes // 8)
        found += [tuple(rows)] if used else []
        if not full:
            return found
        for word in (Word.STATUS, Word.STOP, Word.POOL):
            self.control[word] = 0


RULES = (nullcontext, halves, time_limit, new_kernels)


def _stacks(bench: Bench, graph: Graph) -> Iterator[Row]:
    """Whole lists for each tile, and a pool from which tiles borrow the longer ones."""
    for pattern in [one for one in suite("t-dfs") if one.name in bench.few(SHARED)]:
        expected = None
        for share in SHARES:
            with bench.database(graph) as db, stacks(share) as found:
                db.workspace.force(algebra="never", strategy="lftj")
                work = f"{pattern.name}, {graph.name}, 1/{share} of whole stacks"
                row = Row("T-DFS: stacks", work)
                row = bench.timed(row, db, lambda db, one=pattern: db.count(one))
            if found:
                classes = len(found[-1][1].classes)
                row.more = {
                    "stacks MB": f"{found[-1][0] / 1e6:.3g}",
                    "tiles": f"{found[-1][1].tiles:,}",
                    "lent lengths": str(classes or "whole"),
                }
            yield _alike(bench, row, pattern, graph, expected)
            expected = row.answer if expected is None else expected


@contextmanager
def stacks(share: int) -> Iterator[list[tuple[int, scratch.Scratch]]]:
    """Launches get this share of the memory that all tiles' whole stacks take, at the most. Gives
    the bytes of each launch's stacks, and how they are laid out."""
    found: list[tuple[int, scratch.Scratch]] = []

    def laid_out(needs: Any, tiles: int, room: int) -> scratch.Scratch:
        whole = sum(need.nbytes for need in needs) * tiles
        made = scratch.laid_out(needs, tiles, max(1, min(room, whole // share)))
        size = sum(need.width * made.length(need.name) for need in needs)
        found.append((size, made))
        return made

    with patch.object(launch, "laid_out", laid_out):
        yield found


def _alike(bench: Bench, row: Row, pattern: Pattern, graph: Graph, expected: Any) -> Row:
    if row.trouble or row.key in bench.done:
        return row
    if bench.small:
        bench.check(row, brute(pattern, graph), "brute force")
    elif (known := known_count(pattern, graph)) is not None:
        bench.check(row, known, "known")
    elif expected is not None:
        bench.check(row, expected, "the first")
    return row
