"""What all papers need: graphs with labels, databases, clocks, and the second way to each count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from time import perf_counter
from traceback import print_exc
from typing import Any, TypeVar

import numpy as np

import gdatalog as gd
from benchmarks import memory
from benchmarks.columns import Array
from benchmarks.gpu.clocks import Clocked, empty_pool, pool_bytes
from benchmarks.graphs import Graph, graph, skewed
from benchmarks.papers.report import AHEAD, FAILED, NO_TIME, Row, stopped
from benchmarks.patterns import KNOWN
from gdatalog.patterns import Pattern
from gdatalog.patterns.shapes import Shape, embeddings
from tests import data

NAMES = {"clique3": "triangles", "clique4": "K4", "clique5": "K5", "P2": "K4", "P7": "K5"}
RUNS, ENOUGH = 5, 3.0  # warm runs, and the seconds after which there are no more, at the most
ON_A_GPU = 1.0  # the seconds there
SMALL = (20, 80)  # vertices and edges
FULL = ("ego-Twitter", "cnr-2000")

Ask = Callable[[gd.Database], Any]
T = TypeVar("T")


@dataclass(slots=True)
class Bench:
    """`cap`: seconds after which a run is stopped. `connect` opens databases. `known`: answers that
    the CPU has found, by table and work. `done`: rows of an earlier run that this one goes on.
    `supports`: the sum of those of frequent patterns, by their work. `claims`: the folder in which
    processes claim rows that ask only once, so that code is compiled. `colds`: the seconds of that,
    by table and work."""

    small: bool = False
    full: bool = False
    device: str = "cpu"
    cap: float = 20.0
    connect: Callable[..., gd.Database] = gd.connect
    known: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    done: Mapping[tuple[str, str], Row] = field(default_factory=dict)
    supports: dict[str, str] = field(default_factory=dict)
    claims: Path | None = None
    colds: Mapping[tuple[str, str], float] = field(default_factory=dict)
    _turn: int = 0  # the number of the row that is next claimed
    _until: float = float("inf")
    _table: str = ""
    _made: dict[Any, Any] = field(default_factory=dict)  # graphs, and their columns
    _fill: Callable[[], None] | None = None  # gives a database its data, once it is asked

    def begin(self, minutes: float, table: str = "") -> None:
        """A paper begins, which has so many minutes: nothing starts that might end after them.
        `table`: only tables whose names have this text are measured."""
        self._table = table
        self._until = perf_counter() + max(0.0, 60 * minutes - 1.5 * self.cap)

    @property
    def late(self) -> bool:
        return perf_counter() > self._until

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    def few(self, things: Sequence[T], number: int = 1) -> Sequence[T]:
        """All of them, or the first of them where it is only to be seen that all runs."""
        return things[:number] if self.small else things

    # --------------------------------------------------------------------------------- data

    def graph(self, name: str) -> Graph:
        if self.small:
            return _made("a small graph", *SMALL)
        return self.made(name, lambda: graph(name))

    def made(self, key: Any, make: Callable[[], T]) -> T:
        """What is made the first time only."""
        if key not in self._made:
            self._made[key] = make()
        found: T = self._made[key]
        return found

    def graphs(self, *names: str) -> list[Graph]:
        """Those that fit, and with `full` the larger ones."""
        chosen = names[:1] if self.small else (*names, *(FULL if self.full else ()))
        return [self.graph(name) for name in chosen]

    def labels(self, of: Graph, number: int) -> Array:
        """A label for each vertex, at random."""
        return np.random.default_rng(number).integers(0, number, int(of.v.max()) + 1)

    def labelled(self, name: str) -> tuple[Graph, Array]:
        """A graph whose vertices have labels of their own; or a made up one."""
        return self.made(("labelled", name), lambda: self._labelled(name))

    def _labelled(self, name: str) -> tuple[Graph, Array]:
        if not self.small and data.FOLDER and (data.FOLDER / data.graph_path(name)).exists():
            _, u, v = data.graph(name)
            return Graph(name, u, v), data.labels(name)
        if self.small:
            made, number = _made("a small graph", *SMALL), 3
        else:
            made, number = _made(f"made up, not {name}", 3_000, 9_000), 6
        return made, self.labels(made, number)

    @contextmanager
    def database(
        self, of: Graph, labels: Array | None = None, **options: Any
    ) -> Iterator[gd.Database]:
        """A database that gets the graph when it is first asked: earlier rows need none."""
        told = {"device": self.device, "timeout": self.cap, **options}

        def fill() -> None:
            db["E"] = self.made(id(of), lambda: (of, of.columns()["E"]))[1]  # keeps its id
            if labels is not None:
                db["L"] = {"v": np.arange(len(labels)), "l": labels}

        with self.connect(**told) as db:
            self._fill = fill
            try:
                yield db
            finally:
                self._fill = None

    def fill(self) -> None:
        """Gives the open database its data, if it has none yet."""
        fill, self._fill = self._fill, None
        if fill is not None:
            fill()

    # ------------------------------------------------------------------------------ figures

    def timed(self, row: Row, db: gd.Database, ask: Ask) -> Row:
        """Asks once, and then again while that is quick."""
        if (done := self.done.get(row.key)) is not None:
            return done
        if self.late or self._table not in row.table:
            row.trouble = NO_TIME
            return row
        if self.claims is not None and not self._claimed():
            row.trouble = AHEAD
            return row
        self.fill()
        driver = driver_of(db)
        clocks = driver if isinstance(driver, Clocked) else None
        try:
            memory.forget()
            before = memory.resident() if driver is None else empty_pool(driver.xp)
            cold, row.answer, row.kernels = _once(db, ask, clocks)
            settle(db)
            row.cold = self.colds.get(row.key, cold)
            if self.claims is not None:
                row.trouble = AHEAD
                return row
            most = memory.peak() if driver is None else pool_bytes(driver.xp)
            row.grown = None if most is None or before is None else max(0, most - before)
            enough = min(ON_A_GPU if self.on_gpu else ENOUGH, self.cap / 6)
            seconds = [] if cold > enough and not self.small else [cold]
            while sum(seconds) < enough and len(seconds) < (2 if self.small else RUNS):
                again, _, kernels = _once(db, ask, clocks)
                if row.kernels is not None and kernels is not None:
                    row.kernels = min(row.kernels, kernels)
                seconds.append(again)
            row.warm = min(seconds)
        except gd.TimeLimitError:
            row.trouble = stopped(self.cap)
        except (gd.Error, MemoryError) as error:
            row.trouble = str(error).splitlines()[0]
        except Exception as error:  # others are measured all the same
            print_exc()
            row.trouble = f"{FAILED}: {error!r}"
        return row

    def _claimed(self) -> bool:
        """Whether this process is the first that comes to a row."""
        assert self.claims is not None
        self._turn += 1
        try:
            (self.claims / str(self._turn)).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def counted(
        self, table: str, pattern: Pattern, of: Graph, db: gd.Database, labels: Array | None = None
    ) -> Row:
        """How often a pattern occurs: `db.count`."""
        row = self.timed(Row(table, f"{pattern.name}, {of.name}"), db, lambda db: db.count(pattern))
        if row.answer is not None and row.key not in self.done:
            second = self._second(row, pattern, of, db, labels)  # ahead, too: it is compiled
            if not row.trouble:
                self.check(row, *second)
        return row

    def _second(
        self, row: Row, pattern: Pattern, of: Graph, db: gd.Database, labels: Array | None
    ) -> tuple[Any, str]:
        """The count by another way, and which: by trying all, as it is known, by enumeration."""
        if self.small:
            return brute(pattern, of, labels), "brute force"
        if (known := known_count(pattern, of)) is not None:
            return known, "known"
        if (row.table, row.work) in self.known:
            return self.known[row.table, row.work], "the CPU"
        text = f"n(count()) <- {pattern.rule().partition(' <- ')[2]}"
        workspace = db.workspace
        with suppress(gd.Error):
            workspace.force(algebra="never")
            try:
                return db.query(text, timeout=self.cap / 2).fetchall()[0][0], "enumeration"
            finally:
                workspace.force(algebra="auto")
        return None, ""

    def check(self, row: Row, expected: Any, how: str) -> None:
        row.checked = how
        if how and row.answer != expected:
            row.trouble = f"WRONG: {expected} by {how}"


def driver_of(db: gd.Database) -> Any:
    """What drives the database's GPU; None on the CPU, and of several GPUs."""
    return getattr(db.workspace.device, "driver", None)


