"""What `.undo` takes back: each change of the database at the prompt, and how it was before."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from gdatalog.engine.session.texts import Log, ProgramTexts
from gdatalog.errors import Error
from gdatalog.records import dataclass, field
from gdatalog.storage.file_sets import version_of
from gdatalog.storage.lineage import Version
from gdatalog.storage.relation import Relation
from gdatalog.storage.remote import RemoteRows

if TYPE_CHECKING:
    from gdatalog.shell.repl import Repl

Thing = TypeVar("Thing")

MOST = 1000  # changes
MOST_TEXTS = 200_000  # that only `.undo` needs, in all changes together
SHARE = 8  # of the memory limit: so much may be held for `.undo` alone


@dataclass(frozen=True, slots=True)
class Loaded:
    """The file that a relation was loaded from, as it was then."""

    path: str
    changed: tuple[int, int]
    version: Version
    options: tuple[tuple[str, str], ...] = ()  # of the `.load`

    @staticmethod
    def of(path: str, relation: Relation, options: Mapping[str, str] | None = None) -> Loaded:
        there = os.path.abspath(path)
        given = tuple((options or {}).items())
        return Loaded(there, _changed(there), relation.version, given)

    def same(self, relation: Relation) -> bool:
        """Whether the file still holds the relation."""
        return relation.version is self.version and _changed(self.path) == self.changed


def _changed(path: str) -> tuple[int, int]:
    try:
        return version_of(path)
    except (OSError, Error):
        return 0, 0


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """A database at one time. Nothing in it is changed in place."""

    texts: ProgramTexts
    stored: dict[str, Relation]
    loaded: Mapping[str, Loaded]


class Held(Generic[Thing]):
    """What changes hold, many of them the same."""

    def __init__(self) -> None:
        self._things: dict[int, tuple[Thing, int]] = {}  # and how many changes hold it

    def __iter__(self) -> Iterator[Thing]:
        return (thing for thing, _ in self._things.values())

    def add(self, thing: Thing) -> None:
        _, times = self._things.get(id(thing), (thing, 0))
        self._things[id(thing)] = thing, times + 1

    def drop(self, thing: Thing) -> None:
        _, times = self._things.pop(id(thing))
        if times > 1:
            self._things[id(thing)] = thing, times - 1


@dataclass(slots=True)
class History:
    """The changes that can be taken back, the last one last."""

    most_bytes: int
    changes: deque[tuple[str, DatabaseState]] = field(default_factory=deque)
    dropped: bool = False  # whether older ones were let go of for the data that they held
    _logs: Held[Log] = field(default_factory=Held)
    _stored: Held[dict[str, Relation]] = field(default_factory=Held)

    def state(self, repl: Repl) -> DatabaseState:
        workspace = repl.db.workspace
        return DatabaseState(workspace.texts, workspace.stored, repl.loaded)

    def relations(self) -> Iterator[Relation]:
        """The data that changes hold."""
        return (relation for stored in self._stored for relation in stored.values())

    def keep(self, repl: Repl, what: str, before: DatabaseState) -> None:
        """Notes that the database has been changed, and how it was before."""
        self.changes.append((what, before))
        self._logs.add(before.texts.log)
        self._stored.add(before.stored)
        workspace = repl.db.workspace
        while len(self.changes) > 1 and (
            len(self.changes) > MOST or self._noted_without(workspace.texts.log) > MOST_TEXTS
        ):
            self._let_go(*self.changes.popleft())
        in_use = set(map(id, workspace.stored.values()))
        while self.changes and self._held_without(in_use) > self.most_bytes:
            self._let_go(*self.changes.popleft())
            self.dropped = True

    def moved(self, repl: Repl, before: Mapping[str, Relation]) -> None:
        """Follows the database to other workers, or to none. What was read again there stands for
        what it was `before`; rows that lay on those that are gone cannot come back."""
        now = repl.db.workspace.stored
        changes, self.changes = self.changes, deque()
        made: dict[int, dict[str, Relation]] = {}  # by id of what they replace
        for _, state in changes:
            self._logs.drop(state.texts.log)
            self._stored.drop(state.stored)
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
            self._logs.add(state.texts.log)
            self._stored.add(stored)

    def _let_go(self, what: str, state: DatabaseState) -> None:
        self._logs.drop(state.texts.log)
        self._stored.drop(state.stored)

    def _noted_without(self, in_use: Log) -> int:
        """The texts that nothing else holds."""
        return sum(len(log.keys) for log in self._logs if log is not in_use)

    def _held_without(self, in_use: set[int]) -> int:
        """The bytes of data that nothing else holds."""
        held = {id(r): r for stored in self._stored for r in stored.values()}
        return sum(_bytes(r) for key, r in held.items() if key not in in_use)

    def take_back(self, repl: Repl) -> str | None:
        """Has the database as it was before the last change; says what that was."""
        if not self.changes:
            return None
        what, state = self.changes.pop()
        self._let_go(what, state)
        workspace = repl.db.workspace
        workspace.texts, workspace.stored = state.texts, state.stored
        repl.loaded = state.loaded
        workspace.tell_invalid()
        return what


def _bytes(relation: Relation) -> int:
    return relation.at_most * 8 * len(relation.types)  # with an index, about
