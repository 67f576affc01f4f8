"""Where the time goes: breadth-first by its three cases, depth-first by kind of intersection.

Breadth-first, the functions that search are timed while it runs: case 1 intersects whole root
lists, case 2 looks values up in a root's list, case 3 looks (parent, value) pairs up. Depth-first
it is one compiled loop nest that no clock can be put into; so each kind of intersection is forced
in turn, and the whole is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from time import perf_counter
from typing import Any

from benchmarks.columns import Columns
from benchmarks.graphs import Graph, wu
from benchmarks.patterns import clique
from benchmarks.records import Case, Figure
from benchmarks.setting import Setting
from benchmarks.sides import Gdatalog
from benchmarks.worker import Broken, Stopped, Worker

PARTS = (
    "case 1: roots with roots",
    "case 2: values in a root",
    "case 3: (parent, value) pairs",
    "ranges of cuts",
    "widening",
    "the rest",
)
KINDS = ("leapfrog", "merge", "mark", "recode", "auto")


@dataclass(slots=True)
class Clocks:
    """Seconds by part. A part that calls another is stopped while that runs."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    _open: list[list[float]] = field(default_factory=list)  # what the calls inside took

    def around(self, owner: Any, name: str, part: str) -> None:
        """Puts a clock around a function of a class or module."""
        function: Callable[..., Any] = getattr(owner, name)

        @wraps(function)
        def timed(*args: Any, **named: Any) -> Any:
            inside = [0.0]
            self._open.append(inside)
            started = perf_counter()
            try:
                return function(*args, **named)
            finally:
                taken = perf_counter() - started
                self._open.pop()
                self.seconds[part] += taken - inside[0]
                if self._open:
                    self._open[-1][0] += taken

        setattr(owner, name, timed)


@dataclass(frozen=True, slots=True)
class Dissected:
    """A rule run breadth-first, whose answer is where its time went."""

    text: str
    threads: int = 1
    name: str = "ours, breadth-first, with clocks"

    def load(self, data: Columns) -> Any:
        return Gdatalog(self.text).load(data)

    def build(self, given: Any) -> Any:
        from gdatalog import cpu_ops
        from gdatalog.executors.expansion import FrontierExpansion
        from gdatalog.storage.trie import TrieLevel

        clocks = Clocks()
        clocks.around(FrontierExpansion, "_roots", PARTS[0])
        clocks.around(TrieLevel, "find", PARTS[1])
        clocks.around(TrieLevel, "find_in", PARTS[2])
        clocks.around(TrieLevel, "bound_in", PARTS[3])
        clocks.around(cpu_ops, "expand", PARTS[4])
        return Gdatalog(self.text, strategy="levelwise").build(given), clocks

    def answer(self, state: Any) -> dict[str, float]:
        db, clocks = state
        clocks.seconds = dict.fromkeys(PARTS, 0.0)
        started = perf_counter()
        db.query(self.text, strategy="levelwise").fetchall()
        whole = perf_counter() - started
        clocks.seconds[PARTS[-1]] = whole - sum(clocks.seconds.values())
        return clocks.seconds

    def value(self, answer: Any) -> Any:
        return answer


def run(setting: Setting) -> Iterator[Case]:
    edges = 10_000 if setting.small else 1_000_000
    graphs: list[Callable[[int], Graph]] = [
        lambda size: wu(edges, size),
        lambda size: setting.graph("ego-Twitter"),
    ]
    for graph_of in graphs:
        for size in (3, 4):
            graph = graph_of(size)
            what = f"{clique(size).name}, {graph.name}"
            if setting.wants(f"where the time goes: {what}", 40):
                yield from _breadth_first(setting, what, graph, size)
                yield _depth_first(setting, what, graph, size)


def _breadth_first(setting: Setting, what: str, graph: Graph, size: int) -> Iterator[Case]:
    data = setting.graph_data(graph)
    try:
        with Worker(Dissected(clique(size).rule()), data, 60.0) as worker:
            worker.cold()
            _, parts = worker.warm()
    except (Stopped, Broken) as error:
        setting.left_out.append(f"where the time goes: {what} ({error})")
        return
    figures = [Figure(part, seconds) for part, seconds in parts.items()]
    yield Case("breadth-first by part", what, figures)


def _depth_first(setting: Setting, what: str, graph: Graph, size: int) -> Case:
    rule = clique(size).rule()
    sides = [Gdatalog(rule, label=kind, intersect=kind) for kind in KINDS]
    data = setting.graph_data(graph)
    return setting.race("depth-first by intersection", what, data, sides, timed_compiling=False)
