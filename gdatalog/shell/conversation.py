"""The state of a conversation at the prompt: its database, its settings, and what `.undo` needs."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping

from gdatalog.database import Database
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.catalog.texts import ProgramTexts
from gdatalog.errors import Error, NameResolutionError, UsageError
from gdatalog.parser.fact_statements import number_of
from gdatalog.progress import amount
from gdatalog.records import dataclass, field, replace
from gdatalog.shell.messages import say
from gdatalog.shell.output import Output
from gdatalog.shell.progress_line import ProgressLine
from gdatalog.storage.file_sets import version_of
from gdatalog.storage.history import Version
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemoteRows

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


def holds(db: Database) -> str:
    """What a database holds, in numbers."""
    workspace = db.workspace
    rows = sum(relation.at_most for relation in workspace.stored.values())
    statements = number_of(workspace.statements())
    return f"{amount(rows, 'rows')} of data, {amount(statements, 'statements')}"


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
