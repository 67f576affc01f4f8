"""What the rows of a part are made of, on the worker that needs them.

A part's value is an argument of calls, where it is one of these:

    columns of keys                       what a call gave and left there
    what has `columns()`                  the same, with more beside
    {"read": Reading, "texts": codes}     how a worker reads them, and the codes of their texts
    {"rows": another, "without": places}  the rows of another that are not in these places
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gdatalog.storage.rows import Columns


class PartReader(Protocol):
    """How rows are read."""

    def read(self, texts: Any, columns: Sequence[int] | None = None) -> Columns:
        """As keys, all columns or some; `texts`: what tells the codes of texts, where there are
        any."""
        ...


def columns_of(value: Any, columns: Sequence[int] | None = None) -> Columns:
    """The rows of a part, as a worker is given its value: all columns, or some of them."""
    if isinstance(value, dict) and "read" in value:
        found: Columns = value["read"].read(value["texts"], columns)
        return found
    if isinstance(value, dict):
        rows = columns_of(value["rows"], columns)
        keep = np.ones(len(rows[0]), dtype=np.bool_)
        keep[value["without"]] = False
        return tuple(column[keep] for column in rows)
    beside = getattr(value, "columns", None)
    whole: Columns = tuple(value) if beside is None else tuple(beside())
    return whole if columns is None else tuple(whole[at] for at in columns)


def piece_of(value: Any, start: int, stop: int) -> Columns:
    """Some of the rows."""
    return tuple(column[start:stop] for column in columns_of(value))
