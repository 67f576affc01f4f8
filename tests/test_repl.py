"""The prompt: fed from a pipe, and once through a pseudo-terminal."""

from __future__ import annotations

import gzip
import io
import os
import pty
import random
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gdatalog as gd
from gdatalog.parser.directive_words import DIRECTIVES
from gdatalog.shell import cli, repl
from gdatalog.shell.output import Output
from gdatalog.shell.registry import COMMANDS

HERE = Path(__file__).resolve().parent.parent


@pytest.fixture
def talk(capsys, monkeypatch, tmp_path):
    """Feeds lines to a prompt: (exit code, stdout, stderr without times)."""
    monkeypatch.chdir(tmp_path)

    def call(*lines, args=()):
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
        code = cli.run(list(args))
        captured = capsys.readouterr()
        return code, captured.out, re.sub(r"\d+\.\d{3} s", "TIME", captured.err)

    return call


# ----------------------------------------------------------------------------- statements


def test_facts_rules_and_queries(talk):
    code, out, err = talk(
        "e(1, 2). e(2, 3).",
        "e(1, 2).",
        "path(x, y) <- e(x, y).",
        "path(x, z) <- path(x, y),",
        "              e(y, z).",
        "?- path(1, x).",
        "path(2, x)  // a bare atom",
        ".",
        "path(x, y), x > 1.",
        "?- path(1, 3).",
        "path(3, _)",
    )
    assert err == (
        "e: 2 facts added, 2 tuples\n"
        "e: nothing new, 2 tuples\n"
        "path: 2 tuples (TIME, cpu)\n"
        "path: 3 tuples, 1 new (TIME, cpu)\n"
    )
    assert (code, out) == (0, "x\n2\n3\n\nx\n3\n\nx\ty\n2\t3\n\nyes\n\nno\n")


def test_facts_that_were_loaded_are_not_new(talk, tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\n1,2\n2,3\n")
    _, _, err = talk(
        ".load e e.csv",
        "e(1, 2).",
        "e(2, 3). e(3, 4).",
        "e(3, 4).",
        '.decl f(src: int, dst: int) .input f("e.csv")',
        "f(1, 2). f(7, 8).",
        "g(1). g(2).",
        "g(2). g(3).",
    )
    told = [line for line in err.splitlines() if "added" in line or "nothing new" in line]
    assert told == [
        "e: nothing new, 2 tuples",
        "e: 1 fact added, 1 known already, 3 tuples",
        "e: nothing new, 3 tuples",
        "f: 1 fact added, 1 known already, 3 tuples",
        "g: 2 facts added, 2 tuples",
        "g: 1 fact added, 1 known already, 3 tuples",
    ]


def test_a_ground_atom_of_a_relation_with_rules_is_refused(talk):
    code, out, err = talk("e(1).", "p(x) <- e(x).", "p(2).", "p(1)", ".quit")
    assert (code, out) == (1, "")
    assert err.count("usage error: `p` is defined by rules; facts cannot be added to it here") == 2
    assert "  hint: to ask whether it holds: ?- p(2).\n" in err


def test_a_rule_that_fails_its_checks_is_not_kept(talk):
    code, out, err = talk("e(1).", "p(x, y) <- e(x).", "p(x) <- e(x).", "p(x).")
    assert (code, out) == (1, "x\n1\n")
    assert err.count("unsafe rule") == 1


def test_a_rule_that_cannot_be_evaluated_is_not_kept(talk):
    code, out, err = talk("e(0).", "p(1 / x) <- e(x).", ".rules", "p(x) <- e(x).", "p(x).")
    assert (code, out) == (1, "no rules; 1 fact of e\n\nx\n0\n")
    assert "division by zero" in err
    assert "(not kept: it cannot be evaluated)\n" in err


def test_every_error_is_survived(talk):
    code, out, err = talk(
        "p(x) <- .", "nope(x).", "e(1", ").", "e(", ".load", '"', "x = 1 / 0.", "e(x)."
    )
    assert (code, out) == (1, "x\n1\n")
    assert err.count("error: ") == 6


def test_a_piped_command_ends_a_statement_that_lacks_its_dot(talk):
    code, out, err = talk("e(1).", "p(x) <- e(x),", ".relations", "e(x).")
    assert (code, out) == (1, "e(c0: int)  1\n\nx\n1\n")
    assert err.count("error: ") == 1 and "<input 2>:1:13: syntax error" in err


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM e;",
        "select x\nfrom e\nwhere x in (1, 2);",
        "insert into e values (1, 2), (2, 3);",
        "insert into e values ('a', 2);",
        "with t as (select 1) select * from t;",
        "create table e (a int);",
        "drop table e;",
        "select 1;",
    ],
)
def test_sql_is_recognised_at_its_semicolon(talk, text):
    code, out, err = talk(*text.split("\n"), "1 < 2.")
    assert (code, out) == (1, "yes\n")
    assert err.count("this looks like SQL") == 1 and err.count("error") == 1


