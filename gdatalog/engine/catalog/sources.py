"""The `.input`s of relations: directives, with the folders of their texts."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.engine.catalog.folders import Folders
from gdatalog.parser.syntax import Decl, Directive, Statement

# A directive, and the folders of its text.
Source = tuple[Directive, Folders]


def input_sources(texts: Sequence[tuple[Sequence[Statement], Folders]]) -> dict[str, list[Source]]:
    """The `.input`s of each relation."""
    found: dict[str, list[Source]] = {}
    for statements, folders in texts:
        for statement in statements:
            if isinstance(statement, Directive) and statement.kind == "input":
                for name in statement.names:
                    found.setdefault(name, []).append((statement, folders))
            if isinstance(statement, Decl) and "input" in statement.qualifiers:
                for name in statement.names:
                    directive = Directive("input", (name,), span=statement.span)
                    found.setdefault(name, []).append((directive, folders))
    return found
