"""Plain texts are cut in one pass: by compiled code, by Python, and by Arrow the same comes out.

So it is with texts that are written.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loading import Decl, decl, read_facts, read_input, read_table

import gdatalog as gd
from gdatalog.codegen.helpers import lines
from gdatalog.codegen.helpers import text_sets as texts_as_bytes
from gdatalog.errors import DataError
from gdatalog.records import replace
from gdatalog.storage import delimited, facts_files, plain_text, symbols
from gdatalog.storage import table as text_sets
from gdatalog.storage.export import to_arrow, to_rows
from gdatalog.storage.load_options import Findings, LoadOptions
from gdatalog.storage.plain_text import cut_columns, cut_large
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import Table, TextColumn, TextSet, TextSetFunctions
from gdatalog.storage.text_functions import text_functions_for
from gdatalog.storage.writers import write_table

TEXTS = ["", "a", "b", "ab", "seven77", "eight888", "nine99999", "ä", "\U0001f600", "a\0b", '"',
         "x" * 40, " a ", "\ufeff", "a\x85b", "\u2028"]  # fmt: skip
NUMBERS = ["0", "-7", "+5", "007", "123456789012345678"]
ODD = ["9223372036854775808", "1.5", "", "-", " 1", "1_0", "\u0661", "0x10", "-9223372036854775808"]
ENDS = [b"\n", b"\n", b"\n", b"\r\n"]


@pytest.fixture(scope="module")
def kernels() -> TextSetFunctions:
    found = text_functions_for(1 << 40)
    assert found is not None
    return found


@pytest.fixture
def compiled(kernels: TextSetFunctions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are cut by compiled code, in small pieces, into sets that have to grow."""
    for module in (delimited, plain_text):
        monkeypatch.setattr(module, "text_functions_for", lambda count: kernels)
    monkeypatch.setattr(plain_text, "PIECE", 37)
    monkeypatch.setattr(plain_text, "_ROWS", 3)
    monkeypatch.setattr(text_sets, "_FIRST_CAPACITY", 1)


def drawn(rng: random.Random, types: tuple[str, ...], delimiter: str) -> bytes:
    """A facts file that has hardly a mistake."""
    lines = []
    for _ in range(rng.choice([0, 1, 2, 5, 30])):
        cells = [rng.choice(TEXTS if kind == "symbol" else NUMBERS) for kind in types]
        lines.append(delimiter.join(cells).encode() + rng.choice(ENDS))
    whole = b"".join(lines)
    for _ in range(rng.choice([0, 0, 0, 0, 1, 2])):
        at = rng.randrange(len(whole) + 1)
        some = [b"\n", b"\r", b"\t", b"\xff", b"\xef\xbb\xbf", rng.choice(ODD).encode(), b"\t" * 2]
        whole = whole[:at] + rng.choice(some) + whole[at:]
    return whole.rstrip(b"\r\n") if rng.random() < 0.3 else whole


def outcome(path: Path, declared: Decl, **options: str) -> Any:
    try:
        table = read_input(path.stem, options, path.parent, declared)  # type: ignore[arg-type]
    except DataError as error:
        return str(error)
    return table.names, table.types, to_rows(table)


def cut_by(counted: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts_files, "cut_columns", counted)


