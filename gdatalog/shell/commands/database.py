"""Commands on what the database holds: its relations, its rules and their plans."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from gdatalog.engine.session.text_session import Session
from gdatalog.errors import Error, UsageError
from gdatalog.parser import Program, format_node
from gdatalog.parser.syntax import Rule, Statement
from gdatalog.planner.check.program import Validity
from gdatalog.planner.check.walk import is_fact, names_of, ruled
from gdatalog.report import Shown
from gdatalog.result import Result
from gdatalog.shell import say, size_of
from gdatalog.shell.conversation import (
    Conversation,
    check_trusted,
    command,
    example_of,
    known,
    numbered,
    words_of,
)
from gdatalog.shell.editor.typed import OF_PART
from gdatalog.shell.statements import NOT_EVALUATED, take_file
from gdatalog.values import visible

if TYPE_CHECKING:
    from gdatalog.database import Database
import os
from time import perf_counter
from typing import cast

from gdatalog.engine.facts import write_answer
from gdatalog.planner.check.walk import Part
from gdatalog.progress import format_bytes
from gdatalog.relations import catalog
from gdatalog.shell import aligned, memory_used, tuples
from gdatalog.shell.conversation import COMMANDS, Loaded
from gdatalog.shell.statements import known_size, schema_text
from gdatalog.storage import TEXT_OPTIONS, options_of_text
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
            kept = workspace.texts.revised(lambda all_: [s for s in all_ if id(s) not in ids])
            workspace.change(kept, workspace.stored)
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


# ----------------------------------------------------------------------------- rules and plans


@command(
    "rules", "rules", "[RELATION]", "the rules and declarations, with sizes of relations",
    ".rules path",
    more="Facts are counted, not listed. Nothing is evaluated.",
)  # fmt: skip
def _rules(repl: Conversation, rest: str) -> None:
    words = words_of(rest, "rules", 0, 1)
    only = words[0] if words else None
    kept = repl.db.workspace.statements()
    if only is not None and not any(only in names_of(statement) for statement in kept):
        known(repl, only)
    repl.output.text(rules_text(repl.db, only))


def rules_text(db: Database, only: str | None) -> str:
    """The kept rules and declarations, all or those of one relation, each with the size of its
    relation or with its error."""
    every = db.workspace.statements()
    listed = numbered(every)
    with db.call():
        session = db.workspace.session(Program(()))
        sizes = {name: _size(session, name) for name in ruled(every)}
    validity = session.validity
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
    facts = [s for s in every if is_fact(s) and (only is None or only in names_of(s))]
    if facts:
        names = tuple(dict.fromkeys(name for fact in facts for name in names_of(fact)))
        count = "1 fact" if len(facts) == 1 else f"{len(facts):,} facts"
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


def _size(session: Session, name: str) -> str:
    """A relation's size, if known. An error, such as a missing file, is shown in its place."""
    if name in session.validity.broken:
        return "invalid"
    try:
        found = session.at_hand(name)
    except Error as error:
        return error.kind
    return NOT_EVALUATED if found is None else size_of(found)


@command(
    "rules", "undo", "", "take back what was kept or dropped last",
    more="A rule, a fact, a declaration, .load, .read, .drop, .clear; again, what was before that.",
)  # fmt: skip
def _undo(repl: Conversation, rest: str) -> None:
    words_of(rest, "undo", 0, 0)
    what = repl.history.take_back(repl)
    if what is not None:
        say(f"taken back: {what}")
    elif repl.history.dropped:
        say("nothing to take back: the data that earlier changes replaced are not held any more")
    else:
        say("nothing to take back")


