"""What strangers' texts may do: `gd.connect(untrusted=True)` and `gdatalog --untrusted`.

GDATALOG_FUZZ says how many mutated programs and drawn patterns there are (300), as in
`test_fuzz_programs.py`.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from random import Random
from typing import Any

import pytest

import gdatalog as gd
from gdatalog import starting
from gdatalog.engine import untrusted
from gdatalog.errors import Error
from gdatalog.shell.options import FORMATS
from gdatalog.shell.output import Output
from gdatalog.shell.registry import COMMANDS
from gdatalog.shell.repl import Repl
from tests.draw import PROFILES, drawn
from tests.test_engine_oracle import frame
from tests.test_fuzz_programs import FIRST, FUZZ, STUCK, WORDS, mutated, program
from tests.test_untrusted_patterns import HOSTILE

ROOT = Path(__file__).parent.parent


@pytest.fixture
def db() -> gd.Database:
    return gd.connect(untrusted=True)


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a secret; whatever a test makes there is seen."""
    folder = tmp_path / "host"
    folder.mkdir()
    (folder / "secret.csv").write_text("7,8\n")
    (folder / "E.facts").write_text("7\t8\n")
    monkeypatch.chdir(folder)
    return folder


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def refused(act: Any) -> gd.UsageError:
    with pytest.raises(gd.UsageError) as caught:
        act()
    return caught.value


# --------------------------------------------------------------------------------------- files

FILES = [
    ".input E",
    '.input E("secret.csv")',
    '.input E(IO=file, filename="secret.csv")',
    ".output E",
    '.output E("out.parquet")',
    '.output E("out/")',
    '.output E(IO=file, filename="x.csv")',
    '.include "secret.csv"',
    ".decl F(x: int) input",
    ".decl F(x: int) output",
]


@pytest.mark.parametrize("text", FILES)
def test_a_text_names_no_file(db: gd.Database, empty: Path, text: str) -> None:
    db["E"] = [(1, 2)]
    before = files_in(empty)
    whole = f"p(x) <- E(x, _).\n{text}\n?- p(x)."
    for act in (db.query, db.run, db.explain, db.profile):
        error = refused(lambda act=act: act(whole))
        assert error.span is not None and error.span.where().endswith(":2:1")
        assert error.message == "an untrusted text may not read or write files"
        assert str(empty) not in str(error)
    assert files_in(empty) == before
    assert db.query("?- E(x, y).").fetchall() == [(1, 2)]


def test_all_files_of_a_text_are_told_of_together(db: gd.Database) -> None:
    error = refused(lambda: db.run("\n".join(FILES)))
    assert [part.span.line for part in error.all] == list(range(1, len(FILES) + 1))


def test_outputs_go_to_the_host(db: gd.Database) -> None:
    got = db.run("p(1). q(2). .output p(IO=stdout) .printsize q")
    assert got["p"].fetchall() == [(1,)]


def test_the_hosts_own_files(db: gd.Database, empty: Path) -> None:
    db.load("S", "secret.csv", header=False)
    (empty / "own.dl").write_text("p(x) <- S(x, _).")
    db.run_file("own.dl")
    assert db["p"].fetchall() == [(7,)]
    (empty / "own.dl").write_text(".input E")
    assert refused(lambda: db.run_file("own.dl")).span is not None
    closed = gd.connect(untrusted=True, files="none")
    assert "may not read files" in str(refused(lambda: closed.load("S", "secret.csv")))


def prompt(db: gd.Database) -> Repl:
    return Repl(db, Output(io.StringIO()), interactive=False)


@pytest.mark.parametrize(
    "line",
    [
        ".load E secret.csv",
        ".load secret.csv",
        ".read secret.csv",
        ".save all.dl",
        ".export E out.csv",
        ".explain ?- E(x, y). > plan.html",
        ".profile ?- E(x, y). > plan.json",
        ".cluster local",
        ".cluster",
        ".timeout 100",
        ".set timeout off",
        ".set threads 9",
        ".set strategy lftj",
        *FILES,
    ],
)
def test_the_prompt_names_no_file(db: gd.Database, empty: Path, line: str, capsys: Any) -> None:
    db["E"] = [(1, 2)]
    before = files_in(empty)
    shell = prompt(db)
    shell.feed(line)
    shell.feed("?- E(x, y).")
    assert len(shell.failed) == 1 and isinstance(shell.failed[0], gd.UsageError)
    assert files_in(empty) == before and str(empty) not in capsys.readouterr().err
    assert shell.output.stream.getvalue().strip().endswith("1\t2")  # type: ignore[attr-defined]
    assert db.workspace.settings.timeout == starting.SECONDS


