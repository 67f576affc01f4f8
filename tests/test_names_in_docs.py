"""Every name in backticks on the pages for developers exists."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from gdatalog.parser import directive_words, words
from gdatalog.plan.functions import ALIASES, FUNCTIONS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs" / "internals").glob("*.md")),
]
BLOCK = re.compile(r"^```.*?^```$|^(?: {4,}[^\s-][^\n]*\n)+", re.M | re.S)
SPAN = re.compile(r"`([^`]+)`")
NAME = re.compile(r"\.?[A-Za-z_][\w.]*(?:\(\))?")
PATH = re.compile(r"[\w./*-]+/[\w./*-]*|[\w-]+\.(?:py|md|cuh?|txt|yml|toml|json|dl)")

# What is not ours, or only on the page, each with its reason.
ELSEWHERE = {
    "ruff": "a tool",
    "mypy": "a tool",
    "pygmentize": "a tool",
    "docs/benchmarks/slow_peers.json": "benchmarks write it, for each machine anew",
    "../shared": "a folder beside the repository",
    "ab": "an edge of the example",
    "cd": "a pair of the example",
    "bf": "an adornment",
}


@cache
def defined() -> frozenset[str]:
    """What the package, its tests and benchmarks define: modules, classes, functions, attributes,
    parameters and constants."""
    found: set[str] = set()
    for folder in ("gdatalog", "tests", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            found |= {path.stem, *path.relative_to(ROOT).parts[:-1]}
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                found.update(_names(node))
    return frozenset(found)


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
        yield node.id if isinstance(node, ast.Name) else node.attr


@cache
def files() -> frozenset[str]:
    """The paths of files and folders, and their ends: `engine/run.py`, `run.py`."""
    found = set()
    for folder in ("gdatalog", "tests", "benchmarks", "docs", "queries", "examples"):
        for path in (ROOT / folder).rglob("*"):
            parts = path.relative_to(ROOT).parts
            found |= {"/".join(parts[at:]) for at in range(len(parts))}
    return frozenset(found | {path.name for path in ROOT.iterdir()})


OPTION = re.compile(r"--[\w-]+|GDATALOG_\w+")


@cache
def options() -> frozenset[str]:
    """The options and environment variables that sources name."""
    paths = [*(ROOT / "gdatalog").rglob("*.cu*")]
    for folder in ("gdatalog", "tests", "benchmarks"):
        paths += (ROOT / folder).rglob("*.py")
    return frozenset(
        name for path in paths for name in OPTION.findall(path.read_text(encoding="utf-8"))
    )


def exists(span: str, shown: str) -> bool:
    """Whether what stands in backticks exists. `shown`: the page's blocks, whose names it may use.
    Formulas are not looked at."""
    span = " ".join(span.split())
    if span in ELSEWHERE:
        return True
    if found := re.fullmatch(r"make ([\w-]+)", span):
        return re.search(rf"^{found[1]}:", (ROOT / "Makefile").read_text(), re.M) is not None
    if found := re.match(r"(?:\S*python )?-m ((?:tests|benchmarks)[\w.]*)", span):
        return (
            found[1].replace(".", "/") in files() or f"{found[1].replace('.', '/')}.py" in files()
        )
    if OPTION.fullmatch(span):
        return span in options()
    if PATH.fullmatch(span):
        return span.rstrip("/") in files() or any((ROOT / "gdatalog").glob(f"**/{span}"))
    if NAME.fullmatch(span) is None:
        return True
    parts = span.removesuffix("()").strip(".").split(".")
    return all(len(name) == 1 or is_known(name, shown) for name in parts)


def is_known(name: str, shown: str) -> bool:
    if keyword.iskeyword(name) or hasattr(builtins, name):
        return True
    if any(name in each() for each in (words_of_the_language, cuda, defined)):
        return True
    return re.search(rf"\b{re.escape(name)}\b", shown) is not None


@cache
def cuda() -> frozenset[str]:
    """The words of the CUDA sources."""
    paths = (ROOT / "gdatalog").rglob("*.cu*")
    return frozenset(
        word for path in paths for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    )


@cache
def words_of_the_language() -> frozenset[str]:
    found: set[str] = {*FUNCTIONS, *ALIASES}
    for value in (*vars(words).values(), *vars(directive_words).values()):
        if isinstance(value, (dict, set, frozenset, tuple, list)):
            found.update(each for each in value if isinstance(each, str))
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_in_backticks_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown = "\n".join(BLOCK.findall(text))
    missing = [span for span in SPAN.findall(BLOCK.sub("", text)) if not exists(span, shown)]
    assert not missing


def test_what_does_not_exist_is_found() -> None:
    gone = ["Shelf", "Plans.outgrown", "Relation.all_distinct", "engine/strata.py"]
    gone += ["kernels/*.cpp", "make nothing", "python -m tests.nothing", "--" + "nothing"]
    assert not any(exists(span, "") for span in gone)
    there = [
        "Plans.note",
        "SliceCache",
        "engine/choose.py",
        "choose.py",
        "kernels/*.cuh",
        "make test",
    ]
    there += ["python -m tests.code_size --rule", "--rule", "count_distinct", "E(x, y)"]
    assert all(exists(span, "") for span in there)
