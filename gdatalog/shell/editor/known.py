"""A snapshot of a database for the prompt: names for completion, and the bottom bar.

Key presses never access the database, which may be busy and locked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gdatalog.progress import amount, format_bytes
from gdatalog.records import dataclass, field
from gdatalog.values import visible

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
    from gdatalog.shell.conversation import COMMANDS
    from gdatalog.shell.progress_line import memory_used

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


# The bar below the prompt: device, relations, and the call being typed.

Pieces = list[tuple[str, str]]  # style and text


def bar(
    status: Status | None,
    doing: str,
    hint: str,
    argument: tuple[str, str, str] | None,
    help_: str,
    columns: int,
) -> Pieces:
    """The bar's contents, as far as they fit into `columns`. Without a status the engine is still
    starting.

    >>> status = Status("cpu", "", 2, 0, 1500, None, 8 << 30)
    >>> "".join(text for _, text in bar(status, "", "", None, "Tab completes", 40))
    'cpu · 2 relations, 1,500 rows · 8.0 GiB'
    """
    if status is None:
        return [("class:bar-busy", doing or "starting")]
    memory = format_bytes(status.limit)
    if status.used is not None:
        memory = f"{format_bytes(status.used)} of {memory}"
    counts = amount(status.relations, "relations")
    if status.invalid:
        counts += f" ({status.invalid:,} invalid)"
    counts += f", {amount(status.rows, 'rows')}"
    # In order of importance: on a narrow terminal the last parts are dropped.
    first = [("device", status.device), ("busy", doing), ("hint", hint)]
    parts: list[Pieces] = [[(f"class:bar-{kind}", text)] for kind, text in first if text]
    if argument is not None:
        before, at, after = argument
        parts.append([("", before), ("class:bar-argument", at), ("", after)])
    parts += [[("", counts)], [("", memory)], [("", help_)]]
    shown: Pieces = []
    for part in parts:
        columns -= sum(len(text) for _, text in part) + 3
        if columns < -3:
            break
        shown += [("", " · ")] * bool(shown) + part
    return [(style, visible(text)) for style, text in shown]
