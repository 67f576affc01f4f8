"""Commands on the rules, and on the whole program: `.undo`, `.save` and `.read`."""

from __future__ import annotations

import shlex

from gdatalog.database import Database
from gdatalog.engine.execution import Execution
from gdatalog.engine.facts.files import writable
from gdatalog.errors import Error
from gdatalog.parser import Program, format_node
from gdatalog.parser.fact_statements import number_of
from gdatalog.parser.syntax import Rule, Statement
from gdatalog.planner.check.statements import is_fact, names_of, ruled, without
from gdatalog.planner.check.validity import Validity
from gdatalog.progress import amount
from gdatalog.result import Result
from gdatalog.shell.conversation import Conversation
from gdatalog.shell.messages import say, size_of
from gdatalog.shell.registry import command
from gdatalog.shell.saving import saved
from gdatalog.shell.statements import NOT_EVALUATED, take_file
from gdatalog.storage.writers import write_text
from gdatalog.terminal_text import visible


@command(
    "rules", "rules", "[RELATION]", "the rules and declarations, with sizes of relations",
    ".rules path",
    more="Facts are counted, not listed. Nothing is evaluated.",
)  # fmt: skip
def _rules(repl: Conversation, words: list[str]) -> None:
    only = words[0] if words else None
    kept = repl.db.workspace.statements()
    if only is not None and not any(only in names_of(statement) for statement in kept):
        repl.known(only)
    repl.output.text(rules_text(repl.db, only))


def rules_text(db: Database, only: str | None) -> str:
    """The kept rules and declarations, all or those of one relation, each with the size of its
    relation or with its error."""
    every = db.workspace.statements()
    listed = [statement for statement in every if not is_fact(statement)]
    with db.call():
        execution = db.workspace.execution(Program(()))
        sizes = {name: _size(execution, name) for name in ruled(every)}
    validity = execution.validity
    wide = len(str(len(listed)))
    lines = []
    for number, statement in enumerate(listed, 1):
        names = names_of(statement)
        if only is None or only in names:
            line = f"{number:>{wide}}  {format_node(statement)}"
            text = _invalid(statement, validity)
            if text is None:
                # A relation's size is shown once, at its first rule.
                heads = names if isinstance(statement, Rule) else ()
                text = ", ".join(f"{name}: {sizes.pop(name)}" for name in heads if name in sizes)
            lines.append(f"{line}  // {text}" if text else line)
    facts = [statement for statement in every if is_fact(statement)]
    if only is not None:
        facts = without(facts, {name for fact in facts for name in names_of(fact)} - {only})
    if facts:
        names = tuple(dict.fromkeys(name for fact in facts for name in names_of(fact)))
        count = amount(number_of(facts), "facts")
        lines.append(f"{'and' if lines else 'no rules;'} {count} of {', '.join(names)}")
    return "\n".join(lines) or "no rules"


def _invalid(statement: Statement, validity: Validity) -> str | None:
    """The error that makes a statement or its relation invalid."""
    error = validity.invalid.get(id(statement))
    if error is not None:
        return f"invalid: {visible(error.message)}"
    if not isinstance(statement, Rule):
        return None
    broken = [name for name in names_of(statement) if name in validity.broken]
    if not broken:
        return None
    return f"not evaluated: {validity.broken[broken[0]].why(broken[0])}"


def _size(execution: Execution, name: str) -> str:
    """A relation's size, if known. An error, such as a missing file, is shown in its place."""
    if name in execution.validity.broken:
        return "invalid"
    try:
        found = execution.at_hand(name)
    except Error as error:
        return error.kind
    return NOT_EVALUATED if found is None else size_of(found)


@command(
    "rules", "undo", "", "revert the last change",
    more="A change is a rule, a fact, a declaration, .load, .read, .drop or .clear. "
    "Repeat .undo to revert earlier ones.",
)  # fmt: skip
def _undo(repl: Conversation, words: list[str]) -> None:
    what = repl.history.take_back(repl)
    if what is not None:
        say(f"reverted: {what}")
    elif repl.history.dropped:
        say("nothing to revert: the data that earlier changes replaced is no longer in memory")
    else:
        say("nothing to revert")


@command(
    "rules", "save", "FILE.dl", "write a program that restores this session",
    ".save session.dl",
    more="Data that came from no file is written beside it, as Parquet. Answers are not saved.",
    trusted=True,
)  # fmt: skip
def _save(repl: Conversation, words: list[str]) -> None:
    (path,) = words
    workspace = repl.db.workspace
    execution = workspace.execution(Program(()))
    text, count, data, parameters = saved(execution, repl.loaded, path)
    for file in (path, *data):
        writable(file, workspace.files)
    with repl.line(path), repl.db.call():
        for file, relation in data.items():
            Result(relation, workspace.symbols).to_parquet(file)
        write_text(text, path)
    kept, files = amount(count, "statements"), amount(len(data), "Parquet files")
    beside = f", and {files} beside it" if data else ""
    say(f"{path}: {kept}{beside}; .read {shlex.quote(path)} restores them")
    if parameters:
        say(f"to run it: gdatalog {parameters} {shlex.quote(path)}")


@command(
    "rules", "read", "FILE.dl", "run a program; reading it again replaces its rules",
    ".read session.dl",
    trusted=True,
)  # fmt: skip
def _read(repl: Conversation, words: list[str]) -> None:
    (path,) = words
    take_file(repl, repl.db.workspace.parse_file(path), path)
