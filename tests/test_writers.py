"""Files are written whole or not at all, and read back as they were."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from loading import Decl, read_facts, read_table
from test_export import empty, sample, tables

import gdatalog
from gdatalog.errors import DataError, UsageError
from gdatalog.storage import writers
from gdatalog.storage.as_text import facts_text
from gdatalog.storage.export import to_rows
from gdatalog.storage.frames import table_from
from gdatalog.storage.load_options import LoadOptions
from gdatalog.storage.table import Table, TextColumn, TextSet
from gdatalog.storage.text_functions import text_functions_for
from gdatalog.storage.threads import ahead
from gdatalog.storage.writers import write_table
from tests.cases import cases


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def declared_as(table: Table) -> Decl:
    return Decl(table.names, table.types)


TEXTS = {
    "r.csv": "i,f,s,b,t\n1,0.5,é,true,1970-01-01\n"
    '-9223372036854775808,inf,"",false,1970-01-01T00:00:00.000000001\n',
    "r.tsv": "i\tf\ts\tb\tt\n1\t0.5\té\ttrue\t1970-01-01\n"
    '-9223372036854775808\tinf\t""\tfalse\t1970-01-01T00:00:00.000000001\n',
    "r.facts": "1\t0.5\té\ttrue\t1970-01-01\n"
    "-9223372036854775808\tinf\t\tfalse\t1970-01-01T00:00:00.000000001\n",
    "r.json": '[\n{"i": 1, "f": 0.5, "s": "é", "b": true, "t": "1970-01-01"},\n'
    '{"i": -9223372036854775808, "f": "inf", "s": "", "b": false, '
    '"t": "1970-01-01T00:00:00.000000001"}\n]\n',
    "r.jsonl": '{"i": 1, "f": 0.5, "s": "é", "b": true, "t": "1970-01-01"}\n'
    '{"i": -9223372036854775808, "f": "inf", "s": "", "b": false, '
    '"t": "1970-01-01T00:00:00.000000001"}\n',
}
EMPTY = {
    "r.csv": "i,f,s,b,t\n",
    "r.tsv": "i\tf\ts\tb\tt\n",
    "r.facts": "",
    "r.json": "[]\n",
    "r.jsonl": "",
}
ALL = [*TEXTS, *[f"{name}.gz" for name in TEXTS], "r.csv.zst", "r.parquet", "r.arrow"]


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_written(name: str) -> None:
    write_table(sample(), name)
    assert Path(name).read_text() == TEXTS[name]
    write_table(empty(), name)
    assert Path(name).read_text() == EMPTY[name]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("table", [sample(), empty()], ids=["rows", "empty"])
def test_written_tables_are_read_back(name: str, table: Table) -> None:
    write_table(table, f"new/folder/{name}")
    again = read_table(f"new/folder/{name}", declared=declared_as(table))
    assert (again.names, again.types, to_rows(again)) == (table.names, table.types, to_rows(table))
    assert os.listdir("new/folder") == [name]


def strictly(text: str) -> object:
    """JSON as it is defined: Python also takes NaN and Infinity."""

    def refused(word: str) -> None:
        raise AssertionError(f"not JSON: {word}")

    return json.loads(text, parse_constant=refused)


def test_infinity_in_json_is_a_text() -> None:
    table = table_from(
        [(1.5, "inf"), (math.inf, "a"), (-math.inf, "b")], LoadOptions(columns=["x", "t"])
    )
    rows = [{"x": 1.5, "t": "inf"}, {"x": "inf", "t": "a"}, {"x": "-inf", "t": "b"}]
    write_table(table, "r.json")
    write_table(table, "r.jsonl")
    assert strictly(Path("r.json").read_text()) == rows
    assert list(map(strictly, Path("r.jsonl").read_text().splitlines())) == rows
    for name in ("r.json", "r.jsonl"):  # with a declaration or without
        assert to_rows(read_table(name)) == to_rows(table)
        assert to_rows(read_table(name, declared=declared_as(table))) == to_rows(table)
    write_table(table_from([(math.inf,)], LoadOptions(columns=["x"])), "all.json")
    assert read_table("all.json").types == ("symbol",)
    assert to_rows(read_table("all.json", declared=Decl(("x",), ("float",)))) == [(math.inf,)]
    Path("odd.json").write_text('[{"x": 1.5}, {"x": "endless"}]')
    with pytest.raises(DataError, match="found the symbol 'endless'"):
        read_table("odd.json")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("length", [0, 1])
def test_propositions(name: str, length: int) -> None:
    table = Table((), (), (), length)
    write_table(table, name)
    assert read_table(name, declared=declared_as(table)).length == length


def test_delimiter_and_header() -> None:
    table = table_from({"a": ["x,y", "p;q"], "b": [1, 2]})
    write_table(table, "r.csv", delimiter=";", header=False)
    assert Path("r.csv").read_text() == 'x,y;1\n"p;q";2\n'
    write_table(table, "r.facts", delimiter="|", header=True)
    assert Path("r.facts").read_text() == "a|b\nx,y|1\np;q|2\n"
    write_table(table, "r", format="csv")
    assert Path("r").read_text() == 'a,b\n"x,y",1\np;q,2\n'


def test_bare_output_is_facts_in_a_csv() -> None:
    table = table_from([("a,b", '"'), (" ", "")])
    write_table(table, "r.csv", format="facts")
    assert Path("r.csv").read_text() == 'a,b\t"\n \t\n'
    assert to_rows(read_facts("r", ".", declared_as(table))) == to_rows(table)
    assert "".join(facts_text([table], "r")) == 'a,b\t"\n \t\n'


@pytest.mark.parametrize("text", ["a\tb", "a\nb", "a\rb"])
def test_facts_hold_no_tab_and_no_newline(text: str) -> None:
    table = table_from(["fine", text])
    with pytest.raises(DataError) as caught:
        write_table(table, "out/r.csv", format="facts")
    assert str(caught.value) == (
        f"data error: r: column 'column0' holds {text!r}; a facts file has no way to write a tab "
        "or a newline inside a value\n"
        '  hint: .output r("r.parquet") keeps every value'
    )
    assert not Path("out").exists()
    # The text is known to the column, but no row holds it.
    write_table(table.take(np.array([0])), "r.csv", format="facts")
    assert Path("r.csv").read_text() == "fine\n"


def test_refused_options() -> None:
    for name, options, message in [
        ("r.xyz", {}, "r.xyz: the name does not tell the format"),
        ("r.json", {"header": True}, "r.json: delimiter, header and null have no meaning for json"),
        ("r", {"format": "xml"}, "there is no format 'xml'"),
        ("r.csv", {"delimiter": "ab"}, "a delimiter is one ASCII character, found 'ab'"),
        ("r.parquet.gz", {}, "r.parquet.gz: parquet files are not packed again"),
    ]:
        with pytest.raises(UsageError) as caught:
            write_table(sample(), name, **options)
        assert str(caught.value).split("\n")[0] == f"usage error: {message}"
        assert os.listdir() == []


def test_places_that_cannot_be_written() -> None:
    Path("file").write_text("")
    os.mkdir("folder.csv")
    for name, message in [
        ("folder.csv", "this is a folder, not a file\n  hint: name a file in it"),
        ("file/r.csv", "cannot be written: "),
        ("a\0.csv", "cannot be written: embedded null byte"),
    ]:
        with pytest.raises(DataError) as caught:
            write_table(sample(), name)
        shown = name.replace("\0", r"\u0000")
        assert str(caught.value).startswith(f"data error: {shown}: {message}")


def test_permissions_and_links_stay() -> None:
    Path("real.csv").write_text("old")
    os.chmod("real.csv", 0o640)
    os.symlink("real.csv", "link.csv")
    write_table(sample(), "link.csv")
    assert os.path.islink("link.csv")
    assert os.stat("real.csv").st_mode & 0o777 == 0o640
    assert Path("real.csv").read_text() == TEXTS["r.csv"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("name", ALL)
def test_a_write_that_fails_leaves_the_old_file(
    name: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(name).write_text("old")

    def broken(file: Any, *args: Any) -> None:
        raise error

    def after_some_bytes(_name: str, file: Any, chunks: Any) -> None:
        file.write(next(iter(chunks)).encode())
        raise error

    monkeypatch.setattr(writers, "_write_arrow", broken)
    monkeypatch.setattr(writers, "_write_texts", after_some_bytes)
    with pytest.raises((DataError, KeyboardInterrupt)) as caught:
        write_table(sample(), name)
    if isinstance(error, OSError):
        assert str(caught.value) == (
            f"data error: {name}: cannot be written: No space left on device\n"
            "  hint: free some space, or write to another disk"
        )
    assert Path(name).read_text() == "old"
    assert os.listdir() == [name]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_full_device() -> None:
    with pytest.raises(DataError) as caught:
        write_table(sample(), "/dev/full", format="csv")
    assert str(caught.value) == (
        "data error: /dev/full: cannot be written: No space left on device\n"
        "  hint: free some space, or write to another disk"
    )


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(gdatalog.__file__).parents[1])}
CHILD = """
import sys
import numpy as np
from gdatalog.storage.table import Table, TextColumn
from gdatalog.storage.table import TextSet
from gdatalog.storage.threads import ahead
from gdatalog.storage.writers import write_table

