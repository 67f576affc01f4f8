"""Commands on relations and their data."""

from __future__ import annotations

import os
import re
import shlex
from time import perf_counter
from typing import cast

from gdatalog.engine.catalog.snapshot import schema_of
from gdatalog.engine.facts.files import writable
from gdatalog.engine.facts.outputs import write_answer
from gdatalog.errors import UsageError
from gdatalog.parser import format_node
from gdatalog.parser.fact_statements import number_of
from gdatalog.parser.syntax import Statement
from gdatalog.planner.check.statements import Part, is_fact
from gdatalog.present import WIDEST
from gdatalog.progress import amount, format_bytes
from gdatalog.relations import catalog
from gdatalog.shell.conversation import Conversation, Loaded
from gdatalog.shell.messages import aligned, say, size_of
from gdatalog.shell.progress_line import memory_used
from gdatalog.shell.registry import COMMANDS, command
from gdatalog.shell.statements import known_size, schema_text
from gdatalog.storage.as_text import cell_texts
from gdatalog.storage.load_options import TEXT_OPTIONS, options_of_text
from gdatalog.terminal_text import cut, visible
from gdatalog.values import type_texts

_OPTION = re.compile(rf"(?:{'|'.join(TEXT_OPTIONS)})=")


@command("data", "relations", "", "all relations, with their sizes")
def _relations(repl: Conversation, words: list[str]) -> None:
    with repl.db.call():
        rows = [
            (str(entry), known_size(entry), "" if entry.origin == "data" else entry.origin)
            for entry in catalog(repl.db.workspace)
        ]
    nothing = "no relations yet: type a fact, e(1, 2). or read a file, .load E e.csv"
    repl.output.text(aligned(rows, right=(1,)) or nothing)


@command("data", "schema", "[RELATION]", "columns and types, as .decl writes them", ".schema edge")
def _schema(repl: Conversation, words: list[str]) -> None:
    relations = repl.db.relations
    names = [repl.known(words[0])] if words else list(repl.db.workspace.standing()[0])
    lines = [f".decl {schema_text(relations.schema(name))}" for name in names]
    repl.output.text("\n".join(lines) or "no relations")


@command(
    "data", "describe", "RELATION", "its columns: nulls, distinct, least, greatest values",
    ".describe edge",
    more="Evaluates the relation. Texts are compared by code points.",
)  # fmt: skip
def _describe(repl: Conversation, words: list[str]) -> None:
    with repl.line(repl.known(words[0])), repl.db.call():
        result = repl.db.relations[words[0]]
        nulls, distinct, ends = result._summary()
    values = [
        [cut(visible(text or ""), WIDEST) for text in cell_texts(kind, column)] or ["", ""]
        for kind, column in ends.typed
    ]
    counts = [[f"{count:,}" for count in each] for each in (nulls, distinct)]
    types = type_texts(ends.types, ends.nullable)
    rows = zip(result.columns, types, *counts, *zip(*values, strict=True), strict=True)
    titles = [("column", "type", "nulls", "distinct", "least", "greatest")] * bool(values)
    lines = [aligned([*titles, *rows], right=(2, 3))] * bool(values)
    repl.output.text("\n".join([*lines, amount(len(result), "rows")]))


@command(
    "data", "load", "[NAME] FILE ...", "load a file, replacing the relation's data",
    ".load edge edges.csv", ".load edges.csv header=false", '.load edge "my data/edges*.tsv.gz"',
    more="Without a name, the relation is named after the file. A folder stands for its Parquet "
    "files, a pattern for the files that it matches. Formats: .csv .tsv .parquet .arrow .json "
    ".jsonl .facts; text files may be compressed, as .gz or .zst. Options: header=true|false "
    "says whether the first line has names (default: detected); columns=a,b loads only these "
    "columns; nulls=drop drops rows with missing values, which are nulls otherwise; null=NA says "
    "which word is one; fill=age=0,city=unknown fills them in; "
    "row_id=true keeps equal rows, row_id=id adds a column of row numbers.",
    trusted=True,
)  # fmt: skip
def _load(repl: Conversation, words: list[str]) -> None:
    options_said = [word for word in words if _OPTION.match(word)]
    given = dict(word.split("=", 1) for word in options_said)
    words = [word for word in words if not _OPTION.match(word)]
    if not 1 <= len(words) <= 2:
        raise COMMANDS["load"].misused()
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
    repl.history.keep(repl, shlex.join([".load", name, path, *options_said]), before)
    if again:
        duplicates = f"{again:,} duplicate row{'s' * (again != 1)}"
        text += f", {duplicates} dropped (row_id=true keeps all)"
    header = {True: ", with a header", False: ", no header", None: ""}[found.header]
    header += " (a guess)" if guess is not None else ""
    told = schema_text(schema_of(name, relation))
    say(f"{told}: {text}{header} ({perf_counter() - started:.3f} s)")


