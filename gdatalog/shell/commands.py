"""The commands of the prompt: a registry, which also writes `.help`.

Beyond 300 lines, for it is a list: each command is a few lines, and all of them are here.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gdatalog.engine.files import beside, read_text
from gdatalog.engine.knobs import strategy_of, threads_of
from gdatalog.errors import Error, NameResolutionError, UsageError
from gdatalog.parser import format_node
from gdatalog.parser.directives import DIRECTIVES
from gdatalog.parser.syntax import Atom, Decl, Directive, Include, Program, Rule, Statement
from gdatalog.planner.walk import walk
from gdatalog.progress import format_bytes
from gdatalog.shell.messages import say, tuples
from gdatalog.shell.output import FORMATS
from gdatalog.shell.progress import memory_used

if TYPE_CHECKING:
    from gdatalog.shell.repl import Repl


class Leave(Exception):
    """The user wants to go."""


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    arguments: str
    summary: str
    run: Callable[[Repl, str], None]


COMMANDS: dict[str, Command] = {}


def command(
    name: str, arguments: str, summary: str
) -> Callable[[Callable[[Repl, str], None]], Callable[[Repl, str], None]]:
    """Puts a function into the registry."""

    def register(run: Callable[[Repl, str], None]) -> Callable[[Repl, str], None]:
        COMMANDS[name] = Command(name, arguments, summary, run)
        return run

    return register


def run_command(repl: Repl, name: str, rest: str) -> None:
    """Runs a command; one that is not known is answered with what may be meant."""
    found = COMMANDS.get("quit" if name == "exit" else name)
    if found is None:
        from difflib import get_close_matches

        close = get_close_matches(name, [*COMMANDS, *DIRECTIVES], 1)
        hint = f"did you mean .{close[0]}?" if close else ".help lists the commands"
        raise UsageError(f"there is no command .{name}", hint=hint)
    found.run(repl, rest)


def _words(rest: str, name: str, least: int, most: int) -> list[str]:
    """The words after a command; quotes keep spaces together."""
    try:
        words = shlex.split(rest)
    except ValueError:
        raise UsageError(f"a quote is not closed: {rest}") from None
    if not least <= len(words) <= most:
        raise UsageError(f"it is used as .{name} {COMMANDS[name].arguments}".rstrip())
    return words


@command("help", "[COMMAND]", "this list, or what a command does")
def _help(repl: Repl, rest: str) -> None:
    words = _words(rest.lstrip("."), "help", 0, 1)
    if words:
        found = COMMANDS.get(words[0])
        if found is None:
            raise UsageError(f"there is no command .{words[0]}", hint=".help lists the commands")
        repl.output.text(f".{found.name} {found.arguments}\n  {found.summary}")
        return
    wide = max(len(f"{c.name} {c.arguments}") for c in COMMANDS.values()) + 3
    lines = [f"  {f'.{c.name} {c.arguments}':<{wide}}{c.summary}" for c in COMMANDS.values()]
    repl.output.text(
        "e(1, 2).                 adds a fact\n"
        "p(x) <- e(x, y), y > 1.  adds a rule\n"
        "?- p(x).  or  p(x).      asks\n"
        ".input, .output, .decl and the other directives work too.\n\n" + "\n".join(lines)
    )


@command("relations", "", "the relations, with how many tuples they have")
def _relations(repl: Repl, rest: str) -> None:
    from gdatalog.shell.statements import schema_text

    _words(rest, "relations", 0, 0)
    ruled, rows = _ruled(repl), []
    session = repl.db._workspace.session(Program(()))
    for name in sorted(session.checked.schemas):
        with repl.line(name):
            try:
                count = f"{session.relation(name).length:,}"
            except Error as error:
                count = error.kind
        schema = schema_text(session.checked.schemas[name])
        rows.append((schema, count, "rules" if name in ruled else ""))
    if not rows:
        repl.output.text("no relations yet: type a fact, e(1, 2). or read a file, .load E e.csv")
        return
    wide, deep = (max(len(row[at]) for row in rows) for at in (0, 1))
    repl.output.text("\n".join(f"{a:<{wide}}  {b:>{deep}}  {c}".rstrip() for a, b, c in rows))


@command("schema", "[RELATION]", "columns and types, as .decl writes them")
def _schema(repl: Repl, rest: str) -> None:
    from gdatalog.shell.statements import schema_text

    words = _words(rest, "schema", 0, 1)
    schemas = repl.db._workspace.session(Program(())).checked.schemas
    names = [_known(repl, words[0])] if words else sorted(schemas)
    repl.output.text("\n".join(f".decl {schema_text(schemas[name])}" for name in names))


@command("rules", "[RELATION]", "the rules and declarations that are kept")
def _rules(repl: Repl, rest: str) -> None:
    words = _words(rest, "rules", 0, 1)
    name = _known(repl, words[0]) if words else None
    lines = [
        format_node(statement)
        for statement in repl.db._workspace.statements()
        if (name is None or name in _defined(statement))
        and not (isinstance(statement, Rule) and statement.body is None)
    ]
    repl.output.text("\n".join(lines) or "no rules")


@command("load", "[RELATION] FILE", "put a file's table into a relation, replacing its data")
def _load(repl: Repl, rest: str) -> None:
    words = _words(rest, "load", 1, 2)
    path = words[-1]
    name = words[0] if len(words) == 2 else os.path.basename(path).split(".")[0]
    if len(words) == 1 and re.fullmatch(r"[^\W\d]\w*", name) is None:
        raise UsageError(
            f"{name!r} is no name for a relation", hint=f"give it one: .load E {shlex.quote(path)}"
        )
    with repl.line(name):
        repl.db.load(name, path)
    repl.loaded[name] = os.path.abspath(path)
    stored = repl.db._workspace.stored[name]
    columns = ", ".join(map(": ".join, zip(stored.columns, stored.types, strict=True)))
    say(f"{name}({columns}): {tuples(stored.length)}")


@command("save", "FILE.dl", "write declarations, rules and facts as a program")
def _save(repl: Repl, rest: str) -> None:
    from gdatalog.storage.writers import write_text

    (path,) = _words(rest, "save", 1, 1)
    repl.db._workspace.policy.writing(path, None)
    folder = os.path.dirname(os.path.abspath(path))
    statements = repl.db._workspace.statements()
    lines = [format_node(_moved(statement, folder)) for statement in statements]
    for name in repl.db._workspace.stored:
        file = os.path.relpath(repl.loaded[name], folder)
        lines.append(format_node(Directive("input", (name,), path=file)))
    write_text("".join(line + "\n" for line in lines), path)
    say(f"{path}: {len(lines)} statements; .read {shlex.quote(path)} brings them back")


def _moved(statement: Statement, folder: str) -> Statement:
    """The statement as it has to be in a file of another folder."""
    if isinstance(statement, (Directive, Include)) and statement.path is not None:
        there = os.path.abspath(beside(statement.span, statement.path))
        return replace(statement, path=os.path.relpath(there, folder))
    return statement


@command("read", "FILE.dl", "run a program file; reading it again replaces its rules")
def _read(repl: Repl, rest: str) -> None:
    from gdatalog.shell.statements import take_file

    (path,) = _words(rest, "read", 1, 1)
    program = repl.db._workspace.parse(read_text(path, repl.db._workspace.policy), path)
    take_file(repl, program, os.path.abspath(path))


@command("export", "RELATION FILE", "write a relation: .csv .tsv .parquet .arrow .json .jsonl")
def _export(repl: Repl, rest: str) -> None:
    from gdatalog.storage.writers import write_table

    name, path = _words(rest, "export", 2, 2)
    repl.db._workspace.policy.writing(path, None)
    with repl.line(name):
        result = repl.db.relations[name]
    write_table(result.table(), path)
    say(f"{name}: {tuples(len(result))} -> {path}")


@command("mode", f"[{'|'.join(FORMATS)}]", "how answers are written")
def _mode(repl: Repl, rest: str) -> None:
    words = _words(rest, "mode", 0, 1)
    if words and words[0] not in FORMATS:
        raise UsageError(f"there is no mode {words[0]!r}", hint=f"one of {', '.join(FORMATS)}")
    if words:
        repl.output.format = words[0]
        repl.output.given = True
    say(f"mode: {repl.output.format}")


@command("maxrows", "[N]", "how many rows a box shows")
def _maxrows(repl: Repl, rest: str) -> None:
    words = _words(rest, "maxrows", 0, 1)
    if words:
        if not words[0].isdecimal() or int(words[0]) == 0:
            raise UsageError(f"a number of rows is needed, not {words[0]!r}")
        repl.output.max_rows = int(words[0])
    say(f"maxrows: {repl.output.max_rows}")


@command("timer", "[on|off]", "whether the time of each answer is told")
def _timer(repl: Repl, rest: str) -> None:
    words = _words(rest, "timer", 0, 1)
    if words and words[0] not in ("on", "off"):
        raise UsageError(f"the timer is on or off, not {words[0]!r}")
    if words:
        repl.timer = words[0] == "on"
    say(f"timer: {'on' if repl.timer else 'off'}")


@command("explain", "QUERY OR RULE", "how it would be evaluated")
def _explain(repl: Repl, rest: str) -> None:
    _needs_text("explain", rest)
    with repl.line("explain"):
        plan = str(repl.db.explain(rest, repl.params))
    repl.output.text(plan)


@command("profile", "QUERY OR RULE", "evaluate it anew; rows and time of each step")
def _profile(repl: Repl, rest: str) -> None:
    _needs_text("profile", rest)
    with repl.line("profile"):
        found = str(repl.db.profile(rest, repl.params))
    repl.output.text(found)


def _needs_text(name: str, rest: str) -> None:
    if not rest:
        raise UsageError(f".{name} needs a query or a rule", hint=f".{name} ?- p(x), q(x, y).")


@command("device", "", "where queries run, and why")
def _device(repl: Repl, rest: str) -> None:
    _words(rest, "device", 0, 0)
    repl.output.text(f"device: {repl.db.device} ({repl.db._workspace.why})")


@command("set", "[strategy|threads [VALUE]]", "how rules run, and on how many threads")
def _set(repl: Repl, rest: str) -> None:
    words = _words(rest, "set", 0, 2)
    workspace = repl.db._workspace
    if words and words[0] not in ("strategy", "threads"):
        raise UsageError(f"there is no setting {words[0]!r}", hint="strategy or threads")
    if words[1:] and words[0] == "strategy":
        workspace.force(strategy=strategy_of(words[1]))
    elif words[1:]:
        automatic = words[1] == "auto"
        count = int(words[1]) if words[1].isdecimal() else words[1]
        workspace.force(threads=threads_of(None if automatic else count))
    told = {"strategy": workspace.knobs.strategy, "threads": workspace.knobs.threads or "auto"}
    for name, value in told.items():
        if not words or words[0] == name:
            say(f"{name}: {value}")


@command("stats", "", "what the database holds, and the memory it uses")
def _stats(repl: Repl, rest: str) -> None:
    _words(rest, "stats", 0, 0)
    db = repl.db
    lines = [
        f"relations     {len(db.relations):,}",
        f"statements    {len(db._workspace.statements()):,}",
        f"loaded rows   {sum(relation.length for relation in db._workspace.stored.values()):,}",
        f"symbols       {len(db._workspace.symbols):,}",
        f"memory limit  {format_bytes(db.memory_limit)}",
    ]
    used = memory_used()
    if used is not None:
        lines.append(f"memory used   {format_bytes(used)}")
    repl.output.text("\n".join(lines))


@command("clear", "RELATION ...|all", "forget relations: their rules, facts and data")
def _clear(repl: Repl, rest: str) -> None:
    names = _words(rest, "clear", 1, 1000)
    db = repl.db
    workspace = db._workspace
    if names == ["all"] and "all" not in db.relations:
        workspace.clear()
        repl.loaded.clear()
        say("the database is empty")
        return
    gone = {_known(repl, name) for name in names}
    texts = {
        key: replace(kept, statements=tuple(_without(kept.statements, gone)))
        for key, kept in workspace.texts.items()
    }
    readers = _readers([s for kept in texts.values() for s in kept.statements], gone)
    if readers:
        raise UsageError(
            f"rules of {', '.join(sorted(readers))} read {', '.join(sorted(gone))}",
            hint=f"clear them too: .clear {' '.join(sorted(gone | readers))}",
        )
    workspace.texts = {key: kept for key, kept in texts.items() if kept.statements}
    workspace.stored = {k: data for k, data in workspace.stored.items() if k not in gone}
    say(f"forgotten: {', '.join(sorted(gone))}")


def _readers(statements: Sequence[Statement], names: set[str]) -> set[str]:
    """The relations whose rules read these, or read what reads them."""
    found: set[str] = set()
    while True:
        more = {
            head.name
            for rule in statements
            if isinstance(rule, Rule) and rule.body is not None
            if any(isinstance(p, Atom) and p.name in names | found for p in walk(rule.body))
            for head in rule.heads
        }
        if more <= found:
            return found
        found |= more


def _without(text: tuple[Statement, ...], gone: set[str]) -> list[Statement]:
    """The statements, less what they say of relations that are to go."""
    kept: list[Statement] = []
    for statement in text:
        names = _defined(statement)
        rest = [name for name in names if name not in gone]
        if len(rest) == len(names):
            kept.append(statement)
        elif rest and isinstance(statement, Rule):
            heads = tuple(head for head in statement.heads if head.name not in gone)
            kept.append(replace(statement, heads=heads))
        elif rest and isinstance(statement, (Decl, Directive)):
            kept.append(replace(statement, names=tuple(rest)))
    return kept


@command("quit", "", "leave (Ctrl-D does too)")
def _quit(repl: Repl, rest: str) -> None:
    raise Leave


def _defined(statement: Statement) -> tuple[str, ...]:
    """The relations that a statement says something of."""
    if isinstance(statement, Rule):
        return tuple(head.name for head in statement.heads)
    return statement.names if isinstance(statement, (Decl, Directive)) else ()


def _ruled(repl: Repl) -> set[str]:
    return {
        head.name
        for rule in repl.db._workspace.statements()
        if isinstance(rule, Rule) and rule.body is not None
        for head in rule.heads
    }


def _known(repl: Repl, name: str) -> str:
    if name not in repl.db.relations:
        raise NameResolutionError(
            f"there is no relation {name!r}", hint=repl.db._workspace.near(name)
        )
    return name
