"""Commands on data: listing, loading, exporting, dropping."""

from __future__ import annotations

import os
import re
import shlex
from time import perf_counter
from typing import cast

from gdatalog.engine.facts import write_answer
from gdatalog.errors import UsageError
from gdatalog.parser import format_node
from gdatalog.parser.syntax import Statement
from gdatalog.planner.check.walk import Part
from gdatalog.progress import format_bytes
from gdatalog.relations import catalog
from gdatalog.shell import aligned, memory_used, say, size_of, tuples
from gdatalog.shell.conversation import (
    COMMANDS,
    Conversation,
    Loaded,
    command,
    example_of,
    known,
    numbered,
    words_of,
)
from gdatalog.shell.statements import known_size, schema_text
from gdatalog.storage.load_options import TEXT_OPTIONS, options_of_text
from gdatalog.storage.relation import Relation

_OPTION = re.compile(rf"(?:{'|'.join(TEXT_OPTIONS)})=")


@command("data", "relations", "", "all relations, with their sizes")
def _relations(repl: Conversation, rest: str) -> None:
    words_of(rest, "relations", 0, 0)
    with repl.db.call():
        rows = [
            (str(entry), known_size(entry), "" if entry.origin == "data" else entry.origin)
            for entry in catalog(repl.db.workspace)
        ]
    nothing = "no relations yet: type a fact, e(1, 2). or read a file, .load E e.csv"
    repl.output.text(aligned(rows) or nothing)


def _rows(relation: Relation) -> int:
    return relation.length if relation.counted else relation.at_most


@command("data", "schema", "[RELATION]", "columns and types, as .decl writes them", ".schema edge")
def _schema(repl: Conversation, rest: str) -> None:
    words = words_of(rest, "schema", 0, 1)
    relations = repl.db.relations
    names = [known(repl, words[0])] if words else list(repl.db.workspace.standing()[0])
    lines = [f".decl {schema_text(relations.schema(name))}" for name in names]
    repl.output.text("\n".join(lines) or "no relations")


@command(
    "data", "load", "[NAME] FILE ...", "put a file's rows in place of a relation's data",
    ".load edge edges.csv", ".load edges.csv header=false", '.load edge "my data/edges*.tsv.gz"',
    more="Without a name the relation has the file's. A folder means its Parquet files, / "
    "a pattern all files that it matches. "
    ".csv .tsv .parquet .arrow .json .jsonl .facts; texts may be packed, .gz or .zst. / "
    "header=true|false: whether the first line has names; else the whole file decides. "
    "columns=a,b: these columns. nulls=drop drops rows of which a value is missing, "
    "fill=age=0,city=unknown fills values in. row_id=id adds a column of row numbers.",
    trusted=True,
)  # fmt: skip
def _load(repl: Conversation, rest: str) -> None:
    said = words_of(rest, "load", 1, 20)
    given = dict(word.split("=", 1) for word in said if _OPTION.match(word))
    words = [word for word in said if not _OPTION.match(word)]
    if not 1 <= len(words) <= 2:
        words_of("", "load", 1, 2)
    options = options_of_text(given)
    path = words[-1]
    own = os.path.basename(os.path.normpath(path)).split(".")[0]
    name = words[0] if len(words) == 2 else own
    if len(words) == 1 and re.fullmatch(r"[^\W\d]\w*", name) is None:
        raise UsageError(
            f"{name!r} is no name for a relation", hint=f"give it one: .load E {shlex.quote(path)}"
        )
    before, started = repl.history.state(repl), perf_counter()
    with repl.line(name), repl.db.call():
        found = repl.db.workspace.load(name, path, options)
        guess, found.guess = found.guess, None
        again, found.duplicates = found.duplicates, 0
        repl.db.workspace.tell_of(name, found)
        relation = repl.db.workspace.stored[name]
        text = size_of(relation)
    if guess is not None:  # `.read` of a saved session does not guess again
        given = {**given, "header": "true"}
    repl.loaded = {**repl.loaded, name: Loaded.of(path, relation, given)}
    repl.history.keep(repl, shlex.join([".load", name, path, *said[len(words) :]]), before)
    columns = ", ".join(map(": ".join, zip(relation.columns, relation.types, strict=True)))
    if again:
        duplicates = f"{again:,} duplicate row{'s' * (again != 1)}"
        text += f", {duplicates} dropped (row_id=id keeps all)"
    header = {True: ", with a header", False: ", no header", None: ""}[found.header]
    header += " (a guess)" if guess is not None else ""
    say(f"{name}({columns}): {text}{header} ({perf_counter() - started:.3f} s)")


