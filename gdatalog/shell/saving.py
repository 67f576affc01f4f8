"""`.save` writes a program that restores the database.

Relations that came from no file, or whose file has changed since, are written beside the program as
Parquet, which keeps every value; the program reads them from there.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping

from gdatalog.distribution import VERSION
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.execution import Execution
from gdatalog.engine.facts.files import beside
from gdatalog.errors import Error
from gdatalog.parser import format_node
from gdatalog.parser.fact_statements import one_by_one
from gdatalog.parser.syntax import Decl, Directive, ListParam, Param, Rule, Statement
from gdatalog.planner.check.walk import walk
from gdatalog.records import replace
from gdatalog.shell.conversation import Loaded
from gdatalog.shell.parameters import parameter_text
from gdatalog.storage.facts_files import find_facts
from gdatalog.storage.relation import Relation


def saved(
    execution: Execution, loaded: Mapping[str, Loaded], path: str
) -> tuple[str, int, Mapping[str, Relation], str]:
    """Builds the program that `.save` writes to `path`; `execution` covers all kept statements.
    Invalid statements and those that depend on them become comments, because reading them would
    fail.

    Returns its text, the number of its statements, the relations to write beside it, by path, and
    its parameters as command-line options.
    """
    folder = os.path.dirname(os.path.abspath(path))
    statements: list[Statement] = []
    aside: list[Statement] = []
    for kept in execution.catalog.texts.values():
        for statement in one_by_one(kept.statements):
            found = statements if execution.validity.fits(statement) else aside
            found += _moved(statement, kept.folders, folder)
    taken = {s.path for s in statements if isinstance(s, Directive)}
    stem = os.path.splitext(os.path.basename(path))[0]
    data: dict[str, Relation] = {}
    for name, relation in execution.catalog.stored.items():
        columns = execution.checked.schemas[name].columns
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
    params = parameters_of(statements, execution.params, execution.checked.param_types)
    lines = [f"// Saved by gdatalog {VERSION}. At the prompt, .read restores it."]
    if params:
        named = shlex.quote(os.path.basename(path))
        lines.append(f"// It has parameters: gdatalog {params} {named}")
    lines += map(format_node, statements)
    if aside:
        lines.append("// These statements were invalid when the session was saved:")
        lines += [f"// {line}" for s in aside for line in format_node(s).splitlines()]
    return "".join(line + "\n" for line in lines), len(statements), data, params


def _free(folder: str, name: str, taken: Iterable[str | None]) -> str:
    """A path for a relation's data that no other `.input` uses."""
    plain = re.sub(r"\W", "_", name)
    found, number = os.path.join(folder, f"{plain}.parquet"), 1
    while found in taken:
        number += 1
        found = os.path.join(folder, f"{plain}_{number}.parquet")
    return found


def _moved(statement: Statement, folders: Folders, folder: str) -> list[Statement]:
    """Rewrites a statement for a file in another folder, independent of -F."""
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
    """Gives an `.input` the absolute path of its file."""
    (name,) = directive.names
    options = dict(directive.options)
    given = options.pop("filename", options.pop("name", None))
    try:
        path = os.path.join(folders.facts, given) if given else find_facts(name, folders.facts)
    except Error:  # the file does not exist yet
        path = os.path.join(folders.facts, f"{name}.facts")
    options = {"IO": "file"} | options | {"filename": os.path.abspath(path)}
    return replace(directive, options=tuple(options.items()))


def parameters_of(
    statements: Iterable[Statement], values: Mapping[str, object], types: Mapping[str, str]
) -> str:
    """The parameters that statements use, as `-M` options."""
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
