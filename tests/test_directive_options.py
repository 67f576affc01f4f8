"""Options of directives: each has an effect, warns, or is an error; none is left out in silence."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gdatalog as gd
from gdatalog.shell.cli import run

R = '.decl r(x: int, t: symbol)\nr(1, "a"). r(2, "b;\\"c").\n'


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def asked(text: str, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    """The exit code of a program on the command line, its output, and what stderr says."""
    Path("p.dl").write_text(text)
    code = run([*options, "p.dl"])
    out, err = capsys.readouterr()
    return code, out, err


def warned(directive: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The warning of a directive, without the lines that show it."""
    code, _, err = asked(f"{R}{directive}", capsys)
    assert code == 0
    return "\n".join(line for line in err.splitlines() if "|" not in line)


def test_what_is_asked_twice_is_answered_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{R}.printsize r\n.printsize r, r\n.decl s(x: int) printsize\ns(7).\n.printsize s\n"
    assert asked(text, capsys)[:2] == (0, "r\t2\ns\t1\n")
    text = "p(1).\n.output p(IO=stdout)\n.printsize p\n.output p(IO=stdout)\n"
    assert asked(text, capsys)[1].count("===============\n1\n") == 1
    text = 'p(1).\n.output p("a.csv")\n.output p("b.csv")\n.output p("a.csv", headers=false)\n'
    assert asked(text, capsys)[0] == 0
    assert (Path("a.csv").read_text(), Path("b.csv").read_text()) == ("1\n", "c0\n1\n")


@pytest.mark.parametrize("option", ["limit=1", 'order_by="x"'])
def test_output_has_neither_order_nor_limit(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for form in (f"({option})", f'("r.csv", {option})', f"(IO=stdout, {option})"):
        code, out, err = asked(f"{R}.printsize r\n.output r{form}", capsys)
        name = option.partition("=")[0]
        assert (code, out) == (1, "") and not Path("r.csv").exists()
        assert err.startswith(
            f"p.dl:4:1: usage error: .output writes all rows, unordered: it has no `{name}`\n"
        )
        assert "hint: a query has: `?- r order by x limit 5.`" in err
    with gd.connect() as db, pytest.raises(gd.UsageError, match=r"\.output writes all rows"):
        db.run(f"{R}.output r({option})")


def test_unknown_options_warn(capsys: pytest.CaptureFixture[str]) -> None:
    assert warned('.output r(filenam="q.csv")', capsys) == (
        "p.dl:3:1: warning: the option `filenam` of .output is not known, and does nothing\n"
        "  hint: did you mean `filename`?"
    )
    assert warned(".printsize r(n=3)", capsys) == (
        "p.dl:3:1: warning: the option `n` of .printsize is not known, and does nothing\n"
        "  hint: .printsize has no options"
    )
    assert warned('.printsize r("r.csv")', capsys) == (
        "p.dl:3:1: warning: a path does nothing in .printsize"
    )
    assert warned('.output r("r.csv", filename="q.csv")', capsys) == (
        "p.dl:3:1: warning: the option `filename` does nothing beside a path\n"
        "  hint: options are IO, delimiter, headers, header, null"
    )
    Path("e.csv").write_text("x\n1\n")
    assert warned('.input e("e.csv", colums="x")\n?- e(x).', capsys) == (
        "p.dl:3:1: warning: the option `colums` of .input is not known, and does nothing\n"
        "  hint: did you mean `columns`?"
    )


def test_options_of_output_beside_a_path() -> None:
    with gd.connect() as db:
        db.run(f'{R}.output r("r.csv", delimiter=";", headers=false)')
        assert Path("r.csv").read_text() == '1;a\n2;"b;""c"\n'
        db.run('.output r("r.tsv.gz", header=false)')
        assert gzip.decompress(Path("r.tsv.gz").read_bytes()).decode() == '1\ta\n2\t"b;""c"\n'
        db.run('.output r("s.csv", delimiter="\\\\t", IO=file)')
        assert Path("s.csv").read_text().startswith("x\tt\n")
        for name in ("r.parquet", "r.jsonl", "folder/"):
            with pytest.raises(gd.UsageError, match="delimiter, header and null have no meaning"):
                db.run(f'.output r("{name}", delimiter=";")')
            assert not Path(name).exists()
        with pytest.raises(gd.UsageError, match="goes to a path or to stdout, not to both"):
            db.run('.output r("t.csv", IO=stdout)')


def test_output_by_rfc_4180(capsys: pytest.CaptureFixture[str]) -> None:
    code, *_ = asked(f"{R}.output r(filename=q, rfc4180=true, headers=true)", capsys)
    assert code == 0 and Path("q").read_text() == 'x,t\n1,a\n2,"b;""c"\n'
    code, *_ = asked(f'{R}.output r(rfc4180=true, delimiter=";")', capsys)
    assert code == 0 and Path("r.csv").read_text() == '1;a\n2;"b;""c"\n'
    text = '.decl r(x: int, t: symbol)\n.input r(rfc4180=true, delimiter=";")\n?- r(2, t).'
    with gd.connect() as db:
        assert db.query(text).fetchall() == [('b;"c',)]
    _, out, _ = asked(f"{R}.output r(IO=stdout, rfc4180=true, headers=true)", capsys)
    assert "r\nx,t\n===============\n1,a\n" in out and '2,"b;""c"\n' in out


@pytest.mark.parametrize("option", ["headers", "header", "rfc4180"])
def test_options_that_are_true_or_false(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("r.facts").write_text("1\ta\n")
    decl = ".decl r(x: int, t: symbol)\n"
    for directive in (".output r({}=yes)", ".output r(IO=stdout, {}=yes)"):
        code, out, err = asked(R + directive.format(option), capsys)
        assert (code, out) == (1, "") and not Path("r.csv").exists()
        assert err.startswith(f"p.dl:3:1: usage error: {option} is true or false, found 'yes'\n")
    _, _, err = asked(f"{decl}.input r({option}=yes)\n?- r(x, t).", capsys)
    assert err.startswith(f"p.dl:2:1: usage error: {option} is true or false, found 'yes'\n")


@pytest.mark.parametrize("option", ['columns="1:0"', "headers=true", 'delimiter=","'])
def test_options_of_text_files_for_other_files(option: str) -> None:
    pq.write_table(pa.table({"x": [1], "y": [2]}), "r.parquet")
    text = '.decl r(a: int, b: int)\n.input r(filename="r.parquet"{})\n?- r(a, b).'
    with gd.connect() as db:
        assert db.query(text.format("")).fetchall() == [(1, 2)]
        with pytest.raises(gd.UsageError, match="are of text files, and have no meaning here"):
            db.query(text.format(f", {option}"))