@pytest.mark.parametrize("body", ["from(x), x * 2 = 4;", "from(x), !not_from(x);", "x in {2, 4};"])
def test_relations_may_be_named_like_words_of_sql(talk, body):
    code, out, err = talk(
        "from(2). not_from(3).", f"select(x) <- {body}", "  x = 7, from(x).", "?- select(x)."
    )
    assert (code, out.splitlines()[:2]) == (0, ["x", "2"]), err


def test_sql_by_habit_does_not_wait_for_a_dot(talk):
    code, out, err = talk("select * from e;", "1 < 2.")
    assert (code, out) == (1, "yes\n")
    assert "this looks like SQL" in err


def test_bail_stops_at_the_first_error(talk):
    assert talk("nope(x).", "1 < 2.", args=["--bail"])[:2] == (1, "")


def test_a_surprise_is_told_and_survived(talk, monkeypatch):
    def surprise(shell, text, name):
        raise KeyError(text)

    monkeypatch.setattr(repl, "take", surprise)
    code, out, err = talk("e(1).", ".device")
    assert (code, out) == (1, "device: cpu (there is no NVIDIA GPU)\n")
    assert err.startswith("internal error: KeyError: 'e(1).' -- please report this")


def test_directives_may_be_typed(talk, tmp_path):
    (tmp_path / "e.csv").write_text("a,b\n1,2\n")
    code, out, err = talk(
        ".decl e(a: int, b: int)",
        '.input e("e.csv")',
        ".printsize e",
        ".output e",
        ".input f",
        "e(x, y).",
    )
    assert (code, out) == (1, "e\t1\n\na\tb\n1\t2\n".replace("a\tb", "x\ty"))
    assert err.startswith("declared e(a: int, b: int)\ne: 1 tuple read (TIME)\n")
    assert (tmp_path / "e.csv").read_text() == "1\t2\n"


def test_a_declaration_may_come_before_its_data(talk):
    assert talk(".decl e(a: int)", "e(1).")[2] == "declared e(a: int)\ne: 1 fact added, 1 tuple\n"


def test_what_is_typed_again_replaces_what_was_typed(talk):
    rule = "n(count()) <- e(_)."
    code, out, _err = talk("e(1).", rule, "e(2).", "n(count())  <-  e( _ ) .", "n(x).", ".rules")
    assert (code, out) == (
        0, "x\n2\n\n1  n(count()) <- e(_).  // n: 1 tuple\nand 2 facts of e\n"
    )  # fmt: skip


def test_a_rule_that_was_taken_back_is_new_again(talk):
    lines = ["e(1, 2).", "p(x) <- e(x, _).", ".undo", "p(x) <- e(x, _).", "p(x) <- e(_, x)."]
    code, _, err = talk(*lines)
    assert (code, err.splitlines()) == (
        0,
        [
            "e: 1 fact added, 1 tuple",
            "p: 1 tuple (TIME, cpu)",
            "reverted: p(x) <- e(x, _).",
            "p: 1 tuple (TIME, cpu)",
            "p: 2 tuples, 1 new (TIME, cpu)",
        ],
    )


