"""What `.save` writes: a program that brings back what a database holds.

Data that did not come from a file, or whose file has changed since, are written beside it as
Parquet, which keeps every value; the program reads them from there.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from gdatalog import __version__
from gdatalog.engine.facts.files import Folders, beside
from gdatalog.engine.session.text_session import Session, parameter
from gdatalog.errors import Error
from gdatalog.parser import format_node
from gdatalog.parser.syntax import Decl, Directive, ListParam, Param, Rule, Statement
from gdatalog.planner.check.walk import walk
from gdatalog.records import dataclass, replace
from gdatalog.shell.commands.undoing import Loaded
from gdatalog.storage.facts_files import find_facts
from gdatalog.storage.given_list import GivenList
from gdatalog.storage.relation import Relation
from gdatalog.values import TypeName, Value, quoted, timestamp_to_text


@dataclass(frozen=True, slots=True)
class Saved:
    """A program's text, and the relations that are to be written for it, by the path."""

    text: str
    statements: int
    data: Mapping[str, Relation]
    parameters: str  # as options of the command line


def saved(session: Session, loaded: Mapping[str, Loaded], path: str) -> Saved:
    """What is to be written to `path` for a database: `session` is of all that it keeps. Invalid
    statements, and those that depend on them, are written as comments: they would be refused."""
    folder = os.path.dirname(os.path.abspath(path))
    statements: list[Statement] = []
    aside: list[Statement] = []
    for kept in session.texts.values():
        for statement in kept.statements:
            found = statements if session.validity.fits(statement) else aside
            found += _moved(statement, kept.folders, folder)
    taken = {s.path for s in statements if isinstance(s, Directive)}
    stem = os.path.splitext(os.path.basename(path))[0]
    data: dict[str, Relation] = {}
    for name, relation in session.stored.items():
        columns = session.checked.schemas[name].columns
        file = loaded.get(name)
        options: tuple[tuple[str, str], ...] = ()
        if file is not None and file.same(relation) and relation.columns == columns:
            where = os.path.relpath(file.path, folder)
            options = file.options
        else:
            where = _free(f"{stem}_data", name, taken)
            data[os.path.join(folder, where)] = relation.renamed(columns)
        taken.add(where)
        statements.append(Directive("input", (name,), path=where, options=options))
    params = parameters_of(statements, session.params, session.checked.param_types)
    lines = [f"// Saved by gdatalog {__version__}. At the prompt, .read brings it back."]
    if params:
        named = shlex.quote(os.path.basename(path))
        lines.append(f"// It has parameters: gdatalog {params} {named}")
    lines += map(format_node, statements)
    if aside:
        lines.append("// These were not valid when this was saved:")
        lines += [f"// {line}" for s in aside for line in format_node(s).splitlines()]
    return Saved("".join(line + "\n" for line in lines), len(statements), data, params)


def _free(folder: str, name: str, taken: Iterable[str | None]) -> str:
    """A path for a relation's data that nothing else is read from."""
    plain = re.sub(r"\W", "_", name)
    found, number = os.path.join(folder, f"{plain}.parquet"), 1
    while found in taken:
        number += 1
        found = os.path.join(folder, f"{plain}_{number}.parquet")
    return found


def _moved(statement: Statement, folders: Folders, folder: str) -> list[Statement]:
    """A statement as it has to be in a file of another folder, whatever -F says there."""
    if isinstance(statement, Decl) and "input" in statement.qualifiers:
        others = tuple(word for word in statement.qualifiers if word != "input")
        plain = replace(statement, qualifiers=others)
        inputs = Directive("input", statement.names, span=statement.span)
        return [plain, *_moved(inputs, folders, folder)]
    if not isinstance(statement, Directive) or statement.kind != "input":
        return [statement]
    if statement.path is not None:
        there = os.path.abspath(beside(statement.span, statement.path))
        return [replace(statement, path=os.path.relpath(there, folder))]
    return [_absolute(replace(statement, names=(name,)), folders) for name in statement.names]


def _absolute(directive: Directive, folders: Folders) -> Directive:
    """An `.input R`, or one with options, that names its file in full."""
    (name,) = directive.names
    options = dict(directive.options)
    given = options.pop("filename", options.pop("name", None))
    try:
        path = os.path.join(folders.facts, given) if given else find_facts(name, folders.facts)
    except Error:  # the file is to come
        path = os.path.join(folders.facts, f"{name}.facts")
    options = {"IO": "file"} | options | {"filename": os.path.abspath(path)}
    return replace(directive, options=tuple(options.items()))


def parameters_of(
    statements: Iterable[Statement], values: Mapping[str, Any], types: Mapping[str, str]
) -> str:
    """The parameters that statements use, as `-M` gives them."""
    used = {
        part.name
        for rule in statements
        if isinstance(rule, Rule)
        for node in (*rule.heads, *([rule.body] if rule.body is not None else []))
        for part in walk(node)
        if isinstance(part, Param | ListParam)
    }
    parts = [f"{name}={parameter_text(values[name], types.get(name))}" for name in sorted(used)]
    return " ".join(f"-M {shlex.quote(text)}" for text in parts)


def parameter_text(value: Any, kind: str | None = None) -> str:
    """A value as `-M` and `.set` take it.

    >>> parameter_text(7), parameter_text(7, "float"), parameter_text("007"), parameter_text(True)
    ('7', '7.0', '"007"', 'true')
    """
    own, plain = parameter("", value)
    if isinstance(plain, GivenList):
        return "{" + ", ".join(_one(each, plain.kind, kind) for each in plain.values()) + "}"
    return _one(plain, own if isinstance(own, str) else "symbol", kind)


def _one(plain: Value, own: TypeName, kind: str | None) -> str:
    if own == "symbol":
        return quoted(str(plain))
    if "timestamp" in (own, kind):
        return timestamp_to_text(int(plain))
    if own == "bool":
        return "true" if plain else "false"
    return repr(float(plain)) if kind == "float" else repr(plain)
