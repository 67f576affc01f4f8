"""The examples in docstrings are true: those of all modules, so of all that `__all__` reaches."""

from __future__ import annotations

import builtins
import doctest
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import gdatalog

ROOT = Path(gdatalog.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    failed, _ = doctest.testmod(import_module(name), optionflags=FLAGS)
    vars(builtins).pop("_", None)  # the last value shown, which IPython would leave alone
    assert failed == 0


def test_what_is_public_says_what_it_is() -> None:
    silent = []
    for name in gdatalog.__all__:
        thing = getattr(gdatalog, name)
        silent += [name] if not inspect.getdoc(thing) else []
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            silent += [
                f"{name}.{key}"
                for key, value in inspect.getmembers(thing)
                if not key.startswith("_")
                and (inspect.isfunction(value) or isinstance(value, property))
                and not inspect.getdoc(value)
            ]
    assert silent == []


def test_the_face_has_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    shown = {
        test.name
        for thing in ("Database", "Result", "connect", "query")
        for test in finder.find(getattr(gdatalog, thing), thing)
        if test.examples
    }
    assert {"Database", "Database.query", "Database.run", "Result", "connect", "query"} <= shown