def test_retracting_and_undoing(talk):
    _, out, err = talk(
        "e(1, 2). e(2, 3). e(9, 9).", "p(x) <- e(x, _).", "retract e(2, _).",
        "retract e(x, _) where x > $least.", ".set $least 8", "retract e(x, _) where x > $least.",
        "retract e(7, 7).", ".undo", "p(x).", ".undo", "p(x).", ".rules",
    )  # fmt: skip
    assert out == "x\n1\n9\n\nx\n1\n2\n9\n\n1  p(x) <- e(x, _).  // p: 3 tuples\nand 3 facts of e\n"
    told = [line for line in err.splitlines() if " retracted, " in line or "reverted" in line]
    assert told == [
        "e: 1 fact retracted, 2 tuples",
        "e: 1 fact retracted, 1 tuple",
        "e: 0 facts retracted, 1 tuple",
        "reverted: retract e(x, _) where x > $least.",
        "reverted: retract e(2, _).",
    ]
    assert "has no value" in err


def test_rules_keep_their_parameters(talk):
    code, out, _ = talk(
        "e(1). e(2).", "p(x) <- e(x), x > $least.", ".relations", "p(x).", ".explain p(x).",
        args=["-M", "least=1"],
    )  # fmt: skip
    assert code == 0
    assert out.startswith("e(c0: int)  2\np(x: int)   1  rules\n\nx\n2\n\non cpu, strategy auto")
    assert "\nstratum 1: p\n└ p(x) <- e(x), x > $least.\n" in out


def test_parameters_and_timing(talk):
    code, out, err = talk("e(1). e(2).", "e(x), x > $least.", args=["-M", "least=1", "--timing"])
    assert (code, out) == (0, "x\n2\n")
    assert len(re.findall(r"^parse TIME, plan TIME, .*run TIME$", err, re.M)) == 2


# -------------------------------------------------------------------------------- commands


def test_help_lists_every_command(talk):
    code, out, _ = talk(".help", ".help .load", "help", ".help nope")
    assert code == 1
    for name in COMMANDS:
        assert out.count(f"\n  .{name} ") >= 2
    assert max(map(len, out.splitlines())) <= 80
    assert (
        ".load [NAME] FILE ...\n  load a file" in out
        and "\n  .load edges.csv header=false\n" in out
    )
    assert not COMMANDS.keys() & DIRECTIVES.keys()


def test_the_examples_of_help_work(talk, tmp_path):
    (tmp_path / "my data").mkdir()
    with gzip.open(tmp_path / "my data" / "edges.tsv.gz", "wt") as file:
        file.write("a\tb\n1\t2\n")
    (tmp_path / "edges.csv").write_text("a,b\n1,2\n")
    gd.query("e(1, 2).").to_parquet(tmp_path / "edges.parquet")
    for command in COMMANDS.values():
        assert command.examples or not command.arguments
        for example in command.examples:
            if "tcp://" in example:  # where nobody is
                continue
            rules = "path(x, y) <- edge(x, y). two(x) <- path(x, _). three(x) <- two(x)."
            begin = [".decl edge(a: int, b: int)", "edge(1, 2).", rules, ".save session.dl"]
            code, _, err = talk(*begin, example)
            assert (code, "error" in err) == (0, False), err


def test_an_unknown_command(talk):
    code, out, err = talk(
        ".relatoins", ".otput e", ".mode xml", ".timer maybe", ".maxrows 0", ".save"
    )
    assert (code, out) == (1, "")
    assert "no command .relatoins\n  hint: did you mean .relations?" in err
    assert "expected .save FILE" in err


