"""What all papers need: graphs with labels, databases, clocks, and the second way to each count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import combinations
from time import perf_counter
from typing import Any

import numpy as np

import gdatalog as gd
from benchmarks import memory
from benchmarks.columns import Array
from benchmarks.graphs import Graph, graph, skewed
from benchmarks.patterns import KNOWN
from gdatalog.patterns import Pattern
from gdatalog.patterns.shapes import Shape, embeddings
from tests import data

NAMES = {"clique3": "triangles", "clique4": "K4", "clique5": "K5", "P2": "K4", "P7": "K5"}
RUNS, ENOUGH = 5, 3.0  # warm runs, and the seconds after which there are no more
SMALL = (20, 80)  # vertices and edges
FULL = ("ego-Twitter", "cnr-2000")

Ask = Callable[[gd.Database], Any]


@dataclass(slots=True)
class Row:
    """A piece of work. `cold` has planning, compilation and indexes; `grown`: bytes of memory."""

    table: str
    work: str
    answer: Any = None
    checked: str = ""  # how
    cold: float | None = None
    warm: float | None = None
    grown: int | None = None
    more: dict[str, str] = field(default_factory=dict)  # columns of this table alone
    trouble: str = ""


@dataclass(slots=True)
class Bench:
    """`cap`: seconds after which a run is stopped. `connect` opens databases."""

    small: bool = False
    full: bool = False
    device: str = "cpu"
    cap: float = 20.0
    connect: Callable[..., gd.Database] = gd.connect

    # --------------------------------------------------------------------------------- data

    def graph(self, name: str) -> Graph:
        if self.small:
            return _made("a small graph", *SMALL)
        return graph(name)

    def graphs(self, *names: str) -> list[Graph]:
        """Those that fit, and with `full` the larger ones."""
        chosen = names[:1] if self.small else (*names, *(FULL if self.full else ()))
        return [self.graph(name) for name in chosen]

    def labels(self, of: Graph, number: int) -> Array:
        """A label for each vertex, at random."""
        return np.random.default_rng(number).integers(0, number, int(of.v.max()) + 1)

    def labelled(self, name: str) -> tuple[Graph, Array]:
        """A graph whose vertices have labels of their own; or a made up one."""
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
        with self.connect(device=self.device, **{"timeout": self.cap, **options}) as db:
            db["E"] = of.columns()["E"]
            if labels is not None:
                db["L"] = {"v": np.arange(len(labels)), "l": labels}
            yield db

    # ------------------------------------------------------------------------------ figures

    def timed(self, row: Row, db: gd.Database, ask: Ask) -> Row:
        """Asks once, and then again while that is quick."""
        try:
            memory.forget()
            before = memory.resident()
            row.cold, row.answer = _once(db, ask)
            row.grown = max(0, memory.peak() - before)
            seconds = [] if row.cold > ENOUGH and not self.small else [row.cold]
            while sum(seconds) < ENOUGH and len(seconds) < (2 if self.small else RUNS):
                seconds.append(_once(db, ask)[0])
            row.warm = min(seconds)
        except gd.TimeLimitError:
            row.trouble = f"stopped after {self.cap:g} s"
        except gd.Error as error:
            row.trouble = str(error).splitlines()[0]
        return row

    def counted(
        self, table: str, pattern: Pattern, of: Graph, db: gd.Database, labels: Array | None = None
    ) -> Row:
        """How often a pattern occurs: `db.count`."""
        row = self.timed(Row(table, f"{pattern.name}, {of.name}"), db, lambda db: db.count(pattern))
        if not row.trouble:
            self.check(row, *self._second(pattern, of, db, labels))
        return row

    def _second(
        self, pattern: Pattern, of: Graph, db: gd.Database, labels: Array | None
    ) -> tuple[Any, str]:
        """The count by another way, and which: by trying all, as it is known, by enumeration."""
        if self.small:
            return brute(pattern, of, labels), "brute force"
        known = KNOWN.get((of.name, NAMES.get(pattern.name, pattern.name)))
        if known is not None and not pattern.labels:
            return known, "known"
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


def _once(db: gd.Database, ask: Ask) -> tuple[float, Any]:
    started = perf_counter()
    answer = ask(db)
    return perf_counter() - started, answer


def markdown(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each name of one."""
    for table in dict.fromkeys(row.table for row in rows):
        mine = [row for row in rows if row.table == table]
        cells = [_cells(row) for row in mine]
        more = dict.fromkeys(name for row in mine for name in row.more)
        every = ["work", "answer", "checked by", *more, "cold s", "warm s", "MiB"]
        names = [name for name in every if any(one.get(name) for one in cells)]
        yield f"\n## {table}\n"
        yield f"| {' | '.join(names)} |"
        yield f"| --- |{' ---: |' * (len(names) - 1)}"
        for one in cells:
            yield f"| {' | '.join(one.get(name, '') for name in names)} |"


def _cells(row: Row) -> dict[str, str]:
    told = f"{row.answer:,}" if isinstance(row.answer, int) else str(row.answer or "")
    return {
        "work": row.work,
        "answer": row.trouble or told,
        "checked by": row.checked,
        **row.more,
        "cold s": "" if row.cold is None else f"{row.cold:.3g}",
        "warm s": "" if row.warm is None else f"{row.warm:.3g}",
        "MiB": "" if row.grown is None else f"{row.grown / 2**20:,.0f}",
    }
