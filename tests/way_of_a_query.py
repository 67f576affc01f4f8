"""How far a tiny query goes through the package, the first time that it is asked.

python -m tests.way_of_a_query [--upwards] [TREE]: over five edges, for the triangle, a closure, and
a rule with negation and an aggregate. It says how many files and functions of ours are passed, how
many calls, changes of module, changes of package and calls upwards there are, and how deep our
frames are. `--upwards` lists the calls upwards, by the layers (`tests/layers.py`): a property or
`__post_init__` is called by who reads the property or makes the object. TREE: another checkout, to
compare with; calls of modules that the layers do not know are not upwards.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FrameType, ModuleType

import gdatalog

PACKAGE = Path(gdatalog.__file__).parent
EDGES = [(1, 2), (2, 3), (1, 3), (3, 4), (2, 4)]
QUERIES = {
    "triangle": "tr(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z.",
    "closure": "p(x, y) <- E(x, y). p(x, z) <- p(x, y), E(y, z). ?- p(x, y).",
    "negation": "n(x, c) <- E(x, _), not E(_, x), c = count : { E(x, _) }.",
}
FOUND = {"triangle": 2, "closure": 6, "negation": 1}
RECORDS = "gdatalog.records"  # calls methods of dataclasses for others
TITLES = ("files", "functions", "calls", "modules", "packages", "upwards", "frames")


class Way:
    """What is counted while a query runs on this thread."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.functions: set[object] = set()
        self.calls = self.modules = self.packages = self.depth = 0
        self.upwards: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        here = module_of(frame)
        if event != "call" or here is None:
            return
        self.files.add(here)
        self.functions.add(frame.f_code)
        self.calls += 1
        outer, depth, caller, user = frame.f_back, 1, None, None
        while outer is not None:
            found = module_of(outer)
            depth += found is not None
            caller = caller or found
            user = user or (None if found == RECORDS else found)
            outer = outer.f_back
        self.depth = max(self.depth, depth)
        if caller is not None and caller != here:
            self.modules += 1
            self.packages += package_of(caller) != package_of(here)
        if user is not None and user != here:
            self.upwards[user, here] += not allowed(user, here)

    @property
    def figures(self) -> tuple[int, ...]:
        passed = len(self.files), len(self.functions), self.calls
        return (*passed, self.modules, self.packages, self.upwards.total(), self.depth)


def module_of(frame: FrameType) -> str | None:
    """The module of a function of the package; None for other code, and for a module's own."""
    name = frame.f_globals.get("__name__", "")
    ours = name == "gdatalog" or name.startswith("gdatalog.")
    return name if ours and frame.f_code.co_name != "<module>" else None


def package_of(module: str) -> str:
    """The folder that a module lies in."""
    path = sys.modules[module].__dict__.get("__path__")
    return module if path is not None else module.rpartition(".")[0]


def allowed(caller: str, called: str) -> bool:
    """Whether the layers let a module call another one. A call of what a caller was given (a
    method, a callback) goes upwards as well."""
    try:
        return bool(layers().allowed(caller, called))
    except (KeyError, ValueError):  # another checkout has other modules
        return True


@cache
def layers() -> ModuleType:
    """The layers of this checkout."""
    spec = spec_from_file_location("layers", Path(__file__).with_name("layers.py"))
    assert spec is not None and spec.loader is not None
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def way(text: str) -> tuple[Way, int]:
    """What a query passes that a database is asked first, and its number of rows."""
    with gdatalog.connect(device="cpu") as db:
        db["E"] = EDGES
        counted = Way()
        sys.setprofile(counted)
        try:
            rows = db.query(text).fetchall()
        finally:
            sys.setprofile(None)
    return counted, len(rows)


def ways() -> Mapping[str, Way]:
    for text in QUERIES.values():  # imports are not counted
        way(text.replace("E(x", "E( x"))
    found = {}
    for name, text in QUERIES.items():
        found[name], rows = way(text)
        assert rows == FOUND[name], (name, rows)
    return found


def main(listed: bool) -> None:
    print(f"{'':10}", *(f"{title:>9}" for title in TITLES))
    with tempfile.TemporaryDirectory() as folder:  # no plan is stored yet
        os.environ["GDATALOG_CACHE"] = folder
        found = ways()
    for name, each in found.items():
        print(f"{name:10}", *(f"{figure:9,}" for figure in each.figures))
    every = sum((each.upwards for each in found.values()), Counter[tuple[str, str]]())
    for (caller, called), count in every.most_common() if listed else ():
        print(f"{count:5} {caller} calls {called}")


if __name__ == "__main__":
    *_, tree = "", *(word for word in sys.argv[1:] if not word.startswith("--"))
    if tree and Path(tree).resolve() != PACKAGE.parent.resolve():
        environment = {**os.environ, "PYTHONPATH": tree}
        command = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:]]
        sys.exit(subprocess.call(command, env=environment, cwd=tree))
    main("--upwards" in sys.argv)
