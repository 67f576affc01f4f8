"""Delimited files are read block by block: the same rows, types and errors as of the whole file."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loading import joined

import gdatalog as gd
from gdatalog.records import replace
from gdatalog.storage import delimited, large_files, line_blocks
from gdatalog.storage.delimited import Delimited
from gdatalog.storage.export import to_rows
from gdatalog.storage.load_options import PLAIN, Declared, Findings, LoadOptions, TypedColumns
from gdatalog.storage.readers import read_tables
from gdatalog.storage.table import Table

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


CELLS: dict[str, Callable[[random.Random], str]] = {
    "int": lambda draw: str(draw.randint(-99, 99)),
    "wide": lambda draw: str(draw.randint(-(1 << 62), 1 << 62)),
    "float": lambda draw: repr(round(draw.uniform(-9, 9), 2)),
    "truth": lambda draw: draw.choice(["true", "false", "True"]),
    "time": lambda draw: f"2026-11-{draw.randint(10, 30)}",
    "text": lambda draw: draw.choice(["é", "a b", "x", "ab", '"q, ""r"""', "t"]),
    "digits": lambda draw: draw.choice(["007", "12", "5"]),
    "empty": lambda draw: "",
}


def drawn_csv(draw: random.Random) -> str:
    """Columns of all types; a few cells of another type, blank lines, missing values, headers."""
    kinds = [draw.choice(list(CELLS)) for _ in range(draw.randint(1, 4))]
    rows = [[CELLS[kind](draw) for kind in kinds] for _ in range(draw.choice([25, 80]))]
    if draw.random() < 0.6:
        row, at = draw.choice(rows), draw.randrange(len(kinds))
        row[at] = CELLS[draw.choice([*CELLS, "empty"])](draw)
    names = draw.choice([None, [f"c{at}" for at in range(len(kinds))], ["t"] * len(kinds)])
    lines = [",".join(row) for row in ([] if names is None else [names]) + rows]
    if draw.random() < 0.3:
        lines.insert(draw.randrange(len(lines)), draw.choice(["", "", "1,2,3,4,5", '"a', "\udcff"]))
    end = draw.choice(["\n", "\n", "\r\n"])
    return draw.choice(["", "", "\ufeff"]) + end.join(lines) + draw.choice(["", end])


def told_of(path: str, options: LoadOptions, declared: Declared | None) -> Any:
    """What a file holds, and what is said of it; or what is wrong with it."""
    findings = Findings()
    told: list[Table] = []
    try:
        for table in read_tables(path, replace(options, findings=findings, declared=declared)):
            told.append(table)
    except gd.Error as error:
        return str(error), None
    whole = joined(told)
    values = to_rows(whole)
    return (whole.names, whole.types, values, findings), len(told)


