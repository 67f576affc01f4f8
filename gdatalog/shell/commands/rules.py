"""Commands on rules and plans: `.rules`, `.undo`, `.save`, `.read`, `.explain` and `.profile`."""

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
from gdatalog.report.shown import Shown
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