@command(
    "rules", "save", "FILE.dl", "write a program that brings all of this back",
    ".save session.dl",
    more="Data that came from no file are written beside it, as Parquet. Answers are not written.",
    trusted=True,
)  # fmt: skip
def _save(repl: Conversation, rest: str) -> None:
    from gdatalog.shell.conversation import saved
    from gdatalog.storage.writers import write_text

    (path,) = words_of(rest, "save", 1, 1)
    workspace = repl.db.workspace
    session = workspace.session(Program(()))
    found = saved(session, repl.loaded, path)
    for file in (path, *found.data):
        workspace.policy.writing(file, None)
    with repl.line(path), repl.db.call():
        for file, relation in found.data.items():
            Result(relation, workspace.symbols).to_parquet(file)
        write_text(found.text, path)
    count = "1 statement" if found.statements == 1 else f"{found.statements:,} statements"
    files = "1 Parquet file" if len(found.data) == 1 else f"{len(found.data):,} Parquet files"
    beside = f", and {files} beside it" if found.data else ""
    say(f"{path}: {count}{beside}; .read {shlex.quote(path)} brings them back")
    if found.parameters:
        say(f"its parameters are given by gdatalog {found.parameters}")


@command(
    "rules", "read", "FILE.dl", "run a program; reading it again replaces its rules",
    ".read session.dl",
    trusted=True,
)  # fmt: skip
def _read(repl: Conversation, rest: str) -> None:
    (path,) = words_of(rest, "read", 1, 1)
    take_file(repl, repl.db.workspace.parse_file(path), path)


# Commands on plans.


@command(
    "plans", "explain", "QUERY [> FILE]", "how a query or a rule would be evaluated",
    ".explain ?- path(1, y).", ".explain --of * ?- path(1, y).",
    ".explain path(1, y). > plan.html",
    more="Nothing is evaluated. A plan of many rules is folded: --of shows the rules of one "
    "relation, stratum (3) or rule (3.2) in full, --of * all. A file's ending says how it is "
    "drawn: .html, .json, .mmd (mermaid) or .txt.",
)  # fmt: skip
def _explain(repl: Conversation, rest: str) -> None:
    text, path, of = _divided(repl, "explain", rest)
    with repl.line("explain"):
        plan = repl.db.explain(text, repl.params)
    _give(repl, plan, path, of)


@command(
    "plans", "profile", "QUERY [> FILE]", "evaluate it anew; rows and time of each step",
    ".profile ?- path(1, y).", ".profile --of * ?- path(1, y).",
    ".profile path(1, y). > profile.html",
    more="Nothing that is known already is used. --of shows a part in full, as .explain does. A "
    "file's ending says how it is drawn: .html, .json, .mmd (mermaid) or .txt.",
)  # fmt: skip
def _profile(repl: Conversation, rest: str) -> None:
    text, path, of = _divided(repl, "profile", rest)
    with repl.line("profile"):
        found = repl.db.profile(text, repl.params)
    _give(repl, found, path, of)


# The file's ending tells `> FILE` from a comparison.
_NAME = r"""(["']?)([^\s"']+|(?<=["'])[^"']+)\.(html|json|mmd|txt)\2"""
_INTO = re.compile(rf"(.*?)\s*>\s*{_NAME}\s*", re.DOTALL)


def _divided(repl: Conversation, name: str, rest: str) -> tuple[str, str | None, str | None]:
    """Splits the arguments into the query, the file for its plan, and the part to show."""
    part = OF_PART.match(rest)
    of, rest = (part[1], rest[part.end() :]) if part else (None, rest)
    found = _INTO.fullmatch(rest)
    text, path = (found[1], f"{found[3]}.{found[4]}") if found else (rest, None)
    if path is not None:
        check_trusted(repl, f".{name} into a file")
    if not text:
        raise UsageError(f".{name} needs a query or a rule", hint=example_of(name))
    return text, path, of


def _give(repl: Conversation, plan: Shown, path: str | None, of: str | None) -> None:
    plan = plan if of is None else plan.of(of)
    if path is None:
        repl.output.plan(plan)
    else:
        plan.save(repl.db.workspace.policy.writing(path, None))
        say(f"-> {path}")
