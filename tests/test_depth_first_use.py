"""Compiled rules as a user meets them: what is told, stopping them, processes side by side.

Each process has a cache of its test's, so that what is compiled and what is read is known.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gdatalog as gd
from gdatalog.codegen import cache, machine, native
from gdatalog.engine import choose, device
from gdatalog.options import STRATEGIES
from gdatalog.settings import Thresholds
from gdatalog.threads import CancellableThread
from tests.terminal import CTRL_C, Terminal

HERE = Path(__file__).resolve().parent.parent

# Answered at once, and not in a minute: both depth-first.
QUICK = "t(count()) <- E(x, y), E(y, z), E(x, z)."
LONG = "n(count()) <- V(a), V(b), V(c), V(d), V(e), V(f), (a * b + c * d + e * f) % 1003 = 7."
DATA = " ".join(f"V({x}). E({x % 9}, {x // 9})." for x in range(81))


def environment(cache: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HERE), "GDATALOG_CACHE": str(cache), "TERM": "dumb"}


def start(cache: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gdatalog", *args],
        env=environment(cache), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.fixture
def db() -> gd.Database:
    db = gd.connect()
    db["V"] = [(i,) for i in range(90)]
    db["E"] = np.unique(np.random.default_rng(5).integers(0, 60, (600, 2)), axis=0)
    return db


# --------------------------------------------------------------------------- the same answers


def test_columns_that_may_not_be_written_to() -> None:
    """Those of a data frame in order, which are borrowed, are the last level of an index."""
    a = np.repeat(np.arange(20_000, dtype=np.int32), 3)
    db = gd.connect(device="cpu")
    db["E"] = pd.DataFrame({"a": a, "b": a + np.resize(np.int32([1, 5, 9]), len(a))})
    assert not db["E"]._relation.store.as_they_are()[1].flags.writeable
    rule = "n(count()) <- E(x, y), E(y, z), E(x, w), w != y, z != w."
    found = [db.query(rule, strategy=how).fetchall() for how in STRATEGIES]
    assert found[0] == found[1] == found[2]


RULES = [
    QUICK,
    "p(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z.",
    "p(x, n) <- V(x), x < 70, n = count : { E(x, y), E(y, _) }.",
    "p(x) <- E(x, y), !E(y, x), (x + y) % 3 = 1.",
    "p(s) <- E(x, _), s = cat(to_string(x), \"!\").",
    "p(x, sum(y), max(z)) <- E(x, y), E(y, z).",
]  # fmt: skip


@pytest.mark.parametrize("text", RULES)
def test_all_ways_to_run_give_the_same(db: gd.Database, text: str) -> None:
    answers = [db.query(text, strategy=strategy).sorted().fetchall() for strategy in STRATEGIES]
    for threads in (1, 2, 5):
        db.workspace.force(threads=threads)
        answers.append(db.query(text, strategy="lftj").sorted().fetchall())
    assert answers[0] and all(answer == answers[0] for answer in answers)


def test_a_profile_tells_which_executor_ran(db: gd.Database) -> None:
    deep = db.profile(QUICK, strategy="lftj")
    assert "  │ depth-first: asked for\n" in str(deep) and "not reached" not in str(deep)
    assert ("executor", "depth-first") in deep.tree.find("rule")[0].facts
    broad = db.profile(QUICK, strategy="levelwise")
    assert "  │ breadth-first: asked for\n" in str(broad) and " tried " in str(broad)
    assert deep.result.fetchall() == broad.result.fetchall()
    rows = [[seen.rows_out for seen in each.runs[0].seen.values()] for each in (deep, broad)]
    assert rows[0] == rows[1] and len(rows[0]) > 1  # the compiled loops count
    two = "p(x) <- E(x, 3) ; E(3, x), s = to_string(x), s != \"4\"."  # fmt: skip
    told = [node.details for node in db.profile(two, strategy="lftj").tree.find("alternative")]
    assert told == [
        ("depth-first: asked for",), ("breadth-first: to_string() makes new strings",)
    ]  # fmt: skip


def test_an_explanation_tells_what_cannot_be_compiled(db: gd.Database) -> None:
    told = str(db.explain("p(s) <- E(x, _), s = cat(to_string(x), \"!\")."))  # fmt: skip
    assert re.search(r"never depth-first: (cat|to_string)\(\) makes new strings", told)
    assert "never depth-first" not in str(db.explain(QUICK))


# ---------------------------------------------------------------------------------- stopping


def test_interrupting_loops_that_are_compiled(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = device.run_nest

    def run_nest(*args: Any) -> Any:
        threading.Timer(0.2, db.interrupt).start()
        return begun(*args)

    monkeypatch.setattr(device, "run_nest", run_nest)
    with pytest.raises(gd.Interrupted):
        db.query(LONG, strategy="lftj")
    assert not any(isinstance(thread, CancellableThread) for thread in threading.enumerate())
    monkeypatch.undo()
    assert len(db.query("p(x) <- V(x), x < 3.", strategy="lftj")) == 3


def test_a_compilation_is_not_interrupted_but_the_query_is(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes hundredths of a second; what it made is there for who asks next."""
    made: list[str] = []
    load = native.load

    def interrupted(name: str, source: str, rows: float = 0.0) -> Any:
        db.interrupt()
        found = load(name, source, rows)
        made.append(name)
        return found

    two = "m(x, y) <- E(x, y), E(y, x). n(count()) <- m(x, y), E(y, z), E(z, x). ?- n(c)."
    with monkeypatch.context() as patch:
        patch.setattr(native, "load", interrupted)
        with pytest.raises(gd.Interrupted):
            db.query(two, strategy="lftj")
    assert len(made) == 1 and made[0] in native._native
    assert len(db.query(two, strategy="lftj")) == 1


