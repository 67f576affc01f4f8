"""Programs in files: what they read and write, where, and what a stranger's text may not touch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import gdatalog as gd

Write = Callable[..., None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the working directory too."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files: str) -> None:
    """Files by name; `__` in a name is a folder, the last `_` the dot."""
    for name, text in files.items():
        path = Path(name.replace("__", "/"))
        path = path.with_name(".".join(path.name.rsplit("_", 1)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def rows(result: gd.Result) -> list[tuple[object, ...]]:
    return result.sorted().fetchall()


DECL = ".decl E(x: int, y: int)\n"


def test_bare_forms_read_and_write_as_souffle_does(folder: Path) -> None:
    write(
        p_dl=DECL + ".decl p(x: int, y: int)\n.input E\np(y, x) <- E(x, y).\n.output p",
        in__E_facts="1\t2\n3\t4\n",
    )
    Path("out").mkdir()
    outputs = gd.connect().run_file("p.dl", facts="in", out="out")
    assert list(outputs) == ["p"] and rows(outputs["p"]) == [(2, 1), (4, 3)]
    assert Path("out/p.csv").read_text() in ("2\t1\n4\t3\n", "4\t3\n2\t1\n")
    assert sorted(os.listdir("out")) == ["p.csv"]


def test_positional_forms_are_relative_to_the_program(folder: Path) -> None:
    write(
        sub__p_dl='.input E("e.csv")\n.output p("p.jsonl")\np(a) <- E(a, _).',
        sub__e_csv="a,b\n1,2\n3,4\n",
    )
    db = gd.connect()
    outputs = db.run_file(Path("sub/p.dl"))
    assert rows(outputs["p"]) == [(1,), (3,)] and db["E"].columns == ("a", "b")
    assert sorted(Path("sub/p.jsonl").read_text().splitlines()) == ['{"a": 1}', '{"a": 3}']


def test_keyword_forms(folder: Path) -> None:
    write(
        p_dl=".decl E(x: int, y: int)\n"
        '.input E(IO=file, filename="e.tsv", delimiter=";", headers=true)\n'
        '.output E(IO=file, filename="out.txt", delimiter="|", headers=true)\n'
        ".output F(IO=stdout)\nF(x) <- E(x, _).",
        in__e_tsv="x;y\n1;2\n",
    )
    outputs = gd.connect().run_file("p.dl", facts="in")
    assert Path("out.txt").read_text() == "x|y\n1|2\n"
    assert rows(outputs["F"]) == [(1,)] and not Path("F.csv").exists()


@pytest.mark.parametrize("columns", ["", ', columns="1:0"'])
def test_a_header_of_the_keyword_form_may_repeat_a_name(folder: Path, columns: str) -> None:
    write(
        p_dl=".decl E(x: int, y: int)\n"
        f'.input E(filename="e.csv", delimiter="\\t", headers=true{columns})\n'
        ".output F\nF(x) <- E(x, _).",
        e_csv="Int\tInt\n1\t2\n",
    )
    outputs = gd.connect().run_file("p.dl")
    assert rows(outputs["F"]) == [(2 if columns else 1,)]


def test_qualifiers_of_declarations(folder: Path) -> None:
    write(
        p_dl=".decl E(x: int, y: int) input\n.decl p(x: int) output printsize\np(x) <- E(x, _).",
        E_facts="1\t2\n",
    )
    assert rows(gd.connect().run_file("p.dl")["p"]) == [(1,)]
    assert Path("p.csv").read_text() == "1\n"


def test_printsize_writes_nothing(folder: Path) -> None:
    write(p_dl="p(1). p(2).\n.printsize p")
    assert gd.connect().run_file("p.dl") == {}
    assert os.listdir() == ["p.dl"]


def test_a_relation_may_be_input_facts_rules_and_output(folder: Path) -> None:
    write(p_dl=DECL + ".input E\n.output E\nE(7, 7). E(y, x) <- E(x, y).", E_facts="1\t2\n")
    db = gd.connect()
    db["E"] = [(5, 5)]
    assert rows(db.run_file("p.dl")["E"]) == [(1, 2), (2, 1), (5, 5), (7, 7)]


def test_limitsize_stops_and_warns(folder: Path) -> None:
    write(p_dl="n(0). n(x + 1) <- n(x).\n.limitsize n(n=10)\n.output n(IO=stdout)")
    with pytest.warns(gd.ProgramWarning, match="n has reached its .limitsize of 10 rows"):
        outputs = gd.connect().run_file("p.dl")
    assert 10 <= len(outputs["n"]) <= 11
    with pytest.raises(gd.UsageError, match="needs a number of rows"):
        gd.connect().run("n(0).\n.limitsize n(n=many)\n.output n(IO=stdout)")


def test_inputs_that_nothing_needs_are_not_read(folder: Path) -> None:
    write(p_dl=DECL + ".input E\n.output p(IO=stdout)\np(1). q(x) <- E(x, _).")
    db = gd.connect()
    assert rows(db.run_file("p.dl")["p"]) == [(1,)]
    with pytest.raises(gd.DataError, match=r"E\.facts") as caught:
        db["q"]
    assert caught.value.span is not None and caught.value.span.where() == "p.dl:2:1"
    write(E_facts="1\t2\n")  # it is there by now
    assert rows(db["q"]) == [(1,)]


def test_inputs_are_read_later_from_where_they_were_said_to_be(folder: Path) -> None:
    write(p_dl=DECL + ".input E", in__E_facts="1\t2\n")
    db = gd.connect()
    db.run_file("p.dl", facts="in")
    assert rows(db.query("?- E(x, y).")) == [(1, 2)]


def test_running_a_file_again_reads_its_inputs_again(folder: Path) -> None:
    write(p_dl=DECL + ".input E\n.output E(IO=stdout)", a__E_facts="1\t1\n", b__E_facts="2\t2\n")
    db = gd.connect()
    assert rows(db.run_file("p.dl", facts="a")["E"]) == [(1, 1)]
    assert rows(db.run_file("p.dl", facts="b")["E"]) == [(2, 2)]
    write(b__E_facts="3\t3\n4\t4\n")
    assert rows(db.query("?- E(x, y).")) == [(3, 3), (4, 4)]
    assert rows(db.run_file("p.dl", facts="b")["E"]) == [(3, 3), (4, 4)]
    with pytest.raises(gd.DataError):
        db.run_file("p.dl", facts="nowhere")
    assert rows(db["E"]) == [(3, 3), (4, 4)]


def test_two_files_with_the_same_directive_read_their_own(folder: Path) -> None:
    for name, number in (("a", 1), ("b", 2)):
        write(**{f"{name}__p_dl": f'.input {name}("e.csv")', f"{name}__e_csv": f"{number}\n"})
    db = gd.connect()
    db.run_file("a/p.dl")
    db.run_file("b/p.dl")
    assert (rows(db["a"]), rows(db["b"])) == ([(1,)], [(2,)])


def test_a_bad_row_stops_the_run_with_its_place(folder: Path) -> None:
    write(p_dl=DECL + ".input E\n.output E", E_facts="1\t2\n1\tx\n")
    with pytest.raises(gd.DataError, match=r"E\.facts:2") as caught:
        gd.connect().run_file("p.dl")
    assert "'x'" in str(caught.value) and not Path("E.csv").exists()


def test_includes(folder: Path) -> None:
    write(
        p_dl='.include "sub/lib.dl"\n.output q(IO=stdout)\nq(x) <- p(x).',
        sub__lib_dl='.include "more.dl"\n.include "else.dl"\np(x) <- r(x).',
        sub__more_dl="r(1).",
        lib__else_dl="r(2).",
    )
    assert rows(gd.connect().run_file("p.dl", include=["lib"])["q"]) == [(1,), (2,)]
    with pytest.raises(gd.DataError, match=r"cannot read 'sub/else\.dl'") as caught:
        gd.connect().run_file("p.dl")
    assert caught.value.span is not None and caught.value.span.where() == "sub/lib.dl:2:1"


def test_an_include_cycle_is_shown(folder: Path) -> None:
    write(a_dl='.include "b.dl"', b_dl='.include "./a.dl"')
    with pytest.raises(gd.ParseError, match=r"a\.dl -> b\.dl -> a\.dl"):
        gd.connect().run_file("a.dl")


def test_programs_that_cannot_be_read(folder: Path) -> None:
    write(path_dl="p(1).")
    Path("latin.dl").write_bytes(b'p("\xe9").')
    with pytest.raises(gd.DataError, match="No such file") as caught:
        gd.connect().run_file("paht.dl")
    assert caught.value.hint == "did you mean 'path.dl'?"
    for name, says in (("latin.dl", "not UTF-8"), (".", "cannot read"), ("a\0b", "cannot read")):
        with pytest.raises(gd.DataError, match=says):
            gd.connect().run_file(name)


def test_windows_files(folder: Path) -> None:
    Path("p.dl").write_bytes(b"\xef\xbb\xbf// a comment\r\np(1).\r\n.output p(IO=stdout)\r\n")
    assert rows(gd.connect().run_file("p.dl")["p"]) == [(1,)]


# ----------------------------------------------------------------- texts from strangers

TOUCHING = {
    "input": '.input E("data.csv")\n?- E(x).',
    "bare input": ".decl E(x: int)\n.input E\n?- E(x).",
    "keyword input": '.decl E(x: int)\n.input E(IO=file, filename="data.csv")\n?- E(x).',
    "output": 'p(1).\n.output p("out.csv")',
    "bare output": "p(1).\n.output p",
    "keyword output": 'p(1).\n.output p(IO=file, filename="out.csv")',
    "include": '.include "lib.dl"\n?- p(x).',
}


def touch(db: gd.Database, text: str) -> None:
    if "output" in text:
        db.run(text)
    else:
        db.query(text)


@pytest.mark.parametrize("kind", TOUCHING)
@pytest.mark.parametrize("files", ["none", "read", "all"])
def test_what_a_text_may_touch(folder: Path, files: str, kind: str) -> None:
    write(data_csv="1\n", E_facts="1\n", lib_dl="p(1).")
    before = set(os.listdir())
    db = gd.connect(files=files)
    if files == "all" or (files == "read" and "output" not in kind):
        touch(db, TOUCHING[kind])
        return
    what = "write" if "output" in kind else "read"
    with pytest.raises(gd.UsageError, match=f"may not {what} files") as caught:
        touch(db, TOUCHING[kind])
    assert caught.value.span is not None and f'files="{files}"' in str(caught.value)
    assert set(os.listdir()) == before and not list(db.relations)


def test_a_database_bound_to_a_folder(folder: Path) -> None:
    write(in__p_dl='.include "lib.dl"\n.input E("e.csv")\n.output E("o.csv")', in__lib_dl="p(1).",
          in__e_csv="1\n", secret__e_csv="2\n", secret__lib_dl="p(2).")  # fmt: skip
    db = gd.connect(files=folder / "in")
    assert rows(db.run_file("in/p.dl")["E"]) == [(1,)]
    assert Path("in/o.csv").exists()
    os.symlink(folder / "secret", "in/link")
    os.symlink(folder / "secret/e.csv", "in/e2.csv")
    os.symlink(folder / "secret/new.csv", "in/new.csv")
    for path in ("../secret/e.csv", str(folder / "secret/e.csv"), "link/e.csv", "e2.csv"):
        write(in__q_dl=f'.input F("{path}")\n.output F(IO=stdout)')
        with pytest.raises(gd.UsageError, match="may read files in"):
            db.run_file("in/q.dl")
    for path in ("../o.csv", "link/o.csv", "new.csv"):
        write(in__q_dl=f'q(1).\n.output q("{path}")')
        with pytest.raises(gd.UsageError, match="may write files in"):
            db.run_file("in/q.dl")
    for path in ("../secret/lib.dl", "link/lib.dl"):
        write(in__q_dl=f'.include "{path}"')
        with pytest.raises(gd.UsageError, match="may read files in"):
            db.run_file("in/q.dl")
    write(in__q_dl=".decl F(x: int)\n.input F\n.output F")
    with pytest.raises(gd.UsageError):
        db.run_file("in/q.dl", facts="secret", out="secret")
    with pytest.raises(gd.UsageError):
        db.run_file("secret/lib.dl")
    with pytest.raises(gd.UsageError):
        db["G"] = "secret/e.csv"
    assert sorted(os.listdir("secret")) == ["e.csv", "lib.dl"] and sorted(os.listdir(".")) == [
        "in",
        "secret",
    ]


def test_links_to_facts_do_not_lead_out_of_the_folder(folder: Path) -> None:
    write(in__p_dl=".decl F(x: int)\n.input F\n.output F(IO=stdout)", secret__F_facts="1\n")
    os.symlink(folder / "secret/F.facts", "in/F.facts")
    db = gd.connect(files="in")
    with pytest.raises(gd.UsageError, match="may read files in"):
        db.run_file("in/p.dl", facts="in")
    os.remove("in/F.facts")
    os.symlink(folder / "secret/F.facts", "in/F.csv")
    with pytest.raises(gd.UsageError, match="may read files in"):
        db.run_file("in/p.dl", facts="in")


@pytest.mark.parametrize(
    ("files", "hint"),
    [("bogus", ""), ("al", "did you mean 'all'? "), (None, ""), (True, ""), ("p.dl", "")],
)
def test_what_files_may_be(files: object, hint: str, folder: Path) -> None:
    write(p_dl="p(1).")
    with pytest.raises(gd.UsageError) as caught:
        gd.connect(files=files)  # type: ignore[arg-type]
    assert caught.value.message == f"files={files!r} is neither a known word nor a folder"
    assert caught.value.hint == (f'{hint}files is "all", "read", "none", or a folder that exists')
    for known in ("all", "read", "none", str(folder), folder):
        gd.connect(files=known).close()