def settle(db: gd.Database) -> None:
    """Waits for kernels that the first run has done without."""
    ops = getattr(db.workspace.device, "ops", None)
    if (kernels := getattr(ops, "kernels", None)) is not None:
        kernels.settle()


def known_count(pattern: Pattern, of: Graph) -> int | None:
    """How often a pattern occurs in a graph, where others have counted it."""
    if pattern.labels:
        return None
    return KNOWN.get((of.name, NAMES.get(pattern.name, pattern.name)))


def _made(name: str, vertices: int, edges: int) -> Graph:
    return Graph(name, *skewed(vertices, edges, seed=3), real=False)


def brute(pattern: Pattern, of: Graph, labels: Array | None = None) -> int:
    """How often a pattern occurs in a small graph, by placing one vertex after the other."""
    size = int(of.v.max()) + 1
    told = None if labels is None or not pattern.labels else labels.tolist()
    edges = set(zip(of.u.tolist(), of.v.tolist(), strict=True))
    absent = set(combinations(range(size), 2)) - edges if pattern.absent else set()
    large = Shape.of(size, edges, absent, told or ())
    return sum(1 for _ in embeddings(pattern.shape(), large)) // pattern.automorphisms


def _once(db: gd.Database, ask: Ask, clocks: Clocked | None) -> tuple[float, Any, float | None]:
    """The seconds that it took, what it gave, and the seconds of kernels."""
    if clocks is not None:
        clocks.take()
    started = perf_counter()
    answer = ask(db)
    seconds = perf_counter() - started
    launches, kernels = (0, 0.0) if clocks is None else clocks.take()
    return seconds, answer, kernels if launches else None