{before}
numbers = np.arange({rows})
write_table(Table(("a", "b"), ("int", "int"), (numbers, numbers), len(numbers)), sys.argv[1])
"""
LIMITED = """
import resource, signal
from gdatalog.errors import DataError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
def excepthook(kind, error, trace):
    print(error if isinstance(error, DataError) else repr(error))
sys.excepthook = excepthook
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
@pytest.mark.parametrize(
    "name", ["r.csv", "r.csv.gz", "r.csv.zst", "r.parquet", "r.arrow", "r.json"]
)
def test_a_file_that_grows_too_large(name: str) -> None:
    """What a full disk does, without one."""
    Path(name).write_text("old")
    code = CHILD.format(before=LIMITED, rows=100_000)
    command = [sys.executable, "-c", code, name]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.stdout.startswith(f"data error: {name}: cannot be written: "), done.stderr
    assert "File too large" in done.stdout
    assert Path(name).read_text() == "old"
    assert os.listdir() == [name]


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_kill_leaves_the_old_file() -> None:
    Path("r.csv").write_text("old")
    code = CHILD.format(before="", rows=5_000_000)
    with subprocess.Popen([sys.executable, "-c", code, "r.csv"], env=ENVIRONMENT) as child:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            beside = [name for name in os.listdir() if name != "r.csv"]
            if beside and os.path.getsize(beside[0]) > 0:
                break
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    assert beside and os.path.getsize(beside[0]) > 0  # it was killed while it wrote
    assert Path("r.csv").read_text() == "old"


@pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.json", "r.jsonl", "r.parquet", "r.csv.gz"])
@settings(max_examples=cases(25), suppress_health_check=list(HealthCheck))
@given(table=tables())
def test_round_trips(name: str, table: Table) -> None:
    write_table(table, name)
    again = read_table(name, declared=declared_as(table))
    assert (again.names, again.types, to_rows(again)) == (table.names, table.types, to_rows(table))


@settings(max_examples=cases(60), suppress_health_check=list(HealthCheck))
@given(table=tables())
def test_facts_round_trip_or_are_refused(table: Table) -> None:
    texts = [value for row in to_rows(table) for value in row if isinstance(value, str)]
    bad = any(ch in text for text in texts for ch in "\t\n\r")
    try:
        write_table(table, "r.facts", format="facts")
    except DataError:
        assert bad
        return
    assert not bad
    assert to_rows(read_facts("r", ".", declared_as(table))) == to_rows(table)


def test_a_text_that_begins_with_a_byte_order_mark() -> None:
    table = table_from(["\ufeffa", "\ufeff"])
    for name in ("r.facts", "r.csv"):
        write_table(table, name)
        assert to_rows(read_table(name, declared=declared_as(table))) == to_rows(table)


@pytest.mark.slow
def test_many_rows_come_in_batches() -> None:
    frame = pd.DataFrame({"i": range(150_000), "s": [f"t{i % 10}" for i in range(150_000)]})
    table = table_from(frame)
    for name in ("r.csv", "r.facts", "r.json", "r.jsonl"):
        write_table(table, name)
        again = read_table(name, declared=declared_as(table))
        assert (again.columns[0] == table.columns[0]).all()
        assert again.columns[1].decode().tolist() == frame["s"].tolist()


def test_work_ahead_comes_in_order_and_only_a_few_pieces_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gdatalog.storage.threads.cores", lambda: 2)
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        return 10 * item

    for at, made in enumerate(ahead(work, range(50), True)):
        assert made == 10 * at
        assert max(begun) <= at + 3


def test_an_error_of_work_ahead_comes_where_its_piece_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gdatalog.storage.threads.cores", lambda: 2)
    found = ahead(lambda item: 1 // (3 - item), range(10), True)
    assert [next(found), next(found), next(found)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(found)


def test_compiled_lines_of_several_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdatalog.storage.as_text._BATCH", 8)
    monkeypatch.setattr("gdatalog.storage.as_text._LINES", 7)
    kernels = text_functions_for(1 << 40)
    assert kernels is not None
    texts = TextSet(kernels)
    codes = texts.add([f"t{i % 10}\u00e4" for i in range(100)])
    table = Table(("s", "i"), ("symbol", "int"), (TextColumn(codes, texts), np.arange(100)), 100)
    write_table(table, tmp_path / "r.facts", format="facts")
    lines = (tmp_path / "r.facts").read_text(encoding="utf-8").splitlines()
    assert lines == [f"t{i % 10}\u00e4\t{i}" for i in range(100)]