@command(
    "data", "export", "RELATION FILE", "write a relation into a file",
    ".export path path.parquet", ".export path path.csv.gz",
    more="The ending says how: .csv .tsv .parquet .arrow .json .jsonl; / a folder of Parquet files",
    trusted=True,
)  # fmt: skip
def _export(repl: Conversation, rest: str) -> None:
    name, path = words_of(rest, "export", 2, 2)
    repl.db.workspace.policy.writing(path, None)
    with repl.line(known(repl, name)), repl.db.call():
        result = repl.db.relations[name]
        write_answer(result, path)
    say(f"{name}: {tuples(len(result))} -> {path}")


@command("data", "stats", "", "what the database holds, and the memory it uses")
def _stats(repl: Conversation, rest: str) -> None:
    words_of(rest, "stats", 0, 0)
    db = repl.db
    workspace = db.workspace
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
    "data", "drop", "RELATION ...", "drop relations: their rules, facts and data",
    ".drop path", ".drop 3", ".drop --rules path", ".drop --data edge",
    more="What depended on them is invalid then. A number is that of .rules. --rules drops rules "
    "alone, --data facts, rows that were loaded, and what .input reads. .undo brings it back.",
)  # fmt: skip
def _drop(repl: Conversation, rest: str) -> None:
    words = words_of(rest, "drop", 1, 1000)
    part: Part = "all"
    for option, only in (("--rules", "rules"), ("--data", "data")):
        if option in words:
            part = cast(Part, only)
    names = [word for word in words if word not in ("--rules", "--data")]
    if not names or len(words) - len(names) > 1 or names[0].startswith("-"):
        raise UsageError(f"usage: {COMMANDS['drop'].usage}", hint=example_of("drop"))
    workspace = repl.db.workspace
    before = repl.history.state(repl)
    with repl.db.call():
        if all(name.isdecimal() for name in names):
            gone = _numbered(repl, sorted(set(map(int, names))))
            ids = set(map(id, gone))
            workspace.drop_statements(lambda statement: id(statement) in ids)
            lines = list(map(format_node, gone))
        else:
            workspace.drop(names, part)
            lines = [f"{'' if part == 'all' else f'{part} of '}{', '.join(dict.fromkeys(names))}"]
    repl.loaded = {k: loaded for k, loaded in repl.loaded.items() if k in workspace.stored}
    repl.history.keep(repl, f".drop {rest.strip()}", before)
    for line in lines:
        say(f"dropped: {line}")


def _numbered(repl: Conversation, numbers: list[int]) -> list[Statement]:
    """The statements with the numbers that `.rules` shows."""
    listed = numbered(repl.db.workspace.statements())
    for number in numbers:
        if not 1 <= number <= len(listed):
            raise UsageError(f"there is no rule number {number}", hint=".rules lists them")
    return [listed[number - 1] for number in numbers]


@command(
    "data", "clear", "all", "drop everything: an empty database",
    ".clear all",
    more=".undo brings it back.",
)  # fmt: skip
def _clear(repl: Conversation, rest: str) -> None:
    words = words_of(rest, "clear", 1, 1000)
    if words != ["all"]:
        raise UsageError(
            ".clear empties the database: .clear all", hint=f".drop {rest.strip()} drops these"
        )
    before = repl.history.state(repl)
    repl.db.workspace.clear()
    repl.loaded = {}
    repl.history.keep(repl, ".clear all", before)
    say("the database is empty")
