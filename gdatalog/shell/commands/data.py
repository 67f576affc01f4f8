"""Commands on data: what is there, loading, exporting, forgetting."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from gdatalog.engine.files import write_answer
from gdatalog.engine.texts import Kept, Texts
from gdatalog.errors import Error, UsageError
from gdatalog.parser import Program, format_node
from gdatalog.parser.syntax import Atom, Decl, Directive, Rule, Statement
from gdatalog.planner.walk import walk
from gdatalog.progress import format_bytes
from gdatalog.shell.commands.registry import command, known, names_of, numbered, ruled, words_of
from gdatalog.shell.commands.undoing import Loaded
from gdatalog.shell.messages import say, short_size_of, size_of, tuples
from gdatalog.shell.progress import memory_used
from gdatalog.shell.statements import NOT_EVALUATED, at_hand, schema_text
from gdatalog.storage.relation import Relation
from gdatalog.widths import width

if TYPE_CHECKING:
    from gdatalog.shell.repl import Repl


@command("data", "relations", "", "all relations, with their sizes")
def _relations(repl: Repl, rest: str) -> None:
    words_of(rest, "relations", 0, 0)
    workspace = repl.db._workspace
    with_rules = ruled(workspace.texts.outline())
    rows = []
    with repl.db._lock:
        session = workspace.session(Program(()))
        for name, schema in sorted(session.checked.schemas.items()):
            found = at_hand(session, name)
            told = NOT_EVALUATED if found is None else short_size_of(found)
            rows.append((schema_text(schema), told, "rules" if name in with_rules else ""))
    if not rows:
        repl.output.text("no relations yet: type a fact, e(1, 2). or read a file, .load E e.csv")
        return
    wide, deep = (max(width(row[at]) for row in rows) for at in (0, 1))
    lines = (f"{a}{' ' * (wide - width(a))}  {b:>{deep}}  {c}".rstrip() for a, b, c in rows)
    repl.output.text("\n".join(lines))


def _rows(relation: Relation) -> int:
    return relation.length if relation.counted else relation.at_most


@command("data", "schema", "[RELATION]", "columns and types, as .decl writes them", ".schema edge")
def _schema(repl: Repl, rest: str) -> None:
    words = words_of(rest, "schema", 0, 1)
    schemas = repl.db._workspace.schemas()
    names = [known(repl, words[0])] if words else list(schemas)
    lines = [f".decl {schema_text(schemas[name])}" for name in names]
    repl.output.text("\n".join(lines) or "no relations")


@command(
    "data", "load", "[RELATION] FILE", "put a file's rows in place of a relation's data",
    ".load edge edges.csv", ".load edges.parquet", '.load edge "my data/edges*.tsv.gz"',
    more="Without a name the relation has the file's. A folder means its Parquet files, / "
    "a pattern all files that it matches. "
    ".csv .tsv .parquet .arrow .json .jsonl .facts; texts may be packed, .gz or .zst.",
)  # fmt: skip
def _load(repl: Repl, rest: str) -> None:
    words = words_of(rest, "load", 1, 2)
    path = words[-1]
    own = os.path.basename(os.path.normpath(path)).split(".")[0]
    name = words[0] if len(words) == 2 else own
    if len(words) == 1 and re.fullmatch(r"[^\W\d]\w*", name) is None:
        raise UsageError(
            f"{name!r} is no name for a relation", hint=f"give it one: .load E {shlex.quote(path)}"
        )
    before, started = repl.history.state(repl), perf_counter()
    with repl.line(name):
        repl.db.load(name, path)
        relation = repl.db._workspace.stored[name]
        told = size_of(relation)
    repl.loaded = {**repl.loaded, name: Loaded.of(path, relation)}
    repl.history.keep(repl, f".load {name} {shlex.quote(path)}", before)
    columns = ", ".join(map(": ".join, zip(relation.columns, relation.types, strict=True)))
    say(f"{name}({columns}): {told} ({perf_counter() - started:.3f} s)")


@command(
    "data", "export", "RELATION FILE", "write a relation into a file",
    ".export path path.parquet", ".export path path.csv.gz",
    more="The ending says how: .csv .tsv .parquet .arrow .json .jsonl; / a folder of Parquet files",
)  # fmt: skip
def _export(repl: Repl, rest: str) -> None:
    name, path = words_of(rest, "export", 2, 2)
    repl.db._workspace.policy.writing(path, None)
    with repl.line(known(repl, name)), repl.db._lock:
        result = repl.db.relations[name]
        write_answer(result, path)
    say(f"{name}: {tuples(len(result))} -> {path}")


@command("data", "stats", "", "what the database holds, and the memory it uses")
def _stats(repl: Repl, rest: str) -> None:
    words_of(rest, "stats", 0, 0)
    db = repl.db
    workspace = db._workspace
    lines = [
        f"relations     {len(db.relations):,}",
        f"statements    {len(workspace.statements()):,}",
        f"loaded rows   {sum(map(_rows, workspace.stored.values())):,}",
        f"symbols       {len(workspace.symbols):,}",
        f"memory limit  {format_bytes(db.memory_limit)}",
    ]
    used = memory_used()
    if used is not None:
        lines.append(f"memory used   {format_bytes(used)}")
    repl.output.text("\n".join(lines))


@command(
    "data", "clear", "RELATION ...", "forget their rules, facts and data",
    ".clear path", ".clear 3", ".clear all",
    more="A number is that of .rules. `.clear all` leaves an empty database; .undo brings it back.",
)  # fmt: skip
def _clear(repl: Repl, rest: str) -> None:
    names = words_of(rest, "clear", 1, 1000)
    workspace = repl.db._workspace
    before = repl.history.state(repl)
    if all(name.isdecimal() for name in names):
        _clear_numbers(repl, sorted(set(map(int, names))))
        return
    if names == ["all"] and "all" not in repl.db.relations:
        workspace.clear()
        repl.loaded = {}
        repl.history.keep(repl, ".clear all", before)
        say("the database is empty")
        return
    gone = {known(repl, name) for name in names}
    texts = {
        key: kept.less(_without(kept.statements, gone)) for key, kept in workspace.texts.items()
    }
    readers = _readers([s for kept in texts.values() for s in kept.statements], gone)
    if readers:
        raise UsageError(
            f"rules of {', '.join(sorted(readers))} read {', '.join(sorted(gone))}",
            hint=f"clear them too: .clear {' '.join(sorted(gone | readers))}",
        )
    workspace.texts = Texts({key: kept for key, kept in texts.items() if kept.statements})
    workspace.stored = {k: data for k, data in workspace.stored.items() if k not in gone}
    repl.loaded = {k: loaded for k, loaded in repl.loaded.items() if k not in gone}
    repl.history.keep(repl, f".clear {' '.join(names)}", before)
    say(f"forgotten: {', '.join(sorted(gone))}")


def _clear_numbers(repl: Repl, numbers: list[int]) -> None:
    """Forgets statements by the numbers that `.rules` gives them."""
    workspace, before = repl.db._workspace, repl.history.state(repl)
    listed = numbered(workspace.statements())
    for number in numbers:
        if not 1 <= number <= len(listed):
            raise UsageError(f"there is no rule number {number}", hint=".rules lists them")
    gone = [listed[number - 1] for number in numbers]
    left: dict[str, Kept] = {}
    for key, kept in workspace.texts.items():
        rest = tuple(s for s in kept.statements if not any(s is other for other in gone))
        if rest:
            left[key] = kept.less(rest)
    workspace.texts = Texts(left)
    try:
        workspace.session(Program(()))
    except Error as error:
        workspace.texts = before.texts
        raise UsageError(
            f"without it there is an error: {error.message}", hint="clear what needs it first"
        ) from None
    repl.history.keep(repl, f".clear {' '.join(map(str, numbers))}", before)
    for statement in gone:
        say(f"forgotten: {format_node(statement)}")


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
        names = names_of(statement)
        rest = [name for name in names if name not in gone]
        if len(rest) == len(names):
            kept.append(statement)
        elif rest and isinstance(statement, Rule):
            heads = tuple(head for head in statement.heads if head.name not in gone)
            kept.append(replace(statement, heads=heads))
        elif rest and isinstance(statement, (Decl, Directive)):
            kept.append(replace(statement, names=tuple(rest)))
    return kept