def test_drawn_files(
    tmp_path: Path, kernels: TextSetFunctions, compiled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, cut = random.Random(17), [0, 0]

    def counting(way: int) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            found = cut_columns(*args)
            cut[way] += found is not None
            return found

        return counted

    for _ in range(400):
        types = tuple(rng.choices(["symbol", "int"], [3, 1], k=rng.choice([1, 2, 2, 4])))
        declared = Decl(tuple("abcd"[: len(types)]), types)
        path = tmp_path / rng.choice(["p.facts", "p.csv"])
        options = rng.choice([{}, {}, {"headers": "true"}, {"rfc4180": "true"}])
        options = {**options, "filename": path.name}
        path.write_bytes(drawn(rng, types, rng.choice("\t\t,")))
        cut_by(lambda *args: None, monkeypatch)
        expected = outcome(path, declared, **options)
        cut_by(counting(0), monkeypatch)
        assert outcome(path, declared, **options) == expected, path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(plain_text, "text_functions_for", lambda count: None)
            cut_by(counting(1), patch)
            assert outcome(path, declared, **options) == expected, path.read_bytes()
    assert min(cut) > 100, cut


def test_kernels_do_what_python_does(
    kernels: TextSetFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python itself defines what the compiled functions mean."""
    rng = random.Random(3)
    monkeypatch.setattr(text_sets, "_FIRST_CAPACITY", 2)
    with np.errstate(over="ignore"):
        python = {**vars(lines), **vars(texts_as_bytes)}
        own = TextSetFunctions(*(python[name] for name in TextSetFunctions._fields))
        sets = TextSet(kernels), TextSet(own)
        for _ in range(20):
            some = [*rng.choices(TEXTS, k=rng.randrange(4)), str(rng.randrange(100))]
            one, other = (each.add(some).tolist() for each in sets)
            assert one == other
        assert sets[0].texts() == sets[1].texts()
        assert np.array_equal(sets[0].slots, sets[1].slots)
        text = b"ab\t12\tskipped\n\nb\t-3\t\n" + bytes(text_sets.PADDING)
        seen = []
        for each in sets:
            begins, sizes, numbers = (np.zeros(4, dtype=np.int64) for _ in range(3))
            state, wanted = np.zeros(3, dtype=np.int64), np.array([0, 1, 2])
            data = np.frombuffer(text, dtype=np.uint8)
            how = len(text) - text_sets.PADDING, ord("\t"), False, wanted, 4
            scan = kernels.scan if each is sets[0] else lines.scan
            status = scan(data, *how, begins, sizes, numbers, state)
            assert (status, state[:2].tolist(), numbers[:2].tolist()) == (0, [21, 2], [12, -3])
            seen.append((begins.tolist(), sizes.tolist(), state.tolist()))
        assert seen[0] == seen[1]


def test_a_line_of_another_width_is_told_of(tmp_path: Path, compiled: None) -> None:
    (tmp_path / "p.facts").write_text("a\tb\n" * 20 + "c\n")
    with pytest.raises(DataError, match=r"p.facts:21:1: .*expected 2 columns, found 1"):
        read_facts("p", tmp_path, decl(x="symbol", y="symbol"))  # type: ignore[arg-type]


CELLS = {
    "text": ["a", "b c", "", "NA", "12", "ä", "name"],
    "int": ["1", "-7", "007", " 5", "12"],
    "gaps": ["1", "", "NA"],
    "float": ["1.5", "1e3", "2"],
    "bool": ["true", "false"],
}


def drawn_csv(rng: random.Random, kinds: list[str]) -> str:
    lines = [",".join(rng.choice(CELLS[kind]) for kind in kinds) for _ in range(rng.randrange(30))]
    if rng.random() < 0.5:
        lines.insert(0, ",".join(rng.sample(["name", "id", "b c", "x", "1"], len(kinds))))
    if rng.random() < 0.1:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(["a,b,c,d,e,f", '"a"', '"', "\r"]))
    return "\n".join(lines) + "\n"


def test_drawn_tables_with_columns_of_texts(
    tmp_path: Path, kernels: TextSetFunctions, compiled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else a table has, a header or columns of numbers, its texts are the same."""
    rng, path, cut = random.Random(23), tmp_path / "p.csv", 0

    def read(declared: Any, options: LoadOptions) -> Any:
        options = replace(options, findings=Findings())
        try:
            table = read_table(path, options, declared=declared)
        except DataError as error:
            return str(error)
        told = [str(caution) for caution in options.findings.cautions("p")]  # type: ignore[union-attr]
        return table.names, table.types, to_rows(table), told

    def counted(*args: Any) -> Any:
        nonlocal cut
        found = cut_large(*args)
        cut += found is not None
        return found

    monkeypatch.setattr(delimited, "cut_large", counted)
    monkeypatch.setattr(delimited, "FEW_BYTES", -1)  # also small texts
    for _ in range(250):
        kinds = rng.choices(list(CELLS), [6, 2, 1, 1, 1], k=rng.choice([1, 2, 3, 4]))
        path.write_text(drawn_csv(rng, kinds))
        types: list[Any] = [rng.choice(["symbol", "int"]) for _ in kinds]
        some = Decl(tuple(["name", "x", "id", "y"][: len(kinds)]), tuple(types))
        declared = rng.choice([None, None, some])
        options = LoadOptions(header=rng.choice([None, None, True, False]))
        monkeypatch.setattr(delimited, "text_functions_for", lambda count: None)
        expected = read(declared, options)
        monkeypatch.setattr(delimited, "text_functions_for", lambda count: kernels)
        assert read(declared, options) == expected, path.read_bytes()
    assert cut > 100


# ----------------------------------------------------------------------------------- writing

LEAST, MOST = -(1 << 63), (1 << 63) - 1


def written(table: Table, path: Path, delimiter: str) -> bytes | str:
    try:
        write_table(table, path, delimiter=delimiter, format="facts")
    except DataError as error:
        return str(error)
    return path.read_bytes()


def test_texts_are_written_as_python_writes_them(tmp_path: Path, kernels: TextSetFunctions) -> None:
    rng = random.Random(11)
    odd = ["\t", "a\nb", "\r", "seven77\t", "1,2", "\ud800"]
    ways, refused = tmp_path / "p.csv", 0
    for _ in range(150):
        texts, length = TextSet(kernels), rng.choice([0, 1, 7])
        known = rng.sample(TEXTS, 9) + rng.sample(odd, rng.choice([0, 0, 0, 1]))
        texts.add(known)
        columns: list[Any] = [
            TextColumn(np.array(rng.choices(range(len(known)), k=length), dtype=np.int32), texts),
            np.array(rng.choices([0, 9, 10, -1, LEAST, MOST], k=length), dtype=np.int64),
            TextColumn(np.array(rng.choices(range(len(known)), k=length), dtype=np.int32), texts),
        ][: rng.choice([1, 2, 3])]
        names, types = tuple("abc"[: len(columns)]), ("symbol", "int", "symbol")[: len(columns)]
        plain = [TextColumn(c.codes, c.texts) if isinstance(c, TextColumn) else c for c in columns]
        found, expected = (
            written(Table(names, types, tuple(each), length), ways, ",")
            for each in (columns, plain)
        )
        refused += isinstance(expected, str)
        assert found == expected or (isinstance(found, str) and "surrogates" in str(expected))
    assert 5 < refused < 75


# ------------------------------------------------------------------------------ symbol tables


@pytest.fixture
def tables(kernels: TextSetFunctions) -> Iterator[tuple[SymbolTable, SymbolTable]]:
    """Two tables with the same texts, of which the first has them as bytes."""
    both = SymbolTable(), SymbolTable()
    for table in both:
        for text in ("b", "", "a"):
            table.intern(text)
    both[0].as_set(kernels)
    yield both


@pytest.mark.parametrize("many", [0, 1 << 19])
def test_a_table_of_bytes_is_one_of_texts(
    tables: tuple[SymbolTable, SymbolTable], many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(symbols, "MANY", many)
    monkeypatch.setattr(text_sets, "_DECODED", 3)
    monkeypatch.setattr(text_sets, "_GAPS", 4 if many else 0)
    rng = random.Random(5)
    for _ in range(50):
        text = rng.choice([*TEXTS, "\ud800", str(rng.randrange(99))])
        assert len({table.intern(text) for table in tables}) == 1
    some = [*TEXTS, "new", "\ud800new", "new"]
    one, other = (table.intern_new(iter(some)).tolist() for table in tables)
    assert one == other
    assert tables[0].made == tables[1].made
    one, other = (pickle.loads(pickle.dumps(table)) for table in tables)
    assert one.array().tolist() == other.array().tolist() == tables[0].array().tolist()
    assert tables[0].ranks().tolist() == tables[1].ranks().tolist()
    codes = np.array([3, 1, 3, 0], dtype=np.int32)
    one, other = (table.decode(codes).decode().tolist() for table in tables)
    assert one == other == [tables[0].text(code) for code in codes]
    assert tables[0].texts_of(np.arange(len(tables[0]))) == tables[1].array().tolist()


def test_arrow_has_the_texts_as_they_are(kernels: TextSetFunctions) -> None:
    texts = TextSet(kernels)
    texts.add(TEXTS)
    codes = np.array([3, 0, 3, len(TEXTS) - 1], dtype=np.int32)
    for odd in ([], ["\ud800"]):
        texts.add(odd)
        table = Table(("x",), ("symbol",), (TextColumn(codes, texts),), len(codes))
        assert to_arrow(table).column("x").to_pylist() == [TEXTS[code] for code in codes]
    assert not texts.unicode
    with pytest.raises(UnicodeEncodeError):
        to_arrow(Table(("x",), ("symbol",), (TextColumn(codes * 0 + len(TEXTS), texts),), 4))


def test_texts_that_are_kept_keep_their_codes(
    tables: tuple[SymbolTable, SymbolTable], kernels: TextSetFunctions
) -> None:
    """Codes of texts that went are of nothing, although they seem to be of the empty text."""
    for table in tables:
        table.intern("kept")
        kept = table.keeping(np.array([False, True, False, True]))
        assert (kept.text(1), kept.text(3), len(kept)) == ("", "kept", 4)
        texts = kept.as_set(kernels)
        assert texts.add(["", "kept", "a"]).tolist() == [1, 3, 4]
        assert kept.intern("") == 1 and kept.intern("a") == 4


def test_a_program_over_files(tmp_path: Path, compiled: None) -> None:
    """Texts of files, of the program and of its functions are the same texts."""
    names = [f"name{at % 40}" for at in range(200)]
    rows = "".join(f"{name}\t{at}\tä{at % 3}\n" for at, name in enumerate(names))
    (tmp_path / "p.facts").write_text(rows)
    text = f"""
        .decl p(x: symbol, n: int, y: symbol)
        .input p(filename="{tmp_path}/p.facts")
        q(cat("name", to_string(n))) <- p(_, n, "ä1"), n < 50.
        both(x) <- q(x), p(x, _, _).
        least(min(x)) <- p(x, _, _).
        after(count()) <- p(x, _, _), x > "name35".
    """
    db = gd.connect()
    db.run(text)
    assert sorted(db.query("?- both(x).").fetchall()) == [
        (f"name{at}",) for at in sorted(range(1, 40, 3), key=str)
    ]
    assert db.query("?- least(x).").fetchall() == [("name0",)]
    assert db.query("?- after(n).").fetchall() == [(5 * 10,)]
    assert len(db.query('?- p("name7", n, y).')) == 5
