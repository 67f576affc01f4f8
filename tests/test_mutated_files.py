"""A mutated file ends in a table or in an Error, never in anything else."""

from __future__ import annotations

import random
from pathlib import Path

import pandas as pd
import pytest
from loading import E, decl, read_table

from gdatalog.errors import Error
from gdatalog.storage.export import to_rows
from gdatalog.storage.frames import table_from
from gdatalog.storage.table import DTYPES, TextColumn
from gdatalog.storage.writers import write_table
from tests.cases import FUZZ


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# ---------------------------------------------------------------- mutated files

SEEDS: dict[str, bytes] = {
    "e.csv": b'src,dst,name\n1,2,"a, ""b"""\n-3,4,\xc3\xa9t\xc3\xa9\n5,6,"two\nlines"\n',
    "e.tsv": b"1\t2.5\ttrue\n3\t1e-9\tfalse\n4\tinf\ttrue\n",
    "e.facts": b"1\t2\n3\t4\n-5\t6\n70\t8\n",
    "e.json": b'[{"a": 1, "b": "x", "c": 2.5}, {"a": -2, "b": "\\u00e9", "c": 1e3}]',
    "e.jsonl": b'[1, "a", true]\n[2, "b", false]\n[3, "\\n", true]\n',
}


def _seed(name: str) -> bytes:
    """A valid file of this name."""
    plain = name.removesuffix(".gz").removesuffix(".zst")
    if plain in SEEDS and plain == name:
        return SEEDS[name]
    frame = pd.DataFrame({"a": range(50), "b": [f"t{i % 7}" for i in range(50)], "c": 0.5})
    write_table(table_from(frame), name)
    return Path(name).read_bytes()


def _mutated(data: bytes, random_: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(random_.choice((1, 1, 2, 5, 20))):
        at = random_.randrange(len(result) + 1)
        action = random_.randrange(5)
        if action == 0 and at < len(result):
            result[at] ^= 1 << random_.randrange(8)
        elif action == 1 and at < len(result):
            result[at] = random_.choice(b'\0\n\r\t",;\\[]{}\xff\xfe019-.')
        elif action == 2:
            del result[at : at + random_.randrange(1, 8)]
        elif action == 3:
            result[at:at] = result[at : at + random_.randrange(1, 30)]
        else:
            result[at:at] = bytes([random_.choice(b'"\n\t,\r\0ab1\xc3\x80')])
    return bytes(result)


@pytest.mark.drawn
@pytest.mark.parametrize(
    "name",
    [*SEEDS, "e.parquet", "e.arrow", "e.csv.gz", "e.json.zst"],
)
def test_mutated_files_are_tables_or_errors(name: str) -> None:
    seed = _seed(name)
    random_ = random.Random(name)
    declarations = [None, decl(a="int", b="symbol", c="float"), E, decl(x="symbol"), decl()]
    outcomes = set()
    for _ in range(max(1, FUZZ // 9)):
        Path(name).write_bytes(_mutated(seed, random_))
        declared = random_.choice(declarations)
        try:
            table = read_table(name, declared=declared)
        except Error as error:
            assert str(error)
            outcomes.add("error")
            continue
        outcomes.add("table")
        assert declared is None or table.types == declared.types
        assert len(to_rows(table)) == table.length
        for kind, column in zip(table.types, table.columns, strict=True):
            assert len(column) == table.length
            assert (
                isinstance(column, TextColumn) if kind == "symbol" else column.dtype == DTYPES[kind]
            )
    assert "error" in outcomes
