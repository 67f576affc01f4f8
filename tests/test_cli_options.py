"""Each option of the command line: what stands on stdout, what on stderr, and the exit code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdatalog import __version__
from gdatalog.shell import arguments, cli, doctor
from gdatalog.shell.options import plain_command
from tests.cases import cases
from tests.terminal import ROOT

# For each option command lines with an exit code, all of stdout, and all of stderr: patterns, with
# times as TIME. What no case names is a test that fails.
Case = tuple[list[str], int, str, str]
ENDLESS = ["-c", "?- n(x). n(1). n(2*x) <- n(x). n(2*x + 1) <- n(x)."]
YES = ["-c", "?- 1 < 2."]
GRAPH = "E(1, 2). E(2, 3). path(x, z) <- E(x, z) ; path(x, y), E(y, z). ?- path(1, x)."
READS = ".decl R(x: int) .input R ?- R(x)."
USAGE = r"usage error: .*\n  hint: .*\n"

CASES: dict[str, list[Case]] = {
    "-c": [
        (["-c", GRAPH], 0, r"x\n2\n3\n", ""),
        (["-c", "p(1).", "-c", "?- p(x)."], 0, r"x\n1\n", ""),
        (["-c", "p(1)"], 0, "", r"note: the program has no query, .*\n"),
        (
            ["-c", "?- p(1)."],
            1,
            "",
            r"<command line>:1:4: name error: there is no relation `p`\n.*",
        ),
        (["-c"], 2, "", r"usage error: Option '-c' requires an argument\n  hint: .* --help .*\n"),
    ],
    "-F": [
        (["-F", "facts", "-c", READS], 0, r"x\n7\n", ""),
        (["-c", READS], 1, "", r"<command line>:1:17: data error: R\.facts: there is no .*"),
        (["-F", "nowhere", "-c", READS], 1, "", r".*hint: there is no folder 'nowhere' either\n"),
    ],
    "-D": [
        (["-D", "-", "-c", "p(1). .output p"], 0, r"-+\np\n=+\n1\n=+\n", ""),
        (["-D", "-", "--format", "csv", "-c", "p(1). .output p"], 0, r"c0\n1\n", ""),
        (["-D", "out", "-c", "p(1). .output p"], 0, "", ""),
        (
            ["-D", "p.dl", "-c", "p(1). .output p"],
            1,
            "",
            r".*data error: p\.dl/p\.csv: cannot be .*",
        ),
    ],
    "-M": [
        (["-M", "n=1", "-c", "?- x = $n + 1."], 0, r"x\n2\n", ""),
        (["-M", "$n=1.5", "-M", 't="1"', "-c", "?- x = $n, y = $t."], 0, r"x\ty\n1\.5\t1\n", ""),
        (["-M", "n", *YES], 2, "", r"usage error: -M n: a parameter is given as -M name=value\n"),
        (["-M", "n=1", "-M", "n=2", *YES], 2, "", r"usage error: .* \$n is given twice\n"),
        (["-c", "?- x = $n."], 1, "", r"<command line>:1:8: name error: .*`-M n=value`.*"),
        (["-M", "n=a", "-c", "?- x = $n + 1."], 1, "", r"<command line>:1:\d+: type error: .*"),
    ],
    "-I": [
        (["-I", "lib", "-c", '.include "one.dl" ?- one(x).'], 0, r"x\n1\n", ""),
        (["-I", "no", "-I", "lib", "-c", '.include "one.dl" ?- one(x).'], 0, r"x\n1\n", ""),
        (["-c", '.include "one.dl"'], 1, "", r"<command line>:1:1: data error: cannot read .*"),
    ],
    "--limit": [
        (["--limit", "1", "-c", "?- x in {7, 7}."], 0, r"x\n7\n", ""),
        (["--limit", "1", "-c", "?- x in {7, 8}."], 0, r"x\n[78]\n", ""),
        (["--limit", "-1", *YES], 2, "", r"usage error: a limit cannot be negative: -1\n"),
        (["--limit", "few", *YES], 2, "", r"usage error: .* '--limit'.*few.*"),
    ],
    "--device": [
        (["--device", "cpu", *YES], 0, r"yes\n", ""),
        (["--device", "auto", *YES], 0, r"yes\n", ""),
        (["--device", "cuda:99", *YES], 3, "", r"device error: .*"),
        (["--device", "gpu", *YES], 2, "", r"usage error: there is no device 'gpu'\n  hint: .*\n"),
    ],
    "--cluster": [
        (["--cluster", "127.0.0.1:9", *YES], 3, "", r"device error: no scheduler is at .*"),
        (["--cluster", "lokal", *YES], 2, "", r"usage error: 'lokal' has no port\n  hint: .*\n"),
        (["--cluster"], 2, "", r"usage error: Option '--cluster' requires an argument\n.*"),
    ],
    "--memory-limit": [
        (["--memory-limit", "1GiB", *YES], 0, r"yes\n", ""),
        (
            ["--memory-limit", "64KiB", "-c", "?- x = range(0, 100000)."],
            3,
            "",
            r".*memory limit: .*",
        ),
        (["--memory-limit", "lots", *YES], 2, "", r"usage error: not a size: 'lots'\n  hint: .*\n"),
    ],
    "--temp-directory": [
        (["--temp-directory", ".", *YES], 0, r"yes\n", ""),
        (
            ["--temp-directory", "", "--memory-limit", "1MiB", "-c", "?- x = range(0, 1000000)."],
            3,
            "",
            r".*memory limit: .*",
        ),
        (
            ["--temp-directory", "nowhere", *YES],
            2,
            "",
            r"usage error: the temporary folder '.*nowhere' does not exist\n  hint: .*\n",
        ),
    ],
    "--temp-limit": [
        (["--temp-limit", "1GiB", *YES], 0, r"yes\n", ""),
        (
            ["--temp-limit", "2MiB", "--memory-limit", "1MiB", "--strategy", "levelwise", *ENDLESS],
            3,
            "",
            r"(?s).*needs more than the memory limit of 1\.0 MiB and 2\.0 MiB of temporary .*",
        ),
        (["--temp-limit", "lots", *YES], 2, "", r"usage error: not a size: 'lots'\n  hint: .*\n"),
    ],
    "--timeout": [
        (["--timeout", "60", *YES], 0, r"yes\n", ""),
        (
            [
                "--timeout",
                "0.05",
                "-c",
                "n(1). n(x % 1000 + 1) <- n(x). n(x + 1) <- n(x). ?- n(x).",
            ],
            3,
            "",
            r"(?s).*time limit: this takes longer than the time limit of 0\.05 s: .*",
        ),
        (
            ["--timeout", "soon", *YES],
            2,
            "",
            r"usage error: not a time limit: 'soon'\n  hint: .*\n",
        ),
    ],
    "--untrusted": [
        (["--untrusted", "-c", GRAPH], 0, r"x\n2\n3\n", ""),
        (["--untrusted", "-D", "-", "-c", "p(1). .output p"], 0, r"-+\np\n=+\n1\n=+\n", ""),
        (
            ["--untrusted", "-F", "facts", "-c", READS],
            1,
            "",
            r"<command line>:1:17: usage error: an untrusted text may not read or write files\n"
            r"(?s:(?!facts).)*",
        ),
        (["--untrusted", "--cluster", "local", *YES], 2, "", r"usage error: .* a cluster\n"),
        (["--untrusted", "--timeout", "60", "--strategy", "lftj", *YES], 0, r"yes\n", ""),
    ],
    "-j": [
        (["-j", "1", *YES], 0, r"yes\n", ""),
        (["-j", "0", *YES], 2, "", r"usage error: not a number of threads: 0\n  hint: .*\n"),
        (["-j", "x", *YES], 2, "", r"usage error: not a number of threads: 'x'\n  hint: .*\n"),
    ],
    "--strategy": [
        (["--strategy", "levelwise", "-c", GRAPH], 0, r"x\n2\n3\n", ""),
        (["--strategy", "lftj", "--explain", "-c", GRAPH], 0, r"on cpu, strategy lftj.*", ""),
        (["--strategy", "auto", "-c", GRAPH], 0, r"x\n2\n3\n", ""),
        (
            ["--strategy", "lfjt", *YES],
            2,
            "",
            r"usage error: there is no --strategy 'lfjt'\n  hint: did you mean lftj\?\n",
        ),
    ],
    "--set": [
        (["--set", "strategy=levelwise", "--set", "threads=2", "-c", GRAPH], 0, r"x\n2\n3\n", ""),
        (
            ["--set", "magic_sets=on", *YES],
            2,
            "",
            r"usage error: magic_sets cannot be 'on'\n  hint: one of auto, always, never\n",
        ),
    ],
    "--format": [
        (["--format", "csv", "-c", '?- x = "a,b".'], 0, r'x\n"a,b"\n', ""),
        (["--format", "tsv", "-c", GRAPH], 0, r"x\n2\n3\n", ""),
        (["--format", "json", "-c", GRAPH], 0, r'\[\n\{"x": 2\},\n\{"x": 3\}\n\]\n', ""),
        (["--format", "jsonl", "-c", "?- x = -inf."], 0, r'\{"x": "-inf"\}\n', ""),
        (["--format", "json", "-c", "?- x = inf."], 0, r'\[\n\{"x": "inf"\}\n\]\n', ""),
        (["--format", "jsonl", "-c", GRAPH], 0, r'\{"x": 2\}\n\{"x": 3\}\n', ""),
        (["--format", "markdown", "-c", GRAPH], 0, r"\| x \|\n\|--:\|\n\| 2 \|\n\| 3 \|\n", ""),
        (
            ["--format", "box", "-c", GRAPH],
            0,
            r"┌───┐\n│ x │\n├───┤\n│ 2 │\n│ 3 │\n└───┘\n2 rows\n",
            "",
        ),
        # Into a pipe a box is whole too.
        (["--format", "box", "-c", "?- x = range(0, 500)."], 0, r"([^\n]+\n){504}500 rows\n", ""),
        (["--format", "jsno", *YES], 2, "", r".*'jsno'\n  hint: did you mean json\?\n"),
        (
            ["--format", "html", *YES],
            2,
            "",
            r"usage error: answers have no format 'html'\n  hint: .*",
        ),
    ],
    "--explain": [
        (["--explain", "-c", GRAPH + " ?- x = 1 / 0."], 0, r".*stratum 1\b.*path.*", ""),
        (["--explain", "--format", "text", "-c", GRAPH], 0, r".*stratum 1\b.*", ""),
        (["--explain", "--format", "json", "-c", GRAPH], 0, r"\{\n.*\}\n", ""),
        (["--explain", "--format", "mermaid", "-c", GRAPH], 0, r"flowchart .*", ""),
        (["--explain", "--format", "html", "-c", GRAPH], 0, r"<!DOCTYPE html>.*</html>\n+", ""),
        (["--explain", "--format", "csv", "-c", GRAPH], 2, "", r".*plans .* no format 'csv'\n .*"),
        (["--explain"], 2, "", r"usage error: --explain and --profile need a program: .*\n"),
        (["--explain", "-c", "p(x) <- q(x)."], 1, "", r"<command line>:1:9: name error: .*"),
    ],
    "--profile": [
        (["--profile", "-c", GRAPH], 0, r"x\n2\n3\n", r".*path.*stratum.*|.*stratum.*path.*"),
        (["--profile"], 2, "", r"usage error: .*\n"),
        # A format of plans takes the place of the answers; json is the answers' own.
        (["--profile", "--format", "html", "-c", GRAPH], 0, r"<!DOCTYPE html>.*</html>\n+", ""),
        (["--profile", "--format", "mermaid", "-c", GRAPH], 0, r"flowchart .*rows? of path.*", ""),
        (["--profile", "--format", "text", "-c", GRAPH], 0, r"[\d.]+ s .*stratum 1\b.*", ""),
        (["--profile", "--format", "json", "-c", GRAPH], 0, r"\[.*\]\n", r".*stratum 1\b.*"),
        (
            ["--profile", "--memory-limit", "1MiB", "--strategy", "levelwise", *ENDLESS],
            3,
            "",
            r".*memory limit: .*not finished: memory limit.*rule 1: n\(2 \* x\).*",
        ),
        (
            ["--profile", "--explain", *YES],
            2,
            "",
            r"usage error: --explain evaluates nothing, .*\n",
        ),
    ],
    "--passes": [
        (
            ["--explain", "--passes", "-c", "e(1, 2). p(x) <- e(x, _), x < 2 * 3. ?- p(x)."],
            0,
            r".*\nfold_constants: .*\n  p\(x\) <- e\(x, _\), x < 6\.\n.*stratum 1: p\b.*",
            "",
        ),
        (["--passes", *YES], 2, "", r"usage error: --passes shows how a plan was made: .*\n"),
    ],
    "--of": [
        (["--explain", "--of", "path", "-c", GRAPH], 0, r".*stratum 1: path\b(?!.*\?1).*", ""),
        (["--explain", "--of", "1.2", "-c", GRAPH], 0, r".*stratum 1\b(?!.*stratum 2).*", ""),
        (["--explain", "--of", "*", "-c", GRAPH], 0, r".*stratum 1\b.*stratum 2\b.*", ""),
        (["--profile", "--of", "path", "-c", GRAPH], 0, r"x\n2\n3\n", r".*stratum 1: path\b.*"),
        (
            ["--explain", "--of", "paht", "-c", GRAPH],
            1,
            "",
            r"usage error: the plan has no .* 'paht'\n  hint: did you mean `path`\?\n",
        ),
        # What was measured is told all the same.
        (["--profile", "--of", "5", "-c", GRAPH], 1, r"x\n2\n3\n", r"usage error: .*stratum 1.*"),
        (["--of", "path", *YES], 2, "", r"usage error: --of selects a part of a plan: .*\n"),
    ],
    "--timing": [
        (
            ["--timing", "-c", "p(1). .output p ?- p(x).", "-D", "-"],
            0,
            r".*x\n1\n",
            r"p: TIME\nquery: TIME\ntotal: TIME\n",
        ),
        (
            ["--timing", "-c", "?- x = 1 / 0."],
            1,
            "",
            r".*division by zero.*query: TIME\ntotal: TIME\n",
        ),
    ],
    "--bail": [
        (["-c", "?- x = 1 / 0. ?- 1 < 2."], 1, r"yes\n", r".*division by zero.*"),
        (["--bail", "-c", "?- x = 1 / 0. ?- 1 < 2."], 1, "", r".*division by zero.*"),
    ],
    "--no-warnings": [
        (["-c", "e(1, 2). p(x) <- e(x, y). ?- p(x)."], 0, r"x\n1\n", r".*used only once.*"),
        (["--no-warnings", "-c", "e(1, 2). p(x) <- e(x, y). ?- p(x)."], 0, r"x\n1\n", ""),
    ],
    "--doctor": [
        (["--doctor"], 0, r"all is well\n", ""),
        (["--doctor", "x.dl"], 0, r"all is well\n", ""),
    ],
    "--clear-cache": [(["--clear-cache"], 0, r"cleared\n", "")],
    "--version": [(["--version"], 0, re.escape(f"gdatalog {__version__}\n"), "")],
    "--help": [
        (["--help"], 0, r"Usage: gdatalog .*\n", ""),
        (["-h"], 0, r"Usage: gdatalog .*\n", ""),
    ],
    "files": [
        (["p.dl", "lib/one.dl"], 0, r"x\n5\n", ""),
        (["q.dl"], 1, "", r"data error: cannot read 'q\.dl': .*\n  hint: did you mean 'p\.dl'\?\n"),
        (["p.dl", "lib/one.dl", "-c", "one(x), p(x)"], 0, r"x\n5\n\nx\n", ""),
        (["-"], 0, r"yes\n", ""),
        (["-", "p.dl"], 0, r"yes\n\nx\n5\n", ""),
        (["-", "-"], 2, "", r"usage error: stdin \(-\) can be read once only\n"),
        ([], 0, r"yes\n", ""),
    ],
    "unknown": [
        (
            ["--fromat", "csv"],
            2,
            "",
            r"usage error: .* --fromat\n  hint: did you mean --format\?\n",
        ),
        (["--memory", "1GiB"], 2, "", r".*hint: did you mean --memory-limit\?\n"),
        (["-x"], 2, "", r"usage error: there is no option -x\n  hint: gdatalog --help .*\n"),
    ],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, with facts and programs, and a program on stdin."""
    for name, text in {
        "facts/R.facts": "7\n",
        "lib/one.dl": "one(1).",
        "p.dl": "p(5).\n?- p(x).\n",
        "stdin.dl": "?- 1 < 2.\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "doctor", found)
    with Path("stdin.dl").open(encoding="utf-8") as program:
        monkeypatch.setattr("sys.stdin", program)
        yield tmp_path


class found:
    """What the doctor would say, who has tests of his own (test_doctor.py)."""

    well = True

    def __init__(self, clear_cache: bool, cluster: str | None) -> None:
        self.clear_cache = clear_cache

    def __str__(self) -> str:
        return "cleared" if self.clear_cache else "all is well"


def all_cases() -> Iterator[Any]:
    for option, some in CASES.items():
        for number, case in enumerate(some):
            yield pytest.param(case, id=f"{option} {number}")


@pytest.mark.parametrize("case", list(all_cases()))
def test_option(case: Case, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args, code, out, err = case
    assert cli.run(args) == code
    printed = capsys.readouterr()
    said = re.sub(r"\d+\.\d{3} s", "TIME", printed.err)
    assert re.fullmatch(out, printed.out, re.DOTALL), printed.out
    assert re.fullmatch(err, said, re.DOTALL), said
    if args[:2] == ["-D", "out"]:
        assert (folder / "out" / "p.csv").read_text() == "1\n"


def test_no_option_is_without_a_case() -> None:
    options = {
        max(option.opts, key=len) if isinstance(option, click.Option) else option.name
        for option in arguments.command.params
    }
    assert options | {"--help", "unknown"} == set(CASES)
    assert all(len({code for _, code, _, _ in CASES[o]}) > 1 for o in options if takes_value(o))


def takes_value(name: Any) -> bool:
    """Whether an option can be given a value that is wrong."""
    return any(
        name in option.opts and isinstance(option, click.Option) and not option.is_flag
        for option in arguments.command.params
    )


def test_help_tells_of_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["--help"])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for option in arguments.command.params:
        if isinstance(option, click.Option):
            assert option.help and all(f" {name}" in out for name in option.opts)


@pytest.mark.parametrize(
    ("args", "code", "err"),
    [
        (["--fromat", "csv"], 2, "usage error: there is no option --fromat\n"),
        (["--device", "cuda:99", *YES], 3, "device error: "),
    ],
)
def test_a_process_ends_with_the_code(args: list[str], code: int, err: str) -> None:
    command = [sys.executable, "-m", "gdatalog", *args]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(err)
    assert "\x1b" not in done.stderr


WORDS = [
    "-c", "?- 1 < 2.", "a.dl", "-", "", "-F", "facts", "-D", "-M", "n=1", "-I", "--device", "cpu",
    "--device=cpu", "--strategy", "lftj", "--strategy=lftx", "--format", "csv", "--format=mermaid",
    "--limit", "3", "--limit=x", "-j", "2", "--set", "threads=1", "--explain", "--passes",
    "--profile", "--of=p", "--timing", "--bail", "--no-warnings", "--untrusted", "--timeout", "--",
    "--timing=yes", "-Fx", "--lim", "-h", "--memory-limit", "1GiB", "--temp-limit", "--doctor",
]  # fmt: skip


@settings(max_examples=cases(300), deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=6))
def test_command_lines_are_read_as_click_reads_them(args: list[str]) -> None:
    plain = plain_command(args)
    if plain is not None:
        assert cli.CommandLine.from_options(plain) == arguments.read(args)


def test_plain_command_lines_are_plain() -> None:
    for args in (
        ["-c", "?- 1 < 2."],
        ["a.dl", "-F", "x", "-D", "-"],
        ["--explain", "a.dl", "b.dl"],
    ):
        assert plain_command(args) is not None
    assert plain_command(["--help"]) is None
