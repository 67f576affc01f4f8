"""Loading five million edges, its trie included, beside sorting the same pairs with NumPy; and a
facts file of texts, beside DuckDB."""

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
TEXTS = 1_000_000  # rows of three texts
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


def facts_file(data: Columns, path: Path) -> Path:
    """Names as a program analysis has them: long, and alike at their beginnings."""
    if not path.exists():
        a, b = data["E"]["a"].tolist(), data["E"]["b"].tolist()
        with open(path, "w", encoding="utf-8") as file:
            for at, (x, y) in enumerate(zip(a, b, strict=True)):
                method = f"<org.example.package{x % 997}.Class{x % 9973}: void run{x % 31}()>"
                file.write(f"{method}/assign/{at}\t{method}/local{y % 57}\t{method}\n")
    return path


@dataclass(frozen=True, slots=True)
class FactsFile:
    """The rows of a facts file, which are distinct."""

    path: Path
    threads: int = 1
    name: str = "ours"

    def load(self, data: Columns) -> Any:
        return facts_file(data, self.path)

    def build(self, given: Any) -> Any:
        return given

    def answer(self, state: Any) -> int:
        import gdatalog as gd

        with gd.connect() as db:
            db.run(f'.decl p(x: symbol, y: symbol, z: symbol)\n.input p(filename="{state}")')
            return len(db["p"])

    def value(self, answer: Any) -> Any:
        return answer


@dataclass(frozen=True, slots=True)
class DuckFacts:
    """The same rows in a table of DuckDB, with one thread as we have."""

    path: Path
    threads: int = 1
    name: str = "DuckDB"

    def load(self, data: Columns) -> Any:
        return facts_file(data, self.path)

    def build(self, given: Any) -> Any:
        return given

    def answer(self, state: Any) -> int:
        import duckdb

        with duckdb.connect() as db:
            db.execute(f"set threads = {self.threads}")
            kinds = "{'x': 'VARCHAR', 'y': 'VARCHAR', 'z': 'VARCHAR'}"
            how = f"delim='\t', quote='', escape='', header=false, columns={kinds}"
            db.execute(f"create table p as select distinct * from read_csv('{state}', {how})")
            found = db.execute("select count(*) from p").fetchone()
            return int(found[0]) if found else 0

    def value(self, answer: Any) -> Any:
        return answer


def run(setting: Setting) -> Iterator[Case]:
    edges, rows = (count // 100 if setting.small else count for count in (EDGES, TEXTS))

    def columns(count: int) -> Columns:
        a, b = np.random.default_rng(3).integers(0, VERTICES, size=(2, count))
        return {"E": {"a": a, "b": b}}

    if not setting.wants("loading", 40):
        return
    data = setting.stored("random pairs", lambda: columns(edges))
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

    data = setting.stored("pairs to make texts of", lambda: columns(rows))
    path = setting.folder / f"texts{rows}.facts"
    what = f"{short(rows)} rows of three texts from a facts file"
    case = setting.race("loading", what, data, [FactsFile(path), DuckFacts(path)])
    case.asks = [faster(case, "ours", ["DuckDB"], 1)]
    yield case
