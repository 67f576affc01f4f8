"""Commands on the rules, and on the whole program: `.undo`, `.save` and `.read`.

`.save` writes a database (`x.gdb`), or a program that restores it. Beside a program, relations that
came from no file, or whose file has changed since, are written as Parquet, which keeps every value;
the program reads them from there.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping

from gdatalog.database import Database
from gdatalog.distribution import VERSION
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.execution import Execution
from gdatalog.engine.facts.files import beside, writable
from gdatalog.errors import Error
from gdatalog.parser import Program, format_node
from gdatalog.parser.fact_statements import number_of, one_by_one
from gdatalog.parser.syntax import Decl, Directive, ListParam, Param, Rule, Statement
from gdatalog.planner.check.statements import is_fact, names_of, ruled, without
from gdatalog.planner.check.validity import Validity
from gdatalog.planner.check.walk import walk
from gdatalog.progress import amount
from gdatalog.records import replace
from gdatalog.result import Result
from gdatalog.shell.conversation import Conversation, Loaded, holds
from gdatalog.shell.messages import say, size_of
from gdatalog.shell.parameters import parameter_text
from gdatalog.shell.registry import command
from gdatalog.shell.statements import NOT_EVALUATED, take_file
from gdatalog.storage.facts_files import find_facts
from gdatalog.storage.load_options import is_database
from gdatalog.storage.relation import Relation
from gdatalog.storage.writers import write_text
from gdatalog.terminal_text import visible


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
    "rules", "save", "FILE", "write a program or database of this session",
    ".save session.dl", ".save session.gdb",
    more="Of a program, data that came from no file is written beside it, as Parquet. A database "
    "is a folder with all data in it, which `gdatalog session.gdb` opens. Answers are not saved.",
    trusted=True,
)  # fmt: skip
def _save(repl: Conversation, words: list[str]) -> None:
    (path,) = words
    workspace = repl.db.workspace
    if is_database(path):
        writable(path, workspace.files)
        with repl.line(path):
            repl.db.save(path)
        say(f"{path}: {holds(repl.db)}; gdatalog {shlex.quote(path)} opens it")
        return
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
