"""GAMMA (Hu et al. 2024): k-cliques, subgraph matching and frequent patterns, and their memory.

On a GPU, also with a tenth of the memory, on several GPUs, with small pools of results, and without
lists that are reused or intersections in one pass. Indexes that do not fit are read from pinned
memory alone, page by page, or cell by cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any
from unittest.mock import patch

import gdatalog as gd
from benchmarks.columns import Array
from benchmarks.graphs import Graph
from benchmarks.papers.bench import Ask, Bench, brute
from benchmarks.papers.frequent import mined, mining_of
from benchmarks.papers.report import Row
from gdatalog.account import Account
from gdatalog.engine import plan_files
from gdatalog.gpu_ops.intersection import Intersections
from gdatalog.limits import Limits
from gdatalog.patterns import Pattern, clique, named
from gdatalog.planner import build
from gdatalog.session import Session

MATCHED = ("P1", "P4", "house")  # with four labels
MINED = (("lab-citeseer", 3, 100), ("lab-citeseer", 4, 100), ("lab-yeast", 3, 100),
         ("lab-human", 3, 200), ("lab-wordnet", 3, 1000))  # fmt: skip
# How indexes that do not fit are read: `host_indexes`, and whether pages may lie on the device.
WAYS = {"pages": ("pages", True), "as chosen": ("auto", True), "pinned only": ("pages", False),
        "cells": ("cells", True)}  # fmt: skip
SHARE, SMALL_SHARE = 0.1, 0.5  # of the memory that a query holds
HELD, WHOLE = "held MB", "its indexes fit"
DEVICES = ("cuda:0", "cuda:0,1", "cuda:0,1,2,3")
POOLS = (1 << 12, 1 << 16, 1 << 22)  # rows


def run(bench: Bench) -> Iterator[Row]:
    for graph in bench.graphs("ca-GrQc", "email-Enron"):
        with bench.database(graph) as db:
            for pattern in cliques():
                yield bench.counted("GAMMA: k-cliques", pattern, graph, db)
        labels = bench.labels(graph, 4)
        with bench.database(graph, labels) as db:
            for pattern in matched():
                yield bench.counted("GAMMA: subgraph matching", pattern, graph, db, labels)
    for name, edges, support in bench.few(MINED):
        yield mined(bench, "GAMMA: frequent patterns", name, edges, support)
    if bench.on_gpu:
        graphs = [bench.graph(name) for name in bench.few(("email-Enron", "ego-Twitter"))]
        for graph in graphs:
            yield from _pools(bench, graph)
        for graph in graphs:
            yield from _parts(bench, graph, bench.labels(graph, 4))
        for graph in graphs:
            yield from _short(bench, graph, bench.labels(graph, 4))
        yield from _short_of_patterns(bench)
        yield from _several(bench, graphs[-1], bench.labels(graphs[-1], 4))


def cliques() -> list[Pattern]:
    return [clique(size) for size in (3, 4, 5)]


def matched() -> list[Pattern]:
    """Vertex i has label i modulo 4."""
    found = []
    for pattern in map(named, MATCHED):
        told = {v: at % 4 for at, v in enumerate(sorted(pattern.vertices))}
        found.append(pattern.labelled(told))
    return found


def _short(bench: Bench, graph: Graph, labels: Array) -> Iterator[Row]:
    """In memory, and with a share of what the query held there."""
    table = _short_table(bench)
    for pattern in bench.few([*cliques(), *matched()]):
        told = labels if pattern.labels else None
        text = pattern.count_rule(head="n")  # a rule that is kept would be asked for its result
        with bench.database(graph, told) as db:
            row, _ = _asked(bench, Row(table, f"{pattern.name}, {graph.name}, in memory"), db, text)
            if not row.trouble and HELD not in row.more:
                bench.fill()
                with suppress(gd.TimeLimitError):
                    row.more[HELD] = f"{db.profile(text).peak / 1e6:.3g}"
        yield _alike(bench, row, pattern, graph, told, None)
        limit = _limit(bench, row)
        for way, (indexes, pages) in WAYS.items() if HELD in row.more else ():
            with bench.database(graph, told, memory_limit=limit, pages=pages) as db:
                db.workspace.force(host_indexes=indexes)
                if bench.small:
                    db.workspace.force(strategy="levelwise")
                    db.workspace.chunk_rows = 64
                mine = Row(table, f"{pattern.name}, {graph.name}, {way}")
                mine, facts = _asked(bench, mine, db, text)
            if facts:
                mine.more = {"limit MB": f"{limit / 1e6:.3g}", "ran": facts}
            yield _alike(bench, mine, pattern, graph, told, row.answer)


def _short_of_patterns(bench: Bench) -> Iterator[Row]:
    """The same of frequent patterns."""
    table = _short_table(bench)
    name, edges, support = MINED[0 if bench.small else 2]
    with accounts() as held:
        row = mined(bench, table, name, edges, support, "in memory")
    if held and not row.trouble:
        row.more[HELD] = f"{max(account.peak for account in held) / 1e6:.3g}"
    yield row
    limit = _limit(bench, row)
    for way, (indexes, pages) in bench.few(list(WAYS.items())) if not row.trouble else ():
        more: dict[str, Any] = {"memory_limit": limit, "pages": pages}
        yield mined(bench, table, name, edges, support, way, host_indexes=indexes, **more)


def _short_table(bench: Bench) -> str:
    return f"GAMMA: a {'half' if bench.small else 'tenth'} of the memory"


def _limit(bench: Bench, row: Row) -> int:
    """Bytes: a share of what a query held in memory."""
    held = 1e6 * float(row.more.get(HELD, 0))
    return max(1, int(held * (SMALL_SHARE if bench.small else SHARE)))


@contextmanager
def accounts() -> Iterator[list[Account]]:
    """The accounts of memory of all calls meanwhile, which know the most that each has held."""
    found: list[Account] = []
    usual = Session._limits

    def noted(session: Session) -> Limits:
        made = usual(session)
        found.append(made.account)
        return made

    with patch.object(Session, "_limits", noted):
        yield found


def _asked(bench: Bench, row: Row, db: gd.Database, text: str) -> tuple[Row, str]:
    """The row, and where the rules ran: in cells, pages, on the CPU, or whole, if indexes fit; ""
    if that was not asked."""
    found = bench.timed(row, db, lambda db: int(db.query(text).fetchall()[0][0]))
    if found.trouble or found is not row:
        return found, ""
    try:
        facts = [dict(node.facts) for node in db.profile(text).tree.find("rule")]
    except gd.TimeLimitError:  # a profile takes longer
        return found, ""
    if any(each.get("device") == "cpu" for each in facts):
        return found, "on the CPU"
    ran = {
        "cells": sum(int(each.get("cells that ran") or 0) for each in facts),
        "MB copied": sum(int(each.get("bytes copied") or 0) for each in facts) / 1e6,
        "MB read": sum(int(each.get("bytes read, by lists") or 0) for each in facts) / 1e6,
        "MB of pages": sum(int(each.get("bytes copied to pages") or 0) for each in facts) / 1e6,
    }
    return found, ", ".join(f"{value:.3g} {name}" for name, value in ran.items() if value) or WHOLE


def _alike(
    bench: Bench, row: Row, pattern: Pattern, graph: Graph, labels: Array | None, expected: Any
) -> Row:
    """Rows count embeddings."""
    if not row.trouble:
        told = expected
        if bench.small:
            told = brute(pattern, graph, labels) * pattern.automorphisms
        if told is not None:
            bench.check(row, told, "brute force" if bench.small else "in memory")
    return row


def _parts(bench: Bench, graph: Graph, labels: Array) -> Iterator[Row]:
    """Breadth-first, as it is, and without each of two parts."""
    for pattern in bench.few([*cliques(), *matched()]):
        told, expected = labels if pattern.labels else None, None
        for name, without in PARTS.items():
            with bench.database(graph, told) as db, without():
                db.workspace.force(algebra="never", strategy="levelwise")
                row = Row("GAMMA: parts of breadth-first", f"{pattern.name}, {graph.name}, {name}")
                row = bench.timed(row, db, lambda db, one=pattern: db.count(one))
            if not row.trouble:
                expected = expected or (brute(pattern, graph, told) if bench.small else row.answer)
                bench.check(row, expected, "brute force" if bench.small else "each other")
            yield row


@contextmanager
def no_sharing() -> Iterator[None]:
    """Plans without lists that a later level reuses. They are not stored."""
    with (
        patch.object(build, "reuse_lists", lambda steps, *_: tuple(steps)),
        patch.object(plan_files, "_path", lambda _: None),
    ):
        yield


@contextmanager
def no_fused_search() -> Iterator[None]:
    """A level is expanded by an operation for each list and test, each with its own pass."""
    with patch.object(Intersections, "fused", lambda *_, **__: None):
        yield


PARTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "as it is": nullcontext,
    "without prefix sharing": no_sharing,
    "without filter-collect-search in one pass": no_fused_search,
}


def _several(bench: Bench, graph: Graph, labels: Array) -> Iterator[Row]:
    """On 1, 2 and 4 GPUs."""
    expected: dict[str, Any] = {}
    for device in DEVICES:
        for pattern in bench.few([*cliques(), *matched()]):
            told = labels if pattern.labels else None
            row = Row("GAMMA: several GPUs", f"{pattern.name}, {graph.name}, {device}")
            try:
                with bench.database(graph, told, device=device) as db:
                    count: Ask = lambda db, one=pattern: db.count(one)  # noqa: E731
                    row = bench.timed(row, db, count)
            except gd.DeviceError as reason:
                row.trouble = str(reason).splitlines()[0]
            if not row.trouble:
                first = expected.setdefault(pattern.name, row.answer)
                known = brute(pattern, graph, told) if bench.small else first
                bench.check(row, known, "brute force" if bench.small else "one GPU")
            yield row
        name, edges, support = MINED[-1]
        try:
            yield mined(bench, "GAMMA: several GPUs", name, edges, support, device, device=device)
        except gd.DeviceError as reason:
            work = f"{mining_of(bench, name, edges, support)}, {device}"
            trouble = str(reason).splitlines()[0]
            yield Row("GAMMA: several GPUs", work, trouble=trouble)


def _pools(bench: Bench, graph: Graph) -> Iterator[Row]:
    """Rows of results, written to pools of several sizes, which are drained when they are full; and
    without a pool of unknown rows: counted first, then written to as much room."""
    pattern = clique(3) if bench.small else clique(4)
    text = f"n(count()) <- {pattern.rule().partition(' <- ')[2]}"
    expected = None
    for rows in (0, *POOLS):
        with bench.database(graph) as db:
            db.workspace.force(strategy="lftj", algebra="never")

            def ask(db: gd.Database, rows: int = rows) -> int:
                if not rows:
                    rows = int(db.query(text).fetchall()[0][0])
                    rows += rows // 8  # the last block of each tile is not full
                db.workspace.tune(pool_rows=rows, pool_rows_most=rows)
                return len(db.match(pattern))

            told = f"{rows:,} rows" if rows else "counted first"
            row = Row("GAMMA: the pool of results", f"{pattern.name}, {graph.name}, {told}")
            row = bench.timed(row, db, ask)
        if not row.trouble:
            expected = expected or (brute(pattern, graph) if bench.small else row.answer)
            bench.check(row, expected, "brute force" if bench.small else "each other")
        yield row
