"""Other tools that docs/ shows queries of, where they are installed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gdatalog as gd

PEERS = {"sql": "duckdb", "cypher": "kuzu"}  # the module that runs a language

Rows = tuple[list[str], list[tuple[Any, ...]]]  # names of columns, and rows


class Peers:
    """Other tools, for what a page shows of them; each is opened when it is first needed."""

    def __init__(self) -> None:
        self._open: dict[str, Any] = {}

    def run(self, language: str, text: str, folder: Path) -> str | None:
        """The rows that a text gives, as gdatalog shows them; None where the tool is missing."""
        if find_spec(PEERS[language]) is None:
            return None
        if language not in self._open:
            self._open[language] = getattr(self, f"_{language}")()
        with chdir(folder):
            names, rows = self._open[language](text)
        if not rows:
            return ""
        with gd.connect() as db:
            db.load("answer", rows, columns=names)
            return f"{db['answer'].sorted().format(20)}\n"  # as at the prompt

    def _sql(self) -> Callable[[str], Rows]:
        import duckdb

        connection = duckdb.connect()

        def run(text: str) -> Rows:
            asks = connection.extract_statements(text)[-1].type == duckdb.StatementType.SELECT
            done = connection.execute(text)
            names = [column[0] for column in done.description or ()]
            return names, done.fetchall() if asks else []

        return run

    def _cypher(self) -> Callable[[str], Rows]:
        import kuzu

        connection = kuzu.Connection(kuzu.Database(":memory:"))

        def run(text: str) -> Rows:
            done = connection.execute(text)
            last = done[-1] if isinstance(done, list) else done
            names = [name.rpartition(".")[2] for name in last.get_column_names()]
            rows = []
            while last.has_next():
                rows.append(tuple(last.get_next()))
            return names, rows if "return" in text.lower() else []

        return run
