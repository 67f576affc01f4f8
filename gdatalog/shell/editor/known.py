"""A snapshot of a database for the prompt.

Key presses never access the database, which may be busy and locked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gdatalog.records import dataclass, field

if TYPE_CHECKING:
    from gdatalog.database import Database


Columns = tuple[tuple[str, str], ...]  # names and types
STAND_INS = ("", "N", "SECONDS", "SIZE")  # placeholders for values that users choose


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Names, for completion and highlighting.

    `commands`: by name, the arguments and summary from the registry. `settings`: the settings of
    `.set`, with their values.
    """

    relations: Mapping[str, Columns] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    commands: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status:
    """The contents of the bottom bar. `invalid` counts invalid relations, `rows` the rows of data
    and of evaluated relations."""

    device: str
    why: str
    relations: int
    invalid: int
    rows: int
    used: int | None
    limit: int


def place_of(db: Database) -> str:
    """Where queries run: the device, and the workers if there are any."""
    return db.device if db.cluster is None else f"{db.device} and {db.cluster}"


def look(db: Database) -> tuple[KnownNames, Status]:
    """Takes a snapshot of a database, without evaluating anything."""
    from gdatalog.engine.devices import PLAIN
    from gdatalog.parser.syntax import TypeDecl
    from gdatalog.shell.commands.settings import prompt_settings
    from gdatalog.shell.progress_line import memory_used
    from gdatalog.shell.registry import COMMANDS

    workspace = db.workspace
    with db.call():
        try:
            schemas, broken = workspace.standing()
        except Exception:  # queries report the error; the prompt works without names
            schemas, broken = {}, {}
        held = {**workspace.evaluated(), **workspace.stored}
        known = KnownNames(
            {
                name: tuple(zip(schema.columns, schema.types, strict=True))
                for name, schema in schemas.items()
            }
            | dict.fromkeys(broken, ()),
            tuple(s.name for s in workspace.texts.outline() if isinstance(s, TypeDecl)),
            tuple(workspace.catalog.params),
            {c.name: (c.arguments, c.summary) for c in COMMANDS.values()},
            {
                name: tuple(value for value in setting.values.split("|") if value not in STAND_INS)
                for name, setting in prompt_settings().items()
                if setting.values
            },
        )
        status = Status(
            place_of(db),
            "" if workspace.why in PLAIN else workspace.why,
            len({*schemas, *broken}),
            len(broken),
            sum(relation.at_most for name, relation in held.items() if name in schemas),
            memory_used(),
            db.memory_limit,
        )
    return known, status