def test_each_command_that_takes_a_path_is_refused() -> None:
    named = {c.name for c in COMMANDS.values() if "FILE" in c.arguments or "folder" in c.more}
    assert named == {"load", "export", "save", "read", "explain", "profile"}
    assert all(COMMANDS[name].trusted for name in named - {"explain", "profile"})


def test_a_statement_at_the_prompt_ends_somewhere(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untrusted, "SCANNED", 10_000)
    shell = prompt(db)
    line = "p(x), " * 20
    lines = 0
    while not shell.failed:
        shell.feed(line)
        lines += 1
    assert lines < 100 and shell._typed == ""


# -------------------------------------------------------------------------------------- bounds

MANY = untrusted.STATEMENTS + 1


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("p(1). " + " " * untrusted.CHARACTERS, "characters"),
        ("e(1). " + "".join(f"p{n}(x) <- e(x).\n" for n in range(MANY)), "statements"),
        (".decl " + ", ".join(f"p{n}" for n in range(MANY)) + "(x: int)", "statements"),
        ("".join(f"p{n}(1).\n" for n in range(MANY)), "statements"),
        (f"e(1). p(x) <- {', '.join(['e(x)'] * (untrusted.ATOMS + 1))}.", "atoms"),
        (f"e(1). {', '.join(f'p{n}(x)' for n in range(untrusted.ATOMS))} <- e(x).", "atoms"),
        (f"e(1). n(c) <- c = count : {{ {', '.join(['e(_)'] * 101)} }}.", "atoms"),
        (f"e(1). p(x) <- e(x), {', '.join(['(x = 1 ; x = 2)'] * 7)}.", "alternatives"),
        (f"e(1). p(x) <- e(x), !({', '.join(['(x = 1 ; x = 2)'] * 7)}).", "alternatives"),
        (f"e(1). p(x) <- e(x), x = min({', '.join(['x'] * untrusted.PARTS)}).", "parts"),
        (f"?- x = 1, {', '.join(['x + x < 7'] * (untrusted.PARTS // 5))}.", "parts"),
        (f"e({', '.join(['1'] * 101)}).", "columns"),
        (f".decl e({', '.join(f'c{n}: int' for n in range(101))})", "columns"),
    ],
)
def test_bounds_of_a_program(db: gd.Database, text: str, what: str) -> None:
    error = refused(lambda: db.run(text))
    assert what in error.message and error.span is not None
    assert db.query("?- x = 1.").fetchall() == [(1,)] and not list(db.relations)


def test_programs_within_the_bounds(db: gd.Database) -> None:
    facts = "".join(f"e({n}, {n + 1}).\n" for n in range(1_000))
    rules = "".join(f"p{n}(x) <- e(x, _).\n" for n in range(50))
    chain = ", ".join(f"e(x{n}, x{n + 1})" for n in range(untrusted.ATOMS - 1))
    db.run(facts + rules + f"far(x99) <- {chain}.\n")
    assert len(db["far"]) == 1_000 - 98
    assert len(db.query(f"?- x in {{{', '.join(map(str, range(9_000)))}}}.")) == 9_000


def test_what_is_kept_is_bounded(db: gd.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "STATEMENTS", 5)
    monkeypatch.setattr(untrusted, "FACTS", 4)
    db.run("e(1). e(2). p(x) <- e(x).", name="a")
    db.run("e(1). e(2). q(x) <- e(x).", name="b")
    assert "statements" in refused(lambda: db.run("r(x) <- e(x). s(x) <- e(x).")).message
    assert "5 facts" in refused(lambda: db.run("e(9).")).message
    db.run("e(3). e(4). p(x) <- e(x), x > 1.", name="a")  # in place of what it gave
    assert sorted(db["p"].fetchall()) == [(2,), (3,), (4,)]


def test_inline_relations_do_not_multiply(db: gd.Database) -> None:
    text = "".join(
        f".decl i{n}(x: int, y: int) inline\ni{n}(x, y) <- i{n + 1}(x, z), i{n + 1}(z, y).\n"
        for n in range(12)
    )
    text += ".decl i12(x: int, y: int)\ni12(x, x) <- e(x).\ne(1).\n?- i0(x, y)."
    with pytest.warns(gd.ProgramWarning, match="this rule would be too long"):
        assert db.query(text).fetchall() == [(1, 1)]


def test_texts_are_bounded(db: gd.Database) -> None:
    with pytest.raises(gd.EvaluationError, match="a text of 1,048,576 characters") as caught:
        db.query('s("a"). s(cat(x, x)) <- s(x).')
    assert caught.value.span is not None and caught.value.span.text == "cat(x, x)"
    assert len(db.query('s("a"). s(cat(x, x)) <- s(x), strlen(x) < 300000.')) == 20


# --------------------------------------------------------------------------------------- limits


