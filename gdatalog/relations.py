"""The relations of a database as a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gdatalog.errors import NameResolutionError
from gdatalog.parser import Program
from gdatalog.planner.checked import Schema
from gdatalog.result import Result
from gdatalog.widths import visible

if TYPE_CHECKING:
    from gdatalog.database import Database


class Relations(Mapping[str, Result]):
    """The relations of a database, by name."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def _names(self) -> dict[str, Schema]:
        with self._db._lock:
            return self._db._workspace.schemas()

    def __getitem__(self, name: str) -> Result:
        workspace = self._db._workspace
        with self._db._lock:
            session = workspace.session(Program(()), lasting=True)
            if name not in session.checked.schemas:
                raise NameResolutionError(
                    f"there is no relation {name!r}", hint=workspace.near(name)
                )
            return Result(session.relation(name), workspace.symbols)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def schema(self, name: str) -> Schema:
        """A relation's columns and types; nothing is evaluated."""
        return self._names()[name]

    def __repr__(self) -> str:
        lines = []
        for name, schema in self._names().items():
            columns = ", ".join(map(": ".join, zip(schema.columns, schema.types, strict=True)))
            lines.append(f"{name}({columns})")
        return "\n".join(map(visible, lines)) or "no relations"
