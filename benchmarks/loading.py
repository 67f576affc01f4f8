"""Loading five million edges, its trie included, beside `np.unique` on the same pairs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import gdatalog as gd
from benchmarks.measure import Row, interleaved, once
from tests.data import Array

EDGES, VERTICES = 5_000_000, 1_000_000
WITHIN = 3.0
# Asks for the trie of E, by its first column, and for nothing that takes time itself.
NEEDS_TRIE = "found() <- E(0, _)."


def random_edges(seed: int) -> Array:
    """Edges in random order, few of them twice."""
    return np.random.default_rng(seed).integers(0, VERTICES, size=(EDGES, 2))


def by_sorting(packed: Array) -> Array:
    """What np.unique gives. NumPy 2.3 and later use a hash table, which is slower here."""
    values = np.sort(packed)
    unique: Array = values[np.append(True, values[1:] != values[:-1])]
    return unique


def run() -> Iterator[Row]:
    edges = random_edges(seed=3)
    frame = pd.DataFrame(edges, columns=["src", "dst"])
    packed = edges[:, 0] << 32 | edges[:, 1]
    unique_seconds, unique = once(lambda: np.unique(packed))
    assert np.array_equal(unique, by_sorting(packed))

    def load(data: object) -> None:
        with gd.connect() as db:
            db["E"] = data
            db.query(NEEDS_TRIE)
            assert len(db["E"]) == len(unique)

    def row(name: str, data: object) -> Row:
        seconds, peer = interleaved([lambda: load(data), lambda: by_sorting(packed)], rounds=5)
        return Row(
            "loading",
            f"5 million edges from {name}, trie included",
            seconds,
            "np.unique of the pairs, by np.sort",
            peer,
            wanted=f"at most {WITHIN:g}x the time",
            met=seconds <= WITHIN * min(peer, unique_seconds),
            trap="the peer gets the pairs packed and in memory, and makes no trie; np.unique "
            f"itself took {unique_seconds:.2f} s with NumPy {np.__version__}",
        )

    with TemporaryDirectory() as folder:
        path = Path(folder) / "edges.parquet"
        pq.write_table(pa.Table.from_pandas(frame), path)
        yield row("Parquet", path)
    yield row("a DataFrame", frame)
    yield row("a DataFrame in order", frame.sort_values(["src", "dst"], ignore_index=True))
