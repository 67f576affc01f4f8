"""The place of a table of counts among the tries of a plan: loops fill the table."""

from __future__ import annotations

from gdatalog.records import dataclass


@dataclass(slots=True, eq=False)
class Tallied:
    """`columns`: those that are bound when the table is made, and its key."""

    columns: int