def test_limits_are_set_and_the_hosts_own_win() -> None:
    usual, own = (
        gd.connect(untrusted=True),
        gd.connect(untrusted=True, memory_limit="1GiB", timeout=3, threads=1),
    )
    assert usual.memory_limit == 512 << 20 and usual.workspace.settings.timeout == 10
    assert own.memory_limit == 1 << 30 and own.workspace.settings.timeout == 3
    assert usual.device == "cpu"
    for given in ({"cluster": "local"}, {"device": "cuda"}, {"device": "cuda:1"}):
        assert "on the CPU of this process" in str(
            refused(lambda given=given: gd.connect(untrusted=True, **given))
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "text",
    [
        "n(0). n(x + 1) <- n(x).",
        "p(count()) <- x = range(0, 1000000000000), x % 7 = 3.",
        's("a,"). s(cat(x, x)) <- s(x), strlen(x) < 500000. '
        'p(count()) <- s(x), i = range(0, 100000), split_part(x, ",", i) = "b".',
        's("a"). s(cat(x, x)) <- s(x), strlen(x) < 60000. t(cat(to_string(i), x)) <- s(x), '
        "strlen(x) > 60000, i = range(0, 1000). p(count()) <- t(x), t(y), contains(x, y).",
        'p(count()) <- x = range(0, 100000), match(cat("\\\\w{1,400}", to_string(x)), "a").',
    ],
    ids=["recursion", "range", "split_part", "contains", "patterns"],
)
def test_the_time_limit_holds(db: gd.Database, text: str) -> None:
    with pytest.raises(gd.TimeLimitError):
        db.query(text, timeout=0.2)
    assert db.query("?- x = 1.").fetchall() == [(1,)]


@pytest.mark.parametrize("form", FORMATS)
def test_an_answer_that_is_written_can_be_stopped(form: str, capsys: Any) -> None:
    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            db.interrupt()
            return super().write(text)

    db, rows = gd.connect(untrusted=True), 30_000 if form in ("box", "markdown") else 300_000
    shell = Repl(db, Output(Stream(), form), interactive=False)
    shell.feed(f"?- x = range(0, {rows}).")
    assert "interrupted" in capsys.readouterr().err
    assert shell.output.stream.getvalue().count("\n") < rows  # type: ignore[attr-defined]


def test_the_time_limit_is_that_of_all_calls() -> None:
    db = gd.connect()
    db["e"] = [(1, 2)]
    db.run("p(x) <- e(x, _).")
    db.set(timeout=1e-9)
    for act in (
        lambda: db.query("?- p(x)."),
        lambda: db.explain("?- p(x), e(x, _)."),
        lambda: db.profile("?- p(x)."),
        lambda: db["p"],
        lambda: db.run("q(x) <- p(x)."),
        lambda: db.insert("e", [(3, 4)]),
    ):
        with pytest.raises(gd.TimeLimitError):
            act()
    db.set(timeout=None)
    assert db["p"].fetchall() == [(1,)]


def test_nothing_is_compiled_or_written(tmp_path: Path) -> None:
    """But for the parser's tables, which depend on no text."""
    told = """
import sys, gdatalog as gd
db = gd.connect(untrusted=True)
db["e"] = [(i, i * i % 97) for i in range(500)] + [(i, i + 1) for i in range(500)]
db.query("n(count()) <- e(x, y), e(y, z), e(z, x).")
db.run("p(x, y) <- e(x, y), x < 60. p(x, z) <- p(x, y), e(y, z), z < 60.")
db.run("d(y, min(n)) <- p(0, y), n = 1. d(y, min(n + 1)) <- d(x, n), e(x, y).")
print(len(db["p"]) > 0, len(db["d"]) > 0, "llvmlite" in sys.modules)
"""
    home = tmp_path / "home"
    home.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GDATALOG", "XDG", "NUMBA"))}
    env = {**kept, "PYTHONPATH": str(ROOT), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", told], env=env, cwd=home, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True", "False"]
    (tables,) = (path for path in home.rglob("*") if path.is_file())
    assert tables.parent.name == "grammar"


# ------------------------------------------------------------------------- texts that were made


def test_texts_that_nothing_holds_go() -> None:
    db = gd.connect(untrusted=True, memory_limit="8MiB")
    db["t"] = [("x", 1), ("", 2)]
    db.run('v(cat(a, "!")) <- t(a, _).')
    first = db.query('p(cat("early ", a)) <- t(a, _).')
    for number in range(3):
        for text in (
            f'p(cat("{number} ", to_string(x))) <- x = range(0, 10000).',
            f's("{number}"). s(cat(x, "{"z" * 1_000}")) <- s(x).',
        ):
            try:
                db.query(text)
            except gd.Error:
                assert "s(" in text
        db.insert("t", [(f"more {number}", 3)])
        assert len(db.workspace.symbols._codes) < 15_000
    assert sorted(db["t"].fetchall())[:3] == [("", 2), ("more 0", 3), ("more 1", 3)]
    assert sorted(db["v"].fetchall())[:3] == [("!",), ("more 0!",), ("more 1!",)]
    assert sorted(first.fetchall()) == [("early ",), ("early x",)]
    db["again"] = first
    assert sorted(db.query('?- again(x), x != "".').fetchall()) == [("early ",), ("early x",)]


