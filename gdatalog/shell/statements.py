"""Statements typed at the prompt: keeps rules and facts, reports their relations, and answers
queries."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter

from gdatalog.engine.catalog.fact_list import Piece, keys_of, pieces_of
from gdatalog.engine.catalog.texts import ProgramTexts
from gdatalog.engine.execution import Execution, Usage
from gdatalog.errors import Error, UsageError, raise_together
from gdatalog.overhead import Costs, time_spent
from gdatalog.parser import Program, format_node
from gdatalog.parser.fact_statements import number_of, one_by_one
from gdatalog.parser.syntax import Decl, Directive, Rule, Statement, TypeDecl
from gdatalog.planner.check import Schema
from gdatalog.planner.check.statements import is_fact, names_of, ruled
from gdatalog.progress import amount
from gdatalog.relations import RelationEntry
from gdatalog.shell.conversation import Conversation
from gdatalog.shell.messages import say, say_error
from gdatalog.shell.program import answer_all, ruled_names
from gdatalog.storage.relation import Relation
from gdatalog.terminal_text import visible

NOT_EVALUATED = "not evaluated"


def take(repl: Conversation, text: str, name: str) -> None:
    """Runs typed text; each of its statements is kept separately."""
    started, before = perf_counter(), time_spent()
    program = repl.db.workspace.parse(text, name, bare=True)
    parsing = perf_counter() - started
    _refuse_facts(repl, program)
    _keep(repl, program)
    if repl.timer:
        _tell_times(parsing, time_spent() - before, perf_counter() - started)


def take_file(repl: Conversation, program: Program, path: str) -> None:
    """Runs a file's program; reading the file again replaces what it added before."""
    _keep(repl, program, os.path.abspath(path), f".read {shlex.quote(path)}")


def _keep(
    repl: Conversation, program: Program, key: str | None = None, title: str | None = None
) -> None:
    """Keeps a program under a key, or each statement separately. `title` is its name in `.undo`."""
    db = repl.db
    sizes = _sizes(repl, program)
    before, state = db.workspace.catalog, repl.history.state(repl)
    had_rules = ruled(before.texts.outline())  # others may be evaluated: rules that were removed
    held = {name: r for name, r in db.workspace.evaluated().items() if name in had_rules}
    with db.call():
        execution = db.workspace.keep(program, key, repl.params, repl.folders)
        asked = execution.asks()
        try:
            # A file with queries evaluates only those; typed statements are evaluated at once.
            if key is None or not asked:
                _evaluate(repl, execution, before.texts, held, sizes)
            else:
                _tell_kept(execution)
        except Error as error:
            db.workspace.catalog = before
            say_error(error)
            say("(not kept: it cannot be evaluated)")
            repl.failed.append(error)
            return
        except BaseException:
            db.workspace.catalog = before
            raise
        rules = execution.compiled.rules
        new = rules and (key is not None or any(format_node(s) not in before.texts for s in rules))
        if new or any(execution.retracted.values()):
            repl.history.keep(repl, title or _title([*execution.retractions, *rules]), state)
        if asked:
            repl.failed += answer_all(db, execution, repl.output, repl.line)
        else:
            db.workspace.tell(execution)


def _tell_times(parsing: float, costs: Costs, whole: float) -> None:
    """Prints the phases of a statement's time."""
    parts = {
        "parse": parsing,
        "load": costs.loading,
        "plan": costs.planning,
        "compile": costs.compiling,
        "index": costs.indexing,
        "copy": costs.moving,
        "open the GPU": costs.opening,
    }
    parts["run"] = max(0.0, whole - sum(parts.values()))
    say(", ".join(f"{what} {seconds:.3f} s" for what, seconds in parts.items() if seconds))


def _title(statements: Sequence[Statement]) -> str:
    """A one-line summary of statements."""
    first = format_node(next(one_by_one(statements)))
    more = number_of(statements) - 1
    return f"{first} (and {more:,} more)" if more else first


def _refuse_facts(repl: Conversation, program: Program) -> None:
    """Rejects facts of relations with rules: such an input is probably meant as a query."""
    with_rules = ruled(repl.db.workspace.texts.outline())
    errors = [
        UsageError(
            f"`{head.name}` is defined by rules; facts cannot be added to it here",
            head.span,
            hint=f"to ask whether it holds: ?- {format_node(head)}.",
        )
        for statement in one_by_one(program.statements)
        if isinstance(statement, Rule) and statement.body is None
        for head in statement.heads
        if head.name in with_rules
    ]
    raise_together(errors)