def test_a_compilation_that_fails_is_told_and_tried_again(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its rule runs breadth-first meanwhile. The IR is in a file."""
    tried: list[str] = []

    def fails(ir: str, tier: str) -> bytes:
        tried.append(ir)
        raise RuntimeError("no compiler")

    text = QUICK.replace("E(x, z)", "E(x, z), x + y != 12345")
    expected = db.query(text, strategy="levelwise").fetchall()
    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_place", cache._CacheFolder())
    monkeypatch.setattr(native, "_native", {})
    with monkeypatch.context() as patch:
        patch.setattr(machine, "object_of", fails)
        patch.setattr("tempfile.tempdir", str(tmp_path))
        for times in (1, 2):
            with pytest.warns(RuntimeWarning, match=r"no compiler \(its LLVM IR is in .*\.ll\)"):
                told = db.profile(text, strategy="lftj")
            assert told.result.fetchall() == expected and len(tried) == times
            assert "breadth-first: its loops do not compile:" in str(told)
    assert [path.read_text() for path in tmp_path.glob("*.ll")] == tried
    told = db.profile(text, strategy="lftj")
    assert told.result.fetchall() == expected and "depth-first: asked for" in str(told)


RECURSIVE = [
    "path(x, z) <- E(x, z) ; path(x, y), E(y, z). ?- path(x, y).",
    "far(x, min(n)) <- E(0, x), n = 1 ; far(y, m), E(y, x), n = m + 1. ?- far(x, n).",
    "same(x, y) <- E(p, x), E(p, y) ; same(p, q), E(p, x), E(q, y). ?- same(x, y).",
]


@pytest.mark.filterwarnings("ignore:.*no compiler:RuntimeWarning")
@pytest.mark.parametrize("text", RECURSIVE)
def test_recursion_without_a_compiler(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    expected = db.query(text, strategy="levelwise").sorted().fetchall()

    def fails(ir: str, tier: str) -> bytes:
        raise RuntimeError("no compiler")

    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_place", cache._CacheFolder())
    monkeypatch.setattr(native, "_native", {})
    monkeypatch.setattr(machine, "object_of", fails)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert db.query(text, strategy="lftj").sorted().fetchall() == expected
    assert list(tmp_path.glob("*.ll"))


def test_control_c_ends_the_command_line(tmp_path: Path) -> None:
    process = start(tmp_path, "--strategy", "lftj", "-c", f"{DATA} {LONG} ?- n(x).")
    until = time.monotonic() + 60
    while not list(tmp_path.rglob("aggregate_*.code")) and time.monotonic() < until:
        time.sleep(0.05)  # it compiles
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out) == (130, "")
    assert re.fullmatch(r"interrupted: (compiling )?n.*, after .* s\n", err)


# --------------------------------------------------------------------------- what is told


def test_a_conversation_with_compiled_rules(tmp_path: Path) -> None:
    with Terminal(environment=environment(tmp_path)) as at:

        def ask(typed: str, awaited: str) -> str:
            """What comes when this is typed, until something awaited does."""
            before = len(at.written)
            at.type(f"{typed}\n")
            at.wait_for(lambda _: awaited in at.written[before:].decode(errors="replace"), 60)
            return at.written[before:].decode()

        at.wait_for("gdatalog>")
        ask(".set strategy lftj", "strategy: lftj")
        ask(DATA, "E: 81 facts added")
        ask(QUICK, "t: 1 tuple")
        ask(QUICK.replace("t(count", "u(count"), "u: 1 tuple")  # the same code
        ask(LONG, "\x1b[2Kn ")  # compiled and running, for two seconds in all
        at.type(CTRL_C)
        at.wait_for("; the database is as it was")
        assert re.search(r"│ +729 │", ask("?- t(x).", "1 row"))
        at.type(".quit\n")
        assert at.wait_for_end() == 0


def test_into_a_pipe_nothing_is_told_and_two_processes_may_compile_at_once(tmp_path: Path) -> None:
    text = "E(1, 2). E(2, 3). t(x) <- E(x, 2). ?- t(x)."
    both = [start(tmp_path, "--strategy", "lftj", "-c", text) for _ in range(2)]
    ended = [(*process.communicate(timeout=120), process.returncode) for process in both]
    assert ended == [("x\n1\n", "", 0)] * 2


# --------------------------------------------------------------------------------- choosing


def test_small_work_does_not_import_llvmlite(tmp_path: Path) -> None:
    program = (
        "import sys, gdatalog as gd\n"
        "db = gd.connect(); db['E'] = [(1, 2), (2, 3), (1, 3)]\n"
        f"print(db.query('{QUICK}').fetchall(), 'llvmlite' in sys.modules)\n"
        "db.run('path(x, z) <- E(x, z) ; path(x, y), E(y, z).')\n"
        "print(len(db['path']), 'llvmlite' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(tmp_path), capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[(1,)] False\n3 False\n", "")


def test_who_asks_for_breadth_first_compiles_nothing(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: Any) -> Any:
        raise AssertionError("compiled")

    monkeypatch.setattr(native, "load", refused)
    db.query(QUICK, strategy="levelwise")
    with pytest.raises(AssertionError, match="compiled"):
        db.query(QUICK, strategy="lftj")


@pytest.mark.slow
def test_rows_that_do_not_fit_are_left_to_breadth_first() -> None:
    db = gd.connect(memory_limit="1MiB")
    db.workspace.tune(loops_worth=0.0)
    db["E"] = [(i, j) for i in range(60) for j in range(60)]
    text = "p(x) <- E(a, b), E(b, c), E(c, d), x = (a + d) % 3."
    told = db.profile(text)
    assert told.result.sorted().fetchall() == [(0,), (1,), (2,)]
    assert "breadth-first: rows of compiled loops did not fit" in str(told)
    with pytest.raises(gd.MemoryLimitError):
        db.query(text, strategy="lftj")


# Joins of 3 x 40,000 and of 3 x 400 rows; and a join of which more comes than is expected.
TRIANGLES = "n(count()) <- {0}(x, y), {0}(y, z), {0}(z, x)."


def test_many_rows_are_worth_compiled_loops() -> None:
    """By what is expected: the sizes of relations decide, never a clock."""
    db = gd.connect(device="cpu")
    random = np.random.default_rng(7)
    db["Many"] = np.unique(random.integers(0, 3000, (40_000, 2)), axis=0)
    db["Few"] = np.unique(random.integers(0, 300, (400, 2)), axis=0)
    for name, kind in (("Many", "depth-first"), ("Few", "breadth-first")):
        told = [str(db.profile(TRIANGLES.format(name))) for _ in range(3)]
        chosen = [re.findall(r"\w+-first: about [\d,]+ rows to look at", each) for each in told]
        assert chosen[0] == chosen[1] == chosen[2] and len(chosen[0]) == 1
        assert chosen[0][0].startswith(kind)
        (planned,) = re.findall(r"\w+-first: about [\d,]+", str(db.explain(TRIANGLES.format(name))))
        assert planned.startswith(kind)
        rows = int(re.sub(r"\D", "", chosen[0][0]))
        assert (rows >= Thresholds().loops_worth) == (kind == "depth-first")


@pytest.mark.parametrize("allowed", [20, 0.1])
def test_more_rows_than_expected_are_worth_loops_after_all(db: gd.Database, allowed: float) -> None:
    """Breadth-first may look at some times as many as loops are worth."""
    db.workspace.tune(overrun=allowed, loops_worth=10_000.0)
    told = db.profile(QUICK)
    assert told.result.fetchall() == db.query(QUICK, strategy="levelwise").fetchall()
    enough = allowed > 1
    assert ("breadth-first: about " in str(told)) == enough
    assert ("depth-first: there are more rows to look at" in str(told)) == (not enough)


def test_a_join_that_comes_again_is_worth_loops_in_the_end(
    db: gd.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the rows that it has looked at in all, the same in each process."""
    db.workspace.tune(overrun_counted=0, loops_worth=10_000.0)
    monkeypatch.setattr(choose, "_looked", {})
    text = "again(count()) <- E(x, y), E(y, z), E(z, x), x + y + z > 5."
    told = [db.profile(text) for _ in range(40)]
    kinds = ["depth-first" in str(each) for each in told]
    assert not kinds[0] and kinds[-1] and kinds == sorted(kinds)
    assert len({str(each.result.fetchall()) for each in told}) == 1


# Each file's rules with each of its questions, and how often LLVM was asked for code in all.
AGAIN = """
import os, re
from pathlib import Path
import gdatalog as gd
from gdatalog.codegen import ir_modules, machine, native, object_files
made, object_of = [], machine.object_of
def counted(ir, tier):
    made.append(tier)
    return object_of(ir, tier)
machine.object_of = counted
native.load_soon = lambda *what: None
os.chdir("queries")
for path in sorted(Path().glob("*.dl")):
    rules, *asks = path.read_text().split("\\n?- ")
    db = gd.connect(device="cpu")
    for ask in asks:
        told = str(db.profile(f"{rules}\\n?- {ask}"))
        print(path, re.findall(r"(?:depth-first|breadth-first|scan): .*", told))
print(sorted(native._native))
print(len(made))
"""


def test_the_second_run_of_a_program_compiles_nothing(tmp_path: Path) -> None:
    """And runs each join as the first did, but for when code is swapped in that was compiled
    meanwhile."""
    ended = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", AGAIN],
            cwd=HERE, env=environment(tmp_path), capture_output=True, text=True,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        ended.append(done.stdout.splitlines())
    (*first, compiled), (*second, compiled_again) = ended
    assert first == second and len(first) > 30
    assert int(compiled) > 0 and compiled_again == "0"
