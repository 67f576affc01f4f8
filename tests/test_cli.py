"""The command line: what stands on stdout, what on stderr, and the exit code."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gdatalog import __version__
from gdatalog.shell import cli

GRAPH = "E(1, 2). E(2, 3). E(1, 3). tr(x, y, z) <- E(x, y), E(y, z), E(x, z). "
HERE = Path(__file__).resolve().parent.parent


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Runs a command line in this process, in a folder of its own: (code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*args, stdin=None):
        if stdin is not None:
            data = stdin if isinstance(stdin, bytes) else stdin.encode()
            wrapped = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
            monkeypatch.setattr(sys, "stdin", wrapped)
        code = cli.run(list(args))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def started(*args, **kwargs):
    """A process of its own."""
    env = {**os.environ, "PYTHONPATH": str(HERE)}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, "-m", "gdatalog", *args], text=True, env=env, **(streams | kwargs)
    )


# ------------------------------------------------------------------------------- answers


def test_an_answer_is_a_header_and_tabs(run):
    assert run("-c", GRAPH + "?- tr(x, y, z).") == (0, "x\ty\tz\n1\t2\t3\n", "")


def test_answers_are_apart_and_in_the_order_of_the_program(run):
    text = GRAPH + "?- E(x, 3). .printsize E\n?- E(1, 2). ?- E(2, 1). ?- E(7, x)."
    assert run("-c", text) == (0, "x\n1\n2\n\nE\t3\n\nyes\n\nno\n\nx\n", "")


def test_a_comment_of_sql_is_no_query(run):
    code, out, err = run("-c", "-- numbers\n?- x = 1.")
    assert (code, out) == (1, "")
    assert "hint: a comment begins with `//`" in err


def test_a_bare_body_is_a_query_on_the_command_line(run):
    assert run("-c", "x in {1, 2}, x > 1") == (0, "x\n2\n", "")


def test_nothing_is_cut_in_a_pipe(run):
    _, out, _ = run("-c", "?- x = range(0, 1000).")
    assert out.splitlines() == ["x", *map(str, range(1000))]


def test_texts_come_sorted_and_quoted_where_they_must(run):
    _, out, _ = run("-c", 'p("b"). p("a\\tb"). p("z"). p("a"). ?- p(x).')
    assert out == 'x\na\n"a\tb"\nb\nz\n'


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("csv", "x,s\n1,a\n2,b|c\n"),
        ("tsv", "x\ts\n1\ta\n2\tb|c\n"),
        ("json", '[\n{"x": 1, "s": "a"},\n{"x": 2, "s": "b|c"}\n]\n'),
        ("jsonl", '{"x": 1, "s": "a"}\n{"x": 2, "s": "b|c"}\n'),
        ("markdown", "| x | s |\n|--:|---|\n| 1 | a |\n| 2 | b\\|c |\n"),
        (
            "box",
            "┌───┬─────┐\n│ x │ s   │\n├───┼─────┤\n"
            "│ 1 │ a   │\n│ 2 │ b|c │\n└───┴─────┘\n2 rows\n",
        ),
    ],
)
def test_formats(run, form, expected):
    assert run("--format", form, "-c", 'p(1, "a"). p(2, "b|c"). ?- p(x, s).') == (0, expected, "")


def test_json_of_yes_is_true(run):
    _, out, _ = run("--format", "json", "-c", "?- 1 < 2.")
    assert json.loads(out) is True


SEVERAL = """
    .decl p(x: int, s: symbol)
    p(1, "a"). p(2, "é\\n"). none() <- p(7, _).
    .output p(IO=stdout)
    .printsize p
    .output q("q.csv")
    q(x) <- p(x, _).
    ?- p(x, _), x > 5.
    ?- none().
