"""Which modules a start imports: what a short answer does not need is imported when it is used.

No clocks here; `python -m benchmarks startup` measures.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

# What only its own users import. A folder stands for all that is in it.
BESIDE = {
    "cupy", "dask", "distributed", "IPython", "lark", "llvmlite", "pandas", "polars",
    "prompt_toolkit", "pyarrow", "rich", "scipy", "networkx",
    "gdatalog.cluster", "gdatalog.codegen", "gdatalog.gpu_ops", "gdatalog.notebook",
    "gdatalog.printer", "gdatalog.report", "gdatalog.shell.commands", "gdatalog.shell.repl",
    "gdatalog.engine.improving", "gdatalog.storage.columns", "gdatalog.storage.export",
    "gdatalog.storage.file_sets", "gdatalog.storage.frames", "gdatalog.storage.parquet",
    "gdatalog.storage.readers", "gdatalog.storage.writers",
    "numpy.ctypeslib", "numpy.fft", "numpy.ma", "numpy.polynomial", "numpy.random",
    "concurrent.futures", "dataclasses", "decimal", "hashlib", "logging",
}  # fmt: skip
FIXPOINTS = {
    "gdatalog.engine.fixpoint", "gdatalog.engine.linear", "gdatalog.engine.rounds",
    "gdatalog.engine.splits", "gdatalog.engine.variants",
}  # fmt: skip
ENGINE = {
    "numpy", "gdatalog.cpu_ops", "gdatalog.executors", "gdatalog.parser", "gdatalog.plan",
    "gdatalog.planner", "gdatalog.relations", "gdatalog.result", "gdatalog.workspace",
}  # fmt: skip

TOLD = "; import sys; print('modules:', *sys.modules)"
CONNECT = "import gdatalog; db = gdatalog.connect()"
RULE = CONNECT + "; assert len(db.query('e(1, 2). e(2, 3). ?- e(x, y), e(y, z).')) == 1"
CLOSURE = (
    CONNECT + "; text = 'e(1, 2). e(2, 3). p(x, y) <- e(x, y). p(x, z) <- p(x, y), e(y, z). "
    "?- p(1, y).'; assert len(db.query(text)) == 2"
)
COMMAND = "from gdatalog.shell import cli; assert cli.run(['-c', '?- 1 < 2.']) == 0"


def imported(code: str) -> set[str]:
    run = [sys.executable, "-c", code + TOLD]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("modules: ")[2].split())


def within(modules: set[str], names: set[str]) -> set[str]:
    """Those of the modules that are one of these, or in one of these."""
    return {m for m in modules if any(m == name or m.startswith(name + ".") for name in names)}


@pytest.mark.parametrize(
    ("code", "late"),
    [
        (CONNECT, BESIDE | FIXPOINTS | ENGINE),
        (RULE, BESIDE | FIXPOINTS),
        (COMMAND, BESIDE | FIXPOINTS),
        (CLOSURE, BESIDE),
    ],
    ids=["connect", "a rule", "a command", "a closure"],
)
def test_what_is_not_imported(code: str, late: set[str]) -> None:
    modules = imported(code)
    assert "gdatalog.database" in modules
    assert not within(modules, late)


def test_the_names_are_those_of_modules() -> None:
    """A module that was renamed would pass for one that is not imported."""
    from importlib.util import find_spec

    ours = {name for name in BESIDE | FIXPOINTS | ENGINE if name.startswith("gdatalog")}
    assert all(find_spec(name) is not None for name in ours)