def test_relations_schema_rules_stats(talk):
    code, out, err = talk(
        '.relations', 'e(1, "a").', "p(x) <- e(x, _).", ".relations", ".schema", ".schema p",
        ".rules", ".rules e", ".stats", ".device", ".schema nope",
    )  # fmt: skip
    assert code == 1
    parts = out.split("\n\n")
    assert parts[0].startswith("no relations yet")
    assert parts[1] == "e(c0: int, c1: symbol)  1\np(x: int)               1  rules"
    assert parts[2:6] == [
        ".decl e(c0: int, c1: symbol)\n.decl p(x: int)",
        ".decl p(x: int)",
        "1  p(x) <- e(x, _).  // p: 1 tuple\nand 1 fact of e",
        "no rules; 1 fact of e",
    ]
    assert parts[6].startswith("relations     2\nstatements    2\n")
    assert parts[7] == "device: cpu (there is no NVIDIA GPU)\n"
    assert "there is no relation 'nope'" in err


def test_describe(talk):
    code, out, err = talk(
        'e(1, "b"). e(12, "a"). e(3, "a").', ".describe e", "p() <- e(1, _).", ".describe p",
        "q(x) <- e(x, _), x > 99.", ".describe q", ".describe nope",
    )  # fmt: skip
    assert code == 1
    assert out.split("\n\n") == [
        "column  type    nulls  distinct  least  greatest\n"
        "c0      int         0         3  1      12\n"
        "c1      symbol      0         2  a      b\n3 rows",
        "1 row",
        "column  type  nulls  distinct  least  greatest\nx       int       0         0\n0 rows\n",
    ]
    assert "there is no relation 'nope'" in err


