"""Takes base facts of a relation back: rows that were loaded or inserted, or that `.input` read,
and facts of kept texts. What rules derive stays as long as they derive it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gdatalog.engine.catalog.fact_list import number_of, pieces_of
from gdatalog.engine.catalog.snapshot import Catalog
from gdatalog.engine.execution import Execution, Usage
from gdatalog.engine.facts.rows import fact_rows
from gdatalog.engine.facts.unions import union
from gdatalog.errors import Caution, Error, NameResolutionError, Span, UsageError
from gdatalog.parser import Program, format_node
from gdatalog.parser import syntax as s
from gdatalog.parser.fact_statements import one_by_one
from gdatalog.planner.check import Schema
from gdatalog.planner.check.statements import is_fact, names_of, reads_of, shapes_of, without
from gdatalog.planner.check.walk import conjunction
from gdatalog.planner.check.wording import count
from gdatalog.records import replace
from gdatalog.session import Params, Session
from gdatalog.storage.kinds import ROW_ID
from gdatalog.storage.load_options import LoadOptions
from gdatalog.storage.relation import Relation
from gdatalog.storage.rows import Columns, sorted_set
from gdatalog.storage.selection import rows_among
from gdatalog.storage.table import Array


class Changeable(Session):
    """A session that may change what the database holds."""

    if TYPE_CHECKING:

        def relation_of(
            self, name: str, data: Any, options: LoadOptions = ..., schema: Schema | None = None
        ) -> Relation: ...
        def change(self, catalog: Catalog, *names: str) -> None: ...


def delete_rows(workspace: Changeable, name: str, data: Any) -> tuple[int, int]:
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


def delete_where(workspace: Changeable, text: str, params: Params) -> tuple[str, int]:
    """Deletes the rows of a text's first atom that match; returns its relation, and how many."""
    pattern = _pattern(workspace.parse(text, "<delete>", bare=True))
    name = pattern.atom.name
    execution = _execution(workspace, name, pattern.atom.span)
    asked, matches = _matches(workspace, [pattern], execution.checked.schemas[name], params)
    workspace.tell(asked, params)
    return name, _take_back(workspace, execution, name, matches).length


def retract(
    workspace: Changeable, retractions: Sequence[s.Retract], rest: Program, params: Params
) -> dict[str, int]:
    """Runs the retractions of a text over what the database holds; returns how many rows of each
    relation went. `rest`: the other statements of the text."""
    groups: dict[str, list[s.Retract]] = {}
    for each in retractions:
        groups.setdefault(each.atom.name, []).append(each)
    found: list[tuple[str, Execution, Relation]] = []
    schemas, broken = workspace.standing()
    defined = {name for statement in rest.statements for name in names_of(statement)}
    for name, own in groups.items():
        new = name in defined and name not in schemas and name not in broken
        stated = _stated(rest, name)
        over = [*(_declared(rest, name) if new else ()), *stated]
        execution = None if new else _execution(workspace, name, own[0].atom.span)
        if stated or execution is None:  # its columns may be those of the text
            asked = workspace.execution(Program(tuple(over)), params=params)
        else:
            asked = execution
        if name not in asked.checked.schemas:
            continue  # the text has its first rules
        asked, matches = _matches(workspace, own, asked.checked.schemas[name], params, over)
        workspace.warn(asked.cautions)
        _refuse_stated(asked, name, stated, matches)
        if execution is not None:
            found.append((name, execution, matches))
    return {
        name: _take_back(workspace, execution, name, matches).length
        for name, execution, matches in found
    }


def _stated(program: Program, name: str) -> list[s.Statement]:
    """The facts of a relation."""
    facts = [each for each in program.statements if is_fact(each) and name in names_of(each)]
    return [left for each in facts for left in without([each], {*names_of(each)} - {name}, "data")]


def _declared(program: Program, name: str) -> list[s.Statement]:
    """The declaration of a relation, without its `.input`, and all types."""
    return [
        replace(each, names=(name,), qualifiers=()) if isinstance(each, s.Decl) else each
        for each in program.statements
        if isinstance(each, s.TypeDecl) or (isinstance(each, s.Decl) and name in each.names)
    ]


