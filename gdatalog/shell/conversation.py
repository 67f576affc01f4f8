"""The state of a conversation at the prompt: its database, its commands, `.undo` and `.save`."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

from gdatalog.database import Database
from gdatalog.distribution import VERSION
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.catalog.parameters import GivenList, parameter
from gdatalog.engine.catalog.texts import ProgramTexts
from gdatalog.engine.execution import Execution
from gdatalog.engine.facts.files import beside
from gdatalog.errors import Error, NameResolutionError, UsageError
from gdatalog.parser import format_node
from gdatalog.parser.fact_statements import one_by_one
from gdatalog.parser.syntax import Decl, Directive, ListParam, Param, Rule, Statement
from gdatalog.planner.check.walk import walk
from gdatalog.records import dataclass, field, replace
from gdatalog.shell.messages import say
from gdatalog.shell.output import Output
from gdatalog.shell.progress_line import ProgressLine
from gdatalog.storage.facts_files import find_facts
from gdatalog.storage.file_sets import version_of
from gdatalog.storage.history import Version
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemoteRows
from gdatalog.values import TypeName, Value, quoted, timestamp_to_text

MOST_CHANGES = 1000  # changes
MOST_TEXTS = 200_000  # statements held only for `.undo`, over all changes
SHARE = 8  # one eighth of the memory limit may be held only for `.undo`


@dataclass(frozen=True, slots=True)
class Loaded:
    """The file that a relation was loaded from, with the file's version at that time."""

    path: str
    changed: tuple[int, int]
    version: Version
    options: tuple[tuple[str, str], ...] = ()  # options of the `.load`

    @staticmethod
    def of(path: str, relation: Relation, options: Mapping[str, str] | None = None) -> Loaded:
        there = os.path.abspath(path)
        given = tuple((options or {}).items())
        return Loaded(there, _changed(there), relation.version, given)

    def same(self, relation: Relation) -> bool:
        """Whether neither the relation nor the file has changed since it was loaded."""
        return relation.version is self.version and _changed(self.path) == self.changed


def _changed(path: str) -> tuple[int, int]:
    try:
        return version_of(path)
    except (OSError, Error):
        return 0, 0


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """An immutable snapshot of a database."""

    texts: ProgramTexts
    stored: Mapping[str, Relation]
    loaded: Mapping[str, Loaded]


@dataclass(slots=True)
class History:
    """The changes that `.undo` can revert, oldest first."""

    most_bytes: int
    changes: deque[tuple[str, DatabaseState]] = field(default_factory=deque)
    dropped: bool = False  # older changes were forgotten, because they held too much data

    def state(self, repl: Conversation) -> DatabaseState:
        workspace = repl.db.workspace
        return DatabaseState(workspace.texts, workspace.stored, repl.loaded)

    def relations(self) -> Iterator[Relation]:
        """The relations that changes hold."""
        several = {id(state.stored): state.stored for _, state in self.changes}  # shared by many
        return (relation for stored in several.values() for relation in stored.values())

    def keep(self, repl: Conversation, what: str, before: DatabaseState) -> None:
        """Records a change and the state before it. Beyond the limits, the oldest changes are
        forgotten."""
        self.changes.append((what, before))
        workspace = repl.db.workspace
        while len(self.changes) > 1 and (
            len(self.changes) > MOST_CHANGES
            or self._noted_without(workspace.texts.log) > MOST_TEXTS
        ):
            self.changes.popleft()
        in_use = set(map(id, workspace.stored.values()))
        while self.changes and self._held_without(in_use) > self.most_bytes:
            self.changes.popleft()
            self.dropped = True

    def moved(self, repl: Conversation, before: Mapping[str, Relation]) -> None:
        """Adapts the history after the database moved to other workers or to none. Relations that
        were read again replace their versions of `before`; a change whose rows lay on the old
        workers is forgotten, and all changes before it."""
        now = repl.db.workspace.stored
        changes, self.changes = self.changes, deque()
        made: dict[int, Mapping[str, Relation]] = {}  # by the id of the dict they replace
        while changes:
            what, state = changes.pop()
            again = {name for name, r in state.stored.items() if before.get(name) is r}
            again = {name for name in again if now.get(name) is not before[name]}
            gone = (r for name, r in state.stored.items() if name not in again)
            if any(isinstance(relation.store, RemoteRows) for relation in gone):
                self.dropped = True
                return
            stored = made.setdefault(
                id(state.stored), {**state.stored, **{name: now[name] for name in again}}
            )
            loaded = {**state.loaded, **{name: repl.loaded[name] for name in again}}
            self.changes.appendleft((what, DatabaseState(state.texts, stored, loaded)))

    def _noted_without(self, in_use: list[str]) -> int:
        """The number of statements that only `.undo` holds."""
        logs = {id(state.texts.log): state.texts.log for _, state in self.changes}
        return sum(len(log) for log in logs.values() if log is not in_use)

    def _held_without(self, in_use: set[int]) -> int:
        """The bytes of data that only `.undo` holds."""
        held = {id(relation): relation for relation in self.relations()}
        # Roughly, with one index.
        return sum(r.at_most * 8 * len(r.types) for key, r in held.items() if key not in in_use)

    def take_back(self, repl: Conversation) -> str | None:
        """Restores the state before the last change; returns that change's description."""
        if not self.changes:
            return None
        what, state = self.changes.pop()
        workspace = repl.db.workspace
        workspace.catalog = workspace.catalog.with_texts(state.texts).with_data(state.stored)
        repl.loaded = state.loaded
        workspace.tell_invalid()
        return what