def _sizes(repl: Conversation, program: Program) -> dict[str, int]:
    """The numbers of rows of the loaded relations that a program's facts are added to."""
    workspace = repl.db.workspace
    loaded = {*workspace.stored, *_names_read(workspace.texts.outline())}
    facts = filter(is_fact, program.statements)
    names = loaded.intersection(name for fact in facts for name in names_of(fact))
    if not names:
        return {}
    with repl.db.call():
        execution = workspace.execution(Program(()), Usage(lasting=True))
        return {name: _count(repl, execution, name)[0] for name in names}


def _evaluate(
    repl: Conversation,
    execution: Execution,
    before: ProgramTexts,
    held: Mapping[str, Relation],
    sizes: Mapping[str, int],
) -> None:
    """Evaluates the relations that statements change, and reports each once.

    `before`: the statements kept before; `held`: the relations evaluated before, by name; `sizes`:
    the numbers of rows of loaded relations before.
    """
    statements = execution.compiled.rules
    rules = [rule for rule in statements if isinstance(rule, Rule) and rule.body is not None]
    for name, gone in execution.retracted.items():
        left = _count(repl, execution, name)[0]
        say(f"{name}: {amount(gone, 'facts')} retracted, {amount(left, 'tuples')}")
    for statement in statements:
        if isinstance(statement, Decl) and "input" not in statement.qualifiers:
            for name in statement.names:
                say(f"declared {schema_text(execution.checked.schemas[name])}")
        elif isinstance(statement, TypeDecl):
            say(f"declared the type {statement.name}")
    for name in _names_read(statements):
        count, seconds = _count(repl, execution, name)
        say(f"{name}: {amount(count, 'tuples')} read ({seconds:.3f} s)")
    facts: dict[str, list[Piece]] = {}
    for statement in filter(is_fact, statements):
        for piece in pieces_of(statement):
            facts.setdefault(piece.name, []).append(piece)
    for name, pieces in facts.items():
        # A terminal's bottom bar shows the number of rows, which needs the relation.
        said = None if repl.interactive else execution.said(name)
        count = _count(repl, execution, name)[0] if said is None else said
        own = {key for piece in pieces for key in keys_of(piece)}
        new = count - sizes[name] if name in sizes else sum(not before.has_fact(k) for k in own)
        added = f"{amount(new, 'facts')} added" if new else "nothing new"
        known = f", {len(own) - new:,} known already" if 0 < new < len(own) else ""
        say(f"{name}: {added}{known}, {amount(count, 'tuples')}")
    for name in dict.fromkeys(head.name for rule in rules for head in rule.heads):
        if name in execution.checked.inline:
            say(f"{name}: inline, expanded where it is read")
            continue
        ran = execution.context.metrics.done
        count, seconds = _count(repl, execution, name)
        came = _came(execution.relation(name), held.get(name))
        say(f"{name}: {amount(count, 'tuples')}{came} ({seconds:.3f} s, {execution.done_by(ran)})")


def _came(relation: Relation, before: Relation | None) -> str:
    """Reports how many tuples are new, if the relation was updated incrementally."""
    since = None if before is None else relation.since(before.version)
    if since is None:
        return ""
    count = sum(part.length for part in since)
    return f", {count:,} new" if count else ", nothing new"


def _tell_kept(execution: Execution) -> None:
    names = ruled_names(execution)
    if names:
        say(f"kept the rules of {', '.join(names)}")


def _names_read(statements: Iterable[Statement]) -> dict[str, None]:
    """The relations that statements read from files."""
    names: dict[str, None] = {}
    for statement in statements:
        if (isinstance(statement, Directive) and statement.kind == "input") or (
            isinstance(statement, Decl) and "input" in statement.qualifiers
        ):
            names.update(dict.fromkeys(statement.names))
    return names


def _count(repl: Conversation, execution: Execution, name: str) -> tuple[int, float]:
    started = perf_counter()
    with repl.line(name):
        count = execution.relation(name).length
    return count, perf_counter() - started


def schema_text(schema: Schema) -> str:
    """A relation with its columns and types."""
    return visible(str(RelationEntry(schema.name, schema, None, "")))


def known_size(entry: RelationEntry) -> str:
    """The size of a relation, if it is known without evaluation."""
    rows = entry.rows
    if entry.schema is None:
        return "invalid"
    if rows is None:
        return NOT_EVALUATED
    return f"{rows.length:,}" if rows.counted else f"≤ {rows.at_most:,}"
