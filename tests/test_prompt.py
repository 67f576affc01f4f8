"""The prompt at a terminal: what somebody who types there sees. Few processes, each doing much."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from terminal import BACKSPACE, CTRL_C, CTRL_D, CTRL_R, ENTER, TAB, UP, Terminal

from gdatalog.shell import arguments, cli
from gdatalog.shell.editor.toolkit import LONGEST, KeptHistory
from gdatalog.shell.messages import GOES_ON, PROMPT
from gdatalog.shell.options import plain_options

CTRL_A, CTRL_L, CTRL_U, ALT_ENTER = "\x01", "\x0c", "\x15", "\x1b\r"
OPEN_EDITOR = "\x18\x05"
ASKS, MORE = PROMPT.rstrip(), GOES_ON.rstrip()


def line_is(at: Terminal, text: str) -> None:
    """Waits until the line of the cursor is so."""
    if not at.wait_until(lambda: at.cursor_line == text):
        raise AssertionError(f"{at.cursor_line!r} is not {text!r}; the screen:\n{at.screen}")


def say(at: Terminal, line: str, answer: str) -> None:
    """Types a line; waits for what it gives, and for the next prompt below."""
    row = at.cursor_row
    at.type(line + ENTER)
    at.wait_for(answer)
    assert at.wait_until(lambda: at.cursor_row > row and at.cursor_line == ASKS), at.screen


def test_typing(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("src,dst\n1,2\n2,3\n")
    script = tmp_path / "editor.py"
    script.write_text(
        "import pathlib, sys\npath = pathlib.Path(sys.argv[1])\n"
        "path.write_text(path.read_text().replace('Q', 'E'))\n"
    )
    editor = {"EDITOR": f"{sys.executable} {script}"}
    with Terminal(folder=tmp_path, lines=24, columns=80, environment=editor) as at:
        line_is(at, ASKS)
        at.wait_for("Ctrl-D leaves.")
        assert at.screen.startswith("gdatalog 0.")
        say(at, ".load E edges.csv", "E(src: int, dst: int): 2 tuples")
        bar = at.wait_for("1 relation, 2 rows").splitlines()[-1]
        assert re.match(r"cpu · 1 relation, 2 rows · [\d.]+ MiB of [\d.]+ .iB · Tab completes", bar)

        # Colours follow the scanner, and what is known.
        at.type(CTRL_L + 'p(x, sum(y)) <- E(x, y), Q(y), not E(y, 5), x < "a"')
        line_is(at, PROMPT + 'p(x, sum(y)) <- E(x, y), Q(y), not E(y, 5), x < "a"')
        assert at.wait_until(lambda: at.screen.startswith(ASKS))
        assert at.colours("E") == at.colours("p") != at.colours("x")
        seen = [at.colours(word) for word in ("E", "Q", "sum", "not", "5", '"a"')]
        assert len(set(map(tuple, seen))) == 6
        at.type("  // so")
        at.wait_for("// so")
        assert at.wait_until(lambda: at.colours("// so") == {"brightblack"})
        at.type(CTRL_C)
        assert at.wait_until(lambda: at.cursor_line == ASKS)

        # Several lines, until the dot.
        at.type("path(x, z) <- E(x, y)," + ENTER)
        line_is(at, MORE)
        assert at._screen.cursor.x == len("gdatalog> path(x, z) <- ")
        at.type(ENTER)
        at.wait_for("a statement ends with a dot; Ctrl-C drops this one")
        at.type(".relations" + ENTER)
        at.wait_for("end the statement with a dot, or drop it with Ctrl-C, first")
        at.type(BACKSPACE * len(".relations"))
        at.wait_for(lambda screen: "Ctrl-C, first" not in screen)
        at.type("  E(y, z)." + ENTER)  # the blanks that are typed, in place of those put there
        at.wait_for("path: 1 tuple")
        at.wait_for(f"\n{GOES_ON}  E(y, z).\n")
        line_is(at, ASKS)

        # What the grammar refuses is marked where it is, once the statement is whole.
        at.type("q(x) <- E(x,, y)")
        line_is(at, PROMPT + "q(x) <- E(x,, y)")
        assert "brightred" not in at.colours(",,")
        at.type(".")
        assert at.wait_until(lambda: "brightred" in at.colours(",,"))
        at.type(BACKSPACE)
        assert at.wait_until(lambda: "brightred" not in at.colours(",,"))
        at.type(CTRL_U)

        # A command does not wait for a dot, Alt-Enter breaks the line, Ctrl-D leaves.
        say(at, ".mode csv", "mode: csv")
        at.type("E(1, x)" + ALT_ENTER)
        line_is(at, MORE)
        at.type("." + ENTER)
        at.wait_for("\nx\n2\n")
        line_is(at, ASKS)
        say(at, "select * from E;", "this looks like SQL")
        # An editor may give back what is not whole: it is not sent, and not lost.
        at.type("Q(1, x)" + OPEN_EDITOR)
        line_is(at, PROMPT + "E(1, x)")
        at.type(CTRL_U)
        at.type("x" + BACKSPACE + CTRL_D)
        assert at.wait_for_end() == 0


def test_tab(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("src,dst\n1,2\n2,3\n")
    with Terminal(folder=tmp_path, lines=24, columns=80) as at:
        at.wait_for("cpu · 0 relations")
        for typed, completed in [
            (".loa", ".load"),
            (".load E ed", ".load E edges.csv"),
        ]:
            at.type(typed + TAB)
            line_is(at, PROMPT + completed)
            at.type(CTRL_U)
            line_is(at, ASKS)
        say(at, ".load E edges.csv", "2 tuples")
        for typed, completed in [
            ("E", "E("),
            ("?- E(1, ds", "?- E(1, dst"),
            ("?- E(lon, y), x = lo", "?- E(lon, y), x = lo"),
            ("p(counted) <- E(counted, y), coun", "p(counted) <- E(counted, y), count"),
            (".mode mark", ".mode markdown"),
            (".decl q(x: sym", ".decl q(x: symbol"),
            ('.input F("ed', '.input F("edges.csv")'),
            (".output E(IO=std", ".output E(IO=stdout"),
            ("?- x = seconds_b", "?- x = seconds_between("),
        ]:
            at.type(typed + TAB)
            line_is(at, PROMPT + completed)
            at.type(CTRL_C)
            line_is(at, ASKS)
        # A menu, with what is known of each; Enter chooses and sends nothing.
        at.type("?- E(" + TAB)
        at.wait_for("column 1 of E(src: int, dst: int)")
        at.wait_for("\ncpu · E(src: int, dst: int) · 1 relation")  # also below, as one types
        assert re.search(r" src, dst\) +E\(src: int, dst: int\)", at.screen)
        at.type(TAB + ENTER)
        line_is(at, PROMPT + "?- E(src, dst)")
        at.wait_for(lambda screen: "column 1" not in screen)
        at.type("." + ENTER)
        at.wait_for("2 rows")
        line_is(at, ASKS)


PROGRAM = """\
.decl e(a: int, b: int)
e(1, 2). e(2, 3).
r(x, y) <- e(x, y).
r(x, z) <- r(x, y), e(y, z).  // closed

