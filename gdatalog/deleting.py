"""Takes base facts of a relation back: rows that were loaded or inserted, or that `.input` read,
and facts of kept texts. What rules derive stays as long as they derive it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gdatalog.engine.execution import Execution, Usage
from gdatalog.engine.facts.rows import fact_rows
from gdatalog.engine.facts.unions import union
from gdatalog.errors import Caution, Error, NameResolutionError, UsageError
from gdatalog.parser import Program
from gdatalog.parser import syntax as s
from gdatalog.planner.check import Schema
from gdatalog.planner.check.statements import names_of, reads_of
from gdatalog.planner.check.walk import conjunction
from gdatalog.planner.check.wording import count
from gdatalog.records import replace
from gdatalog.storage.kinds import ROW_ID
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, sorted_set
from gdatalog.storage.selection import rows_among
from gdatalog.storage.table import Array
from gdatalog.workspace import Workspace


def delete_rows(workspace: Workspace, name: str, data: Any) -> tuple[int, int]:
    """Deletes rows; returns how many went, and how many of `data` were not there."""
    execution = _execution(workspace, name)
    schema = execution.checked.schemas[name]
    named = [*getattr(data, "column_names", getattr(data, "columns", ()))]
    wanted = schema if ROW_ID in named else schema.as_shown()
    # A null where none may be is a row that is not there.
    wanted = replace(wanted, nullable=(True,) * wanted.arity)
    given = workspace.relation_of(name, data, schema=wanted)
    gone = _take_back(workspace, execution, name, given)
    width = len(given.types)
    found = Relation.from_rows(given.columns, given.types, gone.rows[:width], gone.length)
    return gone.length, given.length - found.length


def delete_where(
    workspace: Workspace, text: str, params: Mapping[str, Any] | None
) -> tuple[str, int]:
    """Deletes the rows of a text's first atom that match; returns its relation, and how many."""
    pattern = _pattern(workspace.parse(text, "<delete>", bare=True))
    name = pattern.atom.name
    execution = _execution(workspace, name)
    rule = _rule(pattern, execution.checked.schemas[name])
    try:
        asked = workspace.execution(Program((rule,)), params=params)
    except Error:  # of the text as it is given, if it has one
        body = [pattern.atom, *([] if pattern.body is None else [pattern.body])]
        query = s.Query(conjunction(body, pattern.span), pattern.span)
        workspace.execution(Program((query,)), params=params)
        raise
    matches = asked.relation(rule.heads[0].name)
    workspace.tell(asked, params)
    return name, _take_back(workspace, execution, name, matches).length


def _pattern(program: Program) -> s.Retract:
    """An atom, and the literals that follow it."""
    first = program.statements[0] if len(program.statements) == 1 else None
    items: Sequence[s.Literal] = ()
    if isinstance(first, s.Query) and first.ordering is None:
        items = first.body.items if isinstance(first.body, s.And) else (first.body,)
    elif isinstance(first, s.Rule) and first.body is None:
        items = first.heads
    if not items or not isinstance(items[0], s.Atom):
        raise UsageError(
            "a deletion begins with an atom of the relation whose rows go",
            None if first is None else first.span,
            hint='as in db.delete("E(x, _), x > 9"), or db.delete("E", rows)',
        )
    assert first is not None
    return s.Retract(
        items[0], conjunction(items[1:], first.span) if items[1:] else None, first.span
    )


def _rule(pattern: s.Retract, schema: Schema) -> s.Rule:
    """A rule that derives the rows of the matches, with all their columns."""
    atom, args, tests = pattern.atom, dict[str, s.Expr](), list[s.Literal]()
    lead = len(atom.args) - len(atom.columns)
    named = zip([each.name for each in atom.columns], atom.args[lead:], strict=True)
    given = dict(zip(schema.columns[: schema.shown], atom.args[:lead], strict=False)) | dict(named)
    if given.keys() <= {*schema.columns} and (atom.columns or lead == schema.shown):
        for at, column in enumerate(schema.columns):
            arg = given.get(column, s.Wildcard(atom.span))
            if not isinstance(arg, s.Var):
                own = s.Var(f"?{at}", arg.span)
                if not isinstance(arg, s.Wildcard):
                    tests.append(s.Compare(own, (("=", arg),), arg.span))
                arg = own
            args[column] = arg
        columns = tuple([s.Var(column, atom.span) for column in args])
        atom = replace(atom, args=tuple(args.values()), columns=columns)
    head = s.Atom(f"?retract {atom.name}", tuple(args.values()), atom.span)
    body = [atom, *tests, *([] if pattern.body is None else [pattern.body])]
    return s.Rule((head,), conjunction(body, pattern.span), pattern.span)


