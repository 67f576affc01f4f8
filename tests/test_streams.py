"""Answers are written block by block: the same rows, few of them decoded at a time, and no part of
a file where that fails."""

from __future__ import annotations

import os
import resource
import weakref
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from loading import read_table

import gdatalog as gd
from gdatalog import result as result_module
from gdatalog.errors import DataError
from gdatalog.result import Result
from gdatalog.storage import row_groups, writers
from gdatalog.storage.export import to_rows
from gdatalog.storage.load_options import TypedColumns
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_groups import rows_at_once
from gdatalog.storage.rows import cut
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Table
from gdatalog.storage.writers import write_tables

ROWS = 1000
PLAIN = ["r.csv", "r.tsv", "r.facts", "r.json", "r.jsonl", "r.parquet", "r.arrow"]
NAMES = [*PLAIN, "r.csv.gz", "r.facts.zst", "folder/"]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are decoded at a time, and few stand in a file of a folder."""
    monkeypatch.setattr(row_groups, "GROUP", 64)
    monkeypatch.setattr(result_module, "FILE", 300)
    monkeypatch.setattr(result_module, "LONG", 200)


def answer(rows: int = ROWS) -> Result:
    """Rows of all types, in blocks of any length, as the threads of an executor leave them."""
    symbols, rng = SymbolTable(), np.random.default_rng(rows)
    codes = np.array([symbols.intern(f"é {at % 37}") for at in range(rows)], dtype=np.int32)
    keys = (
        rng.permutation(rows).astype(np.int64) - 7,
        rng.integers(0, 1 << 62, rows),
        codes,
        (np.arange(rows) % 2).astype(np.int32),
        rng.integers(-(1 << 60), 1 << 60, rows),
    )
    ends = sorted({0, rows, *rng.integers(0, rows + 1, 9).tolist()})
    blocks = [tuple(key[a:b] for key in keys) for a, b in pairwise(ends)]
    names, types = ("i", "f", "s", "b", "t"), ("int", "float", "symbol", "bool", "timestamp")
    return Result(Relation.of_blocks(names, types, blocks, rows, distinct=True), symbols, blocks)


def columns_of(r: Result) -> TypedColumns:
    return TypedColumns(r.columns, r._relation.types)


def write(r: Result, name: str) -> None:
    if name.endswith(("/", ".parquet")):
        r.to_parquet(name)
    else:
        write_tables(r.tables(), len(r), name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [0, 1, 64, ROWS])
def test_files_of_several_blocks(name: str, rows: int, short_blocks: None) -> None:
    r = answer(rows)
    write(r, name)
    again = read_table(name, declared=columns_of(r))
    assert sorted(to_rows(again)) == sorted(to_rows(r.table()))
    assert os.listdir() == [name.rstrip("/")]


@pytest.mark.parametrize("name", PLAIN[:5])
def test_texts_of_several_blocks_are_those_of_one(name: str, short_blocks: None) -> None:
    r = answer()
    write(r, name)
    writers.write_table(r.table(), f"one-{name}")
    assert Path(name).read_bytes() == Path(f"one-{name}").read_bytes()


def test_groups_are_as_long_as_rows_are_narrow(short_blocks: None) -> None:
    answer().to_parquet("r.parquet")
    groups = pq.ParquetFile("r.parquet").metadata
    lengths = [groups.row_group(at).num_rows for at in range(groups.num_row_groups)]
    assert lengths == [64] * 15 + [40]
    answer().to_parquet("folder/")
    assert [pq.read_metadata(f"folder/part-{at:05}.parquet").num_rows for at in range(4)] == [
        300, 300, 300, 100
    ]  # fmt: skip


def test_rows_at_once() -> None:
    assert rows_at_once(("int",) * 4) == rows_at_once(("int",)) == 1 << 20
    assert rows_at_once(("int",) * 32) == 1 << 17
    assert rows_at_once(("symbol",) * 4) == 1 << 18


@pytest.mark.parametrize("name", NAMES)
def test_few_blocks_are_decoded_at_a_time(
    name: str, short_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"alive": 0, "most": 0, "decoded": 0}
    table_of = Result.table

    def gone() -> None:
        counts["alive"] -= 1

    def table(self: Result, *args: Any) -> Table:
        found = table_of(self, *args)
        assert found.length <= 64
        seen = np.asarray(found.columns[0]).view(Seen)
        weakref.finalize(seen, gone)
        counts["alive"] += 1
        counts["decoded"] += 1
        counts["most"] = max(counts["most"], counts["alive"])
        columns = (seen.view(Seen), *found.columns[1:])
        return Table(found.names, found.types, columns, found.length)

    monkeypatch.setattr(Result, "table", table)
    write(answer(), name)
    # One is written, a thread makes the next; a loop still has the one before.
    assert counts["decoded"] >= 16 and counts["most"] <= 3


class Seen(np.ndarray[Any, Any]):
    """An array of which one sees when it goes."""


def test_cut() -> None:
    blocks = [(np.arange(start, stop),) for start, stop in ((0, 5), (5, 5), (5, 6), (6, 13))]
    for rows in (1, 2, 3, 4, 6, 13, 20):
        parts = [np.concatenate([part[0] for part in each]) for each in cut(blocks, rows)]
        assert np.concatenate(parts).tolist() == list(range(13))
        assert [len(part) for part in parts[:-1]] == [rows] * (len(parts) - 1)
    assert list(cut([], 4)) == [[]]


# ------------------------------------------------------------------------------------- failures


def broken(r: Result, error: BaseException) -> Iterator[Table]:
    """The blocks of an answer, of which the last ones cannot be made."""
    for at, table in enumerate(r.tables()):
        if at == 9:
            raise error
        yield table


@pytest.mark.parametrize("name", NAMES[:-1])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("before", [False, True])
def test_what_stops_in_the_middle_leaves_no_file(
    name: str, error: BaseException, before: bool, short_blocks: None
) -> None:
    if before:
        Path(name).write_text("old")
    with pytest.raises((DataError, KeyboardInterrupt)) as caught:
        write_tables(broken(answer(), error), ROWS, name)
    if isinstance(error, OSError):
        assert str(caught.value) == (
            f"data error: {name}: cannot be written: No space left on device\n"
            "  hint: free some space, or write to another disk"
        )
    assert os.listdir() == ([name] if before else [])
    assert not before or Path(name).read_text() == "old"


@pytest.mark.parametrize("name", [*PLAIN, "folder/"])
def test_a_full_disk(name: str, short_blocks: None) -> None:
    r = answer()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(DataError, match="File too large") as caught:
            write(r, name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.hint == "free some space, or write to another disk"
    assert os.listdir() == []
    write(r, name)  # and the next one works
    assert sorted(to_rows(read_table(name, declared=columns_of(r)))) == sorted(to_rows(r.table()))


def test_a_pipe_gets_all_or_nothing(short_blocks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_KEPT", 100)  # the rest waits in a temporary file
    r = answer()
    read, write_end = os.pipe()
    try:
        with pytest.raises(DataError):
            tables = broken(r, OSError(28, "No space left on device"))
            write_tables(tables, ROWS, f"/dev/fd/{write_end}", format="csv")
        os.set_blocking(read, False)
        with pytest.raises(BlockingIOError):
            os.read(read, 1)
        write_tables(r.head(90).tables(), 90, f"/dev/fd/{write_end}", format="csv")
        told = os.read(read, 1 << 16).decode()
    finally:
        os.close(read)
        os.close(write_end)
    writers.write_table(r.head(90).table(), "r.csv")
    assert told == Path("r.csv").read_text()


# ------------------------------------------------------------------------------------- programs


@pytest.mark.parametrize("name", NAMES)
def test_output_writes_block_by_block(
    name: str, short_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def whole(self: Result, *args: Any) -> Table:
        assert len(self) <= 64, "all of an answer is decoded"
        return table_of(self, *args)

    table_of = Result.table
    monkeypatch.setattr(Result, "table", whole)
    rows = [(at, f"t{at % 7}") for at in range(500)]
    with gd.connect(device="cpu") as db:
        db["E"] = rows
        db.run(f'r(x, y, z) <- E(x, y), E(z, y), x < z, z < x + 9.\n.output r("{name}")')
        expected = sorted((x, y, z) for x, y in rows for z, w in rows if w == y and x < z < x + 9)
        declared = columns_of(db["r"])
    assert sorted(to_rows(read_table(name, declared=declared))) == expected