"""


def test_several_answers_in_json_are_one_document(run, tmp_path):
    code, out, err = run("--format", "json", "-D", str(tmp_path), "-c", SEVERAL)
    assert (code, err) == (0, "")
    assert json.loads(out) == [
        {"name": "p", "rows": [{"x": 1, "s": "a"}, {"x": 2, "s": "é\n"}]},
        {"name": "p", "size": 2},
        {"name": "?1", "rows": []},
        {"name": "?2", "holds": False},
    ]
    assert (tmp_path / "q.csv").exists()
    # What is asked decides, not what comes of it: an answer that fails is left out.
    texts = "-c", "?- 1 / 0 = x.", "-c", "?- x in {4}."
    code, out, _ = run("--format", "json", *texts)
    assert (code, json.loads(out)) == (1, [{"name": "?2", "rows": [{"x": 4}]}])
    code, out, _ = run("--format", "json", "-c", "?- 1 / 0 = x.", "-c", "?- 2 / 0 = x.")
    assert (code, json.loads(out)) == (1, [])


def test_one_answer_in_json_stands_by_itself(run, tmp_path):
    for text, expected in (
        ('p(1). .output p(IO=stdout) .output p("p.csv")', [{"x": 1}]),
        ("p(1). .printsize p", {"name": "p", "size": 1}),
        ("?- 1 > 2.", False),
    ):
        text = text.replace("p(1).", ".decl p(x: int) p(1).")
        code, out, err = run("--format", "json", "-D", str(tmp_path), "-c", text)
        assert (code, json.loads(out), err) == (0, expected, "")
    assert run("--format", "json", "-c", "p(1).")[1] == ""


def test_lines_of_json_are_those_of_all_answers(run):
    text = "p(1). p(2). .printsize p ?- p(x). ?- p(y), y > 1."
    _, out, _ = run("--format", "jsonl", "-c", text)
    assert [json.loads(line) for line in out.split("\n") if line] == [
        {"name": "p", "size": 2}, {"x": 1}, {"x": 2}, {"y": 2}
    ]  # fmt: skip


def test_a_limit_is_for_what_is_shown(run, tmp_path):
    text = "n(x) <- x = range(0, 50). .output n .output n(IO=stdout) ?- n(x). ?- n(7)."
    code, out, err = run("--limit", "3", "--format", "json", "-D", str(tmp_path), "-c", text)
    assert (code, err) == (0, "")
    first, second, third = json.loads(out)
    assert len(first["rows"]) == len(second["rows"]) == 3 and third["holds"] is True
    assert len((tmp_path / "n.csv").read_text().split()) == 50
    _, out, _ = run("--limit", "0", "-c", text, "-D", str(tmp_path))
    assert out == "---------------\nn\n===============\n===============\n\nx\n\nyes\n"
    _, out, _ = run("--limit", "2", "--format", "box", "-c", "?- x in {1, 2, 3}.")
    assert out.endswith("\n2 rows (limit 2)\n")
    _, out, _ = run("--limit", "4", "--format", "box", "-c", "?- x in {1, 2, 3}.")
    assert out.endswith("\n3 rows\n")
    code, _, err = run("--limit", "-1", "-c", text)
    assert code == 2 and "cannot be negative: -1" in err
    code, _, err = run("--limit", "many", "-c", text)
    assert code == 2 and "usage error" in err


# ------------------------------------------------------------- files, folders, parameters


def test_several_files_are_one_program(run, tmp_path):
    (tmp_path / "rules.dl").write_text("path(x, y) <- edge(x, y).\n?- path(x, y).\n")
    (tmp_path / "facts.dl").write_text("edge(1, 2).\n?- edge(x, y).\n")
    assert run("rules.dl", "facts.dl") == (0, "x\ty\n1\t2\n\nx\ty\n1\t2\n", "")
    assert run("rules.dl", "facts.dl", "-c", "edge(x, 2)")[1].endswith("\nx\n1\n")


def test_a_program_from_stdin(run):
    assert run("-", stdin="?- 1 < 2.") == (0, "yes\n", "")


def test_stdin_is_read_once(run):
    code, out, err = run("-", "-", stdin="")
    assert (code, out) == (2, "")
    assert err == "usage error: stdin (-) can be read once only\n"


def test_folders_of_facts_and_outputs_as_souffle(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "edge.facts").write_text("1\t2\n2\t3\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "path.dl").write_text("path(x, z) <- edge(x, z) ; path(x, y), edge(y, z).")
    (tmp_path / "p.dl").write_text(
        ".decl edge(a: number, b: number)\n.input edge\n"
        '.include "path.dl"\n.output path\n.printsize edge\n'
    )
    code, out, err = run("p.dl", "-F", "in", "-D", "out", "-I", "lib")
    assert (code, out, err) == (0, "edge\t2\n", "")
    assert (tmp_path / "out" / "path.csv").read_text() == "1\t2\n1\t3\n2\t3\n"


FRAMED = "---------------\nE\n===============\n1\t2\n===============\n"


def test_outputs_on_stdout_are_framed_as_by_souffle(run):
    assert run("-c", "E(1, 2). .output E", "-D", "-") == (0, FRAMED, "")
    assert run("-c", "E(1, 2). .output E(IO=stdout)") == (0, FRAMED, "")
    assert run("-c", "E() <- 1 < 2. .output E", "-D", "-")[1] == FRAMED.replace("1\t2", "()")


def test_parameters(run):
    query = "?- x = $n, y = $f, b = $b, t = $t, s = $s, q = $q."
    given = ["n=-7", "f=2.5", "b=true", "t=2026-11-20", "s=to be", 'q="1\\n"']
    args = [part for text in given for part in ("-M", text)]
    code, out, err = run("-c", query, *args)
    assert (code, err) == (0, "")
    assert out == 'x\ty\tb\tt\ts\tq\n-7\t2.5\ttrue\t2026-11-20\tto be\t"1\n"\n'


def test_a_parameter_that_is_not_read(run):
    code, out, err = run("-M", "star=1", "-M", "start=2", "-c", "p($start). ?- p(x).")
    assert (code, out) == (0, "x\n2\n")
    assert "warning: the parameter `$star` is not read" in err and "did you mean `$start`" in err


@pytest.mark.parametrize("text", ["n", "=1", "1n=2", 'q="\\z"'])
def test_a_parameter_that_is_none(run, text):
    code, out, err = run("-c", "?- 1 < 2.", "-M", text)
    assert (code, out) == (2, "")
    assert err.startswith("usage error: -M")


# --------------------------------------------------------------------------------- errors


def test_a_mistyped_rule(run):
    code, out, err = run("-c", "p(x) <- q(x")
    assert (code, out) == (1, "")
    assert err == (
        "<command line>:1:10: syntax error: this `(` is never closed\n"
        " 1 | p(x) <- q(x\n"
        "   |          ^\n"
        "  hint: the statement ends before its `)`; is one missing?\n"
    )


def test_the_machine_has_no_memory_left(run, monkeypatch):
    def full(*args):
        raise MemoryError

    monkeypatch.setattr(cli, "run_job", full)
    code, out, err = run("-c", "?- 1 < 2.")
    assert (code, out) == (3, "")
    assert err.startswith("error: the machine is out of memory\n  hint: ")


def test_files_that_are_no_text(run, tmp_path):
    (tmp_path / "a.dl").write_bytes(b"\xff\xfe?- 1 < 2.")
    assert run("a.dl")[::2] == (1, "data error: cannot read 'a.dl': it is not UTF-8 text\n")
    (tmp_path / "folder").mkdir()
    assert run("folder")[::2] == (1, "data error: cannot read 'folder': Is a directory\n")
    code, _, err = run("-", stdin=b"\xff")
    assert (code, err) == (1, "data error: cannot read stdin: it is not UTF-8 text\n")


def test_the_errors_of_all_files_come_together(run, tmp_path):
    (tmp_path / "a.dl").write_text("p(x) <- .\n")
    (tmp_path / "b.dl").write_text("q(x <- p(x).\n")
    code, out, err = run("a.dl", "b.dl", "nope.dl")
    assert (code, out) == (1, "")
    places = [line.split(" ")[0] for line in err.splitlines() if "error: " in line]
    assert places == ["a.dl:1:6:", "b.dl:1:2:", "data"]


def test_a_file_that_is_not_there(run, tmp_path):
    (tmp_path / "rules.dl").write_text("?- 1 < 2.")
    code, out, err = run("rule.dl")
    assert (code, out) == (1, "")
    assert err == (
        "data error: cannot read 'rule.dl': No such file or directory\n"
        "  hint: did you mean 'rules.dl'?\n"
    )


def test_a_program_in_place_of_a_file(run):
    code, _, err = run("?- 1 < 2.")
    assert code == 1
    assert "hint: to run a program text, use -c" in err


def test_a_bad_row_of_data(run, tmp_path):
    (tmp_path / "e.csv").write_text("a,b\n1,2\n1,x\n")
    code, out, err = run("-c", '.decl E(a: int, b: int)\n.input E("e.csv")\n?- E(a, b).')
    assert (code, out) == (1, "")
    assert "e.csv" in err and "'x'" in err and "expected int" in err


def test_data_that_nothing_asks_for_is_not_read(run):
    code, _, err = run("-c", '.decl E(a: int)\n.input E("not-there.csv")\np(x) <- E(x).')
    assert (code, "has no query" in err) == (0, True)


def test_after_an_error_the_next_answer_comes_unless_bail(run):
    text = "?- x = 1 / 0. ?- 1 < 2."
    code, out, err = run("-c", text)
    assert (code, out) == (1, "yes\n")
    assert "division by zero" in err
    code, out, err = run("-c", text, "--bail")
    assert (code, out) == (1, "")
    assert "division by zero" in err


def test_what_several_outputs_fail_by_is_told_once(run):
    text = """.decl e(x: int) .input e p(x) <- e(x). q(x) <- e(x). .output p .output q .output e"""
    code, out, err = run("-c", text)
    assert (code, out) == (1, "")
    assert err.count("there is no such file") == 1


def test_nothing_asked_is_told(run):
    code, out, err = run("-c", "tr(x) <- x = 1.")
    assert (code, out) == (0, "")
    assert err == (
        "note: the program has no query, so nothing was evaluated; add `?- ...` or `.output R`\n"
    )


def test_cautions_go_to_stderr(run):
    code, out, err = run("-c", "E(1, 2). p(x) <- E(x, y). ?- p(x).")
    assert (code, out) == (0, "x\n1\n")
    assert err.startswith("<command line>:1:23: warning: ")


def test_usage_errors(run):
    code, out, err = run("--bial")
    assert (code, out) == (2, "")
    assert err == "usage error: there is no option --bial\n  hint: did you mean --bail?\n"
    assert run("--memory-limit", "lots", "-c", "?- 1 < 2.")[0] == 2
    assert run("--device", "tpu", "-c", "?- 1 < 2.")[0] == 2
    assert run("--format", "xml", "-c", "?- 1 < 2.")[0] == 2
    assert run("--explain")[0] == 2
    assert run("--explain", "--profile", "-c", "?- 1 < 2.")[0] == 2


def test_device_and_memory_have_their_code(run):
    code, out, err = run("--device", "cuda", "-c", "?- 1 < 2.")
    assert (code, out) == (3, "")
    assert err.startswith("device error: ")
    text = "n(1). n(2*x) <- n(x). n(2*x+1) <- n(x). ?- n(x). ?- 1 < 2."
    code, out, err = run("--memory-limit", "1MiB", "-c", text)
    assert (code, out) == (3, "yes\n")
    assert "memory limit" in err


# ------------------------------------------------------------------------------- other options


def test_explain_evaluates_nothing(run):
    code, out, err = run("--explain", "-c", GRAPH + "?- tr(x, y, z). ?- x = 1 / 0.")
    assert (code, err) == (0, "")
    assert out.startswith("on cpu, strategy auto")
    assert "\nstratum 1: tr\n└ tr(x, y, z) <- E(x, y), E(y, z), E(x, z).\n" in out
    assert "\nstratum 1: tr\n" in run("--explain", "-c", GRAPH)[1]


def test_profile_and_timing_are_told_on_stderr(run):
    code, out, err = run("--profile", "--timing", "-c", GRAPH + "?- tr(x, y, z).")
    assert (code, out) == (0, "x\ty\tz\n1\t2\t3\n")
    lines = err.splitlines()
    assert lines[0].startswith("query: ") and lines[0].endswith(" s")
    assert lines[1].startswith("total: ")
    assert any(line.startswith("│ 1 row of tr, ") for line in lines)


def test_timing_tells_reading_and_writing_of_files(run, tmp_path):
    (tmp_path / "e.facts").write_text("1\t2\n")
    text = ".decl e(x: int, y: int)\n.input e\n.output p\np(y) <- e(_, y)."
    _, _, err = run("--timing", "-F", str(tmp_path), "-D", str(tmp_path), "-c", text)
    times = r"total: [\d.]+ s, of it loading [\d.]+ s, writing [\d.]+ s"
    assert re.fullmatch(times, err.splitlines()[-1])


def test_version_and_help(run):
    assert run("--version") == (0, f"gdatalog {__version__}\n", "")
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    for option in ("-c", "-F", "-D", "-M", "-I", "--format", "--bail", "--doctor"):
        assert f"  {option}" in out or f", {option}" in out


def test_what_we_did_not_expect_is_one_line(run, monkeypatch):
    monkeypatch.setattr(cli, "run_job", lambda *args: {}["surprise"])
    code, out, err = run("-c", "?- 1 < 2.")
    assert (code, out) == (1, "")
    assert err == (
        "internal error: KeyError: 'surprise' -- please report this with what you ran "
        "(GDATALOG_DEBUG=1 shows where it happened)\n"
    )
    monkeypatch.setenv("GDATALOG_DEBUG", "1")
    assert "Traceback" in run("-c", "?- 1 < 2.")[2]


# ----------------------------------------------------------------------------------- processes


def test_a_closed_pipe_is_quiet():
    process = started("-c", "?- x = range(0, 300000).")
    assert process.stdout.readline() == "x\n"
    process.stdout.close()
    assert (process.wait(30), process.stderr.read()) == (0, "")
    process.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_told():
    with open("/dev/full", "w") as full:
        process = started("-c", "?- 1 < 2.", stdout=full)
        _, err = process.communicate(timeout=30)
    message = "error: cannot write answers: No space left on device\n"
    assert (process.returncode, err) == (1, message)


def test_stdin_in_another_encoding_is_told():
    process = started(stdin=subprocess.PIPE)
    process.stdin.buffer.write('p("é").\n?- 1 < 2.\n'.encode("latin-1"))
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, "yes\n")
    assert "is the text read in the encoding that it is written in?" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("n(1). n(x + 1) <- n(x). ?- n(x).", r"n(?:, round \d+, [\d,]+ rows so far)?"),
        (
            "c(count()) <- x = range(0, 1000000), y = range(0, 1000000), x * y = 7. ?- c(n).",
            r"(?:compiling )?c(?: at \d+ %)?",  # on a busy machine nothing is known of it yet
        ),
    ],
)
def test_ctrl_c_ends_a_long_query(text, told):
    process = started("-c", "?- 1 < 2. " + text)
    assert process.stdout.readline() == "yes\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert re.fullmatch(rf"interrupted: {told}, after \d\.\d s\n", err)


CHECK = """
import sys
import gdatalog
slow = {"pandas", "pyarrow", "polars", "lark", "click"}
assert not slow & set(sys.modules), slow & set(sys.modules)
from gdatalog.shell import cli
assert cli.run(["-c", "p(1, 2). p(2, 3). q(x, z) <- p(x, y), p(y, z). ?- q(x, y)."]) == 0
slow -= {"click", "lark"}
assert not slow & set(sys.modules), slow & set(sys.modules)
"""


@pytest.mark.slow
def test_beside_the_files_of_a_user_and_with_few_imports(tmp_path):
    for name in ("parser", "planner", "gpu_ops", "plan", "engine", "storage", "values"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the file of the user is run')\n")
    # `-m` and `-c` put this folder first on sys.path.
    process = started("-c", "?- x in {1, 2}, x > 1.", cwd=tmp_path)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "x\n2\n", "")
    env = {**os.environ, "PYTHONPATH": str(HERE)}
    # The installed command does not; a types.py that came first would stop Python itself.
    (tmp_path / "types.py").write_text("raise SystemExit('the file of the user is run')\n")
    done = subprocess.run(
        [sys.executable, "-P", "-c", CHECK],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "x\ty\n1\t3\n", "")
