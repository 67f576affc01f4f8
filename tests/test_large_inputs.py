"""Parquet files are read some rows at a time and facts files block by block, into memory or into
temporary files: the same rows, the same errors in the same places, never all of a file at once."""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gdatalog as gd
from gdatalog.shell.cli import run
from gdatalog.storage import data_files, facts_files, key_columns, line_blocks
from gdatalog.storage.load_options import TypedColumns
from gdatalog.storage.spill import Spill, is_spilled
from gdatalog.storage.table import Table

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven rows are read at a time."""
    monkeypatch.setattr(data_files, "ROWS_AT_ONCE", 7)


def connected(spilled: bool = False) -> gd.Database:
    db = gd.connect(device="cpu")
    if spilled:
        db.workspace.spill = Spill(least=0, run=8, short=0, always=True)
    return db


def drawn(draw: random.Random, rows: int) -> pa.Table:
    """Columns of all types: of 32 bits, of 64, and such that only a late row needs 64."""
    late = [draw.randint(0, 9) for _ in range(rows)]
    if rows > 20:
        late[-3] = 1 << 40
    return pa.table(
        {
            "narrow": pa.array([draw.randint(-5, 5) for _ in range(rows)], pa.int64()),
            "late": pa.array(late, pa.int64()),
            "wide": pa.array([draw.randint(-(1 << 60), 1 << 60) for _ in range(rows)], pa.int64()),
            "short": pa.array([draw.randint(0, 99) for _ in range(rows)], pa.uint8()),
            "float": pa.array([draw.random() for _ in range(rows)], pa.float64()),
            "text": pa.array([f"é{draw.randint(0, 30)}" for _ in range(rows)], pa.string()),
            "few": pa.array([f"{at % 3}" for at in range(rows)]).dictionary_encode(),
            "truth": pa.array([draw.random() < 0.5 for _ in range(rows)], pa.bool_()),
            "time": pa.array([draw.randint(0, 1 << 50) for _ in range(rows)], pa.timestamp("us")),
        }
    )


def write(table: pa.Table, path: str, group: int) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=group)


def rows_of(db: gd.Database, name: str = "f") -> list[tuple[Any, ...]]:
    return sorted(db[name].fetchall())


def expected(*tables: pa.Table) -> list[tuple[Any, ...]]:
    db = gd.connect(device="cpu")
    db["f"] = pa.concat_tables(tables, promote_options="permissive")
    return rows_of(db)


@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize(
    ("rows", "group"), [(0, 5), (1, 5), (7, 7), (8, 3), (100, 10), (100, 1000), (99, 7)]
)
def test_rows_of_many_groups(rows: int, group: int, spilled: bool, few_rows: None) -> None:
    draw = random.Random(rows * group)
    table = drawn(draw, rows)
    write(table, "f.parquet", group)
    db = connected(spilled)
    db["f"] = "f.parquet"
    assert rows_of(db) == expected(table)
    assert db["f"].dtypes == (
        "int", "int", "int", "int", "float", "symbol", "symbol", "bool", "timestamp"
    )  # fmt: skip
    assert spilled is False or rows <= 7 or any(map(is_spilled, db["f"]._relation.rows))
    narrow, late, wide, *_ = db["f"]._relation.rows
    if rows > 20:
        assert (narrow.dtype, late.dtype, wide.dtype) == (np.int32, np.int64, np.int64)


@pytest.mark.parametrize("spilled", [False, True])
def test_sets_of_files(spilled: bool, few_rows: None) -> None:
    draw = random.Random(3)
    tables = [drawn(draw, rows) for rows in (0, 30, 1, 0, 17)]
    for at, table in enumerate(tables):
        write(table, f"folder/{at}.parquet", 10)
    db = connected(spilled)
    db["f"] = "folder"
    assert rows_of(db) == expected(*tables)
    db["f"] = "folder/[34].parquet"
    assert rows_of(db) == expected(tables[3], tables[4])
    write(tables[1].select(["narrow", "text"]), "keyed/k=1/a.parquet", 4)
    write(tables[4].select(["narrow", "text"]), "keyed/k=2/a.parquet", 4)
    db["f"] = "keyed"
    parts = [(1, tables[1]), (2, tables[4])]
    whole = [
        (*row.values(), key) for key, table in parts
        for row in table.select(["narrow", "text"]).to_pylist()
    ]  # fmt: skip
    assert rows_of(db) == sorted(set(whole))


@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_options_and_declarations(seed: int, spilled: bool, few_rows: None) -> None:
    draw = random.Random(seed)
    rows = draw.choice([5, 40, 61])
    table = drawn(draw, rows).select(["wide", "narrow", "text"])
    holes = [None if draw.random() < 0.2 else value for value in table["narrow"].to_pylist()]
    table = table.set_column(1, "narrow", pa.array(holes, pa.int64()))
    write(table, "f.parquet", draw.choice([4, 10, 100]))
    records = [tuple(row.values()) for row in table.to_pylist()]
    db = connected(spilled)
    db.load("f", "f.parquet", nulls="drop")
    assert rows_of(db) == sorted({row for row in records if row[1] is not None})
    db.load("f", "f.parquet", fill={"narrow": 77})
    filled = [(x, 77 if y is None else y, z) for x, y, z in records]
    assert rows_of(db) == sorted(set(filled))
    db.load("f", "f.parquet", fill={"narrow": 77}, row_id="id")
    assert rows_of(db) == [(at, *row) for at, row in enumerate(filled)]
    db.load("f", "f.parquet", columns=["text", "wide"])
    assert rows_of(db) == sorted({(z, x) for x, _, z in records})
    text = '.decl g(a: symbol, b: int)\n.input g("g.parquet")\n?- g(a, b), b > 0.'
    write(table.select(["text", "wide"]).rename_columns(["p", "q"]), "g.parquet", 9)
    assert sorted(db.query(text)) == sorted({(z, x) for x, _, z in records if x > 0})


def one_by_one(monkeypatch: pytest.MonkeyPatch, load: Callable[[], object]) -> list[str]:
    """What is said of a load: of all rows at a time, and of few."""
    told = []
    for rows in (1 << 22, 7, 1):
        monkeypatch.setattr(data_files, "ROWS_AT_ONCE", rows)
        with pytest.raises(gd.Error) as caught:
            load()
        told.append(str(caught.value))
    return told


@pytest.mark.parametrize("where", [0, 50, 89])
@pytest.mark.parametrize("spilled", [False, True])
def test_errors_have_their_place(
    where: int, spilled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: list[Any] = [float(at) for at in range(90)]
    values[where] = None
    write(pa.table({"x": pa.array(range(90)), "y": pa.array(values)}), "f.parquet", 10)
    db = connected(spilled)
    told = one_by_one(monkeypatch, lambda: db.load("f", "f.parquet", nulls="error"))
    assert len(set(told)) == 1
    assert f"f.parquet: row {where}, column 'y': a value is missing (None)" in told[0]
    assert "`y` in 1 row; 1 of 90 rows would be dropped" in told[0]
    large = [1] * 90
    large[where] = 1 << 63
    write(pa.table({"x": pa.array(large, pa.uint64())}), "f.parquet", 10)
    told = one_by_one(monkeypatch, lambda: db.load("f", "f.parquet"))
    assert len(set(told)) == 1
    assert f"f.parquet: row {where}, column 'x': 9223372036854775808 does not fit" in told[0]
    write(pa.table({"x": pa.array(values)}), "g/a.parquet", 10)
    write(pa.table({"x": pa.array(range(90))}), "g/b.parquet", 10)
    told = one_by_one(monkeypatch, lambda: db.load("f", "g", nulls="error"))
    assert len(set(told)) == 1
    assert "f" not in db


@pytest.mark.parametrize("spilled", [False, True])
def test_nulls_that_come_late(spilled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [*range(80), *[None, 7] * 5]
    write(pa.table({"x": pa.array(range(90)), "y": pa.array(values)}), "f.parquet", 10)
    texts = [None if value is None else f"t{value}" for value in values]
    write(pa.table({"x": pa.array(range(90)), "y": pa.array(texts)}), "g.parquet", 10)
    write(pa.table({"y": pa.array([2**63 - 1, *values[1:]])}), "h.parquet", 10)
    db = connected(spilled)
    for rows in (1 << 22, 7):
        monkeypatch.setattr(data_files, "ROWS_AT_ONCE", rows)
        for name, expected in (("f", values), ("g", texts)):
            db[name] = f"{name}.parquet"
            assert db[name].sorted().fetchall() == list(enumerate(expected))
            assert db.relations.schema(name).nullable == (False, True)
        with pytest.raises(gd.DataError, match="its key is that of a null"):
            db["h"] = "h.parquet"


def test_a_damaged_page(few_rows: None) -> None:
    table = pa.table({"x": pa.array(np.random.default_rng(0).integers(0, 1 << 60, 500))})
    pq.write_table(table, "f.parquet", row_group_size=50, use_dictionary=False)
    whole = Path("f.parquet").read_bytes()
    at = pq.read_metadata("f.parquet").row_group(8).column(0).data_page_offset
    Path("f.parquet").write_bytes(whole[:at] + b"\xff" * 40 + whole[at + 40 :])
    db = connected()
    db["f"] = [(1,)]
    with pytest.raises(gd.DataError, match="damaged or of another format"):
        db["f"] = "f.parquet"
    assert db["f"].fetchall() == [(1,)]


def test_few_rows_are_decoded_at_a_time(few_rows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"alive": 0, "most": 0, "tables": 0}

    def gone() -> None:
        counts["alive"] -= 1

    add = key_columns.KeyColumns.add

    def counted(self: Any, table: Table, symbols: Any) -> None:
        assert table.length <= 7
        column = table.columns[0]
        weakref.finalize(column, gone)
        counts["alive"] += 1
        counts["tables"] += 1
        counts["most"] = max(counts["most"], counts["alive"])
        del column
        add(self, table, symbols)

    monkeypatch.setattr(key_columns.KeyColumns, "add", counted)
    write(pa.table({"x": pa.array(range(700)), "y": pa.array(range(700))}), "f.parquet", 20)
    db = connected(spilled=True)
    db["f"] = "f.parquet"
    assert db["f"].sorted().fetchall() == [(at, at) for at in range(700)]
    assert counts["tables"] == 100 and counts["most"] <= 4


def test_files_that_are_larger_than_the_limit() -> None:
    rows = 600_000
    values = np.random.default_rng(2).integers(0, 1 << 60, (2, rows))
    pq.write_table(pa.table({"x": values[0], "y": values[1]}), "f.parquet", row_group_size=65_536)
    db = gd.connect(device="cpu", memory_limit="4MiB")
    db["f"] = "f.parquet"
    assert all(map(is_spilled, db["f"]._relation.rows))
    assert db.query("n(count()) <- f(x, _), x > 1000.").fetchall() == [
        (int((values[0] > 1000).sum()),)
    ]
    text = '.decl g(x: int, y: int)\n.input g(IO=file, filename="f.parquet")\n'
    found = db.query(text + "n(min(x)) <- g(x, _).").fetchall()
    assert found == [(int(values[0].min()),)]


def test_texts_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{at}: {'x' * 300}" for at in range(9000)]
    pq.write_table(pa.table({"t": texts, "x": range(9000)}), "f.parquet", row_group_size=1000)
    monkeypatch.setattr(data_files, "ROWS_AT_ONCE", 1000)
    db = gd.connect(device="cpu", memory_limit="2MiB")
    with pytest.raises(gd.MemoryLimitError) as caught:
        db["f"] = "f.parquet"
    assert "texts of files" in str(caught.value)
    assert "read only the columns that are needed" in str(caught.value)
    db.load("f", "f.parquet", columns=["x"])
    assert len(db["f"]) == 9000


def test_a_program_over_such_files(few_rows: None, capsys: pytest.CaptureFixture[str]) -> None:
    draw = random.Random(5)
    table = drawn(draw, 90).select(["narrow", "short", "text"])
    write(table, "e.parquet", 8)
    Path("p.dl").write_text(
        ".decl e(a: int, b: int, c: symbol)\n.input e\n.decl r(a: int, b: int)\n"
        'r(a, b) <- e(a, b, _), a > 0.\n.output r("r.parquet")'
    )
    assert run(["p.dl", "--device", "cpu"]) == 0, capsys.readouterr().err
    found = {tuple(row.values()) for row in pq.read_table("r.parquet").to_pylist()}
    rows = [(row["narrow"], row["short"]) for row in table.to_pylist()]
    assert found == {(a, b) for a, b in rows if a > 0}


def test_row_numbers_and_pandas(few_rows: None) -> None:
    frame = pd.DataFrame({"x": range(50)}, index=pd.Index([f"{at}" for at in range(50)]))
    frame.to_parquet("f.parquet", row_group_size=6)
    db = connected()
    with pytest.warns(gd.ProgramWarning) as warned:
        db["f"] = "f.parquet"
    told = [str(each.message) for each in warned if each.category is gd.ProgramWarning]
    assert len(told) == 1 and "the index has no name" in told[0]  # once, not for each block
    assert db["f"].sorted().fetchall() == [(at,) for at in range(50)]


# ------------------------------------------------------------------------------------ facts files


def drawn_text(draw: random.Random, rows: int, odd: bool) -> str:
    """Lines of an int, a text and an int; some with what compiled code leaves to others."""
    texts = ["a", "é", "", "longer than a block of few bytes", '"', " "]
    end = draw.choice(["\n", "\r\n"])
    lines = []
    for at in range(rows):
        number = f" {at}" if odd and draw.random() < 0.2 else f"{at}"
        lines.append(f"{number}\t{draw.choice(texts)}\t{draw.randint(-9, 1 << 40)}")
        if odd and draw.random() < 0.1:
            lines.append("")
    return end.join(lines) + (end if draw.random() < 0.5 else "")


def facts_of(text: str, forms: str = "") -> list[tuple[Any, ...]]:
    Path("f.facts").write_bytes(text.encode())
    db = connected(spilled=True)
    program = f".decl f(a: int, b: symbol, c: int)\n.input f{forms}\n?- f(a, b, c)."
    return sorted(db.query(program).fetchall())


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_facts_in_blocks(seed: int, odd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    text = draw.choice(["", "\ufeff"]) + drawn_text(draw, draw.choice([1, 2, 30]), odd)
    forms = draw.choice(["", "(headers=true)", '(columns="2:1:0")', '(nulls="drop")'])
    if "headers" in forms:
        text = "x\ty\tz\n" + text.removeprefix("\ufeff")
    if "columns" in forms or "nulls" in forms:
        forms = forms.replace("(", '(filename="f.facts", ')
    whole = facts_of(text, forms)
    for size in (1, 17, 64, 300):
        monkeypatch.setattr(line_blocks, "LEAST_BYTES", size)
        monkeypatch.setattr(line_blocks, "MOST_BYTES", size)
        assert facts_of(text, forms) == whole


@pytest.mark.parametrize("cell", ["b", "1.5"])  # a float is not cut in one pass
def test_facts_in_blocks_are_read_once_more_for_the_delimiter_and_for_lines(
    cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = "float" if cell == "1.5" else "symbol"
    Path("f.csv").write_text(f"1,{cell}\n" * 500)
    monkeypatch.setattr(line_blocks, "LEAST_BYTES", 64)
    monkeypatch.setattr(line_blocks, "MOST_BYTES", 64)
    seen: list[bytes] = []
    find, lines_between = facts_files._FactsText._cut_by, line_blocks.lines_between

    def noted(self: facts_files._FactsText, pieces: Iterable[bytes]) -> str:
        if self.delimiter is None:
            pieces = [*pieces]
            seen.extend(pieces)
        return find(self, pieces)

    counted: list[int] = []

    def counting(file: Any, start: int, end: int) -> int:
        counted.append(end - start)
        return lines_between(file, start, end)

    monkeypatch.setattr(facts_files._FactsText, "_cut_by", noted)
    monkeypatch.setattr(line_blocks, "lines_between", counting)
    declared = TypedColumns(("x", "y"), ("int", kind))
    tables = list(facts_files.read_facts("f", ".", declared))
    assert len(tables) > 10 and sum(table.length for table in tables) == 500
    size = Path("f.csv").stat().st_size
    assert len(b"".join(seen)) == size and sum(counted) < size
    assert bool(counted) == (kind == "float")


@pytest.mark.parametrize("bad", ["1\tb", "1\tb\tx", "1\tb\tNA", "1\tb\t99999999999999999999"])
@pytest.mark.parametrize("where", [0, 13, 29])
def test_errors_of_facts_in_blocks(bad: str, where: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{at}\tb\t{at}" for at in range(30)]
    lines[where] = bad
    told = []
    for size in (1 << 20, 64, 17):
        monkeypatch.setattr(line_blocks, "LEAST_BYTES", size)
        monkeypatch.setattr(line_blocks, "MOST_BYTES", size)
        with pytest.raises(gd.DataError) as caught:
            facts_of("\n".join(lines))
        told.append(str(caught.value))
    assert told[0].startswith(f"f.facts:{where + 1}:")
    assert told[1:] == told[:1] * 2


@pytest.mark.parametrize("where", [0, 13, 29])
def test_bytes_that_are_no_text(where: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [b"1\tb\t2"] * 30
    lines[where] = b"1\tz\xfc\t2"
    Path("f.facts").write_bytes(b"x\ty\tz\n" + b"\n".join(lines))
    program = ".decl f(a: int, b: symbol, c: int)\n.input f(headers=true)\n?- f(a, b, c)."
    for size in (1 << 20, 64, 17):
        monkeypatch.setattr(line_blocks, "LEAST_BYTES", size)
        monkeypatch.setattr(line_blocks, "MOST_BYTES", size)
        with pytest.raises(gd.DataError) as caught:
            connected().query(program)
        assert str(caught.value).startswith(f"f.facts:{where + 2}:4: data error: the byte 0xfc")
