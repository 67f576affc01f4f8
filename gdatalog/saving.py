"""Saves what a database holds, and opens what was saved: data, rules and declarations, and the
values of parameters. Answers are not saved: views are evaluated when they are asked for."""

from __future__ import annotations

import os
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.decimals import scale_of
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.catalog.parameters import GivenList, digest_of
from gdatalog.engine.catalog.snapshot import Catalog
from gdatalog.engine.catalog.texts import KeptRules, ProgramTexts
from gdatalog.errors import UsageError
from gdatalog.parser import Program, format_node
from gdatalog.storage.decimals import to_python
from gdatalog.storage.key_columns import relation_of_table
from gdatalog.storage.load_options import DATABASE, is_database
from gdatalog.storage.relation import Relation
from gdatalog.storage.saved_folder import FolderReader, replaced
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.table import NullableColumn, Table

if TYPE_CHECKING:
    from gdatalog.workspace import Workspace

_MANY = "$list "  # before the names of parameters that are lists, among relations
_ONE = "$one "


def save(workspace: Workspace, path: str | os.PathLike[str]) -> None:
    """Writes a database to a folder; the one that is there stays until the new one is whole."""
    name = os.fspath(path)
    if not isinstance(name, str) or not is_database(name):
        hint = f"name it {str(name).rstrip(os.sep)}{DATABASE}; db[relation].to_parquet writes one"
        raise UsageError(f"{name!r}: the folder of a database ends with {DATABASE}", hint=hint)
    catalog = workspace.catalog
    given = {
        f"{_MANY if isinstance(value, GivenList) else _ONE}{key}": _column(
            key, value, workspace.symbols
        )
        for key, value in catalog.params.items()
    }
    rows = sum(relation.at_most for relation in catalog.stored.values())
    with workspace.watch.work("writing", name, rows, "rows"), replaced(name) as writer:
        texts = [_text(key, kept) for key, kept in catalog.texts.items()]
        relations = writer.relations({**catalog.stored, **given}, workspace.symbols)
        writer.content |= {"programs": texts, "relations": relations}


def load(workspace: Workspace, path: str | os.PathLike[str]) -> None:
    """Takes what a folder has into a database that is empty."""
    name = os.fspath(path)
    with workspace.watch.work("loading", name), workspace.loader.bounded():
        while True:
            reader = FolderReader(name)
            try:
                workspace.catalog = _catalog(workspace, reader)
                return
            except Exception:
                if not reader.stale:  # else another process has saved it meanwhile
                    raise


def _catalog(workspace: Workspace, reader: FolderReader) -> Catalog:
    stored: dict[str, Relation] = {}
    params: dict[str, Any] = {}
    with reader.undamaged():
        reader.check()
        for name, relation in reader.relations(workspace.symbols):
            if name.startswith((_MANY, _ONE)):
                own = name.partition(" ")[2]
                params[own] = _value(own, relation, workspace.symbols, name.startswith(_MANY))
            else:
                stored[name] = relation
        texts = {said["key"]: _kept(workspace, said) for said in reader.content["programs"]}
    return Catalog(params=params, texts=ProgramTexts().with_more(texts)).with_data(stored)


def _text(key: str, kept: KeptRules) -> dict[str, Any]:
    """A text as JSON: for each file or input that it came from, its name and its statements."""
    parts = [
        {"name": _absolute(name), "text": format_node(Program(tuple(statements)))}
        for name, statements in groupby(kept.statements, key=lambda s: s.span.source.name)
    ]
    folders = [kept.folders.facts, kept.folders.out, *kept.folders.include]
    return {"key": key, "parts": parts, "folders": list(map(os.path.abspath, folders))}


def _absolute(name: str) -> str:
    """The name of a text; paths in a file are relative to the file, wherever it is opened."""
    return os.path.abspath(name) if os.path.isfile(name) else name


def _kept(workspace: Workspace, said: dict[str, Any]) -> KeptRules:
    compiler, stored = workspace.compiler, not workspace.untrusted
    statements = [
        statement
        for part in said["parts"]
        for statement in compiler.parse(part["text"], part["name"], False, stored)[0].statements
    ]
    facts, out, *include = said["folders"]
    return KeptRules.of(statements, Folders(facts, out, tuple(include)))


def _column(name: str, value: Any, symbols: SymbolTable) -> Relation:
    """A parameter's value, or values, as a relation."""
    found = value if isinstance(value, GivenList) else GivenList.of(name, [value])
    table = Table(("value",), (found.kind,), (found.column,), len(found))
    return relation_of_table(table, symbols)


def _value(name: str, relation: Relation, symbols: SymbolTable, many: bool) -> Any:
    table = relation.to_table(symbols)
    (kind,), (column,) = table.types, table.columns
    assert not isinstance(column, NullableColumn)
    if many:
        return GivenList(name, kind, column, digest_of(kind, column))
    units = {"timestamp": "M8[ns]", "date": "M8[D]", "duration": "m8[ns]"}
    if scale_of(kind):
        return to_python(np.asarray(column), scale_of(kind))[0]
    if isinstance(column, np.ndarray):
        return column.view(units[kind])[0] if kind in units else column[0].item()
    return column.decode()[0]
