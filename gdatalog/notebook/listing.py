"""The table of relations that `%datalog_relations` shows."""

from __future__ import annotations

from gdatalog.database import Database
from gdatalog.present import html_table
from gdatalog.records import dataclass
from gdatalog.relations import catalog
from gdatalog.shell.messages import aligned
from gdatalog.shell.statements import known_size
from gdatalog.terminal_text import visible_html

INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Listing:
    """For each relation its name, columns, number of rows if known, and origin; for an invalid one,
    the error."""

    lines: tuple[tuple[str, str, str, str], ...]

    def __repr__(self) -> str:
        if not self.lines:
            return (
                "no relations yet: %datalog_load E edges.csv, or a cell that begins with %%datalog"
            )
        rows = (
            (name if rows == INVALID else f"{name}({columns})", rows, origin)
            for name, columns, rows, origin in self.lines
        )
        return aligned(rows, right=(1,))

    def _repr_html_(self) -> str:
        if not self.lines:
            return f"<p>{visible_html(repr(self))}</p>"
        names = ("relation", "columns", "rows", "from")
        kinds = ("symbol", "symbol", "int", "symbol")
        return html_table(names, kinds, self.lines, types=False)


def list_relations(db: Database) -> Listing:
    """All relations, with their sizes if known without evaluation."""
    with db.call():
        entries = catalog(db.workspace)
        return Listing(tuple((e.name, e.columns, known_size(e), e.origin) for e in entries))