def _execution(workspace: Workspace, name: str) -> Execution:
    """An execution in which a relation has base facts, or could have some."""
    execution = workspace.execution(Program(()), Usage(lasting=True))
    cause = execution.validity.broken.get(name)
    if cause is not None:
        raise cause.error_for(name)
    if name not in execution.checked.schemas:
        raise NameResolutionError(f"there is no relation {name!r}", hint=workspace.near(name))
    rules = workspace.catalog.rules_of(name)
    if rules and not _has_data(execution, name):
        behind = ", ".join(each for each in _behind(workspace, name) if _has_data(execution, each))
        raise UsageError(
            f"{name} has {count(rules, 'rule')} and no facts of its own, which could be deleted",
            hint=f"its rows go with those that they follow from, in {behind}" if behind else None,
        )
    return execution


def _has_data(execution: Execution, name: str) -> bool:
    return name in execution.inputs or bool(execution.catalog.texts.facts(name))


def _behind(workspace: Workspace, name: str) -> dict[str, None]:
    """The relations that a relation's rules read, and those that these read."""
    reads: dict[str, set[str]] = {}
    for statement in workspace.texts.outline():
        for head in names_of(statement):
            reads.setdefault(head, set()).update(reads_of(statement))
    found: dict[str, None] = {}
    waiting = [name]
    while waiting:
        for other in sorted(reads.get(waiting.pop(), ())):
            if other not in found:
                found[other] = None
                waiting.append(other)
    return found


def _take_back(workspace: Workspace, execution: Execution, name: str, given: Relation) -> Relation:
    """Deletes the base facts of a relation whose first columns are those of a `given` row; returns
    them."""
    schema, catalog, inputs = execution.checked.schemas[name], workspace.catalog, execution.inputs
    texts, stored, gone = catalog.texts, catalog.stored.get(name), []
    files = [inputs.file(source, name) for source in inputs.sources.get(name, ())]
    for relation in (*files, *([] if stored is None else [stored])):
        if relation.remote is not None:
            raise UsageError(
                f"the rows of {name} lie on the workers of a cluster, and are not deleted there",
                hint=f'store those that stay: db["{name}"] = db.query(...)',
            )
    if any(len(_rows_of(file.rows, file.length, given)) for file in files):
        stored = inputs[name].of_kinds(schema.kinds, schema.nullable)
        texts = texts.without_inputs(name)
        message = f"{name} is no longer read by `.input`: its rows that stay are data now"
        workspace.on_caution(Caution(message, hint="running the program again reads all of them"))
    if stored is not None:
        at = _rows_of(stored.rows, stored.length, given)
        if len(at):
            gone.append(stored.part(at))
            stays = np.ones(stored.length, dtype=np.bool_)
            stays[at] = False
            left = stored.part(np.flatnonzero(stays))
            catalog = catalog.with_relation(name, left.of_kinds(stored.kinds, stored.nullable))
    facts = texts.facts(name)
    if facts:
        rows, number = fact_rows(facts, schema.types, execution.context.scope)
        at = _rows_of(rows, number, given)
        if len(at):
            own = tuple(column[at] for column in rows)
            gone.append(Relation.from_rows(schema.columns, schema.types, own, len(at)))
            marks = np.zeros(number, dtype=np.bool_)
            marks[at] = True
            texts = texts.without_facts(name, marks.tolist())
    if not gone:
        return Relation.empty(schema.columns, schema.types)
    if texts is not catalog.texts:
        catalog = catalog.with_texts(texts)
        after = workspace.execution(Program(()), catalog=catalog).checked.schemas.get(name)
        if after != schema:  # its last facts are gone, or those that said its types
            rest = catalog.stored.get(name)
            rest = Relation.empty(schema.columns, schema.types) if rest is None else rest
            catalog = catalog.with_relation(name, rest.of_kinds(schema.kinds, schema.nullable))
    workspace.change(catalog, name)
    return union(gone)


def _rows_of(among: Columns, length: int, given: Relation) -> Array:
    """The positions of rows whose first columns are those of a `given` row."""
    if not given.types or not given.length:
        return np.arange(length if given.length else 0)
    first = tuple(among[: len(given.types)])
    at = rows_among(first[0], sorted_set(given.rows[0]))
    return at[given.holds(tuple(column[at] for column in first))]
