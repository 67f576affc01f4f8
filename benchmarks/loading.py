"""Loading five million edges, its trie included, beside sorting the same pairs with NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.columns import Columns, distinct
from benchmarks.graphs import short
from benchmarks.records import Case, faster
from benchmarks.setting import Setting

EDGES, VERTICES = 5_000_000, 1_000_000
# Asks for the trie of E, by its first column, and for nothing that takes time itself.
NEEDS_TRIE = "found() <- E(0, _)."
_NOTE = "the peer gets the pairs packed and in memory, and makes no trie"


@dataclass(frozen=True, slots=True)
class Loading:
    """A new database with these edges: of a DataFrame, or of a Parquet file."""

    parquet: str = ""
    in_order: bool = False
    threads: int = 1
    name: str = "ours"

    def load(self, data: Columns) -> Any:
        import pandas as pd

        frame = pd.DataFrame(data["E"])
        if self.in_order:
            frame = frame.sort_values(["a", "b"], ignore_index=True)
        if self.parquet:
            frame.to_parquet(self.parquet)
            return Path(self.parquet)
        return frame

    def build(self, given: Any) -> Any:
        return given

    def answer(self, state: Any) -> int:
        import gdatalog as gd

        with gd.connect() as db:
            db["E"] = state
            db.query(NEEDS_TRIE)
            return len(db["E"])

    def value(self, answer: Any) -> Any:
        return answer


@dataclass(frozen=True, slots=True)
class Sorting:
    """The different pairs by np.sort, which is quicker here than np.unique."""

    threads: int = 1
    name: str = "np.unique by np.sort"

    def load(self, data: Columns) -> Any:
        return data["E"]["a"].astype(np.int64) << 32 | data["E"]["b"]

    def build(self, given: Any) -> Any:
        return given

    def answer(self, state: Any) -> int:
        return len(distinct(state))

    def value(self, answer: Any) -> Any:
        return answer


def run(setting: Setting) -> Iterator[Case]:
    edges = EDGES // 100 if setting.small else EDGES

    def columns() -> Columns:
        a, b = np.random.default_rng(3).integers(0, VERTICES, size=(2, edges))
        return {"E": {"a": a, "b": b}}

    if not setting.wants("loading", 40):
        return
    data = setting.stored("random pairs", columns)
    parquet = str(setting.folder / "pairs.parquet")
    for source, side in (
        ("Parquet", Loading(parquet)),
        ("a DataFrame", Loading()),
        ("a DataFrame in order", Loading(in_order=True)),
    ):
        what = f"{short(edges)} edges from {source}, trie included"
        case = setting.race("loading", what, data, [side, Sorting()], notes=(_NOTE,))
        case.asks = [faster(case, "ours", [Sorting().name], 0.33)]
        yield case
