"""The relations of a database as a table: what `%datalog_relations` shows."""

from __future__ import annotations

from gdatalog.database import Database
from gdatalog.present import html_table
from gdatalog.records import dataclass
from gdatalog.relations import catalog
from gdatalog.shell.statements import known_size
from gdatalog.widths import visible, visible_html, width

INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Line:
    """`rows`: how many, that this is not known yet, or that the relation is invalid; then `origin`
    says why."""

    name: str
    columns: str
    rows: str
    origin: str


@dataclass(frozen=True, slots=True)
class Listing:
    lines: tuple[Line, ...]

    def __repr__(self) -> str:
        if not self.lines:
            return (
                "no relations yet: %datalog_load E edges.csv, or a cell that begins with %%datalog"
            )
        schemas = [
            visible(line.name if line.rows == INVALID else f"{line.name}({line.columns})")
            for line in self.lines
        ]
        wide = max(map(width, schemas))
        deep = max(len(line.rows) for line in self.lines)
        return "\n".join(
            f"{schema}{' ' * (wide - width(schema))}  {line.rows:>{deep}}  {visible(line.origin)}"
            for schema, line in zip(schemas, self.lines, strict=True)
        )

    def _repr_html_(self) -> str:
        if not self.lines:
            return f"<p>{visible_html(repr(self))}</p>"
        rows = [(line.name, line.columns, line.rows, line.origin) for line in self.lines]
        names, kinds = (
            ("relation", "columns", "rows", "from"),
            ("symbol", "symbol", "int", "symbol"),
        )
        return html_table(names, kinds, rows, types=False)


def list_relations(db: Database) -> Listing:
    """All relations, with their sizes as far as they are known; nothing is evaluated."""
    with db.call():
        return Listing(
            tuple(
                Line(entry.name, entry.columns, known_size(entry), entry.origin)
                for entry in catalog(db.workspace)
            )
        )
