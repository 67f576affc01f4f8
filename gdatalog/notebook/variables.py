"""Variables of the notebook that a line names."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Mapping

from gdatalog.database import Database
from gdatalog.errors import UsageError, meant
from gdatalog.shell.parameters import read_parameters


def parameters(given: argparse.Namespace, variables: Mapping[str, object]) -> dict[str, object]:
    """The values of parameters: from the dict of `--params`, then from `--param`."""
    found: dict[str, object] = {}
    if given.params is not None:
        named = _named(given.params, variables)
        if not isinstance(named, Mapping):
            raise UsageError(
                f"--params: {given.params!r} is of type {type(named).__name__}, not a dict",
                hint="one value is given as --param name=value",
            )
        found.update(named)
    return {**found, **read_parameters(given.param, "--param")}


def database_named(name: str, variables: Mapping[str, object]) -> Database:
    db = _named(name, variables)
    if not isinstance(db, Database):
        raise UsageError(f"{name!r} is of type {type(db).__name__}, not a Database")
    db.workspace.check_open()
    return db


def data_named(word: str, variables: Mapping[str, object]) -> object:
    """The variable of that name, if there is one; otherwise the path of a file."""
    if word in variables and not word.startswith("_"):
        return variables[word]
    if word.isidentifier() and not os.path.exists(word):
        hint = near(word, variables)
        raise UsageError(f"there is neither a variable nor a file {word!r}", hint=hint)
    if not os.path.exists(word) and re.search(r"[(\[]", word):
        raise UsageError(
            f"{word!r} is no file, and expressions are not evaluated here",
            hint=f"give it a name first, as in: df = {word}",
        )
    return os.path.expanduser(word)


def _named(name: str, variables: Mapping[str, object]) -> object:
    if name not in variables:
        hint = near(name, variables)
        raise UsageError(f"the notebook has no variable {name!r}", hint=hint)
    return variables[name]


def near(word: str, names: Iterable[str]) -> str | None:
    """A spelling hint."""
    close = meant(word, [name for name in names if not name.startswith("_")])
    return f"did you mean {close}?" if close else None
