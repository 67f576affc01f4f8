"""Which modules a start imports: what a short answer does not need is imported when it is used.

No clocks here; `python -m benchmarks startup` measures.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# What only its own users import. A folder stands for all that is in it.
BESIDE = {
    "cupy", "dask", "distributed", "click", "IPython", "lark", "llvmlite", "pandas", "polars",
    "prompt_toolkit", "pyarrow", "scipy", "networkx", "gdatalog.cluster", "gdatalog.codegen",
    "gdatalog.gpu_ops", "gdatalog.notebook", "gdatalog.printer", "gdatalog.report",
    "gdatalog.shell.commands", "gdatalog.shell.repl", "gdatalog.engine.operators.lattice",
    "gdatalog.storage.columns", "gdatalog.storage.export", "gdatalog.storage.data_files",
    "gdatalog.storage.frames", "gdatalog.storage.readers",
    "gdatalog.storage.writers", "numpy.ctypeslib", "numpy.fft", "numpy.ma", "numpy.polynomial",
    "numpy.random", "concurrent.futures", "dataclasses", "decimal", "hashlib", "logging",
}  # fmt: skip
LARK = {"lark", "dataclasses", "hashlib", "logging"}  # parses what is no plain fact
FIXPOINTS = {
    "gdatalog.engine.recursion_planner", "gdatalog.engine.operators.semi_naive",
    "gdatalog.engine.operators.partitioned", "gdatalog.engine.variants",
}  # fmt: skip
ENGINE = {
    "numpy", "gdatalog.cpu_ops", "gdatalog.executors", "gdatalog.parser", "gdatalog.plan",
    "gdatalog.planner", "gdatalog.relations", "gdatalog.result", "gdatalog.workspace",
}  # fmt: skip

TOLD = "; import sys; print('modules:', *sys.modules)"
CONNECT = "import gdatalog; db = gdatalog.connect()"
FACTS = CONNECT + "; db.run('e(1, 2). e(2, 3).'); assert len(db['e']) == 2"
RULE = CONNECT + "; assert len(db.query('e(1, 2). e(2, 3). ?- e(x, y), e(y, z).')) == 1"
SUM = CONNECT + "; assert len(db.query('e(1, 2). e(1, 3). s(x, sum(y)) <- e(x, y).')) == 1"
CLOSURE = (
    CONNECT + "; text = 'e(1, 2). e(2, 3). p(x, y) <- e(x, y). p(x, z) <- p(x, y), e(y, z). "
    "?- p(1, y).'; assert len(db.query(text)) == 2"
)
COMMAND = "from gdatalog.shell import cli; assert cli.run(['-c', '?- 1 < 2.']) == 0"
FIVE = (
    "from gdatalog.shell import cli; text = 'edge(1, 2). edge(2, 3). edge(3, 4). edge(4, 5). "
    "edge(5, 6). path(x, y) <- edge(x, y). path(x, z) <- path(x, y), edge(y, z). ?- path(1, y).'; "
    "assert cli.run(['-c', text]) == 0"
)
FILE = (
    "import gdatalog; db = gdatalog.connect(); db.load('wrote', 'queries/data/coauthors.csv'); "
    "assert len(db['wrote'])"
)


def imported(code: str) -> set[str]:
    run = [sys.executable, "-c", code + TOLD]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("modules: ")[2].split())


def within(modules: set[str], names: set[str]) -> set[str]:
    """Those of the modules that are one of these, or in one of these."""
    return {m for m in modules if any(m == name or m.startswith(name + ".") for name in names)}


@pytest.mark.parametrize(
    ("code", "late"),
    [
        (CONNECT, BESIDE | FIXPOINTS | ENGINE),
        (FACTS, BESIDE | FIXPOINTS),
        (RULE, (BESIDE | FIXPOINTS) - LARK),
        (SUM, (BESIDE | FIXPOINTS) - LARK),
        (COMMAND, (BESIDE | FIXPOINTS) - LARK),
        (CLOSURE, BESIDE - LARK),
        (FIVE, BESIDE - LARK),
        (FILE, {"pandas", "pyarrow"}),
    ],
    ids=[
        "connect",
        "facts",
        "a rule",
        "a sum",
        "a command",
        "a closure",
        "a closure on stdout",
        "a file",
    ],
)
def test_what_is_not_imported(code: str, late: set[str]) -> None:
    modules = imported(code)
    assert "gdatalog.database" in modules
    assert not within(modules, late)


def test_a_text_that_came_before_needs_no_lark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path / "cache"))
    assert within(imported(CLOSURE), {"lark"})
    assert not within(imported(CLOSURE), BESIDE)


def test_the_names_are_those_of_modules() -> None:
    """A module that was renamed would pass for one that is not imported."""
    from importlib.util import find_spec

    ours = {name for name in BESIDE | FIXPOINTS | ENGINE if name.startswith("gdatalog")}
    assert all(find_spec(name) is not None for name in ours)


BROKEN = """
import sys
import gdatalog

class Interrupting:
    left = 0
    def find_spec(self, name, path=None, target=None):
        if name.startswith("gdatalog."):
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
        return None

interrupting = Interrupting()
sys.meta_path.insert(0, interrupting)
db = gdatalog.connect()
broken = 0
for after in range(1, 400, 9):
    interrupting.left = after
    try:
        found = db.query("e(1, 2). e(2, 3). p(x, y) <- e(x, y) ; p(x, z), e(z, y). p(1, y)")
        break
    except KeyboardInterrupt:
        broken += 1
interrupting.left = 0
assert broken > 3 and sorted(found) == [(2,), (3,)], (broken, found)
print(broken)
"""


def test_an_import_that_is_interrupted_is_made_up_for() -> None:
    """Wherever Ctrl-C falls between two modules, the next call imports what is missing."""
    run = [sys.executable, "-c", BROKEN]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


THREADS = """
from threading import Barrier, Thread
import gdatalog

CLOSURE = "e(1, 2). e(2, 3). p(x, y) <- e(x, y). p(x, z) <- p(x, y), e(y, z). ?- p(1, y)."
shared, found, barrier = gdatalog.connect(), [], Barrier(6)

def ask(at):
    db = shared if at < 3 else gdatalog.connect()
    barrier.wait()
    way = ("auto", "lftj", "levelwise")[at % 3]
    found.append((sorted(db.query(CLOSURE, strategy=way)), str(db.explain(CLOSURE)) != ""))

threads = [Thread(target=ask, args=[at]) for at in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert found == [([(2,), (3,)], True)] * 6, found
"""


def test_threads_that_ask_first_at_the_same_time() -> None:
    run = [sys.executable, "-c", THREADS]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
