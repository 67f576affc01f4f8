"""What the rows of a part are made of, on the worker that needs them.

A part's value is an argument of calls, where it is one of these:

    columns of keys                       what a call gave and left there
    what has `columns()`                  the same, with more beside
    {"read": Reading, "texts": codes}     how a worker reads them, and the codes of their texts
    {"rows": another, "without": places}  the rows of another that are not in these places
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from gdatalog.storage.rows import Columns


class Reading(Protocol):
    """How rows are read."""

    def read(self, texts: Any) -> Columns:
        """As keys; `texts`: what tells the codes of texts, where there are any."""
        ...


def columns_of(value: Any) -> Columns:
    """The rows of a part, as a worker is given its value."""
    if not isinstance(value, dict):
        beside = getattr(value, "columns", None)
        return tuple(value) if beside is None else tuple(beside())
    if "read" in value:
        found: Columns = value["read"].read(value["texts"])
        return found
    rows = columns_of(value["rows"])
    keep = np.ones(len(rows[0]), dtype=np.bool_)
    keep[value["without"]] = False
    return tuple(column[keep] for column in rows)


def piece_of(value: Any, start: int, stop: int) -> Columns:
    """Some of the rows."""
    return tuple(column[start:stop] for column in columns_of(value))
