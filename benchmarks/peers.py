"""The peers, set up as a user would, on no more than two threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.graphs import Graph

THREADS = 2


def duckdb_with(graph: Graph) -> Any:
    """A DuckDB connection with a graph's edges as table e(a, b)."""
    import duckdb

    con = duckdb.connect(config={"threads": THREADS})
    frame = pd.DataFrame({"a": graph.u.astype(np.int32), "b": graph.v.astype(np.int32)})
    con.execute("set enable_progress_bar = false")
    con.register("frame", frame)
    con.execute("create table e as select * from frame")
    return con