@command(
    "data", "export", "RELATION FILE", "write a relation to a file",
    ".export path path.parquet", ".export path path.csv.gz",
    more="The ending chooses the format: .csv .tsv .parquet .arrow .json .jsonl; a path that ends "
    "with / becomes a folder of Parquet files.",
    trusted=True,
)  # fmt: skip
def _export(repl: Conversation, words: list[str]) -> None:
    name, path = words
    writable(path, repl.db.workspace.files)
    with repl.line(repl.known(name)), repl.db.call():
        result = repl.db.relations[name]
        write_answer(result, path)
    say(f"{name}: {amount(len(result), 'tuples')} -> {path}")


@command("data", "stats", "", "what the database holds, and the memory it uses")
def _stats(repl: Conversation, words: list[str]) -> None:
    db = repl.db
    workspace = db.workspace
    lines = [
        f"relations     {len(db.relations):,}",
        f"statements    {number_of(workspace.statements()):,}",
        f"loaded rows   {sum(r.at_most for r in workspace.stored.values()):,}",
        f"symbols       {len(workspace.symbols):,}",
        f"memory limit  {format_bytes(db.memory_limit)}",
    ]
    if workspace.spill is not None:
        lines.append(f"temp limit    {format_bytes(workspace.spill.limit)}")
    used = memory_used()
    if used is not None:
        lines.append(f"memory used   {format_bytes(used)}")
    repl.output.text("\n".join(lines))


@command(
    "data", "drop", "RELATION ...", "drop relations: their rules, facts and data",
    ".drop path", ".drop 3", ".drop --rules path", ".drop --data edge",
    more="Rules that read them become invalid. A number is a rule's number in .rules. --rules "
    "drops only rules, --data only facts, loaded rows, and rows of .input. .undo restores them.",
)  # fmt: skip
def _drop(repl: Conversation, words: list[str]) -> None:
    part: Part = "all"
    for option, only in (("--rules", "rules"), ("--data", "data")):
        if option in words:
            part = cast(Part, only)
    names = [word for word in words if word not in ("--rules", "--data")]
    if not names or len(words) - len(names) > 1 or names[0].startswith("-"):
        raise COMMANDS["drop"].misused()
    workspace = repl.db.workspace
    before = repl.history.state(repl)
    with repl.db.call():
        if all(name.isdecimal() for name in names):
            gone = _numbered(repl, sorted(set(map(int, names))))
            ids = set(map(id, gone))
            kept = workspace.texts.revised(lambda all_: [s for s in all_ if id(s) not in ids])
            workspace.change(workspace.catalog.with_texts(kept))
            lines = list(map(format_node, gone))
        else:
            workspace.drop(names, part)
            lines = [f"{'' if part == 'all' else f'{part} of '}{', '.join(dict.fromkeys(names))}"]
    repl.loaded = {k: loaded for k, loaded in repl.loaded.items() if k in workspace.stored}
    repl.history.keep(repl, shlex.join([".drop", *words]), before)
    for line in lines:
        say(f"dropped: {line}")


def _numbered(repl: Conversation, numbers: list[int]) -> list[Statement]:
    """The statements with the numbers that `.rules` shows."""
    listed = [s for s in repl.db.workspace.statements() if not is_fact(s)]
    for number in numbers:
        if not 1 <= number <= len(listed):
            raise UsageError(f"there is no rule number {number}", hint=".rules lists them")
    return [listed[number - 1] for number in numbers]


@command(
    "data", "clear", "all", "drop everything: an empty database",
    ".clear all",
    more=".undo restores it.",
    raw=True,
)  # fmt: skip
def _clear(repl: Conversation, words: list[str]) -> None:
    said = words[0].strip()
    if said != "all":
        hint = f".drop {said} drops these" if said else COMMANDS["clear"].example
        raise UsageError(".clear empties the database: .clear all", hint=hint)
    before = repl.history.state(repl)
    repl.db.workspace.clear()
    repl.loaded = {}
    repl.history.keep(repl, ".clear all", before)
    say("the database is empty")
