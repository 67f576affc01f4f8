"""Frequent patterns of labelled graphs: a row of a table, whose supports are computed once more.

Where the CPU has mined the same, or this run in another way, the sum of all supports is compared:
computing those of a sample by all embeddings takes many times as long.
"""

from __future__ import annotations

from typing import Any

import gdatalog as gd
from benchmarks.papers.bench import Bench
from benchmarks.papers.report import Row
from gdatalog.patterns import Pattern

CHECKED = 20  # patterns: systematic sample


def mined(
    bench: Bench,
    table: str,
    name: str,
    k_edges: int,
    support: int,
    way: str = "",
    *,
    host_indexes: str = "auto",
    **options: Any,
) -> Row:
    """Those with so much support (MNI); checked: that of some of them, by all embeddings, or their
    sum, by that of such a run.

    `way`: how, where that is not the usual way; `options`: of the database.
    """
    graph, labels = bench.labelled(name)
    k_edges, support = (2, 4) if bench.small else (k_edges, support)
    mining = mining_of(bench, name, k_edges, support)
    with bench.database(graph, labels, **options) as db:
        db.workspace.force(host_indexes=host_indexes)
        found = []

        def ask(db: gd.Database) -> int:
            found[:] = [db.frequent(k_edges, support)]
            return len(found[0])

        work = f"{mining}, {way}" if way else mining
        row = bench.timed(Row(table, work), db, ask)
        if row.trouble or not found:  # or of an earlier run
            return row
        patterns, supports = found[0]["pattern"].tolist(), found[0]["support"].tolist()
        row.more["supports"] = total = f"{sum(supports):,}"
        if (known := bench.supports.get(mining)) is not None:
            row.checked = "their supports"
            if known != total:
                row.trouble = f"WRONG: supports of {total} in all, not {known}"
            return row
        step = max(1, len(patterns) // CHECKED)
        try:
            for pattern, told in list(zip(patterns, supports, strict=True))[::step]:
                again = least_image(db, pattern)
                if again != told:
                    row.trouble = f"WRONG: {pattern} has support {again}, not {told}"
            row.checked = "all embeddings of some"
            bench.supports[mining] = total
        except gd.Error:
            row.checked = ""
    return row


def mining_of(bench: Bench, name: str, k_edges: int, support: int) -> str:
    return f"{bench.labelled(name)[0].name}, up to {k_edges} edges, support {support}"


def least_image(db: gd.Database, pattern: Pattern) -> int:
    """MNI as it is defined: the vertices in each position, over all embeddings."""
    body = ", ".join([*pattern.body(), f"distinct({', '.join(pattern.vertices)})"])
    asked = [f"m(count_distinct({vertex})) <- {body}." for vertex in pattern.vertices]
    return min(int(db.query(text).fetchall()[0][0]) for text in asked)