class Conversation:
    """What commands work on: a database, its output, parameters and history.

    `interactive`: the input is a terminal. `bail`: it ends at the first error.
    """

    def __init__(
        self,
        db: Database,
        output: Output,
        folders: Folders | None = None,
        params: Mapping[str, object] | None = None,
        *,
        interactive: bool = True,
        bail: bool = False,
    ) -> None:
        self.db = db
        self.output = output
        self.folders = folders or Folders()
        db.workspace.catalog = replace(db.workspace.catalog, folders=self.folders)
        self.params = dict(params or {})
        self.interactive = interactive
        self.bail = bail
        self.timer = False
        self.line = ProgressLine(sys.stderr, db.workspace.watch)
        self.loaded: Mapping[str, Loaded] = {}  # the files that `.load` read
        self.history = History(db.memory_limit // SHARE)  # of `.undo`
        self.failed: list[BaseException] = []
        db.workspace.set_aside = self.history.relations
        db.workspace.on_caution = lambda caution: say(caution.format())

    def check_trusted(self, what: str) -> None:
        """Raises if the prompt runs with --untrusted."""
        if self.db.workspace.untrusted:
            raise UsageError(f"{what} is not allowed with --untrusted")

    def known(self, name: str) -> str:
        """Returns the name if such a relation exists; otherwise raises."""
        if name not in self.db.relations:
            hint = self.db.workspace.near(name) or ".relations lists them"
            raise NameResolutionError(f"there is no relation {name!r}", hint=hint)
        return name


# `.save` writes a program that restores the database.
#
# Relations that came from no file, or whose file has changed since, are written beside the
# program as Parquet, which keeps every value; the program reads them from there.


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


def parameter_text(value: object, kind: str | None = None) -> str:
    """Formats a value as `-M` and `.set` accept it.

    >>> parameter_text(7), parameter_text(7, "float"), parameter_text("007"), parameter_text(True)
    ('7', '7.0', '"007"', 'true')
    """
    own, plain = parameter("", value)
    if isinstance(plain, GivenList):
        return "{" + ", ".join(_one(each, plain.kind, kind) for each in plain.values()) + "}"
    return _one(plain, own if isinstance(own, str) else "symbol", kind)


def _one(plain: Value, own: TypeName, kind: str | None) -> str:
    if own == "symbol":
        return quoted(str(plain))
    if "timestamp" in (own, kind):
        return timestamp_to_text(int(plain))
    if own == "bool":
        return "true" if plain else "false"
    return repr(float(plain)) if kind == "float" else repr(plain)


# The registry of the prompt's commands.


Group = Literal["rules", "data", "plans", "settings", "help"]  # in the order of `.help`
Run = Callable[[Conversation, list[str]], None]


class Leave(Exception):
    """Raised to end the prompt."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command. `.help` shows `arguments` and `summary`, `.help COMMAND` also `examples` and
    `more`. `trusted`: refused with --untrusted, because it uses files, other machines or limits.
    `raw`: it takes all that follows its name as one argument."""

    name: str
    arguments: str
    summary: str
    group: Group
    examples: tuple[str, ...]
    run: Run
    more: str = ""
    trusted: bool = False
    raw: bool = False

    @property
    def usage(self) -> str:
        return f".{self.name} {self.arguments}".rstrip()

    @property
    def example(self) -> str | None:
        return f"for example {self.examples[0]}" if self.examples else None

    def misused(self) -> UsageError:
        return UsageError(f"expected {self.usage}", hint=self.example)

    def words(self, rest: str) -> list[str]:
        """Splits what follows the name into as many arguments as `arguments` shows, of which those
        in brackets may be missing; quotes keep spaces together."""
        if self.raw:
            return [rest]
        try:
            words = shlex.split(rest)
        except ValueError:
            raise UsageError(f"a quote is not closed: {rest}") from None
        shown = self.arguments.split()
        least = sum(not word.startswith(("[", "...")) for word in shown)
        if not least <= len(words) <= (1000 if "..." in shown else len(shown)):
            raise self.misused()
        return words


COMMANDS: dict[str, Command] = {}


def command(
    group: Group,
    name: str,
    arguments: str,
    summary: str,
    *examples: str,
    more: str = "",
    trusted: bool = False,
    raw: bool = False,
) -> Callable[[Run], Run]:
    """Registers a function as a command."""

    def register(run: Run) -> Run:
        COMMANDS[name] = Command(name, arguments, summary, group, examples, run, more, trusted, raw)
        return run

    return register
