"""Pipes and devices: as inputs they are read once, as cache files they are not opened. Links that
point to nothing are told from files that are not there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gdatalog as gd
from gdatalog.codegen import cache
from gdatalog.shell.editor.toolkit import KeptHistory

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_pipe_that_looks_left_behind_is_removed() -> None:
    name = ".gdatalog-0123456789abcdef.tmp"
    os.mkfifo(name)
    with gd.connect() as db:
        db.run('p(1).\n.output p("p.csv")')
    assert os.listdir() == ["p.csv"]


def test_links_to_nothing() -> None:
    links = {"e.csv": "gone.csv", "d": "gone", "r.facts": "gone.facts", "p.dl": "gone.dl"}
    for name, target in links.items():
        os.symlink(target, name)
    texts = {
        '.input e("e.csv")\n?- e(x).': "e.csv is a link to 'gone.csv', and nothing is there",
        '.input e("?.csv")\n?- e(x).': "e.csv is a link to 'gone.csv', and nothing is there",
        '.input e("d/e.csv")\n?- e(x).': "d is a link to 'gone', and nothing is there",
        '.input e("d")\n?- e(x).': "d is a link to 'gone', and nothing is there",
        ".decl r(x: int) input\n?- r.": "r.facts is a link to 'gone.facts', and nothing is there",
        '.include "p.dl"\n?- e(x).': (
            "cannot read 'p.dl': p.dl is a link to 'gone.dl', and nothing is there"
        ),
    }
    with gd.connect() as db:
        for text, expected in texts.items():
            with pytest.raises(gd.DataError) as caught:
                db.query(text)
            assert (caught.value.message, caught.value.hint) == (expected, None)
        Path("gone.csv").write_text("x\n1\n")
        assert db.query('.input e("e.csv")\n?- e(x).').fetchall() == [(1,)]
        os.remove("gone.csv")
        os.remove("e.csv")
        with pytest.raises(gd.DataError, match=r"^data error: e\.csv: there is no such file"):
            db.load("e", "e.csv")


def test_caches_open_files_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_place", cache._CacheFolder(Path.cwd()))
    for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir):
        make("a.code")
        assert cache.read("a") is None
        if Path("a.code").is_dir():
            continue
        cache.keep("a", b"text")  # replaces it
        assert cache.read("a") == b"text" and Path("a.code").is_file()
        os.remove("a.code")
        os.mkfifo("history")
        history = KeptHistory(Path("history"))
        assert list(history.load_history_strings()) == []
        history.store_string("e(1).")
        assert history.trouble == (
            "(what you type is not kept for later sessions: history: not a regular file)"
        )
        os.remove("history")


class Pipe:
    """A named pipe with a writer, which waits for a reader."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name = name
        os.mkfifo(name)
        self.write(content)

    def write(self, content: bytes) -> None:
        """Writes for the next reader; the last one is done."""

        def write() -> None:
            with suppress(BrokenPipeError):  # who opened it at the end does not read
                Path(self.name).write_bytes(content)

        self.writer = Thread(target=write)
        self.writer.start()

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, *_: object) -> None:
        while self.writer.is_alive():
            os.close(os.open(self.name, os.O_RDONLY | os.O_NONBLOCK))
            self.writer.join(0.01)


@pytest.mark.parametrize(
    "form", ['p("p.csv")', 'p(filename="p.csv", delimiter=",")', 'p("?.csv")', 'p("./p.csv")']
)
@pytest.mark.parametrize("decl", ["", ".decl p(x: int, y: int)\n"])
def test_a_pipe_is_read_once(form: str, decl: str) -> None:
    if "filename" in form and not decl:
        decl = ".decl p(a: int, b: int)\n"
    with gd.connect() as db, Pipe("p.csv", b"1,2\n3,4\n") as pipe:
        text = f"{decl}.input {form}\n?- p(x, y)."
        assert db.query(text).fetchall() == [(1, 2), (3, 4)]
        pipe.write(b"9,9\n")
        assert db.query(text).fetchall() == [(1, 2), (3, 4)]
        db.run(f"{decl}.input {form}\nsum(sum(x)) <- p(x, _).")
        assert db["sum"].fetchall() == db.query("?- sum(x).").fetchall() == [(4,)]


def test_relations_of_one_pipe() -> None:
    text = (
        ".decl p(x: int, y: int)\n.decl q(a: int, b: float)\n.decl r(s: symbol, t: symbol)\n"
        '.input p, q("f.csv")\n.input r(filename="f.csv", delimiter=",")\n'
    )
    with gd.connect() as db, Pipe("f.csv", b"1,2\n3,4\n") as pipe:
        assert db.query(f"{text}?- p(x, y).").fetchall() == [(1, 2), (3, 4)]
        pipe.write(b"9,9\n")
        assert db.query(f"{text}?- q(x, y).").fetchall() == [(1, 2.0), (3, 4.0)]
        assert db.query(f"{text}?- r(x, y).").sorted().fetchall() == [("1", "2"), ("3", "4")]


def test_pipes_of_other_formats() -> None:
    pq.write_table(pa.table({"x": [1, 2]}), "file.parquet")
    content = Path("file.parquet").read_bytes()
    for name, data in (("f.parquet", content), ("f.jsonl", b"[1]\n[2]\n")):
        with gd.connect() as db, Pipe(name, data):
            assert db.query(f'.input p("{name}")\n?- p(x).').fetchall() == [(1,), (2,)]


def test_each_load_reads_a_pipe() -> None:
    with gd.connect() as db, Pipe("f.csv", b"1,2\n") as pipe:
        db.load("p", "f.csv")
        assert db["p"].fetchall() == [(1, 2)]
        pipe.write(b"3,4\n")
        db.load("p", "f.csv")
        assert db["p"].fetchall() == [(3, 4)]