def test_sizes_are_told_only_where_they_are_known(talk, tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("a,b\n1,2\n")
    (tmp_path / "asks.dl").write_text('r(x) <- q(x). s(1). ?- s(x). .input f("f.csv")')
    (tmp_path / "f.csv").write_text("a\n5\n")
    db = gd.connect()
    shown = io.StringIO()
    shell = repl.Repl(db, Output(shown), interactive=False)

    def feed(line):
        at = shown.tell()
        shell.feed(line)
        return shown.getvalue()[at:].strip()

    feed('.input e("e.csv")')
    feed("p(x) <- e(x, _).")
    feed("q(x) <- p(x).")
    assert feed(".rules p") == "2  p(x) <- e(x, _).  // p: 1 tuple"
    path.write_text("a,b\n1,2\n3,4\n")  # what was made of it is out of date
    assert feed(".rules p") == "2  p(x) <- e(x, _).  // p: not evaluated"
    assert feed(".relations").splitlines() == [
        "e(a: int, b: int)              2", "p(x: int)          not evaluated  rules",
        "q(x: int)          not evaluated  rules",
    ]  # fmt: skip
    feed("p(x).")
    # What p is made of is there again; q has not been made of it yet.
    assert feed(".rules").splitlines()[1:] == [
        "2  p(x) <- e(x, _).  // p: 2 tuples", "3  q(x) <- p(x).  // q: not evaluated"
    ]  # fmt: skip
    path.unlink()
    assert feed(".rules p") == (
        "2  p(x) <- e(x, _).  // not evaluated: it depends on `e`, which is invalid"
    )
    path.write_text("a,b\n")
    feed(".read asks.dl")
    assert "// r: not evaluated" in feed(".rules r")
    feed("?- r(x).")
    assert "// r: 0 tuples" in feed(".rules r")


def test_load_export_and_clear(talk, tmp_path):
    (tmp_path / "e.csv").write_text("a,b\n1,x\n2,y\n")
    code, out, err = talk(
        ".load e.csv",
        '.load other "e.csv"',
        "p(a) <- e(a, _).",
        "q(a) <- p(a).",
        ".export p p.jsonl",
        ".clear e",
        ".drop e p q",
        "e(a, b).",
        ".clear all",
        ".relations",
    )
    assert code == 1
    loaded = "(a: int, b: symbol): 2 tuples, with a header (TIME)\n"
    told = f"e{loaded}other{loaded}"
    assert err.startswith(told)
    assert (tmp_path / "p.jsonl").read_text() == '{"a": 1}\n{"a": 2}\n'
    assert ".clear all\n  hint: .drop e drops these\ndropped: e, p, q\n" in err
    assert "there is no relation `e`" in err
    assert out.startswith("no relations yet")


def test_drop_leaves_the_other_heads_of_a_rule(talk):
    code, out, _err = talk("a(x), b(x) <- x = 1.", ".drop a", ".rules", ".drop")
    assert (code, out) == (1, "1  b(x) <- x = 1.  // b: 1 tuple\n")


def test_what_is_saved_can_be_read_again(talk, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "e.csv").write_text("a,b\n1,x\n2,y\n")
    (tmp_path / "data" / "f.csv").write_text("a\n7\n")
    (tmp_path / "out").mkdir()
    _, first, _ = talk(
        ".load data/e.csv", ".decl f(a: int)", '.input f("data/f.csv")', 'g("it\\"s").',
        "p(a) <- e(a, _), !f(a).", ".save out/session.dl", ".relations", "p(a).", "g(s).",
    )  # fmt: skip
    code, again, _err = talk(".read out/session.dl", ".relations", "p(a).", "g(s).")
    assert (code, again) == (0, first)
    assert "p(a: int)" in again
    assert '.input e("../data/e.csv")' in (tmp_path / "out" / "session.dl").read_text()


def test_reading_a_file_again_replaces_its_rules(talk, tmp_path):
    program = tmp_path / "p.dl"
    program.write_text("p(1). q(x) <- p(x). ?- q(x).")
    other = tmp_path / "other.dl"
    other.write_text("r(x) <- q(x).")
    code, out, err = talk(".read p.dl", ".read p.dl", ".read other.dl", ".rules", ".read nope.dl")
    assert (code, out) == (
        1,
        "x\n1\n\nx\n1\n\n1  q(x) <- p(x).  // q: 1 tuple\n2  r(x) <- q(x).  // r: 1 tuple\n"
        "and 1 fact of p\n",
    )
    assert "kept the rules of p, q\n" in err
    assert "r: 1 tuple (TIME, cpu)\n" in err
    assert "cannot read 'nope.dl'" in err


def test_modes_explain_profile_timer(talk):
    code, out, err = talk(
        "e(1). e(2). e(3).", ".mode box", ".maxrows 2", "e(x).", ".mode json", "e(x), x > 2.",
        ".explain e(x), x > 1.", ".profile e(x), x > 1.", ".explain", ".timer on", ".quit", "e(x).",
    )  # fmt: skip
    assert code == 1
    assert out.startswith("┌───┐\n│ x │\n├───┤\n│ 1 │\n│ … │\n│ 3 │\n└───┘\n3 rows\n")
    assert '[\n{"x": 3}\n]\n' in out
    assert "stratum 1: " in out and "held at the most" in out
    assert err.endswith("timer: on\nTIME\n")


@pytest.mark.parametrize("options", ["--passes", "--of ?1 --passes", "--passes --of=?1"])
def test_passes_of_the_planner(talk, options):
    code, out, _ = talk("e(1). e(2).", f".explain {options} ?- e(x), x < 2 * 3.", ".quit")
    assert code == 0
    assert "\nfold_constants: " in out and "\n  ?1(x) <- e(x), x < 6.\n" in out


# ------------------------------------------------------------------------------- a terminal


class Terminal:
    """A pseudo-terminal with a prompt in it."""

    def __init__(self, folder, *args):
        self.end, theirs = pty.openpty()
        env = {**os.environ, "PYTHONPATH": str(HERE), "TERM": "dumb", "COLUMNS": "40"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gdatalog", *args],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=env, start_new_session=True,
            preexec_fn=_own_terminal,
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""

    def read_to(self, text, seconds=15):
        """What appears up to `text`."""
        until = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.end], [], [], max(0, until - time.monotonic()))
            assert ready, f"{text!r} did not appear; there was {self.seen!r}"
            try:
                more = os.read(self.end, 65536)
            except OSError:  # the other side is closed
                more = b""
            assert more, f"{text!r} did not appear before the end; there was {self.seen!r}"
            self.seen += more.decode(errors="replace").replace("\r\n", "\n")
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text):
        os.write(self.end, text.encode())


