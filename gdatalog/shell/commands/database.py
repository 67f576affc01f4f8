"""Commands on what the database holds: its relations, its rules and their plans."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import cast

from gdatalog.database import Database
from gdatalog.engine.execution import Execution
from gdatalog.engine.facts.files import writable
from gdatalog.engine.facts.outputs import write_answer
from gdatalog.errors import Error, UsageError
from gdatalog.parser import Program, format_node
from gdatalog.parser.fact_statements import number_of
from gdatalog.parser.syntax import Rule, Statement
from gdatalog.planner.check.statements import Part, is_fact, names_of, ruled, without
from gdatalog.planner.check.validity import Validity
from gdatalog.progress import amount, format_bytes
from gdatalog.relations import catalog
from gdatalog.report import Shown
from gdatalog.result import Result
from gdatalog.shell.conversation import COMMANDS, Conversation, Loaded, command, saved
from gdatalog.shell.messages import aligned, say, size_of
from gdatalog.shell.progress_line import memory_used
from gdatalog.shell.statements import NOT_EVALUATED, known_size, schema_text, take_file
from gdatalog.shell.typed import OF_PART, WITH_PASSES
from gdatalog.storage.load_options import TEXT_OPTIONS, options_of_text
from gdatalog.storage.writers import write_text
from gdatalog.values import visible

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
    "data", "load", "[NAME] FILE ...", "load a file, replacing the relation's data",
    ".load edge edges.csv", ".load edges.csv header=false", '.load edge "my data/edges*.tsv.gz"',
    more="Without a name, the relation is named after the file. A folder stands for its Parquet "
    "files, a pattern for the files that it matches. Formats: .csv .tsv .parquet .arrow .json "
    ".jsonl .facts; text files may be compressed, as .gz or .zst. Options: header=true|false "
    "says whether the first line has names (default: detected); columns=a,b loads only these "
    "columns; nulls=drop drops rows with missing values; fill=age=0,city=unknown fills them in; "
    "row_id=id adds a column of row numbers.",
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
    columns = ", ".join(map(": ".join, zip(relation.columns, relation.types, strict=True)))
    if again:
        duplicates = f"{again:,} duplicate row{'s' * (again != 1)}"
        text += f", {duplicates} dropped (row_id=id keeps all)"
    header = {True: ", with a header", False: ", no header", None: ""}[found.header]
    header += " (a guess)" if guess is not None else ""
    say(f"{name}({columns}): {text}{header} ({perf_counter() - started:.3f} s)")


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


# ----------------------------------------------------------------------------- rules and plans


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


# Commands on plans.


@command(
    "plans", "explain", "QUERY [> FILE]", "show how a query or rule would be evaluated",
    ".explain ?- path(1, y).", ".explain --of * ?- path(1, y).",
    ".explain path(1, y). > plan.html",
    more="Evaluates nothing. A plan of many rules is folded: --of shows the rules of one "
    "relation, stratum (3) or rule (3.2) in full, --of * all. --passes shows the rules after each "
    "pass of the planner. The ending of FILE chooses the format: .html, .json, .mmd (mermaid) or "
    ".txt.",
    raw=True,
)  # fmt: skip
def _explain(repl: Conversation, words: list[str]) -> None:
    rest = WITH_PASSES.sub(r"\1", words[0], count=1) if WITH_PASSES.match(words[0]) else words[0]
    plan_of = partial(repl.db.explain, passes=rest != words[0])
    _show_plan(repl, "explain", rest, plan_of)


@command(
    "plans", "profile", "QUERY [> FILE]", "run a query; show rows and time of each step",
    ".profile ?- path(1, y).", ".profile --of * ?- path(1, y).",
    ".profile path(1, y). > profile.html",
    more="Relations are evaluated again, even if their rows are known. --of shows a "
    "part in full, as in .explain. The ending of FILE chooses the format: .html, .json, .mmd "
    "(mermaid) or .txt.",
    raw=True,
)  # fmt: skip
def _profile(repl: Conversation, words: list[str]) -> None:
    _show_plan(repl, "profile", words[0], repl.db.profile)


# The file's ending tells `> FILE` from a comparison.
_NAME = r"""(["']?)([^\s"']+|(?<=["'])[^"']+)\.(html|json|mmd|txt)\2"""
_INTO = re.compile(rf"(.*?)\s*>\s*{_NAME}\s*", re.DOTALL)


def _show_plan(
    repl: Conversation, name: str, rest: str, plan_of: Callable[[str, Mapping[str, object]], Shown]
) -> None:
    """Shows the plan of a query, or the part after `--of`, or writes it to the file after `>`."""
    part = OF_PART.match(rest)
    rest = rest[part.end() :] if part else rest
    found = _INTO.fullmatch(rest)
    text = found[1] if found else rest
    if found:
        repl.check_trusted(f".{name} into a file")
    if not text:
        raise UsageError(f".{name} needs a query or a rule", hint=COMMANDS[name].example)

    def show(plan: Shown) -> None:
        plan = plan.of(part[1]) if part else plan
        if found:
            path = f"{found[3]}.{found[4]}"
            plan.save(writable(path, repl.db.workspace.files))
            say(f"-> {path}")
        else:
            repl.output.plan(plan)

    try:
        with repl.line(name):
            plan = plan_of(text, repl.params)
    except (Error, KeyboardInterrupt) as error:
        if name == "profile" and getattr(error, "profile", None) is not None:
            show(vars(error)["profile"])
        raise
    show(plan)