def test_data_that_come_back_have_their_texts(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untrusted, "TEXTS", 1 << 60)  # at each call
    db["t"] = ["lost", "found"]
    shell = prompt(db)
    for line in (".drop t", '?- x = cat("a", "b").', ".undo", '?- x = cat("c", "d").', "?- t(x)."):
        shell.feed(line)
    shown = shell.output.stream.getvalue().split()  # type: ignore[attr-defined]
    assert sorted(shown[-2:]) == ["found", "lost"] and not shell.failed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_answers_are_the_same_with_other_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "TEXTS", 1 << 60)
    answered = 0
    for number in range(FIRST, FIRST + FUZZ // 100):
        random = Random(number)
        dbs = gd.connect(), gd.connect(untrusted=True)
        dbs[0].workspace.force(strategy="levelwise")
        for _ in range(3):
            profile = random.choice(("string", "recursive", "aggregate"))
            found = drawn(random.randrange(1 << 32), PROFILES[profile])
            told: list[Any] = []
            for db in dbs:
                said: list[Any] = []
                for act in (db.query, lambda text, db=db: db.run(text, name="kept")):
                    try:
                        for name, (types, rows) in found.data.items():
                            db[name] = frame(types, rows)
                        got = act(found.text)
                        if isinstance(got, gd.Result):
                            said.append(sorted(map(repr, got.fetchall())))
                        said.append(len(db.query('p(cat("made ", to_string(x))) <- x in {1, 2}.')))
                    except Error as error:
                        said.append(type(error))
                for name in db.relations:
                    try:
                        said.append((name, sorted(map(repr, db[name].fetchall()))))
                        answered += 1
                    except Error as error:
                        said.append((name, type(error)))
                told.append(said)
            assert told[0] == told[1], (number, found.text)
    assert answered > FUZZ // 100


# ----------------------------------------------------------------------------------------- fuzz

TOUCH = [*FILES, '.input E("/etc/passwd")', '.output p("/tmp/gdatalog-untrusted.csv")']


def attempt(number: int, folder: Path) -> str:
    """What becomes of a mutated program; whatever is not an answer or an error comes out."""
    random = Random(number)
    text, data = program(random)
    text = mutated(text, random)
    touches = random.random() < 0.3
    if touches:
        text = f"{text}\n{random.choice(TOUCH)}\n"
    if random.random() < 0.2:
        text += f" q(x) <- {random.choice(WORDS)} (x = 1, match({random.choice(HOSTILE)!r}, x))."
    db = gd.connect(untrusted=True, timeout=2, memory_limit="32MiB")
    for name, (types, rows) in data.items():
        db[name] = frame(types, rows)
    before, became, started = files_in(folder), "", time.perf_counter()
    for act in (db.query, db.run, db.explain, prompt(db).take_all):
        try:
            act(text, {"p": 1}) if act in (db.query, db.run) else act(text)
        except Error as error:
            assert str(error)
            became = became or type(error).__name__
        else:
            assert not touches or act not in (db.query, db.run), text
            became = became or "answers"
    for name in db.relations:
        try:
            db.query(f"?- {name}.", limit=3).fetchall()
        except Error as error:
            assert str(error)
    assert db.query("?- x = 1.").fetchall() == [(1,)]
    assert files_in(folder) == before
    assert time.perf_counter() - started < STUCK
    return became


@pytest.mark.filterwarnings("ignore")
def test_mutated_programs_touch_nothing(empty: Path, capsys: Any) -> None:
    became: dict[str, int] = {}
    for number in range(FIRST, FIRST + max(60, FUZZ // 5)):
        try:
            what = attempt(number, empty)
        except Exception as error:
            raise AssertionError(f"number {number}: {type(error).__name__}: {error}") from error
        became[what] = became.get(what, 0) + 1
    assert became.get("answers", 0) > FUZZ // 200 and became.get("UsageError", 0) > FUZZ // 100, (
        became
    )
    assert str(empty) not in capsys.readouterr().err
    assert not Path("/tmp/gdatalog-untrusted.csv").exists()


def test_warnings_are_as_ever(db: gd.Database) -> None:
    db["t"] = ["a"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert db.query('?- t(x), match("[[:alpha:]]", x).')
