"""The relations of a database as a table: what `%datalog_relations` shows."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from gdatalog.database import Database
from gdatalog.errors import Error
from gdatalog.parser import Program
from gdatalog.parser.syntax import Rule
from gdatalog.present import html_table


@dataclass(frozen=True, slots=True)
class Line:
    """`rows`: how many, or what kind of error keeps us from knowing."""

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
        schemas = [f"{line.name}({line.columns})" for line in self.lines]
        wide = max(map(len, schemas))
        deep = max(len(line.rows) for line in self.lines)
        return "\n".join(
            f"{schema:<{wide}}  {line.rows:>{deep}}  {line.origin}"
            for schema, line in zip(schemas, self.lines, strict=True)
        )

    def _repr_html_(self) -> str:
        if not self.lines:
            return f"<p>{escape(repr(self))}</p>"
        rows = [(line.name, line.columns, line.rows, line.origin) for line in self.lines]
        names, kinds = (
            ("relation", "columns", "rows", "from"),
            ("symbol", "symbol", "int", "symbol"),
        )
        return html_table(names, kinds, rows, types=False)


def list_relations(db: Database) -> Listing:
    """All relations, each evaluated to tell its rows; what was evaluated before is used."""
    with db._lock:
        workspace = db._workspace
        session = workspace.session(Program(()), lasting=True)
        ruled = {
            head.name
            for rule in workspace.statements()
            if isinstance(rule, Rule) and rule.body is not None
            for head in rule.heads
        }
        lines = []
        for name, schema in sorted(session.checked.schemas.items()):
            if name.startswith("?"):
                continue
            try:
                rows = f"{session.relation(name).length:,}"
            except Error as error:
                rows = error.kind
            pairs = zip(schema.columns, schema.types, strict=True)
            columns = ", ".join(f"{column}: {kind}" for column, kind in pairs)
            lines.append(Line(name, columns, rows, "rules" if name in ruled else "data"))
        return Listing(tuple(lines))
