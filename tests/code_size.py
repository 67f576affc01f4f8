"""How large the package is, and how far it is from what it shall be.

python -m tests.code_size [--small | --any | --rule]: lines of code are those that are not blank,
comments or docstrings. `--small` lists short modules that only one other module imports, `--any`
the modules that name `Any`, and `--rule` the classes that a plain rule meets.
"""

from __future__ import annotations

import ast
import gc
import io
import re
import sys
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from statistics import median
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "gdatalog"
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip
SMALL = 40  # lines of a file
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Module:
    """A file of the package, parsed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        parts = path.relative_to(ROOT).with_suffix("").parts
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def code(self) -> set[int]:
        """The numbers of the lines of code."""
        found: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in NO_CODE:
                found.update(range(token.start[0], token.end[0] + 1))
        for node in ast.walk(self.tree):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                docstring = node.body[0]
                found.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
        return found

    def functions(self) -> Iterator[int]:
        """How many lines of code each function has."""
        for node in ast.walk(self.tree):
            if isinstance(node, FUNCTIONS):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                yield len(self.code.intersection(lines))

    @cached_property
    def named(self) -> list[tuple[str | None, set[str]]]:
        """What each import statement names: a module and names in it, or modules."""
        found: list[tuple[str | None, set[str]]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found.append((None, {alias.name for alias in node.names}))
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                found.append((node.module, names))
        return found

    def imports(self, modules: dict[str, Module]) -> set[str]:
        """The modules that it imports anywhere, for type checkers too."""
        found: set[str] = set()
        for module, names in self.named:
            within = names & modules.keys()
            found |= within
            if module is not None and len(within) < len(names):
                found.add(module)
        return found & modules.keys() - {self.name}


@cache
def package() -> dict[str, Module]:
    gc.disable()  # of millions of nodes none is garbage, and looking takes most of the time
    try:
        modules = [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]
    finally:
        gc.enable()
    return {module.name: module for module in modules}


def doubled(modules: dict[str, Module]) -> dict[str, list[str]]:
    """The names of classes that stand in several places, and these."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module.name)
    return {name: places for name, places in found.items() if len(places) > 1}


def cycles(modules: dict[str, Module]) -> list[list[str]]:
    """Modules that import each other, directly or by way of others."""
    imports = {name: module.imports(modules) for name, module in modules.items()}
    reached = {name: _reached(name, imports) for name in imports}
    groups = {
        tuple(sorted({name} | {other for other in others if name in reached[other]}))
        for name, others in reached.items()
    }
    return [list(group) for group in sorted(groups) if len(group) > 1]


def _reached(name: str, imports: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [name]
    while left:
        new = imports[left.pop()] - found
        found |= new
        left += new
    return found


def small(modules: dict[str, Module]) -> Iterator[tuple[str, int, str]]:
    """Short modules that only one other module imports: with their lines, and that module."""
    importers: defaultdict[str, list[str]] = defaultdict(list)
    for name, module in modules.items():
        for other in module.imports(modules):
            importers[other].append(name)
    for name, module in modules.items():
        lines = module.text.count("\n")
        if lines < SMALL and len(importers[name]) == 1 and module.path.name != "__init__.py":
            yield name, lines, importers[name][0]


def cuda_lines() -> int:
    """Lines of CUDA that are neither blank nor comments."""
    texts = (path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.cu*"))
    plain = (re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL) for text in texts)
    return sum(bool(line.strip()) for text in plain for line in text.splitlines())


def dynamic(modules: dict[str, Module]) -> Counter[str]:
    """How often each module names `Any`."""
    return Counter(
        module.name
        for module in modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name) and node.id == "Any"
    )


def met(edges: int) -> set[str]:
    """The classes of the package whose methods run for one rule, from load to DataFrame."""
    import numpy as np
    import pandas as pd

    import gdatalog

    found: set[str] = set()
    values = np.random.default_rng(1).integers(0, edges // 5, (edges, 2))
    frame = pd.DataFrame(values, columns=["x", "y"]).drop_duplicates()

    def record(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_argcount and code.co_varnames[0] in {"self", "cls", "_cls"}:
            owner = frame.f_locals.get(code.co_varnames[0])
            of = owner if isinstance(owner, type) else type(owner)
            if of.__module__.startswith("gdatalog"):
                found.add(f"{of.__module__}.{of.__qualname__}")

    def answer(rule: str) -> None:
        db = gdatalog.connect(device="cpu")
        db.load("E", frame)
        db.query(rule).to_pandas()

    answer("warm(x, y, z) <- E(x, y), E(y, z), E(x, z), x < z")  # imports are not counted
    threading.setprofile(record)
    sys.setprofile(record)
    try:
        answer("tr(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def report(modules: dict[str, Module]) -> Iterator[str]:
    python = sum(len(module.code) for module in modules.values())
    cuda = cuda_lines()
    lengths = [length for module in modules.values() for length in module.functions()]
    files = Counter({name: module.text.count("\n") for name, module in modules.items()})
    untyped = dynamic(modules)
    yield f"lines of code: {python + cuda:,} ({python:,} of Python, {cuda:,} of CUDA)"
    yield f"modules: {len(modules)}; of more than 500 lines: {sum(n > 500 for n in files.values())}"
    yield f"lines of a function, median: {median(lengths):g} of {len(lengths):,} functions"
    yield f"`Any`: {untyped.total()} times in {len(untyped)} modules"
    found = doubled(modules)
    yield f"class names that stand more than once: {len(found)}"
    yield from (f"    {name}: {', '.join(places)}" for name, places in sorted(found.items()))
    circles = cycles(modules)
    yield f"import cycles, with imports for types: {len(circles)}"
    yield from (f"    {len(circle)} modules: {', '.join(circle[:8])}" for circle in circles)
    yield f"modules under {SMALL} lines that one other imports: {len(list(small(modules)))}"


def listed(option: str) -> Iterator[str]:
    modules = package()
    if option == "--small":
        for name, lines, importer in small(modules):
            yield f"{name} ({lines} lines): {importer}"
    elif option == "--any":
        yield from (f"{count:4} {name}" for name, count in dynamic(modules).most_common())
    elif option == "--rule":
        plain, compiled = met(300), met(200_000)
        yield f"classes that a plain rule meets: {len(plain)}; over large data: {len(compiled)}"
        yield from (f"    {name}" for name in sorted(plain))
        yield from (f"    {name} (large data)" for name in sorted(compiled - plain))
    else:
        yield from report(modules)


if __name__ == "__main__":
    print("\n".join(listed(sys.argv[1] if len(sys.argv) > 1 else "")))