def _refuse_stated(
    asked: Execution, name: str, stated: Sequence[s.Statement], matches: Relation
) -> None:
    """Raises if a text states a fact that it retracts."""
    facts = [piece for each in stated if shapes_of(each) for piece in pieces_of(each)]
    if not facts:
        return
    schema = asked.checked.schemas[name]
    rows, number = fact_rows(facts, schema.types, schema.nullable, asked.context.scope)
    both = _rows_of(rows, number, matches)
    if len(both):
        each = [fact for fact in one_by_one(stated) if shapes_of(fact)]
        atom = [atom for fact in each for atom in pieces_of(fact)][both[0]]
        assert isinstance(atom, s.Atom)
        raise UsageError(
            f"`{format_node(atom)}` is stated here, and retracted by the same text",
            atom.span,
            hint="retractions come before facts, wherever they stand: leave one of both out",
        )


def _matches(
    workspace: Changeable,
    patterns: Sequence[s.Retract],
    schema: Schema,
    params: Params,
    over: Sequence[s.Statement] = (),
) -> tuple[Execution, Relation]:
    """The rows that match one of the patterns of a relation, beside these statements."""
    rules = [_rule(each, schema) for each in patterns]
    try:
        asked = workspace.execution(Program((*over, *rules)), params=params)
    except Error:  # its text is not the user's: that of a query may have an error, too
        for each in patterns:
            items = [each.atom, *([] if each.body is None else [each.body])]
            query = s.Query(conjunction(items, each.span), each.span)
            workspace.execution(Program((*over, query)), params=params)
        raise
    return asked, asked.relation(rules[0].heads[0].name)


def _pattern(program: Program) -> s.Retract:
    """The condition of `db.delete` as a retraction: an atom, and the literals that follow it."""
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


def _execution(workspace: Changeable, name: str, span: Span | None = None) -> Execution:
    """An execution in which a relation has base facts, or could have some."""
    execution = workspace.execution(Program(()), Usage(lasting=True))
    cause = execution.validity.broken.get(name)
    if cause is not None:
        raise cause.error_for(name, span)
    if name not in execution.checked.schemas:
        message, hint = f"there is no relation {name!r}", workspace.near(name)
        raise NameResolutionError(message, span, hint=hint)
    rules = workspace.catalog.rules_of(name)
    if rules and not _has_data(execution, name):
        behind = ", ".join(each for each in _behind(workspace, name) if _has_data(execution, each))
        raise UsageError(
            f"{name} has {count(rules, 'rule')} and no facts of its own, which could be deleted",
            span,
            hint=f"its rows go with those that they follow from, in {behind}" if behind else None,
        )
    return execution


def _has_data(execution: Execution, name: str) -> bool:
    texts = execution.catalog.texts
    return name in execution.inputs or bool(texts.facts(name) or texts.computed(name))


def _behind(workspace: Changeable, name: str) -> dict[str, None]:
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


def _take_back(workspace: Changeable, execution: Execution, name: str, given: Relation) -> Relation:
    """Deletes the base facts of a relation whose first columns are those of a `given` row; returns
    them."""
    schema, catalog, inputs = execution.checked.schemas[name], workspace.catalog, execution.inputs
    texts, stored, gone = catalog.texts, catalog.stored.get(name), list[Relation]()
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
    marks = np.zeros(number_of(facts), dtype=np.bool_)
    if facts:
        rows, _ = fact_rows(facts, schema.types, schema.nullable, execution.context.scope)
        at = _rows_of(rows, len(marks), given)
        marks[at] = True
        own = tuple(column[at] for column in rows)
        gone.append(Relation.from_rows(schema.columns, schema.types, own, len(at)))
    computed: list[s.Atom] = []
    for head in texts.computed(name):
        row = _matches(workspace, [s.Retract(head, None, head.span)], schema, None)[1]
        if len(_rows_of(row.rows, row.length, given)):
            computed.append(head)
            gone.append(row)
    if marks.any() or computed:
        texts = texts.without_facts(name, marks.tolist(), computed)
    gone = [each for each in gone if each.length]
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