def test_small_files_without_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python splits a small file, and Arrow says the same of it."""
    read, few = 0, Delimited.few_columns

    def counted(text: Delimited, width: int) -> Any:
        nonlocal read
        found = few(text, width)
        read += found is not None
        return found

    monkeypatch.setattr(Delimited, "few_columns", counted)
    for seed in range(400):
        draw = random.Random(seed)
        text = drawn_csv(draw)
        if draw.random() < 0.3:
            text = text.replace("2026", draw.choice(["1999", "NA", " ", "0x1f", "x\ty", "1e999"]))
        Path("f.csv").write_bytes(text.encode(errors="surrogateescape"))
        options = draw.choice([PLAIN, LoadOptions(header=True), LoadOptions(header=False)])
        width = text.split("\n")[0].count(",") + 1
        if draw.random() < 0.4:
            how: list[Any] = [{"nulls": "drop"}, {"fill": {"c0": "7"}, "fill_is_text": True}]
            options = replace(options, **draw.choice(how))
        declared: Declared | None = None
        if draw.random() < 0.4:
            kinds = ["symbol", "int", "float", "bool", "timestamp"]
            types: Any = tuple(draw.choice(kinds) for _ in range(width))
            null = tuple(draw.random() < 0.3 for _ in types)
            declared = TypedColumns(tuple(f"c{at}" for at in range(width)), types, null)
        found = told_of("f.csv", options, declared)
        with monkeypatch.context() as patch:
            patch.setattr(delimited, "FEW_BYTES", -1)
            assert told_of("f.csv", options, declared) == found, text
    assert read > 150


@pytest.mark.parametrize("seed", range(80))
def test_delimited_files_in_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    text = drawn_csv(draw)
    Path("f.csv").write_bytes(text.encode(errors="surrogateescape"))
    options = draw.choice([PLAIN, PLAIN, LoadOptions(header=True), LoadOptions(nulls="drop")])
    width = text.split("\n")[0].count(",") + 1
    declared: Declared | None = None
    if draw.random() < 0.3:
        types = tuple(draw.choice(["symbol", "symbol", "int", "float"]) for _ in range(width))
        null = tuple(draw.random() < 0.3 for _ in types)
        declared = TypedColumns(tuple(f"c{at}" for at in range(width)), types, null)
    elif draw.random() < 0.2:
        options = replace(options, columns=[f"c{width - 1}"])
    expected, _ = told_of("f.csv", options, declared)
    monkeypatch.setattr(large_files, "WHOLE", 1 << 60)
    for size in (150, 400):
        monkeypatch.setattr(line_blocks, "LEAST_BYTES", size)
        monkeypatch.setattr(line_blocks, "MOST_BYTES", size)
        found, count = told_of("f.csv", options, declared)
        if not isinstance(expected, str):
            assert found == expected
            size_of_text = len(text.encode(errors="surrogateescape"))
            whole = declared is None and options.nulls == "drop"
            assert count is not None and (count > 1) == (size_of_text > size and not whole)
            continue
        # A block has an error that the whole file has farther down, or in another column.
        assert isinstance(found, str)
        lines = [re.match(r"f\.csv:(\d+):", error) for error in (found, expected)]
        if None in lines:
            assert found == expected
        else:
            line, last = (int(each[1]) for each in lines if each is not None)
            assert line < last or found.split(": ")[0] == expected.split(": ")[0]


@pytest.mark.parametrize(
    ("cells", "nulls", "types"),
    [
        (["1", "007", '""'], "error", ("symbol",)),  # identifiers, of which one is missing
        (["1", "0x1f", "2"], "error", ("symbol",)),
        (["2", "NULL", "1"], "drop", ("int",)),
    ],
)
def test_types_are_those_of_the_whole_file(
    cells: list[str], nulls: Any, types: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("f.csv").write_text("x\n" + "\n".join(cells * 40) + "\n")
    for whole in (0, 1 << 60):
        monkeypatch.setattr(large_files, "WHOLE", whole)
        monkeypatch.setattr(line_blocks, "LEAST_BYTES", 50)
        monkeypatch.setattr(line_blocks, "MOST_BYTES", 50)
        tables = list(read_tables("f.csv", LoadOptions(header=True, nulls=nulls)))
        assert joined(tables).types == types


@pytest.mark.parametrize("facts", [False, True])
@pytest.mark.parametrize(
    ("cells", "nulls", "told"),
    [
        ({1: "x", 90: "x"}, "error", None),  # that of another block is not looked for
        ({1: "x", 2: "x", 90: "x"}, "error", "at least one other row of this column cannot"),
        ({1: "x", 3: "x", 4: "NA", 5: "x"}, "drop", "at least 2 other rows of this column cannot"),
        ({1: "x", 50: "7,8"}, "error", None),
        ({1: "", 50: "7,8"}, "error", "values are missing: `x` in 1 row; 1 of the first "),
    ],
)
def test_the_first_error_of_several_blocks_is_told(
    cells: dict[int, str], nulls: Any, told: str | None, facts: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    separator = "\t" if facts else ","
    rows = [f"{cells.get(at, '1')},2".replace(",", separator) for at in range(100)]
    Path("f.facts" if facts else "f.csv").write_text("\n".join(rows) + "\n")
    monkeypatch.setattr(large_files, "WHOLE", 1 << 60)
    monkeypatch.setattr(line_blocks, "LEAST_BYTES", 40)
    monkeypatch.setattr(line_blocks, "MOST_BYTES", 40)
    with pytest.raises(gd.DataError) as caught, gd.connect(device="cpu") as db:
        if facts:
            db.query(
                ".decl f(x: int, y: int)\n"
                f'.input f(IO=file, filename="f.facts", nulls="{nulls}")\n?- f(x, y).'
            )
        else:
            db.run(".decl f(x: int, y: int)")
            db.load("f", "f.csv", header=False, nulls=nulls)
    error = caught.value
    assert error.format().startswith(f"f.{'facts' if facts else 'csv'}:2:1: data error")
    notes = [note.message for note in error.notes if "read here" not in note.message]
    assert [told in note for note in notes] == [True] if told is not None else not notes