?- r(1, x).
.mode csv
?- count : { e(_, _) } = n.
half(x) <- e(x, _),
"""


def test_pasting_and_history(tmp_path: Path) -> None:
    state = {"GDATALOG_STATE": str(tmp_path / "state")}
    with (
        Terminal(folder=tmp_path, environment=state) as at,
        Terminal(folder=tmp_path, environment=state) as other,
    ):
        line_is(at, ASKS)
        at.paste(PROGRAM)
        at.wait_for("half(x) <- e(x, _),")
        assert "3 rows" not in at.screen  # nothing is run before Enter
        at.type(ENTER)
        at.wait_for("n\n2\n")
        at.wait_for(f"{GOES_ON}?- count : {{ e(_, _) }} = n.\ndeclared e(")
        at.wait_for(f"\n{PROMPT}half(x) <- e(x, _),\n{MORE}")
        # What is not whole is at the next prompt.
        line_is(at, MORE)
        assert at.screen.count("e: 2 facts added") == at.screen.count("r: 3 tuples") == 1
        at.type("x > 1." + ENTER)
        at.wait_for("half: 1 tuple")
        line_is(at, ASKS)
        at.paste("gdatalog> w(1).\nw: 1 fact added, 1 tuple\ngdatalog> ?- w(x),\n     ...> q(x).\n")
        at.wait_for("q(x).")
        at.type(ENTER)
        at.wait_for("<input 3>:3:")
        at.wait_for("\n 3 | q(x).\n")  # the line in what was pasted
        line_is(at, ASKS)

        line_is(other, ASKS)
        other.wait_for("cpu · 0")
        say(other, "other(1).", "other: 1 fact added")
        say(at, "w(2).", "w: 1 fact added")
        at.type(CTRL_D)
        other.type(CTRL_D)
        assert at.wait_for_end() == other.wait_for_end() == 0
    entries = [json.loads(line) for line in (tmp_path / "state/history").read_text().splitlines()]
    assert entries[-1] == "w(2)." and "other(1)." in entries and len(entries) == 5
    assert (tmp_path / "state/history").stat().st_mode & 0o777 == 0o600

    with Terminal(folder=tmp_path, environment=state) as at:
        at.wait_for("cpu · 0")
        at.type(UP)
        line_is(at, PROMPT + "w(2).")
        at.type(CTRL_U + "oth" + UP)  # those that begin so
        line_is(at, PROMPT + "other(1).")
        at.type(CTRL_U + CTRL_R + "closed")
        at.wait_for("r(x, z) <- r(x, y), e(y, z).  // closed")
        at.type(CTRL_A)  # takes it
        at.type(CTRL_C)
        line_is(at, ASKS)
        at.type("oth")
        at.wait_for("other(1).")  # in grey, from history
        assert at.colours("er(1)") == {"brightblack"}


def test_history_is_bounded_and_survives_what_others_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 50
    monkeypatch.setattr("gdatalog.shell.editor.toolkit.MOST_ENTRIES", most)
    path = tmp_path / "deep" / "history"
    first = KeptHistory(path)
    assert list(first.load_history_strings()) == []
    for at in range(3 * most):
        first.append_string(f"e({at % (2 * most + 10)}).")
    first.append_string("p(x) <-\n  e(x).\n")
    first.append_string("x" * (LONGEST + 1))  # only for this session
    first.append_string("half of a character: \ud800")
    with path.open("ab") as file:
        file.write(b'\xff not json\n{"a": 1}\n"cut sho')
    again = list(KeptHistory(path).load_history_strings())
    assert again[:2] == ["half of a character: \ud800", "p(x) <-\n  e(x)."]
    assert len(again) == len(set(again)) == most
    assert len(path.read_bytes().splitlines()) == most  # no more than that is kept
    assert list(KeptHistory(path).load_history_strings()) == again


def test_what_runs_is_stopped_and_what_is_typed_meanwhile_is_kept(tmp_path: Path) -> None:
    with Terminal(folder=tmp_path, lines=24, columns=80) as at:
        at.wait_for("cpu · 0")
        say(at, "e(1, 2).", "e: 1 fact added")
        # The first says that the terminal has left the editor: from now on Ctrl-C interrupts.
        at.paste(".timer off\nn(1). n(x + 1) <- n(x).")
        at.type(ENTER)
        at.wait_for("timer: off")
        at.type(CTRL_C)
        at.wait_for("; the database is as it was")
        line_is(at, ASKS)
        at.paste(".timer off\nm(1). m(x + 1) <- m(x), x < 1000.")
        at.type(ENTER)
        at.wait_until(lambda: at.screen.count("timer: off") == 2)
        at.type("?- e(1, x)." + ENTER + "?- e(x,")
        at.wait_for("│ 2 │")
        assert at.screen.index("m: 1,000 tuples") < at.screen.index("?- e(1, x).")
        line_is(at, PROMPT + "?- e(x,")


def test_without_colours_and_without_history(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder should be")
    environment = {"NO_COLOR": "1", "GDATALOG_STATE": str(tmp_path / "state")}
    with Terminal(folder=tmp_path, environment=environment) as at:
        at.wait_for("cpu · 0")
        say(at, 'e(1, "a"). // so', "e: 1 fact added")
        say(at, "e(x, y).", "1 row")
        assert at.screen.count("what you type is not kept for later sessions") == 1
        assert not re.search(rb"\x1b\[[\d;]*\b(3[0-7]|9[0-7]|38|4[0-8]|10[0-7])m", at.written)
        at.type("quit" + ENTER)
        assert at.wait_for_end() == 0


@pytest.mark.slow
def test_answers_into_a_file_and_the_prompt_on_the_terminal(tmp_path: Path) -> None:
    script = 'exec "$0" -m gdatalog > out'
    with Terminal([script, sys.executable], folder=tmp_path, command=("sh", "-c")) as at:
        at.wait_for("cpu · 0")
        say(at, "e(1). ?- e(x).", "e: 1 fact added")
        at.type(CTRL_D)
        assert at.wait_for_end() == 0
    assert (tmp_path / "out").read_text() == "x\n1\n"


@pytest.mark.parametrize("how", ["a pipe", "a dumb terminal"])
def test_without_prompt_toolkit(how: str, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['prompt_toolkit'] = None; sys.argv = ['gdatalog']; "
        "from gdatalog.shell.start import main; main()"
    )
    if how == "a pipe":
        done = subprocess.run(
            [sys.executable, "-c", code], input="e(1).\n?- e(x).\n", capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (0, "x\n1\n")
        return
    dumb = {"TERM": "dumb"}
    command = (sys.executable, "-c", code)
    with Terminal(folder=tmp_path, environment=dumb, command=command) as at:
        line_is(at, ASKS)
        say(at, "e(1).", "e: 1 fact added")
        at.type(CTRL_D)
        assert at.wait_for_end() == 0
        assert b"\x1b" not in at.written


@pytest.mark.parametrize(
    ("args", "plain"),
    [
        (["--device", "cpu"], True),
        (["--device=cpu", "--timing", "--bail", "--strategy", "lftj", "--format", "csv"], True),
        (["-M", "n=3", "-M", "m=-4", "--memory-limit", "8GiB", "-j", "2", "-F", "in"], True),
        (["--device", "auto"], True),
        (["--device", "cuda"], False),
        (["--device", "gpu"], False),
        (["--device"], False),
        (["--cluster", "local"], False),
        (["--memory-limit", "much"], False),
        (["-j", "0"], False),
        (["-j2"], False),
        (["-M", "n=3", "-M", "n=4"], False),
        (["-M", "n=2.5"], False),
        (["--format", "html"], False),
        (["--set", "magic_sets=never", "--set", "threads=2", "--set", "threads=3"], True),
        (["--set", "threads=2", "-j", "2"], False),
        (["--set", "magic=never"], False),
        (["--explain"], False),
        (["--timing=yes"], False),
        (["-F", "--timing"], False),
        (["-h"], False),
        (["-c", "?- 1 < 2."], False),
        (["rules.dl"], False),
        (["--devise", "cpu"], False),
    ],
)
def test_options_that_are_plainly_right_are(args: list[str], plain: bool, capsys: Any) -> None:
    assert (plain_options(args) is not None) == plain
    if plain:  # then nothing is said of them
        options = arguments.read(args)
        assert isinstance(options, cli.CommandLine) and not options.files + options.commands
        cli.connected(args).close()
        assert capsys.readouterr() == ("", "")


def test_options_do_not_keep_the_prompt_waiting(tmp_path: Path) -> None:
    """The prompt is there while nothing of the engine is, and what was said holds then."""
    code = (
        "import pathlib, sys, time\n"
        "from gdatalog.shell import start\n"
        "load = start._load\n"
        "def wait(prompt, *given):\n"
        "    late = 'numpy', 'lark', 'click', 'gdatalog.database', 'gdatalog.parser'\n"
        "    there = [name for name in late if name in sys.modules]\n"
        "    while not pathlib.Path('go').exists():\n"
        "        time.sleep(0.01)\n"
        "    prompt.tell(f'imported before: {there}')\n"
        "    load(prompt, *given)\n"
        "start._load = wait\n"
        "start.main()\n"
    )
    args = [
        "--device",
        "cpu",
        "--timing",
        "--strategy",
        "levelwise",
        "-M",
        "n=7",
        "--format",
        "csv",
    ]
    command = (sys.executable, "-c", code)
    with Terminal(args, folder=tmp_path, lines=24, columns=80, command=command) as at:
        line_is(at, ASKS)
        at.wait_for(" on cpu. ")
        (tmp_path / "go").touch()
        at.wait_for("imported before: []")
        at.wait_for("cpu · 0 relations")
        say(at, "x = $n.", "x\n7")
        at.wait_for("run 0.")
        say(at, ".set strategy", "levelwise")
        at.type(CTRL_D)
        assert at.wait_for_end() == 0


@pytest.mark.slow
def test_a_device_that_is_not_there_is_told_before_any_prompt(tmp_path: Path) -> None:
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    with Terminal(["--device", "cuda"], folder=tmp_path, environment=hidden) as at:
        assert at.wait_for_end() == 3
        assert ASKS not in at.screen and "cuda cannot be used" in at.screen


def test_the_prompt_needs_no_engine(tmp_path: Path) -> None:
    """What is imported before the first prompt is drawn."""
    code = (
        "import sys; import gdatalog.shell.start, gdatalog.shell.editor.prompt; "
        "late = 'numpy', 'lark', 'click', 'gdatalog.database', 'gdatalog.parser'; "
        "print([name for name in late if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
    assert os.name == "posix" or done.returncode == 0


def test_keys_before_a_slow_start_are_not_shown_twice() -> None:
    """Somebody listens where the cluster should be, and says nothing."""
    termios = pytest.importorskip("termios")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        where = f"127.0.0.1:{listening.getsockname()[1]}"
        with Terminal(["--cluster", where]) as at:
            before = termios.tcgetattr(at.end)
            at.wait_for("connecting to the cluster")
            assert not termios.tcgetattr(at.end)[3] & termios.ECHO
            at.type(".cluster" + ENTER + CTRL_C)
            assert at.wait_for_end() == 130
            assert ".cluster" not in at.screen and "interrupted" in at.screen
            assert termios.tcgetattr(at.end) == before


@pytest.mark.slow
def test_keys_before_the_workers_are_there_are_for_the_prompt() -> None:
    with Terminal(["--cluster", "local", "-j", "1"]) as at:
        at.wait_for("connecting to the cluster")
        at.type("?- x in {12345}." + ENTER)
        at.wait_for("12345 │", 60)
        assert at.wait_until(lambda: at.cursor_line == ASKS)
        assert at.screen.count("x in {12345}") == 1
        at.type(CTRL_D)
        assert at.wait_for_end(60) == 0


def test_in_the_background_the_terminal_is_left_alone() -> None:
    """A process that set it up from there would be stopped before it has begun."""
    pytest.importorskip("termios")
    script = (
        "import os, sys\n"
        "from gdatalog.shell.editor.terminal import can_edit, in_foreground\n"
        "print(can_edit(), in_foreground(), flush=True)\n"
        "if not (child := os.fork()):\n"
        "    os.setpgid(0, 0)\n"
        "    print(can_edit(), in_foreground(), flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    with Terminal(command=[sys.executable, "-c", script]) as at:
        assert at.wait_for_end() == 0
        assert at.screen.split() == ["True", "True", "True", "False"]