def _own_terminal():
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_conversation_at_a_terminal(tmp_path):
    at = Terminal(tmp_path)
    try:
        assert "Ctrl-D leaves" in at.read_to("gdatalog> ")
        at.type("e(1, 2). e(2, 3).\n")
        assert "e: 2 facts added, 2 tuples" in at.read_to("gdatalog> ")
        at.type("p(x, z) <- e(x, y),\n")
        at.read_to("     ...> ")
        at.type("\n")
        assert "a statement ends with a dot" in at.read_to("     ...> ")
        at.type(".relations\n")
        assert "first end the statement" in at.read_to("     ...> ")
        at.type("e(y, z).\n")
        assert "p: 1 tuple" in at.read_to("gdatalog> ")
        at.type("p(x, y).\n")
        assert "│ 1 │ 3 │" in at.read_to("gdatalog> ")
        at.type("half(a\n")
        at.read_to("     ...> ")
        time.sleep(0.2)  # the prompt is there a moment before its reader sees signals
        at.type("\x03")  # Ctrl-C drops what was typed
        at.read_to("gdatalog> ")
        at.type("n(1). n(x + 1) <- n(x), n(1).\n")
        line = at.read_to(" new of ")  # the progress line, after two seconds
        assert re.search(r"n: round \d+, ", line)
        at.type("\x03")
        told = at.read_to("gdatalog> ")
        assert re.search(r"interrupted: n, round \d+, [\d,]+ rows so far, after ", told)
        assert "; the database is as it was" in told
        at.type(".relations\n")
        listed = at.read_to("gdatalog> ")
        assert "p(x: int, z: int)" in listed and "\nn(" not in listed
        at.type("\x04")  # Ctrl-D
        assert at.process.wait(10) == 0
    finally:
        at.process.kill()
        at.process.wait()
        os.close(at.end)


def test_an_answer_fits_the_terminal(tmp_path):
    text = 'p("' + "a" * 60 + '", "' + "b" * 60 + '"). ?- p(x, y). ?- z = range(0, 100).'
    at = Terminal(tmp_path, "-c", text)
    try:
        out = at.read_to("100 rows\n")
        lines = out.splitlines()
        assert max(map(len, lines)) <= 40
        assert "a…" in out and "1 row\n" in out
        assert len(lines) < 40
        assert at.process.wait(10) == 0
    finally:
        at.process.kill()
        at.process.wait()
        os.close(at.end)


def test_the_prompt_keeps_the_database_of_its_caller():
    db = gd.connect()
    db["e"] = [(1,), (2,)]
    shown = io.StringIO()
    shell = repl.Repl(db, Output(shown), interactive=False)
    assert shell.feed("e(x).") and shown.getvalue() == "c0\n1\n2\n".replace("c0", "x")


LINES = """
e(1, 2). e(2, 3).
path(x, z) <- e(x, z) ; path(x, y), e(y, z).
?- path(1, x).
n(count()) <- e(_, _).
.load e.csv
.save s.dl
.read s.dl
.mode json
.explain path(1, x).
.drop e
.decl q(x: int) input
.limitsize path(n=3)
likes("a", "b").
x = $p, x / 0 = 1.
.output e(IO=stdout)
t(@2020-01-01).
""".strip().splitlines()


def test_no_line_is_a_surprise(talk, tmp_path):
    (tmp_path / "e.csv").write_text("a,b\n1,2\n")
    draw = random.Random(7)
    lines = []
    for _ in range(300):
        line = list(draw.choice(LINES))
        for _ in range(draw.choice([0, 0, 1, 2, 4])):
            at = draw.randrange(len(line) + 1)
            other = draw.choice(LINES)
            line[at : at + draw.randrange(2)] = draw.choice(["(", ".", '"', "$", "@", other, ""])
        lines += ["".join(line)] + ["."] * (draw.random() < 0.1)
    code, _, err = talk(*lines, ".clear all", "1 < 2.", args=["--memory-limit", "64MiB"])
    assert code in (1, 3)
    assert "internal error" not in err
    assert err.count("error: ") > 50
