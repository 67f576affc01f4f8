"""gdatalog as a side of a case, and the loops written by hand that stand beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.columns import Columns, Relation

DEPTH, BREADTH = "ours, depth-first", "ours, breadth-first"
THREADS = 2


@dataclass(frozen=True, slots=True)
class Gdatalog:
    """A rule over relations as a user gives them: one DataFrame each, unsorted or not."""

    text: str
    strategy: str = "lftj"
    threads: int = THREADS
    arrow: bool = False  # the answer is wanted as Arrow columns, else it is one number
    label: str = ""
    intersect: str = ""  # forces one kind of intersection
    chained: bool = False  # no part of a rule becomes a branch of its own

    @property
    def name(self) -> str:
        named = {"lftj": DEPTH, "levelwise": BREADTH, "auto": "ours"}[self.strategy]
        return self.label or named

    def breadth_first(self) -> Gdatalog:
        return replace(self, strategy="levelwise", label="")

    def load(self, data: Columns) -> Any:
        import pandas as pd

        import gdatalog

        assert gdatalog.connect  # which imports the engine
        if self.chained:
            from gdatalog.planner.build import ConjunctionBuilder

            ConjunctionBuilder._split = lambda conjunction: False  # type: ignore[method-assign]
        return {name: pd.DataFrame(relation) for name, relation in data.items()}

    def build(self, given: Any) -> Any:
        import gdatalog as gd

        db = gd.connect(threads=self.threads)
        if self.intersect:
            db.workspace.force(intersect=self.intersect)
        for name, frame in given.items():
            db[name] = frame
        return db

    def answer(self, state: Any) -> Any:
        result = state.query(self.text, strategy=self.strategy)
        return result.to_arrow() if self.arrow else int(result.fetchall()[0][0])

    def value(self, answer: Any) -> Any:
        return digest_of(answer) if self.arrow else answer


@dataclass(frozen=True, slots=True)
class Recursive(Gdatalog):
    """A recursive program; its answer are rows that are counted, or one row of numbers."""

    strategy: str = "auto"

    def answer(self, state: Any) -> Any:
        result = state.query(self.text, strategy=self.strategy)
        if self.arrow:
            import pyarrow as pa

            return sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(result))
        return result.fetchall()[0] if len(result) == 1 else len(result)

    def value(self, answer: Any) -> Any:
        if not isinstance(answer, tuple):
            return answer
        return answer[0] if len(answer) == 1 else f"{answer[0]:,}, their sum {answer[1]:,}"


@dataclass(frozen=True, slots=True)
class Following(Gdatalog):
    """New edges, and how many tuples there are then.

    `way`: before that all was evaluated and `earlier` edges were followed ("again"), all was
    evaluated with them ("first"), or nothing was ("start").
    """

    added: tuple[tuple[int, int], ...] = ()
    earlier: tuple[tuple[int, int], ...] = ()
    way: str = "again"
    strategy: str = "auto"

    @property
    def name(self) -> str:
        told = {"again": "following", "first": "following for the first time"}
        return f"ours, {told.get(self.way, 'from the start')}"

    def build(self, given: Any) -> Any:
        db = Gdatalog.build(self, given)
        db.run(self.text)
        if self.way == "again":
            len(db["path"])
        db.insert("edge", list(self.earlier))
        if self.way != "start":
            len(db["path"])
        return db

    def answer(self, state: Any) -> int:
        state.insert("edge", list(self.added))
        return len(state["path"])


@dataclass(frozen=True, slots=True)
class Loop:
    """Cliques of `size`, counted by one of the loops written by hand, over degree order."""

    kind: str  # merge mark bitset
    size: int
    threads: int = THREADS

    @property
    def name(self) -> str:
        return f"Numba loop, {self.kind}"

    def load(self, data: Columns) -> Any:
        from benchmarks import loops

        function = {
            ("merge", 3): loops.triangles_merged,
            ("merge", 4): loops.k4_merged,
            ("merge", 5): loops.k5_merged,
            ("mark", 3): loops.triangles_marked,
            ("bitset", 4): loops.k4_recoded,
            ("bitset", 5): loops.k5_recoded,
        }[self.kind, self.size]
        return function, graph_of(data["E"])

    def build(self, given: Any) -> Any:
        from benchmarks.loops import degree_oriented

        function, edges = given
        return function, *degree_oriented(*(ends.astype(np.int64) for ends in edges))

    def answer(self, state: Any) -> int:
        from benchmarks.loops import count

        return count(*state, self.threads)

    def value(self, answer: Any) -> Any:
        return int(answer)


def digest_of(table: Any) -> str:
    """The digest of an Arrow table of ints that are not negative; a null counts as -1."""
    return digest([column.fill_null(-1).to_numpy() for column in table.columns])


def digest(columns: list[Any]) -> str:
    """The same for the same rows, in whatever order rows and the values in each of them are."""
    rows = np.sort(np.stack([np.asarray(column, dtype=np.uint64) for column in columns]), axis=0)
    mixed = np.zeros(rows.shape[1], dtype=np.uint64)
    for row in rows:
        mixed = (mixed ^ row) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return f"{rows.shape[1]:,} rows, {int(mixed.sum()):016x}"


def graph_of(edges: Relation) -> tuple[Any, Any]:
    """Each edge of a symmetric relation once, from the smaller vertex to the larger."""
    once = edges["a"] < edges["b"]
    return edges["a"][once], edges["b"][once]
