"""Partial aggregates that are made apart: sent, dealt out by their keys, and put together."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from gdatalog.cluster.rows.shuffle import owner_of
from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.device import CPU
from gdatalog.executors import gather
from gdatalog.executors.gather import Gathering
from gdatalog.limits import Limits
from gdatalog.plan.join_plan import Gather, Slot
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Array

VALUE, TEXT = Slot("v", "int"), Slot("t", "symbol")
SPECS = [
    Gather("count", (), "count", "int"),
    Gather("sum", (VALUE,), "sum", "int"),
    Gather("mean", (VALUE,), "mean", "float"),
    Gather("min", (TEXT,), "least", "symbol"),
    Gather("max", (VALUE,), "most", "int"),
    Gather("count_distinct", (VALUE,), "values", "int"),
]


@pytest.fixture
def symbols() -> SymbolTable:
    table = SymbolTable()
    for text in "edcba":
        table.intern(text)
    return table


def empty(symbols: SymbolTable) -> Gathering:
    return Gathering(SPECS, CPU.ops, Scope(symbols), Limits(chunk=16))


def filled(symbols: SymbolTable, seed: int, rows: int) -> Gathering:
    rng = np.random.default_rng(seed)
    columns = {
        "v": rng.integers(0, 1 << 62, rows) >> rng.integers(0, 60, rows),
        "t": rng.integers(0, 5, rows),
    }
    gathering = empty(symbols)
    keys = rng.integers(0, 40, rows), rng.integers(0, 2, rows)
    gathering.add(keys, rows, columns, None)
    return gathering


def finished(gathering: Gathering) -> dict[tuple[int, ...], tuple[int, ...]]:
    keys, values = gathering.finish()
    rows = list(zip(*(column.tolist() for column in (*keys, *values)), strict=True))
    assert len({row[:2] for row in rows}) == len(rows)
    return {row[:2]: row[2:] for row in rows}


def expected(symbols: SymbolTable, seeds: range, rows: int) -> dict[tuple[int, ...], Array]:
    whole = empty(symbols)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        columns = {
            "v": rng.integers(0, 1 << 62, rows) >> rng.integers(0, 60, rows),
            "t": rng.integers(0, 5, rows),
        }
        keys = rng.integers(0, 40, rows), rng.integers(0, 2, rows)
        whole.add(keys, rows, columns, None)
    return finished(whole)


def test_parts_that_were_sent_come_together(symbols: SymbolTable) -> None:
    whole = empty(symbols)
    for seed in range(6):
        whole.join(pickle.loads(pickle.dumps(filled(symbols, seed, 50))))
    assert finished(whole) == expected(symbols, range(6), 50)


def test_parts_that_have_nothing_change_nothing(symbols: SymbolTable) -> None:
    whole = empty(symbols)
    whole.join(empty(symbols))
    assert whole.finish()[0] == () and whole.groups == 0
    whole.join(filled(symbols, 0, 50))
    whole.join(empty(symbols))
    assert finished(whole) == expected(symbols, range(1), 50)


def test_each_group_has_one_owner(symbols: SymbolTable) -> None:
    owners = [empty(symbols) for _ in range(3)]
    for seed in range(6):
        for owner, part in zip(owners, filled(symbols, seed, 50).dealt(3, owner_of), strict=True):
            owner.join(pickle.loads(pickle.dumps(part)))
    found = [finished(owner) for owner in owners]
    assert all(found)
    assert sum(map(len, found)) == len({key for part in found for key in part})
    assert {**found[0], **found[1], **found[2]} == expected(symbols, range(6), 50)


@pytest.mark.parametrize(("weighed", "expected"), [(False, 0), (True, 0), (True, 400)])
def test_rows_that_are_groups_of_their_own_are_grouped_once(
    symbols: SymbolTable, weighed: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks are not grouped after one in which most rows are alone, until merging finds equal
    ones; if it is known how many rows come, they are merged once."""
    found, grouped = [], list[list[int]]()
    plain = CPU.ops.group_rows
    for many in (1 << 60, 1):
        grouped.append([])

        def counted(keys: Any, size: int, calls: list[int] = grouped[-1]) -> Any:
            calls.append(size)
            return plain(keys, size)

        monkeypatch.setattr(gather, "MANY", many)
        monkeypatch.setattr(CPU.ops, "group_rows", counted)
        rng, whole = np.random.default_rng(5), empty(symbols)
        whole.expected = expected
        for chunk in range(40):
            keys = rng.integers(0, 40 if chunk in (1, 20) else 10**9, 10), np.zeros(10, dtype=int)
            columns = {"v": rng.integers(-9, 1 << 56, 10), "t": rng.integers(0, 5, 10)}
            whole.add(keys, 10, columns, rng.integers(1, 9, 10) if weighed else None)
        found.append(finished(whole))
    assert found[0] == found[1] and 350 < len(found[0]) < 400
    assert len(grouped[1]) < (4 if expected else 6) and len(grouped[0]) > 40
