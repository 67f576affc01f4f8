"""What `.undo` takes back: each change of the database at the prompt, and how it was before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gdatalog.engine.session import Kept
from gdatalog.errors import Error
from gdatalog.storage.file_sets import version_of
from gdatalog.storage.lineage import Version
from gdatalog.storage.relation import Relation

if TYPE_CHECKING:
    from gdatalog.shell.repl import Repl

MOST = 1000  # changes
MOST_TEXTS = 200_000  # statements that are noted, in all changes together
SHARE = 8  # of the memory limit: so much may be held for `.undo` alone


@dataclass(frozen=True, slots=True)
class Loaded:
    """The file that a relation was loaded from, as it was then."""

    path: str
    changed: tuple[int, int]
    version: Version

    @staticmethod
    def of(path: str, relation: Relation) -> Loaded:
        there = os.path.abspath(path)
        return Loaded(there, _changed(there), relation.version)

    def same(self, relation: Relation) -> bool:
        """Whether the file still holds the relation."""
        return relation.version is self.version and _changed(self.path) == self.changed


def _changed(path: str) -> tuple[int, int]:
    try:
        return version_of(path)
    except (OSError, Error):
        return 0, 0


@dataclass(frozen=True, slots=True)
class State:
    """A database at one time. Nothing in it is changed in place."""

    texts: dict[str, Kept]
    stored: dict[str, Relation]
    loaded: Mapping[str, Loaded]


@dataclass(slots=True)
class History:
    """The changes that can be taken back, the last one last."""

    most_bytes: int
    changes: list[tuple[str, State]] = field(default_factory=list)
    noted: int = 0  # statements, in all of them
    dropped: bool = False  # whether older ones were let go of for the data that they held

    def state(self, repl: Repl) -> State:
        workspace = repl.db._workspace
        return State(workspace.texts, workspace.stored, repl.loaded)

    def keep(self, repl: Repl, what: str, before: State) -> None:
        """Notes that the database has been changed, and how it was before."""
        self.changes.append((what, before))
        self.noted += len(before.texts)
        while len(self.changes) > 1 and (len(self.changes) > MOST or self.noted > MOST_TEXTS):
            self._forget_first()
        in_use = set(map(id, repl.db._workspace.stored.values()))
        while self.changes and self._held_without(in_use) > self.most_bytes:
            self._forget_first()
            self.dropped = True

    def _forget_first(self) -> None:
        _, state = self.changes.pop(0)
        self.noted -= len(state.texts)

    def _held_without(self, in_use: set[int]) -> int:
        """The bytes of data that nothing else holds."""
        held = {id(r): r for _, state in self.changes for r in state.stored.values()}
        return sum(_bytes(r) for key, r in held.items() if key not in in_use)

    def take_back(self, repl: Repl) -> str | None:
        """Has the database as it was before the last change; says what that was."""
        if not self.changes:
            return None
        what, state = self.changes.pop()
        self.noted -= len(state.texts)
        workspace = repl.db._workspace
        workspace.texts, workspace.stored = state.texts, state.stored
        repl.loaded = state.loaded
        return what


def _bytes(relation: Relation) -> int:
    return relation.at_most * 8 * len(relation.types)  # with an index, about
